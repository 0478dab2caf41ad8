//! Every scalar type, and the arrays of it: text and binary in all profiles.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

mod cells;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, Field, Fields, IntervalUnit};
use cells::{PROFILES, T, cells, column, decode, extended, name, profile, run, stream};
use proptest::prelude::*;
use std::sync::Arc;
use walrow_arrow::{DecoderBuilder, ErrorKind, OnUnrepresentable, Profile};
use walrow_stream::Catalog;
use walrow_testkit::{OwnedCell, Stream, binary, hex, null, text};
use walrow_wire::ReplicaIdentity;

/// A type, and values of it as PostgreSQL 18.4 writes and sends them.
struct Type {
    name: &'static str,
    oid: u32,
    array: u32,
    typmod: i32,
    arrow: &'static str,
    spark: &'static str,
    /// Text and the hexadecimal digits of the binary form.
    values: &'static [(&'static str, &'static str)],
}

const TID: &str = "Struct(\"block\": UInt32, \"offset\": UInt16)";
const POINT: &str = "Struct(\"x\": Float64, \"y\": Float64)";
const CORNERS: &str = "Struct(\"x1\": Float64, \"y1\": Float64, \"x2\": Float64, \"y2\": Float64)";
const INTERVAL: &str = "Struct(\"months\": Int32, \"days\": Int32, \"micros\": Int64)";

/// The struct of a range with such bounds.
macro_rules! range {
    ($bound:literal) => {
        concat!(
            "Struct(\"lower\": ",
            $bound,
            ", \"upper\": ",
            $bound,
            ", \"lower_inc\": Boolean, \"upper_inc\": Boolean, \"empty\": Boolean)"
        )
    };
}

#[rustfmt::skip]
const TYPES: &[Type] = &[
    Type { name: "bool", oid: 16, array: 1000, typmod: -1, arrow: "Boolean", spark: "Boolean", values: &[
        ("t", "01"), ("f", "00"),
    ] },
    Type { name: "bytea", oid: 17, array: 1001, typmod: -1, arrow: "Binary", spark: "Binary", values: &[
        ("\\x", ""), ("\\x00ff5c22", "00ff5c22"),
    ] },
    Type { name: "char", oid: 18, array: 1002, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("a", "61"), ("", "00"), ("\\351", "e9"), ("\"", "22"),
    ] },
    Type { name: "name", oid: 19, array: 1003, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("a b", "612062"),
    ] },
    Type { name: "int8", oid: 20, array: 1016, typmod: -1, arrow: "Int64", spark: "Int64", values: &[
        ("-9223372036854775808", "8000000000000000"), ("0", "0000000000000000"),
    ] },
    Type { name: "int2", oid: 21, array: 1005, typmod: -1, arrow: "Int16", spark: "Int16", values: &[
        ("-1", "ffff"), ("32767", "7fff"),
    ] },
    Type { name: "int2vector", oid: 22, array: 1006, typmod: -1, arrow: "List(Int16)", spark: "List(Int16)", values: &[
        ("1 2 3", "0000000100000000000000150000000300000000000000020001000000020002000000020003"),
        ("5", "0000000100000000000000150000000100000000000000020005"),
        ("", "0000000100000000000000150000000000000000"),
    ] },
    Type { name: "int4", oid: 23, array: 1007, typmod: -1, arrow: "Int32", spark: "Int32", values: &[
        ("-2", "fffffffe"),
    ] },
    Type { name: "regproc", oid: 24, array: 1008, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[] },
    Type { name: "text", oid: 25, array: 1009, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("", ""), ("NULL", "4e554c4c"), ("null", "6e756c6c"), ("a,b", "612c62"), ("{x}", "7b787d"),
        ("q\"q", "712271"), ("b\\b", "625c62"), ("n\nl", "6e0a6c"), ("v\x0bt", "760b74"), ("ä", "c3a4"),
    ] },
    Type { name: "oid", oid: 26, array: 1028, typmod: -1, arrow: "UInt32", spark: "Int64", values: &[
        ("4294967295", "ffffffff"),
    ] },
    Type { name: "tid", oid: 27, array: 1010, typmod: -1, arrow: TID, spark: "Utf8", values: &[
        ("(4294967295,65535)", "ffffffffffff"), ("(1,2)", "000000010002"),
    ] },
    Type { name: "xid", oid: 28, array: 1011, typmod: -1, arrow: "UInt32", spark: "Int64", values: &[
        ("3", "00000003"),
    ] },
    Type { name: "cid", oid: 29, array: 1012, typmod: -1, arrow: "UInt32", spark: "Int64", values: &[
        ("4294967294", "fffffffe"),
    ] },
    Type { name: "oidvector", oid: 30, array: 1013, typmod: -1, arrow: "List(UInt32)", spark: "List(Int64)", values: &[
        ("1 2 3", "00000001000000000000001a0000000300000000000000040000000100000004000000020000000400000003"),
        ("", "00000001000000000000001a0000000000000000"),
    ] },
    Type { name: "json", oid: 114, array: 199, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        (" [1]", "205b315d"),
    ] },
    Type { name: "xml", oid: 142, array: 143, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("<a>b c</a>", "3c613e6220633c2f613e"),
    ] },
    Type { name: "pg_node_tree", oid: 194, array: 0, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("{CONST :constlen 4}", "7b434f4e5354203a636f6e73746c656e20347d"),
    ] },
    Type { name: "cidr", oid: 650, array: 651, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("10.0.0.0/8", "020801040a000000"), ("10.1.2.3/32", "022001040a010203"),
        ("::ffff:1.2.3.0/120", "0378011000000000000000000000ffff01020300"),
        ("2001:db8::/32", "0320011020010db8000000000000000000000000"),
    ] },
    Type { name: "float4", oid: 700, array: 1021, typmod: -1, arrow: "Float32", spark: "Float32", values: &[
        ("1e+06", "49742400"), ("-0.1", "bdcccccd"), ("8.589974e+09", "50000026"), ("NaN", "7fc00000"),
    ] },
    Type { name: "float8", oid: 701, array: 1022, typmod: -1, arrow: "Float64", spark: "Float64", values: &[
        ("1e+15", "430c6bf526340000"), ("0.0001", "3f1a36e2eb1c432d"), ("-Infinity", "fff0000000000000"),
        ("9.999999999999999e+22", "44b52d02c7e14af6"), ("-0", "8000000000000000"),
    ] },
    Type { name: "macaddr8", oid: 774, array: 775, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("08:00:2b:01:02:03:04:05", "08002b0102030405"),
    ] },
    Type { name: "money", oid: 790, array: 791, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[] },
    Type { name: "macaddr", oid: 829, array: 1040, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("08:00:2b:01:02:03", "08002b010203"),
    ] },
    Type { name: "inet", oid: 869, array: 1041, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("1.2.3.4", "0220000401020304"), ("1.2.3.4/24", "0218000401020304"), ("::", "0380001000000000000000000000000000000000"),
        ("::ffff:1.2.3.4/96", "0360001000000000000000000000ffff01020304"), ("::1", "0380001000000000000000000000000000000001"),
    ] },
    Type { name: "aclitem", oid: 1033, array: 1034, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[] },
    Type { name: "bpchar", oid: 1042, array: 1014, typmod: 7, arrow: "Utf8", spark: "Utf8", values: &[
        ("a  ", "612020"),
    ] },
    Type { name: "varchar", oid: 1043, array: 1015, typmod: 9, arrow: "Utf8", spark: "Utf8", values: &[
        ("abc", "616263"),
    ] },
    Type { name: "date", oid: 1082, array: 1182, typmod: -1, arrow: "Date32", spark: "Date32", values: &[
        ("2000-01-02", "00000001"), ("0044-03-15 BC", "fff49d7b"),
    ] },
    Type { name: "time", oid: 1083, array: 1183, typmod: -1, arrow: "Time64(µs)", spark: "Utf8", values: &[
        ("00:00:01.5", "000000000016e360"),
    ] },
    Type { name: "timestamp", oid: 1114, array: 1115, typmod: -1, arrow: "Timestamp(µs)", spark: "Timestamp(µs)", values: &[
        ("2000-01-01 00:00:01.5", "000000000016e360"),
    ] },
    Type { name: "timestamptz", oid: 1184, array: 1185, typmod: -1, arrow: "Timestamp(µs, \"UTC\")", spark: "Timestamp(µs, \"UTC\")", values: &[
        ("2000-01-01 00:00:01.5+00", "000000000016e360"),
    ] },
    Type { name: "interval", oid: 1186, array: 1187, typmod: -1, arrow: "Interval(MonthDayNano)", spark: INTERVAL, values: &[
        ("1 year 2 mons -3 days +04:05:06.789", "000000036c97ca88fffffffd0000000e"), ("1 day", "00000000000000000000000100000000"),
        ("00:00:00", "00000000000000000000000000000000"), ("-00:00:00.000001", "ffffffffffffffff0000000000000000"),
        ("-1 days -100:00:00.5", "ffffffac2e4c4ee0ffffffff00000000"),
    ] },
    Type { name: "timetz", oid: 1266, array: 1270, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("12:00:00+05:30", "0000000a0eebb000ffffb2a8"), ("00:00:01.5+00", "000000000016e36000000000"),
    ] },
    Type { name: "bit", oid: 1560, array: 1561, typmod: 3, arrow: "Utf8", spark: "Utf8", values: &[
        ("101", "00000003a0"),
    ] },
    Type { name: "varbit", oid: 1562, array: 1563, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("", "00000000"), ("101010101", "00000009aa80"),
    ] },
    Type { name: "numeric", oid: 1700, array: 1231, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("-12345.60", "0003000140000002000109291770"), ("NaN", "00000000c0000000"),
    ] },
    Type { name: "refcursor", oid: 1790, array: 2201, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("c", "63"),
    ] },
    Type { name: "regclass", oid: 2205, array: 2210, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[] },
    Type { name: "uuid", oid: 2950, array: 2951, typmod: -1, arrow: "FixedSizeBinary(16)", spark: "Utf8", values: &[
        ("a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "a0eebc999c0b4ef8bb6d6bb9bd380a11"),
    ] },
    Type { name: "txid_snapshot", oid: 2970, array: 2949, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("10:20:10,14,15", "00000003000000000000000a0000000000000014000000000000000a000000000000000e000000000000000f"),
    ] },
    Type { name: "pg_lsn", oid: 3220, array: 3221, typmod: -1, arrow: "UInt64", spark: "Int64", values: &[
        ("7FFFFFFF/A", "7fffffff0000000a"), ("0/0", "0000000000000000"),
    ] },
    Type { name: "tsvector", oid: 3614, array: 3643, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("'a' 'cat''s':2A 'fat'", "00000003610000006361742773000001c002666174000000"), ("", "00000000"),
        ("'b\\\\s':16383 'it''s':1A,2B,3C,4", "00000002625c730000013fff69742773000004c001800240030004"),
    ] },
    Type { name: "tsquery", oid: 3615, array: 3645, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[] },
    Type { name: "jsonb", oid: 3802, array: 3807, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("{\"a\": \"x y\"}", "017b2261223a2022782079227d"),
    ] },
    Type { name: "jsonpath", oid: 4072, array: 4073, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("$.\"a\"[*]?(@ > 1)", "01242e2261225b2a5d3f2840203e203129"),
    ] },
    Type { name: "pg_snapshot", oid: 5038, array: 5039, typmod: -1, arrow: "Utf8", spark: "Utf8", values: &[
        ("10:20:10,14", "00000002000000000000000a0000000000000014000000000000000a000000000000000e"),
        ("1:1:", "0000000000000000000000010000000000000001"),
    ] },
    Type { name: "xid8", oid: 5069, array: 271, typmod: -1, arrow: "UInt64", spark: "Int64", values: &[
        ("9223372036854775807", "7fffffffffffffff"), ("0", "0000000000000000"),
    ] },
    Type { name: "point", oid: 600, array: 1017, typmod: -1, arrow: POINT, spark: "Utf8", values: &[
        ("(1,2)", "3ff0000000000000 4000000000000000"), ("(NaN,Infinity)", "7ff8000000000000 7ff0000000000000"), ("(1,-0)", "3ff0000000000000 8000000000000000"),
    ] },
    Type { name: "lseg", oid: 601, array: 1018, typmod: -1, arrow: CORNERS, spark: "Utf8", values: &[
        ("[(1,2),(0,1)]", "3ff0000000000000 4000000000000000 0000000000000000 3ff0000000000000"),
    ] },
    Type { name: "path", oid: 602, array: 1019, typmod: -1, arrow: "Struct(\"closed\": Boolean, \"points\": List(Struct(\"x\": Float64, \"y\": Float64)))", spark: "Utf8", values: &[
        ("((1,2),(0,1))", "01 00000002 3ff0000000000000 4000000000000000 0000000000000000 3ff0000000000000"), ("[(1,2)]", "00 00000001 3ff0000000000000 4000000000000000"),
    ] },
    Type { name: "box", oid: 603, array: 1020, typmod: -1, arrow: CORNERS, spark: "Utf8", values: &[
        ("(1,2),(0,1)", "3ff0000000000000 4000000000000000 0000000000000000 3ff0000000000000"),
    ] },
    Type { name: "polygon", oid: 604, array: 1027, typmod: -1, arrow: "List(Struct(\"x\": Float64, \"y\": Float64))", spark: "Utf8", values: &[
        ("((1,2),(0,1))", "00000002 3ff0000000000000 4000000000000000 0000000000000000 3ff0000000000000"), ("((1,2))", "00000001 3ff0000000000000 4000000000000000"),
    ] },
    Type { name: "line", oid: 628, array: 629, typmod: -1, arrow: "Struct(\"a\": Float64, \"b\": Float64, \"c\": Float64)", spark: "Utf8", values: &[
        ("{1,2,0}", "3ff0000000000000 4000000000000000 0000000000000000"),
    ] },
    Type { name: "circle", oid: 718, array: 719, typmod: -1, arrow: "Struct(\"x\": Float64, \"y\": Float64, \"r\": Float64)", spark: "Utf8", values: &[
        ("<(1,2),1>", "3ff0000000000000 4000000000000000 3ff0000000000000"),
    ] },
    Type { name: "int4range", oid: 3904, array: 3905, typmod: -1, arrow: range!("Int32"), spark: "Utf8", values: &[
        ("[1,5)", "02 00000004 00000001 00000004 00000005"), ("empty", "01"), ("(,)", "18"), ("[-1,)", "12 00000004 ffffffff"),
        ("(,7)", "08 00000004 00000007"),
    ] },
    Type { name: "numrange", oid: 3906, array: 3907, typmod: -1, arrow: range!("Utf8"), spark: "Utf8", values: &[
        ("(1.5,NaN]", "04 0000000c 000200000000000100011388 00000008 00000000c0000000"), ("empty", "01"),
        ("[1.5,)", "12 0000000c 000200000000000100011388"),
    ] },
    Type { name: "tsrange", oid: 3908, array: 3909, typmod: -1, arrow: range!("Timestamp(µs)"), spark: "Utf8", values: &[
        ("[\"2000-01-01 00:00:01.5\",)", "12 00000008 000000000016e360"),
    ] },
    Type { name: "tstzrange", oid: 3910, array: 3911, typmod: -1, arrow: range!("Timestamp(µs, \"UTC\")"), spark: "Utf8", values: &[
        ("(,\"2000-01-01 00:00:01.5+00\"]", "0c 00000008 000000000016e360"),
    ] },
    Type { name: "daterange", oid: 3912, array: 3913, typmod: -1, arrow: range!("Date32"), spark: "Utf8", values: &[
        ("[2000-01-02,2000-01-03)", "02 00000004 00000001 00000004 00000002"), ("(,)", "18"),
    ] },
    Type { name: "int8range", oid: 3926, array: 3927, typmod: -1, arrow: range!("Int64"), spark: "Utf8", values: &[
        ("[-1,3)", "02 00000008 ffffffffffffffff 00000008 0000000000000003"),
    ] },
    Type { name: "int4multirange", oid: 4451, array: 6150, typmod: -1, arrow: concat!("List(", range!("Int32"), ")"), spark: "Utf8", values: &[
        ("{}", "00000000"),
        ("{[1,5),[7,)}", "00000002 00000011 02 00000004 00000001 00000004 00000005 00000009 12 00000004 00000007"),
    ] },
    Type { name: "nummultirange", oid: 4532, array: 6151, typmod: -1, arrow: concat!("List(", range!("Utf8"), ")"), spark: "Utf8", values: &[
        ("{(,1.5]}", "00000001 00000011 0c 0000000c 000200000000000100011388"),
    ] },
    Type { name: "tsmultirange", oid: 4533, array: 6152, typmod: -1, arrow: concat!("List(", range!("Timestamp(µs)"), ")"), spark: "Utf8", values: &[
        ("{[\"2000-01-01 00:00:01.5\",)}", "00000001 0000000d 12 00000008 000000000016e360"),
    ] },
    Type { name: "tstzmultirange", oid: 4534, array: 6153, typmod: -1, arrow: concat!("List(", range!("Timestamp(µs, \"UTC\")"), ")"), spark: "Utf8", values: &[
        ("{(,)}", "00000001 00000001 18"),
    ] },
    Type { name: "datemultirange", oid: 4535, array: 6155, typmod: -1, arrow: concat!("List(", range!("Date32"), ")"), spark: "Utf8", values: &[
        ("{[2000-01-02,2000-01-03)}", "00000001 00000011 02 00000004 00000001 00000004 00000002"),
    ] },
    Type { name: "int8multirange", oid: 4536, array: 6157, typmod: -1, arrow: concat!("List(", range!("Int64"), ")"), spark: "Utf8", values: &[
        ("{(,3)}", "00000001 0000000d 08 00000008 0000000000000003"),
    ] },
];

fn values(of: &Type) -> Vec<(String, Vec<u8>)> {
    let value = |(text, binary): &(&str, &str)| ((*text).to_owned(), hex(binary));
    of.values.iter().map(value).collect()
}

fn check(oid: u32, typmod: i32, values: &[(String, Vec<u8>)], names: [&str; 2], what: &str) {
    let [texts, binaries] = cells(values);
    for (profile_name, expected) in PROFILES.into_iter().zip([names[0], names[1], "Utf8"]) {
        let read = |cells| decode(profile(profile_name), (oid, typmod), cells).unwrap();
        let (from_text, from_binary) = (read(&texts), read(&binaries));
        let what = format!("{what} in {profile_name:?}");
        assert_eq!(from_text, from_binary, "{what}");
        assert_eq!(
            name(from_text.schema().field(0).data_type()),
            expected,
            "{what}"
        );
        assert_eq!(from_text.column(0).null_count(), 1, "{what}");
        if profile_name == Profile::Text {
            let strings = from_text.column(0).as_string::<i32>();
            for (row, (text, _)) in values.iter().enumerate() {
                assert_eq!(strings.value(row), text, "{what}");
            }
        }
    }
}

#[test]
fn both_forms_of_every_type_give_the_same_arrays() {
    let mut checked = 0;
    for of in TYPES {
        check(
            of.oid,
            of.typmod,
            &values(of),
            [of.arrow, of.spark],
            of.name,
        );
        checked += of.values.len();
    }
    assert!(checked > 75, "{checked} values");
}

/// The array as the server writes and sends it: a null after each element.
fn array(of: &Type) -> (String, Vec<u8>) {
    let mut text = "{".to_owned();
    let delimiter = if of.name == "box" { ';' } else { ',' };
    let count = i32::try_from(2 * of.values.len()).unwrap();
    let mut sent = Vec::new();
    for word in [1, 1, of.oid.cast_signed(), count, 1] {
        sent.extend_from_slice(&word.to_be_bytes());
    }
    for (value, bytes) in values(of) {
        let special = |c: char| c == delimiter || "{}\"\\ \t\n\r\x0b\x0c".contains(c);
        if value.is_empty() || value.eq_ignore_ascii_case("null") || value.contains(special) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            text.extend(["\"", &value, "\""]);
        } else {
            text += &value;
        }
        text.push(delimiter);
        text += "NULL";
        text.push(delimiter);
        sent.extend_from_slice(&i32::try_from(bytes.len()).unwrap().to_be_bytes());
        sent.extend_from_slice(&bytes);
        sent.extend_from_slice(&(-1_i32).to_be_bytes());
    }
    text.pop();
    text.push('}');
    (text, sent)
}

#[test]
fn both_forms_of_every_array_give_the_same_lists() {
    let mut checked = 0;
    for of in TYPES.iter().filter(|of| of.array != 0) {
        let mut empty = vec![0; 8];
        empty.extend_from_slice(&of.oid.to_be_bytes());
        let mut values = vec![("{}".to_owned(), empty)];
        if !of.values.is_empty() {
            values.push(array(of));
            checked += 1;
        }
        let names = [of.arrow, of.spark].map(|item| format!("List({item})"));
        let what = format!("{}[]", of.name);
        check(of.array, of.typmod, &values, [&names[0], &names[1]], &what);
    }
    assert!(checked > 38, "{checked} types");
}

#[test]
fn arrays_of_all_shapes_have_the_servers_text() {
    for (oid, expected, sent) in [
        // SELECT '[0:1]={1,NULL}'::int4[]
        (
            1007,
            "[0:1]={1,NULL}",
            "00000001 00000001 00000017 00000002 00000000 00000004 00000001 ffffffff",
        ),
        // SELECT '[2:2][0:1]={{1,2}}'::int4[]
        (
            1007,
            "[2:2][0:1]={{1,2}}",
            "00000002 00000000 00000017 00000001 00000002 00000002 00000000 \
             00000004 00000001 00000004 00000002",
        ),
        // SELECT '{{{1},{2}},{{3},{4}}}'::int4[]
        (
            1007,
            "{{{1},{2}},{{3},{4}}}",
            "00000003 00000000 00000017 00000002 00000001 00000002 00000001 00000001 00000001 \
             00000004 00000001 00000004 00000002 00000004 00000003 00000004 00000004",
        ),
        // SELECT array[array['\x00ff'::bytea, ''], array[null, '\x01']]
        (
            1001,
            r#"{{"\\x00ff","\\x"},{NULL,"\\x01"}}"#,
            "00000002 00000001 00000011 00000002 00000001 00000002 00000001 \
             00000002 00ff 00000000 ffffffff 00000001 01",
        ),
        // SELECT array['1 day'::interval, '01:00']
        (
            1187,
            r#"{"1 day",01:00:00}"#,
            "00000001 00000000 000004a2 00000002 00000001 \
             00000010 0000000000000000 00000001 00000000 00000010 00000000d693a400 00000000 00000000",
        ),
        // SELECT array['1 2'::int2vector, '', null]
        (
            1006,
            r#"{"1 2","",NULL}"#,
            "00000001 00000001 00000016 00000003 00000001 \
             00000020 00000001 00000000 00000015 00000002 00000000 00000002 0001 00000002 0002 \
             00000014 00000001 00000000 00000015 00000000 00000000 ffffffff",
        ),
    ] {
        let builder = || profile(Profile::Text);
        let read = column(builder(), (oid, -1), &[binary(hex(sent))]).unwrap();
        assert_eq!(read.as_string::<i32>().value(0), expected);
        let as_text = || profile(Profile::Arrow).with_type("x", DataType::Utf8);
        let read = column(as_text(), (oid, -1), &[binary(hex(sent))]).unwrap();
        assert_eq!(read.as_string::<i32>().value(0), expected);
    }
}

#[test]
fn subscripts_of_a_vector_are_not_counted_as_lost() {
    let vector = &TYPES.iter().find(|of| of.name == "int2vector").unwrap();
    let [texts, binaries] = cells(&values(vector));
    for cells in [texts, binaries] {
        let batches = run(profile(Profile::Arrow), &stream(22, -1, &cells)).unwrap();
        assert!(batches[0].dropped_lower_bounds().is_empty());
        let lists = batches[0].record_batch().column(0).as_list::<i32>();
        let first = lists.value(0);
        assert_eq!(first.as_primitive::<Int16Type>().values(), &[1, 2, 3]);
        assert!(lists.value(2).is_empty());
    }
    for (text_of, sent) in [
        (
            "1  2",
            "00000001 00000000 00000015 00000001 00000001 00000002 0001",
        ),
        (
            "1 x",
            "00000001 00000001 00000015 00000001 00000000 ffffffff",
        ),
        (
            " ",
            "00000001 00000000 0000001a 00000001 00000000 00000004 00000001",
        ),
        ("{1}", "0000"),
    ] {
        for cell in [text(text_of), binary(hex(sent))] {
            let error = column(profile(Profile::Arrow), (22, -1), &[cell]).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Malformed { .. }),
                "{error}"
            );
        }
    }
}

#[test]
fn values_are_what_they_say() {
    let arrow = || profile(Profile::Arrow);
    let spark = || profile(Profile::Spark);
    let lsn = column(arrow(), (3220, -1), &[text("FFFFFFFF/A")]).unwrap();
    let lsn = lsn.as_primitive::<UInt64Type>().value(0);
    assert_eq!(lsn, 0xffff_ffff_0000_000a);
    let tid = column(arrow(), (27, -1), &[text("(4294967295,65535)"), null()]).unwrap();
    let tid = tid.as_struct();
    assert_eq!(
        tid.column(0).as_primitive::<UInt32Type>().value(0),
        u32::MAX
    );
    assert_eq!(
        tid.column(1).as_primitive::<UInt16Type>().value(0),
        u16::MAX
    );
    assert!(tid.is_null(1) && tid.column(0).is_null(1));
    let interval = hex("000000036c97ca88fffffffd0000000e");
    let native = column(arrow(), (1186, -1), &[binary(&interval)]).unwrap();
    let native = native.as_primitive::<IntervalMonthDayNanoType>().value(0);
    assert_eq!(
        (native.months, native.days, native.nanoseconds),
        (14, -3, 14_706_789_000_000)
    );
    let parts = column(spark(), (1186, -1), &[binary(&interval)]).unwrap();
    let parts = parts.as_struct();
    assert_eq!(parts.column(0).as_primitive::<Int32Type>().value(0), 14);
    assert_eq!(parts.column(1).as_primitive::<Int32Type>().value(0), -3);
    let micros = parts.column(2).as_primitive::<Int64Type>().value(0);
    assert_eq!(micros, 14_706_789_000);
    let iso = column(spark(), (1186, -1), &[text("P1Y2M-3DT4H5M6.789S")]).unwrap();
    assert_eq!(iso.as_struct(), parts);
    let timetz = column(arrow(), (1266, -1), &[text("04:05:06.789-08")]).unwrap();
    assert_eq!(timetz.as_string::<i32>().value(0), "04:05:06.789-08:00");
    let timetz = column(spark(), (1266, -1), &[text("04:05:06.789-08")]).unwrap();
    assert_eq!(timetz.as_string::<i32>().value(0), "04:05:06.789-08");
}

/// A schema that was written down from one run's batches gives the next run the same ones.
#[test]
fn a_types_own_arrow_type_can_be_asked_for() {
    for of in TYPES {
        for (oid, values) in [(of.oid, values(of)), (of.array, vec![array(of)])] {
            for profile_name in PROFILES {
                if oid == 0 || of.values.is_empty() {
                    continue;
                }
                let [texts, binaries] = cells(&values);
                for cells in [texts, binaries] {
                    let builder = || profile(profile_name);
                    let chosen = column(builder(), (oid, of.typmod), &cells).unwrap();
                    let asked = builder().with_type("x", chosen.data_type().clone());
                    let asked = column(asked, (oid, of.typmod), &cells).unwrap();
                    assert_eq!(&asked, &chosen, "{} in {profile_name:?}", of.name);
                }
            }
        }
    }
}

#[test]
fn regs_are_names_in_text_and_numbers_in_binary() {
    for oid in [
        24, 2202, 2203, 2204, 2205, 2206, 3734, 3769, 4089, 4096, 4191,
    ] {
        for profile_name in PROFILES {
            let cells = [text("pg_class"), binary(hex("000004eb")), text("-")];
            let read = column(profile(profile_name), (oid, -1), &cells).unwrap();
            let read: Vec<_> = read.as_string::<i32>().iter().flatten().collect();
            assert_eq!(read, ["pg_class", "1259", "-"]);
        }
    }
}

/// The error that one cell gives, and its text.
fn refused(builder: DecoderBuilder, of: (u32, i32), cell: OwnedCell) -> String {
    let error = column(builder, of, &[cell]).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unrepresentable { .. }),
        "{error}"
    );
    error.to_string()
}

#[test]
fn what_a_type_cannot_hold_names_the_way_out() {
    let (arrow, spark) = (|| profile(Profile::Arrow), || profile(Profile::Spark));
    let string = r#"types={"public.t.x": "string"}"#;
    for (of, cell) in [
        ((5069, -1), text("9223372036854775808")),
        ((5069, -1), binary(hex("8000000000000000"))),
        ((3220, -1), text("80000000/0")),
        ((3220, -1), binary(hex("ffffffffffffffff"))),
        ((1186, -1), text("infinity")),
        (
            (1186, -1),
            binary(hex("8000000000000000 80000000 80000000")),
        ),
    ] {
        let error = refused(spark(), of, cell.clone());
        assert!(error.contains(string), "{error}");
        let cells = [cell];
        let nulls = || spark().with_unrepresentable(OnUnrepresentable::Null);
        let batches = run(nulls(), &stream(of.0, of.1, &cells)).unwrap();
        assert_eq!(batches[0].record_batch().column(0).null_count(), 1);
        assert_eq!(batches[0].nulled(), [("x".to_owned(), 1)]);
    }
    for cell in [
        text("2562047:47:16.854776"),
        binary(hex("0020c49ba5e353f8 00000000 00000000")),
        text("-infinity"),
    ] {
        let error = refused(arrow(), (1186, -1), cell);
        assert!(error.contains(string), "{error}");
    }
    assert!(column(spark(), (1186, -1), &[text("2562047:47:16.854776")]).is_ok());
    for profile_name in PROFILES {
        let error = refused(
            profile(profile_name),
            (790, -1),
            binary(hex("000000000001e240")),
        );
        assert!(
            error.contains(r#"types={"public.t.x": "decimal128(19, 2)"}"#),
            "{error}"
        );
        let query = binary(hex("00000001 01 00 00 6100"));
        let error = refused(profile(profile_name), (3615, -1), query);
        assert!(
            error.contains(r#"types={"public.t.x": "binary"}"#),
            "{error}"
        );
    }
    for style in ["@ 1 day", "+1-2 -3 +4:05:06.789"] {
        let error = column(arrow(), (1186, -1), &[text(style)]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed { .. }));
        assert!(error.to_string().contains("IntervalStyle"), "{error}");
    }
}

#[test]
fn ranges_tell_no_bound_from_infinity_and_from_emptiness() {
    let cells = ["[1,)", "(,5)", "(,)", "empty", "[1,5)"].map(text);
    let read = column(profile(Profile::Arrow), (3904, -1), &cells).unwrap();
    let read = read.as_struct();
    let bounds = [0, 1].map(|place| {
        let bound = read.column(place).as_primitive::<Int32Type>();
        bound.iter().collect::<Vec<_>>()
    });
    assert_eq!(bounds[0], [Some(1), None, None, None, Some(1)]);
    assert_eq!(bounds[1], [None, Some(5), None, None, Some(5)]);
    let flags = [2, 3, 4].map(|place| {
        let flag = read.column(place).as_boolean();
        flag.iter().flatten().collect::<Vec<_>>()
    });
    assert_eq!(flags[0], [true, false, false, false, true]);
    assert_eq!(flags[1], [false; 5]);
    assert_eq!(flags[2], [false, false, false, true, false]);
}

/// A bound that became null would say that there is none.
#[test]
fn a_bound_that_cannot_be_held_is_the_ranges_affair() {
    let bound = "00000008 000000000016e360 00000008 7fffffffffffffff";
    for (oid, cells, ranges) in [
        (
            3910,
            [
                text(r#"["2000-01-01 00:00:01.5+00",infinity)"#),
                binary(hex(&format!("02 {bound}"))),
            ],
            1,
        ),
        (
            4534,
            [
                text(r#"{(,"1999-01-01 00:00:00+00"),["2000-01-01 00:00:01.5+00",infinity)}"#),
                binary(hex(&format!(
                    "00000002 0000000d 08 00000008 0000000000000000 00000019 02 {bound}"
                ))),
            ],
            2,
        ),
    ] {
        for cell in &cells {
            let error = refused(profile(Profile::Arrow), (oid, -1), cell.clone());
            let string = r#"types={"public.t.x": "string"}"#;
            assert!(error.contains(string), "{error}");
        }
        let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
        let batches = run(builder, &stream(oid, -1, &cells)).unwrap();
        let nulls = batches[0].record_batch().column(0);
        assert_eq!(nulls.null_count(), 2);
        assert_eq!(batches[0].nulled(), [("x".to_owned(), 2)]);
        let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Sentinel);
        let read = column(builder, (oid, -1), &cells).unwrap();
        for row in 0..2 {
            let row = read.slice(row, 1);
            let inside = row.as_list_opt::<i32>().map(|list| list.value(0));
            let range = inside.unwrap_or(row);
            assert_eq!(range.len(), ranges);
            let upper = range.as_struct().column(1);
            let upper = upper.as_primitive::<TimestampMicrosecondType>();
            assert_eq!(upper.value(ranges - 1), i64::MAX);
        }
    }
    // A moment that the sentinel stands for already is none of it.
    let last = "294247-01-10 04:00:54.775807";
    let micros = (i64::MAX - 946_684_800_000_000).to_be_bytes();
    for (oid, cell) in [
        (1114, text(last)),
        (1184, text(format!("{last}+00"))),
        (1114, binary(micros)),
        (1184, binary(micros)),
    ] {
        let read = column(
            profile(Profile::Arrow),
            (oid, -1),
            std::slice::from_ref(&cell),
        )
        .unwrap();
        let read = read.as_primitive::<TimestampMicrosecondType>();
        assert_eq!(read.value(0), i64::MAX);
        let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Sentinel);
        let error = refused(builder, (oid, -1), cell);
        assert!(error.contains("64 bits of microseconds"), "{error}");
    }
    // In an array, it is the element's.
    let cells = [text(
        r#"{"[2000-01-02,infinity)","[2000-01-02,2000-01-03)"}"#,
    )];
    let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
    let batches = run(builder, &stream(3913, -1, &cells)).unwrap();
    let ranges = batches[0]
        .record_batch()
        .column(0)
        .as_list::<i32>()
        .value(0);
    assert!(ranges.is_null(0) && ranges.is_valid(1));
    assert_eq!(batches[0].nulled(), [("x".to_owned(), 1)]);
}

/// Of those that have one: `-('NaN'::float8)`, `'Infinity'::float8 * 0`.
#[test]
fn nan_is_one_value_whatever_its_sign() {
    let cells = [
        text("NaN"),
        binary(hex("fff8000000000000")),
        binary(hex("7ff8000000000001")),
    ];
    let read = column(profile(Profile::Arrow), (701, -1), &cells).unwrap();
    let read = read.as_primitive::<Float64Type>().values();
    assert!(
        read.iter()
            .all(|value| value.to_bits() == f64::NAN.to_bits())
    );
    let cells = [
        text("NaN"),
        binary(hex("ffc00000")),
        binary(hex("7fc00001")),
    ];
    let read = column(profile(Profile::Arrow), (700, -1), &cells).unwrap();
    let read = read.as_primitive::<Float32Type>().values();
    assert!(
        read.iter()
            .all(|value| value.to_bits() == f32::NAN.to_bits())
    );
    let cells = [
        text("(NaN,1)"),
        binary(hex("fff8000000000000 3ff0000000000000")),
    ];
    let read = column(profile(Profile::Arrow), (600, -1), &cells).unwrap();
    let read = read
        .as_struct()
        .column(0)
        .as_primitive::<Float64Type>()
        .values();
    assert!(
        read.iter()
            .all(|value| value.to_bits() == f64::NAN.to_bits())
    );
}

#[test]
fn paths_are_open_or_closed() {
    let cells = [text("((1,2),(0,1))"), text("[(1,2)]"), null()];
    let read = column(profile(Profile::Arrow), (602, -1), &cells).unwrap();
    let read = read.as_struct();
    let closed: Vec<_> = read.column(0).as_boolean().iter().collect();
    assert_eq!(closed, [Some(true), Some(false), None]);
    let points = read.column(1).as_list::<i32>();
    let lengths: Vec<_> = points.iter().map(|list| list.map(|it| it.len())).collect();
    assert_eq!(lengths, [Some(2), Some(1), None]);
    let first = points.value(0);
    let y = first.as_struct().column(1).as_primitive::<Float64Type>();
    assert_eq!(y.values(), &[2.0, 1.0]);
    let cells = [text("(NaN,Infinity)"), text("(1e+20,-0)")];
    let read = column(profile(Profile::Arrow), (600, -1), &cells).unwrap();
    let x = read.as_struct().column(0).as_primitive::<Float64Type>();
    assert!(x.value(0).is_nan());
    assert_eq!(x.values()[1..], [1e20]);
    // In Spark as text, and as structs where they are asked for.
    let point = read.data_type().clone();
    let builder = profile(Profile::Spark).with_type("point", point.clone());
    let read = column(builder, (600, -1), &cells).unwrap();
    assert_eq!(read.data_type(), &point);
}

#[test]
fn money_is_a_decimal_where_its_scale_is_told() {
    let builder = || profile(Profile::Spark).with_type("money", DataType::Decimal128(19, 2));
    let cells = [
        text("-$1,234.56"),
        binary(hex("fffffffffffe1dc0")),
        text("$-1.00"),
        text("($1.00)"),
    ];
    let read = column(builder(), (790, -1), &cells).unwrap();
    let read = read.as_primitive::<Decimal128Type>();
    assert_eq!(read.values(), &[-123_456, -123_456, -100, -100]);
    let list = DataType::new_list(DataType::Decimal128(19, 2), true);
    let builder = profile(Profile::Arrow).with_type("x", list);
    let read = column(builder, (791, -1), &[text(r#"{"$1,234.56",NULL}"#)]).unwrap();
    let read = read.as_list::<i32>().value(0);
    assert_eq!(read.as_primitive::<Decimal128Type>().value(0), 123_456);
}

#[test]
fn bits_become_booleans_or_bytes() {
    let one = || profile(Profile::Arrow).with_type("x", DataType::Boolean);
    let cells = [
        text("1"),
        binary(hex("00000001 80")),
        text("0"),
        binary(hex("00000001 00")),
    ];
    let read = column(one(), (1560, 1), &cells).unwrap();
    let read: Vec<_> = read.as_boolean().iter().flatten().collect();
    assert_eq!(read, [true, true, false, false]);
    for (oid, typmod) in [(1560, 2), (1562, 1), (1562, -1)] {
        let error = column(one(), (oid, typmod), &[null()]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    }
    let bytes = || profile(Profile::Spark).with_type("x", DataType::Binary);
    let cells = [text("101010101"), binary(hex("00000009 aa80"))];
    let read = column(bytes(), (1560, 9), &cells).unwrap();
    let read: Vec<_> = read.as_binary::<i32>().iter().flatten().collect();
    assert_eq!(read, [&[0xaa, 0x80][..], &[0xaa, 0x80]]);
    // Bytes alone would not tell how many bits they are.
    let read = column(bytes(), (1562, -1), &cells).unwrap();
    let read: Vec<_> = read.as_binary::<i32>().iter().flatten().collect();
    assert_eq!(read, [&b"101010101"[..], &[0, 0, 0, 9, 0xaa, 0x80]]);
}

#[test]
fn types_are_chosen_among_what_a_type_can_become() {
    let interval = |name: &str| {
        DataType::Struct(Fields::from(vec![
            Field::new("months", DataType::Int32, true),
            Field::new(name, DataType::Int32, true),
            Field::new("micros", DataType::Int64, true),
        ]))
    };
    let tid = DataType::Struct(Fields::from(vec![
        Field::new("block", DataType::UInt32, true),
        Field::new("offset", DataType::UInt16, true),
    ]));
    let arrow_only = DataType::Interval(IntervalUnit::MonthDayNano);
    for (oid, data_type, arrow, spark) in [
        (1186, interval("days"), true, true),
        (1186, interval("dies"), false, false),
        (1186, arrow_only.clone(), true, false),
        (1186, DataType::Utf8, true, true),
        (1186, DataType::Int64, false, false),
        (1266, arrow_only, false, false),
        (27, tid.clone(), true, false),
        (1186, tid, false, false),
        (27, interval("days"), false, false),
        (5069, DataType::UInt64, true, false),
        (5069, DataType::Int64, true, true),
        (3220, DataType::UInt64, true, false),
        (26, DataType::UInt64, false, false),
        (20, DataType::UInt64, false, false),
        (790, DataType::Decimal128(19, 0), true, true),
        (790, DataType::Int64, false, false),
        (790, DataType::Float64, false, false),
        (869, DataType::Binary, true, true),
        (869, DataType::Int64, false, false),
        (22, DataType::new_list(DataType::Int64, true), true, true),
        (
            22,
            DataType::new_list(DataType::Boolean, true),
            false,
            false,
        ),
        (30, DataType::new_list(DataType::UInt32, true), true, false),
        (3615, DataType::Binary, true, true),
    ] {
        for (profile_name, expected) in [(Profile::Arrow, arrow), (Profile::Spark, spark)] {
            let builder = profile(profile_name).with_type("x", data_type.clone());
            let read = decode(builder, (oid, -1), &[null()]);
            let what = format!("{oid} as {data_type} in {profile_name:?}");
            match read {
                Ok(batch) => {
                    assert!(expected, "{what}");
                    assert_eq!(batch.schema().field(0).data_type(), &data_type, "{what}");
                }
                Err(error) => {
                    assert!(!expected, "{what}: {error}");
                    assert!(error.to_string().contains("cannot become"), "{error}");
                }
            }
        }
    }
}

/// Whether a decoder of these types is built; what cannot be is an error of the options that lists what can.
fn is_built(builder: DecoderBuilder, types: &[(&str, DataType)]) -> bool {
    let builder = types.iter().fold(builder, |builder, (key, data_type)| {
        builder.with_type(*key, data_type.clone())
    });
    match builder.build() {
        Ok(_) => true,
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
            let text = error.to_string();
            assert!(
                text.contains("it can become") || text.contains("nor can any column"),
                "{text}"
            );
            false
        }
    }
}

fn list_of(item: DataType) -> DataType {
    DataType::new_list(item, true)
}

fn vector(size: i32) -> DataType {
    DataType::new_fixed_size_list(DataType::Float32, size, true)
}

#[test]
fn an_extensions_name_tells_what_cannot_be() {
    for name in [
        "citext",
        "hstore",
        "cube",
        "vector",
        "halfvec",
        "sparsevec",
        "geometry",
        "geography",
        "ltree",
        "lquery",
        "ltxtquery",
    ] {
        for profile_name in PROFILES {
            let builder = || profile(profile_name);
            for wrong in [DataType::Int64, DataType::Float64, DataType::Boolean] {
                assert!(!is_built(builder(), &[(name, wrong.clone())]), "{name}");
                let array = format!("_{name}");
                assert!(!is_built(builder(), &[(&array, wrong.clone())]), "{array}");
                assert!(!is_built(builder(), &[(&array, list_of(wrong.clone()))]));
                // A column may be called like a type, and a type like a column.
                for key in [format!("orders.{name}"), format!("x{name}")] {
                    assert!(is_built(builder(), &[(&key, wrong.clone())]), "{key}");
                }
            }
            for right in [DataType::Utf8, DataType::Binary] {
                assert!(is_built(builder(), &[(name, right.clone())]), "{name}");
            }
        }
    }
    let arrow = || profile(Profile::Arrow);
    for (name, data_type) in [
        ("vector", vector(3)),
        ("vector", list_of(DataType::Float32)),
        ("_vector", list_of(vector(3))),
        ("_vector", list_of(list_of(list_of(DataType::Float32)))),
        ("halfvec", list_of(DataType::Float16)),
        ("_citext", list_of(DataType::Utf8)),
        ("hstore", hstore()),
        ("_hstore", list_of(hstore())),
    ] {
        assert!(is_built(arrow(), &[(name, data_type)]), "{name}");
    }
    let error = arrow().with_type("citext", DataType::Int64).build();
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("citext cannot become int64; it can become string")
            && error.ends_with(r#"for a column of that name say "table.citext""#),
        "{error}"
    );
}

fn hstore() -> DataType {
    let read = extended(profile(Profile::Arrow), ("hstore", -1), &[null()]);
    read.unwrap().data_type().clone()
}

#[test]
fn a_catalog_tells_what_cannot_be() {
    let catalog = r#"{"types": [
        {"oid": 20000, "schema": "public", "name": "mood", "kind": "enum", "labels": ["sad"]},
        {"oid": 20001, "schema": "public", "name": "_mood", "kind": "array", "element": 20000},
        {"oid": 20002, "schema": "one", "name": "price", "kind": "domain", "base": 1700},
        {"oid": 20003, "schema": "two", "name": "price", "kind": "enum", "labels": ["high"]},
        {"oid": 20004, "schema": "public", "name": "flag", "kind": "domain", "base": 1560,
         "type_modifier": 1},
        {"oid": 20005, "schema": "public", "name": "cube", "kind": "domain", "base": 23},
        {"oid": 20006, "schema": "public", "name": "colour", "kind": "enum", "labels": ["red"]},
        {"oid": 20007, "schema": "public", "name": "pair", "kind": "composite", "attributes": [
            {"name": "a", "type": 23}, {"name": "b", "type": 29999}]}
    ], "tables": [
        {"oid": 1, "schema": "public", "name": "t", "columns": [
            {"name": "v", "type": 25}, {"name": "n", "type": 23}, {"name": "u", "type": 29999},
            {"name": "colour", "type": 20}, {"name": "t.w", "type": 23}]},
        {"oid": 2, "schema": "other", "name": "t", "columns": [
            {"name": "v", "type": 25}, {"name": "n", "type": 25}, {"name": "w", "type": 25}]}
    ]}"#;
    let catalog = Arc::new(Catalog::from_json(catalog).unwrap());
    let pair = |b: DataType| {
        DataType::Struct(Fields::from(vec![
            Field::new("a", DataType::Int64, true),
            Field::new("b", b, true),
        ]))
    };
    for profile_name in PROFILES {
        let builder = || profile(profile_name).with_catalog(Arc::clone(&catalog));
        let decimal = DataType::Decimal128(9, 2);
        for (key, data_type, expected) in [
            ("mood", DataType::Int32, false),
            ("mood", DataType::Utf8, true),
            ("_mood", list_of(DataType::Int32), false),
            ("_mood", list_of(DataType::Utf8), true),
            // Of two schemas; one can.
            ("price", decimal.clone(), true),
            ("price", DataType::Int32, false),
            ("flag", DataType::Boolean, true),
            ("flag", DataType::Int16, false),
            // An extension's, and another's.
            ("cube", DataType::Int32, true),
            ("cube", DataType::Boolean, false),
            // A column's name before it is a type's.
            ("colour", DataType::Int64, true),
            ("colour", DataType::Boolean, false),
            ("pair", pair(DataType::Binary), true),
            ("pair", pair(DataType::Int32), false),
            ("pair", DataType::Int32, false),
            // Columns, of one table or of several.
            ("public.t.v", DataType::Int32, false),
            ("public.t.v", DataType::Binary, true),
            ("t.v", DataType::Int32, false),
            ("t.n", DataType::Int64, true),
            ("t.n", DataType::Boolean, false),
            ("other.t.n", DataType::Int64, false),
            ("t.colour", DataType::Int64, true),
            ("t.colour", DataType::Int32, false),
            // A column whose name has a point in it.
            ("t.w", DataType::Int32, true),
            ("t.w", DataType::Boolean, false),
            // Of these the catalog does not tell.
            ("public.t.u", DataType::Int32, true),
            ("public.t.x", DataType::Int32, true),
            ("third.t.v", DataType::Int32, true),
            ("v", DataType::Int32, true),
            ("n", DataType::Boolean, true),
        ] {
            let built = is_built(builder(), &[(key, data_type.clone())]);
            assert_eq!(built, expected, "{key}: {data_type} in {profile_name:?}");
        }
        // Both tables' columns have longer keys, so that this is another's.
        let shorter = [
            ("t.v", DataType::Int32),
            ("public.t.v", DataType::Utf8),
            ("other.t.v", DataType::Utf8),
        ];
        assert!(is_built(builder(), &shorter));
        assert!(!is_built(builder(), &shorter[..2]));
    }
    let builder = profile(Profile::Arrow).with_catalog(catalog);
    let error = builder.with_type("public.t.v", DataType::Int32).build();
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("types: public.t.v (text) cannot become int32; it can become string"),
        "{error}"
    );
}

#[test]
fn what_no_column_can_become_is_refused() {
    let named = Field::new("element", DataType::Float32, true);
    let mut lists = DataType::Utf8;
    for _ in 0..7 {
        lists = list_of(lists);
    }
    let arrow = || profile(Profile::Arrow);
    assert!(is_built(arrow(), &[("v", lists.clone())]));
    for wrong in [
        DataType::Struct(Fields::empty()),
        list_of(DataType::Struct(Fields::empty())),
        DataType::FixedSizeList(Arc::new(named), 3),
        vector(0),
        vector(16_001),
        list_of(lists),
        DataType::Null,
        DataType::Date64,
        DataType::UInt16,
        DataType::Float16,
        DataType::Decimal128(5, -2),
        DataType::Decimal128(5, 6),
    ] {
        assert!(!is_built(arrow(), &[("v", wrong.clone())]), "{wrong}");
    }
}

#[test]
fn extension_types_are_known_by_name() {
    for (name, value, sent, list) in [
        ("citext", "A b", "412062", false),
        ("ltree", "a.b", "01612e62", false),
        ("lquery", "*.b", "012a2e62", false),
        ("ltxtquery", "a & b", "0161202620 62", false),
        (
            "_ltree",
            "{a.b}",
            "00000001 00000000 00004e20 00000001 00000001 00000004 01612e62",
            true,
        ),
        (
            "_citext",
            "{a}",
            "00000001 00000000 00004e20 00000001 00000001 00000001 61",
            true,
        ),
    ] {
        let of = |cell| {
            Stream::new()
                .session()
                .begin(0x1000, 700)
                .user_type(20_001, "public", name)
                .relation(
                    T,
                    "public",
                    "t",
                    ReplicaIdentity::Default,
                    &[("x", 20_001, -1, false)],
                )
                .insert(T, &[cell])
                .commit()
                .bytes()
        };
        for profile_name in PROFILES {
            let read = |cell| {
                let batches = run(profile(profile_name), &of(cell)).unwrap();
                batches[0].record_batch().clone()
            };
            let (from_text, from_binary) = (read(text(value)), read(binary(hex(sent))));
            assert_eq!(from_text, from_binary, "{name} in {profile_name:?}");
            let schema = from_text.schema();
            let is_list = matches!(schema.field(0).data_type(), DataType::List(_));
            assert_eq!(is_list, list && profile_name != Profile::Text);
            assert!(
                !schema
                    .field(0)
                    .metadata()
                    .contains_key("ARROW:extension:name")
            );
        }
    }
    let catalog = r#"{"types": [
        {"oid": 20000, "schema": "public", "name": "ltree", "kind": "base"},
        {"oid": 20001, "schema": "public", "name": "_ltree", "kind": "array", "element": 20000}
    ]}"#;
    let catalog = Arc::new(Catalog::from_json(catalog).unwrap());
    let builder = profile(Profile::Arrow).with_catalog(catalog);
    let sent = "00000001 00000000 00004e20 00000001 00000001 00000004 01612e62";
    let cells = [text("{a.b}"), binary(hex(sent))];
    let read = column(builder, (20_001, -1), &cells).unwrap();
    let lists = read.as_list::<i32>();
    assert_eq!(lists.value(0).as_string::<i32>().value(0), "a.b");
    assert_eq!(&lists.value(0), &lists.value(1));
}

/// Name, type modifier, Arrow types and values.
type Extended = (&'static str, i32, &'static str, &'static str, Values);
type Values = &'static [(&'static str, &'static str)];

#[rustfmt::skip]
const EXTENDED: &[Extended] = &[
    ("hstore", -1, HSTORE, HSTORE, &[
        (r#""a"=>"1", "b"=>NULL"#, "00000002 00000001 61 00000001 31 00000001 62 ffffffff"), ("", "00000000"),
        (r#""q\"\\"=>"""#, "00000001 00000003 71225c 00000000"),
    ]),
    ("vector", 2, "FixedSizeList(2 x Float32)", "List(Float32)", &[("[1,2.5]", "0002 0000 3f800000 40200000")]),
    ("vector", -1, "List(Float32)", "List(Float32)", &[
        ("[1,2.5]", "0002 0000 3f800000 40200000"), ("[-1]", "0001 0000 bf800000"),
    ]),
    ("halfvec", 2, "List(Float32)", "List(Float32)", &[("[1,2.5]", "0002 0000 3c00 4100")]),
    ("cube", -1, "Utf8", "Utf8", &[
        ("(1, 2)", "80000002 3ff0000000000000 4000000000000000"),
        ("(1),(2)", "00000001 3ff0000000000000 4000000000000000"),
    ]),
];
const HSTORE: &str =
    "Map(\"entries\": non-null Struct(\"key\": non-null Utf8, \"value\": Utf8), unsorted)";

#[test]
fn both_forms_of_an_extensions_type_give_the_same_arrays() {
    for (name_of, typmod, arrow, spark, values) in EXTENDED {
        let value = |(text, binary): &(&str, &str)| ((*text).to_owned(), hex(binary));
        let values: Vec<_> = values.iter().map(value).collect();
        for (profile_name, expected) in PROFILES.into_iter().zip([*arrow, *spark, "Utf8"]) {
            let builder = || profile(profile_name);
            let [texts, binaries] = cells(&values)
                .map(|cells| extended(builder(), (name_of, *typmod), &cells).unwrap());
            assert_eq!(&texts, &binaries, "{name_of}");
            assert_eq!(name(texts.data_type()), expected, "{name_of}");
            assert!(texts.is_null(values.len()) && texts.null_count() == 1);
            if profile_name == Profile::Text {
                let strings: Vec<_> = texts.as_string::<i32>().iter().flatten().collect();
                let expected: Vec<_> = values.iter().map(|(text, _)| &**text).collect();
                assert_eq!(strings, expected);
            }
            // What was written down is what can be asked for.
            let asked = || builder().with_type("x", texts.data_type().clone());
            let [asked, _] =
                cells(&values).map(|cells| extended(asked(), (name_of, *typmod), &cells).unwrap());
            assert_eq!(&asked, &texts, "{name_of}");
        }
    }
}

#[test]
fn vectors_have_as_many_numbers_as_the_column_says() {
    let cells = [null(), text("[1,2.5]"), null()];
    let read = extended(profile(Profile::Arrow), ("vector", 2), &cells).unwrap();
    let read = read.as_fixed_size_list();
    let values = read.value(1);
    assert_eq!(values.as_primitive::<Float32Type>().values(), &[1.0, 2.5]);
    assert_eq!((read.len(), read.null_count()), (3, 2));
    for cell in [text("[1]"), binary(hex("0001 0000 3f800000"))] {
        let error = extended(profile(Profile::Arrow), ("vector", 2), &[cell]).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Malformed { .. }),
            "{error}"
        );
    }
    // More than any column of the extension's has.
    for typmod in [0, 16_001, i32::MAX] {
        let read = extended(profile(Profile::Arrow), ("vector", typmod), &cells).unwrap();
        assert_eq!(name(read.data_type()), "List(Float32)");
    }
}

#[test]
fn maps_are_null_as_a_whole() {
    let cells = [
        text(r#""a"=>"1", "b"=>NULL"#),
        binary(hex("00000001 00000001 ff 00000001 31")),
        binary(hex("00000001 00000001 61 00000001 ff")),
    ];
    let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
    let read = extended(builder, ("hstore", -1), &cells).unwrap();
    let maps = read.as_map();
    assert_eq!(
        maps.iter().map(|map| map.is_some()).collect::<Vec<_>>(),
        [true, false, false]
    );
    assert_eq!(
        maps.keys().as_string::<i32>().iter().collect::<Vec<_>>(),
        [Some("a"), Some("b")]
    );
    let values: Vec<_> = maps.values().as_string::<i32>().iter().collect();
    assert_eq!(values, [Some("1"), None]);
}

#[test]
fn a_catalog_knows_enums_and_ranges() {
    let catalog = r#"{"types": [
        {"oid": 20000, "schema": "public", "name": "mood", "kind": "enum", "labels": ["sad", "ok"]},
        {"oid": 20001, "schema": "public", "name": "_mood", "kind": "array", "element": 20000},
        {"oid": 20002, "schema": "public", "name": "floatrange", "kind": "range", "subtype": 701},
        {"oid": 20003, "schema": "public", "name": "floatmultirange", "kind": "multirange", "range": 20002}
    ]}"#;
    let catalog = Arc::new(Catalog::from_json(catalog).unwrap());
    let one = "12 00000008 3ff8000000000000";
    for (oid, string, sent, arrow) in [
        (20_000, "ok", "6f6b", "Utf8"),
        (
            20_001,
            "{ok}",
            "00000001 00000000 00004e20 00000001 00000001 00000002 6f6b",
            "List(Utf8)",
        ),
        (20_002, "[1.5,)", one, range!("Float64")),
        (
            20_003,
            "{[1.5,)}",
            &format!("00000001 0000000d {one}"),
            concat!("List(", range!("Float64"), ")"),
        ),
    ] {
        for profile_name in PROFILES {
            let builder = || profile(profile_name).with_catalog(Arc::clone(&catalog));
            let [from_text, from_binary] = [text(string), binary(hex(sent))]
                .map(|cell| column(builder(), (oid, -1), &[cell]).unwrap());
            assert_eq!(&from_text, &from_binary, "{oid} in {profile_name:?}");
            if profile_name == Profile::Arrow {
                assert_eq!(name(from_text.data_type()), arrow);
            }
        }
    }
}

fn any_type() -> impl Strategy<Value = (u32, i32)> {
    let all: Vec<_> = TYPES
        .iter()
        .flat_map(|of| [(of.oid, of.typmod), (of.array, of.typmod)])
        .collect();
    (prop::sample::select(all), prop::bool::ANY)
        .prop_map(|((oid, typmod), free)| (oid, if free { -1 } else { typmod }))
}

/// Bytes that look like some type's.
fn any_cell() -> impl Strategy<Value = Vec<u8>> {
    let real: Vec<_> = TYPES
        .iter()
        .flat_map(|of| {
            let (text, sent) = array(of);
            let pairs = values(of).into_iter().chain([(text, sent)]);
            pairs.flat_map(|(text, sent)| [text.into_bytes(), sent])
        })
        .collect();
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        (
            prop::sample::select(real),
            any::<prop::sample::Index>(),
            any::<u8>(),
            0..4_u8
        )
            .prop_map(|(mut cell, place, byte, change)| {
                if let Some(at) = (!cell.is_empty()).then(|| place.index(cell.len())) {
                    match change {
                        0 => cell[at] = byte,
                        1 => cell.truncate(at),
                        2 => cell.insert(at, byte),
                        _ => {}
                    }
                }
                cell
            }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn no_bytes_do_harm(
        of in any_type(),
        cells in proptest::collection::vec(any_cell(), 1..4),
        profile_at in 0..3_usize,
        nulls: bool,
    ) {
        for form in [text, binary] {
            let policy = if nulls { OnUnrepresentable::Null } else { OnUnrepresentable::Error };
            let builder = profile(PROFILES[profile_at]).with_unrepresentable(policy);
            let cells: Vec<_> = cells.iter().map(form).collect();
            // Rows, or an error that is the cell's and not the library's own.
            if let Err(error) = run(builder, &stream(of.0, of.1, &cells)) {
                let own = matches!(error.kind(), ErrorKind::Malformed { .. } | ErrorKind::Unrepresentable { .. });
                prop_assert!(own, "{}", error);
            }
        }
    }
}
