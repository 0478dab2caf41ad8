-- about: infinite dates and timestamps, and years that outlive microseconds since 1970
CREATE TABLE moments (id int PRIMARY KEY, a date, b timestamp, c timestamptz);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO moments VALUES (1, '2024-01-01', '2024-01-01', '2024-01-01+00');
INSERT INTO moments VALUES (2, 'infinity', 'infinity', 'infinity');
INSERT INTO moments VALUES (3, '-infinity', '-infinity', '-infinity');
INSERT INTO moments VALUES (4, NULL, '294247-01-10 04:00:54.775807', '294247-01-10 04:00:54.775807+00');
INSERT INTO moments VALUES (5, NULL, '294247-01-10 04:00:54.775808', '294247-01-10 04:00:54.775808+00');
INSERT INTO moments VALUES (6, NULL, '294276-12-31 23:59:59.999999', '294276-12-31 23:59:59.999999+00');
