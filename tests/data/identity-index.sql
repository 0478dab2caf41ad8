-- about: replica identity by a unique index that is not the primary key
CREATE TABLE badge (id int PRIMARY KEY, b text, code text NOT NULL, area int NOT NULL);
CREATE UNIQUE INDEX badge_code ON badge (area, code);
ALTER TABLE badge REPLICA IDENTITY USING INDEX badge_code;
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO badge VALUES (1, 'x', 'A', 1), (2, 'y', 'B', 1), (3, 'z', 'A', 2);
UPDATE badge SET id = 11 WHERE id = 1;
UPDATE badge SET code = 'C' WHERE id = 2;
DELETE FROM badge WHERE id = 3;
