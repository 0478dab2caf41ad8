//! The users of a log. They are ordinary code, which waits and tries again as people and programs
//! do.

use super::coverage::{Act, Asked};
use super::disk::Disk;
use super::machine::Inner;
use super::store::Process;
use super::truth::{Truth, Wrong, read, units};
use super::turns::World;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use walrow_log::{
    Erase, Eraser, Error, ErrorKind, Images, Log, Objects as _, Plan, Retention, Store as _,
    Upkeep, Writer,
};
use walrow_wire::{Lsn, Timestamp};

/// The name of the registered reader.
const READER: &str = "follower";

/// The end of an actor's attempt without success.
#[derive(Debug)]
pub(crate) enum Stop {
    /// Another attempt may succeed later.
    Again,
    /// A fault of the log.
    Fault(String),
}

pub(crate) type Attempt<T> = Result<T, Stop>;

/// An actor in its world.
#[derive(Debug)]
pub(crate) struct Actor {
    pub(crate) world: World,
    pub(crate) number: usize,
    pub(crate) day: Arc<Day>,
}

/// The choices that are drawn before a run.
#[derive(Debug)]
pub(crate) struct Day {
    /// The stream of the server.
    pub(crate) stream: Vec<u8>,
    pub(crate) segment_bytes: u64,
    pub(crate) level: Option<i32>,
    pub(crate) syncs: bool,
    /// Whether the log begins with a load.
    pub(crate) has_first_load: bool,
    /// Whether the writer makes many calls in stages that are short.
    pub(crate) lingers: bool,
    /// How many rounds an actor has at most.
    pub(crate) rounds: usize,
    /// The call of the writer that is most frequent.
    pub(crate) favourite: Option<Asked>,
    /// The change that is erased: table, commit LSN and seq.
    pub(crate) erases: Option<(u32, Lsn, u64)>,
}

/// The actors, by number.
pub(crate) const ACTORS: [&str; 9] = [
    "writer",
    "second",
    "compactor",
    "eraser",
    "retainer",
    "reader",
    "planner",
    "copier",
    "somebody",
];

/// Whether another attempt may succeed: the store failed, or another process is busy.
fn is_again(error: &Error) -> bool {
    matches!(
        error.kind,
        ErrorKind::Store { .. }
            | ErrorKind::NotSynced { .. }
            | ErrorKind::Broken { .. }
            | ErrorKind::Busy
            | ErrorKind::Locked
    )
}

impl Actor {
    pub(crate) fn process(&self) -> Process {
        Process::of(&self.world, self.number)
    }

    /// A number below `count`. At the end of a world, actors run in any order: then it is not drawn.
    pub(crate) fn next(&self, count: usize) -> usize {
        self.world.aside(|it| {
            if it.is_over() {
                0
            } else {
                it.choices.next(count)
            }
        })
    }

    pub(crate) fn of<T: Copy>(&self, values: &[T]) -> T {
        values[self.next(values.len())]
    }

    pub(crate) fn truth<T>(&self, run: impl FnOnce(&mut Truth) -> T) -> T {
        self.world.aside(|it| run(&mut it.truth))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.world.aside(|it| it.is_over())
    }

    /// Lets another actor run.
    pub(crate) fn wait(&self) {
        self.process().pause(Duration::ZERO).unwrap();
    }

    pub(crate) fn fault<T>(&self, what: impl std::fmt::Display) -> Attempt<T> {
        Err(Stop::Fault(format!("{}: {what}", ACTORS[self.number])))
    }

    /// Turns an error into the end of an attempt.
    pub(crate) fn take<T>(&self, process: &Process, result: Result<T, Error>) -> Attempt<T> {
        match result {
            Ok(value) => Ok(value),
            Err(error) if process.has_ended() || is_again(&error) => Err(Stop::Again),
            Err(error) if error.code_is("replaced") => Err(Stop::Again),
            // Somebody has removed an object. It may be back since.
            Err(_) if self.truth(|it| it.is_lacking) => Err(Stop::Again),
            Err(error)
                if ["missing", "absent", "not_a_log", "pruned", "published"]
                    .contains(&error.kind.code())
                    && self.truth(|it| it.has_lacked) =>
            {
                Err(Stop::Again)
            }
            Err(error) if error.code_is("no_reader") && !self.is_registered() => Err(Stop::Again),
            Err(error) => self.fault(error.to_string()),
        }
    }

    /// Makes attempts until an attempt succeeds.
    fn insist(&self, most: usize, attempt: impl Fn(&Process) -> Attempt<()>) -> Attempt<()> {
        for _ in 0..most {
            let process = self.process();
            match attempt(&process) {
                Ok(()) => return Ok(()),
                Err(Stop::Fault(_)) if process.has_ended() => {}
                Err(Stop::Fault(what)) => return Err(Stop::Fault(what)),
                Err(Stop::Again) => {}
            }
            if self.is_over() {
                return Ok(());
            }
            self.wait();
        }
        Ok(())
    }

    pub(crate) fn run(&self) -> Attempt<()> {
        match self.number {
            0 => self.write(true),
            1 => self.write(false),
            2 => self.compact(),
            3 => self.erase(),
            4 => self.retain(),
            5 => self.follow(),
            6 => self.plan(),
            7 => self.copy(),
            _ => {
                self.do_by_hand();
                Ok(())
            }
        }
    }

    /// Opens a log that may not be there yet.
    fn log(&self, process: &Process) -> Attempt<Log> {
        let log = Log::open(Arc::new(process.clone()));
        self.opened(process, log)
    }

    fn upkeep(&self, process: &Process) -> Attempt<Upkeep> {
        let upkeep = Upkeep::open(Arc::new(process.clone()));
        self.opened(process, upkeep)
    }

    fn opened<T>(&self, process: &Process, result: Result<T, Error>) -> Attempt<T> {
        if let Err(error) = &result
            && matches!(error.kind, ErrorKind::NotALog | ErrorKind::Missing { .. })
            && (error.kind == ErrorKind::NotALog || !self.is_calm())
        {
            return Err(Stop::Again);
        }
        self.take(process, result)
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.world.aside(|it| it.is_calm())
    }

    fn compact(&self) -> Attempt<()> {
        for _ in 0..=self.next(self.day.rounds) {
            // A log with fewer segments has nothing to merge, and most worlds have them late.
            let segments = |it: &mut Inner| {
                let names = it.disk().names();
                names.filter(|it| it.0.contains(".wire.")).count()
            };
            for _ in 0..40 {
                self.pause();
                if self.is_over() || self.world.aside(segments) > 2 {
                    break;
                }
            }
            // A small segment has 600 bytes, with its facts.
            let most = self.of(&[100_000, 10_000, 3000, 1500]);
            self.insist(20, |process| {
                let mut upkeep = self.upkeep(process)?;
                let compacted = upkeep.compact(most, &mut || Ok(()));
                self.take(process, compacted).map(drop)
            })?;
            self.rest();
        }
        Ok(())
    }

    /// Lets other actors run.
    pub(crate) fn rest(&self) {
        for _ in 0..self.next(30) {
            self.wait();
        }
    }

    fn retain(&self) -> Attempt<()> {
        for _ in 0..=self.next(self.day.rounds) {
            self.pause();
            let how = self.next(4);
            self.insist(20, |process| {
                let mut upkeep = self.upkeep(process)?;
                let mut retention = Retention::default();
                retention.bytes = Some(self.of(&[10_000, 1000, 300, 0]));
                let segments = upkeep.segments();
                let until = segments.get(self.next(segments.len().max(1)));
                let until = until.map_or(Lsn::INVALID, |it| it.end);
                let done = match how {
                    0 | 1 => upkeep.retain(&retention, Timestamp(0)).map(drop),
                    2 => upkeep.prune(until, false).map(drop),
                    _ => {
                        self.truth(|it| it.forced = it.forced.max(until));
                        upkeep.prune(until, true).map(drop)
                    }
                };
                match done {
                    Err(Error {
                        kind: ErrorKind::Held { .. },
                        ..
                    }) => Ok(()),
                    done => self.take(process, done),
                }
            })?;
            self.rest();
        }
        Ok(())
    }

    fn erase(&self) -> Attempt<()> {
        let Some((table, lsn, seq)) = self.day.erases else {
            return Ok(());
        };
        let done = std::cell::Cell::new(false);
        for _ in 0..200 {
            self.insist(20, |process| {
                let log = self.log(process)?;
                let end = self.truth(|it| it.secret.as_ref().map(|it| it.end));
                if end.is_none_or(|end| end > log.end()) {
                    return Ok(());
                }
                let quiet = Writer::quiet(Arc::new(process.clone()));
                let quiet = self.opened(process, quiet)?;
                let mut eraser = match Eraser::open(quiet) {
                    Err(Error {
                        kind: ErrorKind::Prepared,
                        ..
                    }) => return Ok(()),
                    eraser => self.take(process, eraser)?,
                };
                let mut erase = Erase::default();
                erase.tables.insert(table);
                let images = Images {
                    old: true,
                    new: true,
                };
                erase.rows.insert((lsn, seq), images);
                erase.force = self.next(2) == 1;
                self.truth(|it| {
                    if let Some(secret) = &mut it.secret {
                        secret.is_erasing = true;
                    }
                });
                match eraser.erase(&erase, &mut || Ok(())) {
                    Err(Error {
                        kind: ErrorKind::Held { .. },
                        ..
                    }) => return Ok(()),
                    erased => self.take(process, erased)?,
                };
                if !process.has_ended() {
                    self.truth(|it| {
                        if let Some(secret) = &mut it.secret {
                            secret.is_erased = true;
                            it.changes += 1;
                        }
                    });
                    done.set(true);
                }
                Ok(())
            })?;
            if done.get() || self.is_over() {
                break;
            }
            self.rest();
        }
        Ok(())
    }

    /// Whether the reader's record is still there.
    fn is_registered(&self) -> bool {
        self.truth(|it| it.readers.contains_key(READER))
    }

    fn follow(&self) -> Attempt<()> {
        for _ in 0..=self.next(self.day.rounds) {
            self.insist(20, |process| self.follow_once(process))?;
            self.rest();
        }
        Ok(())
    }

    fn follow_once(&self, process: &Process) -> Attempt<()> {
        let mut upkeep = self.upkeep(process)?;
        let reader = upkeep.register(READER, None, Timestamp(0));
        let mut reader = self.take(process, reader)?;
        let is_there = self.world.aside(|it| {
            let is_record = |name: &str| Act::removes(name) == Some(Act::RemovesReader);
            let is_there = it.disk().names().any(|(name, _)| is_record(name));
            if is_there {
                let known = it.truth.readers.entry(READER.to_owned());
                let known = known.or_insert(reader.position);
                *known = (*known).max(reader.position);
            }
            is_there
        });
        if !is_there {
            return Err(Stop::Again);
        }
        for _ in 0..=self.next(4) {
            let followed = upkeep.follow();
            self.opened(process, followed)?;
            let mut plan = Plan::default();
            plan.start = reader.position;
            let stream = upkeep.plan(&plan).and_then(|names| read(&upkeep, &names));
            let stream = match stream {
                // Another actor has forced the removal.
                Err(error) if error.code_is("pruned") && self.is_registered() => {
                    let forced = self.truth(|it| it.forced);
                    if forced <= reader.position {
                        return self.fault(error.to_string());
                    }
                    let opened = self.upkeep(process)?;
                    upkeep = opened;
                    let start = upkeep.start();
                    if !self.is_registered() {
                        return Err(Stop::Again);
                    }
                    self.truth(|it| it.readers.insert(READER.to_owned(), start));
                    let moved = upkeep.advance(READER, start, Timestamp(0));
                    reader = match moved {
                        Err(error) if error.code_is("backwards") => return Err(Stop::Again),
                        moved => self.take(process, moved)?,
                    };
                    continue;
                }
                stream => self.opened(process, stream)?,
            };
            if process.has_ended() {
                return Err(Stop::Again);
            }
            let found = units(&stream).or_else(|what| self.fault(what))?;
            let end = upkeep.end();
            let after: Vec<_> = found
                .into_iter()
                .filter(|it| it.end > reader.position)
                .collect();
            // The position 0/0 means the log's beginning, even if segments were removed.
            let start = match reader.position {
                Lsn::INVALID => upkeep.start(),
                position => position,
            };
            let checked = self.truth(|it| it.compare("following", start, end, &after));
            checked.or_else(|what| self.fault(what))?;
            let to = match self.next(3) {
                0 | 1 => end,
                _ => after.first().map_or(end, |it| it.end),
            };
            if to > reader.position && self.is_registered() {
                // The new position may be stored before the call returns.
                self.truth(|it| it.readers.insert(READER.to_owned(), to));
                let moved = upkeep.advance(READER, to, Timestamp(0));
                reader = self.take(process, moved)?;
            }
            self.rest();
        }
        Ok(())
    }

    fn plan(&self) -> Attempt<()> {
        for _ in 0..=self.next(self.day.rounds) {
            self.insist(20, |process| {
                let log = self.log(process)?;
                let planned = log.plan(&Plan::default());
                let planned = self.take(process, planned)?;
                self.rest();
                let stream = match read(&log, &planned) {
                    Err(error) if error.code_is("pruned") => return Ok(()),
                    stream => self.opened(process, stream)?,
                };
                if process.has_ended() {
                    return Err(Stop::Again);
                }
                let found = units(&stream).or_else(|what| self.fault(what))?;
                let (start, end) = (log.start(), log.end());
                let checked = self.truth(|it| it.compare("plan", start, end, &found));
                checked.or_else(|what| self.fault(what))
            })?;
            self.rest();
        }
        Ok(())
    }

    /// Copies the directory, as `cp -r` does, and starts with the copy.
    fn copy(&self) -> Attempt<()> {
        for _ in 0..=self.next(2) {
            self.rest();
            self.insist(20, |process| self.copy_once(process))?;
        }
        Ok(())
    }

    fn copy_once(&self, process: &Process) -> Attempt<()> {
        let again = |_| Stop::Again;
        let mut names = process.list().map_err(again)?;
        let mut copied = BTreeMap::new();
        while !names.is_empty() {
            let name = names.swap_remove(self.next(names.len()));
            let Ok(mut from) = process.open(&name) else {
                // The object has vanished.
                continue;
            };
            let size = from.size().map_err(again)?;
            let mut bytes = vec![0; usize::try_from(size).unwrap()];
            if from.read_at(0, &mut bytes).is_ok() {
                copied.insert(name, bytes);
            }
            for _ in 0..self.next(4) {
                self.wait();
            }
        }
        if process.has_ended() {
            return Err(Stop::Again);
        }
        let mut disk = Disk::default();
        for (name, bytes) in &copied {
            disk.set(name, bytes);
        }
        self.world.aside(|it| {
            if it.prints {
                let sizes = copied.iter().map(|(name, bytes)| (name, bytes.len()));
                println!("    copied {:?}", sizes.collect::<Vec<_>>());
            }
        });
        let seen = Log::open(Arc::new(Process::alone(disk.clone()))).is_ok();
        let checked = self.truth(|it| {
            let mut truth = it.clone();
            // The copy may be older than an erasure, a load's end, and a forced removal.
            truth
                .loads
                .iter_mut()
                .for_each(|it| (it.is_ended, it.by) = (false, None));
            if let Some(secret) = &mut truth.secret {
                secret.is_erased = false;
            }
            truth.readers.clear();
            // A reader may refuse it.
            truth.is_lacking = true;
            if seen {
                truth.check(&disk, true, false)?;
            }
            match truth.check_recovery(disk, "copy") {
                // A writer or a reader refuses the copy.
                Err(Wrong::Refused(_)) => Ok(()),
                result => result.map(drop).map_err(Wrong::text),
            }
        });
        checked.or_else(|what| self.fault(what))
    }
}

/// The code of an error.
pub(crate) trait Code {
    fn code_is(&self, code: &str) -> bool;
}

impl Code for Error {
    fn code_is(&self, code: &str) -> bool {
        self.kind.code() == code
    }
}
