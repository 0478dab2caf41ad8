//! A cell of each type family, in text and in binary, through the whole decoder: Criterion for the history of one
//! machine, then a table of nanoseconds beside those of other parsers for the same texts.
//!
//! A cell's time has a share of all that is done for a row and a message. Other parsers have none of it, and leave
//! their values nowhere.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use chrono::{NaiveDate, NaiveDateTime};
use criterion::{Criterion, Throughput};
use rust_decimal::Decimal;
use std::hint::black_box;
use std::str::{FromStr, from_utf8};
use std::time::{Duration, Instant};
use uuid::Uuid;
use walrow_benches::decode;
use walrow_benches::types::{Cells, builder, families};

/// The best of so many turns counts: noise only ever adds.
const TURNS: usize = 12;
/// Bytes of cells: more than a core's nearest caches hold.
const BYTES: usize = 10_000_000;

/// At most so many nanoseconds for the text of one cell.
const TARGETS: &[(&str, f64)] = &[
    ("int2", 8.0),
    ("int4", 8.0),
    ("int8", 8.0),
    ("numeric(12,2)", 15.0),
    ("text 16 B", 8.0),
    ("uuid", 12.0),
    ("timestamp", 15.0),
    ("timestamptz", 15.0),
    ("int4[] of 10", 100.0),
];

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let measured = std::env::args().any(|argument| argument == "--bench");
    let (turns, bytes) = if measured {
        (TURNS, BYTES)
    } else {
        (1, 20_000)
    };
    let families: Vec<_> = families()
        .into_iter()
        .map(|family| (family.cells(bytes), family.name))
        .collect();

    let mut criterion = Criterion::default()
        .sample_size(10)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(300))
        .configure_from_args();
    for (cells, name) in &families {
        let mut group = criterion.benchmark_group(format!("types/{name}"));
        group.throughput(Throughput::Elements(cells.values.len() as u64));
        for (form, capture) in [("text", &cells.text), ("binary", &cells.binary)] {
            group.bench_function(form, |b| b.iter(|| rows(black_box(capture))));
        }
        group.finish();
    }
    criterion.final_summary();

    // Whoever names one to be measured, or profiled, wants no more.
    if std::env::args()
        .skip(1)
        .any(|argument| !argument.starts_with('-'))
    {
        return;
    }
    println!("family                text ns  target  binary ns   other ns  text/other");
    for (cells, name) in &families {
        row(name, cells, turns);
    }
}

fn row(name: &str, cells: &Cells, turns: usize) {
    let values: Vec<_> = cells.values.iter().map(String::as_bytes).collect();
    let (other_name, other) = other(name);
    let mut best = [Duration::MAX; 3];
    for _ in 0..turns {
        let times = [
            time(|| rows(&cells.text)),
            time(|| rows(&cells.binary)),
            time(|| {
                values
                    .iter()
                    .filter(|value| other(black_box(value)))
                    .count()
            }),
        ];
        for (best, time) in best.iter_mut().zip(times) {
            *best = time.min(*best);
        }
    }
    let refused = values.iter().filter(|value| !other(value)).count();
    assert_eq!(refused, 0, "{other_name} reads {name}");
    let [text, binary, other] = best.map(|time| time.as_nanos() as f64 / values.len() as f64);
    let target = TARGETS.iter().find(|(of, _)| *of == name);
    let target = target.map_or_else(String::new, |(_, target)| {
        format!("{target}{}", if text > *target { " !" } else { "  " })
    });
    println!(
        "{name:<20} {text:>8.1} {target:>7} {binary:>10.1} {other:>10.1}  {:>10.2}  {other_name}",
        text / other
    );
}

fn rows(capture: &[u8]) -> usize {
    decode::rows_with(builder(), [capture]).unwrap_or_default()
}

fn time<T>(call: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(call());
    let time = start.elapsed();
    drop(result);
    time
}

/// Another parser of the same texts, and what it is called; whether it takes the text.
fn other(name: &str) -> (&'static str, fn(&[u8]) -> bool) {
    let family = name.split([' ', '(']).next().unwrap_or_default();
    match (family, name) {
        ("int2", _) => ("std", parse::<i16>),
        ("int4[]", _) => ("split, std", elements::<i32>),
        ("int4", _) => ("std", parse::<i32>),
        ("int8", _) => ("std", parse::<i64>),
        ("float8", _) => ("std", parse::<f64>),
        // Its 96 bits do not hold 38 digits.
        (_, "numeric(38,10)") => ("i128 of std", |cell| {
            let mut digits = [0; 64];
            let mut length = 0_usize;
            for (place, byte) in digits
                .iter_mut()
                .zip(cell.iter().filter(|byte| **byte != b'.'))
            {
                *place = *byte;
                length = length.wrapping_add(1);
            }
            digits.get(..length).is_some_and(parse::<i128>)
        }),
        ("numeric", _) => ("rust_decimal", parse::<Decimal>),
        ("numeric[]", _) => ("split, rust_decimal", elements::<Decimal>),
        ("bytea", _) => ("hex", |cell| {
            let digits = cell.strip_prefix(b"\\x").unwrap_or_default();
            keep(hex::decode(digits))
        }),
        ("uuid", _) => ("uuid", |cell| keep(Uuid::try_parse_ascii(cell))),
        ("date", _) => ("chrono", |cell| {
            with_text(cell, |text| NaiveDate::parse_from_str(text, "%Y-%m-%d"))
        }),
        ("timestamp", _) => ("chrono", |cell| {
            with_text(cell, |text| {
                NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")
            })
        }),
        ("timestamptz", _) => ("chrono", |cell| {
            with_text(cell, |text| {
                chrono::DateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f%#z")
            })
        }),
        ("text[]", _) => ("split", elements::<String>),
        ("vector", _) => ("split, std", |cell| {
            with_text(cell, |text| {
                let inside = text.trim_start_matches('[').trim_end_matches(']');
                inside
                    .split(',')
                    .map(f32::from_str)
                    .collect::<Result<Vec<_>, _>>()
            })
        }),
        _ => ("str::from_utf8", |cell| keep(from_utf8(cell))),
    }
}

fn parse<T: FromStr>(cell: &[u8]) -> bool {
    with_text(cell, str::parse::<T>)
}

fn elements<T: FromStr>(cell: &[u8]) -> bool {
    with_text(cell, |text| {
        let inside = text.trim_start_matches('{').trim_end_matches('}');
        inside
            .split(',')
            .map(T::from_str)
            .collect::<Result<Vec<_>, _>>()
    })
}

fn with_text<'a, T, E>(cell: &'a [u8], parse: impl Fn(&'a str) -> Result<T, E>) -> bool {
    from_utf8(cell).is_ok_and(|text| keep(parse(text)))
}

/// Whether there is a value, which the compiler may not leave out.
fn keep<T, E>(value: Result<T, E>) -> bool {
    black_box(value).is_ok()
}
