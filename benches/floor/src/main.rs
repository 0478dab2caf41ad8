//! Reads captures, for a counter of instructions: `walrow-floor READS FILE...`.
//!
//! It reads each file so often, and calls `getppid` before and after each time. So
//! `valgrind --tool=callgrind --dump-before=getppid` counts each by itself.

use std::hint::black_box;
use std::os::unix::process::parent_id;

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let reads = arguments
        .next()
        .and_then(|reads| reads.to_str()?.parse().ok());
    let reads: usize = reads.ok_or_else(|| std::io::Error::other("walrow-floor READS FILE..."))?;
    for file in arguments {
        let bytes = std::fs::read(file)?;
        for _ in 0..reads {
            black_box(parent_id());
            walrow_floor::rows(&bytes, |table| drop(black_box(table)));
            black_box(parent_id());
        }
    }
    Ok(())
}
