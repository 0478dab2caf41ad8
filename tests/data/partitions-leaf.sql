-- about: partitions published as themselves; an update moves a row between them
CREATE TABLE event (id int, kind text, n int, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE event_a PARTITION OF event FOR VALUES IN ('a');
CREATE TABLE event_b (n int, gone bool, kind text NOT NULL, id int NOT NULL, PRIMARY KEY (id, kind));
ALTER TABLE event_b DROP COLUMN gone;
ALTER TABLE event ATTACH PARTITION event_b FOR VALUES IN ('b');
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO event VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 3);
UPDATE event SET n = 10 WHERE id = 1;
UPDATE event SET kind = 'b' WHERE id = 3;
DELETE FROM event WHERE id = 2;
ALTER TABLE event_a REPLICA IDENTITY FULL;
UPDATE event SET n = 11 WHERE id = 1;
TRUNCATE event_b;
INSERT INTO event VALUES (4, 'b', 4);
