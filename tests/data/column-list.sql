-- about: a column list, changed between rows though the table stays as it is
-- not foldable: the columns that the list gained later were not sent before
CREATE TABLE person (id int PRIMARY KEY, secret text, name text, age int);
CREATE PUBLICATION golden FOR TABLE person (id, age);
-- workload
INSERT INTO person VALUES (1, 's', 'Ann', 30);
ALTER PUBLICATION golden SET TABLE person (name, id);
INSERT INTO person VALUES (2, 's', 'Bob', 40);
UPDATE person SET secret = 'new' WHERE id = 1;
ALTER PUBLICATION golden SET TABLE person;
DELETE FROM person WHERE id = 2;
INSERT INTO person VALUES (3, NULL, 'Cy', 50);
