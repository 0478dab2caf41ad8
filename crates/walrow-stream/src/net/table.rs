//! The table whose changes are taken: its columns, its stored rows and how they are found.

use crate::catalog::Catalog;
use crate::net::error::{Gap, NetError};
use crate::net::heap::{Heap, Id};
use crate::net::identity::{Identity, Missing, Unsent};
use crate::net::versions::Versions;
use crate::relation::Relation;
use std::sync::Arc;
use walrow_wire::{Cell, Lsn, Oid, Timestamp, Tuple};

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) oid: Oid,
    /// The columns of the rows that come now.
    pub(super) relation: Option<Arc<Relation>>,
    /// The attribute numbers of its columns.
    pub(super) numbers: Option<Vec<i16>>,
    pub(super) identity: Identity,
    pub(super) versions: Versions,
    pub(super) heap: Heap,
    /// Whether a stored row may have a binary cell.
    pub(super) has_binary: bool,
    pub(super) catalog: Catalog,
    /// Whether the current transaction is a load.
    pub(super) loads: bool,
    /// The current transaction.
    pub(super) commit_lsn: Lsn,
    pub(super) time: Timestamp,
}

/// 64 MiB.
const DEFAULT_MEMORY: usize = 64 << 20;

impl Table {
    pub(super) fn new(oid: Oid) -> Self {
        Self {
            oid,
            relation: None,
            numbers: None,
            identity: Identity::new(),
            versions: Versions::default(),
            heap: Heap::new(None, DEFAULT_MEMORY),
            has_binary: false,
            catalog: Catalog::default(),
            loads: false,
            commit_lsn: Lsn::INVALID,
            time: Timestamp(0),
        }
    }

    /// The identity of a row.
    #[inline]
    pub(super) fn id(&mut self, row: Tuple<'_>) -> Result<Id, NetError> {
        let Some(relation) = &self.relation else {
            return Err(self.gap(Gap::Row));
        };
        let id = self.identity.of(row, relation, &self.catalog);
        id.map_err(|unsent| self.unsent(unsent))
    }

    /// The identity of the target's key that has these encoded cells.
    pub(super) fn id_of_cells(&mut self, key: &[u8]) -> Result<Id, NetError> {
        let columns = u16::try_from(self.identity.places.len()).unwrap_or(u16::MAX);
        let key = Tuple::of(columns, key).ok_or(NetError::Part)?;
        let Some(relation) = &self.relation else {
            return Err(self.gap(Gap::Row));
        };
        let id = self.identity.of_key(key.cells(), relation, &self.catalog);
        id.map_err(|missing| self.missing(missing))
    }

    /// The identity of the target's key in a row.
    pub(super) fn id_in(&mut self, row: Tuple<'_>) -> Result<Id, NetError> {
        let Some(relation) = &self.relation else {
            return Err(self.gap(Gap::Row));
        };
        let id = self.identity.of_key_in(row, relation, &self.catalog);
        id.map_err(|missing| self.missing(missing))
    }

    #[cold]
    fn missing(&self, missing: Missing) -> NetError {
        let (Missing::Null(number) | Missing::Unsent(number)) = missing;
        let column = self.column(self.identity.places.get(number).copied());
        self.gap(match missing {
            Missing::Null(_) => Gap::NullKey { column },
            Missing::Unsent(_) => Gap::Value { column },
        })
    }

    /// The name of a column.
    pub(super) fn column(&self, place: Option<usize>) -> String {
        let column = self.relation.as_ref();
        let column = column.and_then(|it| it.columns.get(place?));
        column.map_or_else(String::new, |column| column.name.to_string())
    }

    #[cold]
    pub(super) fn unsent(&self, Unsent(place): Unsent) -> NetError {
        let column = self.column(Some(place));
        self.gap(Gap::Value { column })
    }

    #[cold]
    pub(super) fn gap(&self, gap: Gap) -> NetError {
        let table = self.relation.as_ref();
        let table = table.map_or_else(|| self.oid.to_string(), ToString::to_string);
        NetError::Incomplete {
            table,
            lsn: self.commit_lsn,
            gap,
        }
    }
}

/// The cell at a place.
pub(super) fn cell_at(row: Tuple<'_>, place: usize) -> Cell<'_> {
    row.cells().nth(place).unwrap_or(Cell::Null)
}

/// Whether a cell is binary.
pub(super) fn is_binary(row: Tuple<'_>) -> bool {
    row.cells().any(|cell| matches!(cell, Cell::Binary(_)))
}

/// The first column without a value.
pub(super) fn unsent(row: Tuple<'_>) -> Option<usize> {
    row.cells().position(|cell| cell == Cell::Unchanged)
}
