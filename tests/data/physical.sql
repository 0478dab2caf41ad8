-- about: physical replication in the same envelope: WAL, no messages
-- records: physical
-- not foldable: WAL is no pgoutput
CREATE TABLE item (id int PRIMARY KEY, a text);
-- workload
INSERT INTO item VALUES (1, 'x');
