//! The same stream in different pieces.

use super::decoding::{decode, options};
use crate::in_chunks;
use walrow_arrow::Batch;

/// A stream gives the same batches and the same end however it is cut.
///
/// The first byte chooses the options, the next two the sizes of the pieces, the rest is the
/// stream: of a connection or, by a bit of the first byte, of `pg_recvlogical`.
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
