//! Compares both readers with one that only uses large integers.

use num_bigint::{BigInt, BigUint};
use proptest::prelude::*;
use walrow_testkit::strategy::near;

use super::*;

/// Digits of either side of the point.
fn number(text: &str) -> Option<(bool, &str, &str)> {
    let (negative, number) = text
        .strip_prefix('-')
        .map_or((false, text), |number| (true, number));
    let (integer, fraction) = match number.split_once('.') {
        None => (number, ""),
        Some((_, "")) => return None,
        Some(parts) => parts,
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let canonical = digits(integer)
        && digits(fraction)
        && !integer.is_empty()
        && (integer == "0" || !integer.starts_with('0'));
    let zero = number.bytes().all(|byte| matches!(byte, b'0' | b'.'));
    (canonical && !(negative && zero)).then_some((negative, integer, fraction))
}

/// The value in units of 10^-scale, if it is whole and has no more digits than the precision.
fn in_units(value: &BigInt, divisor_digits: usize, target: Decimal128) -> Result<i128, CellError> {
    let ten = BigInt::from(10);
    let divisor = ten.pow(u32::try_from(divisor_digits).unwrap());
    let scaled = value * ten.pow(target.scale().into());
    let units = &scaled / &divisor;
    if &units * &divisor != scaled {
        return Err(Unrepresentable::Scale.into());
    }
    if units.magnitude() >= &BigUint::from(10_u32).pow(target.precision().into()) {
        return Err(Unrepresentable::Precision.into());
    }
    Ok(i128::try_from(units).unwrap())
}

fn reference(text: &str, target: Decimal128) -> Result<i128, CellError> {
    match text {
        "NaN" => return Err(Unrepresentable::NotANumber.into()),
        "Infinity" => return Err(Unrepresentable::PositiveInfinity.into()),
        "-Infinity" => return Err(Unrepresentable::NegativeInfinity.into()),
        _ => {}
    }
    let (negative, integer, fraction) = number(text).ok_or(CellError::Malformed(""))?;
    let value: BigInt = format!("{integer}{fraction}").parse().unwrap();
    in_units(
        &if negative { -value } else { value },
        fraction.len(),
        target,
    )
}

/// Malformed text may give any of the errors.
fn without_reason(result: Result<i128, CellError>) -> Result<i128, CellError> {
    result.map_err(|error| match error {
        CellError::Malformed(_) => CellError::Malformed(""),
        CellError::Unrepresentable(_) => error,
    })
}

/// The text of groups of four digits with this number of digits after the point: the sum of all groups, as a fraction.
fn shown(weight: i16, negative: bool, scale: u16, groups: &[u16]) -> Option<(BigInt, String)> {
    let places = usize::from(scale);
    // In units of 10^-scale, times 10000 for each group that might follow them.
    let spare = 200_u32;
    let mut sum = BigUint::ZERO;
    for (place, group) in (0_i64..).zip(groups) {
        let exponent = 4 * (i64::from(weight) - place) + i64::from(spare);
        sum += BigUint::from(*group) * BigUint::from(10_u32).pow(u32::try_from(exponent).unwrap());
    }
    sum *= BigUint::from(10_u32).pow(scale.into());
    let unit = BigUint::from(10_u32).pow(spare);
    let units = &sum / &unit;
    if &units * &unit != sum {
        return None;
    }
    let digits = format!("{:0>width$}", units.to_string(), width = places + 1);
    let (integer, fraction) = digits.split_at(digits.len() - places);
    let sign = if negative && units != BigUint::ZERO {
        "-"
    } else {
        ""
    };
    let point = if places > 0 { "." } else { "" };
    let value = BigInt::from(units);
    let value = if negative { -value } else { value };
    Some((value, format!("{sign}{integer}{point}{fraction}")))
}

fn targets() -> impl Strategy<Value = Decimal128> {
    (1..=38_u8, 0..=38_u8)
        .prop_map(|(precision, scale)| Decimal128::new(precision, scale.min(precision)).unwrap())
}

/// Numbers of all sizes, including the largest with this number of digits and those near 2^127 and 2^128.
fn texts() -> impl Strategy<Value = String> {
    let edge =
        (0..=45_u32, -1..=1_i8).prop_map(|(digits, more)| BigInt::from(10).pow(digits) + more);
    let binary =
        (60..=129_u32, -1..=1_i8).prop_map(|(bits, more)| (BigInt::from(1) << bits) + more);
    let random = "(0|[1-9][0-9]{0,44})".prop_map(|digits| digits.parse().unwrap());
    let integer = prop_oneof![edge, binary, random];
    (integer, any::<bool>(), 0..40_usize, 0..4_usize).prop_map(
        |(value, negative, places, zeros)| {
            let (_, text) = shown_units(&value.magnitude().to_string(), places);
            let text = if places > 0 {
                text + &"0".repeat(zeros)
            } else {
                text
            };
            let zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
            if negative && !zero {
                format!("-{text}")
            } else {
                text
            }
        },
    )
}

fn shown_units(digits: &str, places: usize) -> (usize, String) {
    let digits = format!("{digits:0>width$}", width = places + 1);
    let (integer, fraction) = digits.split_at(digits.len() - places);
    let point = if places > 0 { "." } else { "" };
    (places, format!("{integer}{point}{fraction}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_text_is_read_as_large_integers_say(
        cell in near(texts().prop_map(String::into_bytes), b"0123456789.-+eNaInfity "),
        target in targets(),
    ) {
        let text = std::str::from_utf8(&cell).unwrap();
        prop_assert_eq!(without_reason(decimal128_from_text(&cell, target)), reference(text, target), "{}", text);
    }

    #[test]
    fn numbers_of_all_sizes_are_exact_or_refused(text in texts(), target in targets()) {
        prop_assert_eq!(decimal128_from_text(text.as_bytes(), target), reference(&text, target), "{}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn any_groups_are_read_and_shown_as_their_sum(
        groups in proptest::collection::vec(prop_oneof![Just(0), Just(9_999), Just(1_000), Just(100), Just(10), 0..10_000_u16], 0..14),
        weight in prop_oneof![-1..3_i16, -10..12_i16],
        negative: bool,
        scale in 0..48_u16,
        target in targets(),
    ) {
        let sign = if negative { 0x4000 } else { 0 };
        let head = [u16::try_from(groups.len()).unwrap(), weight.cast_unsigned(), sign, scale];
        let sent: Vec<_> = head.iter().chain(&groups).flat_map(|word| word.to_be_bytes()).collect();
        let mut out = Vec::new();
        let written = numeric_text_from_binary(&sent, &mut out).map(|()| String::from_utf8(out).unwrap());
        let read = without_reason(decimal128_from_binary(&sent, target));
        match shown(weight, negative, scale, &groups) {
            None => {
                prop_assert!(matches!(written, Err(CellError::Malformed(_))));
                prop_assert_eq!(read, Err(CellError::Malformed("")));
            }
            Some((value, text)) => {
                prop_assert_eq!(written, Ok(text));
                prop_assert_eq!(read, in_units(&value, scale.into(), target));
            }
        }
    }
}
