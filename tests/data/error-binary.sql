-- about: binary of an array of a type without a send function: an error inside a transaction
-- records: binary
CREATE TABLE item (id int PRIMARY KEY, a aclitem, b aclitem[]);
CREATE PUBLICATION golden FOR ALL TABLES;
-- not foldable: the stream ends before the last rows
-- workload
INSERT INTO item VALUES (1, 'postgres=r/postgres', NULL);
BEGIN;
INSERT INTO item VALUES (2, NULL, NULL);
INSERT INTO item VALUES (3, NULL, '{postgres=r/postgres}');
COMMIT;
