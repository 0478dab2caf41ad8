//! A finite interval, and its text in the style `postgres`.

use crate::clock::{write_clock, write_fraction};
use crate::digits::write_decimal;

/// A finite interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntervalValue {
    /// Months.
    pub months: i32,
    /// Days.
    pub days: i32,
    /// Microseconds.
    pub micros: i64,
}

/// Appends the text of an interval in the style `postgres`.
pub(crate) fn interval_to_text(interval: IntervalValue, out: &mut Vec<u8>) {
    let start = out.len();
    let mut after_minus = false;
    let parts = [
        (interval.months / 12, &b" year"[..]),
        (interval.months % 12, b" mon"),
        (interval.days, b" day"),
    ];
    for (value, unit) in parts {
        if value == 0 {
            continue;
        }
        if out.len() > start {
            out.push(b' ');
        }
        if after_minus && value > 0 {
            out.push(b'+');
        }
        after_minus = value < 0;
        write_decimal(value, out);
        out.extend_from_slice(unit);
        if value != 1 {
            out.push(b's');
        }
    }
    if interval.micros == 0 && out.len() > start {
        return;
    }
    if out.len() > start {
        out.push(b' ');
    }
    if interval.micros < 0 {
        out.push(b'-');
    } else if after_minus {
        out.push(b'+');
    }
    let micros = interval.micros.unsigned_abs();
    let seconds = i64::try_from(micros / 1_000_000).unwrap_or(i64::MAX);
    write_clock(seconds, out);
    write_fraction(i64::try_from(micros % 1_000_000).unwrap_or(0), out);
}
