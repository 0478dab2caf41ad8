//! Counts and columns of net changes, known before their first row is written.

use std::collections::BTreeSet;
use walrow_wire::Lsn;

/// Counts and columns of the net changes of a range.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Tally {
    /// The number of row changes that were read, since the last barrier.
    pub events: u64,
    /// The number of updates that gave a row another key, since the last barrier.
    pub moves: u64,
    /// The number of net rows.
    pub rows: u64,
    /// The number of net rows that keep values of a row with another key.
    pub heads: u64,
    /// The columns where some rows keep the target's values, under their own key.
    pub kept: BTreeSet<String>,
    /// The number of new rows without a value in a column that is not nullable.
    pub never_sent: u64,
    /// The columns without a value in these rows.
    pub lacking: BTreeSet<String>,
    /// The last barrier.
    pub barrier: Option<Barrier>,
    /// Whether the target's other rows go: the net changes begin with a truncate.
    pub clears: bool,
    /// The number of changes that a join left out.
    pub entangled: u64,
    /// The columns that some of the versions lack.
    pub partial: BTreeSet<String>,
}

/// A load or truncate: earlier changes do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Barrier {
    /// The commit LSN of its transaction.
    pub lsn: Lsn,
    /// Its place in the transaction.
    pub seq: u64,
    /// Whether it is a load.
    pub is_load: bool,
}
