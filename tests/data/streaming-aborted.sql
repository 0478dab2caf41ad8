-- about: protocol 2, read afterwards: what was rolled back long ago, so chunks are empty
-- proto_version: 2
-- streaming: on
-- immediate: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
BEGIN;
INSERT INTO item VALUES (1, 'rolled back');
ROLLBACK;
BEGIN;
INSERT INTO item VALUES (2, 'kept');
SAVEPOINT one;
INSERT INTO item VALUES (3, 'dropped');
ROLLBACK TO one;
COMMIT;
