//! `timestamp without time zone` and `timestamp with time zone`: “Date/Time Types”.
//!
//! ```text
//! text    2024-02-29 12:30:00.5, 0044-03-15 00:00:00 BC     ISO, the pinned setting; at most six digits of fraction
//!         2024-02-29 12:30:00.5+05:30                       with time zone, at the session's offset
//!         infinity, -infinity
//! binary  i64 microseconds from 2000-01-01, of UTC with time zone; the largest and the smallest are the infinities
//! ```
//!
//! Values are microseconds from 1970, as Arrow counts them. PostgreSQL's timestamps end 29 years after the last one
//! that fits.

use crate::calendar::{
    DAYS_TO_2000, Moment, NOT_IN_RANGE, any_days, civil, fixed_date, infinity, split_era,
    write_date, write_era,
};
use crate::clock::{MICROS_A_DAY, MICROS_A_SECOND, clock, offset_seconds, time_to_text};
use crate::error::{CellError, NOT_A_TIMESTAMP, Unrepresentable};
use crate::int::i64_from_binary;
use crate::pg_type::{PgType, copy_shaped, known, scalar, text_from_binary};

/// `timestamp without time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Timestamp;

/// `timestamp with time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Timestamptz;

/// Microseconds since 1970-01-01 00:00:00.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct Micros(pub i64);

impl From<Micros> for i64 {
    #[inline]
    fn from(value: Micros) -> Self {
        value.0
    }
}

known!(Timestamp: TIMESTAMP;);
known!(Timestamptz: TIMESTAMPTZ;);
scalar!(
    Timestamp => Micros: |cell| timestamp_from_text(cell).map(Micros),
    |cell| timestamp_from_binary(cell).map(Micros)
);
scalar!(
    Timestamptz => Micros: |cell| timestamptz_from_text(cell).map(Micros),
    |cell| timestamp_from_binary(cell).map(Micros)
);

impl PgType for Timestamp {
    text_from_binary!(timestamp_text_from_binary);

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        copy_shaped(timestamp_from_text(cell), cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

impl PgType for Timestamptz {
    text_from_binary!(timestamptz_text_from_binary);

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if !is_utc(cell) {
            return timestamptz_text_in_utc(cell, out);
        }
        copy_shaped(timestamptz_from_text(cell), cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

fn is_utc(cell: &[u8]) -> bool {
    cell.strip_suffix(b" BC").unwrap_or(cell).ends_with(b"+00")
}

/// Parses a `timestamp` into microseconds from 1970.
#[inline]
fn timestamp_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match fixed_timestamp(cell) {
        Some((micros, [])) => Ok(micros),
        _ => any_timestamp(cell, false),
    }
}

/// Parses a `timestamptz` of any offset into microseconds from 1970 in UTC.
#[inline]
fn timestamptz_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match fixed_timestamp(cell) {
        Some((micros, b"+00")) => Ok(micros),
        _ => any_timestamp(cell, true),
    }
}

/// `YYYY-MM-DD HH:MM:SS[.f]`, and what follows it.
#[expect(clippy::inline_always, reason = "as `fixed_date`")]
#[inline(always)]
fn fixed_timestamp(cell: &[u8]) -> Option<(i64, &[u8])> {
    let (date, rest) = cell.split_first_chunk::<10>()?;
    let [b' ', rest @ ..] = rest else {
        return None;
    };
    let (time, rest) = clock(rest)?;
    // Years of four digits are always in range.
    Some((
        fixed_date(date)?
            .wrapping_mul(MICROS_A_DAY)
            .wrapping_add(time),
        rest,
    ))
}

/// Timestamps with long years, eras or offsets, and infinities.
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

/// Parses the binary form of a `timestamp` or a `timestamptz` into microseconds from 1970.
#[inline]
fn timestamp_from_binary(cell: &[u8]) -> Result<i64, CellError> {
    match Moment::timestamp(cell)? {
        Moment::Finite(micros) => since_1970(micros),
        infinity => Err(infinity.unrepresentable()),
    }
}

/// Converts microseconds from 2000 to microseconds from 1970.
#[inline]
fn since_1970(micros: i64) -> Result<i64, CellError> {
    micros
        .checked_add(MICROS_TO_2000)
        .ok_or(CellError::Unrepresentable(Unrepresentable::OutOfRange))
}

/// Appends the text of a binary `timestamp`.
fn timestamp_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_timestamp(Moment::timestamp(cell)?, b"", out);
    Ok(())
}

/// Appends the text of a binary `timestamptz` in UTC.
fn timestamptz_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    write_timestamp(Moment::timestamp(cell)?, b"+00", out);
    Ok(())
}

/// Appends the text in UTC of a `timestamptz` of any offset.
fn timestamptz_text_in_utc(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match micros_from_2000(cell, true) {
        Ok(micros) => write_timestamp(Moment::Finite(micros), b"+00", out),
        Err(CellError::Unrepresentable(_)) => out.extend_from_slice(cell),
        Err(error) => return Err(error),
    }
    Ok(())
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

impl Moment<i64> {
    #[inline]
    fn timestamp(cell: &[u8]) -> Result<Self, CellError> {
        match i64_from_binary(cell)? {
            i64::MAX => Ok(Self::PositiveInfinity),
            i64::MIN => Ok(Self::NegativeInfinity),
            micros @ FIRST_TIMESTAMP..=LAST_TIMESTAMP => Ok(Self::Finite(micros)),
            _ => Err(NOT_IN_RANGE),
        }
    }
}

const MICROS_TO_2000: i64 = DAYS_TO_2000 * MICROS_A_DAY;
/// 4714-11-24 00:00:00 BC, in microseconds from 2000.
const FIRST_TIMESTAMP: i64 = -211_813_488_000_000_000;
/// 294276-12-31 23:59:59.999999.
const LAST_TIMESTAMP: i64 = 9_223_371_331_199_999_999;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pg_type::tests::rendered;
    use crate::timetz::{TimeTzValue, timetz_to_text};

    const POSITIVE: CellError = CellError::Unrepresentable(Unrepresentable::PositiveInfinity);

    const NEGATIVE: CellError = CellError::Unrepresentable(Unrepresentable::NegativeInfinity);
    const OUT_OF_RANGE: CellError = CellError::Unrepresentable(Unrepresentable::OutOfRange);

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
    fn timestamps_beyond_arrow_are_neither_infinite_nor_malformed() {
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
            for cell in [&cell[..], near.as_bytes(), cell.get(..8).unwrap_or(&cell)] {
                let _ = (timestamp_from_text(cell), timestamptz_from_text(cell));
                let _ = timestamp_from_binary(cell);
                let _ = rendered(timestamp_text_from_binary, cell);
                let _ = rendered(timestamptz_text_from_binary, cell);
            }
        }
    }
}
