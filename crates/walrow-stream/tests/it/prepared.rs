//! Transactions that are prepared first, and committed or rolled back later, in another session or
//! another process.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use crate::lines;

use lines::rows_of;
use walrow_stream::fact::PreparedBefore;
use walrow_stream::{Assembler, Encoding, ErrorKind, Event};
use walrow_testkit::{
    OwnedCell, OwnedColumn, OwnedMessage, PgText, Stream, captures, for_every_cut, in_chunks, null,
    text,
};
use walrow_wire::{Lsn, ReplicaIdentity};

const T: u32 = 16_384;
const ID: (&str, u32, i32, bool) = ("id", 23, -1, true);
const NAME: (&str, u32, i32, bool) = ("name", 25, -1, false);
const MOOD: (&str, u32, i32, bool) = ("mood", 20_000, -1, false);

fn t2(stream: Stream) -> Stream {
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &[ID, NAME])
}

fn t3(stream: Stream) -> Stream {
    let columns = [ID, NAME, MOOD];
    stream.user_type(20_000, "public", "mood").relation(
        T,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    )
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
    whole
}

#[test]
fn rows_come_at_the_commit_with_the_fields_of_the_prepare() {
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "näher"))
        .insert(T, &two("1"))
        .emit("note", b"")
        .insert(T, &two("2"))
        .prepare()
        .commit_prepared(0x2000, 700, "näher");
    assert_eq!(
        rows(&stream),
        [
            "700 0/2000 näher",
            "  0 +1 t/2",
            "  1 \"note\"",
            "  1 +2 t/2"
        ]
    );
    let bytes = stream.bytes();
    let (mut assembler, mut input) = (Assembler::default(), &*bytes);
    assert!(matches!(
        assembler.next(&mut input).unwrap(),
        Some(Event::SessionStart)
    ));
    let Some(Event::Begin(transaction)) = assembler.next(&mut input).unwrap() else {
        panic!("the transaction was committed")
    };
    assert_eq!(transaction.commit_lsn, Lsn(0x2000));
    assert_eq!(transaction.end_lsn, Lsn(0x2030));
    assert_eq!(transaction.commit_time.0, Stream::time(700));
    let prepared = transaction.prepared.as_ref().unwrap();
    assert_eq!(prepared.gid, "näher");
    assert_eq!(prepared.prepare_lsn, Lsn(0x1000));
    assert_eq!(prepared.prepare_end_lsn, Lsn(0x1030));
}

#[test]
fn several_are_kept_and_gids_are_reused() {
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .begin_prepare(0x1100, 701, "b")
        .insert(T, &two("2"))
        .prepare()
        .rollback_prepared(0x1200, 700, "a")
        .begin_prepare(0x1300, 702, "a")
        .insert(T, &two("3"))
        .prepare()
        // An empty transaction is not skipped either.
        .begin_prepare(0x1400, 703, "empty")
        .prepare()
        .begin(0x1500, 704)
        .insert(T, &two("4"))
        .commit()
        .commit_prepared(0x1600, 702, "a")
        .commit_prepared(0x1700, 703, "empty")
        .commit_prepared(0x1800, 701, "b");
    assert_eq!(
        rows(&stream),
        [
            "704 0/1500",
            "  0 +4 t/2",
            "702 0/1600 a",
            "  0 +3 t/2",
            "703 0/1700 empty",
            "701 0/1800 b",
            "  0 +2 t/2",
        ]
    );
}

#[test]
fn a_rollback_without_rows_is_no_error() {
    let known = t2(Stream::new().begin_prepare(0x1000, 700, "a")).prepare();
    let front = known.bytes().len();
    let bytes = known.rollback_prepared(0x1100, 700, "a").bytes();
    let found = rows_of(&mut Assembler::default(), [&bytes[front..]]);
    assert_eq!(found, (Vec::new(), None));
}

#[test]
fn a_streamed_one_is_kept_without_rolled_back_rows() {
    let stream = t2(Stream::new().session().stream_start(700))
        .insert(T, &two("1"))
        .subxid(701)
        .insert(T, &two("2"))
        .stream_stop()
        .stream_abort(700, 701);
    let stream = t3(stream.stream_start(700))
        .insert(T, &three("3"))
        .stream_stop()
        .stream_prepare(0x1000, 700, "a");
    // Up to version 18, the server describes the table again.
    let stream = t2(stream.begin(0x1100, 702))
        .insert(T, &two("4"))
        .commit()
        .commit_prepared(0x1200, 700, "a")
        .begin(0x1300, 703)
        .insert(T, &two("5"))
        .commit();
    assert_eq!(
        rows(&stream),
        [
            "702 0/1100",
            "  0 +4 t/2",
            "700 0/1200 a",
            "  0 +1 t/2",
            "  1 +3 t/3",
            "703 0/1300",
            "  0 +5 t/2",
        ]
    );
}

#[test]
fn a_streamed_one_has_described_its_tables_once_it_is_prepared() {
    let described = t3(t2(Stream::new().session()).stream_start(700))
        .insert(T, &three("1"))
        .stream_stop()
        .stream_prepare(0x1000, 700, "a")
        // As from version 19 on, without a Relation.
        .begin(0x1100, 701)
        .insert(T, &three("2"))
        .commit();
    let seen = "  0 +2 t/3".to_owned();
    assert_eq!(rows(&described), ["701 0/1100".to_owned(), seen.clone()]);
    let decided = described
        .rollback_prepared(0x1200, 700, "a")
        .begin(0x1300, 702)
        .insert(T, &three("3"))
        .commit();
    let after = ["702 0/1300".to_owned(), "  0 +3 t/3".to_owned()];
    assert_eq!(
        rows(&decided),
        [&["701 0/1100".to_owned(), seen], &after[..]].concat()
    );
    // A savepoint that was rolled back has described nothing.
    let undone = t2(Stream::new().session()).stream_start(700).subxid(701);
    let undone = t3(undone)
        .insert(T, &three("1"))
        .stream_stop()
        .stream_abort(700, 701)
        .stream_prepare(0x1000, 700, "a")
        .begin(0x1100, 702)
        .insert(T, &two("2"))
        .commit();
    assert_eq!(rows(&undone), ["702 0/1100", "  0 +2 t/2"]);
}

#[test]
fn its_definitions_apply_at_once_and_its_rows_keep_theirs() {
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        // The transaction sends no Relation, so the prepared transaction's applies.
        .begin(0x1100, 701)
        .insert(T, &two("2"))
        .commit()
        // In the same way, a prepared transaction uses the session's.
        .begin_prepare(0x1200, 702, "b")
        .insert(T, &two("3"))
        .prepare();
    let stream = t3(stream.begin(0x1300, 703))
        .insert(T, &three("4"))
        .commit()
        .commit_prepared(0x1400, 702, "b")
        .commit_prepared(0x1500, 700, "a")
        .begin(0x1600, 704)
        .insert(T, &three("5"))
        .commit();
    assert_eq!(
        rows(&stream),
        [
            "701 0/1100",
            "  0 +2 t/2",
            "703 0/1300",
            "  0 +4 t/3",
            "702 0/1400 b",
            "  0 +3 t/2",
            "700 0/1500 a",
            "  0 +1 t/2",
            "704 0/1600",
            "  0 +5 t/3",
        ]
    );
}

#[test]
fn a_later_session_may_commit_it() {
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare();
    let stream = t2(stream.stream_start(701))
        .insert(T, &two("2"))
        .stream_stop();
    let stream = stream
        .stream_prepare(0x1100, 701, "b")
        .session()
        .commit_prepared(0x1200, 700, "a")
        .session()
        // If the server sends it again, it is the same transaction.
        .begin_prepare(0x1100, 701, "b");
    let stream = t2(stream)
        .insert(T, &two("2"))
        .prepare()
        .commit_prepared(0x1300, 701, "b");
    assert_eq!(
        rows(&stream),
        ["700 0/1200 a", "  0 +1 t/2", "701 0/1300 b", "  0 +2 t/2"]
    );
    // If the stream is cut before the Prepare, the transaction is dropped.
    let cut = t2(Stream::new().session().begin_prepare(0x1000, 700, "a")).insert(T, &two("1"));
    let bytes = cut.session().bytes();
    let mut assembler = Assembler::default();
    assert_eq!(rows_of(&mut assembler, [&*bytes]), (Vec::new(), None));
    assert_eq!(assembler.prepared().count(), 0);
}

#[test]
fn a_commit_without_its_rows_is_an_error_if_the_stream_begins_late() {
    let known = t2(Stream::new().begin_prepare(0x1000, 700, "secret"))
        .insert(T, &two("1"))
        .prepare();
    let front = known.bytes().len();
    let stream = known
        .commit_prepared(0x1100, 700, "secret")
        .begin(0x1200, 701);
    let bytes = t2(stream).insert(T, &two("2")).commit().bytes();
    let missing = (Vec::new(), Some(ErrorKind::MissingPrepared { xid: 700 }));
    let mut assembler = Assembler::default().with_start(Lsn(0x1050));
    assert_eq!(rows_of(&mut assembler, [&bytes[front..]]), missing);
    let error = assembler.next(&mut &[][..]).unwrap_err().to_string();
    assert!(error.contains("700") && error.contains("0/1100"), "{error}");
    assert!(!error.contains("secret"), "the name is the user's: {error}");

    let expected = (vec!["701 0/1200".to_owned(), "  0 +2 t/2".to_owned()], None);
    let mut late = Assembler::default().with_late_start(true);
    assert_eq!(rows_of(&mut late, [&bytes[front..]]), expected);
    // Its rows were delivered before, so no rows are missing.
    let mut resumed = Assembler::default().with_start(Lsn(0x1130));
    assert_eq!(rows_of(&mut resumed, [&bytes[front..]]), expected);

    // PostgreSQL 18 also prepares empty transactions, so a lone commit belongs to a transaction
    // with rows.
    let version = Stream::new().parameter("server_version", "18.4 (Debian 18.4-1)");
    let mut newer = version.session().bytes();
    newer.extend_from_slice(&bytes[front..]);
    assert_eq!(rows_of(&mut Assembler::default(), [&*newer]), missing);
}

#[test]
fn a_prepared_transaction_that_changed_nothing_is_an_empty_one_on_each_version() {
    let front = |stream: &Stream| stream.bytes().len();
    // PostgreSQL 18: P without b, then K or r.
    let begun = Stream::new().begin_prepare(0x1000, 700, "a");
    let begin = front(&begun);
    let prepared = begun.prepare();
    let committed = t2(prepared
        .clone()
        .commit_prepared(0x1100, 700, "a")
        .begin(0x1200, 701));
    let committed = committed.insert(T, &two("1")).commit().bytes();
    let mut assembler = Assembler::default();
    assert_eq!(
        rows_of(&mut assembler, [&committed[begin..]]),
        (
            vec![
                "700 0/1100 a".to_owned(),
                "701 0/1200".to_owned(),
                "  0 +1 t/2".to_owned()
            ],
            None
        )
    );
    assert_eq!(assembler.unprepared_commits(), 0);
    let rolled_back = prepared.clone().rollback_prepared(0x1100, 700, "a").bytes();
    let mut assembler = Assembler::default();
    assert_eq!(
        rows_of(&mut assembler, [&rolled_back[begin..]]),
        (Vec::new(), None)
    );
    assert_eq!(assembler.prepared().count(), 0);

    // 15 to 17: K or r alone.
    let end = front(&prepared);
    for (ended, expected) in [
        (
            prepared.clone().commit_prepared(0x1100, 700, "a"),
            vec!["700 0/1100 a".to_owned()],
        ),
        (prepared.rollback_prepared(0x1100, 700, "a"), Vec::new()),
    ] {
        let bytes = ended.bytes();
        let mut assembler = Assembler::default();
        let found = rows_of(&mut assembler, [&bytes[end..]]);
        assert_eq!(found, (expected.clone(), None));
        assert_eq!(assembler.unprepared_commits(), expected.len() as u64);
        // If the server sends it again after a reconnect, it is the same transaction.
        let again = rows_of(&mut assembler, [&bytes[end..]]);
        assert_eq!(again, (Vec::new(), None));
    }
}

#[test]
fn a_prepare_alone_does_not_replace_one_with_rows() {
    let begun = Stream::new().session().begin_prepare(0x1000, 700, "a");
    let stream = t2(begun).insert(T, &two("1")).prepare();
    let whole = stream.bytes();
    let prepare = stream.frames().last().unwrap();
    let commit = stream.clone().commit_prepared(0x1100, 700, "a").bytes();
    let pieces = [&whole, &**prepare, &commit[whole.len()..]];
    assert_eq!(
        rows_of(&mut Assembler::default(), pieces),
        (
            vec!["700 0/1100 a".to_owned(), "  0 +1 t/2".to_owned()],
            None
        )
    );
}

#[test]
fn with_complete_state_a_commit_alone_is_empty() {
    let prepared = Stream::new().begin_prepare(0x2000, 700, "a").prepare();
    let front = prepared.bytes().len();
    let bytes = prepared.commit_prepared(0x2100, 700, "a").bytes();
    let state_of = |assembler: &mut Assembler| {
        let mut state = Vec::new();
        assembler.save_prepared(&mut state).unwrap();
        state
    };
    let resumed = || Assembler::default().with_start(Lsn(0x1000));
    // No transaction was prepared before.
    let complete = state_of(&mut Assembler::default());
    let mut assembler = resumed();
    assembler.restore_prepared(&mut &*complete).unwrap();
    let expected = (vec!["700 0/2100 a".to_owned()], None);
    assert_eq!(rows_of(&mut assembler, [&bytes[front..]]), expected);
    assert_eq!(state_of(&mut assembler), complete);
    // An assembler that began later does not know the earlier prepared transactions.
    let missing = (Vec::new(), Some(ErrorKind::MissingPrepared { xid: 700 }));
    let partial = state_of(&mut resumed());
    assert_ne!(partial, complete);
    let mut assembler = resumed();
    assembler.restore_prepared(&mut &*partial).unwrap();
    assert_eq!(state_of(&mut assembler), partial);
    assert_eq!(rows_of(&mut assembler, [&bytes[front..]]), missing);
    // An assembler that restored its state does not know them either.
    let mut assembler = Assembler::default();
    assembler.restore_prepared(&mut &*partial).unwrap();
    assert_eq!(state_of(&mut assembler), partial);
    assert_eq!(rows_of(&mut assembler, [&bytes[front..]]), missing);
}

#[test]
fn a_commit_belongs_to_the_last_prepare_of_its_gid() {
    // In time, a server uses a transaction ID again. The GID may be the same, too. The stream does
    // not contain how the first transaction ended.
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .session();
    let stream = t2(stream.begin_prepare(0x2000, 700, "a"))
        .insert(T, &two("2"))
        .prepare();
    let stream = stream.commit_prepared(0x3000, 700, "a");
    let bytes = stream.commit_prepared(0x4000, 700, "a").bytes();
    let mut assembler = Assembler::default();
    let (found, error) = rows_of(&mut assembler, [&*bytes]);
    let expected = ["700 0/3000 a", "  0 +2 t/2", "700 0/4000 a"];
    assert_eq!((found, error), (expected.map(str::to_owned).to_vec(), None));
    assert_eq!(assembler.prepared().count(), 0);
}

/// Other transactions count as empty: the Commit Prepared is their only message.
#[test]
fn a_commit_of_what_may_have_been_prepared_before_the_log_is_an_error() {
    let before = PreparedBefore::new(Lsn(0x2000), vec![710]);
    let commit = |lsn, xid| {
        let stream = Stream::new().session().commit_prepared(lsn, xid, "secret");
        let end = Lsn(lsn + 0x30);
        (stream.bytes(), end)
    };
    for (lsn, xid, is_missing) in [
        (0x1000, 700, true),
        (0x1fd0, 700, true),
        (0x1fd1, 700, false),
        (0x3000, 710, true),
    ] {
        let (bytes, end) = commit(lsn, xid);
        for restored in [false, true] {
            let assembler = || {
                let mut assembler = Assembler::default();
                if restored {
                    assembler.assume_prepared_restored();
                }
                assembler
            };
            let mut first = assembler();
            first.set_prepared_before(before.clone(), Lsn::INVALID);
            let (found, error) = rows_of(&mut first, [&*bytes]);
            let expected = is_missing.then_some(ErrorKind::PreparedBefore { xid });
            assert_eq!((found.is_empty(), error), (is_missing, expected), "{lsn}");
            // The commit was received before, and comes again.
            let mut next = assembler();
            next.set_prepared_before(before.clone(), end);
            assert_eq!(rows_of(&mut next, [&*bytes]).1, None, "{lsn}");
        }
    }
    // Its Prepare comes.
    let stream = Stream::new().session().begin_prepare(0x1000, 710, "a");
    let stream = t2(stream).insert(T, &two("1")).prepare();
    let bytes = stream.commit_prepared(0x1100, 710, "a").bytes();
    let mut assembler = Assembler::default();
    assembler.set_prepared_before(before, Lsn::INVALID);
    let expected = vec!["710 0/1100 a".to_owned(), "  0 +1 t/2".to_owned()];
    assert_eq!(rows_of(&mut assembler, [&*bytes]), (expected, None));
}

#[test]
fn restored_half_transactions_stay_half() {
    let first = t2(Stream::new().stream_start(700))
        .insert(T, &two("1"))
        .stream_stop();
    let front = first.bytes().len();
    let half = t2(first.stream_start(700))
        .insert(T, &two("2"))
        .stream_stop()
        .stream_prepare(0x1000, 700, "a");
    let prepared = half.bytes();
    let commit = half.commit_prepared(0x1100, 700, "a").bytes();
    let mut late = Assembler::default().with_late_start(true);
    let found = rows_of(&mut late, [&prepared[front..]]);
    assert_eq!(found, (Vec::new(), None));
    let mut state = Vec::new();
    late.save_prepared(&mut state).unwrap();
    let commit = &commit[prepared.len()..];
    for (late, error) in [
        (true, None),
        (false, Some(ErrorKind::MissingPrepared { xid: 700 })),
    ] {
        let mut next = Assembler::default().with_late_start(late);
        next.restore_prepared(&mut &*state).unwrap();
        assert_eq!(next.prepared().count(), 1);
        assert_eq!(rows_of(&mut next, [commit]), (Vec::new(), error));
    }
}

#[test]
fn names_of_another_encoding_are_the_same_in_the_next_process() {
    let latin1 = || Assembler::default().with_encoding(Encoding::Latin1);
    let name = |bytes: &[u8]| PgText::from(bytes);
    let relation = |stream: Stream, oid: u32| {
        stream.message(OwnedMessage::Relation {
            xid: None,
            oid,
            namespace: name(b"stra\xdfe"),
            name: name(b"\xe9t\xe9"),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![OwnedColumn {
                flags: 1,
                name: name(b"gr\xf6\xdfe"),
                type_oid: 23,
                type_modifier: -1,
            }],
        })
    };
    // A relation that the session described before, and a relation that the transaction described
    // itself.
    let stream = relation(Stream::new().session().begin(0x900, 699), T);
    let stream = stream.insert(T, &[text("0")]).commit();
    let stream = stream
        .begin_prepare(0x1000, 700, "a")
        .insert(T, &[text("1")]);
    let stream = relation(stream, T + 1)
        .insert(T + 1, &[text("2")])
        .prepare();
    let prepared = stream.bytes();
    let commit = stream.commit_prepared(0x1100, 700, "a").bytes();
    let mut first = latin1();
    assert_eq!(rows_of(&mut first, [&*prepared]).1, None);
    let mut state = Vec::new();
    first.save_prepared(&mut state).unwrap();
    let mut next = latin1();
    next.restore_prepared(&mut &*state).unwrap();
    let mut input = &commit[prepared.len()..];
    let mut names = Vec::new();
    while let Some(item) = next.next(&mut input).unwrap() {
        if let Event::Change(change) = item {
            let column = &change.relation.columns[0].name;
            names.push(format!("{} {column}", change.relation));
        }
    }
    assert_eq!(names, ["straße.été größe", "straße.été größe"]);
}

#[test]
fn one_prepared_below_the_position_is_not_skipped() {
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .commit_prepared(0x3000, 700, "a");
    let bytes = stream.bytes();
    let from = |lsn| {
        let mut assembler = Assembler::default().with_start(Lsn(lsn));
        rows_of(&mut assembler, [&*bytes]).0
    };
    assert_eq!(from(0x2000), ["700 0/3000 a", "  0 +1 t/2"]);
    assert_eq!(from(0x3030), Vec::<String>::new());
}

#[test]
fn a_prepare_of_another_transaction_is_refused() {
    for (lsn, xid, gid) in [(0x1000, 701, "a"), (0x1000, 700, "b"), (0x1008, 700, "a")] {
        let announced = Stream::new().begin_prepare(0x1000, 700, "a");
        let other = Stream::new().begin_prepare(lsn, xid, gid);
        let front = other.bytes().len();
        let bytes = [announced.bytes(), other.prepare().bytes()[front..].to_vec()].concat();
        let (_, error) = rows_of(&mut Assembler::default(), [&*bytes]);
        assert_eq!(error, Some(ErrorKind::PrepareMismatch { xid: 700 }));
    }
}

/// Everything that a state must contain.
fn held() -> Stream {
    let stream = t3(Stream::new().session().begin(0x0800, 690))
        .insert(T, &three("0"))
        .commit()
        .begin_prepare(0x1000, 700, "plain")
        .origin(0x77, "elsewhere")
        // With the session's definition and its type name.
        .insert(T, &three("1"))
        .emit("note", b"content");
    let stream = t2(stream)
        .insert(T, &two("2"))
        .prepare()
        .begin_prepare(0x1100, 701, "empty")
        .prepare()
        .stream_start(702)
        .origin(0, "elsewhere");
    t2(stream)
        .insert(T, &two("3"))
        .subxid(703)
        .insert(T, &two("4"))
        .emit("of an aborted one", b"")
        .stream_stop()
        .stream_abort(702, 703)
        .stream_prepare(0x1200, 702, "streamed")
}

#[test]
fn state_carries_prepared_transactions_to_another_assembler() {
    let front = held();
    let bytes = front.bytes();
    let rest = front
        .session()
        .commit_prepared(0x2000, 702, "streamed")
        .commit_prepared(0x2100, 700, "plain")
        .commit_prepared(0x2200, 701, "empty")
        .bytes();
    let rest = &rest[bytes.len()..];
    let mut first = Assembler::default();
    assert_eq!(rows_of(&mut first, in_chunks(&bytes, &[100])).1, None);
    let mut state = Vec::new();
    first.save_prepared(&mut state).unwrap();
    let mut again = Vec::new();
    first.save_prepared(&mut again).unwrap();
    assert_eq!(state, again, "the same state, byte for byte");

    let mut second = Assembler::default();
    second.restore_prepared(&mut &*state).unwrap();
    let names: Vec<_> = second
        .prepared()
        .map(|(xid, prepared)| (xid, prepared.gid.clone(), prepared.prepare_lsn.0))
        .collect();
    assert_eq!(
        names,
        [
            (701, "empty".to_owned(), 0x1100),
            (700, "plain".to_owned(), 0x1000),
            (702, "streamed".to_owned(), 0x1200)
        ]
    );
    let expected = [
        "702 0/2000 streamed",
        "  0 +3 t/2",
        "  1 \"of an aborted one\"",
        "700 0/2100 plain",
        "  0 +1 t/3",
        "  1 \"note\"",
        "  1 +2 t/2",
        "701 0/2200 empty",
    ];
    let mut third = Vec::new();
    second.save_prepared(&mut third).unwrap();
    assert_eq!(third, state, "what was restored is saved again as it was");
    assert_eq!(rows_of(&mut first, [rest]).0, expected);
    assert_eq!(rows_of(&mut second, [rest]).0, expected);
    assert_eq!(second.prepared().count(), 0);
    // A state without transactions is valid too.
    let mut none = Vec::new();
    second.save_prepared(&mut none).unwrap();
    assert!(none.len() < 100);
    second.restore_prepared(&mut &*none).unwrap();
    assert_eq!(second.prepared().count(), 0);
}

#[test]
fn a_fault_in_a_restored_transaction_is_an_error_at_its_commit() {
    let bytes = t2(Stream::new().begin_prepare(0x1000, 700, "a"))
        .insert(T, &three("1"))
        .prepare()
        .bytes();
    let mut first = Assembler::default();
    assert_eq!(rows_of(&mut first, [&*bytes]).1, None);
    let mut state = Vec::new();
    first.save_prepared(&mut state).unwrap();
    let mut second = Assembler::default();
    second.restore_prepared(&mut &*state).unwrap();
    let known = t2(Stream::new().begin_prepare(0x1000, 700, "a")).prepare();
    let front = known.bytes().len();
    let commit = known.commit_prepared(0x2000, 700, "a").bytes();
    let mut input = &commit[front..];
    let error = loop {
        match second.next(&mut input) {
            Ok(item) => assert!(item.is_some(), "there is a fault"),
            Err(error) => break error,
        }
    };
    assert!(matches!(error.kind, ErrorKind::ColumnCount { .. }));
    assert_eq!(error.offset, (commit.len() - front) as u64);
    // Its rows are gone: a state must not hide that they are missing.
    assert!(second.save_prepared(&mut Vec::new()).is_err());
}

#[test]
fn no_state_is_saved_in_the_middle_of_a_transaction() {
    let bytes = t2(Stream::new().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .commit_prepared(0x2000, 700, "a")
        .bytes();
    let (mut assembler, mut input) = (Assembler::default(), &*bytes);
    assert!(matches!(
        assembler.next(&mut input).unwrap(),
        Some(Event::Begin(_))
    ));
    assert!(assembler.save_prepared(&mut Vec::new()).is_err());
    while assembler.next(&mut input).unwrap().is_some() {}
    assembler.save_prepared(&mut Vec::new()).unwrap();
}

#[test]
fn a_commit_that_comes_again_after_a_reconnect_is_no_fault() {
    // The prepared transaction is not sent again, only its commit.
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .commit_prepared(0x2000, 700, "a")
        .session()
        .commit_prepared(0x2000, 700, "a");
    let stream = t2(stream.begin(0x3000, 701)).insert(T, &two("2")).commit();
    assert_eq!(
        rows(&stream),
        ["700 0/2000 a", "  0 +1 t/2", "701 0/3000", "  0 +2 t/2"]
    );
    // A commit of an unknown transaction is an error, if the transaction may have been prepared
    // before.
    let bytes = stream.commit_prepared(0x4000, 700, "a").bytes();
    let mut resumed = Assembler::default().with_start(Lsn(0x800));
    let (_, error) = rows_of(&mut resumed, [&*bytes]);
    assert_eq!(error, Some(ErrorKind::MissingPrepared { xid: 700 }));
}

/// For each relation version that is returned: its transaction, its columns and its number.
fn versions(stream: &Stream) -> Vec<(u32, usize, u32)> {
    let bytes = stream.bytes();
    let (mut assembler, mut input) = (Assembler::default(), &*bytes);
    let (mut xid, mut found) = (0, Vec::new());
    while let Some(item) = assembler.next(&mut input).unwrap() {
        match item {
            Event::Begin(transaction) => xid = transaction.xid,
            Event::Relation { relation, .. } => {
                found.push((xid, relation.columns.len(), relation.version));
            }
            _ => {}
        }
    }
    found
}

#[test]
fn definitions_of_rolled_back_transactions_are_never_returned() {
    let stream = t3(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &three("1"))
        .prepare();
    let stream = stream
        .begin(0x1100, 701)
        .relation(T + 1, "public", "u", ReplicaIdentity::Default, &[ID])
        .insert(T + 1, &[text("2")])
        .commit()
        .rollback_prepared(0x1200, 700, "a");
    let stream = t2(stream.begin(0x1300, 702)).insert(T, &two("3")).commit();
    let found: Vec<_> = versions(&stream)
        .into_iter()
        .map(|(xid, columns, _)| (xid, columns))
        .collect();
    assert_eq!(found, [(701, 1), (702, 2)]);
}

#[test]
fn a_definition_is_returned_before_its_first_use() {
    // A prepared transaction describes the relation, and another transaction uses it before the
    // commit.
    let stream = t2(Stream::new().session().begin_prepare(0x1000, 700, "a"))
        .insert(T, &two("1"))
        .prepare()
        .begin(0x1100, 701)
        .insert(T, &two("2"))
        .insert(T, &two("3"))
        .commit()
        .commit_prepared(0x1200, 700, "a");
    assert_eq!(versions(&stream), [(701, 2, 0)]);
    assert_eq!(rows(&stream).len(), 5);
}

#[test]
fn identical_definitions_are_one_version_in_every_session_and_transaction() {
    let mut stream = t2(Stream::new().session().begin(0x1000, 699))
        .insert(T, &two("1"))
        .commit();
    for xid in 700..705 {
        let lsn = u64::from(xid) << 16;
        let gid = format!("gid {xid}");
        stream = t2(stream.stream_start(xid))
            .insert(T, &two("2"))
            .stream_stop()
            .stream_prepare(lsn, xid, &gid)
            .commit_prepared(lsn + 0x1000, xid, &gid);
    }
    let stream = t2(stream.session().begin(0x8000_0000, 800))
        .insert(T, &two("3"))
        .commit();
    assert_eq!(versions(&stream), [(699, 2, 0)]);
}

#[test]
fn invalid_state_is_refused_and_changes_nothing() {
    let mut assembler = Assembler::default();
    assert_eq!(rows_of(&mut assembler, [&*held().bytes()]).1, None);
    let mut state = Vec::new();
    assembler.save_prepared(&mut state).unwrap();
    for length in 0..state.len() {
        let mut other = Assembler::default();
        let error = other.restore_prepared(&mut &state[..length]).unwrap_err();
        assert_eq!(error.kind, ErrorKind::NotPreparedState, "{length} bytes");
        assert_eq!(other.prepared().count(), 0);
    }
    let capture = t2(Stream::new().begin(0x1000, 700))
        .insert(T, &two("1"))
        .commit();
    let error = Assembler::default()
        .restore_prepared(&mut &*capture.bytes())
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::NotPreparedState);
}

#[test]
fn every_capture_may_be_read_by_two_processes() {
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let bytes = &capture.bytes;
        let (whole, error) = rows_of(&mut Assembler::default(), [&**bytes]);
        assert_eq!(error, None, "{}", capture.name);
        // Another process may continue at the begin of a session.
        let mut at = 0;
        let mut sessions = Vec::new();
        while let Ok(Some(size)) = walrow_wire::Frame::size(&bytes[at..]) {
            if bytes[at] == b'W' && at > 0 {
                sessions.push(at);
            }
            at += size;
            if at >= bytes.len() {
                break;
            }
        }
        for at in sessions {
            let mut first = Assembler::default();
            let mut rows = rows_of(&mut first, [&bytes[..at]]).0;
            let mut state = Vec::new();
            first.save_prepared(&mut state).unwrap();
            let mut second = Assembler::default();
            second.restore_prepared(&mut &*state).unwrap();
            rows.extend(rows_of(&mut second, [&bytes[at..]]).0);
            assert_eq!(rows, whole, "{} at {at}", capture.name);
        }
    }
}
