//! `numeric` of 39 to 76 digits: “Numeric Types”. Not the default, since most readers of Arrow stop at 38 digits.

use crate::error::{CellError, Unrepresentable};
use crate::numeric::numeric_text_from_binary;
use crate::pg_type::Scalar;
use std::fmt;

impl Scalar for Decimal256 {
    type Value = WideDecimal;

    fn text(&self, cell: &[u8]) -> Result<WideDecimal, CellError> {
        decimal256_from_text(cell, *self)
    }

    fn binary(&self, cell: &[u8]) -> Result<WideDecimal, CellError> {
        decimal256_from_binary(cell, *self, &mut Vec::new())
    }
}

/// The precision and scale of a 256-bit decimal: `scale <= precision <= 76`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal256 {
    precision: u8,
    scale: u8,
}

impl Decimal256 {
    /// Checks a precision and a scale.
    pub const fn new(precision: u8, scale: u8) -> Option<Self> {
        if precision == 0 || precision > MAX_PRECISION || scale > precision {
            return None;
        }
        Some(Self { precision, scale })
    }

    /// The number of digits, 1 to 76.
    pub const fn precision(self) -> u8 {
        self.precision
    }

    /// The number of digits after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }
}

/// An integer of up to 76 digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WideDecimal {
    /// Whether it is less than zero.
    pub negative: bool,
    /// All digits but the last 38.
    pub high: u128,
    /// The last 38 digits.
    pub low: u128,
}

impl fmt::Display for WideDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.negative { "-" } else { "" };
        match self.high {
            0 => write!(f, "{sign}{}", self.low),
            high => write!(f, "{sign}{high}{:038}", self.low),
        }
    }
}

/// The most digits of a 256-bit decimal.
const MAX_PRECISION: u8 = 76;
/// The number of digits in each half of a [`WideDecimal`].
const HALF: usize = 38;

/// Parses the text of a `numeric` into units of the last digit after the point.
pub(crate) fn decimal256_from_text(
    cell: &[u8],
    target: Decimal256,
) -> Result<WideDecimal, CellError> {
    let (negative, number) = match cell {
        b"NaN" => return Err(Unrepresentable::NotANumber.into()),
        b"Infinity" => return Err(Unrepresentable::PositiveInfinity.into()),
        b"-Infinity" => return Err(Unrepresentable::NegativeInfinity.into()),
        [b'-', number @ ..] => (true, number),
        number => (false, number),
    };
    let mut parts = number.splitn(2, |byte| *byte == b'.');
    let (integer, fraction) = (parts.next().unwrap_or_default(), parts.next());
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let zeros = |part: &[u8]| part.iter().all(|digit| *digit == b'0');
    let is_zero = zeros(integer) && fraction.is_none_or(zeros);
    let leads_with_zero = matches!(integer, [b'0', _, ..]);
    if !digits(integer) || !fraction.is_none_or(digits) || leads_with_zero || (negative && is_zero)
    {
        return Err(CellError::Malformed(
            "decimal digits, NaN, Infinity or -Infinity",
        ));
    }
    let (fraction, scale) = (fraction.unwrap_or_default(), usize::from(target.scale));
    let (kept, surplus) = fraction.split_at_checked(scale).unwrap_or((fraction, &[]));
    if !zeros(surplus) {
        return Err(Unrepresentable::Scale.into());
    }
    let integer = if zeros(integer) { &[] } else { integer };
    if integer.len() > usize::from(target.precision).saturating_sub(scale) {
        return Err(Unrepresentable::Precision.into());
    }
    let missing = std::iter::repeat_n(&b'0', scale.saturating_sub(kept.len()));
    let digits = integer.iter().chain(kept).chain(missing);
    let low = usize::from(target.scale)
        .saturating_add(integer.len())
        .saturating_sub(HALF);
    let (mut value, mut high) = (0_u128, 0_u128);
    for (place, digit) in digits.enumerate() {
        if place == low {
            (high, value) = (value, 0);
        }
        // Each half has at most 38 digits, so it is less than 2^127.
        let digit = u128::from(digit.wrapping_sub(b'0'));
        value = value.wrapping_mul(10).wrapping_add(digit);
    }
    Ok(WideDecimal {
        negative,
        high,
        low: value,
    })
}

/// Parses the binary form of a `numeric`. `scratch` holds its text.
pub(crate) fn decimal256_from_binary(
    cell: &[u8],
    target: Decimal256,
    scratch: &mut Vec<u8>,
) -> Result<WideDecimal, CellError> {
    scratch.clear();
    numeric_text_from_binary(cell, scratch)?;
    decimal256_from_text(scratch, target)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(precision: u8, scale: u8) -> Decimal256 {
        Decimal256::new(precision, scale).expect("a precision and a scale")
    }

    #[test]
    fn all_digits_are_kept() {
        let nines = "9".repeat(76);
        let value = decimal256_from_text(nines.as_bytes(), target(76, 0));
        assert_eq!(value.map(|value| value.to_string()), Ok(nines.clone()));
        let least = format!("-{}.{}", "9".repeat(36), "9".repeat(40));
        let value = decimal256_from_text(least.as_bytes(), target(76, 40));
        assert_eq!(
            value.map(|value| value.to_string()),
            Ok(format!("-{nines}"))
        );
        let value = decimal256_from_text(b"-0.5", target(40, 3)).map(|it| it.to_string());
        assert_eq!(value, Ok("-500".to_owned()));
        assert_eq!(
            decimal256_from_text(b"0.00", target(2, 2)).map(|it| it.to_string()),
            Ok("0".to_owned())
        );
        assert_eq!(
            decimal256_from_text(b"7.500", target(2, 1)).map(|it| it.to_string()),
            Ok("75".to_owned())
        );
    }

    #[test]
    fn values_that_do_not_fit_are_never_rounded() {
        let of = |text: &str| decimal256_from_text(text.as_bytes(), target(40, 2));
        assert_eq!(of("1.001"), Err(Unrepresentable::Scale.into()));
        let long = "1".repeat(39);
        assert_eq!(of(&long), Err(Unrepresentable::Precision.into()));
        assert_eq!(of("NaN"), Err(Unrepresentable::NotANumber.into()));
        assert_eq!(
            of("Infinity"),
            Err(Unrepresentable::PositiveInfinity.into())
        );
        assert_eq!(
            of("-Infinity"),
            Err(Unrepresentable::NegativeInfinity.into())
        );
    }

    #[test]
    fn text_that_the_server_never_writes_is_malformed() {
        for text in [
            "", "-", "-0", "-0.00", "01", ".5", "5.", "1e5", "1.2.3", "+1", " 1", "-NaN",
        ] {
            let result = decimal256_from_text(text.as_bytes(), target(40, 2));
            assert!(matches!(result, Err(CellError::Malformed(_))), "{text}");
        }
    }

    #[test]
    fn binary_is_its_text() {
        // 1 * 10000 + 5000 / 10000, three digits shown.
        let cell = [0, 3, 0, 1, 0x40, 0, 0, 3, 0, 1, 0, 0, 0x13, 0x88];
        let value =
            decimal256_from_binary(&cell, target(50, 3), &mut Vec::new()).map(|it| it.to_string());
        assert_eq!(value, Ok("-10000500".to_owned()));
    }
}
