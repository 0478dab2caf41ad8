//! The only crate of walrow's that opens files in Rust: the [`FileSpool`], where transactions wait
//! for their commit.

mod spool;

pub use spool::FileSpool;
