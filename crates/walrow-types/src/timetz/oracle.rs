//! Every offset, compared with a second, simple writer.

use super::*;

/// An offset as the server writes it.
pub(crate) fn zone(offset_s: i32) -> String {
    let (sign, ahead) = if offset_s < 0 {
        ('-', -offset_s)
    } else {
        ('+', offset_s)
    };
    let (hours, minutes, seconds) = (ahead / 3600, ahead / 60 % 60, ahead % 60);
    match (minutes, seconds) {
        (0, 0) => format!("{sign}{hours:02}"),
        (_, 0) => format!("{sign}{hours:02}:{minutes:02}"),
        _ => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[test]
fn every_offset_of_a_timetz_is_read_and_written() {
    for offset_s in -57_599..=57_599_i32 {
        let time_us = 43_200_000_000_i64;
        let zone = zone(offset_s);
        let text = format!("12:00:00{zone}");
        let mut sent = time_us.to_be_bytes().to_vec();
        sent.extend_from_slice(&(-offset_s).to_be_bytes());
        let expected = Ok(TimeTzValue { time_us, offset_s });
        assert_eq!(timetz_from_text(text.as_bytes()), expected, "{text}");
        assert_eq!(timetz_from_binary(&sent), expected, "{text}");
        let mut out = Vec::new();
        timetz_text_from_binary(&sent, &mut out).unwrap();
        assert_eq!(out, text.as_bytes());
    }
    for offset_s in [-57_600, 57_600, i32::MIN, i32::MAX] {
        let mut sent = 0_i64.to_be_bytes().to_vec();
        sent.extend_from_slice(&offset_s.to_be_bytes());
        assert!(timetz_from_binary(&sent).is_err(), "{offset_s}");
    }
}
