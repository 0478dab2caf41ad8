//! Reads a capture in Rust: `cargo run -p walrow --example read [FILE]`.

#![expect(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::fs::File;
use walrow::DecoderBuilder;

fn main() -> Result<(), Box<dyn Error>> {
    let sample = "tests/data/18/rows.text.wire".to_owned();
    let path = std::env::args().nth(1).unwrap_or(sample);
    let mut reader = DecoderBuilder::new().build_reader(File::open(path)?)?;
    for batch in &mut reader {
        let batch = batch?;
        let rows = batch.record_batch().num_rows();
        println!("{}: {rows} rows", batch.relation());
    }
    println!("complete up to {}", reader.decoder().position());
    Ok(())
}
