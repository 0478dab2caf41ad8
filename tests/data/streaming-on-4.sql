-- about: protocol 4 with streaming=on, read live: aborts stay short
-- proto_version: 4
-- streaming: on
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
INSERT INTO item VALUES (2, 'kept');
