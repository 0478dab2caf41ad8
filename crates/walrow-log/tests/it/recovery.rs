//! A writer opens logs that lack objects, and logs that were copied or changed by hand.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::faults::{Fault, at_every_crash};
use crate::sync;
use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{
    DamagedPart, Eraser, Error, ErrorKind, Log, Remedy, Repair, Upkeep, Writer, WriterOptions,
    check,
};
use walrow_stream::{Assembler, Event, Relation};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

const COLUMNS: [(&str, u32, i32, bool); 1] = [("a", 25, -1, true)];

/// A transaction of one row.
fn transaction(number: u64) -> Vec<u8> {
    Stream::new()
        .session()
        .begin(0x1000 * number, 700)
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text(number.to_string())])
        .commit()
        .bytes()
}

fn end(number: u64) -> Lsn {
    Lsn(0x1000 * number + Stream::RECORD)
}

fn prepare(lsn: u64) -> Vec<u8> {
    Stream::new()
        .session()
        .begin_prepare(lsn, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("prepared")])
        .prepare()
        .bytes()
}

fn commit_prepared(lsn: u64) -> Vec<u8> {
    let stream = Stream::new().session();
    stream.commit_prepared(lsn, 701, "g").bytes()
}

fn open_as(store: &Memory, slot: Option<&str>) -> Result<(Writer, Assembler), Error> {
    let mut options = WriterOptions::default();
    options.source.slot = slot.map(str::to_owned);
    let mut writer = Writer::open(Arc::new(store.clone()), options)?;
    let assembler = writer.resume(Assembler::default())?;
    Ok((writer, assembler))
}

fn open(store: &Memory) -> (Writer, Assembler) {
    open_as(store, None).unwrap()
}

fn refusal(store: &Memory) -> Error {
    let before = store.objects();
    let checked = check(store).unwrap_err();
    let error = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap_err();
    assert_eq!(checked, error, "check says the same");
    // The writer has written no object before.
    assert_eq!(store.objects(), before);
    error
}

/// Writes transactions. Each of them becomes a segment.
fn publish(writer: &mut Writer, assembler: &mut Assembler, numbers: &[u64]) {
    for number in numbers {
        let bytes = transaction(*number);
        writer.append(assembler, &mut &*bytes).unwrap();
        writer.publish(assembler).unwrap().unwrap();
    }
}

fn copy(objects: &[(String, Vec<u8>)]) -> Memory {
    let store = Memory::default();
    for (name, bytes) in objects {
        store.set(name, bytes);
    }
    store
}

fn object(store: &Memory, name: &str) -> Vec<u8> {
    let mut objects = store.objects().into_iter();
    objects.find(|(it, _)| it == name).unwrap().1
}

fn is_prepared(name: &str) -> bool {
    name.starts_with("_prepared-")
}

fn prepared(store: &Memory) -> Option<String> {
    let mut objects = store.objects().into_iter();
    objects.find(|(name, _)| is_prepared(name)).map(|it| it.0)
}

/// The ends of a log's transactions.
fn ends(store: &Memory) -> Vec<Lsn> {
    let log = Log::open(Arc::new(store.clone())).unwrap();
    let (mut assembler, mut chunk, mut ends) = (Assembler::default(), Vec::new(), Vec::new());
    let mut stream = crate::read_all(&log);
    while stream.read(&mut chunk).unwrap() {
        let mut input = &*chunk;
        while let Some(event) = assembler.next(&mut input).unwrap() {
            if let Event::Commit { transaction, .. } = event {
                ends.push(transaction.end_lsn);
            }
        }
    }
    ends
}

/// Two segments, then a prepared transaction and a commit in the synced part of the journal, and a
/// commit after it. Returns the size of the synced part.
fn whole() -> (Memory, usize) {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    publish(&mut writer, &mut assembler, &[1, 2]);
    let more = [prepare(0x2800), transaction(3)].concat();
    writer.append(&mut assembler, &mut &*more).unwrap();
    assert_eq!(sync(&mut writer, &mut assembler), Ok(end(3)));
    let more = transaction(4);
    writer.append(&mut assembler, &mut &*more).unwrap();
    let synced = object(&store, "_open").len();
    assert_eq!(sync(&mut writer, &mut assembler), Ok(end(4)));
    (store, synced)
}

#[test]
fn any_objects_with_any_end_of_the_journal_start_rightly_or_are_refused() {
    let (store, synced) = whole();
    // The lock of the writer says nothing.
    let others = |store: &Memory| {
        let objects = store.objects().into_iter();
        objects.filter(|it| it.0 != "_writer").collect::<Vec<_>>()
    };
    let objects = others(&store);
    let names: Vec<_> = objects.iter().map(|it| &*it.0).collect();
    assert_eq!(names.len(), 5, "{names:?}");
    let journal = objects.iter().position(|it| it.0 == "_open").unwrap();
    let size = objects[journal].1.len();
    let is_there = |set: u32, place: usize| set & 1 << place != 0;
    let (mut refused, mut started) = (0, 0);
    for set in 0..1_u32 << objects.len() {
        let sizes = if is_there(set, journal) { size } else { 0 };
        for cut in (0..=sizes).step_by(walrow_testkit::step(7)) {
            let mut kept: Vec<_> = (0..objects.len())
                .filter(|place| is_there(set, *place))
                .map(|place| objects[place].clone())
                .collect();
            if let Some((_, bytes)) = kept.iter_mut().find(|it| it.0 == "_open") {
                bytes.truncate(cut);
            }
            let store = copy(&kept);
            let what = || kept.iter().map(|it| &*it.0).collect::<Vec<_>>();
            let (writer, mut assembler) = match open_as(&store, None) {
                Err(error) => {
                    assert!(
                        matches!(error.kind, ErrorKind::Missing { .. } | ErrorKind::Absent),
                        "{error} {:?} {cut}",
                        what()
                    );
                    assert!(kept.len() < objects.len(), "{error} {cut}");
                    assert_eq!(
                        others(&store).len(),
                        copy(&kept)
                            .objects()
                            .len()
                            .max(kept.len() + usize::from(!is_there(set, journal)))
                    );
                    refused += 1;
                    continue;
                }
                Ok(opened) => opened,
            };
            started += 1;
            let position = writer.position();
            let all: Vec<_> = (1..=4).map(end).collect();
            let until = all.partition_point(|it| *it <= position);
            assert_eq!(ends(&store), all[..until], "{:?} {cut}", what());
            // The writer notices an object that names a later position.
            let has = |name: &str| kept.iter().any(|it| it.0 == name);
            if has("_index") {
                assert!(position >= end(2), "{:?} {cut}", what());
            }
            if has("_open") && cut >= synced {
                assert!(position >= end(3), "{:?} {cut}", what());
            }
            if position >= end(3) {
                // The server does not send the prepared rows again.
                let mut writer = writer;
                let decision = commit_prepared(0x6000);
                writer.append(&mut assembler, &mut &*decision).unwrap();
                assert_eq!(writer.counts().rows, 1, "{:?} {cut}", what());
            }
        }
    }
    assert!(refused > started / 4 && started > 20, "{refused} {started}");
}

#[test]
fn a_missing_newest_segment_is_named_by_the_journal_or_the_index() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    publish(&mut writer, &mut assembler, &[1, 2, 3]);
    let newest = store.segments().last().unwrap().0.to_string();
    drop((writer, assembler));
    // The journal is empty, and the index names the segment.
    let one = copy(&store.objects());
    one.lose(&newest);
    let missing = ErrorKind::Missing { after: end(2) };
    assert_eq!(refusal(&one).kind, missing);
    let log = Log::open(Arc::new(one)).unwrap();
    assert_eq!((log.end(), log.missing()), (end(2), Some(log.end())));
    // There is no index, and the journal has a later position.
    let (mut writer, mut assembler) = open(&store);
    writer.advance(Lsn(0x5000)).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    let other = copy(&store.objects());
    other.lose(&newest);
    other.lose("_index");
    assert_eq!(refusal(&other).kind, missing);
}

#[test]
fn a_copy_of_a_log_in_use_without_segments_in_between_is_refused() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    publish(&mut writer, &mut assembler, &[1]);
    let early = store.objects();
    publish(&mut writer, &mut assembler, &[2]);
    let more = transaction(3);
    writer.append(&mut assembler, &mut &*more).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    // The earlier names, with the current contents.
    let names: Vec<_> = early.iter().map(|it| it.0.clone()).collect();
    let mut now = store.objects();
    now.retain(|(name, _)| names.contains(name));
    assert_eq!(
        refusal(&copy(&now)).kind,
        ErrorKind::Missing { after: end(1) }
    );
    // The current journal, with all other objects from before.
    let older = copy(&early);
    older.set("_open", &object(&store, "_open"));
    assert_eq!(refusal(&older).kind, ErrorKind::Missing { after: end(1) });
}

#[test]
fn a_cut_segment_is_damaged_and_is_to_be_restored() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    publish(&mut writer, &mut assembler, &[1, 2]);
    drop((writer, assembler));
    let (name, bytes) = store.segments().pop().unwrap();
    for size in [0, 1, bytes.len() / 2, bytes.len() - 20, bytes.len() - 1] {
        let cut = copy(&store.objects());
        cut.set(&name.to_string(), &bytes[..size]);
        let error = refusal(&cut);
        let what = DamagedPart::End;
        assert_eq!(error.kind, ErrorKind::Damaged { what });
        assert_eq!(error.object, name.to_string());
        assert_eq!(error.remedies(), [Remedy::Restore]);
        let opened = Log::open(Arc::new(cut.clone())).unwrap_err();
        assert_eq!(opened, error);
    }
}

#[test]
fn a_prepared_transaction_that_is_lost_or_another_one_is_refused() {
    for is_published in [false, true] {
        let store = Memory::default();
        let (mut writer, mut assembler) = open(&store);
        let more = [transaction(1), prepare(0x1800), transaction(2)].concat();
        writer.append(&mut assembler, &mut &*more).unwrap();
        sync(&mut writer, &mut assembler).unwrap();
        if is_published {
            writer.publish(&mut assembler).unwrap();
        }
        drop((writer, assembler));
        let name = prepared(&store).unwrap();
        let lost = copy(&store.objects());
        lost.lose(&name);
        let error = refusal(&lost);
        assert_eq!(
            (error.kind, error.object),
            (ErrorKind::Absent, name.clone())
        );
        if is_published {
            let other = copy(&store.objects());
            other.set(&name, b"another one");
            let what = DamagedPart::Prepared;
            assert_eq!(refusal(&other).kind, ErrorKind::Damaged { what });
        }
        // In the log without changes, the prepared transaction is there.
        let (mut writer, mut assembler) = open(&store);
        let decision = commit_prepared(0x4000);
        writer.append(&mut assembler, &mut &*decision).unwrap();
        assert_eq!(writer.counts().rows, 1);
    }
}

#[test]
fn a_decided_prepared_transaction_that_comes_back_is_removed() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    let more = [transaction(1), prepare(0x1800), transaction(2)].concat();
    writer.append(&mut assembler, &mut &*more).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    let name = prepared(&store).unwrap();
    let bytes = object(&store, &name);
    let decision = commit_prepared(0x3000);
    writer.append(&mut assembler, &mut &*decision).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    assert_eq!(prepared(&store), None);
    for publishes in [false, true] {
        if publishes {
            writer.publish(&mut assembler).unwrap();
        }
        let back = copy(&store.objects());
        back.set(&name, &bytes);
        let forgotten = |it: &Repair| matches!(it, Repair::ForgetPrepared { xid: 701, .. });
        assert!(check(&back).unwrap().iter().any(forgotten));
        let opened = open(&back);
        assert_eq!(prepared(&back), None);
        drop(opened);
        Eraser::open(Writer::quiet(Arc::new(back)).unwrap()).unwrap();
    }
}

fn tables() -> Vec<Relation> {
    let catalog = walrow_stream::Catalog::from_json(
        r#"{"types": [], "tables": [{"schema": "public", "name": "loaded", "oid": 70001,
            "columns": [{"name": "id", "type": 20, "type_modifier": -1, "key": true}]}]}"#,
    )
    .unwrap();
    let tables = catalog.tables.iter();
    let tables = tables.map(|it| Relation::of_catalog(&catalog, it, ReplicaIdentity::Default));
    tables.collect()
}

/// A writer whose source is not the log's.
#[test]
fn a_writer_of_another_source_changes_nothing() {
    for is_first in [false, true] {
        let store = Memory::default();
        let (mut writer, mut assembler) = open_as(&store, Some("mine")).unwrap();
        if is_first {
            writer.plan_first_load().unwrap();
        } else {
            publish(&mut writer, &mut assembler, &[1]);
        }
        let load = writer.begin_load(Lsn(0x1800), Timestamp(0), tables());
        publish(&mut writer, &mut assembler, &[2, 3]);
        drop((load, writer, assembler));
        let before = store.objects();
        let error = open_as(&store, Some("another")).unwrap_err();
        assert!(
            matches!(error.kind, ErrorKind::OtherSource { .. }),
            "{error}"
        );
        assert_eq!(store.objects(), before);
        // An eraser's writer does not begin the log again.
        let quiet = Writer::quiet(Arc::new(store.clone()));
        if is_first {
            assert!(matches!(quiet.unwrap_err().kind, ErrorKind::Load { .. }));
            assert_eq!(store.objects(), before);
        } else {
            drop(quiet.unwrap());
        }
        let (writer, _) = open_as(&store, Some("mine")).unwrap();
        assert_eq!(writer.lacks_first_load(), is_first);
    }
    // Before the first segment.
    let store = Memory::default();
    let (mut writer, mut assembler) = open_as(&store, Some("mine")).unwrap();
    let more = transaction(1);
    writer.append(&mut assembler, &mut &*more).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    drop((writer, assembler));
    let error = open_as(&store, Some("another")).unwrap_err();
    assert!(
        matches!(error.kind, ErrorKind::OtherSource { .. }),
        "{error}"
    );
    assert_eq!(store.segments().len(), 0);
}

/// The place of the load was copied while the load was running, and the rest of the log later.
#[test]
fn the_place_of_a_load_that_has_ended_is_forgotten() {
    for (is_first, change) in [(true, 0), (true, 1), (true, 2), (false, 0), (false, 1)] {
        let store = Memory::default();
        let (mut writer, mut assembler) = open(&store);
        if is_first {
            writer.plan_first_load().unwrap();
        } else {
            publish(&mut writer, &mut assembler, &[1]);
        }
        let point = if is_first { Lsn(0x800) } else { Lsn(0x1800) };
        let load = writer.begin_load(point, Timestamp(0), tables()).unwrap();
        let state = object(&store, "_loaded-and-removed");
        publish(&mut writer, &mut assembler, &[2]);
        assert!(writer.end_load(&load).unwrap());
        publish(&mut writer, &mut assembler, &[3, 4]);
        drop((writer, assembler));
        let mut upkeep = Upkeep::open(Arc::new(store.clone())).unwrap();
        match change {
            0 => {}
            1 => assert!(upkeep.compact(1 << 20, &mut || Ok(())).unwrap().merged > 0),
            _ => assert!(upkeep.prune(end(2), true).unwrap() > 0),
        }
        let expected = (change < 2).then(|| ends(&store));
        store.set("_loaded-and-removed", &state);
        let segments = store.segments();
        let Some(expected) = expected else {
            // The copied state lacks the removal.
            assert!(matches!(
                refusal(&store).kind,
                ErrorKind::Damaged { .. } | ErrorKind::Missing { .. }
            ));
            assert_eq!(store.segments(), segments);
            continue;
        };
        assert_eq!(ends(&store), expected, "readers are not cut short");
        assert_eq!(check(&store).unwrap(), [Repair::RemovePlace]);
        let (writer, _) = open(&store);
        assert!(!writer.lacks_first_load());
        assert_eq!(writer.position(), end(4));
        assert_eq!(store.segments(), segments);
        assert_eq!(ends(&store), expected);
    }
}

#[test]
fn a_journal_of_another_source_is_refused() {
    let log_of = |slot| {
        let store = Memory::default();
        let (mut writer, mut assembler) = open_as(&store, Some(slot)).unwrap();
        publish(&mut writer, &mut assembler, &[1]);
        writer
            .append(&mut assembler, &mut &*transaction(2))
            .unwrap();
        sync(&mut writer, &mut assembler).unwrap();
        store
    };
    let mixed = copy(&log_of("mine").objects());
    mixed.set("_open", &object(&log_of("another"), "_open"));
    let what = DamagedPart::Source;
    assert_eq!(refusal(&mixed).kind, ErrorKind::Damaged { what });
}

#[test]
fn what_a_version_that_was_not_released_wrote_is_refused_and_to_be_received_anew() {
    for name in ["_load", "_pruned"] {
        let (store, _) = whole();
        store.set(name, b"");
        let error = refusal(&store);
        assert_eq!(error.kind, ErrorKind::Unreleased { found: 1 });
        assert_eq!(error.remedies(), [Remedy::ReceiveAnew]);
    }
    // A later version may have such an object.
    let (store, _) = whole();
    store.set("_unknown", b"");
    assert_eq!(refusal(&store).remedies(), [Remedy::LaterVersion]);
}

/// A wide table has so many versions that one foot with all of them would be too large for readers.
#[test]
fn a_segment_ends_before_its_foot_is_too_large() {
    for is_one in [false, true] {
        let store = Memory::default();
        let mut options = WriterOptions::default();
        options.segment_bytes = 1 << 40;
        let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        let mut stream = Stream::new().session();
        if is_one {
            stream = stream.begin(0x1000, 700);
        }
        let versions = 130;
        for version in 0..versions {
            let names: Vec<_> = (0..1600)
                .map(|column| format!("{}{version:04}{column:05}", "\u{1}".repeat(54)))
                .collect();
            let columns: Vec<_> = names.iter().map(|name| (&**name, 25, -1, false)).collect();
            if !is_one {
                stream = stream.begin(0x1000 * (version + 1), 700);
            }
            stream = stream
                .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
                .insert(1, &vec![text("a"); 1600]);
            if !is_one {
                stream = stream.commit();
            }
        }
        if is_one {
            stream = stream.commit();
        }
        let bytes = stream.bytes();
        writer.append(&mut assembler, &mut &*bytes).unwrap();
        writer.publish(&mut assembler).unwrap();
        let log = Log::open(Arc::new(store.clone())).unwrap();
        assert!(log.segments().len() > 1);
        let tables = log.segments().iter().flat_map(|it| &it.tables);
        assert_eq!(tables.map(|it| it.rows).sum::<u64>(), versions);
        for (_, bytes) in store.segments() {
            assert!(bytes.len() < 64 << 20);
        }
    }
}

/// The rollback is only in the journal. The first part of a large transaction empties the journal.
#[test]
fn a_transaction_that_was_rolled_back_stays_so_while_a_large_one_is_written() {
    let calls = at_every_crash(0, is_rolled_back_after_a_crash);
    assert!(calls > 20, "{calls}");
}

fn is_rolled_back_after_a_crash(crash: &Fault) {
    let store = Memory::default();
    let mut options = WriterOptions::default();
    options.segment_bytes = 600;
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let stream = Stream::new()
        .session()
        .begin_prepare(0x800, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("prepared")])
        .prepare()
        .rollback_prepared(0x2000, 701, "g");
    let (rollback, prepare) = stream.frames().split_last().unwrap();
    let more = [prepare.concat(), transaction(1)].concat();
    writer.append(&mut assembler, &mut &*more).unwrap();
    writer.publish(&mut assembler).unwrap();
    assert!(prepared(&store).is_some());
    writer.append(&mut assembler, &mut &**rollback).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    assert_eq!(prepared(&store), None);
    let mut large = Stream::new().session().begin(0x3000, 702).relation(
        1,
        "public",
        "t",
        ReplicaIdentity::Default,
        &COLUMNS,
    );
    for _ in 0..40 {
        large = large.insert(1, &[text("x".repeat(100))]);
    }
    let _ = crash.during(&store, move || {
        writer.append(&mut assembler, &mut &*large.commit().bytes())
    });
    assert!(open(&store).0.position() >= end(1), "{}", crash.call);
}

/// A writer crashes after it has published its first load, and before it notes that. Then only a
/// segment of the load says that the load has ended.
#[test]
fn a_load_has_ended_also_after_its_segments_were_removed() {
    at_every_crash(1, |crash| {
        let store = Memory::default();
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        writer.plan_first_load().unwrap();
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        let tables = crate::log::loads::tables();
        let load = writer.begin_load(Lsn(0x800), Timestamp(7), tables).unwrap();
        for number in 1..=3 {
            let stream = transaction(number);
            writer.append(&mut assembler, &mut &*stream).unwrap();
            writer.publish(&mut assembler).unwrap();
        }
        let ended = crash.during(&store, move || writer.end_load(&load));
        let mut upkeep = Upkeep::open(Arc::new(store.clone())).unwrap();
        upkeep.prune(upkeep.end(), true).unwrap();
        let writer = Writer::open(Arc::new(store), WriterOptions::default());
        let position = writer.unwrap().position();
        let expected = [Lsn::INVALID, end(3)];
        assert!(expected.contains(&position), "{}", crash.call);
        assert!(ended.is_err() || position == end(3));
    });
}

/// Two writers would repair what the other one writes.
#[test]
fn a_second_writer_is_kept_out_although_a_file_was_removed() {
    for removed in ["_open", "_writer"] {
        let store = Memory::default();
        let (mut writer, mut assembler) = open(&store);
        store.lose(removed);
        let refused = open_as(&store, None).unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Locked, "{removed}");
        drop(Writer::quiet(Arc::new(store.clone())).unwrap_err());
        publish(&mut writer, &mut assembler, &[1]);
        drop(writer);
        assert_eq!(open(&store).0.position(), end(1), "{removed}");
    }
}

#[test]
fn a_sync_notices_that_the_journal_was_removed_also_if_nothing_is_left_to_sync() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    writer
        .append(&mut assembler, &mut &*transaction(1))
        .unwrap();
    assert_eq!(sync(&mut writer, &mut assembler).unwrap(), end(1));
    assert_eq!(sync(&mut writer, &mut assembler).unwrap(), end(1));
    store.lose("_open");
    let error = sync(&mut writer, &mut assembler).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Replaced);
}

/// A copy that was made while a writer ran may have the first part of a transaction, and the index
/// of a later moment, when another segment had its name.
#[test]
fn a_segment_that_the_index_describes_otherwise_is_refused() {
    let published = |segment_bytes| {
        let store = Memory::default();
        let mut options = WriterOptions::default();
        options.segment_bytes = segment_bytes;
        let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        let mut stream = Stream::new().session().begin(0x1000, 700).relation(
            1,
            "public",
            "t",
            ReplicaIdentity::Default,
            &COLUMNS,
        );
        for number in 0..9 {
            stream = stream.insert(1, &[text(number.to_string())]);
        }
        let stream = stream.commit().bytes();
        for stream in [stream, transaction(2)] {
            writer.append(&mut assembler, &mut &*stream).unwrap();
            writer.publish(&mut assembler).unwrap();
        }
        store
    };
    let (store, parts) = (published(1 << 20), published(100));
    let (name, bytes) = parts.segments().swap_remove(0);
    assert_eq!(store.segments().len(), 2);
    assert_eq!(store.segments().first().unwrap().0, name);
    store.set(&name.to_string(), &bytes);
    let log = Log::open(Arc::new(store)).unwrap();
    let damaged = ErrorKind::Damaged {
        what: DamagedPart::Index,
    };
    let mut stream = log.read(&[name], Lsn::INVALID).unwrap();
    assert_eq!(stream.read(&mut Vec::new()).unwrap_err().kind, damaged);
}

/// A crash has left a prepared transaction that the journal does not name. It seems to be decided,
/// until the server sends it again.
#[test]
fn a_transaction_that_is_prepared_again_is_kept() {
    let is_saved = |store: &Memory| {
        let objects = store.objects().into_iter();
        objects
            .filter(|it| it.0.starts_with("_prepared-"))
            .collect::<Vec<_>>()
    };
    let first = Memory::default();
    let (mut writer, mut assembler) = open(&first);
    writer
        .append(&mut assembler, &mut &*prepare(0x2000))
        .unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    let store = Memory::default();
    for (name, bytes) in is_saved(&first) {
        store.set(&name, &bytes);
    }
    let (mut writer, mut assembler) = open(&store);
    writer.advance(Lsn(4)).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    assert!(is_saved(&store).is_empty());
    writer
        .append(&mut assembler, &mut &*prepare(0x2000))
        .unwrap();
    writer.advance(Lsn(0x2100)).unwrap();
    assert_eq!(sync(&mut writer, &mut assembler).unwrap(), Lsn(0x2100));
    drop((writer, assembler));
    drop(open(&store));
    assert_eq!(is_saved(&store), is_saved(&first));
}

/// The journal has the checksum of an object, its decision, and then a second object: other options may
/// give the same rows other bytes.
#[test]
fn a_transaction_that_is_prepared_again_in_other_bytes_is_kept() {
    let store = Memory::default();
    let (mut writer, mut assembler) = open(&store);
    let stream = Stream::new()
        .session()
        .begin_prepare(0x2000, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("prepared")])
        .prepare()
        .rollback_prepared(0x3000, 701, "g");
    let (rollback, prepare) = stream.frames().split_last().unwrap();
    let stream = [transaction(1), prepare.concat()].concat();
    writer.append(&mut assembler, &mut &*stream).unwrap();
    writer.publish(&mut assembler).unwrap();
    let first = prepared(&store);
    assert!(first.is_some());
    writer.append(&mut assembler, &mut &**rollback).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
    drop((writer, assembler));
    let (mut writer, mut assembler) = open(&store);
    assert_eq!(prepared(&store), None);
    let again = Stream::new()
        .session()
        .begin_prepare(0x2000, 701, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("in other bytes")])
        .prepare()
        .bytes();
    writer.append(&mut assembler, &mut &*again).unwrap();
    writer.advance(Lsn(0x2100)).unwrap();
    assert_eq!(sync(&mut writer, &mut assembler).unwrap(), Lsn(0x2100));
    drop((writer, assembler));
    drop(open(&store));
    assert_eq!(prepared(&store), first);
}
