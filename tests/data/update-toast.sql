-- about: unchanged values that are stored out of line are not sent (identity DEFAULT)
CREATE TABLE paper (id int PRIMARY KEY, body text, extra text, n int);
ALTER TABLE paper ALTER body SET STORAGE EXTERNAL, ALTER extra SET STORAGE EXTERNAL;
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO paper VALUES (1, repeat('body', 600), repeat('extra', 500), 0);
INSERT INTO paper VALUES (2, repeat('two', 800), NULL, 0);
UPDATE paper SET n = 1;
UPDATE paper SET body = 'short', n = 2 WHERE id = 1;
UPDATE paper SET extra = NULL WHERE id = 1;
UPDATE paper SET id = 20 WHERE id = 2;
UPDATE paper SET body = repeat('new', 7000) WHERE id = 20;
BEGIN;
UPDATE paper SET n = 3 WHERE id = 20;
UPDATE paper SET n = 4 WHERE id = 20;
COMMIT;
