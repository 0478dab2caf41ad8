//! What a decoder hands out.

use arrow_array::RecordBatch;
use std::sync::Arc;
use walrow_stream::Relation;

/// Rows of one version of one table.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) relation: Arc<Relation>,
    pub(crate) records: RecordBatch,
    pub(crate) nulled: Vec<(String, u64)>,
    pub(crate) dropped_bounds: Vec<(String, u64)>,
}

impl Batch {
    /// The table's version that the rows arrived under.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// The rows.
    pub fn records(&self) -> &RecordBatch {
        &self.records
    }

    /// The rows, for good.
    pub fn into_records(self) -> RecordBatch {
        self.records
    }

    /// Columns in which values that Arrow cannot hold became null, and how many.
    pub fn nulled(&self) -> &[(String, u64)] {
        &self.nulled
    }

    /// Columns in which arrays lost a first subscript other than 1, and how many.
    pub fn dropped_bounds(&self) -> &[(String, u64)] {
        &self.dropped_bounds
    }
}
