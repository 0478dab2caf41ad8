-- about: a table of 800 columns
SELECT format('CREATE TABLE wide (id int PRIMARY KEY, %s)',
    string_agg(format('c%s %s', n, (ARRAY['text', 'int', 'bool'])[n % 3 + 1]), ', ' ORDER BY n))
FROM generate_series(1, 799) AS n \gexec
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO wide (id) VALUES (1);
INSERT INTO wide (id, c1, c2, c799) VALUES (2, 7, true, 7);
UPDATE wide SET c400 = -1 WHERE id = 1;
