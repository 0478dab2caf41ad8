//! The values of a column, without those that are null.

use super::bits::{bit_from_binary, bit_from_text, bits_from_binary, bits_from_text};
use super::bool::{bool_from_binary, bool_from_text};
use super::builder::Column;
use super::bytes::{bytea_from_text, bytes_from_hex};
use super::decimal256::{Decimal256, decimal256_from_binary, decimal256_from_text};
use super::float::{
    f32_from_binary, f32_from_text, f64_from_binary, f64_from_numeric_binary,
    f64_from_numeric_text, f64_from_text,
};
use super::int::{
    i16_from_binary, i16_from_text, i32_from_binary, i32_from_text, i64_from_binary, i64_from_text,
    u16_from_binary, u16_from_text, u32_from_binary, u32_from_text, u64_from_binary, u64_from_text,
};
use super::interval::{interval_from_binary, interval_from_text};
use super::money::{money_from_binary, money_from_text};
use super::nested::{List, Map, Struct, Vector};
use super::numeric::{Decimal128, decimal128_from_binary, decimal128_from_text};
use super::pgvector::{
    vector_from_binary as numbers_from_binary, vector_from_text as numbers_from_text,
};
use super::pinned::text_as_pinned;
use super::plan::{
    BoolForm, BytesForm, DecimalForm, Float, Integer, ListForm, Plan, TextForm, UUID_BYTES,
    entries_field, number_field, pair_fields,
};
use super::postgis::{wkb_from_binary, wkb_from_text};
use super::render::{render_binary, render_latin1};
use super::system::lsn_from_text;
use super::temporal::{
    date_from_binary, date_from_text, time_from_binary, time_from_text, timestamp_from_binary,
    timestamp_from_text, timestamptz_from_text, timetz_from_binary, timetz_from_text,
    timetz_to_even_text,
};
use super::text::check_utf8;
use super::uuid::{uuid_from_binary, uuid_from_text};
use super::{CellError, Unrepresentable};
use crate::options::OnUnrepresentable;
use crate::session::SessionSettings;
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray,
    FixedSizeListArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, TimeUnit};
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum Values {
    Bool(BooleanBufferBuilder, BoolForm),
    Int16(Vec<i16>),
    Int32(Vec<i32>, Integer),
    Int64(Vec<i64>, Integer),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>, Integer),
    Float32(Vec<f32>),
    Float64(Vec<f64>, Float),
    Decimal(Vec<i128>, Decimal128, DecimalForm),
    Decimal256(Box<(Vec<i256>, Decimal256, Vec<u8>)>),
    Utf8(Bytes, TextForm),
    Trimmed(Bytes),
    TimeTz(Bytes),
    Binary(Bytes, BytesForm),
    Wkb(Bytes, Box<(u32, Vec<u8>)>),
    Uuid(Vec<u8>),
    Date(Vec<i32>),
    Time(Vec<i64>, TimeUnit),
    Timestamp(Vec<i64>, Moments),
    Interval(Vec<IntervalMonthDayNano>),
    List(Box<List>),
    Struct(Box<Struct>),
    Vector(Box<Vector>),
    Map(Box<Map>),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Moments {
    zone: bool,
    /// The last one that can be told from a sentinel.
    last: i64,
}

impl Moments {
    #[inline]
    fn check(self, moment: i64) -> Result<i64, CellError> {
        if moment > self.last {
            return Err(Unrepresentable::OutOfRange.into());
        }
        Ok(moment)
    }
}

/// Values of varying size, one after the other.
#[derive(Debug)]
pub(super) struct Bytes {
    /// Where each value ends, and 0 before them.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Values {
    /// No values yet, and room for so many.
    pub(super) fn new(plan: &Plan, on_unrepresentable: OnUnrepresentable, rows: usize) -> Self {
        match plan {
            Plan::Laid(plan, _) | Plan::Foreign(plan, _) => {
                Self::new(plan, on_unrepresentable, rows)
            }
            Plan::Bool(form) => Self::Bool(BooleanBufferBuilder::new(rows), *form),
            Plan::Int16 => Self::Int16(Vec::with_capacity(rows)),
            Plan::Int32(integer) => Self::Int32(Vec::with_capacity(rows), *integer),
            Plan::Int64(integer) => Self::Int64(Vec::with_capacity(rows), *integer),
            Plan::UInt16 => Self::UInt16(Vec::with_capacity(rows)),
            Plan::UInt32 => Self::UInt32(Vec::with_capacity(rows)),
            Plan::UInt64(integer) => Self::UInt64(Vec::with_capacity(rows), *integer),
            Plan::Float32 => Self::Float32(Vec::with_capacity(rows)),
            Plan::Float64(form) => Self::Float64(Vec::with_capacity(rows), *form),
            Plan::Decimal(decimal, form) => {
                Self::Decimal(Vec::with_capacity(rows), *decimal, *form)
            }
            Plan::Decimal256(decimal) => {
                Self::Decimal256(Box::new((Vec::with_capacity(rows), *decimal, Vec::new())))
            }
            Plan::Trimmed => Self::Trimmed(Bytes::new(rows)),
            Plan::Wkb { srid } => Self::Wkb(Bytes::new(rows), Box::new((*srid, Vec::new()))),
            Plan::Utf8(form) => Self::Utf8(Bytes::new(rows), form.clone()),
            Plan::TimeTz => Self::TimeTz(Bytes::new(rows)),
            Plan::Binary(form) => Self::Binary(Bytes::new(rows), *form),
            Plan::Uuid => Self::Uuid(Vec::with_capacity(rows.saturating_mul(16))),
            Plan::Date => Self::Date(Vec::with_capacity(rows)),
            Plan::Time(unit) => Self::Time(Vec::with_capacity(rows), *unit),
            Plan::Timestamp { zone } => {
                let is_sentinel = on_unrepresentable == OnUnrepresentable::Sentinel;
                let last = i64::MAX.saturating_sub(is_sentinel.into());
                let moments = Moments { zone: *zone, last };
                Self::Timestamp(Vec::with_capacity(rows), moments)
            }
            Plan::List(list) => {
                let elements = match list.form {
                    // A multirange without one of its ranges would be another one.
                    ListForm::Multirange => Column::within(&list.element, on_unrepresentable, 0),
                    _ => Column::new(&list.element, on_unrepresentable, 0),
                };
                Self::List(Box::new(List::new(list, offsets(rows), elements)))
            }
            Plan::Interval => Self::Interval(Vec::with_capacity(rows)),
            Plan::Vector(dimensions) => Self::Vector(Box::new(Vector {
                dimensions: *dimensions,
                numbers: Vec::new(),
                scratch: Vec::new(),
            })),
            Plan::Map => {
                let text = || {
                    let plan = Plan::Utf8(TextForm::Raw);
                    Column::within(&plan, on_unrepresentable, 0)
                };
                Self::Map(Box::new(Map {
                    offsets: offsets(rows),
                    keys: text(),
                    values: text(),
                    scratch: Vec::new(),
                }))
            }
            Plan::Struct(it) => {
                let plans = it.plans.iter();
                let columns = plans.map(|plan| Column::within(plan, on_unrepresentable, rows));
                Self::Struct(Box::new(Struct::new(it, columns.collect())))
            }
        }
    }

    #[inline]
    pub(super) fn push_default(&mut self) {
        match self {
            Self::Bool(values, _) => values.append(false),
            Self::Int16(values) => values.push(0),
            Self::Int32(values, _) | Self::Date(values) => values.push(0),
            Self::Int64(values, _) | Self::Time(values, _) | Self::Timestamp(values, _) => {
                values.push(0);
            }
            Self::UInt16(values) => values.push(0),
            Self::UInt32(values) => values.push(0),
            Self::UInt64(values, _) => values.push(0),
            Self::Float32(values) => values.push(0.0),
            Self::Float64(values, _) => values.push(0.0),
            Self::Decimal(values, ..) => values.push(0),
            Self::Decimal256(it) => it.0.push(i256::ZERO),
            Self::Utf8(values, _)
            | Self::Trimmed(values)
            | Self::Binary(values, _)
            | Self::Wkb(values, _)
            | Self::TimeTz(values) => values.push_empty(),
            Self::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Self::Struct(it) => it.columns.iter_mut().for_each(Column::append_null),
            Self::Uuid(values) => values.extend_from_slice(&[0; 16]),
            Self::List(list) => list.push_empty(),
            Self::Vector(it) => it.truncate(it.rows().saturating_add(1)),
            Self::Map(map) => {
                let end = map.offsets.last().copied().unwrap_or(0);
                map.offsets.push(end);
            }
        }
    }

    #[inline]
    pub(super) fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self {
            Self::Bool(values, BoolForm::Bool) => values.append(bool_from_text(cell)?),
            Self::Bool(values, BoolForm::Bit) => values.append(bit_from_text(cell)?),
            Self::Int16(values) => values.push(i16_from_text(cell)?),
            Self::Int32(values, Integer::Int2) => values.push(i16_from_text(cell)?.into()),
            Self::Int32(values, _) => values.push(i32_from_text(cell)?),
            Self::Int64(values, integer) => values.push(integer.parse_text(cell)?),
            Self::UInt16(values) => values.push(u16_from_text(cell)?),
            Self::UInt32(values) => values.push(u32_from_text(cell)?),
            Self::UInt64(values, integer) => values.push(integer.parse_unsigned_text(cell)?),
            Self::Float32(values) => values.push(f32_from_text(cell)?),
            Self::Float64(values, Float::Double) => values.push(f64_from_text(cell)?),
            Self::Float64(values, Float::Single) => values.push(f32_from_text(cell)?.into()),
            Self::Float64(values, Float::Numeric) => values.push(f64_from_numeric_text(cell)?),
            Self::Decimal(values, decimal, DecimalForm::Numeric) => {
                values.push(decimal128_from_text(cell, *decimal)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Money) => {
                values.push(money_from_text(cell, *decimal)?);
            }
            Self::Utf8(values, form) => {
                if form.is_shaped() {
                    return values.push_pinned(cell, form, SessionSettings::default());
                }
                values.push_text(cell)?;
            }
            Self::Decimal256(it) => {
                let (values, decimal, _) = &mut **it;
                values.push(decimal256_from_text(cell, *decimal)?);
            }
            Self::Trimmed(values) => {
                check_utf8(cell)?;
                values.push(trimmed(cell))?;
            }
            Self::Wkb(values, column) => {
                let (srid, scratch) = &mut **column;
                let own = wkb_from_text(cell, scratch, &mut values.bytes)?;
                check_srid(own, *srid)?;
                values.close()?;
            }
            Self::Binary(values, BytesForm::Ewkb) => {
                bytes_from_hex(cell, &mut values.bytes)?;
                values.close()?;
            }
            Self::Binary(values, BytesForm::Cell) => values.push(cell)?,
            Self::TimeTz(values) => {
                timetz_to_even_text(timetz_from_text(cell)?, &mut values.bytes);
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bytea) => {
                bytea_from_text(cell, &mut values.bytes)?;
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bits) => {
                bits_from_text(cell, &mut values.bytes)?;
                values.close()?;
            }
            Self::Uuid(values) => values.extend_from_slice(&uuid_from_text(cell)?),
            Self::Date(values) => values.push(date_from_text(cell)?),
            Self::Time(values, _) => values.push(time_from_text(cell)?),
            Self::Timestamp(values, moments) => {
                let moment = if moments.zone {
                    timestamptz_from_text(cell)?
                } else {
                    timestamp_from_text(cell)?
                };
                values.push(moments.check(moment)?);
            }
            Self::Interval(values) => {
                values.push(interval_from_text(cell)?.month_day_nano()?);
            }
            Self::List(list) => list.push_text(cell)?,
            Self::Struct(it) => it.push_text(cell)?,
            Self::Vector(it) => {
                numbers_from_text(cell, &mut it.scratch)?;
                it.close()?;
            }
            Self::Map(map) => map.push_text(cell)?,
        }
        Ok(())
    }

    #[inline]
    pub(super) fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self {
            Self::Bool(values, BoolForm::Bool) => values.append(bool_from_binary(cell)?),
            Self::Bool(values, BoolForm::Bit) => values.append(bit_from_binary(cell)?),
            Self::Int16(values) => values.push(i16_from_binary(cell)?),
            Self::Int32(values, Integer::Int2) => values.push(i16_from_binary(cell)?.into()),
            Self::Int32(values, _) => values.push(i32_from_binary(cell)?),
            Self::Int64(values, integer) => values.push(integer.parse_binary(cell)?),
            Self::UInt16(values) => values.push(u16_from_binary(cell)?),
            Self::UInt32(values) => values.push(u32_from_binary(cell)?),
            Self::UInt64(values, _) => values.push(u64_from_binary(cell)?),
            Self::Float32(values) => values.push(f32_from_binary(cell)?),
            Self::Float64(values, Float::Double) => values.push(f64_from_binary(cell)?),
            Self::Float64(values, Float::Single) => values.push(f32_from_binary(cell)?.into()),
            Self::Float64(values, Float::Numeric) => {
                values.push(f64_from_numeric_binary(cell)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Numeric) => {
                values.push(decimal128_from_binary(cell, *decimal)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Money) => {
                values.push(money_from_binary(cell, *decimal)?);
            }
            Self::Decimal256(it) => {
                let (values, decimal, scratch) = &mut **it;
                values.push(decimal256_from_binary(cell, *decimal, scratch)?);
            }
            Self::Utf8(values, form) => values.push_rendered(cell, form)?,
            Self::Trimmed(values) => {
                check_utf8(cell)?;
                values.push(trimmed(cell))?;
            }
            Self::Wkb(values, column) => {
                let own = wkb_from_binary(cell, &mut values.bytes)?;
                check_srid(own, column.0)?;
                values.close()?;
            }
            Self::TimeTz(values) => {
                timetz_to_even_text(timetz_from_binary(cell)?, &mut values.bytes);
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bits) => values.push(bits_from_binary(cell)?)?,
            Self::Binary(values, _) => values.push(cell)?,
            Self::Uuid(values) => values.extend_from_slice(&uuid_from_binary(cell)?),
            Self::Date(values) => values.push(date_from_binary(cell)?),
            Self::Time(values, _) => values.push(time_from_binary(cell)?),
            Self::Timestamp(values, moments) => {
                values.push(moments.check(timestamp_from_binary(cell)?)?);
            }
            Self::Interval(values) => {
                values.push(interval_from_binary(cell)?.month_day_nano()?);
            }
            Self::List(list) => list.push_binary(cell)?,
            Self::Struct(it) => it.push_binary(cell)?,
            Self::Vector(it) => {
                numbers_from_binary(cell, &mut it.scratch)?;
                it.close()?;
            }
            Self::Map(map) => map.push_binary(cell)?,
        }
        Ok(())
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        match self {
            Self::Bool(values, _) => values.truncate(rows),
            Self::Int16(values) => values.truncate(rows),
            Self::Int32(values, _) | Self::Date(values) => values.truncate(rows),
            Self::Int64(values, _) | Self::Time(values, _) | Self::Timestamp(values, _) => {
                values.truncate(rows);
            }
            Self::UInt16(values) => values.truncate(rows),
            Self::UInt32(values) => values.truncate(rows),
            Self::UInt64(values, _) => values.truncate(rows),
            Self::Float32(values) => values.truncate(rows),
            Self::Float64(values, _) => values.truncate(rows),
            Self::Decimal(values, ..) => values.truncate(rows),
            Self::Decimal256(it) => it.0.truncate(rows),
            Self::Utf8(values, _)
            | Self::Trimmed(values)
            | Self::Binary(values, _)
            | Self::Wkb(values, _)
            | Self::TimeTz(values) => values.truncate(rows),
            Self::Interval(values) => values.truncate(rows),
            Self::Struct(it) => {
                for column in &mut it.columns {
                    column.truncate(rows);
                }
            }
            Self::Uuid(values) => values.truncate(rows.saturating_mul(16)),
            Self::Vector(it) => it.truncate(rows),
            Self::Map(map) => {
                let end = truncate_offsets(&mut map.offsets, rows);
                map.keys.truncate(end);
                map.values.truncate(end);
            }
            Self::List(list) => {
                let end = truncate_offsets(&mut list.offsets, rows);
                list.elements.truncate(end);
                let before = list.dropped_bounds.partition_point(|place| *place < rows);
                list.dropped_bounds.truncate(before);
            }
        }
    }

    /// Bytes of values of varying size.
    pub(super) fn variable_bytes(&self) -> usize {
        match self {
            Self::Utf8(values, _)
            | Self::Trimmed(values)
            | Self::Binary(values, _)
            | Self::Wkb(values, _)
            | Self::TimeTz(values) => values.bytes.len(),
            Self::List(list) => list.variable_bytes(),
            Self::Map(map) => {
                let keys = map.keys.variable_bytes();
                keys.saturating_add(map.values.variable_bytes())
            }
            Self::Struct(it) => {
                let columns = it.columns.iter().map(Column::variable_bytes);
                columns.fold(0, usize::saturating_add)
            }
            _ => 0,
        }
    }

    /// The values as an array, with these nulls.
    pub(super) fn finish(
        self,
        rows: usize,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(match self {
            Self::Bool(mut values, _) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Self::Int16(values) => primitive::<Int16Type>(values, nulls)?,
            Self::Int32(values, _) => primitive::<Int32Type>(values, nulls)?,
            Self::Int64(values, _) => primitive::<Int64Type>(values, nulls)?,
            Self::UInt16(values) => primitive::<UInt16Type>(values, nulls)?,
            Self::UInt32(values) => primitive::<UInt32Type>(values, nulls)?,
            Self::UInt64(values, _) => primitive::<UInt64Type>(values, nulls)?,
            Self::Float32(values) => primitive::<Float32Type>(values, nulls)?,
            Self::Float64(values, _) => primitive::<Float64Type>(values, nulls)?,
            Self::Date(values) => primitive::<Date32Type>(values, nulls)?,
            Self::Time(mut values, TimeUnit::Nanosecond) => {
                for value in &mut values {
                    // At most a day of microseconds.
                    *value = value.saturating_mul(1000);
                }
                primitive::<Time64NanosecondType>(values, nulls)?
            }
            Self::Time(values, _) => primitive::<Time64MicrosecondType>(values, nulls)?,
            Self::Interval(values) => primitive::<IntervalMonthDayNanoType>(values, nulls)?,
            Self::Decimal(values, decimal, _) => Arc::new(
                PrimitiveArray::<Decimal128Type>::try_new(values.into(), nulls)?
                    .with_precision_and_scale(decimal.precision(), decimal.scale().cast_signed())?,
            ),
            Self::Timestamp(values, moments) => Arc::new(
                PrimitiveArray::<TimestampMicrosecondType>::try_new(values.into(), nulls)?
                    .with_timezone_opt(moments.zone.then_some("UTC")),
            ),
            Self::Uuid(values) => Arc::new(FixedSizeBinaryArray::try_new(
                UUID_BYTES,
                values.into(),
                nulls,
            )?),
            Self::Decimal256(it) => {
                let (values, decimal, _) = *it;
                Arc::new(
                    PrimitiveArray::<Decimal256Type>::try_new(values.into(), nulls)?
                        .with_data_type(decimal.data_type()),
                )
            }
            Self::Utf8(values, _) | Self::TimeTz(values) | Self::Trimmed(values) => {
                let (offsets, bytes) = values.finish();
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Self::Binary(values, _) | Self::Wkb(values, _) => {
                let (offsets, bytes) = values.finish();
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
            Self::List(list) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(list.offsets));
                let elements = list.elements.finish()?;
                Arc::new(ListArray::try_new(
                    list.plan.item,
                    offsets,
                    elements,
                    nulls,
                )?)
            }
            Self::Vector(it) => {
                let numbers = primitive::<Float32Type>(it.numbers, None)?;
                Arc::new(FixedSizeListArray::try_new(
                    number_field(),
                    it.dimensions,
                    numbers,
                    nulls,
                )?)
            }
            Self::Map(map) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(map.offsets));
                let pairs = vec![map.keys.finish()?, map.values.finish()?];
                let pairs = StructArray::try_new(pair_fields(), pairs, None)?;
                Arc::new(MapArray::try_new(
                    entries_field(),
                    offsets,
                    pairs,
                    nulls,
                    false,
                )?)
            }
            Self::Struct(it) => {
                let columns = it.columns.into_iter().map(Column::finish);
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(
                    it.fields, columns, nulls, rows,
                )?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(
        values.into(),
        nulls,
    )?))
}

fn offsets(rows: usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows.saturating_add(1));
    offsets.push(0);
    offsets
}

/// A `bpchar` without the blanks that it was filled up with.
fn trimmed(cell: &[u8]) -> &[u8] {
    let end = cell.iter().rposition(|byte| *byte != b' ');
    end.and_then(|end| cell.get(..=end)).unwrap_or_default()
}

/// A geometry's own coordinate system must be its column's, which is all that is told of it.
fn check_srid(own: Option<u32>, column: u32) -> Result<(), CellError> {
    if own.unwrap_or(0) == column {
        return Ok(());
    }
    Err(Unrepresentable::Srid.into())
}

/// Keeps the first `rows` values and says where they end.
fn truncate_offsets(offsets: &mut Vec<i32>, rows: usize) -> usize {
    offsets.truncate(rows.saturating_add(1));
    usize::try_from(offsets.last().copied().unwrap_or(0)).unwrap_or(0)
}

/// Where values that end here lie: a batch holds no more than 2 GiB of a column.
#[inline]
pub(super) fn offset(end: usize) -> Result<i32, CellError> {
    i32::try_from(end).map_err(|_| Unrepresentable::TooLarge.into())
}

impl Bytes {
    fn new(rows: usize) -> Self {
        Self {
            offsets: offsets(rows),
            bytes: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Result<(), CellError> {
        let end = offset(self.bytes.len().saturating_add(value.len()))?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }

    #[inline]
    pub(super) fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        check_utf8(cell)?;
        self.push(cell)
    }

    /// Makes a value of the bytes that were appended since the last one.
    #[inline]
    fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.bytes.len())?);
        Ok(())
    }

    fn push_empty(&mut self) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(end);
    }

    #[inline(never)]
    fn push_rendered(&mut self, cell: &[u8], form: &TextForm) -> Result<(), CellError> {
        render_binary(form, cell, &mut self.bytes)?;
        self.close()
    }

    /// Makes a value of a text cell, put as it is under the pinned settings.
    #[inline(never)]
    pub(super) fn push_pinned(
        &mut self,
        cell: &[u8],
        form: &TextForm,
        session: SessionSettings,
    ) -> Result<(), CellError> {
        text_as_pinned(form, session, cell, &mut self.bytes)?;
        self.close()
    }

    /// As `push_rendered`, of a cell whose texts are of LATIN1.
    pub(super) fn push_latin1(&mut self, cell: &[u8], form: &TextForm) -> Result<(), CellError> {
        render_latin1(form, cell, &mut self.bytes)?;
        self.close()
    }

    fn truncate(&mut self, rows: usize) {
        let end = truncate_offsets(&mut self.offsets, rows);
        self.bytes.truncate(end);
    }

    fn finish(self) -> (OffsetBuffer<i32>, Buffer) {
        (
            OffsetBuffer::new(ScalarBuffer::from(self.offsets)),
            Buffer::from_vec(self.bytes),
        )
    }
}

impl Integer {
    #[inline]
    fn parse_text(self, cell: &[u8]) -> Result<i64, CellError> {
        match self {
            Self::Int2 => i16_from_text(cell).map(i64::from),
            Self::Int4 => i32_from_text(cell).map(i64::from),
            Self::Int8 => i64_from_text(cell),
            Self::Oid => u32_from_text(cell).map(i64::from),
            Self::Xid8 | Self::Lsn => in_64_bits(self.parse_unsigned_text(cell)?),
        }
    }

    #[inline]
    pub(super) fn parse_binary(self, cell: &[u8]) -> Result<i64, CellError> {
        match self {
            Self::Int2 => i16_from_binary(cell).map(i64::from),
            Self::Int4 => i32_from_binary(cell).map(i64::from),
            Self::Int8 => i64_from_binary(cell),
            Self::Oid => u32_from_binary(cell).map(i64::from),
            Self::Xid8 | Self::Lsn => in_64_bits(u64_from_binary(cell)?),
        }
    }

    /// The text of an `xid8` or a `pg_lsn`.
    #[inline]
    fn parse_unsigned_text(self, cell: &[u8]) -> Result<u64, CellError> {
        match self {
            Self::Lsn => lsn_from_text(cell),
            _ => u64_from_text(cell),
        }
    }
}

fn in_64_bits(value: u64) -> Result<i64, CellError> {
    i64::try_from(value).map_err(|_| Unrepresentable::SignedRange.into())
}
