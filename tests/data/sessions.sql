-- about: concurrent transactions come in the order of their commits, one after the other
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- session: first
BEGIN;
INSERT INTO item VALUES (1, 'first to begin');
-- session: second
BEGIN;
INSERT INTO item VALUES (2, 'first to commit');
-- session: first
INSERT INTO item VALUES (3, 'first again');
-- session: third
INSERT INTO item VALUES (4, 'whole in between');
-- session: second
UPDATE item SET a = 'changed' WHERE id = 2;
COMMIT;
-- session: first
COMMIT;
