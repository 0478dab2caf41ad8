//! Every scalar type, and the arrays of it: text and binary in all profiles.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::cells;

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use cells::{PROFILES, T, cells, column, decode, extended, name, profile, run, stream};
use proptest::prelude::*;
use std::sync::Arc;
use walrow_arrow::{DecoderBuilder, ErrorKind, OnUnrepresentable, Profile};
use walrow_stream::Catalog;
use walrow_testkit::{
    OwnedCell, Stream, TypeCase, TypeCases, binary, hex, null, text, type_cases, type_catalog,
};
use walrow_wire::ReplicaIdentity;

/// A type, and values that have both forms.
struct Type {
    of: TypeCases,
    values: Vec<(String, Vec<u8>)>,
}

/// The types of `tests/type_cases`, in their default layout.
fn types() -> Vec<Type> {
    let types = type_cases().into_iter().filter(|of| !of.is_asked);
    types
        .map(|of| Type {
            values: values(&of, |_| true),
            of,
        })
        .collect()
}

fn values(of: &TypeCases, is_wanted: impl Fn(&TypeCase) -> bool) -> Vec<(String, Vec<u8>)> {
    let wanted = of
        .cases
        .iter()
        .filter(|case| case.is_pinned && is_wanted(case));
    let both = |case: &TypeCase| Some((case.text.clone(), case.binary.clone()?));
    wanted.filter_map(both).collect()
}

/// The type as pyarrow writes it.
fn arrow_name(of: &DataType) -> String {
    let fields = |fields: &Fields| {
        let one =
            |field: &Arc<Field>| format!("{}: {}", field.name(), arrow_name(field.data_type()));
        fields.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    match of {
        DataType::Boolean => "bool".to_owned(),
        DataType::Float16 => "halffloat".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Utf8 => "string".to_owned(),
        DataType::Date32 => "date32[day]".to_owned(),
        DataType::Time64(TimeUnit::Microsecond) => "time64[us]".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "timestamp[us]".to_owned(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => {
            format!("timestamp[us, tz={zone}]")
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => "month_day_nano_interval".to_owned(),
        DataType::FixedSizeBinary(size) => format!("fixed_size_binary[{size}]"),
        DataType::List(item) => format!("list<{}>", arrow_name(item.data_type())),
        DataType::FixedSizeList(item, size) => {
            format!("fixed_size_list<{}>[{size}]", arrow_name(item.data_type()))
        }
        DataType::Struct(of) => format!("struct<{}>", fields(of)),
        DataType::Map(entries, _) => arrow_name(entries.data_type())
            .replacen("struct<key: ", "map<", 1)
            .replacen(", value: ", ", ", 1),
        other => other.to_string().to_lowercase(),
    }
}

/// The type as Spark writes it.
fn spark_name(of: &DataType) -> String {
    match of {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(_, None) => "timestamp_ntz".to_owned(),
        DataType::Timestamp(_, Some(_)) => "timestamp".to_owned(),
        DataType::Decimal128(precision, scale) => format!("decimal({precision},{scale})"),
        DataType::List(item) => format!("array<{}>", spark_name(item.data_type())),
        DataType::Struct(fields) => {
            let one =
                |field: &Arc<Field>| format!("{}:{}", field.name(), spark_name(field.data_type()));
            format!(
                "struct<{}>",
                fields.iter().map(one).collect::<Vec<_>>().join(",")
            )
        }
        DataType::Map(..) => arrow_name(of).replace(' ', ""),
        other => arrow_name(other),
    }
}

fn builder(profile_name: Profile) -> DecoderBuilder {
    let catalog = Catalog::from_json(&type_catalog()).unwrap();
    profile(profile_name).with_catalog(Arc::new(catalog))
}

/// Checks that both forms give equal arrays, which have these types in Arrow and Spark.
fn check(
    (oid, typmod): (u32, i32),
    values: impl Fn(Profile) -> Vec<(String, Vec<u8>)>,
    [arrow, spark]: [&str; 2],
    what: &str,
) {
    for profile_name in PROFILES {
        let values = values(profile_name);
        let [texts, binaries] = cells(&values);
        let read = |cells| {
            decode(builder(profile_name), (oid, typmod), cells)
                .unwrap_or_else(|error| panic!("{what} in {profile_name:?}: {error}"))
        };
        let (from_text, from_binary) = (read(&texts), read(&binaries));
        let what = format!("{what} in {profile_name:?}");
        assert_eq!(from_text, from_binary, "{what}");
        let data_type = from_text.schema().field(0).data_type().clone();
        match profile_name {
            Profile::Arrow => assert_eq!(arrow_name(&data_type), arrow, "{what}"),
            Profile::Spark => assert_eq!(spark_name(&data_type), spark, "{what}"),
            _ => assert_eq!(data_type, DataType::Utf8, "{what}"),
        }
        assert_eq!(from_text.column(0).null_count(), 1, "{what}");
        if profile_name == Profile::Text {
            let strings = from_text.column(0).as_string::<i32>();
            for (row, (text, _)) in values.iter().enumerate() {
                assert_eq!(strings.value(row), text, "{what}");
            }
        }
    }
}

fn held_by(profile_name: Profile) -> impl Fn(&TypeCase) -> bool {
    move |case| match (&case.only, profile_name) {
        (None, _) | (_, Profile::Text) => true,
        (Some(only), Profile::Spark) => only == "spark",
        (Some(only), _) => only == "arrow",
    }
}

#[test]
fn both_forms_of_every_type_give_the_same_arrays() {
    let mut checked = 0;
    for Type { of, values: all } in types() {
        let Some(spark) = &of.spark else { continue };
        let held = |profile_name| values(&of, held_by(profile_name));
        check((of.oid, of.typmod), held, [&of.arrow, spark], &of.name);
        checked += all.len();
    }
    assert!(checked > 250, "{checked} values");
}

/// The array as the server writes and sends it: a null after each element.
fn array(of: &Type) -> (String, Vec<u8>) {
    let mut text = "{".to_owned();
    let delimiter = match &*of.of.name {
        "box" => ';',
        name if name.starts_with("geo") => ':',
        _ => ',',
    };
    let count = i32::try_from(2 * of.values.len()).unwrap();
    let mut sent = Vec::new();
    for word in [1, 1, of.of.oid.cast_signed(), count, 1] {
        sent.extend_from_slice(&word.to_be_bytes());
    }
    for (value, bytes) in &of.values {
        let special = |c: char| c == delimiter || "{}\"\\ \t\n\r\x0b\x0c".contains(c);
        if value.is_empty() || value.eq_ignore_ascii_case("null") || value.contains(special) {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"");
            text.extend(["\"", &value, "\""]);
        } else {
            text += value;
        }
        text.push(delimiter);
        text += "NULL";
        text.push(delimiter);
        sent.extend_from_slice(&i32::try_from(bytes.len()).unwrap().to_be_bytes());
        sent.extend_from_slice(bytes);
        sent.extend_from_slice(&(-1_i32).to_be_bytes());
    }
    text.pop();
    text.push('}');
    (text, sent)
}

#[test]
fn both_forms_of_every_array_give_the_same_lists() {
    let mut checked = 0;
    for of in types().iter().filter(|of| of.of.array != 0) {
        // Values that one profile cannot hold have a test of their own. Arrays of a domain over
        // arrays are not lists.
        if of.of.cases.iter().any(|case| case.only.is_some()) || of.of.name == "scores" {
            continue;
        }
        // The binary form of such a type is unknown.
        if of.of.oid >= 16_384 && of.values.is_empty() {
            continue;
        }
        let mut empty = vec![0; 8];
        empty.extend_from_slice(&of.of.oid.to_be_bytes());
        let mut values = vec![("{}".to_owned(), empty)];
        if !of.values.is_empty() {
            values.push(array(of));
            checked += 1;
        }
        let spark = of.of.spark.as_deref().unwrap();
        let names = [format!("list<{}>", of.of.arrow), format!("array<{spark}>")];
        let what = format!("{}[]", of.of.name);
        let names = [&*names[0], &*names[1]];
        check(
            (of.of.array, of.of.typmod),
            |_| values.clone(),
            names,
            &what,
        );
    }
    assert!(checked > 70, "{checked} types");
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
    let vector = ["1 2 3", "5", ""].into_iter().zip([
        "00000001 00000000 00000015 00000003 00000000 00000002 0001 00000002 0002 00000002 0003",
        "00000001 00000000 00000015 00000001 00000000 00000002 0005",
        "00000001 00000000 00000015 00000000 00000000",
    ]);
    let vector: Vec<_> = vector
        .map(|(text, sent)| (text.to_owned(), hex(sent)))
        .collect();
    let [texts, binaries] = cells(&vector);
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
fn values_have_the_meaning_of_their_text() {
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
    let written = text("1 year 2 mons -3 days +04:05:06.789");
    let written = column(spark(), (1186, -1), &[written]).unwrap();
    assert_eq!(written.as_struct(), parts);
    let timetz = column(arrow(), (1266, -1), &[text("04:05:06.789-08")]).unwrap();
    assert_eq!(timetz.as_string::<i32>().value(0), "04:05:06.789-08:00");
    let timetz = column(spark(), (1266, -1), &[text("04:05:06.789-08")]).unwrap();
    assert_eq!(timetz.as_string::<i32>().value(0), "04:05:06.789-08");
}

/// A schema that one run's batches have gives the next run the same batches.
#[test]
fn a_types_default_arrow_type_can_be_asked_for() {
    let mut asked_for = 0;
    for of in &types() {
        for (oid, is_array) in [(of.of.oid, false), (of.of.array, true)] {
            for profile_name in PROFILES {
                let held = values(&of.of, held_by(profile_name));
                // `types` with binary means PostGIS's own EWKB, not the default.
                if of.of.name.starts_with("geo") || of.of.name == "scores" {
                    continue;
                }
                if oid == 0 || held.is_empty() || (is_array && held.len() < of.values.len()) {
                    continue;
                }
                let values = if is_array { vec![array(of)] } else { held };
                for cells in cells(&values) {
                    let chosen =
                        column(builder(profile_name), (oid, of.of.typmod), &cells).unwrap();
                    let asked = builder(profile_name).with_type("x", chosen.data_type().clone());
                    let asked = column(asked, (oid, of.of.typmod), &cells).unwrap();
                    assert_eq!(&asked, &chosen, "{} in {profile_name:?}", of.of.name);
                    asked_for += 1;
                }
            }
        }
    }
    assert!(asked_for > 500, "{asked_for}");
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
        matches!(error.kind(), ErrorKind::Unrepresentable(_)),
        "{error}"
    );
    error.to_string()
}

#[test]
fn values_that_a_type_cannot_hold_are_errors_with_remedies() {
    let (arrow, spark) = (|| profile(Profile::Arrow), || profile(Profile::Spark));
    let string = "types = string for public.t.x";
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
            error.contains("types = decimal128(19, 2) for public.t.x"),
            "{error}"
        );
        let query = binary(hex("00000001 01 00 00 6100"));
        let error = refused(profile(profile_name), (3615, -1), query);
        assert!(error.contains("types = binary for public.t.x"), "{error}");
    }
    for style in ["@ 1 day", "+1-2 -3 +4:05:06.789"] {
        let error = column(arrow(), (1186, -1), &[text(style)]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed { .. }));
        assert!(error.to_string().contains("IntervalStyle"), "{error}");
    }
}

#[test]
fn ranges_distinguish_unbounded_infinite_and_empty() {
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

/// A null bound would mean an unbounded range.
#[test]
fn a_bound_that_cannot_be_held_makes_the_range_null() {
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
            let string = "types = string for public.t.x";
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
    // The sentinel's own moment cannot be held with the policy `Sentinel`.
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
    // In an array, only the element becomes null.
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

/// NaNs with a sign come from `-('NaN'::float8)` and `'Infinity'::float8 * 0`.
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
fn money_is_a_decimal_of_the_scale_that_types_names() {
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
    // The bytes alone would lose the number of bits.
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

/// Whether the options accept these types. Otherwise their error lists the supported types.
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
                text.contains("it can become") || text.contains("no column can have this type"),
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
fn types_that_an_extension_rules_out_are_refused_at_once() {
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
                // A column may have the name of a type, and a type the name of a column.
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
            && error
                .ends_with("; citext is a type here: the key of a column begins with its table"),
        "{error}"
    );
}

fn hstore() -> DataType {
    let read = extended(profile(Profile::Arrow), ("hstore", -1), &[null()]);
    read.unwrap().data_type().clone()
}

#[test]
fn types_that_the_catalog_rules_out_are_refused_at_once() {
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
            // Two schemas have a type of this name; one supports the conversion.
            ("price", decimal.clone(), true),
            ("price", DataType::Int32, false),
            ("flag", DataType::Boolean, true),
            ("flag", DataType::Int16, false),
            // A type of an extension and a domain have this name.
            ("cube", DataType::Int32, true),
            ("cube", DataType::Boolean, false),
            // The name of a column, and then of a type.
            ("colour", DataType::Int64, true),
            ("colour", DataType::Boolean, false),
            ("pair", pair(DataType::Binary), true),
            ("pair", pair(DataType::Int32), false),
            ("pair", DataType::Int32, false),
            // Columns of one table or of several.
            ("public.t.v", DataType::Int32, false),
            ("public.t.v", DataType::Binary, true),
            ("t.v", DataType::Int32, false),
            ("t.n", DataType::Int64, true),
            ("t.n", DataType::Boolean, false),
            ("other.t.n", DataType::Int64, false),
            ("t.colour", DataType::Int64, true),
            ("t.colour", DataType::Int32, false),
            // A column whose name contains a dot.
            ("t.w", DataType::Int32, true),
            ("t.w", DataType::Boolean, false),
            // The catalog does not contain these.
            ("public.t.u", DataType::Int32, true),
            ("public.t.x", DataType::Int32, true),
            ("third.t.v", DataType::Int32, true),
            ("v", DataType::Int32, true),
            ("n", DataType::Boolean, true),
        ] {
            let built = is_built(builder(), &[(key, data_type.clone())]);
            assert_eq!(built, expected, "{key}: {data_type} in {profile_name:?}");
        }
        // Longer keys name the columns of both tables, so the short key is for another table.
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
fn types_that_no_column_can_have_are_refused() {
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

/// Without a catalog, the Type message's name says what the type is.
#[test]
fn both_forms_of_an_extensions_type_give_the_same_arrays() {
    let mut checked = 0;
    for Type { of, values } in types() {
        let named = of.name.split('(').next().unwrap_or_default();
        let known = [
            "hstore",
            "vector",
            "halfvec",
            "sparsevec",
            "cube",
            "geometry",
            "geography",
        ];
        if !known.contains(&named) || values.is_empty() {
            continue;
        }
        for profile_name in PROFILES {
            let read = |cells: &[OwnedCell], wanted: Option<&DataType>| {
                let builder = profile(profile_name);
                let builder = match wanted {
                    Some(wanted) => builder.with_type("x", wanted.clone()),
                    None => builder,
                };
                extended(builder, (named, of.typmod), cells).unwrap()
            };
            let [texts, binaries] = cells(&values);
            let from_text = read(&texts, None);
            assert_eq!(&from_text, &read(&binaries, None), "{named}");
            match profile_name {
                Profile::Arrow => assert_eq!(arrow_name(from_text.data_type()), of.arrow),
                Profile::Spark => {
                    assert_eq!(Some(spark_name(from_text.data_type())), of.spark, "{named}");
                }
                _ => {
                    let found: Vec<_> = from_text.as_string::<i32>().iter().flatten().collect();
                    let expected: Vec<_> = values.iter().map(|(text, _)| &**text).collect();
                    assert_eq!(found, expected);
                }
            }
            assert!(from_text.is_null(values.len()) && from_text.null_count() == 1);
            // `types` accepts the Arrow type of the default, except for geometries.
            if !named.starts_with("geo") {
                assert_eq!(
                    &read(&texts, Some(from_text.data_type())),
                    &from_text,
                    "{named}"
                );
            }
        }
        checked += 1;
    }
    assert!(checked > 8, "{checked} types");
}

#[test]
fn vectors_have_the_dimension_of_their_column() {
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
    // More than any column of the extension can have.
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
    let all: Vec<_> = types()
        .iter()
        .flat_map(|Type { of, .. }| [(of.oid, of.typmod), (of.array, of.typmod)])
        .collect();
    (prop::sample::select(all), prop::bool::ANY)
        .prop_map(|((oid, typmod), free)| (oid, if free { -1 } else { typmod }))
}

/// Bytes that look like a value of some type.
fn any_cell() -> impl Strategy<Value = Vec<u8>> {
    let real: Vec<_> = types()
        .iter()
        .flat_map(|of| {
            let (text, sent) = array(of);
            let pairs = of.values.clone().into_iter().chain([(text, sent)]);
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
    fn arbitrary_cells_never_panic(
        of in any_type(),
        cells in proptest::collection::vec(any_cell(), 1..4),
        profile_at in 0..3_usize,
        nulls: bool,
    ) {
        for form in [text, binary] {
            let policy = if nulls { OnUnrepresentable::Null } else { OnUnrepresentable::Error };
            let builder = profile(PROFILES[profile_at]).with_unrepresentable(policy);
            let cells: Vec<_> = cells.iter().map(form).collect();
            // Rows, or an error of the cell, never an internal error.
            if let Err(error) = run(builder, &stream(of.0, of.1, &cells)) {
                let own = matches!(error.kind(), ErrorKind::Malformed { .. } | ErrorKind::Unrepresentable(_));
                prop_assert!(own, "{}", error);
            }
        }
    }
}
