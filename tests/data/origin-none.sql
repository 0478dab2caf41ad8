-- about: the same kind of history read with origin=none: foreign transactions are left out
-- origin: none
-- not foldable: transactions with an origin are not sent
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
SELECT pg_replication_origin_create('upstream-' || current_database());
-- workload
INSERT INTO item VALUES (1, 'local');
SELECT pg_replication_origin_session_setup('upstream-' || current_database());
INSERT INTO item VALUES (2, 'foreign');
SELECT pg_replication_origin_session_reset();
INSERT INTO item VALUES (3, 'local');
-- after
SELECT pg_replication_origin_drop('upstream-' || current_database());
