//! Several threads return what one returns: the same batches, in the same order, and the same error.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use arrow_array::RecordBatch;
use walrow_arrow::{
    Batch, DecoderBuilder, DecoderOption, Error, ErrorKind, OnUnrepresentable, OptionsError,
    Profile,
};
use walrow_testkit::{OwnedCell, Stream, captures, in_chunks, null, text, unchanged};
use walrow_wire::{Lsn, ReplicaIdentity};

const INT4: u32 = 23;
const TEXT: u32 = 25;
/// The Spark profile writes its text, which is longer than its binary form.
const TIMETZ: u32 = 1266;

/// The batches, the error at the end, and the position.
#[derive(Debug)]
struct Outcome {
    batches: Vec<Batch>,
    error: Option<Error>,
    position: Lsn,
}

fn decode<'a>(
    builder: &DecoderBuilder,
    threads: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Outcome {
    let mut decoder = builder.clone().with_threads(threads).build().unwrap();
    let (mut batches, mut error) = (Vec::new(), None);
    'pieces: for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() || !decoder.wants_input() {
            while let Ok(Some(batch)) = decoder.next_batch() {
                batches.push(batch);
            }
            match decoder.decode(rest) {
                Ok(consumed) => rest = &rest[consumed..],
                Err(found) => {
                    error = Some(found);
                    break 'pieces;
                }
            }
        }
    }
    error = error.or_else(|| decoder.finish().err());
    loop {
        match decoder.next_batch() {
            Ok(Some(batch)) => batches.push(batch),
            Ok(None) => break,
            Err(found) => {
                error = error.or(Some(found));
                break;
            }
        }
    }
    Outcome {
        batches,
        error,
        position: decoder.position(),
    }
}

/// Decodes with 1, 2 and 4 threads. Returns the outcome of one.
fn same_with_threads(
    builder: &DecoderBuilder,
    bytes: &[u8],
    sizes: &[usize],
    what: &str,
) -> Outcome {
    let one = decode(builder, 1, in_chunks(bytes, sizes));
    for threads in [2, 4] {
        let several = decode(builder, threads, in_chunks(bytes, sizes));
        same(&one, &several, &format!("{what}: {threads} threads"));
    }
    one
}

fn same(one: &Outcome, other: &Outcome, what: &str) {
    assert_eq!(one.error, other.error, "{what}");
    assert_eq!(one.position, other.position, "{what}");
    assert_eq!(one.batches.len(), other.batches.len(), "{what}");
    for (one, other) in one.batches.iter().zip(&other.batches) {
        assert_eq!(one.relation(), other.relation(), "{what}");
        same_records(one.record_batch(), other.record_batch(), what);
        assert_eq!(one.nulled(), other.nulled(), "{what}");
        assert_eq!(one.dropped_lower_bounds(), other.dropped_lower_bounds());
    }
}

fn same_records(one: &RecordBatch, other: &RecordBatch, what: &str) {
    assert_eq!(one.schema(), other.schema(), "{what}");
    assert_eq!(one.num_rows(), other.num_rows(), "{what}");
    for (place, field) in one.schema().fields().iter().enumerate() {
        let equal = one.column(place) == other.column(place);
        assert!(equal, "{what}: other values in {}", field.name());
    }
}

#[test]
fn captures_of_servers_give_the_same_batches() {
    let mut rows = 0;
    for (number, capture) in captures().into_iter().enumerate() {
        if capture.is_physical() {
            continue;
        }
        let profiles = [Profile::Arrow, Profile::Spark, Profile::Text];
        let builder = DecoderBuilder::new()
            .with_profile(profiles[number % 3])
            .with_batch_rows([1, 3, 1_000][number / 3 % 3]);
        let name = &capture.name;
        let found = same_with_threads(&builder, &capture.bytes, &[4_096], name);
        rows += found.batches.iter().map(rows_of).sum::<usize>();
        // Cut off, and with a byte that is wrong.
        let middle = capture.bytes.len() / 2;
        same_with_threads(&builder, &capture.bytes[..middle], &[777], name);
        let mut damaged = capture.bytes;
        damaged[middle] ^= 0x55;
        same_with_threads(&builder, &damaged, &[usize::MAX], name);
    }
    assert!(rows > 5_000, "{rows} rows");
}

#[test]
fn a_byte_that_is_wrong_gives_the_same_batches_and_the_same_error() {
    let mut seed = 7_u64;
    let mut next = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let (mut errors, mut flips) = (0, 0);
    for capture in captures() {
        if capture.is_physical() || capture.bytes.len() > 40_000 {
            continue;
        }
        for _ in 0..4 {
            let mut bytes = capture.bytes.clone();
            let at = next(bytes.len());
            bytes[at] ^= 1 << next(8);
            let builder = DecoderBuilder::new()
                .with_unrepresentable(OnUnrepresentable::Null)
                .with_batch_rows([2, 5, 1_000][next(3)])
                .with_batch_memory([4_000, 1 << 20][next(2)]);
            let sizes = [[300, 70][next(2)], next(4_000) + 64];
            let what = format!("{}, byte {at}", capture.name);
            let found = same_with_threads(&builder, &bytes, &sizes, &what);
            flips += 1;
            errors += usize::from(found.error.is_some());
        }
    }
    assert!(flips > 200 && errors > 40, "{errors} errors of {flips}");
}

fn rows_of(batch: &Batch) -> usize {
    batch.record_batch().num_rows()
}

/// The fault in the rows of [`large`], and its row.
#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// The value of this row is no number.
    Value(u32),
    /// Both, the second far behind the first.
    Values(u32, u32),
    /// A row of a relation that was not described.
    Relation(u32),
    /// A value that is no number, and then such a row.
    Both(u32, u32),
}

/// Several MiB of transactions in five tables that alternate unevenly: updates with old rows, values that
/// were not sent, a TRUNCATE, a column that is added in the middle.
fn large(fault: Fault) -> Vec<u8> {
    const ROWS: u32 = 40_000;
    let columns = [("id", INT4, -1, true), ("note", TEXT, -1, false)];
    let wider = [columns[0], columns[1], ("more", INT4, -1, false)];
    let mut stream = Stream::new().session();
    for table in 1..=5_u32 {
        let name = format!("t{table}");
        stream = stream.relation(table, "public", &name, ReplicaIdentity::Full, &columns);
    }
    let mut bytes = stream.bytes();
    let mut row = 0;
    while row < ROWS {
        let mut stream = Stream::new().begin(u64::from(row + 1) << 12, row + 10);
        if row == ROWS / 2 {
            stream = stream.truncate(0, &[2, 4]);
            stream = stream.relation(3, "public", "t3", ReplicaIdentity::Full, &wider);
        }
        for _ in 0..50 {
            // One table has most of the rows, one has few.
            let table = [1, 1, 1, 1, 2, 3, 1, 4][row as usize % 8];
            let table = if row % 1_000 == 999 { 5 } else { table };
            let wrong = matches!(fault, Fault::Value(at) | Fault::Values(at, _) if at == row)
                || matches!(fault, Fault::Values(_, at) | Fault::Both(at, _) if at == row);
            let id = if wrong {
                text("12x")
            } else {
                text(row.to_string())
            };
            let note = text(format!("{row:>100}"));
            let mut new = vec![id, note];
            if table == 3 && row >= ROWS / 2 {
                new.push(null());
            }
            let is_unknown = matches!(fault, Fault::Relation(at) | Fault::Both(_, at) if at == row);
            stream = match row % 11 {
                _ if is_unknown => stream.insert(99, &new),
                3 => {
                    let old: Vec<OwnedCell> = new.iter().map(|_| null()).collect();
                    stream.update_full(table, &old, &new)
                }
                5 => {
                    new[1] = unchanged();
                    stream.update(table, &new)
                }
                7 => stream.delete_full(table, &new),
                _ => stream.insert(table, &new),
            };
            row += 1;
        }
        bytes.extend(stream.commit().bytes());
    }
    bytes
}

#[test]
fn a_large_stream_gives_the_same_batches() {
    let bytes = large(Fault::None);
    assert!(bytes.len() > 5 << 20);
    let default = DecoderBuilder::new();
    for (builder, batches) in [
        (default.clone(), 7),
        (default.clone().with_batch_rows(500), 80),
        (default.clone().with_batch_bytes(100_000), 60),
        // The fullest batches are returned first.
        (default.clone().with_batch_memory(1 << 20), 8),
        (default.clone().with_table("t1"), 2),
        (default.clone().with_columns(["id"]), 7),
        (default.with_envelope(true), 3),
    ] {
        let found = same_with_threads(&builder, &bytes, &[1 << 20], "large");
        assert_eq!(found.error, None);
        assert!(found.batches.len() >= batches, "{}", found.batches.len());
    }
}

#[test]
fn the_first_error_comes_after_the_same_batches() {
    let builder = DecoderBuilder::new().with_batch_rows(700);
    // Row 20,999 is in the table with few rows: its batch ends far behind the error.
    for at in [0, 7_004, 20_999, 39_999] {
        let found = same_with_threads(&builder, &large(Fault::Value(at)), &[1 << 16], "value");
        let error = found.error.unwrap();
        assert!(
            matches!(error.kind(), ErrorKind::Malformed { .. }),
            "{error}"
        );
        let rows: usize = found.batches.iter().map(rows_of).sum();
        // Each update with an old row has two; and two rows are a TRUNCATE's.
        let updates = (0..at).filter(|row| row % 11 == 3).count();
        let truncated = if at >= 20_000 { 2 } else { 0 };
        assert_eq!(rows, at as usize + updates + truncated);
    }
    // The threads may find the second one first.
    let found = same_with_threads(
        &builder,
        &large(Fault::Values(9_999, 10_010)),
        &[1 << 16],
        "values",
    );
    assert_eq!(found.error.unwrap().table(), Some("public.t5"));
    let found = same_with_threads(
        &builder,
        &large(Fault::Relation(20_077)),
        &[1 << 16],
        "relation",
    );
    assert!(matches!(found.error.unwrap().kind(), ErrorKind::Stream(_)));
    let found = same_with_threads(
        &builder,
        &large(Fault::Both(10_001, 10_007)),
        &[1 << 16],
        "both",
    );
    assert!(matches!(
        found.error.unwrap().kind(),
        ErrorKind::Malformed { .. }
    ));
}

#[test]
fn a_transaction_of_several_stretches_is_dropped_as_a_whole() {
    let columns = [("id", INT4, -1, true), ("note", TEXT, -1, false)];
    let row = |number: u32| [text(number.to_string()), text(format!("{number:>90}"))];
    for wrong in [1, 40, 99, 130, 257, 399] {
        let mut stream = Stream::new()
            .session()
            .relation(1, "public", "t", ReplicaIdentity::Default, &columns)
            .relation(2, "public", "u", ReplicaIdentity::Default, &columns)
            .begin(1 << 12, 10)
            .insert(1, &row(1_000))
            .insert(2, &row(1_001))
            .commit()
            .begin(2 << 12, 11);
        for number in 0..400 {
            let table = 1 + number % 2;
            stream = if number == wrong {
                stream.insert(table, &row(number)[..1])
            } else {
                stream.insert(table, &row(number))
            };
        }
        let bytes = stream.commit().bytes();
        for rows in [30, 64, 1_000] {
            let builder = DecoderBuilder::new().with_batch_rows(rows);
            let what = format!("row {wrong}, batches of {rows}");
            let found = same_with_threads(&builder, &bytes, &[usize::MAX], &what);
            assert!(matches!(found.error.unwrap().kind(), ErrorKind::Stream(_)));
        }
        // The rows before the transaction are left.
        let builder = DecoderBuilder::new().with_batch_memory(20_000);
        let found = same_with_threads(&builder, &bytes, &[3_000], "pieces");
        assert!(found.batches.iter().map(rows_of).sum::<usize>() >= 2);
    }
}

#[test]
fn few_batches_wait_for_their_caller() {
    let bytes = large(Fault::None);
    let builder = DecoderBuilder::new().with_batch_rows(1);
    let mut decoder = builder.with_threads(2).build().unwrap();
    let mut rest = &bytes[..200_000];
    while !rest.is_empty() {
        let consumed = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        let mut ready = 0;
        while decoder.next_batch().unwrap().is_some() {
            ready += 1;
        }
        // A batch counts as 8 KiB at least, and tests allow 64 KiB.
        assert!(ready < 50, "{ready} batches are ready at once");
    }
}

/// Layouts take 16 MiB at most. The oldest layouts are dropped, also while rows of their tables wait.
#[test]
fn tables_without_a_layout_keep_their_rows() {
    let names: Vec<String> = (0..1_500).map(|place| format!("c{place}")).collect();
    let columns: Vec<_> = names.iter().map(|name| (&**name, INT4, -1, true)).collect();
    let wide = |id: u32| vec![text(id.to_string()); 1_500];
    let narrow = [("id", INT4, -1, true)];
    for (wrong, rows, size) in [
        (None, 2, usize::MAX),
        (None, 1_000, 500_000),
        (Some(64), 2, 300_000),
    ] {
        let mut bytes = Stream::new()
            .session()
            .relation(1, "public", "a", ReplicaIdentity::Default, &narrow)
            .begin(1 << 12, 10)
            .insert(1, &[text("1")])
            .commit()
            .bytes();
        for round in 0..3_u32 {
            for table in 2..26_u32 {
                let number = round * 24 + table;
                let mut stream = Stream::new();
                if round == 0 {
                    let name = format!("t{table}");
                    let identity = ReplicaIdentity::Default;
                    stream = stream.relation(table, "public", &name, identity, &columns);
                }
                let mut row = wide(number);
                if wrong == Some(number) {
                    row[7] = text("1x");
                }
                let stream = stream.begin(u64::from(number) << 13, number + 20);
                bytes.extend(stream.insert(table, &row).commit().bytes());
            }
        }
        let builder = DecoderBuilder::new().with_batch_rows(rows);
        let what = format!("{wrong:?}, batches of {rows}, pieces of {size}");
        let one = decode(&builder, 1, in_chunks(&bytes, &[size]));
        let two = decode(&builder, 2, in_chunks(&bytes, &[size]));
        same(&one, &two, &what);
        let found: usize = one.batches.iter().map(rows_of).sum();
        let expected = wrong.map_or(73, |wrong| wrong as usize - 1);
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn a_table_whose_values_expand_comes_between() {
    // The text is written, so its size is known only then.
    let columns = [("id", INT4, -1, true), ("at", TIMETZ, -1, false)];
    let plain = [("id", INT4, -1, true)];
    let mut stream = Stream::new()
        .session()
        .relation(1, "public", "t", ReplicaIdentity::Default, &plain)
        .relation(2, "public", "u", ReplicaIdentity::Default, &columns)
        .begin(1 << 12, 10);
    for row in 0..3_000 {
        let id = text(row.to_string());
        stream = match row {
            1_000.. if row % 3 == 0 => stream.insert(2, &[id, text("04:05:06+02")]),
            _ => stream.insert(1, &[id]),
        };
    }
    let bytes = stream.commit().bytes();
    let builder = DecoderBuilder::new()
        .with_profile(Profile::Spark)
        .with_batch_rows(400);
    let found = same_with_threads(&builder, &bytes, &[1_000], "expanding");
    assert_eq!(found.batches.iter().map(rows_of).sum::<usize>(), 3_000);
}

#[test]
fn a_flush_returns_everything_so_far() {
    let bytes = large(Fault::None);
    let mut decoder = DecoderBuilder::new().with_threads(2).build().unwrap();
    let half = bytes.len() / 2;
    let mut rest = &bytes[..half];
    let mut rows = 0;
    while !rest.is_empty() {
        let consumed = decoder.decode(rest).unwrap();
        rest = &rest[consumed..];
        while let Some(batch) = decoder.next_batch().unwrap() {
            rows += rows_of(&batch);
        }
    }
    decoder.flush().unwrap();
    while let Some(batch) = decoder.next_batch().unwrap() {
        rows += rows_of(&batch);
    }
    let mut one = DecoderBuilder::new().build().unwrap();
    let mut rest = &bytes[..half];
    let mut expected = 0;
    while !rest.is_empty() || !one.wants_input() {
        let consumed = one.decode(rest).unwrap();
        rest = &rest[consumed..];
        while let Some(batch) = one.next_batch().unwrap() {
            expected += rows_of(&batch);
        }
    }
    one.flush().unwrap();
    while let Some(batch) = one.next_batch().unwrap() {
        expected += rows_of(&batch);
    }
    assert_eq!((rows, decoder.position()), (expected, one.position()));
}

#[test]
fn a_number_of_threads_is_checked() {
    for threads in [0, 65] {
        let error = DecoderBuilder::new().with_threads(threads).build();
        let error = error.unwrap_err();
        let ErrorKind::Options(OptionsError::OutOfRange { option, limit, .. }) = error.kind()
        else {
            panic!("{error}");
        };
        assert_eq!((*option, *limit), (DecoderOption::Threads, Some(64)));
    }
}
