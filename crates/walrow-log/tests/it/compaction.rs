//! Merged segments: readers see the same stream as before, whenever they planned it, and after a
//! crash at any operation of the store.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::faults::at_every_fault;
use crate::world::Memory;
use proptest::prelude::*;
use std::sync::Arc;
use walrow_log::{
    Compacted, DamagedPart, Error, ErrorKind, Log, Plan, SegmentName, StateOptions, TableReader,
    Upkeep, Writer, WriterOptions,
};
use walrow_stream::{Assembler, Event};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

/// The end LSN of a transaction of `log_of`.
const fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

/// Appends a transaction with so many rows, and publishes it. From 100 rows on, it has several parts.
fn publish(writer: &mut Writer, assembler: &mut Assembler, number: u64, rows: usize) {
    let mut stream = Stream::new();
    if number == 1 {
        stream = stream.session();
    }
    let columns = [("a", 23, -1, true), ("b", 25, -1, false)];
    // Two tables, so that a plan may need only some of the segments.
    let oid = u32::try_from(1 + number % 2).unwrap();
    let name = format!("t{oid}");
    stream = stream
        .begin(0x1000 * number, u32::try_from(number).unwrap())
        .relation(oid, "public", &name, ReplicaIdentity::Default, &columns);
    for row in 0..rows {
        let key = format!("{number}{row:03}");
        stream = stream.insert(oid, &[text(key), text(vec![b'x'; 100])]);
    }
    let bytes = stream.commit().bytes();
    writer.append(assembler, &mut &*bytes).unwrap();
    writer.publish(assembler).unwrap();
}

/// A writer of a log whose segments are transactions, of so many rows each.
fn begun(rows: &[usize]) -> (Memory, Writer, Assembler) {
    let store = Memory::default();
    let mut options = WriterOptions::default();
    options.segment_bytes = 10_000;
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let mut assembler = Assembler::default();
    for (number, rows) in (1..).zip(rows) {
        publish(&mut writer, &mut assembler, number, *rows);
    }
    (store, writer, assembler)
}

fn log_of(rows: &[usize]) -> Memory {
    begun(rows).0
}

fn open(store: &Memory) -> Upkeep {
    Upkeep::open(Arc::new(store.clone())).unwrap()
}

/// The changes of a stream: commit LSN, seq and relation.
fn rows_of(stream: &[u8]) -> Vec<(Lsn, u64, String)> {
    let (mut assembler, mut rest) = (Assembler::default(), stream);
    let (mut found, mut commit) = (Vec::new(), Lsn(0));
    while let Some(event) = assembler.next(&mut rest).unwrap() {
        match event {
            Event::Begin(transaction) => commit = transaction.commit_lsn,
            Event::Change(change) => {
                found.push((commit, change.seq, change.relation.name.to_string()));
            }
            _ => {}
        }
    }
    assert!(!assembler.is_mid_transaction());
    found
}

/// The stream of planned segments, each of them read alone.
fn read(log: &Log, names: &[SegmentName], start: Lsn) -> Result<Vec<u8>, Error> {
    let (mut stream, mut chunk) = (Vec::new(), Vec::new());
    for name in names {
        let mut reader = log.read(&[*name], start)?;
        while reader.read(&mut chunk)? {
            stream.extend_from_slice(&chunk);
        }
    }
    Ok(stream)
}

fn names(log: &Log) -> Vec<SegmentName> {
    log.plan(&Plan::default()).unwrap()
}

fn stream_of(log: &Log) -> Vec<u8> {
    read(log, &names(log), Lsn(0)).unwrap()
}

/// A follower: its view, and the stream that it has read.
struct Follower {
    log: Upkeep,
    stream: Vec<u8>,
    position: Lsn,
}

impl Follower {
    fn new(store: &Memory) -> Self {
        let log = open(store);
        let (stream, position) = (stream_of(&log), log.end());
        Self {
            log,
            stream,
            position,
        }
    }

    fn follow(&mut self) {
        while self.log.follow().unwrap() > 0 {
            let mut plan = Plan::default();
            plan.start = self.position;
            let names = self.log.plan(&plan).unwrap();
            let read = read(&self.log, &names, self.position).unwrap();
            self.stream.extend(read);
            self.position = self.log.end();
        }
    }
}

#[test]
fn merged_segments_have_the_stream_of_their_members() {
    // The seventh transaction has parts, which stay.
    let rows = [1, 2, 3, 0, 1, 2, 250, 3, 1, 1, 4];
    let store = log_of(&rows);
    let before = open(&store);
    let (stream, versions) = (stream_of(&before), before.versions().to_vec());
    let segments = before.segments().to_vec();
    let mut log = open(&store);
    let compacted = log.compact(1 << 20, &mut || Ok(())).unwrap();
    assert_eq!((compacted.segments, compacted.merged), (6 + 3, 2));
    assert_eq!(log.segments().len(), segments.len() - 9 + 2);
    assert_eq!(store.segments().len(), log.segments().len());
    for log in [&log, &open(&store)] {
        assert_eq!(stream_of(log), stream);
        assert_eq!((log.start(), log.end()), (before.start(), before.end()));
        assert_eq!(log.versions(), versions);
        for segment in log.segments() {
            log.verify(segment, &mut || Ok(())).unwrap();
        }
        let sum = |log: &Log, of: fn(&walrow_log::Segment) -> u64| {
            log.segments().iter().map(of).sum::<u64>()
        };
        for of in [
            (|it| it.transactions) as fn(&walrow_log::Segment) -> u64,
            |it| it.bytes,
            |it| it.stream_bytes,
            |it| it.tables.iter().map(|it| it.rows).sum(),
            |it| it.tables.iter().map(|it| it.bytes).sum(),
        ] {
            assert_eq!(sum(log, of), sum(&before, of));
        }
    }
    // Each table comes once in a foot, with the LSN of its last change.
    let merged = &log.segments()[0];
    assert_eq!(merged.tables.len(), 2);
    assert_eq!(merged.tables.iter().map(|it| it.last).max(), Some(end(6)));
    assert_eq!(merged.times, Some((Stream::time(1), Stream::time(6))));
    // Merged segments are not copied again without need.
    assert_eq!(
        log.compact(1 << 20, &mut || Ok(())).unwrap(),
        Compacted::default()
    );
    // The old view was planned before: its segments are parts of the merged segments.
    assert_eq!(stream_of(&before), stream);
    for segment in &segments {
        before.verify(segment, &mut || Ok(())).unwrap();
    }
}

#[test]
fn a_writer_and_followers_go_on_beside_it() {
    let (store, mut writer, mut assembler) = begun(&[1, 1, 1]);
    let mut followers = vec![Follower::new(&store)];
    let mut log = open(&store);
    for number in 4..60 {
        publish(
            &mut writer,
            &mut assembler,
            number,
            if number % 17 == 0 { 120 } else { 1 },
        );
        if number % 5 == 0 {
            log.compact(3_000, &mut || Ok(())).unwrap();
        }
        if number % 7 == 0 {
            followers.push(Follower::new(&store));
        }
        // Some of them follow rarely: their next segment was merged, and merged again.
        for (every, follower) in followers.iter_mut().enumerate() {
            if number % (1 + every as u64 * 6) == 0 {
                follower.follow();
            }
        }
    }
    let expected = stream_of(&open(&store));
    assert_eq!(rows_of(&expected).iter().filter(|it| it.1 == 0).count(), 59);
    for follower in &mut followers {
        follower.follow();
        assert!(follower.stream == expected);
    }
    // The writer's index follows. To open the log again, only the last segment's foot is read.
    drop(writer);
    drop(Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap());
    let before = store.operations();
    let many = open(&store).segments().len();
    let operations = store.operations() - before;
    assert!(
        operations < 20,
        "{operations} operations for {many} segments"
    );
}

#[test]
fn a_state_is_read_while_merged_segments_are_merged_again() {
    let (store, mut writer, mut assembler) = begun(&[1; 5]);
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    for number in 6..14 {
        publish(&mut writer, &mut assembler, number, 1);
    }
    let log = open(&store);
    let state = || {
        let wants = |_, _: &str, name: &str| name == "t2";
        log.state(&wants, StateOptions::default()).unwrap()
    };
    let read = |mut state: TableReader| {
        let (mut stream, mut chunk) = (Vec::new(), Vec::new());
        while state.read(&mut chunk).unwrap() {
            stream.extend_from_slice(&chunk);
        }
        stream
    };
    let (expected, begun) = (read(state()), state());
    assert_eq!(
        open(&store)
            .compact(1 << 20, &mut || Ok(()))
            .unwrap()
            .merged,
        1
    );
    assert_eq!(read(begun), expected);
    assert_eq!(read(state()), expected);
}

#[test]
fn a_start_inside_a_merged_segment_reads_only_what_comes_after_it() {
    let store = log_of(&[1; 9]);
    let before = open(&store);
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    let log = open(&store);
    assert_eq!(log.segments().len(), 2);
    for number in 0..=9 {
        let mut plan = Plan::default();
        plan.start = if number == 0 { Lsn(0) } else { end(number) };
        let stream = |log: &Log| read(log, &log.plan(&plan).unwrap(), plan.start).unwrap();
        assert!(stream(&log) == stream(&before), "{number}");
        assert_eq!(rows_of(&stream(&log)).len() as u64, 9 - number);
    }
}

#[test]
fn retention_and_readers_see_merged_segments_as_a_whole() {
    let store = log_of(&[1; 12]);
    let mut stale = open(&store);
    let mut log = open(&store);
    log.compact(2_000, &mut || Ok(())).unwrap();
    let ends: Vec<_> = log.segments().iter().map(|it| it.end).collect();
    assert!(ends.len() < 8, "{ends:?}");
    let inside = log.segments()[1].start.0 + 0x1000;
    assert!(!ends.contains(&Lsn(inside)));
    // The view is older than the merge, so its removal ends inside a merged segment.
    assert_eq!(stale.prune(Lsn(inside), false), Ok(1));
    assert_eq!(open(&store).start(), ends[0]);
    stale
        .register("r", Some(Lsn(inside)), Timestamp(0))
        .unwrap();
    assert!(matches!(
        log.prune(ends[1], false),
        Err(Error {
            kind: ErrorKind::Held { .. },
            ..
        })
    ));
    assert_eq!(log.prune(ends[1], true), Ok(1));
    log.compact(1 << 20, &mut || Ok(())).unwrap();
    assert_eq!(open(&store).start(), ends[1]);
    assert_eq!(
        rows_of(&stream_of(&open(&store))).first().map(|it| it.0),
        Some(Lsn(ends[1].0 + 0x1000 - Stream::RECORD))
    );
}

#[test]
fn damaged_segments_are_not_merged() {
    let store = log_of(&[1; 4]);
    let name = open(&store).segments()[1].name().to_string();
    store.flip(&name, 20, 1);
    let error = open(&store).compact(1 << 20, &mut || Ok(())).unwrap_err();
    assert_eq!(
        (error.object, error.kind),
        (
            name.clone(),
            ErrorKind::Damaged {
                what: DamagedPart::Checksum
            }
        )
    );
    assert_eq!(open(&store).segments().len(), 4);
    store.flip(&name, 20, 1);
    open(&store).compact(1 << 20, &mut || Ok(())).unwrap();
    let merged = open(&store).segments()[0].name().to_string();
    store.flip(&merged, 20, 1);
    let log = open(&store);
    assert!(log.verify(&log.segments()[0], &mut || Ok(())).is_err());
    assert!(read(&log, &names(&log), Lsn(0)).is_err());
}

/// A reader that has planned at any time reads the same at any later time, after any merge and any
/// crash.
#[test]
fn a_crash_or_a_failure_at_any_operation_changes_nothing_for_any_reader() {
    let rows = [1, 1, 2, 1, 120, 1, 3, 1, 1];
    let whole = log_of(&rows);
    let expected = stream_of(&open(&whole));
    let calls = at_every_fault(walrow_testkit::step(7), 7, |fault| {
        let (store, writer, assembler) = begun(&rows);
        let mut views = vec![open(&store)];
        let mut log = open(&store);
        let mut follower = Follower::new(&store);
        let mut running = Some((writer, assembler));
        let _ = fault.during(&store, || {
            let compacted = log.compact(2_000, &mut || Ok(()));
            let compacted = compacted.and_then(|_| log.compact(1 << 20, &mut || Ok(())));
            if !fault.is_refused {
                running = None;
            }
            compacted
        });
        let (mut writer, mut assembler) = running.unwrap_or_else(|| {
            let writer = Writer::open(Arc::new(store.clone()), WriterOptions::default());
            let mut writer = writer.unwrap();
            let mut assembler = writer.resume(Assembler::default()).unwrap();
            let session = Stream::new().session().bytes();
            writer.append(&mut assembler, &mut &*session).unwrap();
            (writer, assembler)
        });
        let check = |views: &[Upkeep]| {
            for view in views {
                let stream = read(view, &names(view), Lsn(0)).unwrap();
                assert!(stream == expected, "a fault at {}", fault.call);
            }
        };
        views.push(open(&store));
        check(&views);
        let mut again = open(&store);
        again.compact(1 << 20, &mut || Ok(())).unwrap();
        views.push(open(&store));
        check(&views);
        assert_eq!(store.segments().len(), open(&store).segments().len());
        publish(&mut writer, &mut assembler, 10, 1);
        publish(&mut writer, &mut assembler, 11, 1);
        again.compact(1 << 20, &mut || Ok(())).unwrap();
        follower.follow();
        assert!(follower.stream.starts_with(&expected));
        assert_eq!(
            rows_of(&follower.stream),
            rows_of(&stream_of(&open(&store)))
        );
        assert_eq!(rows_of(&follower.stream).len(), 131 + 2);
    });
    assert!(calls > 60, "{calls}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(32)))]

    /// Any sizes, merged with any targets: all views read the same, and each byte is copied a few times.
    #[test]
    fn any_segments_are_merged_in_any_order(
        rows in prop::collection::vec(prop::sample::select(vec![0_usize, 1, 1, 2, 5, 30, 110]), 1..40),
        targets in prop::collection::vec(200_u64..40_000, 1..6),
    ) {
        let store = log_of(&rows);
        let mut views = vec![open(&store)];
        let stream = stream_of(&views[0]);
        let bytes: u64 = views[0].segments().iter().map(|it| it.bytes).sum();
        let mut copied = 0;
        for target in targets {
            let mut log = open(&store);
            copied += log.compact(target, &mut || Ok(())).unwrap().bytes;
            views.push(log);
            for view in &views {
                prop_assert!(read(view, &names(view), Lsn(0)).unwrap() == stream);
            }
        }
        prop_assert!(copied <= bytes * 7, "{} of {}", copied, bytes);
    }
}
