-- about: protocol 3 with streaming: Stream Prepare instead of Begin Prepare
-- proto_version: 3
-- two_phase: true
-- streaming: on
-- immediate: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
BEGIN;
INSERT INTO item VALUES (1, 'x');
SAVEPOINT one;
INSERT INTO item VALUES (2, 'y');
PREPARE TRANSACTION 'streamed';
INSERT INTO item VALUES (3, 'between');
COMMIT PREPARED 'streamed';
