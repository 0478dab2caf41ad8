-- about: a key stored out of line comes as an old key though it did not change
CREATE TABLE deep (id text PRIMARY KEY, n int);
ALTER TABLE deep ALTER id SET STORAGE EXTERNAL;
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO deep VALUES (repeat('key', 750), 0), ('small', 0);
UPDATE deep SET n = 1;
UPDATE deep SET id = repeat('KEY', 750) WHERE id <> 'small';
UPDATE deep SET n = 2 WHERE id <> 'small';
DELETE FROM deep WHERE id = 'small';
