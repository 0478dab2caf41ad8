//! The fast readers beside slow ones that follow the server's grammar byte by byte.

use proptest::prelude::*;
use std::iter::Peekable;
use walrow_testkit::strategy::near;

use super::*;

/// The bounds, and whether each is inclusive; `None` is the empty range.
type Range = Option<(Option<Vec<u8>>, Option<Vec<u8>>, bool, bool)>;

const MEANS: &[u8] = b"\"\\()[], \t\n\x0b\x0c\r";

fn reference_range(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> Option<Range> {
    let lower_inc = match bytes.next()? {
        b'[' => true,
        b'(' => false,
        _ => return None,
    };
    let lower = reference_bound(bytes)?;
    if bytes.next()? != b',' {
        return None;
    }
    let upper = reference_bound(bytes)?;
    let upper_inc = match bytes.next()? {
        b']' => true,
        b')' => false,
        _ => return None,
    };
    if (lower_inc && lower.is_none()) || (upper_inc && upper.is_none()) {
        return None;
    }
    Some(Some((lower, upper, lower_inc, upper_inc)))
}

#[expect(clippy::option_option, reason = "no text of a bound, and no bound")]
fn reference_bound(bytes: &mut Peekable<impl Iterator<Item = u8>>) -> Option<Option<Vec<u8>>> {
    let mut bound = Vec::new();
    if bytes.next_if_eq(&b'"').is_some() {
        loop {
            match bytes.next()? {
                b'"' if bytes.next_if_eq(&b'"').is_some() => bound.push(b'"'),
                b'"' => return Some(Some(bound)),
                b'\\' => bound.push(bytes.next()?),
                byte => bound.push(byte),
            }
        }
    }
    while let Some(byte) = bytes.next_if(|byte| !MEANS.contains(byte)) {
        bound.push(byte);
    }
    Some((!bound.is_empty()).then_some(bound))
}

fn reference(cell: &[u8]) -> Option<Range> {
    if cell == b"empty" {
        return Some(None);
    }
    let mut bytes = cell.iter().copied().peekable();
    let range = reference_range(&mut bytes)?;
    bytes.next().is_none().then_some(range)
}

fn reference_multirange(cell: &[u8]) -> Option<Vec<Range>> {
    if cell == b"{}" {
        return Some(Vec::new());
    }
    let mut bytes = cell.iter().copied().peekable();
    if bytes.next()? != b'{' {
        return None;
    }
    let mut ranges = Vec::new();
    loop {
        ranges.push(reference_range(&mut bytes)?);
        match bytes.next()? {
            b',' => {}
            b'}' if bytes.peek().is_none() => return Some(ranges),
            _ => return None,
        }
    }
}

fn fast(cell: &[u8]) -> Option<Range> {
    let mut scratch = b"left over".to_vec();
    let parts = range_from_text(cell, &mut scratch).ok()?;
    let bound = |bound: Option<&[u8]>| bound.map(<[u8]>::to_vec);
    Some((!parts.empty).then(|| {
        let (lower, upper) = (bound(parts.lower), bound(parts.upper));
        (lower, upper, parts.lower_inc, parts.upper_inc)
    }))
}

fn fast_multirange(cell: &[u8]) -> Option<Vec<Range>> {
    let ranges = multirange_from_text(cell).ok()?;
    ranges.map(|range| fast(range.ok()?)).collect()
}

/// The text that `range_out` writes: quotes and backslashes are doubled.
fn written(range: &Range) -> Vec<u8> {
    let Some((lower, upper, lower_inc, upper_inc)) = range else {
        return b"empty".to_vec();
    };
    let mut out = vec![if *lower_inc { b'[' } else { b'(' }];
    for (place, bound) in [lower, upper].into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        match bound {
            None => {}
            Some(bound) if !bound.is_empty() && !bound.iter().any(|it| MEANS.contains(it)) => {
                out.extend_from_slice(bound);
            }
            Some(bound) => {
                out.push(b'"');
                for byte in bound {
                    let times = if b"\"\\".contains(byte) { 2 } else { 1 };
                    out.extend(std::iter::repeat_n(*byte, times));
                }
                out.push(b'"');
            }
        }
    }
    out.push(if *upper_inc { b']' } else { b')' });
    out
}

fn filled() -> impl Strategy<Value = Range> {
    let special = prop::sample::select(&b"ab\"\\()[],{} \t\n\x0b\x0c\r\xc3"[..]);
    let bound = || proptest::option::of(proptest::collection::vec(special.clone(), 0..5));
    (bound(), bound(), any::<bool>(), any::<bool>()).prop_map(|(lower, upper, from, to)| {
        let (from, to) = (from && lower.is_some(), to && upper.is_some());
        Some((lower, upper, from, to))
    })
}

fn ranges() -> impl Strategy<Value = Range> {
    prop_oneof![1 => Just(None), 9 => filled()]
}

fn write_all(ranges: &[Range]) -> Vec<u8> {
    let ranges: Vec<_> = ranges.iter().map(written).collect();
    [&b"{"[..], &ranges.join(&b','), b"}"].concat()
}

fn multiranges() -> impl Strategy<Value = Vec<Range>> {
    proptest::collection::vec(filled(), 0..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_text_is_read_as_the_grammar_says(
        range in near(ranges().prop_map(|range| written(&range)), b"ab()[],\"\\ \tempty"),
        multirange in near(multiranges().prop_map(|ranges| write_all(&ranges)), b"ab()[],{}\"\\ "),
    ) {
        for cell in [range, multirange] {
            prop_assert_eq!(fast(&cell), reference(&cell));
            prop_assert_eq!(fast_multirange(&cell), reference_multirange(&cell));
        }
    }

    #[test]
    fn text_of_the_server_is_read_and_written_again(range in ranges(), ranges in multiranges()) {
        let mut again = Vec::new();
        let bound = |bound: &[u8], out: &mut Vec<u8>| {
            out.extend_from_slice(bound);
            Ok(())
        };
        range_text_from_text(&written(&range), &mut again, bound).unwrap();
        multirange_text_from_text(&write_all(&ranges), &mut again, bound).unwrap();
        prop_assert_eq!(again, [written(&range), write_all(&ranges)].concat());
        prop_assert_eq!(fast(&written(&range)), Some(range));
        prop_assert_eq!(fast_multirange(&write_all(&ranges)), Some(ranges));
    }
}
