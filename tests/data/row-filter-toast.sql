-- about: an update enters the row filter: an insert whose unchanged value nobody sends
-- not foldable: the value of the filtered row was never sent
CREATE TABLE job (id int PRIMARY KEY, body text, n int);
ALTER TABLE job ALTER body SET STORAGE EXTERNAL;
CREATE PUBLICATION golden FOR TABLE job WHERE (id > 10);
-- workload
INSERT INTO job VALUES (1, repeat('body', 600), 0), (11, repeat('seen', 600), 0);
UPDATE job SET id = 12 WHERE id = 1;
UPDATE job SET n = 1 WHERE id = 12;
UPDATE job SET id = 2 WHERE id = 11;
