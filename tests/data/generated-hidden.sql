-- about: generated columns that are not published
CREATE TABLE box (id int PRIMARY KEY, w int,
    area int GENERATED ALWAYS AS (w * w) STORED, note text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO box (id, w, note) VALUES (1, 2, 'x'), (2, NULL, NULL);
UPDATE box SET w = 5 WHERE id = 1;
