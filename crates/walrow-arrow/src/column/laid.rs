//! The other layouts in which Arrow holds the same values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float16Type, Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, DictionaryArray, LargeBinaryArray,
    LargeListArray, LargeStringArray, ListArray, PrimitiveArray, StringViewArray,
};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

/// Lays strings, bytes or lists out as the type says, which must be a layout of the same values.
pub(super) fn laid(array: &ArrayRef, data_type: &DataType) -> Result<ArrayRef, ArrowError> {
    let nulls = array.nulls().cloned();
    Ok(match (array.data_type(), data_type) {
        (DataType::Utf8, DataType::LargeUtf8) => {
            let (offsets, bytes, _) = array.as_string::<i32>().clone().into_parts();
            Arc::new(LargeStringArray::try_new(wide(&offsets), bytes, nulls)?)
        }
        (DataType::Utf8, DataType::Utf8View) => {
            Arc::new(StringViewArray::from(array.as_string::<i32>()))
        }
        (DataType::Utf8, DataType::Dictionary(..)) => {
            let strings = array.as_string::<i32>().iter();
            Arc::new(strings.collect::<DictionaryArray<Int32Type>>())
        }
        (DataType::Binary, DataType::LargeBinary) => {
            let (offsets, bytes, _) = array.as_binary::<i32>().clone().into_parts();
            Arc::new(LargeBinaryArray::try_new(wide(&offsets), bytes, nulls)?)
        }
        (DataType::Binary, DataType::BinaryView) => {
            Arc::new(BinaryViewArray::from(array.as_binary::<i32>()))
        }
        (DataType::List(_), DataType::LargeList(item)) => {
            let (_, offsets, items, _) = array.as_list::<i32>().clone().into_parts();
            let items = items_as(items, item.data_type());
            let item = Arc::clone(item);
            Arc::new(LargeListArray::try_new(item, wide(&offsets), items, nulls)?)
        }
        (DataType::List(_), DataType::List(item)) => {
            let (_, offsets, items, _) = array.as_list::<i32>().clone().into_parts();
            let items = items_as(items, item.data_type());
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
        }
        _ => {
            let text = format!("{} is not laid out as {data_type}", array.data_type());
            return Err(ArrowError::NotYetImplemented(text));
        }
    })
}

/// A halfvec's numbers in the 16 bits that hold them; anything else as it is.
fn items_as(items: ArrayRef, data_type: &DataType) -> ArrayRef {
    match items.as_primitive_opt::<Float32Type>() {
        Some(numbers) if *data_type == DataType::Float16 => {
            let half = <Float16Type as ArrowPrimitiveType>::Native::from_f32;
            let halves: PrimitiveArray<Float16Type> = numbers.unary(half);
            Arc::new(halves)
        }
        _ => items,
    }
}

fn wide(offsets: &OffsetBuffer<i32>) -> OffsetBuffer<i64> {
    let offsets: Vec<i64> = offsets.iter().map(|end| i64::from(*end)).collect();
    OffsetBuffer::new(ScalarBuffer::from(offsets))
}
