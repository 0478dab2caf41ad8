//! Types of extensions: `hstore`; `vector`, `halfvec` and `sparsevec` of pgvector; `geometry` and `geography` of
//! `PostGIS`; `cube`.
//!
//! ```text
//! hstore      "k"=>"v", "k"=>NULL         a backslash before " and \
//! binary      i32 pairs
//!             per pair: i32 length | key | i32 length, -1 for null | value
//!
//! vector      [1,2.5]
//! binary      u16 dimensions | u16 0 | f32 of each; a halfvec has f16
//!
//! sparsevec   {1:1.5,3:-2}/5              indices from 1
//! binary      i32 dimensions | i32 elements | i32 0 | i32 of each index, from 0 | f32 of each element
//!
//! geometry    EWKB as digits in upper case
//! binary      EWKB: u8 1 for little endian | u32 type and flags | u32 SRID, if flagged | coordinates
//!
//! cube        (1, 2),(3, 4)               one corner if both are the same
//! binary      u32 1 << 31 if one corner, dimensions | f64 of each
//! ```

use super::CellError;
use super::bytes::{bytes_from_hex, hex_from_byte};
use super::composite::{Quotes, split_cell, split_count, split_quoted};
use super::float::{f32_from_text, f32_text_from_binary, f64_text_from_binary};
use super::int::{i32_from_text, write_decimal};

/// Visits the pairs of an hstore's text, null values as `None`; how many there are. `scratch` holds keys and values
/// whose escapes were taken out.
pub(crate) fn hstore_from_text<E: From<CellError>>(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), E>,
) -> Result<usize, E> {
    let mut pairs = 0_usize;
    let mut rest = cell;
    while !rest.is_empty() {
        scratch.clear();
        let quoted = rest.strip_prefix(b"\"").ok_or(NOT_AN_HSTORE)?;
        let (key, after) = split_quoted(quoted, Quotes::Escaped, scratch)?;
        let (value, after) = match after {
            [b'=', b'>', b'"', quoted @ ..] => {
                let (value, after) = split_quoted(quoted, Quotes::Escaped, scratch)?;
                (Some(value), after)
            }
            [b'=', b'>', b'N', b'U', b'L', b'L', after @ ..] => (None, after),
            _ => return Err(NOT_AN_HSTORE.into()),
        };
        let value = value.as_ref().map(|value| value.bytes(scratch));
        visit(key.bytes(scratch), value)?;
        pairs = pairs.saturating_add(1);
        rest = match after {
            [] | [b',', b' ', b'"', ..] => after.get(2..).unwrap_or_default(),
            _ => return Err(NOT_AN_HSTORE.into()),
        };
    }
    Ok(pairs)
}

/// The pairs of a binary hstore, null values as `None`; the last item is an error if the bytes do not end with the
/// hstore.
#[derive(Clone, Debug)]
pub(crate) struct BinaryHstore<'a> {
    left: usize,
    rest: &'a [u8],
}

/// Reads the head of a binary hstore.
pub(crate) fn hstore_from_binary(cell: &[u8]) -> Result<BinaryHstore<'_>, CellError> {
    // Each pair takes the eight bytes of its lengths at least.
    let (left, rest) =
        split_count(cell, 8).ok_or(CellError::Malformed("a count of pairs and as many pairs"))?;
    Ok(BinaryHstore { left, rest })
}

impl<'a> Iterator for BinaryHstore<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), CellError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            let surplus = !std::mem::take(&mut self.rest).is_empty();
            return surplus.then_some(Err(CellError::Malformed("nothing after the last pair")));
        };
        let split = split_cell(self.rest).and_then(|(key, rest)| {
            let (value, rest) = split_cell(rest)?;
            Some((key?, value, rest))
        });
        let Some((key, value, rest)) = split else {
            (self.left, self.rest) = (0, &[]);
            return Some(Err(CellError::Malformed("a key and a value")));
        };
        (self.left, self.rest) = (left, rest);
        Some(Ok((key, value)))
    }
}

/// Appends the text of a binary hstore.
pub(crate) fn hstore_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    for (place, pair) in hstore_from_binary(cell)?.enumerate() {
        let (key, value) = pair?;
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        write_escaped(key, out);
        out.extend_from_slice(b"=>");
        match value {
            Some(value) => write_escaped(value, out),
            None => out.extend_from_slice(b"NULL"),
        }
    }
    Ok(())
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

/// Parses the text of a `vector` or of a `halfvec`, in place of what `numbers` held. The text of 16 bits is that of
/// the same value in 32.
pub(crate) fn vector_from_text(cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
    numbers.clear();
    let [b'[', inside @ .., b']'] = cell else {
        return Err(NOT_A_VECTOR);
    };
    for number in inside.split(|byte| *byte == b',') {
        numbers.push(finite(f32_from_text(number)?)?);
    }
    Ok(())
}

/// Parses a binary `vector`, in place of what `numbers` held.
pub(crate) fn vector_from_binary(cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
    numbers.clear();
    for word in vector_words(cell)? {
        numbers.push(finite(f32::from_be_bytes(*word))?);
    }
    Ok(())
}

/// Parses a binary `halfvec`, in place of what `numbers` held.
pub(crate) fn halfvec_from_binary(cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
    numbers.clear();
    for word in vector_words(cell)? {
        numbers.push(finite(f32_from_half(u16::from_be_bytes(*word)))?);
    }
    Ok(())
}

/// Appends the text of a binary `vector`.
pub(crate) fn vector_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_vector(
        vector_words(cell)?
            .iter()
            .map(|word| f32::from_be_bytes(*word)),
        out,
    )
}

/// Appends the text of a binary `halfvec`.
pub(crate) fn halfvec_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_vector(
        vector_words(cell)?
            .iter()
            .map(|word| f32_from_half(u16::from_be_bytes(*word))),
        out,
    )
}

fn write_vector(numbers: impl Iterator<Item = f32>, out: &mut Vec<u8>) -> Result<(), CellError> {
    out.push(b'[');
    for (place, number) in numbers.enumerate() {
        if place > 0 {
            out.push(b',');
        }
        f32_text_from_binary(&finite(number)?.to_be_bytes(), out)?;
    }
    out.push(b']');
    Ok(())
}

/// The numbers of a binary vector, one at least.
fn vector_words<const N: usize>(cell: &[u8]) -> Result<&[[u8; N]], CellError> {
    const EXPECTED: CellError = CellError::Malformed("a count of dimensions and as many numbers");
    let [high, low, 0, 0, numbers @ ..] = cell else {
        return Err(EXPECTED);
    };
    let dimensions = usize::from(u16::from_be_bytes([*high, *low]));
    match numbers.as_chunks::<N>() {
        (words, []) if words.len() == dimensions && dimensions > 0 => Ok(words),
        _ => Err(EXPECTED),
    }
}

/// The same value with 32 bits, which hold every one that 16 bits hold.
fn f32_from_half(half: u16) -> f32 {
    let sign = u32::from(half & 0x8000) << 16;
    let (exponent, fraction) = (u32::from(half) >> 10 & 0x1f, u32::from(half & 0x3ff));
    let bits = match exponent {
        // Below the least normal number, in steps of 2^-24.
        0 => (f32::from(half & 0x3ff) / 16_777_216.0).to_bits(),
        0x1f => 0x7f80_0000 | fraction << 13,
        _ => exponent.wrapping_add(127 - 15) << 23 | fraction << 13,
    };
    f32::from_bits(sign | bits)
}

/// pgvector takes neither infinity nor NaN.
fn finite(number: f32) -> Result<f32, CellError> {
    if number.is_finite() {
        Ok(number)
    } else {
        Err(CellError::Malformed("finite numbers"))
    }
}

/// Parses the text of a `sparsevec`, in place of what `indices`, from 0, and `numbers` held; the dimensions.
pub(crate) fn sparsevec_from_text(
    cell: &[u8],
    indices: &mut Vec<i32>,
    numbers: &mut Vec<f32>,
) -> Result<i32, CellError> {
    indices.clear();
    numbers.clear();
    let inside = cell.strip_prefix(b"{").ok_or(NOT_A_SPARSEVEC)?;
    let (elements, dimensions) = split_at_byte(inside, b'}').ok_or(NOT_A_SPARSEVEC)?;
    let dimensions = i32_from_text(dimensions.strip_prefix(b"/").ok_or(NOT_A_SPARSEVEC)?)?;
    if !elements.is_empty() {
        for element in elements.split(|byte| *byte == b',') {
            let (index, number) = split_at_byte(element, b':').ok_or(NOT_A_SPARSEVEC)?;
            let index = i32_from_text(index)?
                .checked_sub(1)
                .ok_or(NOT_A_SPARSEVEC)?;
            indices.push(index);
            numbers.push(finite(f32_from_text(number)?)?);
        }
    }
    check_indices(dimensions, indices.iter().copied())?;
    Ok(dimensions)
}

/// Parses a binary `sparsevec`, in place of what `indices`, from 0, and `numbers` held; the dimensions.
pub(crate) fn sparsevec_from_binary(
    cell: &[u8],
    indices: &mut Vec<i32>,
    numbers: &mut Vec<f32>,
) -> Result<i32, CellError> {
    indices.clear();
    numbers.clear();
    let words = SparseWords::new(cell)?;
    indices.extend(words.indices.iter().map(|word| i32::from_be_bytes(*word)));
    for word in words.numbers {
        numbers.push(finite(f32::from_be_bytes(*word))?);
    }
    Ok(words.dimensions)
}

/// Appends the text of a binary `sparsevec`.
pub(crate) fn sparsevec_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let words = SparseWords::new(cell)?;
    out.push(b'{');
    for (place, (index, number)) in words.indices.iter().zip(words.numbers).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        // No index is the largest number, since it is below the dimensions.
        write_decimal(i32::from_be_bytes(*index).saturating_add(1), out);
        out.push(b':');
        f32_text_from_binary(&finite(f32::from_be_bytes(*number))?.to_be_bytes(), out)?;
    }
    out.extend_from_slice(b"}/");
    write_decimal(words.dimensions, out);
    Ok(())
}

/// A binary `sparsevec`, which has as many indices as numbers.
struct SparseWords<'a> {
    dimensions: i32,
    indices: &'a [[u8; 4]],
    numbers: &'a [[u8; 4]],
}

impl<'a> SparseWords<'a> {
    fn new(cell: &'a [u8]) -> Result<Self, CellError> {
        const EXPECTED: CellError =
            CellError::Malformed("a count of elements and as many elements");
        let (dimensions, rest) = cell.split_first_chunk::<4>().ok_or(EXPECTED)?;
        let dimensions = i32::from_be_bytes(*dimensions);
        let (count, rest) = split_count(rest, 8).ok_or(EXPECTED)?;
        let (words, odd) = rest.strip_prefix(&[0; 4]).ok_or(EXPECTED)?.as_chunks::<4>();
        let (indices, numbers) = words.split_at_checked(count).ok_or(EXPECTED)?;
        if numbers.len() != count || !odd.is_empty() {
            return Err(EXPECTED);
        }
        let places = indices.iter().map(|word| i32::from_be_bytes(*word));
        check_indices(dimensions, places)?;
        Ok(Self {
            dimensions,
            indices,
            numbers,
        })
    }
}

/// Indices ascend from 0 and stay below the dimensions, of which there is one at least.
fn check_indices(dimensions: i32, mut indices: impl Iterator<Item = i32>) -> Result<(), CellError> {
    let ascend = indices.try_fold(-1, |last, index| (index > last).then_some(index));
    match ascend {
        Some(last) if last < dimensions && dimensions > 0 => Ok(()),
        _ => Err(CellError::Malformed(
            "ascending indices within the dimensions",
        )),
    }
}

/// What stands before and after the first such byte.
fn split_at_byte(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == wanted)?;
    let (before, rest) = bytes.split_at_checked(place)?;
    Some((before, rest.get(1..)?))
}

/// What the type modifier of a `geometry` or `geography` column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GeometryTypmod {
    /// The coordinate system of all values; 0 if none is named.
    pub(crate) srid: u32,
    /// The type of all values as in WKB; 0 if any.
    pub(crate) kind: u32,
    pub(crate) has_z: bool,
    pub(crate) has_m: bool,
}

impl GeometryTypmod {
    /// Takes a type modifier apart; `None` if the column has none.
    pub(crate) fn new(typmod: i32) -> Option<Self> {
        let bits = u32::try_from(typmod).ok()?;
        Some(Self {
            srid: bits >> 8 & 0xf_ffff,
            kind: bits >> 2 & 0x3f,
            has_z: bits & 2 != 0,
            has_m: bits & 1 != 0,
        })
    }
}

/// Appends the ISO WKB of a geometry's text; its SRID, if it has one. `scratch` holds the EWKB. Appends nothing if it
/// is malformed.
pub(crate) fn wkb_from_text(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
) -> Result<Option<u32>, CellError> {
    scratch.clear();
    bytes_from_hex(cell, scratch)?;
    wkb_from_binary(scratch, out)
}

/// Appends the ISO WKB of a binary geometry, which is EWKB; its SRID, if it has one. Appends nothing if it is
/// malformed.
pub(crate) fn wkb_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<Option<u32>, CellError> {
    let start = out.len();
    let mut walk = WkbWalk { srid: None, out };
    let walked = walk.geometry(cell, None, 0).and_then(|rest| match rest {
        [] => Ok(()),
        _ => Err(CellError::Malformed("nothing after the geometry")),
    });
    let srid = walk.srid;
    if walked.is_err() {
        out.truncate(start);
    }
    walked.map(|()| srid)
}

/// Appends the text of a binary geometry.
pub(crate) fn geometry_text_from_binary(cell: &[u8], out: &mut Vec<u8>) {
    out.extend(
        cell.iter()
            .flat_map(|byte| hex_from_byte(*byte).map(|digit| digit.to_ascii_uppercase())),
    );
}

/// A walk through EWKB that writes ISO WKB in the same byte order: the flags become a part of the type's number, the
/// SRID is taken out, and all else is the same.
struct WkbWalk<'o> {
    srid: Option<u32>,
    out: &'o mut Vec<u8>,
}

/// The type of a geometry and the flags of its dimensions.
#[derive(Clone, Copy)]
struct WkbType {
    kind: u32,
    dimensions: u32,
}

impl WkbWalk<'_> {
    /// Writes the geometry in front; what follows it.
    fn geometry<'a>(
        &mut self,
        bytes: &'a [u8],
        outer: Option<WkbType>,
        depth: u32,
    ) -> Result<&'a [u8], CellError> {
        let (order, rest) = bytes.split_first().ok_or(NOT_EWKB)?;
        let little = match order {
            0 => false,
            1 => true,
            _ => return Err(NOT_EWKB),
        };
        let (flagged, mut rest) = split_word(rest, little)?;
        if flagged & WITH_SRID != 0 {
            // PostGIS writes it once, in front of the whole.
            if depth > 0 {
                return Err(NOT_EWKB);
            }
            let (srid, after) = split_word(rest, little)?;
            self.srid = Some(srid);
            rest = after;
        }
        let this = WkbType {
            kind: flagged & !(WITH_Z | WITH_M | WITH_SRID),
            dimensions: flagged & (WITH_Z | WITH_M),
        };
        if outer.is_some_and(|outer| !outer.takes(this)) {
            return Err(NOT_EWKB);
        }
        let (z, m) = (
            u32::from(flagged & WITH_Z != 0),
            u32::from(flagged & WITH_M != 0),
        );
        let iso = this
            .kind
            .wrapping_add(z.wrapping_mul(1000))
            .wrapping_add(m.wrapping_mul(2000));
        self.out.push(*order);
        self.out.extend_from_slice(&if little {
            iso.to_le_bytes()
        } else {
            iso.to_be_bytes()
        });
        let size = u64::from(z.wrapping_add(m).wrapping_add(2)).wrapping_mul(8);
        match this.kind {
            POINT => self.copy(rest, size),
            LINESTRING | CIRCULARSTRING => self.points(rest, little, size),
            POLYGON | TRIANGLE => {
                let (rings, mut rest) = self.count(rest, little, 4)?;
                for _ in 0..rings {
                    rest = self.points(rest, little, size)?;
                }
                Ok(rest)
            }
            MULTIPOINT..=GEOMETRYCOLLECTION
            | COMPOUNDCURVE..=MULTISURFACE
            | POLYHEDRALSURFACE
            | TIN => {
                if depth >= MAX_DEPTH {
                    return Err(CellError::Malformed("geometries at most 200 deep"));
                }
                // Each takes the byte order, the type and a count at least.
                let (geometries, mut rest) = self.count(rest, little, 9)?;
                for _ in 0..geometries {
                    rest = self.geometry(rest, Some(this), depth.saturating_add(1))?;
                }
                Ok(rest)
            }
            _ => Err(CellError::Malformed("a geometry type of PostGIS")),
        }
    }

    /// Writes a count and as many points of that size.
    fn points<'a>(
        &mut self,
        rest: &'a [u8],
        little: bool,
        size: u64,
    ) -> Result<&'a [u8], CellError> {
        let (points, rest) = self.count(rest, little, size)?;
        self.copy(rest, u64::from(points).saturating_mul(size))
    }

    /// Writes a count of things that take so many bytes each at least.
    fn count<'a>(
        &mut self,
        rest: &'a [u8],
        little: bool,
        least: u64,
    ) -> Result<(u32, &'a [u8]), CellError> {
        let (count, after) = split_word(rest, little)?;
        let bytes = u64::from(count).saturating_mul(least);
        if usize::try_from(bytes).map_or(true, |bytes| bytes > after.len()) {
            return Err(NOT_EWKB);
        }
        self.copy(rest, 4)?;
        Ok((count, after))
    }

    fn copy<'a>(&mut self, rest: &'a [u8], length: u64) -> Result<&'a [u8], CellError> {
        let (bytes, rest) = usize::try_from(length)
            .ok()
            .and_then(|length| rest.split_at_checked(length))
            .ok_or(NOT_EWKB)?;
        self.out.extend_from_slice(bytes);
        Ok(rest)
    }
}

impl WkbType {
    /// Whether a geometry of this type consists of such ones.
    const fn takes(self, inner: Self) -> bool {
        let kind = match self.kind {
            MULTIPOINT => inner.kind == POINT,
            MULTILINESTRING => inner.kind == LINESTRING,
            MULTIPOLYGON | POLYHEDRALSURFACE => inner.kind == POLYGON,
            TIN => inner.kind == TRIANGLE,
            _ => true,
        };
        kind && inner.dimensions == self.dimensions
    }
}

fn split_word(bytes: &[u8], little: bool) -> Result<(u32, &[u8]), CellError> {
    let (word, rest) = bytes.split_first_chunk::<4>().ok_or(NOT_EWKB)?;
    let word = if little {
        u32::from_le_bytes(*word)
    } else {
        u32::from_be_bytes(*word)
    };
    Ok((word, rest))
}

/// Appends the text of a binary `cube`.
pub(crate) fn cube_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    const EXPECTED: CellError = CellError::Malformed("a count of dimensions and as many numbers");
    let (head, rest) = cell.split_first_chunk::<4>().ok_or(EXPECTED)?;
    let head = u32::from_be_bytes(*head);
    let dimensions = usize::try_from(head & !ONE_CORNER).map_err(|_| EXPECTED)?;
    let (numbers, odd) = rest.as_chunks::<8>();
    let (left, right) = numbers.split_at_checked(dimensions).ok_or(EXPECTED)?;
    let expected = if head & ONE_CORNER == 0 {
        dimensions
    } else {
        0
    };
    if right.len() != expected || !odd.is_empty() {
        return Err(EXPECTED);
    }
    write_corner(left, out)?;
    if head & ONE_CORNER == 0 && !same_corner(left, right) {
        out.push(b',');
        write_corner(right, out)?;
    }
    Ok(())
}

fn write_corner(numbers: &[[u8; 8]], out: &mut Vec<u8>) -> Result<(), CellError> {
    out.push(b'(');
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        f64_text_from_binary(number, out)?;
    }
    out.push(b')');
    Ok(())
}

/// Whether all numbers are equal as the server compares them: both zeros are, NaN is not.
#[expect(clippy::float_cmp, reason = "the server asks the same")]
fn same_corner(left: &[[u8; 8]], right: &[[u8; 8]]) -> bool {
    left.iter()
        .zip(right)
        .all(|(left, right)| f64::from_be_bytes(*left) == f64::from_be_bytes(*right))
}

const NOT_AN_HSTORE: CellError = CellError::Malformed("pairs of a quoted key and a value");
const NOT_A_VECTOR: CellError = CellError::Malformed("numbers between brackets");
const NOT_A_SPARSEVEC: CellError =
    CellError::Malformed("elements between braces and the dimensions");
const NOT_EWKB: CellError = CellError::Malformed("EWKB as PostGIS writes it");

const WITH_Z: u32 = 0x8000_0000;
const WITH_M: u32 = 0x4000_0000;
const WITH_SRID: u32 = 0x2000_0000;

const POINT: u32 = 1;
const LINESTRING: u32 = 2;
const POLYGON: u32 = 3;
const MULTIPOINT: u32 = 4;
const MULTILINESTRING: u32 = 5;
const MULTIPOLYGON: u32 = 6;
const GEOMETRYCOLLECTION: u32 = 7;
const CIRCULARSTRING: u32 = 8;
const COMPOUNDCURVE: u32 = 9;
const MULTISURFACE: u32 = 12;
const POLYHEDRALSURFACE: u32 = 15;
const TIN: u32 = 16;
const TRIANGLE: u32 = 17;

/// How deep `PostGIS` reads collections within collections.
const MAX_DEPTH: u32 = 200;

const ONE_CORNER: u32 = 0x8000_0000;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes_from_hex(hex.as_bytes(), &mut bytes).unwrap();
        bytes
    }

    fn string(
        cell: &[u8],
        write: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
    ) -> Result<String, CellError> {
        let mut out = Vec::new();
        write(cell, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn hstore_text(cell: &[u8]) -> Result<Pairs, CellError> {
        let mut pairs = Pairs::new();
        let mut scratch = b"left over".to_vec();
        let count = hstore_from_text(cell, &mut scratch, |key, value| {
            pairs.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok::<_, CellError>(())
        })?;
        assert_eq!(count, pairs.len());
        Ok(pairs)
    }

    fn hstore_binary(cell: &[u8]) -> Result<Pairs, CellError> {
        let hstore = hstore_from_binary(cell)?;
        let count = hstore.left;
        let pairs: Pairs = hstore
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))))
            .collect::<Result<_, _>>()?;
        assert_eq!(count, pairs.len());
        Ok(pairs)
    }

    fn hstore_rendered(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = Vec::new();
        hstore_text_from_binary(cell, &mut out)?;
        Ok(out)
    }

    fn hstore_sent(pairs: &Pairs) -> Vec<u8> {
        let length = |length: usize| i32::try_from(length).unwrap().to_be_bytes();
        let mut cell = length(pairs.len()).to_vec();
        for (key, value) in pairs {
            cell.extend_from_slice(&length(key.len()));
            cell.extend_from_slice(key);
            match value {
                None => cell.extend_from_slice(&[0xff; 4]),
                Some(value) => {
                    cell.extend_from_slice(&length(value.len()));
                    cell.extend_from_slice(value);
                }
            }
        }
        cell
    }

    // Each as hstore 1.8 of PostgreSQL 18.4 writes and sends it.
    #[test]
    fn hstores_are_as_the_server_writes_and_sends_them() {
        for (text, sent, pairs) in [
            ("", "00000000", &[][..]),
            (
                r#""a"=>"1""#,
                "0000000100000001610000000131",
                &[("a", Some("1"))],
            ),
            (r#""a"=>NULL"#, "000000010000000161ffffffff", &[("a", None)]),
            (
                r#""a"=>"NULL""#,
                "000000010000000161000000044e554c4c",
                &[("a", Some("NULL"))],
            ),
            (
                r#""a"=>"1", "b"=>"2", "aa"=>"3""#,
                "0000000300000001610000000131000000016200000001320000000261610000000133",
                &[("a", Some("1")), ("b", Some("2")), ("aa", Some("3"))],
            ),
            (
                r#""q\"k\\"=>"v\"\\""#,
                "000000010000000471226b5c0000000376225c",
                &[(r#"q"k\"#, Some(r#"v"\"#))],
            ),
            (r#"""=>"""#, "000000010000000000000000", &[("", Some(""))]),
            (
                "\"é\"=>\"x\ny\"",
                "0000000100000002c3a900000003780a79",
                &[("é", Some("x\ny"))],
            ),
            (
                r#""a=>b"=>", ""#,
                "0000000100000004613d3e62000000022c20",
                &[("a=>b", Some(", "))],
            ),
        ] {
            let pairs: Pairs = pairs
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.map(Into::into)))
                .collect();
            assert_eq!(hstore_text(text.as_bytes()), Ok(pairs.clone()), "{text}");
            assert_eq!(hstore_binary(&bytes(sent)), Ok(pairs), "{text}");
            assert_eq!(hstore_rendered(&bytes(sent)), Ok(text.into()), "{text}");
        }
    }

    #[test]
    fn wrong_hstores_are_refused() {
        for wrong in [
            "a=>1",
            "\"a\"",
            "\"a\"=>",
            "\"a\"=>1",
            "\"a\"=>null",
            "\"a\"=>\"1",
            "\"a=>\"1\"",
            "\"a\"=> \"1\"",
            "\"a\" => \"1\"",
            "\"a\"=>\"1\",",
            "\"a\"=>\"1\", ",
            "\"a\"=>\"1\",\"b\"=>NULL",
            " ",
            "NULL",
            "\"a\"=>NULLx",
            "\"a\"=>\"1\"x",
            "\"a\"\"b\"=>\"1\"",
            "\"a\"=>\"1\\",
            "{\"a\"=>\"1\"}",
        ] {
            assert!(hstore_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let whole = bytes("00000002000000016100000001310000000162ffffffff");
        assert!(hstore_binary(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(hstore_binary(&whole[..end]).is_err(), "{end}");
            assert!(hstore_rendered(&whole[..end]).is_err(), "{end}");
        }
        for wrong in [
            "0000000000",
            // A null key, a key of a negative length, a negative count, more pairs than bytes.
            "00000001ffffffff0000000131",
            "00000001fffffffe0000000131",
            "ffffffff00000000ffffffff",
            "7fffffff00000000ffffffff",
        ] {
            assert!(hstore_binary(&bytes(wrong)).is_err(), "{wrong}");
        }
    }

    fn bits(numbers: &[f32]) -> Vec<u32> {
        numbers.iter().map(|number| number.to_bits()).collect()
    }

    type Parse = fn(&[u8], &mut Vec<f32>) -> Result<(), CellError>;
    type Write = fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>;

    fn numbers(cell: &[u8], parse: Parse) -> Result<Vec<u32>, CellError> {
        let mut numbers = vec![1.0];
        parse(cell, &mut numbers).map(|()| bits(&numbers))
    }

    // Each as pgvector 0.8.5 of PostgreSQL 16.14 writes and sends it.
    #[test]
    fn vectors_are_as_the_server_writes_and_sends_them() {
        let (vector, halfvec): ((Parse, Write), (Parse, Write)) = (
            (vector_from_binary, vector_text_from_binary),
            (halfvec_from_binary, halfvec_text_from_binary),
        );
        for ((parse, write), text, sent, expected) in [
            (
                vector,
                "[1,2.5]",
                "000200003f80000040200000",
                &[1.0, 2.5][..],
            ),
            (
                vector,
                "[1e+20,1e-05,0.1,-0]",
                "0004000060ad78ec3727c5ac3dcccccd80000000",
                &[1e20, 1e-5, 0.1, -0.0],
            ),
            (
                vector,
                "[1e+06,1e+07,1.6777216e+07,123456.7,1e+15,1e+16,3.4028235e+38,1e-45,0.0001,1e-05]",
                "000a0000497424004b1896804b80000047f1205a58635fa95a0e1bca7f7fffff0000000138d1b7173727c5ac",
                &[
                    1e6,
                    1e7,
                    16_777_216.0,
                    123_456.7,
                    1e15,
                    1e16,
                    f32::MAX,
                    1e-45,
                    1e-4,
                    1e-5,
                ],
            ),
            (
                vector,
                "[1.234567e+06,1.2345678e+07,999999,1e+06,100000]",
                "000500004996b4384b3c614e497423f04974240047c35000",
                &[1_234_567.0, 12_345_678.0, 999_999.0, 1e6, 1e5],
            ),
            (halfvec, "[1]", "000100003c00", &[1.0]),
            (
                halfvec,
                "[0.099975586,-0,65504,5.9604645e-08,6.097555e-05,1.5,-2]",
                "000700002e6680007bff000103ff3e00c000",
                // The fourth is the least number of 16 bits, the fifth the largest one below the normal ones.
                &[
                    0.099_975_586,
                    -0.0,
                    65504.0,
                    1.0 / 16_777_216.0,
                    1023.0 / 16_777_216.0,
                    1.5,
                    -2.0,
                ],
            ),
            (
                halfvec,
                "[6.097555e-05,0.3330078,2048,10000]",
                "0004000003ff3554680070e2",
                &[1023.0 / 16_777_216.0, 1364.0 / 4096.0, 2048.0, 10_000.0],
            ),
        ] {
            let sent = bytes(sent);
            assert_eq!(
                numbers(text.as_bytes(), vector_from_text),
                Ok(bits(expected)),
                "{text}"
            );
            assert_eq!(numbers(&sent, parse), Ok(bits(expected)), "{text}");
            assert_eq!(string(&sent, write), Ok(text.into()), "{text}");
        }
    }

    #[test]
    fn every_half_is_widened_exactly() {
        for half in 0..=u16::MAX {
            let wide = f64::from(f32_from_half(half));
            let (exponent, fraction) = (i32::from(half >> 10 & 0x1f), f64::from(half & 0x3ff));
            let size = match exponent {
                0 => fraction / 1024.0 * 2_f64.powi(-14),
                31 if half & 0x3ff != 0 => {
                    assert!(wide.is_nan());
                    continue;
                }
                31 => f64::INFINITY,
                _ => (1.0 + fraction / 1024.0) * 2_f64.powi(exponent - 15),
            };
            let signed = if half & 0x8000 == 0 { size } else { -size };
            assert_eq!(wide.to_bits(), signed.to_bits(), "{half:04x}");
        }
    }

    #[test]
    fn wrong_vectors_are_refused() {
        for wrong in [
            "",
            "[]",
            "[",
            "]",
            "1,2",
            "[1,2",
            "1,2]",
            "[1,,2]",
            "[,]",
            "[1, 2]",
            "[1,2]x",
            "[NaN]",
            "[Infinity]",
            "[-Infinity]",
            "[1e99]",
            "{1,2}",
            "[+1]",
            "[[1]]",
        ] {
            assert!(
                numbers(wrong.as_bytes(), vector_from_text).is_err(),
                "{wrong}"
            );
        }
        for (wrong, parse, write) in [
            // Cut; longer; no dimensions; something where the zero belongs; NaN; infinity; a half for a real.
            (
                "000200003f80000040",
                vector_from_binary as Parse,
                vector_text_from_binary as Write,
            ),
            (
                "000100003f8000004020",
                vector_from_binary,
                vector_text_from_binary,
            ),
            ("00000000", vector_from_binary, vector_text_from_binary),
            (
                "000100013f800000",
                vector_from_binary,
                vector_text_from_binary,
            ),
            (
                "000100007fc00000",
                vector_from_binary,
                vector_text_from_binary,
            ),
            (
                "00010000ff800000",
                vector_from_binary,
                vector_text_from_binary,
            ),
            ("000100003c00", vector_from_binary, vector_text_from_binary),
            (
                "000100003f800000",
                halfvec_from_binary,
                halfvec_text_from_binary,
            ),
            (
                "000100007c00",
                halfvec_from_binary,
                halfvec_text_from_binary,
            ),
            (
                "000100007e00",
                halfvec_from_binary,
                halfvec_text_from_binary,
            ),
            ("000100003c", halfvec_from_binary, halfvec_text_from_binary),
            (
                "ffff00003c00",
                halfvec_from_binary,
                halfvec_text_from_binary,
            ),
        ] {
            assert!(numbers(&bytes(wrong), parse).is_err(), "{wrong}");
            assert!(string(&bytes(wrong), write).is_err(), "{wrong}");
        }
    }

    type Sparse = (i32, Vec<i32>, Vec<u32>);

    fn sparse(
        cell: &[u8],
        parse: impl Fn(&[u8], &mut Vec<i32>, &mut Vec<f32>) -> Result<i32, CellError>,
    ) -> Result<Sparse, CellError> {
        let (mut indices, mut numbers) = (vec![7], vec![1.0]);
        parse(cell, &mut indices, &mut numbers)
            .map(|dimensions| (dimensions, indices, bits(&numbers)))
    }

    // Each as pgvector 0.8.5 of PostgreSQL 16.14 writes and sends it.
    #[test]
    fn sparse_vectors_are_as_the_server_writes_and_sends_them() {
        for (text, sent, indices, numbers) in [
            (
                "{1:1.5,3:-2}/5",
                "00000005000000020000000000000000000000023fc00000c0000000",
                &[0, 2][..],
                &[1.5, -2.0][..],
            ),
            ("{}/5", "000000050000000000000000", &[], &[]),
            (
                "{2:0.1,5:1e+20}/5",
                "00000005000000020000000000000001000000043dcccccd60ad78ec",
                &[1, 4],
                &[0.1, 1e20],
            ),
            (
                "{1000000000:1}/1000000000",
                "3b9aca0000000001000000003b9ac9ff3f800000",
                &[999_999_999],
                &[1.0],
            ),
        ] {
            let sent = bytes(sent);
            let dimensions = if indices == [999_999_999] {
                1_000_000_000
            } else {
                5
            };
            let expected = Ok((dimensions, indices.to_vec(), bits(numbers)));
            assert_eq!(
                sparse(text.as_bytes(), sparsevec_from_text),
                expected,
                "{text}"
            );
            assert_eq!(sparse(&sent, sparsevec_from_binary), expected, "{text}");
            assert_eq!(
                string(&sent, sparsevec_text_from_binary),
                Ok(text.into()),
                "{text}"
            );
        }
    }

    #[test]
    fn wrong_sparse_vectors_are_refused() {
        for wrong in [
            "",
            "{}",
            "{}/",
            "{}/0",
            "{}/-1",
            "{1:1}",
            "{1:1}/x",
            "{1:1/5",
            "1:1}/5",
            "{1}/5",
            "{1:}/5",
            "{:1}/5",
            "{0:1}/5",
            "{-1:1}/5",
            "{6:1}/5",
            "{2:1,1:1}/5",
            "{1:1,1:1}/5",
            "{1:1,}/5",
            "{1:NaN}/5",
            "{1:1, 2:1}/5",
            "{1:1}/5 ",
            "{-2147483648:1}/5",
            "{2147483648:1}/5",
            "[1:1]/5",
        ] {
            assert!(
                sparse(wrong.as_bytes(), sparsevec_from_text).is_err(),
                "{wrong}"
            );
        }
        let whole = bytes("00000005000000020000000000000000000000023fc00000c0000000");
        for end in 0..whole.len() {
            assert!(
                sparse(&whole[..end], sparsevec_from_binary).is_err(),
                "{end}"
            );
        }
        for wrong in [
            "00000005000000020000000000000000000000023fc00000c000000000",
            "00000005000000010000000100000000 3f800000",
            "0000000500000001000000000000000500000000",
            "00000005000000010000000 0ffffffff3f800000",
            "0000000500000002000000000000000200000000 3fc00000c0000000",
            "0000000500000001000000000000000 07fc00000",
            "000000000000000000000000",
            "ffffffff0000000000000000",
            "000000057fffffff00000000",
            "00000005ffffffff00000000",
        ] {
            let wrong = bytes(&wrong.replace(' ', ""));
            assert!(sparse(&wrong, sparsevec_from_binary).is_err(), "{wrong:x?}");
            assert!(
                string(&wrong, sparsevec_text_from_binary).is_err(),
                "{wrong:x?}"
            );
        }
    }

    fn wkb(cell: &[u8]) -> Result<(Option<u32>, Vec<u8>), CellError> {
        let mut out = b"before".to_vec();
        match wkb_from_binary(cell, &mut out) {
            Ok(srid) => {
                let mut again = Vec::new();
                let mut text = Vec::new();
                geometry_text_from_binary(cell, &mut text);
                assert!(!text.iter().any(u8::is_ascii_lowercase));
                assert_eq!(wkb_from_text(&text, &mut Vec::new(), &mut again), Ok(srid));
                assert_eq!(out.strip_prefix(b"before"), Some(again.as_slice()));
                Ok((srid, again))
            }
            Err(error) => {
                assert_eq!(out, b"before");
                Err(error)
            }
        }
    }

    // The second as ST_AsBinary of PostGIS gives it, but for the TIN, by hand; the first with the flags of ST_AsEWKB.
    #[test]
    fn extended_wkb_becomes_iso_wkb() {
        for (extended, iso) in [
            // POINT(0 0), both byte orders
            (
                "010100000000000000000000000000000000000000",
                "010100000000000000000000000000000000000000",
            ),
            (
                "000000000100000000000000000000000000000000",
                "000000000100000000000000000000000000000000",
            ),
            // POINT EMPTY
            (
                "0101000000000000000000f87f000000000000f87f",
                "0101000000000000000000f87f000000000000f87f",
            ),
            // POINT Z (1 2 3), both byte orders; POINT M (1 2 3); POINT ZM (1 2 3 4)
            (
                "0101000080000000000000f03f00000000000000400000000000000840",
                "01e9030000000000000000f03f00000000000000400000000000000840",
            ),
            (
                "00800000013ff000000000000040000000000000004008000000000000",
                "00000003e93ff000000000000040000000000000004008000000000000",
            ),
            (
                "0101000040000000000000f03f00000000000000400000000000000840",
                "01d1070000000000000000f03f00000000000000400000000000000840",
            ),
            (
                "01010000c0000000000000f03f000000000000004000000000000008400000000000001040",
                "01b90b0000000000000000f03f000000000000004000000000000008400000000000001040",
            ),
            // LINESTRING ZM EMPTY
            ("01020000c000000000", "01ba0b000000000000"),
            // LINESTRING(0 0, 1 1)
            (
                "01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f",
                "01020000000200000000000000000000000000000000000000000000000000f03f000000000000f03f",
            ),
            // POLYGON((0 0,1 0,1 1,0 1,0 0)); POLYGON M EMPTY
            (
                "0103000000010000000500000000000000000000000000000000000000000000000000f03f0000000000000000\
                 000000000000f03f000000000000f03f0000000000000000000000000000f03f00000000000000000000000000000000",
                "0103000000010000000500000000000000000000000000000000000000000000000000f03f0000000000000000\
                 000000000000f03f000000000000f03f0000000000000000000000000000f03f00000000000000000000000000000000",
            ),
            ("010300004000000000", "01d307000000000000"),
            // MULTIPOINT Z ((0 0 0), (2 0 1)), both byte orders
            (
                "01040000800200000001010000800000000000000000000000000000000000000000000000000\
                 101000080000000000000004000000000000000000000 00000000f03f",
                "01ec0300000200000001e90300000000000000000000000000000000000000000000000000000\
                 1e9030000000000000000004000000000000000000000 00000000f03f",
            ),
            (
                "00800000040000000200800000010000000000000000000000000000000000000000000000000080000001\
                 400000000000000000000000000000003ff0000000000000",
                "00000003ec0000000200000003e900000000000000000000000000000000000000000000000000000003e9\
                 400000000000000000000000000000003ff0000000000000",
            ),
            // MULTIPOLYGON ZM EMPTY
            ("01060000c000000000", "01be0b000000000000"),
            // COMPOUNDCURVE M (CIRCULARSTRING M (0 0 1,1 1 1,2 0 1),LINESTRING M (2 0 0,4 1 1))
            (
                "0109000040020000000108000040 03000000 00000000000000000000000000000000000000000000f03f\
                 000000000000f03f000000000000f03f000000000000f03f00000000000000400000000000000000000000000000f03f\
                 0102000040 02000000 000000000000004000000000000000000000000000000000\
                 0000000000001040000000000000f03f000000000000f03f",
                "01d9070000020000000 1d8070000 03000000 00000000000000000000000000000000000000000000f03f\
                 000000000000f03f000000000000f03f000000000000f03f00000000000000400000000000000000000000000000f03f\
                 01d2070000 02000000 000000000000004000000000000000000000000000000000\
                 0000000000001040000000000000f03f000000000000f03f",
            ),
            // CURVEPOLYGON Z, MULTICURVE, MULTISURFACE M, POLYHEDRALSURFACE Z, TIN ZM and TRIANGLE M, all EMPTY
            ("010a00008000000000", "01f203000000000000"),
            ("010b00000000000000", "010b00000000000000"),
            ("010c00004000000000", "01dc07000000000000"),
            ("010f00008000000000", "01f703000000000000"),
            ("01100000c000000000", "01c80b000000000000"),
            ("011100004000000000", "01e107000000000000"),
            // TIN(((0 0,0 0,0 0,0 0))): a triangle has one ring
            (
                &format!(
                    "0110000000010000000111000000 01000000 04000000 {}",
                    "00".repeat(64)
                ),
                &format!(
                    "0110000000010000000111000000 01000000 04000000 {}",
                    "00".repeat(64)
                ),
            ),
            // GEOMETRYCOLLECTION M (POINT M EMPTY,GEOMETRYCOLLECTION M (POINT M (0 0 0)))
            (
                "010700004002000000 0101000040000000000000f87f000000000000f87f000000000000f87f\
                 010700004001000000 0101000040000000000000000000000000000000000000000000000000",
                "01d707000002000000 01d1070000000000000000f87f000000000000f87f000000000000f87f\
                 01d707000001000000 01d1070000000000000000000000000000000000000000000000000000",
            ),
        ] {
            let hex = |text: &str| bytes(&text.replace([' ', '\n'], ""));
            assert_eq!(wkb(&hex(extended)), Ok((None, hex(iso))), "{extended}");
        }
    }

    #[test]
    fn srid_is_taken_out() {
        // SRID=4326;POINT(1 2), both byte orders
        for (extended, iso) in [
            (
                "0101000020E6100000000000000000F03F0000000000000040",
                "0101000000000000000000F03F0000000000000040",
            ),
            (
                "0020000001000010E63FF00000000000004000000000000000",
                "00000000013FF00000000000004000000000000000",
            ),
        ] {
            assert_eq!(wkb(&bytes(extended)), Ok((Some(4326), bytes(iso))));
        }
        // SRID=4326;POINT Z EMPTY
        let empty = "000000000000F87F".repeat(3);
        assert_eq!(
            wkb(&bytes(&format!("01010000A0E6100000{empty}"))),
            Ok((Some(4326), bytes(&format!("01E9030000{empty}"))))
        );
        // SRID=4326;MULTIPOINT(0 0): the point within has none.
        let zeros = "00".repeat(16);
        assert_eq!(
            wkb(&bytes(&format!(
                "0104000020E6100000010000000101000000{zeros}"
            ))),
            Ok((
                Some(4326),
                bytes(&format!("0104000000010000000101000000{zeros}"))
            ))
        );
    }

    #[test]
    fn wrong_geometries_are_refused() {
        let zeros = "00".repeat(16);
        let whole = bytes(&format!("0104000020E6100000010000000101000000{zeros}"));
        assert!(wkb(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(wkb(&whole[..end]).is_err(), "{end}");
        }
        assert!(wkb(&[&whole[..], &[0]].concat()).is_err());
        for wrong in [
            // A byte order of 2; types 0, 13, 14, 18 and the ISO number 1001.
            format!("0201000000{zeros}"),
            format!("0100000000{zeros}"),
            "010d00000000000000".into(),
            "010e00000000000000".into(),
            "011200000000000000".into(),
            format!("01e9030000{zeros}0000000000000000"),
            // More points, rings, points of a ring, geometries than bytes.
            "0102000000ffffffff".into(),
            "0103000000ffffffff".into(),
            "010300000001000000ffffffff".into(),
            "0107000000ffffffff".into(),
            "01070000000100000001020000".into(),
            // A line among points, a flat point in a collection with Z, an SRID within.
            "010400000001000000010200000000000000".into(),
            format!("0107000080010000000101000000{zeros}"),
            format!("0107000000010000000101000020E6100000{zeros}"),
        ] {
            assert!(wkb(&bytes(&wrong)).is_err(), "{wrong}");
        }
        for wrong in ["", "0", "xx", "01010000000", "\\x0101"] {
            let mut out = Vec::new();
            assert!(wkb_from_text(wrong.as_bytes(), &mut Vec::new(), &mut out).is_err());
            assert!(out.is_empty());
        }
    }

    #[test]
    fn depth_has_an_end() {
        let nested = |depth: usize| {
            let mut cell = bytes("010700000001000000").repeat(depth);
            cell.extend(bytes("010700000000000000"));
            cell
        };
        assert!(wkb(&nested(199)).is_ok());
        assert!(wkb(&nested(200)).is_err());
        assert!(wkb(&nested(100_000)).is_err());
    }

    #[test]
    fn typmod_names_the_coordinate_system() {
        // geometry(PointZ, 4326)
        assert_eq!(
            GeometryTypmod::new(1_107_462),
            Some(GeometryTypmod {
                srid: 4326,
                kind: POINT,
                has_z: true,
                has_m: false
            })
        );
        assert_eq!(
            GeometryTypmod::new(999_999 << 8 | 17 << 2 | 1),
            Some(GeometryTypmod {
                srid: 999_999,
                kind: TRIANGLE,
                has_z: false,
                has_m: true
            })
        );
        assert_eq!(GeometryTypmod::new(-1), None);
    }

    // Each as cube 1.5 of PostgreSQL 18.4 writes and sends it.
    #[test]
    fn cubes_are_as_the_server_writes_them() {
        for (text, sent) in [
            ("(1)", "800000013ff0000000000000"),
            (
                "(1, 2, 3)",
                "800000033ff000000000000040000000000000004008000000000000",
            ),
            (
                "(1, 2),(3, 4)",
                "000000023ff0000000000000400000000000000040080000000000004010000000000000",
            ),
            ("(1, 2)", "800000023ff00000000000004000000000000000"),
            ("()", "80000000"),
            (
                "(NaN, 1e+20),(-Infinity, Infinity)",
                "000000027ff80000000000004415af1d78b58c40fff00000000000007ff0000000000000",
            ),
            (
                "(1, 2),(0, 3)",
                "000000023ff0000000000000400000000000000000000000000000004008000000000000",
            ),
            ("(NaN),(NaN)", "000000017ff80000000000007ff8000000000000"),
            ("(-0)", "800000018000000000000000"),
        ] {
            assert_eq!(string(&bytes(sent), cube_text_from_binary), Ok(text.into()));
        }
        for wrong in [
            "",
            "800000",
            "80000001",
            "800000013ff00000000000",
            "800000013ff000000000000000",
            "800000013ff00000000000003ff0000000000000",
            "000000013ff0000000000000",
            "ffffffff3ff0000000000000",
            "7fffffff3ff0000000000000",
        ] {
            assert!(
                string(&bytes(wrong), cube_text_from_binary).is_err(),
                "{wrong}"
            );
        }
    }

    /// Coordinates of any geometry, and the ISO form of the same.
    #[derive(Clone, Debug)]
    enum Geometry {
        Points(u32, Vec<Vec<[u64; 4]>>),
        Nested(u32, Vec<Self>),
    }

    impl Geometry {
        fn write(&self, little: bool, dimensions: u32, srid: Option<u32>, iso: bool) -> Vec<u8> {
            let word = |word: u32| {
                if little {
                    word.to_le_bytes()
                } else {
                    word.to_be_bytes()
                }
            };
            let (Self::Points(kind, _) | Self::Nested(kind, _)) = self;
            let (z, m) = (dimensions & 2 != 0, dimensions & 1 != 0);
            let mut cell = vec![u8::from(little)];
            let srid = srid.filter(|_| !iso);
            cell.extend(word(if iso {
                kind + 1000 * u32::from(z) + 2000 * u32::from(m)
            } else {
                kind | u32::from(z) << 31 | u32::from(m) << 30 | u32::from(srid.is_some()) << 29
            }));
            cell.extend(srid.into_iter().flat_map(word));
            let width = 2 + usize::from(z) + usize::from(m);
            match self {
                Self::Points(kind, rings) => {
                    if *kind == POLYGON {
                        cell.extend(word(u32::try_from(rings.len()).unwrap()));
                    }
                    for ring in rings {
                        if *kind != POINT {
                            cell.extend(word(u32::try_from(ring.len()).unwrap()));
                        }
                        for number in ring.iter().flat_map(|point| &point[..width]) {
                            cell.extend_from_slice(&number.to_ne_bytes());
                        }
                    }
                }
                Self::Nested(_, geometries) => {
                    cell.extend(word(u32::try_from(geometries.len()).unwrap()));
                    for geometry in geometries {
                        cell.extend(geometry.write(little, dimensions, None, iso));
                    }
                }
            }
            cell
        }
    }

    fn geometry() -> impl Strategy<Value = Geometry> {
        let ring = || proptest::collection::vec(any::<[u64; 4]>(), 0..4);
        let simple = prop_oneof![
            any::<[u64; 4]>().prop_map(|point| Geometry::Points(POINT, vec![vec![point]])),
            ring().prop_map(|ring| Geometry::Points(LINESTRING, vec![ring])),
            ring().prop_map(|ring| Geometry::Points(CIRCULARSTRING, vec![ring])),
            proptest::collection::vec(ring(), 0..3)
                .prop_map(|rings| Geometry::Points(POLYGON, rings)),
        ];
        simple.prop_recursive(3, 12, 3, |inner| {
            (
                prop::sample::select(vec![
                    GEOMETRYCOLLECTION,
                    COMPOUNDCURVE,
                    10,
                    11,
                    MULTISURFACE,
                ]),
                proptest::collection::vec(inner, 0..3),
            )
                .prop_map(|(kind, geometries)| Geometry::Nested(kind, geometries))
        })
    }

    fn hstore_part() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..6),
            "[a,=>\"\\\\ NUL]{0,8}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_hstore(
            pairs in proptest::collection::vec((hstore_part(), proptest::option::of(hstore_part())), 0..5),
        ) {
            let sent = hstore_sent(&pairs);
            prop_assert_eq!(hstore_binary(&sent), Ok(pairs.clone()));
            prop_assert_eq!(hstore_text(&hstore_rendered(&sent).unwrap()), Ok(pairs));
        }

        #[test]
        fn both_forms_give_the_same_vector(
            reals in proptest::collection::vec(any::<u32>(), 1..6),
            halves in proptest::collection::vec(any::<u16>(), 1..6),
            step in 1..1000_i32,
        ) {
            let reals: Vec<u32> =
                reals.into_iter().filter(|bits| f32::from_bits(*bits).is_finite()).chain([0]).collect();
            let words: Vec<u8> = reals.iter().flat_map(|bits| bits.to_be_bytes()).collect();
            let count = u8::try_from(reals.len()).unwrap();
            let sent = [&[0, count, 0, 0], &words[..]].concat();
            prop_assert_eq!(&numbers(&sent, vector_from_binary), &Ok(reals.clone()));
            let written = string(&sent, vector_text_from_binary).unwrap();
            prop_assert_eq!(&numbers(written.as_bytes(), vector_from_text), &Ok(reals.clone()));

            let indices: Vec<i32> = (0..i32::from(count)).map(|place| place * step).collect();
            let dimensions = i32::from(count) * step;
            let mut sent = dimensions.to_be_bytes().to_vec();
            sent.extend_from_slice(&[0, 0, 0, count, 0, 0, 0, 0]);
            sent.extend(indices.iter().flat_map(|index| index.to_be_bytes()));
            sent.extend_from_slice(&words);
            let expected = Ok((dimensions, indices, reals));
            prop_assert_eq!(&sparse(&sent, sparsevec_from_binary), &expected);
            let written = string(&sent, sparsevec_text_from_binary).unwrap();
            prop_assert_eq!(&sparse(written.as_bytes(), sparsevec_from_text), &expected);

            let halves: Vec<u16> =
                halves.into_iter().filter(|half| half & 0x7c00 != 0x7c00).chain([0]).collect();
            let words: Vec<u8> = halves.iter().flat_map(|half| half.to_be_bytes()).collect();
            let sent = [&[0, u8::try_from(halves.len()).unwrap(), 0, 0], &words[..]].concat();
            let expected = numbers(&sent, halfvec_from_binary);
            prop_assert!(expected.is_ok());
            let written = string(&sent, halfvec_text_from_binary).unwrap();
            prop_assert_eq!(numbers(written.as_bytes(), vector_from_text), expected);
        }

        #[test]
        fn any_geometry_becomes_iso_wkb(
            geometry in geometry(),
            little: bool,
            dimensions in 0..4_u32,
            srid in proptest::option::of(1..999_999_u32),
        ) {
            let extended = geometry.write(little, dimensions, srid, false);
            let iso = geometry.write(little, dimensions, srid, true);
            prop_assert_eq!(wkb(&extended), Ok((srid, iso)));
            for end in 0..extended.len() {
                prop_assert!(wkb(&extended[..end]).is_err());
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[\\[{\"]?[a1,:.e=>\"\\\\ NUL]{0,20}[\\]}\"]?(/[0-9])?",
            head in proptest::collection::vec(0..4_u8, 0..12),
            kind in 0..20_u8,
            flags in 0..8_u8,
            counts in proptest::collection::vec(prop_oneof![0..3_u8, Just(0xff)], 0..60),
        ) {
            let headed = [&head[..], &cell[..]].concat();
            let geometry = [&[1, kind, 0, 0, flags << 5], &counts[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed, &geometry] {
                let _ = (hstore_binary(cell), hstore_rendered(cell));
                if let Ok(pairs) = hstore_text(cell) {
                    // Whatever is taken is one of the ways to write it.
                    prop_assert_eq!(hstore_text(&hstore_rendered(&hstore_sent(&pairs)).unwrap()), Ok(pairs));
                }
                let _ = (numbers(cell, vector_from_text), numbers(cell, vector_from_binary));
                let _ = (numbers(cell, halfvec_from_binary), string(cell, vector_text_from_binary));
                let _ = string(cell, halfvec_text_from_binary);
                let _ = (sparse(cell, sparsevec_from_text), sparse(cell, sparsevec_from_binary));
                let _ = string(cell, sparsevec_text_from_binary);
                let _ = (wkb(cell), string(cell, cube_text_from_binary));
                let _ = wkb_from_text(cell, &mut Vec::new(), &mut Vec::new());
            }
        }
    }
}
