//! `DateStyle`: the ISO text of dates and timestamps in other styles.
//!
//! ```text
//! SQL, MDY       02/29/2024 17:30:00.5 UTC
//! German         29.02.2024 17:30:00.5 UTC
//! Postgres, DMY  Thu 29 Feb 17:30:00.5 2024 UTC; a date alone 29-02-2024
//! ```
//!
//! Text of another style is malformed: the styles are not guessed.

use crate::digits::decimal_digits;
use crate::error::CellError;

/// `DateStyle`, other than ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateStyle {
    /// The order and separators.
    pub(crate) format: DateFormat,
    /// Whether the day comes before the month.
    pub(crate) day_first: bool,
}

/// The styles of `DateStyle` other than ISO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DateFormat {
    /// `03/02/2024`.
    Sql,
    /// `02.03.2024`.
    German,
    /// `Sat 02 Mar 17:30:00 2024`.
    Postgres,
}

impl DateStyle {
    /// Appends the ISO text of a `date`.
    pub(crate) fn date(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if copy_infinity(cell, out) {
            return Ok(());
        }
        date(self, cell, out).ok_or(NOT_A_DATE)
    }

    /// Appends the ISO text of a `timestamp`.
    pub(crate) fn timestamp(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if copy_infinity(cell, out) {
            return Ok(());
        }
        timestamp(self, Zone::None, cell, out).ok_or(NOT_A_DATE)
    }

    /// Appends the ISO text of a `timestamptz`; `is_utc` is whether the session's time zone is UTC, so that `UTC`
    /// means it.
    pub(crate) fn timestamptz(
        self,
        cell: &[u8],
        is_utc: bool,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        if copy_infinity(cell, out) {
            return Ok(());
        }
        timestamp(self, Zone::Given { is_utc }, cell, out).ok_or(NOT_A_MOMENT)
    }
}

/// Appends the cell if it is an infinity, which every style writes alike.
fn copy_infinity(cell: &[u8], out: &mut Vec<u8>) -> bool {
    let is_infinity = matches!(cell, b"infinity" | b"-infinity");
    if is_infinity {
        out.extend_from_slice(cell);
    }
    is_infinity
}

/// Whether a time zone follows a timestamp.
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

/// Appends a date in numbers in ISO.
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
            // An offset without a name follows the time directly.
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

/// The weekday of a date, its month counted from 0. PostgreSQL uses the Gregorian calendar for all years.
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

/// An offset, or the name of a zone without letters, which is its offset: `+05:30`, `+0530`, `+05`.
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

/// The text before ` BC`, and that suffix if there is one.
fn split_era(cell: &[u8]) -> (&[u8], &[u8]) {
    match cell.strip_suffix(b" BC") {
        Some(moment) => (moment, b" BC"),
        None => (cell, b""),
    }
}

/// The text before and after the first blank.
fn word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let (word, rest) = text.split_at_checked(text.iter().position(|byte| *byte == b' ')?)?;
    Some((word, rest.get(1..)?))
}

const WEEKDAYS: [&[u8]; 7] = [b"Sun", b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat"];
/// The shift of each month's weekdays; January and February count as months of the year before.
const BEFORE_MONTHS: [i64; 12] = [0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4];
const MONTHS: [&[u8]; 12] = [
    b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec",
];
const MONTH_NUMBERS: [&[u8]; 12] = [
    b"01", b"02", b"03", b"04", b"05", b"06", b"07", b"08", b"09", b"10", b"11", b"12",
];
const NOT_A_DATE: CellError = CellError::Malformed("the session's DateStyle");
const NOT_A_MOMENT: CellError = CellError::Malformed(
    "the session's DateStyle, and an offset in digits or, if the session's TimeZone is UTC, UTC",
);
