//! Operations on streams of any kind, for a limited time, on inputs from a seed.
//!
//! - `WALROW_FUZZ_SECONDS`: for how long, 30 by default, with a thread for each core.
//! - `WALROW_FUZZ_SEED`: another seed. Each thread adds its number to it.
//! - `WALROW_FUZZ_REPLAY`: the path of one input, which is run alone.

#![expect(clippy::panic, reason = "a panic is how a test fails")]
#![expect(
    clippy::print_stderr,
    reason = "prints the seed, in case the run fails"
)]
#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a panic is how a test fails"
)]

use std::any::Any;
use std::cell::Cell;
use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZero;
use std::panic::{self, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};
use walrow_testkit::fuzz::operations::{described, plan_and_frames, reached, written_out};

/// The default seed.
const SEED: u64 = 1;

/// Numbers from a seed: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Bytes for a plan, mutations and one or two histories.
    fn input(&mut self) -> Vec<u8> {
        let size = 256 + (self.next() % 6) * 512;
        (0..size / 8)
            .flat_map(|_| self.next().to_le_bytes())
            .collect()
    }
}

fn number(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

/// The failure of an input, if it fails. A mutation may find nothing to change, or an input may be
/// too short for it: that is no failure.
fn failure(input: &[u8]) -> Option<String> {
    let text = |panic: Box<dyn Any + Send>| match panic.downcast::<String>() {
        Ok(text) => *text,
        Err(panic) => panic
            .downcast_ref::<&str>()
            .map_or_else(String::new, |it| (*it).to_owned()),
    };
    catch_unwind(|| reached(input)).map_err(text).err()
}

/// The common part of failures with the same cause: their words, without numbers.
fn gist(failure: &str) -> String {
    let line = failure.lines().next().unwrap_or_default();
    line.chars()
        .filter(|c| !c.is_ascii_hexdigit())
        .take(60)
        .collect()
}

/// The input with its stream written out, reduced to as few frames as fail in the same way, and a
/// plan with as many zeros as possible.
fn smaller(input: &[u8], failed: &str) -> Vec<u8> {
    let fails = |input: &[u8]| failure(input).is_some_and(|it| gist(&it) == gist(failed));
    let Ok(written) = written_out(input) else {
        return input.to_vec();
    };
    if !fails(&written) {
        return input.to_vec();
    }
    let (plan, mut frames) = plan_and_frames(&written);
    let mut plan = plan.to_vec();
    let end = Instant::now() + Duration::from_secs(20);
    let mut run = frames.len();
    while run > 0 && Instant::now() < end {
        let mut at = 0;
        while at < frames.len() && Instant::now() < end {
            let mut fewer = frames.clone();
            fewer.drain(at..(at + run).min(frames.len()));
            if fails(&[&plan[..], &fewer.concat()].concat()) {
                frames = fewer;
            } else {
                at += run;
            }
        }
        run /= 2;
    }
    for at in 1..plan.len() {
        for simple in [0, 3, plan[at] & 0xFC] {
            let before = std::mem::replace(&mut plan[at], simple);
            if fails(&[&plan[..], &frames.concat()].concat()) {
                break;
            }
            plan[at] = before;
        }
    }
    [&plan[..], &frames.concat()].concat()
}

/// Writes an input to a file, to replay it.
fn keep(input: &[u8]) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    input.hash(&mut hasher);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../operations");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let path = folder.join(format!("{:016x}", hasher.finish()));
    fs::write(&path, input).expect("the target folder can be written to");
    path.canonicalize().unwrap_or(path)
}

/// Hides what the panics of this thread print: the report of a failure follows, and the many inputs
/// by which it is made smaller fail too.
fn silence() {
    thread_local!(static IS_SILENT: Cell<bool> = const { Cell::new(false) });
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let hook = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_SILENT.get() {
                hook(info);
            }
        }));
    });
    IS_SILENT.set(true);
}

/// The rows of one input. The report of a failure names the file with the input.
fn run(input: &[u8], seed: u64) -> Result<usize, String> {
    if let Ok(reached) = catch_unwind(|| reached(input)) {
        return Ok(reached.map_or(0, |it| it.rows));
    }
    let failed = failure(input).unwrap_or_default();
    let small = smaller(input, &failed);
    let (path, small) = (keep(input), keep(&small));
    Err(format!(
        "{failed}\n\nseed {seed}; the input is {}, made smaller {}; replay it with\n\
         WALROW_FUZZ_REPLAY={} cargo test -p walrow-testkit --test it operations -- --nocapture\n",
        path.display(),
        small.display(),
        small.display(),
    ))
}

#[test]
fn random_operations_keep_the_properties() {
    if let Ok(path) = env::var("WALROW_FUZZ_REPLAY") {
        let input = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        eprintln!("{}", described(&input).expect("the input is long enough"));
        let reached = reached(&input);
        eprintln!("{path}: {reached:?}");
        return;
    }
    let seconds = number("WALROW_FUZZ_SECONDS").unwrap_or(5);
    let first = number("WALROW_FUZZ_SEED").unwrap_or(SEED);
    let (began, has_failed) = (Instant::now(), AtomicBool::new(false));
    let campaign = |seed| {
        silence();
        let (mut random, mut runs, mut rows) = (Random(seed), 0_u64, 0_usize);
        while began.elapsed().as_secs() < seconds && !has_failed.load(Ordering::Relaxed) {
            rows += run(&random.input(), seed)
                .inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            runs += 1;
        }
        eprintln!("seed {seed}: {runs} runs in {seconds} s, {rows} rows");
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get) as u64;
    let failed: Result<(), String> = thread::scope(|scope| {
        let campaign = &campaign;
        let seeds = (0..threads).map(|number| first.wrapping_add(number));
        let threads: Vec<_> = seeds
            .map(|seed| scope.spawn(move || campaign(seed)))
            .collect();
        let mut results = threads
            .into_iter()
            .map(|it| it.join().expect("the thread ends"));
        results.find(Result::is_err).unwrap_or(Ok(()))
    });
    if let Err(report) = failed {
        panic!("{report}");
    }
}

/// A guard: inputs reach everything that the properties need.
#[test]
fn inputs_reach_everything() {
    let mut random = Random(SEED);
    let mut all = [0_usize; 26];
    let names = [
        "whole",
        "mutated",
        "mutated and whole",
        "stream errors",
        "other errors",
        "spilled",
        "saved",
        "restored",
        "handed over",
        "flushed",
        "old images",
        "truncates",
        "prepared",
        "unannounced",
        "server errors",
        "nulled",
        "enveloped",
        "projected",
        "resumed",
        "transactions table",
        "messages table",
        "relations table",
        "truncates table",
        "compared",
        "many rows",
        "many batches",
    ];
    for _ in 0..800 {
        let it = reached(&random.input()).expect("the input is long enough");
        let [transactions, messages, relations, truncates] = it.sides;
        let counts = [
            usize::from(it.whole),
            it.mutated,
            it.mutated * usize::from(it.whole),
            it.stream_errors,
            it.other_errors,
            it.spilled,
            it.saved,
            it.restored,
            it.handed_over,
            it.flushed,
            it.old_images,
            it.truncates,
            it.prepared,
            it.unannounced,
            it.server_errors,
            it.nulled,
            it.enveloped,
            it.projected,
            it.resumed,
            transactions,
            messages,
            relations,
            truncates,
            it.compared,
            it.rows / 1000,
            it.batches / 100,
        ];
        for (all, count) in all.iter_mut().zip(counts) {
            *all += usize::from(count > 0);
        }
    }
    let few: Vec<_> = names
        .iter()
        .zip(all)
        .filter(|(_, count)| *count < 3)
        .collect();
    assert!(few.is_empty(), "too few of 800 inputs reach {few:?}");
    eprintln!("{:?}", names.iter().zip(all).collect::<Vec<_>>());
}
