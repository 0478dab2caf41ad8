//! Rows of COPY. The bytes are those that PostgreSQL 16 sends for
//! `COPY (SELECT 1, E'a\tb\nc\\d\be\vf\fg\rh', NULL::text, '\N'::text, '') TO STDOUT`.
#![expect(
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use walrow_wire::{Cell, CopyData, CopyRows, ErrorKind, Frame, Message, Timestamp};

const TEXT: &[u8] = b"1\ta\\tb\\nc\\\\d\\be\\vf\\fg\\rh\t\\N\t\\\\N\t\n";
const BINARY: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0\
\0\x05\0\0\0\x04\0\0\0\x01\0\0\0\x0fa\tb\nc\\d\x08e\x0bf\x0cg\rh\xff\xff\xff\xff\0\0\0\x02\\N\0\0\0\0\
\xff\xff";
const CELL: &[u8] = b"a\tb\nc\\d\x08e\x0bf\x0cg\rh";

/// The cells of each Insert.
fn rows(mut frames: &[u8]) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    while let Some((frame, used)) = Frame::parse(frames).unwrap() {
        let CopyData::XLogData(data) = CopyData::parse(frame.body).unwrap() else {
            panic!("not XLogData");
        };
        let Message::Insert(insert) = Message::parse(data.message, false).unwrap() else {
            panic!("not an Insert");
        };
        assert_eq!(insert.relation, 7);
        found.push(insert.new.cells().map(|cell| format!("{cell:?}")).collect());
        frames = &frames[used..];
    }
    found
}

#[test]
fn rows_of_both_formats_are_inserts() {
    let mut out = Vec::new();
    let count = CopyRows::text(7, 5).encode(TEXT, Timestamp(0), &mut out);
    assert_eq!(count, Ok(1));
    let expected = [
        Cell::Text(b"1"),
        Cell::Text(CELL),
        Cell::Null,
        Cell::Text(b"\\N"),
        Cell::Text(b""),
    ];
    assert_eq!(rows(&out), [expected.map(|cell| format!("{cell:?}"))]);

    let mut copy = CopyRows::binary(7, 5);
    out.clear();
    // A server sends the header with the first row, and the trailer by itself.
    let (first, last) = BINARY.split_at(BINARY.len() - 2);
    assert_eq!(copy.encode(first, Timestamp(0), &mut out), Ok(1));
    assert_eq!(copy.encode(last, Timestamp(0), &mut out), Ok(0));
    let expected = [
        Cell::Binary(b"\0\0\0\x01"),
        Cell::Binary(CELL),
        Cell::Null,
        Cell::Binary(b"\\N"),
        Cell::Binary(b""),
    ];
    assert_eq!(rows(&out), [expected.map(|cell| format!("{cell:?}"))]);
    // Nothing may follow.
    let error = copy.encode(b"\0\x05", Timestamp(0), &mut out).unwrap_err();
    assert_eq!(error.kind, ErrorKind::TrailingBytes { count: 2 });
    assert_eq!(error.offset, BINARY.len());
}

#[test]
fn rows_without_columns_are_counted() {
    let mut out = Vec::new();
    let count = CopyRows::text(7, 0).encode(b"\n\n", Timestamp(0), &mut out);
    assert_eq!(count, Ok(2));
    assert_eq!(rows(&out), [Vec::<String>::new(), Vec::new()]);
}

#[test]
fn every_cut_and_another_number_of_columns_is_an_error() {
    let mut out = Vec::new();
    for (bytes, copy) in [
        (TEXT, CopyRows::text(7, 5)),
        (BINARY, CopyRows::binary(7, 5)),
    ] {
        for cut in 1..bytes.len() {
            let found = copy.clone().encode(&bytes[..cut], Timestamp(0), &mut out);
            // Between the header, the rows and the trailer, it is whole.
            let is_whole = bytes == BINARY && [19, bytes.len() - 2].contains(&cut);
            assert_eq!(found.is_ok(), is_whole, "cut at {cut}");
        }
        rows(&out);
        out.clear();
    }
    for columns in [0, 4, 6] {
        let text = CopyRows::text(7, columns).encode(TEXT, Timestamp(0), &mut out);
        let binary = CopyRows::binary(7, columns).encode(BINARY, Timestamp(0), &mut out);
        assert!(text.is_err() && binary.is_err(), "{columns} columns");
        assert!(out.is_empty());
    }
    let error = CopyRows::text(7, 1).encode(b"a\nb\\xc\n", Timestamp(0), &mut out);
    assert_eq!(error.unwrap_err().offset, 3);
}
