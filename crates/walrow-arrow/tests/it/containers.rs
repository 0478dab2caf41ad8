//! Composites, arrays of arrays, sparse vectors, geometries; and other layouts of the same values.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::cells;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal256Type, Float16Type, Float32Type, Float64Type, Int32Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use cells::{PROFILES, cells, column, extended, name, profile};
use chrono::NaiveDate;
use proptest::prelude::*;
use std::sync::Arc;
use walrow_arrow::{DecoderBuilder, Error, ErrorKind, OnUnrepresentable, Profile};
use walrow_stream::{Catalog, Encoding, Remedy};
use walrow_testkit::{OwnedCell, Stream, binary, hex, text};
use walrow_wire::ReplicaIdentity;

fn catalog() -> Arc<Catalog> {
    let catalog = r#"{"types": [
        {"oid": 20000, "schema": "public", "name": "comp", "kind": "composite", "attributes": [
            {"name": "a", "type": 23}, {"name": "b", "type": 25},
            {"name": "c", "type": 1700, "type_modifier": 655366}]},
        {"oid": 20001, "schema": "public", "name": "_comp", "kind": "array", "element": 20000},
        {"oid": 20002, "schema": "public", "name": "outer", "kind": "composite", "attributes": [
            {"name": "inner", "type": 20000}, {"name": "list", "type": 1007}]},
        {"oid": 20003, "schema": "public", "name": "none", "kind": "composite", "attributes": []},
        {"oid": 20005, "schema": "public", "name": "half", "kind": "composite", "attributes": [
            {"name": "x", "type": 23}, {"name": "y", "type": 29999}]}
    ]}"#;
    Arc::new(Catalog::from_json(catalog).unwrap())
}

fn with_catalog(of: Profile) -> DecoderBuilder {
    profile(of).with_catalog(catalog())
}

fn list(item: DataType) -> DataType {
    DataType::List(Arc::new(Field::new("item", item, true)))
}

fn malformed(result: Result<ArrayRef, Error>) -> String {
    let error = result.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Malformed { .. }),
        "{error}"
    );
    error.to_string()
}

fn unrepresentable(result: Result<ArrayRef, Error>) -> String {
    let error = result.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Unrepresentable(_)),
        "{error}"
    );
    error.to_string()
}

const COMP: &str = "Struct(\"a\": Int32, \"b\": Utf8, \"c\": Decimal128(10, 2))";
/// `row(7, 'x y', 1.50)::comp`, as PostgreSQL 18.4 sends it, with made-up OIDs.
const ROW: &str = "00000003 00000017 00000004 00000007 00000019 00000003 782079 \
                   000006a4 0000000c 0002 0000 0000 0002 0001 1388";

#[test]
fn composites_are_structs_in_both_forms() {
    let nulls = "00000003 00000017 ffffffff 00000019 ffffffff 000006a4 ffffffff";
    let one_comp = format!("00000001 00000000 00004e20 00000001 00000001 0000002f {ROW}");
    let outer = format!(
        "00000002 00004e20 0000002f {ROW} 000003ef 0000001c \
         00000001 00000000 00000017 00000001 00000001 00000004 00000005"
    );
    assert_eq!(hex(ROW).len(), 0x2f);
    for (oid, string, sent, arrow) in [
        (20_000, r#"(7,"x y",1.50)"#, ROW, COMP.to_owned()),
        (20_000, "(,,)", nulls, COMP.to_owned()),
        (
            20_001,
            r#"{"(7,\"x y\",1.50)"}"#,
            &one_comp,
            format!("List({COMP})"),
        ),
        (
            20_002,
            r#"("(7,""x y"",1.50)",{5})"#,
            &outer,
            format!("Struct(\"inner\": {COMP}, \"list\": List(Int32))"),
        ),
        (20_003, "()", "00000000", "Utf8".to_owned()),
    ] {
        for profile_name in PROFILES {
            let values = [(string.to_owned(), hex(sent))];
            let [from_text, from_binary] = cells(&values)
                .map(|cells| column(with_catalog(profile_name), (oid, -1), &cells).unwrap());
            assert_eq!(&from_text, &from_binary, "{string} in {profile_name:?}");
            assert_eq!((from_text.len(), from_text.null_count()), (2, 1));
            if profile_name == Profile::Text {
                assert_eq!(from_text.as_string::<i32>().value(0), string);
            } else {
                assert_eq!(name(from_text.data_type()), arrow, "in {profile_name:?}");
            }
        }
    }
    let read = column(
        with_catalog(Profile::Arrow),
        (20_000, -1),
        &[text("(7,,1.5)")],
    )
    .unwrap();
    let read = read.as_struct();
    assert_eq!(read.column(0).as_primitive::<Int32Type>().value(0), 7);
    assert!(read.column(1).is_null(0) && !read.is_null(0));
}

#[test]
fn a_composite_is_what_the_catalog_says() {
    let read = |cell: OwnedCell| column(with_catalog(Profile::Arrow), (20_000, -1), &[cell]);
    let null = || with_catalog(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
    for cell in [
        text("(7,x)"),
        text("(7,x,1,2)"),
        // The first attribute is an integer.
        text("(x,7)"),
        binary(hex("00000002 00000017 ffffffff 00000019 ffffffff")),
        binary(hex(
            "00000003 00000017 ffffffff 00000019 ffffffff 00000017 ffffffff",
        )),
    ] {
        let is_binary = matches!(cell, OwnedCell::Binary(_));
        let error = unrepresentable(read(cell.clone()));
        assert!(error.contains("catalog"), "{error}");
        let form = if is_binary { "binary" } else { "string" };
        assert!(error.contains(form), "{error}");
        assert!(column(null(), (20_000, -1), &[cell]).unwrap().is_null(0));
    }
    // What follows other attributes is not skipped.
    for cell in ["(7,x", "(7,x,1,2)3", "(7,\"x)"] {
        malformed(column(null(), (20_000, -1), &[text(cell)]));
    }
    // If a part does not fit, the whole value does not.
    let nan = column(null(), (20_000, -1), &[text("(7,x,NaN)"), text("(7,x,1)")]).unwrap();
    assert!(nan.is_null(0) && !nan.is_null(1));
    assert!(unrepresentable(read(text("(7,x,NaN)"))).contains("NaN"));
}

#[test]
fn an_attribute_of_unknown_type_is_text() {
    let read = |cell| column(with_catalog(Profile::Arrow), (20_005, -1), &[cell]);
    let known = read(text("(1,{x})")).unwrap();
    assert_eq!(name(known.data_type()), "Struct(\"x\": Int32, \"y\": Utf8)");
    let sent = "00000002 00000017 00000004 00000001 0000752f 00000001 78";
    assert!(unrepresentable(read(binary(hex(sent)))).contains("catalog"));
}

#[test]
fn a_composites_types_can_be_asked_for() {
    let fields = |names: [&str; 3]| {
        let types = [
            DataType::Int64,
            DataType::Utf8View,
            DataType::Decimal128(12, 3),
        ];
        let fields = names.into_iter().zip(types);
        DataType::Struct(
            fields
                .map(|(name, it)| Field::new(name, it, true))
                .collect(),
        )
    };
    let builder = with_catalog(Profile::Arrow).with_type("comp", fields(["a", "b", "c"]));
    let read = column(builder, (20_000, -1), &[text("(7,x,1.5)")]).unwrap();
    assert_eq!(read.data_type(), &fields(["a", "b", "c"]));
    assert_eq!(read.as_struct().column(1).as_string_view().value(0), "x");
    let builder = with_catalog(Profile::Arrow).with_type("comp", fields(["a", "b", "d"]));
    let error = column(builder, (20_000, -1), &[text("(7,x,1.5)")]).unwrap_err();
    assert!(error.to_string().contains("by their names"), "{error}");
}

/// `'{{1,2},{3,NULL}}'::int[]`
const MATRIX: &str = "00000002 00000001 00000017 00000002 00000001 00000002 00000001 \
    00000004 00000001 00000004 00000002 00000004 00000003 ffffffff";

#[test]
fn arrays_of_arrays_are_lists_of_lists_where_asked_for() {
    let two = || profile(Profile::Arrow).with_type("_int4", list(list(DataType::Int32)));
    let shifted = MATRIX.replacen(
        "00000002 00000001 00000002 00000001",
        "00000002 00000000 00000002 00000005",
        1,
    );
    let values = [
        ("{{1,2},{3,NULL}}".to_owned(), hex(MATRIX)),
        ("[0:1][5:6]={{1,2},{3,NULL}}".to_owned(), hex(&shifted)),
        ("{}".to_owned(), hex("00000000 00000000 00000017")),
    ];
    let [from_text, from_binary] =
        cells(&values).map(|cells| column(two(), (1007, -1), &cells).unwrap());
    assert_eq!(&from_text, &from_binary);
    let rows = from_text.as_list::<i32>();
    assert_eq!(rows.value_length(2), 0);
    for row in [0, 1] {
        let matrix = rows.value(row);
        let matrix = matrix.as_list::<i32>();
        assert_eq!(matrix.len(), 2);
        let (first, second) = (matrix.value(0), matrix.value(1));
        assert_eq!(first.as_primitive::<Int32Type>().values(), &[1, 2]);
        let second = second.as_primitive::<Int32Type>();
        assert_eq!((second.value(0), second.is_null(1)), (3, true));
    }
    // Arrays of other dimensions do not fit, in both forms.
    let flat = "00000001 00000000 00000017 00000001 00000001 00000004 00000001";
    for cell in [text("{1}"), binary(hex(flat)), text("{{{1}}}")] {
        assert!(unrepresentable(column(two(), (1007, -1), &[cell])).contains("dimensions"));
    }
    let one = || profile(Profile::Arrow);
    for cell in [text("{{1,2},{3,NULL}}"), binary(hex(MATRIX))] {
        assert!(unrepresentable(column(one(), (1007, -1), &[cell])).contains("dimensions"));
    }
    // What no server writes.
    for cell in [
        "{{1,2},{3}}",
        "{{1},{2}",
        "{{1}{2}}",
        "{{1},}",
        "[1:3][1:1]={{1},{2}}",
        "{{}}",
        "{{1}},{{2}}",
        "{{1},2}",
    ] {
        let result = column(two(), (1007, -1), &[text(cell)]);
        let error = result.unwrap_err();
        let wrong = matches!(
            error.kind(),
            ErrorKind::Malformed { .. } | ErrorKind::Unrepresentable(_)
        );
        assert!(wrong, "{cell}: {error}");
    }
    let null = two().with_unrepresentable(OnUnrepresentable::Null);
    let read = column(
        null,
        (1007, -1),
        &[text("{1}"), text("{{7}}"), text("{{{1}}}")],
    )
    .unwrap();
    assert_eq!(
        (read.is_null(0), read.is_null(1), read.is_null(2)),
        (true, false, true)
    );
    let rest = read.as_list::<i32>().value(1);
    assert_eq!(
        rest.as_list::<i32>()
            .value(0)
            .as_primitive::<Int32Type>()
            .values(),
        &[7]
    );
}

#[test]
fn six_dimensions_are_six_lists() {
    let mut data_type = DataType::Utf8;
    for _ in 0..6 {
        data_type = list(data_type);
    }
    let builder = profile(Profile::Arrow).with_type("x", data_type.clone());
    let read = column(builder, (1009, -1), &[text(r#"{{{{{{"a,\"}",NULL}}}}}}"#)]).unwrap();
    let mut inner = read;
    for _ in 0..6 {
        inner = inner.as_list::<i32>().value(0);
    }
    assert_eq!(inner.as_string::<i32>().value(0), "a,\"}");
    assert!(inner.is_null(1));
    let seven = profile(Profile::Arrow).with_type("x", list(data_type));
    assert!(column(seven, (1009, -1), &[text("{}")]).is_err());
}

#[test]
fn sparse_vectors_count_from_zero() {
    let values = [(
        "{1:1.5,3:-2}/5".to_owned(),
        hex("00000005 00000002 00000000 00000000 00000002 3fc00000 c0000000"),
    )];
    for profile_name in PROFILES {
        let [from_text, from_binary] = cells(&values)
            .map(|cells| extended(profile(profile_name), ("sparsevec", -1), &cells).unwrap());
        assert_eq!(&from_text, &from_binary);
        if profile_name == Profile::Text {
            assert_eq!(from_text.as_string::<i32>().value(0), values[0].0);
            continue;
        }
        let read = from_text.as_struct();
        assert_eq!(read.column(0).as_primitive::<Int32Type>().value(0), 5);
        let (indices, numbers) = (
            read.column(1).as_list::<i32>(),
            read.column(2).as_list::<i32>(),
        );
        assert_eq!(
            indices.value(0).as_primitive::<Int32Type>().values(),
            &[0, 2]
        );
        assert_eq!(
            numbers.value(0).as_primitive::<Float32Type>().values(),
            &[1.5, -2.0]
        );
        // `types` accepts the Arrow type of the default.
        let asked = profile(profile_name).with_type("x", from_text.data_type().clone());
        let [texts, _] = cells(&values);
        assert_eq!(
            &extended(asked, ("sparsevec", -1), &texts).unwrap(),
            &from_text
        );
    }
}

/// `SRID=4326;POINT Z (1 2 3)` as `PostGIS` 3.3 writes it.
const POINT_Z: &str = "01010000A0E6100000000000000000F03F00000000000000400000000000000840";
const POINT_Z_ISO: &str = "01e9030000000000000000f03f00000000000000400000000000000840";
/// Of geometry(PointZ,4326).
const TYPMOD: i32 = 1_107_462;

#[test]
fn geometries_are_iso_wkb_of_their_columns_system() {
    let values = [(POINT_Z.to_owned(), hex(POINT_Z))];
    let both = |builder: &dyn Fn() -> DecoderBuilder, of: (&str, i32)| {
        let [from_text, from_binary] =
            cells(&values).map(|cells| extended(builder(), of, &cells).unwrap());
        assert_eq!(&from_text, &from_binary, "{of:?}");
        from_text
    };
    for profile_name in [Profile::Arrow, Profile::Spark] {
        for of in [
            ("geometry", TYPMOD),
            ("geography", -1),
            ("geography", TYPMOD),
        ] {
            let read = both(&|| profile(profile_name), of);
            assert_eq!(read.as_binary::<i32>().value(0), hex(POINT_Z_ISO));
        }
    }
    let read = both(&|| profile(Profile::Text), ("geometry", -1));
    assert_eq!(read.as_string::<i32>().value(0), POINT_Z);
    // A column without an SRID has no place for the SRID of a value.
    for cell in [text(POINT_Z), binary(hex(POINT_Z))] {
        let result = extended(profile(Profile::Arrow), ("geometry", -1), &[cell]);
        assert!(unrepresentable(result).contains("SRID"));
    }
    let ewkb = || profile(Profile::Arrow).with_type("geometry", DataType::Binary);
    assert_eq!(
        both(&ewkb, ("geometry", -1)).as_binary::<i32>().value(0),
        hex(POINT_Z)
    );
    let fields = [("srid", DataType::Int32), ("wkb", DataType::Binary)];
    let fields: Fields = fields
        .into_iter()
        .map(|(name, it)| Field::new(name, it, true))
        .collect();
    let split = || profile(Profile::Spark).with_type("geometry", DataType::Struct(fields.clone()));
    let read = both(&split, ("geometry", -1));
    let read = read.as_struct();
    assert_eq!(read.column(0).as_primitive::<Int32Type>().value(0), 4326);
    assert_eq!(read.column(1).as_binary::<i32>().value(0), hex(POINT_Z_ISO));
    assert!(
        malformed(extended(
            profile(Profile::Arrow),
            ("geometry", TYPMOD),
            &[text("01zz")]
        ))
        .contains("expected")
    );
}

#[test]
fn strings_bytes_and_lists_have_other_layouts() {
    let strings = [text("b"), text("a"), walrow_testkit::null(), text("b")];
    let plain = column(profile(Profile::Arrow), (25, -1), &strings).unwrap();
    let expected: Vec<_> = plain.as_string::<i32>().iter().collect();
    let read = |of: u32, data_type: DataType, cells: &[OwnedCell]| {
        let read = column(
            profile(Profile::Arrow).with_type("x", data_type.clone()),
            (of, -1),
            cells,
        );
        let read = read.unwrap();
        assert_eq!(read.data_type(), &data_type);
        read
    };
    let large = read(25, DataType::LargeUtf8, &strings);
    assert!(large.as_string::<i64>().iter().eq(expected.iter().copied()));
    let view = read(25, DataType::Utf8View, &strings);
    assert!(view.as_string_view().iter().eq(expected.iter().copied()));
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let read_dictionary = read(25, dictionary.clone(), &strings);
    let numbers = read_dictionary.as_dictionary::<Int32Type>();
    let labels: Vec<_> = numbers
        .values()
        .as_string::<i32>()
        .iter()
        .flatten()
        .collect();
    assert_eq!(labels, ["b", "a"]);
    assert_eq!(
        numbers.keys().iter().collect::<Vec<_>>(),
        [Some(0), Some(1), None, Some(0)]
    );
    // Of any type's text.
    let days = read(
        1082,
        dictionary.clone(),
        &[text("2000-01-02"), binary(hex("00000001"))],
    );
    assert_eq!(days.as_dictionary::<Int32Type>().values().len(), 1);
    let bytes = [text(r"\x00ff"), binary(hex("00ff"))];
    let large = read(17, DataType::LargeBinary, &bytes);
    assert!(
        large
            .as_binary::<i64>()
            .iter()
            .all(|value| value == Some(&[0, 0xff]))
    );
    let view = read(17, DataType::BinaryView, &bytes);
    assert!(
        view.as_binary_view()
            .iter()
            .all(|value| value == Some(&[0, 0xff]))
    );
    let item = Arc::new(Field::new("item", DataType::Utf8View, true));
    let lists = read(1009, DataType::LargeList(item), &[text("{a,NULL}")]);
    let first = lists.as_list::<i64>().value(0);
    assert_eq!(
        first.as_string_view().iter().collect::<Vec<_>>(),
        [Some("a"), None]
    );
    for data_type in [
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::BinaryView,
        dictionary,
    ] {
        assert!(
            profile(Profile::Spark)
                .with_type("x", data_type)
                .build()
                .is_err()
        );
    }
    let halves = extended(
        profile(Profile::Arrow).with_type("halfvec", list(DataType::Float16)),
        ("halfvec", -1),
        &[text("[1,2.5]"), binary(hex("0002 0000 3c00 4100"))],
    );
    let halves = halves.unwrap();
    for row in [0, 1] {
        let numbers = halves.as_list::<i32>().value(row);
        let numbers = numbers.as_primitive::<Float16Type>().values().to_vec();
        assert_eq!(
            numbers.iter().map(|it| it.to_bits()).collect::<Vec<_>>(),
            [0x3c00, 0x4100]
        );
    }
}

#[test]
fn decimals_of_256_bits_hold_39_to_76_digits() {
    let data_type = DataType::Decimal256(45, 5);
    let builder = || profile(Profile::Arrow).with_type("numeric", data_type.clone());
    let long = "-1234567890123456789012345678901234567890.12345";
    let one_and_a_half = binary(hex("0002 0000 0000 0001 0001 1388"));
    let read = column(builder(), (1700, -1), &[text(long), one_and_a_half]).unwrap();
    let read = read.as_primitive::<Decimal256Type>();
    assert_eq!(read.value(0).to_string(), long.replace('.', ""));
    assert_eq!(read.value(1).to_string(), "150000");
    for cell in ["0.000001", "1e5", "NaN", &"9".repeat(41)] {
        assert!(
            column(builder(), (1700, -1), &[text(cell)]).is_err(),
            "{cell}"
        );
    }
    assert!(
        profile(Profile::Spark)
            .with_type("numeric", data_type)
            .build()
            .is_err()
    );
    assert!(
        profile(Profile::Arrow)
            .with_type("numeric", DataType::Decimal256(77, 0))
            .build()
            .is_err()
    );
}

#[test]
fn zeros_of_any_scale_are_floats_inside_other_types_too() {
    let float = || Field::new("c", DataType::Float64, true);
    let flag = |name: &str| Field::new(name, DataType::Boolean, true);
    let range = Fields::from(vec![
        float().with_name("lower"),
        float().with_name("upper"),
        flag("lower_inc"),
        flag("upper_inc"),
        flag("empty"),
    ]);
    let comp = Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        float(),
    ]);
    let (two, zero) = (
        "00000008 0000 0000 0000 0002",
        "00000008 0000 0000 0000 0000",
    );
    let array = format!("00000001 00000000 000006a4 00000002 00000001 {two} {zero}");
    let row = format!("00000003 00000017 ffffffff 00000019 ffffffff 000006a4 {two}");
    for (oid, data_type, string, sent) in [
        (
            1700,
            DataType::Float64,
            "0.00",
            two.strip_prefix("00000008").unwrap().to_owned(),
        ),
        (1231, list(DataType::Float64), "{0.00,0}", array),
        (
            3906,
            DataType::Struct(range),
            "[0.00,0]",
            format!("06 {two} {zero}"),
        ),
        (20_000, DataType::Struct(comp), "(,,0.00)", row),
    ] {
        let read = |cell| {
            let builder = with_catalog(Profile::Arrow)
                .with_type("x", data_type.clone())
                .with_unrepresentable(OnUnrepresentable::Null);
            column(builder, (oid, -1), &[cell]).unwrap()
        };
        let read = [text(string), binary(hex(&sent))].map(read);
        assert_eq!(&read[0], &read[1], "{string}");
        assert_eq!(read[0].null_count(), 0, "{string}");
        let parts: Vec<ArrayRef> = match oid {
            1700 => vec![Arc::clone(&read[0])],
            1231 => vec![read[0].as_list::<i32>().value(0)],
            3906 => read[0].as_struct().columns()[..2].to_vec(),
            _ => read[0].as_struct().columns()[2..].to_vec(),
        };
        for part in parts {
            let numbers = part.as_primitive::<Float64Type>();
            assert_eq!(numbers.null_count(), 0, "{string}");
            assert!(numbers.values().iter().all(|it| it.to_bits() == 0));
        }
    }
}

#[test]
fn trailing_blanks_are_removed_if_asked_for() {
    let values = [text("a  "), binary(hex("612020")), text("   "), text(" b")];
    let trimmed = column(
        profile(Profile::Arrow).with_trim_bpchar(true),
        (1042, 7),
        &values,
    )
    .unwrap();
    assert_eq!(
        trimmed
            .as_string::<i32>()
            .iter()
            .flatten()
            .collect::<Vec<_>>(),
        ["a", "a", "", " b"]
    );
    let kept = column(profile(Profile::Arrow), (1042, 7), &values).unwrap();
    assert_eq!(kept.as_string::<i32>().value(0), "a  ");
    let lists = column(
        profile(Profile::Spark).with_trim_bpchar(true),
        (1014, 7),
        &[text(r#"{"a  "}"#)],
    );
    assert_eq!(
        lists
            .unwrap()
            .as_list::<i32>()
            .value(0)
            .as_string::<i32>()
            .value(0),
        "a"
    );
    let text_profile = column(
        profile(Profile::Text).with_trim_bpchar(true),
        (1042, 7),
        &values,
    )
    .unwrap();
    assert_eq!(text_profile.as_string::<i32>().value(0), "a  ");
}

#[test]
fn a_time_and_its_offset_are_a_struct_where_asked_for() {
    let fields = [
        ("time", DataType::Time64(TimeUnit::Nanosecond)),
        ("offset_s", DataType::Int32),
    ];
    let fields: Fields = fields
        .into_iter()
        .map(|(name, it)| Field::new(name, it, true))
        .collect();
    for profile_name in [Profile::Arrow, Profile::Spark] {
        let builder =
            || profile(profile_name).with_type("timetz", DataType::Struct(fields.clone()));
        // 12:30:00.5+05:30, in binary so many seconds west.
        let cells = [
            text("12:30:00.5+05:30"),
            binary(hex("0000000a7a3d2320 ffffb2a8")),
        ];
        let read = column(builder(), (1266, -1), &cells).unwrap();
        let read = read.as_struct();
        for row in [0, 1] {
            let nanos = read.column(0).to_data().buffers()[0].typed_data::<i64>()[row];
            assert_eq!(nanos, 45_000_500_000_000);
            assert_eq!(
                read.column(1).as_primitive::<Int32Type>().value(row),
                19_800
            );
        }
        assert!(
            unrepresentable(column(builder(), (1266, -1), &[text("24:00:00+00")]))
                .contains("24:00:00")
        );
    }
}

#[test]
fn a_policy_may_be_of_a_type() {
    let builder =
        profile(Profile::Arrow).with_column_unrepresentable("numeric", OnUnrepresentable::Null);
    let read = column(builder, (1700, 655_366), &[text("NaN"), text("1.5")]).unwrap();
    assert_eq!(read.null_count(), 1);
    let builder = profile(Profile::Arrow)
        .with_column_unrepresentable("numeric", OnUnrepresentable::Null)
        .with_column_unrepresentable("x", OnUnrepresentable::Error);
    assert!(unrepresentable(column(builder, (1700, 655_366), &[text("NaN")])).contains("NaN"));
    let dates =
        profile(Profile::Arrow).with_column_unrepresentable("numeric", OnUnrepresentable::Null);
    assert!(unrepresentable(column(dates, (1082, -1), &[text("infinity")])).contains("infinity"));
}

#[test]
fn malformed_arrays_are_not_reported_as_arrays_of_more_dimensions() {
    let null = || profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
    let two = "00000002 00000000 00000017 00000001 00000001 00000001 00000001 00000004 00000007";
    let read = |cell| column(null(), (1007, -1), &[cell]);
    for cell in [text("{{1}}"), text("[0:0][1:1]={{1}}"), binary(hex(two))] {
        assert!(read(cell).unwrap().is_null(0));
    }
    for cell in [
        text("{{garbage"),
        text("{{1},{2}"),
        text("[0:0][1:1]={{1},{2}}"),
        text("{{{{{{{1}}}}}}}"),
        binary(hex(&format!("{two} 00"))),
        binary(hex(&two.replacen("00000017", "00000019", 1))),
    ] {
        malformed(read(cell));
    }
}

#[test]
fn latin1_is_never_read_as_utf8() {
    let session = || DecoderBuilder::new().with_encoding(Encoding::Latin1);
    let strings = |builder: DecoderBuilder, of, cell| {
        let read = column(
            builder.with_type("x", DataType::Utf8),
            (of, -1),
            &[binary(hex(cell))],
        );
        read.unwrap().as_string::<i32>().value(0).to_owned()
    };
    // Two characters of LATIN1, which are one of UTF-8.
    assert_eq!(strings(session(), 3614, "00000001 c3a9 00 0000"), "'Ã©'");
    assert_eq!(strings(session(), 3614, "00000001 e9 00 0000"), "'é'");
    let array = "00000001 00000000 00000019 00000001 00000001 00000002 c3a9";
    assert_eq!(strings(session(), 1009, array), "{Ã©}");
    let row = "00000003 00000017 ffffffff 00000019 00000001 e9 000006a4 ffffffff";
    let builder = session().with_catalog(catalog());
    assert_eq!(strings(builder, 20_000, row), "(,é,)");
    let plain = column(
        profile(Profile::Arrow),
        (3614, -1),
        &[binary(hex("00000001 e9 00 0000"))],
    );
    assert!(unrepresentable(plain).contains("UTF-8"));
}

#[test]
fn text_has_the_encoding_that_the_session_reports() {
    let read = |chosen, value: &str| {
        let stream = Stream::new().parameter("client_encoding", value).bytes();
        let cell = OwnedCell::Text(b"\xc3\xa9".to_vec());
        let bytes = [stream, cells::stream(25, -1, &[cell])].concat();
        let builder = DecoderBuilder::new().with_encoding(chosen);
        let batches = cells::run(builder, &bytes).unwrap();
        let text = batches[0].record_batch().column(0).clone();
        text.as_string::<i32>().value(0).to_owned()
    };
    for chosen in [Encoding::Utf8, Encoding::Latin1] {
        assert_eq!(read(chosen, "UTF8"), "é");
        assert_eq!(read(chosen, "LATIN1"), "Ã©");
    }
}

#[test]
fn text_of_other_settings_is_converted_or_refused() {
    let strings = |of: u32, cell: &str| {
        let read = column(profile(Profile::Text), (of, -1), &[text(cell)])?;
        Ok(read.as_string::<i32>().value(0).to_owned())
    };
    for (of, cell, expected) in [
        (17, r"\336abc\\", r"\xde6162635c"),
        (
            1184,
            "2024-02-29 17:30:00.5+05:30",
            "2024-02-29 12:00:00.5+00",
        ),
        (1082, "infinity", "infinity"),
        (1184, "294276-12-31 23:59:59+00", "294276-12-31 23:59:59+00"),
        (3912, "[2024-02-29,infinity)", "[2024-02-29,infinity)"),
        (
            1182,
            "[0:0][1:1]={{2024-02-29}}",
            "[0:0][1:1]={{2024-02-29}}",
        ),
        (
            4535,
            "{[2024-02-29,2024-03-01)}",
            "{[2024-02-29,2024-03-01)}",
        ),
        (
            1184,
            "294250-01-01 05:30:00+05:30",
            "294250-01-01 00:00:00+00",
        ),
        (
            1185,
            r#"[0:1][3:4]={{"0044-03-15 06:53:28+05:53:28 BC",NULL},{infinity,"2024-02-29 17:30:00.5+05:30"}}"#,
            r#"[0:1][3:4]={{"0044-03-15 01:00:00+00 BC",NULL},{infinity,"2024-02-29 12:00:00.5+00"}}"#,
        ),
        (
            3910,
            r#"["2024-02-29 17:30:00.5+05:30",)"#,
            r#"["2024-02-29 12:00:00.5+00",)"#,
        ),
        (
            4534,
            r#"{["2024-02-29 17:30:00.5+05:30",infinity)}"#,
            r#"{["2024-02-29 12:00:00.5+00",infinity)}"#,
        ),
        (1187, r#"{"1 mon",00:00:00}"#, r#"{"1 mon",00:00:00}"#),
        (
            1001,
            r#"{"\\000\\377\\\\","",NULL}"#,
            r#"{"\\x00ff5c","\\x",NULL}"#,
        ),
    ] {
        assert_eq!(
            strings(of, cell).map_err(|error: Error| error.to_string()),
            Ok(expected.to_owned())
        );
    }
    // The steps are the same in every form of the value.
    for (of, cell, step) in [
        (1082, "03/02/2024", Remedy::DateStyle),
        (1114, "29.02.2024 17:30:00", Remedy::DateStyle),
        (1184, "Thu Feb 29 17:30:00 2024 UTC", Remedy::DateStyle),
        (1186, "+1-2 -3 +4:05:06", Remedy::IntervalStyle),
        (1186, "P1Y2M-3DT4H5M6.789S", Remedy::IntervalStyle),
        (3912, "[03/02/2024,05/04/2024)", Remedy::DateStyle),
        (1182, "{03/02/2024}", Remedy::DateStyle),
        (4535, "{[03/02/2024,05/04/2024)}", Remedy::DateStyle),
        (1187, r#"{"@ 1 day"}"#, Remedy::IntervalStyle),
        (1187, "{P1M,PT0S}", Remedy::IntervalStyle),
    ] {
        for profile_ in PROFILES {
            let builder = profile(profile_).with_unrepresentable(OnUnrepresentable::Null);
            let error = column(builder, (of, -1), &[text(cell)]).unwrap_err();
            assert!(
                matches!(error.kind(), ErrorKind::Malformed { .. }),
                "{cell}: {error}"
            );
            assert_eq!(error.stream_remedies(), [step], "{cell}");
        }
    }
    let nested = strings(1182, "{{03/02/2024}}").unwrap_err();
    assert_eq!(nested.stream_remedies(), [Remedy::DateStyle]);
    let wrong = column(profile(Profile::Arrow), (1082, -1), &[text("29.02.2024")]).unwrap_err();
    assert!(
        wrong.to_string().starts_with(
            "public.t.x: expected an ISO date in a cell of 10 bytes; set the walsender's \
             DateStyle to ISO ("
        ),
        "{wrong}"
    );
}

#[test]
fn a_single_byte_is_written_alike_by_all_versions() {
    // Versions before 15 write bytes beyond ASCII unchanged.
    let raw = |bytes: &[u8]| OwnedCell::Text(bytes.to_vec());
    for encoding in [Encoding::Utf8, Encoding::Latin1] {
        for profile_ in PROFILES {
            let builder = || profile(profile_).with_encoding(encoding);
            let cells = [raw(b"\xe9"), text(r"\351"), binary(vec![0xe9]), text("a")];
            let read = column(builder(), (18, -1), &cells).unwrap();
            let read: Vec<_> = read.as_string::<i32>().iter().flatten().collect();
            assert_eq!(read, [r"\351", r"\351", r"\351", "a"]);
        }
        let builder = profile(Profile::Text).with_encoding(encoding);
        let read = column(builder, (1002, -1), &[raw(b"{\xe9,a}")]).unwrap();
        assert_eq!(read.as_string::<i32>().value(0), r#"{"\\351",a}"#);
    }
}

proptest! {
    #[test]
    fn dates_of_other_styles_are_refused(year in -4712..262_000_i32, day in 1..=365_u32) {
        let date = NaiveDate::from_yo_opt(year, day).unwrap();
        let (number, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
        let (dmy, mdy) = (date.format("%d %m"), date.format("%m %d"));
        let (dmy, mdy) = (dmy.to_string(), mdy.to_string());
        let mut dates: Vec<_> = [(&dmy, "/"), (&mdy, "/"), (&dmy, "."), (&dmy, "-"), (&mdy, "-")]
            .map(|(days, separator)| format!("{days} {number:04}").replace(' ', separator))
            .to_vec();
        let mut times: Vec<_> = dates.iter().map(|date| format!("{date} 17:30:00.5")).collect();
        times.extend(["%a %b %d", "%a %d %b"].map(|days| {
            format!("{} 17:30:00.5 {number:04}", date.format(days))
        }));
        dates.push(date.format("%m/%d/%y").to_string());
        let zoned = times.iter().flat_map(|time| {
            [" UTC", "+00", " +00", "-05:30"].map(|zone| format!("{time}{zone}"))
        });
        let zoned: Vec<_> = zoned.collect();
        for (of, texts) in [(1082, &dates), (1114, &times), (1184, &zoned)] {
            for written in texts {
                let cell = text(format!("{written}{era}"));
                let error = column(profile(Profile::Arrow), (of, -1), &[cell]).unwrap_err();
                prop_assert_eq!(error.stream_remedies(), [Remedy::DateStyle], "{}", written);
            }
        }
    }
}

#[test]
fn values_inside_a_null_are_not_counted() {
    let outer = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8, true),
        Field::new("c", DataType::Decimal128(10, 2), true),
    ]));
    let builder = with_catalog(Profile::Arrow)
        .with_type("comp", outer)
        .with_unrepresentable(OnUnrepresentable::Null);
    let stream = cells::stream(
        20_002,
        -1,
        &[
            text(r#"("(7,x,NaN)","[0:0]={5}")"#),
            text(r#"("(7,x,1)","[0:0]={5}")"#),
        ],
    );
    let batches = cells::run(builder, &stream).unwrap();
    assert_eq!(batches[0].nulled(), [("x".to_owned(), 1)]);
    assert_eq!(batches[0].dropped_lower_bounds(), [("x".to_owned(), 1)]);
}

#[test]
fn a_remedy_never_leads_to_the_same_error() {
    let money = "00000001 00000000 00000316 00000001 00000001 00000008 0000000000000064";
    let read = |builder: DecoderBuilder| column(builder, (791, -1), &[binary(hex(money))]);
    for of in PROFILES {
        let error = unrepresentable(read(profile(of)));
        assert!(
            error.contains("by types = binary for public.t.x ("),
            "{error}"
        );
        assert!(read(profile(of).with_type("x", DataType::Binary)).is_ok());
    }
    let decimals = list(DataType::Decimal128(19, 2));
    assert!(read(profile(Profile::Arrow).with_type("x", decimals)).is_ok());
}

#[test]
fn lists_and_large_lists_nest_in_each_other() {
    let large = |item| DataType::LargeList(Arc::new(Field::new("item", item, true)));
    for data_type in [
        list(large(DataType::Int32)),
        large(list(DataType::Int32)),
        large(large(DataType::Int32)),
    ] {
        let builder = || profile(Profile::Arrow).with_type("x", data_type.clone());
        for cell in [text("{{1,2},{3,NULL}}"), binary(hex(MATRIX))] {
            let read = column(builder(), (1007, -1), &[cell]).unwrap();
            assert_eq!(read.data_type(), &data_type);
            let inner = match &data_type {
                DataType::List(_) => read.as_list::<i32>().value(0),
                _ => read.as_list::<i64>().value(0),
            };
            assert_eq!(inner.len(), 2);
        }
    }
    let halves = profile(Profile::Arrow).with_type("halfvec", large(DataType::Float16));
    assert!(extended(halves, ("halfvec", -1), &[text("[1,2.5]")]).is_ok());
}

#[test]
fn a_removed_row_is_not_counted() {
    let columns = [("a", 1082, -1, false), ("b", 23, -1, false)];
    let bytes = Stream::new()
        .session()
        .begin(0x1000, 700)
        .relation(cells::T, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(cells::T, &[text("2024-01-01"), text("1")])
        .insert(cells::T, &[text("infinity"), text("not a number")])
        .commit()
        .bytes();
    let builder = profile(Profile::Arrow).with_unrepresentable(OnUnrepresentable::Null);
    let mut decoder = builder.with_metadata([]).build().unwrap();
    let _ = decoder.decode(&bytes);
    let batch = decoder.next_batch().unwrap().unwrap();
    assert_eq!(batch.record_batch().num_rows(), 1);
    assert_eq!(batch.nulled(), []);
}
