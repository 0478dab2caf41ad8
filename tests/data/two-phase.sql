-- about: protocol 3: prepared transactions, committed, rolled back and without rows
-- proto_version: 3
-- two_phase: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE TABLE other (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR TABLE item;
-- workload
BEGIN;
INSERT INTO item VALUES (1, 'prepared');
PREPARE TRANSACTION 'one';
INSERT INTO item VALUES (2, 'between');
BEGIN;
INSERT INTO item VALUES (3, 'rolled back');
PREPARE TRANSACTION 'two ''quoted'' é';
COMMIT PREPARED 'one';
ROLLBACK PREPARED 'two ''quoted'' é';
BEGIN;
INSERT INTO other VALUES (1, 'not published');
PREPARE TRANSACTION 'one';
COMMIT PREPARED 'one';
BEGIN;
UPDATE item SET a = 'again' WHERE id = 1;
PREPARE TRANSACTION 'one';
COMMIT PREPARED 'one';
INSERT INTO item VALUES (4, 'after');
