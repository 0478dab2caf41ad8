//! `numeric` of 39 to 76 digits, which must be asked for: most readers of Arrow take no more than 38.

use super::numeric::numeric_text_from_binary;
use super::{CellError, Unrepresentable};
use arrow_buffer::i256;
use arrow_schema::{DECIMAL256_MAX_PRECISION, DataType};

/// The precision and scale of a 256-bit decimal: `scale <= precision <= 76`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal256 {
    precision: u8,
    scale: u8,
}

impl Decimal256 {
    /// Checks a precision and a scale.
    pub(crate) const fn new(precision: u8, scale: u8) -> Option<Self> {
        if precision == 0 || precision > DECIMAL256_MAX_PRECISION || scale > precision {
            return None;
        }
        Some(Self { precision, scale })
    }

    pub(crate) const fn data_type(self) -> DataType {
        DataType::Decimal256(self.precision, self.scale.cast_signed())
    }
}

/// Parses the text of a `numeric` into units of the last digit after the point.
pub(crate) fn decimal256_from_text(cell: &[u8], target: Decimal256) -> Result<i256, CellError> {
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
    let mut value = i256::ZERO;
    for digit in integer.iter().chain(kept).chain(missing) {
        // At most 76 digits, which are less than 2^253.
        let digit = i256::from_i128(digit.wrapping_sub(b'0').into());
        value = value.wrapping_mul(i256::from_i128(10)).wrapping_add(digit);
    }
    Ok(if negative {
        value.wrapping_neg()
    } else {
        value
    })
}

/// Parses the binary form of a `numeric`. `scratch` holds its text.
pub(crate) fn decimal256_from_binary(
    cell: &[u8],
    target: Decimal256,
    scratch: &mut Vec<u8>,
) -> Result<i256, CellError> {
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
        let value = decimal256_from_text(b"-0.5", target(40, 3));
        assert_eq!(value, Ok(i256::from_i128(-500)));
        assert_eq!(decimal256_from_text(b"0.00", target(2, 2)), Ok(i256::ZERO));
        assert_eq!(
            decimal256_from_text(b"7.500", target(2, 1)),
            Ok(i256::from_i128(75))
        );
    }

    #[test]
    fn nothing_is_cut_off() {
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
    fn what_the_server_never_writes_is_malformed() {
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
        let value = decimal256_from_binary(&cell, target(50, 3), &mut Vec::new());
        assert_eq!(value, Ok(i256::from_i128(-10_000_500)));
    }
}
