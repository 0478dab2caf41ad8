//! walrow over the floor, and CSV over both, measured turn by turn in one run:
//! `cargo bench --bench ratios --features csv -- [--json=FILE] [WORKLOAD...]`.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;
use walrow::DecoderBuilder;
use walrow_benches::captures::{Capture, captures};
use walrow_benches::{csv, decode, log, walk};
use walrow_testkit::allocation::{Counting, allocations, peak};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Rounds of all readers. The best of a reader counts, as noise only ever adds; and the median of the
/// rounds' ratios, as the machine's speed changes in a run.
const ROUNDS: usize = 21;

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> Outcome<()> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    // `cargo test --benches` only wants to know that it runs.
    let measured = arguments.iter().any(|argument| argument == "--bench");
    let file = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--json="));
    let file = file.map(str::to_owned);
    arguments.retain(|argument| !argument.starts_with('-'));
    let wanted = |workload: &str| arguments.is_empty() || arguments.iter().any(|it| it == workload);

    println!(
        "ns and allocations a row, MiB at the peak; walrow and arrow-csv over the floor, best and median"
    );
    println!(
        "capture                   floor   walrow    ratio        csv/walrow  csv/floor  allocations  faults  peak"
    );
    let mut results = Vec::new();
    for capture in captures()? {
        let rounds = if measured { ROUNDS } else { 1 };
        if wanted(capture.workload) {
            results.push(of_capture(&capture, rounds)?);
        }
        if capture.workload == "pgbench" && wanted("segments") {
            results.push(of_segments(&capture, rounds)?);
        }
    }
    if let Some(file) = file {
        std::fs::write(file, serde_json::to_string_pretty(&results)?)?;
    }
    Ok(())
}

/// A reader of a capture, which returns how many rows or messages there were.
type Reader<'a> = Box<dyn Fn() -> Outcome<usize> + 'a>;

fn of_capture(capture: &Capture, rounds: usize) -> Outcome<Value> {
    let bytes = &*capture.bytes;
    let with_metadata = csv::tables(bytes, true)?;
    let own_columns = csv::tables(bytes, false)?;
    let without = DecoderBuilder::new().with_metadata([]);
    let readers: Vec<(&str, Reader<'_>)> = vec![
        (
            "floor walk",
            Box::new(|| Ok(walrow_floor::walk(black_box(bytes)).messages)),
        ),
        (
            "walrow walk",
            Box::new(|| Ok(walk::cells(black_box(bytes), |_, _| {})?.messages)),
        ),
        ("floor", Box::new(|| Ok(floor(bytes)))),
        ("walrow", Box::new(|| Ok(decode::rows(black_box(bytes))?))),
        ("walrow, own columns", {
            Box::new(|| Ok(decode::rows_with(without.clone(), [black_box(bytes)])?))
        }),
        ("arrow-csv", Box::new(|| csv::rows(&with_metadata))),
        (
            "arrow-csv, own columns",
            Box::new(|| csv::rows(&own_columns)),
        ),
    ];
    measured(&capture.name(), capture, &readers, rounds)
}

/// The same rows from a log of many small segments.
fn of_segments(capture: &Capture, rounds: usize) -> Outcome<Value> {
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("log");
    let size = if capture.small {
        log::SMALL / 10
    } else {
        log::SMALL
    };
    log::append(&capture.bytes, &log, Some(size))?;
    let readers: Vec<(&str, Reader<'_>)> = vec![
        ("floor", Box::new(|| Ok(floor(&capture.bytes)))),
        ("walrow", Box::new(|| log::rows(Path::new(&log)))),
    ];
    let name = if capture.binary {
        "segments.binary"
    } else {
        "segments"
    };
    measured(name, capture, &readers, rounds)
}

fn floor(bytes: &[u8]) -> usize {
    walrow_floor::rows(black_box(bytes), |table| drop(black_box(table)))
}

/// Runs all readers once a round, and says what each takes.
fn measured(
    name: &str,
    capture: &Capture,
    readers: &[(&str, Reader<'_>)],
    rounds: usize,
) -> Outcome<Value> {
    let mut counts = BTreeMap::new();
    let mut memory = BTreeMap::new();
    for (reader, read) in readers {
        let before = page_faults();
        let (calls, (held, count)) = allocations(|| peak(read));
        let faults = before
            .zip(page_faults())
            .map(|(before, after)| after.saturating_sub(before));
        counts.insert(*reader, count?);
        memory.insert(*reader, (calls, faults, held.unwrap_or_default()));
    }
    // Page faults of a process that has read it before.
    for (reader, read) in readers {
        let before = page_faults();
        read()?;
        if let Some(entry) = memory.get_mut(reader) {
            entry.1 = before
                .zip(page_faults())
                .map(|(before, after)| after.saturating_sub(before));
        }
    }
    let rows = counts.get("floor").copied().unwrap_or_default();
    for (reader, count) in &counts {
        let expected = if reader.ends_with("walk") {
            counts.get("floor walk")
        } else {
            Some(&rows)
        };
        if expected != Some(count) {
            return Err(format!("{name}: {reader} counts {count}, not {expected:?}").into());
        }
    }

    let mut nanos: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for _ in 0..rounds {
        for (reader, read) in readers {
            let start = Instant::now();
            black_box(read()?);
            let time = start.elapsed().as_nanos() as f64;
            nanos.entry(reader).or_default().push(time);
        }
    }
    let ratio = |over: &str, under: &str| {
        let (over, under) = (nanos.get(over)?, nanos.get(under)?);
        let each: Vec<_> = over
            .iter()
            .zip(under)
            .map(|(over, under)| over / under)
            .collect();
        Some((least(over) / least(under), median(each)))
    };
    let figures = readers.iter().filter_map(|(reader, _)| {
        let (times, (calls, faults, held)) = (nanos.get(reader)?, memory.get(reader)?);
        let count = *counts.get(reader)? as f64;
        let figures = json!({
            "count": counts.get(reader),
            "ns": {"least": least(times) / count, "median": median(times.clone()) / count},
            "allocations": *calls as f64 / count,
            "page_faults": faults,
            "peak_bytes": held,
        });
        Some(((*reader).to_owned(), figures))
    });
    let figures: serde_json::Map<_, _> = figures.collect();
    let ratios = [
        (
            "walrow walk / floor walk",
            ratio("walrow walk", "floor walk"),
        ),
        ("walrow / floor", ratio("walrow", "floor")),
        ("arrow-csv / walrow", ratio("arrow-csv", "walrow")),
        ("arrow-csv / floor", ratio("arrow-csv", "floor")),
        (
            "arrow-csv / walrow, own columns",
            ratio("arrow-csv, own columns", "walrow, own columns"),
        ),
        (
            "arrow-csv / floor, own columns",
            ratio("arrow-csv, own columns", "floor"),
        ),
    ];

    let shown = |name: &str| {
        let found = ratios.iter().find(|(ratio, _)| *ratio == name);
        let found = found.and_then(|(_, ratio)| *ratio);
        found.map_or_else(
            || " ".repeat(11),
            |(least, median)| format!("{least:>5.2} {median:>5.2}"),
        )
    };
    let nanos = |reader: &str| {
        nanos
            .get(reader)
            .map_or(f64::NAN, |times| least(times) / rows as f64)
    };
    let (calls, faults, held) = memory.get("walrow").copied().unwrap_or_default();
    println!(
        "{:<22} {:>8.1} {:>8.1} {}  {} {}  {:>9.3} {:>7} {:>6.1}",
        format!("{name}{}", if capture.small { " (small)" } else { "" }),
        nanos("floor"),
        nanos("walrow"),
        shown("walrow / floor"),
        shown("arrow-csv / walrow"),
        shown("arrow-csv / floor"),
        calls as f64 / rows as f64,
        faults.map_or_else(|| "-".to_owned(), |faults| faults.to_string()),
        held as f64 / f64::from(1 << 20),
    );
    let cells = walrow_floor::walk(&capture.bytes).cells;
    let ratios = ratios.into_iter().filter_map(|(name, ratio)| {
        let (least, median) = ratio?;
        Some((name.to_owned(), json!({"least": least, "median": median})))
    });
    Ok(json!({
        "name": name,
        "small": capture.small,
        "bytes": capture.bytes.len(),
        "rows": rows,
        "cells": cells,
        "rounds": rounds,
        "readers": figures,
        "ratios": ratios.collect::<serde_json::Map<_, _>>(),
    }))
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Pages that this process touched for the first time; `None` where the system does not say it.
fn page_faults() -> Option<usize> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may have spaces, minor faults are the eighth field.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(7)?.parse().ok()
}
