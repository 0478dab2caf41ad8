//! What the benches read.
#![expect(
    clippy::arithmetic_side_effects,
    reason = "made-up rows are few and small"
)]

use std::path::{Path, PathBuf};
use std::{env, fs};
use walrow_testkit::{OwnedCell, Stream, null, text};
use walrow_wire::ReplicaIdentity;

/// Rows of a made capture.
const ROWS: u32 = 200_000;
/// Rows of a made transaction.
const TRANSACTION: u32 = 1_000;

/// A capture in memory.
#[derive(Clone, Debug)]
pub struct Capture {
    /// `narrow`, `wide`, `mixed`, `pgbench` or `tiny`.
    pub name: &'static str,
    /// Whether a server sent it; otherwise it was made here.
    pub real: bool,
    /// The bytes as on the connection.
    pub bytes: Vec<u8>,
}

/// All captures: `NAME.wire` in the folder `WALROW_BENCH_DATA` or `target/bench-data`, made
/// by `benches/captures.py`; what is missing is made up.
pub fn captures() -> Vec<Capture> {
    let folder = env::var_os("WALROW_BENCH_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/bench-data"),
        PathBuf::from,
    );
    let capture = |name, make: fn() -> Vec<u8>| {
        let real = fs::read(folder.join(name).with_extension("wire")).ok();
        Capture {
            name,
            real: real.is_some(),
            bytes: real.unwrap_or_else(make),
        }
    };
    vec![
        capture("narrow", narrow),
        capture("wide", wide),
        capture("mixed", mixed),
        capture("pgbench", pgbench),
        capture("tiny", tiny),
    ]
}

/// What pgbench writes to its history.
fn narrow() -> Vec<u8> {
    let stream = history(Stream::new().session());
    transactions(stream, |stream, row| stream.insert(1, &history_cells(row)))
}

/// The same, each row a transaction of its own.
fn tiny() -> Vec<u8> {
    let mut bytes = history(Stream::new().session()).bytes();
    for row in 0..ROWS {
        let stream = Stream::new().begin((u64::from(row) + 1) << 16, 1_000 + row);
        let stream = stream.insert(1, &history_cells(row)).commit();
        bytes.extend(stream.bytes());
    }
    bytes
}

fn history(stream: Stream) -> Stream {
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

fn history_cells(row: u32) -> [OwnedCell; 6] {
    let filler = if row.is_multiple_of(4) {
        text(format!("{row:<22}"))
    } else {
        null()
    };
    [
        number(row % 100 + 1),
        number(row % 10 + 1),
        number(row.wrapping_mul(104_729) % 1_000_000 + 1),
        delta(row),
        text(timestamp(row)),
        filler,
    ]
}

/// What pgbench does: its accounts are loaded, then each transaction updates three tables and
/// inserts into the history.
fn pgbench() -> Vec<u8> {
    let accounts = [
        ("aid", 23, -1, true),
        ("bid", 23, -1, false),
        ("abalance", 23, -1, false),
        ("filler", 1042, 88, false),
    ];
    let tellers = [
        ("tid", 23, -1, true),
        ("bid", 23, -1, false),
        ("tbalance", 23, -1, false),
        ("filler", 1042, 88, false),
    ];
    let branches = [
        ("bid", 23, -1, true),
        ("bbalance", 23, -1, false),
        ("filler", 1042, 92, false),
    ];
    let identity = ReplicaIdentity::Default;
    let blank = || text(" ".repeat(84));
    let mut stream = history(Stream::new().session())
        .relation(2, "public", "pgbench_accounts", identity, &accounts)
        .relation(3, "public", "pgbench_tellers", identity, &tellers)
        .relation(4, "public", "pgbench_branches", identity, &branches)
        .begin(1 << 16, 999);
    for row in 0..ROWS / 2 {
        let cells = [number(row + 1), number(1), number(0), blank()];
        stream = stream.insert(2, &cells);
    }
    let mut bytes = stream.commit().bytes();
    for row in 0..ROWS / 8 {
        let account = row.wrapping_mul(104_729) % 100_000 + 1;
        let stream = Stream::new()
            .begin((u64::from(row) + 2) << 16, 1_000 + row)
            .update(2, &[number(account), number(1), delta(row), blank()])
            .update(3, &[number(row % 10 + 1), number(1), delta(row), null()])
            .update(4, &[number(1), delta(row), null()])
            .insert(1, &history_cells(row));
        bytes.extend(stream.commit().bytes());
    }
    bytes
}

/// Twenty columns of text.
fn wide() -> Vec<u8> {
    let names: Vec<_> = (1..=20).map(|column| format!("c{column}")).collect();
    let columns: Vec<_> = names
        .iter()
        .map(|name| (name.as_str(), 25, -1, false))
        .collect();
    let stream =
        Stream::new()
            .session()
            .relation(1, "public", "wide", ReplicaIdentity::Default, &columns);
    transactions(stream, |stream, row| {
        let cells: Vec<_> = (0..20)
            .map(|column| match (row + column) % 10 {
                0 => null(),
                1 => text(format!("a longer text in column {column} of row {row}")),
                _ => text(format!("text {row} {column}")),
            })
            .collect();
        stream.insert(1, &cells)
    })
}

/// Inserts, updates and deletes of orders in between inserts of lines.
fn mixed() -> Vec<u8> {
    let orders = [
        ("id", 20, -1, true),
        ("customer", 23, -1, false),
        ("paid", 16, -1, false),
        ("total", 1700, (12 << 16 | 2) + 4, false),
        ("weight", 701, -1, false),
        ("ordered", 1184, -1, false),
        ("due", 1082, -1, false),
        ("reference", 2950, -1, false),
        ("note", 25, -1, false),
    ];
    let lines = [
        ("order", 20, -1, true),
        ("line", 21, -1, true),
        ("item", 1043, 68, false),
        ("price", 1700, (10 << 16 | 2) + 4, false),
    ];
    let stream = Stream::new()
        .session()
        .relation(1, "public", "orders", ReplicaIdentity::Default, &orders)
        .relation(2, "public", "lines", ReplicaIdentity::Default, &lines);
    let order = |row: u32| {
        let note = if row.is_multiple_of(3) {
            text(format!("leave at the door of number {row}"))
        } else {
            null()
        };
        [
            number(row),
            number(row % 9_973),
            text(if row.is_multiple_of(2) { "t" } else { "f" }),
            text(format!("{}.{:02}", row % 100_000, row % 100)),
            text(format!("{}.5", row % 1_000)),
            text(timestamp(row) + "+00"),
            text(format!("2024-{:02}-{:02}", row % 12 + 1, row % 28 + 1)),
            text(format!("00000000-0000-4000-8000-{row:012x}")),
            note,
        ]
    };
    transactions(stream, |stream, row| match row % 8 {
        0..=1 => stream.insert(1, &order(row)),
        2 => stream.update(1, &order(row)),
        3 => {
            let mut key = vec![null(); orders.len()];
            if let Some(first) = key.first_mut() {
                *first = number(row);
            }
            stream.delete_key(1, &key)
        }
        line => {
            let cells = [
                number(row),
                number(line),
                text(format!("item {}", row % 1_000)),
                text(format!("{}.99", row % 500)),
            ];
            stream.insert(2, &cells)
        }
    })
}

fn transactions(mut stream: Stream, change: impl Fn(Stream, u32) -> Stream) -> Vec<u8> {
    for transaction in 0..ROWS / TRANSACTION {
        let lsn = (u64::from(transaction) + 1) << 24;
        stream = stream.begin(lsn, 1_000 + transaction);
        for row in 0..TRANSACTION {
            stream = change(stream, transaction * TRANSACTION + row);
        }
        stream = stream.commit().keepalive();
    }
    stream.copy_done().bytes()
}

fn delta(row: u32) -> OwnedCell {
    text((i64::from(row.wrapping_mul(7919) % 10_000) - 5_000).to_string())
}

fn number(value: u32) -> OwnedCell {
    text(value.to_string())
}

fn timestamp(row: u32) -> String {
    let (minute, second, micros) = (row / 60 % 60, row % 60, row.wrapping_mul(37) % 100_000);
    // A server writes no zeros at a fraction's end.
    format!("2024-05-17 12:{minute:02}:{second:02}.{micros:05}1")
}
