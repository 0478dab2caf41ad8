//! `vector`, `halfvec` and `sparsevec` of pgvector.
//!
//! ```text
//! vector      [1,2.5]
//! binary      u16 dimensions | u16 0 | f32 of each; a halfvec has f16
//!
//! sparsevec   {1:1.5,3:-2}/5              indices from 1
//! binary      i32 dimensions | i32 elements | i32 0 | i32 of each index, from 0 | f32 of each element
//! ```

use crate::digits::write_decimal;
use crate::error::CellError;
use crate::float::{f32_from_text, f32_text_from_binary};
use crate::int::i32_from_text;
use crate::lengths::split_count;
use crate::pg_type::{Known, PgType, known, text_from_binary};

/// pgvector's `vector`.
#[derive(Clone, Copy, Debug)]
pub struct NumberVector {
    /// The number of dimensions of each value, if the type modifier gives it.
    pub dimensions: Option<i32>,
}

/// pgvector's `halfvec`.
#[derive(Clone, Copy, Debug)]
pub struct Halfvec;

/// pgvector's `sparsevec`.
#[derive(Clone, Copy, Debug)]
pub struct Sparsevec;

impl NumberVector {
    /// The most dimensions of a column.
    pub const MAX_DIMENSIONS: i32 = 16_000;

    /// A vector of any length.
    pub const ANY: Self = Self { dimensions: None };

    /// Reads a text cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
        vector_from_text(cell, numbers)
    }

    /// Reads a binary cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
        vector_from_binary(cell, numbers)
    }
}

impl Halfvec {
    /// Reads a text cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
        vector_from_text(cell, numbers)
    }

    /// Reads a binary cell, in place of what `numbers` held.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
        halfvec_from_binary(cell, numbers)
    }
}

impl Sparsevec {
    /// Reads a text cell, in place of what `indices`, from 0 on, and `numbers` held. Returns the
    /// number of dimensions.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(
        self,
        cell: &[u8],
        indices: &mut Vec<i32>,
        numbers: &mut Vec<f32>,
    ) -> Result<i32, CellError> {
        sparsevec_from_text(cell, indices, numbers)
    }

    /// As [`Sparsevec::text`], of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(
        self,
        cell: &[u8],
        indices: &mut Vec<i32>,
        numbers: &mut Vec<f32>,
    ) -> Result<i32, CellError> {
        sparsevec_from_binary(cell, indices, numbers)
    }
}

impl Known for NumberVector {
    const EXTENSION_NAMES: &'static [&'static str] = &["vector"];

    fn new(_: &str, type_modifier: i32) -> Self {
        let dimensions = 1..=Self::MAX_DIMENSIONS;
        Self {
            dimensions: Some(type_modifier).filter(|it| dimensions.contains(it)),
        }
    }
}

known!(Halfvec: ; "halfvec");
known!(Sparsevec: ; "sparsevec");

impl PgType for NumberVector {
    text_from_binary!(vector_text_from_binary);
}

impl PgType for Halfvec {
    text_from_binary!(halfvec_text_from_binary);
}

impl PgType for Sparsevec {
    text_from_binary!(sparsevec_text_from_binary);
}

/// Parses the text of a `vector` or a `halfvec`, in place of what `numbers` held. A 16-bit number and the equal 32-bit
/// number have the same text.
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
fn halfvec_from_binary(cell: &[u8], numbers: &mut Vec<f32>) -> Result<(), CellError> {
    numbers.clear();
    for word in vector_words(cell)? {
        numbers.push(finite(f32_from_half(u16::from_be_bytes(*word)))?);
    }
    Ok(())
}

/// Appends the text of a binary `vector`.
fn vector_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_vector(
        vector_words(cell)?
            .iter()
            .map(|word| f32::from_be_bytes(*word)),
        out,
    )
}

/// Appends the text of a binary `halfvec`.
fn halfvec_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
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

/// The numbers of a binary vector, which has at least one.
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

/// The same value as a 32-bit number. These include all 16-bit numbers.
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

/// pgvector accepts neither infinity nor NaN.
fn finite(number: f32) -> Result<f32, CellError> {
    if number.is_finite() {
        Ok(number)
    } else {
        Err(CellError::Malformed("finite numbers"))
    }
}

/// Parses the text of a `sparsevec`, in place of what `indices`, from 0, and `numbers` held. Returns the dimensions.
fn sparsevec_from_text(
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

/// Parses a binary `sparsevec`, in place of what `indices`, from 0, and `numbers` held. Returns the dimensions.
fn sparsevec_from_binary(
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
fn sparsevec_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let words = SparseWords::new(cell)?;
    out.push(b'{');
    for (place, (index, number)) in words.indices.iter().zip(words.numbers).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        // Cannot overflow: an index is below the dimensions.
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

/// Checks that the indices ascend and are below the number of dimensions, which is at least 1.
fn check_indices(dimensions: i32, mut indices: impl Iterator<Item = i32>) -> Result<(), CellError> {
    let ascend = indices.try_fold(-1, |last, index| (index > last).then_some(index));
    match ascend {
        Some(last) if last < dimensions && dimensions > 0 => Ok(()),
        _ => Err(CellError::Malformed(
            "ascending indices within the dimensions",
        )),
    }
}

/// The text before and after the first such byte.
fn split_at_byte(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == wanted)?;
    let (before, rest) = bytes.split_at_checked(place)?;
    Some((before, rest.get(1..)?))
}

const NOT_A_VECTOR: CellError = CellError::Malformed("numbers between brackets");
const NOT_A_SPARSEVEC: CellError =
    CellError::Malformed("elements between braces and the dimensions");

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;
    use walrow_testkit::hex;

    use super::*;

    fn string(
        cell: &[u8],
        write: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
    ) -> Result<String, CellError> {
        let mut out = Vec::new();
        write(cell, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
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
                // The fourth is the smallest 16-bit number, the fifth the largest subnormal one.
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
            let sent = hex(sent);
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
            // Too short; too long; no dimensions; a wrong byte for the zero; NaN; infinity; a half for a real.
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
            assert!(numbers(&hex(wrong), parse).is_err(), "{wrong}");
            assert!(string(&hex(wrong), write).is_err(), "{wrong}");
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
            let sent = hex(sent);
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
        let whole = hex("00000005000000020000000000000000000000023fc00000c0000000");
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
            let wrong = hex(&wrong.replace(' ', ""));
            assert!(sparse(&wrong, sparsevec_from_binary).is_err(), "{wrong:x?}");
            assert!(
                string(&wrong, sparsevec_text_from_binary).is_err(),
                "{wrong:x?}"
            );
        }
    }

    proptest! {
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
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[\\[{]?[a1,:.e]{0,20}[\\]}]?(/[0-9])?",
            head in proptest::collection::vec(0..4_u8, 0..12),
        ) {
            let headed = [&head[..], &cell[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed] {
                let _ = (numbers(cell, vector_from_text), numbers(cell, vector_from_binary));
                let _ = (numbers(cell, halfvec_from_binary), string(cell, vector_text_from_binary));
                let _ = string(cell, halfvec_text_from_binary);
                let _ = (sparse(cell, sparsevec_from_text), sparse(cell, sparsevec_from_binary));
                let _ = string(cell, sparsevec_text_from_binary);
            }
        }
    }
}
