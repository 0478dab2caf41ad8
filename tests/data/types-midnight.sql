-- about: 24:00:00, which is a time in PostgreSQL only
CREATE TABLE hours (id int PRIMARY KEY, a time, b timetz);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO hours VALUES (1, '23:59:59', '23:59:59+00');
INSERT INTO hours VALUES (2, '24:00:00', '24:00:00-12');
