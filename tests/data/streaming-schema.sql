-- about: protocol 2, read live: table definitions change in open and in aborted transactions
-- proto_version: 2
-- streaming: on
-- immediate: true
-- live: true
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TABLE shape (id int PRIMARY KEY, a text);
CREATE TABLE plain (id int PRIMARY KEY, m mood);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
-- CHECKPOINT flushes the log, so a reader gets what the open transaction wrote.
INSERT INTO shape VALUES (1, 'two columns');
BEGIN;
INSERT INTO shape VALUES (2, 'x');
ALTER TABLE shape ADD COLUMN b int;
INSERT INTO shape VALUES (3, 'y', 3);
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK;
INSERT INTO shape VALUES (4, 'two columns still');
BEGIN;
INSERT INTO shape VALUES (5, 'z');
SAVEPOINT one;
ALTER TABLE shape DROP COLUMN a;
INSERT INTO shape VALUES (6);
INSERT INTO plain VALUES (1, 'sad');
CHECKPOINT;
SELECT pg_sleep(0.2);
ROLLBACK TO one;
INSERT INTO plain VALUES (2, 'ok');
INSERT INTO shape VALUES (7, 'two columns again');
ALTER TABLE shape ADD COLUMN c bool;
INSERT INTO shape VALUES (8, 'three', true);
TRUNCATE plain;
CHECKPOINT;
SELECT pg_sleep(0.2);
COMMIT;
INSERT INTO shape VALUES (9, 'three columns', false);
INSERT INTO plain VALUES (3, NULL);
