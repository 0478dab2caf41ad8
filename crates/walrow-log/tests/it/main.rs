//! Logs, and transactions that wait in files.

mod committed;
#[cfg(feature = "segments")]
mod compaction;
#[cfg(feature = "segments")]
mod erasure;
mod fold;
#[cfg(feature = "segments")]
mod log;
#[cfg(feature = "segments")]
mod memory;
#[cfg(feature = "segments")]
mod retention;
#[cfg(feature = "segments")]
mod segments;
mod spool;
