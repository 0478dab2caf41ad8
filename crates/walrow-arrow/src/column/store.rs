//! Holds values until the batch is finished: the part of a column that knows Arrow's types.
//!
//! A store holds a default for each null. It does not know which rows are null.

use super::{Column, Losses};
use crate::offsets::{offset, offsets, push_empty, truncate_offsets};
use crate::utf8::Utf8;
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, BinaryArray, BinaryViewArray, BooleanArray,
    DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, GenericListArray, LargeBinaryArray,
    LargeStringArray, ListArray, MapArray, PrimitiveArray, StringArray, StringViewArray,
    StructArray,
};
use arrow_buffer::{Buffer, IntervalMonthDayNano, NullBuffer, OffsetBuffer, ScalarBuffer, i256};
use arrow_schema::{ArrowError, DataType};
use std::fmt::Debug;
use std::sync::Arc;
use walrow_types::{
    CellError, Days, IntervalValue, Micros, TimeOfDay, Unrepresentable, WideDecimal,
};

/// Values of one Arrow type.
pub(crate) trait Store: Debug + Send + Sync {
    fn push_null(&mut self);

    /// Whether the next value needs no allocation. If false, it may need none either.
    #[inline]
    fn has_room(&self) -> bool {
        false
    }

    /// Drops all values after the first `rows`, including an incomplete value.
    fn truncate(&mut self, rows: usize);

    /// Bytes of values of varying size.
    fn variable_bytes(&self) -> usize {
        0
    }

    /// Reserves memory for this number of bytes of text or binary values.
    fn reserve_bytes(&mut self, bytes: usize) {
        let _ = bytes;
    }

    /// Pushes the largest value, or that value negated. Returns false if no value of the type means
    /// infinity.
    fn push_sentinel(&mut self, sign: i8) -> bool {
        let _ = sign;
        false
    }

    /// The losses in the parts of values.
    fn losses(&self) -> Losses {
        Losses::default()
    }

    /// Whether a part of a value has no text.
    fn lacks_text(&self, is_binary: bool) -> bool {
        let _ = is_binary;
        false
    }

    /// The values as an array of this type, with these nulls.
    fn finish(
        self,
        rows: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError>;
}

/// A store that takes values of this type.
pub(crate) trait Push<V>: Store {
    fn push(&mut self, value: V) -> Result<(), CellError>;
}

/// `Boolean`.
#[derive(Debug)]
pub(crate) struct Bits(BooleanBufferBuilder);

impl Bits {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self(BooleanBufferBuilder::new(rows))
    }
}

impl Store for Bits {
    #[inline]
    fn push_null(&mut self) {
        self.0.append(false);
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    fn finish(
        mut self,
        _: usize,
        nulls: Option<NullBuffer>,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        Ok(Arc::new(BooleanArray::new(self.0.finish(), nulls)))
    }
}

impl Push<bool> for Bits {
    #[inline]
    fn push(&mut self, value: bool) -> Result<(), CellError> {
        self.0.append(value);
        Ok(())
    }
}

/// Every Arrow type whose values are numbers of fixed size.
#[derive(Debug)]
pub(crate) struct Fixed<T: ArrowPrimitiveType>(Vec<T::Native>);

impl<T: ArrowPrimitiveType> Fixed<T> {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self(Vec::with_capacity(rows))
    }
}

impl<T: ArrowPrimitiveType + Debug> Store for Fixed<T> {
    #[inline]
    fn push_null(&mut self) {
        self.0.push(T::Native::default());
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.0.len() < self.0.capacity()
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows);
    }

    fn push_sentinel(&mut self, sign: i8) -> bool {
        if !matches!(T::DATA_TYPE, DataType::Date32 | DataType::Timestamp(..)) {
            return false;
        }
        let largest = T::Native::MAX_TOTAL_ORDER;
        match sign {
            1 => self.0.push(largest),
            -1 => self.0.push(largest.neg_wrapping()),
            _ => return false,
        }
        true
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let array = PrimitiveArray::<T>::try_new(self.0.into(), nulls)?;
        Ok(Arc::new(array.with_data_type(data_type.clone())))
    }
}

/// Which Arrow types can hold all values of a Rust type.
macro_rules! natives {
    ($($value:ty => $($arrow:ident)*;)*) => {$($(
        impl Push<$value> for Fixed<$arrow> {
            #[inline]
            fn push(&mut self, value: $value) -> Result<(), CellError> {
                self.0.push(value.into());
                Ok(())
            }
        }
    )*)*};
}

natives! {
    i16 => Int16Type Int32Type Int64Type;
    i32 => Int32Type Int64Type;
    i64 => Int64Type;
    u16 => UInt16Type;
    u32 => UInt32Type Int64Type;
    u64 => UInt64Type;
    f32 => Float32Type Float64Type;
    f64 => Float64Type;
    i128 => Decimal128Type;
    Days => Date32Type;
    Micros => TimestampMicrosecondType;
    TimeOfDay => Time64MicrosecondType;
}

impl Push<u64> for Fixed<Int64Type> {
    #[inline]
    fn push(&mut self, value: u64) -> Result<(), CellError> {
        let value = i64::try_from(value).map_err(|_| Unrepresentable::SignedRange)?;
        self.0.push(value);
        Ok(())
    }
}

/// The 16-bit numbers of a `halfvec`.
impl Push<f32> for Fixed<Float16Type> {
    fn push(&mut self, value: f32) -> Result<(), CellError> {
        self.0
            .push(<Float16Type as ArrowPrimitiveType>::Native::from_f32(value));
        Ok(())
    }
}

impl Push<TimeOfDay> for Fixed<Time64NanosecondType> {
    #[inline]
    fn push(&mut self, value: TimeOfDay) -> Result<(), CellError> {
        // At most a day of microseconds.
        self.0.push(value.0.saturating_mul(1000));
        Ok(())
    }
}

impl Push<IntervalValue> for Fixed<IntervalMonthDayNanoType> {
    fn push(&mut self, value: IntervalValue) -> Result<(), CellError> {
        let nanos = value.micros.checked_mul(1000);
        let nanos = nanos.ok_or(Unrepresentable::IntervalRange)?;
        self.0
            .push(IntervalMonthDayNano::new(value.months, value.days, nanos));
        Ok(())
    }
}

impl Push<WideDecimal> for Fixed<Decimal256Type> {
    fn push(&mut self, value: WideDecimal) -> Result<(), CellError> {
        // Both halves are less than 10^38, so the whole is less than 2^253.
        let part = |half: u128| i256::from_i128(half.cast_signed());
        let whole = part(value.high)
            .wrapping_mul(i256::from_i128(TEN_TO_38))
            .wrapping_add(part(value.low));
        self.0.push(if value.negative {
            whole.wrapping_neg()
        } else {
            whole
        });
        Ok(())
    }
}

const TEN_TO_38: i128 = 10_i128.pow(38);

/// `FixedSizeBinary(N)`.
#[derive(Debug)]
pub(crate) struct FixedBytes<const N: usize>(Vec<u8>);

impl<const N: usize> FixedBytes<N> {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self(Vec::with_capacity(rows.saturating_mul(N)))
    }
}

impl<const N: usize> Store for FixedBytes<N> {
    #[inline]
    fn push_null(&mut self) {
        self.0.extend_from_slice(&[0; N]);
    }

    fn truncate(&mut self, rows: usize) {
        self.0.truncate(rows.saturating_mul(N));
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        _: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let size = i32::try_from(N).unwrap_or(i32::MAX);
        let array = FixedSizeBinaryArray::try_new(size, self.0.into(), nulls)?;
        Ok(Arc::new(array))
    }
}

impl<const N: usize> Push<[u8; N]> for FixedBytes<N> {
    #[inline]
    fn push(&mut self, value: [u8; N]) -> Result<(), CellError> {
        self.0.extend_from_slice(&value);
        Ok(())
    }
}

/// Strings or bytes, in any of Arrow's layouts.
#[derive(Debug)]
pub(crate) struct Bytes {
    /// 0, then the end of each value.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

impl Bytes {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self {
            offsets: offsets(rows),
            bytes: Vec::new(),
        }
    }

    /// The bytes to which the next value is appended.
    #[inline]
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Makes a value of the bytes that were appended after the last value.
    #[inline]
    pub(crate) fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.bytes.len())?);
        Ok(())
    }
}

impl Store for Bytes {
    #[inline]
    fn push_null(&mut self) {
        push_empty(&mut self.offsets);
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.offsets.len() < self.offsets.capacity()
    }

    fn truncate(&mut self, rows: usize) {
        let end = truncate_offsets(&mut self.offsets, rows);
        self.bytes.truncate(end);
    }

    fn variable_bytes(&self) -> usize {
        self.bytes.len()
    }

    fn reserve_bytes(&mut self, bytes: usize) {
        self.bytes.reserve(bytes);
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let bytes = Buffer::from_vec(self.bytes);
        Ok(match data_type {
            DataType::Binary => Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?),
            DataType::LargeBinary => {
                Arc::new(LargeBinaryArray::try_new(wide(&offsets), bytes, nulls)?)
            }
            DataType::BinaryView => {
                let array = BinaryArray::try_new(offsets, bytes, nulls)?;
                Arc::new(BinaryViewArray::from(&array))
            }
            _ => strings_as(StringArray::try_new(offsets, bytes, nulls)?, data_type)?,
        })
    }
}

impl Store for Utf8 {
    #[inline]
    fn push_null(&mut self) {
        Self::push_null(self);
    }

    #[inline]
    fn has_room(&self) -> bool {
        Self::has_room(self)
    }

    fn truncate(&mut self, rows: usize) {
        Self::truncate(self, rows);
    }

    fn variable_bytes(&self) -> usize {
        self.size()
    }

    fn reserve_bytes(&mut self, bytes: usize) {
        self.reserve(bytes);
    }

    fn finish(
        self,
        rows: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        strings_as(self.into_array(rows, nulls)?, data_type)
    }
}

/// Strings in any of Arrow's layouts.
fn strings_as(strings: StringArray, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    Ok(match data_type {
        DataType::LargeUtf8 => {
            let (offsets, bytes, nulls) = strings.into_parts();
            Arc::new(LargeStringArray::try_new(wide(&offsets), bytes, nulls)?)
        }
        DataType::Utf8View => Arc::new(StringViewArray::from(&strings)),
        DataType::Dictionary(..) => {
            Arc::new(strings.iter().collect::<DictionaryArray<Int32Type>>())
        }
        _ => Arc::new(strings),
    })
}

/// Lists, or lists of lists: the offsets of every level and one column of elements.
#[derive(Debug)]
pub(crate) struct Lists {
    /// For each level, 0, then the end of each list. The outermost level comes first.
    levels: Vec<Vec<i32>>,
    elements: Box<dyn Column>,
    /// The minimum bytes of an element, even if it is null.
    element_bytes: usize,
    /// Whether a small cell can become many bytes.
    expands: bool,
    /// Lists that had a first subscript other than 1.
    dropped_bounds: Vec<usize>,
}

impl Lists {
    pub(crate) fn new(
        rows: usize,
        depth: usize,
        elements: Box<dyn Column>,
        element_bytes: usize,
        expands: bool,
    ) -> Self {
        let inner = (1..depth).map(|_| offsets(0));
        Self {
            levels: std::iter::once(offsets(rows)).chain(inner).collect(),
            elements,
            element_bytes,
            expands,
            dropped_bounds: Vec::new(),
        }
    }

    pub(crate) fn depth(&self) -> usize {
        self.levels.len()
    }

    #[inline]
    pub(crate) fn elements(&mut self) -> &mut dyn Column {
        &mut *self.elements
    }

    /// The maximum bytes of the elements after the next cell. PostgreSQL's own values never exceed
    /// it.
    pub(crate) fn room(&self) -> Option<usize> {
        self.expands
            .then(|| self.variable_bytes().saturating_add(MAX_VALUE))
    }

    /// Fails if the elements have more bytes than this.
    #[inline]
    pub(crate) fn check_room(&self, room: Option<usize>) -> Result<(), CellError> {
        match room {
            Some(room) if self.variable_bytes() > room => Err(Unrepresentable::TooLarge.into()),
            _ => Ok(()),
        }
    }

    /// Makes a list of the lists or elements that were appended after the last list of this level.
    /// The outermost level is 0.
    pub(crate) fn close(&mut self, level: usize) -> Result<(), CellError> {
        let inner = level.saturating_add(1);
        let end = match self.levels.get(inner) {
            Some(offsets) => offsets.len().saturating_sub(1),
            None => self.elements.len(),
        };
        let end = offset(end)?;
        if let Some(offsets) = self.levels.get_mut(level) {
            offsets.push(end);
        }
        Ok(())
    }

    /// Closes the outermost list. `dropped` is true if it loses its first subscript.
    pub(crate) fn close_array(&mut self, dropped: bool) -> Result<(), CellError> {
        if dropped {
            let lists = self.levels.first().map_or(0, Vec::len);
            self.dropped_bounds.push(lists.saturating_sub(1));
        }
        self.close(0)
    }
}

impl Store for Lists {
    fn push_null(&mut self) {
        if let Some(offsets) = self.levels.first_mut() {
            push_empty(offsets);
        }
    }

    fn truncate(&mut self, rows: usize) {
        let mut end = rows;
        for offsets in &mut self.levels {
            end = truncate_offsets(offsets, end);
        }
        self.elements.truncate(end);
        let before = self.dropped_bounds.partition_point(|place| *place < rows);
        self.dropped_bounds.truncate(before);
    }

    fn variable_bytes(&self) -> usize {
        let lists = self.levels.iter().skip(1);
        let lists = lists.map(|offsets| offsets.len().saturating_sub(1).saturating_mul(4));
        let fixed = self.elements.len().saturating_mul(self.element_bytes);
        lists
            .fold(fixed, usize::saturating_add)
            .saturating_add(self.elements.variable_bytes())
    }

    fn losses(&self) -> Losses {
        let inside = self.elements.losses();
        let dropped = self.dropped_bounds.len() as u64;
        Losses {
            dropped_bounds: inside.dropped_bounds.saturating_add(dropped),
            ..inside
        }
    }

    fn lacks_text(&self, is_binary: bool) -> bool {
        self.elements.lacks_text(is_binary, true)
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let mut types = Vec::with_capacity(self.levels.len());
        let mut level = data_type;
        for _ in &self.levels {
            types.push(level);
            level = match level {
                DataType::List(item) | DataType::LargeList(item) => item.data_type(),
                other => other,
            };
        }
        let mut array = self.elements.finish()?;
        let levels = self.levels.into_iter().zip(types).enumerate().rev();
        let mut nulls = nulls;
        for (place, (offsets, data_type)) in levels {
            let nulls = if place == 0 { nulls.take() } else { None };
            let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
            array = match data_type {
                DataType::LargeList(item) => {
                    let offsets = wide(&offsets);
                    let item = Arc::clone(item);
                    Arc::new(GenericListArray::<i64>::try_new(
                        item, offsets, array, nulls,
                    )?)
                }
                DataType::List(item) => {
                    Arc::new(ListArray::try_new(Arc::clone(item), offsets, array, nulls)?)
                }
                _ => return Err(mismatch("a list", data_type)),
            };
        }
        Ok(array)
    }
}

/// `FixedSizeList` of 32-bit floats.
#[derive(Debug)]
pub(crate) struct FixedLists {
    size: usize,
    numbers: Vec<f32>,
}

impl FixedLists {
    pub(crate) const fn new(size: usize) -> Self {
        Self {
            size,
            numbers: Vec::new(),
        }
    }

    pub(crate) fn push_numbers(&mut self, numbers: &[f32]) -> Result<(), CellError> {
        if numbers.len() != self.size {
            return Err(CellError::Malformed("as many numbers as the column says"));
        }
        self.numbers.extend_from_slice(numbers);
        Ok(())
    }
}

impl Store for FixedLists {
    fn push_null(&mut self) {
        let end = self.numbers.len().saturating_add(self.size);
        self.numbers.resize(end, 0.0);
    }

    fn truncate(&mut self, rows: usize) {
        self.numbers.truncate(rows.saturating_mul(self.size));
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let DataType::FixedSizeList(item, size) = data_type else {
            return Err(mismatch("a fixed-size list", data_type));
        };
        let numbers = PrimitiveArray::<Float32Type>::try_new(self.numbers.into(), None)?;
        let array = FixedSizeListArray::try_new(Arc::clone(item), *size, Arc::new(numbers), nulls)?;
        Ok(Arc::new(array))
    }
}

/// Maps of text to text.
#[derive(Debug)]
pub(crate) struct Maps {
    /// 0, then the end of each map.
    offsets: Vec<i32>,
    keys: Box<dyn Column>,
    values: Box<dyn Column>,
}

impl Maps {
    pub(crate) fn new(rows: usize, keys: Box<dyn Column>, values: Box<dyn Column>) -> Self {
        Self {
            offsets: offsets(rows),
            keys,
            values,
        }
    }

    pub(crate) fn push_pair(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), CellError> {
        append(&mut *self.keys, |column| column.append_text(key))?;
        let Some(value) = value else {
            self.values.append_null();
            return Ok(());
        };
        append(&mut *self.values, |column| column.append_text(value))
    }

    pub(crate) fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.keys.len())?);
        Ok(())
    }
}

impl Store for Maps {
    fn push_null(&mut self) {
        push_empty(&mut self.offsets);
    }

    fn truncate(&mut self, rows: usize) {
        let end = truncate_offsets(&mut self.offsets, rows);
        self.keys.truncate(end);
        self.values.truncate(end);
    }

    fn variable_bytes(&self) -> usize {
        let keys = self.keys.variable_bytes();
        keys.saturating_add(self.values.variable_bytes())
    }

    fn finish(
        self,
        _: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let DataType::Map(entries, is_sorted) = data_type else {
            return Err(mismatch("a map", data_type));
        };
        let DataType::Struct(pair) = entries.data_type() else {
            return Err(mismatch("a map", data_type));
        };
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let pairs = vec![self.keys.finish()?, self.values.finish()?];
        let pairs = StructArray::try_new(pair.clone(), pairs, None)?;
        let entries = Arc::clone(entries);
        let array = MapArray::try_new(entries, offsets, pairs, nulls, *is_sorted)?;
        Ok(Arc::new(array))
    }
}

/// Structs: a column for each field. If one of them cannot hold its value, the struct cannot.
#[derive(Debug)]
pub(crate) struct Structs {
    columns: Vec<Box<dyn Column>>,
    /// Whether a small cell can become many bytes.
    pub(crate) expands: bool,
}

impl Structs {
    pub(crate) const fn new(columns: Vec<Box<dyn Column>>, expands: bool) -> Self {
        Self { columns, expands }
    }

    pub(crate) fn columns(&mut self) -> &mut [Box<dyn Column>] {
        &mut self.columns
    }

    /// Appends the binary cell of each field.
    pub(crate) fn push_binary<const N: usize>(
        &mut self,
        parts: [&[u8]; N],
    ) -> Result<(), CellError> {
        for (column, part) in self.columns.iter_mut().zip(parts) {
            append(&mut **column, |column| column.append_binary(part))?;
        }
        Ok(())
    }
}

impl Store for Structs {
    fn push_null(&mut self) {
        for column in &mut self.columns {
            column.append_null();
        }
    }

    fn truncate(&mut self, rows: usize) {
        for column in &mut self.columns {
            column.truncate(rows);
        }
    }

    fn variable_bytes(&self) -> usize {
        let columns = self.columns.iter().map(|column| column.variable_bytes());
        columns.fold(0, usize::saturating_add)
    }

    fn losses(&self) -> Losses {
        let dropped = self.columns.iter().map(|it| it.losses().dropped_bounds);
        Losses {
            nulled: 0,
            dropped_bounds: dropped.fold(0, u64::saturating_add),
        }
    }

    fn lacks_text(&self, is_binary: bool) -> bool {
        self.columns.iter().any(|it| it.lacks_text(is_binary, true))
    }

    fn finish(
        self,
        rows: usize,
        nulls: Option<NullBuffer>,
        data_type: &DataType,
    ) -> Result<ArrayRef, ArrowError> {
        let DataType::Struct(fields) = data_type else {
            return Err(mismatch("a struct", data_type));
        };
        let columns = self.columns.into_iter().map(<dyn Column>::finish);
        let columns = columns.collect::<Result<Vec<_>, _>>()?;
        let fields = fields.clone();
        let array = StructArray::try_new_with_length(fields, columns, nulls, rows)?;
        Ok(Arc::new(array))
    }
}

/// Appends to a part's column, and returns its failure.
#[inline]
pub(crate) fn append(
    column: &mut dyn Column,
    cell: impl FnOnce(&mut dyn Column) -> Result<(), super::Refused>,
) -> Result<(), CellError> {
    match cell(column) {
        Ok(()) => Ok(()),
        Err(_) => Err(column.failure()),
    }
}

/// The maximum bytes of one value, even if its cell is small.
pub(crate) const MAX_VALUE: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

fn wide(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    let offsets: Vec<i64> = offsets.iter().map(|end| i64::from(*end)).collect();
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}

fn mismatch(values: &str, data_type: &DataType) -> ArrowError {
    ArrowError::InvalidArgumentError(format!("{values} cannot be {data_type}"))
}
