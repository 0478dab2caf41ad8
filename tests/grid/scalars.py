"""Text, bytes, bits, addresses and other types of one value."""

from __future__ import annotations

import pyarrow as pa

from grid import drawing, rendering
from grid.kinds import TEXT, Form, Kind, words

_BYTES = Form(pa.binary(), rendering.bytea)
_JSON = Form(pa.json_(), rendering.storage)
_TEXTS = (
    *(
        "",
        " ",
        "NULL",
        "null",
        "\\N",
        "\\",
        "\\\\",
        '"',
        '""',
        "'",
        "a,b",
        "{a}",
        "(a)",
    ),
    *(
        "{",
        "}",
        "[1:1]={a}",
        "a;b",
        "a:b",
        "line\nline",
        "\r\n",
        "\t",
        "\v\f",
        "\x01\x7f",
    ),
    *(
        " a ",
        "ä",
        "中文",
        "🦀",
        "a\u0308",
        "\ufeffbom",
        "\u200b",
        "\U0010ffff",
        "empty",
    ),
    *("infinity", "NaN", "x" * 70_000, "\\x00", "%s", "$1", "--", "a" * 63 + "é"),
)
_VECTORS = (
    *("", "a", "'a' 'b'", "'it''s':1A,2B,3C,4D", "'b\\\\s':16383", "' ':1"),
    *("'a b':1,2,3", "'Ä':5", "x:1 x:2A x:1B", "'\"':3", "':':1", "',':2", "a:65535"),
)
_QUERIES = (
    *("a", "!a", "!!a", "a & b", "a | b & c", "(a | b) & c", "a <-> b", "a <7> b"),
    *(
        "a:*",
        "a:AB*",
        "'it''s'",
        "'a b'",
        "!(a & b)",
        "a <-> (b <-> c)",
        "(a <-> b) <-> c",
    ),
    *("a <-> (b & c)", "a & (b | !c) <0> d", ""),
)
_PATHS = (
    *("$", "$.a", '$."a b"', "$[*]", "$[0 to last]", "$.a ? (@ > 1)", "strict $.a.**"),
    *(
        '$.a ? (@.b == "x\\"y")',
        "$.size()",
        "(1 + 2)",
        '$ ? (@ like_regex "^a" flag "i")',
    ),
)
_INETS = (
    *(
        "0.0.0.0",  # noqa: S104
        "255.255.255.255",
        "1.2.3.4/24",
        "1.2.3.4/32",
        "10.0.0.0/8",
        "0.0.0.0/0",
    ),
    *("::", "::1", "::/0", "2001:db8::/32", "::ffff:1.2.3.4", "::ffff:1.2.3.4/96"),
    *("::1.2.3.4", "fe80::1/64", "1:0:0:2::3", "1:2:3:4:5:6:7:8", "1:0:0:2:0:0:0:3"),
    *("0:1:1:1:1:1:1:1", "1:1:1:1:1:1:1:0", "1:0:1:1:1:1:1:1", "ffff::", "::2:0"),
    *("::ffff:0:1", "64:ff9b::1.2.3.4", "0:0:0:0:0:fffe:102:304", "::1:2:3"),
)

KINDS = (
    words("text", "text", _TEXTS, drawing.text),
    words("varchar", "varchar", _TEXTS, drawing.text),
    words("varchar_9", "varchar(9)", ("", "123456789", "äöüäöüäöü"), drawing.short(9)),
    words("bpchar_5", "char(5)", ("", "a", "a    ", "  a", "äöüßé"), drawing.short(5)),
    words("bpchar", "bpchar", ("", "a", "a  ", "  "), drawing.text),
    words("name", "name", ("", "a b", "x" * 63, '"q"', "NULL"), drawing.name),
    words(
        *(
            "char",
            '"char"',
            ("", "a", "\\351", "\\377", "\\200", '"', "\\", ",", "{", " "),
        ),
        drawing.byte,
    ),
    words(
        "xml",
        "xml",
        ("<a/>", "<a>b c</a>", "x", '<a b="c">ä&lt;</a>', ""),
        None,
        extension="xml",
    ),
    words("refcursor", "refcursor", ("", "c", "a b"), drawing.text),
    words("jsonpath", "jsonpath", _PATHS, None),
    Kind(
        *("bytea", "bytea", _BYTES, _BYTES),
        ("\\x", "\\x00", "\\x5c", "\\x5c78", "\\xDEADBEEF", "\\x" + "00ff" * 40_000),
        drawing.bytea,
    ),
    Kind(
        *("uuid", "uuid", Form(pa.uuid(), rendering.uuids), TEXT),
        ("0" * 32, "f" * 32, "{a0eebc999c0b4ef8bb6d6bb9bd380a11}"),
        drawing.uuids,
    ),
    Kind(
        *("json", "json", _JSON, TEXT),
        (
            *(
                "null",
                "1",
                " [1] ",
                '{"a":1,"a":2}',
                '{ "b" : "\\u00e4\\u0000" }',
                '""',
            ),
            *(
                "1e400",
                "123456789012345678901234567890.10",
                '"\\ud83e\\udd80"',
                "\n{}\t",
            ),
        ),
        drawing.jsonb,
    ),
    Kind(
        *("jsonb", "jsonb", _JSON, TEXT),
        (
            *(
                "null",
                "1",
                "[1]",
                '{"aa":1,"b":2,"a":3}',
                '{"a": {"b": [1, null, ""]}}',
            ),
            *(
                "1.10",
                "-0",
                "1e5",
                "1E-3",
                "123456789012345678901234567890.10",
                '"\\"\\\\"',
            ),
            *('"\\u0001\\n\\t/"', "[]", "{}", '{"": ""}', "false", '"中文🦀"'),
        ),
        drawing.jsonb,
    ),
    words("bit", "bit", ("0", "1"), drawing.bits(1, 1)),
    words("bit_3", "bit(3)", ("000", "101"), drawing.bits(3, 3)),
    words(
        "bit_17", "bit(17)", ("0" * 17, "1" * 17, "1" + "0" * 16), drawing.bits(17, 17)
    ),
    words(
        "varbit", "varbit", ("", "0", "1" * 8, "1" * 9, "01" * 999), drawing.bits(0, 40)
    ),
    words("varbit_20", "varbit(20)", ("", "1" * 20), drawing.bits(0, 20)),
    words("inet", "inet", _INETS, drawing.inet),
    words(
        "cidr",
        "cidr",
        (
            *(
                "10.0.0.0/8",
                "10.1.2.3/32",
                "0.0.0.0/0",
                "10",
                "192.168/16",
                "::/0",
                "::1/128",
            ),
            *("2001:db8::/32", "::ffff:1.2.3.0/120", "ffff::/16", "::/96", "1.2.3.4"),
        ),
        drawing.cidr,
    ),
    words(
        "macaddr",
        "macaddr",
        ("00:00:00:00:00:00", "ff" * 6, "08-00-2b-01-02-03"),
        drawing.mac(6),
    ),
    words(
        "macaddr8",
        "macaddr8",
        ("00" * 8, "ff" * 8, "08:00:2b:01:02:03"),
        drawing.mac(8),
    ),
    words("tsvector", "tsvector", _VECTORS, drawing.lexemes),
    words("tsquery", "tsquery", _QUERIES, drawing.query, binary="refused"),
    words(
        *(
            "txid_snapshot",
            "txid_snapshot",
            ("1:1:", "10:20:10,14,15", "1:9223372036854775807:"),
        ),
        drawing.snapshot,
    ),
    words(
        *(
            "pg_snapshot",
            "pg_snapshot",
            ("1:1:", "10:20:10,14,15", "1:9223372036854775807:"),
        ),
        drawing.snapshot,
    ),
    words(
        "aclitem",
        "aclitem",
        ("postgres=r/postgres", "=X*/postgres", "postgres=/postgres"),
        None,
    ),
)
