//! Every message by hand: its bytes field by field, from the manual, and their meaning.
//!
//! Each case names its fields, so the expected error of a cut at any byte follows from it.

#![expect(
    clippy::arithmetic_side_effects,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a panic is how a test fails"
)]

use walrow_wire::{
    AbortRecord, Authentication, BackendKeyData, BackendMessage, Cell, CommandError, CopyData,
    Error, ErrorKind, Frame, FrontendMessage, Lsn, Message, OldTuple, PgString, PluginOption,
    ReplicaIdentity, ReplicationCommand, StandbyStatusUpdate, StartReplication, Timestamp,
};

/// A field: its name in errors, and its bytes.
struct Field {
    name: &'static str,
    bytes: Vec<u8>,
    string: bool,
}

fn hex(name: &'static str, digits: &str) -> Field {
    Field {
        name,
        bytes: walrow_testkit::hex(digits),
        string: false,
    }
}

fn string(name: &'static str, text: &str) -> Field {
    Field {
        name,
        bytes: [text.as_bytes(), &[0]].concat(),
        string: true,
    }
}

fn raw(name: &'static str, bytes: &[u8]) -> Field {
    Field {
        name,
        bytes: bytes.to_vec(),
        string: false,
    }
}

fn bytes(fields: &[Field]) -> Vec<u8> {
    fields
        .iter()
        .flat_map(|field| field.bytes.clone())
        .collect()
}

/// Checks the errors of a cut message, for every length that is too short. `base` is added to
/// offsets. The first field is the kind byte; before it, the message has no name.
fn cuts(
    message: &'static str,
    unnamed: &'static str,
    fields: &[Field],
    base: usize,
) -> Vec<(usize, Error)> {
    let mut errors = Vec::new();
    let mut start = 0;
    for (index, field) in fields.iter().enumerate() {
        for available in 0..field.bytes.len() {
            let kind = if field.string {
                ErrorKind::UnterminatedString
            } else {
                ErrorKind::UnexpectedEnd {
                    needed: field.bytes.len() as u64,
                    available: available as u64,
                }
            };
            let message = if index == 0 { unnamed } else { message };
            let error = Error::new(kind, base + start, message, field.name);
            errors.push((start + available, error));
        }
        start += field.bytes.len();
    }
    errors
}

/// Checks a message of pgoutput: its fields with `check`, its encoding, every cut, and one byte too
/// many.
fn message(in_stream: bool, fields: &[Field], check: impl FnOnce(Message<'_>)) {
    let whole = bytes(fields);
    let parsed = Message::parse(&whole, in_stream).expect("the case is valid");
    check(parsed);
    assert_eq!(parsed.kind().byte(), whole[0]);
    let mut again = Vec::new();
    parsed.encode(&mut again);
    assert_eq!(again, whole);

    for (length, error) in cuts(parsed.name(), "message", fields, 0) {
        // The short form of a Stream Abort.
        if whole[0] == b'A' && length == 9 {
            continue;
        }
        assert_eq!(Message::parse(&whole[..length], in_stream), Err(error));
    }
    if whole[0] == b'A' && whole.len() == 9 {
        return;
    }
    let long = [&whole[..], &[0]].concat();
    assert_eq!(
        Message::parse(&long, in_stream),
        Err(trailing(parsed.name(), whole.len(), 1))
    );
}

fn trailing(message: &'static str, offset: usize, count: u64) -> Error {
    let kind = ErrorKind::TrailingBytes { count };
    Error::new(kind, offset, message, "end of the message")
}

macro_rules! expect {
    ($message:ident, $pattern:pat) => {
        let $pattern = $message else {
            panic!("{}", $message.name())
        };
    };
}

const LSN: Lsn = Lsn(0x16_B374_D848);
const LSN_HEX: &str = "00000016 B374D848";
const END: Lsn = Lsn(0xFFFF_FFFF_0000_0001);
const END_HEX: &str = "FFFFFFFF 00000001";
/// 2024-01-01 00:00:00.000001 UTC.
const TIME: Timestamp = Timestamp(757_382_400_000_001);
const TIME_HEX: &str = "0002B0D5 D4E94001";

#[test]
fn timestamps_have_the_meaning_of_their_text() {
    assert_eq!(TIME.0.to_be_bytes().as_slice(), hex("", TIME_HEX).bytes);
    assert_eq!(TIME.unix_micros(), Some(1_704_067_200_000_001));
}

#[test]
fn begin() {
    let fields = [
        hex("kind", "42"),
        hex("final LSN", LSN_HEX),
        hex("commit timestamp", TIME_HEX),
        hex("transaction ID", "F00002BC"),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::Begin(begin));
        assert_eq!(begin.final_lsn, LSN);
        assert_eq!(begin.commit_time, TIME);
        assert_eq!(begin.xid, 0xF000_02BC);
    });
}

#[test]
fn commit() {
    let fields = [
        hex("kind", "43"),
        hex("flags", "00"),
        hex("commit LSN", LSN_HEX),
        hex("end LSN", END_HEX),
        hex("commit timestamp", TIME_HEX),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::Commit(commit));
        assert_eq!(commit.commit_lsn, LSN);
        assert_eq!(commit.end_lsn, END);
        assert_eq!(commit.commit_time, TIME);
    });
}

#[test]
fn origin() {
    let fields = [
        hex("kind", "4F"),
        hex("commit LSN on the origin", LSN_HEX),
        string("origin name", "żółw"),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::Origin(origin));
        assert_eq!(origin.commit_lsn, LSN);
        assert_eq!(origin.name, "żółw");
    });
}

/// In a stream block a transaction ID follows the kind byte.
fn with_xid(mut fields: Vec<Field>) -> Vec<Field> {
    fields.insert(1, hex("transaction ID", "800002BD"));
    fields
}

const XID: Option<u32> = Some(0x8000_02BD);

/// create table shop.orders (id int primary key, total numeric(10,2))
fn relation_fields() -> Vec<Field> {
    vec![
        hex("kind", "52"),
        hex("relation OID", "00004000"),
        string("namespace", "shop"),
        string("relation name", "orders"),
        hex("replica identity", "64"),
        hex("number of columns", "0002"),
        hex("column flags", "01"),
        string("column name", "id"),
        hex("column type OID", "00000017"),
        hex("column type modifier", "FFFFFFFF"),
        hex("column flags", "00"),
        string("column name", "total"),
        hex("column type OID", "000006A4"),
        hex("column type modifier", "000A0006"),
    ]
}

#[test]
fn relation() {
    let check = |xid| {
        move |m: Message<'_>| {
            expect!(m, Message::Relation(relation));
            assert_eq!(relation.xid, xid);
            assert_eq!(relation.oid, 0x4000);
            assert_eq!(relation.namespace, "shop");
            assert_eq!(relation.name, "orders");
            assert_eq!(relation.replica_identity, ReplicaIdentity::Default);
            assert_eq!(relation.columns.len(), 2);
            assert!(!relation.columns.is_empty());
            let columns: Vec<_> = relation
                .columns
                .iter()
                .map(|c| (c.flags, c.name, c.type_oid, c.type_modifier))
                .collect();
            let id = (1, PgString(b"id"), 23, -1);
            let total = (0, PgString(b"total"), 1700, (10 << 16 | 2) + 4);
            assert_eq!(columns, [id, total]);
        }
    };
    message(false, &relation_fields(), check(None));
    message(true, &with_xid(relation_fields()), check(XID));
}

#[test]
fn relation_without_columns_or_namespace() {
    for (letter, identity, name) in [
        ("64", ReplicaIdentity::Default, "default"),
        ("6E", ReplicaIdentity::Nothing, "nothing"),
        ("66", ReplicaIdentity::Full, "full"),
        ("69", ReplicaIdentity::Index, "index"),
    ] {
        let fields = [
            hex("kind", "52"),
            hex("relation OID", "FFFFFFFF"),
            string("namespace", ""),
            string("relation name", "empty"),
            hex("replica identity", letter),
            hex("number of columns", "0000"),
        ];
        message(false, &fields, |m| {
            expect!(m, Message::Relation(relation));
            assert_eq!(relation.oid, u32::MAX);
            assert!(relation.namespace.is_empty() && relation.columns.is_empty());
            assert_eq!(relation.replica_identity, identity);
            assert_eq!([identity.letter()].as_slice(), fields[4].bytes);
            assert_eq!(identity.name(), name);
        });
    }
}

#[test]
fn relation_of_1600_columns() {
    let mut fields = relation_fields();
    fields.truncate(5);
    fields.push(hex("number of columns", "0640"));
    for _ in 0..1600 {
        fields.push(raw("column flags", b"\0c\0\0\0\0\x17\xFF\xFF\xFF\xFF"));
    }
    let bytes = bytes(&fields);
    expect_relation_columns(&bytes, 1600);
}

fn expect_relation_columns(bytes: &[u8], count: usize) {
    let Ok(Message::Relation(relation)) = Message::parse(bytes, false) else {
        panic!("not a Relation")
    };
    assert_eq!(relation.columns.len(), count);
    assert_eq!(relation.columns.iter().count(), count);
}

#[test]
fn user_type() {
    let fields = || {
        vec![
            hex("kind", "59"),
            hex("type OID", "00004005"),
            string("namespace", "public"),
            string("type name", "mood"),
        ]
    };
    let check = |xid| {
        move |m: Message<'_>| {
            expect!(m, Message::Type(user_type));
            assert_eq!(user_type.xid, xid);
            assert_eq!(user_type.oid, 0x4005);
            assert_eq!(user_type.namespace, "public");
            assert_eq!(user_type.name, "mood");
        }
    };
    message(false, &fields(), check(None));
    message(true, &with_xid(fields()), check(XID));
}

/// (1, null, unchanged, '', a binary 0)
fn tuple_fields() -> Vec<Field> {
    vec![
        hex("number of columns", "0005"),
        hex("cell kind", "74"),
        hex("cell length", "00000001"),
        raw("cell", b"1"),
        hex("cell kind", "6E"),
        hex("cell kind", "75"),
        hex("cell kind", "74"),
        hex("cell length", "00000000"),
        hex("cell kind", "62"),
        hex("cell length", "00000004"),
        hex("cell", "00000000"),
    ]
}

const CELLS: [Cell<'_>; 5] = [
    Cell::Text(b"1"),
    Cell::Null,
    Cell::Unchanged,
    Cell::Text(b""),
    Cell::Binary(&[0; 4]),
];

/// (2, null)
fn key_fields() -> Vec<Field> {
    vec![
        hex("number of columns", "0002"),
        hex("cell kind", "74"),
        hex("cell length", "00000001"),
        raw("cell", b"2"),
        hex("cell kind", "6E"),
    ]
}

const KEY: [Cell<'_>; 2] = [Cell::Text(b"2"), Cell::Null];

/// Kind and relation, then tuples, each after its marker.
fn row_fields(kind: &str, tuples: Vec<(&str, Vec<Field>)>) -> Vec<Field> {
    let mut fields = vec![hex("kind", kind), hex("relation OID", "00004000")];
    for (marker, tuple) in tuples {
        fields.push(hex("tuple marker", marker));
        fields.extend(tuple);
    }
    fields
}

#[test]
fn insert() {
    let fields = || row_fields("49", vec![("4E", tuple_fields())]);
    let check = |xid| {
        move |m: Message<'_>| {
            expect!(m, Message::Insert(insert));
            assert_eq!((insert.xid, insert.relation), (xid, 0x4000));
            assert_eq!(insert.new.cells().collect::<Vec<_>>(), CELLS);
            assert_eq!((insert.new.len(), insert.new.byte_len()), (5, 22));
            assert!(!insert.new.is_empty());
        }
    };
    message(false, &fields(), check(None));
    message(true, &with_xid(fields()), check(XID));
}

#[test]
fn insert_of_no_columns() {
    let fields = row_fields("49", vec![("4E", vec![hex("number of columns", "0000")])]);
    message(false, &fields, |m| {
        expect!(m, Message::Insert(insert));
        assert!(insert.new.is_empty());
        assert_eq!(insert.new.cells().next(), None);
    });
}

#[test]
fn update() {
    let check = |xid, key: Option<bool>| {
        move |m: Message<'_>| {
            expect!(m, Message::Update(update));
            assert_eq!((update.xid, update.relation), (xid, 0x4000));
            assert_eq!(update.new.cells().collect::<Vec<_>>(), CELLS);
            let is_key = update.old.map(|old| matches!(old, OldTuple::Key(_)));
            assert_eq!(is_key, key);
            if let Some(old) = update.old {
                assert_eq!(old.tuple().cells().collect::<Vec<_>>(), KEY);
            }
        }
    };
    for (old, key) in [
        (None, None),
        (Some(("4B", key_fields as fn() -> _)), Some(true)),
        (Some(("4F", key_fields)), Some(false)),
    ] {
        let fields = || {
            let mut tuples: Vec<_> = old
                .map(|(marker, cells)| (marker, cells()))
                .into_iter()
                .collect();
            tuples.push(("4E", tuple_fields()));
            row_fields("55", tuples)
        };
        message(false, &fields(), check(None, key));
        message(true, &with_xid(fields()), check(XID, key));
    }
}

#[test]
fn delete() {
    for (marker, key) in [("4B", true), ("4F", false)] {
        let fields = || row_fields("44", vec![(marker, key_fields())]);
        let check = |xid| {
            move |m: Message<'_>| {
                expect!(m, Message::Delete(delete));
                assert_eq!((delete.xid, delete.relation), (xid, 0x4000));
                assert_eq!(matches!(delete.old, OldTuple::Key(_)), key);
                assert_eq!(delete.old.tuple().cells().collect::<Vec<_>>(), KEY);
            }
        };
        message(false, &fields(), check(None));
        message(true, &with_xid(fields()), check(XID));
    }
}

#[test]
fn truncate() {
    let fields = |options| {
        vec![
            hex("kind", "54"),
            hex("number of relations", "00000002"),
            hex("options", options),
            hex("relation OIDs", "00004000 FFFFFFFF"),
        ]
    };
    let check = |xid, cascade, restart| {
        move |m: Message<'_>| {
            expect!(m, Message::Truncate(truncate));
            assert_eq!(truncate.xid, xid);
            assert_eq!(truncate.cascade(), cascade);
            assert_eq!(truncate.restart_identity(), restart);
            assert_eq!(truncate.relations().len(), 2);
            assert_eq!(truncate.relations().collect::<Vec<_>>(), [0x4000, u32::MAX]);
        }
    };
    for (options, cascade, restart) in [
        ("00", false, false),
        ("01", true, false),
        ("02", false, true),
        ("03", true, true),
    ] {
        message(false, &fields(options), check(None, cascade, restart));
        message(
            true,
            &with_xid(fields(options)),
            check(XID, cascade, restart),
        );
    }
}

#[test]
fn logical_message() {
    let fields = |flags| {
        vec![
            hex("kind", "4D"),
            hex("flags", flags),
            hex("LSN", LSN_HEX),
            string("prefix", "audit"),
            hex("content length", "00000003"),
            raw("content", b"\0\xFF'"),
        ]
    };
    let check = |xid, transactional| {
        move |m: Message<'_>| {
            expect!(m, Message::Message(emitted));
            assert_eq!((emitted.xid, emitted.transactional), (xid, transactional));
            assert_eq!((emitted.lsn, emitted.prefix), (LSN, "audit".into()));
            assert_eq!(emitted.content, b"\0\xFF'");
        }
    };
    message(false, &fields("00"), check(None, false));
    message(false, &fields("01"), check(None, true));
    message(true, &with_xid(fields("01")), check(XID, true));
}

#[test]
fn logical_message_of_nothing() {
    let fields = [
        hex("kind", "4D"),
        hex("flags", "00"),
        hex("LSN", LSN_HEX),
        string("prefix", ""),
        hex("content length", "00000000"),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::Message(emitted));
        assert!(emitted.prefix.is_empty() && emitted.content.is_empty());
    });
}

#[test]
fn stream_start() {
    for (digits, first) in [("00", false), ("01", true)] {
        let fields = [
            hex("kind", "53"),
            hex("transaction ID", "F00002BC"),
            hex("first segment", digits),
        ];
        message(false, &fields, |m| {
            expect!(m, Message::StreamStart(start));
            assert_eq!((start.xid, start.first), (0xF000_02BC, first));
        });
    }
}

#[test]
fn stream_stop() {
    for in_stream in [false, true] {
        message(in_stream, &[hex("kind", "45")], |m| {
            assert_eq!(m, Message::StreamStop);
        });
    }
}

#[test]
fn stream_commit() {
    let fields = [
        hex("kind", "63"),
        hex("transaction ID", "F00002BC"),
        hex("flags", "00"),
        hex("commit LSN", LSN_HEX),
        hex("end LSN", END_HEX),
        hex("commit timestamp", TIME_HEX),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::StreamCommit(commit));
        assert_eq!(commit.xid, 0xF000_02BC);
        assert_eq!((commit.commit_lsn, commit.end_lsn), (LSN, END));
        assert_eq!(commit.commit_time, TIME);
    });
}

#[test]
fn stream_abort() {
    let short = || {
        vec![
            hex("kind", "41"),
            hex("transaction ID", "F00002BC"),
            hex("subtransaction ID", "F00002BD"),
        ]
    };
    let mut long = short();
    long.push(hex("abort LSN", LSN_HEX));
    long.push(hex("abort timestamp", TIME_HEX));
    let check = |abort| {
        move |m: Message<'_>| {
            expect!(m, Message::StreamAbort(stream_abort));
            assert_eq!(stream_abort.xid, 0xF000_02BC);
            assert_eq!(stream_abort.subxid, 0xF000_02BD);
            assert_eq!(stream_abort.abort, abort);
        }
    };
    message(false, &short(), check(None));
    message(
        false,
        &long,
        check(Some(AbortRecord {
            lsn: LSN,
            time: TIME,
        })),
    );

    let error = Message::parse(&[&bytes(&short())[..], &[0]].concat(), false).unwrap_err();
    let kind = ErrorKind::UnexpectedEnd {
        needed: 8,
        available: 1,
    };
    assert_eq!((error.kind, error.field), (kind, "abort LSN"));
}

/// LSN, end, time, transaction and GID: five messages have these fields.
fn prepared_fields(kind: &str, flags: bool, lsn: &'static str, time: &'static str) -> Vec<Field> {
    let mut fields = vec![hex("kind", kind)];
    if flags {
        fields.push(hex("flags", "00"));
    }
    fields.extend([
        hex(lsn, LSN_HEX),
        hex("end LSN", END_HEX),
        hex(time, TIME_HEX),
        hex("transaction ID", "F00002BC"),
        string("GID", "it's a gid"),
    ]);
    fields
}

#[test]
fn begin_prepare() {
    let fields = prepared_fields("62", false, "prepare LSN", "prepare timestamp");
    message(false, &fields, |m| {
        expect!(m, Message::BeginPrepare(begin));
        assert_eq!((begin.prepare_lsn, begin.end_lsn), (LSN, END));
        assert_eq!((begin.prepare_time, begin.xid), (TIME, 0xF000_02BC));
        assert_eq!(begin.gid, "it's a gid");
    });
}

#[test]
fn prepare() {
    let fields = prepared_fields("50", true, "prepare LSN", "prepare timestamp");
    message(false, &fields, |m| {
        expect!(m, Message::Prepare(prepare));
        assert_eq!((prepare.prepare_lsn, prepare.end_lsn), (LSN, END));
        assert_eq!((prepare.prepare_time, prepare.xid), (TIME, 0xF000_02BC));
        assert_eq!(prepare.gid, "it's a gid");
    });
}

#[test]
fn commit_prepared() {
    let fields = prepared_fields("4B", true, "commit LSN", "commit timestamp");
    message(false, &fields, |m| {
        expect!(m, Message::CommitPrepared(commit));
        assert_eq!((commit.commit_lsn, commit.end_lsn), (LSN, END));
        assert_eq!((commit.commit_time, commit.xid), (TIME, 0xF000_02BC));
        assert_eq!(commit.gid, "it's a gid");
    });
}

#[test]
fn rollback_prepared() {
    let fields = [
        hex("kind", "72"),
        hex("flags", "00"),
        hex("prepare end LSN", LSN_HEX),
        hex("rollback end LSN", END_HEX),
        hex("prepare timestamp", TIME_HEX),
        hex("rollback timestamp", "00000000 00000000"),
        hex("transaction ID", "F00002BC"),
        string("GID", ""),
    ];
    message(false, &fields, |m| {
        expect!(m, Message::RollbackPrepared(rollback));
        assert_eq!(rollback.prepare_end_lsn, LSN);
        assert_eq!(rollback.rollback_end_lsn, END);
        assert_eq!(rollback.prepare_time, TIME);
        assert_eq!(rollback.rollback_time, Timestamp(0));
        assert_eq!(rollback.xid, 0xF000_02BC);
        assert!(rollback.gid.is_empty());
    });
}

#[test]
fn stream_prepare() {
    let fields = prepared_fields("70", true, "prepare LSN", "prepare timestamp");
    message(false, &fields, |m| {
        expect!(m, Message::StreamPrepare(prepare));
        assert_eq!((prepare.prepare_lsn, prepare.end_lsn), (LSN, END));
        assert_eq!((prepare.prepare_time, prepare.xid), (TIME, 0xF000_02BC));
        assert_eq!(prepare.gid, "it's a gid");
    });
}

/// Checks a payload of CopyData, as [`message`] checks a message.
fn copy_data(name: &'static str, fields: &[Field], check: impl FnOnce(CopyData<'_>)) {
    let whole = bytes(fields);
    let parsed = CopyData::parse(&whole).expect("the case is valid");
    check(parsed);
    let mut again = Vec::new();
    parsed.encode(&mut again);
    assert_eq!(again, whole);
    for (length, error) in cuts(name, "CopyData", fields, 0) {
        assert_eq!(CopyData::parse(&whole[..length]), Err(error));
    }
    let long = [&whole[..], &[0]].concat();
    match CopyData::parse(&long) {
        // All bytes after its header are its message.
        Ok(CopyData::XLogData(data)) => assert_eq!(data.message, b"\0"),
        other => assert_eq!(other, Err(trailing(name, whole.len(), 1))),
    }
}

#[test]
fn xlog_data() {
    let fields = [
        hex("kind", "77"),
        hex("start of the WAL data", LSN_HEX),
        hex("end of WAL", END_HEX),
        hex("clock", TIME_HEX),
    ];
    copy_data("XLogData", &fields, |data| {
        let CopyData::XLogData(data) = data else {
            panic!("{data:?}")
        };
        assert_eq!((data.start, data.end, data.clock), (LSN, END, TIME));
        assert!(data.message.is_empty());
        let mut header = Vec::new();
        data.encode_header(&mut header);
        assert_eq!(header, bytes(&fields));
    });
}

#[test]
fn primary_keepalive() {
    for (digits, requested) in [("00", false), ("01", true)] {
        let fields = [
            hex("kind", "6B"),
            hex("end of WAL", LSN_HEX),
            hex("clock", TIME_HEX),
            hex("reply requested", digits),
        ];
        copy_data("Primary keepalive", &fields, |data| {
            let CopyData::PrimaryKeepalive(keepalive) = data else {
                panic!("{data:?}")
            };
            assert_eq!((keepalive.end, keepalive.clock), (LSN, TIME));
            assert_eq!(keepalive.reply_requested, requested);
        });
    }
}

#[test]
fn standby_status_update() {
    let fields = [
        hex("kind", "72"),
        hex("written LSN", END_HEX),
        hex("flushed LSN", LSN_HEX),
        hex("applied LSN", "00000000 00000000"),
        hex("clock", TIME_HEX),
        hex("reply requested", "01"),
    ];
    copy_data("Standby status update", &fields, |data| {
        let CopyData::StandbyStatusUpdate(update) = data else {
            panic!("{data:?}")
        };
        assert_eq!(
            (update.write, update.flush, update.apply),
            (END, LSN, Lsn(0))
        );
        assert_eq!((update.clock, update.reply_requested), (TIME, true));
    });
}

#[test]
fn hot_standby_feedback() {
    let fields = [
        hex("kind", "68"),
        hex("clock", TIME_HEX),
        hex("xmin", "F00002BC"),
        hex("xmin epoch", "00000001"),
        hex("catalog xmin", "F00002BD"),
        hex("catalog xmin epoch", "00000002"),
    ];
    copy_data("Hot standby feedback", &fields, |data| {
        let CopyData::HotStandbyFeedback(feedback) = data else {
            panic!("{data:?}")
        };
        assert_eq!(feedback.clock, TIME);
        assert_eq!((feedback.xmin, feedback.xmin_epoch), (0xF000_02BC, 1));
        assert_eq!(
            (feedback.catalog_xmin, feedback.catalog_xmin_epoch),
            (0xF000_02BD, 2)
        );
    });
}

/// Checks a backend message with its frame, as [`message`] checks a message.
fn backend(
    name: &'static str,
    tag: u8,
    fields: &[Field],
    check: impl for<'a> FnOnce(BackendMessage<'a>),
) {
    let body = bytes(fields);
    let frame = Frame { tag, body: &body };
    let mut whole = Vec::new();
    frame.encode(&mut whole);
    assert_eq!(whole[0], tag);
    assert_eq!(
        whole[1..5],
        u32::try_from(body.len() + 4)
            .expect("a case is short")
            .to_be_bytes()
    );
    assert_eq!(Frame::parse(&whole), Ok(Some((frame, whole.len()))));

    let parsed = BackendMessage::parse(frame).expect("the case is valid");
    assert_eq!((parsed.tag(), parsed.name()), (tag, name));
    let mut again = Vec::new();
    parsed.encode(&mut again);
    assert_eq!(again, whole);
    check(parsed);

    // A body has no kind byte, so its name is known from the start.
    for (length, error) in cuts(name, name, fields, Frame::HEADER) {
        let body = &body[..length];
        assert_eq!(BackendMessage::parse(Frame { tag, body }), Err(error));
    }
    let body = &[&body[..], &[0]].concat();
    assert_eq!(
        BackendMessage::parse(Frame { tag, body }),
        Err(trailing(name, whole.len(), 1))
    );
}

#[test]
fn copy_data_frame() {
    let keepalive = bytes(&[
        hex("", "6B"),
        hex("", LSN_HEX),
        hex("", TIME_HEX),
        hex("", "01"),
    ]);
    let frame = Frame {
        tag: b'd',
        body: &keepalive,
    };
    let parsed = BackendMessage::parse(frame).unwrap();
    let mut again = Vec::new();
    parsed.encode(&mut again);
    assert_eq!(again, [b"d\0\0\0\x16", &keepalive[..]].concat());
    assert!(matches!(
        parsed,
        BackendMessage::CopyData(CopyData::PrimaryKeepalive(_))
    ));
}

#[test]
fn copy_both_response() {
    let fields = [hex("format", "00"), hex("number of columns", "0000")];
    backend("CopyBothResponse", b'W', &fields, |m| {
        let BackendMessage::CopyBothResponse(response) = m else {
            panic!("{m:?}")
        };
        assert_eq!((response.format, response.columns().count()), (0, 0));
    });
    let fields = [
        hex("format", "01"),
        hex("number of columns", "0002"),
        hex("column formats", "0000 0001"),
    ];
    backend("CopyBothResponse", b'W', &fields, |m| {
        let BackendMessage::CopyBothResponse(response) = m else {
            panic!("{m:?}")
        };
        assert_eq!(response.format, 1);
        assert_eq!(response.columns().collect::<Vec<_>>(), [0, 1]);
    });
}

#[test]
fn copy_in_and_out_response() {
    let fields = [hex("format", "00"), hex("number of columns", "0000")];
    backend("CopyOutResponse", b'H', &fields, |m| {
        assert!(matches!(m, BackendMessage::CopyOutResponse(it) if it.format == 0));
    });
    backend("CopyInResponse", b'G', &fields, |m| {
        assert!(matches!(m, BackendMessage::CopyInResponse(it) if it.format == 0));
    });
}

/// The data after the number may have any length.
#[test]
fn authentication_and_key() {
    for (bytes, expected) in [
        (
            &b"R\0\0\0\x08\0\0\0\0"[..],
            BackendMessage::Authentication(Authentication {
                request: 0,
                data: b"",
            }),
        ),
        (
            b"R\0\0\0\x0e\0\0\0\x0aSCRAM\0",
            BackendMessage::Authentication(Authentication {
                request: 10,
                data: b"SCRAM\0",
            }),
        ),
        (
            b"K\0\0\0\x0c\0\0\x01\x02\x09\x08\x07\x06",
            BackendMessage::BackendKeyData(BackendKeyData {
                process_id: 258,
                secret: &[9, 8, 7, 6],
            }),
        ),
    ] {
        let (frame, size) = Frame::parse(bytes).unwrap().unwrap();
        assert_eq!(size, bytes.len());
        let parsed = BackendMessage::parse(frame).unwrap();
        assert_eq!(parsed, expected);
        let mut out = Vec::new();
        parsed.encode(&mut out);
        assert_eq!(out, bytes);
        let cut = &bytes[..8];
        let frame = Frame::new(cut).unwrap();
        assert!(BackendMessage::parse(frame).is_err());
    }
}

/// Bytes as the manual's page describes them.
#[test]
fn messages_of_a_client() {
    let parameters = [
        (PgString(b"user"), PgString(b"me")),
        (PgString(b"replication"), PgString(b"true")),
    ];
    let status = CopyData::StandbyStatusUpdate(StandbyStatusUpdate {
        write: Lsn(1),
        flush: Lsn(2),
        apply: Lsn(3),
        clock: Timestamp(4),
        reply_requested: true,
    });
    let mut expected = b"d\0\0\0\x26r".to_vec();
    for number in 1..=4_u64 {
        expected.extend_from_slice(&number.to_be_bytes());
    }
    expected.push(1);
    for (message, bytes) in [
        (
            FrontendMessage::Startup(0x3_0000, &parameters),
            b"\0\0\0\x22\0\x03\0\0user\0me\0replication\0true\0\0".to_vec(),
        ),
        (
            FrontendMessage::SslRequest,
            vec![0, 0, 0, 8, 0x04, 0xD2, 0x16, 0x2F],
        ),
        (
            FrontendMessage::CancelRequest(BackendKeyData {
                process_id: 258,
                secret: &[9, 8, 7, 6],
            }),
            vec![0, 0, 0, 16, 0x04, 0xD2, 0x16, 0x2E, 0, 0, 1, 2, 9, 8, 7, 6],
        ),
        (
            FrontendMessage::Password(PgString(b"md5x")),
            b"p\0\0\0\x09md5x\0".to_vec(),
        ),
        (
            FrontendMessage::SaslInitialResponse(PgString(b"S"), Some(b"n,,")),
            b"p\0\0\0\x0dS\0\0\0\0\x03n,,".to_vec(),
        ),
        (
            FrontendMessage::SaslInitialResponse(PgString(b"S"), None),
            b"p\0\0\0\x0aS\0\xff\xff\xff\xff".to_vec(),
        ),
        (
            FrontendMessage::SaslResponse(b"c=x"),
            b"p\0\0\0\x07c=x".to_vec(),
        ),
        (FrontendMessage::CopyData(status), expected),
        (FrontendMessage::CopyBytes(b"{}"), b"d\0\0\0\x06{}".to_vec()),
        (FrontendMessage::CopyDone, b"c\0\0\0\x04".to_vec()),
        (
            FrontendMessage::CopyFail(PgString(b"no")),
            b"f\0\0\0\x07no\0".to_vec(),
        ),
        (FrontendMessage::Terminate, b"X\0\0\0\x04".to_vec()),
    ] {
        // After another message.
        let mut out = b"Q".to_vec();
        message.encode(&mut out);
        assert_eq!(out.split_off(1), bytes, "{message:?}");
    }
}

#[test]
fn an_option_without_a_value() {
    let options = vec![
        PluginOption::Other("include-xids".into(), None),
        PluginOption::Other("x".into(), Some(String::new())),
    ];
    assert_eq!(
        ReplicationCommand::Start(StartReplication::new("s", Lsn(1), options))
            .text(14)
            .unwrap(),
        r#"START_REPLICATION SLOT "s" LOGICAL 0/1 ("include-xids", "x" '')"#
    );
}

#[test]
fn options_of_a_stream_are_refused_before_their_version() {
    for (option, since) in [
        (PluginOption::ProtoVersion(2), 14),
        (PluginOption::ProtoVersion(3), 15),
        (PluginOption::ProtoVersion(4), 16),
        (PluginOption::Streaming("on"), 14),
        (PluginOption::Streaming("parallel"), 16),
        (PluginOption::TwoPhase(false), 15),
        (PluginOption::Origin("any"), 16),
    ] {
        let start = StartReplication::new("s", Lsn(1), vec![option.clone()]);
        let command = ReplicationCommand::Start(start);
        for major in 14..=19 {
            let is_refused = matches!(
                command.text(major),
                Err(CommandError::Unsupported { since: it, .. }) if it == since
            );
            assert_eq!(is_refused, major < since, "{option:?} on {major}");
        }
    }
}

#[test]
fn error_and_notice_response() {
    let fields = [
        raw("field code", b"S"),
        string("field text", "WARNING"),
        raw("field code", b"C"),
        string("field text", "01000"),
        raw("field code", b"M"),
        string("field text", "skipped loading publication \"p\""),
        hex("field code", "00"),
    ];
    for (tag, name) in [(b'N', "NoticeResponse"), (b'E', "ErrorResponse")] {
        backend(name, tag, &fields, |m| {
            let (BackendMessage::NoticeResponse(fields) | BackendMessage::ErrorResponse(fields)) =
                m
            else {
                panic!("{m:?}")
            };
            assert_eq!(fields.sqlstate(), Some("01000".into()));
            assert_eq!(fields.get(b'C'), fields.sqlstate());
            assert_eq!(fields.get(b'D'), None);
            assert_eq!(
                fields.iter().map(|(code, _)| code).collect::<Vec<_>>(),
                b"SCM"
            );
        });
        backend(name, tag, &[hex("field code", "00")], |_| {});
    }
}

#[test]
fn parameter_status() {
    let fields = [string("name", "TimeZone"), string("value", "UTC")];
    backend("ParameterStatus", b'S', &fields, |m| {
        let BackendMessage::ParameterStatus(status) = m else {
            panic!("{m:?}")
        };
        assert_eq!(
            (status.name, status.value),
            ("TimeZone".into(), "UTC".into())
        );
    });
}

#[test]
fn notification_response() {
    let fields = [
        hex("process ID", "0000FFFF"),
        string("channel", "c"),
        string("payload", "p"),
    ];
    backend("NotificationResponse", b'A', &fields, |m| {
        let BackendMessage::NotificationResponse(notification) = m else {
            panic!("{m:?}")
        };
        assert_eq!(notification.process_id, 0xFFFF);
        assert_eq!(
            (notification.channel, notification.payload),
            ("c".into(), "p".into())
        );
    });
}

#[test]
fn copy_done() {
    backend("CopyDone", b'c', &[], |m| {
        assert_eq!(m, BackendMessage::CopyDone);
    });
}

#[test]
fn command_complete() {
    backend(
        "CommandComplete",
        b'C',
        &[string("command tag", "COPY 0")],
        |m| {
            assert_eq!(m, BackendMessage::CommandComplete("COPY 0".into()));
        },
    );
}

#[test]
fn ready_for_query() {
    backend(
        "ReadyForQuery",
        b'Z',
        &[raw("transaction status", b"I")],
        |m| {
            assert_eq!(m, BackendMessage::ReadyForQuery(b'I'));
        },
    );
}

#[test]
fn row_description() {
    let fields = [
        hex("number of columns", "0001"),
        string("column name", "next_tli"),
        hex("table OID", "00000000"),
        hex("attribute number", "FFFF"),
        hex("type OID", "00000014"),
        hex("type size", "0008"),
        hex("type modifier", "FFFFFFFF"),
        hex("format", "0001"),
    ];
    backend("RowDescription", b'T', &fields, |m| {
        let BackendMessage::RowDescription(row) = m else {
            panic!("{m:?}")
        };
        let [field] = row.fields() else {
            panic!("{row:?}")
        };
        assert_eq!((field.name, field.table), ("next_tli".into(), 0));
        assert_eq!(
            (field.attribute, field.type_oid, field.type_size),
            (-1, 20, 8)
        );
        assert_eq!((field.type_modifier, field.format), (-1, 1));
    });
    backend(
        "RowDescription",
        b'T',
        &[hex("number of columns", "0000")],
        |_| {},
    );
}

#[test]
fn data_row() {
    let fields = [
        hex("number of columns", "0003"),
        hex("value length", "00000001"),
        raw("value", b"2"),
        hex("value length", "FFFFFFFF"),
        hex("value length", "00000000"),
    ];
    backend("DataRow", b'D', &fields, |m| {
        let BackendMessage::DataRow(row) = m else {
            panic!("{m:?}")
        };
        assert_eq!(row.values(), [Some(&b"2"[..]), None, Some(b"")]);
    });
}

#[test]
fn cells_are_encoded_as_they_are_parsed() {
    let cells = [
        Cell::Null,
        Cell::Text(b"text"),
        Cell::Unchanged,
        Cell::Binary(&[0, 1, 2]),
        Cell::Text(b""),
    ];
    let mut buffer = b"before".to_vec();
    let new = walrow_wire::Tuple::encoded(cells, &mut buffer);
    let insert = Message::Insert(walrow_wire::Insert {
        xid: None,
        relation: 7,
        new,
    });
    let mut encoded = Vec::new();
    insert.encode(&mut encoded);
    let expected = walrow_testkit::hex(
        "49 00000007 4e 0005 6e 74 00000004 74657874 75 62 00000003 000102 74 00000000",
    );
    assert_eq!(encoded, expected);
    assert_eq!(Message::parse(&encoded, false), Ok(insert));
    assert!(new.cells().eq(cells));
}
