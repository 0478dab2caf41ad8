-- about: stored generated columns are sent when the publication says so; virtual ones never
-- majors: 18
CREATE TABLE box (id int PRIMARY KEY, w int, h int,
    area int GENERATED ALWAYS AS (w * h) STORED,
    edge int GENERATED ALWAYS AS (2 * (w + h)) VIRTUAL);
CREATE PUBLICATION golden FOR ALL TABLES WITH (publish_generated_columns = stored);
-- workload
INSERT INTO box (id, w, h) VALUES (1, 2, 3), (2, NULL, 4);
UPDATE box SET w = 5 WHERE id = 1;
DELETE FROM box WHERE id = 2;
