//! Days of the Gregorian calendar in ISO text, and the infinities of dates and timestamps.

use crate::digits::{decimal_digits, pairs, two_digits, write_padded};
use crate::error::{CellError, Unrepresentable};

/// A binary date or timestamp: days or microseconds from 2000, checked against the type's range.
#[derive(Clone, Copy)]
pub(crate) enum Moment<T> {
    PositiveInfinity,
    NegativeInfinity,
    Finite(T),
}

impl<T: Copy> Moment<T> {
    pub(crate) const fn text(self) -> &'static [u8] {
        match self {
            Self::NegativeInfinity => b"-infinity",
            _ => b"infinity",
        }
    }

    #[cold]
    pub(crate) const fn unrepresentable(self) -> CellError {
        CellError::Unrepresentable(match self {
            Self::NegativeInfinity => Unrepresentable::NegativeInfinity,
            _ => Unrepresentable::PositiveInfinity,
        })
    }
}

/// The error of an infinity, if the cell is one.
pub(crate) fn infinity(cell: &[u8]) -> Option<CellError> {
    match cell {
        b"infinity" => Some(Unrepresentable::PositiveInfinity.into()),
        b"-infinity" => Some(Unrepresentable::NegativeInfinity.into()),
        _ => None,
    }
}

/// `YYYY-MM-DD`, the whole cell.
#[expect(
    clippy::inline_always,
    reason = "a timestamp has few instructions: two calls would be a fifth of them"
)]
#[inline(always)]
pub(crate) fn fixed_date(cell: &[u8]) -> Option<i64> {
    let (date, [d1, d0]) = cell.split_first_chunk::<8>()? else {
        return None;
    };
    let [century, _, year, _, _, month, ..] = pairs(*date, DATE_SHAPE, DATE_DIGITS)?;
    let year = i64::from(century)
        .wrapping_mul(100)
        .wrapping_add(i64::from(year));
    if year == 0 {
        return None;
    }
    days(year, month, two_digits(*d1, *d0)?)
}

/// Days from 1970 in the Gregorian calendar, in which the year 0 is 1 BC; `None` if the month has no such day.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "callers bring years of at most seven digits"
)]
fn days(year: i64, month: u8, day: u8) -> Option<i64> {
    if !(1..=12).contains(&month)
        || day == 0
        || day > 31
        || (day > 28 && day > month_length(year, month))
    {
        return None;
    }
    // Years begin in March here, so that the leap day is the last one.
    let months = i64::from(if month < 3 { month + 12 } else { month });
    let years = year + CYCLES * 400 - i64::from(month < 3);
    let before = years * 365 + years / 4 - years / 100 + years / 400;
    Some(before + ((979 * months - 2919) >> 5) + i64::from(day) - DAYS_BEFORE_1970)
}

/// The number of days of a month.
#[inline]
fn month_length(year: i64, month: u8) -> u8 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The inverse of [`days`]: year, month and day.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "PostgreSQL's dates are less than 2^32 days"
)]
pub(crate) fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + DAYS_BEFORE_1970 - 1;
    let (cycle, day) = (days.div_euclid(DAYS_A_CYCLE), days.rem_euclid(DAYS_A_CYCLE));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = (cycle - CYCLES) * 400 + year + i64::from(month < 3);
    (year, month, day)
}

/// The text before ` BC`, and whether it has that suffix.
pub(crate) fn split_era(cell: &[u8]) -> (&[u8], bool) {
    cell.strip_suffix(b" BC")
        .map_or((cell, false), |rest| (rest, true))
}

/// Days from 1970 of `YYYY-MM-DD` with four to seven digits of year.
pub(crate) fn any_days(
    date: &[u8],
    before_christ: bool,
    shape: CellError,
) -> Result<i64, CellError> {
    let (year, &[b'-', m1, m0, b'-', d1, d0]) = date.split_last_chunk::<6>().ok_or(shape)? else {
        return Err(shape);
    };
    if !(4..=7).contains(&year.len()) || (year.len() > 4 && year.starts_with(b"0")) {
        return Err(shape);
    }
    let year = decimal_digits(year)
        .and_then(|year| i64::try_from(year).ok())
        .ok_or(shape)?;
    let month = two_digits(m1, m0).ok_or(shape)?;
    let day = two_digits(d1, d0).ok_or(shape)?;
    let year = match (year, before_christ) {
        (0, _) => return Err(shape),
        (year, false) => year,
        (year, true) => 1_i64.wrapping_sub(year),
    };
    days(year, month, day).ok_or(CellError::Malformed("a day of the calendar"))
}

pub(crate) fn write_date(year: i64, month: i64, day: i64, out: &mut Vec<u8>) {
    write_padded(
        if year > 0 {
            year
        } else {
            1_i64.wrapping_sub(year)
        },
        4,
        out,
    );
    out.push(b'-');
    write_padded(month, 2, out);
    out.push(b'-');
    write_padded(day, 2, out);
}

pub(crate) fn write_era(year: i64, out: &mut Vec<u8>) {
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

/// From 1970-01-01 to 2000-01-01.
pub(crate) const DAYS_TO_2000: i64 = 10_957;
const DAYS_A_CYCLE: i64 = 146_097;
/// Cycles of 400 years; adding them makes every year of PostgreSQL positive.
const CYCLES: i64 = 12;
/// From the March before the first of those cycles to 1970-01-01.
const DAYS_BEFORE_1970: i64 = CYCLES * DAYS_A_CYCLE + 719_469;
const DATE_SHAPE: u64 = u64::from_le_bytes(*b"0000-00-");
const DATE_DIGITS: u64 = u64::from_le_bytes(*b"vvvv\x7fvv\x7f");
pub(crate) const NOT_IN_RANGE: CellError =
    CellError::Malformed("a value within PostgreSQL's range");
