//! A thread that reads segments ahead: the same stream, and the same errors.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::upkeep::stream;
use crate::world::Memory;
use std::sync::Arc;
use walrow_log::{ErrorKind, Log, Plan, ReadAhead, Writer, WriterOptions};
use walrow_stream::Assembler;
use walrow_testkit::{Stream, text};
use walrow_wire::{Lsn, ReplicaIdentity};

/// A log of nine segments.
fn log() -> (Memory, Log) {
    let store = Memory::default();
    let mut options = WriterOptions::default();
    options.level = None;
    let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
    let mut assembler = writer.resume(Assembler::default()).unwrap();
    for number in 1..=9 {
        let columns = &[("a", 25, -1, true)];
        let bytes = Stream::new().session().begin(0x1000 * number, 700);
        let bytes = bytes.relation(1, "public", "t", ReplicaIdentity::Default, columns);
        let bytes = bytes
            .insert(1, &[text(number.to_string())])
            .commit()
            .bytes();
        writer.append(&mut assembler, &mut &*bytes).unwrap();
        writer.publish(&mut assembler).unwrap();
    }
    let log = Log::open(Arc::new(store.clone())).unwrap();
    (store, log)
}

fn ahead(log: &Log) -> ReadAhead {
    let names = log.plan(&Plan::default()).unwrap();
    ReadAhead::start(log.read(&names, Lsn::INVALID).unwrap()).unwrap()
}

#[test]
fn the_stream_is_that_of_the_plan_and_its_end_stays() {
    let (_, log) = log();
    let (mut ahead, mut found, mut chunk) = (ahead(&log), Vec::new(), Vec::new());
    while ahead.read(&mut chunk, &mut || Ok(())).unwrap() {
        found.extend_from_slice(&chunk);
    }
    let segments: Vec<_> = log.segments().iter().collect();
    assert_eq!(found, stream(&log, &segments));
    assert!(!ahead.read(&mut chunk, &mut || Ok(())).unwrap());
    assert!(chunk.is_empty());
}

#[test]
fn an_error_comes_after_the_chunks_before_it_and_again() {
    let (store, log) = log();
    let name = log.segments().get(6).unwrap().name().to_string();
    let objects = store.objects();
    let (_, mut damaged) = objects.into_iter().find(|(it, _)| *it == name).unwrap();
    damaged[10] ^= 1;
    store.set(&name, &damaged);
    let (mut ahead, mut chunk, mut chunks) = (ahead(&log), Vec::new(), 0);
    let error = loop {
        match ahead.read(&mut chunk, &mut || Ok(())) {
            Ok(true) => chunks += 1,
            Ok(false) => panic!("the damage was not found"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, ErrorKind::Damaged { .. }), "{error}");
    assert_eq!((chunks, &error.object), (6, &name));
    assert_eq!(ahead.read(&mut chunk, &mut || Ok(())), Err(error));
}
