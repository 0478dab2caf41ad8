-- about: protocol 4 with streaming=parallel, read live: aborts carry an LSN and a time
-- proto_version: 4
-- streaming: parallel
-- immediate: true
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- CHECKPOINT flushes the log, so a reader gets what the open transaction wrote.
BEGIN;
INSERT INTO item VALUES (1, 'rolled back');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK;
BEGIN;
INSERT INTO item VALUES (2, 'kept');
SAVEPOINT one;
INSERT INTO item VALUES (3, 'dropped');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK TO one;
INSERT INTO item VALUES (4, 'kept');
COMMIT;
