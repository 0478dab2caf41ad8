//! Arrays of any type: “Arrays”.
//!
//! ```text
//! text    [0:2]={a,NULL,"q\"x"}     the bounds only if the first is not 1; the delimiter is the element type's
//! binary  i32 dimensions | i32 has nulls | u32 element OID
//!         per dimension: i32 size | i32 lower bound
//!         per element:   i32 length, -1 for null | bytes
//! ```
//!
//! Both readers pass each element on as soon as they have read it. After an error, the caller discards them.

mod binary;
mod shape;
mod text;

pub use binary::BinaryArray;
pub(crate) use binary::array_from_binary;
use binary::{head, nested_from_binary};
pub use shape::{ArrayShape, ArrayStep};
use shape::{DEPTH, MAX_DIMENSIONS};
use text::{NOT_AN_ARRAY, array_from_text, dimensions, nested_from_text, nested_text};

use crate::digits::write_decimal;
use crate::error::CellError;
use crate::parts::Parts;
use crate::pg_type::PgType;

/// An array of values of one type.
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
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let mut parts = Parts::default();
        let render = |cell: &[u8], out: &mut Vec<u8>| parts.render(&*self.element, cell, out);
        array_text_from_binary(cell, self.element_oid, self.delimiter, out, render)
    }

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        array_text_from_text(cell, self.delimiter, out, |cell, out| {
            self.element.text_from_text(cell, out)
        })
    }

    fn is_shaped(&self) -> bool {
        self.element.is_shaped()
    }

    fn lacks_text(&self) -> bool {
        self.element.lacks_text()
    }

    fn is_array(&self) -> bool {
        true
    }
}

/// Appends the text of a binary array of any dimensions. `render` appends the text of an element; its type must be
/// `element_oid`, unless that is 0.
fn array_text_from_binary(
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
        // Bytes after the last element are an error.
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
    // The number of dimensions that begin with the next element, then of those that end with it.
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

/// Appends an array of any dimensions with new texts of its elements: `render` gets the old text of one and appends
/// the new text.
fn array_text_from_text(
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

/// Quotes the text from `start` on if it needs quotes within an array.
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
    // Backwards, so that every byte is read before its place is overwritten.
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

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Unrepresentable;

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
    fn text_that_postgresql_never_writes_is_refused() {
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
    fn claimed_counts_reserve_no_memory() {
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
