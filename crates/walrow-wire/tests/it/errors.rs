//! Bytes that do not follow the protocol: each kind of error, with the byte, message and field that
//! it names.

#![expect(clippy::expect_used, reason = "a panic is how a test fails")]

use walrow_testkit::allocation::{Counting, allocated};
use walrow_wire::{BackendMessage, CopyData, Error, ErrorKind, Frame, Lsn, Message, XLogData};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn message(bytes: &[u8]) -> Error {
    let (allocations, result) = allocated(|| Message::parse(bytes, false).map(|_| ()));
    assert_eq!(allocations, 0, "messages are borrowed");
    result.expect_err("the case is invalid")
}

fn copy_data(payload: &[u8]) -> Error {
    CopyData::parse(payload).expect_err("the case is invalid")
}

fn backend(tag: u8, body: &[u8]) -> Error {
    BackendMessage::parse(Frame { tag, body }).expect_err("the case is invalid")
}

fn error(kind: ErrorKind, offset: usize, message: &'static str, field: &'static str) -> Error {
    Error::new(kind, offset, message, field)
}

fn end(needed: u64, available: u64) -> ErrorKind {
    ErrorKind::UnexpectedEnd { needed, available }
}

#[test]
fn an_empty_message_has_no_kind() {
    assert_eq!(message(b""), error(end(1, 0), 0, "message", "kind"));
    assert_eq!(copy_data(b""), error(end(1, 0), 0, "CopyData", "kind"));
}

#[test]
fn unknown_kind_is_named() {
    for kind in 0..=u8::MAX {
        let known = b"BCORYIUDTMSEcAbPKrp".contains(&kind);
        let unknown = error(ErrorKind::UnknownKind(kind), 0, "message", "kind");
        assert_eq!(
            Message::parse(&[kind], false) == Err(unknown),
            !known,
            "{kind}"
        );

        let known = b"wkrh".contains(&kind);
        let unknown = error(ErrorKind::UnknownKind(kind), 0, "CopyData", "kind");
        assert_eq!(CopyData::parse(&[kind]) == Err(unknown), !known, "{kind}");

        let known = b"dWNSEcCZTDAHGRK".contains(&kind);
        let unknown = error(ErrorKind::UnknownKind(kind), 0, "frame", "type byte");
        let one = [kind];
        let first = Frame::parse(&one);
        assert_eq!(
            first,
            if known {
                Ok(None)
            } else {
                Err(unknown.clone())
            }
        );
        let whole = [kind, 0, 0, 0, 4];
        assert_eq!(Frame::parse(&whole).is_ok(), known);
        if !known {
            assert_eq!(backend(kind, b""), unknown);
        }
    }
}

#[test]
fn frame_length_below_itself_or_beyond_a_gibibyte_is_refused_at_once() {
    for (length, claimed) in [
        (0_u32, 0),
        (3, 3),
        (0x4000_0001, 0x4000_0001),
        (0x7FFF_FFFF, 0x7FFF_FFFF),
        (0x8000_0000, -0x8000_0000),
        (0xFFFF_FFFF, -1),
    ] {
        let bytes = [&b"d"[..], &length.to_be_bytes()].concat();
        let kind = ErrorKind::InvalidLength(claimed);
        assert_eq!(Frame::parse(&bytes), Err(error(kind, 1, "frame", "length")));
    }
    // A frame with the largest valid length needs more bytes.
    assert_eq!(Frame::parse(b"d\x40\0\0\0"), Ok(None));
    assert_eq!(Frame::size(b"d\x40\0\0\0"), Ok(Some((1 << 30) + 1)));
    assert_eq!(Frame::size(b"d\x40\0\0"), Ok(None));
    assert_eq!(Frame::size(b""), Ok(None));
}

#[test]
fn cell_length_below_zero() {
    let bytes = b"I\0\0\x40\0N\0\x01t\xFF\xFF\xFF\xFF";
    let kind = ErrorKind::InvalidLength(-1);
    assert_eq!(message(bytes), error(kind, 9, "Insert", "cell length"));
    let bytes = b"I\0\0\x40\0N\0\x01b\x80\0\0\0";
    let kind = ErrorKind::InvalidLength(i32::MIN.into());
    assert_eq!(message(bytes), error(kind, 9, "Insert", "cell length"));
}

#[test]
fn cell_length_beyond_the_message() {
    let bytes = b"I\0\0\x40\0N\0\x01t\x7F\xFF\xFF\xFFabc";
    let kind = end(0x7FFF_FFFF, 3);
    assert_eq!(message(bytes), error(kind, 13, "Insert", "cell"));
}

#[test]
fn value_length_below_minus_one() {
    let error_ = backend(b'D', b"\0\x01\xFF\xFF\xFF\xFE");
    let kind = ErrorKind::InvalidLength(-2);
    assert_eq!(error_, error(kind, 7, "DataRow", "value length"));
}

#[test]
fn value_length_beyond_the_message() {
    let error_ = backend(b'D', b"\0\x01\x7F\xFF\xFF\xFFab");
    assert_eq!(error_, error(end(0x7FFF_FFFF, 2), 11, "DataRow", "value"));
}

#[test]
fn content_length_beyond_the_message() {
    let bytes = b"M\0\0\0\0\0\0\0\0\0\0\xFF\xFF\xFF\xFFabc";
    let kind = end(0xFFFF_FFFF, 3);
    assert_eq!(message(bytes), error(kind, 15, "Message", "content"));
}

#[test]
fn count_of_cells_beyond_the_message() {
    let bytes = b"I\0\0\x40\0N\xFF\xFFnn";
    assert_eq!(message(bytes), error(end(1, 0), 10, "Insert", "cell kind"));
}

#[test]
fn count_of_columns_beyond_the_message() {
    let bytes = b"R\0\0\x40\0\0t\0d\xFF\xFF";
    assert_eq!(
        message(bytes),
        error(end(1, 0), 11, "Relation", "column flags")
    );
}

#[test]
fn count_of_relations_beyond_the_message() {
    let bytes = b"T\xFF\xFF\xFF\xFF\0\0\0\x40\0";
    let kind = end(0xFFFF_FFFF * 4, 4);
    assert_eq!(message(bytes), error(kind, 6, "Truncate", "relation OIDs"));
}

#[test]
fn count_of_copy_columns_beyond_the_message() {
    let error_ = backend(b'W', b"\0\xFF\xFF\0");
    let kind = end(0xFFFF * 2, 1);
    assert_eq!(error_, error(kind, 8, "CopyBothResponse", "column formats"));
}

#[test]
fn no_count_or_length_reserves_memory() {
    // Memory is reserved for the bytes that are there, not for the claimed length.
    for (tag, body) in [
        (b'D', &b"\xFF\xFF\0\0\0\0"[..]),
        (b'T', b"\xFF\xFFa\0"),
        (b'W', b"\0\xFF\xFF"),
        (b'd', b"w"),
        (b'N', b"Sa\0"),
    ] {
        let (bytes, result) = allocated(|| BackendMessage::parse(Frame { tag, body }).map(|_| ()));
        assert!(result.is_err());
        assert!(bytes < 512, "{bytes} bytes for {}", char::from(tag));
    }
    let (bytes, _) = allocated(|| Frame::parse(b"d\x3F\xFF\xFF\xFF"));
    assert_eq!(bytes, 0);
}

#[test]
fn unknown_cell_kind() {
    let bytes = b"I\0\0\x40\0N\0\x02nx";
    let kind = ErrorKind::UnknownKind(b'x');
    assert_eq!(message(bytes), error(kind, 9, "Insert", "cell kind"));
}

#[test]
fn wrong_tuple_marker() {
    for (bytes, message_name, offset, expected) in [
        (&b"I\0\0\x40\0K\0\0"[..], "Insert", 5, "N"),
        (b"I\0\0\x40\0O\0\0", "Insert", 5, "N"),
        (b"U\0\0\x40\0x\0\0", "Update", 5, "K, O or N"),
        (b"U\0\0\x40\0K\0\0O\0\0", "Update", 8, "N"),
        (b"U\0\0\x40\0O\0\0K\0\0", "Update", 8, "N"),
        (b"D\0\0\x40\0N\0\0", "Delete", 5, "K or O"),
    ] {
        let kind = ErrorKind::InvalidValue { expected };
        assert_eq!(
            message(bytes),
            error(kind, offset, message_name, "tuple marker")
        );
    }
}

#[test]
fn update_without_its_new_row() {
    let bytes = b"U\0\0\x40\0K\0\x01n";
    assert_eq!(
        message(bytes),
        error(end(1, 0), 9, "Update", "tuple marker")
    );
}

#[test]
fn flags_that_do_not_exist() {
    for (kind, offset, name) in [
        (b'C', 1, "Commit"),
        (b'P', 1, "Prepare"),
        (b'K', 1, "Commit Prepared"),
        (b'r', 1, "Rollback Prepared"),
        (b'p', 1, "Stream Prepare"),
        (b'c', 5, "Stream Commit"),
    ] {
        let mut bytes = [0; 50];
        bytes[0] = kind;
        bytes[offset] = 1;
        let expected = ErrorKind::InvalidValue { expected: "0" };
        assert_eq!(message(&bytes), error(expected, offset, name, "flags"));
    }
}

#[test]
fn flags_that_are_neither_0_nor_1() {
    let kind = ErrorKind::InvalidValue { expected: "0 or 1" };
    let bytes = b"M\x02\0\0\0\0\0\0\0\0\0\0\0\0\0";
    assert_eq!(message(bytes), error(kind, 1, "Message", "flags"));
    let bytes = b"S\0\0\0\x01\x02";
    assert_eq!(
        message(bytes),
        error(kind, 5, "Stream Start", "first segment")
    );
    let mut keepalive = [0; 18];
    keepalive[0] = b'k';
    keepalive[17] = 2;
    let expected = error(kind, 17, "Primary keepalive", "reply requested");
    assert_eq!(copy_data(&keepalive), expected);
    let expected = error(kind, 5, "CopyBothResponse", "format");
    assert_eq!(backend(b'W', b"\x02\0\0"), expected);
}

#[test]
fn replica_identity_that_does_not_exist() {
    let kind = ErrorKind::InvalidValue {
        expected: "d, n, f or i",
    };
    let bytes = b"R\0\0\x40\0\0t\0x\0\0";
    assert_eq!(
        message(bytes),
        error(kind, 8, "Relation", "replica identity")
    );
}

#[test]
fn string_without_its_zero() {
    let kind = ErrorKind::UnterminatedString;
    let bytes = b"R\0\0\x40\0\0orders";
    assert_eq!(message(bytes), error(kind, 6, "Relation", "relation name"));
    let bytes = b"O\0\0\0\0\0\0\0\0";
    assert_eq!(message(bytes), error(kind, 9, "Origin", "origin name"));
    let error_ = backend(b'C', b"COPY 0");
    assert_eq!(error_, error(kind, 5, "CommandComplete", "command tag"));
}

#[test]
fn bytes_after_the_last_field() {
    let kind = ErrorKind::TrailingBytes { count: 3 };
    let field = "end of the message";
    assert_eq!(message(b"Eabc"), error(kind, 1, "Stream Stop", field));
    assert_eq!(
        message(b"I\0\0\x40\0N\0\0abc"),
        error(kind, 8, "Insert", field)
    );
    assert_eq!(backend(b'c', b"abc"), error(kind, 5, "CopyDone", field));
    assert_eq!(
        backend(b'N', b"\0abc"),
        error(kind, 6, "NoticeResponse", field)
    );
}

#[test]
fn stream_state_decides_what_the_bytes_mean() {
    // Outside a stream block, the transaction ID would be read as the relation.
    let bytes = b"I\0\0\x02\xBC\0\0\x40\0N\0\0";
    let Ok(Message::Insert(insert)) = Message::parse(bytes, true) else {
        panic!("it is valid in a block")
    };
    assert_eq!((insert.xid, insert.relation), (Some(700), 0x4000));
    let kind = ErrorKind::InvalidValue { expected: "N" };
    assert_eq!(message(bytes), error(kind, 5, "Insert", "tuple marker"));
}

fn data(start: u64, end: u64, message: &[u8]) -> XLogData<'_> {
    let (start, end) = (Lsn(start), Lsn(end));
    XLogData {
        start,
        end,
        clock: walrow_wire::Timestamp(0),
        message,
    }
}

#[test]
fn message_of_xlog_data_counts_from_the_payload() {
    let parsed = data(0x1000, 0x1000, b"Eabc").message(false);
    let kind = ErrorKind::TrailingBytes { count: 3 };
    assert_eq!(
        parsed,
        Err(error(kind, 26, "Stream Stop", "end of the message"))
    );
    assert_eq!(data(0, 0, b"E").message(false), Ok(Message::StreamStop));
}

#[test]
fn wal_is_distinguished_from_pgoutput() {
    let physical = Err(error(ErrorKind::PhysicalStream, 25, "XLogData", "data"));
    // A WAL page of a little-endian server, one of a big-endian server, and the middle of a page.
    for wal in [b"\x13\xD1\x05\0", b"\xD1\x13\0\x05", b"\0\0\0\0"] {
        assert_eq!(data(0x1000, 0x2000, wal).message(false), physical);
    }
    // Invalid bytes of a logical stream are never reported as WAL, whatever they look like.
    for garbage in [b"\0\0\0\0", b"?\xD0ab", b"\xD1\x13\0\x05"] {
        let kind = ErrorKind::UnknownKind(garbage[0]);
        assert_eq!(
            data(0x1000, 0x1000, garbage).message(false),
            Err(error(kind, 25, "message", "kind"))
        );
        assert!(data(0, 0, garbage).message(false) != physical);
        assert!(data(0, 0x2000, garbage).message(false) != physical);
    }
}

#[test]
fn errors_read_well_and_hold_no_data() {
    for (error, text) in [
        (
            message(b"R\0\0\x40\0\0secret"),
            "Relation: relation name is not terminated (byte 6)",
        ),
        (
            message(b"I\0\0\x40\0N\0\x01t\0\0\0\x09secret"),
            "Insert: cell needs 9 bytes, 6 are left (byte 13)",
        ),
        (
            message(b"Esecret"),
            "Stream Stop: end of the message is followed by 6 extra bytes (byte 1)",
        ),
        (
            message(b"x"),
            "message: kind 0x78 is not one of the protocol's (byte 0)",
        ),
        (
            message(b"I\0\0\x40\0N\0\x01t\xFF\xFF\xFF\xFF"),
            "Insert: cell length -1 is impossible (byte 9)",
        ),
        (
            message(b"I\0\0\x40\0K"),
            "Insert: tuple marker is not N (byte 5)",
        ),
        (
            data(1, 2, b"secret").message(false).expect_err("WAL"),
            "XLogData: data is WAL of a physical replication stream; start it with SLOT … \
             LOGICAL and the pgoutput plugin (byte 25)",
        ),
    ] {
        assert_eq!(error.to_string(), text);
        assert_eq!(
            error.clone().at(100).offset,
            error.offset.saturating_add(100)
        );
    }
}
