//! Committed transactions in files: a log, and the [`FileSpool`] where transactions wait for their
//! commit. No other Rust crate of walrow opens files.
//!
//! A log is a directory of segments, which readers share, and one `Writer`. The feature `segments`
//! turns logs on.

#[cfg(feature = "segments")]
mod contents;
#[cfg(feature = "segments")]
mod error;
#[cfg(feature = "segments")]
mod frames;
#[cfg(feature = "segments")]
mod open_file;
#[cfg(feature = "segments")]
mod segment;
#[cfg(feature = "segments")]
mod segment_file;
mod spool;
#[cfg(feature = "segments")]
mod store;
#[cfg(feature = "segments")]
mod writer;

#[cfg(feature = "segments")]
pub use error::{Error, ErrorKind};
#[cfg(feature = "segments")]
pub use segment::{FORMAT, Foot, SegmentName, TableFoot};
pub use spool::FileSpool;
#[cfg(feature = "segments")]
pub use store::{Directory, ReadAt, Store, WriteAt};
#[cfg(feature = "segments")]
pub use writer::{Writer, WriterOptions};
