//! Reads a capture once, for a counter of instructions: `once floor|walrow FILE`.

use std::error::Error;
use std::hint::black_box;
use walrow_benches::{decode, floor};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (reader, path) = (
        arguments.next(),
        arguments.next().ok_or("once floor|walrow FILE")?,
    );
    let bytes = std::fs::read(path)?;
    match reader.as_deref() {
        Some("floor") => {
            floor::rows(&bytes, |table| drop(black_box(table)));
        }
        Some("walrow") => {
            decode::rows(&bytes)?;
        }
        _ => return Err("once floor|walrow FILE".into()),
    }
    Ok(())
}
