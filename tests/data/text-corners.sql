-- about: text that is easily mistaken: empty, NULL, \N, control characters, 4-byte UTF-8
CREATE TABLE words (id int PRIMARY KEY, t text, v varchar(20), c char(6), n name, q "char");
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO words VALUES
    (1, '', '', '', '', ''),
    (2, NULL, NULL, NULL, NULL, NULL),
    (3, 'NULL', 'null', 'NULL', 'NULL', 'N'),
    (4, '\N', '\N', '\N', '\N', '\'),
    (5, E'a\nb\tc\rd', E'\n', E'\t', E'a\nb', E'\n'),
    (6, 'it''s "quoted", {braced}; \\back\', '"', '''', '"', '"'),
    (7, '𝔘𝔫𝔦 🦀 é ß 漢字', '🦀', 'é', 'naïve', ' '),
    (8, E'\x01\x7f\u00a0\u200b\ufeff\uffff\U0010ffff', '  two  ', '  x', '  ', '~'),
    (9, repeat('long ', 300), repeat('x', 20), 'sixsix', repeat('n', 63), '0'),
    (10, 't', 'f', ' ', '1', 'x');
UPDATE words SET t = 'a' || chr(128512) || 'z' WHERE id = 1;
