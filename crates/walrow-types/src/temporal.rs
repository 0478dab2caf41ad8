//! `date`, `time`, `timetz`, `timestamp` and `timestamptz`.
//!
//! ```text
//! text    2024-02-29 12:30:00.5+05:30       ISO, the pinned setting; at most six digits of fraction, no zero last
//!         0044-03-15 BC                      years of four digits or more; 0001 BC is the year before 0001
//!         infinity, -infinity
//! binary  days or microseconds from 2000-01-01, the largest and the least being the infinities
//! ```
//!
//! Values are days and microseconds from 1970, as Arrow counts them. PostgreSQL's dates all fit; its timestamps end 29
//! years after the last one that does.

use crate::error::{CellError, Unrepresentable};
use crate::int;
use crate::pg_type::{AppendBytes, PgType, known, scalar, text_from_binary};
use crate::settings::SessionSettings;
use crate::translation::Translation;

/// `date`.
#[derive(Clone, Copy, Debug)]
pub struct Date;

/// `time without time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Time;

/// `time with time zone`.
#[derive(Clone, Copy, Debug)]
pub struct TimeTz;

/// `timestamp without time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp;

/// `timestamp with time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Timestamptz;

/// Days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct Days(pub i32);

/// Microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct TimeOfDay(pub i64);

/// Microseconds since 1970-01-01 00:00:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct Micros(pub i64);

known!(Date: DATE;);
known!(Time: TIME;);
known!(TimeTz: TIMETZ;);
known!(Timestamp: TIMESTAMP;);
known!(Timestamptz: TIMESTAMPTZ;);
scalar!(Date => Days: |cell| date_from_text(cell).map(Days), |cell| date_from_binary(cell).map(Days));
scalar!(
    Time => TimeOfDay: |cell| time_from_text(cell).map(TimeOfDay),
    |cell| time_from_binary(cell).map(TimeOfDay)
);
scalar!(TimeTz => TimeTzValue: timetz_from_text, timetz_from_binary);
scalar!(
    Timestamp => Micros: |cell| timestamp_from_text(cell).map(Micros),
    |cell| timestamp_from_binary(cell).map(Micros)
);
scalar!(
    Timestamptz => Micros: |cell| timestamptz_from_text(cell).map(Micros),
    |cell| timestamp_from_binary(cell).map(Micros)
);

impl PgType for Date {
    text_from_binary!(date_text_from_binary);

    fn text_from_text(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let mut translated = Vec::new();
        let cell = Translation::translated(self.translation(settings), cell, &mut translated)?;
        date_from_text(cell).map_or_else(CellError::malformed, |_| Ok(()))?;
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        true
    }

    fn translation(&self, settings: SessionSettings) -> Option<Translation> {
        settings.date_style.map(Translation::Date)
    }
}

impl PgType for Time {
    text_from_binary!(time_text_from_binary);
}

impl PgType for TimeTz {
    text_from_binary!(timetz_text_from_binary);
}

impl PgType for Timestamp {
    text_from_binary!(timestamp_text_from_binary);

    fn text_from_text(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let mut translated = Vec::new();
        let cell = Translation::translated(self.translation(settings), cell, &mut translated)?;
        timestamp_from_text(cell).map_or_else(CellError::malformed, |_| Ok(()))?;
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        true
    }

    fn translation(&self, settings: SessionSettings) -> Option<Translation> {
        settings.date_style.map(Translation::Timestamp)
    }
}

impl PgType for Timestamptz {
    text_from_binary!(timestamptz_text_from_binary);

    fn text_from_text(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        let mut translated = Vec::new();
        let cell = Translation::translated(self.translation(settings), cell, &mut translated)?;
        if !is_utc(cell) {
            return timestamptz_text_in_utc(cell, out);
        }
        timestamptz_from_text(cell).map_or_else(CellError::malformed, |_| Ok(()))?;
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        true
    }

    fn translation(&self, settings: SessionSettings) -> Option<Translation> {
        let style = settings.date_style?;
        Some(Translation::Timestamptz(style, settings.is_utc))
    }
}

/// A `timetz` whose offset always has hours and minutes: `12:30:00+05:00`.
impl AppendBytes for TimeTz {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        timetz_to_even_text(timetz_from_text(cell)?, out);
        Ok(())
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        timetz_to_even_text(timetz_from_binary(cell)?, out);
        Ok(())
    }
}

fn is_utc(cell: &[u8]) -> bool {
    cell.strip_suffix(b" BC").unwrap_or(cell).ends_with(b"+00")
}

/// Parses a `date` into days from 1970.
#[inline]
pub(crate) fn date_from_text(cell: &[u8]) -> Result<i32, CellError> {
    if let Some(days) = fixed_date(cell) {
        return i32::try_from(days).map_err(|_| NOT_A_DATE);
    }
    any_date(cell)
}

/// Parses the binary form of a `date` into days from 1970.
#[inline]
pub(crate) fn date_from_binary(cell: &[u8]) -> Result<i32, CellError> {
    match Moment::date(cell)? {
        Moment::Finite(days) => {
            let days = i64::from(days).wrapping_add(DAYS_TO_2000);
            i32::try_from(days).map_err(|_| NOT_IN_RANGE)
        }
        infinity => Err(infinity.unrepresentable()),
    }
}

/// Parses a `time` into microseconds from midnight.
#[inline]
pub(crate) fn time_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match clock(cell) {
        Some((micros, [])) => Ok(micros),
        _ if cell == END_OF_DAY => Err(Unrepresentable::EndOfDay.into()),
        _ => Err(NOT_A_TIME),
    }
}

/// Parses the binary form of a `time` into microseconds from midnight.
#[inline]
pub(crate) fn time_from_binary(cell: &[u8]) -> Result<i64, CellError> {
    match time_of_day(cell)? {
        MICROS_A_DAY => Err(Unrepresentable::EndOfDay.into()),
        micros => Ok(micros),
    }
}

/// Parses a `timestamp` into microseconds from 1970, in whatever zone it was meant.
#[inline]
pub(crate) fn timestamp_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match fixed_timestamp(cell) {
        Some((micros, [])) => Ok(micros),
        _ => any_timestamp(cell, false),
    }
}

/// Parses a `timestamptz`, shown at any offset, into microseconds from 1970 in UTC.
#[inline]
pub(crate) fn timestamptz_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match fixed_timestamp(cell) {
        Some((micros, b"+00")) => Ok(micros),
        _ => any_timestamp(cell, true),
    }
}

/// Parses the binary form of a `timestamp` or a `timestamptz` into microseconds from 1970.
#[inline]
pub(crate) fn timestamp_from_binary(cell: &[u8]) -> Result<i64, CellError> {
    match Moment::timestamp(cell)? {
        Moment::Finite(micros) => since_1970(micros),
        infinity => Err(infinity.unrepresentable()),
    }
}

/// A `timetz`: a time of day, and how far it is ahead of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTzValue {
    /// Microseconds from midnight at the offset, 24:00:00 among them.
    pub time_us: i64,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

/// Parses a `timetz`.
pub(crate) fn timetz_from_text(cell: &[u8]) -> Result<TimeTzValue, CellError> {
    let (time_us, offset) = match clock(cell) {
        Some(parts) => parts,
        None => (
            MICROS_A_DAY,
            cell.strip_prefix(END_OF_DAY).ok_or(NOT_A_TIMETZ)?,
        ),
    };
    let offset_s = offset_seconds(offset).ok_or(NOT_A_TIMETZ)?;
    Ok(TimeTzValue { time_us, offset_s })
}

/// Parses the binary form of a `timetz`, which counts seconds west.
#[inline]
pub(crate) fn timetz_from_binary(cell: &[u8]) -> Result<TimeTzValue, CellError> {
    let (time, west) = cell
        .split_first_chunk::<8>()
        .ok_or(CellError::Malformed("12 bytes"))?;
    let west = int::i32_from_binary(west).map_err(|_| CellError::Malformed("12 bytes"))?;
    if west.unsigned_abs() > MAX_OFFSET_SECONDS {
        return Err(CellError::Malformed("an offset of less than 16 hours"));
    }
    Ok(TimeTzValue {
        time_us: time_of_day(time)?,
        offset_s: west.wrapping_neg(),
    })
}

/// Appends the text of a binary `date`. Like the other renderings, it appends nothing if the cell is malformed.
pub(crate) fn date_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match Moment::date(cell)? {
        Moment::Finite(days) => {
            let (year, month, day) = civil(i64::from(days).wrapping_add(DAYS_TO_2000));
            write_date(year, month, day, out);
            write_era(year, out);
        }
        infinity => out.extend_from_slice(infinity.text()),
    }
    Ok(())
}

/// Appends the text of a binary `time`.
pub(crate) fn time_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    time_to_text(time_of_day(cell)?, out);
    Ok(())
}

/// Appends the text of a binary `timestamp`.
pub(crate) fn timestamp_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_timestamp(Moment::timestamp(cell)?, b"", out);
    Ok(())
}

/// Appends the text of a binary `timestamptz` as a session in UTC shows it.
pub(crate) fn timestamptz_text_from_binary(
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    write_timestamp(Moment::timestamp(cell)?, b"+00", out);
    Ok(())
}

/// Appends the text of a `timestamptz` that is shown at any offset as a session in UTC shows it.
pub(crate) fn timestamptz_text_in_utc(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match micros_from_2000(cell, true) {
        Ok(micros) => write_timestamp(Moment::Finite(micros), b"+00", out),
        Err(CellError::Unrepresentable(_)) => out.extend_from_slice(cell),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Appends the text of a binary `timetz`.
pub(crate) fn timetz_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    timetz_to_text(timetz_from_binary(cell)?, out);
    Ok(())
}

/// Appends a time of day as the server writes it, up to 24:00:00.
pub(crate) fn time_to_text(time_us: i64, out: &mut Vec<u8>) {
    let (seconds, micros) = (
        time_us.div_euclid(MICROS_A_SECOND),
        time_us.rem_euclid(MICROS_A_SECOND),
    );
    write_clock(seconds, out);
    write_fraction(micros, out);
}

/// Appends a point and microseconds without the zeros at their end, or nothing for none.
pub(crate) fn write_fraction(micros: i64, out: &mut Vec<u8>) {
    if micros != 0 {
        out.push(b'.');
        let start = out.len();
        write_padded(micros, 6, out);
        let zeros = out
            .iter()
            .skip(start)
            .rev()
            .take_while(|digit| **digit == b'0')
            .count();
        out.truncate(out.len().saturating_sub(zeros));
    }
}

/// Appends a time with its offset as the server writes it: `+05:30`, minutes and seconds only where there are any.
pub(crate) fn timetz_to_text(time: TimeTzValue, out: &mut Vec<u8>) {
    let whole_hours = time.offset_s % 3600 == 0;
    write_timetz(time, !whole_hours, out);
}

/// Appends a time with its offset in hours and minutes, and seconds where there are any.
pub(crate) fn timetz_to_even_text(time: TimeTzValue, out: &mut Vec<u8>) {
    write_timetz(time, true, out);
}

fn write_timetz(time: TimeTzValue, with_minutes: bool, out: &mut Vec<u8>) {
    time_to_text(time.time_us, out);
    let seconds = i64::from(time.offset_s.unsigned_abs());
    out.push(if time.offset_s < 0 { b'-' } else { b'+' });
    write_padded(seconds / 3600, 2, out);
    if with_minutes {
        out.push(b':');
        write_padded(seconds / 60 % 60, 2, out);
    }
    if seconds % 60 != 0 {
        out.push(b':');
        write_padded(seconds % 60, 2, out);
    }
}

/// A binary date or timestamp: days or microseconds from 2000, checked against the type's range.
#[derive(Clone, Copy)]
enum Moment<T> {
    PositiveInfinity,
    NegativeInfinity,
    Finite(T),
}

impl Moment<i32> {
    #[inline]
    fn date(cell: &[u8]) -> Result<Self, CellError> {
        match int::i32_from_binary(cell)? {
            i32::MAX => Ok(Self::PositiveInfinity),
            i32::MIN => Ok(Self::NegativeInfinity),
            days @ FIRST_DATE..=LAST_DATE => Ok(Self::Finite(days)),
            _ => Err(NOT_IN_RANGE),
        }
    }
}

impl Moment<i64> {
    #[inline]
    fn timestamp(cell: &[u8]) -> Result<Self, CellError> {
        match int::i64_from_binary(cell)? {
            i64::MAX => Ok(Self::PositiveInfinity),
            i64::MIN => Ok(Self::NegativeInfinity),
            micros @ FIRST_TIMESTAMP..=LAST_TIMESTAMP => Ok(Self::Finite(micros)),
            _ => Err(NOT_IN_RANGE),
        }
    }
}

impl<T: Copy> Moment<T> {
    const fn text(self) -> &'static [u8] {
        match self {
            Self::NegativeInfinity => b"-infinity",
            _ => b"infinity",
        }
    }

    #[cold]
    const fn unrepresentable(self) -> CellError {
        CellError::Unrepresentable(match self {
            Self::NegativeInfinity => Unrepresentable::NegativeInfinity,
            _ => Unrepresentable::PositiveInfinity,
        })
    }
}

/// The infinities by name.
fn infinity(cell: &[u8]) -> Option<CellError> {
    match cell {
        b"infinity" => Some(Unrepresentable::PositiveInfinity.into()),
        b"-infinity" => Some(Unrepresentable::NegativeInfinity.into()),
        _ => None,
    }
}

/// Microseconds from 2000 as microseconds from 1970.
#[inline]
fn since_1970(micros: i64) -> Result<i64, CellError> {
    micros
        .checked_add(MICROS_TO_2000)
        .ok_or(CellError::Unrepresentable(Unrepresentable::OutOfRange))
}

/// Microseconds within a day, its end among them.
#[inline]
fn time_of_day(cell: &[u8]) -> Result<i64, CellError> {
    match int::i64_from_binary(cell)? {
        micros @ 0..=MICROS_A_DAY => Ok(micros),
        _ => Err(CellError::Malformed("microseconds within a day")),
    }
}

/// `YYYY-MM-DD`, the whole cell.
#[inline]
fn fixed_date(cell: &[u8]) -> Option<i64> {
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

/// `YYYY-MM-DD HH:MM:SS[.f]`, and what follows it.
#[inline]
fn fixed_timestamp(cell: &[u8]) -> Option<(i64, &[u8])> {
    let (date, rest) = cell.split_first_chunk::<10>()?;
    let [b' ', rest @ ..] = rest else {
        return None;
    };
    let (time, rest) = clock(rest)?;
    // Four digits of year are within any range.
    Some((
        fixed_date(date)?
            .wrapping_mul(MICROS_A_DAY)
            .wrapping_add(time),
        rest,
    ))
}

/// `HH:MM:SS[.f]`, and what follows it.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "hours, minutes and seconds are less than a day"
)]
fn clock(cell: &[u8]) -> Option<(i64, &[u8])> {
    let (time, rest) = cell.split_first_chunk::<8>()?;
    let [hour, _, _, minute, _, _, second, _] = pairs(*time, TIME_SHAPE, TIME_DIGITS)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    let (micros, rest) = match rest {
        [b'.', fraction @ ..] => split_fraction(fraction)?,
        _ => (0, rest),
    };
    Some((seconds * MICROS_A_SECOND + micros, rest))
}

/// One to six digits as microseconds, the last of them not a zero, and what follows them.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "at most six digits")]
pub(crate) fn split_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((&[a, b, c, d, e, f], rest)) = text.split_first_chunk::<6>()
        && let Some(micros) = int::eight_digits([b'0', b'0', a, b, c, d, e, f])
    {
        return if f == b'0' {
            None
        } else {
            Some((i64::try_from(micros).ok()?, rest))
        };
    }
    let (mut rest, mut micros, mut unit, mut last) = (text, 0_i64, 100_000_i64, 0);
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        (rest, last) = (after, digit & 0xf);
        micros += i64::from(last) * unit;
        unit /= 10;
    }
    if last == 0 || text.len() - rest.len() > 6 {
        None
    } else {
        Some((micros, rest))
    }
}

/// The value of each pair of neighbouring digits in eight characters of the given shape, at the place of its first.
#[inline]
fn pairs(text: [u8; 8], shape: u64, digits: u64) -> Option<[u8; 8]> {
    // Digits leave their value and separators nothing; `digits` adds up to the top bit where that is too much.
    let lanes = u64::from_le_bytes(text) ^ shape;
    if (lanes.wrapping_add(digits) | lanes) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    Some(
        lanes
            .wrapping_mul(10)
            .wrapping_add(lanes >> 8)
            .to_le_bytes(),
    )
}

#[inline]
fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        None
    } else {
        Some(tens.wrapping_mul(10).wrapping_add(ones))
    }
}

/// Days from 1970 of a day in the Gregorian calendar, where the year 0 is 1 BC; none if its month has no such day.
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
    // The year is taken to begin in March, so that the leap day is its last.
    let months = i64::from(if month < 3 { month + 12 } else { month });
    let years = year + CYCLES * 400 - i64::from(month < 3);
    let before = years * 365 + years / 4 - years / 100 + years / 400;
    Some(before + ((979 * months - 2919) >> 5) + i64::from(day) - DAYS_BEFORE_1970)
}

/// How many days a month has.
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
fn civil(days: i64) -> (i64, i64, i64) {
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

/// Dates that are not four digits of year and nothing else.
#[cold]
fn any_date(cell: &[u8]) -> Result<i32, CellError> {
    if let Some(infinity) = infinity(cell) {
        return Err(infinity);
    }
    let (cell, before_christ) = split_era(cell);
    let days = any_days(cell, before_christ, NOT_A_DATE)?;
    match i32::try_from(days.wrapping_sub(DAYS_TO_2000)) {
        Ok(FIRST_DATE..=LAST_DATE) => i32::try_from(days).map_err(|_| NOT_IN_RANGE),
        _ => Err(NOT_IN_RANGE),
    }
}

/// Timestamps with long years, eras and offsets.
#[cold]
fn any_timestamp(cell: &[u8], zoned: bool) -> Result<i64, CellError> {
    since_1970(micros_from_2000(cell, zoned)?)
}

fn micros_from_2000(cell: &[u8], zoned: bool) -> Result<i64, CellError> {
    if let Some(infinity) = infinity(cell) {
        return Err(infinity);
    }
    let (cell, before_christ) = split_era(cell);
    let place = cell
        .iter()
        .position(|byte| *byte == b' ')
        .ok_or(NOT_A_TIMESTAMP)?;
    let (date, time) = cell.split_at_checked(place).ok_or(NOT_A_TIMESTAMP)?;
    let (time, rest) = time
        .strip_prefix(b" ")
        .and_then(clock)
        .ok_or(NOT_A_TIMESTAMP)?;
    let offset = match rest {
        [] if !zoned => Some(0),
        _ if zoned => offset_seconds(rest),
        _ => None,
    };
    let offset = i64::from(offset.ok_or(NOT_A_TIMESTAMP)?);
    let days = any_days(date, before_christ, NOT_A_TIMESTAMP)?.wrapping_sub(DAYS_TO_2000);
    let micros = days
        .checked_mul(MICROS_A_DAY)
        .and_then(|micros| micros.checked_add(time))
        .and_then(|micros| micros.checked_sub(offset.wrapping_mul(MICROS_A_SECOND)));
    match micros {
        Some(micros @ FIRST_TIMESTAMP..=LAST_TIMESTAMP) => Ok(micros),
        _ => Err(NOT_IN_RANGE),
    }
}

/// What stands before ` BC`, and whether that is there.
fn split_era(cell: &[u8]) -> (&[u8], bool) {
    cell.strip_suffix(b" BC")
        .map_or((cell, false), |rest| (rest, true))
}

/// Days from 1970 of `YYYY-MM-DD` with four to seven digits of year.
fn any_days(date: &[u8], before_christ: bool, shape: CellError) -> Result<i64, CellError> {
    let (year, &[b'-', m1, m0, b'-', d1, d0]) = date.split_last_chunk::<6>().ok_or(shape)? else {
        return Err(shape);
    };
    if !(4..=7).contains(&year.len()) || (year.len() > 4 && year.starts_with(b"0")) {
        return Err(shape);
    }
    let year = int::decimal_digits(year)
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

/// `+-HH[:MM[:SS]]` in seconds east of UTC, with no more parts than there is something to say.
fn offset_seconds(text: &[u8]) -> Option<i32> {
    let (hours, minutes, seconds) = match *text {
        [_, h1, h0] => (two_digits(h1, h0)?, 0, 0),
        [_, h1, h0, b':', m1, m0] => match two_digits(m1, m0)? {
            0 => return None,
            minutes => (two_digits(h1, h0)?, minutes, 0),
        },
        [_, h1, h0, b':', m1, m0, b':', s1, s0] => match two_digits(s1, s0)? {
            0 => return None,
            seconds => (two_digits(h1, h0)?, two_digits(m1, m0)?, seconds),
        },
        _ => return None,
    };
    if hours > 15 || minutes > 59 || seconds > 59 {
        return None;
    }
    let minutes = i32::from(hours)
        .wrapping_mul(60)
        .wrapping_add(i32::from(minutes));
    let total = minutes.wrapping_mul(60).wrapping_add(i32::from(seconds));
    match text {
        [b'+', ..] => Some(total),
        [b'-', ..] if total != 0 => Some(total.wrapping_neg()),
        _ => None,
    }
}

fn write_timestamp(moment: Moment<i64>, offset: &[u8], out: &mut Vec<u8>) {
    let Moment::Finite(micros) = moment else {
        out.extend_from_slice(moment.text());
        return;
    };
    let days = micros.div_euclid(MICROS_A_DAY).wrapping_add(DAYS_TO_2000);
    let (year, month, day) = civil(days);
    write_date(year, month, day, out);
    out.push(b' ');
    time_to_text(micros.rem_euclid(MICROS_A_DAY), out);
    out.extend_from_slice(offset);
    write_era(year, out);
}

fn write_date(year: i64, month: i64, day: i64, out: &mut Vec<u8>) {
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

fn write_era(year: i64, out: &mut Vec<u8>) {
    if year <= 0 {
        out.extend_from_slice(b" BC");
    }
}

fn write_clock(seconds: i64, out: &mut Vec<u8>) {
    write_padded(seconds / 3600, 2, out);
    out.push(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_padded(seconds % 60, 2, out);
}

/// Appends a number that is not negative, with zeros in front up to a length.
#[inline]
pub(crate) fn write_padded(number: i64, length: usize, out: &mut Vec<u8>) {
    if length == 2 && (0..100).contains(&number) {
        let [tens, ones] = [number / 10, number % 10].map(|digit| b'0' | digit.to_le_bytes()[0]);
        out.extend_from_slice(&[tens, ones]);
        return;
    }
    let mut digits = [b'0'; 19];
    let mut left = number;
    let mut used = 0_usize;
    for place in digits.iter_mut().rev() {
        if left == 0 {
            break;
        }
        *place = b'0' | left.rem_euclid(10).to_le_bytes()[0];
        left = left.div_euclid(10);
        used = used.wrapping_add(1);
    }
    let start = digits.len().saturating_sub(used.max(length));
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

const END_OF_DAY: &[u8] = b"24:00:00";
pub(crate) const MICROS_A_SECOND: i64 = 1_000_000;
const MICROS_A_DAY: i64 = 86_400_000_000;
/// From 1970-01-01 to 2000-01-01.
const DAYS_TO_2000: i64 = 10_957;
pub(crate) const MICROS_TO_2000: i64 = DAYS_TO_2000 * MICROS_A_DAY;
const DAYS_A_CYCLE: i64 = 146_097;
/// As many cycles of 400 years as make every year of PostgreSQL's positive.
const CYCLES: i64 = 12;
/// From the March before the first of those cycles to 1970-01-01.
const DAYS_BEFORE_1970: i64 = CYCLES * DAYS_A_CYCLE + 719_469;
/// 4714-11-24 BC, in days from 2000.
const FIRST_DATE: i32 = -2_451_545;
/// 5874897-12-31.
const LAST_DATE: i32 = 2_145_031_948;
/// 4714-11-24 00:00:00 BC, in microseconds from 2000.
const FIRST_TIMESTAMP: i64 = -211_813_488_000_000_000;
/// 294276-12-31 23:59:59.999999.
const LAST_TIMESTAMP: i64 = 9_223_371_331_199_999_999;
/// 15:59:59 either way.
const MAX_OFFSET_SECONDS: u32 = 57_599;

const DATE_SHAPE: u64 = u64::from_le_bytes(*b"0000-00-");
const DATE_DIGITS: u64 = u64::from_le_bytes(*b"vvvv\x7fvv\x7f");
const TIME_SHAPE: u64 = u64::from_le_bytes(*b"00:00:00");
const TIME_DIGITS: u64 = u64::from_le_bytes(*b"vv\x7fvv\x7fvv");

const NOT_A_DATE: CellError =
    CellError::Malformed("an ISO date (name another DateStyle as the session's)");
const NOT_A_TIMESTAMP: CellError =
    CellError::Malformed("an ISO timestamp (name another DateStyle as the session's)");
const NOT_A_TIME: CellError = CellError::Malformed("a time of day");
const NOT_A_TIMETZ: CellError = CellError::Malformed("a time of day and an offset");
const NOT_IN_RANGE: CellError = CellError::Malformed("a value within PostgreSQL's range");

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::*;

    use super::*;

    const POSITIVE: CellError = CellError::Unrepresentable(Unrepresentable::PositiveInfinity);
    const NEGATIVE: CellError = CellError::Unrepresentable(Unrepresentable::NegativeInfinity);
    const OUT_OF_RANGE: CellError = CellError::Unrepresentable(Unrepresentable::OutOfRange);
    const END: CellError = CellError::Unrepresentable(Unrepresentable::EndOfDay);

    type Render = fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>;

    fn rendered(render: Render, cell: &[u8]) -> Result<String, CellError> {
        let mut out = b"before".to_vec();
        let result = render(cell, &mut out);
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

    fn leap(year: i64) -> bool {
        year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
    }

    fn slow_month_length(year: i64, month: i64) -> i64 {
        [
            31,
            if leap(year) { 29 } else { 28 },
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ][usize::try_from(month - 1).unwrap()]
    }

    /// Days from 1970 to the first of January, counted year by year after whole cycles.
    fn slow_year_start(year: i64) -> i64 {
        let cycles = (year - 1970).div_euclid(400);
        let mut days = cycles * 146_097;
        for year in 1970 + cycles * 400..year {
            days += if leap(year) { 366 } else { 365 };
        }
        days
    }

    fn date_text(year: i64, month: i64, day: i64) -> String {
        if year > 0 {
            format!("{year:04}-{month:02}-{day:02}")
        } else {
            format!("{:04}-{month:02}-{day:02} BC", 1 - year)
        }
    }

    fn sent_date(days: i64) -> [u8; 4] {
        i32::try_from(days - 10_957).unwrap().to_be_bytes()
    }

    #[test]
    fn every_day_of_boundary_years_agrees_with_counting() {
        for year in [
            -4713, -4712, -401, -400, -101, -100, -5, -4, -3, -1, 0, 1, 4, 100, 400, 1582, 1899,
            1900, 1969, 1970, 1999, 2000, 2001, 2024, 2100, 9999, 10_000, 99_999, 100_000, 294_276,
            294_277, 999_999, 1_000_000, 5_874_896, 5_874_897,
        ] {
            let mut days = slow_year_start(year);
            for month in 1..=12 {
                for day in 1..=slow_month_length(year, month) {
                    let text = date_text(year, month, day);
                    if year == -4713 && (month, day) < (11, 24) {
                        assert_eq!(date_from_text(text.as_bytes()), Err(NOT_IN_RANGE), "{text}");
                        assert_eq!(
                            date_from_binary(&sent_date(days)),
                            Err(NOT_IN_RANGE),
                            "{text}"
                        );
                    } else {
                        let expected = i32::try_from(days).unwrap();
                        assert_eq!(date_from_text(text.as_bytes()), Ok(expected), "{text}");
                        assert_eq!(date_from_binary(&sent_date(days)), Ok(expected), "{text}");
                        assert_eq!(rendered(date_text_from_binary, &sent_date(days)), Ok(text));
                    }
                    days += 1;
                }
                for day in slow_month_length(year, month) + 1..=99 {
                    let text = date_text(year, month, day);
                    assert!(
                        matches!(
                            date_from_text(text.as_bytes()),
                            Err(CellError::Malformed(_))
                        ),
                        "{text}"
                    );
                }
            }
            assert_eq!(days, slow_year_start(year + 1));
            for (month, day) in [(0, 1), (13, 1), (99, 1), (1, 0)] {
                let text = date_text(year, month, day);
                assert!(
                    matches!(
                        date_from_text(text.as_bytes()),
                        Err(CellError::Malformed(_))
                    ),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn every_day_of_four_digit_years_agrees_with_chrono() {
        let mut date = NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
        while date.year() < 10_000 {
            let text = date_text(date.year().into(), date.month().into(), date.day().into());
            let days =
                i32::try_from((date - NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days())
                    .unwrap();
            assert_eq!(date_from_text(text.as_bytes()), Ok(days), "{text}");
            assert_eq!(
                civil(days.into()),
                (date.year().into(), date.month().into(), date.day().into())
            );
            date = date.succ_opt().unwrap();
        }
    }

    #[test]
    fn dates_known_by_hand() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-01-01", 10_957),
            ("2024-02-29", 19_782),
            ("0001-01-01", -719_162),
            ("0001-12-31 BC", -719_163),
            ("4714-11-24 BC", -2_440_588),
            ("5874897-12-31", 2_145_042_905),
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Ok(days), "{text}");
            assert_eq!(
                date_from_binary(&sent_date(days.into())),
                Ok(days),
                "{text}"
            );
        }
        for (text, sent, error) in [
            ("infinity", i32::MAX, POSITIVE),
            ("-infinity", i32::MIN, NEGATIVE),
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Err(error));
            assert_eq!(date_from_binary(&sent.to_be_bytes()), Err(error));
            assert_eq!(
                rendered(date_text_from_binary, &sent.to_be_bytes()).as_deref(),
                Ok(text)
            );
        }
        for sent in [i32::MAX - 1, i32::MIN + 1, FIRST_DATE - 1, LAST_DATE + 1] {
            assert_eq!(date_from_binary(&sent.to_be_bytes()), Err(NOT_IN_RANGE));
        }
        assert!(date_from_binary(&[0; 8]).is_err());
        assert!(date_from_binary(&[]).is_err());
    }

    #[test]
    fn other_date_styles_are_refused_by_name() {
        for wrong in [
            "",
            "03/02/2024",
            "03.02.2024",
            "03-02-2024",
            "29/02/2024",
            "20240229",
            "2024-2-29",
            "24-02-29",
            "2024-02-29 ",
            " 2024-02-29",
            "-2024-02-29",
            "+2024-02-29",
            "02024-02-29",
            "2024-02-29 AD",
            "2024-02-29BC",
            "2024-02-29 bc",
            "2024-02-29 BC BC",
            "0000-01-01",
            "0000-01-01 BC",
            "Infinity",
            "INFINITY",
            "+infinity",
            "inf",
            "58748970-01-01",
            "2024-0a-01",
            "2024-01-0a",
            "2024:01:01",
            "20a4-01-01",
            "2024-02-29T00:00:00",
            "2024/02/29",
        ] {
            assert_eq!(date_from_text(wrong.as_bytes()), Err(NOT_A_DATE), "{wrong}");
        }
        assert!(NOT_A_DATE.to_string().contains("DateStyle"));
        for wrong in [
            "2023-02-29",
            "1900-02-29",
            "2024-02-30",
            "2024-04-31",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
        ] {
            assert_eq!(
                date_from_text(wrong.as_bytes()),
                Err(CellError::Malformed("a day of the calendar")),
                "{wrong}"
            );
        }
        assert_eq!(date_from_text(b"5874898-01-01"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"9999999-12-31"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"4714-11-23 BC"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"9999999-01-01 BC"), Err(NOT_IN_RANGE));
    }

    #[test]
    fn times_known_by_hand() {
        for (text, micros) in [
            ("00:00:00", 0),
            ("00:00:00.000001", 1),
            ("00:00:00.1", 100_000),
            ("00:00:00.01", 10_000),
            ("00:00:00.12345", 123_450),
            ("04:05:06.789", 14_706_789_000),
            ("23:59:59.999999", 86_399_999_999),
        ] {
            assert_eq!(time_from_text(text.as_bytes()), Ok(micros), "{text}");
            assert_eq!(time_from_binary(&micros.to_be_bytes()), Ok(micros));
            assert_eq!(
                rendered(time_text_from_binary, &micros.to_be_bytes()).as_deref(),
                Ok(text)
            );
        }
        assert_eq!(time_from_text(b"24:00:00"), Err(END));
        assert_eq!(time_from_binary(&MICROS_A_DAY.to_be_bytes()), Err(END));
        assert_eq!(
            rendered(time_text_from_binary, &MICROS_A_DAY.to_be_bytes()).as_deref(),
            Ok("24:00:00")
        );
        for wrong in [
            "",
            "0:00:00",
            "00:00",
            "00:00:0",
            "24:00:01",
            "24:00:00.000001",
            "24:00:00.0",
            "25:00:00",
            "23:60:00",
            "23:59:60",
            "00:00:00.",
            "00:00:00.0",
            "00:00:00.10",
            "00:00:00.100000",
            "00:00:00.1234567",
            "00:00:00.0000001",
            "00:00:00.12345678901234567890",
            "00:00:00.1a",
            "00:00:00,1",
            "00-00-00",
            "0a:00:00",
            "00:00:00 ",
            " 00:00:00",
            "00:00:00+00",
            "12:00:00 PM",
            "-00:00:01",
        ] {
            assert_eq!(time_from_text(wrong.as_bytes()), Err(NOT_A_TIME), "{wrong}");
        }
        for wrong in [-1, MICROS_A_DAY + 1, i64::MIN, i64::MAX] {
            assert!(matches!(
                time_from_binary(&wrong.to_be_bytes()),
                Err(CellError::Malformed(_))
            ));
            assert!(rendered(time_text_from_binary, &wrong.to_be_bytes()).is_err());
        }
        assert!(time_from_binary(&[0; 7]).is_err());
    }

    #[test]
    fn every_second_of_a_day_is_read_and_written() {
        for second in 0..86_400_i64 {
            let text = format!(
                "{:02}:{:02}:{:02}",
                second / 3600,
                second / 60 % 60,
                second % 60
            );
            let micros = second * 1_000_000;
            assert_eq!(time_from_text(text.as_bytes()), Ok(micros));
            assert_eq!(
                rendered(time_text_from_binary, &micros.to_be_bytes()),
                Ok(text)
            );
        }
    }

    #[test]
    fn timestamps_known_by_hand() {
        for (text, micros) in [
            ("1970-01-01 00:00:00", 0),
            ("1969-12-31 23:59:59.999999", -1),
            ("2000-01-01 00:00:00", 946_684_800_000_000),
            ("2024-02-29 12:30:00.5", 1_709_209_800_500_000),
            ("1999-12-31 23:59:59.999999", 946_684_799_999_999),
            ("4714-11-24 00:00:00 BC", -210_866_803_200_000_000),
            ("0001-12-31 23:59:59.25 BC", -62_135_596_800_750_000),
            ("10000-01-01 00:00:00", 253_402_300_800_000_000),
            ("294247-01-10 04:00:54.775807", i64::MAX),
        ] {
            let sent = (micros - 946_684_800_000_000).to_be_bytes();
            assert_eq!(timestamp_from_text(text.as_bytes()), Ok(micros), "{text}");
            assert_eq!(timestamp_from_binary(&sent), Ok(micros), "{text}");
            assert_eq!(
                rendered(timestamp_text_from_binary, &sent).as_deref(),
                Ok(text)
            );
            let zoned = match text.strip_suffix(" BC") {
                Some(text) => format!("{text}+00 BC"),
                None => format!("{text}+00"),
            };
            assert_eq!(
                timestamptz_from_text(zoned.as_bytes()),
                Ok(micros),
                "{zoned}"
            );
            assert_eq!(rendered(timestamptz_text_from_binary, &sent), Ok(zoned));
        }
    }

    #[test]
    fn timestamps_beyond_arrow_are_told_from_infinities_and_nonsense() {
        for (text, sent, error) in [
            ("infinity", i64::MAX, POSITIVE),
            ("-infinity", i64::MIN, NEGATIVE),
            (
                "294247-01-10 04:00:54.775808",
                i64::MAX - 946_684_799_999_999,
                OUT_OF_RANGE,
            ),
            ("294276-12-31 23:59:59.999999", LAST_TIMESTAMP, OUT_OF_RANGE),
        ] {
            assert_eq!(timestamp_from_text(text.as_bytes()), Err(error), "{text}");
            assert_eq!(
                timestamp_from_binary(&sent.to_be_bytes()),
                Err(error),
                "{text}"
            );
            assert_eq!(
                rendered(timestamp_text_from_binary, &sent.to_be_bytes()).as_deref(),
                Ok(text)
            );
        }
        assert_eq!(timestamptz_from_text(b"infinity"), Err(POSITIVE));
        assert_eq!(timestamptz_from_text(b"-infinity"), Err(NEGATIVE));
        for wrong in [
            "294277-01-01 00:00:00",
            "4714-11-23 23:59:59.999999 BC",
            "5874897-12-31 00:00:00",
        ] {
            assert_eq!(
                timestamp_from_text(wrong.as_bytes()),
                Err(NOT_IN_RANGE),
                "{wrong}"
            );
        }
        for wrong in [
            i64::MAX - 1,
            LAST_TIMESTAMP + 1,
            FIRST_TIMESTAMP - 1,
            i64::MIN + 1,
        ] {
            assert_eq!(
                timestamp_from_binary(&wrong.to_be_bytes()),
                Err(NOT_IN_RANGE)
            );
            assert_eq!(
                rendered(timestamp_text_from_binary, &wrong.to_be_bytes()),
                Err(NOT_IN_RANGE)
            );
        }
        assert!(timestamp_from_binary(&[0; 4]).is_err());
    }

    #[test]
    fn offsets_lead_to_utc() {
        for (text, micros) in [
            ("2024-02-29 17:30:00.5+05:30", 1_709_208_000_500_000),
            ("2024-02-29 12:00:00.5+00", 1_709_208_000_500_000),
            ("2024-02-29 04:00:00.5-08", 1_709_208_000_500_000),
            ("1970-01-01 15:59:59+15:59:59", 0),
            ("1900-01-01 00:00:00-00:43:08", -2_208_986_212_000_000),
            ("1970-01-01 00:00:00.000001+00:00:01", -999_999),
            ("0001-01-01 00:00:00+01", -62_135_600_400_000_000),
            ("0001-12-31 23:00:00-01 BC", -62_135_596_800_000_000),
            ("4714-11-23 12:00:00-12 BC", -210_866_803_200_000_000),
        ] {
            assert_eq!(timestamptz_from_text(text.as_bytes()), Ok(micros), "{text}");
        }
        assert_eq!(
            timestamptz_from_text(b"294277-01-01 13:59:59+14"),
            Err(OUT_OF_RANGE)
        );
        assert_eq!(
            timestamptz_from_text(b"294277-01-01 14:00:00+14"),
            Err(NOT_IN_RANGE)
        );
        assert_eq!(
            timestamptz_from_text(b"4714-11-23 11:59:59-12 BC"),
            Err(NOT_IN_RANGE)
        );
        for wrong in [
            "",
            "+0",
            "-00",
            "+00:00",
            "+05:00",
            "+05:30:00",
            "+00:00:00",
            "+16",
            "+15:60",
            "+00:00:60",
            "+5:30",
            "+0530",
            "05:30",
            "Z",
            " +00",
            "+00 ",
            "+a0",
            "+00:",
            "+00:30:",
            "+00:30:00:01",
            " UTC",
            "--1",
        ] {
            let text = format!("2024-02-29 00:00:00{wrong}");
            assert_eq!(
                timestamptz_from_text(text.as_bytes()),
                Err(NOT_A_TIMESTAMP),
                "{text}"
            );
        }
    }

    #[test]
    fn other_timestamp_shapes_are_refused() {
        for wrong in [
            "",
            "29/02/2024 17:30:00",
            "29/02/2024 17:30:00 IST",
            "02/29/2024 12:00:00",
            "29.02.2024 12:00:00",
            "Thu Feb 29 12:00:00 2024",
            "2024-02-29",
            "2024-02-29T12:00:00",
            "2024-02-29 12:00",
            "2024-02-29 24:00:00",
            "2024-02-29 12:00:00+00",
            "2024-02-29 12:00:00.",
            "2024-02-29 12:00:00.50",
            "2024-02-29  12:00:00",
            "2024-02-29 12:00:00 ",
            "0000-01-01 00:00:00",
            "2024-02-29 12:00:00BC",
            "Infinity",
            " BC",
        ] {
            assert_eq!(
                timestamp_from_text(wrong.as_bytes()),
                Err(NOT_A_TIMESTAMP),
                "{wrong}"
            );
        }
        for wrong in [
            "2023-02-29 00:00:00",
            "2024-13-01 00:00:00",
            "12024-02-30 00:00:00",
            "2024-01-32 00:00:00",
        ] {
            assert_eq!(
                timestamp_from_text(wrong.as_bytes()),
                Err(CellError::Malformed("a day of the calendar")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn offsets_have_hours_and_minutes_where_all_are_to_look_alike() {
        for (text, even) in [
            ("04:05:06.789+00", "04:05:06.789+00:00"),
            ("04:05:06-08", "04:05:06-08:00"),
            ("00:00:00+05:30", "00:00:00+05:30"),
            ("24:00:00-15:59:59", "24:00:00-15:59:59"),
            ("12:00:00+01:00:01", "12:00:00+01:00:01"),
        ] {
            let mut out = Vec::new();
            timetz_to_even_text(timetz_from_text(text.as_bytes()).unwrap(), &mut out);
            assert_eq!(out, even.as_bytes());
        }
    }

    #[test]
    fn times_with_offsets_keep_both() {
        for (text, time_us, offset_s) in [
            ("04:05:06.789+00", 14_706_789_000, 0),
            ("04:05:06-08", 14_706_000_000, -28_800),
            ("00:00:00+05:30", 0, 19_800),
            ("24:00:00-15:59:59", MICROS_A_DAY, -57_599),
            ("12:00:00-00:43:08", 43_200_000_000, -2_588),
            ("12:00:00+01:00:01", 43_200_000_000, 3_601),
        ] {
            let expected = Ok(TimeTzValue { time_us, offset_s });
            let mut sent = time_us.to_be_bytes().to_vec();
            sent.extend_from_slice(&(-offset_s).to_be_bytes());
            assert_eq!(timetz_from_text(text.as_bytes()), expected, "{text}");
            assert_eq!(timetz_from_binary(&sent), expected, "{text}");
            assert_eq!(
                rendered(timetz_text_from_binary, &sent).as_deref(),
                Ok(text)
            );
        }
        for wrong in [
            "",
            "12:00:00",
            "12:00:00+16",
            "24:00:00.1+00",
            "24:00:01+00",
            "12:00:00 +00",
            "12:00:00-00",
        ] {
            assert_eq!(
                timetz_from_text(wrong.as_bytes()),
                Err(NOT_A_TIMETZ),
                "{wrong}"
            );
        }
        for offset in [57_600, -57_600, i32::MIN, i32::MAX] {
            let mut sent = 0_i64.to_be_bytes().to_vec();
            sent.extend_from_slice(&offset.to_be_bytes());
            assert!(timetz_from_binary(&sent).is_err());
        }
        for length in [0, 4, 8, 11, 13, 16] {
            assert!(timetz_from_binary(&vec![0; length]).is_err());
        }
    }

    fn moments() -> impl Strategy<Value = i64> {
        prop_oneof![
            FIRST_TIMESTAMP..=LAST_TIMESTAMP,
            -63_082_281_600_000_000..252_455_616_000_000_000_i64,
            (-80_000_000_000..90_000_000_000_i64).prop_map(|hundredths| hundredths * 10_000),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_of_a_timestamp_agree(micros in moments()) {
            let sent = micros.to_be_bytes();
            let expected = micros.checked_add(946_684_800_000_000).ok_or(OUT_OF_RANGE);
            prop_assert_eq!(timestamp_from_binary(&sent), expected);
            let text = rendered(timestamp_text_from_binary, &sent).unwrap();
            prop_assert_eq!(timestamp_from_text(text.as_bytes()), expected);
            let text = rendered(timestamptz_text_from_binary, &sent).unwrap();
            prop_assert_eq!(timestamptz_from_text(text.as_bytes()), expected);
        }

        #[test]
        fn both_forms_of_a_date_agree(days in FIRST_DATE..=LAST_DATE) {
            let sent = days.to_be_bytes();
            prop_assert_eq!(date_from_binary(&sent), Ok(days + 10_957));
            let text = rendered(date_text_from_binary, &sent).unwrap();
            prop_assert_eq!(date_from_text(text.as_bytes()), Ok(days + 10_957));
            let start = slow_year_start(civil(i64::from(days) + 10_957).0);
            prop_assert!((0..366).contains(&(i64::from(days) + 10_957 - start)));
        }

        #[test]
        fn both_forms_of_a_time_agree(time_us in 0..=MICROS_A_DAY, offset_s in -57_599..=57_599_i32) {
            let text = rendered(time_text_from_binary, &time_us.to_be_bytes()).unwrap();
            prop_assert_eq!(time_from_text(text.as_bytes()), time_from_binary(&time_us.to_be_bytes()));
            let mut sent = time_us.to_be_bytes().to_vec();
            sent.extend_from_slice(&(-offset_s).to_be_bytes());
            let text = rendered(timetz_text_from_binary, &sent).unwrap();
            prop_assert_eq!(timetz_from_text(text.as_bytes()), Ok(TimeTzValue { time_us, offset_s }));
            prop_assert_eq!(timetz_from_binary(&sent), Ok(TimeTzValue { time_us, offset_s }));
        }

        #[test]
        fn an_offset_moves_the_moment(micros in -10_000_000_000_000_000..10_000_000_000_000_000_i64, offset_s in -57_599..=57_599_i32) {
            let shifted = (micros + i64::from(offset_s) * 1_000_000).to_be_bytes();
            let mut text = rendered(timestamp_text_from_binary, &shifted).unwrap().into_bytes();
            let mut zone = Vec::new();
            timetz_to_text(TimeTzValue { time_us: 0, offset_s }, &mut zone);
            text.extend_from_slice(zone.strip_prefix(b"00:00:00").unwrap());
            prop_assert_eq!(timestamptz_from_text(&text), Ok(micros + 946_684_800_000_000));
        }

        #[test]
        fn accepted_text_is_the_text_of_its_value(near in "[0-9]{4,6}-[01][0-9]-[0-3][0-9] [0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,8})?( BC)?") {
            if let Ok(micros) = timestamp_from_text(near.as_bytes()) {
                let sent = (micros - 946_684_800_000_000).to_be_bytes();
                prop_assert_eq!(rendered(timestamp_text_from_binary, &sent), Ok(near));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[-0-9]{4,12} ?[0-9:]{0,9}[.0-9]{0,9}[-+:0-9]{0,10}( BC)?",
        ) {
            for cell in [&cell[..], near.as_bytes(), cell.get(..8).unwrap_or(&cell), cell.get(..12).unwrap_or(&cell)] {
                let _ = (date_from_text(cell), time_from_text(cell), timetz_from_text(cell));
                let _ = (timestamp_from_text(cell), timestamptz_from_text(cell));
                let _ = (date_from_binary(cell), time_from_binary(cell), timetz_from_binary(cell));
                let _ = timestamp_from_binary(cell);
                let renders: [Render; 5] = [
                    date_text_from_binary,
                    time_text_from_binary,
                    timestamp_text_from_binary,
                    timestamptz_text_from_binary,
                    timetz_text_from_binary,
                ];
                for render in renders {
                    let _ = rendered(render, cell);
                }
            }
        }
    }
}
