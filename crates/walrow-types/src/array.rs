//! Arrays, taken apart into their elements' cells.
//!
//! ```text
//! text    [0:2]={a,NULL,"q\"x"}     the bounds only if the first is not 1; the delimiter is the element type's
//! binary  i32 dimensions | i32 has nulls | u32 element OID
//!         per dimension: i32 size | i32 lower bound
//!         per element:   i32 length, -1 for null | bytes
//! ```
//!
//! Both readers hand out elements as they go, so what was handed out before an error counts for nothing.

use super::int::write_decimal;
use crate::error::{CellError, Unrepresentable};
use crate::parts::Parts;
use crate::pg_type::PgType;
use crate::settings::SessionSettings;

/// An array, or `list` of values of one type.
#[derive(Debug)]
pub struct Array<E: ?Sized> {
    /// The type of the elements.
    pub element: std::sync::Arc<E>,
    /// The element OID that binary arrays must contain; 0 for any.
    pub element_oid: u32,
    /// What separates the elements of the text: the element type's delimiter.
    pub delimiter: u8,
}

impl<E: ?Sized> Array<E> {
    /// Visits the elements of a text cell of one dimension; nulls are `None`. `scratch` is a buffer.
    ///
    /// # Errors
    /// The cell is malformed or has other dimensions, or `visit` failed.
    #[inline]
    pub fn visit_text(
        &self,
        cell: &[u8],
        scratch: &mut Vec<u8>,
        visit: impl FnMut(Option<&[u8]>) -> Result<(), CellError>,
    ) -> Result<ArrayShape, CellError> {
        array_from_text(cell, self.delimiter, scratch, visit)
    }

    /// The elements of a binary cell of one dimension.
    ///
    /// # Errors
    /// The cell is malformed, has other dimensions or elements of another type.
    #[inline]
    pub fn binary<'a>(&self, cell: &'a [u8]) -> Result<BinaryArray<'a>, CellError> {
        array_from_binary(cell, self.element_oid)
    }

    /// Visits the elements of a text cell of `depth` dimensions, and the end of each inner array.
    /// Returns whether a first subscript other than 1 is lost.
    ///
    /// # Errors
    /// The cell is malformed or has other dimensions, or `visit` failed.
    pub fn visit_nested_text(
        &self,
        cell: &[u8],
        depth: usize,
        scratch: &mut Vec<u8>,
        visit: impl FnMut(ArrayStep<'_>) -> Result<(), CellError>,
    ) -> Result<bool, CellError> {
        nested_from_text(cell, self.delimiter, depth, scratch, visit)
    }

    /// As [`Array::visit_nested_text`], of a binary cell.
    ///
    /// # Errors
    /// As [`Array::visit_nested_text`].
    pub fn visit_nested_binary(
        &self,
        cell: &[u8],
        depth: usize,
        visit: impl FnMut(ArrayStep<'_>) -> Result<(), CellError>,
    ) -> Result<bool, CellError> {
        nested_from_binary(cell, self.element_oid, depth, visit)
    }
}

impl<E: PgType + ?Sized> PgType for Array<E> {
    fn text_from_binary(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let mut parts = Parts::new(settings);
        let render = |cell: &[u8], out: &mut Vec<u8>| parts.render(&*self.element, cell, out);
        array_text_from_binary(cell, self.element_oid, self.delimiter, out, render)
    }

    fn text_from_text(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        if !self.is_shaped() {
            return settings.copy_text(cell, out);
        }
        array_text_from_text(cell, self.delimiter, out, |cell, out| {
            self.element.text_from_text(cell, settings, out)
        })
    }

    fn is_shaped(&self) -> bool {
        self.element.is_shaped()
    }

    fn is_foreign(&self, settings: SessionSettings) -> bool {
        settings.latin1 || self.element.is_foreign(settings)
    }

    fn lacks_text(&self) -> bool {
        self.element.lacks_text()
    }

    fn is_array(&self) -> bool {
        true
    }
}

/// `int2vector` or `oidvector`: text without braces, and subscripts from 0 on.
#[derive(Debug)]
pub struct Vector<E: ?Sized> {
    /// The type of the elements.
    pub element: std::sync::Arc<E>,
    /// Its OID.
    pub element_oid: u32,
}

impl<E: ?Sized> Vector<E> {
    /// Visits the elements of a text cell.
    ///
    /// # Errors
    /// Those of `visit`.
    pub fn visit_text(
        &self,
        cell: &[u8],
        visit: impl FnMut(&[u8]) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        vector_from_text(cell, visit)
    }

    /// The elements of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary<'a>(&self, cell: &'a [u8]) -> Result<BinaryArray<'a>, CellError> {
        vector_from_binary(cell, self.element_oid)
    }
}

impl<E: PgType + ?Sized> PgType for Vector<E> {
    fn text_from_binary(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let start = out.len();
        for element in self.binary(cell)? {
            if out.len() > start {
                out.push(b' ');
            }
            self.element
                .text_from_binary(element?.unwrap_or_default(), settings, out)?;
        }
        Ok(())
    }
}

/// What an array says besides its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// How many elements it has.
    pub len: usize,
    /// The subscript of the first one; a list has no place for any other than 1.
    pub lower_bound: i32,
}

impl ArrayShape {
    const EMPTY: Self = Self {
        len: 0,
        lower_bound: 1,
    };

    /// Whether a list of the elements loses the array's subscripts.
    pub const fn drops_lower_bound(self) -> bool {
        self.lower_bound != 1
    }
}

/// Visits the elements of an array's text, nulls as `None`. `scratch` holds the element whose escapes were taken out.
pub(crate) fn array_from_text<E: From<CellError>>(
    cell: &[u8],
    delimiter: u8,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(Option<&[u8]>) -> Result<(), E>,
) -> Result<ArrayShape, E> {
    let (bounds, body) = match cell {
        [b'[', ..] => match split_bounds(cell) {
            Ok((bounds, body)) => (Some(bounds), body),
            Err(CellError::Unrepresentable(_)) => {
                return Err(dimensions_of_text(cell, delimiter, scratch).into());
            }
            Err(error) => return Err(error.into()),
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
            [b'{', ..] => return Err(dimensions_of_text(cell, delimiter, scratch).into()),
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
            _ => return Err(NOT_AN_ARRAY.into()),
        }
    }
    let lower_bound = match bounds {
        Some((_, size)) if usize::try_from(size) != Ok(len) => {
            return Err(CellError::Malformed("as many elements as the bounds say").into());
        }
        Some((lower_bound, _)) => lower_bound,
        None => 1,
    };
    Ok(ArrayShape { len, lower_bound })
}

/// What comes next in an array of several dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an array has nothing else")]
pub enum ArrayStep<'a> {
    /// An element, `None` for null.
    Element(Option<&'a [u8]>),
    /// The end of an array within another; that of arrays which are in the outermost itself has level 1.
    Close(usize),
}

/// Visits the text of an array of `depth` dimensions, or of none; whether a list of lists loses its subscripts.
/// `scratch` holds the element whose escapes were taken out.
pub(crate) fn nested_from_text(
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

/// How many dimensions an array's text has by its braces.
fn dimensions(cell: &[u8]) -> Option<usize> {
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

/// What is wrong with an array that has other dimensions than are wanted: that alone, if it is one.
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

fn nested_text(
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
    // How many values each open array has, and how many those of its level before it had.
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
        // The value ends, and with it perhaps the arrays that it is the last one of.
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

/// As [`nested_from_text`], of a binary array.
pub(crate) fn nested_from_binary(
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
    let lower = super::int::i32_from_text(lower).ok()?;
    let upper = super::int::i32_from_text(upper.strip_prefix(b":")?).ok()?;
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

/// The element up to the delimiter or the closing brace, and what follows from there.
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
    // All of these are quoted by the server, in whatever case null is written.
    if special || element.is_empty() || after.is_empty() || element.eq_ignore_ascii_case(b"NULL") {
        return Err(NOT_AN_ARRAY);
    }
    Ok((Some(element), after))
}

/// The elements of a binary array, nulls as `None`; the last item is an error if the bytes do not end with the array.
#[derive(Clone, Debug)]
pub struct BinaryArray<'a> {
    shape: ArrayShape,
    element_oid: u32,
    nulls: bool,
    left: usize,
    rest: &'a [u8],
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

/// The shape of each dimension, the outermost first.
struct Dimensions {
    shapes: [ArrayShape; MAX_DIMENSIONS],
    count: usize,
}

impl Dimensions {
    fn as_slice(&self) -> &[ArrayShape] {
        self.shapes.get(..self.count).unwrap_or_default()
    }
}

#[inline]
fn head(cell: &[u8]) -> Result<(Dimensions, BinaryArray<'_>), CellError> {
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
    // Each element takes the four bytes of its length at least.
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

/// Appends the text of a binary array of any dimensions. `render` appends that of an element, whose type must be
/// `element_oid` unless that is 0.
pub(crate) fn array_text_from_binary(
    cell: &[u8],
    element_oid: u32,
    delimiter: u8,
    out: &mut Vec<u8>,
    mut render: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let (dimensions, mut array) = head(cell)?;
    array.check_element(element_oid)?;
    let dimensions = dimensions.as_slice();
    if array.left == 0 {
        // Bytes after the last element are none of an array.
        array.try_for_each(|element| element.map(drop))?;
        out.extend_from_slice(b"{}");
        return Ok(());
    }
    if dimensions.iter().any(|shape| shape.lower_bound != 1) {
        for shape in dimensions {
            let size = i64::try_from(shape.len).unwrap_or(i64::MAX);
            let lower = i64::from(shape.lower_bound);
            let upper = lower.saturating_add(size).saturating_sub(1);
            out.push(b'[');
            write_decimal(lower, out);
            out.push(b':');
            write_decimal(upper, out);
            out.push(b']');
        }
        out.push(b'=');
    }
    let mut at = [0_usize; MAX_DIMENSIONS];
    // How many dimensions begin with the next element, and end with it.
    let mut begin = dimensions.len();
    for element in array {
        let element = element?;
        out.extend(std::iter::repeat_n(b'{', begin));
        write_element(element, delimiter, out, &mut render)?;
        begin = 0;
        for (place, shape) in at.iter_mut().zip(dimensions).rev() {
            *place = place.saturating_add(1);
            if *place < shape.len {
                break;
            }
            *place = 0;
            begin = begin.saturating_add(1);
        }
        out.extend(std::iter::repeat_n(b'}', begin));
        if begin < dimensions.len() {
            out.push(delimiter);
        }
    }
    Ok(())
}

/// Appends the text of an array of any dimensions with its elements' written anew: `render` appends that of one, given
/// its text.
pub(crate) fn array_text_from_text(
    cell: &[u8],
    delimiter: u8,
    out: &mut Vec<u8>,
    mut render: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let depth = dimensions(cell).ok_or(NOT_AN_ARRAY)?;
    if cell == b"{}" {
        out.extend_from_slice(cell);
        return Ok(());
    }
    if cell.first() == Some(&b'[') {
        let place = cell.iter().position(|byte| *byte == b'=');
        let bounds = place.and_then(|place| cell.get(..=place));
        out.extend_from_slice(bounds.ok_or(NOT_AN_ARRAY)?);
    }
    let (mut open, mut is_first) = (0_usize, true);
    nested_text(cell, delimiter, depth, &mut Vec::new(), &mut |step| {
        let element = match step {
            ArrayStep::Element(element) => element,
            ArrayStep::Close(level) => {
                out.push(b'}');
                open = level;
                return Ok(());
            }
        };
        if !std::mem::take(&mut is_first) {
            out.push(delimiter);
        }
        out.extend(std::iter::repeat_n(b'{', depth.saturating_sub(open)));
        open = depth;
        write_element(element, delimiter, out, &mut render)
    })
    .map_err(|error| if error == DEPTH { NOT_AN_ARRAY } else { error })?;
    out.push(b'}');
    Ok(())
}

/// Appends an element, in quotes if it needs them: `render` appends its text.
fn write_element(
    element: Option<&[u8]>,
    delimiter: u8,
    out: &mut Vec<u8>,
    mut render: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let Some(element) = element else {
        out.extend_from_slice(b"NULL");
        return Ok(());
    };
    let start = out.len();
    render(element, out)?;
    quote(start, delimiter, out);
    Ok(())
}

/// Quotes the text from `start` on if an array's text needs that.
fn quote(start: usize, delimiter: u8, out: &mut Vec<u8>) {
    let text = out.get(start..).unwrap_or_default();
    let special = |byte: &u8| {
        *byte == delimiter || matches!(byte, b'"' | b'\\' | b'{' | b'}' | b' ' | b'\t'..=b'\r')
    };
    if !text.is_empty() && !text.eq_ignore_ascii_case(b"NULL") && !text.iter().any(special) {
        return;
    }
    let escaped = |byte: &u8| matches!(byte, b'"' | b'\\');
    let mut read = out.len();
    let added = text
        .iter()
        .filter(|byte| escaped(byte))
        .count()
        .saturating_add(2);
    // From the end on, so that nothing is written over before it was read.
    out.resize(read.saturating_add(added), b'"');
    let mut write = out.len().saturating_sub(1);
    while read > start {
        read = read.saturating_sub(1);
        let Some(byte) = out.get(read).copied() else {
            return;
        };
        let before = escaped(&byte).then_some(b'\\');
        for byte in [byte].into_iter().chain(before) {
            write = write.saturating_sub(1);
            if let Some(place) = out.get_mut(write) {
                *place = byte;
            }
        }
    }
    if let Some(place) = out.get_mut(start) {
        *place = b'"';
    }
}

/// Visits the elements of the text of an `int2vector` or an `oidvector`.
pub(crate) fn vector_from_text(
    cell: &[u8],
    mut visit: impl FnMut(&[u8]) -> Result<(), CellError>,
) -> Result<(), CellError> {
    if cell.is_empty() {
        return Ok(());
    }
    cell.split(|byte| *byte == b' ').try_for_each(&mut visit)
}

/// Reads the head of a binary `int2vector` or `oidvector`: an array whose first subscript is 0.
pub(crate) fn vector_from_binary(
    cell: &[u8],
    element_oid: u32,
) -> Result<BinaryArray<'_>, CellError> {
    let array = array_from_binary(cell, element_oid).map_err(|_| NOT_A_VECTOR)?;
    if array.nulls || (array.shape.len > 0 && array.shape.lower_bound != 0) {
        return Err(NOT_A_VECTOR);
    }
    Ok(array)
}

impl BinaryArray<'_> {
    /// How many elements there are, and the subscript of the first.
    pub const fn shape(&self) -> ArrayShape {
        self.shape
    }

    /// Checks the type of the elements, unless 0 stands for any.
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
    /// What is wrong with an array that has other dimensions than are wanted: that alone, if its
    /// elements are there.
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

#[inline]
fn split_i32(bytes: &[u8]) -> Option<(i32, &[u8])> {
    let (value, rest) = bytes.split_first_chunk::<4>()?;
    Some((i32::from_be_bytes(*value), rest))
}

const MAX_DIMENSIONS: usize = 6;
const DEPTH: CellError = CellError::Unrepresentable(Unrepresentable::MultiDimensional);
const NOT_A_VECTOR: CellError = CellError::Malformed("an array from 0 on, without nulls");
const NOT_AN_ARRAY: CellError = CellError::Malformed("elements between braces");

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Elements = Vec<Option<Vec<u8>>>;

    const MULTI_DIMENSIONAL: CellError =
        CellError::Unrepresentable(Unrepresentable::MultiDimensional);

    fn text(cell: &[u8], delimiter: u8) -> Result<(i32, Elements), CellError> {
        let mut elements = Elements::new();
        let mut scratch = b"left over".to_vec();
        let shape = array_from_text(cell, delimiter, &mut scratch, |element| {
            elements.push(element.map(<[u8]>::to_vec));
            Ok::<_, CellError>(())
        })?;
        assert_eq!(shape.len, elements.len());
        Ok((shape.lower_bound, elements))
    }

    fn binary(cell: &[u8]) -> Result<(i32, u32, Elements), CellError> {
        let array = array_from_binary(cell, 0)?;
        let (shape, oid) = (array.shape(), array.element_oid);
        let elements: Vec<_> = array.collect::<Result<_, _>>()?;
        assert_eq!(shape.len, elements.len());
        Ok((
            shape.lower_bound,
            oid,
            elements
                .into_iter()
                .map(|element| element.map(<[u8]>::to_vec))
                .collect(),
        ))
    }

    fn list(elements: &[Option<&str>]) -> Elements {
        elements
            .iter()
            .map(|element| element.map(|text| text.as_bytes().to_vec()))
            .collect()
    }

    fn words(words: &[i32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    fn sent(lower_bound: i32, elements: &Elements) -> Vec<u8> {
        let nulls = i32::from(elements.contains(&None));
        let size = i32::try_from(elements.len()).unwrap();
        let mut cell = if size == 0 {
            words(&[0, nulls, 25])
        } else {
            words(&[1, nulls, 25, size, lower_bound])
        };
        for element in elements {
            let bytes = element.as_deref().unwrap_or_default();
            let length = if element.is_some() {
                i32::try_from(bytes.len()).unwrap()
            } else {
                -1
            };
            cell.extend_from_slice(&length.to_be_bytes());
            cell.extend_from_slice(bytes);
        }
        cell
    }

    fn written(lower_bound: i32, elements: &Elements, delimiter: u8) -> Vec<u8> {
        let mut cell = Vec::new();
        if lower_bound != 1 && !elements.is_empty() {
            let upper = i64::from(lower_bound) + i64::try_from(elements.len()).unwrap() - 1;
            cell.extend_from_slice(format!("[{lower_bound}:{upper}]=").as_bytes());
        }
        cell.push(b'{');
        for (place, element) in elements.iter().enumerate() {
            if place > 0 {
                cell.push(delimiter);
            }
            let Some(element) = element else {
                cell.extend_from_slice(b"NULL");
                continue;
            };
            let special = |byte: &u8| *byte == delimiter || b"{}\"\\ \t\n\r\x0b\x0c".contains(byte);
            let quotes = element.is_empty()
                || element.eq_ignore_ascii_case(b"null")
                || element.iter().any(special);
            if quotes {
                cell.push(b'"');
            }
            for byte in element {
                if matches!(byte, b'"' | b'\\') {
                    cell.push(b'\\');
                }
                cell.push(*byte);
            }
            if quotes {
                cell.push(b'"');
            }
        }
        cell.push(b'}');
        cell
    }

    #[test]
    fn elements_are_unquoted() {
        for (cell, expected) in [
            ("{}", &[][..]),
            ("{a}", &[Some("a")]),
            ("{1,2,-3}", &[Some("1"), Some("2"), Some("-3")]),
            (r#"{a,NULL,"q\"x"}"#, &[Some("a"), None, Some("q\"x")]),
            (
                r#"{"NULL","null","",NULLS}"#,
                &[Some("NULL"), Some("null"), Some(""), Some("NULLS")],
            ),
            (
                r#"{"a,b","{}","c d","\\"}"#,
                &[Some("a,b"), Some("{}"), Some("c d"), Some("\\")],
            ),
            (r#"{"\"\\\""}"#, &[Some("\"\\\"")]),
            ("{NULL}", &[None]),
            ("{a;b}", &[Some("a;b")]),
            ("{[1:2]=}", &[Some("[1:2]=")]),
            ("{naïve,\"\u{3000}\"}", &[Some("naïve"), Some("\u{3000}")]),
        ] {
            assert_eq!(
                text(cell.as_bytes(), b','),
                Ok((1, list(expected))),
                "{cell}"
            );
        }
        assert_eq!(
            text(b"{(1,1),(0,0);NULL}", b';'),
            Ok((1, list(&[Some("(1,1),(0,0)"), None])))
        );
        assert_eq!(
            text(b"{0101:0102}", b':'),
            Ok((1, list(&[Some("0101"), Some("0102")])))
        );
    }

    #[test]
    fn lower_bound_is_reported() {
        assert_eq!(
            text(b"[0:2]={a,NULL,c}", b','),
            Ok((0, list(&[Some("a"), None, Some("c")])))
        );
        assert_eq!(text(b"[-5:-5]={a}", b','), Ok((-5, list(&[Some("a")]))));
        assert_eq!(
            text(b"[2147483647:2147483647]={a}", b','),
            Ok((i32::MAX, list(&[Some("a")])))
        );
        assert_eq!(
            text(b"[5:6]={a:b}", b':'),
            Ok((5, list(&[Some("a"), Some("b")])))
        );
        assert!(
            ArrayShape {
                len: 1,
                lower_bound: 0
            }
            .drops_lower_bound()
        );
        assert!(
            !ArrayShape {
                len: 1,
                lower_bound: 1
            }
            .drops_lower_bound()
        );
        for wrong in [
            "[0:1]={a}",
            "[0:0]={a,b}",
            "[1:0]={}",
            "[0]={a}",
            "[:]={a}",
            "[0:0]{a}",
            "[0:0]=",
            "[0:0=",
            "[0:0]x={a}",
            "[0:0] ={a}",
            "[ 0:0]={a}",
            "[+0:0]={a}",
            "[0:2147483648]={a}",
            "[0:0][=",
            "[",
            "[]={a}",
            "[0:0]]={a}",
            "[-2147483648:2147483647]={a}",
        ] {
            assert!(
                matches!(text(wrong.as_bytes(), b','), Err(CellError::Malformed(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn more_dimensions_are_not_flattened() {
        for cell in [
            "{{1,2},{3,4}}",
            "[0:0][1:2]={{1,2}}",
            "{{{1}}}",
            "[1:1][-2:-1][3:3]={{{1},{2}}}",
        ] {
            assert_eq!(
                text(cell.as_bytes(), b','),
                Err(MULTI_DIMENSIONAL),
                "{cell}"
            );
        }
        let one = words(&[4, 7]);
        for dimensions in 2..=6 {
            let mut cell = words(&[dimensions, 0, 23]);
            for _ in 0..dimensions {
                cell.extend_from_slice(&words(&[1, 1]));
            }
            assert!(
                matches!(binary(&cell), Err(CellError::Malformed(_))),
                "no element"
            );
            cell.extend_from_slice(&one);
            assert_eq!(binary(&cell), Err(MULTI_DIMENSIONAL));
        }
    }

    #[test]
    fn what_postgresql_never_writes_is_refused() {
        for wrong in [
            "",
            "{",
            "}",
            "a",
            "{a",
            "a}",
            "{a}}",
            "{a} ",
            " {a}",
            "{a,}",
            "{,a}",
            "{,}",
            "{a,,b}",
            "{ a}",
            "{a b}",
            "{null}",
            "{Null}",
            "{a\"b\"}",
            "{\"a\"b}",
            "{\"a",
            "{\"a\\",
            "{\"a\\\"",
            "{\"a\"",
            "{\"a\"}x",
            "{a\\b}",
            "{a{b}}",
            "{a};",
            "{a}{b}",
            "{\t}",
            "{\"a\" ,b}",
        ] {
            assert!(
                matches!(text(wrong.as_bytes(), b','), Err(CellError::Malformed(_))),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_error_of_the_visitor_ends_the_visit() {
        let mut seen = 0;
        let result = array_from_text(b"{1,2,3}", b',', &mut Vec::new(), |_| {
            seen += 1;
            if seen == 2 {
                Err(CellError::Malformed("two"))
            } else {
                Ok(())
            }
        });
        assert_eq!((result, seen), (Err(CellError::Malformed("two")), 2));
    }

    #[test]
    fn binary_arrays_are_read() {
        assert_eq!(binary(&words(&[0, 0, 23])), Ok((1, 23, list(&[]))));
        assert_eq!(binary(&words(&[1, 0, 23, 0, 1])), Ok((1, 23, list(&[]))));
        let mut cell = words(&[1, 1, 25, 3, 0, 1]);
        cell.push(b'a');
        cell.extend_from_slice(&words(&[-1, 0]));
        assert_eq!(
            binary(&cell),
            Ok((0, 25, list(&[Some("a"), None, Some("")])))
        );
        assert_eq!(array_from_binary(&cell, 0).unwrap().element_oid, 25);
    }

    #[test]
    fn hostile_binary_is_refused_without_room_for_it() {
        for wrong in [
            &[][..],
            &[0],
            &[0, 0],
            &[-1, 0, 23],
            &[7, 0, 23],
            &[i32::MAX, 0, 23],
            &[0, 2, 23],
            &[0, 0, 23, 0],
            &[1, 0, 23],
            &[1, 0, 23, 1],
            &[1, 0, 23, 1, 1],
            &[1, 0, 23, -1, 1, 0],
            &[1, 0, 23, i32::MAX, 1, 0],
            &[1, 0, 23, i32::MAX, 0, 0],
            &[1, 0, 23, 1, i32::MAX, 0],
            &[1, 0, 23, 1, 1, -1],
            &[1, 1, 23, 1, 1, -2],
            &[1, 1, 23, 1, 1, i32::MAX],
            &[1, 1, 23, 1, 1, 1],
            &[1, 1, 23, 1, 1, 0, 0],
            &[1, 1, 23, 2, 1, 4, 0],
            &[
                6,
                0,
                23,
                i32::MAX,
                0,
                i32::MAX,
                0,
                i32::MAX,
                0,
                i32::MAX,
                0,
                i32::MAX,
                0,
                i32::MAX,
                0,
            ],
        ] {
            assert!(
                matches!(binary(&words(wrong)), Err(CellError::Malformed(_))),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn iteration_ends_after_an_error() {
        let cell = words(&[1, 0, 23, 2, 1, i32::MAX, 0]);
        let items: Vec<_> = array_from_binary(&cell, 0).unwrap().collect();
        assert_eq!(items.len(), 1);
        let surplus = words(&[1, 0, 23, 1, 1, 0, 0]);
        let items: Vec<_> = array_from_binary(&surplus, 0).unwrap().collect();
        assert_eq!(
            items,
            [
                Ok(Some(&[][..])),
                Err(CellError::Malformed("nothing after the last element"))
            ]
        );
    }

    fn element() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop_oneof![
            Just(None),
            Just(Some(b"NULL".to_vec())),
            proptest::collection::vec(any::<u8>(), 0..6).prop_map(Some),
            "[a-z{},;:\"\\\\ \\[\\]=]{0,8}".prop_map(|text| Some(text.into_bytes())),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_elements(
            elements in proptest::collection::vec(element(), 0..8),
            lower_bound in prop_oneof![Just(1), -3..4, Just(i32::MIN), Just(i32::MAX - 8)],
            delimiter in prop::sample::select(vec![b',', b';', b':']),
        ) {
            let lower_bound = if elements.is_empty() { 1 } else { lower_bound };
            let from_binary = binary(&sent(lower_bound, &elements));
            prop_assert_eq!(from_binary, Ok((lower_bound, 25, elements.clone())));
            let from_text = text(&written(lower_bound, &elements, delimiter), delimiter);
            prop_assert_eq!(from_text, Ok((lower_bound, elements)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "(\\[[-0-9:]{0,8}\\]=)?\\{[a{}\",\\\\NUL ]{0,20}\\}?",
            numbers in proptest::collection::vec(prop_oneof![-2..8, any::<i32>()], 0..12),
        ) {
            for cell in [&cell[..], near.as_bytes(), &words(&numbers)] {
                let _ = (text(cell, b','), binary(cell));
            }
        }
    }
}
