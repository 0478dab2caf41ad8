//! `real` and `double precision`: “Numeric Types”.
//!
//! ```text
//! text    1.5, -1e-07, NaN, Infinity, -Infinity     the shortest decimal that reads back as the same value
//! binary  f32 or f64
//! ```
//!
//! The text of a `real` is read as 32 bits directly: by way of 64 bits it would be rounded twice.

use std::fmt::LowerExp;
use std::io::Write as _;
use std::str::FromStr;

use crate::digits::decimal_digits;
use crate::error::{CellError, Unrepresentable};
use crate::numeric::numeric_text_from_binary;
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `real`.
#[derive(Clone, Copy, Debug)]
pub struct Float4;

/// `double precision`.
#[derive(Clone, Copy, Debug)]
pub struct Float8;

/// A `numeric`, rounded to the nearest 64-bit float.
#[derive(Clone, Copy, Debug)]
pub struct NumericFloat;

known!(Float4: FLOAT4;);
known!(Float8: FLOAT8;);
scalar!(Float4 => f32: f32_from_text, f32_from_binary);
scalar!(Float8 => f64: f64_from_text, f64_from_binary);
scalar!(NumericFloat => f64: f64_from_numeric_text, f64_from_numeric_binary);

impl PgType for Float4 {
    text_from_binary!(f32_text_from_binary);
}

impl PgType for Float8 {
    text_from_binary!(f64_text_from_binary);
}

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

/// Parses a `numeric` into the nearest number; not the default, since it rounds. Numbers beyond the range of floats, such
/// as 1e-400, are not representable; a zero may have any number of digits after its point.
pub(crate) fn f64_from_numeric_text(cell: &[u8]) -> Result<f64, CellError> {
    let negative = cell.starts_with(b"-");
    if cell.contains(&b'e') {
        return Err(NOT_A_FLOAT);
    }
    match finite::<f64>(cell) {
        Some(0.0) if cell.iter().any(|byte| matches!(byte, b'1'..=b'9')) => {
            Err(Unrepresentable::FloatRange.into())
        }
        // A numeric has no negative zero.
        Some(0.0) if negative => Err(NOT_A_FLOAT),
        Some(value) if value.is_finite() => Ok(value),
        Some(_) => Err(Unrepresentable::FloatRange.into()),
        None => f64_from_text(cell),
    }
}

/// Parses the binary form of a `numeric` into the nearest number.
pub(crate) fn f64_from_numeric_binary(cell: &[u8]) -> Result<f64, CellError> {
    let mut text = Vec::new();
    numeric_text_from_binary(cell, &mut text)?;
    f64_from_numeric_text(&text)
}

/// Parses the binary form of a `real`. As in text, there is one NaN: it has no sign.
#[inline]
fn f32_from_binary(cell: &[u8]) -> Result<f32, CellError> {
    let bytes = cell.try_into();
    let value = f32::from_be_bytes(bytes.map_err(|_| CellError::Malformed("4 bytes"))?);
    Ok(if value.is_nan() { f32::NAN } else { value })
}

/// Parses the binary form of a `double precision`. As in text, there is one NaN: it has no sign.
#[inline]
fn f64_from_binary(cell: &[u8]) -> Result<f64, CellError> {
    let bytes = cell.try_into();
    let value = f64::from_be_bytes(bytes.map_err(|_| CellError::Malformed("8 bytes"))?);
    Ok(if value.is_nan() { f64::NAN } else { value })
}

/// Appends the text of a binary `real`.
pub(crate) fn f32_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let value = f32_from_binary(cell)?;
    let bits = value.to_bits();
    let (exponent, fraction) = (bits >> 23 & 0xff, bits & ((1 << 23) - 1));
    let binary = Binary {
        mantissa: u64::from(fraction | u32::from(exponent > 0) << 23),
        exponent: i32::try_from(exponent.max(1)).map_or(0, |exponent| exponent.wrapping_sub(150)),
        is_power: fraction == 0 && exponent > 1,
    };
    if write_special(value.into(), out) {
        write_shortest(value.abs(), binary, 6, out);
    }
    Ok(())
}

/// Appends the text of a binary `double precision`.
pub(crate) fn f64_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let value = f64_from_binary(cell)?;
    let bits = value.to_bits();
    let (exponent, fraction) = (bits >> 52 & 0x7ff, bits & ((1 << 52) - 1));
    let binary = Binary {
        mantissa: fraction | u64::from(exponent > 0) << 52,
        exponent: i32::try_from(exponent.max(1)).map_or(0, |exponent| exponent.wrapping_sub(1075)),
        is_power: fraction == 0 && exponent > 1,
    };
    if write_special(value, out) {
        write_shortest(value.abs(), binary, 15, out);
    }
    Ok(())
}

/// Appends `NaN`, an infinity or a zero completely, or else the sign. Returns whether digits follow.
fn write_special(value: f64, out: &mut Vec<u8>) -> bool {
    if value.is_nan() {
        out.extend_from_slice(b"NaN");
        return false;
    }
    if value.is_sign_negative() {
        out.push(b'-');
    }
    let text: &[u8] = if value.is_infinite() {
        b"Infinity"
    } else if value == 0.0 {
        b"0"
    } else {
        return true;
    };
    out.extend_from_slice(text);
    false
}

/// A number that is the mantissa times two to the power of the exponent.
#[derive(Clone, Copy)]
struct Binary {
    mantissa: u64,
    exponent: i32,
    /// Whether the number below is only half as far away as the one above.
    is_power: bool,
}

impl Binary {
    /// Whether the decimal lies halfway to a neighbour. It reads back as the even one of the two, but the server does
    /// not write it.
    fn is_halfway(self, decimal: Decimal) -> bool {
        let odd = self.mantissa & 1 == 1;
        let above = self.mantissa.wrapping_mul(2).wrapping_add(1);
        let exponent = self.exponent.wrapping_sub(1);
        if !odd && decimal.equals(above, exponent) {
            return true;
        }
        let (below, exponent) = if self.is_power {
            let mantissa = self.mantissa.wrapping_mul(4).wrapping_sub(1);
            (mantissa, exponent.wrapping_sub(1))
        } else {
            (self.mantissa.wrapping_mul(2).wrapping_sub(1), exponent)
        };
        !odd && decimal.equals(below, exponent)
    }

    /// Whether the decimal with a last digit that is one less is as near.
    fn is_half_less_than(self, decimal: Decimal) -> bool {
        let twos = self.mantissa.trailing_zeros();
        let between = Decimal {
            digits: decimal.digits.wrapping_mul(2).wrapping_sub(1),
            exponent: decimal.exponent,
        };
        let exponent = i32::try_from(twos)
            .unwrap_or(0)
            .wrapping_add(self.exponent)
            .wrapping_add(1);
        let odd = self.mantissa.checked_shr(twos).unwrap_or(0);
        between.equals(odd, exponent)
    }
}

/// A number that is the digits times ten to the power of the exponent.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

impl Decimal {
    /// Reads the form `d.ddde-dd`.
    fn of(text: &[u8]) -> Option<Self> {
        let place = text.iter().position(|byte| *byte == b'e')?;
        let (number, exponent) = text.split_at_checked(place)?;
        let exponent = std::str::from_utf8(exponent.get(1..)?).ok()?;
        let (first, fraction) = number.split_first()?;
        let fraction = fraction.strip_prefix(b".").unwrap_or(fraction);
        let mut digits = [0; 20];
        let length = fraction.len().checked_add(1)?;
        *digits.first_mut()? = *first;
        digits.get_mut(1..length)?.copy_from_slice(fraction);
        let exponent: i32 = exponent.parse().ok()?;
        Some(Self {
            digits: decimal_digits(digits.get(..length)?)?,
            exponent: exponent.checked_sub(i32::try_from(fraction.len()).ok()?)?,
        })
    }

    /// Whether it is the same number as an odd one times two to the power of an exponent.
    fn equals(self, odd: u64, exponent: i32) -> bool {
        let fives = 5_u128.checked_pow(self.exponent.unsigned_abs());
        let digits = u128::from(self.digits);
        let (left, right) = if self.exponent < 0 {
            (
                Some(digits),
                fives.and_then(|fives| fives.checked_mul(odd.into())),
            )
        } else {
            (
                fives.and_then(|fives| fives.checked_mul(digits)),
                Some(u128::from(odd)),
            )
        };
        let (Some(left), Some(right)) = (left, right) else {
            return false;
        };
        let twos = left.trailing_zeros();
        left.checked_shr(twos) == Some(right)
            && i32::try_from(twos)
                .ok()
                .and_then(|twos| twos.checked_add(self.exponent))
                == Some(exponent)
    }
}

/// Appends the shortest decimal that is nearer to the number than to any other. Numbers of more than `fixed` digits before
/// the point, or with more than three zeros after it, have an exponent.
fn write_shortest<T>(value: T, binary: Binary, fixed: i32, out: &mut Vec<u8>)
where
    T: LowerExp + FromStr + PartialEq + Copy,
{
    let start = out.len();
    // Writing to a vector cannot fail.
    let _ = write!(out, "{value:e}");
    let decimal = |out: &[u8]| out.get(start..).and_then(Decimal::of);
    if decimal(out).is_some_and(|decimal| binary.is_halfway(decimal)) {
        for places in 0..17 {
            out.truncate(start);
            let _ = write!(out, "{value:.places$e}");
            let halfway = decimal(out).is_some_and(|decimal| binary.is_halfway(decimal));
            if reads_as(out.get(start..), value) && !halfway {
                break;
            }
        }
    }
    let Some(Decimal {
        mut digits,
        exponent,
    }) = decimal(out)
    else {
        return;
    };
    out.truncate(start);
    // If two are equally near, the server takes the even one.
    let even = digits & !1;
    if even != digits && binary.is_half_less_than(Decimal { digits, exponent }) {
        let _ = write!(out, "{even}e{exponent}");
        if reads_as(out.get(start..), value) {
            digits = even;
        }
        out.truncate(start);
    }
    lay_out(digits, exponent, fixed, out);
}

fn reads_as<T: FromStr + PartialEq>(text: Option<&[u8]>, value: T) -> bool {
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    text.and_then(|text| text.parse().ok()) == Some(value)
}

/// Appends digits times a power of ten.
fn lay_out(digits: u64, exponent: i32, fixed: i32, out: &mut Vec<u8>) {
    let mut buffer = [0_u8; 20];
    let mut room = &mut buffer[..];
    // Twenty digits are the most.
    let _ = write!(room, "{digits}");
    let unused = room.len();
    let digits = buffer.get(..buffer.len().saturating_sub(unused));
    let Some((first, others)) = digits.and_then(<[u8]>::split_first) else {
        return;
    };
    let places = i32::try_from(others.len()).unwrap_or(i32::MAX);
    // The exponent of the first digit.
    let scale = exponent.saturating_add(places);
    let zeros = |count: u32, out: &mut Vec<u8>| out.extend((0..count).map(|_| b'0'));
    if (-4..0).contains(&scale) {
        out.extend_from_slice(b"0.");
        zeros(scale.unsigned_abs().saturating_sub(1), out);
        out.push(*first);
        out.extend_from_slice(others);
        return;
    }
    let has_exponent = scale < 0 || scale >= fixed;
    let before = if has_exponent {
        0
    } else {
        scale.unsigned_abs()
    };
    let (integer, fraction) = usize::try_from(before)
        .ok()
        .and_then(|before| others.split_at_checked(before))
        .unwrap_or((others, &[]));
    out.push(*first);
    out.extend_from_slice(integer);
    zeros(before.saturating_sub(places.unsigned_abs()), out);
    if !fraction.is_empty() {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
    if has_exponent {
        let sign = if scale < 0 { '-' } else { '+' };
        let _ = write!(out, "e{sign}{:02}", scale.unsigned_abs());
    }
}

/// A decimal as the server writes it: `-?d+(.d+)?(e[+-]dd+)?`, without leading zeros.
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

/// Whether the text is exactly zero, not a number that is rounded to zero.
fn is_zero(cell: &[u8]) -> bool {
    matches!(cell, b"0" | b"-0")
}

const NOT_A_FLOAT: CellError = CellError::Malformed("a decimal number, NaN, Infinity or -Infinity");
const OUT_OF_RANGE: CellError = CellError::Malformed("a number within the type's range");

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

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
        // Read as 64 bits, this would be exactly between two reals, and be rounded to the even one.
        assert_eq!(f32_bits("1.00000017881393432617187499"), Some(0x3f80_0001));
        assert_eq!(f32_bits("1.00000017881393432617187501"), Some(0x3f80_0002));
    }

    #[test]
    fn text_that_postgresql_never_writes_is_refused() {
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
            // Only a numeric has these texts.
            "0.00",
            "-0.0",
        ] {
            assert_eq!(f64_bits(wrong), None, "{wrong}");
            assert_eq!(f32_bits(wrong), None, "{wrong}");
        }
        assert_eq!(f32_bits("1e+39"), None);
        assert_eq!(f32_bits("1e-50"), None);
    }

    #[test]
    fn binary_keeps_every_bit_but_those_of_nan() {
        assert_eq!(f64_from_binary(&[0; 8]).map(f64::to_bits), Ok(0));
        let nan = 0x7ff8_0000_0000_0000;
        for (bits, read) in [
            (1_u64, 1),
            (1 << 63, 1 << 63),
            (nan, nan),
            (0x7ff8_0000_0000_0001, nan),
            (0xfff8_0000_0000_0000, nan),
            (0x7ff0_0000_0000_0001, nan),
        ] {
            assert_eq!(
                f64_from_binary(&bits.to_be_bytes()).map(f64::to_bits),
                Ok(read)
            );
        }
        let nan = 0x7fc0_0000;
        for (bits, read) in [
            (1_u32, 1),
            (1 << 31, 1 << 31),
            (nan, nan),
            (0x7fc0_0001, nan),
            (0xffc0_0000, nan),
            (0x7f80_0001, nan),
        ] {
            assert_eq!(
                f32_from_binary(&bits.to_be_bytes()).map(f32::to_bits),
                Ok(read)
            );
        }
        assert!(f64_from_binary(&[0; 4]).is_err());
        assert!(f64_from_binary(&[]).is_err());
        assert!(f32_from_binary(&[0; 8]).is_err());
    }

    #[test]
    fn doubles_are_written_as_the_server_writes_them() {
        for (text, bits) in [
            ("0", 0),
            ("-0", 0x8000_0000_0000_0000),
            ("NaN", 0x7ff8_0000_0000_0000),
            ("NaN", 0xfff8_0000_0000_0001),
            ("Infinity", 0x7ff0_0000_0000_0000),
            ("-Infinity", 0xfff0_0000_0000_0000),
            ("1e+15", 0x430c_6bf5_2634_0000),
            ("100000000000000", 0x42d6_bcc4_1e90_0000),
            ("123456789012345", 0x42dc_1221_8377_de40),
            ("0.0001", 0x3f1a_36e2_eb1c_432d),
            ("1e-05", 0x3ee4_f8b5_88e3_68f1),
            ("0.0001234", 0x3f20_2c9d_edbc_309d),
            ("1.2345678901234568e+17", 0x437b_69b4_ba63_0f35),
            ("5e-324", 1),
            ("1.7976931348623157e+308", 0x7fef_ffff_ffff_ffff),
            ("9.5367431640625e-07", 0x3eb0_0000_0000_0000),
            ("100", 0x4059_0000_0000_0000),
            ("9.007199254740992e+15", 0x4340_0000_0000_0000),
            ("1e+22", 0x4480_f0cf_064d_d592),
            // 1e+23 lies halfway to the next number.
            ("9.999999999999999e+22", 0x44b5_2d02_c7e1_4af6),
            ("-4.35", 0xc011_6666_6666_6666),
            // As near to the odd digit after the last one.
            ("2.9802322387695312e-08", 0x3e60_0000_0000_0000),
            ("562949953421312.2", 0x4300_0000_0000_0002),
            ("1.1258999068426242e+15", 0x4310_0000_0000_0001),
        ] {
            let mut out = Vec::new();
            f64_text_from_binary(&u64::to_be_bytes(bits), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert!(f64_text_from_binary(&[0; 4], &mut Vec::new()).is_err());
    }

    #[test]
    fn reals_are_written_as_the_server_writes_them() {
        for (text, bits) in [
            ("0", 0),
            ("-0", 0x8000_0000),
            ("NaN", 0x7fc0_0000),
            ("-Infinity", 0xff80_0000),
            ("100000", 0x47c3_5000),
            ("1e+06", 0x4974_2400),
            ("999999", 0x4974_23f0),
            ("123456.79", 0x47f1_2065),
            ("8.589974e+09", 0x5000_0026),
            ("0.0001", 0x38d1_b717),
            // As near to 0.00024414063.
            ("0.00024414062", 0x3980_0000),
            ("21631.812", 0x46a8_ffa0),
            ("-346688.62", 0xc8a9_4814),
            ("3.0617342e+06", 0x4a3a_df99),
            ("1e-05", 0x3727_c5ac),
            ("1.6777216e+07", 0x4b80_0000),
            ("8.388608e+06", 0x4b00_0000),
            ("3.3554432e+07", 0x4c00_0000),
            ("9.536743e-07", 0x3580_0000),
            ("1e-45", 1),
            ("3.4028235e+38", 0x7f7f_ffff),
            ("1.1754944e-38", 0x0080_0000),
            ("-0.1", 0xbdcc_cccd),
        ] {
            let mut out = Vec::new();
            f32_text_from_binary(&u32::to_be_bytes(bits), &mut out).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        assert!(f32_text_from_binary(&[0; 8], &mut Vec::new()).is_err());
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
            let read = f64_from_binary(&bits.to_be_bytes()).unwrap();
            prop_assert!(read.to_bits() == bits || (value.is_nan() && read.is_nan()));
            if value.is_finite() && value != 0.0 {
                prop_assert_eq!(f64_bits(&server_text(&format!("{value:e}"))), Some(bits));
                prop_assert_eq!(f64_bits(&value.to_string()), Some(bits));
            }
        }

        #[test]
        fn both_forms_of_a_real_agree(bits: u32) {
            let value = f32::from_bits(bits);
            let read = f32_from_binary(&bits.to_be_bytes()).unwrap();
            prop_assert!(read.to_bits() == bits || (value.is_nan() && read.is_nan()));
            if value.is_finite() && value != 0.0 {
                prop_assert_eq!(f32_bits(&server_text(&format!("{value:e}"))), Some(bits));
                prop_assert_eq!(f32_bits(&value.to_string()), Some(bits));
            }
        }

        #[test]
        fn written_text_is_read_as_the_same_bits(bits: u64) {
            let cell = bits.to_be_bytes();
            let (wide, narrow) = (f64::from_bits(bits), f32_from_binary(&cell[..4]).unwrap());
            let mut out = Vec::new();
            f64_text_from_binary(&cell, &mut out).unwrap();
            prop_assert!(wide.is_nan() || f64_from_text(&out).map(f64::to_bits) == Ok(bits));
            out.clear();
            f32_text_from_binary(&cell[..4], &mut out).unwrap();
            prop_assert!(narrow.is_nan() || f32_from_text(&out).map(f32::to_bits) == Ok(narrow.to_bits()));
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
