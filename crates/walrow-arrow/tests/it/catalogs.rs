//! Columns whose types a catalog defines, completely or in part, also with hostile catalogs.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::cells;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, StructArray};
use arrow_schema::{DataType, Field, Fields, Schema};
use cells::{PROFILES, T, column, decode, name, profile, run, stream};
use std::sync::Arc;
use walrow_arrow::{DecoderBuilder, Error, ErrorKind, OnUnrepresentable, Profile};
use walrow_stream::{Attribute, Catalog, CatalogType, TypeKind};
use walrow_testkit::{OwnedCell, Stream, binary, hex, null, text};
use walrow_wire::ReplicaIdentity;

const INT4: u32 = 23;

fn entry(oid: u32, kind: TypeKind) -> CatalogType {
    CatalogType::new(oid, "public", format!("type{oid}"), kind)
}

fn composite(oid: u32, attributes: impl IntoIterator<Item = u32>) -> CatalogType {
    let attributes = attributes.into_iter().enumerate();
    let attributes =
        attributes.map(|(place, type_oid)| Attribute::new(format!("a{place}"), type_oid, -1));
    entry(
        oid,
        TypeKind::Composite {
            attributes: attributes.collect(),
        },
    )
}

fn domain(oid: u32, base: u32) -> CatalogType {
    let type_modifier = -1;
    entry(
        oid,
        TypeKind::Domain {
            base,
            type_modifier,
        },
    )
}

fn array(oid: u32, element: u32) -> CatalogType {
    let delimiter = ',';
    entry(oid, TypeKind::Array { element, delimiter })
}

fn range(oid: u32, subtype: u32) -> CatalogType {
    entry(oid, TypeKind::Range { subtype })
}

fn catalog(types: impl IntoIterator<Item = CatalogType>) -> Arc<Catalog> {
    Arc::new(Catalog::new(types.into_iter().collect(), Vec::new()))
}

/// One level per number: each type is in the one before it, and `int4` is in the last.
fn nested(levels: u32, of: impl Fn(u32, u32) -> CatalogType) -> Arc<Catalog> {
    let last = 20_000 + levels - 1;
    catalog((20_000..=last).map(|oid| of(oid, if oid == last { INT4 } else { oid + 1 })))
}

fn with(of: Profile, catalog: &Arc<Catalog>) -> DecoderBuilder {
    profile(of).with_catalog(Arc::clone(catalog))
}

fn read(catalog: &Arc<Catalog>, cell: OwnedCell) -> Result<ArrayRef, Error> {
    column(with(Profile::Arrow, catalog), (20_000, -1), &[cell])
}

fn refused<T>(result: Result<T, Error>) -> String {
    let error = result.map(drop).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    assert_eq!(error.table(), Some("public.t"));
    assert!(error.column().is_some());
    error.to_string()
}

/// The number of struct fields that are nested in each other.
fn innermost(mut array: &StructArray) -> (usize, &ArrayRef) {
    let mut levels = 1;
    loop {
        let within = array.column(0);
        match within.as_struct_opt() {
            Some(inner) => array = inner,
            None => return (levels, within),
        }
        levels += 1;
    }
}

#[test]
fn every_attribute_of_a_large_type_is_read() {
    let wide = composite(20_001, [INT4; 1200]);
    let catalog = catalog([composite(20_000, [20_001; 3]), wide]);
    let read = read(&catalog, null()).unwrap();
    for part in read.as_struct().columns() {
        let parts = part.as_struct().columns().iter();
        let types: Vec<_> = parts.map(Array::data_type).collect();
        assert_eq!(types, [&DataType::Int32; 1200]);
    }
}

#[test]
fn types_nest_64_levels_deep() {
    // One level is int4.
    let domains = nested(63, domain);
    let number = read(&domains, text("7")).unwrap();
    assert_eq!(number.as_primitive::<Int32Type>().value(0), 7);

    let composites = nested(63, |oid, inner| composite(oid, [inner]));
    let mut sent = 7_i32.to_be_bytes().to_vec();
    for oid in [INT4].into_iter().chain((20_001..20_063).rev()) {
        let length = u32::try_from(sent.len()).unwrap();
        let head = [1, oid, length].map(u32::to_be_bytes);
        sent = [head.as_flattened(), &sent].concat();
    }
    for profile_name in [Profile::Arrow, Profile::Spark] {
        let builder = with(profile_name, &composites);
        let read = column(builder, (20_000, -1), &[binary(sent.clone()), null()]).unwrap();
        let (levels, number) = innermost(read.as_struct());
        assert_eq!(levels, 63);
        assert_eq!(number.as_primitive::<Int32Type>().value(0), 7);
    }
    // Quotes double at each level: deeper texts would be too large.
    let string = (1..20).fold("(7)".to_owned(), |it, _| {
        format!("(\"{}\")", it.replace('"', "\"\""))
    });
    let read_text = read(
        &nested(20, |oid, inner| composite(oid, [inner])),
        text(string),
    )
    .unwrap();
    let (levels, number) = innermost(read_text.as_struct());
    assert_eq!(levels, 20);
    assert_eq!(number.as_primitive::<Int32Type>().value(0), 7);

    // Lists may be as deep.
    let both = nested(62, |oid, inner| match oid % 2 {
        0 => array(oid, inner),
        _ => composite(oid, [inner]),
    });
    let mut sent = 7_i32.to_be_bytes().to_vec();
    for (place, oid) in [INT4].into_iter().chain((20_001..20_062).rev()).enumerate() {
        let length = u32::try_from(sent.len()).unwrap();
        let head = match place % 2 {
            0 => [1, oid, length].map(u32::to_be_bytes).concat(),
            _ => [1, 0, oid, 1, 1, length].map(u32::to_be_bytes).concat(),
        };
        sent = [&head[..], &sent].concat();
    }
    assert!(!read(&both, binary(sent)).unwrap().is_null(0));

    for deeper in [
        nested(64, domain),
        nested(64, |oid, inner| composite(oid, [inner])),
    ] {
        assert!(refused(read(&deeper, null())).contains("more than 64 levels"));
    }
}

#[test]
fn a_type_consists_of_65536_types_at_most() {
    let wide = |attributes| catalog([composite(20_000, vec![INT4; attributes])]);
    let all = read(&wide(65_535), null()).unwrap();
    assert_eq!(all.as_struct().num_columns(), 65_535);
    let text = refused(read(&wide(65_536), null()));
    assert_eq!(
        text.split_once(" (byte").unwrap().0,
        "public.t.x: the column's type consists of more than 65,536 types in the catalog (a type \
         that contains itself has no end); read it as the server's text with types = string for public.t.x"
    );

    // The limit applies to all columns together.
    let half = catalog([composite(20_000, vec![INT4; 32_768])]);
    let columns = |names: &[&'static str]| {
        let columns: Vec<_> = names.iter().map(|it| (*it, 20_000, -1, false)).collect();
        let stream = Stream::new().session().begin(0x1000, 700);
        let stream = stream.relation(T, "public", "t", ReplicaIdentity::Default, &columns);
        let row = vec![null(); names.len()];
        let bytes = stream.insert(T, &row).commit().bytes();
        move |builder: DecoderBuilder| run(builder, &bytes)
    };
    let two = columns(&["x", "y"]);
    let three = columns(&["x", "y", "z"]);
    assert!(two(with(Profile::Arrow, &half)).is_ok());
    let text = refused(three(with(Profile::Arrow, &half)));
    assert!(
        text.starts_with("public.t.z: ") && text.contains("columns before it"),
        "{text}"
    );
    let builder = with(Profile::Arrow, &half).with_type("z", DataType::Utf8);
    assert!(three(builder).is_ok());
}

/// Catalogs of a few types each. With all their parts, these would exceed any memory.
fn endless() -> Vec<Arc<Catalog>> {
    vec![
        catalog([composite(20_000, [20_000; 1600])]),
        catalog([domain(20_000, 20_000)]),
        catalog([array(20_000, 20_001), domain(20_001, 20_000)]),
        catalog([range(20_000, 20_000)]),
        nested(60, |oid, inner| composite(oid, [inner, inner])),
        // Each has two bounds.
        nested(60, range),
    ]
}

#[test]
fn a_recursive_type_is_refused_unless_it_is_text_or_bytes() {
    for catalog in endless() {
        for profile_name in [Profile::Arrow, Profile::Spark] {
            let builder = || with(profile_name, &catalog);
            let string = |builder| column(builder, (20_000, -1), &[text("(x)")]);
            let text = refused(string(builder()));
            assert!(
                text.contains("with types = string for public.t.x (byte"),
                "{text}"
            );
            for key in ["public.t.x", "type20000"] {
                let read = string(builder().with_type(key, DataType::Utf8)).unwrap();
                assert_eq!(read.as_string::<i32>().value(0), "(x)");
            }
            let read = string(builder().with_type("x", DataType::Binary)).unwrap();
            assert_eq!(read.as_binary::<i32>().value(0), b"(x)");
            let of_ints = DataType::new_list(DataType::Int32, true);
            for key in ["x", "type20000"] {
                refused(string(builder().with_type(key, of_ints.clone())));
            }
        }
        let arrow = || with(Profile::Arrow, &catalog);
        let layouts = [
            DataType::LargeUtf8,
            DataType::Utf8View,
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
            DataType::LargeBinary,
            DataType::BinaryView,
        ];
        for layout in layouts {
            let read = column(
                arrow().with_type("x", layout.clone()),
                (20_000, -1),
                &[text("a")],
            );
            assert_eq!(read.unwrap().data_type(), &layout);
        }
        // The binary form is not read.
        for builder in [
            arrow().with_type("x", DataType::Utf8),
            with(Profile::Text, &catalog),
        ] {
            let error = column(builder, (20_000, -1), &[binary(hex("00"))]).unwrap_err();
            let [remedy] = error.remedies() else {
                panic!("{error}")
            };
            assert_eq!(remedy.to_string(), "types = binary for public.t.x");
        }
        let builder = arrow().with_type("x", DataType::Binary);
        let read = column(builder, (20_000, -1), &[binary(hex("00ff"))]).unwrap();
        assert_eq!(read.as_binary::<i32>().value(0), [0, 255]);
    }
}

#[test]
fn a_recursive_type_is_text_in_the_text_profile_the_envelope_and_schemas() {
    for catalog in endless() {
        let read = column(with(Profile::Text, &catalog), (20_000, -1), &[text("(x)")]).unwrap();
        assert_eq!(read.as_string::<i32>().value(0), "(x)");
        let bytes = stream(20_000, -1, &[text("(x)")]);
        let enveloped = run(with(Profile::Arrow, &catalog).with_envelope(true), &bytes).unwrap();
        assert_eq!(enveloped[0].record_batch().num_rows(), 1);

        let in_schema = |data_type| {
            let schema = Schema::new(vec![Field::new("x", data_type, true)]);
            let builder = with(Profile::Arrow, &catalog).with_table("t");
            run(builder.with_schema(Arc::new(schema)), &bytes)
        };
        assert!(in_schema(DataType::Utf8).is_ok());
        assert!(in_schema(DataType::BinaryView).is_ok());
        let fields = Fields::from(vec![Field::new("a0", DataType::Int32, true)]);
        let text = refused(in_schema(DataType::Struct(fields)));
        assert!(
            text.contains("declare it as string in the schema"),
            "{text}"
        );
    }
}

#[test]
fn unresolved_types_inside_others_are_listed_by_their_own_oids() {
    let catalog = catalog([
        composite(20_000, [29_999, INT4, 20_001, 29_997]),
        array(20_001, 29_998),
        domain(20_002, 29_999),
        range(20_003, 29_996),
        entry(20_004, TypeKind::Base),
    ]);
    let columns = [
        ("a", 20_000, -1, false),
        ("b", 20_001, -1, false),
        ("c", 20_002, -1, false),
        ("d", 20_003, -1, false),
        ("e", 20_004, -1, false),
        ("f", 9_999, -1, false),
        ("g", 21_000, -1, false),
    ];
    let bytes = Stream::new()
        .session()
        .begin(0x1000, 700)
        .relation(T, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(T, &[(); 7].map(|()| null()))
        .commit()
        .bytes();
    let builder = || with(Profile::Arrow, &catalog);
    for builder in [builder(), builder().with_envelope(true)] {
        let mut decoder = builder.build().unwrap();
        assert_eq!(decoder.decode(&bytes).unwrap(), bytes.len());
        decoder.finish().unwrap();
        let found: Vec<_> = decoder
            .unresolved_types()
            .map(|it| (it.table.as_str(), it.column.as_str(), it.type_oid))
            .collect();
        let expected = [
            ("a", 29_997),
            ("a", 29_998),
            ("a", 29_999),
            ("b", 29_998),
            ("c", 29_999),
            ("d", 29_996),
            ("f", 9_999),
            ("g", 21_000),
        ];
        assert_eq!(
            found,
            expected.map(|(column, oid)| ("public.t", column, oid))
        );
    }
}

#[test]
fn the_list_of_missing_types_has_an_end() {
    let catalog = catalog([composite(20_000, 30_000..50_000)]);
    let bytes = stream(20_000, -1, &[null()]);
    let mut decoder = with(Profile::Text, &catalog).build().unwrap();
    assert_eq!(decoder.decode(&bytes).unwrap(), bytes.len());
    decoder.finish().unwrap();
    assert_eq!(decoder.unresolved_types().count(), 10_000);
}

/// One column of OID 30000, for which the stream sends this name.
fn named_stream((schema, type_name): (&str, &str), cell: OwnedCell) -> Vec<u8> {
    let columns = [("x", 30_000, -1, false)];
    Stream::new()
        .session()
        .begin(0x1000, 700)
        .user_type(30_000, schema, type_name)
        .relation(T, "public", "t", ReplicaIdentity::Default, &columns)
        .insert(T, &[cell])
        .commit()
        .bytes()
}

fn named(
    catalog: &Arc<Catalog>,
    name: (&str, &str),
    cell: OwnedCell,
) -> (Result<ArrayRef, Error>, Vec<u32>) {
    let bytes = named_stream(name, cell);
    let mut decoder = with(Profile::Arrow, catalog)
        .with_metadata([])
        .build()
        .unwrap();
    let fed = decoder.decode(&bytes).map(drop);
    let read = fed.and_then(|()| decoder.finish()).map(|()| {
        let batch = decoder.next_batch().unwrap().unwrap();
        Arc::clone(batch.record_batch().column(0))
    });
    let missing = decoder.unresolved_types().map(|it| it.type_oid);
    (read, missing.collect())
}

/// The catalog of a database with other OIDs.
fn of_another_database() -> Arc<Catalog> {
    let json = r#"{"types": [
        {"oid": 20000, "schema": "shop", "name": "pair", "kind": "composite", "attributes": [
            {"name": "n", "type": 23}, {"name": "mood", "type": 20001},
            {"name": "all", "type": 20003}]},
        {"oid": 20001, "schema": "shop", "name": "mood", "kind": "enum", "labels": ["sad", "ok"]},
        {"oid": 20002, "schema": "shop", "name": "_pair", "kind": "array", "element": 20000},
        {"oid": 20003, "schema": "shop", "name": "_mood", "kind": "array", "element": 20001},
        {"oid": 20004, "schema": "shop", "name": "citext", "kind": "enum", "labels": ["no"]},
        {"oid": 20005, "schema": "shop", "name": "twice", "kind": "enum", "labels": []},
        {"oid": 20006, "schema": "shop", "name": "twice", "kind": "enum", "labels": []},
        {"oid": 20007, "schema": "shop", "name": "vector", "kind": "composite", "attributes": [
            {"name": "n", "type": 29999}]},
        {"oid": 23, "schema": "pg_catalog", "name": "int4", "kind": "base"},
        {"oid": 9000, "schema": "pg_catalog", "name": "newer", "kind": "domain", "base": 20}
    ]}"#;
    Arc::new(Catalog::from_json(json).unwrap())
}

const PAIR: &str = "Struct(\"n\": Int32, \"mood\": Utf8, \"all\": List(Utf8))";

#[test]
fn types_that_the_catalog_lacks_by_oid_are_found_by_name() {
    let catalog = of_another_database();
    let list = |item: &str| format!("List({item})");
    // Of OIDs that the catalog does not have: 30001 is mood, 30003 _mood, 30000 pair.
    let array = "00000001 00000000 00007531 00000001 00000001 00000003 736164";
    let pair = format!(
        "00000003 00000017 00000004 00000007 00007531 00000002 6f6b 00007533 0000001b {array}"
    );
    let pairs = format!("00000001 00000000 00007530 00000001 00000001 0000003d {pair}");
    assert_eq!((hex(array).len(), hex(&pair).len()), (0x1b, 0x3d));
    for (type_name, string, sent, arrow) in [
        ("pair", "(7,ok,{sad})", &pair, PAIR.to_owned()),
        ("_pair", r#"{"(7,ok,{sad})"}"#, &pairs, list(PAIR)),
        ("mood", "ok", &"6f6b".to_owned(), "Utf8".to_owned()),
    ] {
        let cells = [text(string), binary(hex(sent))];
        let [from_text, from_binary] = cells.map(|cell| {
            let (read, missing) = named(&catalog, ("shop", type_name), cell);
            assert!(missing.is_empty(), "{type_name}");
            read.unwrap()
        });
        assert_eq!(&from_text, &from_binary, "{type_name}");
        assert_eq!(name(from_text.data_type()), arrow);
    }
    // Built-in types are still checked by OID.
    let other = pair.replace("00000017 00000004", "00000014 00000004");
    let (read, _) = named(&catalog, ("shop", "pair"), binary(hex(&other)));
    assert!(matches!(
        read.unwrap_err().kind(),
        ErrorKind::Unrepresentable(_)
    ));
    // With the right OIDs, all types are checked.
    let read = column(
        with(Profile::Arrow, &catalog),
        (20_000, -1),
        &[binary(hex(&pair))],
    );
    assert!(matches!(
        read.unwrap_err().kind(),
        ErrorKind::Unrepresentable(_)
    ));
}

#[test]
fn a_catalogs_name_goes_before_an_extensions_name() {
    let catalog = of_another_database();
    let vector = |schema| named(&catalog, (schema, "vector"), text("(a)"));
    let (read, missing) = vector("shop");
    assert_eq!(name(read.unwrap().data_type()), "Struct(\"n\": Utf8)");
    assert_eq!(missing, [29_999]);
    // In another schema, the name means the extension's type.
    assert!(matches!(
        vector("public").0.unwrap_err().kind(),
        ErrorKind::Malformed { .. }
    ));
    // The name is ambiguous, so the type is unknown.
    let (read, missing) = named(&catalog, ("shop", "twice"), text("a"));
    assert_eq!(missing, [30_000]);
    assert_eq!(name(read.unwrap().data_type()), "Utf8");
    // A domain's base type, as the stream names it.
    let (read, missing) = named(&catalog, ("", "int4"), text("7"));
    assert_eq!(read.unwrap().as_primitive::<Int32Type>().value(0), 7);
    assert!(missing.is_empty());

    let mut known = (*catalog).clone();
    known.types.push(domain(30_000, INT4));
    let (read, _) = named(&Arc::new(known), ("shop", "mood"), text("7"));
    assert_eq!(read.unwrap().as_primitive::<Int32Type>().value(0), 7);

    let schema = || {
        let bytes = named_stream(("shop", "mood"), null());
        let batches = run(with(Profile::Arrow, &catalog), &bytes).unwrap();
        batches[0].record_batch().schema()
    };
    let metadata = schema().field(0).metadata().clone();
    assert_eq!(metadata["pg.oid"], "30000");
    assert_eq!(
        (&*metadata["pg.schema"], &*metadata["pg.type"]),
        ("shop", "mood")
    );
}

#[test]
fn a_newer_servers_type_is_as_the_catalog_says() {
    let catalog = of_another_database();
    for profile_name in PROFILES {
        let batch = decode(with(profile_name, &catalog), (9_000, -1), &[text("7")]).unwrap();
        let metadata = batch.schema().field(0).metadata().clone();
        assert_eq!(metadata["pg.type"], "newer");
        if profile_name != Profile::Text {
            assert_eq!(batch.column(0).as_primitive::<Int64Type>().value(0), 7);
        }
    }
    // A catalog cannot redefine a built-in type.
    let read = column(with(Profile::Arrow, &catalog), (23, -1), &[text("7")]).unwrap();
    assert_eq!(read.data_type(), &DataType::Int32);
}

#[test]
fn an_attribute_of_oid_0_is_of_any_type() {
    let catalog = catalog([composite(20_000, [0, INT4])]);
    let text_read = read(&catalog, text("(a,7)")).unwrap();
    assert_eq!(
        name(text_read.data_type()),
        "Struct(\"a0\": Utf8, \"a1\": Int32)"
    );
    let fields = Fields::from(vec![
        Field::new("a0", DataType::Binary, true),
        Field::new("a1", DataType::Int32, true),
    ]);
    let sent = "00000002 00007531 00000001 ff 00000017 00000004 00000007";
    let builder = with(Profile::Arrow, &catalog).with_type("x", DataType::Struct(fields));
    let read = column(builder, (20_000, -1), &[binary(hex(sent))]).unwrap();
    assert_eq!(
        read.as_struct().column(0).as_binary::<i32>().value(0),
        [255]
    );
}

#[test]
fn keys_name_a_domain_as_the_catalog_or_the_server_does() {
    // A domain over a domain over `date`; the server sends only the base type.
    let catalog = catalog([domain(30_000, 20_000), domain(20_000, 1082)]);
    let bytes = named_stream(("", "date"), text("infinity"));
    let options = |catalog: Option<&Arc<Catalog>>| match catalog {
        Some(catalog) => with(Profile::Arrow, catalog),
        None => profile(Profile::Arrow),
    };
    for (known, keys) in [
        (None, &["date"][..]),
        (Some(&catalog), &["date", "type20000", "type30000"]),
    ] {
        let read = |builder| {
            let batches = run(builder, &bytes)?;
            Ok::<_, Error>(Arc::clone(batches[0].record_batch().column(0)))
        };
        read(options(known)).unwrap_err();
        for key in keys {
            let null = options(known).with_column_unrepresentable(*key, OnUnrepresentable::Null);
            assert!(read(null).unwrap().is_null(0), "{key}");
            let string = read(options(known).with_type(*key, DataType::Utf8)).unwrap();
            assert_eq!(string.as_string::<i32>().value(0), "infinity", "{key}");
        }
        // The key of the type itself goes before the keys of its base types.
        let both = options(known).with_type("date", DataType::Utf8);
        let both = both.with_type("type30000", DataType::LargeUtf8);
        let read = read(both).map(|column| column.data_type().clone());
        match known {
            // Without a catalog, this type is unknown.
            None => {
                let error = read.unwrap_err().to_string();
                let text = "types: no column or type type30000 in the stream";
                assert_eq!(error, text);
            }
            Some(_) => assert_eq!(read, Ok(DataType::LargeUtf8)),
        }
    }
    // Two domains over each other never reach a base type.
    let endless = self::catalog([domain(20_000, 20_001), domain(20_001, 20_000)]);
    let builder = with(Profile::Arrow, &endless).with_type("date", DataType::Utf8);
    refused(column(builder, (20_000, -1), &[text("infinity")]));
}

/// An array of a domain over an array: PostgreSQL does not distinguish the two levels of elements.
#[test]
fn arrays_of_arrays_are_text_in_either_form() {
    let catalog = catalog([domain(20_001, 1007), array(20_000, 20_001)]);
    // {7} and NULL.
    let element = "00000001 00000000 00000017 00000001 00000001 00000004 00000007";
    let sent = format!("00000001 00000001 00004e21 00000002 00000001 0000001c {element} ffffffff");
    let cells = [text(r#"{"{7}",NULL}"#), binary(hex(&sent))];
    for of in PROFILES {
        let batch = decode(with(of, &catalog), (20_000, -1), &cells).unwrap();
        let read = batch.column(0).as_string::<i32>();
        assert_eq!([read.value(0), read.value(1)], [r#"{"{7}",NULL}"#; 2]);
        let metadata = batch.schema().field(0).metadata().clone();
        let extension = metadata.get("ARROW:extension:name");
        let opaque = (of == Profile::Arrow).then_some("arrow.opaque");
        assert_eq!(extension.map(String::as_str), opaque);
    }
    // The OID of the elements is still checked.
    for of in PROFILES {
        let other = sent.replace("00000017", "00000014");
        let error = column(with(of, &catalog), (20_000, -1), &[binary(hex(&other))]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Malformed { .. }));
    }
}

#[test]
fn composites_that_do_not_match_the_catalog_are_read_as_text() {
    // An integer and a date. The date's text depends on the settings.
    let catalog = catalog([composite(20_000, [INT4, 1082])]);
    for cell in ["(1,2024-01-01,3)", "(1)", "(2024-01-01,1,\"a,b\")"] {
        let of_text = with(Profile::Text, &catalog);
        let as_string = with(Profile::Arrow, &catalog).with_type("x", DataType::Utf8);
        for builder in [of_text, as_string] {
            let read = column(builder, (20_000, -1), &[text(cell)]).unwrap();
            assert_eq!(read.as_string::<i32>().value(0), cell);
        }
    }
    for cell in [
        "(1,2024-01-01",
        "(1,01/02/2024)",
        "1,2024-01-01,3",
        "(1,2024-01-01,3)x",
    ] {
        let error = column(with(Profile::Text, &catalog), (20_000, -1), &[text(cell)]).unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Malformed { .. }),
            "{cell}"
        );
    }
}
