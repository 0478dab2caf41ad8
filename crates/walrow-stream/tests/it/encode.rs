//! Any stream, written again in protocol 1, has the same transactions.

use proptest::prelude::*;
use walrow_stream::{Assembler, Encoder, Error, ErrorKind, Event};
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, Stream, captures, in_chunks, text, walk};
use walrow_wire::ReplicaIdentity;

/// The contents of the stream, and the error at the end. Protocol 1 does not show which messages
/// are undecidable. Logs have a fact for it.
fn contents<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<String>, Option<Error>) {
    let found = walrow_testkit::contents(pieces, false);
    (found.lines, found.error)
}

/// The stream, read in pieces and written again.
fn encoded<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Vec<u8>, Option<Error>) {
    let (mut assembler, mut encoder) = (Assembler::default(), Encoder::default());
    let mut out = Vec::new();
    let mut complete = 0;
    for piece in pieces {
        let mut input = piece;
        loop {
            let event = assembler.next_with(&mut input, |row| encoder.row(&row, &mut out));
            match event {
                Ok(Some(Event::Change(error))) | Err(error) => {
                    out.truncate(complete);
                    return (out, Some(error));
                }
                Ok(Some(Event::Begin(it))) => encoder.begin(it, &mut out),
                Ok(Some(Event::Truncate(it))) => encoder.truncate(&it, &mut out),
                Ok(Some(Event::Message(it))) => encoder.message(&it, &mut out),
                Ok(Some(Event::Commit { transaction, .. })) => {
                    encoder.commit(transaction, &mut out);
                    complete = out.len();
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
            }
        }
    }
    (out, None)
}

#[test]
fn captures_have_the_same_transactions_in_protocol_1() {
    let mut seen = 0;
    for capture in captures().iter().filter(|it| !it.is_physical()) {
        let (stream, error) = encoded([&*capture.bytes]);
        assert_eq!(error, None, "{}", capture.name);
        assert_eq!(
            contents([&*stream]),
            contents([&*capture.bytes]),
            "{}",
            capture.name
        );
        // Other decoders know no streams or prepared transactions.
        let read = walk(&stream, |step| {
            if let Some(message) = step.message {
                assert!(
                    b"BCORYIUDTM".contains(&message.kind().byte()),
                    "{}",
                    capture.name
                );
            }
        });
        read.unwrap();
        seen += 1;
    }
    assert!(seen > 170, "{seen} captures");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn random_histories_have_the_same_transactions_in_protocol_1(
        history in arbitrary::<History>(2_000),
        sizes in prop::collection::vec(1_usize..300, 1..4),
    ) {
        let bytes = history.delivered().bytes();
        let (stream, error) = encoded(in_chunks(&bytes, &sizes));
        let (lines, expected) = contents([&*bytes]);
        prop_assert_eq!(&error, &expected);
        let (again, none) = contents([&*stream]);
        prop_assert_eq!(none, None);
        if error.is_none() {
            prop_assert_eq!(again, lines);
        } else {
            // The rows of the transaction with the error are missing.
            prop_assert!(lines.starts_with(&again));
        }
    }
}

#[test]
fn a_row_that_is_cut_short_is_an_error_and_is_not_written() {
    let columns = [("id", 23, -1, true), ("name", 25, -1, false)];
    let stream = Stream::new().session().begin(0x1000, 700).relation(
        1,
        "public",
        "t",
        ReplicaIdentity::Default,
        &columns,
    );
    let stream = stream.insert(1, &[text("1"), text("one")]);
    let bytes = stream.insert(1, &[text("2")]).commit().bytes();
    let (out, error) = encoded([&*bytes]);
    assert!(matches!(
        error.unwrap().kind,
        ErrorKind::ColumnCount {
            expected: 2,
            found: 1,
            ..
        }
    ));
    assert_eq!(out, Vec::<u8>::new());
}
