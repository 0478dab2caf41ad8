-- about: bytea, uuid, json and jsonb
CREATE TABLE raw (id int PRIMARY KEY, a bytea, b uuid, c json, d jsonb);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO raw VALUES
    (1, '', '00000000-0000-0000-0000-000000000000', '{}', '{}'),
    (2, NULL, NULL, NULL, NULL),
    (3, '\x00ff5c0a', 'FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF', '{"b": 1, "a": 2, "a":  3}', '{"b": 1, "aa": 2, "a": 3}'),
    (4, '\xdeadbeef', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', ' [1, null, "x\u00e9\ud83d\ude00"] ', '[1.50, null, "x\u00e9", 12345678901234567890123456789]'),
    (5, convert_to('plain text', 'UTF8'), '12345678-9abc-def0-1234-56789abcdef0', 'null', 'null'),
    (6, decode(repeat('0123456789abcdef', 64), 'hex'), NULL, '"\"quoted\" \\ \n"', '"\"quoted\" \\ \n"');
