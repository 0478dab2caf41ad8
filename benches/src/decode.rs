//! The whole decoder, every check on: frames to Arrow.

use std::hint::black_box;
use walrow::{Decoder, DecoderBuilder, Error};

/// Decodes a capture that lies in memory and drops its batches; how many rows there were.
///
/// # Errors
/// Those of the decoder.
pub fn rows(bytes: &[u8]) -> Result<usize, Error> {
    rows_with(DecoderBuilder::new(), [bytes])
}

/// The same by these options, of a capture in blocks.
///
/// # Errors
/// Those of the decoder.
pub fn rows_with<'a>(
    options: DecoderBuilder,
    blocks: impl IntoIterator<Item = &'a [u8]>,
) -> Result<usize, Error> {
    let mut decoder = options.build()?;
    let mut rows = 0_usize;
    for block in blocks {
        let mut rest = block;
        while !rest.is_empty() || !decoder.wants_input() {
            rows = rows.saturating_add(take(&mut decoder));
            let consumed = decoder.decode(rest)?;
            rest = rest.get(consumed..).unwrap_or_default();
        }
    }
    decoder.finish()?;
    Ok(rows.saturating_add(take(&mut decoder)))
}

fn take(decoder: &mut Decoder) -> usize {
    let batches = std::iter::from_fn(|| decoder.next_batch().ok().flatten());
    batches.fold(0, |rows, batch| {
        rows.saturating_add(black_box(batch.into_record_batch()).num_rows())
    })
}
