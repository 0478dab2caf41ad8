//! The whole decoder, every check on: frames to Arrow.

use std::hint::black_box;
use walrow::{Batch, Decoder, DecoderBuilder, Error};

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
    let mut rows = 0_usize;
    batches(options, blocks, |batch| {
        rows = rows.saturating_add(black_box(batch.into_record_batch()).num_rows());
    })?;
    Ok(rows)
}

/// Decodes a capture in blocks and hands its batches over.
///
/// # Errors
/// Those of the decoder.
pub fn batches<'a>(
    options: DecoderBuilder,
    blocks: impl IntoIterator<Item = &'a [u8]>,
    mut each: impl FnMut(Batch),
) -> Result<(), Error> {
    let mut decoder = options.build()?;
    for block in blocks {
        let mut rest = block;
        while !rest.is_empty() || !decoder.wants_input() {
            take(&mut decoder, &mut each)?;
            let consumed = decoder.decode(rest)?;
            rest = rest.get(consumed..).unwrap_or_default();
        }
    }
    decoder.finish()?;
    take(&mut decoder, &mut each)
}

fn take(decoder: &mut Decoder, each: &mut impl FnMut(Batch)) -> Result<(), Error> {
    while let Some(batch) = decoder.next_batch()? {
        each(batch);
    }
    Ok(())
}
