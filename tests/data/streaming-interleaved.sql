-- about: protocol 2: chunks of two open transactions and a whole one interleave
-- proto_version: 2
-- streaming: on
-- messages: true
-- immediate: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE TABLE other (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
SELECT pg_replication_origin_create('upstream-' || current_database());
-- workload
-- session: first
SELECT pg_replication_origin_session_setup('upstream-' || current_database());
BEGIN;
INSERT INTO item VALUES (1, 'first');
-- session: second
BEGIN;
INSERT INTO item VALUES (2, 'second');
SELECT pg_logical_emit_message(true, 'inside', 'of the second');
-- session: third
INSERT INTO other VALUES (1, 'third');
SELECT pg_logical_emit_message(false, 'outside', 'of all');
-- session: second
SAVEPOINT one;
INSERT INTO other VALUES (3, 'second');
SELECT pg_logical_emit_message(true, 'inside', 'of a savepoint');
-- session: first
UPDATE item SET a = 'first again' WHERE id = 1;
INSERT INTO other VALUES (4, 'first');
-- session: second
DELETE FROM item WHERE id = 2;
-- session: first
COMMIT;
-- session: second
COMMIT;
-- session: first
SELECT pg_replication_origin_session_reset();
-- after
SELECT pg_replication_origin_drop('upstream-' || current_database());
