-- about: a table without columns, and one that lost all of them
CREATE TABLE void ();
CREATE TABLE emptied (a int);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO void DEFAULT VALUES;
INSERT INTO emptied VALUES (1);
ALTER TABLE emptied DROP COLUMN a;
INSERT INTO emptied DEFAULT VALUES;
BEGIN;
INSERT INTO void DEFAULT VALUES;
INSERT INTO void DEFAULT VALUES;
COMMIT;
