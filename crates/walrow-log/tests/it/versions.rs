//! Logs in each released version of the format. Each later version reads them, and continues them.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::sync;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use walrow_log::{Directory, FORMAT, Log, Upkeep, Writer, WriterOptions, check};
use walrow_stream::{Assembler, Catalog, Event, Relation};
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity, Timestamp};

const COLUMNS: [(&str, u32, i32, bool); 2] = [("a", 23, -1, true), ("b", 25, -1, false)];

fn stored(version: u32) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data");
    data.join(format!("log-{version}"))
}

/// A transaction of so many rows.
fn transaction(number: u64, rows: u32) -> Vec<u8> {
    let mut stream = Stream::new()
        .session()
        .begin(0x1000 * number, 700 + u32::try_from(number).unwrap())
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS);
    for row in 0..rows {
        let id = number * 100 + u64::from(row);
        stream = stream.insert(1, &[text(id.to_string()), text(format!("row {row}"))]);
    }
    stream.commit().bytes()
}

fn options() -> WriterOptions {
    let mut options = WriterOptions::default();
    options.segment_bytes = 1000;
    options.source.system_identifier = Some("7".to_owned());
    options.source.slot = Some("walrow".to_owned());
    options
}

/// Writes the log again. A change of the format needs another version number and another log.
#[test]
#[ignore = "writes the data of the other test, with WALROW_WRITE_LOG=1"]
fn write() {
    if std::env::var_os("WALROW_WRITE_LOG").is_none() {
        return;
    }
    let path = stored(FORMAT).join("log");
    let _ = fs::remove_dir_all(&path);
    let store = Arc::new(Directory::create(&path).unwrap());
    let mut writer = Writer::open(store.clone(), options()).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    writer.set_timeline(1, None).unwrap();
    for number in 1..=4 {
        writer
            .append(&mut assembler, &mut &*transaction(number, 3))
            .unwrap();
        writer.publish(&mut assembler).unwrap();
    }
    let mut upkeep = Upkeep::open(store).unwrap();
    upkeep.prune(Lsn(0x1800), true).unwrap();
    upkeep.compact(1 << 20, &mut || Ok(())).unwrap();
    let position = Some(Lsn(0x3000 + Stream::RECORD));
    upkeep.register("nightly", position, Timestamp(7)).unwrap();
    // A load of several parts, and a transaction of several parts.
    let catalog = Catalog::from_json(
        r#"{"types": [], "tables": [{"schema": "public", "name": "loaded", "oid": 70001,
            "columns": [{"name": "id", "type": 20, "type_modifier": -1, "key": true}]}]}"#,
    )
    .unwrap();
    writer.extend_catalog(&catalog).unwrap();
    let table = catalog.tables.first().unwrap();
    let table = Relation::of_catalog(&catalog, table, ReplicaIdentity::Default);
    let load = writer
        .begin_load(Lsn(0x4800), Timestamp(8), vec![table])
        .unwrap();
    let mut copy = load.copy(0, false).unwrap();
    for row in 0..90 {
        load.append(&mut copy, format!("{row}\n").as_bytes())
            .unwrap();
    }
    writer
        .append(&mut assembler, &mut &*transaction(5, 60))
        .unwrap();
    assert!(writer.end_load(&load).unwrap());
    writer.cross_gap(Lsn(0x5400), "slot_moved").unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let prepare = Stream::new()
        .session()
        .begin_prepare(0x5800, 801, "g")
        .relation(1, "public", "t", ReplicaIdentity::Default, &COLUMNS)
        .insert(1, &[text("7"), text("prepared")])
        .prepare()
        .bytes();
    let more = [prepare, transaction(6, 2)].concat();
    writer.append(&mut assembler, &mut &*more).unwrap();
    sync(&mut writer, &mut assembler).unwrap();
}

/// The commits of a log, and how many rows each has.
fn commits(log: &Log) -> Vec<(Lsn, u64)> {
    let (mut assembler, mut chunk) = (Assembler::default(), Vec::new());
    let mut commits = Vec::new();
    for segment in log.segments() {
        log.verify(segment, &mut || Ok(())).unwrap();
        let mut reader = log.read(&[segment.name()], Lsn::INVALID).unwrap();
        while reader.read(&mut chunk).unwrap() {
            let mut input = &*chunk;
            while let Some(event) = assembler.next(&mut input).unwrap() {
                if let Event::Commit {
                    transaction,
                    changes,
                    ..
                } = event
                {
                    commits.push((transaction.commit_lsn, changes));
                }
            }
        }
    }
    commits
}

#[test]
fn version_2_is_read_and_continued() {
    is_read_and_continued(2);
}

#[test]
fn this_version_is_read_and_continued() {
    is_read_and_continued(FORMAT);
}

fn is_read_and_continued(version: u32) {
    let name = format!("walrow-log-{version}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir(&path).unwrap();
    for file in fs::read_dir(stored(version).join("log")).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), path.join(file.file_name())).unwrap();
    }
    let store = Arc::new(Directory::open(&path).unwrap());
    let log = Log::open(store.clone()).unwrap();
    let mut expected = vec![
        (Lsn(0x2000), 3),
        (Lsn(0x3000), 3),
        (Lsn(0x4000), 3),
        (Lsn(0x47FF), 91),
        (Lsn(0x5000), 60),
    ];
    assert_eq!(commits(&log), expected);
    let gaps = log.segments().iter().flat_map(|it| &it.gaps);
    let gaps: Vec<_> = gaps.map(|gap| (gap.start, gap.end)).collect();
    let gap = (Lsn(0x5000 + Stream::RECORD), Lsn(0x5400));
    assert_eq!(gaps, if version > 2 { vec![gap] } else { vec![] });
    assert_eq!(log.start(), Lsn(0x1000 + Stream::RECORD));
    assert!(log.segments().iter().any(|it| it.name().is_merged()));
    assert!(
        log.segments()
            .iter()
            .any(|it| it.part > 1 && it.load.is_some())
    );
    let readers = log.readers().unwrap();
    let reader = readers.first().unwrap();
    assert_eq!((&*reader.name, reader.used), ("nightly", 7));
    assert_eq!(check(&*store).unwrap().len(), 1);
    let mut writer = Writer::open(store.clone(), options()).unwrap();
    assert_eq!(writer.position(), Lsn(0x6000 + Stream::RECORD));
    assert_eq!(writer.source().unwrap().timeline, Some(1));
    assert_eq!(writer.catalog().unwrap().tables.len(), 1);
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    let decision = Stream::new().session().commit_prepared(0x7000, 801, "g");
    writer
        .append(&mut assembler, &mut &*decision.bytes())
        .unwrap();
    writer.publish(&mut assembler).unwrap();
    expected.extend([(Lsn(0x6000), 2), (Lsn(0x7000), 1)]);
    assert_eq!(commits(&Log::open(store).unwrap()), expected);
    fs::remove_dir_all(&path).unwrap();
}
