//! Reads a capture in Rust: `cargo run -p walrow --example read [FILE]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::fs::File;
use walrow::DecoderBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    let sample = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/data/18/rows.text.wire"
    );
    let path = std::env::args().nth(1).unwrap_or_else(|| sample.to_owned());

    let mut reader = DecoderBuilder::new().build_reader(File::open(path)?)?;
    for batch in &mut reader {
        let batch = batch?;
        println!(
            "{}: {} rows",
            batch.relation(),
            batch.record_batch().num_rows()
        );
    }
    println!("complete up to {}", reader.decoder().position());
    Ok(())
}
