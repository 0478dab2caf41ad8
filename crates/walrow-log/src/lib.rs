//! Committed transactions in files: a log, and the [`FileSpool`] where transactions wait for their
//! commit. No other Rust crate of walrow opens files.
//!
//! A log is a directory of segments, which any number of readers ([`Log`]) share, and one
//! [`Writer`]. The feature `segments` turns logs on.

#[cfg(feature = "segments")]
mod log;
mod spool;

#[cfg(feature = "segments")]
pub use log::{
    Compacted, DamagedPart, Directory, Erase, Erased, Eraser, Error, ErrorKind, FORMAT, Foot, Hold,
    Images, Load, LoadRefusal, Log, MERGED, Member, OtherServer, Plan, ReadAt, RegisteredReader,
    Remedy, Retained, Retention, Segment, SegmentName, SegmentReader, SourcePart, StateOptions,
    StateReader, Store, TableChanges, TableCopy, TableFoot, TableVersion, WriteAt, Writer,
    WriterCounts, WriterOptions,
};
pub use spool::FileSpool;
