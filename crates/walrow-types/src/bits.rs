//! `bit(n)` and `varbit`: “Bit String Types”.
//!
//! ```text
//! text    10101
//! binary  i32 bits | bytes, the first bit the highest, zeros after the last
//! ```

use crate::error::CellError;
use crate::pg_type::{AppendBytes, Known, PgType, known, scalar, text_from_binary};

/// `bit(n)`.
#[derive(Clone, Copy, Debug)]
pub struct Bit {
    /// The number of bits, if the type modifier gives it.
    pub length: Option<i32>,
}

/// `bit varying`.
#[derive(Clone, Copy, Debug)]
pub struct Varbit;

impl Known for Bit {
    const OIDS: &'static [u32] = &[crate::built_in::BIT];

    fn new(_: &str, type_modifier: i32) -> Self {
        Self {
            length: Some(type_modifier).filter(|length| *length > 0),
        }
    }
}

known!(Varbit: VARBIT;);

impl PgType for Bit {
    text_from_binary!(bits_text_from_binary);

    fn is_ascii(&self) -> bool {
        true
    }
}

impl PgType for Varbit {
    text_from_binary!(bits_text_from_binary);

    fn is_ascii(&self) -> bool {
        true
    }
}

// Reads a `bit(1)` as a boolean.
scalar!(Bit => bool: bit_from_text, bit_from_binary);

/// The bits of a bit string, eight to a byte, with zeros after the last.
#[derive(Clone, Copy, Debug)]
pub struct Bits;

impl AppendBytes for Bits {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        bits_from_text(cell, out)
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        out.extend_from_slice(bits_from_binary(cell)?);
        Ok(())
    }
}

/// Appends the text of a binary bit string.
fn bits_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (mut left, bytes) = split(cell)?;
    for byte in bytes {
        let shown = left.min(8);
        let digits = [7, 6, 5, 4, 3, 2, 1, 0].map(|place| b'0' | byte >> place & 1);
        out.extend(digits.iter().take(shown));
        left = left.saturating_sub(shown);
    }
    Ok(())
}

/// Appends the bits of a bit string's text, eight to a byte, zeros after the last.
fn bits_from_text(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    for eight in cell.chunks(8) {
        let mut byte = 0;
        for (place, digit) in (0..8_u32).rev().zip(eight) {
            byte |= bit(*digit)? << place;
        }
        out.push(byte);
    }
    Ok(())
}

/// The bits of a binary bit string, eight to a byte, zeros after the last.
fn bits_from_binary(cell: &[u8]) -> Result<&[u8], CellError> {
    split(cell).map(|(_, bytes)| bytes)
}

/// Parses the text of a `bit(1)`.
fn bit_from_text(cell: &[u8]) -> Result<bool, CellError> {
    match cell {
        b"1" => Ok(true),
        b"0" => Ok(false),
        _ => Err(CellError::Malformed("one bit")),
    }
}

/// Parses the binary form of a `bit(1)`.
fn bit_from_binary(cell: &[u8]) -> Result<bool, CellError> {
    match cell {
        [0, 0, 0, 1, 0x80] => Ok(true),
        [0, 0, 0, 1, 0] => Ok(false),
        _ => Err(CellError::Malformed("one bit")),
    }
}

/// The number of bits, and their bytes.
fn split(cell: &[u8]) -> Result<(usize, &[u8]), CellError> {
    let (count, bytes) = cell.split_first_chunk::<4>().ok_or(NOT_BITS)?;
    let count = i32::from_be_bytes(*count);
    let count = usize::try_from(count).map_err(|_| NOT_BITS)?;
    let surplus = bytes
        .len()
        .checked_mul(8)
        .and_then(|room| room.checked_sub(count))
        .filter(|surplus| *surplus < 8)
        .ok_or(NOT_BITS)?;
    let padding = (1_u32 << surplus).saturating_sub(1);
    match bytes.last() {
        Some(last) if u32::from(*last) & padding != 0 => Err(NOT_BITS),
        _ => Ok((count, bytes)),
    }
}

fn bit(digit: u8) -> Result<u8, CellError> {
    match digit {
        b'0' | b'1' => Ok(digit & 1),
        _ => Err(CellError::Malformed("zeros and ones")),
    }
}

const NOT_BITS: CellError =
    CellError::Malformed("a count of bits and as many, zeros after the last");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        bits_text_from_binary(cell, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn bits_are_written_from_the_highest() {
        for (expected, cell) in [
            ("", &[0, 0, 0, 0][..]),
            ("1", &[0, 0, 0, 1, 0x80]),
            ("101", &[0, 0, 0, 3, 0xa0]),
            ("10101", &[0, 0, 0, 5, 0xa8]),
            ("101010101", &[0, 0, 0, 9, 0xaa, 0x80]),
            ("00000000", &[0, 0, 0, 8, 0]),
        ] {
            assert_eq!(text(cell).as_deref(), Ok(expected));
            let mut packed = Vec::new();
            bits_from_text(expected.as_bytes(), &mut packed).unwrap();
            assert_eq!(bits_from_binary(cell), Ok(&*packed));
        }
    }

    #[test]
    fn the_count_and_the_zeros_after_the_last_bit_are_checked() {
        for wrong in [
            &[][..],
            &[0, 0, 0],
            &[0, 0, 0, 1],
            &[0, 0, 0, 0, 0],
            &[0, 0, 0, 1, 0xc0],
            &[0, 0, 0, 7, 1],
            &[0, 0, 0, 8, 0, 0],
            &[0, 0, 0, 9, 0],
            &[0xff, 0xff, 0xff, 0xff],
            &[0x7f, 0xff, 0xff, 0xff, 0],
        ] {
            assert_eq!(text(wrong), Err(NOT_BITS), "{wrong:?}");
        }
        assert!(bits_from_text(b"012", &mut Vec::new()).is_err());
    }

    #[test]
    fn one_bit_is_a_boolean() {
        assert_eq!(bit_from_text(b"1"), Ok(true));
        assert_eq!(bit_from_text(b"0"), Ok(false));
        assert_eq!(bit_from_binary(&[0, 0, 0, 1, 0x80]), Ok(true));
        assert_eq!(bit_from_binary(&[0, 0, 0, 1, 0]), Ok(false));
        for wrong in [&b""[..], b"t", b"10", &[0, 0, 0, 2, 0x80], &[0, 0, 0, 1, 1]] {
            assert!(bit_from_text(wrong).is_err());
            assert!(bit_from_binary(wrong).is_err());
        }
    }

    proptest! {
        #[test]
        fn both_forms_agree(bits in "[01]{0,80}") {
            let mut cell = i32::try_from(bits.len()).unwrap().to_be_bytes().to_vec();
            let mut packed = Vec::new();
            bits_from_text(bits.as_bytes(), &mut packed).unwrap();
            cell.extend_from_slice(&packed);
            prop_assert_eq!(text(&cell), Ok(bits));
            prop_assert_eq!(bits_from_binary(&cell), Ok(&*packed));
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>) {
            let _ = (text(&cell), bit_from_binary(&cell), bit_from_text(&cell));
            let _ = bits_from_text(&cell, &mut Vec::new());
        }
    }
}
