//! The Arrow types that columns get, depending on what the reader of the batches supports.

use arrow_schema::{DataType, Field, FieldRef, IntervalUnit, TimeUnit};
use std::sync::Arc;
use walrow_types::{Decimal128, Decimal256, NumberVector};

/// A choice of Arrow types for columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// The closest Arrow type for each PostgreSQL type.
    #[default]
    Arrow,
    /// Only types that Spark and table formats support.
    Spark,
    /// Every column is text, exactly as PostgreSQL's output function writes it.
    Text,
}

impl Profile {
    /// Whether every column is a string.
    pub(crate) const fn is_text(self) -> bool {
        matches!(self, Self::Text)
    }

    /// Whether columns can have any Arrow type, not only those that Spark supports.
    pub(crate) const fn is_native(self) -> bool {
        !matches!(self, Self::Spark)
    }

    /// Whether columns can have unsigned integers.
    pub(crate) const fn has_unsigned(self) -> bool {
        self.is_native()
    }

    /// Whether the largest and smallest dates can represent infinite ones.
    pub(crate) const fn has_sentinels(self) -> bool {
        self.is_native()
    }

    /// Whether fields name Arrow's canonical extension types.
    pub(crate) const fn has_extension_types(self) -> bool {
        matches!(self, Self::Arrow)
    }

    /// Whether geometric values, ranges and similar values become structs and lists by default.
    pub(crate) const fn splits_values(self) -> bool {
        self.is_native()
    }

    /// Whether readers treat two names as the same. Spark ignores case.
    pub(crate) fn is_same_name(self, left: &str, right: &str) -> bool {
        if self.is_native() {
            left == right
        } else {
            left.eq_ignore_ascii_case(right)
        }
    }

    /// Whether any column can become this type.
    pub(crate) fn has(self, data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8
            | DataType::Binary
            | DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Float32
            | DataType::Float64
            | DataType::Date32
            | DataType::Time64(TimeUnit::Nanosecond)
            | DataType::Timestamp(TimeUnit::Microsecond, None) => true,
            DataType::UInt32
            | DataType::UInt64
            | DataType::FixedSizeBinary(16)
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::Interval(IntervalUnit::MonthDayNano)
            | DataType::Time64(TimeUnit::Microsecond) => self.is_native(),
            DataType::Dictionary(..) => self.is_native() && *data_type == dictionary(),
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => &**zone == "UTC",
            DataType::Decimal128(precision, scale) => {
                u8::try_from(*scale).is_ok_and(|it| Decimal128::new(*precision, it).is_some())
            }
            DataType::Decimal256(precision, scale) => {
                self.is_native()
                    && u8::try_from(*scale)
                        .is_ok_and(|it| Decimal256::new(*precision, it).is_some())
            }
            DataType::List(item) | DataType::LargeList(item)
                if *item.data_type() == DataType::Float16 =>
            {
                self.is_native() && item.is_nullable()
            }
            _ if lists(data_type) > MAX_LISTS => false,
            DataType::List(item) => item.is_nullable() && self.has(item.data_type()),
            DataType::LargeList(item) => {
                self.is_native() && item.is_nullable() && self.has(item.data_type())
            }
            DataType::FixedSizeList(item, size) => {
                self.is_native()
                    && (1..=NumberVector::MAX_DIMENSIONS).contains(size)
                    && **item == Field::new("item", DataType::Float32, true)
            }
            DataType::Map(..) => *data_type == map_type(),
            DataType::Struct(fields) => {
                let part = |field: &FieldRef| {
                    let data_type = field.data_type();
                    // A tid has an offset of this type.
                    let is_small = self.is_native() && *data_type == DataType::UInt16;
                    field.is_nullable() && (is_small || self.has(data_type))
                };
                !fields.is_empty() && fields.iter().all(part)
            }
            _ => false,
        }
    }
}

/// The number of lists within each other.
fn lists(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            lists(item.data_type()).saturating_add(1)
        }
        _ => 0,
    }
}

/// The maximum dimensions of an array, and one more for elements that are lists.
const MAX_LISTS: usize = 7;

/// The type of dictionary-encoded strings.
fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The type of a map of text to text.
pub(crate) fn map_type() -> DataType {
    let key = Field::new("key", DataType::Utf8, false);
    let pair = vec![key, Field::new("value", DataType::Utf8, true)];
    let entries = Field::new("entries", DataType::Struct(pair.into()), false);
    DataType::Map(Arc::new(entries), false)
}
