-- about: partitions published as their root: the leaf's relation comes, its rows do not
CREATE TABLE event (id int, kind text, n int, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE event_a PARTITION OF event FOR VALUES IN ('a');
CREATE TABLE event_b (n int, gone bool, kind text NOT NULL, id int NOT NULL, PRIMARY KEY (id, kind));
ALTER TABLE event_b DROP COLUMN gone;
ALTER TABLE event ATTACH PARTITION event_b FOR VALUES IN ('b');
CREATE PUBLICATION golden FOR TABLE event WITH (publish_via_partition_root = true);
-- workload
INSERT INTO event VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 3);
UPDATE event SET n = 10 WHERE id = 1;
UPDATE event SET kind = 'b' WHERE id = 3;
DELETE FROM event WHERE id = 2;
TRUNCATE event;
INSERT INTO event VALUES (4, 'b', 4), (5, 'a', 5);
UPDATE event SET n = 40, id = 44 WHERE id = 4;
