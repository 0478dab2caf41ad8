//! Ranges and multiranges: “Range Types”.
//!
//! ```text
//! text    empty, [a,b), (,"b c"]      a missing bound is unbounded, "" is the empty text; in quotes, both " and \ are doubled
//! binary  u8 flags: 1 empty, 2 lower inclusive, 4 upper inclusive, 8 no lower bound, 16 no upper bound
//!         per bound: i32 length | bytes
//!
//! text    {[a,b),[c,d)}
//! binary  i32 ranges
//!         per range: i32 length | range
//! ```

use crate::error::CellError;
use crate::lengths::{split_cell, split_count};
use crate::parts::Parts;
use crate::pg_type::PgType;
use crate::quotes::{Quotes, Unquoted, split_plain, split_quoted, write_quoted};

/// A range of values of one type.
#[derive(Debug)]
pub struct Range<E: ?Sized> {
    /// The type of the bounds.
    pub subtype: std::sync::Arc<E>,
}

/// Ranges that do not overlap, of values of one type.
#[derive(Debug)]
pub struct Multirange<E: ?Sized> {
    /// The type of the ranges.
    pub range: std::sync::Arc<Range<E>>,
}

impl<E: ?Sized> Range<E> {
    /// The parts of a text cell. `scratch` is a buffer.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text<'s, 'a: 's>(
        &self,
        cell: &'a [u8],
        scratch: &'s mut Vec<u8>,
    ) -> Result<RangeParts<'s>, CellError> {
        range_from_text(cell, scratch)
    }

    /// The parts of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary<'a>(&self, cell: &'a [u8]) -> Result<RangeParts<'a>, CellError> {
        range_from_binary(cell)
    }
}

impl<E: ?Sized> Multirange<E> {
    /// The ranges of a text cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text<'a>(
        &self,
        cell: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<&'a [u8], CellError>>, CellError> {
        multirange_from_text(cell)
    }

    /// The ranges of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary<'a>(
        &self,
        cell: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<&'a [u8], CellError>>, CellError> {
        multirange_from_binary(cell)
    }
}

impl<E: PgType + ?Sized> PgType for Range<E> {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let mut parts = Parts::default();
        range_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
            parts.render(&*self.subtype, cell, out)
        })
    }

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        range_text_from_text(cell, out, |cell, out| {
            self.subtype.text_from_text(cell, out)
        })
    }

    fn is_shaped(&self) -> bool {
        self.subtype.is_shaped()
    }

    fn lacks_text(&self) -> bool {
        self.subtype.lacks_text()
    }
}

impl<E: PgType + ?Sized> PgType for Multirange<E> {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let mut parts = Parts::default();
        multirange_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
            parts.render(&*self.range.subtype, cell, out)
        })
    }

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        multirange_text_from_text(cell, out, |cell, out| {
            self.range.subtype.text_from_text(cell, out)
        })
    }

    fn is_shaped(&self) -> bool {
        self.range.is_shaped()
    }

    fn lacks_text(&self) -> bool {
        self.range.lacks_text()
    }
}

/// A range whose bounds are cells of its subtype.
///
/// A range without a bound is unbounded on that side, which differs from a bound of infinity; the bound then is not
/// inclusive. An empty range has no bounds, and neither is inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeParts<'a> {
    /// The lower bound; `None` if unbounded.
    pub lower: Option<&'a [u8]>,
    /// The upper bound; `None` if unbounded.
    pub upper: Option<&'a [u8]>,
    /// Whether the lower bound is inclusive.
    pub lower_inc: bool,
    /// Whether the upper bound is inclusive.
    pub upper_inc: bool,
    /// Whether the range is empty.
    pub empty: bool,
}

impl RangeParts<'_> {
    const EMPTY: Self = Self {
        lower: None,
        upper: None,
        lower_inc: false,
        upper_inc: false,
        empty: true,
    };
}

/// Reads the parts of a range's text. `scratch` holds bounds without their quotes.
fn range_from_text<'s, 'a: 's>(
    cell: &'a [u8],
    scratch: &'s mut Vec<u8>,
) -> Result<RangeParts<'s>, CellError> {
    if cell == b"empty" {
        return Ok(RangeParts::EMPTY);
    }
    let (lower_inc, rest) = match cell {
        [b'[', rest @ ..] => (true, rest),
        [b'(', rest @ ..] => (false, rest),
        _ => return Err(NOT_A_RANGE),
    };
    scratch.clear();
    let (lower, rest) = split_bound(rest, scratch)?;
    let rest = rest.strip_prefix(b",").ok_or(NOT_A_RANGE)?;
    let (upper, rest) = split_bound(rest, scratch)?;
    let upper_inc = match rest {
        b"]" => true,
        b")" => false,
        _ => return Err(NOT_A_RANGE),
    };
    if (lower_inc && lower.is_none()) || (upper_inc && upper.is_none()) {
        return Err(INCLUDES_NO_BOUND);
    }
    let scratch = scratch.as_slice();
    Ok(RangeParts {
        lower: lower.map(|bound| bound.bytes(scratch)),
        upper: upper.map(|bound| bound.bytes(scratch)),
        lower_inc,
        upper_inc,
        empty: false,
    })
}

/// The bound, if there is one, and what follows it.
fn split_bound<'a>(
    rest: &'a [u8],
    scratch: &mut Vec<u8>,
) -> Result<(Option<Unquoted<'a>>, &'a [u8]), CellError> {
    if let [b'"', quoted @ ..] = rest {
        let (bound, after) = split_quoted(quoted, Quotes::Doubled, scratch)?;
        return Ok((Some(bound), after));
    }
    let (bound, after) = split_plain(rest, is_special);
    Ok(((!bound.is_empty()).then_some(Unquoted::Plain(bound)), after))
}

/// Reads the parts of a binary range.
fn range_from_binary(cell: &[u8]) -> Result<RangeParts<'_>, CellError> {
    let (flags, rest) = cell.split_first().ok_or(FLAGS)?;
    if *flags == EMPTY {
        return if rest.is_empty() {
            Ok(RangeParts::EMPTY)
        } else {
            Err(SURPLUS)
        };
    }
    if flags & !(LOWER_INC | UPPER_INC | LOWER_INF | UPPER_INF) != 0 {
        return Err(FLAGS);
    }
    let is = |flag: u8| flags & flag != 0;
    if (is(LOWER_INC) && is(LOWER_INF)) || (is(UPPER_INC) && is(UPPER_INF)) {
        return Err(INCLUDES_NO_BOUND);
    }
    let (lower, rest) = split_binary_bound(rest, is(LOWER_INF))?;
    let (upper, rest) = split_binary_bound(rest, is(UPPER_INF))?;
    if !rest.is_empty() {
        return Err(SURPLUS);
    }
    Ok(RangeParts {
        lower,
        upper,
        lower_inc: is(LOWER_INC),
        upper_inc: is(UPPER_INC),
        empty: false,
    })
}

fn split_binary_bound(rest: &[u8], infinite: bool) -> Result<(Option<&[u8]>, &[u8]), CellError> {
    if infinite {
        return Ok((None, rest));
    }
    match split_cell(rest) {
        Some((Some(bound), rest)) => Ok((Some(bound), rest)),
        _ => Err(CellError::Malformed("a bound's length and its bytes")),
    }
}

/// Appends the text of a range whose bounds are text.
fn range_to_text(range: RangeParts<'_>, out: &mut Vec<u8>) {
    if range.empty {
        out.extend_from_slice(b"empty");
        return;
    }
    out.push(if range.lower_inc { b'[' } else { b'(' });
    if let Some(bound) = range.lower {
        write_quoted(bound, is_special, out);
    }
    out.push(b',');
    if let Some(bound) = range.upper {
        write_quoted(bound, is_special, out);
    }
    out.push(if range.upper_inc { b']' } else { b')' });
}

/// Appends the text of a binary range. `bound` appends the text of a bound's binary form; `scratch` holds it until it
/// is quoted.
fn range_text_from_binary(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    bound: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    write_range(range_from_binary(cell)?, scratch, out, bound)
}

/// Appends a range with new texts of its bounds: `bound` gets the old text of one and appends the new text.
fn range_text_from_text(
    cell: &[u8],
    out: &mut Vec<u8>,
    bound: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let mut unquoted = Vec::new();
    let range = range_from_text(cell, &mut unquoted)?;
    write_range(range, &mut Vec::new(), out, bound)
}

fn write_range(
    range: RangeParts<'_>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    mut bound: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    scratch.clear();
    if let Some(lower) = range.lower {
        bound(lower, scratch)?;
    }
    let middle = scratch.len();
    if let Some(upper) = range.upper {
        bound(upper, scratch)?;
    }
    let (lower, upper) = scratch.split_at_checked(middle).unwrap_or_default();
    let text = RangeParts {
        lower: range.lower.and(Some(lower)),
        upper: range.upper.and(Some(upper)),
        ..range
    };
    range_to_text(text, out);
    Ok(())
}

/// The texts of a multirange's ranges. Anything but ranges and commas gives an error as the last item.
#[derive(Clone, Debug)]
struct TextMultirange<'a> {
    /// The next range and everything after it, without the closing brace.
    rest: Option<&'a [u8]>,
}

/// Removes the braces of a multirange's text.
fn multirange_from_text(cell: &[u8]) -> Result<TextMultirange<'_>, CellError> {
    match cell {
        b"{}" => Ok(TextMultirange { rest: None }),
        [b'{', rest @ .., b'}'] => Ok(TextMultirange { rest: Some(rest) }),
        _ => Err(NOT_A_MULTIRANGE),
    }
}

impl<'a> Iterator for TextMultirange<'a> {
    type Item = Result<&'a [u8], CellError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest.take()?;
        let split = range_length(rest).and_then(|length| rest.split_at_checked(length));
        let Some((range, after)) = split else {
            return Some(Err(NOT_A_MULTIRANGE));
        };
        self.rest = match after {
            [] => None,
            [b',', next @ ..] => Some(next),
            _ => return Some(Err(NOT_A_MULTIRANGE)),
        };
        Some(Ok(range))
    }
}

/// The length of the range in front, with its brackets.
fn range_length(rest: &[u8]) -> Option<usize> {
    let [b'[' | b'(', inside @ ..] = rest else {
        return None;
    };
    let mut quoted = false;
    let mut bytes = inside.iter().enumerate();
    while let Some((place, byte)) = bytes.next() {
        match byte {
            b'\\' => {
                bytes.next();
            }
            // A doubled quote ends the quotes and begins them again.
            b'"' => quoted = !quoted,
            b']' | b')' if !quoted => return place.checked_add(2),
            _ => {}
        }
    }
    None
}

/// The binary forms of a multirange's ranges. Bytes after the multirange give an error as the last item.
#[derive(Clone, Debug)]
struct BinaryMultirange<'a> {
    left: usize,
    rest: &'a [u8],
}

/// Reads the head of a binary multirange.
fn multirange_from_binary(cell: &[u8]) -> Result<BinaryMultirange<'_>, CellError> {
    // Each range takes at least the four bytes of its length and its flags.
    let (left, rest) =
        split_count(cell, 5).ok_or(CellError::Malformed("a count of ranges and as many ranges"))?;
    Ok(BinaryMultirange { left, rest })
}

impl<'a> Iterator for BinaryMultirange<'a> {
    type Item = Result<&'a [u8], CellError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            let surplus = !std::mem::take(&mut self.rest).is_empty();
            return surplus.then_some(Err(CellError::Malformed("nothing after the last range")));
        };
        // A multirange never contains an empty range.
        match split_cell(self.rest) {
            Some((Some(range), rest)) if range != [EMPTY] => {
                (self.left, self.rest) = (left, rest);
                Some(Ok(range))
            }
            _ => {
                (self.left, self.rest) = (0, &[]);
                Some(Err(CellError::Malformed("a range's length and its bytes")))
            }
        }
    }
}

/// As [`range_text_from_binary`], of a multirange.
fn multirange_text_from_binary(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    mut bound: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    write_multirange(multirange_from_binary(cell)?, out, |range, out| {
        range_text_from_binary(range, scratch, out, &mut bound)
    })
}

/// As [`range_text_from_text`], of a multirange.
fn multirange_text_from_text(
    cell: &[u8],
    out: &mut Vec<u8>,
    mut bound: impl FnMut(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    write_multirange(multirange_from_text(cell)?, out, |range, out| {
        range_text_from_text(range, out, &mut bound)
    })
}

/// Appends ranges between braces: `write` gets the cell of one and appends its text.
fn write_multirange<'a>(
    ranges: impl Iterator<Item = Result<&'a [u8], CellError>>,
    out: &mut Vec<u8>,
    mut write: impl FnMut(&'a [u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    out.push(b'{');
    for (place, range) in ranges.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write(range?, out)?;
    }
    out.push(b'}');
    Ok(())
}

/// The bytes that the server quotes in a bound.
fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'\\' | b'(' | b')' | b'[' | b']' | b',' | b' ' | b'\t'..=b'\r'
    )
}

const EMPTY: u8 = 1;
const LOWER_INC: u8 = 2;
const UPPER_INC: u8 = 4;
const LOWER_INF: u8 = 8;
const UPPER_INF: u8 = 16;

const NOT_A_RANGE: CellError = CellError::Malformed("empty, or two bounds between brackets");
const NOT_A_MULTIRANGE: CellError = CellError::Malformed("ranges between braces");
const INCLUDES_NO_BOUND: CellError = CellError::Malformed("a bound on the side that includes it");
const FLAGS: CellError = CellError::Malformed("the flags of a range");
const SURPLUS: CellError = CellError::Malformed("nothing after the last bound");

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Lower, upper and the brackets; `None` is the empty range.
    type Range = Option<(Option<Vec<u8>>, Option<Vec<u8>>, bool, bool)>;

    fn owned(parts: RangeParts<'_>) -> Range {
        let bound = |bound: Option<&[u8]>| bound.map(<[u8]>::to_vec);
        if parts.empty {
            assert_eq!(parts, RangeParts::EMPTY);
            return None;
        }
        Some((
            bound(parts.lower),
            bound(parts.upper),
            parts.lower_inc,
            parts.upper_inc,
        ))
    }

    fn text(cell: &[u8]) -> Result<Range, CellError> {
        range_from_text(cell, &mut b"left over".to_vec()).map(owned)
    }

    fn binary(cell: &[u8]) -> Result<Range, CellError> {
        range_from_binary(cell).map(owned)
    }

    /// The text of a range of text.
    fn rendered(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = Vec::new();
        range_text_from_binary(cell, &mut b"left over".to_vec(), &mut out, |bound, text| {
            text.extend_from_slice(bound);
            Ok(())
        })?;
        Ok(out)
    }

    fn multi_text(cell: &[u8]) -> Result<Vec<Range>, CellError> {
        multirange_from_text(cell)?
            .map(|range| text(range?))
            .collect()
    }

    fn multi_binary(cell: &[u8]) -> Result<Vec<Range>, CellError> {
        multirange_from_binary(cell)?
            .map(|range| binary(range?))
            .collect()
    }

    fn multi_rendered(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = Vec::new();
        multirange_text_from_binary(cell, &mut Vec::new(), &mut out, |bound, text| {
            text.extend_from_slice(bound);
            Ok(())
        })?;
        Ok(out)
    }

    fn sent(range: &Range) -> Vec<u8> {
        let Some((lower, upper, lower_inc, upper_inc)) = range else {
            return vec![1];
        };
        let flags = [
            (*lower_inc, 2),
            (*upper_inc, 4),
            (lower.is_none(), 8),
            (upper.is_none(), 16),
        ];
        let set = flags.into_iter().filter(|(is, _)| *is);
        let mut cell = vec![set.fold(0, |flags, (_, flag)| flags | flag)];
        for bound in [lower, upper].into_iter().flatten() {
            cell.extend_from_slice(&i32::try_from(bound.len()).unwrap().to_be_bytes());
            cell.extend_from_slice(bound);
        }
        cell
    }

    fn multi_sent(ranges: &[Range]) -> Vec<u8> {
        let mut cell = i32::try_from(ranges.len()).unwrap().to_be_bytes().to_vec();
        for range in ranges {
            let range = sent(range);
            cell.extend_from_slice(&i32::try_from(range.len()).unwrap().to_be_bytes());
            cell.extend_from_slice(&range);
        }
        cell
    }

    #[expect(clippy::unnecessary_wraps, reason = "a range that is not empty")]
    fn range(lower: Option<&str>, upper: Option<&str>, brackets: &str) -> Range {
        let bound = |bound: Option<&str>| bound.map(|bound| bound.as_bytes().to_vec());
        Some((
            bound(lower),
            bound(upper),
            brackets.starts_with('['),
            brackets.ends_with(']'),
        ))
    }

    // `create type textrange as range (subtype = text)`, as PostgreSQL 18.4 writes and sends it.
    #[test]
    fn ranges_are_as_the_server_writes_them() {
        for (cell, expected) in [
            ("empty", None),
            ("[1,5)", range(Some("1"), Some("5"), "[)")),
            ("(1,5]", range(Some("1"), Some("5"), "(]")),
            ("(,)", range(None, None, "()")),
            ("[1,)", range(Some("1"), None, "[)")),
            ("(,2)", range(None, Some("2"), "()")),
            ("[NaN,NaN]", range(Some("NaN"), Some("NaN"), "[]")),
            (
                "(-Infinity,Infinity)",
                range(Some("-Infinity"), Some("Infinity"), "()"),
            ),
            (
                "[\"2020-01-01 00:00:00\",infinity)",
                range(Some("2020-01-01 00:00:00"), Some("infinity"), "[)"),
            ),
            (r#"["","a""b\\c"]"#, range(Some(""), Some(r#"a"b\c"#), "[]")),
            (r#"("A A","B,")"#, range(Some("A A"), Some("B,"), "()")),
            (r#"["(","[")"#, range(Some("("), Some("["), "[)")),
            (r#"["]",{})"#, range(Some("]"), Some("{}"), "[)")),
            (
                "[\"a\tb\",a\u{a0}b)",
                range(Some("a\tb"), Some("a\u{a0}b"), "[)"),
            ),
            (
                "[empty,infinity)",
                range(Some("empty"), Some("infinity"), "[)"),
            ),
            (
                "[\"a\u{b}b\",\"a\u{c}é\")",
                range(Some("a\u{b}b"), Some("a\u{c}é"), "[)"),
            ),
            ("[\u{1},é)", range(Some("\u{1}"), Some("é"), "[)")),
        ] {
            assert_eq!(text(cell.as_bytes()), Ok(expected.clone()), "{cell}");
            assert_eq!(rendered(&sent(&expected)), Ok(cell.into()), "{cell}");
        }
    }

    #[test]
    fn backslash_takes_the_place_of_a_doubled_quote() {
        let expected = range(Some(r#"a"b"#), Some(r"c\d"), "[)");
        assert_eq!(text(br#"["a\"b","c\\d")"#), Ok(expected));
    }

    #[test]
    fn text_that_the_server_never_writes_is_refused() {
        for wrong in [
            "",
            "[",
            "[]",
            "[,",
            "Empty",
            "empty ",
            "1,2",
            "[1,2",
            "1,2)",
            "[1)",
            "[1,2,3)",
            "[1,2) ",
            " [1,2)",
            "[1, 2)",
            "[a\"b\",c)",
            "[\"a\"b,c)",
            "[a\\b,c)",
            "[(1,2)",
            "[\"a,b)",
            "[\"a\\",
            "[,2)",
            "[1,]",
            "[,]",
            "{1,2}",
            "[1,2}",
        ] {
            assert!(text(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    // Sent by PostgreSQL 18.4: `int4range` 'empty', '[1,5)', '(,)', '[1,)', '(,1]'.
    #[test]
    fn binary_ranges_are_as_the_server_sends_them() {
        let one = Some(vec![0, 0, 0, 1]);
        let five = Some(vec![0, 0, 0, 5]);
        let two = Some(vec![0, 0, 0, 2]);
        for (cell, expected) in [
            (&[1][..], None),
            (
                &[2, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 5],
                Some((one.clone(), five, true, false)),
            ),
            (&[0x18], Some((None, None, false, false))),
            (
                &[0x12, 0, 0, 0, 4, 0, 0, 0, 1],
                Some((one, None, true, false)),
            ),
            (
                &[8, 0, 0, 0, 4, 0, 0, 0, 2],
                Some((None, two, false, false)),
            ),
        ] {
            assert_eq!(binary(cell), Ok(expected), "{cell:?}");
        }
    }

    #[test]
    fn wrong_binary_ranges_are_refused() {
        let whole = sent(&range(Some("ab"), Some("c"), "[)"));
        for end in 0..whole.len() {
            assert!(binary(&whole[..end]).is_err(), "{end}");
        }
        assert_eq!(binary(&[&whole[..], &[0]].concat()), Err(SURPLUS));
        assert_eq!(binary(&[1, 0]), Err(SURPLUS));
        for flags in [3, 5, 9, 0x20, 0x40, 0x80, 0xff] {
            assert_eq!(binary(&[flags]), Err(FLAGS), "{flags}");
        }
        for flags in [0x1a, 0x1c, 0x0a, 0x14] {
            let cell = [flags, 0, 0, 0, 0];
            assert_eq!(binary(&cell), Err(INCLUDES_NO_BOUND), "{flags}");
        }
        // A null bound, a bound of negative length, one of more bytes than there are.
        for length in [-1_i32, -2, i32::MIN, 1, i32::MAX] {
            let cell = [&[0x10][..], &length.to_be_bytes()].concat();
            assert!(binary(&cell).is_err(), "{length}");
        }
    }

    // `textmultirange` and `int4multirange` of PostgreSQL 18.4.
    #[test]
    fn multiranges_are_as_the_server_writes_them() {
        for (cell, expected) in [
            ("{}", vec![]),
            ("{(,)}", vec![range(None, None, "()")]),
            ("{(,3)}", vec![range(None, Some("3"), "()")]),
            (
                "{[1,5),[7,9)}",
                vec![
                    range(Some("1"), Some("5"), "[)"),
                    range(Some("7"), Some("9"), "[)"),
                ],
            ),
            (
                r#"{["a""",b}),["c,","d\\")}"#,
                vec![
                    range(Some("a\""), Some("b}"), "[)"),
                    range(Some("c,"), Some("d\\"), "[)"),
                ],
            ),
        ] {
            assert_eq!(multi_text(cell.as_bytes()), Ok(expected.clone()), "{cell}");
            let sent = multi_sent(&expected);
            assert_eq!(multi_binary(&sent), Ok(expected), "{cell}");
            assert_eq!(multi_rendered(&sent), Ok(cell.into()), "{cell}");
        }
        // '{[1,5),[7,9)}'
        let sent = b"\0\0\0\x02\0\0\0\x11\x02\0\0\0\x04\0\0\0\x01\0\0\0\x04\0\0\0\x05\
            \0\0\0\x11\x02\0\0\0\x04\0\0\0\x07\0\0\0\x04\0\0\0\x09";
        let ranges = multirange_from_binary(sent).unwrap();
        assert_eq!(ranges.left, 2);
        let ranges: Vec<_> = ranges
            .map(|range| range_from_binary(range.unwrap()))
            .collect();
        let expected = |lower, upper| {
            Ok(RangeParts {
                lower: Some(lower),
                upper: Some(upper),
                lower_inc: true,
                upper_inc: false,
                empty: false,
            })
        };
        assert_eq!(
            ranges,
            [
                expected(&[0, 0, 0, 1], &[0, 0, 0, 5]),
                expected(&[0, 0, 0, 7], &[0, 0, 0, 9]),
            ]
        );
    }

    #[test]
    fn wrong_multiranges_are_refused() {
        for wrong in [
            "",
            "{",
            "}",
            "[1,2)",
            "{[1,2)",
            "[1,2)}",
            "{,}",
            "{[1,2),}",
            "{,[1,2)}",
            "{[1,2)[3,4)}",
            "{[1,2), [3,4)}",
            "{[1,2)}}",
            "{{[1,2)}}",
            "{\"[1,2)\"}",
            "{[\"1,2)}",
            "{x}",
            "{empty}",
        ] {
            assert!(multi_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let whole = multi_sent(&[
            range(Some("a"), Some("b"), "[)"),
            range(Some("c"), None, "[)"),
        ]);
        for end in 0..whole.len() {
            assert!(multi_binary(&whole[..end]).is_err(), "{end}");
            assert!(multi_rendered(&whole[..end]).is_err(), "{end}");
        }
        assert!(multi_binary(&[&whole[..], &[0]].concat()).is_err());
        assert!(multirange_from_binary(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1, 1]).is_err());
        assert!(multirange_from_binary(&[0xff; 9]).is_err());
        assert!(multi_binary(&multi_sent(&[None])).is_err());
        // Iteration ends with the first error.
        let mut ranges = multirange_from_text(b"{[1,2)x,[3,4)}").unwrap();
        assert!(ranges.next().unwrap().is_err());
        assert!(ranges.next().is_none());
    }

    fn bound() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop_oneof![
            Just(None),
            proptest::collection::vec(any::<u8>(), 0..6).prop_map(Some),
            "[a-z(),\"\\\\ \\[\\]{}]{0,8}".prop_map(|text| Some(text.into_bytes())),
        ]
    }

    fn any_range() -> impl Strategy<Value = Range> {
        prop_oneof![
            1 => Just(None),
            9 => (bound(), bound(), any::<bool>(), any::<bool>()).prop_map(
                |(lower, upper, lower_inc, upper_inc)| {
                    let (lower_inc, upper_inc) =
                        (lower_inc && lower.is_some(), upper_inc && upper.is_some());
                    Some((lower, upper, lower_inc, upper_inc))
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_range(range in any_range()) {
            let sent = sent(&range);
            prop_assert_eq!(binary(&sent), Ok(range.clone()));
            prop_assert_eq!(text(&rendered(&sent).unwrap()), Ok(range));
        }

        #[test]
        fn both_forms_give_the_same_multirange(
            ranges in proptest::collection::vec(any_range().prop_filter("not empty", Option::is_some), 0..4),
        ) {
            let sent = multi_sent(&ranges);
            prop_assert_eq!(multi_binary(&sent), Ok(ranges.clone()));
            prop_assert_eq!(multi_text(&multi_rendered(&sent).unwrap()), Ok(ranges));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "\\{?[\\[(][a(),\"\\\\ \\[\\]]{0,20}[\\])]?\\}?",
            flags in 0..32_u8,
        ) {
            let headed = [&[flags, 0, 0, 0], &cell[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed] {
                let _ = (binary(cell), rendered(cell), multi_text(cell));
                let _ = (multi_binary(cell), multi_rendered(cell));
                if let Ok(range) = text(cell) {
                    // Accepted text may differ from what the server writes, but has the same bounds.
                    prop_assert_eq!(text(&rendered(&sent(&range)).unwrap()), Ok(range));
                }
            }
        }
    }
}
