//! Properties of all messages, and of all bytes.

use proptest::collection::vec;
use proptest::prelude::*;
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, OwnedFrame, OwnedMessage, for_every_cut, fuzz, in_chunks, walk};
use walrow_wire::{BackendMessage, CopyData, Frame, Lsn, Message};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn messages_read_as_written(owned in arbitrary::<OwnedMessage>(512)) {
        let bytes = owned.bytes();
        let message = Message::parse(&bytes, owned.in_stream()).unwrap();
        prop_assert_eq!(&OwnedMessage::from(&message), &owned);
        let mut again = Vec::new();
        message.encode(&mut again);
        prop_assert_eq!(again, bytes);
    }

    #[test]
    fn frames_read_as_written(owned in arbitrary::<OwnedFrame>(512)) {
        let bytes = owned.bytes();
        let (frame, size) = Frame::parse(&bytes).unwrap().expect("the frame is whole");
        prop_assert_eq!(size, bytes.len());
        let backend = BackendMessage::parse(frame).unwrap();
        let read = OwnedFrame::read(&backend, owned.in_stream());
        prop_assert_eq!(read.as_ref(), Ok(&owned));
        let mut again = Vec::new();
        backend.encode(&mut again);
        prop_assert_eq!(&again, &bytes);
        // Encoding appends.
        backend.encode(&mut again);
        prop_assert_eq!(&again[size..], &bytes);
    }

    #[test]
    fn messages_cut_short_are_errors(owned in arbitrary::<OwnedMessage>(256)) {
        let bytes = owned.bytes();
        for_every_cut(&bytes, |head, tail| {
            let short_form = matches!(owned, OwnedMessage::StreamAbort { .. }) && head.len() == 9;
            let whole = tail.is_empty() || short_form;
            assert_eq!(Message::parse(head, owned.in_stream()).is_ok(), whole);
            fuzz::messages(head);
        });
    }

    #[test]
    fn arbitrary_bytes_are_errors_or_round_trips(
        bytes in vec(any::<u8>(), 0..200),
        kind in proptest::sample::select(b"BCORYIUDTMSEcAbPKrp".to_vec()),
        tag in proptest::sample::select(b"dWNSEcCZTDAHGRK".to_vec()),
    ) {
        fuzz::frames(&bytes);
        fuzz::messages(&bytes);
        fuzz::messages(&[&[kind], &bytes[..]].concat());
        let body = &bytes[..];
        let mut framed = Vec::new();
        Frame { tag, body }.encode(&mut framed);
        fuzz::frames(&framed);
    }

    #[test]
    fn mutated_messages_are_errors_or_round_trips(
        owned in arbitrary::<OwnedMessage>(256),
        place in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = owned.bytes();
        let place = place.index(bytes.len());
        bytes[place] = byte;
        fuzz::messages(&bytes);
    }

    #[test]
    fn any_chunking_gives_the_same_frames(
        history in arbitrary::<History>(1024),
        sizes in vec(1_usize..80, 1..8),
    ) {
        let stream = history.delivered();
        let bytes = stream.bytes();
        let mut buffer = Vec::new();
        let mut frames = Vec::new();
        for chunk in in_chunks(&bytes, &sizes) {
            buffer.extend_from_slice(chunk);
            while let Some((_, size)) = Frame::parse(&buffer).unwrap() {
                frames.push(buffer.drain(..size).collect::<Vec<u8>>());
            }
        }
        prop_assert!(buffer.is_empty());
        prop_assert_eq!(frames.as_slice(), stream.frames());
        prop_assert_eq!(walk(&bytes, |_| {}), Ok(bytes.len()));
    }

    #[test]
    fn lsn_reads_as_printed(lsn in any::<u64>()) {
        prop_assert_eq!(Lsn(lsn).to_string().parse(), Ok(Lsn(lsn)));
    }

    #[test]
    fn payloads_never_panic(bytes in vec(any::<u8>(), 0..100), kind in proptest::sample::select(b"wkrh".to_vec())) {
        let payload = [&[kind], &bytes[..]].concat();
        if let Ok(data) = CopyData::parse(&payload) {
            let mut again = Vec::new();
            data.encode(&mut again);
            prop_assert_eq!(&again, &payload);
            if let CopyData::XLogData(data) = data {
                for in_stream in [false, true] {
                    if let Err(error) = data.message(in_stream) {
                        prop_assert!(error.offset <= payload.len());
                    }
                }
            }
        }
    }
}

/// A guard: the grammar makes every message and every frame.
#[test]
fn grammar_is_complete() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut kinds, mut tags) = (Vec::new(), Vec::new());
    for _ in 0..2000 {
        let message = arbitrary::<OwnedMessage>(512)
            .new_tree(&mut runner)
            .unwrap();
        let message = message.current();
        kinds.push((message.bytes()[0], message.in_stream()));
        let frame = arbitrary::<OwnedFrame>(512).new_tree(&mut runner).unwrap();
        tags.push(frame.current().bytes()[0]);
    }
    kinds.sort_unstable();
    kinds.dedup();
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(kinds.len(), 19 + 7, "{kinds:?}");
    assert_eq!(tags.len(), 15, "{tags:?}");
}
