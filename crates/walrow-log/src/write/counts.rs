//! Counts of a writer.

use walrow_wire::{Lsn, Timestamp};

/// Counts of transactions, rows and segments since a writer was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCounts {
    /// Transactions that were appended.
    pub transactions: u64,
    /// Rows that these transactions inserted, updated or deleted.
    pub rows: u64,
    /// Transactions that were skipped, because the log has them.
    pub repeated: u64,
    /// Segments that were published.
    pub segments: u64,
    /// When the last transaction was committed. `None` before the first transaction.
    pub last_commit_time: Option<Timestamp>,
    /// The commit LSN of the last transaction that has a logical message. `None` before the first
    /// one.
    pub last_message: Option<Lsn>,
}
