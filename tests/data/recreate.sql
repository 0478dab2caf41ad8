-- about: a table is dropped and made anew: the same name, another OID
CREATE TABLE phoenix (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO phoenix VALUES (1, 'old'), (2, 'old');
DROP TABLE phoenix;
CREATE TABLE phoenix (a text, id int PRIMARY KEY, b int);
INSERT INTO phoenix VALUES ('new', 1, 10);
BEGIN;
INSERT INTO phoenix VALUES ('lost', 2, 20);
DROP TABLE phoenix;
CREATE TABLE phoenix (id int PRIMARY KEY);
INSERT INTO phoenix VALUES (3);
COMMIT;
