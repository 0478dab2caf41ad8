//! Reads captures once each, for a counter of instructions: `walrow-floor FILE...`.
//!
//! It calls `getppid` before and after each one. So `valgrind --tool=callgrind --dump-before=getppid` counts each
//! by itself.

use std::hint::black_box;
use std::os::unix::process::parent_id;

fn main() -> std::io::Result<()> {
    for file in std::env::args_os().skip(1) {
        let bytes = std::fs::read(file)?;
        black_box(parent_id());
        walrow_floor::rows(&bytes, |table| drop(black_box(table)));
        black_box(parent_id());
    }
    Ok(())
}
