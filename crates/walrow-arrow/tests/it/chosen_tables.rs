//! Several chosen tables.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use arrow_schema::{DataType, Field, Schema};
use std::sync::Arc;
use walrow_arrow::{
    Batch, Decoder, DecoderBuilder, DecoderOption, Error, ErrorKind, OnMissingTable, OptionsError,
    SchemaError, TableName,
};
use walrow_testkit::{OwnedMessage, Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity};

const A: u32 = 16_384;
const B: u32 = 16_385;
const C: u32 = 16_386;
const INT4: u32 = 23;
const TEXT: u32 = 25;

type Col = (&'static str, u32, i32, bool);
const ID: Col = ("id", INT4, -1, true);

fn builder() -> DecoderBuilder {
    DecoderBuilder::new()
}

fn table(stream: Stream, oid: u32, (namespace, name): (&str, &str), columns: &[Col]) -> Stream {
    stream.relation(oid, namespace, name, ReplicaIdentity::Default, columns)
}

/// Rows of `public.a`, `public.b` and `other.a`.
fn three() -> Stream {
    let mut stream = Stream::new().session().begin(0x1000, 700);
    for (oid, name) in [
        (A, ("public", "a")),
        (B, ("public", "b")),
        (C, ("other", "a")),
    ] {
        stream = table(stream, oid, name, &[ID]).insert(oid, &[text("1")]);
    }
    stream.insert(A, &[text("2")]).commit()
}

fn read(builder: DecoderBuilder, bytes: &[u8]) -> Result<Vec<Batch>, Error> {
    builder.build_reader(bytes).unwrap().collect()
}

/// Each table's rows.
fn counts(batches: &[Batch]) -> Vec<(String, usize)> {
    let counts = batches
        .iter()
        .map(|it| (it.relation().to_string(), it.record_batch().num_rows()));
    counts.collect()
}

fn read_counts(builder: DecoderBuilder, bytes: &[u8]) -> Vec<(String, usize)> {
    counts(&read(builder, bytes).unwrap())
}

fn of(rows: &[(&str, usize)]) -> Vec<(String, usize)> {
    let owned = rows.iter().map(|(name, rows)| ((*name).to_owned(), *rows));
    owned.collect()
}

fn refused(builder: DecoderBuilder) -> ErrorKind {
    builder.build().unwrap_err().kind().clone()
}

#[test]
fn each_name_has_any_form() {
    let bytes = three().bytes();
    for name in [
        TableName::from("public.a"),
        TableName::from(("public", "a")),
        TableName::from(A),
    ] {
        let tables = || [name.clone(), TableName::from("b")];
        let found = read_counts(builder().with_tables(tables()), &bytes);
        assert_eq!(found, of(&[("public.a", 2), ("public.b", 1)]));
    }
}

#[test]
fn rows_of_other_tables_are_not_read() {
    // A value that is not an integer.
    let bytes = table(three().begin(0x2000, 701), C, ("other", "a"), &[ID])
        .insert(C, &[text("one")])
        .commit()
        .bytes();
    assert!(read(builder(), &bytes).is_err());
    let found = read_counts(builder().with_tables(["public.a", "b"]), &bytes);
    assert_eq!(found, of(&[("public.a", 2), ("public.b", 1)]));
}

#[test]
fn a_table_that_two_names_match_is_read_once() {
    let bytes = three().bytes();
    let tables = [
        TableName::from("b"),
        TableName::from("public.b"),
        TableName::from(B),
    ];
    let found = read_counts(builder().with_tables(tables), &bytes);
    assert_eq!(found, of(&[("public.b", 1)]));
}

#[test]
fn several_tables_have_no_one_schema() {
    let tables = builder().with_tables(["a"]);
    assert!(!tables.has_one_schema());
    assert!(builder().with_table("a").has_one_schema());
    assert!(tables.with_envelope(true).has_one_schema());
    // Their columns may change, each with a schema of its own.
    let wider = [ID, ("note", TEXT, -1, false)];
    let stream = table(three().begin(0x2000, 701), A, ("public", "a"), &wider)
        .insert(A, &[text("3"), text("new")])
        .commit();
    let mut decoder = builder()
        .with_tables(["public.a", "public.b"])
        .with_metadata([])
        .build()
        .unwrap();
    let batches = decode(&mut decoder, &stream.bytes());
    decoder.finish().unwrap();
    let rest = take(&mut decoder);
    let columns: Vec<_> = batches
        .iter()
        .chain(&rest)
        .map(|it| (it.relation().to_string(), it.record_batch().num_columns()))
        .collect();
    assert_eq!(
        columns,
        of(&[("public.a", 1), ("public.b", 1), ("public.a", 2)])
    );
    assert_eq!(decoder.schema(), None);
}

fn decode(decoder: &mut Decoder, mut bytes: &[u8]) -> Vec<Batch> {
    let mut batches = Vec::new();
    while !bytes.is_empty() || !decoder.wants_input() {
        let consumed = decoder.decode(bytes).unwrap();
        bytes = &bytes[consumed..];
        batches.extend(take(decoder));
    }
    batches
}

fn take(decoder: &mut Decoder) -> Vec<Batch> {
    std::iter::from_fn(|| decoder.next_batch().unwrap()).collect()
}

#[test]
fn a_name_of_several_tables_is_an_error() {
    let error = read(builder().with_tables(["b", "a"]), &three().bytes()).unwrap_err();
    let one = read(builder().with_table("a"), &three().bytes()).unwrap_err();
    assert_eq!(error.kind(), one.kind());
    let ErrorKind::Schema(SchemaError::Ambiguous { tables, .. }) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(tables[0], ("public".to_owned(), "a".to_owned()));
    assert_eq!(tables[1], ("other".to_owned(), "a".to_owned()));
    // The same tables, each by its own name.
    let both = builder().with_tables([("public", "a"), ("other", "a")]);
    let found = read_counts(both, &three().bytes());
    assert_eq!(found, of(&[("public.a", 2), ("other.a", 1)]));
}

#[test]
fn all_missing_tables_are_named_with_the_nearest_names() {
    let bytes = three().bytes();
    let tables = || builder().with_tables(["public.b", "public.c", "bb", "zebra"]);
    let error = read(tables(), &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no tables public.c (did you mean public.a or public.b?), bb (did you mean b?), zebra in \
         the stream"
    );
    let ErrorKind::Schema(SchemaError::NotInStream { missing, .. }) = error.kind() else {
        panic!("{error}")
    };
    assert_eq!(missing.len(), 3);
    let error = read(builder().with_tables(["b", "zebra"]), &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no table zebra in the stream; read no rows with missing_table = ignore"
    );
    let error = read(builder().with_tables(["yak", "zebra"]), &bytes).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no tables yak, zebra in the stream; read no rows with missing_table = ignore"
    );
    let ignoring = tables().with_missing_table(OnMissingTable::Ignore);
    assert_eq!(read_counts(ignoring, &bytes), of(&[("public.b", 1)]));
    // After the start, there may be no changes of a table.
    assert_eq!(
        read_counts(tables().with_start(Lsn(0x10)), &bytes),
        of(&[("public.b", 1)])
    );
}

#[test]
fn a_table_without_rows_is_not_missing() {
    let bytes = table(three().begin(0x2000, 701), C + 1, ("public", "d"), &[ID])
        .commit()
        .bytes();
    let found = read_counts(builder().with_tables(["d", "b"]), &bytes);
    assert_eq!(found, of(&[("public.b", 1)]));
}

#[test]
fn lists_that_mean_nothing_are_refused() {
    let none: [&str; 0] = [];
    assert_eq!(
        refused(builder().with_tables(none)),
        ErrorKind::Options(OptionsError::NoTables)
    );
    for twice in [
        [TableName::from("a"), TableName::from("a")],
        [
            TableName::from("public.a"),
            TableName::from(("public", "a")),
        ],
        [TableName::from(A), TableName::from(A)],
    ] {
        let error = refused(builder().with_tables(twice.clone()));
        let ErrorKind::Options(OptionsError::Repeated { option, name, .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(
            (option, name),
            (DecoderOption::Tables, twice[0].to_string())
        );
    }
    // These are two tables.
    let dots = [("a", "b.c"), ("a.b", "c")].map(TableName::from);
    assert!(builder().with_tables(dots).build().is_ok());
    let both = [
        builder().with_table("a").with_tables(["b"]),
        builder().with_tables(["b"]).with_table("a"),
    ];
    for builder in both {
        assert_eq!(
            refused(builder),
            ErrorKind::Options(OptionsError::TableAndTables)
        );
    }
    let error = refused(
        builder()
            .with_tables(["walrow.messages", "walrow.relations"])
            .with_columns(["id"]),
    );
    assert_eq!(error, ErrorKind::Options(OptionsError::SideTableColumns));
}

#[test]
fn a_schema_is_for_one_table() {
    let schema = Schema::new(vec![Field::new("id", DataType::Int32, true)]);
    let tables = builder().with_tables(["a", "b"]);
    let declared = tables.clone().with_schema(Arc::new(schema));
    assert_eq!(
        refused(declared),
        ErrorKind::Options(OptionsError::SchemaOfSeveral)
    );
    for (chosen, expected) in [
        (tables, OptionsError::SchemaOfSeveral),
        (builder(), OptionsError::SchemaWithoutTable),
    ] {
        let error = chosen.build_schema_union().unwrap_err();
        assert_eq!(error.kind(), &ErrorKind::Options(expected));
    }
    let envelope = builder().with_envelope(true).build_schema_union().unwrap();
    assert!(envelope.schema().is_ok());
}

#[test]
fn a_renamed_table_is_followed_by_its_oid_only() {
    let mut stream = three().begin(0x2000, 701);
    stream = table(stream, A, ("public", "z"), &[ID])
        .insert(A, &[text("3")])
        .commit();
    let bytes = stream.bytes();
    let named = read_counts(builder().with_tables(["public.a", "b"]), &bytes);
    assert_eq!(named, of(&[("public.a", 2), ("public.b", 1)]));
    let by_oid = read_counts(builder().with_tables([A, B]), &bytes);
    assert_eq!(
        by_oid,
        of(&[("public.a", 2), ("public.b", 1), ("public.z", 1)])
    );
    // Both names are of the stream.
    let both = read_counts(builder().with_tables(["public.a", "z"]), &bytes);
    assert_eq!(both, of(&[("public.a", 2), ("public.z", 1)]));
}

#[test]
fn the_envelope_and_side_tables_go_with_several_tables() {
    let bytes = three().bytes();
    let tables = || builder().with_tables(["public.a", "b"]);
    let found = read_counts(tables().with_envelope(true), &bytes);
    assert_eq!(found, of(&[("walrow.envelope", 3)]));
    let sides = || {
        builder().with_tables([
            TableName::from("public.a"),
            TableName::from("b"),
            TableName::from(("walrow", "transactions")),
            TableName::from("walrow.relations"),
        ])
    };
    assert!(!sides().with_envelope(true).has_one_schema());
    let found = read_counts(sides().with_envelope(true), &bytes);
    assert_eq!(
        found,
        of(&[
            ("walrow.envelope", 3),
            ("walrow.transactions", 1),
            ("walrow.relations", 3)
        ])
    );
    let sides = sides();
    let found = read_counts(sides, &bytes);
    let total = |name: &str| -> usize {
        let of_name = found.iter().filter(|(table, _)| table == name);
        of_name.map(|(_, rows)| rows).sum()
    };
    assert_eq!(
        (total("public.a"), total("public.b"), total("other.a")),
        (2, 1, 0)
    );
    // Side tables are those of the whole stream.
    assert_eq!(
        (total("walrow.transactions"), total("walrow.relations")),
        (1, 3)
    );
}

#[test]
fn restored_transactions_are_of_the_chosen_tables_too() {
    let mut stream = Stream::new().session().begin_prepare(0x1000, 700, "gid");
    for (oid, name) in [
        (A, ("public", "a")),
        (B, ("public", "b")),
        (C, ("other", "a")),
    ] {
        stream = table(stream, oid, name, &[ID]).insert(oid, &[text("1")]);
    }
    let first = stream.prepare().bytes();
    let second = Stream::new()
        .session()
        .commit_prepared(0x2000, 700, "gid")
        .bytes();
    let tables = || builder().with_tables(["public.a", "b"]).build().unwrap();
    let mut decoder = tables();
    assert_eq!(counts(&decode(&mut decoder, &first)), []);
    let mut state = Vec::new();
    decoder.save_prepared(&mut state).unwrap();
    let mut decoder = tables();
    decoder.restore_prepared(&mut &*state).unwrap();
    let mut batches = decode(&mut decoder, &second);
    decoder.finish().unwrap();
    batches.extend(take(&mut decoder));
    assert_eq!(counts(&batches), of(&[("public.a", 1), ("public.b", 1)]));
}

#[test]
fn a_truncate_of_all_tables_counts_in_the_chosen_ones() {
    let message = OwnedMessage::Truncate {
        xid: None,
        options: 0,
        relations: vec![A, B, C],
    };
    let bytes = three().begin(0x2000, 701).message(message).commit().bytes();
    let found = read_counts(builder().with_tables(["public.a", "b"]), &bytes);
    assert_eq!(found, of(&[("public.a", 3), ("public.b", 2)]));
}
