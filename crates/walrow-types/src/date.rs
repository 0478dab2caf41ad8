//! `date`: “Date/Time Types”.
//!
//! ```text
//! text    2024-02-29, 0044-03-15 BC     ISO, the pinned setting; years of four digits or more; 0001 BC is the year
//!                                       before 0001
//!         infinity, -infinity
//! binary  i32 days from 2000-01-01; the largest and the smallest are the infinities
//! ```
//!
//! Values are days from 1970, as Arrow counts them. All of PostgreSQL's dates fit.

use crate::calendar::{
    DAYS_TO_2000, Moment, NOT_IN_RANGE, any_days, civil, fixed_date, infinity, split_era,
    write_date, write_era,
};
use crate::error::{CellError, NOT_A_DATE};
use crate::int::i32_from_binary;
use crate::pg_type::{PgType, copy_shaped, known, scalar, text_from_binary};

/// `date`.
#[derive(Clone, Copy, Debug)]
pub struct Date;

/// Days since 1970-01-01.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a number with its unit")]
pub struct Days(pub i32);

impl From<Days> for i32 {
    #[inline]
    fn from(value: Days) -> Self {
        value.0
    }
}

known!(Date: DATE;);
scalar!(Date => Days: |cell| date_from_text(cell).map(Days), |cell| date_from_binary(cell).map(Days));

impl PgType for Date {
    text_from_binary!(date_text_from_binary);

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        copy_shaped(date_from_text(cell), cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

/// Parses a `date` into days from 1970.
#[inline]
fn date_from_text(cell: &[u8]) -> Result<i32, CellError> {
    if let Some(days) = fixed_date(cell) {
        return i32::try_from(days).map_err(|_| NOT_A_DATE);
    }
    any_date(cell)
}

/// Dates with long years or eras, and infinities.
#[cold]
fn any_date(cell: &[u8]) -> Result<i32, CellError> {
    if let Some(infinity) = infinity(cell) {
        return Err(infinity);
    }
    let (cell, before_christ) = split_era(cell);
    let days = any_days(cell, before_christ, NOT_A_DATE)?;
    match i32::try_from(days.wrapping_sub(DAYS_TO_2000)) {
        Ok(FIRST_DATE..=LAST_DATE) => i32::try_from(days).map_err(|_| NOT_IN_RANGE),
        _ => Err(NOT_IN_RANGE),
    }
}

/// Parses the binary form of a `date` into days from 1970.
#[inline]
fn date_from_binary(cell: &[u8]) -> Result<i32, CellError> {
    match Moment::date(cell)? {
        Moment::Finite(days) => {
            let days = i64::from(days).wrapping_add(DAYS_TO_2000);
            i32::try_from(days).map_err(|_| NOT_IN_RANGE)
        }
        infinity => Err(infinity.unrepresentable()),
    }
}

/// Appends the text of a binary `date`; nothing if the cell is malformed.
fn date_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match Moment::date(cell)? {
        Moment::Finite(days) => {
            let (year, month, day) = civil(i64::from(days).wrapping_add(DAYS_TO_2000));
            write_date(year, month, day, out);
            write_era(year, out);
        }
        infinity => out.extend_from_slice(infinity.text()),
    }
    Ok(())
}

impl Moment<i32> {
    #[inline]
    fn date(cell: &[u8]) -> Result<Self, CellError> {
        match i32_from_binary(cell)? {
            i32::MAX => Ok(Self::PositiveInfinity),
            i32::MIN => Ok(Self::NegativeInfinity),
            days @ FIRST_DATE..=LAST_DATE => Ok(Self::Finite(days)),
            _ => Err(NOT_IN_RANGE),
        }
    }
}

/// 4714-11-24 BC, in days from 2000.
const FIRST_DATE: i32 = -2_451_545;
/// 5874897-12-31.
const LAST_DATE: i32 = 2_145_031_948;
#[cfg(test)]
#[expect(clippy::arithmetic_side_effects, reason = "an overflow fails the test")]
mod tests {
    use chrono::{Datelike, NaiveDate};
    use proptest::prelude::*;

    use super::*;
    use crate::error::{Style, Unrepresentable};
    use crate::pg_type::tests::rendered;

    const POSITIVE: CellError = CellError::Unrepresentable(Unrepresentable::PositiveInfinity);

    const NEGATIVE: CellError = CellError::Unrepresentable(Unrepresentable::NegativeInfinity);

    fn leap(year: i64) -> bool {
        year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
    }

    fn slow_month_length(year: i64, month: i64) -> i64 {
        [
            31,
            if leap(year) { 29 } else { 28 },
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ][usize::try_from(month - 1).unwrap()]
    }

    /// Days from 1970 to the first of January, counted year by year after whole cycles.
    fn slow_year_start(year: i64) -> i64 {
        let cycles = (year - 1970).div_euclid(400);
        let mut days = cycles * 146_097;
        for year in 1970 + cycles * 400..year {
            days += if leap(year) { 366 } else { 365 };
        }
        days
    }

    fn date_text(year: i64, month: i64, day: i64) -> String {
        if year > 0 {
            format!("{year:04}-{month:02}-{day:02}")
        } else {
            format!("{:04}-{month:02}-{day:02} BC", 1 - year)
        }
    }

    fn sent_date(days: i64) -> [u8; 4] {
        i32::try_from(days - 10_957).unwrap().to_be_bytes()
    }

    #[test]
    fn every_day_of_boundary_years_agrees_with_counting() {
        for year in [
            -4713, -4712, -401, -400, -101, -100, -5, -4, -3, -1, 0, 1, 4, 100, 400, 1582, 1899,
            1900, 1969, 1970, 1999, 2000, 2001, 2024, 2100, 9999, 10_000, 99_999, 100_000, 294_276,
            294_277, 999_999, 1_000_000, 5_874_896, 5_874_897,
        ] {
            let mut days = slow_year_start(year);
            for month in 1..=12 {
                for day in 1..=slow_month_length(year, month) {
                    let text = date_text(year, month, day);
                    if year == -4713 && (month, day) < (11, 24) {
                        assert_eq!(date_from_text(text.as_bytes()), Err(NOT_IN_RANGE), "{text}");
                        assert_eq!(
                            date_from_binary(&sent_date(days)),
                            Err(NOT_IN_RANGE),
                            "{text}"
                        );
                    } else {
                        let expected = i32::try_from(days).unwrap();
                        assert_eq!(date_from_text(text.as_bytes()), Ok(expected), "{text}");
                        assert_eq!(date_from_binary(&sent_date(days)), Ok(expected), "{text}");
                        assert_eq!(rendered(date_text_from_binary, &sent_date(days)), Ok(text));
                    }
                    days += 1;
                }
                for day in slow_month_length(year, month) + 1..=99 {
                    let text = date_text(year, month, day);
                    assert!(
                        matches!(
                            date_from_text(text.as_bytes()),
                            Err(CellError::Malformed(_))
                        ),
                        "{text}"
                    );
                }
            }
            assert_eq!(days, slow_year_start(year + 1));
            for (month, day) in [(0, 1), (13, 1), (99, 1), (1, 0)] {
                let text = date_text(year, month, day);
                assert!(
                    matches!(
                        date_from_text(text.as_bytes()),
                        Err(CellError::Malformed(_))
                    ),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn every_day_of_four_digit_years_agrees_with_chrono() {
        let mut date = NaiveDate::from_ymd_opt(1, 1, 1).unwrap();
        while date.year() < 10_000 {
            let text = date_text(date.year().into(), date.month().into(), date.day().into());
            let days =
                i32::try_from((date - NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()).num_days())
                    .unwrap();
            assert_eq!(date_from_text(text.as_bytes()), Ok(days), "{text}");
            assert_eq!(
                civil(days.into()),
                (date.year().into(), date.month().into(), date.day().into())
            );
            date = date.succ_opt().unwrap();
        }
    }

    #[test]
    fn dates_known_by_hand() {
        for (text, days) in [
            ("1970-01-01", 0),
            ("1969-12-31", -1),
            ("2000-01-01", 10_957),
            ("2024-02-29", 19_782),
            ("0001-01-01", -719_162),
            ("0001-12-31 BC", -719_163),
            ("4714-11-24 BC", -2_440_588),
            ("5874897-12-31", 2_145_042_905),
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Ok(days), "{text}");
            assert_eq!(
                date_from_binary(&sent_date(days.into())),
                Ok(days),
                "{text}"
            );
        }
        for (text, sent, error) in [
            ("infinity", i32::MAX, POSITIVE),
            ("-infinity", i32::MIN, NEGATIVE),
        ] {
            assert_eq!(date_from_text(text.as_bytes()), Err(error));
            assert_eq!(date_from_binary(&sent.to_be_bytes()), Err(error));
            assert_eq!(
                rendered(date_text_from_binary, &sent.to_be_bytes()).as_deref(),
                Ok(text)
            );
        }
        for sent in [i32::MAX - 1, i32::MIN + 1, FIRST_DATE - 1, LAST_DATE + 1] {
            assert_eq!(date_from_binary(&sent.to_be_bytes()), Err(NOT_IN_RANGE));
        }
        assert!(date_from_binary(&[0; 8]).is_err());
        assert!(date_from_binary(&[]).is_err());
    }

    #[test]
    fn other_date_styles_are_refused_by_name() {
        for wrong in [
            "",
            "03/02/2024",
            "03.02.2024",
            "03-02-2024",
            "29/02/2024",
            "20240229",
            "2024-2-29",
            "24-02-29",
            "2024-02-29 ",
            " 2024-02-29",
            "-2024-02-29",
            "+2024-02-29",
            "02024-02-29",
            "2024-02-29 AD",
            "2024-02-29BC",
            "2024-02-29 bc",
            "2024-02-29 BC BC",
            "0000-01-01",
            "0000-01-01 BC",
            "Infinity",
            "INFINITY",
            "+infinity",
            "inf",
            "58748970-01-01",
            "2024-0a-01",
            "2024-01-0a",
            "2024:01:01",
            "20a4-01-01",
            "2024-02-29T00:00:00",
            "2024/02/29",
        ] {
            assert_eq!(date_from_text(wrong.as_bytes()), Err(NOT_A_DATE), "{wrong}");
        }
        assert_eq!(NOT_A_DATE.style(), Some(Style::Date));
        for wrong in [
            "2023-02-29",
            "1900-02-29",
            "2024-02-30",
            "2024-04-31",
            "2024-13-01",
            "2024-00-01",
            "2024-01-00",
        ] {
            assert_eq!(
                date_from_text(wrong.as_bytes()),
                Err(CellError::Malformed("a day of the calendar")),
                "{wrong}"
            );
        }
        assert_eq!(date_from_text(b"5874898-01-01"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"9999999-12-31"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"4714-11-23 BC"), Err(NOT_IN_RANGE));
        assert_eq!(date_from_text(b"9999999-01-01 BC"), Err(NOT_IN_RANGE));
    }

    proptest! {
        #[test]
        fn both_forms_of_a_date_agree(days in FIRST_DATE..=LAST_DATE) {
            let sent = days.to_be_bytes();
            prop_assert_eq!(date_from_binary(&sent), Ok(days + 10_957));
            let text = rendered(date_text_from_binary, &sent).unwrap();
            prop_assert_eq!(date_from_text(text.as_bytes()), Ok(days + 10_957));
            let start = slow_year_start(civil(i64::from(days) + 10_957).0);
            prop_assert!((0..366).contains(&(i64::from(days) + 10_957 - start)));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[-0-9]{4,12} ?[0-9:]{0,9}[.0-9]{0,9}[-+:0-9]{0,10}( BC)?",
        ) {
            for cell in [&cell[..], near.as_bytes(), cell.get(..4).unwrap_or(&cell)] {
                let _ = (date_from_text(cell), date_from_binary(cell));
                let _ = rendered(date_text_from_binary, cell);
            }
        }
    }
}
