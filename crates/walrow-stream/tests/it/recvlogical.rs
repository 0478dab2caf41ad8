//! Files of `pg_recvlogical`: no LSNs, no frames, no marks where sessions begin.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

use crate::lines::{lines_of, rows_of};
use proptest::prelude::*;
use std::collections::HashSet;
use walrow_stream::{Assembler, Error, ErrorKind, Walk};
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{
    History, Stream, captures, for_every_cut, in_chunks, in_recvlogical, recvlogical, text,
};
use walrow_wire::{Framing, Lsn, ReplicaIdentity};

const T: u32 = 16_384;

fn assembler() -> Assembler {
    Assembler::new(Framing::Recvlogical)
}

/// The rows of a file, in pieces of these sizes.
fn rows(bytes: &[u8], sizes: &[usize]) -> (Vec<String>, Option<ErrorKind>) {
    rows_of(&mut assembler(), in_chunks(bytes, sizes))
}

/// The rows of the stream in wire frames, as on a connection.
fn wire_rows(bytes: &[u8]) -> (Vec<String>, Option<ErrorKind>) {
    rows_of(&mut Assembler::default(), [bytes])
}

fn table(stream: Stream) -> Stream {
    let columns = [("id", 23, -1, true)];
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &columns)
}

/// A plain transaction of the rows, in a session that has not described the table.
fn plain(lsn: u64, xid: u32, ids: &[&str]) -> Stream {
    add_plain(Stream::new(), lsn, xid, ids)
}

fn add_plain(stream: Stream, lsn: u64, xid: u32, ids: &[&str]) -> Stream {
    let mut stream = table(stream.begin(lsn, xid));
    for id in ids {
        stream = stream.insert(T, &[text(id)]);
    }
    stream.commit()
}

/// The first messages of a stream.
fn first(stream: &Stream, count: usize) -> Vec<u8> {
    in_recvlogical(&stream.bytes())[..count].concat()
}

fn all(stream: &Stream) -> Vec<u8> {
    recvlogical(&stream.bytes())
}

/// The rows with each transaction only once, as a reader of repeated sessions returns them.
fn once(rows: Vec<String>) -> Vec<String> {
    let (mut seen, mut keeps) = (HashSet::new(), true);
    let mut kept = Vec::new();
    for row in rows {
        if !row.starts_with(' ') {
            keeps = seen.insert(row.clone());
        }
        if keeps {
            kept.push(row);
        }
    }
    kept
}

#[test]
fn captures_give_the_same_rows() {
    let mut seen = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let bytes = recvlogical(&capture.bytes);
        let (expected, error) = wire_rows(&capture.bytes);
        assert_eq!(error, None);
        let expected = once(expected);
        for sizes in [[1 << 20, 1], [1, 1], [5, 64]] {
            let found = rows(&bytes, &sizes);
            assert_eq!(found, (expected.clone(), None), "{}", capture.name);
        }
        seen += 1;
    }
    assert!(seen > 170, "{seen} captures");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn histories_give_the_same_rows_in_any_cut(
        history in arbitrary::<History>(2_000),
        sizes in prop::collection::vec(1_usize..300, 1..4),
    ) {
        for stream in [history.whole(), history.delivered()] {
            let expected = wire_rows(&stream.bytes());
            let bytes = all(&stream);
            let mut assembler = assembler();
            let found = rows_of(&mut assembler, [&*bytes]);
            prop_assert_eq!(assembler.repeated_transactions(), 0);
            prop_assert_eq!(&found, &expected);
            prop_assert_eq!(&rows(&bytes, &sizes), &expected);
        }
    }

    #[test]
    fn reconnect_anywhere_repeats_and_loses_nothing(
        history in arbitrary::<History>(2_000),
        breaks in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..4),
        sizes in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let whole = history.whole();
        let expected = wire_rows(&history.delivered().bytes());
        // Arbitrary names may be invalid.
        prop_assume!(expected.1.is_none());
        let mut bytes = Vec::new();
        for (place, streamed) in breaks {
            let stream = if streamed { history.delivered() } else { whole.clone() };
            let pieces = in_recvlogical(&stream.bytes());
            bytes.extend(pieces[..place.index(pieces.len().saturating_add(1))].concat());
        }
        bytes.extend(all(&history.delivered()));
        let mut assembler = assembler();
        let found = rows_of(&mut assembler, in_chunks(&bytes, &sizes));
        prop_assert_eq!(found.1, None);
        prop_assert_eq!(assembler.missing_transaction(), None);
        // A transaction is returned in its first form: prepared or not.
        let ids = |rows: &[String]| -> Vec<String> {
            rows.iter()
                .map(|row| if row.starts_with(' ') {
                    row.clone()
                } else {
                    row.split(' ').take(2).collect::<Vec<_>>().join(" ")
                })
                .collect()
        };
        prop_assert_eq!(ids(&found.0), ids(&expected.0));
    }
}

#[test]
fn reconnect_between_transactions_skips_what_came_before() {
    let stream = add_plain(plain(0x1000, 700, &["1"]), 0x2000, 701, &["2"]);
    let again = add_plain(plain(0x2000, 701, &["2"]), 0x3000, 702, &["3"]);
    let bytes = [all(&stream), all(&again)].concat();
    let mut assembler = assembler();
    let (lines, error) = lines_of(&mut assembler, [&*bytes]);
    assert_eq!(error, None);
    assert_eq!(
        lines,
        [
            "begin 700 0/1000 []",
            "0 relation public.t v0",
            "0 insert public.t v0",
            "commit 0/1030",
            "begin 701 0/2000 []",
            "0 insert public.t v0",
            "commit 0/2030",
            "session",
            "begin 702 0/3000 []",
            "0 insert public.t v0",
            "commit 0/3030",
        ]
    );
    assert_eq!(assembler.repeated_transactions(), 1);
    assert_eq!(assembler.offset(), bytes.len() as u64);
}

#[test]
fn reconnect_inside_a_transaction_returns_it_once() {
    let stream = add_plain(plain(0x1000, 700, &["1"]), 0x2000, 701, &["2", "3", "4"]);
    let expected = wire_rows(&stream.bytes());
    let pieces = in_recvlogical(&stream.bytes());
    for cut in 0..=pieces.len() {
        let bytes = [pieces[..cut].concat(), pieces.concat()].concat();
        assert_eq!(rows(&bytes, &[1 << 20]), expected, "{cut}");
        let mut assembler = assembler();
        for_every_cut(&bytes, |head, tail| {
            if assembler.offset() == 0 {
                assert_eq!(rows_of(&mut assembler, [head, tail]), expected);
            }
        });
        let returned = usize::from(cut >= 4) + usize::from(cut >= pieces.len());
        assert_eq!(assembler.repeated_transactions(), returned as u64, "{cut}");
    }
}

#[test]
fn a_transaction_that_did_not_come_again_is_missing() {
    let cut = |count| first(&plain(0x2000, 701, &["2", "3"]), count);
    let [before, again, later] = [
        plain(0x1000, 700, &["1"]),
        plain(0x2000, 701, &["2", "3"]),
        plain(0x3000, 702, &["4"]),
    ]
    .map(|stream| all(&stream));
    for count in 1..5 {
        for (pieces, expected) in [
            ([&*before, &cut(count), &later], true),
            ([&*before, &cut(count), &again], false),
            ([&*again, &cut(count), &later], false),
            ([&*before, &again, &cut(count)], false),
            ([&*later, &cut(count), &before], true),
        ] {
            let mut assembler = assembler();
            let (_, error) = rows_of(&mut assembler, [&*pieces.concat()]);
            assert_eq!(error, None);
            let expected = expected.then_some((701, Lsn(0x2000)));
            assert_eq!(assembler.missing_transaction(), expected, "{count}");
        }
    }
}

/// Any first message of a session shows that the transaction before it was cut.
#[test]
fn any_first_message_of_a_session_drops_the_open_transaction() {
    let prepared = table(Stream::new().begin_prepare(0x1000, 700, "a"))
        .insert(T, &[text("0")])
        .prepare();
    let end = add_plain(Stream::new(), 0x5000, 705, &["5"]);
    let row = "705 0/5000";
    let firsts: [(&str, Stream, &[&str]); 8] = [
        (
            "B",
            plain(0x4000, 704, &["4"]),
            &["704 0/4000", "  0 +4 t/1"],
        ),
        (
            "b",
            table(Stream::new().begin_prepare(0x3000, 703, "b"))
                .prepare()
                .commit_prepared(0x4000, 703, "b"),
            &["703 0/4000 b"],
        ),
        (
            "S",
            table(Stream::new().stream_start(704))
                .insert(T, &[text("4")])
                .stream_stop()
                .stream_commit(0x4000, 704),
            &["704 0/4000", "  0 +4 t/1"],
        ),
        (
            "K",
            Stream::new().message(commit_prepared()),
            &["700 0/4000 a", "  0 +0 t/1"],
        ),
        ("r", Stream::new().message(rollback_of_nothing()), &[]),
        ("P", Stream::new().message(prepare_of_nothing()), &[]),
        (
            "M",
            Stream::new().emit_at(0x4000, "note", b"\n"),
            &["  0 \"note\""],
        ),
        ("A", Stream::new().stream_abort(708, 708), &[]),
    ];
    let opens = [
        table(Stream::new().begin(0x5000, 705)).insert(T, &[text("5")]),
        table(Stream::new().stream_start(705)).insert(T, &[text("5")]),
        table(Stream::new().begin_prepare(0x5000, 705, "c")).insert(T, &[text("5")]),
    ];
    for (name, next, expected) in &firsts {
        for open in &opens {
            let bytes = [all(&prepared), all(open), all(next), all(&end)].concat();
            let mut rows = expected.to_vec();
            rows.extend([row, "  0 +5 t/1"]);
            let (found, error) = rows_of(&mut assembler(), [&*bytes]);
            assert_eq!(
                (found, error),
                (rows.iter().map(|it| (*it).to_owned()).collect(), None),
                "{name}"
            );
        }
    }
}

fn prepare_of_nothing() -> walrow_testkit::OwnedMessage {
    walrow_testkit::OwnedMessage::Prepare(walrow_testkit::OwnedPrepared {
        lsn: 0x3000,
        end_lsn: 0x3030,
        time: 1,
        xid: 709,
        gid: "e".into(),
    })
}

fn commit_prepared() -> walrow_testkit::OwnedMessage {
    walrow_testkit::OwnedMessage::CommitPrepared(walrow_testkit::OwnedPrepared {
        lsn: 0x4000,
        end_lsn: 0x4030,
        time: 1,
        xid: 700,
        gid: "a".into(),
    })
}

fn rollback_of_nothing() -> walrow_testkit::OwnedMessage {
    walrow_testkit::OwnedMessage::RollbackPrepared {
        prepare_end_lsn: 0x3030,
        rollback_end_lsn: 0x4030,
        prepare_time: 1,
        rollback_time: 2,
        xid: 709,
        gid: "e".into(),
    }
}

#[test]
fn streamed_transaction_that_begins_again_replaces_its_first_part() {
    let chunk = |id: &str| {
        table(Stream::new().stream_start(700))
            .insert(T, &[text(id)])
            .stream_stop()
    };
    // Session 2 streams another transaction before this one. That transaction stays.
    let other = table(Stream::new().stream_start(701))
        .insert(T, &[text("7")])
        .stream_stop();
    let again = chunk("1").stream_commit(0x1000, 700);
    let rest = all(&other.clone().stream_start(701).insert(T, &[text("8")]));
    let rest = &rest[all(&other).len()..];
    let end = Stream::new().stream_stop().bytes();
    let commit = recvlogical(&Stream::new().stream_commit(0x2000, 701).bytes());
    let bytes = [
        all(&chunk("0")),
        all(&other),
        all(&again),
        rest.to_vec(),
        recvlogical(&end),
        commit,
    ]
    .concat();
    let (found, error) = rows_of(&mut assembler(), [&*bytes]);
    assert_eq!(error, None);
    assert_eq!(
        found,
        [
            "700 0/1000",
            "  0 +1 t/1",
            "701 0/2000",
            "  0 +7 t/1",
            "  1 +8 t/1"
        ]
    );
}

#[test]
fn streamed_transaction_that_comes_whole_later_is_not_held() {
    let chunk = table(Stream::new().stream_start(700))
        .insert(T, &[text("1")])
        .stream_stop();
    let bytes = [all(&chunk), all(&plain(0x1000, 700, &["1"]))].concat();
    let mut assembler = assembler().with_spool_memory(4 << 10);
    for round in 0..100_u32 {
        let (found, error) = rows_of(&mut assembler, [&*bytes]);
        assert_eq!(error, None);
        assert_eq!(found.len(), if round == 0 { 2 } else { 0 });
    }
    assert_eq!(assembler.repeated_transactions(), 99);
}

#[test]
fn commit_prepared_that_comes_again_is_skipped() {
    let prepare = table(Stream::new().begin_prepare(0x1000, 700, "a"))
        .insert(T, &[text("1")])
        .prepare();
    let commit = all(&Stream::new().commit_prepared(0x2000, 700, "a"));
    let with_rows = [all(&prepare), commit.clone()].concat();
    for again in [commit, with_rows.clone()] {
        let bytes = [with_rows.clone(), again].concat();
        let mut assembler = assembler();
        let (found, error) = rows_of(&mut assembler, [&*bytes]);
        assert_eq!(error, None);
        assert_eq!(found, ["700 0/2000 a", "  0 +1 t/1"]);
        assert_eq!(assembler.repeated_transactions(), 1);
        assert_eq!(assembler.unprepared_commits(), 0);
    }
}

#[test]
fn messages_that_come_again_are_skipped() {
    let note = all(&Stream::new().emit_at(0x900, "note", b"x"));
    let bytes = [note.clone(), all(&plain(0x1000, 700, &[])), note].concat();
    let mut assembler = assembler();
    let (found, _) = rows_of(&mut assembler, [&*bytes]);
    assert_eq!(found, ["  0 \"note\"", "700 0/1000"]);
    assert_eq!(assembler.repeated_transactions(), 0);
}

/// Another server's LSNs may be lower. Only transactions that were returned are skipped.
#[test]
fn transaction_that_did_not_come_before_is_returned() {
    let stream = add_plain(plain(0x2000, 701, &["2"]), 0x1000, 700, &["1"]);
    let stream = add_plain(stream, 0x2000, 800, &["3"]);
    let mut assembler = assembler();
    let (found, error) = rows_of(&mut assembler, [&*all(&stream)]);
    assert_eq!(error, None);
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(assembler.repeated_transactions(), 0);
}

/// The error that ends a file.
fn fault(bytes: &[u8], sizes: &[usize]) -> Error {
    let mut assembler = assembler();
    for piece in in_chunks(bytes, sizes) {
        let mut rest = piece;
        loop {
            match assembler.next(&mut rest) {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return error,
            }
        }
    }
    panic!("no fault")
}

#[test]
fn faults_have_the_offset_in_the_file() {
    let stream = add_plain(plain(0x1000, 700, &["1"]), 0x2000, 701, &["2", "3"]);
    let pieces = in_recvlogical(&stream.bytes());
    let before: usize = pieces[..7].iter().map(Vec::len).sum();
    let mut bytes = pieces.concat();
    // The newline of the second row.
    let newline = before + pieces[7].len() - 1;
    bytes[newline] = b'x';
    for sizes in [[1 << 20], [1], [7]] {
        let error = fault(&bytes, &sizes);
        assert_eq!(error.offset, newline as u64);
        let text = error.to_string();
        let expected = "Insert: end of the message is not the newline that pg_recvlogical writes";
        assert!(text.starts_with(expected), "{text}");
        assert_eq!(rows(&bytes, &sizes).0.len(), 2, "the first transaction");
    }
    // A row with another number of columns. The error comes when the row is read.
    let stream = table(Stream::new().begin(0x1000, 700)).insert(T, &[text("1"), text("2")]);
    let bytes = all(&stream.commit());
    let error = fault(&bytes, &[1 << 20]);
    let sizes = in_recvlogical(&table(Stream::new().begin(0x1000, 700)).bytes());
    assert_eq!(error.offset, sizes.concat().len() as u64);
}

#[test]
fn input_that_ends_inside_is_unfinished() {
    let bytes = all(&plain(0x1000, 700, &["1"]));
    for_every_cut(&bytes, |head, tail| {
        let mut assembler = assembler();
        let (rows, error) = rows_of(&mut assembler, [head]);
        assert_eq!(error, None);
        assert!(assembler.offset() <= head.len() as u64);
        assert_eq!(rows.is_empty(), !tail.is_empty());
        assert_eq!(
            assembler.is_mid_transaction(),
            !head.is_empty() && !tail.is_empty()
        );
        assembler.new_session();
        assert_eq!(assembler.offset(), head.len() as u64);
        assert!(!assembler.is_mid_transaction());
    });
}

#[test]
fn walk_visits_the_same_messages() {
    let mut seen = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let pieces = in_recvlogical(&capture.bytes);
        let bytes = pieces.concat();
        let mut walk = Walk::new(Framing::Recvlogical);
        let (mut offset, mut found) = (0, 0);
        for piece in in_chunks(&bytes, &[1000, 1]) {
            let mut rest = piece;
            while let Some(step) = walk.next(&mut rest).unwrap() {
                assert_eq!(step.offset, offset as u64);
                let mut message = Vec::new();
                step.message.unwrap().encode(&mut message);
                message.push(b'\n');
                assert_eq!(message, pieces[found]);
                offset += message.len();
                found += 1;
            }
        }
        assert_eq!((found, walk.is_cut()), (pieces.len(), false));
        seen += found;
    }
    assert!(seen > 9_000, "{seen} messages");
}

/// The first part of a stream in a block, then a new session's message without transaction ID.
#[test]
fn walk_leaves_a_block_that_was_cut() {
    let open = table(Stream::new().stream_start(700)).insert(T, &[text("1")]);
    let next = Stream::new().emit_at(0x1000, "note", b"");
    let bytes = [all(&open), all(&next), all(&plain(0x2000, 701, &["2"]))].concat();
    let mut walk = Walk::new(Framing::Recvlogical);
    let (mut rest, mut blocks) = (&*bytes, Vec::new());
    while let Some(step) = walk.next(&mut rest).unwrap() {
        blocks.push(step.block);
    }
    let inside = Some(700);
    assert_eq!(blocks, [None, inside, inside, None, None, None, None, None]);
    assert_eq!(first(&open, 1), b"S\0\0\x02\xbc\x01\n");
}
