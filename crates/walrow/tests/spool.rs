//! Open transactions beyond the memory for them: with and without the feature `file-spool`.

use walrow::stream::ErrorKind;
use walrow::{Decoder, DecoderBuilder};
use walrow_testkit::{Stream, text};

/// A streamed transaction that does not fit the memory, and its commit.
fn decoded() -> (Decoder, Result<(), walrow::Error>) {
    let columns = [("note", 25, -1, false)];
    let note = "x".repeat(10_000);
    let stream = Stream::new()
        .stream_start(700)
        .relation(
            16_384,
            "public",
            "t",
            walrow::wire::ReplicaIdentity::Default,
            &columns,
        )
        .insert(16_384, &[text(&note)])
        .insert(16_384, &[text(&note)])
        .stream_stop()
        .stream_commit(0x1000, 700)
        .bytes();
    let mut decoder = DecoderBuilder::new()
        .with_spool_memory(1000)
        .build()
        .expect("the options are valid");
    let result = decoder.decode_chunk(&stream);
    let result = result.and_then(|()| decoder.finish());
    (decoder, result)
}

#[test]
#[cfg_attr(not(feature = "file-spool"), ignore = "needs the feature file-spool")]
fn they_wait_in_a_file_by_default() {
    let (mut decoder, result) = decoded();
    result.unwrap();
    let batch = decoder.next_batch().unwrap().expect("the rows of t");
    assert_eq!(batch.record_batch().num_rows(), 2);
}

#[test]
#[cfg_attr(feature = "file-spool", ignore = "needs --no-default-features")]
fn they_are_an_error_without_a_spool() {
    let (_, result) = decoded();
    let error = result.unwrap_err();
    let walrow::ErrorKind::Stream(stream) = error.kind() else {
        panic!("{error}");
    };
    assert!(matches!(stream.kind, ErrorKind::Spool { .. }), "{error}");
}
