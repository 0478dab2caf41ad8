//! Open transactions beyond the memory for them: with and without the feature `file-spool`.

use walrow::{Decoder, DecoderBuilder, Error};
use walrow_testkit::{Stream, text};

/// A streamed transaction that does not fit the memory, and its commit.
fn decoded() -> Result<Decoder, Error> {
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
    let mut decoder = DecoderBuilder::new().with_spool_memory(1000).build()?;
    decoder.decode_chunk(&stream)?;
    decoder.finish()?;
    Ok(decoder)
}

#[test]
#[cfg(feature = "file-spool")]
fn they_wait_in_a_file_by_default() {
    let mut decoder = decoded().unwrap();
    let batch = decoder.next_batch().unwrap().expect("the rows of t");
    assert_eq!(batch.record_batch().num_rows(), 2);
}

#[test]
#[cfg(not(feature = "file-spool"))]
fn they_are_an_error_without_a_spool() {
    let error = decoded().unwrap_err();
    let walrow::ErrorKind::Spool(stream) = error.kind() else {
        panic!("{error}");
    };
    assert!(
        matches!(stream.kind, walrow::stream::ErrorKind::Spool { .. }),
        "{error}"
    );
}
