-- about: a column, the table and its schema are renamed between rows; the OID stays
-- not foldable: a renamed column cannot be told from a dropped and an added one
CREATE SCHEMA early;
CREATE TABLE early.thing (id int PRIMARY KEY, a text, b text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO early.thing VALUES (1, 'a', 'b');
ALTER TABLE early.thing RENAME COLUMN a TO alpha;
UPDATE early.thing SET alpha = 'A' WHERE id = 1;
ALTER TABLE early.thing RENAME TO item;
INSERT INTO early.item VALUES (2, 'a', NULL);
ALTER SCHEMA early RENAME TO late;
DELETE FROM late.item WHERE id = 1;
ALTER TABLE late.item SET SCHEMA public;
UPDATE item SET id = 3 WHERE id = 2;
