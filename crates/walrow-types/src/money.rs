//! `money`: “Monetary Types”. The text depends on the locale, and the binary form does not contain the scale.
//!
//! ```text
//! text    -$1,234.56, $-1, ($1.00), 1.234,56 €      in the format of the server's lc_monetary
//! binary  i64 of the smallest unit
//! ```

use crate::error::{CellError, Unrepresentable};
use crate::int;
use crate::numeric::Decimal128;
use crate::pg_type::{PgType, Scalar, known};

/// `money`, whose text `lc_monetary` formats.
#[derive(Clone, Copy, Debug)]
pub struct Money;

known!(Money: MONEY;);

impl PgType for Money {
    fn text_from_binary(&self, cell: &[u8], _: &mut Vec<u8>) -> Result<(), CellError> {
        int::i64_from_binary(cell)?;
        Err(Unrepresentable::MoneyScale.into())
    }

    fn lacks_text(&self) -> bool {
        true
    }

    // A value that is not part of another can be read as a decimal instead.
    fn lacks_text_alone(&self) -> bool {
        false
    }
}

/// A `money` as a decimal with the scale of the server's locale.
#[derive(Clone, Copy, Debug)]
pub struct MoneyDecimal(pub Decimal128);

impl Scalar for MoneyDecimal {
    type Value = i128;

    fn text(&self, cell: &[u8]) -> Result<i128, CellError> {
        money_from_text(cell, self.0)
    }

    fn binary(&self, cell: &[u8]) -> Result<i128, CellError> {
        money_from_binary(cell, self.0)
    }

    fn lacks_text(&self) -> bool {
        true
    }
}

/// Parses the text of a `money` whose locale has as many digits after the point as the target's scale.
fn money_from_text(cell: &[u8], target: Decimal128) -> Result<i128, CellError> {
    let first = cell.iter().position(u8::is_ascii_digit).ok_or(NOT_MONEY)?;
    let last = cell.iter().rposition(u8::is_ascii_digit).ok_or(NOT_MONEY)?;
    let (number, after) = cell
        .split_at_checked(last.saturating_add(1))
        .ok_or(NOT_MONEY)?;
    let (before, number) = number.split_at_checked(first).ok_or(NOT_MONEY)?;
    let negative = sign(before, after)?;
    let scale = usize::from(target.scale());
    let fraction = number
        .iter()
        .rev()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    // Without digits after the point, the last separator, if any, separates thousands.
    if scale > 0 && (fraction != scale || fraction == number.len()) {
        return Err(NOT_THE_SCALE);
    }
    if scale == 0 && fraction != number.len() && fraction != 3 {
        return Err(NOT_THE_SCALE);
    }
    check_groups(number, fraction, scale)?;
    let mut units = 0_i128;
    for byte in number {
        match byte {
            b'0'..=b'9' => {
                units = units
                    .checked_mul(10)
                    .and_then(|units| units.checked_add(i128::from(byte & 0xf)))
                    .ok_or(NOT_MONEY)?;
            }
            b',' | b'.' | b' ' | b'\'' | 0x80.. => {}
            _ => return Err(NOT_MONEY),
        }
    }
    let units = if negative {
        units.wrapping_neg()
    } else {
        units
    };
    fitting(i64::try_from(units).map_err(|_| NOT_MONEY)?, target)
}

/// Checks the thousands separators: the same one everywhere, between groups of two or three digits, the last of three.
fn check_groups(number: &[u8], fraction: usize, scale: usize) -> Result<(), CellError> {
    let without = if scale > 0 { fraction } else { 0 };
    let integer = number
        .get(..number.len().saturating_sub(without))
        .unwrap_or_default();
    let end = integer.iter().rposition(u8::is_ascii_digit);
    let integer = end.and_then(|end| integer.get(..=end)).unwrap_or_default();
    let groups = integer
        .chunk_by(|one, other| one.is_ascii_digit() == other.is_ascii_digit())
        .rev();
    let (mut separator, mut place) = (None, 0_usize);
    for group in groups {
        let is_separator = !group.first().is_some_and(u8::is_ascii_digit);
        if is_separator {
            if separator.replace(group).is_some_and(|other| other != group) {
                return Err(NOT_MONEY);
            }
            continue;
        }
        let is_first = group.as_ptr() == integer.as_ptr();
        let fits = match (is_first, place) {
            (true, _) => true,
            (false, 0) => group.len() == 3,
            (false, _) => matches!(group.len(), 2 | 3),
        };
        if !fits {
            return Err(NOT_MONEY);
        }
        place = place.saturating_add(1);
    }
    Ok(())
}

/// Parses the binary form of a `money` whose smallest unit is the target's.
fn money_from_binary(cell: &[u8], target: Decimal128) -> Result<i128, CellError> {
    fitting(int::i64_from_binary(cell)?, target)
}

fn fitting(units: i64, target: Decimal128) -> Result<i128, CellError> {
    let units = i128::from(units);
    if target.holds(units) {
        Ok(units)
    } else {
        Err(Unrepresentable::Precision.into())
    }
}

/// Whether an amount with these texts before and after its digits is negative: one minus, or parentheses around it.
fn sign(before: &[u8], after: &[u8]) -> Result<bool, CellError> {
    let count =
        |part: &[u8], sign: &[u8]| part.windows(sign.len()).filter(|it| *it == sign).count();
    // Some locales use U+2212 as the minus.
    let minuses = |part: &[u8]| count(part, b"-").saturating_add(count(part, "−".as_bytes()));
    let (opened, closed) = (count(before, b"("), count(after, b")"));
    match (
        minuses(before).saturating_add(minuses(after)),
        opened,
        closed,
    ) {
        (0, 0, 0) => Ok(false),
        (1, 0, 0) | (0, 1, 1) => Ok(true),
        _ => Err(NOT_MONEY),
    }
}

const NOT_MONEY: CellError = CellError::Malformed("an amount of money");
const NOT_THE_SCALE: CellError =
    CellError::Malformed("money with as many digits after its point as the scale of its decimals");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decimal(scale: u8) -> Decimal128 {
        Decimal128::new(19, scale).unwrap()
    }

    #[test]
    fn amounts_of_all_locales_are_read() {
        for (text, scale, units) in [
            ("$0.00", 2, 0),
            ("$1,234.56", 2, 123_456),
            ("-$1,234.56", 2, -123_456),
            ("$-1.00", 2, -100),
            ("$1.00-", 2, -100),
            ("($1.00)", 2, -100),
            ("-$0.01", 2, -1),
            ("1.234,56 €", 2, 123_456),
            ("-1.234,56 €", 2, -123_456),
            ("1\u{202f}234,56 €", 2, 123_456),
            ("−1 234,56 kr", 2, -123_456),
            ("Rs. 12,34,567.89", 2, 123_456_789),
            ("CHF-1'234.50", 2, -123_450),
            ("￥1,234", 0, 1_234),
            ("-￥1,234,567", 0, -1_234_567),
            ("KWD 1,234.567", 3, 1_234_567),
            ("$92,233,720,368,547,758.07", 2, i128::from(i64::MAX)),
            ("-$92,233,720,368,547,758.08", 2, i128::from(i64::MIN)),
        ] {
            let read = money_from_text(text.as_bytes(), decimal(scale));
            assert_eq!(read, Ok(units), "{text}");
        }
        assert_eq!(
            money_from_binary(&(-1_i64).to_be_bytes(), decimal(2)),
            Ok(-1)
        );
        assert!(money_from_binary(&[0; 4], decimal(2)).is_err());
    }

    #[test]
    fn another_scale_is_refused() {
        for (text, scale) in [
            ("$1,234.56", 3),
            ("$1,234", 2),
            ("$1234", 2),
            ("$12", 2),
            ("￥1,234", 1),
        ] {
            assert_eq!(
                money_from_text(text.as_bytes(), decimal(scale)),
                Err(NOT_THE_SCALE),
                "{text}"
            );
        }
        let narrow = Decimal128::new(4, 2).unwrap();
        let precision = Err(Unrepresentable::Precision.into());
        assert_eq!(money_from_text(b"$123.45", narrow), precision);
        assert_eq!(
            money_from_binary(&12_345_i64.to_be_bytes(), narrow),
            precision
        );
    }

    #[test]
    fn other_text_is_refused() {
        for wrong in [
            "",
            "$",
            "--$1.00",
            "-$1.00-",
            "($1.00",
            "$1.00)",
            "(-$1.00)",
            "$1x0.00",
            "$92,233,720,368,547,758.08",
        ] {
            assert_eq!(
                money_from_text(wrong.as_bytes(), decimal(2)),
                Err(NOT_MONEY),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "[-($€]{0,2}[0-9,. ]{0,50}[-)€]{0,2}", scale in 0..=19_u8) {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = (money_from_text(cell, decimal(scale)), money_from_binary(cell, decimal(scale)));
            }
        }
    }
}
