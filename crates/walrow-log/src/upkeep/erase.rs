//! The columns and rows that are to be erased.

use std::collections::{BTreeMap, HashSet};
use walrow_wire::{Lsn, Oid};

/// The columns and rows of some tables that are to be erased.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Erase {
    /// The tables.
    pub tables: HashSet<Oid>,
    /// The columns that are left out.
    pub columns: HashSet<String>,
    /// The changes that are left out, by commit LSN and seq.
    pub rows: BTreeMap<(Lsn, u64), Images>,
    /// Whether to erase changes even if registered readers have not taken them.
    pub force: bool,
}

/// The images of a change that are erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a change has no more")]
pub struct Images {
    /// The row before.
    pub old: bool,
    /// The row after.
    pub new: bool,
}
