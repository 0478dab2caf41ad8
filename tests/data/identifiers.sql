-- about: names with spaces, quotes, dots, upper case, other scripts and 63 bytes
CREATE SCHEMA "My Schema";
CREATE SCHEMA "a.b";
CREATE TABLE "My Schema"."Table ""quoted""" ("Id" int PRIMARY KEY, "select" text, "a.b" text, "ü 漢字 🙂" text);
CREATE TABLE "a.b"."c.d" (id int PRIMARY KEY, "it's" text, "back\slash" text, " " text);
CREATE TABLE "a.b"."ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd" (
    "eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee" int PRIMARY KEY);
CREATE PUBLICATION "Gold ""en"", o'r" FOR ALL TABLES;
-- publication: Gold "en", o'r
-- workload
INSERT INTO "My Schema"."Table ""quoted""" VALUES (1, 'x', NULL, 'é'), (2, NULL, 'y', '');
UPDATE "My Schema"."Table ""quoted""" SET "select" = 'z' WHERE "Id" = 2;
INSERT INTO "a.b"."c.d" VALUES (1, '''', '\', ' ');
DELETE FROM "My Schema"."Table ""quoted""" WHERE "Id" = 1;
INSERT INTO "a.b"."ddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddddd" VALUES (1);
