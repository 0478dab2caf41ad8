-- about: one-dimensional arrays: NULLs, empty, quoting, every scalar that matters
CREATE TABLE lists (id int PRIMARY KEY, a bool[], b int2[], c int4[], d int8[], e float4[], f float8[],
    g numeric(10,2)[], h numeric[], i text[], j varchar(5)[], k char(3)[], l bytea[], m uuid[],
    n json[], o jsonb[], p date[], q time[], r timestamp[], s timestamptz[], t oid[], u name[]);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO lists VALUES (1, '{t,f,NULL}', '{1,NULL,-32768}', '{1,NULL,2147483647}', '{9223372036854775807,NULL}',
    '{1.5,NaN,NULL}', '{0.1,-0,Infinity,NULL}', '{1.00,NULL,-2.50}', '{1.500,NULL,1e20}',
    ARRAY['', NULL, 'NULL', 'null', 'a b', 'a,b', '{x}', 'q"q', 'b\b', E'n\nl', '🦀', ' pad '],
    '{abc,NULL,""}', '{a,NULL,abc}', ARRAY['\x00ff'::bytea, NULL, ''],
    '{a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11,NULL}', ARRAY['{"a": [1, 2]}', NULL, '"x"']::json[],
    ARRAY['{"a": "b\"c"}', NULL, '[]']::jsonb[], '{2024-02-29,NULL,0044-03-15 BC}', '{00:00:00,NULL,23:59:59.5}',
    '{2024-02-29 12:00:00.5,NULL}', '{2024-02-29 12:00:00.5+00,NULL}', '{0,4294967295}', '{a,NULL,"x y"}');
INSERT INTO lists VALUES (2, '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}');
INSERT INTO lists (id) VALUES (3);
INSERT INTO lists (id, c, i) VALUES (4, '{NULL}', '{NULL}'), (5, '{7}', '{""}'), (6, '{NULL,NULL}', ARRAY['\N', '\', '"']);
