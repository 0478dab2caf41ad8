-- about: replica identity FULL, also with NULLs, equal rows and no key at all
CREATE TABLE loose (a int, b text, c float8);
ALTER TABLE loose REPLICA IDENTITY FULL;
CREATE TABLE keyed (id int PRIMARY KEY, b text);
ALTER TABLE keyed REPLICA IDENTITY FULL;
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO loose VALUES (1, 'x', 0.5), (1, 'x', 0.5), (NULL, NULL, NULL), (2, '', 'NaN');
UPDATE loose SET b = 'y' WHERE a IS NULL;
DELETE FROM loose WHERE ctid = (SELECT min(ctid) FROM loose WHERE a = 1);
UPDATE loose SET c = 1 WHERE a = 2;
INSERT INTO keyed VALUES (1, NULL), (2, 'two');
UPDATE keyed SET id = 3 WHERE id = 1;
DELETE FROM keyed WHERE id = 2;
