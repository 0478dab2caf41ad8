//! Plain streams, message by message: the events that they give, and the places without an event.

use crate::lines;

use lines::{line, lines, lines_of};
use walrow_stream::{Assembler, Encoding, ErrorKind, Event, Fact, MessagePlace};
use walrow_testkit::{OwnedCell, OwnedMessage, Stream, for_every_cut, in_chunks, null, text};
use walrow_wire::{Framing, LogicalMessage, Lsn, Message, PgString, ReplicaIdentity, Timestamp};

const T: u32 = 16_384;
const ID: (&str, u32, i32, bool) = ("id", 23, -1, true);
const NAME: (&str, u32, i32, bool) = ("name", 25, -1, false);

fn table(stream: Stream) -> Stream {
    stream.relation(T, "public", "t", ReplicaIdentity::Default, &[ID, NAME])
}

fn row(id: &str) -> [OwnedCell; 2] {
    [text(id), null()]
}

/// Two transactions, with each kind of message that a plain stream can contain between and inside
/// them.
fn lively() -> Stream {
    table(
        Stream::new()
            .session()
            .keepalive()
            .begin(0x1000, 700)
            .origin(0x77, "elsewhere"),
    )
    .insert(T, &row("1"))
    .keepalive()
    .emit("note", b"inside")
    .update(T, &row("1"))
    .notice("careful")
    .truncate(3, &[T])
    .commit()
    .keepalive()
    .parameter("TimeZone", "UTC")
    .begin(0x2000, 701)
    .delete_key(T, &row("1"))
    .commit()
    .copy_done()
}

const LIVELY: [&str; 11] = [
    "session",
    "begin 700 0/1000 [\"elsewhere\"]",
    "0 relation public.t v0",
    "0 insert public.t v0",
    "message true note inside seq 1",
    "1 update false public.t v0",
    "2 truncate [\"t\"] true true public.t v0",
    "commit 0/1030",
    "begin 701 0/2000 []",
    "0 delete public.t v0",
    "commit 0/2030",
];

#[test]
fn committed_transactions_come_in_order() {
    assert_eq!(
        lines([&*lively().bytes()]),
        (LIVELY.map(str::to_owned).to_vec(), None)
    );
}

#[test]
fn the_cut_changes_nothing() {
    let bytes = lively().bytes();
    for_every_cut(&bytes, |head, tail| {
        assert_eq!(lines([head, tail]).0, LIVELY, "cut at {}", head.len());
    });
    for size in [1, 2, 7, 30, 31, 64] {
        assert_eq!(
            lines(in_chunks(&bytes, &[size])).0,
            LIVELY,
            "pieces of {size}"
        );
    }
}

/// After an event, the rest of the input may be cut differently.
#[test]
fn input_may_shrink_between_calls() {
    let bytes = lively().bytes();
    let mut assembler = Assembler::default();
    let mut found = Vec::new();
    let mut at = 0;
    let mut window = bytes.len();
    while at < bytes.len() {
        let input = &bytes[at..bytes.len().min(at + window)];
        let mut rest = input;
        if let Some(item) = assembler.next(&mut rest).unwrap() {
            found.push(line(&item));
            window = 11;
        } else {
            window = bytes.len();
        }
        at += input.len() - rest.len();
    }
    while let Some(item) = assembler.next(&mut &[][..]).unwrap() {
        found.push(line(&item));
    }
    assert_eq!(found, LIVELY);
    assert_eq!(assembler.offset(), bytes.len() as u64);
    assert!(!assembler.is_mid_transaction());
}

#[test]
fn a_transaction_without_its_commit_is_never_returned() {
    let bytes = table(Stream::new().session().begin(0x1000, 700))
        .insert(T, &row("1"))
        .bytes();
    assert_eq!(lines([&*bytes]).0, ["session"]);
    assert_eq!(lines(in_chunks(&bytes, &[5])).0, ["session"]);
}

#[test]
fn a_new_session_drops_what_was_open_and_the_relations() {
    let cut = table(Stream::new().session().begin(0x1000, 700)).insert(T, &row("1"));
    let again = table(Stream::new().session().begin(0x1000, 700))
        .insert(T, &row("1"))
        .commit();
    let bytes = [cut.bytes(), again.bytes()].concat();
    let expected = [
        "session",
        "session",
        "begin 700 0/1000 []",
        "0 relation public.t v0",
        "0 insert public.t v0",
        "commit 0/1030",
    ];
    assert_eq!(lines([&*bytes]).0, expected);
    assert_eq!(lines(in_chunks(&bytes, &[40])).0, expected);

    // In the new session the relation must be described again.
    let bare = Stream::new()
        .session()
        .begin(0x2000, 701)
        .insert(T, &row("2"))
        .commit();
    let (found, error) = lines([&*[again.bytes(), bare.bytes()].concat()]);
    assert_eq!(found.last().unwrap(), "begin 701 0/2000 []");
    assert_eq!(
        error,
        Some(ErrorKind::UnknownRelation {
            message: "Insert",
            oid: T
        })
    );
}

#[test]
fn a_transaction_that_no_session_completes_is_missing() {
    let one = |lsn, xid| table(Stream::new().session().begin(lsn, xid)).insert(T, &row("1"));
    let cut = one(0x2000, 701);
    let error = || cut.clone().error("57P01", "terminating connection");
    let missing = |streams: &[Stream], start| {
        let bytes = streams.iter().map(Stream::bytes).collect::<Vec<_>>();
        [usize::MAX, 40].map(|size| {
            let mut assembler = Assembler::default().with_start(Lsn(start));
            let bytes = bytes.concat();
            let (_, error) = lines_of(&mut assembler, in_chunks(&bytes, &[size]));
            assert_eq!(error, None);
            assembler.missing_transaction()
        })
    };
    let (earlier, whole) = (one(0x1000, 700).commit(), cut.clone().commit());
    let later = one(0x3000, 702).commit();
    for (streams, start, expected) in [
        (vec![cut.clone(), later.clone()], 0, true),
        (vec![cut.clone(), cut.clone(), later.clone()], 0, true),
        (vec![error(), later.clone()], 0, true),
        (vec![error(), whole.clone(), later.clone()], 0, false),
        // The server goes on sending, and has not yet come to the transaction again.
        (vec![cut.clone(), Stream::new().session()], 0, false),
        (vec![cut.clone(), earlier], 0, false),
        // The transaction came before.
        (vec![whole, cut.clone(), later.clone()], 0, false),
        (vec![cut.clone(), later.clone()], 0x2030, false),
        (vec![cut, later], 0x2000, true),
    ] {
        let expected = expected.then_some((701, Lsn(0x2000)));
        assert_eq!(
            missing(&streams, start),
            [expected; 2],
            "{start} {streams:?}"
        );
    }
}

#[test]
fn offsets_count_a_frame_that_a_session_cut_off() {
    let bytes = table(Stream::new().session().begin(0x1000, 700)).bytes();
    let mut assembler = Assembler::default();
    let cut = bytes.len() - 3;
    let mut input = &bytes[..cut];
    while assembler.next(&mut input).unwrap().is_some() {}
    assembler.new_session();
    assert_eq!(assembler.offset(), cut as u64);
    let error = assembler.next(&mut &b"?????"[..]).unwrap_err();
    assert_eq!(error.offset, cut as u64);
}

#[test]
fn a_server_error_drops_what_was_open() {
    let bytes = table(Stream::new().begin(0x1000, 700))
        .insert(T, &row("1"))
        .error("57P01", "terminating connection")
        .bytes();
    assert_eq!(lines([&*bytes]).0, ["error 57P01"]);
    assert_eq!(lines(in_chunks(&bytes, &[9])).0, ["error 57P01"]);
}

#[test]
fn identical_relations_are_one_version_and_changed_ones_are_new() {
    let stream = table(Stream::new().begin(0x1000, 700)).insert(T, &row("1"));
    let stream = table(stream).insert(T, &row("2"));
    let stream = stream
        .relation(T, "public", "t", ReplicaIdentity::Default, &[ID])
        .insert(T, &[text("3")])
        .commit();
    // The same name under a new OID, and the same OID under a new name.
    let bytes = stream
        .begin(0x2000, 701)
        .relation(T + 1, "public", "t", ReplicaIdentity::Default, &[ID])
        .insert(T + 1, &[text("4")])
        .relation(T, "other", "u", ReplicaIdentity::Default, &[ID])
        .insert(T, &[text("5")])
        .commit()
        .bytes();
    let found = lines([&*bytes]).0;
    let rows: Vec<_> = found
        .iter()
        .filter(|line| line.contains("insert"))
        .collect();
    let expected = [
        "0 insert public.t v0",
        "1 insert public.t v0",
        "2 insert public.t v1",
        "0 insert public.t v2",
        "1 insert other.u v3",
    ];
    assert_eq!(rows, expected);
}

#[test]
fn a_type_that_was_renamed_makes_a_new_version() {
    let mood = ("m", 20_000, -1, false);
    let relation = |s: Stream| s.relation(T, "public", "t", ReplicaIdentity::Default, &[ID, mood]);
    let stream = Stream::new()
        .begin(0x1000, 700)
        .user_type(20_000, "public", "mood");
    let stream = relation(stream)
        .insert(T, &row("1"))
        .user_type(20_000, "public", "humour");
    let bytes = relation(stream).insert(T, &row("2")).commit().bytes();
    let found = lines([&*bytes]).0;
    assert_eq!(
        found[1..5],
        [
            "0 relation public.t v0",
            "0 insert public.t v0",
            "1 relation public.t v1",
            "1 insert public.t v1"
        ]
    );
}

#[test]
fn all_origins_are_kept_in_order() {
    let bytes = Stream::new()
        .begin(0x1000, 700)
        .origin(1, "first")
        .origin(2, "last")
        .commit()
        .bytes();
    assert_eq!(
        lines([&*bytes]).0[0],
        "begin 700 0/1000 [\"first\", \"last\"]"
    );
    assert_eq!(
        lines(in_chunks(&bytes, &[3])).0[0],
        "begin 700 0/1000 [\"first\", \"last\"]"
    );
}

#[test]
fn messages_outside_transactions_are_events_of_their_own() {
    let bytes = Stream::new()
        .emit_at(0x900, "beat", b"1")
        .begin(0x1000, 700)
        .commit()
        .bytes();
    let expected = [
        "message false beat 1 seq 0",
        "begin 700 0/1000 []",
        "commit 0/1030",
    ];
    assert_eq!(lines([&*bytes]).0, expected);
    assert_eq!(lines(in_chunks(&bytes, &[1])).0, expected);
}

#[test]
fn stray_stream_aborts_are_tolerated() {
    let bytes = table(Stream::new().stream_abort(9, 9).begin(0x1000, 700))
        .stream_abort(9, 9)
        .insert(T, &row("1"))
        .commit()
        .stream_abort_parallel(9, 9)
        .bytes();
    let expected = [
        "begin 700 0/1000 []",
        "0 relation public.t v0",
        "0 insert public.t v0",
        "commit 0/1030",
    ];
    assert_eq!(
        lines([&*bytes]),
        (expected.map(str::to_owned).to_vec(), None)
    );
}

#[test]
fn impossible_orders_are_refused() {
    let begin = || Stream::new().begin(0x1000, 700);
    let in_table = || table(begin());
    let outside = |message| ErrorKind::UnexpectedMessage {
        message,
        place: MessagePlace::Outside,
    };
    let inside = |message| ErrorKind::UnexpectedMessage {
        message,
        place: MessagePlace::Inside,
    };
    let commit = OwnedMessage::Commit {
        commit_lsn: 0x1000,
        end_lsn: 0x1030,
        commit_time: 0,
    };
    let cases = [
        (Stream::new().message(commit.clone()), outside("Commit")),
        (table(Stream::new()).insert(T, &row("1")), outside("Insert")),
        (begin().begin(0x2000, 701), inside("Begin")),
        (
            begin().insert(T, &row("1")).commit(),
            ErrorKind::UnknownRelation {
                message: "Insert",
                oid: T,
            },
        ),
        (
            begin().truncate(0, &[T]).commit(),
            ErrorKind::UnknownRelation {
                message: "Truncate",
                oid: T,
            },
        ),
        (
            in_table().insert(T, &[text("1")]).commit(),
            ErrorKind::ColumnCount {
                message: "Insert",
                relation: "public.t".to_owned(),
                expected: 2,
                found: 1,
            },
        ),
        (
            in_table().truncate(0, &[T, T]).commit(),
            ErrorKind::RepeatedRelation { oid: T },
        ),
        (
            Stream::new().begin(0x9999, 700).message(commit),
            ErrorKind::CommitMismatch { begin: Lsn(0x9999) },
        ),
    ];
    for (stream, expected) in cases {
        let bytes = stream.bytes();
        assert_eq!(lines([&*bytes]).1.as_ref(), Some(&expected));
        assert_eq!(lines(in_chunks(&bytes, &[3])).1.as_ref(), Some(&expected));
    }
}

#[test]
fn names_are_as_long_as_a_server_can_have_them() {
    let (longest, long) = ("ä".repeat(128), "x".repeat(257));
    let named = |schema: &str, table: &str, column: &str| {
        let identity = ReplicaIdentity::Default;
        let columns = [(column, 23, -1, true)];
        let stream = Stream::new().relation(T, schema, table, identity, &columns);
        lines([&*stream.bytes()]).1
    };
    assert_eq!(named(&longest, &longest, &longest), None);
    let refused = |message, field| {
        let size = 257;
        Some(ErrorKind::NameTooLong {
            message,
            field,
            size,
            limit: 256,
        })
    };
    assert_eq!(named(&long, "t", "id"), refused("Relation", "namespace"));
    assert_eq!(
        named("s", &long, "id"),
        refused("Relation", "relation name")
    );
    assert_eq!(named("s", "t", &long), refused("Relation", "column name"));
    for (namespace, name, field) in [(&*long, "t", "namespace"), ("s", &*long, "type name")] {
        let stream = Stream::new().user_type(20_000, namespace, name);
        let (_, error) = lines([&*stream.bytes()]);
        assert_eq!(error, refused("Type", field));
    }
}

#[test]
fn a_relation_has_as_many_columns_as_a_table_can_have() {
    for (count, refused) in [(0, false), (1600, false), (1601, true), (65_535, true)] {
        let columns = vec![("c", 23, -1, false); count];
        let identity = ReplicaIdentity::Nothing;
        let stream = Stream::new().relation(T, "public", "t", identity, &columns);
        let error = lines([&*stream.bytes()]).1;
        let expected = ErrorKind::TooManyColumns {
            oid: T,
            columns: count,
            limit: 1600,
        };
        assert_eq!(error, refused.then_some(expected));
    }
}

#[test]
fn names_that_are_not_utf8_are_refused() {
    let latin1 = Stream::new()
        .begin(0x1000, 700)
        .message(OwnedMessage::Type {
            xid: None,
            oid: 20_000,
            namespace: "public".into(),
            name: b"\xe9"[..].into(),
        });
    let error = lines([&*latin1.commit().bytes()]).1;
    assert_eq!(
        error,
        Some(ErrorKind::InvalidUtf8 {
            message: "Type",
            field: "type name"
        })
    );
}

/// The table of a stream whose name is `c3 a9`, with its encoding.
fn table_of(mut assembler: Assembler, stream: Stream) -> Result<(String, Encoding), ErrorKind> {
    let stream = stream
        .session()
        .begin(0x1000, 700)
        .message(OwnedMessage::Relation {
            xid: None,
            oid: T,
            namespace: "public".into(),
            name: b"\xc3\xa9"[..].into(),
            replica_identity: ReplicaIdentity::Default,
            columns: Vec::new(),
        });
    let bytes = stream.commit().bytes();
    let (mut input, mut found) = (&*bytes, (String::new(), Encoding::default()));
    while let Some(event) = assembler.next(&mut input).map_err(|error| error.kind)? {
        if let Event::Relation { relation, .. } = event {
            found = (relation.name.to_string(), relation.encoding);
        }
    }
    Ok(found)
}

fn not_encoding(found: &str, wanted: &'static str) -> ErrorKind {
    let found = found.to_owned();
    ErrorKind::ClientEncoding { found, wanted }
}

#[test]
fn a_reported_encoding_decides() {
    let utf8 = ("é".to_owned(), Encoding::Utf8);
    let latin1 = ("Ã©".to_owned(), Encoding::Latin1);
    for (chosen, reported, expected) in [
        (Encoding::Utf8, None, &utf8),
        (Encoding::Latin1, None, &latin1),
        (Encoding::Utf8, Some("UTF8"), &utf8),
        (Encoding::Latin1, Some("UTF8"), &utf8),
        (Encoding::Utf8, Some("LATIN1"), &latin1),
        (Encoding::Latin1, Some("LATIN1"), &latin1),
        // The server does not know the encoding.
        (Encoding::Utf8, Some("SQL_ASCII"), &utf8),
        (Encoding::Latin1, Some("SQL_ASCII"), &latin1),
    ] {
        let assembler = Assembler::default().with_encoding(chosen);
        let stream = match reported {
            None => Stream::new(),
            Some(value) => Stream::new()
                .parameter("DateStyle", "SQL, DMY")
                .parameter("client_encoding", value),
        };
        let read = table_of(assembler, stream);
        assert_eq!(read.as_ref(), Ok(expected), "{chosen:?} {reported:?}");
    }
    for value in ["WIN1252", "", "LATIN9", "EUC_JP"] {
        let stream = Stream::new().parameter("client_encoding", value);
        let error = table_of(Assembler::default(), stream).unwrap_err();
        assert_eq!(error, not_encoding(value, "UTF8, LATIN1 or SQL_ASCII"));
    }
    let stream = Stream::new().parameter("client_encoding", "LATIN1");
    let fixed = Assembler::default().with_fixed_encoding();
    let error = table_of(fixed, stream).unwrap_err();
    assert_eq!(error, not_encoding("LATIN1", "UTF8"));
    assert_eq!(
        error.to_string(),
        "the session's client_encoding must be UTF8, not LATIN1"
    );
}

#[test]
fn one_stream_has_one_encoding() {
    let report = |stream: Stream, value| stream.parameter("client_encoding", value);
    let latin1 = |stream| report(stream, "LATIN1");
    let before = || table(Stream::new().session().begin(0x1000, 700)).insert(T, &row("1"));
    let refused = Some(not_encoding("LATIN1", "UTF8"));
    for (stream, expected) in [
        (latin1(before().commit()), &refused),
        // After a relation of UTF-8, inside a transaction, and in the next session.
        (latin1(before()).commit(), &refused),
        (latin1(Stream::new().begin(0x1000, 700)).commit(), &refused),
        (latin1(before().commit()).session(), &refused),
        (latin1(Stream::new().stream_start(700)), &refused),
        (
            latin1(Stream::new().begin_prepare(0x1000, 700, "a").prepare()),
            &refused,
        ),
        // The same encoding again, and one that is not known.
        (report(before(), "UTF8").commit(), &None),
        (report(before().commit(), "SQL_ASCII"), &None),
        (latin1(report(Stream::new(), "UTF8")), &None),
    ] {
        let bytes = stream.bytes();
        for_every_cut(&bytes, |head, tail| {
            assert_eq!(&lines([head, tail]).1, expected);
        });
    }
}

#[test]
fn every_framing_gives_the_same_events_and_counts_the_users_bytes() {
    let stream = table(Stream::new().begin(0x1000, 700))
        .insert(T, &row("1"))
        .commit()
        .begin(0x2000, 701);
    // The fault: a row of five columns.
    let stream = stream
        .insert(T, &[null(), null(), null(), null(), null()])
        .commit();
    let run = |framing: Framing, chunks: Vec<(u64, &[u8])>| {
        let mut assembler = Assembler::new(framing);
        let mut found = Vec::new();
        let mut fed = 0;
        for (lsn, chunk) in chunks {
            let mut frame = Vec::new();
            framing.append(chunk, Lsn(lsn), &mut frame);
            let mut rest = &*frame;
            loop {
                match assembler.next(&mut rest) {
                    Ok(Some(item)) => found.push(line(&item)),
                    Ok(None) => break,
                    Err(error) => return (found, error, fed),
                }
            }
            fed += chunk.len() as u64;
        }
        panic!("no fault in {found:?}")
    };
    let wire = run(Framing::Wire, vec![(0, &stream.bytes())]);
    let copy_data = run(
        Framing::CopyData,
        stream.payloads().into_iter().map(|p| (0, p)).collect(),
    );
    let message = run(Framing::Message, stream.messages());
    assert_eq!(wire.0, copy_data.0);
    assert_eq!(wire.0, message.0);
    // The assembler finds the fault at the Commit, and reports it for the row.
    let row_at = |sizes: Vec<usize>| sizes[..sizes.len() - 2].iter().sum::<usize>() as u64;
    assert_eq!(
        wire.1.offset,
        row_at(stream.frames().iter().map(Vec::len).collect())
    );
    assert_eq!(
        copy_data.1.offset,
        row_at(stream.payloads().iter().map(|p| p.len()).collect())
    );
    let sizes = stream
        .messages()
        .iter()
        .map(|(_, message)| message.len())
        .collect();
    assert_eq!(message.1.offset, row_at(sizes));
    assert!(
        wire.1
            .to_string()
            .contains("5 cells for the 2 columns of public.t"),
        "{}",
        wire.1
    );
}

#[test]
fn rows_that_are_left_out_are_counted_and_not_read() {
    let bytes = Stream::new()
        .relation(
            1,
            "public",
            "one",
            ReplicaIdentity::Default,
            &[("id", 23, -1, true)],
        )
        .relation(
            2,
            "public",
            "two",
            ReplicaIdentity::Default,
            &[("id", 23, -1, true)],
        )
        .begin(0x1000, 700)
        .insert(1, &[text("1")])
        // The row has more cells than columns, but its cells are not read.
        .insert(1, &[text("2"), text("2")])
        .insert(2, &[text("3")])
        .commit()
        .bytes();
    let (mut assembler, mut input) = (Assembler::default(), &*bytes);
    let mut seqs = Vec::new();
    while let Some(event) = assembler.next(&mut input).unwrap() {
        match event {
            Event::Relation { relation, .. } if *relation.name == *"one" => {
                let version = relation.version;
                assembler.leave_out(version);
            }
            Event::Change(change) => seqs.push(change.seq),
            Event::Commit { changes, .. } => assert_eq!(changes, 3),
            _ => {}
        }
    }
    assert_eq!(seqs, [2]);
}

/// Erased changes leave a gap. An erased change at the end leaves a gap in the number of changes.
#[test]
fn a_fact_says_which_seq_the_next_change_has() {
    let seq = |next| {
        let mut frame = Vec::new();
        Fact::Seq { next }.encode(true, &mut frame);
        frame
    };
    let stream = table(Stream::new().session().begin(0x1000, 700))
        .raw(&seq(2))
        .insert(T, &row("1"))
        .raw(&seq(5))
        .emit("note", b"before the sixth")
        .truncate(0, &[T])
        .raw(&seq(9))
        .commit()
        .begin(0x2000, 701)
        .insert(T, &row("2"))
        .commit();
    let bytes = stream.bytes();
    let (mut assembler, mut rest) = (Assembler::default(), &*bytes);
    let mut seqs = Vec::new();
    while let Some(event) = assembler.next(&mut rest).unwrap() {
        match event {
            Event::Change(it) => seqs.push(it.seq),
            Event::Message(it) => seqs.push(it.seq),
            Event::Truncate(it) => seqs.push(it.seq),
            Event::Commit { changes, .. } => seqs.push(changes),
            _ => {}
        }
    }
    assert_eq!(seqs, [2, 5, 5, 9, 0, 1]);
}

#[test]
fn a_fact_that_is_not_known_is_refused_unless_it_may_be_skipped() {
    let fact = |content: &str| {
        let message = Message::Message(LogicalMessage {
            xid: None,
            transactional: false,
            lsn: Lsn(0),
            prefix: PgString(b"walrow"),
            content: content.as_bytes(),
        });
        let mut frame = Vec::new();
        message.encode_in_frame(Lsn(0), Timestamp(0), &mut frame);
        frame
    };
    let mut assembler = Assembler::default();
    let stream = fact(r#"{"fact":"later","may_skip":true}"#);
    let event = assembler.next(&mut &*stream).unwrap();
    assert!(matches!(event, Some(Event::Fact(fact)) if *fact == Fact::Unknown));
    let stream = fact(r#"{"fact":"later","may_skip":false}"#);
    let error = assembler.next(&mut &*stream).unwrap_err();
    let reason = "the log has a fact of a later version of walrow, later: upgrade this walrow";
    assert!(error.to_string().starts_with(reason), "{error}");
}
