-- about: a publication is missing: an error on 16, on 18 a warning inside the stream
-- publication: golden
-- publication: missing
-- not foldable: 16 ends before the rows
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO item VALUES (1, 'x');
