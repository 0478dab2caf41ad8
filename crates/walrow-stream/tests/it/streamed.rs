//! Transactions that arrive in chunks while they run.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::lines;

use lines::rows_of;
use walrow_stream::{Assembler, ErrorKind, Event, MessagePlace};
use walrow_testkit::{OwnedCell, OwnedMessage, Stream, for_every_cut, in_chunks, null, text};
use walrow_wire::{Lsn, ReplicaIdentity};

const T: u32 = 16_384;
const U: u32 = 16_385;
const ID: (&str, u32, i32, bool) = ("id", 23, -1, true);
const NAME: (&str, u32, i32, bool) = ("name", 25, -1, false);
const MORE: (&str, u32, i32, bool) = ("more", 25, -1, false);

/// `t (id, name)`
fn t2(stream: Stream) -> Stream {
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &[ID, NAME])
}

/// `t (id, name, more)`
fn t3(stream: Stream) -> Stream {
    let columns = [ID, NAME, MORE];
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &columns)
}

/// `u (id, name)`
fn u2(stream: Stream) -> Stream {
    stream.relation(U, "public", "u", ReplicaIdentity::Default, &[ID, NAME])
}

fn two(id: &str) -> [OwnedCell; 2] {
    [text(id), null()]
}

fn three(id: &str) -> [OwnedCell; 3] {
    [text(id), null(), null()]
}

/// The rows, for every cut.
fn rows(stream: &Stream) -> Vec<String> {
    let bytes = stream.bytes();
    let (whole, error) = rows_of(&mut Assembler::default(), [&*bytes]);
    assert_eq!(error, None);
    for_every_cut(&bytes, |first, second| {
        let cut = rows_of(&mut Assembler::default(), [first, second]);
        assert_eq!(cut, (whole.clone(), None), "cut at {}", first.len());
    });
    let cut = rows_of(&mut Assembler::default(), in_chunks(&bytes, &[1]));
    assert_eq!(cut, (whole.clone(), None), "byte by byte");
    whole
}

fn fault(stream: &Stream) -> ErrorKind {
    let bytes = stream.bytes();
    let (_, error) = rows_of(&mut Assembler::default(), [&*bytes]);
    let (_, cut) = rows_of(&mut Assembler::default(), in_chunks(&bytes, &[3]));
    assert_eq!(error, cut);
    error.unwrap()
}

#[test]
fn chunks_interleave_with_each_other_and_with_plain_transactions() {
    let stream = t2(Stream::new().session().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let stream = t2(stream.stream_start(701))
        .insert(T, &two("2"))
        .keepalive()
        .insert(T, &two("3"))
        .stream_stop()
        .keepalive();
    let stream = t2(stream.begin(0x1000, 702))
        .insert(T, &two("4"))
        .commit()
        .stream_start(700)
        .delete_key(T, &two("1"))
        .notice("careful")
        .truncate(0, &[T])
        .stream_stop()
        .stream_commit(0x2000, 701)
        .stream_commit(0x3000, 700);
    assert_eq!(
        rows(&stream),
        [
            "702 0/1000",
            "  0 +4 t/2",
            "701 0/2000",
            "  0 +2 t/2",
            "  1 +3 t/2",
            "700 0/3000",
            "  0 +1 t/2",
            "  1 -1 t/2",
            "  2 truncate t/2",
        ]
    );
}

#[test]
fn rolled_back_changes_are_skipped_and_not_counted() {
    let aborts = |stream: Stream, parallel: bool| {
        // ROLLBACK TO the outer savepoint: the children come first. Subtransaction 799 has no
        // streamed rows.
        [703, 799, 702].iter().fold(stream, |stream, subxid| {
            if parallel {
                stream.stream_abort_parallel(700, *subxid)
            } else {
                stream.stream_abort(700, *subxid)
            }
        })
    };
    for parallel in [false, true] {
        let stream = t2(Stream::new().session().stream_start(700))
            .insert(T, &two("1"))
            .subxid(701)
            .insert(T, &two("2"));
        let stream = u2(stream.subxid(702))
            .insert(U, &two("3"))
            .subxid(703)
            .update(T, &two("4"))
            .emit("kept", b"")
            .subxid(701)
            .insert(T, &two("5"))
            .stream_stop();
        let stream = t2(aborts(stream, parallel).stream_start(700))
            .subxid(704)
            .insert(T, &two("6"))
            .stream_stop()
            .stream_commit(0x1000, 700);
        // A Message always has the top-level transaction's ID. The stream does not show that it was
        // rolled back.
        let expected = [
            "700 0/1000",
            "  0 +1 t/2",
            "  1 +2 t/2",
            "  2 \"kept\"",
            "  2 +5 t/2",
            "  3 +6 t/2",
        ];
        assert_eq!(rows(&stream), expected, "parallel {parallel}");
    }
}

#[test]
fn a_transaction_that_was_rolled_back_leaves_nothing() {
    let stream = t3(t2(Stream::new().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit()
        .stream_start(700))
    .insert(T, &three("2"))
    .stream_stop()
    .stream_abort(700, 700)
    .stream_abort(701, 701)
    // Its relation does not become the session's.
    .begin(0x2000, 702)
    .insert(T, &two("3"))
    .commit();
    assert_eq!(
        rows(&stream),
        ["699 0/1000", "  0 +1 t/2", "702 0/2000", "  0 +3 t/2"]
    );
}

#[test]
fn rows_keep_the_version_they_arrived_under() {
    // The transaction alters the table, and a later transaction alters it again.
    let stream = t2(Stream::new().session().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let stream = t3(stream.stream_start(700))
        .insert(T, &three("2"))
        .stream_stop();
    let stream = stream
        .begin(0x1000, 701)
        .relation(T, "public", "t", ReplicaIdentity::Default, &[ID])
        .insert(T, &[text("3")])
        .commit()
        .stream_commit(0x2000, 700)
        // A later definition from outside stream blocks stays.
        .begin(0x3000, 702)
        .insert(T, &[text("4")])
        .commit();
    assert_eq!(
        rows(&stream),
        [
            "701 0/1000",
            "  0 +3 t/1",
            "700 0/2000",
            "  0 +1 t/2",
            "  1 +2 t/3",
            "702 0/3000",
            "  0 +4 t/1",
        ]
    );
}

#[test]
fn a_streamed_definition_is_the_sessions_once_committed() {
    let stream = t2(Stream::new().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit();
    let stream = t3(stream.stream_start(700))
        .insert(T, &three("2"))
        .stream_stop()
        .stream_commit(0x2000, 700)
        .begin(0x3000, 701)
        .insert(T, &three("3"))
        .commit();
    assert_eq!(
        rows(&stream)[2..],
        ["700 0/2000", "  0 +2 t/3", "701 0/3000", "  0 +3 t/3"]
    );
}

#[test]
fn a_definition_of_an_aborted_subtransaction_does_not_leak() {
    let stream = t2(Stream::new().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit();
    let stream = u2(stream.stream_start(700)).insert(U, &two("2"));
    let stream = t3(stream.subxid(701))
        .insert(T, &three("3"))
        .stream_stop()
        .stream_abort(700, 701);
    // There is no new Relation. The session's definition at the arrival of the row applies.
    let stream = stream
        .stream_start(700)
        .insert(T, &two("4"))
        .stream_stop()
        .stream_commit(0x2000, 700)
        .begin(0x3000, 702)
        .insert(T, &two("5"))
        .commit();
    assert_eq!(
        rows(&stream)[2..],
        [
            "700 0/2000",
            "  0 +2 u/2",
            "  1 +4 t/2",
            "702 0/3000",
            "  0 +5 t/2"
        ]
    );
}

#[test]
fn two_open_streams_may_see_different_definitions() {
    let stream = t2(Stream::new().session().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let stream = t3(stream.stream_start(701))
        .insert(T, &three("2"))
        .stream_stop();
    let stream = stream
        .stream_start(700)
        .insert(T, &two("3"))
        .stream_stop()
        .stream_commit(0x1000, 701)
        .stream_start(700)
        .insert(T, &two("4"))
        .stream_stop()
        .stream_commit(0x2000, 700);
    assert_eq!(
        rows(&stream),
        [
            "701 0/1000",
            "  0 +2 t/3",
            "700 0/2000",
            "  0 +1 t/2",
            "  1 +3 t/2",
            "  2 +4 t/2"
        ]
    );
}

#[test]
fn the_transaction_that_made_the_change_decides() {
    // Two transactions are open. The first renames the schema, and the second only repeats the
    // session's definition.
    let t = |stream: Stream, schema: &str| {
        stream.relation(T, schema, "t", ReplicaIdentity::Default, &[ID, NAME])
    };
    let plain = || {
        t(Stream::new().begin(0x1000, 699), "old")
            .insert(T, &two("1"))
            .commit()
    };
    let streams = |first: &str, second: &str| {
        let stream = t(plain().stream_start(700), first)
            .insert(T, &two("2"))
            .stream_stop();
        t(stream.stream_start(701), second)
            .insert(T, &two("3"))
            .stream_stop()
    };
    let after = |stream: Stream| {
        let bytes = stream
            .begin(0x9000, 702)
            .insert(T, &two("4"))
            .commit()
            .bytes();
        let (mut assembler, mut input, mut last) = (Assembler::default(), &*bytes, None);
        while let Some(item) = assembler.next(&mut input).unwrap() {
            if let Event::Change(change) = item {
                last = Some(change.relation.to_string());
            }
        }
        last.unwrap()
    };
    let in_order = |stream: Stream| stream.stream_commit(0x2000, 700).stream_commit(0x3000, 701);
    let reversed = |stream: Stream| stream.stream_commit(0x2000, 701).stream_commit(0x3000, 700);
    assert_eq!(after(reversed(streams("old", "new"))), "new.t");
    assert_eq!(after(reversed(streams("new", "old"))), "new.t");
    assert_eq!(after(in_order(streams("old", "new"))), "new.t");
    assert_eq!(after(in_order(streams("new", "old"))), "new.t");
    // After a later definition outside stream blocks, no definition of the two is promoted.
    let outside = t(streams("new", "old").begin(0x1800, 703), "newest").commit();
    assert_eq!(after(in_order(outside)), "newest.t");
}

#[test]
fn identical_definitions_in_streams_are_one_version() {
    let plain = t2(Stream::new().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit();
    let stream = t2(plain.stream_start(700))
        .insert(T, &two("2"))
        .stream_stop();
    let stream = t2(stream.stream_start(701))
        .insert(T, &two("3"))
        .stream_stop();
    let bytes = stream
        .stream_commit(0x2000, 701)
        .stream_commit(0x3000, 700)
        .bytes();
    let mut assembler = Assembler::default();
    let (mut input, mut versions) = (&*bytes, Vec::new());
    while let Some(item) = assembler.next(&mut input).unwrap() {
        match item {
            Event::Change(change) => versions.push(change.relation.version),
            Event::Relation { relation, seq, .. } => assert_eq!((relation.version, seq), (0, 0)),
            _ => {}
        }
    }
    assert_eq!(versions, [0, 0, 0]);
}

#[test]
fn an_origin_comes_with_the_first_chunk() {
    let stream = t2(Stream::new().stream_start(700).origin(0, "näher"))
        .insert(T, &two("1"))
        .stream_stop()
        .stream_start(700)
        .insert(T, &two("2"))
        .stream_stop()
        .stream_commit(0x1000, 700);
    let bytes = stream.bytes();
    let mut assembler = Assembler::default();
    let mut input = &*bytes;
    let Some(Event::Begin(transaction)) = assembler.next(&mut input).unwrap() else {
        panic!("the transaction was committed")
    };
    assert_eq!(transaction.origins.len(), 1);
    assert_eq!(transaction.origins[0].name, "näher");
    assert_eq!(transaction.origins[0].commit_lsn, Lsn(0));
    assert_eq!(transaction.prepared, None);
}

#[test]
fn a_new_session_starts_open_transactions_again() {
    let stream = t2(Stream::new().session().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let stream = t2(stream.session().stream_start(700))
        .insert(T, &two("1"))
        .insert(T, &two("2"))
        .stream_stop()
        .stream_commit(0x1000, 700);
    assert_eq!(rows(&stream), ["700 0/1000", "  0 +1 t/2", "  1 +2 t/2"]);

    // The stream is cut inside a chunk, also by a server error.
    let open = t2(Stream::new().session().stream_start(700)).insert(T, &two("1"));
    let again = t2(open
        .error("57P01", "terminating connection")
        .session()
        .begin(0x1000, 701));
    let stream = again.insert(T, &two("2")).commit();
    assert_eq!(rows(&stream), ["701 0/1000", "  0 +2 t/2"]);
}

#[test]
fn impossible_orders_are_refused() {
    let open = || t2(Stream::new().stream_start(700)).insert(T, &two("1"));
    let unexpected = |message, place| ErrorKind::UnexpectedMessage { message, place };
    let (inside, outside) = (MessagePlace::Inside, MessagePlace::Outside);
    let cases = [
        (open().stream_start(701), unexpected("Stream Start", inside)),
        (open().begin(0x1000, 701), unexpected("Begin", inside)),
        (
            open().stream_abort(700, 700),
            unexpected("Stream Abort", inside),
        ),
        (
            t2(Stream::new().begin(0x1000, 700)).stream_start(701),
            unexpected("Stream Start", inside),
        ),
        (
            Stream::new().stream_stop(),
            unexpected("Stream Stop", outside),
        ),
        (
            Stream::new().stream_commit(0x1000, 700),
            ErrorKind::MissingBegin {
                message: "Stream Commit",
                xid: 700,
            },
        ),
        (
            Stream::new().stream_prepare(0x1000, 700, "gid"),
            ErrorKind::MissingBegin {
                message: "Stream Prepare",
                xid: 700,
            },
        ),
        (
            open()
                .stream_stop()
                .stream_commit(0x1000, 700)
                .stream_commit(0x2000, 700),
            ErrorKind::MissingBegin {
                message: "Stream Commit",
                xid: 700,
            },
        ),
    ];
    for (stream, expected) in cases {
        assert_eq!(fault(&stream), expected);
    }
    // The bytes of two sessions, one after the other, without a mark between them.
    let twice = [open().stream_stop().bytes(), open().bytes()].concat();
    let (_, error) = rows_of(&mut Assembler::default(), [&*twice]);
    assert_eq!(error, Some(ErrorKind::StreamRestarted { xid: 700 }));
    // A row without a Relation is an error when its transaction commits.
    let bare = Stream::new()
        .stream_start(700)
        .insert(T, &two("1"))
        .stream_stop();
    assert_eq!(
        fault(&bare.stream_commit(0x1000, 700)),
        ErrorKind::UnknownRelation {
            message: "Insert",
            oid: T
        }
    );
}

#[test]
fn a_stream_that_starts_late_leaves_out_what_began_before() {
    let whole = t2(Stream::new().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let front = whole.bytes().len();
    let rest = t2(whole.stream_start(700))
        .insert(T, &two("2"))
        .stream_stop()
        .stream_commit(0x1000, 700)
        .stream_commit(0x2000, 690)
        // The session has its definitions, because it was committed.
        .begin(0x3000, 701);
    let bytes = rest.insert(T, &two("3")).commit().bytes();
    let late = &bytes[front..];
    let mut assembler = Assembler::default().with_late_start(true);
    assert_eq!(
        rows_of(&mut assembler, [late]),
        (vec!["701 0/3000".to_owned(), "  0 +3 t/2".to_owned()], None)
    );
    let (_, error) = rows_of(&mut Assembler::default(), [late]);
    let message = "Stream Start";
    assert_eq!(error, Some(ErrorKind::MissingBegin { message, xid: 700 }));
}

#[test]
fn an_end_at_0_0_is_not_skipped_by_start() {
    let columns = [("id", 23, -1, true)];
    let stream = Stream::new()
        .relation(T, "public", "t", ReplicaIdentity::Default, &columns)
        .begin(0x1000, 699)
        .insert(T, &[text("1")]);
    let commit = OwnedMessage::Commit {
        commit_lsn: 0x1000,
        end_lsn: 0,
        commit_time: 0,
    };
    let commit_prepared = OwnedMessage::CommitPrepared(walrow_testkit::OwnedPrepared {
        lsn: 0x2000,
        end_lsn: 0,
        time: 0,
        xid: 700,
        gid: "a".into(),
    });
    let prepared = stream
        .message(commit)
        .begin_prepare(0x1800, 700, "a")
        .prepare();
    let bytes = prepared.message(commit_prepared).bytes();
    let rows = ["699 0/1000", "  0 +1 t/1", "700 0/2000 a"];
    let (found, error) = rows_of(&mut Assembler::default(), [&*bytes]);
    assert_eq!((found, error), (rows.map(str::to_owned).to_vec(), None));
}

#[test]
fn a_large_skipped_transaction_is_passed_in_parts() {
    let many = 40_000;
    let mut stream = t2(Stream::new().session().stream_start(700));
    for _ in 0..many {
        stream = stream.insert(T, &two("1"));
    }
    let stream = stream
        .stream_stop()
        .stream_commit(0x1000, 700)
        .begin(0x2000, 701);
    let bytes = stream.insert(T, &two("2")).commit().bytes();
    let mut assembler = Assembler::default().with_start(Lsn(0x1030));
    let (mut input, mut parts, mut changes) = (&*bytes, 0, 0);
    while let Some(item) = assembler.next(&mut input).unwrap() {
        match item {
            Event::Skipped => parts += 1,
            Event::Change(_) => changes += 1,
            _ => {}
        }
    }
    // Each part has some ten thousand rows.
    assert_eq!((parts, changes), (2, 1));
    // Rows that were rolled back are skipped in parts, too.
    let mut stream = t2(Stream::new().session().stream_start(700)).subxid(702);
    for _ in 0..many {
        stream = stream.insert(T, &two("1"));
    }
    let stream = stream.stream_stop().stream_abort(700, 702);
    let rolled_back = stream.stream_commit(0x1000, 700).bytes();
    let (mut assembler, mut input, mut parts) = (Assembler::default(), &*rolled_back, 0);
    while let Some(item) = assembler.next(&mut input).unwrap() {
        parts += usize::from(matches!(item, Event::Skipped));
        assert!(!matches!(item, Event::Change(_)));
    }
    assert_eq!(parts, 2);
    // A transaction that is complete in the input is skipped in parts, too. Meanwhile, the caller
    // may cut the input anywhere.
    let mut plain = t2(Stream::new().session().begin(0x1000, 700));
    for _ in 0..many {
        plain = plain.insert(T, &two("1"));
    }
    let plain = plain.commit().begin(0x2000, 701);
    let bytes = plain.insert(T, &two("2")).commit().bytes();
    let mut assembler = Assembler::default().with_start(Lsn(0x1030));
    let mut input = &*bytes;
    assert!(matches!(
        assembler.next(&mut input).unwrap(),
        Some(Event::SessionStart)
    ));
    let part = assembler.next(&mut input).unwrap();
    assert!(matches!(part, Some(Event::Skipped)), "{part:?}");
    let mut changes = 0;
    for mut piece in in_chunks(input, &[1000]) {
        while let Some(item) = assembler.next(&mut piece).unwrap() {
            changes += usize::from(matches!(item, Event::Change(_)));
        }
    }
    assert_eq!(changes, 1);
}

#[test]
fn delivered_transactions_are_skipped() {
    let stream = t2(Stream::new().session().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit()
        .emit_at(0x1100, "before", b"")
        .emit_at(0x1108, "after", b"");
    let stream = t3(stream.stream_start(700))
        .insert(T, &three("2"))
        .stream_stop()
        .stream_commit(0x1040, 700)
        .begin(0x2000, 701)
        .insert(T, &three("3"))
        .commit();
    let bytes = stream.bytes();
    let from = |lsn| {
        let mut assembler = Assembler::default().with_start(Lsn(lsn));
        let (rows, error) = rows_of(&mut assembler, [&*bytes]);
        assert_eq!(error, None);
        rows
    };
    let all = [
        "699 0/1000",
        "  0 +1 t/2",
        "  0 \"before\"",
        "  0 \"after\"",
        "700 0/1040",
        "  0 +2 t/3",
        "701 0/2000",
        "  0 +3 t/3",
    ];
    assert_eq!(from(0), all);
    // The end of the commit record decides. The relations of skipped transactions are known.
    assert_eq!(from(0x102f), all);
    assert_eq!(from(0x1030), all[2..]);
    assert_eq!(from(0x1100), ["  0 \"after\"", "701 0/2000", "  0 +3 t/3"]);
    assert_eq!(from(0x2030), Vec::<String>::new());
}
