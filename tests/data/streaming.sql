-- about: protocol 2: transactions beyond logical_decoding_work_mem come before their commit
-- proto_version: 2
-- streaming: on
CREATE TABLE big (id int PRIMARY KEY, a int);
CREATE TABLE small (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- session: long
BEGIN;
INSERT INTO big SELECT n, n FROM generate_series(1, 400) AS n;
-- session: short
INSERT INTO small VALUES (1, 'whole, between chunks');
-- session: long
SAVEPOINT one;
INSERT INTO big SELECT n, n FROM generate_series(401, 800) AS n;
ROLLBACK TO one;
INSERT INTO small VALUES (2, 'after the savepoint');
DELETE FROM big WHERE id > 30;
COMMIT;
-- session: short
INSERT INTO small VALUES (3, 'small ones stay whole');
