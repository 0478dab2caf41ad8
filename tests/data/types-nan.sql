-- about: numeric NaN, which any limit admits and no decimal holds
CREATE TABLE exact (id int PRIMARY KEY, a numeric(12,2), b numeric(38,10), c numeric, d numeric[]);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO exact VALUES (1, 1, 1, 1, '{1}');
INSERT INTO exact VALUES (2, 'NaN', 'NaN', 'NaN', '{NaN,Infinity,-Infinity,1.50}');
INSERT INTO exact VALUES (3, 3, 3, 3, '{}');
