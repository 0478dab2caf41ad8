//! `numeric`: “Numeric Types”. Read exactly, into 128 bits at the column's scale or into PostgreSQL's own text.
//!
//! ```text
//! text    -12345.60 | NaN | Infinity | -Infinity           never an exponent
//! binary  u16 groups | i16 weight | u16 sign | u16 display scale | groups of four decimal digits
//!         2 1 4000 2  0001 2345 1770 =  -(1 * 10000^1 + 2345 * 10000^0 + 6000 * 10000^-1), two digits shown
//! ```

use crate::digits::{decimal_digits, short_digits};
use crate::error::{CellError, Unrepresentable};
use crate::pg_type::{Known, PgType, Scalar, text_from_binary};

/// `numeric`.
#[derive(Clone, Copy, Debug)]
pub struct Numeric {
    /// Its precision and scale, if the type modifier gives them.
    pub typmod: Option<NumericTypmod>,
}

impl Known for Numeric {
    const OIDS: &'static [u32] = &[crate::built_in::NUMERIC];

    fn new(_: &str, type_modifier: i32) -> Self {
        Self {
            typmod: NumericTypmod::from_typmod(type_modifier),
        }
    }
}

impl PgType for Numeric {
    text_from_binary!(numeric_text_from_binary);
}

impl Scalar for Decimal128 {
    type Value = i128;

    #[inline]
    fn text(&self, cell: &[u8]) -> Result<i128, CellError> {
        decimal128_from_text(cell, *self)
    }

    #[inline]
    fn binary(&self, cell: &[u8]) -> Result<i128, CellError> {
        decimal128_from_binary(cell, *self)
    }
}

/// The type modifier of a `numeric` column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumericTypmod {
    /// The number of digits, 1 to 1000.
    pub precision: u16,
    /// The number of digits after the point, -1000 to 1000; a negative scale means zeros before the point.
    pub scale: i16,
}

impl NumericTypmod {
    /// Reads a type modifier; `None` for an unconstrained column, or for a modifier that PostgreSQL does not make.
    pub fn from_typmod(typmod: i32) -> Option<Self> {
        let bits = u32::try_from(typmod.checked_sub(4)?).ok()?;
        let precision = u16::try_from(bits >> 16).ok()?;
        // Eleven bits with a sign.
        let scale = i16::try_from(bits & 0x7ff).ok()?;
        let scale = (scale ^ 0x400).checked_sub(0x400)?;
        let legal = (1..=1000).contains(&precision) && (-1000..=1000).contains(&scale);
        legal.then_some(Self { precision, scale })
    }

    /// The 128-bit decimal for every finite value of the column, with a scale that is not negative; `None` if 38 digits
    /// are too few.
    pub fn decimal128(self) -> Option<Decimal128> {
        let scale = u16::try_from(self.scale).unwrap_or(0);
        let zeros = self.scale.min(0).unsigned_abs();
        let precision = self.precision.checked_add(zeros)?.max(scale);
        Decimal128::new(u8::try_from(precision).ok()?, u8::try_from(scale).ok()?)
    }
}

/// The precision and scale of a 128-bit decimal: `scale <= precision <= 38`, which readers of Arrow expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal128 {
    precision: u8,
    scale: u8,
}

impl Decimal128 {
    /// Checks a precision and a scale.
    pub const fn new(precision: u8, scale: u8) -> Option<Self> {
        if precision == 0 || precision > 38 || scale > precision {
            return None;
        }
        Some(Self { precision, scale })
    }

    /// The number of digits, 1 to 38.
    pub const fn precision(self) -> u8 {
        self.precision
    }

    /// The number of digits after the point.
    pub const fn scale(self) -> u8 {
        self.scale
    }

    /// Whether a value in units of the last digit fits.
    pub(crate) fn holds(self, value: i128) -> bool {
        power_of_ten(usize::from(self.precision)).is_some_and(|end| value.unsigned_abs() < end)
    }

    /// An integer in units of the last digit.
    pub(crate) fn integer(self, value: i128) -> Result<i128, CellError> {
        power_of_ten(usize::from(self.scale))
            .and_then(|unit| i128::try_from(unit).ok())
            .and_then(|unit| value.checked_mul(unit))
            .filter(|value| self.holds(*value))
            .ok_or(CellError::Unrepresentable(Unrepresentable::Precision))
    }

    /// Gives a magnitude its sign, if its digits fit.
    #[inline]
    fn value(self, negative: bool, magnitude: u128) -> Option<i128> {
        if magnitude >= power_of_ten(usize::from(self.precision))? {
            return None;
        }
        let value = i128::try_from(magnitude).ok()?;
        Some(if negative {
            value.wrapping_neg()
        } else {
            value
        })
    }
}

/// Parses the text of a `numeric` into units of the last digit after the point.
#[inline]
fn decimal128_from_text(cell: &[u8], target: Decimal128) -> Result<i128, CellError> {
    match fixed_decimal(cell, target) {
        Some(value) => Ok(value),
        None => any_decimal(cell, target),
    }
}

/// Parses the binary form of a `numeric` into units of the last digit after the point.
#[inline]
fn decimal128_from_binary(cell: &[u8], target: Decimal128) -> Result<i128, CellError> {
    let number = match Binary::from_binary(cell)? {
        Binary::Finite(number) => number,
        Binary::NaN => return Err(Unrepresentable::NotANumber.into()),
        Binary::PositiveInfinity => return Err(Unrepresentable::PositiveInfinity.into()),
        Binary::NegativeInfinity => return Err(Unrepresentable::NegativeInfinity.into()),
    };
    if number.fraction_digits() > i32::from(target.scale) {
        return Err(Unrepresentable::Scale.into());
    }
    number
        .magnitude(target.scale)
        .and_then(|magnitude| target.value(number.negative, magnitude))
        .ok_or(CellError::Unrepresentable(Unrepresentable::Precision))
}

/// Appends the text that PostgreSQL writes for the binary form of a `numeric`: at most 147,457 bytes, from as few as 8.
/// Appends nothing if the cell is malformed.
pub(crate) fn numeric_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match Binary::from_binary(cell)? {
        Binary::Finite(number) => number.write(out),
        Binary::NaN => out.extend_from_slice(b"NaN"),
        Binary::PositiveInfinity => out.extend_from_slice(b"Infinity"),
        Binary::NegativeInfinity => out.extend_from_slice(b"-Infinity"),
    }
    Ok(())
}

/// The common case: values have the scale of their column, so the place of the point is known. [`any_decimal`] handles
/// all other text, and errors.
#[inline]
fn fixed_decimal(cell: &[u8], target: Decimal128) -> Option<i128> {
    let scale = usize::from(target.scale);
    let (negative, number) = split_sign(cell);
    let (integer, fraction) = if scale == 0 {
        (number, 0)
    } else {
        let (rest, fraction) = number.split_at_checked(number.len().checked_sub(scale)?)?;
        let (point, integer) = rest.split_last()?;
        if *point != b'.' {
            return None;
        }
        (integer, long_digits(fraction)?)
    };
    if matches!(integer, [b'0', _, ..]) {
        return None;
    }
    let integer = long_digits(integer)?.checked_mul(power_of_ten(scale)?)?;
    let magnitude = integer.checked_add(fraction)?;
    if negative && magnitude == 0 {
        return None;
    }
    target.value(negative, magnitude)
}

/// Any number, with more or fewer digits after the point than the target has.
#[cold]
fn any_decimal(cell: &[u8], target: Decimal128) -> Result<i128, CellError> {
    let (negative, number) = split_sign(cell);
    match (negative, number) {
        (false, b"NaN") => return Err(Unrepresentable::NotANumber.into()),
        (false, b"Infinity") => return Err(Unrepresentable::PositiveInfinity.into()),
        (true, b"Infinity") => return Err(Unrepresentable::NegativeInfinity.into()),
        _ => {}
    }
    let mut parts = number.splitn(2, |byte| *byte == b'.');
    let integer = parts.next().unwrap_or_default();
    let fraction = parts.next();
    let digits = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    let zeros = |part: &[u8]| part.iter().all(|digit| *digit == b'0');
    let canonical = digits(integer)
        && fraction.is_none_or(digits)
        && !matches!(integer, [b'0', _, ..])
        && !(negative && zeros(integer) && fraction.is_none_or(zeros));
    if !canonical {
        return Err(CellError::Malformed(
            "decimal digits, NaN, Infinity or -Infinity",
        ));
    }
    let fraction = fraction.unwrap_or_default();
    let scale = usize::from(target.scale);
    let (kept, surplus) = fraction.split_at_checked(scale).unwrap_or((fraction, &[]));
    if !zeros(surplus) {
        return Err(Unrepresentable::Scale.into());
    }
    let fitting = || {
        let integer = long_digits(integer)?.checked_mul(power_of_ten(scale)?)?;
        let missing = power_of_ten(scale.checked_sub(kept.len())?)?;
        let kept = if kept.is_empty() {
            0
        } else {
            long_digits(kept)?
        };
        target.value(negative, integer.checked_add(kept.checked_mul(missing)?)?)
    };
    fitting().ok_or(CellError::Unrepresentable(Unrepresentable::Precision))
}

#[inline]
fn split_sign(cell: &[u8]) -> (bool, &[u8]) {
    match cell {
        [b'-', number @ ..] => (true, number),
        _ => (false, cell),
    }
}

/// The value of 1 to 38 digits.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "38 digits are less than 2^127"
)]
fn long_digits(digits: &[u8]) -> Option<u128> {
    if digits.len() <= 8 {
        return short_digits(digits).map(u128::from);
    }
    if digits.len() <= 19 {
        return decimal_digits(digits).map(u128::from);
    }
    let (high, low) = digits.split_at_checked(digits.len() - 19)?;
    Some(u128::from(decimal_digits(high)?) * NINETEEN_DIGITS + u128::from(decimal_digits(low)?))
}

#[inline]
fn power_of_ten(exponent: usize) -> Option<u128> {
    POWERS_OF_TEN.get(exponent).copied()
}

/// The parts of the binary form, checked.
enum Binary<'a> {
    NaN,
    PositiveInfinity,
    NegativeInfinity,
    Finite(Finite<'a>),
}

/// A finite number: the sum of all groups, each times 10000 to the power of `weight` minus its place.
struct Finite<'a> {
    negative: bool,
    weight: i32,
    /// The number of digits after the point in the text, 0 to 16383; no group goes further.
    display_scale: u16,
    /// Each is less than 10000. The first and the last are not zero.
    groups: &'a [[u8; 2]],
}

impl<'a> Binary<'a> {
    #[inline]
    fn from_binary(cell: &'a [u8]) -> Result<Self, CellError> {
        let Some((&[n0, n1, w0, w1, s0, s1, d0, d1], groups)) = cell.split_first_chunk::<8>()
        else {
            return Err(CellError::Malformed("a header of 8 bytes"));
        };
        let (mut groups, odd) = groups.as_chunks::<2>();
        // The server's own variable is signed, but it could not count the groups of 131,072 digits.
        let count = usize::from(u16::from_be_bytes([n0, n1]));
        if !odd.is_empty() || count != groups.len() {
            return Err(CellError::Malformed(
                "as many groups of digits as the header says",
            ));
        }
        let negative = match u16::from_be_bytes([s0, s1]) {
            0x0000 => false,
            0x4000 => true,
            // The display scale of these is arbitrary.
            special => {
                return match (special, groups) {
                    (0xc000, []) => Ok(Self::NaN),
                    (0xd000, []) => Ok(Self::PositiveInfinity),
                    (0xf000, []) => Ok(Self::NegativeInfinity),
                    _ => Err(CellError::Malformed("the sign of a numeric")),
                };
            }
        };
        let display_scale = u16::from_be_bytes([d0, d1]);
        if display_scale > MAX_DISPLAY_SCALE {
            return Err(CellError::Malformed("a display scale of at most 16383"));
        }
        if groups
            .iter()
            .any(|group| u16::from_be_bytes(*group) > 9_999)
        {
            return Err(CellError::Malformed("groups of four decimal digits"));
        }
        let mut weight = i32::from(i16::from_be_bytes([w0, w1]));
        while let [[0, 0], rest @ ..] = groups {
            groups = rest;
            weight = weight.saturating_sub(1);
        }
        while let [rest @ .., [0, 0]] = groups {
            groups = rest;
        }
        let number = Finite {
            negative: negative && !groups.is_empty(),
            weight,
            display_scale,
            groups,
        };
        if number.fraction_digits() > i32::from(display_scale) {
            return Err(CellError::Malformed("no digit beyond the display scale"));
        }
        Ok(Self::Finite(number))
    }
}

impl Finite<'_> {
    /// The number of digits after the point that are needed; negative if there are zeros before the point.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the weight and the count are 16 bits"
    )]
    fn fraction_digits(&self) -> i32 {
        let Some(last) = self.groups.last() else {
            return 0;
        };
        let group = u16::from_be_bytes(*last);
        let zeros = if group.is_multiple_of(1000) {
            3
        } else if group.is_multiple_of(100) {
            2
        } else {
            i32::from(group.is_multiple_of(10))
        };
        4 * self.places_of_last() - zeros
    }

    /// The number of groups after the point, up to the last one.
    #[inline]
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "the weight and the count are 16 bits"
    )]
    fn places_of_last(&self) -> i32 {
        i32::try_from(self.groups.len()).unwrap_or(i32::MAX) - 1 - self.weight
    }

    /// The number without its sign, in units of the given scale, which is enough for all its digits; `None` beyond 128 bits.
    #[inline]
    fn magnitude(&self, scale: u8) -> Option<u128> {
        let Some((last, groups)) = self.groups.split_last() else {
            return Some(0);
        };
        let last = u16::from_be_bytes(*last);
        let shift = i32::from(scale).checked_sub(self.places_of_last().checked_mul(4)?)?;
        if let Ok(shift) = usize::try_from(shift) {
            let magnitude = join(groups, u64::from(last), 10_000)?;
            return magnitude.checked_mul(power_of_ten(shift)?);
        }
        // The last group ends in zeros beyond the scale: up to three, or the scale would not show all of it.
        let (kept, unit) = match shift {
            -1 => (last / 10, 1000),
            -2 => (last / 100, 100),
            -3 => (last / 1000, 10),
            _ => return None,
        };
        join(groups, u64::from(kept), unit)
    }

    /// The group of 10000 to the power of `exponent`, as four digits.
    fn digits(&self, exponent: i32) -> [u8; 4] {
        let place = self
            .weight
            .checked_sub(exponent)
            .and_then(|place| usize::try_from(place).ok());
        let group = place.and_then(|place| self.groups.get(place));
        let group = group.map_or(0, |group| u16::from_be_bytes(*group));
        [1000, 100, 10, 1].map(|unit| {
            let digit = group.checked_div(unit).unwrap_or_default() % 10;
            b'0' | digit.to_be_bytes()[1]
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        let weight = if self.groups.is_empty() {
            -1
        } else {
            self.weight
        };
        if weight < 0 {
            out.push(b'0');
        } else {
            let first = self.digits(weight);
            let zeros = first.iter().take_while(|digit| **digit == b'0').count();
            out.extend(first.iter().skip(zeros));
            for exponent in (0..weight).rev() {
                out.extend_from_slice(&self.digits(exponent));
            }
        }
        let mut missing = usize::from(self.display_scale);
        if missing > 0 {
            out.push(b'.');
        }
        let mut exponent = -1_i32;
        while missing > 0 {
            let digits = self.digits(exponent);
            let shown = digits.get(..missing).unwrap_or(&digits);
            out.extend_from_slice(shown);
            missing = missing.saturating_sub(shown.len());
            exponent = exponent.saturating_sub(1);
        }
    }
}

/// The value of groups of four digits and a rest that is less than `unit`; `None` beyond 128 bits.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "four groups are less than 2^64"
)]
fn join(groups: &[[u8; 2]], last: u64, unit: u64) -> Option<u128> {
    let sum = |groups: &[[u8; 2]]| {
        let group = |sum, group: &[u8; 2]| sum * 10_000 + u64::from(u16::from_be_bytes(*group));
        groups.iter().fold(0, group)
    };
    // Adds in 64 bits as long as the sum fits.
    let (fours, rest) = groups.as_chunks::<4>();
    let mut high = 0_u128;
    for four in fours {
        high = high
            .checked_mul(10_000_000_000_000_000)?
            .checked_add(u128::from(sum(four)))?;
    }
    let low = sum(rest) * unit + last;
    if high == 0 {
        return Some(u128::from(low));
    }
    let shift = 10_000_u64.pow(u32::try_from(rest.len()).ok()?) * unit;
    high.checked_mul(u128::from(shift))?
        .checked_add(u128::from(low))
}

const MAX_DISPLAY_SCALE: u16 = 16_383;
const NINETEEN_DIGITS: u128 = 10_u128.pow(19);
#[expect(
    clippy::indexing_slicing,
    reason = "the compiler does this, and would say so"
)]
const POWERS_OF_TEN: [u128; 39] = {
    let mut powers = [1; 39];
    let mut exponent = 1;
    while exponent < powers.len() {
        powers[exponent] = powers[exponent - 1] * 10;
        exponent += 1;
    }
    powers
};

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use num_bigint::BigInt;
    use proptest::prelude::*;

    use super::*;
    use crate::decimal256::{Decimal256, decimal256_from_binary, decimal256_from_text};
    use crate::float::{f64_from_numeric_binary, f64_from_numeric_text};

    const SCALE: CellError = CellError::Unrepresentable(Unrepresentable::Scale);
    const PRECISION: CellError = CellError::Unrepresentable(Unrepresentable::Precision);

    fn decimal(precision: u8, scale: u8) -> Decimal128 {
        Decimal128::new(precision, scale).unwrap()
    }

    fn header(count: u16, weight: i16, sign: u16, scale: u16) -> Vec<u8> {
        let mut cell = count.to_be_bytes().to_vec();
        cell.extend_from_slice(&weight.to_be_bytes());
        cell.extend_from_slice(&sign.to_be_bytes());
        cell.extend_from_slice(&scale.to_be_bytes());
        cell
    }

    fn binary(weight: i16, sign: u16, scale: u16, groups: &[u16]) -> Vec<u8> {
        let mut cell = header(u16::try_from(groups.len()).unwrap(), weight, sign, scale);
        for group in groups {
            cell.extend_from_slice(&group.to_be_bytes());
        }
        cell
    }

    /// The binary form that the server sends for this text.
    fn sent(text: &str) -> Vec<u8> {
        let (sign, number) = text
            .strip_prefix('-')
            .map_or((0, text), |number| (0x4000, number));
        let (integer, fraction) = number.split_once('.').unwrap_or((number, ""));
        let scale = u16::try_from(fraction.len()).unwrap();
        let mut digits = "0".repeat((4 - integer.len() % 4) % 4) + integer;
        let mut weight = i16::try_from(digits.len() / 4 - 1).unwrap();
        digits += fraction;
        digits += &"0".repeat((4 - digits.len() % 4) % 4);
        let mut groups: Vec<u16> = digits
            .as_bytes()
            .chunks(4)
            .map(|four| std::str::from_utf8(four).unwrap().parse().unwrap())
            .collect();
        while groups.last() == Some(&0) {
            groups.pop();
        }
        while groups.first() == Some(&0) {
            groups.remove(0);
            weight -= 1;
        }
        if groups.is_empty() {
            weight = 0;
        }
        binary(weight, sign, scale, &groups)
    }

    fn shown(cell: &[u8]) -> Result<String, CellError> {
        let mut out = b"before".to_vec();
        let result = numeric_text_from_binary(cell, &mut out);
        let text = String::from_utf8(out)
            .unwrap()
            .strip_prefix("before")
            .unwrap()
            .to_owned();
        if result.is_err() {
            assert_eq!(text, "");
        }
        result.map(|()| text)
    }

    #[track_caller]
    fn both(text: &str, target: Decimal128, expected: Result<i128, CellError>) {
        assert_eq!(
            decimal128_from_text(text.as_bytes(), target),
            expected,
            "{text} as text"
        );
        let cell = sent(text);
        assert_eq!(
            decimal128_from_binary(&cell, target),
            expected,
            "{text} as binary"
        );
        assert_eq!(shown(&cell).as_deref(), Ok(text));
    }

    #[test]
    fn typmod_gives_precision_and_signed_scale() {
        let typmod = |precision, scale| Some(NumericTypmod { precision, scale });
        for (bits, expected) in [
            (-1, None),
            (0, None),
            (3, None),
            (4, None),
            (i32::MIN, None),
            (i32::MAX, None),
            (655_366, typmod(10, 2)),
            (198_658, typmod(3, -2)),
            (196_617, typmod(3, 5)),
            (327_685, typmod(5, 1)),
            ((1000 << 16) + 1000 + 4, typmod(1000, 1000)),
            ((1001 << 16) + 4, None),
            ((10 << 16) + 1001 + 4, None),
            ((1 << 16) + (0x800 - 1000) + 4, typmod(1, -1000)),
        ] {
            assert_eq!(NumericTypmod::from_typmod(bits), expected, "{bits}");
        }
    }

    #[test]
    fn decimal_holds_the_column_or_there_is_none() {
        for (precision, scale, expected) in [
            (10, 2, Some((10, 2))),
            (38, 38, Some((38, 38))),
            (38, 0, Some((38, 0))),
            (39, 0, None),
            (39, 2, None),
            (3, -2, Some((5, 0))),
            (36, -2, Some((38, 0))),
            (36, -3, None),
            (3, 5, Some((5, 5))),
            (1, 38, Some((38, 38))),
            (1, 39, None),
            (1, 300, None),
            (1000, -1000, None),
        ] {
            let shape = NumericTypmod { precision, scale }.decimal128();
            let shape = shape.map(|shape| (shape.precision(), shape.scale()));
            assert_eq!(shape, expected, "numeric({precision},{scale})");
        }
        assert_eq!(Decimal128::new(0, 0), None);
        assert_eq!(Decimal128::new(5, 6), None);
        assert_eq!(Decimal128::new(39, 0), None);
    }

    #[test]
    fn values_are_exact_in_both_forms() {
        const NINES: i128 = 99_999_999_999_999_999_999_999_999_999_999_999_999;
        both("0", decimal(1, 0), Ok(0));
        both("0.00", decimal(10, 2), Ok(0));
        both("-12345.60", decimal(12, 2), Ok(-1_234_560));
        both("10000", decimal(10, 0), Ok(10_000));
        both("0.0001", decimal(10, 4), Ok(1));
        both("0.00001", decimal(10, 5), Ok(1));
        both("-0.05", decimal(2, 2), Ok(-5));
        both("12300", decimal(5, 0), Ok(12_300));
        both("0.00012", decimal(5, 5), Ok(12));
        both(
            "1234567890123456789.0123456789",
            decimal(38, 10),
            Ok(12_345_678_901_234_567_890_123_456_789),
        );
        both(
            "99999999999999999999999999999999999999",
            decimal(38, 0),
            Ok(NINES),
        );
        both(
            "-99999999999999999999999999999999999999",
            decimal(38, 0),
            Ok(-NINES),
        );
        both(
            "0.99999999999999999999999999999999999999",
            decimal(38, 38),
            Ok(NINES),
        );
        both(
            "9999999999999999999999999999.9999999999",
            decimal(38, 10),
            Ok(NINES),
        );
        both(
            "9.9999999999999999999999999999999999999",
            decimal(38, 37),
            Ok(NINES),
        );
        both(
            "1000000000000000000000000000000000000.0",
            decimal(38, 1),
            Ok(10_i128.pow(37)),
        );
    }

    #[test]
    fn a_scale_other_than_the_values_own_is_exact_or_refused() {
        both("1.500", decimal(5, 2), Ok(150));
        both("1.5", decimal(5, 2), Ok(150));
        both("1", decimal(5, 2), Ok(100));
        both("1.000", decimal(5, 0), Ok(1));
        both(
            "0.0000000000000000000000000000000000000000000",
            decimal(1, 1),
            Ok(0),
        );
        both("0.5", decimal(38, 38), Ok(5 * 10_i128.pow(37)));
        both("1.501", decimal(5, 2), Err(SCALE));
        both(
            "0.00000000000000000000000000000000000000001",
            decimal(38, 2),
            Err(SCALE),
        );
        both("1000000000000.001", decimal(5, 2), Err(SCALE));
        both("1000", decimal(5, 2), Err(PRECISION));
        both("-1000.000", decimal(5, 2), Err(PRECISION));
        both("999.99", decimal(5, 2), Ok(99_999));
        both("10", decimal(1, 0), Err(PRECISION));
        both("1", decimal(38, 38), Err(PRECISION));
        both(
            "100000000000000000000000000000000000000",
            decimal(38, 0),
            Err(PRECISION),
        );
        both(
            "340282366920938463463374607431768211456",
            decimal(38, 0),
            Err(PRECISION),
        );
        both(
            "340282366920938463463374607431768211457",
            decimal(38, 0),
            Err(PRECISION),
        );
        both(
            "680564733841876926926749214863536422912.00",
            decimal(38, 1),
            Err(PRECISION),
        );
        both(&"9".repeat(131_072), decimal(38, 10), Err(PRECISION));
        both(
            &format!("1.{}", "0".repeat(16_383)),
            decimal(38, 10),
            Ok(10_i128.pow(10)),
        );
    }

    #[test]
    fn nan_and_infinities_have_text_but_no_decimal() {
        let target = decimal(10, 2);
        for (text, sign, reason) in [
            ("NaN", 0xc000, Unrepresentable::NotANumber),
            ("Infinity", 0xd000, Unrepresentable::PositiveInfinity),
            ("-Infinity", 0xf000, Unrepresentable::NegativeInfinity),
        ] {
            let expected = Err(CellError::Unrepresentable(reason));
            assert_eq!(decimal128_from_text(text.as_bytes(), target), expected);
            for scale in [0, 0x20, u16::MAX] {
                let cell = binary(0, sign, scale, &[]);
                assert_eq!(decimal128_from_binary(&cell, target), expected);
                assert_eq!(shown(&cell).as_deref(), Ok(text));
            }
            assert!(shown(&binary(0, sign, 0, &[1])).is_err());
        }
    }

    #[test]
    fn text_that_postgresql_never_writes_is_refused() {
        for wrong in [
            "",
            "-",
            ".",
            "+1",
            ".5",
            "5.",
            "-.5",
            "1e5",
            "1.5e+3",
            "-NaN",
            "nan",
            "inf",
            "infinity",
            "+Infinity",
            "00",
            "01",
            "-01.00",
            "00.50",
            "-0",
            "-0.00",
            " 1",
            "1 ",
            "1.2.3",
            "1,5",
            "1.-5",
            "--1",
            "0x1",
            "1_0",
            "12.3a",
            "1a.34",
            "NaN ",
        ] {
            for target in [
                decimal(10, 2),
                decimal(10, 0),
                decimal(38, 38),
                decimal(1, 1),
            ] {
                let result = decimal128_from_text(wrong.as_bytes(), target);
                assert!(
                    matches!(result, Err(CellError::Malformed(_))),
                    "{wrong}: {result:?}"
                );
            }
        }
        let long = format!("{}x", "9".repeat(50));
        assert!(matches!(
            decimal128_from_text(long.as_bytes(), decimal(5, 2)),
            Err(CellError::Malformed(_))
        ));
    }

    #[test]
    fn binary_that_postgresql_never_sends_is_refused() {
        let mut short = sent("12345.6");
        short.pop();
        let mut odd = sent("12345.6");
        odd.push(0);
        for wrong in [
            Vec::new(),
            vec![0; 7],
            header(1, 0, 0, 0),
            header(u16::MAX, 0, 0, 0),
            header(0x8000, 0, 0, 0),
            header(0x7fff, i16::MAX, 0, 0),
            binary(0, 0, 0, &[10_000]),
            binary(0, 0, 0, &[1, u16::MAX]),
            binary(0, 0x8000, 0, &[1]),
            binary(0, 0x0001, 0, &[1]),
            binary(0, 0xe000, 0, &[]),
            binary(0, 0, 16_384, &[1]),
            binary(-1, 0, 3, &[1]),
            binary(0, 0, 0, &[1, 5000]),
            binary(i16::MIN, 0, 16_383, &[1]),
            short,
            odd,
        ] {
            assert!(
                matches!(shown(&wrong), Err(CellError::Malformed(_))),
                "{wrong:?}"
            );
            let result = decimal128_from_binary(&wrong, decimal(10, 2));
            assert!(matches!(result, Err(CellError::Malformed(_))), "{wrong:?}");
        }
    }

    #[test]
    fn groups_of_zeros_at_the_ends_change_nothing() {
        let padded = binary(2, 0x4000, 2, &[0, 1, 2345, 6000, 0]);
        assert_eq!(
            decimal128_from_binary(&padded, decimal(12, 2)),
            Ok(-1_234_560)
        );
        assert_eq!(shown(&padded).as_deref(), Ok("-12345.60"));
        let zero = binary(7, 0x4000, 1, &[0, 0]);
        assert_eq!(decimal128_from_binary(&zero, decimal(12, 2)), Ok(0));
        assert_eq!(shown(&zero).as_deref(), Ok("0.0"));
        assert_eq!(shown(&binary(i16::MIN, 0, 0, &[0])).as_deref(), Ok("0"));
    }

    #[test]
    fn the_longest_numbers_are_shown_whole() {
        let whole = shown(&binary(i16::MAX, 0x4000, 16_383, &[9999])).unwrap();
        assert_eq!(whole.len(), 1 + 131_072 + 1 + 16_383);
        assert!(whole.starts_with("-99990000"));
        let (integer, fraction) = whole.split_once('.').unwrap();
        assert!(
            integer
                .strip_prefix("-9999")
                .unwrap()
                .bytes()
                .all(|byte| byte == b'0')
        );
        assert!(fraction.bytes().all(|byte| byte == b'0'));
        let least = shown(&binary(-4096, 0, 16_383, &[10])).unwrap();
        assert_eq!(least, format!("0.{}1", "0".repeat(16_382)));
    }

    #[test]
    fn every_numeric_4_2_agrees_in_both_forms() {
        for unscaled in -9_999_i32..=9_999 {
            let sign = if unscaled < 0 { "-" } else { "" };
            let magnitude = unscaled.abs();
            let text = format!("{sign}{}.{:02}", magnitude / 100, magnitude % 100);
            both(&text, decimal(4, 2), Ok(i128::from(unscaled)));
        }
    }

    fn numbers() -> impl Strategy<Value = String> {
        (
            "(0|[1-9][0-9]{0,45})",
            "(\\.[0-9]{0,20}[0-9]0{0,20})?",
            any::<bool>(),
        )
            .prop_map(|(integer, fraction, negative)| {
                let number = integer + &fraction;
                let zero = number.bytes().all(|byte| matches!(byte, b'0' | b'.'));
                if negative && !zero {
                    format!("-{number}")
                } else {
                    number
                }
            })
    }

    /// A number in both forms as a float.
    fn as_float(text: &str) -> [Result<u64, CellError>; 2] {
        let forms = [
            f64_from_numeric_text(text.as_bytes()),
            f64_from_numeric_binary(&sent(text)),
        ];
        forms.map(|value| value.map(f64::to_bits))
    }

    #[test]
    fn a_zero_of_any_scale_is_zero_in_every_type() {
        for places in (0..50).chain([342, 343, 1000, 16_383]) {
            let point = if places > 0 { "." } else { "" };
            let text = format!("0{point}{}", "0".repeat(places));
            assert_eq!(as_float(&text), [Ok(0), Ok(0)], "{places}");
            for (precision, scale) in [(1, 0), (1, 1), (12, 2), (38, 0), (38, 38)] {
                both(&text, decimal(precision, scale), Ok(0));
                let target = Decimal256::new(precision, scale).unwrap();
                let zero = decimal256_from_text(text.as_bytes(), target);
                assert_eq!(zero.map(|it| it.to_string()), Ok("0".to_owned()));
                let sent = decimal256_from_binary(&sent(&text), target, &mut Vec::new());
                assert_eq!(sent, zero, "{places}");
            }
        }
    }

    #[test]
    fn numbers_beyond_all_floats_do_not_fit() {
        let range = Err(CellError::Unrepresentable(Unrepresentable::FloatRange));
        let small = |zeros: usize| format!("0.{}1", "0".repeat(zeros));
        for (text, expected) in [
            (small(399), range),
            (format!("-{}", small(399)), range),
            (format!("{}0000", small(399)), range),
            // 1e-323 is twice the smallest double, 1e-324 is less than half of it.
            (small(322), Ok(2)),
            (small(323), range),
            (format!("1{}", "0".repeat(400)), range),
            (format!("-1{}.00", "0".repeat(400)), range),
            (format!("1{}", "0".repeat(308)), Ok(0x7fe1_ccf3_85eb_c8a0)),
            (format!("1{}", "0".repeat(309)), range),
            ("-0.01".to_owned(), Ok(0xbf84_7ae1_47ae_147b)),
        ] {
            assert_eq!(as_float(&text), [expected; 2], "{text}");
        }
        for wrong in ["-0", "-0.00", "00", "00.0", "0.", ".0", "1e+20", "0e+00"] {
            let read = f64_from_numeric_text(wrong.as_bytes());
            assert!(matches!(read, Err(CellError::Malformed(_))), "{wrong}");
        }
    }

    /// Numbers at both ends of the range of doubles and beyond, and zeros of any number of digits.
    fn wide_numbers() -> impl Strategy<Value = String> {
        prop_oneof![
            numbers(),
            "0(\\.0{1,3000})?",
            "-?[1-9][0-9]{290,320}(\\.[0-9]{1,9})?",
            "-?0\\.0{300,345}[1-9][0-9]{0,30}",
        ]
    }

    proptest! {
        #[test]
        fn a_float_is_the_one_that_std_reads(text in wide_numbers()) {
            let expected: f64 = text.parse().unwrap();
            let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
            let expected = if expected.is_finite() && (is_zero || expected != 0.0) {
                Ok(expected.to_bits())
            } else {
                Err(CellError::Unrepresentable(Unrepresentable::FloatRange))
            };
            prop_assert_eq!(as_float(&text), [expected; 2], "{}", text);
        }

        #[test]
        fn both_forms_are_what_large_integers_make_of_them(
            text in numbers(),
            precision in 1..=38_u8,
            scale in 0..=38_u8,
        ) {
            let target = decimal(precision, scale.min(precision));
            let scale = u32::from(target.scale());
            let (integer, fraction) = text.split_once('.').unwrap_or((&text, ""));
            let mut value: BigInt = format!("{integer}{fraction}").parse().unwrap();
            value *= BigInt::from(10).pow(scale);
            let divisor = BigInt::from(10).pow(u32::try_from(fraction.len()).unwrap());
            let expected = if &value % &divisor == BigInt::ZERO {
                value /= divisor;
                if value.magnitude() < BigInt::from(10).pow(u32::from(precision)).magnitude() {
                    Ok(i128::try_from(value).unwrap())
                } else {
                    Err(PRECISION)
                }
            } else {
                Err(SCALE)
            };
            prop_assert_eq!(decimal128_from_text(text.as_bytes(), target), expected);
            let cell = sent(&text);
            prop_assert_eq!(decimal128_from_binary(&cell, target), expected);
            prop_assert_eq!(shown(&cell), Ok(text));
        }

        #[test]
        fn any_groups_agree_with_the_text_shown_for_them(
            weight in -12..12_i16,
            extra in 0..6_u16,
            negative: bool,
            groups in proptest::collection::vec(0..10_000_u16, 0..12),
            precision in 1..=38_u8,
            scale in 0..=38_u8,
        ) {
            let target = decimal(precision, scale.min(precision));
            let places = i16::try_from(groups.len()).unwrap() - 1 - weight;
            let display = u16::try_from(places.max(0)).unwrap() * 4 + extra;
            let cell = binary(weight, if negative { 0x4000 } else { 0 }, display, &groups);
            let text = shown(&cell).unwrap();
            prop_assert_eq!(decimal128_from_binary(&cell, target), decimal128_from_text(text.as_bytes(), target));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[-+]?[0-9.eN]{0,80}",
            scale in 0..=38_u8,
        ) {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = decimal128_from_text(cell, decimal(38, scale));
                let _ = decimal128_from_binary(cell, decimal(38, scale));
                let mut out = Vec::new();
                let _ = numeric_text_from_binary(cell, &mut out);
                prop_assert!(out.len() <= 147_457);
            }
        }

        #[test]
        fn any_header_is_shown_or_refused(
            weight: i16,
            sign in prop::sample::select(vec![0_u16, 0x4000, 0xc000, 0xd000, 0xf000, 0x8000]),
            display: u16,
            groups in proptest::collection::vec(any::<u16>(), 0..4),
        ) {
            let cell = binary(weight, sign, display, &groups);
            let mut out = Vec::new();
            let _ = numeric_text_from_binary(&cell, &mut out);
            prop_assert!(out.len() <= 147_457);
            let _ = decimal128_from_binary(&cell, decimal(38, 10));
        }

        #[test]
        fn any_type_modifier_is_read(typmod: i32) {
            if let Some(read) = NumericTypmod::from_typmod(typmod) {
                prop_assert!((1..=1000).contains(&read.precision) && (-1000..=1000).contains(&read.scale));
                let _ = read.decimal128();
            }
        }
    }
}
