//! The change row, the options and the errors, on streams written by hand.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMicrosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use std::sync::Arc;
use walrow_arrow::{
    Batch, Decoder, DecoderBuilder, DecoderOption, Error, ErrorKind, MetadataColumn, OnUnfinished,
    OnUnrepresentable, Profile, Reason, RemedyValue, TableName, Unrepresentable,
};
use walrow_stream::Catalog;
use walrow_testkit::{OwnedCell, OwnedMessage, Stream, binary, null, text, unchanged};
use walrow_wire::{Framing, Lsn, ReplicaIdentity};

const T: u32 = 16_384;
const BOOL: u32 = 16;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const DATE: u32 = 1082;

type Col = (&'static str, u32, i32, bool);

/// A transaction of these inserts into a table of these columns.
fn inserts(columns: &[Col], rows: &[&[OwnedCell]]) -> Vec<u8> {
    let mut stream = described(columns);
    for row in rows {
        stream = stream.insert(T, row);
    }
    stream.commit().bytes()
}

fn described(columns: &[Col]) -> Stream {
    Stream::new().session().begin(0x1000, 700).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        columns,
    )
}

fn builder() -> DecoderBuilder {
    DecoderBuilder::new()
}

fn run(builder: DecoderBuilder, bytes: &[u8]) -> (Vec<Batch>, Result<(), Error>) {
    let mut decoder = builder.build().unwrap();
    let (mut batches, mut end) = feed(&mut decoder, bytes);
    if end.is_ok() {
        end = decoder.finish();
    }
    batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
    (batches, end)
}

fn feed(decoder: &mut Decoder, bytes: &[u8]) -> (Vec<Batch>, Result<(), Error>) {
    let mut batches = Vec::new();
    let mut rest = bytes;
    loop {
        let result = decoder.decode(rest);
        let before = batches.len();
        batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
        match result {
            Ok(consumed) => rest = &rest[consumed..],
            Err(error) => return (batches, Err(error)),
        }
        if rest.is_empty() && batches.len() == before {
            return (batches, Ok(()));
        }
    }
}

fn only(batches: &[Batch]) -> &RecordBatch {
    assert_eq!(batches.len(), 1, "{batches:?}");
    batches[0].record_batch()
}

fn strings(batch: &RecordBatch, column: &str) -> Vec<Option<String>> {
    let array = batch.column_by_name(column).unwrap().as_string::<i32>();
    array.iter().map(|value| value.map(str::to_owned)).collect()
}

fn ints(batch: &RecordBatch, column: &str) -> Vec<Option<i32>> {
    batch
        .column_by_name(column)
        .unwrap()
        .as_primitive::<Int32Type>()
        .iter()
        .collect()
}

fn unsent(batch: &RecordBatch) -> Vec<Option<Vec<String>>> {
    let lists = batch.column_by_name("_unsent").unwrap().as_list::<i32>();
    let names = |list: Arc<dyn Array>| {
        list.as_string::<i32>()
            .iter()
            .map(|name| name.unwrap().to_owned())
            .collect()
    };
    lists.iter().map(|list| list.map(names)).collect()
}

fn some(values: &[&str]) -> Vec<Option<String>> {
    values
        .iter()
        .map(|value| Some((*value).to_owned()))
        .collect()
}

/// Every kind of change, with all its metadata.
/// With `binary`, types without a send function stay text, and a NULL has no form.
#[test]
fn a_row_may_mix_text_and_binary_cells_in_any_order() {
    let columns = &[
        ("a", INT4, -1, false),
        ("b", TEXT, -1, false),
        ("c", INT4, -1, false),
    ];
    let rows: &[&[OwnedCell]] = &[
        &[
            binary([0, 0, 0, 1]),
            binary("short one"),
            binary([0, 0, 0, 2]),
        ],
        &[text("3"), binary("b"), text("4")],
        &[
            binary([0, 0, 0, 5]),
            text("a text of more than sixteen bytes"),
            text("6"),
        ],
        &[
            null(),
            binary("a binary of more than sixteen bytes"),
            null(),
        ],
        &[text("-7"), null(), binary([255, 255, 255, 248])],
        &[binary([0, 0, 0, 9]), null(), text("10")],
    ];
    let (batches, end) = run(builder(), &inserts(columns, rows));
    assert_eq!(end, Ok(()));
    let batch = only(&batches);
    let expected = [Some(1), Some(3), Some(5), None, Some(-7), Some(9)];
    assert_eq!(ints(batch, "a"), expected);
    let expected = [
        Some("short one"),
        Some("b"),
        Some("a text of more than sixteen bytes"),
        Some("a binary of more than sixteen bytes"),
        None,
        None,
    ];
    assert_eq!(
        strings(batch, "b"),
        expected.map(|it| it.map(str::to_owned))
    );
    let expected = [Some(2), Some(4), Some(6), None, Some(-8), Some(10)];
    assert_eq!(ints(batch, "c"), expected);
}

#[test]
fn the_change_row_is_complete() {
    let columns = [("id", INT4, -1, true), ("name", TEXT, -1, false)];
    let bytes = described(&columns)
        .insert(T, &[text("1"), text("a")])
        .update(T, &[text("1"), text("b")])
        .update_key(T, &[text("1"), null()], &[text("2"), text("b")])
        .update_full(T, &[text("2"), text("b")], &[text("2"), null()])
        .delete_key(T, &[text("2"), null()])
        .truncate(0, &[T])
        .commit()
        .begin(0x2000, 701)
        .delete_full(T, &[text("3"), text("c")])
        .commit()
        .bytes();
    let (batches, end) = run(builder(), &bytes);
    end.unwrap();
    let batch = only(&batches);
    let names: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    let metadata = [
        "_change_type",
        "_commit_lsn",
        "_seq",
        "_commit_timestamp",
        "_xid",
        "_key_only",
        "_unsent",
    ];
    assert_eq!(names, [&["id", "name"][..], &metadata].concat());
    assert_eq!(
        strings(batch, "_change_type"),
        some(&[
            "insert",
            "update_postimage",
            "update_preimage",
            "update_postimage",
            "update_preimage",
            "update_postimage",
            "delete",
            "truncate",
            "delete"
        ])
    );
    let ids = [
        Some(1),
        Some(1),
        Some(1),
        Some(2),
        Some(2),
        Some(2),
        Some(2),
        None,
        Some(3),
    ];
    assert_eq!(ints(batch, "id"), ids);
    let seq: Vec<u64> = batch
        .column_by_name("_seq")
        .unwrap()
        .as_primitive::<UInt64Type>()
        .values()
        .to_vec();
    assert_eq!(seq, [0, 1, 2, 2, 3, 3, 4, 5, 0]);
    let key_only: Vec<_> = batch
        .column_by_name("_key_only")
        .unwrap()
        .as_boolean()
        .iter()
        .flatten()
        .collect();
    assert_eq!(
        key_only,
        [false, false, true, false, false, false, true, false, false]
    );
    let lsn = batch
        .column_by_name("_commit_lsn")
        .unwrap()
        .as_primitive::<UInt64Type>();
    assert_eq!(lsn.values()[7..], [0x1000, 0x2000]);
    let xid = batch
        .column_by_name("_xid")
        .unwrap()
        .as_primitive::<UInt32Type>();
    assert_eq!(xid.values()[7..], [700, 701]);
    let time = batch
        .column_by_name("_commit_timestamp")
        .unwrap()
        .as_primitive::<TimestampMicrosecondType>();
    // 2024-01-01 and 700 seconds, since 1970.
    assert_eq!(time.value(0), 1_704_067_200_000_000 + 700_000_000);
    assert_eq!(unsent(batch), vec![None; 9]);
    let schema = batch.schema();
    assert_eq!(schema.metadata()["pg.key_columns"], r#"["id"]"#);
    assert_eq!(schema.field(0).metadata()["pg.type"], "int4");
}

#[test]
fn unchanged_values_are_filled_from_the_old_row_or_listed() {
    let columns = [
        ("id", INT4, -1, true),
        ("long", TEXT, -1, false),
        ("wide", TEXT, -1, false),
    ];
    let bytes = described(&columns)
        // Without an old row, both are unsent instead of NULL.
        .update(T, &[text("1"), unchanged(), unchanged()])
        // The whole old row fills `long`. It has no `wide`: an unchanged value is never NULL.
        .update_full(
            T,
            &[text("1"), text("L"), null()],
            &[text("1"), unchanged(), unchanged()],
        )
        // A key of many bytes is sent with the key, though unchanged.
        .update_key(
            T,
            &[text("7"), null(), null()],
            &[unchanged(), text("x"), unchanged()],
        )
        // An insert that a row filter made from an update.
        .insert(T, &[text("2"), unchanged(), text("w")])
        .commit()
        .bytes();
    let (batches, end) = run(builder(), &bytes);
    end.unwrap();
    let batch = only(&batches);
    let list = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(
        unsent(batch),
        [
            list(&["long", "wide"]),
            None,
            list(&["wide"]),
            None,
            list(&["wide"]),
            list(&["long"])
        ]
    );
    assert_eq!(
        ints(batch, "id"),
        [Some(1), Some(1), Some(1), Some(7), Some(7), Some(2)]
    );
    let long = strings(batch, "long");
    assert_eq!(long[2].as_deref(), Some("L"));
    assert_eq!(long[4].as_deref(), Some("x"));
}

#[test]
fn metadata_columns_are_chosen_and_named() {
    let columns = [("id", INT4, -1, true)];
    let bytes = inserts(&columns, &[&[text("1")]]);
    let chosen = [MetadataColumn::Seq, MetadataColumn::ChangeType];
    let (batches, _) = run(
        builder().with_metadata(chosen).with_metadata_prefix("pg_"),
        &bytes,
    );
    let names: Vec<_> = only(&batches)
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names, ["id", "pg_seq", "pg_change_type"]);

    let (batches, _) = run(builder().with_metadata([]), &bytes);
    assert_eq!(only(&batches).num_columns(), 1);
    // No column at all, but rows.
    let (batches, _) = run(builder().with_metadata([]), &inserts(&[], &[&[], &[]]));
    assert_eq!(only(&batches).num_rows(), 2);

    let clash = inserts(&[("_seq", INT4, -1, true)], &[&[text("1")]]);
    let (batches, end) = run(builder(), &clash);
    assert!(batches.is_empty());
    let error = end.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    assert_eq!(
        (error.table(), error.column()),
        (Some("public.t"), Some("_seq"))
    );
    run(builder().with_metadata_prefix("walrow_"), &clash)
        .1
        .unwrap();
}

#[test]
fn batches_end_at_rows_and_bytes_and_memory() {
    let columns = [("id", INT4, -1, true), ("v", TEXT, -1, false)];
    let value = "x".repeat(100);
    let row = [text("1"), text(&value)];
    let rows: Vec<&[OwnedCell]> = (0..10).map(|_| &row[..]).collect();
    let bytes = inserts(&columns, &rows);
    let sizes = |builder| -> Vec<usize> {
        let (batches, end) = run(builder, &bytes);
        end.unwrap();
        batches
            .iter()
            .map(|batch| batch.record_batch().num_rows())
            .collect()
    };
    assert_eq!(sizes(builder().with_batch_rows(4)), [4, 4, 2]);
    assert_eq!(sizes(builder().with_batch_rows(1)), [1; 10]);
    // Each row has its 100 bytes and more.
    let by_bytes = sizes(builder().with_batch_bytes(1_000));
    assert!(
        by_bytes.iter().all(|rows| (1..10).contains(rows)),
        "{by_bytes:?}"
    );
    assert_eq!(sizes(builder().with_batch_bytes(1)), [1; 10]);
    assert_eq!(sizes(builder().with_batch_memory(1)), [1; 10]);
}

#[test]
fn alternating_tables_fill_one_batch_each() {
    let id = [("id", INT4, -1, true)];
    let mut stream = described(&id).relation(T + 1, "public", "u", ReplicaIdentity::Default, &id);
    for n in 0..50 {
        let cell = [text(n.to_string())];
        stream = stream.insert(T, &cell).insert(T + 1, &cell);
    }
    let (batches, end) = run(builder(), &stream.commit().bytes());
    end.unwrap();
    let sizes: Vec<_> = batches
        .iter()
        .map(|batch| {
            (
                batch.relation().name.to_string(),
                batch.record_batch().num_rows(),
            )
        })
        .collect();
    assert_eq!(sizes, [("t".to_owned(), 50), ("u".to_owned(), 50)]);
}

#[test]
fn a_new_version_cuts_the_batch_and_keeps_the_order() {
    let bytes = described(&[("id", INT4, -1, true)])
        .insert(T, &[text("1")])
        .relation(
            T,
            "public",
            "t",
            ReplicaIdentity::Default,
            &[("id", TEXT, -1, true)],
        )
        .insert(T, &[text("two")])
        .commit()
        .bytes();
    let (batches, end) = run(builder(), &bytes);
    end.unwrap();
    let types: Vec<_> = batches
        .iter()
        .map(|b| b.record_batch().schema().field(0).data_type().clone())
        .collect();
    assert_eq!(types, [DataType::Int32, DataType::Utf8]);
}

#[test]
fn position_never_passes_a_row_in_a_builder() {
    let id = [("id", INT4, -1, true)];
    let first = described(&id)
        .relation(T + 1, "public", "u", ReplicaIdentity::Default, &id)
        .insert(T, &[text("1")])
        .commit();
    let second = first
        .clone()
        .begin(0x2000, 701)
        .insert(T + 1, &[text("2")])
        .commit();
    let third = second
        .begin(0x3000, 702)
        .insert(T, &[text("3")])
        .insert(T, &[text("4")]);
    let bytes = third.commit().bytes();
    let mut decoder = builder().with_batch_rows(2).build().unwrap();
    assert_eq!(decoder.position(), Lsn(0));
    decoder.decode(&bytes[..first.bytes().len()]).unwrap();
    assert_eq!(decoder.position(), Lsn(0), "its row is in a builder");
    let consumed = decoder.decode(&bytes[first.bytes().len()..]).unwrap();
    // t is full in the middle of the third transaction: 1 and 3. The row of u is still inside.
    assert_eq!(
        decoder
            .next_batch()
            .unwrap()
            .unwrap()
            .record_batch()
            .num_rows(),
        2
    );
    assert_eq!(decoder.position(), Lsn(0x1030));
    let rest = &bytes[first.bytes().len() + consumed..];
    assert_eq!(decoder.decode(rest).unwrap(), rest.len());
    decoder.finish().unwrap();
    assert_eq!(decoder.position(), Lsn(0x1030), "nothing was taken since");
    while decoder.next_batch().unwrap().is_some() {}
    assert_eq!(decoder.position(), Lsn(0x3030));
}

#[test]
fn rows_before_a_bad_value_are_returned() {
    let columns = [("id", INT4, -1, true), ("d", DATE, -1, false)];
    let bytes = inserts(
        &columns,
        &[
            &[text("1"), text("2024-02-29")],
            &[text("2"), text("infinity")],
            &[text("3"), text("2024-03-01")],
        ],
    );
    let (batches, end) = run(builder(), &bytes);
    let error = end.unwrap_err();
    assert_eq!(ints(only(&batches), "id"), [Some(1)]);
    assert_eq!(
        (error.table(), error.column()),
        (Some("public.t"), Some("d"))
    );
    let infinity = Reason::Value(Unrepresentable::PositiveInfinity);
    assert_eq!(error.kind(), &ErrorKind::Unrepresentable(infinity));
    let expected = [
        "types = string for public.t.d",
        "unrepresentable = null for public.t.d",
    ];
    assert_eq!(remedies(&error), expected);
    assert!(error.lsn().is_some() && error.offset().is_some(), "{error}");

    // Each remedy reads the value.
    let (batches, end) = run(builder().with_type("public.t.d", DataType::Utf8), &bytes);
    end.unwrap();
    assert_eq!(strings(only(&batches), "d")[1].as_deref(), Some("infinity"));
    let null = builder().with_column_unrepresentable("public.t.d", OnUnrepresentable::Null);
    let (batches, end) = run(null, &bytes);
    end.unwrap();
    assert!(only(&batches).column(1).is_null(1));
    assert_eq!(batches[0].nulled(), [("d".to_owned(), 1)]);
    let (batches, end) = run(
        builder().with_unrepresentable(OnUnrepresentable::Sentinel),
        &bytes,
    );
    end.unwrap();
    let dates = only(&batches)
        .column(1)
        .as_primitive::<arrow_array::types::Date32Type>();
    assert_eq!(dates.value(1), i32::MAX);

    // Bytes that PostgreSQL never writes have no remedy.
    let bytes = inserts(&columns, &[&[text("1"), text("02/29/2024")]]);
    for policy in [OnUnrepresentable::Error, OnUnrepresentable::Null] {
        let error = run(builder().with_unrepresentable(policy), &bytes)
            .1
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Malformed { .. }),
            "{error}"
        );
        assert!(!error.to_string().contains("2024"), "a value in {error}");
    }
}

#[test]
fn bad_bytes_remove_only_their_transaction() {
    let id = [("id", INT4, -1, true)];
    let good = described(&id).insert(T, &[text("1")]).commit();
    let bad = good
        .begin(0x2000, 701)
        .insert(T, &[text("2")])
        .insert(T, &[text("3"), null()]);
    let mut decoder = builder().build().unwrap();
    let bytes = bad.commit().begin(0x3000, 702).commit().bytes();
    let (batches, end) = feed(&mut decoder, &bytes);
    let error = end.unwrap_err();
    assert_eq!(ints(only(&batches), "id"), [Some(1)]);
    assert!(matches!(error.kind(), ErrorKind::Stream(_)), "{error}");
    assert_eq!(decoder.position(), Lsn(0x1030));
    assert_eq!(
        decoder.decode(&[]).unwrap_err(),
        error,
        "it refuses more input"
    );
    assert_eq!(decoder.finish().unwrap_err(), error);
    assert!(
        std::error::Error::source(&error)
            .unwrap()
            .source()
            .is_none()
    );
}

#[test]
fn one_table_has_one_schema() {
    let id = [("id", INT4, -1, true)];
    let stream = described(&id)
        .relation(T + 1, "other", "t", ReplicaIdentity::Default, &id)
        .insert(T + 1, &[text("9")])
        .insert(T, &[text("1")])
        // Another replica identity does not change the schema.
        .relation(
            T,
            "public",
            "t",
            ReplicaIdentity::Full,
            &[("id", INT4, -1, true)],
        )
        .insert(T, &[text("2")]);
    let bytes = stream.clone().commit().bytes();
    for name in [
        TableName::from("public.t"),
        TableName::Qualified("public".to_owned(), "t".to_owned()),
    ] {
        let (batches, end) = run(builder().with_table(name), &bytes);
        end.unwrap();
        let ids: Vec<_> = batches
            .iter()
            .flat_map(|b| ints(b.record_batch(), "id"))
            .collect();
        assert_eq!(ids, [Some(1), Some(2)]);
        assert!(
            batches
                .windows(2)
                .all(|b| b[0].record_batch().schema() == b[1].record_batch().schema())
        );
    }
    let error = run(builder().with_table("t"), &bytes).1.unwrap_err();
    assert!(error.to_string().contains("public.t"), "{error}");
    assert!(error.to_string().contains("other.t"), "{error}");
    let error = run(builder().with_table("nowhere"), &bytes).1.unwrap_err();
    assert_eq!(
        error.to_string(),
        "no table nowhere in the stream; read no rows with missing_table = ignore"
    );

    // Other columns do.
    let wider = [("id", INT4, -1, true), ("b", BOOL, -1, false)];
    let bytes = stream
        .relation(T, "public", "t", ReplicaIdentity::Default, &wider)
        .insert(T, &[text("3"), text("t")])
        .commit()
        .bytes();
    let (batches, end) = run(builder().with_table("public.t"), &bytes);
    let error = end.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    assert_eq!(error.table(), Some("public.t"));
    assert_eq!(
        batches
            .iter()
            .map(|b| b.record_batch().num_rows())
            .sum::<usize>(),
        2
    );

    // Unless a declared schema is the same for all versions.
    let schema = Arc::new(Schema::new(vec![
        Field::new("b", DataType::Boolean, true),
        Field::new("_change_type", DataType::Utf8, false),
        Field::new("id", DataType::Int64, true),
        // Spark's name for the items of a list.
        Field::new_list("_unsent", Field::new("element", DataType::Utf8, true), true),
    ]));
    let projected = builder()
        .with_table("public.t")
        .with_schema(Arc::clone(&schema));
    let (batches, end) = run(projected, &bytes);
    end.unwrap();
    assert!(
        batches
            .iter()
            .all(|batch| batch.record_batch().schema() == schema)
    );
    let ids: Vec<_> = batches
        .iter()
        .flat_map(|b| {
            b.record_batch()
                .column(2)
                .as_primitive::<Int64Type>()
                .iter()
        })
        .collect();
    assert_eq!(ids, [Some(1), Some(2), Some(3)]);
    let missing: Vec<_> = batches
        .iter()
        .flat_map(|b| unsent(b.record_batch()))
        .collect();
    assert_eq!(
        missing,
        [Some(vec!["b".to_owned()]), Some(vec!["b".to_owned()]), None]
    );
}

#[test]
fn impossible_options_are_refused_when_the_decoder_is_built() {
    let options = |builder: DecoderBuilder| {
        let error = builder.build().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
        error.to_string()
    };
    options(builder().with_batch_rows(0));
    options(builder().with_batch_bytes(1 << 30));
    options(builder().with_metadata([MetadataColumn::Seq, MetadataColumn::Seq]));
    options(builder().with_schema(Arc::new(Schema::empty())));
    options(
        builder()
            .with_profile(Profile::Spark)
            .with_unrepresentable(OnUnrepresentable::Sentinel),
    );
    options(builder().with_type("numeric", DataType::Decimal128(10, -2)));
    // Arrow types that no column can have, and types that Spark does not have.
    options(builder().with_type("a", DataType::Int8));
    options(builder().with_type("a", DataType::Date64));
    let list =
        |item: DataType, nullable| DataType::List(Arc::new(Field::new("item", item, nullable)));
    options(builder().with_type("a", list(DataType::Int32, false)));
    for data_type in [
        DataType::UInt32,
        DataType::FixedSizeBinary(16),
        DataType::Time64(TimeUnit::Microsecond),
        list(DataType::UInt32, true),
    ] {
        builder().with_type("a", data_type.clone()).build().unwrap();
        let spark = builder().with_profile(Profile::Spark);
        let text = options(spark.with_type("a", data_type));
        assert!(text.contains("Spark"), "{text}");
    }
    // A column is checked when it appears.
    let bytes = inserts(&[("id", INT4, -1, true)], &[&[text_cell()]]);
    let error = run(builder().with_type("id", DataType::Date32), &bytes)
        .1
        .unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    assert_eq!(error.column(), Some("id"));
}

fn text_cell() -> OwnedCell {
    text("1")
}

#[test]
fn types_are_chosen_by_the_longest_key() {
    let columns = [
        ("a", 1700, -1, false),
        ("b", 1700, -1, false),
        ("c", 1700, -1, false),
    ];
    let bytes = inserts(&columns, &[&[text("1.50"), text("2"), text("NaN")]]);
    let decoder = builder()
        .with_type("numeric", DataType::Decimal128(10, 2))
        .with_type("t.b", DataType::Decimal128(5, 0))
        .with_type("public.t.b", DataType::Decimal128(6, 0))
        .with_type("c", DataType::Utf8);
    let (batches, end) = run(decoder, &bytes);
    end.unwrap();
    let types: Vec<_> = only(&batches).schema().fields()[..3]
        .iter()
        .map(|f| f.data_type().clone())
        .collect();
    let expected = [
        DataType::Decimal128(10, 2),
        DataType::Decimal128(6, 0),
        DataType::Utf8,
    ];
    assert_eq!(types, expected);
}

#[test]
fn each_profile_has_its_own_arrow_types() {
    let typmod = ((12 << 16) | 2) + 4;
    let columns: [Col; 10] = [
        ("n", 1700, typmod, false),
        ("u", 2950, -1, false),
        ("o", 26, -1, false),
        ("j", 3802, -1, false),
        ("z", 1184, -1, false),
        ("h", 1083, -1, false),
        ("l", 1007, -1, false),
        ("i", 869, -1, false),
        ("m", 1700, ((40 << 16) | 2) + 4, false),
        ("b", 17, -1, false),
    ];
    let row: Vec<OwnedCell> = (0..10).map(|_| null()).collect();
    let bytes = inserts(&columns, &[&row]);
    let types = |profile| -> Vec<String> {
        let (batches, end) = run(builder().with_profile(profile).with_metadata([]), &bytes);
        end.unwrap();
        let schema = only(&batches).schema();
        schema
            .fields()
            .iter()
            .map(|field| field.data_type().to_string())
            .collect()
    };
    assert_eq!(
        types(Profile::Arrow),
        [
            "Decimal128(12, 2)",
            "FixedSizeBinary(16)",
            "UInt32",
            "Utf8",
            "Timestamp(µs, \"UTC\")",
            "Time64(µs)",
            "List(Int32)",
            "Utf8",
            "Utf8",
            "Binary"
        ]
    );
    assert_eq!(
        types(Profile::Spark),
        [
            "Decimal128(12, 2)",
            "Utf8",
            "Int64",
            "Utf8",
            "Timestamp(µs, \"UTC\")",
            "Utf8",
            "List(Int32)",
            "Utf8",
            "Utf8",
            "Binary"
        ]
    );
    assert_eq!(types(Profile::Text), ["Utf8"; 10]);
}

#[test]
fn the_catalog_adds_the_types_that_the_stream_lacks() {
    let catalog = Catalog::from_json(
        r#"{"types": [
            {"oid": 20000, "schema": "public", "name": "price", "kind": "domain", "base": 1700,
             "type_modifier": 655366},
            {"oid": 20001, "schema": "public", "name": "_price", "kind": "array", "element": 20000},
            {"oid": 20002, "schema": "public", "name": "mood", "kind": "enum", "labels": ["a"]},
            {"oid": 20003, "schema": "public", "name": "half", "kind": "domain", "base": 29999}
        ]}"#,
    )
    .unwrap();
    let columns: [Col; 5] = [
        ("p", 20_000, -1, false),
        ("a", 20_001, -1, false),
        ("m", 20_002, -1, false),
        ("l", 20_003, -1, false),
        ("x", 30_000, -1, false),
    ];
    let bytes = inserts(
        &columns,
        &[&[text("1.50"), text("{2.25}"), text("a"), null(), null()]],
    );
    let mut decoder = builder().with_catalog(Arc::new(catalog)).build().unwrap();
    feed(&mut decoder, &bytes).1.unwrap();
    decoder.finish().unwrap();
    let missing = decoder.unresolved_types();
    let missing: Vec<_> = missing.map(|it| (&*it.column, it.type_oid)).collect();
    assert_eq!(missing, [("l", 29_999), ("x", 30_000)]);
    let batch = decoder.next_batch().unwrap().unwrap();
    let schema = batch.record_batch().schema();
    assert_eq!(schema.field(0).data_type(), &DataType::Decimal128(10, 2));
    let item = Field::new("item", DataType::Decimal128(10, 2), true);
    assert_eq!(schema.field(1).data_type(), &DataType::List(Arc::new(item)));
    assert_eq!(schema.field(2).data_type(), &DataType::Utf8);
}

#[test]
fn binary_of_an_unknown_type_is_only_read_as_binary() {
    let bytes = inserts(
        &[("x", 30_000, -1, false)],
        &[&[text("a")], &[binary([1, 255])]],
    );
    let error = run(builder(), &bytes).1.unwrap_err();
    assert_eq!(remedies(&error), ["types = binary for public.t.x"]);
    let (batches, end) = run(builder().with_type("x", DataType::Binary), &bytes);
    end.unwrap();
    let values = only(&batches).column(0).as_binary::<i32>();
    assert_eq!(
        (values.value(0), values.value(1)),
        (&b"a"[..], &[1, 255][..])
    );
}

#[test]
fn text_that_is_not_utf8_is_never_changed() {
    let bytes = inserts(&[("v", TEXT, -1, false)], &[&[text(b"caf\xe9")]]);
    let error = run(builder(), &bytes).1.unwrap_err();
    assert!(error.to_string().contains("not UTF-8"), "{error}");
    let (batches, end) = run(builder().with_type("v", DataType::Binary), &bytes);
    end.unwrap();
    assert_eq!(
        only(&batches).column(0).as_binary::<i32>().value(0),
        b"caf\xe9"
    );
}

#[test]
fn timestamps_keep_their_zone_in_the_type() {
    let columns = [("a", 1114, -1, false), ("b", 1184, -1, false)];
    let row = [
        text("2024-02-29 12:34:56.789"),
        text("2024-02-29 12:34:56.789+05:30"),
    ];
    let (batches, end) = run(builder(), &inserts(&columns, &[&row]));
    end.unwrap();
    let batch = only(&batches);
    let value = |index: usize| {
        batch
            .column(index)
            .as_primitive::<TimestampMicrosecondType>()
            .value(0)
    };
    assert_eq!(value(0), 1_709_210_096_789_000);
    assert_eq!(value(1), value(0) - 19_800_000_000);
    let zone = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
    assert_eq!(batch.schema().field(1).data_type(), &zone);
}

/// If the input ends with a commit, its transaction is decoded to its end, with any number of
/// batches and any cut.
#[test]
fn a_stream_that_ends_with_a_commit_is_complete() {
    let mut stream = described(&[("id", INT4, -1, true)]);
    for n in 0..10 {
        stream = stream.insert(T, &[text(n.to_string())]);
    }
    let stream = stream.commit();
    let (wire, payloads, messages) = (stream.bytes(), stream.payloads(), stream.messages());
    let expected: Vec<_> = (0..10).map(Some).collect();
    let all = |batches: &[Batch]| -> Vec<_> {
        let rows = batches.iter().flat_map(|b| ints(b.record_batch(), "id"));
        rows.collect()
    };
    for rows in 1..=3 {
        let small = || builder().with_batch_rows(rows);
        for place in 0..=wire.len() {
            // A caller that goes on while batches come, and one that stops with the input.
            for patient in [true, false] {
                let mut decoder = small().build().unwrap();
                let mut batches = Vec::new();
                for piece in [&wire[..place], &wire[place..]] {
                    let mut rest = piece;
                    while !rest.is_empty() || (patient && decoder.has_batch()) {
                        batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
                        let consumed = decoder.decode(rest).unwrap();
                        rest = &rest[consumed..];
                    }
                }
                assert!(!patient || !decoder.is_unfinished());
                decoder.finish().unwrap();
                batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
                assert_eq!(all(&batches), expected, "cut at {place}");
                assert_eq!(decoder.position(), Lsn(0x1030));
            }
        }
        let chunks = [
            (
                Framing::CopyData,
                payloads
                    .iter()
                    .map(|data| (Lsn(0), *data))
                    .collect::<Vec<_>>(),
            ),
            (
                Framing::Message,
                messages
                    .iter()
                    .map(|(lsn, data)| (Lsn(*lsn), *data))
                    .collect(),
            ),
        ];
        for (framing, chunks) in chunks {
            let mut decoder = small().with_framing(framing).build().unwrap();
            let mut batches = Vec::new();
            for (lsn, data) in &chunks {
                let mut frames = Vec::new();
                framing.append(data, *lsn, &mut frames);
                let (more, end) = feed(&mut decoder, &frames);
                end.unwrap();
                batches.extend(more);
            }
            decoder.flush().unwrap();
            batches.extend(std::iter::from_fn(|| decoder.next_batch().unwrap()));
            assert_eq!(all(&batches), expected, "{framing:?}");
            // The decoder frames the chunks itself, and a caller may take the batches later.
            for patient in [true, false] {
                let mut decoder = small().with_framing(framing).build().unwrap();
                let mut batches = Vec::new();
                for (lsn, data) in &chunks {
                    decoder.decode_chunk_at(data, *lsn).unwrap();
                    if patient {
                        batches.extend(std::iter::from_fn(|| decoder.next_batch().unwrap()));
                        assert!(decoder.wants_input());
                    }
                }
                decoder.finish().unwrap();
                batches.extend(std::iter::from_fn(|| decoder.next_batch().unwrap()));
                assert_eq!(all(&batches), expected, "{framing:?}");
                assert_eq!(decoder.position(), Lsn(0x1030));
                assert!(!decoder.is_unfinished());
            }
        }
    }
}

/// The rows before a fault come first. Then every call returns the error.
#[test]
fn an_error_follows_the_batches_before_it() {
    let columns = [("id", INT4, -1, true), ("d", DATE, -1, false)];
    let rows = [
        &[text("1"), text("2024-02-29")][..],
        &[text("2"), text("infinity")],
    ];
    let stream = described(&columns)
        .insert(T, rows[0])
        .insert(T, rows[1])
        .commit();
    let mut decoder = builder().with_framing(Framing::CopyData).build().unwrap();
    let mut faults = Vec::new();
    for payload in stream.payloads() {
        faults.extend(decoder.decode_chunk(payload).err());
    }
    assert_eq!(faults.len(), 1, "its last chunk is the commit");
    assert_eq!(
        decoder
            .next_batch()
            .unwrap()
            .unwrap()
            .record_batch()
            .num_rows(),
        1
    );
    for _ in 0..2 {
        assert_eq!(decoder.next_batch().err(), faults.first().cloned());
    }
    assert_eq!(decoder.decode_chunk(b"more").err(), faults.pop());
    assert!(!decoder.is_unfinished());
}

#[test]
fn a_chunk_before_other_input_is_decoded_first() {
    let columns = [("id", INT4, -1, true)];
    let stream = inserts(&columns, &[&[text("1")], &[text("2")], &[text("3")]]);
    let mut decoder = builder().with_batch_rows(1).build().unwrap();
    let (head, tail) = stream.split_at(stream.len() - 3);
    decoder.decode_chunk(head).unwrap();
    let mut found = Vec::new();
    let mut rest = tail;
    while !rest.is_empty() || !decoder.wants_input() {
        while let Some(batch) = decoder.next_batch().unwrap() {
            found.extend(ints(batch.record_batch(), "id"));
        }
        let consumed = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
    }
    decoder.finish().unwrap();
    while let Some(batch) = decoder.next_batch().unwrap() {
        found.extend(ints(batch.record_batch(), "id"));
    }
    assert_eq!(found, [Some(1), Some(2), Some(3)]);
}

#[test]
fn an_error_is_printed_in_words() {
    for bytes in [
        &[0; 5][..],
        &inserts(&[("d", DATE, -1, false)], &[&[text("infinity")]]),
    ] {
        let error = run(builder(), bytes).1.unwrap_err();
        assert_eq!(format!("{error:?}"), error.to_string());
        let mut source = std::error::Error::source(&error);
        while let Some(cause) = source {
            let words = cause.to_string();
            let words = words.split(" (byte").next().unwrap();
            assert!(error.to_string().contains(words), "{error} lacks {words}");
            source = cause.source();
        }
        assert!(format!("{error:#?}").contains("Fields {"), "{error:#?}");
    }
}

#[test]
fn a_new_session_keeps_what_was_committed() {
    let columns = [("id", INT4, -1, true), ("d", DATE, -1, false)];
    let row = |id: &str, date: &str| [text(id), text(date)];
    let stream = |date: &str| {
        inserts(
            &columns,
            &[
                &row("1", "2024-02-29"),
                &row("2", "2024-03-01"),
                &row("3", date),
            ],
        )
    };
    let read = |bytes: &[u8]| {
        let mut decoder = builder().with_batch_rows(1).build().unwrap();
        // The cut leaves the transaction unread in the decoder when the session ends.
        decoder.decode(&bytes[..bytes.len() - 1]).unwrap();
        decoder.decode(&bytes[bytes.len() - 1..]).unwrap();
        decoder.new_session();
        decoder
    };
    let mut decoder = read(&stream("2024-03-02"));
    decoder.finish().unwrap();
    assert_eq!(
        std::iter::from_fn(|| decoder.next_batch().ok().flatten()).count(),
        3
    );
    // `new_session` returns nothing, so the next call returns the error.
    let mut decoder = read(&stream("infinity"));
    assert_eq!(
        std::iter::from_fn(|| decoder.next_batch().ok().flatten()).count(),
        2
    );
    let error = decoder.decode(&[]).unwrap_err();
    assert_eq!(error.column(), Some("d"));
    assert_eq!(decoder.finish().unwrap_err(), error);
}

#[test]
fn tables_are_distinguished_by_schema_and_name() {
    let id = [("id", INT4, -1, true)];
    let bytes = Stream::new()
        .session()
        .begin(0x1000, 700)
        .relation(T, "a.b", "c", ReplicaIdentity::Default, &id)
        .relation(T + 1, "a", "b.c", ReplicaIdentity::Default, &id)
        .insert(T, &[text("1")])
        .insert(T + 1, &[text("2")])
        .insert(T, &[text("3")])
        .commit()
        .bytes();
    let error = run(builder().with_table("a.b.c"), &bytes).1.unwrap_err();
    assert_eq!(
        error.to_string().split(';').next().unwrap(),
        r#"the name matches "a.b"."c" and "a"."b.c""#
    );
    let pair = TableName::Qualified("a.b".to_owned(), "c".to_owned());
    let (batches, end) = run(builder().with_table(pair), &bytes);
    end.unwrap();
    assert_eq!(ints(only(&batches), "id"), [Some(1), Some(3)]);
    // They are not versions of one table.
    let (batches, end) = run(builder(), &bytes);
    end.unwrap();
    let rows: Vec<_> = batches
        .iter()
        .map(|b| ints(b.record_batch(), "id"))
        .collect();
    assert_eq!(rows, [vec![Some(1), Some(3)], vec![Some(2)]]);
}

/// A schema that rows could violate is an error before the first batch.
#[test]
fn a_given_schema_may_forbid_null_in_metadata_only() {
    let columns = [("id", INT4, -1, true), ("l", 1007, -1, false)];
    let bytes = inserts(&columns, &[&[text("1"), text("{1}")]]);
    let read = |fields: Vec<Field>| {
        let schema = Arc::new(Schema::new(fields));
        run(builder().with_table("t").with_schema(schema), &bytes)
    };
    let list = |item_nullable| {
        let item = Field::new("item", DataType::Int32, item_nullable);
        Field::new_list("l", item, true)
    };
    let id = |nullable| Field::new("id", DataType::Int32, nullable);
    let kind = Field::new("_change_type", DataType::Utf8, false);
    read(vec![id(true), list(true), kind]).1.unwrap();
    let unsent = Field::new_list("_unsent", Field::new("item", DataType::Utf8, false), false);
    for (fields, column) in [
        (vec![id(false)], "id"),
        (vec![list(false)], "l"),
        (vec![Field::new("none", DataType::Utf8, false)], "none"),
        (vec![unsent], "_unsent"),
    ] {
        let (batches, end) = read(fields);
        let error = end.unwrap_err();
        assert!(batches.is_empty());
        assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
        assert_eq!(
            (error.table(), error.column()),
            (Some("public.t"), Some(column)),
            "{error}"
        );
    }
}

/// A key may name a type and a column.
#[test]
fn a_key_is_a_column_before_it_is_a_type() {
    let named = [("name", INT4, -1, true), ("date", 1114, -1, false)];
    let bytes = inserts(&named, &[&[text("1"), text("2024-01-01 00:00:00")]]);
    let dictionary = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let decoder = builder()
        .with_type("name", dictionary.clone())
        .with_type("t.date", DataType::Timestamp(TimeUnit::Microsecond, None));
    let (batches, end) = run(decoder, &bytes);
    end.unwrap();
    assert_eq!(only(&batches).schema().field(0).data_type(), &dictionary);
    // If the type of this name cannot have the Arrow type, building the decoder fails.
    let refuse = |key: &str, data_type: DataType| {
        let error = builder().with_type(key, data_type).build().unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Options(_)), "{error}");
        error.to_string()
    };
    let text = refuse("name", DataType::Int64);
    assert!(
        text.starts_with(
            "types: name cannot become int64; it can become string (also large_string"
        ),
        "{text}"
    );
    assert!(
        text.ends_with("; name is a type here: the key of a column begins with its table"),
        "{text}"
    );
    refuse("int4", DataType::Int16);
    refuse("_int4", DataType::Int32);
    refuse("date", DataType::Timestamp(TimeUnit::Microsecond, None));
    builder()
        .with_type("bit", DataType::Boolean)
        .build()
        .unwrap();
    builder()
        .with_type("t.name", DataType::Int64)
        .build()
        .unwrap();
}

#[test]
fn times_and_numerics_become_the_types_asked_for() {
    let columns = [
        ("t", 1083, -1, false),
        ("n", 1700, -1, false),
        ("l", 1231, -1, false),
    ];
    // 12.5 as PostgreSQL sends it: two groups, the first of weight 0, one digit shown.
    let number = [0, 2, 0, 0, 0, 0, 0, 1, 0, 12, 0x13, 0x88];
    let time = 3_600_000_001_i64.to_be_bytes();
    let rows: [&[OwnedCell]; 3] = [
        &[text("01:00:00.000001"), text("12.5"), text("{0.1,NaN}")],
        &[binary(time), binary(number), null()],
        &[text("23:59:59.999999"), text("-Infinity"), null()],
    ];
    let list = DataType::List(Arc::new(Field::new("item", DataType::Float64, true)));
    let decoder = || {
        builder()
            .with_type("time", DataType::Time64(TimeUnit::Nanosecond))
            .with_type("numeric", DataType::Float64)
            .with_type("_numeric", list.clone())
    };
    for profile in [Profile::Arrow, Profile::Spark] {
        let (batches, end) = run(decoder().with_profile(profile), &inserts(&columns, &rows));
        end.unwrap();
        let batch = only(&batches);
        let times = batch
            .column(0)
            .as_primitive::<arrow_array::types::Time64NanosecondType>();
        assert_eq!(
            times.values()[..],
            [3_600_000_001_000, 3_600_000_001_000, 86_399_999_999_000]
        );
        let numbers = batch
            .column(1)
            .as_primitive::<arrow_array::types::Float64Type>();
        assert_eq!(numbers.values()[..], [12.5, 12.5, f64::NEG_INFINITY]);
        let lists = batch.column(2).as_list::<i32>();
        let items = lists.values();
        let items = items.as_primitive::<arrow_array::types::Float64Type>();
        assert!(items.value(0).to_bits() == 0.1_f64.to_bits() && items.value(1).is_nan());
    }
    // A number beyond all floats does not become infinite, and one near zero does not become zero.
    for number in ["1".repeat(400), format!("0.{}1", "0".repeat(400))] {
        let bytes = inserts(&columns, &[&[null(), text(&number), null()]]);
        let error = run(decoder(), &bytes).1.unwrap_err();
        let beyond = Reason::Value(Unrepresentable::FloatRange);
        assert_eq!(error.kind(), &ErrorKind::Unrepresentable(beyond));
    }
}

#[test]
fn metadata_that_does_not_fit_is_an_error_only_if_its_column_is_selected() {
    let columns = [("id", INT4, -1, true)];
    let head = described(&columns).insert(T, &[text("1")]).commit().bytes();
    let first = |message: OwnedMessage, oid: u32| {
        let stream = Stream::new().message(message);
        let stream = stream.insert(oid, &[text("2")]);
        (stream.clone(), stream.frames()[0].len())
    };
    let begin = |final_lsn: u64, commit_time: i64| OwnedMessage::Begin {
        final_lsn,
        commit_time,
        xid: 701,
    };
    let commit = |commit_lsn: u64, commit_time: i64| OwnedMessage::Commit {
        commit_lsn,
        end_lsn: commit_lsn + 8,
        commit_time,
    };
    for (lsn, time, profile, column, reason) in [
        (
            0x2000,
            i64::MAX,
            Profile::Arrow,
            MetadataColumn::CommitTimestamp,
            Reason::CommitTime,
        ),
        (
            1 << 63,
            0,
            Profile::Spark,
            MetadataColumn::CommitLsn,
            Reason::Lsn,
        ),
    ] {
        let (stream, begin_size) = first(begin(lsn, time), T);
        let tail = stream.message(commit(lsn, time)).bytes();
        let bytes = [&head[..], &tail].concat();
        let builder = || builder().with_profile(profile);
        let (batches, end) = run(builder(), &bytes);
        assert_eq!(ints(only(&batches), "id"), [Some(1)]);
        let error = end.unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Unrepresentable(reason));
        assert_eq!(error.table(), Some("public.t"));
        let name = format!("_{}", column.name());
        assert_eq!(error.column(), Some(&*name), "{error}");
        let row = (head.len() + begin_size) as u64;
        assert_eq!(error.offset(), Some(row), "{error}");
        // It is no error without the column, or without a row.
        let others: Vec<_> = MetadataColumn::defaults()
            .into_iter()
            .filter(|other| *other != column)
            .collect();
        let [remedy] = error.remedies() else {
            panic!("{error}")
        };
        assert_eq!(
            (remedy.option, &remedy.key),
            (DecoderOption::Metadata, &None)
        );
        let names = others.iter().map(|other| other.name()).collect();
        assert_eq!(remedy.value, Some(RemedyValue::Names(names)));
        let (batches, end) = run(builder().with_metadata(others), &bytes);
        end.unwrap();
        assert_eq!(ints(only(&batches), "id"), [Some(1), Some(2)]);
        let (_, end) = run(builder().with_table("public.t"), &head);
        end.unwrap();
    }
}

#[test]
fn remedies_keep_the_name_and_messages_escape_it() {
    let name = "né\"\\\n\u{7f}\u{85}名";
    let bytes = inserts(&[(name, DATE, -1, true)], &[&[text("infinity")]]);
    let error = run(builder(), &bytes).1.unwrap_err();
    for remedy in error.remedies() {
        assert_eq!(remedy.key, Some(format!("public.t.{name}")));
    }
    let shown = r#"types = string for public.t.né"\\n\x7f\x85名 or"#;
    assert!(error.to_string().contains(shown), "{error}");
}

#[test]
fn another_length_of_varchar_keeps_the_schema() {
    let stream = |typmod| {
        described(&[("v", 1043, typmod, true)])
            .insert(T, &[text("a")])
            .commit()
    };
    let bytes = [stream(14).bytes(), stream(24).bytes()].concat();
    let (batches, end) = run(builder().with_table("t"), &bytes);
    end.unwrap();
    let schemas: Vec<_> = batches.iter().map(|b| b.record_batch().schema()).collect();
    assert_eq!(schemas.len(), 2);
    assert_eq!(schemas[0], schemas[1], "the first version's");
    assert_eq!(schemas[0].field(0).metadata()["pg.typmod"], "14");
}

/// An update is returned whole or not at all, no matter which image fills the batch.
#[test]
fn half_an_update_is_removed() {
    let columns = [("id", INT4, -1, true), ("d", DATE, -1, false)];
    let row = |id: &str, date: &str| [text(id), text(date)];
    let bytes = described(&columns)
        .insert(T, &row("1", "2024-01-01"))
        .update_full(T, &row("1", "2024-01-01"), &row("2", "infinity"))
        .commit()
        .bytes();
    for rows in 1..=3 {
        let (batches, end) = run(builder().with_batch_rows(rows), &bytes);
        end.unwrap_err();
        assert_eq!(strings(only(&batches), "_change_type"), some(&["insert"]));
    }
    // Alone in its batch.
    let bytes = described(&columns)
        .update_full(T, &row("1", "2024-01-01"), &row("2", "infinity"))
        .commit()
        .bytes();
    for rows in 1..=2 {
        let mut decoder = builder().with_batch_rows(rows).build().unwrap();
        let (batches, end) = feed(&mut decoder, &bytes);
        end.unwrap_err();
        assert!(batches.is_empty() && !decoder.has_batch());
        assert_eq!(decoder.position(), Lsn(0));
    }
}

/// Empty builders count as memory, not as rows.
#[test]
fn empty_builders_do_not_count_as_rows() {
    let names: Vec<&'static str> = (0..300)
        .map(|n| &*Box::leak(format!("c{n}").into_boxed_str()))
        .collect();
    let columns: Vec<Col> = names.iter().map(|name| (*name, INT4, -1, false)).collect();
    let row = vec![text("1"); columns.len()];
    let rows: Vec<&[OwnedCell]> = (0..50).map(|_| &row[..]).collect();
    let bytes = inserts(&columns, &rows);
    let sizes = |builder| -> Vec<usize> {
        let (batches, end) = run(builder, &bytes);
        end.unwrap();
        batches
            .iter()
            .map(|b| b.record_batch().num_rows())
            .collect()
    };
    // Less than 4 KiB a row.
    let by_bytes = sizes(builder().with_batch_bytes(64 << 10));
    assert!(by_bytes[0] >= 16, "{by_bytes:?}");
    assert_eq!(sizes(builder().with_batch_memory(64 << 10)), [1; 50]);
}

#[test]
fn unresolved_types_are_listed_with_a_schema_too() {
    let bytes = inserts(&[("m", 20_000, -1, false)], &[&[text("happy")]]);
    let schema = Schema::new(vec![Field::new("m", DataType::Utf8, true)]);
    let mut decoder = builder()
        .with_table("t")
        .with_schema(Arc::new(schema))
        .build()
        .unwrap();
    feed(&mut decoder, &bytes).1.unwrap();
    let missing: Vec<_> = decoder.unresolved_types().collect();
    assert_eq!(missing.len(), 1);
    assert_eq!((&*missing[0].table, &*missing[0].column), ("public.t", "m"));
    assert_eq!(missing[0].type_oid, 20_000);
}

/// The remedies of an error, in words.
fn remedies(error: &Error) -> Vec<String> {
    error.remedies().iter().map(ToString::to_string).collect()
}

#[test]
fn errors_are_sentences() {
    let columns = [("t", 1083, -1, false)];
    let error = |cell: &str| {
        let bytes = inserts(&columns, &[&[text(cell)]]);
        run(builder(), &bytes).1.unwrap_err().to_string()
    };
    assert!(
        error("24:00:00").starts_with(
            "public.t.t: the column's type cannot hold 24:00:00, which is not within a day; let it \
             through by types = string for public.t.t or unrepresentable = null for public.t.t (byte"
        ),
        "{}",
        error("24:00:00")
    );
    assert!(
        error("noon").starts_with("public.t.t: expected a time of day in a cell of 4 bytes (byte "),
        "{}",
        error("noon")
    );
}

/// The versions of a table are returned in order with their schemas, with any number of other
/// tables between them.
#[test]
fn forgotten_layouts_are_built_again() {
    let wide: Vec<&'static str> = (0..1000)
        .map(|n| &*Box::leak(format!("c{n}").into_boxed_str()))
        .collect();
    let columns: Vec<Col> = wide.iter().map(|name| (*name, INT4, -1, false)).collect();
    let row = vec![null(); columns.len()];
    let mut stream = Stream::new().session().begin(0x1000, 700);
    for table in 0..40 {
        let name = format!("t{table}");
        stream = stream.relation(
            T + table,
            "public",
            &name,
            ReplicaIdentity::Default,
            &columns,
        );
    }
    for _ in 0..3 {
        for table in 0..40 {
            stream = stream.insert(T + table, &row);
        }
    }
    let bytes = stream.commit().bytes();
    let (whole, end) = run(builder(), &bytes);
    end.unwrap();
    assert_eq!(whole.len(), 40);
    assert!(
        whole
            .iter()
            .all(|batch| batch.record_batch().num_rows() == 3)
    );
    let (single, end) = run(builder().with_batch_rows(1), &bytes);
    end.unwrap();
    assert_eq!(single.len(), 120);
    for batch in &single {
        let version = batch.relation().version as usize;
        assert_eq!(
            batch.record_batch().schema(),
            whole[version].record_batch().schema()
        );
    }
}

/// For columns' names that are much longer than a row.
const LONG: &str = "a_name_of_sixty_three_bytes_as_postgresql_has_them_at_the_most_";

#[test]
fn both_images_of_an_update_lie_in_one_batch() {
    let columns = [("id", INT4, -1, true), ("v", TEXT, -1, true)];
    let row = |id: &str| [text(id), text("v")];
    let mut stream = Stream::new().session().begin(0x1000, 700).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Full,
        &columns,
    );
    for id in ["1", "2", "3"] {
        stream = stream
            .insert(T, &row(id))
            .update_full(T, &row(id), &row("4"));
        stream = stream.update_full(T, &row("4"), &row(id));
    }
    let bytes = stream.commit().bytes();
    for envelope in [false, true] {
        for rows in 1..8 {
            let builder = builder().with_batch_rows(rows).with_envelope(envelope);
            let (batches, end) = run(builder, &bytes);
            assert_eq!(end, Ok(()));
            let mut seen = 0;
            for batch in &batches {
                let records = batch.record_batch();
                assert!(records.num_rows() <= rows.max(2));
                let types = strings(records, "_change_type");
                let types: Vec<_> = types.iter().flatten().map(String::as_str).collect();
                for (place, one) in types.iter().enumerate() {
                    if *one == "update_preimage" {
                        assert_eq!(types.get(place + 1), Some(&"update_postimage"), "{rows}");
                    }
                }
                seen += types.len();
            }
            assert_eq!(seen, 15);
        }
    }
}

#[test]
fn a_removed_update_is_not_counted() {
    let columns = [("d", DATE, -1, true), ("n", INT4, -1, true)];
    let old = [text("infinity"), text("1")];
    let stream = Stream::new().session().begin(0x1000, 700).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Full,
        &columns,
    );
    let stream = stream
        .insert(T, &[text("infinity"), text("1")])
        .update_full(T, &old, &[text("infinity"), text("one")]);
    let bytes = stream.commit().bytes();
    for envelope in [false, true] {
        let builder = builder()
            .with_unrepresentable(OnUnrepresentable::Null)
            .with_envelope(envelope);
        let (batches, end) = run(builder, &bytes);
        if envelope {
            // A string holds every value.
            assert_eq!(end, Ok(()));
            continue;
        }
        assert!(end.is_err());
        assert_eq!(only(&batches).num_rows(), 1);
        assert_eq!(batches[0].nulled(), [("d".to_owned(), 1)]);
    }
    // The envelope cannot hold text that is not UTF-8.
    let columns = [("a", TEXT, -1, true), ("d", DATE, -1, true)];
    let bytes = described(&columns)
        .insert(T, &[text([0xff]), text("2024-01-01")])
        .insert(T, &[text([0xff]), binary([0])])
        .commit()
        .bytes();
    let envelope = builder()
        .with_unrepresentable(OnUnrepresentable::Null)
        .with_envelope(true);
    let (batches, end) = run(envelope, &bytes);
    assert!(end.is_err());
    assert_eq!(only(&batches).num_rows(), 1);
    assert_eq!(batches[0].nulled(), [("data".to_owned(), 1)]);
}

#[test]
fn names_in_batches_count_as_bytes() {
    let names: Vec<String> = (0..100).map(|place| format!("{place:03}{LONG}")).collect();
    let columns: Vec<_> = names
        .iter()
        .enumerate()
        .map(|(place, name)| (&**name, TEXT, -1, place == 0))
        .collect();
    let mut row = vec![unchanged(); columns.len()];
    row[0] = text("1");
    let identity = ReplicaIdentity::Default;
    let mut stream = Stream::new()
        .session()
        .begin(0x1000, 700)
        .relation(T, "public", "t", identity, &columns);
    let rows = 1_000;
    for _ in 0..rows {
        stream = stream.update(T, &row);
    }
    let bytes = stream.commit().bytes();
    let projected = Schema::new(vec![
        Field::new(names[0].as_str(), DataType::Utf8, true),
        Field::new(format!("x{LONG}"), DataType::Utf8, true),
        Field::new("_unsent", DataType::new_list(DataType::Utf8, true), true),
    ]);
    let chosen = builder()
        .with_table("t")
        .with_schema(Arc::new(projected))
        .with_columns([names[0].clone(), format!("x{LONG}")]);
    let limit = 100_000;
    for (builder, per_row) in [
        (builder(), 99 * 66),
        (builder().with_envelope(true), 99 * 66),
        (chosen, 64),
    ] {
        let (batches, end) = run(builder.with_batch_bytes(limit), &bytes);
        assert_eq!(end, Ok(()));
        let sizes: Vec<_> = batches
            .iter()
            .map(|it| it.record_batch().num_rows())
            .collect();
        assert_eq!(sizes.iter().sum::<usize>(), rows);
        let most = limit / per_row + 1;
        assert!(sizes.iter().all(|size| *size <= most), "{sizes:?}");
    }
    // Without `_unsent`, the names take no memory.
    let (batches, end) = run(
        builder().with_metadata([]).with_batch_bytes(limit * 10),
        &bytes,
    );
    assert_eq!((batches.len(), end), (1, Ok(())));
}

#[test]
fn side_tables_and_the_envelope_count_in_batch_memory() {
    let columns = [("id", INT4, -1, true)];
    let mut stream = described(&columns);
    for _ in 0..1_000 {
        stream = stream.emit("prefix", &[b'x'; 1_000]);
        stream = stream.insert(T, &[text("1")]);
    }
    let bytes = stream.commit().bytes();
    let memory = 100_000;
    let count = |builder: DecoderBuilder, table: &str| {
        let (batches, end) = run(builder.with_batch_memory(memory), &bytes);
        assert_eq!(end, Ok(()));
        let named = |batch: &&Batch| &*batch.relation().name == table;
        let batches: Vec<_> = batches.iter().filter(named).collect();
        let rows = batches.iter().map(|it| it.record_batch().num_rows());
        assert_eq!(rows.sum::<usize>(), 1_000);
        batches.len()
    };
    let sides = builder().with_tables(["t", "walrow.messages"]);
    assert!(count(sides, "messages") >= 20);
    assert!(count(builder().with_envelope(true), "envelope") >= 2);
}

#[test]
fn the_tables_of_a_truncate_are_taken_one_by_one() {
    let names: Vec<String> = (0..200).map(|place| format!("c{place}")).collect();
    let columns: Vec<_> = names.iter().map(|it| (&**it, INT4, -1, false)).collect();
    let mut stream = Stream::new().session().begin(0x1000, 700);
    let tables: Vec<u32> = (T..T + 50).collect();
    for oid in &tables {
        let name = format!("t{oid}");
        stream = stream.relation(*oid, "public", &name, ReplicaIdentity::Nothing, &columns);
    }
    let stream = stream.truncate(1, &tables).insert(T, &vec![null(); 200]);
    let bytes = stream.commit().bytes();
    let table = 200 * 384;
    let mut decoder = builder().with_batch_memory(5 * table).build().unwrap();
    let (mut rest, mut found, mut most) = (&*bytes, Vec::new(), 0);
    while !rest.is_empty() || !decoder.wants_input() {
        let consumed = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        let before = found.len();
        assert_eq!(decoder.position(), Lsn(0), "not all of it was taken");
        while let Ok(Some(batch)) = decoder.next_batch() {
            found.push((batch.relation().oid, batch.record_batch().num_rows()));
        }
        most = most.max(found.len() - before);
    }
    decoder.flush().unwrap();
    while let Ok(Some(batch)) = decoder.next_batch() {
        found.push((batch.relation().oid, batch.record_batch().num_rows()));
    }
    assert!(most <= 8, "{most} batches at once");
    found.sort_unstable();
    let rows: usize = found.iter().map(|(_, rows)| rows).sum();
    assert_eq!(rows, 51);
    let mut oids: Vec<_> = found.iter().map(|(oid, _)| *oid).collect();
    oids.dedup();
    assert_eq!(oids, tables);
    assert_eq!(decoder.position(), Lsn(0x1030));
}

#[test]
fn a_table_without_rows_is_known_by_its_relation() {
    let columns = [("id", INT4, -1, true)];
    let bytes = inserts(&columns, &[&[text("1")]]);
    let table = |name: &str| builder().with_table(name);
    // All of it was returned before: there is a schema, but no row.
    let mut decoder = table("t").with_start(Lsn(0x1030)).build().unwrap();
    let (batches, end) = feed(&mut decoder, &bytes);
    assert_eq!((batches.len(), end), (0, Ok(())));
    assert_eq!(decoder.finish(), Ok(()));
    let schema = decoder.schema().unwrap();
    assert_eq!(schema.field(0).name(), "id");
    // With `start`, the table may also be missing.
    let (batches, end) = run(table("other").with_start(Lsn(0x1030)), &bytes);
    assert_eq!((batches.len(), end), (0, Ok(())));
    let (_, end) = run(table("other"), &bytes);
    assert!(matches!(end.unwrap_err().kind(), ErrorKind::Schema(_)));
}

#[test]
fn after_an_error_nothing_is_unfinished() {
    let columns = [("id", INT4, -1, true)];
    let stream = described(&columns).insert(T, &[text("one")]).commit();
    let good = stream.bytes();
    let mut bad = good.clone();
    bad.extend_from_slice(b"d\0\0\0\x01");
    for bytes in [&good, &bad] {
        for first in 0..bytes.len() {
            let mut decoder = builder().build().unwrap();
            let (head, tail) = bytes.split_at(first);
            let end = feed(&mut decoder, head)
                .1
                .and_then(|()| feed(&mut decoder, tail).1);
            assert!(end.is_err());
            assert!(!decoder.is_unfinished(), "cut at {first}");
        }
    }
}

#[test]
fn a_missing_columns_type_must_be_one_that_columns_can_have() {
    let bytes = inserts(&[("id", INT4, -1, true)], &[&[text("1")]]);
    let read = |data_type: DataType| {
        let fields = vec![
            Field::new("id", DataType::Int32, true),
            Field::new("x", data_type, true),
        ];
        let builder = builder()
            .with_table("t")
            .with_schema(Arc::new(Schema::new(fields)));
        run(builder, &bytes)
    };
    let item = |data_type, size| {
        let item = Arc::new(Field::new_list_field(data_type, true));
        DataType::FixedSizeList(item, size)
    };
    for data_type in [
        DataType::FixedSizeBinary(16),
        DataType::new_list(DataType::FixedSizeBinary(16), true),
        item(DataType::Float32, 16_000),
    ] {
        let (batches, end) = read(data_type);
        assert_eq!((only(&batches).num_rows(), end), (1, Ok(())));
    }
    // Each one is small enough, but not all of them together.
    let wide = (0..3).map(|place| {
        Field::new(
            format!("x{place}"),
            DataType::FixedSizeBinary(1 << 23),
            true,
        )
    });
    let builder = builder()
        .with_table("t")
        .with_schema(Arc::new(Schema::new(wide.collect::<Vec<_>>())));
    let (_, end) = run(builder, &bytes);
    assert_eq!(end.unwrap_err().column(), Some("x2"));
    let runs = Arc::new(Field::new("run_ends", DataType::Int16, false));
    let values = Arc::new(Field::new("values", DataType::Int32, true));
    for data_type in [
        DataType::FixedSizeBinary(i32::MAX),
        DataType::FixedSizeBinary(-1),
        item(DataType::FixedSizeBinary(i32::MAX), i32::MAX),
        DataType::RunEndEncoded(runs, values),
    ] {
        let (batches, end) = read(data_type);
        let error = end.unwrap_err();
        assert_eq!((batches.len(), error.column()), (0, Some("x")));
        assert!(matches!(error.kind(), ErrorKind::Schema(_)), "{error}");
    }
}

#[test]
fn errors_contain_no_control_characters() {
    let columns = [("\u{9b}2J", INT4, -1, true)];
    let stream = Stream::new().session().begin(0x1000, 700).relation(
        T,
        "public",
        "t\u{1b}]0;title\u{7}",
        ReplicaIdentity::Default,
        &columns,
    );
    let (_, end) = run(
        builder(),
        &stream.insert(T, &[text("one")]).commit().bytes(),
    );
    let error = end.unwrap_err();
    let shown = error.to_string();
    assert!(
        shown.starts_with("public.t\\x1b]0;title\\x07.\\x9b2J: "),
        "{shown}"
    );
    assert_eq!(error.column(), Some("\u{9b}2J"));
}

#[test]
fn decode_returns_regularly_while_no_batch_fills() {
    let columns = [("id", INT4, -1, true)];
    let rows = 600_000;
    let mut stream = Stream::new().session().stream_start(700).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    );
    let row = OwnedMessage::Insert {
        xid: Some(700),
        relation: T,
        new: vec![text("1")],
    };
    stream = stream.message(row);
    let frame = stream.frames().last().unwrap().clone();
    let mut bytes = stream.bytes();
    bytes.extend(frame.repeat(rows));
    let end = Stream::new()
        .stream_start(700)
        .stream_stop()
        .stream_commit(0x1000, 700);
    for frame in &end.frames()[1..] {
        bytes.extend_from_slice(frame);
    }
    for start in [0, 0x1030] {
        let name = TableName::from("other");
        let builder = builder().with_table(name).with_start(Lsn(start));
        let mut decoder = builder.build().unwrap();
        let (mut rest, mut calls) = (&*bytes, 0);
        while !rest.is_empty() || !decoder.wants_input() {
            let consumed = decoder.decode(rest).unwrap();
            rest = &rest[consumed..];
            calls += 1;
        }
        assert!(calls > 2, "{calls} calls");
        assert!(!decoder.is_unfinished());
    }
}

/// Returns one byte at a time, and at the end the error, if there is one.
struct Slow<'a>(&'a [u8], Option<std::io::ErrorKind>);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match (self.0.split_first(), self.1) {
            (Some((byte, rest)), _) => {
                buffer[0] = *byte;
                self.0 = rest;
                Ok(1)
            }
            (None, Some(kind)) => Err(kind.into()),
            (None, None) => Ok(0),
        }
    }
}

#[test]
fn a_transaction_that_no_session_completes_is_an_error_at_the_end() {
    let columns = [("id", INT4, -1, true)];
    let cut = described(&columns).insert(T, &[text("1")]);
    let later = Stream::new().session().begin(0x2000, 701).relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    );
    let later = later.insert(T, &[text("2")]).commit();
    let bytes = [cut.bytes(), later.bytes()].concat();
    let (batches, end) = run(builder(), &bytes);
    assert_eq!(batches.len(), 1);
    let error = end.unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::Missing {
            xid: 700,
            commit_lsn: Lsn(0x1000),
            ..
        }
    ));
    let text = error.to_string();
    assert!(
        text.contains("inside transaction 700 (commit LSN 0/1000)"),
        "{text}"
    );
    let (batches, end) = run(builder().with_unfinished(OnUnfinished::Ignore), &bytes);
    assert_eq!((batches.len(), end), (1, Ok(())));

    let mut union = builder().with_table("t").build_schema_union().unwrap();
    union.begin_stream("a", Framing::Wire);
    union.decode(&bytes).unwrap();
    let error = union.finish_stream().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Missing { .. }));

    let mut survey = builder().build_survey().unwrap();
    survey.decode(&bytes).unwrap();
    assert!(survey.is_unfinished());
}

#[test]
fn a_reader_returns_all_batches_before_an_error() {
    let columns = [("id", INT4, -1, true)];
    let whole = described(&columns).insert(T, &[text("1")]).commit();
    let read = |bytes: &[u8], error: Option<std::io::ErrorKind>| {
        let mut reader = builder().build_reader(Slow(bytes, error)).unwrap();
        let mut rows = 0;
        let mut ends = Vec::new();
        for batch in &mut reader {
            match batch {
                Ok(batch) => rows += batch.record_batch().num_rows(),
                Err(error) => ends.push(error.kind().clone()),
            }
        }
        assert!(reader.next().is_none());
        assert_eq!(reader.decoder().position(), Lsn(0x1030));
        (rows, ends)
    };
    assert_eq!(read(&whole.bytes(), None), (1, vec![]));
    let open = whole.clone().begin(0x2000, 701);
    assert_eq!(read(&open.bytes(), None), (1, vec![ErrorKind::Unfinished]));
    let cut = &open.bytes()[..whole.bytes().len() + 3];
    assert_eq!(read(cut, None), (1, vec![ErrorKind::Unfinished]));
    let broken = open.error("57P01", "terminating");
    let (rows, ends) = read(&broken.bytes(), None);
    assert_eq!(rows, 1);
    assert!(
        matches!(&*ends, [ErrorKind::Server { sqlstate, .. }] if sqlstate == "57P01"),
        "{ends:?}"
    );
    // Another session continues.
    let again = broken.session().keepalive();
    assert_eq!(read(&again.bytes(), None), (1, vec![]));
    let (rows, ends) = read(&whole.bytes(), Some(std::io::ErrorKind::TimedOut));
    assert_eq!(rows, 1);
    assert!(
        matches!(
            *ends,
            [ErrorKind::Source {
                kind: std::io::ErrorKind::TimedOut,
                ..
            }]
        ),
        "{ends:?}"
    );
    let bad = [&*whole.bytes(), &[0; 5]].concat();
    let (rows, ends) = read(&bad, None);
    assert_eq!(rows, 1);
    assert!(matches!(*ends, [ErrorKind::Stream(_)]), "{ends:?}");
}
