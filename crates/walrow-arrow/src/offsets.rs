//! The offsets of a column whose values have varying size: 0, then the end of each value.

use walrow_types::{CellError, Unrepresentable};

/// No values, with room for this number of them.
pub(crate) fn offsets(rows: usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows.saturating_add(1));
    offsets.push(0);
    offsets
}

#[inline]
pub(crate) fn push_empty(offsets: &mut Vec<i32>) {
    offsets.push(offsets.last().copied().unwrap_or(0));
}

/// Keeps the first `rows` values, and returns their end.
pub(crate) fn truncate_offsets(offsets: &mut Vec<i32>, rows: usize) -> usize {
    offsets.truncate(rows.saturating_add(1));
    usize::try_from(offsets.last().copied().unwrap_or(0)).unwrap_or(0)
}

/// Converts the end of a value to an offset. A batch holds at most 2 GiB of a column.
#[inline]
pub(crate) fn offset(end: usize) -> Result<i32, CellError> {
    i32::try_from(end).map_err(|_| Unrepresentable::TooLarge.into())
}
