//! A batch of a side table under construction.

use super::row::{SideRow, Types};
use crate::batch::Batch;
use crate::error::Error;
use crate::profile::Profile;
use crate::rows::{Current, Rows};
use crate::table_name::SideTable;
use arrow_array::RecordBatch;
use arrow_schema::Schema;
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_wire::Lsn;

/// The rows of a side table since its last batch.
#[derive(Debug)]
pub(super) struct SideBuilder<R> {
    rows: Vec<R>,
    profile: Profile,
    bytes: usize,
    counted: Rows,
}

impl<R: SideRow> SideBuilder<R> {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            rows: Vec::new(),
            profile,
            bytes: 0,
            counted: Rows::default(),
        }
    }

    pub(super) fn append(&mut self, current: &Current, row: R) {
        self.counted.enter(current);
        self.counted.push();
        self.bytes = self.bytes.saturating_add(row.size());
        self.rows.push(row);
    }

    pub(super) fn floor(&self) -> Option<Lsn> {
        self.counted.floor()
    }

    pub(super) const fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all rows of this transaction.
    pub(super) fn roll_back(&mut self, current: &Current) {
        if let Some(rows) = self.counted.without(current) {
            self.rows.truncate(rows);
            self.counted.truncate(rows);
        }
    }

    /// Returns all rows so far as a batch.
    pub(super) fn finish(&mut self) -> Result<Batch, Error> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        self.counted.finish();
        let types = Types::new(self.profile);
        let schema = Arc::new(Schema::new(R::fields(types)));
        let records = RecordBatch::try_new(schema, R::arrays(&rows, types))
            .map_err(|error| Error::internal(error.to_string()))?;
        Ok(Batch {
            relation: Arc::new(relation(R::TABLE)),
            records,
            nulled: Vec::new(),
            dropped_lower_bounds: Vec::new(),
        })
    }

    /// Returns all rows as a batch if they reach this number of rows or bytes.
    pub(super) fn full(
        &mut self,
        rows: usize,
        bytes: usize,
    ) -> Result<Option<(Batch, Lsn)>, Error> {
        match self.floor() {
            Some(floor) if self.rows() >= rows || self.bytes() >= bytes => {
                Ok(Some((self.finish()?, floor)))
            }
            _ => Ok(None),
        }
    }
}

/// The relation of a side table's batches.
fn relation(table: SideTable) -> Relation {
    Relation::stand_in(SideTable::SCHEMA, table.name())
}
