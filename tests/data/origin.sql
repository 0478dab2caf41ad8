-- about: transactions with a replication origin: with an LSN, without one, of a foreign name
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
SELECT pg_replication_origin_create('upstream-' || current_database());
SELECT pg_replication_origin_create('größe ' || current_database());
-- workload
INSERT INTO item VALUES (1, 'local');
SELECT pg_replication_origin_session_setup('upstream-' || current_database());
BEGIN;
SELECT pg_replication_origin_xact_setup('0/ABCDEF', '2024-01-02 03:04:05+00');
INSERT INTO item VALUES (2, 'from upstream');
COMMIT;
INSERT INTO item VALUES (3, 'no position set');
SELECT pg_replication_origin_session_reset();
SELECT pg_replication_origin_session_setup('größe ' || current_database());
BEGIN;
SELECT pg_replication_origin_xact_setup('FFFFFFFF/FFFFFF00', '2024-01-02 03:04:05+00');
UPDATE item SET a = 'far' WHERE id = 1;
COMMIT;
SELECT pg_replication_origin_session_reset();
INSERT INTO item VALUES (4, 'local again');
-- after
SELECT pg_replication_origin_drop(roname) FROM pg_replication_origin
WHERE roname LIKE '%' || current_database();
