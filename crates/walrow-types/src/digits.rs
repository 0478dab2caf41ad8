//! Decimal digits: reading them eight at a time, and writing them.
//!
//! The digits are the bytes of one word, and three multiplications add them up.

use std::io::Write as _;

/// The value of 1 to 19 digits, with or without leading zeros.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "19 digits are less than 2^64"
)]
pub(crate) fn decimal_digits(digits: &[u8]) -> Option<u64> {
    match digits.as_chunks::<8>() {
        ([], _) | ([_], []) => short_digits(digits),
        ([a], tail) => Some(eight_digits(*a)? * power_of_ten(tail.len())? + short_digits(tail)?),
        ([a, b], []) => Some(eight_digits(*a)? * 100_000_000 + eight_digits(*b)?),
        ([a, b], tail) if tail.len() <= 3 => {
            let head = eight_digits(*a)? * 100_000_000 + eight_digits(*b)?;
            Some(head * power_of_ten(tail.len())? + short_digits(tail)?)
        }
        _ => None,
    }
}

/// The value of eight digits.
#[inline]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "each lane holds what its digits can reach"
)]
pub(crate) fn eight_digits(digits: [u8; 8]) -> Option<u64> {
    let lanes = u64::from_le_bytes(digits) ^ ZEROS;
    // A digit leaves 0 to 9 in its lane, and 0x76 more than 9 reaches the top bit.
    if (lanes.wrapping_add(0x7676_7676_7676_7676) | lanes) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    let pairs = (lanes * 10 + (lanes >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs * 100 + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    Some((fours * 10_000 + (fours >> 32)) & 0xffff_ffff)
}

/// The value of 1 to 8 digits. It has no call: `decimal_digits` is for any number of digits.
#[expect(
    clippy::inline_always,
    reason = "most cells of most tables are short numbers, and a call takes as long as their digits"
)]
#[inline(always)]
#[expect(
    clippy::arithmetic_side_effects,
    reason = "three digits are less than 2^64, and shifts are at most 56 bits"
)]
pub(crate) fn short_digits(digits: &[u8]) -> Option<u64> {
    let digit = |byte: u8| Some(u64::from(byte.wrapping_sub(b'0'))).filter(|it| *it <= 9);
    if let [a] = *digits {
        return digit(a);
    }
    // Both loads see the digits in the middle; or-ing the same bits twice changes nothing.
    if let (Some(head), Some(tail)) = (digits.first_chunk(), digits.last_chunk()) {
        let bits = u32::try_from(digits.len()).ok().filter(|it| *it <= 8)? * 8;
        let head = u64::from(u32::from_le_bytes(*head));
        let tail = u64::from(u32::from_le_bytes(*tail)) << (bits - 32);
        let zeros = (ZEROS >> 8) >> (bits - 8);
        return eight_digits(((head | tail) << (64 - bits) | zeros).to_le_bytes());
    }
    match *digits {
        [a, b] => Some(digit(a)? * 10 + digit(b)?),
        [a, b, c] => Some(digit(a)? * 100 + digit(b)? * 10 + digit(c)?),
        _ => None,
    }
}

#[inline]
fn power_of_ten(exponent: usize) -> Option<u64> {
    const POWERS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    POWERS.get(exponent).copied()
}

/// Reads pairs of digits in eight characters of the given shape. The place of a pair's first digit gets its value.
#[inline]
pub(crate) fn pairs(text: [u8; 8], shape: u64, digits: u64) -> Option<[u8; 8]> {
    // Digits leave their value in their lane and separators 0; adding `digits` sets the top bit of any larger lane.
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
pub(crate) fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let (tens, ones) = (tens.wrapping_sub(b'0'), ones.wrapping_sub(b'0'));
    if tens > 9 || ones > 9 {
        None
    } else {
        Some(tens.wrapping_mul(10).wrapping_add(ones))
    }
}

/// Appends a number. Faster than std, which looks for formatting options.
#[inline]
pub(crate) fn write_decimal(number: impl Into<i128>, out: &mut Vec<u8>) {
    let number = number.into();
    if number < 0 {
        out.push(b'-');
    }
    let Ok(mut left) = u64::try_from(number.unsigned_abs()) else {
        // Writing to a vector cannot fail.
        let _ = write!(out, "{}", number.unsigned_abs());
        return;
    };
    let mut digits = [0; 20];
    let mut start = digits.len();
    for place in digits.iter_mut().rev() {
        *place = b'0' | (left % 10).to_le_bytes()[0];
        left /= 10;
        start = start.saturating_sub(1);
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(digits.get(start..).unwrap_or_default());
}

/// Appends a number that is not negative, padded with zeros to a length.
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

const ZEROS: u64 = u64::from_le_bytes(*b"00000000");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_std_writes_them() {
        fn check(number: i128) {
            let mut out = b"before".to_vec();
            write_decimal(number, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), format!("before{number}"));
        }
        for exponent in 0..=38 {
            let power = 10_i128.pow(exponent);
            for number in [power - 1, power, power + 1] {
                check(number);
                check(-number);
            }
        }
        for bits in 0..127 {
            check(1 << bits);
            check((1 << bits) - 1);
            check(-1 << bits);
        }
        check(i128::MIN);
        check(i128::MAX);
    }
}
