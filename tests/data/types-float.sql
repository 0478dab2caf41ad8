-- about: float4 and float8: specials, zeros, extremes and shortest digits
CREATE TABLE real_numbers (id int PRIMARY KEY, a float4, b float8);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO real_numbers VALUES
    (1, 0, 0), (2, '-0', '-0'), (3, 'NaN', 'NaN'),
    (4, 'Infinity', 'Infinity'), (5, '-Infinity', '-Infinity'), (6, NULL, NULL),
    (7, '3.4028235e38', '1.7976931348623157e308'),
    (8, '1.1754944e-38', '2.2250738585072014e-308'),
    (9, '1e-45', '5e-324'), (10, 0.1, 0.1), (11, 0.3, 0.1::float8 + 0.2::float8),
    (12, 16777217, 9007199254740993), (13, 1e15, 1e15), (14, 1e-5, 1e-5),
    (15, -1.5, -1.5), (16, 123456.79, 123456789.123456789),
    (17, 1e6, 1e16), (18, '8.589973e9', '9.5367431640625e-07');
