-- about: ALTER TABLE between the rows of one transaction, also rolled back to a savepoint
CREATE TABLE shape (id int PRIMARY KEY, a text, b int);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
BEGIN;
INSERT INTO shape VALUES (1, 'a1', 10);
ALTER TABLE shape ADD COLUMN c text;
INSERT INTO shape VALUES (2, 'a2', 20, 'c2');
SAVEPOINT one;
ALTER TABLE shape DROP COLUMN a;
INSERT INTO shape VALUES (3, 30, 'c3');
ROLLBACK TO one;
INSERT INTO shape VALUES (4, 'a4', 40, 'c4');
SAVEPOINT two;
ALTER TABLE shape DROP COLUMN c;
RELEASE two;
INSERT INTO shape VALUES (5, 'a5', 50);
ALTER TABLE shape ALTER b TYPE text;
UPDATE shape SET b = 'fifty' WHERE id = 5;
COMMIT;
BEGIN;
ALTER TABLE shape ADD COLUMN never int;
INSERT INTO shape VALUES (6, 'a6', '60', 6);
ROLLBACK;
INSERT INTO shape VALUES (7, 'a7', '70');
