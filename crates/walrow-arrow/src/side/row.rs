//! What the rows of all side tables have in common: Arrow types, lists, and how arrays are made.

use crate::profile::Profile;
use crate::table_name::SideTable;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    ArrayRef, Int64Array, ListArray, PrimitiveArray, StructArray, UInt32Array, UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use std::sync::Arc;

/// The Arrow types of numbers and times in a profile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Types {
    spark: bool,
}

impl Types {
    pub(super) fn new(profile: Profile) -> Self {
        Self {
            spark: !profile.has_unsigned(),
        }
    }

    /// The type of LSNs and counts: 64 bits.
    pub(super) fn wide(self) -> DataType {
        if self.spark {
            DataType::Int64
        } else {
            DataType::UInt64
        }
    }

    /// Whether [`Types::wide`] can hold the value.
    pub(super) fn holds(self, value: u64) -> bool {
        !self.spark || i64::try_from(value).is_ok()
    }

    /// The type of transaction IDs and OIDs, which are unsigned 32-bit integers.
    pub(super) fn narrow(self) -> DataType {
        if self.spark {
            DataType::Int64
        } else {
            DataType::UInt32
        }
    }

    pub(super) fn time() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }

    pub(super) fn wides(self, values: impl Iterator<Item = Option<u64>>) -> ArrayRef {
        self.wide_array(values.collect())
    }

    // Not generic, so that the code is there once.
    fn wide_array(self, values: Vec<Option<u64>>) -> ArrayRef {
        if self.spark {
            let values = values.into_iter().map(|value| value.map(u64::cast_signed));
            Arc::new(values.collect::<Int64Array>())
        } else {
            Arc::new(UInt64Array::from(values))
        }
    }

    pub(super) fn narrows(self, values: impl Iterator<Item = Option<u32>>) -> ArrayRef {
        self.narrow_array(values.collect())
    }

    fn narrow_array(self, values: Vec<Option<u32>>) -> ArrayRef {
        if self.spark {
            let values = values.into_iter().map(|value| value.map(i64::from));
            Arc::new(values.collect::<Int64Array>())
        } else {
            Arc::new(UInt32Array::from(values))
        }
    }

    pub(super) fn times(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
        Self::time_array(values.collect())
    }

    fn time_array(values: Vec<Option<i64>>) -> ArrayRef {
        let values = PrimitiveArray::<TimestampMicrosecondType>::from(values);
        Arc::new(values.with_timezone("UTC"))
    }
}

/// Makes lists of structs. `lengths` has the length of each row's list.
pub(super) fn lists(
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
pub(super) trait SideRow: Sized {
    const TABLE: SideTable;

    fn fields(types: Types) -> Vec<Field>;

    /// The bytes of the row.
    fn size(&self) -> usize;

    /// Makes one array for each field.
    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef>;
}
