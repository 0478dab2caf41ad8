-- about: bool, the integers, oid and xid at their edges
CREATE TABLE whole (id int PRIMARY KEY, a bool, b int2, c int4, d int8, e oid, f xid, g xid8, h pg_lsn);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO whole VALUES
    (1, true, 0, 0, 0, 0, '0', '0', '0/0'),
    (2, false, 1, 1, 1, 1, '1', '1', '0/1'),
    (3, NULL, -1, -1, -1, NULL, NULL, NULL, NULL),
    (4, true, 32767, 2147483647, 9223372036854775807, 4294967295, '4294967295', '18446744073709551615', 'FFFFFFFF/FFFFFFFF'),
    (5, false, -32768, -2147483648, -9223372036854775808, 2147483648, '2147483648', '9223372036854775808', '1/0'),
    (-2147483648, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
