//! `time without time zone`: “Date/Time Types”.
//!
//! ```text
//! text    04:05:06.789     at most six digits of fraction, the last one not 0; up to 24:00:00
//! binary  i64 microseconds from midnight
//! ```

use crate::clock::{END_OF_DAY, MICROS_A_DAY, clock, time_to_text};
use crate::error::{CellError, Unrepresentable};
use crate::int::i64_from_binary;
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `time without time zone`.
#[derive(Clone, Copy, Debug)]
pub struct Time;

/// Microseconds since midnight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct TimeOfDay(pub i64);

impl From<TimeOfDay> for i64 {
    #[inline]
    fn from(value: TimeOfDay) -> Self {
        value.0
    }
}

known!(Time: TIME;);
scalar!(
    Time => TimeOfDay: |cell| time_from_text(cell).map(TimeOfDay),
    |cell| time_from_binary(cell).map(TimeOfDay)
);

impl PgType for Time {
    text_from_binary!(time_text_from_binary);
}

/// Parses a `time` into microseconds from midnight.
#[inline]
fn time_from_text(cell: &[u8]) -> Result<i64, CellError> {
    match clock(cell) {
        Some((micros, [])) => Ok(micros),
        _ if cell == END_OF_DAY => Err(Unrepresentable::EndOfDay.into()),
        _ => Err(NOT_A_TIME),
    }
}

/// Parses the binary form of a `time` into microseconds from midnight.
#[inline]
fn time_from_binary(cell: &[u8]) -> Result<i64, CellError> {
    match time_of_day(cell)? {
        MICROS_A_DAY => Err(Unrepresentable::EndOfDay.into()),
        micros => Ok(micros),
    }
}

/// Reads microseconds within a day, its end included.
#[inline]
pub(crate) fn time_of_day(cell: &[u8]) -> Result<i64, CellError> {
    match i64_from_binary(cell)? {
        micros @ 0..=MICROS_A_DAY => Ok(micros),
        _ => Err(CellError::Malformed("microseconds within a day")),
    }
}

/// Appends the text of a binary `time`.
fn time_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    time_to_text(time_of_day(cell)?, out);
    Ok(())
}

const NOT_A_TIME: CellError = CellError::Malformed("a time of day");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pg_type::tests::rendered;

    const END: CellError = CellError::Unrepresentable(Unrepresentable::EndOfDay);

    #[test]
    fn times_known_by_hand() {
        for (text, micros) in [
            ("00:00:00", 0),
            ("00:00:00.000001", 1),
            ("00:00:00.1", 100_000),
            ("00:00:00.01", 10_000),
            ("00:00:00.12345", 123_450),
            ("04:05:06.789", 14_706_789_000),
            ("23:59:59.999999", 86_399_999_999),
        ] {
            assert_eq!(time_from_text(text.as_bytes()), Ok(micros), "{text}");
            assert_eq!(time_from_binary(&micros.to_be_bytes()), Ok(micros));
            assert_eq!(
                rendered(time_text_from_binary, &micros.to_be_bytes()).as_deref(),
                Ok(text)
            );
        }
        assert_eq!(time_from_text(b"24:00:00"), Err(END));
        assert_eq!(time_from_binary(&MICROS_A_DAY.to_be_bytes()), Err(END));
        assert_eq!(
            rendered(time_text_from_binary, &MICROS_A_DAY.to_be_bytes()).as_deref(),
            Ok("24:00:00")
        );
        for wrong in [
            "",
            "0:00:00",
            "00:00",
            "00:00:0",
            "24:00:01",
            "24:00:00.000001",
            "24:00:00.0",
            "25:00:00",
            "23:60:00",
            "23:59:60",
            "00:00:00.",
            "00:00:00.0",
            "00:00:00.10",
            "00:00:00.100000",
            "00:00:00.1234567",
            "00:00:00.0000001",
            "00:00:00.12345678901234567890",
            "00:00:00.1a",
            "00:00:00,1",
            "00-00-00",
            "0a:00:00",
            "00:00:00 ",
            " 00:00:00",
            "00:00:00+00",
            "12:00:00 PM",
            "-00:00:01",
        ] {
            assert_eq!(time_from_text(wrong.as_bytes()), Err(NOT_A_TIME), "{wrong}");
        }
        for wrong in [-1, MICROS_A_DAY + 1, i64::MIN, i64::MAX] {
            assert!(matches!(
                time_from_binary(&wrong.to_be_bytes()),
                Err(CellError::Malformed(_))
            ));
            assert!(rendered(time_text_from_binary, &wrong.to_be_bytes()).is_err());
        }
        assert!(time_from_binary(&[0; 7]).is_err());
    }

    #[test]
    fn every_second_of_a_day_is_read_and_written() {
        for second in 0..86_400_i64 {
            let text = format!(
                "{:02}:{:02}:{:02}",
                second / 3600,
                second / 60 % 60,
                second % 60
            );
            let micros = second * 1_000_000;
            assert_eq!(time_from_text(text.as_bytes()), Ok(micros));
            assert_eq!(
                rendered(time_text_from_binary, &micros.to_be_bytes()),
                Ok(text)
            );
        }
    }

    proptest! {
        #[test]
        fn both_forms_agree(time_us in 0..=MICROS_A_DAY) {
            let text = rendered(time_text_from_binary, &time_us.to_be_bytes()).unwrap();
            prop_assert_eq!(time_from_text(text.as_bytes()), time_from_binary(&time_us.to_be_bytes()));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[0-9:]{0,9}[.0-9]{0,9}[-+:0-9]{0,10}",
        ) {
            for cell in [&cell[..], near.as_bytes(), cell.get(..8).unwrap_or(&cell)] {
                let _ = (time_from_text(cell), time_from_binary(cell));
                let _ = rendered(time_text_from_binary, cell);
            }
        }
    }
}
