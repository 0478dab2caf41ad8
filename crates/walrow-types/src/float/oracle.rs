//! Checks written text with shortest decimals by exact arithmetic, and readers with std's parser.

use num_bigint::BigInt;
use num_bigint::BigUint;
use proptest::prelude::*;
use walrow_testkit::strategy::near;

use super::*;

/// A number `mantissa * 2^exponent`, and the exponent of the smallest numbers.
struct Exact {
    mantissa: u64,
    exponent: i32,
    least: i32,
    implied: u64,
}

/// The digits and the exponent of the shortest decimal that is nearer to the number than to both its neighbours. If
/// there are several, the nearest; if two are equally near, the even one.
fn shortest(number: &Exact) -> (String, i32) {
    let mantissa = BigUint::from(number.mantissa);
    // In quarters of the last bit. The neighbour below a power of two is half as far away.
    let is_power = number.mantissa == number.implied && number.exponent > number.least;
    let low = &mantissa * 4_u32 - if is_power { 1_u32 } else { 2 };
    let high = &mantissa * 4_u32 + 2_u32;
    let middle = &mantissa * 4_u32;
    let two = number.exponent - 2;
    for ten in (-330..310).rev() {
        let power = |base: u32, exponent: i32| {
            BigUint::from(base).pow(u32::try_from(exponent.max(0)).unwrap())
        };
        // `decimal * 10^ten < quarters * 2^two`, without fractions.
        let left = power(10, ten) * power(2, -two);
        let right = power(2, two) * power(10, -ten);
        if &high * &right < left {
            continue;
        }
        let floor = &middle * &right / &left;
        let is_inside =
            |decimal: &BigUint| &low * &right < decimal * &left && decimal * &left < &high * &right;
        let distance = |decimal: &BigUint| {
            let [decimal, middle] = [decimal * &left, &middle * &right].map(BigInt::from);
            BigUint::try_from(if decimal > middle {
                decimal - middle
            } else {
                middle - decimal
            })
            .unwrap()
        };
        let ceiling = &floor + 1_u32;
        let is_odd = |decimal: &BigUint| decimal.bit(0);
        let best = [floor, ceiling]
            .into_iter()
            .filter(is_inside)
            .min_by_key(|decimal| (distance(decimal), is_odd(decimal)));
        if let Some(best) = best {
            return (best.to_string(), ten);
        }
    }
    panic!("the number itself has an end")
}

/// The layout of printf's `%g`: with an exponent if it is below -4, or at least `fixed`.
fn laid_out(negative: bool, (digits, ten): (String, i32), fixed: i32) -> String {
    let sign = if negative { "-" } else { "" };
    let trimmed = digits.trim_end_matches('0');
    let ten = ten + i32::try_from(digits.len() - trimmed.len()).unwrap();
    let exponent = ten + i32::try_from(trimmed.len()).unwrap() - 1;
    if exponent < -4 || exponent >= fixed {
        let (first, rest) = trimmed.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        return format!("{sign}{first}{point}{rest}e{exponent:+03}");
    }
    if ten >= 0 {
        return format!(
            "{sign}{trimmed}{}",
            "0".repeat(usize::try_from(ten).unwrap())
        );
    }
    let places = usize::try_from(-ten).unwrap();
    let padded = format!("{trimmed:0>width$}", width = places + 1);
    let (integer, fraction) = padded.split_at(padded.len() - places);
    format!("{sign}{integer}.{fraction}")
}

fn double(bits: u64) -> String {
    let (exponent, fraction) = (
        i32::try_from(bits >> 52 & 0x7ff).unwrap(),
        bits & ((1 << 52) - 1),
    );
    let implied = 1 << 52;
    let number = Exact {
        mantissa: if exponent == 0 {
            fraction
        } else {
            fraction | implied
        },
        exponent: exponent.max(1) - 1075,
        least: -1074,
        implied,
    };
    laid_out(bits >> 63 == 1, shortest(&number), 15)
}

fn real(bits: u32) -> String {
    let (exponent, fraction) = (
        i32::try_from(bits >> 23 & 0xff).unwrap(),
        bits & ((1 << 23) - 1),
    );
    let implied = 1 << 23;
    let number = Exact {
        mantissa: if exponent == 0 {
            fraction.into()
        } else {
            u64::from(fraction) | implied
        },
        exponent: exponent.max(1) - 150,
        least: -149,
        implied,
    };
    laid_out(bits >> 31 == 1, shortest(&number), 6)
}

fn double_written(bits: u64) -> String {
    let mut out = Vec::new();
    f64_text_from_binary(&bits.to_be_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn real_written(bits: u32) -> String {
    let mut out = Vec::new();
    f32_text_from_binary(&bits.to_be_bytes(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Doubles near one, of all sizes, and with few digits.
fn doubles() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0x3c0_u64..0x450, any::<u64>()).prop_map(|(exponent, bits)| exponent << 52 | bits >> 12),
        (any::<i32>(), 0..12)
            .prop_map(|(digits, places)| (f64::from(digits) / 10_f64.powi(places)).to_bits()),
        (0..2046_u64, 0..4_u64).prop_map(|(exponent, last)| exponent << 52 | last),
    ]
}

fn reals() -> impl Strategy<Value = u32> {
    prop_oneof![
        any::<u32>(),
        (0x60_u32..0xa0, any::<u32>()).prop_map(|(exponent, bits)| exponent << 23 | bits >> 9),
        (0..254_u32, 0..4_u32).prop_map(|(exponent, last)| exponent << 23 | last),
    ]
}

/// Whether the text has a form in which the server writes numbers.
fn is_plain(text: &str) -> bool {
    let number = text.strip_prefix('-').unwrap_or(text);
    let (number, exponent) = number
        .split_once('e')
        .map_or((number, None), |(number, it)| (number, Some(it)));
    let (integer, fraction) = number
        .split_once('.')
        .map_or((number, None), |(it, fraction)| (it, Some(fraction)));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    digits(integer)
        && (integer == "0" || !integer.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|exponent| {
            exponent.starts_with(['+', '-'])
                && exponent.get(1..).is_some_and(digits)
                && (3..=4).contains(&exponent.len())
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn doubles_are_written_in_the_fewest_digits(bits in doubles()) {
        prop_assume!(f64::from_bits(bits).is_finite() && bits << 1 != 0);
        prop_assert_eq!(double_written(bits), double(bits));
    }

    #[test]
    fn reals_are_written_in_the_fewest_digits(bits in reals()) {
        prop_assume!(f32::from_bits(bits).is_finite() && bits << 1 != 0);
        prop_assert_eq!(real_written(bits), real(bits));
    }
}

#[test]
#[ignore = "slow: cargo test -- --ignored"]
fn every_hundredth_thousandth_real_is_written_in_the_fewest_digits() {
    for bits in (1..0x7f80_0000_u32).step_by(99_991) {
        assert_eq!(real_written(bits), real(bits), "{bits:08x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_text_is_read_as_std_reads_it_or_not_at_all(
        cell in near(doubles().prop_map(|bits| double_written(bits).into_bytes()), b"0123459.eE+-Na "),
    ) {
        let text = std::str::from_utf8(&cell).unwrap();
        let (wide, narrow) = (f64_from_text(&cell).ok(), f32_from_text(&cell).ok());
        let special = matches!(text, "NaN" | "Infinity" | "-Infinity");
        if special || is_plain(text) {
            // Other numbers must become neither zero nor infinity.
            let zero = text.bytes().all(|byte| byte == b'0' || byte == b'-');
            let in_range = |is_zero: bool, is_finite: bool| special || (is_finite && (zero || !is_zero));
            let expected: f64 = text.parse().unwrap();
            let expected = in_range(expected == 0.0, expected.is_finite()).then_some(expected);
            prop_assert_eq!(wide.map(f64::to_bits), expected.map(f64::to_bits), "{}", text);
            let expected: f32 = text.parse().unwrap();
            let expected = in_range(expected == 0.0, expected.is_finite()).then_some(expected);
            prop_assert_eq!(narrow.map(f32::to_bits), expected.map(f32::to_bits), "{}", text);
        } else {
            prop_assert_eq!((wide, narrow), (None, None), "{}", text);
        }
    }
}
