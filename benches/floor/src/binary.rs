//! The binary form of some types.

use crate::array;

/// Days from 1970 to 2000, where PostgreSQL counts from.
const EPOCH_DAYS: i32 = 10_957;

pub(crate) fn date(cell: &[u8]) -> i32 {
    i32::from_be_bytes(array(cell)) + EPOCH_DAYS
}

pub(crate) fn micros(cell: &[u8]) -> i64 {
    i64::from_be_bytes(array(cell)) + i64::from(EPOCH_DAYS) * 86_400_000_000
}

/// A `numeric` with the scale that it is sent with, unscaled.
pub(crate) fn decimal(cell: &[u8]) -> i128 {
    let (words, _) = cell.as_chunks::<2>();
    let [count, weight, sign, scale, digits @ ..] = words else {
        panic!("a numeric without a head");
    };
    let mut value = 0_i128;
    for digit in digits {
        value = value * 10_000 + i128::from(u16::from_be_bytes(*digit));
    }
    // Digits of base 10,000 that are missing after the last one, and decimal ones after the point.
    let missing =
        i32::from(i16::from_be_bytes(*weight)) + 1 - i32::from(u16::from_be_bytes(*count));
    let power = missing * 4 + i32::from(u16::from_be_bytes(*scale));
    let factor = 10_i128.pow(power.unsigned_abs());
    value = if power < 0 {
        value / factor
    } else {
        value * factor
    };
    if u16::from_be_bytes(*sign) == 0x4000 {
        -value
    } else {
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_right() {
        // numeric_send of -12.30 and of 120000.00.
        let head = |words: [u16; 4]| words.map(u16::to_be_bytes).concat();
        let mut cell = head([2, 0, 0x4000, 2]);
        cell.extend([0, 12, 11, 184]);
        assert_eq!(decimal(&cell), -1_230);
        let mut cell = head([1, 1, 0, 2]);
        cell.extend([0, 12]);
        assert_eq!(decimal(&cell), 12_000_000);
        assert_eq!(decimal(&head([0, 0, 0, 2])), 0);
        assert_eq!(date(&(-10_957_i32).to_be_bytes()), 0);
        assert_eq!(micros(&0_i64.to_be_bytes()), 946_684_800_000_000);
    }
}
