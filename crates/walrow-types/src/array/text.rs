//! The elements of an array's text.

use super::shape::{ArrayShape, ArrayStep, DEPTH, MAX_DIMENSIONS};
use crate::error::{CellError, Unrepresentable};
use crate::int::i32_from_text;

/// Visits the elements of an array's text, nulls as `None`. `scratch` holds an element without its escapes.
pub(super) fn array_from_text(
    cell: &[u8],
    delimiter: u8,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(Option<&[u8]>) -> Result<(), CellError>,
) -> Result<ArrayShape, CellError> {
    let (bounds, body) = match cell {
        [b'[', ..] => match split_bounds(cell) {
            Ok((bounds, body)) => (Some(bounds), body),
            Err(CellError::Unrepresentable(_)) => {
                return Err(dimensions_of_text(cell, delimiter, scratch));
            }
            Err(error) => return Err(error),
        },
        _ => (None, cell),
    };
    let mut rest = body.strip_prefix(b"{").ok_or(NOT_AN_ARRAY)?;
    if rest == b"}" && bounds.is_none() {
        return Ok(ArrayShape::EMPTY);
    }
    let mut len = 0_usize;
    loop {
        let after = match rest {
            [b'"', quoted @ ..] => {
                let (element, after) = split_quoted(quoted, scratch)?;
                visit(Some(element))?;
                after
            }
            [b'{', ..] => return Err(dimensions_of_text(cell, delimiter, scratch)),
            _ => {
                let (element, after) = split_unquoted(rest, delimiter)?;
                visit(element)?;
                after
            }
        };
        len = len.saturating_add(1);
        match after {
            b"}" => break,
            [byte, next @ ..] if *byte == delimiter => rest = next,
            _ => return Err(NOT_AN_ARRAY),
        }
    }
    let lower_bound = match bounds {
        Some((_, size)) if usize::try_from(size) != Ok(len) => {
            return Err(CellError::Malformed("as many elements as the bounds say"));
        }
        Some((lower_bound, _)) => lower_bound,
        None => 1,
    };
    Ok(ArrayShape { len, lower_bound })
}

/// Visits the text of an array of `depth` dimensions, or of an empty one. Returns whether a list of lists loses the
/// array's subscripts. `scratch` holds an element without its escapes.
pub(super) fn nested_from_text(
    cell: &[u8],
    delimiter: u8,
    depth: usize,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(ArrayStep<'_>) -> Result<(), CellError>,
) -> Result<bool, CellError> {
    match nested_text(cell, delimiter, depth, scratch, &mut visit) {
        Err(DEPTH) => Err(dimensions_of_text(cell, delimiter, scratch)),
        result => result,
    }
}

/// The number of dimensions of an array's text: its opening braces.
pub(super) fn dimensions(cell: &[u8]) -> Option<usize> {
    let braces = match cell.iter().position(|byte| *byte == b'=') {
        Some(place) if cell.first() == Some(&b'[') => cell.get(place.saturating_add(1)..),
        _ => Some(cell),
    };
    let depth = braces
        .unwrap_or_default()
        .iter()
        .take_while(|byte| **byte == b'{')
        .count();
    (1..=MAX_DIMENSIONS).contains(&depth).then_some(depth)
}

/// The error of an array with other dimensions than expected: `DEPTH`, unless it is malformed.
#[cold]
fn dimensions_of_text(cell: &[u8], delimiter: u8, scratch: &mut Vec<u8>) -> CellError {
    let Some(depth) = dimensions(cell) else {
        return NOT_AN_ARRAY;
    };
    match nested_text(cell, delimiter, depth, scratch, &mut |_| Ok(())) {
        Ok(_) => DEPTH,
        Err(DEPTH) => NOT_AN_ARRAY,
        Err(error) => error,
    }
}

pub(super) fn nested_text(
    cell: &[u8],
    delimiter: u8,
    depth: usize,
    scratch: &mut Vec<u8>,
    visit: &mut impl FnMut(ArrayStep<'_>) -> Result<(), CellError>,
) -> Result<bool, CellError> {
    let mut bounds = Vec::new();
    let mut rest = cell;
    if let [b'[', ..] = cell {
        let place = cell.iter().position(|byte| *byte == b'=');
        let (before, braces) = place
            .and_then(|place| cell.split_at_checked(place))
            .ok_or(NOT_AN_ARRAY)?;
        for bound in before
            .strip_suffix(b"]")
            .ok_or(NOT_AN_ARRAY)?
            .split(|byte| *byte == b']')
        {
            let bound = bound.strip_prefix(b"[").and_then(dimension);
            bounds.push(bound.ok_or(NOT_AN_ARRAY)?);
        }
        rest = braces.strip_prefix(b"=").ok_or(NOT_AN_ARRAY)?;
    }
    if rest == b"{}" && bounds.is_empty() {
        return Ok(false);
    }
    // The number of values in each open array, and in the closed arrays of each level.
    let mut counts = Vec::new();
    let mut sizes: Vec<Option<usize>> = vec![None; depth];
    loop {
        while counts.len() < depth {
            rest = match rest {
                [b'{', rest @ ..] => rest,
                _ => {
                    return Err(if counts.is_empty() {
                        NOT_AN_ARRAY
                    } else {
                        DEPTH
                    });
                }
            };
            counts.push(0_usize);
        }
        rest = match rest {
            [b'"', quoted @ ..] => {
                let (element, after) = split_quoted(quoted, scratch)?;
                visit(ArrayStep::Element(Some(element)))?;
                after
            }
            [b'{', ..] => return Err(DEPTH),
            _ => {
                let (element, after) = split_unquoted(rest, delimiter)?;
                visit(ArrayStep::Element(element))?;
                after
            }
        };
        // The value ends, and so do the arrays whose last value it is.
        loop {
            let open = counts.len();
            let count = counts.last_mut().ok_or(NOT_AN_ARRAY)?;
            *count = count.saturating_add(1);
            let count = *count;
            rest = match rest {
                [byte, after @ ..] if *byte == delimiter => {
                    rest = after;
                    break;
                }
                [b'}', after @ ..] => after,
                _ => return Err(NOT_AN_ARRAY),
            };
            counts.pop();
            let level = open.saturating_sub(1);
            if let Some(size) = sizes.get_mut(level)
                && size.replace(count).is_some_and(|size| size != count)
            {
                return Err(CellError::Malformed("arrays of one size within an array"));
            }
            if level > 0 {
                visit(ArrayStep::Close(level))?;
                continue;
            }
            let as_said = |((_, said), size): (&(i32, i64), &Option<usize>)| {
                usize::try_from(*said).ok() == *size
            };
            let agree = bounds.iter().zip(&sizes).all(as_said);
            return if !rest.is_empty() {
                Err(NOT_AN_ARRAY)
            } else if !agree || (!bounds.is_empty() && bounds.len() != depth) {
                Err(CellError::Malformed("as many elements as the bounds say"))
            } else {
                Ok(bounds.iter().any(|(lower, _)| *lower != 1))
            };
        }
    }
}

/// The lower bound and the size in front of the equals sign, and the braces after it.
#[cold]
fn split_bounds(cell: &[u8]) -> Result<((i32, i64), &[u8]), CellError> {
    let place = cell
        .iter()
        .position(|byte| *byte == b'=')
        .ok_or(NOT_AN_ARRAY)?;
    let (bounds, body) = cell.split_at_checked(place).ok_or(NOT_AN_ARRAY)?;
    let [b'[', bounds @ .., b']'] = bounds else {
        return Err(NOT_AN_ARRAY);
    };
    let mut dimensions = bounds.split(|byte| *byte == b']');
    let first = dimensions.next().and_then(dimension).ok_or(NOT_AN_ARRAY)?;
    let mut more = false;
    for next in dimensions {
        next.strip_prefix(b"[")
            .and_then(dimension)
            .ok_or(NOT_AN_ARRAY)?;
        more = true;
    }
    match body {
        _ if more => Err(Unrepresentable::MultiDimensional.into()),
        [b'=', braces @ ..] => Ok((first, braces)),
        _ => Err(NOT_AN_ARRAY),
    }
}

/// `lower:upper` as the lower bound and the size.
fn dimension(text: &[u8]) -> Option<(i32, i64)> {
    let (lower, upper) = text.split_at_checked(text.iter().position(|byte| *byte == b':')?)?;
    let lower = i32_from_text(lower).ok()?;
    let upper = i32_from_text(upper.strip_prefix(b":")?).ok()?;
    let size = i64::from(upper)
        .checked_sub(i64::from(lower))?
        .checked_add(1)?;
    (size > 0).then_some((lower, size))
}

/// The element up to the closing quote, and what follows it.
#[inline]
fn split_quoted<'s, 'a: 's>(
    quoted: &'a [u8],
    scratch: &'s mut Vec<u8>,
) -> Result<(&'s [u8], &'a [u8]), CellError> {
    let place = quoted
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\'))
        .ok_or(NOT_AN_ARRAY)?;
    let (plain, mut rest) = quoted.split_at_checked(place).ok_or(NOT_AN_ARRAY)?;
    if let [b'"', after @ ..] = rest {
        return Ok((plain, after));
    }
    scratch.clear();
    scratch.extend_from_slice(plain);
    loop {
        rest = match rest {
            [b'"', after @ ..] => return Ok((scratch, after)),
            [b'\\', escaped, after @ ..] => {
                scratch.push(*escaped);
                let plain = after
                    .iter()
                    .position(|byte| matches!(byte, b'"' | b'\\'))
                    .ok_or(NOT_AN_ARRAY)?;
                let (plain, after) = after.split_at_checked(plain).ok_or(NOT_AN_ARRAY)?;
                scratch.extend_from_slice(plain);
                after
            }
            _ => return Err(NOT_AN_ARRAY),
        };
    }
}

/// The element up to the delimiter or the closing brace, and the rest from there.
#[inline]
fn split_unquoted(rest: &[u8], delimiter: u8) -> Result<(Option<&[u8]>, &[u8]), CellError> {
    let mut special = false;
    let mut length = 0_usize;
    for byte in rest {
        if *byte == delimiter || *byte == b'}' {
            break;
        }
        special |= matches!(byte, b'"' | b'\\' | b'{' | b' ' | b'\t'..=b'\r');
        length = length.saturating_add(1);
    }
    let (element, after) = rest.split_at_checked(length).ok_or(NOT_AN_ARRAY)?;
    if element.len() == 4 && element == b"NULL" {
        return Ok((None, after));
    }
    // The server quotes all of these, and NULL in any case.
    if special || element.is_empty() || after.is_empty() || element.eq_ignore_ascii_case(b"NULL") {
        return Err(NOT_AN_ARRAY);
    }
    Ok((Some(element), after))
}

pub(super) const NOT_AN_ARRAY: CellError = CellError::Malformed("elements between braces");
