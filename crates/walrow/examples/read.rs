//! Reads a capture in Rust: `cargo run -p walrow --example read [FILE]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use walrow::{Decoder, DecoderBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/18/rows.text.wire"
    );
    let path = std::env::args().nth(1).unwrap_or_else(|| sample.to_owned());
    let capture = std::fs::read(path)?;

    let mut decoder = DecoderBuilder::new().build()?;
    let mut rest = capture.as_slice();
    while !rest.is_empty() || !decoder.wants_input() {
        // It stops early when a batch is full: take it, then go on behind what was consumed.
        let consumed = decoder.decode(rest)?;
        rest = rest.split_at(consumed).1;
        print_batches(&mut decoder);
    }
    decoder.finish()?;
    print_batches(&mut decoder);
    println!("complete up to {}", decoder.position());
    Ok(())
}

fn print_batches(decoder: &mut Decoder) {
    while let Some(batch) = decoder.next_batch() {
        println!("{}: {} rows", batch.relation(), batch.records().num_rows());
    }
}
