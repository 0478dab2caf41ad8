-- about: protocol 2, read live: messages of rolled-back savepoints come like those that were committed
-- proto_version: 2
-- streaming: on
-- messages: true
-- immediate: true
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- CHECKPOINT flushes the log, so a reader gets what the open transaction wrote.
BEGIN;
INSERT INTO item VALUES (1, 'kept');
SELECT pg_logical_emit_message(true, 'a', 'before');
SAVEPOINT one;
SELECT pg_logical_emit_message(true, 'b', 'rolled back');
INSERT INTO item VALUES (2, 'dropped');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK TO one;
SELECT pg_logical_emit_message(true, 'c', 'after');
INSERT INTO item VALUES (3, 'kept');
CHECKPOINT;
SELECT pg_sleep(0.2);
COMMIT;
BEGIN;
SELECT pg_logical_emit_message(true, 'd', 'in a savepoint that is kept');
SAVEPOINT two;
SELECT pg_logical_emit_message(true, 'e', 'in it');
INSERT INTO item VALUES (4, 'kept');
RELEASE two;
SELECT pg_logical_emit_message(false, 'f', 'outside');
CHECKPOINT;
SELECT pg_sleep(0.2);
COMMIT;
