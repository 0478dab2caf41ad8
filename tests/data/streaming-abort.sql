-- about: protocol 2, read live: savepoints and whole transactions are rolled back meanwhile
-- proto_version: 2
-- streaming: on
-- immediate: true
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- CHECKPOINT flushes the log, so a reader gets what the open transaction wrote.
BEGIN;
INSERT INTO item VALUES (1, 'kept');
SAVEPOINT one;
INSERT INTO item VALUES (2, 'dropped');
SAVEPOINT two;
INSERT INTO item VALUES (3, 'dropped');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK TO one;
INSERT INTO item VALUES (4, 'kept');
SAVEPOINT three;
INSERT INTO item VALUES (5, 'kept');
RELEASE three;
UPDATE item SET a = 'kept too' WHERE id = 1;
CHECKPOINT;
SELECT pg_sleep(0.2);
COMMIT;
BEGIN;
INSERT INTO item VALUES (6, 'rolled back');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK;
INSERT INTO item VALUES (7, 'after');
