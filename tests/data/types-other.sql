-- about: types that stay text: network, intervals, ranges, geometry, bits, search and more
CREATE TABLE misc (id int PRIMARY KEY, a inet, b cidr, c macaddr, d macaddr8, e interval, f money, g bit(5), h varbit,
    i point, j polygon, k circle, l int4range, m numrange, n tstzrange, o int8multirange, p tsvector, q tsquery,
    s tid, t regclass, u pg_snapshot, v jsonpath, w daterange, x line, y lseg, z path);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO misc VALUES (1, '192.168.0.1', '10.0.0.0/8', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
    '1 year 2 mons -3 days 04:05:06.789', 1234.5, B'10101', B'1', '(1.5,-2)', '((0,0),(1,1),(2,0))', '<(0,0),1.5>',
    '[1,10)', '(,5.5]', '["2024-01-01 00:00+00",)', '{[1,3),[5,8)}', 'a fat cat''s:2A', 'fat & !rat <-> (cat | dog:*A)',
    '(1,2)', 'pg_class', '10:20:10,14', '$.a[*] ? (@ > 1)', '[2024-01-01,2024-02-01)', '{1,-1,0}',
    '[(0,0),(1,1)]', '[(0,0),(1,1)]');
INSERT INTO misc VALUES (2, '2001:db8::1/64', '2001:db8::/32', 'ff:ff:ff:ff:ff:ff', 'ff:ff:ff:ff:ff:ff:ff:ff',
    '-00:00:00.000001', -0.01, B'00000', B'', '(Infinity,NaN)', '((0,0))', '<(1,1),0>', 'empty', 'empty', '[,]', '{}',
    '', '''it''''s''', '(4294967295,65535)', 'misc', '1:1:', '$', 'empty', '{0,1,-5}', '[(1,1),(1,1)]', '((0,0),(1,1),(2,0))');
INSERT INTO misc (id, e) VALUES (3, '0'), (4, '-1 year'), (5, '1 mon -1 day'), (6, '2562047788:00:54.775807'), (7, '178000000 years');
