//! Committed transactions in files: a log, and the [`FileSpool`] where transactions wait for their
//! commit. No other Rust crate of walrow opens files.
//!
//! A log is a directory of [segments](Foot), which readers share, and one [`Writer`].

mod contents;
mod error;
mod frames;
mod open_file;
mod segment;
mod segment_file;
mod spool;
mod store;
mod writer;

pub use error::{Error, ErrorKind};
pub use segment::{FORMAT, Foot, SegmentName, TableFoot};
pub use spool::FileSpool;
pub use store::{Directory, ReadAt, Store, WriteAt};
pub use writer::{Writer, WriterOptions};
