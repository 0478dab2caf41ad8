//! What a writer was given.

use walrow_wire::Timestamp;

/// What a writer was given since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCounts {
    /// Transactions that were appended.
    pub transactions: u64,
    /// Rows that were inserted, updated or deleted in them.
    pub rows: u64,
    /// Transactions that were skipped, because the log has them.
    pub repeated: u64,
    /// Segments that were published.
    pub segments: u64,
    /// When the last one was committed. `None` before the first.
    pub last_commit_time: Option<Timestamp>,
}
