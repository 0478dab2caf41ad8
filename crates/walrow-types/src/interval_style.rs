//! `IntervalStyle`: intervals in the styles other than `postgres` and `iso_8601`.
//!
//! ```text
//! postgres_verbose  @ 1 year 2 mons -3 days; @ 2 hours ago
//! sql_standard      +1-2 -3 +4:05:06.789; a single sign in front applies to all that follows
//! ```
//!
//! Text of another style is malformed: the styles are not guessed.

use crate::clock::{MICROS_A_MINUTE, MICROS_A_SECOND, MICROS_AN_HOUR, split_fraction};
use crate::digits::decimal_digits;
use crate::error::CellError;
use crate::interval_value::{IntervalValue, interval_to_text};

/// `IntervalStyle`, other than `postgres` and `iso_8601`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntervalStyle {
    /// `@ 1 year 2 mons`.
    PostgresVerbose,
    /// `1-2`.
    SqlStandard,
}

impl IntervalStyle {
    /// Appends the text of an interval in the style `postgres`.
    pub(crate) fn interval(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if matches!(cell, b"infinity" | b"-infinity") {
            out.extend_from_slice(cell);
            return Ok(());
        }
        let interval = match self {
            Self::PostgresVerbose => verbose(cell),
            Self::SqlStandard => sql_standard(cell),
        };
        interval_to_text(interval.ok_or(NOT_AN_INTERVAL)?, out);
        Ok(())
    }
}

/// `@ 1 year -2 mons 3 days 4 hours 5 mins 6.789 secs ago`
fn verbose(cell: &[u8]) -> Option<IntervalValue> {
    let parts = cell.strip_prefix(b"@ ")?;
    let (parts, ago) = match parts.strip_suffix(b" ago") {
        Some(parts) => (parts, true),
        None => (parts, false),
    };
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i64);
    if parts == b"0" {
        return (!ago).then(IntervalValue::default);
    }
    let mut last = None;
    let mut words = parts.split(|byte| *byte == b' ');
    while let Some(number) = words.next() {
        let unit = words.next()?;
        let (negative, number) = match number.strip_prefix(b"-") {
            Some(number) => (!ago, number),
            None => (ago, number),
        };
        let unit = unit.strip_suffix(b"s").unwrap_or(unit);
        let place = UNITS.iter().position(|name| *name == unit)?;
        if last.replace(place).is_some_and(|last| last >= place) {
            return None;
        }
        let count = if place == UNITS.len().checked_sub(1)? {
            seconds(number)?
        } else {
            i64::try_from(decimal_digits(number)?).ok()?
        };
        let count = if negative {
            count.checked_neg()?
        } else {
            count
        };
        let (sum, factor) = match place {
            0 => (&mut months, 12),
            1 => (&mut months, 1),
            2 => (&mut days, 1),
            3 => (&mut micros, MICROS_AN_HOUR),
            4 => (&mut micros, MICROS_A_MINUTE),
            _ => (&mut micros, 1),
        };
        *sum = sum.checked_add(count.checked_mul(factor)?)?;
    }
    interval(months, days, micros)
}

/// `0`, `-1-2`, `-3 4:05:06`, `4:05:06.789` or, with a sign for each part, `+1-2 -3 +4:05:06.789`.
fn sql_standard(cell: &[u8]) -> Option<IntervalValue> {
    if cell == b"0" {
        return Some(IntervalValue::default());
    }
    let mut words = cell.split(|byte| *byte == b' ');
    let (first, second, third) = (words.next()?, words.next(), words.next());
    if words.next().is_some() {
        return None;
    }
    if let (Some(days), Some(clock)) = (second, third) {
        let signed = |text| split_sign(text).filter(|(sign, _)| sign.is_some());
        let (sign, year_month) = signed(first)?;
        let months = with_sign(sign, months(year_month)?)?;
        let (sign, days) = signed(days)?;
        let days = with_sign(sign, decimal_digits(days)?.into())?;
        let (sign, clock) = signed(clock)?;
        return interval(months, days, with_sign(sign, micros(clock)?)?);
    }
    // A single minus applies to all that follows; the server never writes a single plus.
    let (sign, first) = split_sign(first)?;
    if sign == Some(false) {
        return None;
    }
    let count = |count| with_sign(sign, count);
    match second {
        Some(clock) => {
            let days = decimal_digits(first)?.into();
            interval(0, count(days)?, count(micros(clock)?)?)
        }
        None if first.contains(&b':') => interval(0, 0, count(micros(first)?)?),
        None => interval(count(months(first)?)?, 0, 0),
    }
}

/// Whether the sign is a minus, `None` without a sign; and the digits.
fn split_sign(text: &[u8]) -> Option<(Option<bool>, &[u8])> {
    let (first, rest) = text.split_first()?;
    Some(match first {
        b'-' => (Some(true), rest),
        b'+' => (Some(false), rest),
        _ => (None, text),
    })
}

fn with_sign(sign: Option<bool>, count: i128) -> Option<i64> {
    let count = match sign {
        Some(true) => count.checked_neg()?,
        _ => count,
    };
    i64::try_from(count).ok()
}

/// `1-2`: years and months.
fn months(text: &[u8]) -> Option<i128> {
    let (years, months) = text.split_at_checked(text.iter().position(|byte| *byte == b'-')?)?;
    let months = decimal_digits(months.strip_prefix(b"-")?).filter(|months| *months < 12)?;
    i128::from(decimal_digits(years)?)
        .checked_mul(12)?
        .checked_add(months.into())
}

/// `4:05:06.789`: hours of any size, minutes and seconds.
fn micros(text: &[u8]) -> Option<i128> {
    let mut parts = text.split(|byte| *byte == b':');
    let (hours, minutes, seconds_text) = (parts.next()?, parts.next()?, parts.next()?);
    if parts.next().is_some() || minutes.len() != 2 {
        return None;
    }
    let minutes = decimal_digits(minutes).filter(|minutes| *minutes < 60)?;
    i128::from(decimal_digits(hours)?)
        .checked_mul(MICROS_AN_HOUR.into())?
        .checked_add(i128::from(minutes).checked_mul(MICROS_A_MINUTE.into())?)?
        .checked_add(seconds(seconds_text)?.into())
}

/// `6.789` in microseconds.
fn seconds(text: &[u8]) -> Option<i64> {
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let whole = i64::try_from(decimal_digits(parts.next()?)?).ok()?;
    let (fraction, rest) = parts.next().map_or(Some((0, &[][..])), split_fraction)?;
    let micros = whole.checked_mul(MICROS_A_SECOND)?.checked_add(fraction)?;
    rest.is_empty().then_some(micros)
}

fn interval(months: i64, days: i64, micros: i64) -> Option<IntervalValue> {
    Some(IntervalValue {
        months: i32::try_from(months).ok()?,
        days: i32::try_from(days).ok()?,
        micros,
    })
}

const UNITS: [&[u8]; 6] = [b"year", b"mon", b"day", b"hour", b"min", b"sec"];
const NOT_AN_INTERVAL: CellError = CellError::Malformed("the session's IntervalStyle");
