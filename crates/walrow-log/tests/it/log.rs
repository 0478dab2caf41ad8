//! Logs: readers read everything that was written, after a crash at any operation of the store.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

pub(crate) mod loads;

use crate::faults::{at_every_crash, at_every_fault};
use crate::passing::Passing;
use crate::world::Memory;
use proptest::prelude::*;
use std::sync::Arc;
use walrow_log::{Directory, Error, ErrorKind, Foot, Log, Store, Upkeep, Writer, WriterOptions};
use walrow_stream::fact::PreparedBefore;
use walrow_stream::{Assembler, Event, Relation};
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, Stream, captures, in_chunks, text};
use walrow_wire::{Frame, Kind, Lsn, Message, Peek, ReplicaIdentity};

/// Everything that committed transactions and messages contain.
fn contents<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let found = walrow_testkit::contents(pieces, true);
    assert!(found.error.is_none() && !found.is_mid_transaction);
    found.lines
}

fn plain(segment: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    let mut context = zstd_safe::DCtx::create();
    let mut input = zstd_safe::InBuffer::around(segment);
    while input.pos() < segment.len() {
        let mut block = Vec::with_capacity(1 << 20);
        let mut output = zstd_safe::OutBuffer::around(&mut block);
        context.decompress_stream(&mut output, &mut input).unwrap();
        stream.extend_from_slice(&block);
    }
    stream
}

/// The stream of all segments.
fn stream_of(store: &Memory) -> Vec<u8> {
    let log = Log::open(Arc::new(store.clone())).unwrap();
    let mut stream = crate::read_all(&log);
    let (mut read, mut chunk) = (Vec::new(), Vec::new());
    while stream.read(&mut chunk).unwrap() {
        read.extend_from_slice(&chunk);
    }
    read
}

/// The commit LSNs, and how many changes come before each.
fn commits(mut stream: &[u8]) -> Vec<(Lsn, u64)> {
    let (mut assembler, mut found) = (Assembler::default(), Vec::new());
    while let Some(event) = assembler.next(&mut stream).unwrap() {
        if let Event::Commit {
            transaction,
            changes,
            ..
        } = event
        {
            found.push((transaction.commit_lsn, changes));
        }
    }
    found
}

fn read(store: &Memory) -> Vec<String> {
    let segments = store.segments();
    let mut start = Lsn::INVALID;
    for (at, (name, bytes)) in segments.iter().enumerate() {
        let foot = Foot::read(store, *name).unwrap();
        assert_eq!(name.start, start, "a gap before {name}");
        let next = segments
            .get(at + 1)
            .map_or(foot.end, |(next, _)| next.start);
        assert_eq!(next, if foot.continues { name.start } else { foot.end });
        start = next;
        // Each segment is a complete stream.
        let stream = plain(bytes);
        assert_eq!(stream.len() as u64, foot.stream_bytes);
        let mut assembler = Assembler::default();
        let (mut input, mut rows) = (&*stream, 0);
        while let Some(event) = assembler.next(&mut input).unwrap() {
            rows += u64::from(matches!(event, Event::Change(_)));
        }
        assert_eq!(rows, foot.tables.iter().map(|it| it.rows).sum::<u64>());
    }
    let streams: Vec<_> = segments.iter().map(|(_, bytes)| plain(bytes)).collect();
    let read = stream_of(store);
    assert!(read == streams.concat());
    contents([&*read])
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    segment_bytes: u64,
    level: Option<i32>,
    /// Bytes of a piece of the stream.
    piece: usize,
    /// Pieces between two calls.
    sync: usize,
    publish: usize,
    /// Whether a segment is begun before it is published.
    fills: bool,
    syncs: bool,
}

/// The stream as a server sends it again: without the rows of transactions that were prepared before
/// the confirmed LSN. Only their commit or rollback comes.
pub(crate) fn sent_again(bytes: &[u8], confirmed: Lsn) -> Vec<u8> {
    let (mut out, mut rest, mut skipping) = (Vec::new(), bytes, false);
    while let Ok(Some(size)) = Frame::size(rest) {
        let (frame, more) = rest.split_at(size);
        rest = more;
        let Some(peek) = Peek::new(frame) else {
            out.extend_from_slice(frame);
            continue;
        };
        let is_definition = matches!(peek.kind(), Kind::Relation | Kind::Type);
        if let Ok(Message::BeginPrepare(begin)) = peek.message(false) {
            skipping = begin.end_lsn <= confirmed;
        }
        if !skipping || is_definition {
            out.extend_from_slice(frame);
        }
        if let Ok(Message::Prepare(_)) = peek.message(false) {
            skipping = false;
        }
    }
    out
}

/// Writes the stream from its beginning, as a server sends it again. Returns the confirmed position
/// in `confirmed`.
fn write(store: &Memory, bytes: &[u8], plan: Plan, confirmed: &mut Lsn) -> Result<(), Error> {
    write_with(store, bytes, plan, confirmed, 1)
}

/// As `write`, but if the store refuses a call, the call is made again.
fn insist(store: &Memory, bytes: &[u8], plan: Plan) -> Result<(), Error> {
    write_with(store, bytes, plan, &mut Lsn::default(), 2)
}

fn write_with(
    store: &Memory,
    bytes: &[u8],
    plan: Plan,
    confirmed: &mut Lsn,
    attempts: usize,
) -> Result<(), Error> {
    fn tried<T>(attempts: usize, mut call: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
        let mut result = call();
        for _ in 1..attempts {
            if let Err(Error {
                kind: ErrorKind::Store { .. },
                ..
            }) = &result
            {
                result = call();
            }
        }
        result
    }
    let mut options = WriterOptions::default();
    (options.segment_bytes, options.level) = (plan.segment_bytes, plan.level);
    options.syncs = plan.syncs;
    let mut writer = Writer::open(Arc::new(store.clone()), options)?;
    assert!(writer.position() >= *confirmed, "lost what was confirmed");
    let mut assembler = writer.resume(Assembler::default())?;
    // The writer confirms no LSN before the stream has passed it.
    let opened = writer.position();
    // The position of a keepalive before the first transaction.
    writer.advance(Lsn(4)).unwrap();
    tried(attempts, || crate::sync(&mut writer, &mut assembler))?;
    *confirmed = writer.position().min(Lsn(4)).max(*confirmed);
    let bytes = &sent_again(bytes, *confirmed);
    for (at, piece) in in_chunks(bytes, &[plan.piece]).enumerate() {
        let mut rest = piece;
        tried(attempts, || writer.append(&mut assembler, &mut rest))?;
        if at % 5 == 2 {
            writer.set_timeline(u32::try_from(at).unwrap(), None)?;
        }
        if at % plan.sync == 0 {
            let durable = tried(attempts, || crate::sync(&mut writer, &mut assembler))?;
            if durable > opened {
                *confirmed = durable;
            }
        }
        if plan.fills {
            tried(attempts, || writer.fill())?;
        }
        if at % plan.publish == 0 || writer.is_full()? {
            tried(attempts, || writer.publish(&mut assembler))?;
        }
    }
    let durable = tried(attempts, || crate::sync(&mut writer, &mut assembler))?;
    if durable > opened {
        *confirmed = durable;
    }
    tried(attempts, || writer.publish(&mut assembler))?;
    Ok(())
}

#[test]
fn a_position_is_durable_after_a_sync_that_failed() {
    let open = |store: &Memory| {
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let mut failures = 0;
    for operation in 1..20 {
        let store = Memory::default();
        let (mut writer, mut assembler) = open(&store);
        writer.advance(Lsn(4)).unwrap();
        store.refuse(operation, 0);
        if crate::sync(&mut writer, &mut assembler).is_ok() {
            continue;
        }
        failures += 1;
        drop(writer);
        let position = open(&store).0.position();
        store.reboot();
        assert_eq!(open(&store).0.position(), position, "operation {operation}");
    }
    assert!(failures > 1);
}

#[test]
fn captures_are_read_as_they_were_written() {
    let mut seen = 0;
    for capture in captures().iter().filter(|it| !it.is_physical()) {
        // Positions of several servers cannot be compared.
        if capture.name.contains("sessions") {
            continue;
        }
        let expected = contents([&*capture.bytes]);
        for segment_bytes in [600, 1 << 20] {
            let store = Memory::default();
            let plan = Plan {
                segment_bytes,
                level: Some(1),
                piece: 1000,
                sync: 3,
                publish: 7,
                fills: segment_bytes > 600,
                syncs: true,
            };
            write(&store, &capture.bytes, plan, &mut Lsn::default()).unwrap();
            assert_eq!(read(&store), expected, "{} {segment_bytes}", capture.name);
        }
        seen += 1;
    }
    assert!(seen > 150, "{seen} captures");
}

#[test]
fn a_position_without_transactions_is_durable_and_no_segment() {
    let store = Memory::default();
    let open = || Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let mut writer = open();
    writer.advance(Lsn(0x2000)).unwrap();
    assert_eq!(writer.position(), Lsn::INVALID);
    assert_eq!(
        crate::sync(&mut writer, &mut Assembler::default()),
        Ok(Lsn(0x2000))
    );
    assert_eq!(writer.publish(&mut Assembler::default()), Ok(None));
    drop(writer);
    let mut writer = open();
    assert_eq!(
        (writer.position(), store.segments().len()),
        (Lsn(0x2000), 0)
    );
    // The next segment begins at the end of the last segment, not at the position.
    let history = Stream::new().session().begin(0x3000, 700).commit().bytes();
    let mut assembler = Assembler::default().with_start(writer.position());
    writer.append(&mut assembler, &mut &*history).unwrap();
    let foot = writer.publish(&mut assembler).unwrap().unwrap();
    assert_eq!((foot.start, foot.transactions), (Lsn::INVALID, 1));
    assert_eq!(writer.position(), foot.end);
}

/// After a switch of the timeline, a quiet database sends only positions. The bytes that a crash
/// leaves were received on the new timeline.
#[test]
fn a_timeline_is_as_durable_as_a_position() {
    let open = |store: &Memory| {
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let transaction = |lsn| Stream::new().session().begin(lsn, 700).commit().bytes();
    // On the second timeline comes no message, a position or a transaction, with or without a
    // failed sync.
    for (what, refuses) in [
        (0, false),
        (1, false),
        (2, false),
        (0, true),
        (1, true),
        (2, true),
    ] {
        let (is_transaction, is_position) = (what == 2, what == 1);
        let end = if what == 0 { Lsn(0x1008) } else { Lsn(0x3000) };
        let store = Memory::default();
        let (mut writer, mut assembler) = open(&store);
        writer.set_timeline(1, None).unwrap();
        writer
            .append(&mut assembler, &mut &*transaction(0x1000))
            .unwrap();
        writer.publish(&mut assembler).unwrap();
        writer.set_timeline(1, None).unwrap();
        writer.set_timeline(2, None).unwrap();
        if is_transaction {
            let more = transaction(0x3000);
            writer.append(&mut assembler, &mut &*more).unwrap();
        } else if is_position {
            writer.advance(Lsn(0x3000)).unwrap();
        }
        if refuses {
            store.refuse(1, 5);
            assert!(crate::sync(&mut writer, &mut assembler).is_err());
        }
        assert!(crate::sync(&mut writer, &mut assembler).unwrap() >= end);
        drop((writer, assembler));
        // Twice, because the first writer may clear the journal.
        for _ in 0..2 {
            store.reboot();
            let writer = open(&store).0;
            assert!(writer.position() >= end);
            assert_eq!(writer.source().unwrap().timeline, Some(2));
        }
        let log = Log::open(Arc::new(store.clone())).unwrap();
        let timeline = if is_transaction { 2 } else { 1 };
        assert_eq!(log.source().timeline, Some(timeline));
        // The next segment has the timeline, too.
        let (mut writer, mut assembler) = open(&store);
        writer.set_timeline(2, None).unwrap();
        let more = transaction(0x5000);
        writer.append(&mut assembler, &mut &*more).unwrap();
        let foot = writer.publish(&mut assembler).unwrap().unwrap();
        assert_eq!(foot.source.timeline, Some(2));
        drop((writer, assembler));
        store.reboot();
        assert_eq!(open(&store).0.source().unwrap().timeline, Some(2));
    }
}

/// The slot's start is set again until the log has data, and then never again.
#[test]
fn where_the_slot_was_is_durable_with_what_comes_first() {
    let open = |store: &Memory| {
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let transaction = |lsn| Stream::new().session().begin(lsn, 700).commit().bytes();
    for is_published in [false, true] {
        for first in [None, Some(Lsn(0x100))] {
            let store = Memory::default();
            for lsn in [0x10, 0x20] {
                let (mut writer, mut assembler) = open(&store);
                writer.set_slot_start(Lsn(lsn)).unwrap();
                crate::sync(&mut writer, &mut assembler).unwrap();
                store.reboot();
            }
            let (mut writer, mut assembler) = open(&store);
            assert_eq!(writer.source().unwrap().slot_start, Some(Lsn(0x20)));
            writer.set_slot_start(Lsn(0x30)).unwrap();
            if let Some(lsn) = first {
                writer.advance(lsn).unwrap();
                crate::sync(&mut writer, &mut assembler).unwrap();
            }
            let bytes = transaction(0x1000);
            writer.append(&mut assembler, &mut &*bytes).unwrap();
            crate::sync(&mut writer, &mut assembler).unwrap();
            if is_published {
                writer.publish(&mut assembler).unwrap();
            }
            drop((writer, assembler));
            store.reboot();
            let mut writer = open(&store).0;
            writer.set_slot_start(Lsn(0x2000)).unwrap();
            assert_eq!(writer.source().unwrap().slot_start, Some(Lsn(0x30)));
            let log = Log::open(Arc::new(store)).unwrap();
            assert_eq!(log.source().slot_start, Some(Lsn(0x30)));
        }
    }
}

/// The server sends the commit again until somebody begins a new log.
#[test]
fn what_may_have_been_prepared_before_is_durable_with_what_comes_first() {
    let open = |store: &Memory| {
        let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let decision = |lsn, xid| {
        let stream = Stream::new().session().commit_prepared(lsn, xid, "g");
        stream.bytes()
    };
    for is_published in [false, true] {
        let store = Memory::default();
        for xid in [600, 700] {
            let (mut writer, mut assembler) = open(&store);
            writer.set_slot_start(Lsn(0x10)).unwrap();
            let before = PreparedBefore::new(Lsn(0x20), vec![xid]);
            writer.set_prepared_before(&before, &mut assembler).unwrap();
            crate::sync(&mut writer, &mut assembler).unwrap();
            store.reboot();
        }
        let (mut writer, mut assembler) = open(&store);
        // Only an earlier session listed this transaction, and the last session has replaced the
        // list.
        let bytes = decision(0x1000, 600);
        writer.append(&mut assembler, &mut &*bytes).unwrap();
        crate::sync(&mut writer, &mut assembler).unwrap();
        if is_published {
            writer.publish(&mut assembler).unwrap();
        }
        for _ in 0..2 {
            store.reboot();
            let (mut writer, mut assembler) = open(&store);
            writer
                .set_prepared_before(&PreparedBefore::default(), &mut assembler)
                .unwrap();
            let bytes = [decision(0x1000, 600), decision(0x2000, 700)].concat();
            let error = writer.append(&mut assembler, &mut &*bytes).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("the rows of transaction 700"), "{text}");
            assert!(
                text.contains("new slot") && !text.contains("\"g\""),
                "{text}"
            );
            crate::sync(&mut writer, &mut assembler).unwrap();
        }
    }
}

#[test]
fn what_is_recovered_is_of_the_timeline_before_the_one_that_comes() {
    let store = Memory::default();
    let with = |timeline| {
        let mut options = WriterOptions::default();
        options.source.timeline = Some(timeline);
        let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    let (mut writer, mut assembler) = with(1);
    let stream = Stream::new().session().begin(0x1000, 700).commit().bytes();
    writer.append(&mut assembler, &mut &*stream).unwrap();
    crate::sync(&mut writer, &mut assembler).unwrap();
    drop((writer, assembler));
    store.reboot();
    let (mut writer, mut assembler) = with(2);
    let log = Log::open(Arc::new(store.clone())).unwrap();
    assert_eq!(log.source().timeline, Some(1));
    writer.advance(Lsn(0x3000)).unwrap();
    crate::sync(&mut writer, &mut assembler).unwrap();
    drop((writer, assembler));
    store.reboot();
    let writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    assert_eq!(writer.source().unwrap().timeline, Some(2));
}

/// Segments begin before they are published, and a transaction has several segments. The store
/// crashes at each operation.
#[test]
fn segments_are_filled_while_the_stream_is_read() {
    let row = |number: u32| [text(number.to_string()), text(vec![b'x'; 20_000])];
    let columns = [("a", 23, -1, true), ("b", 25, -1, false)];
    let mut stream = Stream::new().session();
    for transaction in 0..100_u32 {
        stream = stream.begin(0x1000 * u64::from(transaction + 1), 700 + transaction);
        if transaction == 0 {
            stream = stream.relation(1, "public", "t", ReplicaIdentity::Default, &columns);
        }
        // One transaction has 5 MB.
        for number in 0..if transaction == 70 { 250 } else { 1 } {
            stream = stream.insert(1, &row(number));
        }
        stream = stream.commit();
    }
    let bytes = stream.bytes();
    let expected = commits(&bytes);
    for syncs in [true, false] {
        let (segment_bytes, level, piece, fills) = (2 << 20, None, 100_000, true);
        // After the first block is full, and later.
        for (sync, publish) in [(usize::MAX, usize::MAX), (13, 31)] {
            let plan = Plan {
                segment_bytes,
                level,
                piece,
                sync,
                publish,
                fills,
                syncs,
            };
            let whole = Memory::default();
            write(&whole, &bytes, plan, &mut Lsn::default()).unwrap();
            assert_eq!(read(&whole), contents([&*bytes]));
            at_every_fault(walrow_testkit::step(7), 1_000, |fault| {
                let store = Memory::default();
                let mut confirmed = Lsn::default();
                let written = fault.during(&store, || {
                    if fault.is_refused {
                        insist(&store, &bytes, plan)
                    } else {
                        write(&store, &bytes, plan, &mut confirmed)
                    }
                });
                if written.is_err() {
                    store.reboot();
                    write(&store, &bytes, plan, &mut confirmed).unwrap();
                }
                let found = commits(&stream_of(&store));
                assert_eq!(found, expected, "a fault at operation {}", fault.call);
            });
        }
    }
}

/// A new connection has a new assembler, which numbers relation versions again.
#[test]
fn a_table_that_changed_between_connections_is_described_again() {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let int4 = |name| (name, 23, -1, true);
    let session = |name, columns: &[_], lsn, cells: &[_]| {
        let stream = Stream::new().session().begin(lsn, 700);
        let stream = stream.relation(1, "public", name, ReplicaIdentity::Default, columns);
        stream.insert(1, cells).commit().bytes()
    };
    let sessions = [
        session("t", &[int4("a")], 0x3000, &[text("1")]),
        session(
            "t",
            &[int4("a"), int4("b")],
            0x4000,
            &[text("1"), text("2")],
        ),
        session(
            "t",
            &[int4("a"), int4("b")],
            0x5000,
            &[text("3"), text("4")],
        ),
        session("u", &[int4("a")], 0x6000, &[text("5")]),
    ];
    for session in &sessions {
        let mut assembler = writer.resume(Assembler::default()).unwrap();
        writer.append(&mut assembler, &mut &**session).unwrap();
    }
    let foot = writer.publish(&mut Assembler::default()).unwrap().unwrap();
    let expected = contents(sessions.iter().map(|it| &**it));
    assert_eq!(read(&store), expected);
    let tables = foot.tables.iter();
    let tables: Vec<_> = tables
        .map(|it| (&*it.name, it.columns.len(), it.rows))
        .collect();
    assert_eq!(tables, [("t", 1, 1), ("t", 2, 2), ("u", 1, 1)]);
}

/// A prepared transaction may be as large as the spool allows. It is never in memory as a whole.
#[test]
fn a_prepared_transaction_is_saved_and_restored_in_pieces() {
    let columns = [("a", 23, -1, true), ("b", 25, -1, false)];
    let mut stream = Stream::new().session().begin_prepare(0x2000, 701, "g");
    stream = stream.relation(1, "public", "t", ReplicaIdentity::Default, &columns);
    for number in 0..200_u32 {
        stream = stream.insert(1, &[text(number.to_string()), text(vec![b'x'; 100_000])]);
    }
    let stream = stream.prepare().frames().to_vec();
    let passing = Passing::default();
    let open = || {
        let mut writer = Writer::open(Arc::new(passing.clone()), WriterOptions::default()).unwrap();
        // The writer has read it to compare its checksum.
        passing.begin();
        let assembler = Assembler::default()
            .with_spool_memory(1 << 20)
            .with_spool(Arc::new(passing.clone()));
        let assembler = writer.resume(assembler).unwrap();
        (writer, assembler)
    };
    let (mut writer, mut assembler) = open();
    for frame in &stream {
        writer.append(&mut assembler, &mut &**frame).unwrap();
    }
    writer.advance(Lsn(0x2800)).unwrap();
    passing.most();
    crate::sync(&mut writer, &mut assembler).unwrap();
    let saved = passing.most();
    assert!((1..6 << 20).contains(&saved), "{saved} bytes were held");
    drop((writer, assembler));
    let (mut writer, mut assembler) = open();
    let restored = passing.most();
    assert!(
        (1..6 << 20).contains(&restored),
        "{restored} bytes were held"
    );
    let decision = Stream::new().session();
    let decision = decision.commit_prepared(0x3000, 701, "g").bytes();
    writer.append(&mut assembler, &mut &*decision).unwrap();
    assert_eq!(writer.counts().rows, 200);
}

/// The last part of a prepared transaction is refused. The server does not send its rows again, so
/// they stay in their object until they are published.
#[test]
fn a_prepared_transaction_is_kept_until_its_last_part_is_published() {
    let columns = [("a", 23, -1, true), ("b", 25, -1, false)];
    let mut stream = Stream::new().session().begin_prepare(0x2000, 701, "g");
    stream = stream.relation(1, "public", "t", ReplicaIdentity::Default, &columns);
    for number in 0..20_u32 {
        stream = stream.insert(1, &[text(number.to_string()), text(vec![b'x'; 100])]);
    }
    let stream = stream.prepare().frames().to_vec();
    let decision = Stream::new().session();
    let decision = decision.commit_prepared(0x3000, 701, "g").bytes();
    let open = |store: &Memory| {
        let mut options = WriterOptions::default();
        (options.segment_bytes, options.level) = (600, None);
        let mut writer = Writer::open(Arc::new(store.clone()), options).unwrap();
        let assembler = writer.resume(Assembler::default()).unwrap();
        (writer, assembler)
    };
    // Whether the refused call is made again before the sync.
    for again in [false, true] {
        let (mut operation, mut refused) = (0, 0);
        loop {
            operation += 1;
            let store = Memory::default();
            let (mut writer, mut assembler) = open(&store);
            writer
                .append(&mut assembler, &mut &*stream.concat())
                .unwrap();
            writer.advance(Lsn(0x2800)).unwrap();
            assert_eq!(crate::sync(&mut writer, &mut assembler), Ok(Lsn(0x2800)));
            store.refuse(operation, 0);
            let mut input = &*decision;
            let appended = writer.append(&mut assembler, &mut input);
            if store.operations() < operation {
                break;
            }
            if !appended.is_err_and(|error| matches!(error.kind, ErrorKind::Store { .. })) {
                continue;
            }
            refused += 1;
            if again {
                writer.append(&mut assembler, &mut input).unwrap();
            }
            let confirmed = crate::sync(&mut writer, &mut assembler).unwrap();
            assert!(!again || confirmed >= Lsn(0x3000));
            drop((writer, assembler));
            store.reboot();
            let (mut writer, mut assembler) = open(&store);
            assert!(writer.position() >= confirmed);
            let mut sent = &*decision;
            writer.append(&mut assembler, &mut sent).unwrap();
            crate::sync(&mut writer, &mut assembler).unwrap();
            writer.publish(&mut assembler).unwrap();
            let rows = commits(&stream_of(&store))
                .iter()
                .map(|it| it.1)
                .sum::<u64>();
            assert_eq!(rows, 20, "operation {operation} was refused");
        }
        assert!(refused > 20, "{refused}");
    }
}

#[test]
fn a_block_that_was_cut_and_could_not_be_removed_is_not_in_the_way() {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    writer.advance(Lsn(0x2000)).unwrap();
    // The append writes only some of its bytes, and their removal fails.
    store.crash_at(1, 5);
    let refused = crate::sync(&mut writer, &mut Assembler::default());
    assert!(matches!(
        refused,
        Err(Error {
            kind: ErrorKind::Store { .. },
            ..
        })
    ));
    store.crash_at(usize::MAX, 0);
    assert_eq!(
        crate::sync(&mut writer, &mut Assembler::default()),
        Ok(Lsn(0x2000))
    );
    drop(writer);
    store.reboot();
    let writer = Writer::open(Arc::new(store), WriterOptions::default()).unwrap();
    assert_eq!(writer.position(), Lsn(0x2000));
}

#[test]
fn another_writer_or_source_or_file_is_an_error() {
    let path = std::env::temp_dir().join(format!("walrow-log-{}", std::process::id()));
    let store = Arc::new(Directory::create(&path).unwrap());
    let mut options = WriterOptions::default();
    options.source.system_identifier = Some("7".to_owned());
    let kind = |options: &WriterOptions| {
        let opened = Writer::open(Arc::clone(&store) as Arc<dyn Store>, options.clone());
        opened.map(|_| ()).map_err(|error| error.kind)
    };
    let stream = Stream::new().session().begin(0x3000, 700).commit().bytes();
    {
        let mut writer =
            Writer::open(Arc::clone(&store) as Arc<dyn Store>, options.clone()).unwrap();
        assert_eq!(kind(&options), Err(ErrorKind::Locked));
        writer
            .append(&mut Assembler::default(), &mut &*stream)
            .unwrap();
        writer.publish(&mut Assembler::default()).unwrap();
    }
    assert_eq!(kind(&options), Ok(()));
    std::fs::write(path.join("_targets"), "{}").unwrap();
    std::fs::create_dir(path.join("_run")).unwrap();
    assert_eq!(kind(&options), Ok(()));
    options.source.system_identifier = Some("8".to_owned());
    assert!(matches!(kind(&options), Err(ErrorKind::OtherSource { .. })));
    options.source.system_identifier = None;
    std::fs::write(path.join("notes.txt"), "mine").unwrap();
    assert_eq!(kind(&options), Err(ErrorKind::Foreign));
    std::fs::remove_dir_all(&path).unwrap();
}

/// The directory exists before the writer, and other users may list it.
#[cfg(unix)]
#[test]
fn new_files_are_for_whom_the_writer_has_written_whatever_the_directory_is() {
    use std::os::unix::fs::PermissionsExt;
    let path = std::env::temp_dir().join(format!("walrow-modes-{}", std::process::id()));
    for (group, mode) in [(false, 0o600), (true, 0o640)] {
        for directory in [0o700, 0o755] {
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(directory)).unwrap();
            let store = Arc::new(Directory::create_for(&path, group).unwrap());
            let mut writer = Writer::open(store, WriterOptions::default()).unwrap();
            let mut assembler = writer.resume(Assembler::default()).unwrap();
            for lsn in [0x1000, 0x2000, 0x3000, 0x4000] {
                let stream = Stream::new().session().begin(lsn, 700).commit().bytes();
                writer.append(&mut assembler, &mut &*stream).unwrap();
                writer.publish(&mut assembler).unwrap();
            }
            drop(writer);
            let mut log = Upkeep::open(Arc::new(Directory::open(&path).unwrap())).unwrap();
            log.register("a", None, walrow_wire::Timestamp(0)).unwrap();
            assert_eq!(log.compact(1 << 20, &mut || Ok(())).unwrap().merged, 1);
            log.prune(Lsn(0x3800), true).unwrap();
            for file in std::fs::read_dir(&path).unwrap() {
                let file = file.unwrap();
                let found = file.metadata().unwrap().permissions().mode() & 0o777;
                assert_eq!(found, mode, "{}", file.path().display());
            }
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}

#[cfg(unix)]
#[test]
fn a_pipe_is_refused() {
    let path = std::env::temp_dir().join(format!("walrow-pipe-{}", std::process::id()));
    for name in [
        "0000000000000000-00000.wire.zst",
        "_index",
        "_pruned",
        "_catalog",
        "_open",
        "_writer",
        "_lock",
        "_upkeep",
    ] {
        let store = Arc::new(Directory::create(&path).unwrap());
        let options = WriterOptions::default;
        let mut writer = Writer::open(Arc::clone(&store) as Arc<dyn Store>, options()).unwrap();
        let stream = Stream::new().session().begin(0x3000, 700).commit().bytes();
        writer
            .append(&mut Assembler::default(), &mut &*stream)
            .unwrap();
        writer.publish(&mut Assembler::default()).unwrap();
        drop(writer);
        let _ = std::fs::remove_file(path.join(name));
        let made = std::process::Command::new("mkfifo")
            .arg(path.join(name))
            .status();
        assert!(made.unwrap().success());
        let store: Arc<dyn Store> = store;
        let results = [
            Writer::open(Arc::clone(&store), options()).map(|_| ()),
            Upkeep::open(Arc::clone(&store)).and_then(|mut log| {
                let names = log.plan(&walrow_log::Plan::default())?;
                log.read(&names, Lsn::INVALID)?.read(&mut Vec::new())?;
                log.prune(Lsn(0), false)?;
                log.register("r", None, walrow_wire::Timestamp(0))
                    .map(|_| ())
            }),
        ];
        let refused = results.into_iter().filter_map(Result::err);
        let refused: Vec<_> = refused.map(|it| it.object).collect();
        assert!(!refused.is_empty());
        assert!(refused.iter().all(|it| it == name), "{name}: {refused:?}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn every_changed_byte_of_a_foot_is_an_error() {
    let store = Memory::default();
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let stream = Stream::new().session().begin(0x3000, 700).commit().bytes();
    writer
        .append(&mut Assembler::default(), &mut &*stream)
        .unwrap();
    let foot = writer.publish(&mut Assembler::default()).unwrap().unwrap();
    let [(name, bytes)] = &store.segments()[..] else {
        panic!("one segment")
    };
    assert_eq!(Foot::read(&store, *name), Ok(foot.clone()));
    let begin = usize::try_from(foot.bytes).unwrap();
    for place in begin..bytes.len() {
        for bit in [1, 0x80] {
            store.flip(&name.to_string(), place, bit);
            assert!(Foot::read(&store, *name).is_err(), "byte {place}");
            store.flip(&name.to_string(), place, bit);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(crate::cases(32)))]

    /// A crash at each operation of the store, then the whole stream again.
    #[test]
    fn a_crash_loses_nothing_and_repeats_nothing(
        history in arbitrary::<History>(1_500),
        piece in 50_usize..2_000,
        (sync, publish) in (1_usize..6, 1_usize..9),
        segment_bytes in prop::sample::select(vec![200_u64, 900, 1 << 20]),
        survive in prop::sample::select(vec![0_usize, 1, 7, 100, 10_000]),
        is_whole: bool,
        fills: bool,
        syncs: bool,
    ) {
        let stream = if is_whole { history.whole() } else { history.delivered() };
        let bytes = stream.bytes();
        let plan = Plan { segment_bytes, level: None, piece, sync, publish, fills, syncs };
        let whole = Memory::default();
        let mut confirmed = Lsn::default();
        if write(&whole, &bytes, plan, &mut confirmed).is_err() {
            // Arbitrary names may be invalid.
            return Ok(());
        }
        let expected = read(&whole);
        prop_assert_eq!(&expected, &contents([&*bytes]));
        at_every_crash(survive, |crash| {
            let store = Memory::default();
            let mut confirmed = Lsn::default();
            let written = crash.during(&store, || write(&store, &bytes, plan, &mut confirmed));
            if written.is_err() {
                write(&store, &bytes, plan, &mut confirmed).unwrap();
            }
            assert_eq!(&read(&store), &expected, "a crash at operation {}", crash.call);
        });
    }

    /// An operation fails, the log is opened again, and then there is a crash. Bytes that a failed
    /// sync has left out are not on the disk, even if a later sync of the file succeeds.
    #[test]
    fn a_failure_and_a_later_crash_lose_nothing(
        history in arbitrary::<History>(800),
        piece in 50_usize..2_000,
        (sync, publish) in (1_usize..6, 1_usize..9),
        segment_bytes in prop::sample::select(vec![200_u64, 900, 1 << 20]),
        later in 1_usize..40,
        fills: bool,
    ) {
        let bytes = history.delivered().bytes();
        let plan = Plan { segment_bytes, level: None, piece, sync, publish, fills, syncs: true };
        let whole = Memory::default();
        if write(&whole, &bytes, plan, &mut Lsn::default()).is_err() {
            return Ok(());
        }
        let expected = read(&whole);
        for operation in 1..=whole.operations() {
            let store = Memory::default();
            store.refuse(operation, 0);
            let mut confirmed = Lsn::default();
            if write(&store, &bytes, plan, &mut confirmed).is_ok() {
                continue;
            }
            store.crash_at(later, 0);
            let crashed = write(&store, &bytes, plan, &mut confirmed);
            store.reboot();
            if crashed.is_err() {
                write(&store, &bytes, plan, &mut confirmed).unwrap();
            }
            prop_assert_eq!(&read(&store), &expected, "operation {} was refused", operation);
        }
    }

    /// Each operation of the store fails once, and the same call is made again.
    #[test]
    fn what_the_store_refuses_once_is_done_again(
        history in arbitrary::<History>(1_000),
        piece in 50_usize..2_000,
        (sync, publish) in (1_usize..6, 1_usize..9),
        segment_bytes in prop::sample::select(vec![200_u64, 900, 1 << 20]),
        survive in prop::sample::select(vec![0_usize, 7, 10_000]),
        fills: bool,
    ) {
        let bytes = history.whole().bytes();
        let plan = Plan { segment_bytes, level: None, piece, sync, publish, fills, syncs: true };
        let whole = Memory::default();
        if write(&whole, &bytes, plan, &mut Lsn::default()).is_err() {
            return Ok(());
        }
        let operations = whole.operations();
        let expected = read(&whole);
        for operation in 1..=operations {
            let store = Memory::default();
            store.refuse(operation, survive);
            if insist(&store, &bytes, plan).is_err() {
                // The log was not opened, or its state is not known.
                store.reboot();
                write(&store, &bytes, plan, &mut Lsn::default()).unwrap();
            }
            store.refuse(usize::MAX, 0);
            prop_assert_eq!(&read(&store), &expected, "operation {} was refused", operation);
        }
    }
}
