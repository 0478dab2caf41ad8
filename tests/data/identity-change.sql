-- about: the replica identity changes between the rows of one table
CREATE TABLE shifting (id int PRIMARY KEY, code text NOT NULL UNIQUE, b text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO shifting VALUES (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z'), (4, 'd', NULL);
UPDATE shifting SET id = 10 WHERE id = 1;
ALTER TABLE shifting REPLICA IDENTITY FULL;
UPDATE shifting SET b = 'full' WHERE id = 2;
ALTER TABLE shifting REPLICA IDENTITY USING INDEX shifting_code_key;
UPDATE shifting SET code = 'cc' WHERE id = 3;
BEGIN;
UPDATE shifting SET id = 40 WHERE id = 4;
ALTER TABLE shifting REPLICA IDENTITY DEFAULT;
DELETE FROM shifting WHERE id = 2;
COMMIT;
