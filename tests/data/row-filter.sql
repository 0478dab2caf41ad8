-- about: a row filter turns updates into inserts and deletes
CREATE TABLE job (id int PRIMARY KEY, done bool, a text);
ALTER TABLE job REPLICA IDENTITY FULL;
CREATE PUBLICATION golden FOR TABLE job WHERE (done);
-- workload
INSERT INTO job VALUES (1, false, 'a'), (2, true, 'b'), (3, NULL, 'c');
UPDATE job SET done = true WHERE id = 1;
UPDATE job SET a = 'bb' WHERE id = 2;
UPDATE job SET done = false WHERE id = 2;
UPDATE job SET a = 'unseen' WHERE id = 3;
UPDATE job SET done = true, id = 30 WHERE id = 3;
DELETE FROM job WHERE id = 30;
DELETE FROM job WHERE id = 2;
