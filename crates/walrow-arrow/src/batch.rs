//! The batches that a decoder returns.

use crate::error::Error;
use arrow_array::{Array, RecordBatch, RecordBatchOptions, make_array};
use arrow_buffer::Buffer;
use arrow_data::transform::{Capacities, MutableArrayData};
use arrow_schema::{ArrowError, DataType, SchemaRef};
use std::sync::Arc;
use walrow_stream::Relation;

/// Change rows of one version of one table: its own columns, then metadata columns.
#[derive(Clone, Debug)]
pub struct Batch {
    pub(crate) relation: Arc<Relation>,
    pub(crate) records: RecordBatch,
    pub(crate) nulled: Counts,
    pub(crate) dropped_lower_bounds: Counts,
}

/// The columns with values that were changed, in the relation's order, and how many.
pub(crate) type Counts = Vec<(String, u64)>;

impl Batch {
    /// The version of the table under which the rows arrived.
    pub fn relation(&self) -> &Relation {
        &self.relation
    }

    /// The rows as an Arrow record batch.
    pub fn record_batch(&self) -> &RecordBatch {
        &self.records
    }

    /// Drops all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        if rows < self.records.num_rows() {
            self.records = self.records.slice(0, rows);
        }
    }

    /// One batch of the rows of several.
    pub(crate) fn join(mut parts: Vec<Self>) -> Result<Self, Error> {
        if parts.len() == 1
            && let Some(batch) = parts.pop()
        {
            return Ok(batch);
        }
        let Some(first) = parts.first() else {
            return Err(Error::internal("a batch without rows"));
        };
        let relation = Arc::clone(&first.relation);
        let schema = first.records.schema();
        let records = concat(&schema, &parts)
            .map_err(|error| Error::internal(error.to_string()).in_table(&relation.to_string()))?;
        let mut batch = Self {
            records,
            relation,
            nulled: Counts::new(),
            dropped_lower_bounds: Counts::new(),
        };
        for part in parts {
            batch.add_counts(part.nulled, part.dropped_lower_bounds);
        }
        Ok(batch)
    }

    /// Adds the counts of other rows.
    pub(crate) fn add_counts(&mut self, nulled: Counts, dropped_lower_bounds: Counts) {
        let sums = [&mut self.nulled, &mut self.dropped_lower_bounds];
        for (sums, counts) in sums.into_iter().zip([nulled, dropped_lower_bounds]) {
            for (name, count) in counts {
                match sums.iter_mut().find(|(column, _)| *column == name) {
                    Some((_, sum)) => *sum = sum.saturating_add(count),
                    None => sums.push((name, count)),
                }
            }
            let columns = &self.relation.columns;
            sums.sort_by_key(|(name, _)| columns.iter().position(|it| *it.name == **name));
        }
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

/// The rows of all parts, in order. `arrow-select` does this too, and takes a minute to compile.
fn concat(schema: &SchemaRef, parts: &[Batch]) -> Result<RecordBatch, ArrowError> {
    let rows = parts.iter().map(|part| part.records.num_rows()).sum();
    let mut columns = Vec::with_capacity(schema.fields().len());
    for column in 0..schema.fields().len() {
        let arrays: Vec<_> = parts
            .iter()
            .map(|part| part.records.column(column).to_data())
            .collect();
        let capacities = match schema.field(column).data_type() {
            DataType::Utf8 | DataType::Binary => {
                let values = arrays.iter().filter_map(|array| array.buffers().get(1));
                Capacities::Binary(rows, Some(values.map(Buffer::len).sum()))
            }
            _ => Capacities::Array(rows),
        };
        let mut all =
            MutableArrayData::try_with_capacities(arrays.iter().collect(), false, capacities)?;
        for (index, array) in arrays.iter().enumerate() {
            all.try_extend(index, 0, array.len())?;
        }
        columns.push(make_array(all.freeze()));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}
