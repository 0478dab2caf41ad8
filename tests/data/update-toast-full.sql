-- about: unchanged values stored out of line under FULL: the old row has them
CREATE TABLE paper (id int PRIMARY KEY, body text, extra text, n int);
ALTER TABLE paper ALTER body SET STORAGE EXTERNAL, ALTER extra SET STORAGE EXTERNAL;
ALTER TABLE paper REPLICA IDENTITY FULL;
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO paper VALUES (1, repeat('body', 600), NULL, 0), (2, repeat('two', 800), 'e', 0);
UPDATE paper SET n = 1;
UPDATE paper SET extra = 'short' WHERE id = 1;
DELETE FROM paper WHERE id = 2;
