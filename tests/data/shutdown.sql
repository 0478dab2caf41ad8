-- about: the server is shut down while it is read: a short end, and no ReadyForQuery
-- live: true
-- shut down: true
CREATE TABLE item (id int PRIMARY KEY, a text);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO item VALUES (1, 'x');
