-- about: types change between rows, and no message tells
-- not foldable: old rows print the attribute that their type got later
CREATE TYPE mood AS ENUM ('sad', 'ok');
CREATE TYPE pair AS (n int, label text);
CREATE DOMAIN word AS varchar(10);
CREATE TABLE own (id int PRIMARY KEY, a mood, b pair, c word);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO own VALUES (1, 'sad', '(1,one)', 'w');
ALTER TYPE mood ADD VALUE 'new';
INSERT INTO own VALUES (2, 'new', NULL, NULL);
ALTER TYPE pair ADD ATTRIBUTE extra bool;
INSERT INTO own VALUES (3, NULL, '(3,three,t)', NULL);
ALTER TYPE mood RENAME VALUE 'sad' TO 'blue';
UPDATE own SET c = 'changed' WHERE id = 1;
ALTER TYPE mood RENAME TO feeling;
INSERT INTO own VALUES (4, 'blue', NULL, NULL);
