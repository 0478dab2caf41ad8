-- about: a reported setting changes during the copy: ParameterStatus before ReadyForQuery
-- live: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO item VALUES (1, 'x');
ALTER SYSTEM SET scram_iterations = 5000;
SELECT pg_reload_conf();
SELECT pg_sleep(0.2);
INSERT INTO item VALUES (2, 'y');
-- after
ALTER SYSTEM RESET scram_iterations;
SELECT pg_reload_conf();
