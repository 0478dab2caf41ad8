//! Times of a day, and offsets from UTC, in ISO text.

use crate::digits::{eight_digits, pairs, two_digits, write_padded};

/// `HH:MM:SS[.f]`, and what follows it.
#[expect(clippy::inline_always, reason = "as `fixed_date`")]
#[inline(always)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "hours, minutes and seconds are less than a day"
)]
pub(crate) fn clock(cell: &[u8]) -> Option<(i64, &[u8])> {
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

/// One to six digits as microseconds, and what follows them. The last digit is not 0.
#[inline]
#[expect(clippy::arithmetic_side_effects, reason = "at most six digits")]
pub(crate) fn split_fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    if let Some((&[a, b, c, d, e, f], rest)) = text.split_first_chunk::<6>()
        && let Some(micros) = eight_digits([b'0', b'0', a, b, c, d, e, f])
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

/// `+-HH[:MM[:SS]]` in seconds east of UTC. The server leaves out minutes and seconds of 0 at the end.
pub(crate) fn offset_seconds(text: &[u8]) -> Option<i32> {
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

/// Appends a time of day as the server writes it, up to 24:00:00.
pub(crate) fn time_to_text(time_us: i64, out: &mut Vec<u8>) {
    let (seconds, micros) = (
        time_us.div_euclid(MICROS_A_SECOND),
        time_us.rem_euclid(MICROS_A_SECOND),
    );
    write_clock(seconds, out);
    write_fraction(micros, out);
}

/// Appends a point and microseconds without trailing zeros; nothing for 0 microseconds.
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

pub(crate) fn write_clock(seconds: i64, out: &mut Vec<u8>) {
    write_padded(seconds / 3600, 2, out);
    out.push(b':');
    write_padded(seconds / 60 % 60, 2, out);
    out.push(b':');
    write_padded(seconds % 60, 2, out);
}

pub(crate) const END_OF_DAY: &[u8] = b"24:00:00";
pub(crate) const MICROS_A_SECOND: i64 = 1_000_000;
pub(crate) const MICROS_A_MINUTE: i64 = 60 * MICROS_A_SECOND;
pub(crate) const MICROS_AN_HOUR: i64 = 60 * MICROS_A_MINUTE;
pub(crate) const MICROS_A_DAY: i64 = 86_400_000_000;
const TIME_SHAPE: u64 = u64::from_le_bytes(*b"00:00:00");
const TIME_DIGITS: u64 = u64::from_le_bytes(*b"vv\x7fvv\x7fvv");
