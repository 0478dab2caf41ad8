//! `smallint`, `integer`, `bigint`, and the unsigned `oid`, `xid`, `cid`, `xid8` and `oid8`: “Numeric
//! Types”, “Object Identifier Types”.
//!
//! ```text
//! text    -32768     digits without leading zeros, after a minus if negative
//! binary  2, 4 or 8 bytes
//! ```

use crate::digits::{decimal_digits, short_digits, write_decimal};
use crate::error::CellError;
use crate::numeric::Decimal128;
use crate::pg_type::{PgType, Scalar, known, scalar, text_from_binary};

/// `smallint`.
#[derive(Clone, Copy, Debug)]
pub struct Int2;

/// `integer`.
#[derive(Clone, Copy, Debug)]
pub struct Int4;

/// `bigint`.
#[derive(Clone, Copy, Debug)]
pub struct Int8;

/// `oid`, `xid` and `cid`: 32 bits without a sign.
#[derive(Clone, Copy, Debug)]
pub struct Oid;

/// `xid8` and `oid8`: 64 bits without a sign.
#[derive(Clone, Copy, Debug)]
pub struct Xid8;

known!(Int2: INT2;);
known!(Int4: INT4;);
known!(Int8: INT8;);
known!(Oid: OID, XID, CID;);
known!(Xid8: XID8, OID8;);
scalar!(Int2 => i16: i16_from_text, i16_from_binary, short: short_integer);
scalar!(Int4 => i32: i32_from_text, i32_from_binary, short: short_integer);
scalar!(Int8 => i64: i64_from_text, i64_from_binary, short: short_integer);
scalar!(Oid => u32: u32_from_text, u32_from_binary, short: short_integer);
scalar!(Xid8 => u64: u64_from_text, u64_from_binary);

/// An integer as a decimal: those of before a column became `numeric`.
#[derive(Clone, Copy, Debug)]
pub struct IntegerDecimal<T> {
    /// The reader of integers.
    pub integer: T,
    /// The decimal.
    pub decimal: Decimal128,
}

impl<T: Scalar<Value: Into<i128>>> Scalar for IntegerDecimal<T> {
    type Value = i128;

    fn text(&self, cell: &[u8]) -> Result<i128, CellError> {
        self.decimal.integer(self.integer.text(cell)?.into())
    }

    fn binary(&self, cell: &[u8]) -> Result<i128, CellError> {
        self.decimal.integer(self.integer.binary(cell)?.into())
    }
}

impl PgType for Int2 {
    text_from_binary!(|cell, out| {
        write_decimal(i16_from_binary(cell)?, out);
        Ok(())
    });
}

impl PgType for Int4 {
    text_from_binary!(|cell, out| {
        write_decimal(i32_from_binary(cell)?, out);
        Ok(())
    });
}

impl PgType for Int8 {
    text_from_binary!(|cell, out| {
        write_decimal(i64_from_binary(cell)?, out);
        Ok(())
    });
}

impl PgType for Oid {
    text_from_binary!(|cell, out| {
        write_decimal(u32_from_binary(cell)?, out);
        Ok(())
    });
}

impl PgType for Xid8 {
    text_from_binary!(|cell, out| {
        write_decimal(u64_from_binary(cell)?, out);
        Ok(())
    });
}

/// Parses a `smallint`.
#[inline]
fn i16_from_text(cell: &[u8]) -> Result<i16, CellError> {
    signed(cell)
        .and_then(|value| i16::try_from(value).ok())
        .ok_or(CellError::Malformed("an integer of 16 bits"))
}

/// Parses an `integer`.
#[inline]
pub(crate) fn i32_from_text(cell: &[u8]) -> Result<i32, CellError> {
    signed(cell)
        .and_then(|value| i32::try_from(value).ok())
        .ok_or(CellError::Malformed("an integer of 32 bits"))
}

/// Parses a `bigint`.
#[inline]
fn i64_from_text(cell: &[u8]) -> Result<i64, CellError> {
    signed(cell).ok_or(CellError::Malformed("an integer of 64 bits"))
}

/// Parses an `oid`, `xid` or `cid`.
#[inline]
fn u32_from_text(cell: &[u8]) -> Result<u32, CellError> {
    unsigned(cell)
        .and_then(|value| u32::try_from(value).ok())
        .ok_or(CellError::Malformed("an unsigned integer of 32 bits"))
}

/// Parses the offset within a block of a `tid`.
#[inline]
pub(crate) fn u16_from_text(cell: &[u8]) -> Result<u16, CellError> {
    unsigned(cell)
        .and_then(|value| u16::try_from(value).ok())
        .ok_or(CellError::Malformed("an unsigned integer of 16 bits"))
}

/// Parses an `xid8`.
#[inline]
fn u64_from_text(cell: &[u8]) -> Result<u64, CellError> {
    unsigned(cell).ok_or(CellError::Malformed("an unsigned integer of 64 bits"))
}

/// Parses the binary form of a `smallint`.
#[inline]
fn i16_from_binary(cell: &[u8]) -> Result<i16, CellError> {
    Ok(i16::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("2 bytes"))?,
    ))
}

/// Parses the binary form of an `integer`.
#[inline]
pub(crate) fn i32_from_binary(cell: &[u8]) -> Result<i32, CellError> {
    Ok(i32::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("4 bytes"))?,
    ))
}

/// Parses the binary form of a `bigint`.
#[inline]
pub(crate) fn i64_from_binary(cell: &[u8]) -> Result<i64, CellError> {
    Ok(i64::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("8 bytes"))?,
    ))
}

/// Parses the binary form of an `oid`, `xid` or `cid`.
#[inline]
pub(crate) fn u32_from_binary(cell: &[u8]) -> Result<u32, CellError> {
    Ok(u32::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("4 bytes"))?,
    ))
}

/// Parses the binary form of the offset within a block of a `tid`.
#[inline]
pub(crate) fn u16_from_binary(cell: &[u8]) -> Result<u16, CellError> {
    Ok(u16::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("2 bytes"))?,
    ))
}

/// Parses the binary form of an `xid8` or a `pg_lsn`.
#[inline]
pub(crate) fn u64_from_binary(cell: &[u8]) -> Result<u64, CellError> {
    Ok(u64::from_be_bytes(
        cell.try_into()
            .map_err(|_| CellError::Malformed("8 bytes"))?,
    ))
}

/// An optional minus, then a number without leading zeros; zero has no sign.
#[inline]
fn signed(cell: &[u8]) -> Option<i64> {
    match cell {
        [b'-', b'1'..=b'9', ..] => {
            let (_, digits) = cell.split_first()?;
            0_i64.checked_sub_unsigned(unsigned(digits)?)
        }
        _ => i64::try_from(unsigned(cell)?).ok(),
    }
}

/// An integer of at most eight digits, if the type holds it.
#[expect(clippy::inline_always, reason = "as `short_digits`")]
#[inline(always)]
fn short_integer<T: TryFrom<i32>>(cell: &[u8]) -> Option<T> {
    let (is_negative, digits) = match cell {
        [b'-', digits @ ..] => (true, digits),
        _ => (false, cell),
    };
    let value = match digits {
        [b'0', _, ..] => return None,
        _ => i32::try_from(short_digits(digits)?).ok()?,
    };
    let value = match (is_negative, value) {
        (true, 0) => return None,
        (true, _) => value.wrapping_neg(),
        (false, _) => value,
    };
    T::try_from(value).ok()
}

/// A number without leading zeros.
#[inline]
fn unsigned(cell: &[u8]) -> Option<u64> {
    match cell {
        [b'0', _, ..] => None,
        [most @ .., last] if most.len() == 19 => {
            let last = u64::from(last.wrapping_sub(b'0'));
            let most = decimal_digits(most)?.checked_mul(10)?;
            if last > 9 {
                None
            } else {
                most.checked_add(last)
            }
        }
        _ => decimal_digits(cell),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::Unrepresentable;

    #[test]
    fn limits_are_read_and_what_lies_beyond_is_refused() {
        assert_eq!(i16_from_text(b"32767"), Ok(32_767));
        assert_eq!(i16_from_text(b"-32768"), Ok(-32_768));
        assert!(i16_from_text(b"32768").is_err());
        assert!(i16_from_text(b"-32769").is_err());
        assert_eq!(i32_from_text(b"2147483647"), Ok(i32::MAX));
        assert_eq!(i32_from_text(b"-2147483648"), Ok(i32::MIN));
        assert!(i32_from_text(b"2147483648").is_err());
        assert!(i32_from_text(b"-2147483649").is_err());
        assert_eq!(i64_from_text(b"9223372036854775807"), Ok(i64::MAX));
        assert_eq!(i64_from_text(b"-9223372036854775808"), Ok(i64::MIN));
        assert!(i64_from_text(b"9223372036854775808").is_err());
        assert!(i64_from_text(b"-9223372036854775809").is_err());
        assert_eq!(u32_from_text(b"4294967295"), Ok(u32::MAX));
        assert!(u32_from_text(b"4294967296").is_err());
        assert_eq!(u64_from_text(b"18446744073709551615"), Ok(u64::MAX));
        assert!(u64_from_text(b"18446744073709551616").is_err());
        assert!(u64_from_text(b"99999999999999999999").is_err());
        assert!(u64_from_text(b"100000000000000000000").is_err());
    }

    #[test]
    fn integers_are_decimals_if_their_digits_fit() {
        let cents = |precision| IntegerDecimal {
            integer: Int4,
            decimal: Decimal128::new(precision, 2).unwrap(),
        };
        assert_eq!(cents(5).text(b"-999"), Ok(-99_900));
        assert_eq!(cents(5).binary(&999_i32.to_be_bytes()), Ok(99_900));
        let too_large = Err(CellError::Unrepresentable(Unrepresentable::Precision));
        assert_eq!(cents(5).text(b"1000"), too_large);
        assert_eq!(cents(5).binary(&(-1000_i32).to_be_bytes()), too_large);
        assert_eq!(cents(38).text(b"2147483647"), Ok(214_748_364_700));
        assert!(cents(5).text(b"1.00").is_err());
        let largest = IntegerDecimal {
            integer: Int8,
            decimal: Decimal128::new(38, 38).unwrap(),
        };
        assert_eq!(largest.text(b"0"), Ok(0));
        assert_eq!(largest.text(b"9223372036854775807"), too_large);
    }

    #[test]
    fn text_that_postgresql_never_writes_is_refused() {
        for wrong in [
            "",
            "-",
            "+1",
            "--1",
            "-0",
            "00",
            "01",
            "-01",
            " 1",
            "1 ",
            "1.0",
            "1e3",
            "0x10",
            "1_000",
            "12a45678",
            "1234567:",
            "12345678/",
            "\u{0661}",
            "1-2",
            "00000000000000000001",
        ] {
            let cell = wrong.as_bytes();
            assert!(i64_from_text(cell).is_err(), "{wrong}");
            assert!(u64_from_text(cell).is_err(), "{wrong}");
            assert!(i32_from_text(cell).is_err(), "{wrong}");
            assert_eq!(short_integer::<i64>(cell), None, "{wrong}");
        }
        assert!(u32_from_text(b"-1").is_err());
        assert!(u64_from_text(b"-1").is_err());
    }

    #[test]
    fn every_smallint_is_read_from_both_forms() {
        for value in i16::MIN..=i16::MAX {
            assert_eq!(i16_from_text(value.to_string().as_bytes()), Ok(value));
            assert_eq!(Int2.short_text(value.to_string().as_bytes()), Some(value));
            assert_eq!(i16_from_binary(&value.to_be_bytes()), Ok(value));
        }
    }

    #[test]
    fn binary_of_another_length_is_refused() {
        for length in (0..=9).filter(|length| *length != 8) {
            let cell = vec![0; length];
            assert_eq!(i64_from_binary(&cell), Err(CellError::Malformed("8 bytes")));
            assert_eq!(u64_from_binary(&cell), Err(CellError::Malformed("8 bytes")));
            assert_eq!(i32_from_binary(&cell).is_ok(), length == 4);
            assert_eq!(u32_from_binary(&cell).is_ok(), length == 4);
            assert_eq!(i16_from_binary(&cell).is_ok(), length == 2);
        }
    }

    #[test]
    fn every_byte_at_every_place_is_checked() {
        for length in 1..=19 {
            for place in 0..length {
                for byte in 0..=u8::MAX {
                    let mut digits = vec![b'1'; length];
                    digits[place] = byte;
                    let expected =
                        byte.is_ascii_digit() && (byte != b'0' || place > 0 || length == 1);
                    assert_eq!(u64_from_text(&digits).is_ok(), expected, "{digits:?}");
                    let short = short_integer::<u32>(&digits);
                    assert_eq!(short.is_some(), expected && length <= 8, "{digits:?}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_value(value: i64, shift in 0..64_u32) {
            let value = value >> shift;
            let text = value.to_string();
            prop_assert_eq!(i64_from_text(text.as_bytes()), Ok(value));
            let is_short = text.trim_start_matches('-').len() <= 8;
            prop_assert_eq!(Int8.short_text(text.as_bytes()), is_short.then_some(value));
            prop_assert_eq!(i64_from_binary(&value.to_be_bytes()), Ok(value));
            let unsigned = value.cast_unsigned();
            prop_assert_eq!(u64_from_text(unsigned.to_string().as_bytes()), Ok(unsigned));
            prop_assert_eq!(u64_from_binary(&unsigned.to_be_bytes()), Ok(unsigned));
            if let Ok(small) = i32::try_from(value) {
                prop_assert_eq!(i32_from_text(small.to_string().as_bytes()), Ok(small));
                prop_assert_eq!(i32_from_binary(&small.to_be_bytes()), Ok(small));
                let oid = small.cast_unsigned();
                prop_assert_eq!(u32_from_text(oid.to_string().as_bytes()), Ok(oid));
                prop_assert_eq!(u32_from_binary(&oid.to_be_bytes()), Ok(oid));
            }
        }

        #[test]
        fn accepted_text_is_the_text_of_its_value(cell in "[-+ .]?[0-9]{0,21}") {
            if let Ok(value) = i64_from_text(cell.as_bytes()) {
                prop_assert_eq!(value.to_string(), cell.as_str());
            }
            if let Ok(value) = u64_from_text(cell.as_bytes()) {
                prop_assert_eq!(value.to_string(), cell.as_str());
            }
            if let Some(value) = Int8.short_text(cell.as_bytes()) {
                prop_assert_eq!(Ok(value), i64_from_text(cell.as_bytes()));
            }
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>) {
            let _ = (i16_from_text(&cell), i32_from_text(&cell), i64_from_text(&cell));
            let _ = (u32_from_text(&cell), u64_from_text(&cell));
            let _ = (i16_from_binary(&cell), i32_from_binary(&cell), i64_from_binary(&cell));
            let _ = (u32_from_binary(&cell), u64_from_binary(&cell));
        }
    }
}
