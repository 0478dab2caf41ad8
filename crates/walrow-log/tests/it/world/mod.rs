//! A world: a disk that fails, and all processes that use a log on it, in any order.
//!
//! Actors are ordinary code on threads. Only one thread runs at a time. Each call of the store
//! hands the turn to the actor that the next number names. A call may fail: it is refused, does a
//! part, loses its answer, ends its process, or ends the machine. A machine that has ended keeps
//! some of the bytes that were not synced. Each step ends with two checks: the view of a new
//! reader, and the disk after a power loss. All numbers come from a seed, or from a list that is
//! played again.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::print_stdout,
    clippy::unreadable_literal,
    clippy::unwrap_used,
    reason = "a panic is how a test fails, and its coverage is printed"
)]

mod actors;
mod by_hand;
mod choices;
mod coverage;
mod disk;
mod loading;
mod machine;
mod marks;
mod regressions;
mod script;
mod store;
mod truth;
mod turns;
mod writing;

use actors::{ACTORS, Actor, Day, Stop};
use arbitrary::{Arbitrary as _, Unstructured};
use choices::{Choices, shrink};
use coverage::{ASKED, Coverage};
pub(crate) use script::Memory;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime};
use store::Process;
use truth::{Secret, Truth, units};
use turns::World;
use walrow_log::{Confirmable, Error, Writer, WriterOptions};
use walrow_stream::Assembler;
use walrow_testkit::{Change, Delivery, History, text};
use walrow_wire::Lsn;

/// A run this long must try everything often enough. On a free core, a quarter of it is enough.
const FULL: Duration = Duration::from_hours(1);

/// A value that the histories do not have.
const SECRET: &str = "the value that is erased";

/// The result of a run.
#[derive(Debug)]
struct Outcome {
    failure: Option<String>,
    numbers: Vec<u32>,
    steps: usize,
    coverage: Coverage,
}

/// A history, and the change that the eraser erases: its table, commit LSN and seq.
fn history(choices: &mut Choices) -> (History, Option<(u32, Lsn, u64)>) {
    let mut state = choices.next(1 << 30) as u64 + 1;
    let bytes: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[5]
    })
    .take(choices.of(&[300, 600, 1200, 150, 80]))
    .collect();
    let mut history = History::arbitrary(&mut Unstructured::new(&bytes)).unwrap();
    let mut secret = None;
    for (index, transaction) in history.transactions.iter_mut().enumerate() {
        if transaction.rolled_back || secret.is_some() {
            continue;
        }
        let kept = transaction.parts.iter_mut().filter(|it| !it.aborted);
        let mut seq = 0;
        for change in kept.flat_map(|it| &mut it.changes) {
            match change {
                Change::Insert { table, new } if new.len() > 1 && secret.is_none() => {
                    new[1] = text(SECRET);
                    let lsn = Lsn(History::commit_lsn(index));
                    secret = Some((history.tables[*table].oid, lsn, seq));
                }
                _ => {}
            }
            seq += u64::from(!matches!(
                change,
                Change::Alter { .. } | Change::Message { .. }
            ));
        }
    }
    if choices.rarely(3) {
        for transaction in &mut history.transactions {
            transaction.delivery = Delivery::Whole;
        }
    }
    (history, secret)
}

/// Runs a world to its end.
fn run(choices: Choices) -> Outcome {
    run_printing(choices, false)
}

fn run_printing(mut choices: Choices, prints: bool) -> Outcome {
    let (history, secret) = history(&mut choices);
    let stream = history.delivered().bytes();
    let Ok(expected) = units(&stream) else {
        // No server sends such a stream.
        return Outcome {
            failure: None,
            numbers: choices.into_taken(),
            steps: 0,
            coverage: Coverage::default(),
        };
    };
    let end = secret.and_then(|(_, lsn, _)| expected.iter().find(|it| it.end > lsn));
    let end = end.map_or(Lsn::INVALID, |it| it.end);
    let mask = choices.next(1 << ACTORS.len()) | choices.next(2) << 2;
    // Somebody does something by hand in few worlds, because that ends much else.
    let mask = match choices.next(4) {
        0 | 1 => mask & !(1 << 8),
        2 => mask,
        _ => mask | 1 << 8 | 1 << 1,
    };
    let is_there = |actor: usize| actor == 0 || mask & (1 << actor) != 0;
    let erases = secret.filter(|_| is_there(3));
    let level = choices.of(&[None, Some(1)]);
    let day = Arc::new(Day {
        stream,
        segment_bytes: choices.of(&[1 << 20, 400, 150, 60]),
        // A search for the value does not work in compressed bytes.
        level: level.filter(|_| erases.is_none()),
        syncs: !choices.rarely(4),
        has_first_load: choices.rarely(5),
        lingers: choices.rarely(3),
        rounds: choices.of(&[6, 3, 2, 1]),
        favourite: choices
            .next(2 * ASKED.len())
            .checked_sub(ASKED.len())
            .map(|it| ASKED[it]),
        erases,
    });
    let mut truth = Truth::default();
    truth.units = Arc::new(expected);
    truth.secret = erases.map(|_| Secret {
        value: SECRET.into(),
        end,
        is_erasing: false,
        is_erased: false,
    });
    truth.has_late = choices.rarely(2);
    truth.is_unordered = choices.rarely(3);
    let is_unordered = truth.is_unordered;
    let running = (0..ACTORS.len()).map(is_there).collect();
    let world = World::new(choices, running, truth);
    world.lock().prints = prints;
    let threads: Vec<_> = (0..ACTORS.len())
        .filter(|number| is_there(*number))
        .map(|number| {
            let actor = Actor {
                world: world.clone(),
                number,
                day: day.clone(),
            };
            thread::spawn(move || {
                actor.world.enter(number);
                if !actor.is_over() {
                    let ran = catch_unwind(AssertUnwindSafe(|| actor.run()));
                    match ran {
                        Ok(Ok(()) | Err(Stop::Again)) => {}
                        Ok(Err(Stop::Fault(what))) => actor.world.fail(what),
                        Err(_) => actor.world.fail(format!("{}: panicked", ACTORS[number])),
                    }
                }
                actor.world.leave(number);
            })
        })
        .collect();
    world.begin();
    for thread in threads {
        thread.join().unwrap();
    }
    let mut inner = world.lock();
    inner.make_late(true);
    if inner.failure.is_none()
        && !inner.truth.is_lacking
        && let Err(what) = at_the_end(&inner, &day)
    {
        inner.failure = Some(what);
    }
    // A failure that only some file systems cause has a mark. So a known mistake there does not
    // hide other failures.
    if let Some(failure) = inner.failure.take() {
        let unordered = if is_unordered { "unordered: " } else { "" };
        inner.failure = Some(format!("{unordered}{failure}"));
    }
    let choices = std::mem::replace(&mut inner.choices, Choices::of_list(&[]));
    Outcome {
        failure: inner.failure.take(),
        numbers: choices.into_taken(),
        steps: inner.steps,
        coverage: std::mem::take(&mut inner.coverage),
    }
}

/// Checks the end of a run, when all actors have ended. A writer writes everything, and no object
/// must be left behind.
fn at_the_end(inner: &machine::Inner, day: &Day) -> Result<(), String> {
    let process = Process::alone(inner.disk().clone());
    let position = write_all(&process, day, inner.truth.flushed);
    let position = position.map_err(|error| format!("end: {error}"))?;
    let Some(position) = position else {
        return Ok(());
    };
    if position < inner.truth.confirmed {
        return Err(format!("end: at {position}"));
    }
    let disk = process.disk();
    if disk.staged() > 0 {
        return Err(format!("end: {} staged objects are left", disk.staged()));
    }
    for (name, inode) in disk.names() {
        let has_place = |bytes: &[u8]| bytes.windows(7).any(|it| it == b"\"place\"");
        if name.starts_with("_prepared-")
            || name == "_loaded-and-removed" && has_place(disk.bytes(inode))
        {
            return Err(format!("end: {name} is left"));
        }
    }
    let recovered = inner.truth.check_recovery(disk, "end");
    recovered.map_err(truth::Wrong::text)?;
    Ok(())
}

/// Writes everything that the server sends. Returns the position, unless the log lacks its first load.
fn write_all(process: &Process, day: &Day, flushed: Lsn) -> Result<Option<Lsn>, Error> {
    let options = WriterOptions::default();
    let mut writer = Writer::open(Arc::new(process.clone()), options)?;
    if writer.lacks_first_load() {
        return Ok(None);
    }
    let mut assembler = writer.resume(Assembler::default())?;
    let stream = crate::log::sent_again(&day.stream, flushed);
    writer.append(&mut assembler, &mut &*stream)?;
    // The position of a keepalive. The log forgets a transaction that was rolled back once the log
    // is past the rollback.
    writer.advance(Lsn(u64::MAX / 4))?;
    let position = writer.sync(&mut assembler)?;
    writer.publish(&mut assembler)?;
    Ok(position.map(Confirmable::lsn))
}

/// Runs worlds for this time, from this seed on. Returns one failure of each kind, and the
/// counts of all cases. `is_proof` ends it at the first failure, which stays as long as it is.
fn simulate(time: Duration, first: u64, is_proof: bool) -> (Vec<String>, Coverage) {
    let begin = Instant::now();
    let mut runs = 0_u64;
    let mut coverage = Coverage::default();
    let mut failed = BTreeMap::new();
    while begin.elapsed() < time {
        let seed = first + runs;
        let outcome = run(Choices::of_seed(seed));
        runs += 1;
        coverage.add(&outcome.coverage);
        let Some(failure) = outcome.failure else {
            continue;
        };
        let (numbers, after) = (outcome.numbers, begin.elapsed().as_secs_f32());
        let first = (seed, after, 0, failure.clone());
        let kind = failed.entry(kind(&failure)).or_insert((first, numbers));
        kind.0.2 += 1;
        if is_proof {
            break;
        }
    }
    let seconds = begin.elapsed().as_secs();
    let calls = coverage.calls();
    println!("{}", coverage.print(&ACTORS));
    let rate = calls / seconds.max(1);
    println!("{calls} calls of the store in {runs} worlds from seed {first} on, {rate} a second");
    let time = Duration::from_secs(if is_proof { 0 } else { 60 });
    let time = time / u32::try_from(failed.len().max(1)).unwrap();
    let failed = failed.into_values();
    let failed = failed
        .map(|((seed, after, count, failure), numbers)| {
            let (last, numbers) = shorter(&failure, &numbers, time);
            format!(
                "{count} worlds, the first after {after:.1} s, seed {seed}: {failure}\n    \
                 ({last:?}, &{numbers:?}),"
            )
        })
        .collect();
    (failed, coverage)
}

/// The words of a failure, without the words that differ from world to world.
fn kind(failure: &str) -> String {
    let words = failure.split(' ');
    let words = words.filter(|word| word.len() < 30 && !word.contains(|it: char| it.is_numeric()));
    words.take(6).collect::<Vec<_>>().join(" ")
}

/// A shorter list of numbers that fails in the same way.
fn shorter(failure: &str, numbers: &[u32], time: Duration) -> (String, Vec<u32>) {
    let mut last = failure.to_owned();
    let shorter = shrink(numbers, time, |numbers| {
        match run(Choices::of_list(numbers)).failure {
            Some(found) if kind(&found) == kind(failure) => {
                last = found;
                true
            }
            _ => false,
        }
    });
    (last, shorter)
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|it| it.parse().unwrap())
}

/// Runs for `SIMULATE_SECONDS` from `SIMULATE_SEED` on, or else from the clock on, and prints its
/// coverage.
#[test]
fn worlds_lose_nothing() {
    let usual = if walrow_testkit::is_slow() { 3600 } else { 20 };
    let time = Duration::from_secs(variable("SIMULATE_SECONDS").unwrap_or(usual));
    let first = variable("SIMULATE_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.unwrap().as_secs() * 1000
    });
    let (failed, coverage) = simulate(time, first, variable("SIMULATE_PROOF").is_some());
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    let rare = coverage.rare(&ACTORS);
    assert!(
        time < FULL || rare.is_empty(),
        "these were tried too rarely: {}",
        rare.join(", ")
    );
}

/// Plays `SIMULATE_NUMBERS` or `SIMULATE_SEED` again.
#[test]
#[ignore = "for a world that is looked at"]
fn one_world() {
    let choices = match std::env::var("SIMULATE_NUMBERS") {
        Ok(numbers) => {
            let numbers = numbers.split(',').map(|it| it.trim().parse().unwrap());
            Choices::of_list(&numbers.collect::<Vec<_>>())
        }
        Err(_) => Choices::of_seed(variable("SIMULATE_SEED").unwrap_or(0)),
    };
    let outcome = run_printing(choices, true);
    println!("{} steps: {:?}", outcome.steps, outcome.failure);
}

#[test]
fn a_list_of_numbers_is_the_same_world_again() {
    for seed in 0..20 {
        let one = run(Choices::of_seed(seed));
        let again = run(Choices::of_list(&one.numbers));
        assert_eq!(
            (&one.failure, &one.numbers, one.steps),
            (&again.failure, &again.numbers, again.steps),
            "seed {seed}"
        );
    }
}
