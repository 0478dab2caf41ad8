//! `interval`: “Date/Time Types”. Months, days and microseconds are never carried into each other.
//!
//! ```text
//! text    1 year 2 mons -3 days +04:05:06.789     IntervalStyle postgres, the pinned setting
//! binary  i64 microseconds | i32 days | i32 months; since PostgreSQL 17, all three at their limits are an infinity
//! ```

use crate::clock::{MICROS_A_MINUTE, MICROS_A_SECOND, MICROS_AN_HOUR, split_fraction};
use crate::digits::decimal_digits;
use crate::error::{CellError, NOT_AN_INTERVAL, Unrepresentable};
use crate::interval_value::{IntervalValue, interval_to_text};
use crate::pg_type::{PgType, copy_shaped, known, scalar, text_from_binary};

/// `interval`.
#[derive(Clone, Copy, Debug)]
pub struct Interval;

known!(Interval: INTERVAL;);
scalar!(Interval => IntervalValue: interval_from_text, interval_from_binary);

impl PgType for Interval {
    text_from_binary!(interval_text_from_binary);

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        copy_shaped(interval_from_text(cell), cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

/// Parses an `interval` of the style `postgres`.
fn interval_from_text(cell: &[u8]) -> Result<IntervalValue, CellError> {
    match cell {
        b"infinity" => Err(Unrepresentable::PositiveInfinity.into()),
        b"-infinity" => Err(Unrepresentable::NegativeInfinity.into()),
        _ => postgres(cell).ok_or(NOT_AN_INTERVAL),
    }
}

/// Parses the binary form of an `interval`.
fn interval_from_binary(cell: &[u8]) -> Result<IntervalValue, CellError> {
    match read(cell)? {
        POSITIVE_INFINITY => Err(Unrepresentable::PositiveInfinity.into()),
        NEGATIVE_INFINITY => Err(Unrepresentable::NegativeInfinity.into()),
        interval => Ok(interval),
    }
}

/// Appends the text of a binary `interval` in the style `postgres`.
fn interval_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match read(cell)? {
        POSITIVE_INFINITY => out.extend_from_slice(b"infinity"),
        NEGATIVE_INFINITY => out.extend_from_slice(b"-infinity"),
        interval => interval_to_text(interval, out),
    }
    Ok(())
}

fn read(cell: &[u8]) -> Result<IntervalValue, CellError> {
    let [
        u7,
        u6,
        u5,
        u4,
        u3,
        u2,
        u1,
        u0,
        d3,
        d2,
        d1,
        d0,
        m3,
        m2,
        m1,
        m0,
    ] = *cell
    else {
        return Err(CellError::Malformed("16 bytes"));
    };
    Ok(IntervalValue {
        months: i32::from_be_bytes([m3, m2, m1, m0]),
        days: i32::from_be_bytes([d3, d2, d1, d0]),
        micros: i64::from_be_bytes([u7, u6, u5, u4, u3, u2, u1, u0]),
    })
}

/// The sum of the parts read so far, checked as it grows.
#[derive(Default)]
struct Sum {
    years: i64,
    months: i64,
    days: i64,
    micros: i64,
}

impl Sum {
    /// Adds a part of `unit` microseconds; `count` has no sign.
    fn add_micros(&mut self, negative: bool, count: u64, unit: i64) -> Option<()> {
        let count = signed(negative, count)?;
        self.micros = self.micros.checked_add(count.checked_mul(unit)?)?;
        Some(())
    }

    fn finish(self) -> Option<IntervalValue> {
        let months = self.years.checked_mul(12)?.checked_add(self.months)?;
        Some(IntervalValue {
            months: i32::try_from(months).ok()?,
            days: i32::try_from(self.days).ok()?,
            micros: self.micros,
        })
    }
}

fn signed(negative: bool, count: u64) -> Option<i64> {
    if negative {
        0_i64.checked_sub_unsigned(count)
    } else {
        i64::try_from(count).ok()
    }
}

/// Digits in front, and what follows them.
fn split_digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    text.split_at_checked(length)
}

/// `[N year[s]] [N mon[s]] [N day[s]] [HH:MM:SS[.f]]`, each with its own sign; a plus only after a minus.
fn postgres(cell: &[u8]) -> Option<IntervalValue> {
    let mut sum = Sum::default();
    let mut rest = cell;
    let mut after_minus = false;
    let mut last = None;
    loop {
        let (negative, plus, number) = match rest {
            [b'-', number @ ..] => (true, false, number),
            [b'+', number @ ..] => (false, true, number),
            _ => (false, false, rest),
        };
        if plus != (after_minus && !negative) {
            return None;
        }
        after_minus = negative;
        let (digits, after) = split_digits(number)?;
        let count = decimal_digits(digits)?;
        let unit = match after {
            [b':', ..] => {
                if digits.len() < 2 || (digits.len() > 2 && digits.starts_with(b"0")) {
                    return None;
                }
                let zero = clock(&mut sum, negative, count, after)?;
                if zero && (negative || last.is_some()) {
                    return None;
                }
                return sum.finish();
            }
            [b' ', unit @ ..] => unit,
            _ => return None,
        };
        if count == 0 || digits.starts_with(b"0") {
            return None;
        }
        let value = signed(negative, count)?;
        let (place, after) = if let Some(after) = unit.strip_prefix(b"year") {
            sum.years = value;
            (0, after)
        } else if let Some(after) = unit.strip_prefix(b"mon") {
            sum.months = Some(value).filter(|months| months.abs() < 12)?;
            (1, after)
        } else {
            sum.days = value;
            (2, unit.strip_prefix(b"day")?)
        };
        if last.replace(place).is_some_and(|last| last >= place) {
            return None;
        }
        let after = if value == 1 {
            after
        } else {
            after.strip_prefix(b"s")?
        };
        match after {
            [] => return sum.finish(),
            [b' ', next @ ..] => rest = next,
            _ => return None,
        }
    }
}

/// Adds the hours and `:MM:SS[.f]`. Returns whether all of it is zero.
fn clock(sum: &mut Sum, negative: bool, hours: u64, rest: &[u8]) -> Option<bool> {
    let (&[b':', m1, m0, b':', s1, s0], fraction) = rest.split_first_chunk::<6>()? else {
        return None;
    };
    let minutes = decimal_digits(&[m1, m0]).filter(|minutes| *minutes < 60)?;
    let seconds = decimal_digits(&[s1, s0]).filter(|seconds| *seconds < 60)?;
    let micros = fraction_micros(fraction)?;
    sum.add_micros(negative, hours, MICROS_AN_HOUR)?;
    sum.add_micros(negative, minutes, MICROS_A_MINUTE)?;
    sum.add_micros(negative, seconds, MICROS_A_SECOND)?;
    sum.add_micros(negative, micros, 1)?;
    Some(hours == 0 && minutes == 0 && seconds == 0 && micros == 0)
}

/// Nothing, or a point and the digits after it.
fn fraction_micros(text: &[u8]) -> Option<u64> {
    match text {
        [] => Some(0),
        [b'.', fraction @ ..] => match split_fraction(fraction)? {
            (micros, []) => u64::try_from(micros).ok(),
            _ => None,
        },
        _ => None,
    }
}

const POSITIVE_INFINITY: IntervalValue = IntervalValue {
    months: i32::MAX,
    days: i32::MAX,
    micros: i64::MAX,
};

const NEGATIVE_INFINITY: IntervalValue = IntervalValue {
    months: i32::MIN,
    days: i32::MIN,
    micros: i64::MIN,
};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Style;

    const fn interval(months: i32, days: i32, micros: i64) -> IntervalValue {
        IntervalValue {
            months,
            days,
            micros,
        }
    }

    fn sent(interval: IntervalValue) -> Vec<u8> {
        let mut cell = interval.micros.to_be_bytes().to_vec();
        cell.extend_from_slice(&interval.days.to_be_bytes());
        cell.extend_from_slice(&interval.months.to_be_bytes());
        cell
    }

    fn text(cell: &[u8]) -> Result<String, CellError> {
        let mut out = b"before".to_vec();
        interval_text_from_binary(cell, &mut out)
            .map(|()| String::from_utf8(out.split_off(6)).unwrap())
    }

    #[test]
    fn one_style_is_read_and_written() {
        for (expected, value) in [
            (
                "1 year 2 mons -3 days +04:05:06.789",
                interval(14, -3, 14_706_789_000),
            ),
            ("00:00:00", interval(0, 0, 0)),
            ("-00:00:00.000001", interval(0, 0, -1)),
            ("-1 years", interval(-12, 0, 0)),
            ("1 mon -1 days", interval(1, -1, 0)),
            ("1 mon -1 days +02:00:00", interval(1, -1, 7_200_000_000)),
            ("-1 mons +2 days", interval(-1, 2, 0)),
            ("-1 years -1 mons", interval(-13, 0, 0)),
            ("1 day", interval(0, 1, 0)),
            ("2562047788:00:54.775807", interval(0, 0, i64::MAX)),
            ("-2562047788:00:54.775808", interval(0, 0, i64::MIN)),
            ("178000000 years", interval(2_136_000_000, 0, 0)),
            ("-178956970 years -8 mons", interval(i32::MIN, 0, 0)),
            ("-1 days -100:00:00.5", interval(0, -1, -360_000_500_000)),
            ("1 year 1 mon 1 day 00:00:01", interval(13, 1, 1_000_000)),
        ] {
            assert_eq!(
                interval_from_text(expected.as_bytes()),
                Ok(value),
                "{expected}"
            );
            assert_eq!(interval_from_binary(&sent(value)), Ok(value));
            assert_eq!(text(&sent(value)).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn infinities_are_no_values() {
        for (name, value, reason) in [
            (
                "infinity",
                POSITIVE_INFINITY,
                Unrepresentable::PositiveInfinity,
            ),
            (
                "-infinity",
                NEGATIVE_INFINITY,
                Unrepresentable::NegativeInfinity,
            ),
        ] {
            assert_eq!(interval_from_text(name.as_bytes()), Err(reason.into()));
            assert_eq!(interval_from_binary(&sent(value)), Err(reason.into()));
            assert_eq!(text(&sent(value)).as_deref(), Ok(name));
        }
    }

    #[test]
    fn other_styles_and_shapes_are_refused() {
        for wrong in [
            "",
            "0",
            "+1-2 -3 +4:05:06.789",
            "-0:00:00.000001",
            "1 0:00:00",
            "-1-0",
            "@ 0",
            "@ 1 year 2 mons -3 days 4 hours 5 mins 6.789 secs",
            "@ 1 year ago",
            "1 years",
            "2 year",
            "-1 year",
            "0 years",
            "01 year",
            "1 mon 1 year",
            "1 year 1 year",
            "12 mons",
            "1 day 00:00:00",
            "-00:00:00",
            "+00:00:01",
            "-1 days 00:00:01",
            "1 day +00:00:01",
            "1 day ",
            " 1 day",
            "1 week",
            "1:00:00",
            "010:00:00",
            "00:60:00",
            "00:00:60",
            "00:00:00.0",
            "00:00:01.50",
            "00:00:01.1234567",
            "00:00:01 1 day",
            "2562047788:00:54.775808",
            "-2562047788:00:54.775809",
            "178956970 years 8 mons",
            "2147483648 days",
            "P1Y2M-3DT4H5M6.789S",
            "PT0S",
            "P",
            "Infinity",
        ] {
            assert_eq!(
                interval_from_text(wrong.as_bytes()),
                Err(NOT_AN_INTERVAL),
                "{wrong}"
            );
        }
        assert_eq!(NOT_AN_INTERVAL.style(), Some(Style::Interval));
        for length in (0..20).filter(|length| *length != 16) {
            assert!(interval_from_binary(&vec![0; length]).is_err());
            assert!(text(&vec![0; length]).is_err());
        }
    }

    proptest! {
        #[test]
        fn both_forms_agree(months: i32, days: i32, micros: i64, shift in 0..64_u32, kept in 0..8_u8) {
            let keep = |bit: u8| kept & bit != 0;
            let value = interval(
                if keep(1) { months >> (shift % 32) } else { 0 },
                if keep(2) { days >> (shift % 32) } else { 0 },
                if keep(4) { micros >> shift } else { 0 },
            );
            prop_assert_eq!(interval_from_binary(&sent(value)), Ok(value));
            let shown = text(&sent(value)).unwrap();
            prop_assert_eq!(interval_from_text(shown.as_bytes()), Ok(value));
        }

        #[test]
        fn accepted_text_is_the_text_of_its_value(
            near in "([-+]?[1-9]?[0-9] (year|mon|day)s? ?){0,3}([-+]?[0-9]{1,3}:[0-9]{2}:[0-9]{2}(\\.[0-9]{0,7})?)?",
        ) {
            if let Ok(value) = interval_from_text(near.as_bytes()) {
                let shown = text(&sent(value)).unwrap();
                // The server writes the sum of years and months, which have the same sign.
                let mixed = near.contains("year") && near.contains("mon");
                prop_assert!(mixed || shown == near);
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "P?T?([-+]?[0-9.:]{0,21} ?[YMDTHSyearmonday]{0,4} ?){0,5}") {
            for cell in [&cell[..], near.as_bytes(), cell.get(..16).unwrap_or(&cell)] {
                let _ = (interval_from_text(cell), interval_from_binary(cell), text(cell));
            }
        }
    }
}
