-- about: every row message, with and without a change of the key, and a composite key
CREATE TABLE item (id int PRIMARY KEY, label text, amount numeric(12,2));
CREATE TABLE stock (note text, site int, shelf text, PRIMARY KEY (shelf, site));
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO item VALUES (1, 'one', 1.50), (2, NULL, NULL), (3, '', 0);
BEGIN;
INSERT INTO item VALUES (4, 'four', -4.25);
UPDATE item SET label = 'uno' WHERE id = 1;
UPDATE item SET id = 20 WHERE id = 2;
UPDATE item SET amount = amount WHERE id = 3;
DELETE FROM item WHERE id = 4;
COMMIT;
INSERT INTO stock VALUES ('a', 1, 'x'), (NULL, 2, 'x'), ('c', 1, 'y');
UPDATE stock SET note = 'b' WHERE site = 2;
UPDATE stock SET site = 9 WHERE shelf = 'y';
DELETE FROM stock WHERE shelf = 'x' AND site = 1;
DELETE FROM item WHERE id = 3;
