-- about: the walsender is terminated: a FATAL error and the end, no CopyDone
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- not foldable: the stream ends before the last rows
-- workload
INSERT INTO item VALUES (1, 'x');
SELECT pg_sleep(0.2);
SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE active;
INSERT INTO item VALUES (2, 'never sent');
