-- about: protocol 3, read live: a prepared transaction comes with its rows and is rolled back
-- proto_version: 3
-- two_phase: true
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
BEGIN;
INSERT INTO item VALUES (1, 'rolled back');
PREPARE TRANSACTION 'live-1';
SELECT pg_sleep(0.2);
BEGIN;
INSERT INTO item VALUES (2, 'kept');
PREPARE TRANSACTION 'live-2';
SELECT pg_sleep(0.2);
ROLLBACK PREPARED 'live-1';
COMMIT PREPARED 'live-2';
