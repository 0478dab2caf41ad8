//! The batches that a decoder returns.

use arrow_array::RecordBatch;
use std::sync::Arc;
use walrow_stream::Relation;

/// Change rows of one version of one table: its own columns, then metadata columns.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) relation: Arc<Relation>,
    pub(crate) records: RecordBatch,
    pub(crate) nulled: Vec<(String, u64)>,
    pub(crate) dropped_lower_bounds: Vec<(String, u64)>,
}

impl Batch {
    /// The version of the table under which the rows arrived.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// The rows as an Arrow record batch.
    pub fn record_batch(&self) -> &RecordBatch {
        &self.records
    }

    /// The rows as an Arrow record batch, without a copy.
    pub fn into_record_batch(self) -> RecordBatch {
        self.records
    }

    /// The number of values that [`crate::OnUnrepresentable::Null`] made null, by column.
    pub fn nulled(&self) -> &[(String, u64)] {
        &self.nulled
    }

    /// The number of arrays that lost a first subscript other than 1, by column.
    pub fn dropped_lower_bounds(&self) -> &[(String, u64)] {
        &self.dropped_lower_bounds
    }
}
