-- about: types of one's own: enum, domains, composite, range, and arrays of them
CREATE SCHEMA kinds;
CREATE TYPE kinds.mood AS ENUM ('sad', 'ok', 'very happy');
CREATE TYPE pair AS (n int, label text, at date);
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN price AS numeric(6,2);
CREATE DOMAIN feeling AS kinds.mood;
CREATE DOMAIN scores AS int[];
CREATE TYPE floatrange AS RANGE (subtype = float8);
CREATE TABLE own (id int PRIMARY KEY, a kinds.mood, b pair, c posint, d price, e feeling, f scores, g floatrange,
    h kinds.mood[], i pair[], j posint[], k price[]);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO own VALUES (1, 'sad', '(1,"a b",2024-01-01)', 7, 12.34, 'ok', '{1,2}', '[1.5,2.5)', '{sad,"very happy",NULL}',
    ARRAY[ROW(1, 'x', NULL)::pair, NULL], '{1,2}', '{1.00,NULL}');
INSERT INTO own VALUES (2, 'very happy', ROW(NULL, '', NULL), 1, -0.01, 'sad', '{}', 'empty', '{}', '{}', '{}', '{}');
INSERT INTO own VALUES (3, NULL, ROW(3, 'q"q,(x)\', '0044-03-15 BC'), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
