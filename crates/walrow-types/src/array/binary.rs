//! The elements of a binary array.

use super::shape::{ArrayShape, ArrayStep, DEPTH, MAX_DIMENSIONS};
use crate::error::CellError;

/// The elements of a binary array, nulls as `None`. Bytes after the array give an error as the last item.
#[derive(Clone, Debug)]
pub struct BinaryArray<'a> {
    shape: ArrayShape,
    pub(super) element_oid: u32,
    nulls: bool,
    pub(super) left: usize,
    rest: &'a [u8],
}

impl BinaryArray<'_> {
    /// The number of elements, and the subscript of the first.
    pub const fn shape(&self) -> ArrayShape {
        self.shape
    }

    /// Whether elements may be null, according to the header.
    pub(crate) const fn has_nulls(&self) -> bool {
        self.nulls
    }

    /// Checks the type of the elements; 0 accepts any.
    #[inline]
    pub(crate) const fn check_element(&self, oid: u32) -> Result<(), CellError> {
        if oid == 0 || oid == self.element_oid {
            return Ok(());
        }
        Err(CellError::Malformed(
            "elements of the array type's element type",
        ))
    }
}

impl<'a> Iterator for BinaryArray<'a> {
    type Item = Result<Option<&'a [u8]>, CellError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            let surplus = !std::mem::take(&mut self.rest).is_empty();
            return surplus.then_some(Err(CellError::Malformed("nothing after the last element")));
        };
        self.left = left;
        let (element, rest) = match split_i32(self.rest) {
            Some((-1, rest)) if self.nulls => (None, rest),
            Some((length, rest)) => {
                let split = usize::try_from(length)
                    .ok()
                    .and_then(|length| rest.split_at_checked(length));
                let Some((element, rest)) = split else {
                    return Some(Err(self.cut()));
                };
                (Some(element), rest)
            }
            None => return Some(Err(self.cut())),
        };
        self.rest = rest;
        Some(Ok(element))
    }
}

impl BinaryArray<'_> {
    /// The error of an array with other dimensions than expected: `DEPTH`, unless its elements are
    /// malformed.
    #[cold]
    fn dimensions(mut self) -> CellError {
        let whole = self.try_for_each(|element| element.map(drop));
        whole.err().unwrap_or(DEPTH)
    }

    /// Ends the iteration.
    fn cut(&mut self) -> CellError {
        (self.left, self.rest) = (0, &[]);
        CellError::Malformed("an element's length and its bytes")
    }
}

/// Reads the head of a binary array.
#[inline]
pub(crate) fn array_from_binary(
    cell: &[u8],
    element_oid: u32,
) -> Result<BinaryArray<'_>, CellError> {
    let (dimensions, mut array) = head(cell)?;
    array.check_element(element_oid)?;
    match dimensions.as_slice() {
        [] => array.shape = ArrayShape::EMPTY,
        [shape] => array.shape = *shape,
        _ => return Err(array.dimensions()),
    }
    Ok(array)
}

/// Visits the elements of a binary array of `depth` dimensions, or of an empty one. Returns whether a list of lists
/// loses the array's subscripts.
pub(super) fn nested_from_binary(
    cell: &[u8],
    element_oid: u32,
    depth: usize,
    mut visit: impl FnMut(ArrayStep<'_>) -> Result<(), CellError>,
) -> Result<bool, CellError> {
    let (dimensions, array) = head(cell)?;
    array.check_element(element_oid)?;
    let dimensions = dimensions.as_slice();
    if dimensions.is_empty() || array.left == 0 {
        array
            .into_iter()
            .try_for_each(|element| element.map(drop))?;
        return Ok(false);
    }
    if dimensions.len() != depth {
        return Err(array.dimensions());
    }
    let mut at = [0_usize; MAX_DIMENSIONS];
    for element in array {
        visit(ArrayStep::Element(element?))?;
        for (level, (place, shape)) in at.iter_mut().zip(dimensions).enumerate().rev() {
            *place = place.saturating_add(1);
            if *place < shape.len {
                break;
            }
            *place = 0;
            if level > 0 {
                visit(ArrayStep::Close(level))?;
            }
        }
    }
    Ok(dimensions.iter().any(|shape| shape.lower_bound != 1))
}

/// The shape of each dimension, the outermost first.
pub(super) struct Dimensions {
    shapes: [ArrayShape; MAX_DIMENSIONS],
    count: usize,
}

impl Dimensions {
    pub(super) fn as_slice(&self) -> &[ArrayShape] {
        self.shapes.get(..self.count).unwrap_or_default()
    }
}

#[inline]
pub(super) fn head(cell: &[u8]) -> Result<(Dimensions, BinaryArray<'_>), CellError> {
    let head = CellError::Malformed("an array header");
    let (count, rest) = split_i32(cell).ok_or(head)?;
    let (nulls, rest) = split_i32(rest).ok_or(head)?;
    let (element_oid, mut rest) = rest.split_first_chunk::<4>().ok_or(head)?;
    let count = usize::try_from(count).map_err(|_| head)?;
    if !(0..=1).contains(&nulls) {
        return Err(head);
    }
    let mut dimensions = Dimensions {
        shapes: [ArrayShape::EMPTY; MAX_DIMENSIONS],
        count,
    };
    let mut elements = usize::from(count > 0);
    for shape in dimensions.shapes.get_mut(..count).ok_or(head)? {
        let (size, after) = split_i32(rest).ok_or(head)?;
        let (lower_bound, after) = split_i32(after).ok_or(head)?;
        lower_bound.checked_add(size).ok_or(head)?;
        let len = usize::try_from(size).map_err(|_| head)?;
        elements = elements.checked_mul(len).ok_or(head)?;
        *shape = ArrayShape { len, lower_bound };
        rest = after;
    }
    // Each element takes at least the four bytes of its length.
    if elements > rest.len() / 4 {
        return Err(CellError::Malformed(
            "as many elements as the dimensions say",
        ));
    }
    let array = BinaryArray {
        shape: ArrayShape::EMPTY,
        element_oid: u32::from_be_bytes(*element_oid),
        nulls: nulls == 1,
        left: elements,
        rest,
    };
    Ok((dimensions, array))
}

#[inline]
fn split_i32(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*value), rest))
}
