//! Text that a server wrote under other settings than walrow pins, put as it writes it under those.
//!
//! ```text
//! DateStyle      SQL, MDY 02/29/2024 17:30:00.5 UTC | German 29.02.2024 17:30:00.5 UTC
//!                Postgres, DMY Thu 29 Feb 17:30:00.5 2024 UTC; a date alone 29-02-2024
//! IntervalStyle  postgres_verbose @ 1 year 2 mons -3 days | @ 2 hours ago
//!                sql_standard +1-2 -3 +4:05:06.789; one sign in front of a part alone is that of all of it
//! ```
//!
//! Whatever else contradicts the setting is malformed: a stream's settings are told, not guessed.

use crate::error::CellError;
use crate::int::decimal_digits;
use crate::interval::{IntervalValue, interval_to_text};
use crate::temporal::split_fraction;

/// The setting that a column's cells were written under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Translation {
    /// A `date`.
    Date(DateStyle),
    /// A `timestamp`.
    Timestamp(DateStyle),
    /// Whether the session's zone is UTC, which is what `UTC` then stands for.
    Timestamptz(DateStyle, bool),
    /// An `interval`.
    Interval(IntervalStyle),
    /// `client_encoding` LATIN1
    Latin1,
}

/// `DateStyle`, other than ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DateStyle {
    /// The order and separators.
    pub format: DateFormat,
    /// Whether the day stands before the month.
    pub day_first: bool,
}

/// The styles of `DateStyle` other than ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DateFormat {
    /// `03/02/2024`.
    Sql,
    /// `02.03.2024`.
    German,
    /// `Sat 02 Mar 17:30:00 2024`.
    Postgres,
}

/// `IntervalStyle`, other than `postgres` and `iso_8601`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IntervalStyle {
    /// `@ 1 year 2 mons`.
    PostgresVerbose,
    /// `1-2`.
    SqlStandard,
}

impl Translation {
    /// The cell under the pinned settings: itself, or its translation in `out`.
    pub(crate) fn translated<'a>(
        translation: Option<Self>,
        cell: &'a [u8],
        out: &'a mut Vec<u8>,
    ) -> Result<&'a [u8], CellError> {
        let Some(translation) = translation else {
            return Ok(cell);
        };
        translation.apply(cell, out)?;
        Ok(out)
    }

    /// Appends the cell as it is under the pinned settings.
    pub fn apply(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        match self {
            Self::Date(_) | Self::Timestamp(_) | Self::Timestamptz(..) | Self::Interval(_)
                if matches!(cell, b"infinity" | b"-infinity") =>
            {
                out.extend_from_slice(cell);
                Ok(())
            }
            Self::Date(style) => date(style, cell, out).ok_or(NOT_A_DATE),
            Self::Timestamp(style) => timestamp(style, Zone::None, cell, out).ok_or(NOT_A_DATE),
            Self::Timestamptz(style, is_utc) => {
                timestamp(style, Zone::Given { is_utc }, cell, out).ok_or(NOT_A_MOMENT)
            }
            Self::Interval(style) => {
                let interval = match style {
                    IntervalStyle::PostgresVerbose => verbose(cell),
                    IntervalStyle::SqlStandard => sql_standard(cell),
                };
                interval_to_text(interval.ok_or(NOT_AN_INTERVAL)?, out);
                Ok(())
            }
            Self::Latin1 => {
                let mut utf8 = [0; 2];
                for byte in cell {
                    out.extend_from_slice(char::from(*byte).encode_utf8(&mut utf8).as_bytes());
                }
                Ok(())
            }
        }
    }
}

/// What stands behind a timestamp.
#[derive(Clone, Copy)]
enum Zone {
    None,
    Given { is_utc: bool },
}

fn date(style: DateStyle, cell: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (date, era) = split_era(cell);
    write_date(style, date, out)?;
    out.extend_from_slice(era);
    Some(())
}

/// A date in numbers as ISO writes it.
fn write_date(style: DateStyle, date: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (separator, day_first) = match style.format {
        DateFormat::Sql => (b'/', style.day_first),
        DateFormat::Postgres => (b'-', style.day_first),
        DateFormat::German => (b'.', true),
    };
    let mut parts = date.split(|byte| *byte == separator);
    let (first, second, year) = (parts.next()?, parts.next()?, parts.next()?);
    let two_digits = first.len() == 2 && second.len() == 2;
    if parts.next().is_some() || !two_digits || year.len() < 4 {
        return None;
    }
    let (month, day) = if day_first {
        (second, first)
    } else {
        (first, second)
    };
    write_iso(year, month, day, out)
}

fn write_iso(year: &[u8], month: &[u8], day: &[u8], out: &mut Vec<u8>) -> Option<()> {
    if ![year, month, day]
        .into_iter()
        .flatten()
        .all(u8::is_ascii_digit)
    {
        return None;
    }
    for (separator, part) in [(&b""[..], year), (b"-", month), (b"-", day)] {
        out.extend_from_slice(separator);
        out.extend_from_slice(part);
    }
    Some(())
}

fn timestamp(style: DateStyle, zone: Zone, cell: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (moment, era) = split_era(cell);
    let (clock, zone_text) = if style.format == DateFormat::Postgres {
        let (weekday, rest) = word(moment)?;
        let (first, rest) = word(rest)?;
        let (second, rest) = word(rest)?;
        let (clock, rest) = word(rest)?;
        let (year, zone_text) = word(rest).map_or((rest, None), |(year, zone)| (year, Some(zone)));
        let (month, day) = if style.day_first {
            (second, first)
        } else {
            (first, second)
        };
        let month = MONTHS.iter().position(|name| *name == month)?;
        let own = weekday_of(year, !era.is_empty(), month, day)?;
        if weekday != own || day.len() != 2 || year.len() < 4 {
            return None;
        }
        write_iso(year, MONTH_NUMBERS.get(month)?, day, out)?;
        (clock, zone_text)
    } else {
        let (date, rest) = word(moment)?;
        write_date(style, date, out)?;
        match word(rest) {
            Some((clock, zone)) => (clock, Some(zone)),
            // An offset without a name stands at the clock's end.
            None => match rest.iter().position(|byte| matches!(byte, b'+' | b'-')) {
                Some(place) => {
                    let (clock, offset) = rest.split_at_checked(place)?;
                    (clock, Some(offset))
                }
                None => (rest, None),
            },
        }
    };
    if clock.len() < 8 || clock.iter().any(|byte| matches!(byte, b'+' | b'-')) {
        return None;
    }
    out.push(b' ');
    out.extend_from_slice(clock);
    match (zone, zone_text) {
        (Zone::None, None) => {}
        (Zone::Given { is_utc: true }, Some(b"UTC" | b"GMT" | b"UCT")) => {
            out.extend_from_slice(b"+00");
        }
        (Zone::Given { .. }, Some(offset)) => write_offset(offset, out)?,
        _ => return None,
    }
    out.extend_from_slice(era);
    Some(())
}

/// The weekday of a date, its month counted from 0, in the Gregorian calendar that PostgreSQL knows no beginning of.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "years have six digits and days two"
)]
fn weekday_of(year: &[u8], is_bc: bool, month: usize, day: &[u8]) -> Option<&'static [u8]> {
    if year.len() > 6 || day.len() > 2 {
        return None;
    }
    let number = |digits| i64::try_from(decimal_digits(digits)?).ok();
    let year = number(year)?;
    // The year before 1 AD is 1 BC.
    let year = if is_bc { 1 - year } else { year };
    // Leap days end years that begin in March.
    let year = year - i64::from(month < 2);
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = year + leaps + BEFORE_MONTHS.get(month)? + number(day)?;
    let place = usize::try_from(days.rem_euclid(7)).ok()?;
    WEEKDAYS.get(place).copied()
}

/// An offset, which is a zone's name too where that has no letters: `+05:30`, `+0530`, `+05`.
fn write_offset(offset: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (sign @ (b'+' | b'-'), digits) = offset.split_first()? else {
        return None;
    };
    out.push(*sign);
    match digits {
        [h1, h0, m1, m0] => out.extend_from_slice(&[*h1, *h0, b':', *m1, *m0]),
        digits => out.extend_from_slice(digits),
    }
    Some(())
}

/// The moment, and ` BC` if it has that.
fn split_era(cell: &[u8]) -> (&[u8], &[u8]) {
    match cell.strip_suffix(b" BC") {
        Some(moment) => (moment, b" BC"),
        None => (cell, b""),
    }
}

/// What stands before and after the first blank.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, rest) = text.split_at_checked(text.iter().position(|byte| *byte == b' ')?)?;
    Some((word, rest.get(1..)?))
}

/// `@ 1 year -2 mons 3 days 4 hours 5 mins 6.789 secs ago`
fn verbose(cell: &[u8]) -> Option<IntervalValue> {
    let parts = cell.strip_prefix(b"@ ")?;
    let (mut rest, ago) = match parts.strip_suffix(b" ago") {
        Some(parts) => (parts, true),
        None => (parts, false),
    };
    let (mut months, mut days, mut micros) = (0_i64, 0_i64, 0_i64);
    if rest == b"0" {
        return (!ago).then(IntervalValue::default);
    }
    let mut last = None;
    loop {
        let (number, after) = word(rest)?;
        let (unit, after) = word(after).map_or((after, None), |(unit, after)| (unit, Some(after)));
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
        match after {
            Some(after) => rest = after,
            None => return interval(months, days, micros),
        }
    }
}

/// `0`, `-1-2`, `-3 4:05:06`, `4:05:06.789` or, all signs told, `+1-2 -3 +4:05:06.789`.
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
    // One minus stands for all that follows; a plus is never written alone.
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

/// A sign, if there is one, whether it is a minus; and the digits.
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
    let micros = whole.checked_mul(1_000_000)?.checked_add(fraction)?;
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
const WEEKDAYS: [&[u8]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
/// How far each month's weekdays are shifted, January and February as those of the year before.
const BEFORE_MONTHS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const MONTH_NUMBERS: [&[u8]; 12] = [
    b"01", b"02", b"03", b"04", b"05", b"06", b"07", b"08", b"09", b"10", b"11", b"12",
];
const MICROS_A_MINUTE: i64 = 60_000_000;
const MICROS_AN_HOUR: i64 = 60 * MICROS_A_MINUTE;
const NOT_A_DATE: CellError = CellError::Malformed("the session's DateStyle");
const NOT_A_MOMENT: CellError = CellError::Malformed(
    "the session's DateStyle, and an offset in digits or, if the session's TimeZone is UTC, UTC",
);
const NOT_AN_INTERVAL: CellError = CellError::Malformed("the session's IntervalStyle");
