-- about: tables that identify no row: identity NOTHING, and DEFAULT without a key
-- not foldable: old rows are not identified
CREATE TABLE nameless (a int, b text);
ALTER TABLE nameless REPLICA IDENTITY NOTHING;
CREATE TABLE keyless (a int, b text);
CREATE PUBLICATION golden FOR ALL TABLES WITH (publish = 'insert, truncate');
-- workload
INSERT INTO nameless VALUES (1, 'x'), (1, 'x'), (NULL, NULL);
INSERT INTO keyless VALUES (1, 'x'), (2, NULL);
UPDATE keyless SET b = 'unseen' WHERE a = 1;
DELETE FROM nameless WHERE a IS NULL;
