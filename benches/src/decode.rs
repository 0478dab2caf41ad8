//! The whole decoder, every check on: frames to Arrow.

use std::hint::black_box;
use walrow::{DecoderBuilder, Error};

/// Decodes a capture that lies in memory and drops its batches; how many rows there were.
///
/// # Errors
/// Those of the decoder.
pub fn rows(bytes: &[u8]) -> Result<usize, Error> {
    let mut decoder = DecoderBuilder::new().build()?;
    let mut rest = bytes;
    let mut rows = 0_usize;
    loop {
        let consumed = decoder.decode(rest)?;
        rest = rest.get(consumed..).unwrap_or_default();
        let before = rows;
        while let Some(batch) = decoder.next_batch() {
            rows = rows.saturating_add(black_box(batch.into_records()).num_rows());
        }
        if rest.is_empty() && rows == before {
            break;
        }
    }
    decoder.finish()?;
    while let Some(batch) = decoder.next_batch() {
        rows = rows.saturating_add(black_box(batch.into_records()).num_rows());
    }
    Ok(rows)
}
