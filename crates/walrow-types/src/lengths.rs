//! The counts and lengths in binary values of several parts.

/// The count in front and the bytes that follow it; `None` if they are too few for parts of `least` bytes each.
pub(crate) fn split_count(bytes: &[u8], least: usize) -> Option<(usize, &[u8])> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    let count = usize::try_from(i32::from_be_bytes(*count)).ok()?;
    (count.checked_mul(least)? <= rest.len()).then_some((count, rest))
}

/// The bytes after their length, `None` for the length -1 of a null, and what follows them.
pub(crate) fn split_cell(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    match i32::from_be_bytes(*length) {
        -1 => Some((None, rest)),
        length => {
            let (cell, rest) = rest.split_at_checked(usize::try_from(length).ok()?)?;
            Some((Some(cell), rest))
        }
    }
}
