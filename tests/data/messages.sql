-- about: logical messages in and out of transactions, rolled back, empty and not text
-- messages: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
SELECT pg_logical_emit_message(false, 'outside', 'at once');
SELECT pg_logical_emit_message(true, 'alone', 'a transaction of its own');
BEGIN;
INSERT INTO item VALUES (1, 'x');
SELECT pg_logical_emit_message(true, 'inside', 'between rows');
SELECT pg_logical_emit_message(false, 'inside', 'sent before its transaction');
INSERT INTO item VALUES (2, 'y');
COMMIT;
BEGIN;
INSERT INTO item VALUES (3, 'z');
SELECT pg_logical_emit_message(true, 'rolled back', 'never seen');
SELECT pg_logical_emit_message(false, 'rolled back', 'seen all the same');
ROLLBACK;
SELECT pg_logical_emit_message(false, '', '');
SELECT pg_logical_emit_message(true, 'bytes', '\x00ff80fe0a00'::bytea);
SELECT pg_logical_emit_message(true, 'walrow', 'a user may take any prefix');
SELECT pg_logical_emit_message(false, 'naïve 💾', 'prefix beyond ASCII');
