-- about: root FULL over a DEFAULT leaf: an old row that holds its key columns only
CREATE TABLE event (id int, kind text, n int, PRIMARY KEY (id, kind)) PARTITION BY LIST (kind);
CREATE TABLE event_a PARTITION OF event FOR VALUES IN ('a');
CREATE TABLE event_b PARTITION OF event FOR VALUES IN ('b');
ALTER TABLE event REPLICA IDENTITY FULL;
ALTER TABLE event_b REPLICA IDENTITY FULL;
CREATE PUBLICATION golden FOR TABLE event WITH (publish_via_partition_root = true);
-- not foldable: the old row of a DEFAULT leaf looks like a whole row and is none
-- workload
INSERT INTO event VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', 3);
UPDATE event SET n = 10 WHERE id = 1;
UPDATE event SET n = 20 WHERE id = 2;
UPDATE event SET id = 33 WHERE id = 3;
UPDATE event SET kind = 'b' WHERE id = 33;
DELETE FROM event WHERE id = 1;
DELETE FROM event WHERE id = 2;
