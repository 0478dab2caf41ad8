//! What a transaction costs beside its rows, turn by turn in one run:
//! `cargo bench --bench transactions`.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(
    clippy::arithmetic_side_effects,
    clippy::cast_precision_loss,
    reason = "figures for people"
)]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};
use walrow::{DecoderBuilder, FileSpool};
use walrow_benches::decode::rows_with;
use walrow_testkit::{OwnedCell, Stream, null, text};
use walrow_wire::ReplicaIdentity;

const TURNS: usize = 20;
/// Bytes that are fed at a time, as the Python reader does.
const BLOCK: usize = 8 << 20;
/// Rows of the large histories, and of their transactions.
const ROWS: u32 = 200_000;
const TRANSACTION: u32 = 1_000;
/// Rows of a chunk: about 64 kB, as a server streams them with its least memory.
const CHUNK: u32 = 330;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let bench = std::env::args().any(|argument| argument == "--bench");
    let (turns, rows) = if bench {
        (TURNS, ROWS)
    } else {
        (1, ROWS / 100)
    };

    let plain = plain(rows, TRANSACTION);
    let base = Case::new("plain", plain, DecoderBuilder::new());
    let in_memory = Case::new("streamed", streamed(rows, 1), DecoderBuilder::new());
    let many = Case::new("300 open", streamed(rows, 300), DecoderBuilder::new());
    let files = || DecoderBuilder::new().with_spool(Arc::new(FileSpool::default()));
    let spooled = files().with_spool_memory(0);
    let spooled = Case::new("in files", streamed(rows, 1), spooled);
    let tiny = Case::new("one row", self::plain(rows, 1), DecoderBuilder::new());
    let cases = [base, in_memory, many, spooled, tiny];

    let mut best = [Duration::MAX; 5];
    for _ in 0..turns {
        for (best, case) in best.iter_mut().zip(&cases) {
            *best = (*best).min(case.time());
        }
    }
    let per_row = |time: Duration| time.as_nanos() as f64 / f64::from(rows);
    let [plain, .., tiny] = best.map(per_row);
    println!("transactions     ns/row   to plain   target");
    for ((case, time), target) in cases.iter().zip(best).zip(["", "1.3", "1.3", "2", ""]) {
        let row = per_row(time);
        println!(
            "{:<14} {row:>8.1} {:>10.2} {target:>8}",
            case.name,
            row / plain
        );
    }
    println!(
        "a transaction costs {:.1} rows' worth (target 3)",
        (tiny - plain) / plain
    );
}

struct Case {
    name: &'static str,
    bytes: Vec<u8>,
    options: DecoderBuilder,
}

impl Case {
    fn new(name: &'static str, bytes: Vec<u8>, options: DecoderBuilder) -> Self {
        Self {
            name,
            bytes,
            options,
        }
    }

    fn time(&self) -> Duration {
        let start = Instant::now();
        let blocks = black_box(&self.bytes).chunks(BLOCK);
        let rows = black_box(rows_with(self.options.clone(), blocks));
        let time = start.elapsed();
        assert!(
            rows.as_ref().is_ok_and(|rows| *rows > 0),
            "{}: {rows:?}",
            self.name
        );
        time
    }
}

fn table(stream: Stream) -> Stream {
    let columns = [
        ("tid", 23, -1, false),
        ("bid", 23, -1, false),
        ("aid", 23, -1, false),
        ("delta", 23, -1, false),
        ("mtime", 1114, -1, false),
        ("filler", 1042, 26, false),
    ];
    let identity = ReplicaIdentity::Default;
    stream.relation(1, "public", "pgbench_history", identity, &columns)
}

fn cells(row: u32) -> [OwnedCell; 6] {
    [
        text((row % 100 + 1).to_string()),
        text((row % 10 + 1).to_string()),
        text((row % 1_000_000 + 1).to_string()),
        text((row % 10_000).to_string()),
        text(format!("2024-05-17 12:34:56.{:05}1", row % 100_000)),
        null(),
    ]
}

fn commit_lsn(transaction: u32) -> u64 {
    (u64::from(transaction) + 1) << 24
}

/// Whole transactions of so many rows.
fn plain(rows: u32, size: u32) -> Vec<u8> {
    let mut bytes = table(Stream::new().session()).bytes();
    for transaction in 0..rows / size {
        let mut stream = Stream::new().begin(commit_lsn(transaction), 1_000 + transaction);
        for row in 0..size {
            stream = stream.insert(1, &cells(transaction * size + row));
        }
        bytes.extend(stream.commit().bytes());
    }
    bytes
}

/// The same transactions in chunks, so many of them open at a time and taking turns.
fn streamed(rows: u32, open: u32) -> Vec<u8> {
    let transactions = rows / TRANSACTION;
    let mut bytes = Stream::new().session().bytes();
    for first in (0..transactions).step_by(open as usize) {
        let group = first..(first + open).min(transactions);
        let mut streams: Vec<_> = group.clone().map(|_| Stream::new()).collect();
        for chunk in (0..TRANSACTION).step_by(CHUNK as usize) {
            for (transaction, stream) in group.clone().zip(&mut streams) {
                let before: usize = stream.frames().len();
                let mut next = std::mem::take(stream).stream_start(1_000 + transaction);
                if chunk == 0 {
                    next = table(next);
                }
                for row in chunk..(chunk + CHUNK).min(TRANSACTION) {
                    next = next.insert(1, &cells(transaction * TRANSACTION + row));
                }
                *stream = next.stream_stop();
                bytes.extend(stream.frames().iter().skip(before).flatten());
            }
        }
        for (transaction, stream) in group.zip(streams) {
            let before = stream.frames().len();
            let stream = stream.stream_commit(commit_lsn(transaction), 1_000 + transaction);
            bytes.extend(stream.frames().iter().skip(before).flatten());
        }
    }
    bytes
}
