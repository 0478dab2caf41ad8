//! Reads a capture once, for a counter of instructions: `once floor|walrow FILE`. `once write
//! FOLDER` writes all captures there.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use walrow_benches::{captures::captures, decode, floor};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (reader, path) = (
        arguments.next(),
        arguments.next().ok_or("once floor|walrow FILE")?,
    );
    if reader.as_deref() == Some("write") {
        for capture in captures() {
            let file = Path::new(&path).join(capture.name).with_extension("wire");
            std::fs::write(file, capture.bytes)?;
        }
        return Ok(());
    }
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
