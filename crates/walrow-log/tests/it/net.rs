//! Net changes out of a log: of one table, and of several in one pass.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::sync;
use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{ErrorKind, Log, LogNetOptions, TableReader, Writer, WriterOptions};
use walrow_stream::{Assembler, Deletes, Event, Gap, RowChange, Truncates};
use walrow_testkit::{Stream, null, text};
use walrow_wire::{Cell, Lsn, ReplicaIdentity, Tuple};

const COLUMNS: [(&str, u32, i32, bool); 2] = [("id", 23, -1, true), ("label", 25, -1, false)];

/// A transaction at 0x1000, 0x2000 and so on, with its changes of two tables.
fn transaction(number: u64, change: impl FnOnce(Stream) -> Stream) -> Vec<u8> {
    let xid = 700 + u32::try_from(number).unwrap();
    let stream = Stream::new().session().begin(0x1000 * number, xid);
    let stream = stream
        .relation(1, "public", "one", ReplicaIdentity::Default, &COLUMNS)
        .relation(2, "public", "two", ReplicaIdentity::Default, &COLUMNS);
    change(stream).commit().bytes()
}

fn log(transactions: &[Vec<u8>]) -> Log {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    for bytes in transactions {
        writer.append(&mut assembler, &mut &**bytes).unwrap();
        // A segment each.
        sync(&mut writer, &mut assembler).unwrap();
        writer.publish(&mut assembler).unwrap();
    }
    drop(writer);
    Log::open(Arc::new(store)).unwrap()
}

fn two_tables() -> Log {
    log(&[
        transaction(1, |it| {
            it.insert(1, &[text("1"), text("a")])
                .insert(1, &[text("2"), text("b")])
                .insert(2, &[text("7"), text("x")])
        }),
        transaction(2, |it| {
            it.update(1, &[text("1"), text("c")])
                .delete_key(2, &[text("7"), null()])
        }),
        transaction(3, |it| {
            it.delete_key(1, &[text("2"), null()])
                .insert(1, &[text("3"), text("d")])
                .delete_key(1, &[text("3"), null()])
        }),
    ])
}

fn named(name: &str) -> impl Fn(u32, &str, &str) -> bool + '_ {
    move |_, schema, it| (schema, it) == ("public", name)
}

fn options(start: u64) -> LogNetOptions {
    let mut options = LogNetOptions::default();
    options.start = Lsn(start);
    options
}

/// The changes as words: a letter and the cells.
fn words(mut reader: TableReader) -> Vec<String> {
    let (mut found, mut chunk, mut assembler) = (Vec::new(), Vec::new(), Assembler::default());
    while reader.read(&mut chunk).unwrap() {
        let mut input = &*chunk;
        while let Some(event) = assembler.next(&mut input).unwrap() {
            match event {
                Event::Truncate(_) => found.push("T".to_owned()),
                Event::Change(change) => found.push(match change.row {
                    RowChange::Insert { new } => format!("I {}", cells(new)),
                    RowChange::Update { new, .. } => format!("U {}", cells(new)),
                    RowChange::Delete { old } => format!("D {}", cells(old.tuple())),
                }),
                _ => {}
            }
        }
    }
    assert!(!assembler.is_mid_transaction());
    found
}

fn cells(tuple: Tuple<'_>) -> String {
    let cells = tuple.cells().map(|cell| match cell {
        Cell::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
        Cell::Unchanged => "?".to_owned(),
        _ => "-".to_owned(),
    });
    cells.collect::<Vec<_>>().join(" ")
}

#[test]
fn a_range_has_each_key_once() {
    let log = two_tables();
    let net = |name, start| words(log.net(&named(name), options(start)).unwrap());
    // From nothing: the delete of a row that comes and goes finds no row.
    assert_eq!(net("one", 0), ["I 1 c", "D 2 -", "D 3 -"]);
    assert_eq!(net("one", 0x1FFF), ["U 1 c", "D 2 -", "D 3 -"]);
    assert_eq!(net("one", 0x2FFF), ["D 2 -", "D 3 -"]);
    assert_eq!(net("two", 0), ["D 7 -"]);
    let reader = log.net(&named("one"), options(0x1FFF)).unwrap();
    assert_eq!((reader.oid(), reader.at()), (1, log.end()));
    assert!(net("one", log.end().0).is_empty());
}

#[test]
fn several_tables_have_the_nets_of_each_in_one_pass() {
    let log = two_tables();
    let tables = [(1, options(0x1FFF)), (2, options(0x1FFF))];
    let mut reader = log.nets(&tables).unwrap();
    while reader.take_changes().unwrap() {}
    assert_eq!(reader.at(), log.end());
    let events = reader
        .into_nets()
        .map(|(oid, net)| (oid, net.unwrap().events()));
    assert_eq!(events.collect::<Vec<_>>(), [(1, 4), (2, 1)]);
}

#[test]
fn a_table_that_fails_does_not_stop_the_others() {
    let log = log(&[
        transaction(1, |it| it.insert(1, &[text("1"), text("a")])),
        transaction(2, |it| {
            it.insert(2, &[null(), text("x")])
                .insert(1, &[text("2"), text("b")])
        }),
    ]);
    let mut refuses = options(0x1FFF);
    refuses.net.deletes = Deletes::Apply;
    let tables = [(1, options(0x1FFF)), (2, refuses.clone())];
    let mut reader = log.nets(&tables).unwrap();
    while reader.take_changes().unwrap() {}
    let found: Vec<_> = reader
        .into_nets()
        .map(|(oid, net)| (oid, net.is_ok()))
        .collect();
    assert_eq!(found, [(1, true), (2, false)]);
    // Alone, it is the same error.
    let mut alone = log.net(&named("two"), refuses).unwrap();
    let failure = loop {
        match alone.advance() {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(error),
        }
    };
    let failure = failure.unwrap();
    assert!(
        matches!(
            failure.kind,
            ErrorKind::Incomplete {
                gap: Gap::NullKey { .. },
                ..
            }
        ),
        "{failure}"
    );
}

#[test]
fn one_name_means_one_table() {
    let log = two_tables();
    let kind = |wants: &dyn Fn(u32, &str, &str) -> bool| {
        log.net(&|oid, schema, name| wants(oid, schema, name), options(0))
            .map(|_| ())
            .unwrap_err()
    };
    assert!(matches!(kind(&|_, _, _| false).kind, ErrorKind::NoTable));
    assert!(matches!(
        kind(&|_, _, _| true).kind,
        ErrorKind::Ambiguous { .. }
    ));
}

/// A column of an integer, the key, or of text.
type ColumnOf<'a> = (&'a str, u32, i32, bool);

const ID: ColumnOf<'_> = ("id", 23, -1, true);

/// A transaction with a definition of table 1 and changes.
fn with_columns(
    number: u64,
    columns: &[ColumnOf<'_>],
    change: impl FnOnce(Stream) -> Stream,
) -> Vec<u8> {
    let xid = 700 + u32::try_from(number).unwrap();
    let stream = Stream::new().session().begin(0x1000 * number, xid);
    let stream = stream.relation(1, "public", "one", ReplicaIdentity::Default, columns);
    change(stream).commit().bytes()
}

/// The net, or the gap that it fails with and the LSN where it was found.
fn words_or_gap(log: &Log, start: u64) -> Result<Vec<String>, (Gap, Lsn)> {
    let mut reader = log.net(&named("one"), options(start)).unwrap();
    loop {
        match reader.advance() {
            Ok(true) => {}
            Ok(false) => return Ok(words(reader)),
            Err(error) => match error.kind {
                ErrorKind::Incomplete { gap, lsn, .. } => return Err((gap, lsn)),
                other => panic!("{other:?}"),
            },
        }
    }
}

#[test]
fn columns_are_compared_with_those_of_the_targets_rows() {
    let text_column = |name| (name, 25, -1, false);
    let two = |name| [ID, text_column(name)];
    let base = || {
        with_columns(1, &two("v"), |it| {
            it.insert(1, &[text("1"), text("a")])
                .insert(1, &[text("2"), text("b")])
        })
    };
    let insert = |it: Stream| it.insert(1, &[text("3"), text("5")]);
    // A new name, and a new type.
    let renamed = log(&[base(), with_columns(2, &two("w"), insert)]);
    let gap = Gap::Columns {
        went: "v".to_owned(),
        came: "w".to_owned(),
    };
    assert_eq!(
        words_or_gap(&renamed, 0x1030),
        Err((gap.clone(), Lsn(0x2000)))
    );
    assert_eq!(words_or_gap(&renamed, 0), Err((gap, Lsn(0x2000))));
    // Behind the change, the target has the new name.
    assert_eq!(words_or_gap(&renamed, 0x2030), Ok(vec![]));
    let number = ("v", 23, -1, false);
    let retyped = log(&[base(), with_columns(2, &[ID, number], insert)]);
    let gap = Gap::Type {
        column: "v".to_owned(),
    };
    assert_eq!(words_or_gap(&retyped, 0x1030), Err((gap, Lsn(0x2000))));
    // A column that goes, or that comes: NULL in the target's other rows.
    let gone = log(&[
        base(),
        with_columns(2, &[ID], |it| it.insert(1, &[text("3")])),
    ]);
    assert_eq!(words_or_gap(&gone, 0x1030), Ok(vec!["I 3".to_owned()]));
    let three = [ID, text_column("v"), text_column("w")];
    let came = log(&[
        base(),
        with_columns(2, &three, |it| {
            it.insert(1, &[text("3"), text("c"), text("x")])
        }),
    ]);
    assert_eq!(words_or_gap(&came, 0x1030), Ok(vec!["I 3 c x".to_owned()]));
    // A column that comes back has no values from before, unlike the target's.
    let back = log(&[
        base(),
        with_columns(2, &[ID], |it| it.insert(1, &[text("3")])),
        with_columns(3, &two("v"), |it| it.insert(1, &[text("4"), null()])),
    ]);
    let gap = Gap::CameBack {
        column: "v".to_owned(),
    };
    assert_eq!(words_or_gap(&back, 0x1030), Err((gap, Lsn(0x3000))));
    assert_eq!(words_or_gap(&back, 0x2030), Ok(vec!["I 4 -".to_owned()]));
}

#[test]
fn rows_that_go_need_no_columns() {
    let text_column = |name| (name, 25, -1, false);
    let truncated = log(&[
        with_columns(1, &[ID, text_column("v")], |it| {
            it.insert(1, &[text("1"), text("a")])
        }),
        with_columns(2, &[ID, text_column("w")], |it| {
            it.insert(1, &[text("2"), text("b")])
                .truncate(0, &[1])
                .insert(1, &[text("3"), text("c")])
        }),
    ]);
    let expected = vec!["T".to_owned(), "I 3 c".to_owned()];
    assert_eq!(words_or_gap(&truncated, 0x1030), Ok(expected));
    // Ignored, they stay.
    let mut options = options(0x1030);
    options.net.truncates = Truncates::Ignore;
    let mut reader = truncated.net(&named("one"), options).unwrap();
    let error = loop {
        if let Err(error) = reader.advance() {
            break error;
        }
    };
    assert_eq!(error.kind.code(), "incomplete");
}

#[test]
fn a_name_that_another_table_had_at_the_start_is_refused() {
    let relation = |it: Stream, oid| {
        it.relation(oid, "public", "one", ReplicaIdentity::Default, &COLUMNS)
            .insert(oid, &[text("1"), text("a")])
    };
    let session = |number: u64| {
        let xid = 700 + u32::try_from(number).unwrap();
        Stream::new().session().begin(0x1000 * number, xid)
    };
    let log = log(&[
        relation(session(1), 1).commit().bytes(),
        relation(session(2), 2).commit().bytes(),
    ]);
    let error = log.net(&named("one"), options(0x1030)).unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::OtherTable { .. }),
        "{error:?}"
    );
    assert!(log.net(&|oid, _, _| oid == 2, options(0x1030)).is_ok());
    assert!(log.net(&named("one"), options(0x2030)).is_ok());
}

#[test]
fn a_range_that_ends_before_its_start_is_refused() {
    let error = two_tables()
        .net(&named("one"), options(0x9000))
        .unwrap_err();
    let expected = ErrorKind::PastEnd {
        position: Lsn(0x9000),
        end: Lsn(0x3030),
    };
    assert_eq!(format!("{:?}", error.kind), format!("{expected:?}"));
}
