//! What real servers sent, as batches.
#![expect(
    clippy::case_sensitive_file_extension_comparisons,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and captures' names are ours"
)]

use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use walrow_arrow::{DecoderBuilder, Error, ErrorKind, OnUnrepresentable, Profile};
use walrow_testkit::{Capture, captures, in_chunks, walk};

/// All batches of a stream that comes in these pieces, and what ended it.
fn decode<'a>(
    builder: DecoderBuilder,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<(String, RecordBatch)>, Result<(), Error>) {
    let mut decoder = builder.build().unwrap();
    let mut batches = Vec::new();
    let mut end = Ok(());
    'pieces: for piece in pieces {
        let mut rest = piece;
        loop {
            let result = decoder.decode(rest);
            let before = batches.len();
            while let Some(batch) = decoder.next_batch() {
                batches.push((batch.relation().to_string(), batch.into_records()));
            }
            match result {
                Ok(consumed) => rest = &rest[consumed..],
                Err(error) => {
                    end = Err(error);
                    break 'pieces;
                }
            }
            if rest.is_empty() && batches.len() == before {
                break;
            }
        }
    }
    if end.is_ok() {
        end = decoder.finish();
    }
    while let Some(batch) = decoder.next_batch() {
        batches.push((batch.relation().to_string(), batch.into_records()));
    }
    (batches, end)
}

/// Captures of plain transactions, whole or not.
fn plain() -> Vec<Capture> {
    let plain: Vec<_> = captures()
        .into_iter()
        .filter(|capture| !capture.is_physical())
        .filter(|capture| decode(lenient(), [&*capture.bytes]).1.is_ok())
        .collect();
    assert!(plain.len() > 150, "{} plain captures", plain.len());
    plain
}

fn lenient() -> DecoderBuilder {
    DecoderBuilder::new().with_unrepresentable(OnUnrepresentable::Null)
}

#[test]
fn every_capture_is_read_or_refused_by_name() {
    let mut refused = BTreeMap::new();
    for capture in captures() {
        let (_, end) = decode(lenient(), [&*capture.bytes]);
        if let Err(error) = end {
            let ErrorKind::Stream(stream) = error.kind() else {
                panic!("{}: {error}", capture.name)
            };
            match &stream.kind {
                walrow_stream::ErrorKind::NotYet { .. } => {
                    *refused.entry("not yet").or_insert(0) += 1;
                    let (_, name) = capture.name.split_once('/').unwrap();
                    assert!(
                        ["streaming", "two-phase"]
                            .iter()
                            .any(|kind| name.starts_with(kind)),
                        "{}: {error}",
                        capture.name
                    );
                    assert!(!name.ends_with(".v1"), "{}: {error}", capture.name);
                }
                walrow_stream::ErrorKind::Wire(wire) => {
                    assert_eq!(wire.kind, walrow_wire::ErrorKind::PhysicalStream);
                    assert!(capture.is_physical(), "{}: {error}", capture.name);
                    *refused.entry("physical").or_insert(0) += 1;
                }
                other => panic!("{}: {other:?}", capture.name),
            }
        }
    }
    assert!(refused["not yet"] >= 10, "{refused:?}");
    assert!(refused["physical"] >= 1, "{refused:?}");
}

#[test]
fn batches_do_not_depend_on_the_cut() {
    for capture in plain() {
        for profile in [Profile::Arrow, Profile::Text] {
            let builder = || lenient().with_profile(profile).with_batch_rows(3);
            let (whole, end) = decode(builder(), [&*capture.bytes]);
            assert_eq!(end, Ok(()), "{}", capture.name);
            for sizes in [&[1][..], &[7], &[30, 1, 1000], &[65_536]] {
                let (cut, end) = decode(builder(), in_chunks(&capture.bytes, sizes));
                assert_eq!(end, Ok(()), "{} in pieces of {sizes:?}", capture.name);
                assert_eq!(cut, whole, "{} in pieces of {sizes:?}", capture.name);
            }
        }
    }
}

/// Types of the captures that stay PostgreSQL's own text.
#[rustfmt::skip]
const UNREAD: &[&str] = &[
    "inet", "cidr", "macaddr", "macaddr8", "interval", "money", "bit", "varbit", "point",
    "polygon", "circle", "line", "lseg", "path", "int4range", "numrange", "tstzrange",
    "int8multirange", "daterange", "tsvector", "tsquery", "tid", "regclass", "pg_snapshot",
    "jsonpath", "_box", "int2vector", "oidvector", "mood", "pair", "floatrange", "_mood", "_pair",
    "_posint", "_price", "pg_lsn", "_inet", "_interval",
];

#[test]
fn text_and_binary_of_one_history_are_identical() {
    let all: BTreeMap<_, _> = plain()
        .into_iter()
        .map(|capture| (capture.name, capture.bytes))
        .collect();
    let (mut pairs, mut columns) = (0, 0);
    for (name, text) in &all {
        let Some(stem) = name.strip_suffix(".text") else {
            continue;
        };
        let Some(binary) = all.get(&format!("{stem}.binary")) else {
            continue;
        };
        for profile in [Profile::Arrow, Profile::Spark] {
            let of = |bytes: &[u8]| decode(lenient().with_profile(profile), [bytes]);
            let ((text, text_end), (binary, binary_end)) = (of(text), of(binary));
            assert_eq!(text_end, binary_end, "{stem}");
            assert_eq!(text.len(), binary.len(), "{stem}");
            for ((table, text), (_, binary)) in text.iter().zip(&binary) {
                assert_eq!(text.schema(), binary.schema(), "{stem} {table}");
                for (index, field) in text.schema().fields().iter().enumerate() {
                    // A type whose binary form is not read stays text, and has no place for it.
                    let type_name = field.metadata().get("pg.type").map(String::as_str);
                    if UNREAD.contains(&type_name.unwrap_or("int4")) {
                        continue;
                    }
                    let (text, binary) = (text.column(index), binary.column(index));
                    assert_eq!(text, binary, "{stem} {table}.{}", field.name());
                    columns += 1;
                }
            }
        }
        pairs += 1;
    }
    assert!(columns > 2_000, "{columns} columns");
    assert!(pairs > 60, "{pairs} pairs");
}

/// Cut off anywhere, a stream gives the batches of the transactions that are whole, and no error.
#[test]
fn cut_captures_end_clean() {
    let mut cuts = 0;
    for capture in captures() {
        let bytes = &*capture.bytes;
        let places: Vec<usize> = if bytes.len() <= 8 << 10 {
            (0..bytes.len()).collect()
        } else {
            let mut edges = Vec::new();
            let mut at = 0;
            while let Ok(Some(size)) = walrow_wire::Frame::size(&bytes[at..]) {
                edges.extend([at.saturating_sub(1), at, at + 1]);
                at += size;
            }
            // The 800-column captures have few messages, the streamed ones thousands.
            edges
                .into_iter()
                .step_by(1 + bytes.len() / (64 << 10))
                .collect()
        };
        let (whole, end) = decode(lenient(), [bytes]);
        for place in places {
            let (rows, cut_end) = decode(lenient(), [&bytes[..place.min(bytes.len())]]);
            if end.is_ok() {
                assert_eq!(cut_end, Ok(()), "{} cut at {place}", capture.name);
            }
            let count = |batches: &[(String, RecordBatch)]| {
                batches
                    .iter()
                    .map(|(_, batch)| batch.num_rows())
                    .sum::<usize>()
            };
            assert!(
                count(&rows) <= count(&whole),
                "{} cut at {place}",
                capture.name
            );
            cuts += 1;
        }
    }
    assert!(cuts > 50_000, "{cuts} cuts");
}

/// Any one byte changed: rows, or an error, and nothing worse.
#[test]
fn changed_bytes_do_no_harm() {
    for capture in captures() {
        if capture.bytes.len() > 4 << 10 || !capture.name.starts_with("18/") {
            continue;
        }
        let mut bytes = capture.bytes.clone();
        for place in 0..bytes.len() {
            let original = bytes[place];
            for changed in [original ^ 1, original ^ 0x80, 0, 0xFF] {
                bytes[place] = changed;
                let _ = decode(DecoderBuilder::new(), [&*bytes]);
            }
            bytes[place] = original;
        }
    }
}

#[test]
fn captures_are_whole_frames() {
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        assert_eq!(
            walk(&capture.bytes, |_| {}),
            Ok(capture.bytes.len()),
            "{}",
            capture.name
        );
    }
}
