//! walrow over the floor, measured turn by turn in one run: `cargo bench --bench ratios`.

#![expect(clippy::print_stdout, reason = "the table is the result")]
#![expect(clippy::cast_precision_loss, reason = "figures for people")]

use std::hint::black_box;
use std::time::{Duration, Instant};
use walrow_benches::captures::{Capture, captures};
use walrow_benches::{decode, floor, walk};

/// The best of so many turns counts: noise only ever adds.
const TURNS: usize = 30;

fn main() {
    // `cargo test --benches` only wants to know that it runs.
    let turns = if std::env::args().any(|argument| argument == "--bench") {
        TURNS
    } else {
        1
    };
    println!("capture         MB   what      floor      walrow    ratio    MB/s");
    for capture in captures() {
        let messages = floor::walk(&capture.bytes).messages;

        row(
            &capture,
            "message",
            messages,
            turns,
            floor::walk,
            &walk::walk,
        );

        let floor = |bytes: &[u8]| floor::rows(bytes, |table| drop(black_box(table)));
        let rows = floor(&capture.bytes);
        row(&capture, "row", rows, turns, floor, &decode::rows);
    }
}

/// Prints nanoseconds for each of `count` things.
fn row<A, B>(
    capture: &Capture,
    what: &str,
    count: usize,
    turns: usize,
    floor: impl Fn(&[u8]) -> A,
    walrow: &impl Fn(&[u8]) -> B,
) {
    let (mut low, mut own) = (Duration::MAX, Duration::MAX);
    for _ in 0..turns {
        low = low.min(time(&capture.bytes, &floor));
        own = own.min(time(&capture.bytes, walrow));
    }
    let nanos = |time: Duration| time.as_nanos() as f64 / count as f64;
    let kind = if capture.real { ' ' } else { '*' };
    let megabytes = capture.bytes.len() as f64 / 1e6;
    let rate = capture.bytes.len() as f64 * 1e3 / own.as_nanos() as f64;
    println!(
        "{:<8}{kind} {megabytes:>8.1}   {what:<8} {:>6.1} ns  {:>7.1} ns  {:>6.2} {rate:>7.0}{}",
        capture.name,
        nanos(low),
        nanos(own),
        nanos(own) / nanos(low),
        if capture.real { "" } else { "   (*: made up)" }
    );
}

fn time<T>(bytes: &[u8], call: &impl Fn(&[u8]) -> T) -> Duration {
    let start = Instant::now();
    let result = black_box(call(black_box(bytes)));
    let time = start.elapsed();
    drop(result);
    time
}
