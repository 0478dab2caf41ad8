-- about: arrays of two dimensions, with lower bounds, and of a type with another delimiter
CREATE TABLE shapes (id int PRIMARY KEY, a int[], b text[], c box[], d int2vector, e oidvector);
CREATE PUBLICATION golden FOR ALL TABLES;
-- workload
INSERT INTO shapes VALUES
    (1, '{1,2}', '{x}', '{(1,1),(0,0)}', '1 2', '1 2'),
    (2, '{{1,2},{3,NULL}}', '{{a,"b c"},{NULL,""}}', '{(1,1),(0,0);(3,3),(2,2)}', '', ''),
    (3, '[0:1]={1,2}', '[-2:-1]={a,b}', NULL, NULL, NULL),
    (4, '[2:2][0:1]={{1,2}}', '{{{x}}}', '{}', '3', '4294967295');
