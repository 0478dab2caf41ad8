//! Committed transactions that are taken out, and read on other threads.
#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use proptest::prelude::*;
use std::sync::Arc;
use std::thread;
use walrow_log::FileSpool;
use walrow_stream::{Assembler, Committed, Error, Event};
use walrow_testkit::strategy::arbitrary;
use walrow_testkit::{History, captures, in_chunks, seeds};

/// All events, one line each, up to the first error.
type Lines = (Vec<String>, Option<Error>);

fn in_place(mut assembler: Assembler, pieces: &[&[u8]]) -> Lines {
    let mut lines = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        loop {
            match assembler.next(&mut input) {
                // It only means that more events follow.
                Ok(Some(Event::Skipped)) => {}
                Ok(Some(event)) => lines.push(format!("{event:?}")),
                Ok(None) => break,
                Err(error) => return (lines, Some(error)),
            }
        }
    }
    (lines, None)
}

/// All events. But each transaction is taken out at its begin, and read on its own thread after all
/// input was read.
fn taken_out(mut assembler: Assembler, pieces: &[&[u8]]) -> Lines {
    enum Part {
        Lines(Vec<String>),
        Taken(thread::JoinHandle<Lines>),
    }
    let mut parts = Vec::new();
    let mut end = None;
    'all: for piece in pieces {
        let mut input = *piece;
        loop {
            let line = match assembler.next(&mut input) {
                Ok(Some(Event::Skipped)) => continue,
                Ok(Some(event)) => {
                    let begins = matches!(event, Event::Begin(_));
                    (format!("{event:?}"), begins)
                }
                Ok(None) => break,
                Err(error) => {
                    end = Some(error);
                    break 'all;
                }
            };
            parts.push(Part::Lines(vec![line.0]));
            if line.1 {
                let taken = assembler.take_transaction(&mut input).unwrap();
                let taken = taken.expect("it begins here");
                parts.push(Part::Taken(thread::spawn(|| read(taken))));
            }
        }
    }
    let mut lines = Vec::new();
    for part in parts {
        match part {
            Part::Lines(more) => lines.extend(more),
            Part::Taken(reading) => {
                let (more, error) = reading.join().unwrap();
                lines.extend(more);
                if error.is_some() {
                    return (lines, error);
                }
            }
        }
    }
    (lines, end)
}

fn read(mut taken: Committed) -> Lines {
    let mut lines = Vec::new();
    loop {
        match taken.next() {
            Ok(Some(Event::Skipped)) => {}
            Ok(Some(event)) => lines.push(format!("{event:?}")),
            Ok(None) => return (lines, None),
            Err(error) => return (lines, Some(error)),
        }
    }
}

/// An assembler with all bytes in memory, and an assembler with nearly all bytes in files.
fn assemblers() -> [fn() -> Assembler; 2] {
    [Assembler::default, || {
        Assembler::default()
            .with_spool(Arc::new(FileSpool::default()))
            .with_spool_memory(100)
    }]
}

#[test]
fn captures_read_the_same_on_other_threads() {
    let mut seen = 0;
    for capture in captures().iter().filter(|capture| !capture.is_physical()) {
        for make in assemblers() {
            for size in [700, usize::MAX] {
                let sizes = [size];
                let pieces: Vec<&[u8]> = in_chunks(&capture.bytes, &sizes).collect();
                let expected = in_place(make(), &pieces);
                assert_eq!(taken_out(make(), &pieces), expected, "{}", capture.name);
                seen += expected.0.len();
            }
        }
    }
    assert!(seen > 10_000, "{seen} events");
}

#[test]
fn seeds_read_the_same_on_other_threads() {
    for seed in seeds().iter().filter(|seed| seed.target == "cuts") {
        for make in assemblers() {
            let pieces = [seed.bytes.get(3..).unwrap_or_default()];
            let expected = in_place(make(), &pieces);
            assert_eq!(taken_out(make(), &pieces), expected, "{}", seed.name);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn histories_read_the_same_on_other_threads(
        history in arbitrary::<History>(2_000),
        sizes in prop::collection::vec(1_usize..3000, 1..4),
        cut_out in any::<prop::sample::Index>(),
    ) {
        for mut stream in [history.whole().frames().to_vec(), history.delivered().frames().to_vec()] {
            for broken in [false, true] {
                if broken && !stream.is_empty() {
                    // Without this frame definitions, rows or ends are missing.
                    stream.remove(cut_out.index(stream.len()));
                }
                let bytes = stream.concat();
                let pieces: Vec<&[u8]> = in_chunks(&bytes, &sizes).collect();
                for make in assemblers() {
                    let expected = in_place(make(), &pieces);
                    prop_assert_eq!(taken_out(make(), &pieces), expected);
                }
            }
        }
    }
}
