-- about: a relation is sent again and again though nothing about it changed
CREATE TABLE calm (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO calm VALUES (1, 'x');
GRANT SELECT ON calm TO PUBLIC;
INSERT INTO calm VALUES (2, 'x');
CREATE INDEX ON calm (a);
INSERT INTO calm VALUES (3, 'x');
ANALYZE calm;
INSERT INTO calm VALUES (4, 'x');
VACUUM FULL calm;
INSERT INTO calm VALUES (5, 'x');
BEGIN;
INSERT INTO calm VALUES (6, 'x');
GRANT UPDATE ON calm TO PUBLIC;
INSERT INTO calm VALUES (7, 'x');
COMMIT;
