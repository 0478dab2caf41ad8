//! The timestamps of chrono and jiff, and every offset.

use chrono::{DateTime, Datelike};
use jiff::civil;
use proptest::prelude::*;

use super::*;
use crate::timetz::oracle::zone;

/// The server's text of a timestamp, from the parts that another library gives.
fn text(year: i64, rest: &str) -> String {
    if year > 0 {
        format!("{year:04}{rest}")
    } else {
        format!("{:04}{rest} BC", 1 - year)
    }
}

fn fraction(micros: u32) -> String {
    if micros == 0 {
        return String::new();
    }
    format!(".{micros:06}").trim_end_matches('0').to_owned()
}

#[test]
fn every_offset_of_a_timestamptz_is_read() {
    for offset_s in -57_599..=57_599_i32 {
        let zone = zone(offset_s);
        let moment = format!("1970-01-02 00:00:00{zone}");
        let micros = (86_400 - i64::from(offset_s)) * 1_000_000;
        assert_eq!(
            timestamptz_from_text(moment.as_bytes()),
            Ok(micros),
            "{moment}"
        );
    }
}

/// -4712-01-01 to 262142-12-31, where chrono ends.
const CHRONO: std::ops::Range<i64> = -210_863_520_000_000_000..8_210_266_876_799_999_999;

/// -4712-01-01 to 9999-12-30, where jiff ends.
const JIFF: std::ops::Range<i64> = -210_863_520_000_000_000..253_402_207_200_000_000;

/// Values from the whole range, near the present, and on whole seconds and days.
fn moments(range: std::ops::Range<i64>) -> impl Strategy<Value = i64> {
    let present = 0..4_000_000_000_000_000_i64;
    prop_oneof![
        range.clone(),
        present,
        (range.start / 1_000_000..range.end / 1_000_000).prop_map(|seconds| seconds * 1_000_000),
        (
            range.start / 86_400_000_000 + 1..range.end / 86_400_000_000,
            -1..=1_i64
        )
            .prop_map(|(days, micros)| days * 86_400_000_000 + micros),
    ]
}

fn check(micros: i64, text: &str) {
    let sent = (micros - 946_684_800_000_000).to_be_bytes();
    assert_eq!(timestamp_from_text(text.as_bytes()), Ok(micros), "{text}");
    assert_eq!(timestamp_from_binary(&sent), Ok(micros), "{text}");
    let mut out = Vec::new();
    timestamp_text_from_binary(&sent, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn moments_are_those_of_chrono(micros in moments(CHRONO)) {
        let moment = DateTime::from_timestamp_micros(micros).unwrap().naive_utc();
        let rest = moment.format("-%m-%d %H:%M:%S").to_string();
        let rest = rest + &fraction(moment.and_utc().timestamp_subsec_micros());
        check(micros, &text(moment.year().into(), &rest));
    }

    #[test]
    fn moments_are_those_of_jiff(micros in moments(JIFF)) {
        let moment = jiff::Timestamp::from_microsecond(micros).unwrap();
        let moment: civil::DateTime = jiff::tz::Offset::UTC.to_datetime(moment);
        let rest = format!(
            "-{:02}-{:02} {:02}:{:02}:{:02}{}",
            moment.month(),
            moment.day(),
            moment.hour(),
            moment.minute(),
            moment.second(),
            fraction(u32::try_from(moment.subsec_nanosecond() / 1000).unwrap())
        );
        check(micros, &text(moment.year().into(), &rest));
    }
}
