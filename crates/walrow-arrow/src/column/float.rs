//! `real` and `double precision`.
//!
//! The server writes the shortest decimal that reads back as the same value, so the text of a `real` is read as 32 bits
//! at once: by way of 64 bits it would be rounded twice.

use std::str::FromStr;

use super::numeric::numeric_text_from_binary;
use super::{CellError, Unrepresentable};

/// Parses a `real`.
#[inline]
pub(crate) fn f32_from_text(cell: &[u8]) -> Result<f32, CellError> {
    match finite::<f32>(cell) {
        Some(value) if value.is_finite() && (value != 0.0 || is_zero(cell)) => Ok(value),
        Some(_) => Err(OUT_OF_RANGE),
        None => match cell {
            b"NaN" => Ok(f32::NAN),
            b"Infinity" => Ok(f32::INFINITY),
            b"-Infinity" => Ok(f32::NEG_INFINITY),
            _ => Err(NOT_A_FLOAT),
        },
    }
}

/// Parses a `double precision`.
#[inline]
pub(crate) fn f64_from_text(cell: &[u8]) -> Result<f64, CellError> {
    match finite::<f64>(cell) {
        Some(value) if value.is_finite() && (value != 0.0 || is_zero(cell)) => Ok(value),
        Some(_) => Err(OUT_OF_RANGE),
        None => match cell {
            b"NaN" => Ok(f64::NAN),
            b"Infinity" => Ok(f64::INFINITY),
            b"-Infinity" => Ok(f64::NEG_INFINITY),
            _ => Err(NOT_A_FLOAT),
        },
    }
}

/// Parses a `numeric` into the nearest number, which is why it must be asked for.
pub(crate) fn f64_from_numeric_text(cell: &[u8]) -> Result<f64, CellError> {
    if cell.contains(&b'e') && cell != b"Infinity" {
        return Err(NOT_A_FLOAT);
    }
    f64_from_text(cell).map_err(|error| match error {
        OUT_OF_RANGE => Unrepresentable::FloatRange.into(),
        error => error,
    })
}

/// Parses the binary form of a `numeric` into the nearest number.
pub(crate) fn f64_from_numeric_binary(cell: &[u8]) -> Result<f64, CellError> {
    let mut text = Vec::new();
    numeric_text_from_binary(cell, &mut text)?;
    f64_from_numeric_text(&text)
}

/// Parses the binary form of a `real`.
#[inline]
pub(crate) fn f32_from_binary(cell: &[u8]) -> Result<f32, CellError> {
    Ok(f32::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("4 bytes"))?,
    ))
}

/// Parses the binary form of a `double precision`.
#[inline]
pub(crate) fn f64_from_binary(cell: &[u8]) -> Result<f64, CellError> {
    Ok(f64::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("8 bytes"))?,
    ))
}

/// A decimal as the server writes it: `-?d+(.d+)?(e[+-]dd+)?`, without needless zeros in front.
#[inline]
fn finite<T: FromStr>(cell: &[u8]) -> Option<T> {
    let number = cell.strip_prefix(b"-").unwrap_or(cell);
    if let [b'0', b'0'..=b'9', ..] = number {
        return None;
    }
    let rest = after_digits(number)?;
    let rest = match rest {
        [b'.', fraction @ ..] => after_digits(fraction)?,
        _ => rest,
    };
    match rest {
        [] => {}
        [b'e', b'+' | b'-', exponent @ ..] if (2..=3).contains(&exponent.len()) => {
            if !exponent.iter().all(u8::is_ascii_digit) {
                return None;
            }
        }
        _ => return None,
    }
    std::str::from_utf8(cell).ok()?.parse().ok()
}

#[inline]
fn after_digits(bytes: &[u8]) -> Option<&[u8]> {
    let length = bytes
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    if length == 0 {
        None
    } else {
        bytes.get(length..)
    }
}

/// Whether the text is a zero, not a number too small to tell from one.
fn is_zero(cell: &[u8]) -> bool {
    matches!(cell, b"0" | b"-0")
}

const NOT_A_FLOAT: CellError = CellError::Malformed("a decimal number, NaN, Infinity or -Infinity");
const OUT_OF_RANGE: CellError = CellError::Malformed("a number within the type's range");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn f64_bits(cell: &str) -> Option<u64> {
        f64_from_text(cell.as_bytes()).ok().map(f64::to_bits)
    }

    fn f32_bits(cell: &str) -> Option<u32> {
        f32_from_text(cell.as_bytes()).ok().map(f32::to_bits)
    }

    #[test]
    fn shortest_decimals_give_their_bits() {
        for (cell, bits) in [
            ("0", 0),
            ("-0", 0x8000_0000_0000_0000),
            ("1", 0x3ff0_0000_0000_0000),
            ("0.1", 0x3fb9_9999_9999_999a),
            ("0.30000000000000004", 0x3fd3_3333_3333_3334),
            ("1e-05", 0x3ee4_f8b5_88e3_68f1),
            ("1e+20", 0x4415_af1d_78b5_8c40),
            ("5e-324", 1),
            ("2.2250738585072014e-308", 0x0010_0000_0000_0000),
            ("1.7976931348623157e+308", 0x7fef_ffff_ffff_ffff),
            ("-1.7976931348623157e+308", 0xffef_ffff_ffff_ffff),
            ("Infinity", 0x7ff0_0000_0000_0000),
            ("-Infinity", 0xfff0_0000_0000_0000),
            ("NaN", 0x7ff8_0000_0000_0000),
        ] {
            assert_eq!(f64_bits(cell), Some(bits), "{cell}");
        }
        for (cell, bits) in [
            ("0", 0),
            ("-0", 0x8000_0000),
            ("0.1", 0x3dcc_cccd),
            ("1e-45", 1),
            ("3.4028235e+38", 0x7f7f_ffff),
            ("1.1754944e-38", 0x0080_0000),
            ("16777216", 0x4b80_0000),
            ("Infinity", 0x7f80_0000),
            ("-Infinity", 0xff80_0000),
            ("NaN", 0x7fc0_0000),
        ] {
            assert_eq!(f32_bits(cell), Some(bits), "{cell}");
        }
    }

    #[test]
    fn real_is_rounded_once() {
        // As 64 bits this is exactly between two reals, and would be rounded to the even one.
        assert_eq!(f32_bits("1.00000017881393432617187499"), Some(0x3f80_0001));
        assert_eq!(f32_bits("1.00000017881393432617187501"), Some(0x3f80_0002));
    }

    #[test]
    fn what_postgresql_never_writes_is_refused() {
        for wrong in [
            "",
            "-",
            "+1",
            ".5",
            "5.",
            "-.5",
            "1e5",
            "1e+5",
            "1E+20",
            "1e+",
            "1e+1a",
            "1e+0020",
            "inf",
            "-inf",
            "nan",
            "-NaN",
            "infinity",
            "Inf",
            "INFINITY",
            "+Infinity",
            " 1",
            "1 ",
            "1,5",
            "00",
            "01.5",
            "-00.5",
            "1.2.3",
            "0x1p3",
            "1e+999",
            "-1e+999",
            "1e-999",
            "1_0",
            "1e+20 ",
        ] {
            assert_eq!(f64_bits(wrong), None, "{wrong}");
            assert_eq!(f32_bits(wrong), None, "{wrong}");
        }
        assert_eq!(f32_bits("1e+39"), None);
        assert_eq!(f32_bits("1e-50"), None);
    }

    #[test]
    fn binary_keeps_every_bit() {
        assert_eq!(f64_from_binary(&[0; 8]).map(f64::to_bits), Ok(0));
        for bits in [0x7ff8_0000_0000_0001_u64, 0xfff8_0000_0000_0000, 1, 1 << 63] {
            assert_eq!(
                f64_from_binary(&bits.to_be_bytes()).map(f64::to_bits),
                Ok(bits)
            );
        }
        for bits in [0x7fc0_0001_u32, 0xffc0_0000, 1, 1 << 31] {
            assert_eq!(
                f32_from_binary(&bits.to_be_bytes()).map(f32::to_bits),
                Ok(bits)
            );
        }
        assert!(f64_from_binary(&[0; 4]).is_err());
        assert!(f64_from_binary(&[]).is_err());
        assert!(f32_from_binary(&[0; 8]).is_err());
    }

    /// The server's layout of a shortest decimal: two digits of exponent at least, and always its sign.
    fn server_text(shortest: &str) -> String {
        let (digits, exponent) = shortest.split_once('e').unwrap();
        let exponent: i32 = exponent.parse().unwrap();
        format!("{digits}e{exponent:+03}")
    }

    proptest! {
        #[test]
        fn both_forms_of_a_double_agree(bits: u64) {
            let value = f64::from_bits(bits);
            prop_assert_eq!(f64_from_binary(&bits.to_be_bytes()).unwrap().to_bits(), bits);
            if value.is_finite() && value != 0.0 {
                prop_assert_eq!(f64_bits(&server_text(&format!("{value:e}"))), Some(bits));
                prop_assert_eq!(f64_bits(&value.to_string()), Some(bits));
            }
        }

        #[test]
        fn both_forms_of_a_real_agree(bits: u32) {
            let value = f32::from_bits(bits);
            prop_assert_eq!(f32_from_binary(&bits.to_be_bytes()).unwrap().to_bits(), bits);
            if value.is_finite() && value != 0.0 {
                prop_assert_eq!(f32_bits(&server_text(&format!("{value:e}"))), Some(bits));
                prop_assert_eq!(f32_bits(&value.to_string()), Some(bits));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "[-+0-9.eEnNaAiIfF]{0,24}") {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = (f32_from_text(cell), f64_from_text(cell));
                let _ = (f32_from_binary(cell), f64_from_binary(cell));
            }
        }
    }
}
