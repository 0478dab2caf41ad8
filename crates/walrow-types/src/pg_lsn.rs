//! `pg_lsn`: “`pg_lsn` Type”.
//!
//! ```text
//! text    16/B374D848
//! binary  u64
//! ```

use std::io::Write as _;

use crate::digits::decimal_digits;
use crate::error::CellError;
use crate::int::u64_from_binary;
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `pg_lsn`.
#[derive(Clone, Copy, Debug)]
pub struct PgLsn;

known!(PgLsn: PG_LSN;);
scalar!(PgLsn => u64: lsn_from_text, u64_from_binary);

impl PgType for PgLsn {
    text_from_binary!(|cell, out| {
        lsn_to_text(u64_from_binary(cell)?, out);
        Ok(())
    });
}

/// Parses a `pg_lsn`.
fn lsn_from_text(cell: &[u8]) -> Result<u64, CellError> {
    let parse = || {
        let slash = cell.iter().position(|byte| *byte == b'/')?;
        let (high, low) = cell.split_at_checked(slash)?;
        Some(hex(high)? << 32 | hex(low.strip_prefix(b"/")?)?)
    };
    parse().ok_or(CellError::Malformed("two hexadecimal numbers and a slash"))
}

/// Appends a `pg_lsn` as the server writes it.
fn lsn_to_text(lsn: u64, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = write!(out, "{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff);
}

/// One to eight hexadecimal digits in upper case, without leading zeros.
fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 8 || matches!(digits, [b'0', _, ..]) {
        return None;
    }
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
            lsn_to_text(lsn, &mut out);
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
            "-1/0",
            " 0/0",
        ] {
            assert!(lsn_from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn both_forms_of_an_lsn_agree(lsn: u64, shift in 0..64_u32) {
            let mut out = Vec::new();
            lsn_to_text(lsn >> shift, &mut out);
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
