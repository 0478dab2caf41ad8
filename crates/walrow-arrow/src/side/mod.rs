//! Side tables: what a stream tells besides rows, read like any table.
//!
//! They stand in the schema `walrow`. Each collects plain values and makes arrays of them when a
//! batch is finished: next to the rows they are few.

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
    /// Its columns in a profile.
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

    /// What stands in for its relation where batches name one.
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

/// How numbers and times lie in a profile.
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

    /// An LSN, a count: 64 bits.
    fn wide(self) -> DataType {
        if self.spark {
            DataType::Int64
        } else {
            DataType::UInt64
        }
    }

    /// Whether 64 bits have a place.
    fn holds(self, value: u64) -> bool {
        !self.spark || i64::try_from(value).is_ok()
    }

    /// A transaction, an OID: 32 bits without a sign.
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

/// Lists of structs: each row's part of the columns is as long as it says.
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

    /// Bytes that it takes.
    fn size(&self) -> usize;

    /// One array a field.
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

    /// Takes back all rows of this transaction.
    pub(crate) fn take_back(&mut self, current: &Current) {
        if let Some(rows) = self.counted.without(current) {
            self.rows.truncate(rows);
            self.counted.truncate(rows);
        }
    }

    /// Hands out all rows so far.
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
