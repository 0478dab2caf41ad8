//! The splitter of bare messages.

use proptest::collection::vec;
use proptest::prelude::*;
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, captures, for_every_cut, in_chunks, in_recvlogical};
use walrow_wire::{Error, ErrorKind, Message, Piece, Splitter, Xid};

/// How a stream ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    Whole,
    Cut,
    TooLarge(usize),
    Error(Error),
}

/// A message and the stream block that it lies in.
type Found = (Vec<u8>, Option<Xid>);

/// All whole messages, the stream blocks that they lie in, and how the stream ends.
fn split<'a>(limit: usize, pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Found>, End) {
    let mut splitter = Splitter::new(limit);
    let (mut found, mut message) = (Vec::new(), Vec::new());
    let mut fed = false;
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            fed = true;
            match splitter.next(&mut rest) {
                Ok(Piece::Part(bytes)) => {
                    assert!(rest.is_empty(), "a part is all of the input");
                    message.extend_from_slice(bytes);
                }
                Ok(Piece::Last(bytes)) => {
                    message.extend_from_slice(bytes);
                    found.push((std::mem::take(&mut message), splitter.block()));
                    fed = false;
                }
                Ok(Piece::TooLarge(size)) => return (found, End::TooLarge(size)),
                Err(error) => return (found, End::Error(error)),
            }
        }
    }
    (found, if fed { End::Cut } else { End::Whole })
}

/// The message, and a newline.
fn line(message: &[u8]) -> Vec<u8> {
    [message, b"\n"].concat()
}

const STREAM_START: &[u8] = b"S\0\0\x02\xbc\x01\n";

#[test]
fn captures_are_split_where_their_messages_end() {
    let mut seen = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        let lines = in_recvlogical(&capture.bytes);
        let bytes = lines.concat();
        let expected: Vec<_> = lines.iter().map(|it| &it[..it.len() - 1]).collect();
        let whole = split(usize::MAX, [&*bytes]);
        let found: Vec<_> = whole.0.iter().map(|(message, _)| &**message).collect();
        assert_eq!(
            (found, &whole.1),
            (expected, &End::Whole),
            "{}",
            capture.name
        );
        for (message, block) in &whole.0 {
            let parsed = Message::parse(message, block.is_some());
            assert!(parsed.is_ok(), "{}: {parsed:?}", capture.name);
        }
        for sizes in [[1, 1], [3, 7], [64, 1]] {
            assert_eq!(split(usize::MAX, in_chunks(&bytes, &sizes)), whole);
        }
        seen += lines.len();
    }
    assert!(seen > 9_000, "{seen} messages");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_cut_and_any_limit_give_the_same_messages(
        history in arbitrary::<History>(1024),
        sizes in vec(1_usize..80, 1..5),
        limit in 0_usize..200,
    ) {
        let lines = in_recvlogical(&history.delivered().bytes());
        let bytes = lines.concat();
        let whole = split(usize::MAX, [&*bytes]);
        prop_assert_eq!(whole.0.len(), lines.len());
        prop_assert_eq!(&split(usize::MAX, in_chunks(&bytes, &sizes)), &whole);

        let limited = split(limit, [&*bytes]);
        let fits = lines.iter().take_while(|it| it.len() <= limit.saturating_add(1)).count();
        prop_assert_eq!(&limited.0, &whole.0[..fits]);
        if fits < lines.len() {
            let size = lines[fits].len();
            let is_known = |it: &End| matches!(it, End::TooLarge(known) if (limit..size).contains(known) && *known != limit);
            prop_assert!(is_known(&limited.1), "{:?} of {size}", limited.1);
        }
        prop_assert_eq!(&split(limit, in_chunks(&bytes, &sizes)), &limited);
        prop_assert_eq!(&split(limit, in_chunks(&bytes, &[1])), &limited);
    }

    #[test]
    fn arbitrary_bytes_end_the_same_in_any_cut(
        bytes in vec(any::<u8>(), 0..120),
        kind in proptest::sample::select(b"BCORYIUDTMSEcAbPKrp".to_vec()),
        in_block in any::<bool>(),
        limit in 0_usize..120,
    ) {
        let start = if in_block { STREAM_START } else { b"" };
        let bytes = [start, &[kind], &bytes[..]].concat();
        for limit in [limit, usize::MAX] {
            let whole = split(limit, [&*bytes]);
            for_every_cut(&bytes, |head, tail| {
                assert_eq!(split(limit, [head, tail]), whole);
            });
            assert_eq!(split(limit, in_chunks(&bytes, &[1])), whole);
        }
    }
}

#[test]
fn values_may_contain_newlines() {
    let insert = b"I\0\0\x40\0N\0\x02t\0\0\0\x03\n\n\nb\0\0\0\x01\n";
    let content = b"M\0\0\0\0\0\0\0\0\n\n\0\0\0\0\x02\n\n";
    let bytes = [line(insert), line(content)].concat();
    let (found, end) = split(usize::MAX, [&*bytes]);
    assert_eq!(found, [(insert.to_vec(), None), (content.to_vec(), None)]);
    assert_eq!(end, End::Whole);
}

#[test]
fn abort_has_an_lsn_where_no_newline_follows() {
    let short = b"A\0\0\x02\xbc\0\0\x02\xbd";
    let long = [&short[..], b"\0\0\0\0\x01\n\n\n\0\x02\n\n\n\n\n\n"].concat();
    let bytes = [line(short), line(&long), line(short)].concat();
    for size in [1, 9, 10, 100] {
        let (found, end) = split(usize::MAX, in_chunks(&bytes, &[size]));
        let found: Vec<_> = found.into_iter().map(|(message, _)| message).collect();
        assert_eq!(found, [short.to_vec(), long.clone(), short.to_vec()]);
        assert_eq!(end, End::Whole);
    }
}

#[test]
fn message_that_cannot_come_in_a_block_ends_it() {
    let delete = b"D\0\0\x02\xbd\0\0\x40\0K\0\x01n";
    let inside = b"M\0\0\x02\xbc\x01\0\0\0\0\0\0\0\x09p\0\0\0\0\0";
    // Without a transaction ID: its flags and the start of its LSN come instead.
    let outside = b"M\0\0\0\0\0\0\0\0\x09p\0\0\0\0\0";
    let begin = b"B\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0\0\0\x02\xbe";
    for next in [&outside[..], begin] {
        let lines = [line(delete), line(inside), line(next), line(outside)].concat();
        let bytes = [STREAM_START, &lines].concat();
        for size in [1, 5, 1000] {
            let (found, end) = split(usize::MAX, in_chunks(&bytes, &[size]));
            let blocks: Vec<_> = found.iter().map(|(_, block)| *block).collect();
            assert_eq!(blocks, [None, Some(700), Some(700), None, None]);
            assert_eq!(end, End::Whole);
        }
    }
}

#[test]
fn faults_name_message_field_and_byte() {
    let case = |bytes: &[u8], message, field, offset, kind| {
        let expected = Error::new(kind, offset, message, field);
        assert_eq!(split(usize::MAX, [bytes]).1, End::Error(expected.clone()));
        assert_eq!(
            split(usize::MAX, in_chunks(bytes, &[1])).1,
            End::Error(expected)
        );
    };
    let value = |expected| ErrorKind::InvalidValue { expected };
    let newline = value("the newline that pg_recvlogical writes after each message");
    // A connection's bytes instead of a file of pg_recvlogical.
    case(b"d\0\0", "message", "kind", 0, ErrorKind::UnknownKind(b'd'));
    case(b"E\r\n", "Stream Stop", "end of the message", 1, newline);
    case(b"I\0\0\x40\0K", "Insert", "tuple marker", 5, value("N"));
    case(
        b"D\0\0\x40\0N",
        "Delete",
        "tuple marker",
        5,
        value("K or O"),
    );
    case(
        b"U\0\0\x40\0X",
        "Update",
        "tuple marker",
        5,
        value("K, O or N"),
    );
    case(
        b"U\0\0\x40\0K\0\x01nK",
        "Update",
        "tuple marker",
        9,
        value("N"),
    );
    let kind = ErrorKind::UnknownKind(b'x');
    case(b"I\0\0\x40\0N\0\x02nx", "Insert", "cell kind", 9, kind);
    let length = ErrorKind::InvalidLength(-2);
    let bytes = b"I\0\0\x40\0N\0\x01t\xff\xff\xff\xfe";
    case(bytes, "Insert", "cell length", 9, length);
}

#[test]
fn claimed_size_beyond_the_limit_is_found_at_the_claim() {
    let claims: [(&[u8], usize); 3] = [
        (b"I\0\0\x40\0N\0\x01t\x7f\xff\xff\xff", 13 + 0x7fff_ffff),
        (b"T\xff\xff\xff\xff", 6 + 4 * 0xffff_ffff),
        (b"M\0\0\0\0\0\0\0\0\0\0\x40\0\0\0", 15 + 0x4000_0000),
    ];
    for (bytes, size) in claims {
        assert_eq!(split(usize::MAX, [bytes]).1, End::TooLarge(size));
        assert_eq!(split(1 << 20, [bytes]).1, End::TooLarge(size));
    }
    // Nothing shows the end of a string.
    let name = [b"Y\0\0\x40\0", [b'a'; 100].as_slice()].concat();
    assert_eq!(split(50, [&*name]).1, End::TooLarge(51));
}
