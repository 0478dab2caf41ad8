-- about: columns added, dropped in the middle and changed in type, between transactions
CREATE TABLE shape (id int PRIMARY KEY, a text, b int, c text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO shape VALUES (1, 'a1', 10, 'c1'), (2, 'a2', 20, NULL);
ALTER TABLE shape ADD COLUMN d timestamptz;
INSERT INTO shape VALUES (3, 'a3', 30, 'c3', '2024-02-29 12:00+00');
ALTER TABLE shape DROP COLUMN a;
UPDATE shape SET c = 'c2' WHERE id = 2;
ALTER TABLE shape ALTER b TYPE text;
INSERT INTO shape VALUES (4, 'forty', 'c4', NULL);
UPDATE shape SET b = 'thirty' WHERE id = 3;
ALTER TABLE shape ALTER c SET NOT NULL;
DELETE FROM shape WHERE id = 1;
