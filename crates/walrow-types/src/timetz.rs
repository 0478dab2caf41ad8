//! `time with time zone`: “Date/Time Types”.
//!
//! ```text
//! text    04:05:06.789+05:30     the time, and its offset with minutes and seconds only if they are not 0
//! binary  i64 microseconds from midnight | i32 seconds west of UTC
//! ```

use crate::clock::{END_OF_DAY, MICROS_A_DAY, clock, offset_seconds, time_to_text};
use crate::digits::write_padded;
use crate::error::CellError;
use crate::int::i32_from_binary;
use crate::pg_type::{AppendBytes, PgType, known, scalar, text_from_binary};
use crate::time::time_of_day;

/// `time with time zone`.
#[derive(Clone, Copy, Debug)]
pub struct TimeTz;

/// A time of day, and its offset from UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeTzValue {
    /// Microseconds from midnight at the offset, up to 24:00:00.
    pub time_us: i64,
    /// Seconds east of UTC.
    pub offset_s: i32,
}

known!(TimeTz: TIMETZ;);
scalar!(TimeTz => TimeTzValue: timetz_from_text, timetz_from_binary);

impl PgType for TimeTz {
    text_from_binary!(timetz_text_from_binary);
}

/// A `timetz` whose offset always has hours and minutes: `12:30:00+05:00`.
impl AppendBytes for TimeTz {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        timetz_to_even_text(timetz_from_text(cell)?, out);
        Ok(())
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        timetz_to_even_text(timetz_from_binary(cell)?, out);
        Ok(())
    }
}

/// Parses a `timetz`.
fn timetz_from_text(cell: &[u8]) -> Result<TimeTzValue, CellError> {
    let (time_us, offset) = match clock(cell) {
        Some(parts) => parts,
        None => (
            MICROS_A_DAY,
            cell.strip_prefix(END_OF_DAY).ok_or(NOT_A_TIMETZ)?,
        ),
    };
    let offset_s = offset_seconds(offset).ok_or(NOT_A_TIMETZ)?;
    Ok(TimeTzValue { time_us, offset_s })
}

/// Parses the binary form of a `timetz`, which counts seconds west.
#[inline]
fn timetz_from_binary(cell: &[u8]) -> Result<TimeTzValue, CellError> {
    let (time, west) = cell
        .split_first_chunk::<8>()
        .ok_or(CellError::Malformed("12 bytes"))?;
    let west = i32_from_binary(west).map_err(|_| CellError::Malformed("12 bytes"))?;
    if west.unsigned_abs() > MAX_OFFSET_SECONDS {
        return Err(CellError::Malformed("an offset of less than 16 hours"));
    }
    Ok(TimeTzValue {
        time_us: time_of_day(time)?,
        offset_s: west.wrapping_neg(),
    })
}

/// Appends the text of a binary `timetz`.
fn timetz_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    timetz_to_text(timetz_from_binary(cell)?, out);
    Ok(())
}

/// Appends a time with its offset as the server writes it: without minutes and seconds that are 0.
pub(crate) fn timetz_to_text(time: TimeTzValue, out: &mut Vec<u8>) {
    let whole_hours = time.offset_s % 3600 == 0;
    write_timetz(time, !whole_hours, out);
}

/// Appends a time with its offset, always with minutes.
fn timetz_to_even_text(time: TimeTzValue, out: &mut Vec<u8>) {
    write_timetz(time, true, out);
}

fn write_timetz(time: TimeTzValue, with_minutes: bool, out: &mut Vec<u8>) {
    time_to_text(time.time_us, out);
    let seconds = i64::from(time.offset_s.unsigned_abs());
    out.push(if time.offset_s < 0 { b'-' } else { b'+' });
    write_padded(seconds / 3600, 2, out);
    if with_minutes {
        out.push(b':');
        write_padded(seconds / 60 % 60, 2, out);
    }
    if seconds % 60 != 0 {
        out.push(b':');
        write_padded(seconds % 60, 2, out);
    }
}

/// 15:59:59 east or west.
const MAX_OFFSET_SECONDS: u32 = 57_599;
const NOT_A_TIMETZ: CellError = CellError::Malformed("a time of day and an offset");

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
pub(crate) mod oracle;

#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pg_type::tests::rendered;

    #[test]
    fn even_text_always_has_minutes() {
        for (text, even) in [
            ("04:05:06.789+00", "04:05:06.789+00:00"),
            ("04:05:06-08", "04:05:06-08:00"),
            ("00:00:00+05:30", "00:00:00+05:30"),
            ("24:00:00-15:59:59", "24:00:00-15:59:59"),
            ("12:00:00+01:00:01", "12:00:00+01:00:01"),
        ] {
            let mut out = Vec::new();
            timetz_to_even_text(timetz_from_text(text.as_bytes()).unwrap(), &mut out);
            assert_eq!(out, even.as_bytes());
        }
    }

    #[test]
    fn times_with_offsets_keep_both() {
        for (text, time_us, offset_s) in [
            ("04:05:06.789+00", 14_706_789_000, 0),
            ("04:05:06-08", 14_706_000_000, -28_800),
            ("00:00:00+05:30", 0, 19_800),
            ("24:00:00-15:59:59", MICROS_A_DAY, -57_599),
            ("12:00:00-00:43:08", 43_200_000_000, -2_588),
            ("12:00:00+01:00:01", 43_200_000_000, 3_601),
        ] {
            let expected = Ok(TimeTzValue { time_us, offset_s });
            let mut sent = time_us.to_be_bytes().to_vec();
            sent.extend_from_slice(&(-offset_s).to_be_bytes());
            assert_eq!(timetz_from_text(text.as_bytes()), expected, "{text}");
            assert_eq!(timetz_from_binary(&sent), expected, "{text}");
            assert_eq!(
                rendered(timetz_text_from_binary, &sent).as_deref(),
                Ok(text)
            );
        }
        for wrong in [
            "",
            "12:00:00",
            "12:00:00+16",
            "24:00:00.1+00",
            "24:00:01+00",
            "12:00:00 +00",
            "12:00:00-00",
        ] {
            assert_eq!(
                timetz_from_text(wrong.as_bytes()),
                Err(NOT_A_TIMETZ),
                "{wrong}"
            );
        }
        for offset in [57_600, -57_600, i32::MIN, i32::MAX] {
            let mut sent = 0_i64.to_be_bytes().to_vec();
            sent.extend_from_slice(&offset.to_be_bytes());
            assert!(timetz_from_binary(&sent).is_err());
        }
        for length in [0, 4, 8, 11, 13, 16] {
            assert!(timetz_from_binary(&vec![0; length]).is_err());
        }
    }

    proptest! {
        #[test]
        fn both_forms_agree(time_us in 0..=MICROS_A_DAY, offset_s in -57_599..=57_599_i32) {
            let mut sent = time_us.to_be_bytes().to_vec();
            sent.extend_from_slice(&(-offset_s).to_be_bytes());
            let text = rendered(timetz_text_from_binary, &sent).unwrap();
            prop_assert_eq!(timetz_from_text(text.as_bytes()), Ok(TimeTzValue { time_us, offset_s }));
            prop_assert_eq!(timetz_from_binary(&sent), Ok(TimeTzValue { time_us, offset_s }));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[0-9:]{0,9}[.0-9]{0,9}[-+:0-9]{0,10}",
        ) {
            for cell in [&cell[..], near.as_bytes(), cell.get(..12).unwrap_or(&cell)] {
                let _ = (timetz_from_text(cell), timetz_from_binary(cell));
                let _ = rendered(timetz_text_from_binary, cell);
            }
        }
    }
}
