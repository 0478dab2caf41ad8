//! Gaps: ranges of LSNs of which the server sent no changes.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::world::Memory;
use crate::{read_all, sync};
use std::sync::Arc;
use walrow_log::{ErrorKind, Log, Plan, Upkeep, Writer, WriterOptions, check};
use walrow_stream::fact::{Fact, Gap};
use walrow_stream::{Assembler, Event};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

const COLUMNS: [(&str, u32, i32, bool); 1] = [("a", 23, -1, true)];

fn transaction(lsn: u64) -> Vec<u8> {
    Stream::new()
        .session()
        .begin(lsn, 700)
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("1")])
        .commit()
        .bytes()
}

fn prepared(lsn: u64) -> Vec<u8> {
    Stream::new()
        .session()
        .begin_prepare(lsn, 801, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("2")])
        .prepare()
        .bytes()
}

fn end_of(lsn: u64) -> Lsn {
    Lsn(lsn.saturating_add(Stream::RECORD))
}

fn gaps(log: &Log) -> Vec<Gap> {
    let gaps = log.segments().iter().flat_map(|it| it.gaps.clone());
    gaps.collect()
}

/// A log with a prepared transaction, a gap, and a transaction behind it.
fn crossed(store: &Arc<Memory>) -> (Writer, Assembler) {
    let mut writer = Writer::open(store.clone(), WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let stream = [transaction(0x1000), prepared(0x1800)].concat();
    writer.append(&mut assembler, &mut &*stream).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    // It is not published yet.
    writer.cross_gap(Lsn(0x3000), "slot_moved").unwrap();
    assert_eq!(writer.position(), Lsn(0x3000));
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    assert_eq!(assembler.prepared().count(), 0);
    writer.compare(Lsn(0x3000), false).unwrap();
    let stream = transaction(0x4000);
    writer.append(&mut assembler, &mut &*stream).unwrap();
    writer.publish(&mut assembler).unwrap();
    (writer, assembler)
}

#[test]
fn a_gap_is_a_fact_of_the_log() {
    let store = Arc::new(Memory::default());
    let (writer, _) = crossed(&store);
    let log = Log::open(store.clone()).unwrap();
    let expected = Gap::new(end_of(0x1000), Lsn(0x3000), "slot_moved".to_owned());
    assert_eq!(gaps(&log), std::slice::from_ref(&expected));
    for segment in log.segments() {
        log.verify(segment, &mut || Ok(())).unwrap();
    }
    let (mut found, mut chunk) = (Vec::new(), Vec::new());
    let (mut reader, mut assembler) = (read_all(&log), Assembler::default());
    while reader.read(&mut chunk).unwrap() {
        let mut input = &*chunk;
        while let Some(event) = assembler.next(&mut input).unwrap() {
            match event {
                Event::Fact(fact) if matches!(*fact, Fact::Gap(_)) => found.push(Lsn(0)),
                Event::Commit { transaction, .. } => found.push(transaction.commit_lsn),
                _ => {}
            }
        }
    }
    assert_eq!(found, [Lsn(0x1000), Lsn(0), Lsn(0x4000)]);
    // Its decision may be in the gap.
    assert_eq!(check(&*store).unwrap(), []);
    drop(writer);
    let writer = Writer::open(store, WriterOptions::default()).unwrap();
    assert_eq!(writer.source().unwrap().gap_end, Some(Lsn(0x3000)));
}

#[test]
fn a_gap_that_is_behind_the_end_is_crossed_once() {
    let store = Arc::new(Memory::default());
    let (mut writer, _) = crossed(&store);
    writer.cross_gap(Lsn(0x3000), "slot_moved").unwrap();
    assert_eq!(gaps(&Log::open(store).unwrap()).len(), 1);
}

#[test]
fn merged_and_removed_segments_keep_it() {
    let store = Arc::new(Memory::default());
    let (mut writer, mut assembler) = crossed(&store);
    for lsn in [0x5000, 0x6000, 0x7000] {
        let stream = transaction(lsn);
        writer.append(&mut assembler, &mut &*stream).unwrap();
        writer.publish(&mut assembler).unwrap();
    }
    let mut upkeep = Upkeep::open(store.clone()).unwrap();
    upkeep.compact(1 << 20, &mut || Ok(())).unwrap();
    let log = Log::open(store.clone()).unwrap();
    assert_eq!((log.segments().len(), gaps(&log).len()), (2, 1));
    // A reader of another table meets it, too.
    let mut plan = Plan::default();
    plan.start = end_of(0x1000);
    plan.table = Some(&|_| false);
    assert_eq!(log.plan(&plan).unwrap().len(), 1);
    plan.start = Lsn(0x3000);
    let last = log.segments().last().unwrap().start;
    upkeep.prune(last, true).unwrap();
    let log = Log::open(store).unwrap();
    assert!(log.plan(&plan).is_ok());
    plan.start = Lsn(0x2FFF);
    let error = log.plan(&plan).unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Pruned { .. }));
}

#[test]
fn a_load_that_is_not_complete_comes_first() {
    let store = Arc::new(Memory::default());
    let mut writer = Writer::open(store, WriterOptions::default()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let stream = transaction(0x1000);
    writer.append(&mut assembler, &mut &*stream).unwrap();
    let load = writer
        .begin_load(Lsn(0x2000), Timestamp(0), Vec::new())
        .unwrap();
    let error = writer.cross_gap(Lsn(0x3000), "slot_moved").unwrap_err();
    assert!(matches!(error.kind, ErrorKind::Load { .. }));
    writer.give_up_load(&load, &mut assembler).unwrap();
    writer.cross_gap(Lsn(0x3000), "slot_moved").unwrap();
}
