//! Decodes a stream in pieces, with options that a byte chooses.

use walrow_arrow::{Batch, DecoderBuilder, Error, OnUnrepresentable, Profile};
use walrow_wire::Framing;

/// Options by a byte's low bits.
pub(super) fn options(choice: u8) -> DecoderBuilder {
    let profile = match choice & 3 {
        0 => Profile::Spark,
        1 => Profile::Text,
        _ => Profile::Arrow,
    };
    let policy = if choice & 4 == 0 {
        OnUnrepresentable::Error
    } else {
        OnUnrepresentable::Null
    };
    let rows = if choice & 8 == 0 { 3 } else { 1_000 };
    let framing = if choice & 16 == 0 {
        Framing::Wire
    } else {
        Framing::Recvlogical
    };
    DecoderBuilder::new()
        .with_profile(profile)
        .with_unrepresentable(policy)
        .with_batch_rows(rows)
        .with_framing(framing)
}

/// All batches of a stream in these pieces, and the error that ended it.
pub(super) fn decode<'a>(
    options: DecoderBuilder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Batch>, Option<Error>) {
    let mut decoder = options
        .build()
        .expect("the options are none of the fuzzer's");
    let mut batches = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        loop {
            let result = decoder.decode(rest);
            let before = batches.len();
            batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
            match result {
                Ok(consumed) => rest = &rest[consumed..],
                Err(error) => {
                    assert_eq!(decoder.decode(rest).as_ref(), Err(&error));
                    assert!(!error.to_string().is_empty());
                    return (batches, Some(error));
                }
            }
            if rest.is_empty() && batches.len() == before {
                break;
            }
        }
    }
    let end = decoder.finish().err();
    batches.extend(std::iter::from_fn(|| decoder.next_batch().ok().flatten()));
    (batches, end)
}
