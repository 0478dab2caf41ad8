//! Side tables: the contents of a stream besides rows, in tables of the schema `walrow`.
//!
//! Each one collects plain values and makes arrays of them when a batch is finished. It has few
//! rows compared to the stream's tables.

mod collect;
mod messages;
mod relations;
mod transactions;
mod truncates;

pub(crate) use collect::Sides;
use messages::MessageRow;
use relations::RelationRow;
use transactions::TransactionRow;
use truncates::TruncateRow;

use crate::batch::Batch;
use crate::error::Error;
use crate::profile::Profile;
use crate::rows::{Current, Rows};
use crate::table_name::SideTable;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    ArrayRef, Int64Array, ListArray, PrimitiveArray, RecordBatch, StructArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_wire::{Lsn, ReplicaIdentity};

impl SideTable {
    /// The schema of the side table in a profile.
    pub fn schema(self, profile: Profile) -> SchemaRef {
        let types = Types::new(profile);
        let fields = match self {
            Self::Transactions => TransactionRow::fields(types),
            Self::Messages => MessageRow::fields(types),
            Self::Relations => RelationRow::fields(types),
            Self::Truncates => TruncateRow::fields(types),
        };
        Arc::new(Schema::new(fields))
    }

    /// The relation of the side table's batches.
    fn relation(self) -> Relation {
        Relation {
            version: 0,
            oid: 0,
            namespace: Self::SCHEMA.into(),
            name: self.name().into(),
            replica_identity: ReplicaIdentity::Nothing,
            columns: Box::default(),
        }
    }
}

/// The Arrow types of numbers and times in a profile.
#[derive(Clone, Copy, Debug)]
struct Types {
    spark: bool,
}

impl Types {
    fn new(profile: Profile) -> Self {
        Self {
            spark: !profile.has_unsigned(),
        }
    }

    /// The type of LSNs and counts: 64 bits.
    fn wide(self) -> DataType {
        if self.spark {
            DataType::Int64
        } else {
            DataType::UInt64
        }
    }

    /// Whether [`Types::wide`] can hold the value.
    fn holds(self, value: u64) -> bool {
        !self.spark || i64::try_from(value).is_ok()
    }

    /// The type of transaction IDs and OIDs, which are unsigned 32-bit integers.
    fn narrow(self) -> DataType {
        if self.spark {
            DataType::Int64
        } else {
            DataType::UInt32
        }
    }

    fn time() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }

    fn wides(self, values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
        if self.spark {
            let values = values.map(|value| value.map(u64::cast_signed));
            Arc::new(values.collect::<Int64Array>())
        } else {
            Arc::new(values.collect::<UInt64Array>())
        }
    }

    fn narrows(self, values: impl Iterator<Item = Option<u32>>) -> ArrayRef {
        if self.spark {
            let values = values.map(|value| value.map(i64::from));
            Arc::new(values.collect::<Int64Array>())
        } else {
            Arc::new(values.collect::<UInt32Array>())
        }
    }

    fn times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        let values: PrimitiveArray<TimestampMicrosecondType> = values.collect();
        Arc::new(values.with_timezone("UTC"))
    }
}

/// Makes lists of structs. `lengths` has the length of each row's list.
fn lists(
    fields: Fields,
    columns: Vec<ArrayRef>,
    lengths: impl IntoIterator<Item = usize>,
    nulls: Option<NullBuffer>,
) -> ArrayRef {
    let structs = StructArray::new(fields.clone(), columns, None);
    Arc::new(ListArray::new(
        Arc::new(Field::new_list_field(DataType::Struct(fields), true)),
        OffsetBuffer::from_lengths(lengths),
        Arc::new(structs),
        nulls,
    ))
}

/// A row of a side table.
trait SideRow: Sized {
    const TABLE: SideTable;

    fn fields(types: Types) -> Vec<Field>;

    /// The bytes of the row.
    fn size(&self) -> usize;

    /// Makes one array for each field.
    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef>;
}

/// The rows of a side table since its last batch.
#[derive(Debug)]
struct SideBuilder<R> {
    rows: Vec<R>,
    profile: Profile,
    bytes: usize,
    counted: Rows,
}

impl<R: SideRow> SideBuilder<R> {
    pub(crate) fn new(profile: Profile) -> Self {
        Self {
            rows: Vec::new(),
            profile,
            bytes: 0,
            counted: Rows::default(),
        }
    }

    pub(crate) fn append(&mut self, current: &Current, row: R) {
        self.counted.enter(current);
        self.counted.push();
        self.bytes = self.bytes.saturating_add(row.size());
        self.rows.push(row);
    }

    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.counted.floor()
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows.len()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Drops all rows of this transaction.
    pub(crate) fn take_back(&mut self, current: &Current) {
        if let Some(rows) = self.counted.without(current) {
            self.rows.truncate(rows);
            self.counted.truncate(rows);
        }
    }

    /// Returns all rows so far as a batch.
    pub(crate) fn finish(&mut self) -> Result<Batch, Error> {
        let rows = std::mem::take(&mut self.rows);
        self.bytes = 0;
        self.counted.finish();
        let arrays = R::arrays(&rows, Types::new(self.profile));
        let records = RecordBatch::try_new(R::TABLE.schema(self.profile), arrays)
            .map_err(|error| Error::internal(error.to_string()))?;
        Ok(Batch {
            relation: Arc::new(R::TABLE.relation()),
            records,
            nulled: Vec::new(),
            dropped_lower_bounds: Vec::new(),
        })
    }
}
