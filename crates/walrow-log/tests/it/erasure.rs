//! Erased columns and rows. Everything else stays as it is, also after a crash at any operation of
//! the store.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::faults::{at_every_crash, at_every_fault};
use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{
    Erase, Erased, Eraser, Error, ErrorKind, Hold, Images, Upkeep, Writer, WriterOptions,
};
use walrow_stream::{Assembler, Catalog, Event, RowChange};
use walrow_testkit::{Stream, text};
use walrow_wire::{Cell, Lsn, Oid, OldTuple, ReplicaIdentity, Timestamp, Tuple};

const T: u32 = 1;
const U: u32 = 2;
const COLUMNS: [(&str, u32, i32, bool); 3] = [
    ("id", 23, -1, true),
    ("secret", 25, -1, false),
    ("note", 25, -1, false),
];

fn row(id: u32) -> [walrow_testkit::OwnedCell; 3] {
    [
        text(id.to_string()),
        text(format!("secret {id}")),
        text(format!("note {id}")),
    ]
}

/// Transactions of two tables, with messages and a truncate between rows. One transaction has
/// several parts.
fn history(identity: ReplicaIdentity) -> Vec<Vec<u8>> {
    let begun = |number: u64| {
        let stream = if number == 1 {
            Stream::new().session()
        } else {
            Stream::new()
        };
        let stream = stream.begin(0x1000 * number, u32::try_from(number).unwrap());
        let columns = if identity == ReplicaIdentity::Full {
            COLUMNS.map(|(name, oid, modifier, _)| (name, oid, modifier, true))
        } else {
            COLUMNS
        };
        stream
            .relation(T, "public", "t", identity, &columns)
            .relation(U, "public", "u", ReplicaIdentity::Default, &COLUMNS)
    };
    let key = |id: u32| {
        [
            text(id.to_string()),
            walrow_testkit::OwnedCell::Null,
            walrow_testkit::OwnedCell::Null,
        ]
    };
    let updated = |stream: Stream, from: u32, to: u32| match identity {
        ReplicaIdentity::Full => stream.update_full(T, &row(from), &row(to)),
        _ if from == to => stream.update(T, &row(to)),
        _ => stream.update_key(T, &key(from), &row(to)),
    };
    let deleted = |stream: Stream, id: u32| match identity {
        ReplicaIdentity::Full => stream.delete_full(T, &row(id)),
        _ => stream.delete_key(T, &key(id)),
    };
    let mut large = begun(4);
    for id in 0..80 {
        large = large.insert(T, &row(id % 7)).insert(U, &row(id));
    }
    [
        begun(1)
            .insert(T, &row(5))
            .insert(U, &row(5))
            .insert(T, &row(6))
            .commit(),
        // All rows of this transaction are erased.
        begun(2).insert(T, &row(5)).insert(T, &row(5)).commit(),
        updated(
            updated(begun(3).insert(U, &row(1)), 5, 5).emit("app", b"between"),
            6,
            6,
        )
        .truncate(0, &[U])
        .commit(),
        large.commit(),
        // The key becomes the erased row's, and then another key.
        updated(updated(begun(5), 6, 5), 5, 7)
            .insert(U, &row(9))
            .commit(),
        deleted(deleted(begun(6), 5), 6)
            .emit("app", b"last")
            .commit(),
        begun(7).insert(U, &row(5)).commit(),
    ]
    .iter()
    .map(Stream::bytes)
    .collect()
}

fn log_of(transactions: &[Vec<u8>]) -> Memory {
    let store = Memory::default();
    let mut options = WriterOptions::default();
    options.segment_bytes = 5_000;
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let catalog = r#"{"types": [], "tables": [{"schema": "public", "name": "t", "oid": 1, "columns": [
        {"name": "id", "type": 23, "type_modifier": -1, "key": true},
        {"name": "secret", "type": 25, "type_modifier": -1, "key": false, "default": "'hidden'"},
        {"name": "note", "type": 25, "type_modifier": -1, "key": false}]}]}"#;
    writer
        .extend_catalog(&Catalog::from_json(catalog).unwrap())
        .unwrap();
    let mut assembler = Assembler::default();
    for transaction in transactions {
        writer.append(&mut assembler, &mut &**transaction).unwrap();
        writer.publish(&mut assembler).unwrap();
    }
    store
}

fn open(store: &Memory) -> Upkeep {
    Upkeep::open(Arc::new(store.clone())).unwrap()
}

/// For each table, the end LSN of the last transaction that has erased rows.
fn last_erased(store: &Memory) -> Vec<(Oid, Lsn)> {
    open(store).erased().unwrap().into_iter().collect()
}

/// The end LSN of a transaction of the history.
const fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

fn stream_of(store: &Memory) -> Vec<u8> {
    let log = open(store);
    let (mut stream, mut chunk) = (Vec::new(), Vec::new());
    let mut reader = crate::read_all(&log);
    while reader.read(&mut chunk).unwrap() {
        stream.extend_from_slice(&chunk);
    }
    stream
}

/// A change or a message: commit LSN, seq, the table or the kind of message, and the cells of both
/// images.
type Line = (Lsn, u64, String, Option<Vec<String>>, Option<Vec<String>>);

fn cells(tuple: Tuple<'_>) -> Vec<String> {
    let text = |cell| match cell {
        Cell::Text(text) => String::from_utf8_lossy(text).into_owned(),
        other => format!("{other:?}"),
    };
    tuple.cells().map(text).collect()
}

fn lines(stream: &[u8]) -> Vec<Line> {
    let (mut assembler, mut rest) = (Assembler::default(), stream);
    let (mut lines, mut commit) = (Vec::new(), Lsn(0));
    let old = |old: OldTuple<'_>| cells(old.tuple());
    while let Some(event) = assembler.next(&mut rest).unwrap() {
        lines.push(match event {
            Event::Begin(transaction) => {
                commit = transaction.commit_lsn;
                (commit, 0, "begin".to_owned(), None, None)
            }
            Event::Change(change) => {
                let (before, after) = match change.row {
                    RowChange::Insert { new } => (None, Some(cells(new))),
                    RowChange::Update { old: before, new } => (before.map(old), Some(cells(new))),
                    RowChange::Delete { old: before } => (Some(old(before)), None),
                };
                (
                    commit,
                    change.seq,
                    change.relation.name.to_string(),
                    before,
                    after,
                )
            }
            Event::Truncate(it) => (commit, it.seq, "truncate".to_owned(), None, None),
            Event::Message(it) => (commit, it.seq, it.prefix.to_string(), None, None),
            Event::Commit { changes, .. } => (commit, changes, "commit".to_owned(), None, None),
            _ => continue,
        });
    }
    assert!(!assembler.is_mid_transaction());
    lines
}

/// The images with the key 5.
fn found(lines: &[Line]) -> Erase {
    let has = |image: &Option<Vec<String>>| image.as_ref().is_some_and(|it| it[0] == "5");
    let mut erase = Erase::default();
    erase.tables.insert(T);
    for (lsn, seq, table, old, new) in lines {
        let images = Images {
            old: has(old),
            new: has(new),
        };
        if table == "t" && images != Images::default() {
            erase.rows.insert((*lsn, *seq), images);
        }
    }
    erase
}

/// The lines that stay.
fn without(lines: &[Line], erase: &Erase) -> Vec<Line> {
    let stays = |line: &Line| {
        let (lsn, seq, table, old, new) = line.clone();
        let images = erase
            .rows
            .get(&(lsn, seq))
            .copied()
            .filter(|_| table == "t");
        let images = images.unwrap_or_default();
        let is_row = old.is_some() || new.is_some();
        let old = old.filter(|_| !images.old);
        let new = new.filter(|_| !images.new);
        let stays = !is_row || old.is_some() || new.is_some();
        stays.then_some((lsn, seq, table, old, new))
    };
    lines.iter().filter_map(stays).collect()
}

fn erased(store: &Memory, erase: &Erase) -> Result<Erased, Error> {
    Eraser::open(Writer::quiet(Arc::new(store.clone()))?)?.erase(erase, &mut || Ok(()))
}

/// Whether any object has these bytes, compressed or not.
fn has_bytes(store: &Memory, words: &[u8]) -> bool {
    let plain = stream_of(store);
    let objects = store.objects();
    let mut objects = objects.iter().map(|(_, bytes)| &**bytes).chain([&*plain]);
    objects.any(|it| it.windows(words.len()).any(|window| window == words))
}

#[test]
fn rows_are_erased_and_all_others_stay_with_their_seq() {
    for identity in [ReplicaIdentity::Default, ReplicaIdentity::Full] {
        for merges in [false, true] {
            let store = log_of(&history(identity));
            if merges {
                open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
            }
            let segments = open(&store).segments().to_vec();
            let before = lines(&stream_of(&store));
            let erase = found(&before);
            assert!(erase.rows.len() > 15);
            let done = erased(&store, &erase).unwrap();
            assert!(
                done.rewritten > 2 && done.rewritten < segments.len(),
                "{done:?}"
            );
            let after = lines(&stream_of(&store));
            let expected = without(&before, &erase);
            assert!(after == expected, "{identity:?} {merges}");
            assert!(found(&after).rows.is_empty());
            // The view and the index describe the segments as they are now.
            let log = open(&store);
            assert_eq!(log.segments().len(), segments.len());
            for (segment, was) in log.segments().iter().zip(&segments) {
                log.verify(segment, &mut || Ok(())).unwrap();
                assert_eq!((segment.name(), segment.end), (was.name(), was.end));
                assert_eq!(
                    (segment.times, segment.transactions),
                    (was.times, was.transactions)
                );
            }
            let rows = log.segments().iter().flat_map(|it| &it.tables);
            let rows: u64 = rows.map(|it| it.rows).sum();
            let expected = after.iter().filter(|it| it.3.is_some() || it.4.is_some());
            assert_eq!(rows, expected.count() as u64);
            // A second erasure and a merge change nothing.
            assert_eq!(erased(&store, &erase).unwrap().rewritten, 0);
            open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
            assert!(lines(&stream_of(&store)) == after);
            // A column of the same log.
            let mut drop = Erase::default();
            drop.tables.insert(T);
            drop.columns.insert("secret".to_owned());
            erased(&store, &drop).unwrap();
            let seqs = |lines: &[Line]| lines.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>();
            assert_eq!(seqs(&lines(&stream_of(&store))), seqs(&after));
        }
    }
}

/// A process that was killed while it merged or removed segments leaves segments. They have the
/// erased rows, too.
#[test]
fn nothing_stays_that_readers_do_not_see() {
    let mut left = 0;
    for prunes in [false, true] {
        at_every_crash(0, |crash| {
            let store = log_of(&history(ReplicaIdentity::Default));
            let mut log = open(&store);
            let middle = log.segments().get(log.segments().len() / 2).unwrap().end;
            let _ = crash.during(&store, || {
                if prunes {
                    log.prune(middle, true).map(|_| ())
                } else {
                    log.compact(1 << 20, &mut || Ok(())).map(|_| ())
                }
            });
            let seen = |store: &Memory| {
                let log = open(store);
                let names = log.segments().iter().map(walrow_log::Segment::name);
                names.map(|name| name.to_string()).collect::<Vec<_>>()
            };
            left += usize::from(store.segments().len() > seen(&store).len());
            let erase = found(&lines(&stream_of(&store)));
            erased(&store, &erase).unwrap();
            let objects = store.objects().into_iter().map(|(name, _)| name);
            let stored: Vec<_> = objects.filter(|name| name.contains(".wire.")).collect();
            assert_eq!(stored, seen(&store), "a crash at operation {}", crash.call);
        });
    }
    assert!(left > 5, "{left}");
}

#[test]
fn where_the_last_erased_change_ends_is_kept() {
    let store = log_of(&history(ReplicaIdentity::Default));
    let whole = found(&lines(&stream_of(&store)));
    // The erasure of a column removes no change.
    let mut erase = Erase::default();
    erase.tables.insert(T);
    erase.columns.insert("secret".to_owned());
    erased(&store, &erase).unwrap();
    assert_eq!(last_erased(&store), []);
    erase.rows = whole.rows.clone();
    erase.rows.retain(|(lsn, _), _| *lsn == Lsn(0x5000));
    erased(&store, &erase).unwrap();
    assert_eq!(last_erased(&store), [(T, end(5))]);
    // The end LSN stays after an earlier change was erased, and moves after a later change was
    // erased.
    erase.rows = whole.rows.clone();
    erase.rows.retain(|(lsn, _), _| *lsn < Lsn(0x5000));
    assert!(erased(&store, &erase).unwrap().rewritten > 0);
    assert_eq!(last_erased(&store), [(T, end(5))]);
    assert!(erased(&store, &whole).unwrap().rewritten > 0);
    assert_eq!(last_erased(&store), [(T, end(6))]);
    let mut log = open(&store);
    log.compact(1 << 20, &mut || Ok(())).unwrap();
    assert_eq!(last_erased(&store), [(T, end(6))]);
    assert!(log.prune(end(7), true).unwrap() > 0);
    assert_eq!(last_erased(&store), [(T, end(6))]);
}

#[test]
fn rows_of_changes_that_a_reader_has_not_taken_stay() {
    let store = log_of(&history(ReplicaIdentity::Default));
    let before = stream_of(&store);
    let mut erase = found(&lines(&before));
    let mut log = open(&store);
    let now = Timestamp(0);
    log.register("slow", Some(Lsn(0x6000)), now).unwrap();
    log.register("fast", Some(end(6)), now).unwrap();
    let hold = Hold::Reader {
        name: "slow".to_owned(),
        position: Lsn(0x6000),
        used: 0,
    };
    let error = erased(&store, &erase).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Held { hold });
    assert!(stream_of(&store) == before);
    assert_eq!(last_erased(&store), []);
    // The erasure of a column removes no change, and a reader does not need a change that it has
    // taken.
    let mut other = Erase::default();
    other.tables.insert(T);
    other.columns.insert("secret".to_owned());
    other.rows = erase.rows.clone();
    other.rows.retain(|(lsn, _), _| *lsn < Lsn(0x6000));
    assert!(erased(&store, &other).unwrap().rewritten > 0);
    erase.force = true;
    erased(&store, &erase).unwrap();
    assert_eq!(last_erased(&store), [(T, end(6))]);
    erase.force = false;
    log.advance("slow", end(6), now).unwrap();
    erased(&store, &erase).unwrap();
}

#[test]
fn a_column_is_erased_everywhere() {
    for identity in [ReplicaIdentity::Default, ReplicaIdentity::Full] {
        let store = log_of(&history(identity));
        let before = lines(&stream_of(&store));
        let mut erase = Erase::default();
        erase.tables.insert(T);
        erase.columns.insert("secret".to_owned());
        erased(&store, &erase).unwrap();
        let without = |table: &str, image: &Option<Vec<String>>| {
            let mut image = image.clone();
            if let Some(cells) = image.as_mut().filter(|_| table == "t") {
                cells.remove(1);
            }
            image
        };
        let expected: Vec<Line> = before
            .iter()
            .map(|(lsn, seq, table, old, new)| {
                (
                    *lsn,
                    *seq,
                    table.clone(),
                    without(table, old),
                    without(table, new),
                )
            })
            .collect();
        assert!(lines(&stream_of(&store)) == expected);
        // The column's default was in the catalog.
        assert!(!has_bytes(&store, b"hidden"));
        assert!(has_bytes(&store, b"secret 9"));
        let log = open(&store);
        let used = log.segments().iter().flat_map(|it| &it.tables);
        for table in used {
            let version = &log.versions()[table.version];
            let columns: Vec<_> = version.columns.iter().map(|it| &*it.0).collect();
            let all = ["id", "secret", "note"];
            let left = ["id", "note"];
            assert_eq!(columns, if version.oid == T { &left[..] } else { &all });
        }
        assert_eq!(erased(&store, &erase).unwrap().rewritten, 0);
        // Writers and readers go on.
        let writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        assert_eq!(writer.position(), log.end());
    }
}

#[test]
fn a_damaged_segment_is_not_rewritten() {
    let store = log_of(&history(ReplicaIdentity::Default));
    let erase = found(&lines(&stream_of(&store)));
    let before = store.segments();
    let name = before[0].0.to_string();
    store.flip(&name, 30, 1);
    let error = erased(&store, &erase).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Damaged { .. }), "{error}");
    assert_eq!(error.object, name);
    store.flip(&name, 30, 1);
    assert!(store.segments() == before);
    erased(&store, &erase).unwrap();
    assert!(store.segments() != before);
}

#[test]
fn what_cannot_be_erased_is_refused() {
    let store = log_of(&history(ReplicaIdentity::Default));
    let before = stream_of(&store);
    let mut erase = Erase::default();
    erase.tables.insert(T);
    erase.columns.insert("id".to_owned());
    let kind = |result: Result<Erased, Error>| result.unwrap_err().kind;
    assert_eq!(kind(erased(&store, &erase)), ErrorKind::KeyColumn);
    assert!(stream_of(&store) == before);

    // A prepared transaction has rows that are in no segment yet.
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let prepared = Stream::new().session().begin_prepare(0x9000, 90, "g");
    let prepared = prepared
        .relation(T, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(T, &row(5))
        .prepare();
    writer
        .append(&mut assembler, &mut &*prepared.bytes())
        .unwrap();
    crate::sync(&mut writer, &mut assembler).unwrap();
    drop(writer);
    assert_eq!(kind(erased(&store, &Erase::default())), ErrorKind::Prepared);
}

/// A server sends a prepared transaction again until the receiver has confirmed it.
#[test]
fn no_byte_of_a_decided_transaction_is_written_again() {
    let prepared = |lsn: u64| {
        let stream = Stream::new().session().begin_prepare(lsn, 90, "g");
        stream
            .relation(T, "public", "t", ReplicaIdentity::Default, &COLUMNS)
            .insert(T, &row(5))
            .prepare()
            .bytes()
    };
    let saved = |store: &Memory| {
        let objects = store.objects().into_iter().map(|(name, _)| name);
        objects.filter(|it| it.starts_with("_prepared-")).count()
    };
    let open = |store: &Memory| {
        let writer = Writer::open(Arc::new(store.clone()), WriterOptions::default());
        let mut writer = writer.unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let decided = Stream::new().session().commit_prepared(0x3000, 90, "g");
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    for stream in [&prepared(0x2000), &decided.bytes()] {
        writer.append(&mut assembler, &mut &**stream).unwrap();
        crate::sync(&mut writer, &mut assembler).unwrap();
    }
    writer.publish(&mut assembler).unwrap();
    drop(writer);
    let mut erase = found(&lines(&stream_of(&store)));
    erase.force = true;
    assert_eq!(erased(&store, &erase).unwrap().rewritten, 1);

    let (mut writer, mut assembler) = open(&store);
    let again = prepared(0x2000);
    for piece in [&*again, &*decided.bytes()] {
        writer.append(&mut assembler, &mut &*piece).unwrap();
        crate::sync(&mut writer, &mut assembler).unwrap();
        assert_eq!(saved(&store), 0, "its row is erased");
    }
    // A new one is saved at once.
    let next = prepared(0x5000);
    writer.append(&mut assembler, &mut &*next).unwrap();
    crate::sync(&mut writer, &mut assembler).unwrap();
    assert_eq!(saved(&store), 1);

    // The log lacks one from before its end, because its decision is later.
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    writer.advance(Lsn(0x4000)).unwrap();
    crate::sync(&mut writer, &mut assembler).unwrap();
    drop(writer);
    let (mut writer, mut assembler) = open(&store);
    writer.append(&mut assembler, &mut &*again).unwrap();
    assert_eq!(
        crate::sync(&mut writer, &mut assembler).unwrap(),
        Lsn(0x4000)
    );
    assert_eq!(saved(&store), 0, "nothing later may be confirmed yet");
    writer.advance(Lsn(0x6000)).unwrap();
    assert_eq!(
        crate::sync(&mut writer, &mut assembler).unwrap(),
        Lsn(0x6000)
    );
    assert_eq!(saved(&store), 1);
}

#[test]
fn a_crash_or_a_failure_leaves_each_segment_whole_and_another_call_goes_on() {
    let transactions = history(ReplicaIdentity::Default);
    let whole = log_of(&transactions);
    open(&whole).compact(2_000, &mut || Ok(())).unwrap();
    let before = lines(&stream_of(&whole));
    let mut erase = found(&before);
    erase.columns.insert("secret".to_owned());
    erased(&whole, &erase).unwrap();
    let expected = stream_of(&whole);
    let calls = at_every_fault(walrow_testkit::step(7), 7, |fault| {
        let store = log_of(&transactions);
        open(&store).compact(2_000, &mut || Ok(())).unwrap();
        let planned = open(&store);
        let failed = fault.during(&store, || erased(&store, &erase)).is_err();
        store.reboot();
        // The log has all transactions. Some rows are erased already, and each erased row is
        // recorded.
        let between = lines(&stream_of(&store));
        let left = found(&between).rows;
        let gone = erase.rows.keys().filter(|it| !left.contains_key(it));
        let recorded = last_erased(&store).first().map(|(_, end)| *end);
        assert!(gone.map(|it| it.0).max() < recorded.or(Some(Lsn(0))));
        let commits = |lines: &[Line]| {
            let commits = lines.iter().filter(|it| it.2 == "commit");
            commits.map(|it| (it.0, it.1)).collect::<Vec<_>>()
        };
        assert_eq!(commits(&between), commits(&before));
        let log = open(&store);
        for segment in log.segments() {
            log.verify(segment, &mut || Ok(())).unwrap();
        }
        if failed {
            erased(&store, &erase).unwrap();
        }
        assert!(stream_of(&store) == expected, "operation {}", fault.call);
        assert_eq!(last_erased(&store), [(T, end(6))]);
        assert!(!has_bytes(&store, b"hidden"));
        // A reader that has planned before reads the old or the new version of each segment.
        let mut chunk = Vec::new();
        let mut reader = crate::read_all(&planned);
        while reader.read(&mut chunk).unwrap() {}
    });
    assert!(calls > 50, "{calls}");
}

#[test]
fn parts_of_a_transaction_whose_last_part_is_lost_are_not_passed_over() {
    let store = log_of(&history(ReplicaIdentity::Default)[..4]);
    let quiet = Writer::quiet(Arc::new(store.clone())).unwrap();
    let mut eraser = Eraser::open(quiet).unwrap();
    let (last, _) = store.segments().pop().unwrap();
    assert!(last.part > 0);
    store.lose(&last.to_string());
    let mut erase = Erase::default();
    erase.columns.insert("secret".to_owned());
    erase.tables.insert(T);
    let error = eraser.erase(&erase, &mut || Ok(())).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Missing { after: end(3) });
}
