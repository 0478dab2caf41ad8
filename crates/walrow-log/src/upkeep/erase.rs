//! What is to be erased.

use std::collections::{BTreeMap, HashSet};
use walrow_wire::{Lsn, Oid};

/// What is erased of some tables.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Erase {
    /// The tables.
    pub tables: HashSet<Oid>,
    /// The columns that are left out.
    pub columns: HashSet<String>,
    /// The changes that are left out, by commit LSN and seq.
    pub rows: BTreeMap<(Lsn, u64), Images>,
    /// Whether changes go that registered readers have not taken.
    pub force: bool,
}

/// Which images of a change are erased.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a change has no more")]
pub struct Images {
    /// The row before.
    pub old: bool,
    /// The row after.
    pub new: bool,
}
