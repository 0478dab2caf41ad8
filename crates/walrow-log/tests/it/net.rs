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
use walrow_stream::{Assembler, Deletes, Event, RowChange, Truncates};
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
                    other => panic!("{other:?}"),
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
            it.truncate(0, &[2]).insert(1, &[text("2"), text("b")])
        }),
    ]);
    let mut refuses = options(0x1FFF);
    refuses.net.truncates = Truncates::Error;
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
        matches!(failure.kind, ErrorKind::Incomplete { .. }),
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
