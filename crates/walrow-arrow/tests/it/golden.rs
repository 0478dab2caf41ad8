//! Captures of real servers as batches.
#![expect(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use arrow_array::RecordBatch;
use std::collections::BTreeMap;
use walrow_arrow::{
    Decoder, DecoderBuilder, Error, ErrorKind, OnUnfinished, OnUnrepresentable, Profile,
};
use walrow_testkit::{Capture, captures, in_chunks, step, walk};

/// All batches of a stream in these pieces, and the result of its end.
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
            while let Ok(Some(batch)) = decoder.next_batch() {
                batches.push((batch.relation().to_string(), batch.into_record_batch()));
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
    while let Ok(Some(batch)) = decoder.next_batch() {
        batches.push((batch.relation().to_string(), batch.into_record_batch()));
    }
    (batches, end)
}

/// All captures of logical replication.
fn logical() -> Vec<Capture> {
    let logical: Vec<_> = captures()
        .into_iter()
        .filter(|capture| !capture.is_physical())
        .collect();
    assert!(logical.len() > 200, "{} captures", logical.len());
    logical
}

fn lenient() -> DecoderBuilder {
    DecoderBuilder::new().with_unrepresentable(OnUnrepresentable::Null)
}

/// How a stream ends.
#[derive(Clone, Debug, PartialEq)]
enum End {
    Whole,
    Unfinished,
    Server(String),
    Other(Error),
}

impl End {
    fn of(end: Result<(), Error>) -> Self {
        match end {
            Ok(()) => Self::Whole,
            Err(error) => match error.kind() {
                ErrorKind::Unfinished => Self::Unfinished,
                ErrorKind::Server { sqlstate, .. } => Self::Server(sqlstate.clone()),
                _ => Self::Other(error),
            },
        }
    }

    /// How these bytes end, judged only by the kinds of their frames and messages.
    fn expected(bytes: &[u8]) -> Self {
        let (mut rest, mut is_open, mut sqlstate) = (bytes, false, None);
        while let Some(size) = walrow_wire::Frame::size(rest).unwrap() {
            let Some((frame, behind)) = rest.split_at_checked(size) else {
                break;
            };
            rest = behind;
            match (frame[0], frame.get(5), frame.get(30)) {
                (b'W', ..) => (is_open, sqlstate) = (false, None),
                (b'E', ..) => {
                    let mut fields = frame[5..].split(|byte| *byte == 0);
                    let code = fields.find_map(|field| field.strip_prefix(b"C")).unwrap();
                    let code = String::from_utf8(code.to_vec()).unwrap();
                    (is_open, sqlstate) = (false, Some(code));
                }
                // Begin, Stream Start, Begin Prepare.
                (b'd', Some(b'w'), Some(b'B' | b'S' | b'b')) => is_open = true,
                // Commit, Stream Stop, Prepare.
                (b'd', Some(b'w'), Some(b'C' | b'E' | b'P')) => is_open = false,
                _ => {}
            }
        }
        match sqlstate {
            Some(sqlstate) => Self::Server(sqlstate),
            None if is_open || !rest.is_empty() => Self::Unfinished,
            None => Self::Whole,
        }
    }
}

#[test]
fn every_capture_is_read_but_physical_ones() {
    let (mut physical, mut broken) = (0, 0);
    for capture in captures() {
        let (batches, end) = decode(lenient(), [&*capture.bytes]);
        if !capture.is_physical() {
            let expected = End::expected(&capture.bytes);
            broken += usize::from(expected != End::Whole);
            assert_eq!(End::of(end), expected, "{}", capture.name);
            // Unless the caller ignores the end.
            let ignoring = lenient().with_unfinished(OnUnfinished::Ignore);
            let ignored = decode(ignoring, [&*capture.bytes]);
            assert_eq!(ignored, (batches, Ok(())), "{}", capture.name);
            continue;
        }
        let error = end.unwrap_err();
        let ErrorKind::Stream(stream) = error.kind() else {
            panic!("{}: {error}", capture.name)
        };
        let walrow_stream::ErrorKind::Wire(wire) = &stream.kind else {
            panic!("{}: {error}", capture.name)
        };
        assert_eq!(wire.kind, walrow_wire::ErrorKind::PhysicalStream);
        physical += 1;
    }
    assert!(physical >= 2, "{physical} physical captures");
    assert!(broken >= 5, "{broken} captures that the server ended");
}

/// A history gives the same committed rows, whether the server sent its transactions whole, streamed
/// in chunks, or prepared.
#[test]
fn every_protocol_version_gives_the_same_rows() {
    let all: BTreeMap<_, _> = logical()
        .into_iter()
        .map(|capture| (capture.name, capture.bytes))
        .collect();
    let mut pairs = 0;
    let mut rows = 0;
    for (name, plain) in &all {
        let Some(stem) = name.strip_suffix(".v1") else {
            continue;
        };
        let others = ["text", "binary"].map(|form| format!("{stem}.{form}"));
        for other in others.iter().filter(|name| all.contains_key(*name)) {
            let of = |bytes: &[u8]| {
                let (mut batches, end) = decode(lenient(), [bytes]);
                assert_eq!(end, Ok(()), "{stem}");
                batches.sort_by(|(one, _), (other, _)| one.cmp(other));
                batches
            };
            let (plain, other_rows) = (of(plain), of(&all[other]));
            assert_eq!(plain, other_rows, "{other}");
            rows += plain
                .iter()
                .map(|(_, batch)| batch.num_rows())
                .sum::<usize>();
            pairs += 1;
        }
    }
    assert!(pairs >= 20, "{pairs} pairs");
    assert!(rows > 1_000, "{rows} rows");
}

/// A stream may end with the message that commits: no later byte is needed, even if the transaction
/// still makes many batches.
#[test]
fn a_stream_may_end_at_any_commit() {
    let mut ends = 0;
    for capture in logical() {
        let bytes = &*capture.bytes;
        let mut places = Vec::new();
        let mut at = 0;
        while let Ok(Some(size)) = walrow_wire::Frame::size(&bytes[at..]) {
            let frame = &bytes[at..(at + size).min(bytes.len())];
            at += size;
            // A CopyData of XLogData, and behind its header Commit, Stream Commit or Commit Prepared.
            if let (Some(b'd'), Some(b'w'), Some(b'C' | b'c' | b'K')) =
                (frame.first(), frame.get(5), frame.get(30))
            {
                places.push(at);
            }
        }
        let count = places.len();
        for place in places.into_iter().step_by(1 + count / 8) {
            let stream = &bytes[..place];
            let (whole, end) = decode(lenient(), [stream]);
            assert_eq!(end, Ok(()), "{} up to {place}", capture.name);
            let whole = in_rows(&whole);
            for rows in 1..=3 {
                // Few rows a batch make a wide table's tests slow.
                if stream.len() > 256 << 10 && rows != 3 {
                    continue;
                }
                let small = || lenient().with_batch_rows(rows);
                let (batches, end) = decode(small(), [stream]);
                assert_eq!(end, Ok(()), "{} up to {place}", capture.name);
                assert_eq!(in_rows(&batches), whole, "{} up to {place}", capture.name);
                // A caller that stops with the input gets the rest from `finish`.
                let mut decoder = small().build().unwrap();
                let mut batches = Vec::new();
                let mut rest = stream;
                while !rest.is_empty() {
                    let consumed = decoder.decode(rest).unwrap();
                    rest = &rest[consumed..];
                    batches.extend(take(&mut decoder));
                }
                decoder.finish().unwrap();
                batches.extend(take(&mut decoder));
                assert_eq!(in_rows(&batches), whole, "{} up to {place}", capture.name);
                assert!(!decoder.is_unfinished() && !decoder.has_batch());
                // A new session does not drop the last rows of the session before.
                let mut decoder = small().build().unwrap();
                let mut batches = Vec::new();
                for _ in 0..2 {
                    let mut rest = stream;
                    while !rest.is_empty() {
                        let consumed = decoder.decode(rest).unwrap();
                        rest = &rest[consumed..];
                        batches.extend(take(&mut decoder));
                    }
                    decoder.new_session();
                }
                decoder.finish().unwrap();
                batches.extend(take(&mut decoder));
                let count = |batches: &[(String, RecordBatch)]| {
                    let rows = batches.iter().map(|(_, batch)| batch.num_rows());
                    rows.sum::<usize>()
                };
                let expected: usize = whole.values().map(Vec::len).sum();
                assert_eq!(
                    count(&batches),
                    2 * expected,
                    "{} up to {place}",
                    capture.name
                );
            }
            ends += 1;
        }
    }
    assert!(ends > 400, "{ends} ends");
}

fn take(decoder: &mut Decoder) -> Vec<(String, RecordBatch)> {
    std::iter::from_fn(|| decoder.next_batch().ok().flatten())
        .map(|batch| (batch.relation().to_string(), batch.into_record_batch()))
        .collect()
}

/// Each table's rows one by one, because batches may end anywhere.
fn in_rows(batches: &[(String, RecordBatch)]) -> BTreeMap<&str, Vec<RecordBatch>> {
    let mut rows: BTreeMap<&str, Vec<RecordBatch>> = BTreeMap::new();
    for (table, batch) in batches {
        let all = (0..batch.num_rows()).map(|row| batch.slice(row, 1));
        rows.entry(table).or_default().extend(all);
    }
    rows
}

#[test]
fn batches_do_not_depend_on_the_cut() {
    for capture in logical() {
        for profile in [Profile::Arrow, Profile::Text] {
            let builder = || lenient().with_profile(profile).with_batch_rows(3);
            let (whole, end) = decode(builder(), [&*capture.bytes]);
            let expected = End::expected(&capture.bytes);
            assert_eq!(End::of(end.clone()), expected, "{}", capture.name);
            for sizes in [&[1][..], &[7], &[30, 1, 1000], &[65_536]] {
                let (cut, cut_end) = decode(builder(), in_chunks(&capture.bytes, sizes));
                assert_eq!(cut_end, end, "{} in pieces of {sizes:?}", capture.name);
                assert_eq!(cut, whole, "{} in pieces of {sizes:?}", capture.name);
            }
        }
    }
}

/// Types of the captures whose two forms differ, and why.
#[rustfmt::skip]
const UNREAD: &[(&str, &[&str])] = &[
    ("only a catalog knows the user's types", &[
        "mood", "pair", "floatrange", "_mood", "_pair", "_posint", "_price",
    ]),
    ("binary money does not contain its scale", &["money"]),
    ("the binary form is a tree that is not read", &["tsquery"]),
    ("the text is a name, the binary form an OID", &["regclass"]),
];

#[test]
fn text_and_binary_of_one_history_are_identical() {
    let all: BTreeMap<_, _> = logical()
        .into_iter()
        .map(|capture| (capture.name, capture.bytes))
        .collect();
    let (mut pairs, mut columns) = (0, 0);
    let mut unread = std::collections::BTreeSet::new();
    for (name, text) in &all {
        let Some(stem) = name.strip_suffix(".text") else {
            continue;
        };
        let Some(binary) = all.get(&format!("{stem}.binary")) else {
            continue;
        };
        for profile in [Profile::Arrow, Profile::Spark, Profile::Text] {
            let of = |bytes: &[u8]| decode(lenient().with_profile(profile), [bytes]);
            let ((text, text_end), (binary, binary_end)) = (of(text), of(binary));
            assert_eq!(End::of(text_end), End::of(binary_end), "{stem}");
            assert_eq!(text.len(), binary.len(), "{stem}");
            for ((table, text), (_, binary)) in text.iter().zip(&binary) {
                assert_eq!(text.schema(), binary.schema(), "{stem} {table}");
                for (index, field) in text.schema().fields().iter().enumerate() {
                    let type_name = field.metadata().get("pg.type").map(String::as_str);
                    let (text, binary) = (text.column(index), binary.column(index));
                    let all_unread = UNREAD.iter().flat_map(|(_, names)| *names);
                    if let Some(name) = all_unread.copied().find(|name| Some(*name) == type_name) {
                        if text != binary {
                            unread.insert(name);
                        }
                        continue;
                    }
                    let column = format!("{stem} {table}.{}", field.name());
                    assert_eq!(text, binary, "{column} {profile:?}");
                    columns += 1;
                }
            }
        }
        pairs += 1;
    }
    // A type whose forms agree is no exception.
    let all_unread: std::collections::BTreeSet<_> = UNREAD
        .iter()
        .flat_map(|(_, names)| names.iter().copied())
        .collect();
    assert_eq!(unread, all_unread);
    assert!(columns > 3_000, "{columns} columns");
    assert!(pairs > 60, "{pairs} pairs");
}

/// A cut stream gives the batches of its complete transactions. Then comes an error, unless the cut
/// is between two transactions.
#[test]
fn cut_captures_end_as_they_are_cut() {
    let (mut cuts, mut errors) = (0, 0);
    // Edges are in threes.
    let step = step(4);
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
        let (whole, _) = decode(lenient(), [bytes]);
        for place in places.into_iter().step_by(step) {
            let (rows, cut_end) = decode(lenient(), [&bytes[..place.min(bytes.len())]]);
            if !capture.is_physical() {
                let expected = End::expected(&bytes[..place.min(bytes.len())]);
                errors += usize::from(expected == End::Unfinished);
                assert_eq!(
                    End::of(cut_end),
                    expected,
                    "{} cut at {place}",
                    capture.name
                );
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
    assert!(cuts * step > 50_000, "{cuts} cuts");
    assert!(errors > cuts / 2, "{errors} errors at {cuts} cuts");
}

/// Any changed byte gives rows or an error, never a panic.
#[test]
fn changed_bytes_never_panic() {
    let mut changes = 0;
    let step = step(11);
    for capture in captures() {
        if capture.bytes.len() > 4 << 10 || !capture.name.starts_with("18/") {
            continue;
        }
        let mut bytes = capture.bytes.clone();
        for place in (0..bytes.len()).step_by(step) {
            let original = bytes[place];
            for changed in [original ^ 1, original ^ 0x80, 0, 0xFF] {
                bytes[place] = changed;
                let _ = decode(DecoderBuilder::new(), [&*bytes]);
                changes += 1;
            }
            bytes[place] = original;
        }
    }
    assert!(changes * step > 10_000, "{changes} changes");
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
