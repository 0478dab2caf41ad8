//! The same stream in other pieces.

use super::arrow::options;
use crate::in_chunks;
use walrow_arrow::{Batch, DecoderBuilder, Error};

/// A stream gives the same batches and the same end however it is cut.
///
/// The first byte chooses the options, the next two the sizes of the pieces, the rest is the
/// stream.
pub fn cuts(data: &[u8]) {
    let Some((&[choice, first, second], stream)) = data.split_first_chunk::<3>() else {
        return;
    };
    let whole = decode(options(choice), [stream]);
    let sizes = [usize::from(first) + 1, usize::from(second) * 16];
    let cut = decode(options(choice), in_chunks(stream, &sizes));
    assert_eq!(whole.1, cut.1, "another end in pieces of {sizes:?}");
    let records = |batches: &[Batch]| -> Vec<_> {
        batches
            .iter()
            .map(|batch| batch.record_batch().clone())
            .collect()
    };
    assert_eq!(
        records(&whole.0),
        records(&cut.0),
        "other rows in pieces of {sizes:?}"
    );
}

/// All batches of a stream in these pieces, and what ended it.
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
