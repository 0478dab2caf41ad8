//! The [`FileSpool`], where transactions wait for their commit. No other Rust crate of walrow opens
//! files.

mod spool;

pub use spool::FileSpool;
