-- about: two schemas with a table of the same name but other columns, row by row
CREATE SCHEMA north;
CREATE SCHEMA south;
CREATE TABLE north.place (id int PRIMARY KEY, a text);
CREATE TABLE south.place (id bigint PRIMARY KEY, a text, b bool);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
BEGIN;
INSERT INTO north.place VALUES (1, 'n');
INSERT INTO south.place VALUES (1, 's', true);
INSERT INTO north.place VALUES (2, 'nn');
UPDATE south.place SET b = false;
COMMIT;
DELETE FROM north.place WHERE id = 1;
