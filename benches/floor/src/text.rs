//! The text form of some types.

use std::str::FromStr;

#[inline]
pub(crate) fn integer(digits: &[u8]) -> i64 {
    let (negative, digits) = match digits {
        [b'-', rest @ ..] => (true, rest),
        digits => (false, digits),
    };
    let mut value = 0_i64;
    for digit in digits {
        value = value
            .wrapping_mul(10)
            .wrapping_add(i64::from(digit.wrapping_sub(b'0')));
    }
    if negative {
        value.wrapping_neg()
    } else {
        value
    }
}

pub(crate) fn float<T: FromStr + Default>(text: &[u8]) -> T {
    let text = str::from_utf8(text).ok();
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

pub(crate) fn decimal(text: &[u8]) -> i128 {
    let mut value = 0_i128;
    for byte in text {
        if byte.is_ascii_digit() {
            value = value * 10 + i128::from(byte - b'0');
        }
    }
    if text.first() == Some(&b'-') {
        -value
    } else {
        value
    }
}

#[inline]
fn two<const N: usize>(digits: &[u8; N], at: usize) -> i64 {
    i64::from(digits[at].wrapping_sub(b'0')) * 10 + i64::from(digits[at + 1].wrapping_sub(b'0'))
}

/// Days since 1970 of `2024-05-17`.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    reason = "years have four digits here"
)]
pub(crate) fn date<const N: usize>(text: &[u8; N]) -> i32 {
    let year = two(text, 0) * 100 + two(text, 2);
    let (month, day) = (two(text, 5), two(text, 8));
    // Years from March, so that the leap day is the last one.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 1;
    (days - 719_468) as i32
}

/// Microseconds since 1970 of `2024-05-17 12:34:56.789`, with or without a zone of `+00`.
#[inline]
pub(crate) fn micros(text: &[u8]) -> i64 {
    let Some((day, clock)) = text.split_first_chunk::<11>() else {
        return 0;
    };
    i64::from(date(day)) * 86_400_000_000 + time(clock)
}

/// Microseconds since midnight of `12:34:56.789`.
#[inline]
pub(crate) fn time(text: &[u8]) -> i64 {
    let Some((text, rest)) = text.split_first_chunk::<8>() else {
        return 0;
    };
    let seconds = two(text, 0) * 3_600 + two(text, 3) * 60 + two(text, 6);
    let (mut fraction, mut digits) = (0, 0);
    if let [b'.', rest @ ..] = rest {
        for digit in rest.iter().take_while(|byte| byte.is_ascii_digit()) {
            fraction = fraction * 10 + i64::from(digit - b'0');
            digits += 1;
        }
    }
    let scale = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1][digits];
    seconds * 1_000_000 + fraction * scale
}

pub(crate) fn uuid(text: &[u8]) -> u128 {
    let mut value = 0;
    for byte in text {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            _ => continue,
        };
        value = value << 4 | u128::from(digit);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_right() {
        assert_eq!(integer(b"-2147483648"), -2_147_483_648);
        assert_eq!(decimal(b"-12.30"), -1_230);
        assert_eq!(date(b"1970-01-01"), 0);
        assert_eq!(date(b"2024-02-29"), 19_782);
        assert_eq!(time(b"00:01:00.25"), 60_250_000);
        assert_eq!(micros(b"1970-01-02 00:00:01.5"), 86_401_500_000);
        assert_eq!(micros(b"1969-12-31 23:59:59.999999+00"), -1);
        assert_eq!(
            uuid(b"00000000-0000-4000-8000-0000000000ff"),
            0x4000_8000_0000_0000_00ff
        );
    }
}
