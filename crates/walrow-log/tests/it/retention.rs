//! Registered readers, and the removal of segments from a log.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::faults::at_every_fault;
use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{
    DamagedPart, Error, ErrorKind, Hold, Plan, RegisteredReader, Retained, Retention, Upkeep,
    Writer, WriterOptions,
};
use walrow_stream::{Assembler, Fact};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

/// The end LSN of a transaction of `log_of`.
const fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

/// The time that many seconds after the first transaction.
fn at(seconds: i64) -> Timestamp {
    Timestamp(Stream::time(0) + seconds * 1_000_000)
}

/// A log of transactions with one insert each. Each transaction is a segment. Each entry has the
/// table's OID and name, and whether the transaction is a load.
fn log_of(transactions: &[(u32, &str, bool)]) -> Memory {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut assembler = Assembler::default();
    let mut snapshot = Vec::new();
    Fact::Snapshot.encode(false, &mut snapshot);
    for (number, (oid, name, loads)) in (1..).zip(transactions) {
        let mut stream = Stream::new();
        if number == 1 {
            stream = stream.session();
        }
        if *loads {
            stream = stream.raw(&snapshot);
        }
        let columns = [("a", 23, -1, true)];
        let stream = stream
            .begin(0x1000 * number, u32::try_from(number).unwrap())
            .relation(*oid, "public", name, ReplicaIdentity::Default, &columns)
            .insert(*oid, &[text("1")])
            .commit();
        writer
            .append(&mut assembler, &mut &*stream.bytes())
            .unwrap();
        writer.publish(&mut assembler).unwrap().unwrap();
    }
    store
}

fn six() -> Memory {
    log_of(&[(1, "t", false); 6])
}

fn open(store: &Memory) -> Upkeep {
    Upkeep::open(Arc::new(store.clone())).unwrap()
}

/// Keeps transactions up to this age in seconds.
fn age(seconds: i64) -> Retention {
    let mut retention = Retention::default();
    retention.age = Some(seconds * 1_000_000);
    retention
}

fn retain(store: &Memory, retention: &Retention, seconds: i64) -> Retained {
    open(store).retain(retention, at(seconds)).unwrap()
}

fn kind<T: std::fmt::Debug>(result: Result<T, Error>) -> ErrorKind {
    result.unwrap_err().kind
}

#[test]
fn segments_are_kept_by_age_and_by_bytes() {
    // Transaction n was committed at second n.
    let store = six();
    assert_eq!(retain(&store, &age(10), 11).segments, 0);
    let removed = retain(&store, &age(10), 13);
    assert_eq!((removed.segments, removed.held.len()), (2, 0));
    assert!(removed.bytes > 0);
    assert_eq!(open(&store).start(), end(2));
    // The last segment stays, whatever its age.
    assert_eq!(retain(&store, &age(0), 1_000).segments, 3);
    assert_eq!(open(&store).segments().len(), 1);

    let store = six();
    let sizes: Vec<_> = open(&store).segments().iter().map(|it| it.bytes).collect();
    let mut retention = Retention::default();
    retention.bytes = Some(sizes.iter().sum());
    assert_eq!(retain(&store, &retention, 0).segments, 0);
    retention.bytes = Some(sizes.iter().sum::<u64>() - 1);
    assert_eq!(retain(&store, &retention, 0).segments, 1);
    // Each of the two limits alone removes segments.
    retention.bytes = Some(sizes[3..].iter().sum());
    retention.age = Some(10_000_000);
    assert_eq!(retain(&store, &retention, 13).segments, 2);
    assert_eq!(retain(&store, &retention, 15).segments, 1);
    retention.bytes = Some(0);
    assert_eq!(retain(&store, &retention, 0).segments, 1);
    assert_eq!(open(&store).end(), end(6));
}

#[test]
fn nothing_is_removed_that_a_reader_needs() {
    let store = six();
    let mut log = open(&store);
    assert_eq!(log.register("a", None, at(0)).unwrap().position, Lsn(0));
    log.register("b", Some(end(3)), at(5)).unwrap();
    let held = retain(&store, &age(0), 100);
    assert_eq!((held.segments, held.bytes), (0, 0));
    let reader = |name: &str, position, seconds| Hold::Reader {
        name: name.to_owned(),
        position,
        used: at(seconds).0,
    };
    let both = vec![reader("a", Lsn(0), 0), reader("b", end(3), 5)];
    assert_eq!(held.held, both);
    // The position is inside a segment, so the reader needs the whole segment.
    log.advance("a", Lsn(end(2).0 + 1), at(6)).unwrap();
    let held = retain(&store, &age(0), 100);
    assert_eq!((held.segments, held.held.len()), (2, 2));
    log.forget("a").unwrap();
    let held = retain(&store, &age(0), 100);
    assert_eq!(
        (held.segments, held.held),
        (1, vec![reader("b", end(3), 5)])
    );
    // With an explicit LSN, either all segments before it are removed, or no segment.
    let error = kind(log.prune(end(4), false));
    let hold = reader("b", end(3), 5);
    assert_eq!(error, ErrorKind::Held { hold });
    assert_eq!(open(&store).segments().len(), 3);
    assert_eq!(log.prune(end(3), false), Ok(0));
    assert_eq!(log.prune(end(4), true), Ok(1));
    // A reader whose position was removed holds all segments that are left.
    assert_eq!(retain(&store, &age(0), 100).segments, 0);
    let mut forced = age(0);
    forced.force = true;
    assert_eq!(retain(&store, &forced, 100).segments, 1);
    assert_eq!(log.readers().unwrap().len(), 1);
}

#[test]
fn readers_that_are_not_used_are_forgotten_on_request() {
    let store = six();
    let mut log = open(&store);
    log.register("old", None, at(0)).unwrap();
    log.register("new", Some(end(4)), at(90)).unwrap();
    let mut retention = age(0);
    retention.forget_after = Some(100_000_000);
    assert_eq!(retain(&store, &retention, 100).segments, 0);
    let removed = retain(&store, &retention, 101);
    assert_eq!(removed.forgotten, ["old"]);
    assert_eq!(removed.segments, 4);
    // At its own position, a reader counts as used.
    log.advance("new", end(4), at(150)).unwrap();
    assert_eq!(retain(&store, &retention, 240).forgotten, [""; 0]);
    assert_eq!(
        kind(log.advance("old", end(5), at(0))),
        ErrorKind::NoReader {
            name: "old".to_owned()
        }
    );
}

#[test]
fn the_last_load_of_a_table_stays() {
    let load = |name: &str, oid, position| Hold::Load {
        oid,
        schema: "public".to_owned(),
        name: name.to_owned(),
        position,
    };
    let store = log_of(&[
        (1, "t", false),
        (1, "t", true),
        (2, "u", true),
        (1, "t", true),
        (3, "v", false),
        (1, "t", false),
    ]);
    let held = retain(&store, &age(0), 100);
    assert_eq!(held.segments, 2);
    assert_eq!(held.held, [load("u", 2, end(2)), load("t", 1, end(3))]);
    assert_eq!(
        kind(open(&store).prune(end(3), false)),
        ErrorKind::Held {
            hold: load("u", 2, end(2))
        }
    );
    let mut forced = age(0);
    forced.force = true;
    assert_eq!(retain(&store, &forced, 100).segments, 3);
    assert_eq!(retain(&store, &age(0), 100), Retained::default());

    // A table has another name now, which no change of it has, and another table left.
    let store = log_of(&[
        (1, "t", true),
        (2, "u", true),
        (3, "t", false),
        (3, "t", false),
    ]);
    let named = |name: &str| Some(("public".to_owned(), name.to_owned()));
    let mut log = open(&store);
    log.set_tables([(1, named("s")), (2, None), (3, named("t"))].into());
    let held = log.retain(&age(0), at(100)).unwrap().held;
    assert_eq!(held, [load("s", 1, Lsn(0))]);
    // A registered reader that is past a load has its rows.
    open(&store).register("r", Some(end(2)), at(0)).unwrap();
    assert_eq!(retain(&store, &age(0), 100).segments, 2);
}

/// A table changes its columns and changes them back, and a second table changes its name.
#[test]
fn a_start_before_removed_changes_is_refused_whatever_came_between() {
    let columns = [("a", 23, -1, true), ("b", 23, -1, false)];
    let versions = [
        (1, "t", 1),
        (1, "t", 2),
        (1, "t", 1),
        (2, "old", 1),
        (2, "new", 1),
        (3, "other", 1),
    ];
    // All transactions are in one segment, or each transaction is in its own segment.
    for publishes in [false, true] {
        let store = Memory::default();
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let mut assembler = Assembler::default();
        let mut stream = Stream::new().session();
        for (number, (oid, name, width)) in (1..).zip(versions) {
            let cells: Vec<_> = (0..width).map(|_| text("1")).collect();
            let columns = columns.get(..width).unwrap();
            stream = stream
                .begin(0x1000 * number, u32::try_from(number).unwrap())
                .relation(oid, "public", name, ReplicaIdentity::Default, columns)
                .insert(oid, &cells)
                .commit();
            writer
                .append(&mut assembler, &mut &*stream.bytes())
                .unwrap();
            stream = Stream::new();
            if publishes {
                writer.publish(&mut assembler).unwrap().unwrap();
            }
        }
        writer.publish(&mut assembler).unwrap();
        let last = stream.begin(0x9000, 9).commit().bytes();
        writer.append(&mut assembler, &mut &*last).unwrap();
        writer.publish(&mut assembler).unwrap().unwrap();
        open(&store).prune(Lsn(0x8000), false).unwrap();
        let log = open(&store);
        assert_eq!(log.start(), end(6));
        for (wanted, last) in [("t", 3), ("old", 4), ("new", 5), ("other", 6)] {
            for number in 1..=6 {
                let wants = |version: &walrow_log::TableVersion| version.name == wanted;
                let mut plan = Plan::default();
                plan.start = end(number);
                plan.table = Some(&wants);
                let planned = log.plan(&plan);
                assert_eq!(planned.is_err(), number < last, "{wanted} after {number}");
            }
        }
        let removed: Vec<_> = log.removed().map(|it| (it.0, it.2, it.3)).collect();
        assert_eq!(
            removed,
            [
                (1, "t", end(3)),
                (2, "new", end(5)),
                (2, "old", end(4)),
                (3, "other", end(6)),
            ]
        );
    }
}

#[test]
fn a_reader_never_goes_back_unless_it_is_told_to() {
    let store = six();
    let mut log = open(&store);
    let position = |reader: Result<RegisteredReader, Error>| reader.unwrap().position;
    assert_eq!(position(log.register("r", Some(end(2)), at(0))), end(2));
    // The reader is registered already, so it continues.
    assert_eq!(position(log.register("r", Some(end(1)), at(0))), end(2));
    assert_eq!(position(log.advance("r", end(4), at(0))), end(4));
    assert_eq!(
        kind(log.advance("r", end(3), at(0))),
        ErrorKind::Backwards {
            name: "r".to_owned(),
            from: end(4),
            to: end(3)
        }
    );
    assert_eq!(position(log.rewind("r", end(1), at(0))), end(1));
    let past = Lsn(end(6).0 + 1);
    let error = ErrorKind::PastEnd {
        position: past,
        end: end(6),
    };
    assert_eq!(kind(log.advance("r", past, at(0))), error);
    assert_eq!(kind(log.rewind("r", past, at(0))), error);
    assert_eq!(kind(log.register("s", Some(past), at(0))), error);
    log.forget("r").unwrap();
    log.prune(end(3), false).unwrap();
    let error = ErrorKind::Pruned {
        start: end(2),
        until: end(3),
    };
    assert_eq!(kind(log.register("s", Some(end(2)), at(0))), error);
    assert_eq!(position(log.register("s", None, at(0))), end(3));
    assert_eq!(kind(log.rewind("s", end(2), at(0))), error);
    assert_eq!(
        kind(log.forget("r")),
        ErrorKind::NoReader {
            name: "r".to_owned()
        }
    );
    assert_eq!(kind(log.register("", None, at(0))), ErrorKind::ReaderName);
    // Another process sees segments that were published later.
    let mut other = open(&store);
    assert_eq!(position(other.advance("s", end(6), at(0))), end(6));
}

#[test]
fn a_damaged_record_of_a_reader_removes_nothing() {
    let store = six();
    open(&store).register("r", None, at(0)).unwrap();
    store.flip("_reader-r", 12, 1);
    let what = DamagedPart::Reader;
    let error = ErrorKind::Damaged { what };
    assert_eq!(kind(open(&store).retain(&age(0), at(100))), error);
    assert_eq!(kind(open(&store).advance("r", end(1), at(0))), error);
    assert_eq!(open(&store).segments().len(), 6);
    open(&store).forget("r").unwrap();
    assert_eq!(retain(&store, &age(0), 100).segments, 5);
}

/// The store fails at each operation. A reader is at its old or its new position, and the log has
/// the segments that the readers need.
#[test]
fn a_crash_or_a_failure_loses_no_reader_and_nothing_that_one_needs() {
    let work = |store: &Memory| {
        let mut log = Upkeep::open(Arc::new(store.clone()))?;
        log.register("r", Some(end(2)), at(0))?;
        log.advance("r", end(3), at(1))?;
        log.retain(&age(0), at(100))
    };
    assert_eq!(work(&six()).unwrap().segments, 3);
    at_every_fault(1, 7, |fault| {
        let store = six();
        let failed = fault.during(&store, || work(&store)).is_err();
        store.reboot();
        let log = open(&store);
        let position = log.readers().unwrap().first().map(|it| it.position);
        assert!([None, Some(end(2)), Some(end(3))].contains(&position));
        assert!(
            log.start() <= position.unwrap_or_default(),
            "{}",
            fault.call
        );
        let mut plan = Plan::default();
        plan.start = position.unwrap_or_default();
        let names = log.plan(&plan).unwrap();
        assert_eq!(names.last().map(|it| it.start), Some(end(5)));
        assert!(failed || fault.is_refused || position == Some(end(3)));
        // A writer goes on, and the work can be done again.
        drop(Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap());
        work(&store).unwrap();
        assert_eq!((open(&store).start(), store.segments().len()), (end(3), 3));
    });
}
