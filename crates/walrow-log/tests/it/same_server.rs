//! A log recognizes its server by the last transaction or message that it took, whatever happened
//! to its segments later.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::cases;
use crate::world::Memory;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::Arc;
use walrow_log::{
    Erase, Eraser, Error, ErrorKind, Images, Log, OtherServer, Upkeep, Writer, WriterOptions,
};
use walrow_stream::Assembler;
use walrow_testkit::{Stream, contents, text};
use walrow_wire::{Lsn, ReplicaIdentity};

/// An action of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Transaction,
    Message,
    Prepare,
}

/// An event in the life of a log between two sessions.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Reopened,
    Crashed,
    Compacted,
    Pruned,
    Erased,
}

/// A session of a server with this past, whose slot is behind the first deeds. Another server has
/// other transactions from `set_back` on.
fn session(past: &[Deed], confirmed: usize, set_back: usize) -> Stream {
    let mut stream = Stream::new().session();
    for (at, deed) in past.iter().enumerate().skip(confirmed) {
        let (lsn, number) = (0x1000 * (at as u64 + 1), u32::try_from(at).unwrap() + 700);
        let xid = if at < set_back {
            number
        } else {
            number + 1_000
        };
        let columns = [("a", 23, -1, true)];
        let row = [text(number.to_string())];
        let relation = |it: Stream| {
            let identity = ReplicaIdentity::Default;
            it.relation(1, "public", "t", identity, &columns)
                .insert(1, &row)
        };
        stream = match deed {
            Deed::Transaction => relation(stream.begin(lsn, xid)).commit(),
            Deed::Message => stream.emit_at(lsn, "m", xid.to_string().as_bytes()),
            Deed::Prepare => {
                relation(stream.begin_prepare(lsn, xid, &format!("g{number}"))).prepare()
            }
        };
    }
    stream
}

fn opened(store: &Memory) -> (Writer, Assembler) {
    let mut writer = Writer::open(Arc::new(store.clone()), WriterOptions::default()).unwrap();
    let assembler = writer.resume(Assembler::default()).unwrap();
    (writer, assembler)
}

/// Receives from a server, which ends with a keepalive at its end.
fn receive(
    store: &Memory,
    past: &[Deed],
    confirmed: usize,
    set_back: usize,
    publishes: bool,
) -> Result<(), Error> {
    let (mut writer, mut assembler) = opened(store);
    let lsn = if confirmed == 0 {
        0
    } else {
        0x1000 * confirmed as u64 + 0x800
    };
    writer.compare(Lsn(lsn), false).unwrap();
    let bytes = session(past, confirmed, set_back).bytes();
    writer.append(&mut assembler, &mut &*bytes)?;
    writer.advance(Lsn(0x1000 * past.len() as u64 + 0x800))?;
    crate::sync(&mut writer, &mut assembler)?;
    if publishes {
        writer.publish(&mut assembler)?;
    }
    Ok(())
}

fn meet(store: &Memory, fate: Fate) {
    let log = || Upkeep::open(Arc::new(store.clone())).unwrap();
    match fate {
        Fate::Reopened => {}
        Fate::Crashed => store.reboot(),
        Fate::Compacted => {
            log().compact(1 << 20, &mut || Ok(())).unwrap();
        }
        Fate::Pruned => {
            let mut log = log();
            let end = log.end();
            log.prune(end, true).unwrap();
        }
        Fate::Erased => {
            let mut erase = Erase::default();
            erase.tables.insert(1);
            let row = Images {
                old: true,
                new: true,
            };
            erase
                .rows
                .extend((1..50).map(|at| ((Lsn(0x1000 * at), 0), row)));
            // If there are prepared transactions, the erasure is refused.
            if let Ok(mut eraser) = Writer::quiet(Arc::new(store.clone())).and_then(Eraser::open) {
                eraser.erase(&erase, &mut || Ok(())).unwrap();
            }
        }
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => Just(Deed::Transaction),
        2 => Just(Deed::Message),
        1 => Just(Deed::Prepare),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::Reopened),
        Just(Fate::Crashed),
        Just(Fate::Compacted),
        Just(Fate::Pruned),
        Just(Fate::Erased),
    ]
}

/// A log's contents after two sessions of a server that writes messages with two prefixes.
fn of_messages(all_are_sent: bool) -> (Vec<(u64, Option<Lsn>)>, Vec<String>) {
    let store = Memory::default();
    let mut found = Vec::new();
    for last in [3, 5] {
        let (mut writer, mut assembler) = opened(&store);
        writer.compare(Lsn::INVALID, false).unwrap();
        let asked = [("messages".to_owned(), "\"kept\"".to_owned())];
        writer.set_asked(asked.into()).unwrap();
        let mut stream = Stream::new().session();
        for at in 1..=last {
            stream = stream.begin(0x1000 * at, 700 + u32::try_from(at).unwrap());
            if at != 2 {
                stream = stream.emit("kept", b"x");
            }
            if all_are_sent {
                stream = stream.emit("another", b"y");
            }
            stream = stream.commit();
            if all_are_sent {
                stream = stream.emit_at(0x1000 * at + 0x800, "kept", b"z");
            }
        }
        writer
            .append(&mut assembler, &mut &*stream.bytes())
            .unwrap();
        writer.advance(Lsn(0x1000 * last + 0x900)).unwrap();
        crate::sync(&mut writer, &mut assembler).unwrap();
        writer.publish(&mut assembler).unwrap();
        let counts = writer.counts();
        found.push((counts.transactions, counts.last_message));
    }
    let log = Log::open(Arc::new(store)).unwrap();
    let mut stream = crate::read_all(&log);
    let (mut lines, mut chunk) = (Vec::new(), Vec::new());
    while stream.read(&mut chunk).unwrap() {
        let found = contents([&*chunk], true).lines.into_iter();
        // The messages' own LSNs depend on the messages before.
        lines.extend(found.map(|line| match line.split_once(", transactional") {
            Some((_, rest)) => rest.to_owned(),
            None => line,
        }));
    }
    (found, lines)
}

#[test]
fn messages_with_another_prefix_are_as_if_they_were_never_sent() {
    let found = of_messages(true);
    assert_eq!(found, of_messages(false));
    let (found, lines) = found;
    assert!(lines.iter().any(|line| line.contains("kept")));
    let lsns: Vec<_> = found.iter().map(|it| it.1).collect();
    assert_eq!(lsns, [Some(Lsn(0x3000)), Some(Lsn(0x5000))]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases(400)))]

    #[test]
    fn its_own_server_goes_on_and_another_is_refused(
        rounds in prop::collection::vec(
            (prop::collection::vec(deed(), 0..5), fate(), any::<bool>(), any::<Index>()),
            1..6,
        ),
    ) {
        let store = Memory::default();
        let mut past = Vec::new();
        for (deeds, fate, publishes, slot) in rounds {
            // The slot is at the log's position, or anywhere before it.
            let confirmed = slot.index(past.len() + 1);
            past.extend(deeds);
            receive(&store, &past, confirmed, usize::MAX, publishes).unwrap();
            meet(&store, fate);
        }
        // The writer may publish transactions that a crash has left in the journal.
        drop(opened(&store));
        // However far the server was set back, its last transaction or message differs.
        for back in 1..=past.len() {
            let at = past.len() - back;
            let (mut later, objects) = (past.clone(), store.objects());
            later.push(Deed::Transaction);
            let error = receive(&store, &later, 0, at, true).unwrap_err();
            let is_other = matches!(error.kind, ErrorKind::OtherServer { .. });
            prop_assert!(is_other, "{error:?}");
            // The writer has stored and published no object.
            prop_assert_eq!(store.objects(), objects);
        }
        if !past.is_empty() {
            let (mut writer, _) = opened(&store);
            writer.compare(Lsn::INVALID, false).unwrap();
            let error = writer.advance(Lsn(0x1000 * 100)).unwrap_err();
            let why = OtherServer::Missing;
            let is_missing = matches!(error.kind, ErrorKind::OtherServer { why: it, .. } if it == why);
            prop_assert!(is_missing, "{error:?}");
        }
        past.push(Deed::Transaction);
        receive(&store, &past, 0, usize::MAX, true).unwrap();
    }
}
