//! `pg_lsn`: “`pg_lsn` Type”.
//!
//! ```text
//! text    16/B374D848    up to version 18, 0/1A
//!                        from version 19 on, 0/0000001A
//! binary  u64
//! ```

use std::io::Write as _;

use crate::built_in::PG_LSN;
use crate::digits::decimal_digits;
use crate::error::CellError;
use crate::int::u64_from_binary;
use crate::pg_type::{Known, PgType, scalar};
use walrow_wire::Oid;

/// `pg_lsn`.
#[derive(Clone, Copy, Debug)]
pub struct PgLsn {
    /// Whether the server writes eight digits after the slash, as from version 19 on.
    pub is_padded: bool,
}

impl Known for PgLsn {
    const OIDS: &'static [Oid] = &[PG_LSN];

    fn new(_: &str, _: i32) -> Self {
        Self { is_padded: false }
    }
}

scalar!(PgLsn => u64: lsn_from_text, u64_from_binary);

impl PgType for PgLsn {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        lsn_to_text(u64_from_binary(cell)?, self.is_padded, out);
        Ok(())
    }
}

/// Parses a `pg_lsn` in either form.
fn lsn_from_text(cell: &[u8]) -> Result<u64, CellError> {
    let parse = || {
        let slash = cell.iter().position(|byte| *byte == b'/')?;
        let (high, low) = cell.split_at_checked(slash)?;
        let low = low.strip_prefix(b"/")?;
        let low = match low.len() {
            8 => digits(low),
            _ => hex(low),
        };
        Some(hex(high)? << 32 | low?)
    };
    parse().ok_or(CellError::Malformed("two hexadecimal numbers and a slash"))
}

/// Appends a `pg_lsn` as the server writes it.
fn lsn_to_text(lsn: u64, is_padded: bool, out: &mut Vec<u8>) {
    let width = if is_padded { 8 } else { 1 };
    // Writing to a vector cannot fail.
    let _ = write!(out, "{:X}/{:0width$X}", lsn >> 32, lsn & 0xffff_ffff);
}

/// One to eight hexadecimal digits in upper case, without leading zeros.
fn hex(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 8 || matches!(text, [b'0', _, ..]) {
        return None;
    }
    digits(text)
}

/// Hexadecimal digits in upper case.
fn digits(digits: &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for digit in digits {
        let digit = match digit {
            b'0'..=b'9' => decimal_digits(&[*digit])?,
            b'A'..=b'F' => u64::from(digit & 0xf).saturating_add(9),
            _ => return None,
        };
        value = value << 4 | digit;
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lsns_are_two_numbers_without_leading_zeros() {
        for (text, lsn) in [
            ("0/0", 0),
            ("0/1", 1),
            ("1/0", 1 << 32),
            ("16/B374D848", 0x16_b374_d848),
            ("FFFFFFFF/A", 0xffff_ffff_0000_000a),
            ("FFFFFFFF/FFFFFFFF", u64::MAX),
        ] {
            assert_eq!(lsn_from_text(text.as_bytes()), Ok(lsn), "{text}");
            let mut out = Vec::new();
            lsn_to_text(lsn, false, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        for (text, lsn) in [
            ("0/00000000", 0),
            ("0/0000001A", 0x1a),
            ("1/00000000", 1 << 32),
            ("16/B374D848", 0x16_b374_d848),
            ("FFFFFFFF/0000000A", 0xffff_ffff_0000_000a),
        ] {
            assert_eq!(lsn_from_text(text.as_bytes()), Ok(lsn), "{text}");
            let mut out = Vec::new();
            lsn_to_text(lsn, true, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        for wrong in [
            "",
            "/",
            "0/",
            "/0",
            "0",
            "00/0",
            "0/00",
            "a/0",
            "G/0",
            "0/0/0",
            "100000000/0",
            "00000000/0",
            "0/0000001a",
            "0/000000001",
            "0/0000001",
            "-1/0",
            " 0/0",
        ] {
            assert!(lsn_from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_of_an_lsn_agree(lsn: u64, shift in 0..64_u32, is_padded: bool) {
            let mut out = Vec::new();
            lsn_to_text(lsn >> shift, is_padded, &mut out);
            prop_assert_eq!(lsn_from_text(&out), Ok(lsn >> shift));
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "[0-9A-F/]{0,20}") {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = lsn_from_text(cell);
            }
        }
    }
}
