//! Counts how often each case was tried.

use std::fmt::Write as _;

/// A call of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    List,
    Open,
    Size,
    ReadAt,
    Tag,
    Stage,
    StagedAppend,
    Create,
    Swap,
    SyncNames,
    Remove,
    Journal,
    Append,
    Rewrite,
    Truncate,
    Sync,
    IsNamed,
    Lock,
    Check,
    Sweep,
}

/// The way that a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fault {
    None,
    /// It does no part of its work.
    Refused,
    /// It does a part.
    Part,
    /// It does everything, but returns an error.
    AnswerLost,
    /// It returns an error, and does everything later.
    Later,
    /// The process ends before it, within it, or after it.
    Killed,
    KilledWithin,
    KilledAfter,
    /// The machine ends before it, within it, or after it.
    PowerLoss,
    PowerLossWithin,
    PowerLossAfter,
}

/// Calls that change the disk, or wait for another process: an actor stops before them or is woken
/// by them.
pub(crate) const CHANGES: [Call; 12] = [
    Call::Create,
    Call::Swap,
    Call::Remove,
    Call::SyncNames,
    Call::Stage,
    Call::Journal,
    Call::Append,
    Call::Truncate,
    Call::Sync,
    Call::Lock,
    Call::Sweep,
    Call::List,
];

const CALLS: [Call; 20] = [
    Call::List,
    Call::Open,
    Call::Size,
    Call::ReadAt,
    Call::Tag,
    Call::Stage,
    Call::StagedAppend,
    Call::Create,
    Call::Swap,
    Call::SyncNames,
    Call::Remove,
    Call::Journal,
    Call::Append,
    Call::Rewrite,
    Call::Truncate,
    Call::Sync,
    Call::IsNamed,
    Call::Lock,
    Call::Check,
    Call::Sweep,
];

impl Call {
    /// The faults that are possible.
    pub(crate) const fn faults(self) -> &'static [Fault] {
        use Fault::{
            AnswerLost, Killed, KilledAfter, KilledWithin, Later, Part, PowerLoss, PowerLossAfter,
            PowerLossWithin, Refused,
        };
        match self {
            Self::List
            | Self::Open
            | Self::Size
            | Self::ReadAt
            | Self::Tag
            | Self::IsNamed
            | Self::Check => &[Refused, Killed, PowerLoss],
            // The failure is drawn when the object is staged.
            Self::StagedAppend => &[Refused],
            // A part: the sync fails, and some bytes are lost. A later sync succeeds.
            Self::Create | Self::Swap => &[
                Refused,
                Part,
                AnswerLost,
                Later,
                Killed,
                KilledAfter,
                PowerLoss,
                PowerLossAfter,
            ],
            // After an error, the file is closed, and not locked.
            Self::Stage | Self::Journal | Self::Lock => {
                &[Refused, Killed, KilledAfter, PowerLoss, PowerLossAfter]
            }
            Self::Truncate | Self::Sweep | Self::SyncNames => &[
                Refused,
                AnswerLost,
                Killed,
                KilledAfter,
                PowerLoss,
                PowerLossAfter,
            ],
            Self::Remove | Self::Append | Self::Rewrite | Self::Sync => &[
                Refused,
                Part,
                AnswerLost,
                Killed,
                KilledWithin,
                KilledAfter,
                PowerLoss,
                PowerLossWithin,
                PowerLossAfter,
            ],
        }
    }

    /// How much more rarely it fails than calls that are made less often.
    pub(crate) const fn rarity(self) -> usize {
        match self {
            Self::List | Self::Open | Self::Size | Self::ReadAt | Self::Tag => 60,
            Self::Lock | Self::IsNamed | Self::Journal | Self::Stage => 20,
            Self::Remove | Self::Rewrite | Self::Truncate | Self::Swap => 1,
            _ => 4,
        }
    }
}

/// The state of the writer when it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Doing {
    /// The log is empty.
    Empty,
    /// A first load was planned, but has not begun.
    Planned,
    Between,
    Inside,
    /// A load was begun, and transactions before its point may still come.
    Before,
    /// The stream has passed the load's point.
    Crossing,
    Behind,
    /// A sync has failed.
    Broken,
}

/// A call of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Asked {
    Append,
    Sync,
    Fill,
    Publish,
    Advance,
    SetTimeline,
    PlanFirstLoad,
    BeginLoad,
    EndLoad,
    GiveUpLoad,
    Drop,
}

const DOINGS: [Doing; 8] = [
    Doing::Empty,
    Doing::Planned,
    Doing::Between,
    Doing::Inside,
    Doing::Before,
    Doing::Crossing,
    Doing::Behind,
    Doing::Broken,
];

pub(crate) const ASKED: [Asked; 11] = [
    Asked::Append,
    Asked::Sync,
    Asked::Fill,
    Asked::Publish,
    Asked::Advance,
    Asked::SetTimeline,
    Asked::PlanFirstLoad,
    Asked::BeginLoad,
    Asked::EndLoad,
    Asked::GiveUpLoad,
    Asked::Drop,
];

/// An act of somebody who changes a log by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Act {
    /// Moves its directory away, and back again.
    Moves,
    /// Puts a copy in the place of its directory.
    Replaces,
    /// Puts an earlier copy in the place of its directory.
    Restores,
    /// Removes the journal.
    RemovesOpen,
    RemovesSegment,
    RemovesPrepared,
    RemovesState,
    RemovesIndex,
    RemovesCatalog,
    RemovesReader,
    /// Removes the lock of the writer, or of the small objects.
    RemovesWriter,
    RemovesLock,
    /// Puts back the removed object.
    PutsBack,
}

const ACTS: [Act; 13] = [
    Act::Moves,
    Act::Replaces,
    Act::Restores,
    Act::RemovesOpen,
    Act::RemovesSegment,
    Act::RemovesPrepared,
    Act::RemovesState,
    Act::RemovesIndex,
    Act::RemovesCatalog,
    Act::RemovesReader,
    Act::RemovesWriter,
    Act::RemovesLock,
    Act::PutsBack,
];

/// The objects that are removed. Objects that are rarely there come several times.
pub(crate) const REMOVALS: [Act; 18] = [
    Act::RemovesOpen,
    Act::RemovesOpen,
    Act::RemovesOpen,
    Act::RemovesSegment,
    Act::RemovesSegment,
    Act::RemovesSegment,
    Act::RemovesPrepared,
    Act::RemovesWriter,
    Act::RemovesLock,
    Act::RemovesState,
    Act::RemovesIndex,
    Act::RemovesCatalog,
    Act::RemovesReader,
    Act::RemovesPrepared,
    Act::RemovesPrepared,
    Act::RemovesPrepared,
    Act::RemovesCatalog,
    Act::RemovesReader,
];

impl Act {
    /// The removal of an object with this name.
    pub(crate) fn removes(name: &str) -> Option<Self> {
        match name {
            "_open" => Some(Self::RemovesOpen),
            "_loaded-and-removed" => Some(Self::RemovesState),
            "_index" => Some(Self::RemovesIndex),
            "_catalog" => Some(Self::RemovesCatalog),
            "_writer" => Some(Self::RemovesWriter),
            "_lock" => Some(Self::RemovesLock),
            _ if name.starts_with("_prepared-") => Some(Self::RemovesPrepared),
            _ if name.starts_with("_reader-") => Some(Self::RemovesReader),
            _ if name.contains(".wire.") => Some(Self::RemovesSegment),
            _ => None,
        }
    }
}

/// Each call of the store with each way that it may fail.
fn failures() -> impl Iterator<Item = (Call, Fault)> {
    CALLS.iter().flat_map(|call| {
        let faults = call.faults().iter();
        faults.map(|fault| (*call, *fault))
    })
}

/// The same pairs. Calls that are made in few worlds come several times.
pub(crate) fn weighted_failures() -> Vec<(Call, Fault)> {
    let weight = |call: Call| match call {
        Call::Rewrite | Call::Create | Call::SyncNames => 4,
        Call::Lock | Call::Sync | Call::Stage | Call::Remove => 2,
        _ => 1,
    };
    let pairs = failures().flat_map(|it| std::iter::repeat_n(it, weight(it.0)));
    pairs.collect()
}

/// How often each case must be tried.
const ENOUGH: u64 = 1000;

/// The most actors, and the number of faults, calls and stages.
const MOST: usize = 10;
const FAULTS: usize = Fault::PowerLossAfter as usize + 1;

/// Counts.
#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    calls: [[u64; FAULTS]; CALLS.len()],
    asked: [[u64; DOINGS.len()]; ASKED.len()],
    pairs: [[u64; MOST]; MOST],
    acts: [u64; ACTS.len()],
    last: usize,
}

impl Default for Coverage {
    fn default() -> Self {
        Self {
            calls: [[0; FAULTS]; CALLS.len()],
            asked: [[0; DOINGS.len()]; ASKED.len()],
            pairs: [[0; MOST]; MOST],
            acts: [0; ACTS.len()],
            last: 0,
        }
    }
}

impl Coverage {
    pub(crate) fn call(&mut self, call: Call, fault: Fault) {
        self.calls[call as usize][fault as usize] += 1;
    }

    pub(crate) fn act(&mut self, act: Act) {
        self.acts[act as usize] += 1;
    }

    /// Calls of the store.
    pub(crate) fn calls(&self) -> u64 {
        self.calls.as_flattened().iter().sum()
    }

    pub(crate) fn ask(&mut self, asked: Asked, doing: Doing) {
        self.asked[asked as usize][doing as usize] += 1;
    }

    pub(crate) fn step(&mut self, actor: usize) {
        self.pairs[self.last][actor] += 1;
        self.last = actor;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        let add = |to: &mut [u64], from: &[u64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += from;
            }
        };
        add(self.calls.as_flattened_mut(), other.calls.as_flattened());
        add(self.asked.as_flattened_mut(), other.asked.as_flattened());
        add(self.pairs.as_flattened_mut(), other.pairs.as_flattened());
        add(&mut self.acts, &other.acts);
    }

    /// The cases that were tried too rarely.
    pub(crate) fn rare(&self, actors: &[&str]) -> Vec<String> {
        let mut rare = Vec::new();
        let mut note = |count: u64, what: String| {
            if count < ENOUGH {
                rare.push(format!("{what} ({count})"));
            }
        };
        for (asked, counts) in ASKED.iter().zip(&self.asked) {
            for (doing, count) in DOINGS.iter().zip(counts) {
                note(*count, format!("{asked:?} {doing:?}"));
            }
        }
        for (call, fault) in failures() {
            let count = self.calls[call as usize][fault as usize];
            note(count, format!("{call:?} {fault:?}"));
        }
        for (one, counts) in actors.iter().zip(&self.pairs) {
            for (next, count) in actors.iter().zip(counts) {
                note(*count, format!("{one} {next}"));
            }
        }
        for (act, count) in ACTS.iter().zip(&self.acts) {
            note(*count, format!("{act:?}"));
        }
        rare
    }

    /// A table of each kind, and the cases that were tried too rarely.
    pub(crate) fn print(&self, actors: &[&str]) -> String {
        let mut text = String::new();
        let row = |text: &mut String, name: &str, counts: &[u64]| {
            let counts = counts.iter().map(|count| format!("{count:>9}"));
            let counts: Vec<_> = counts.collect();
            writeln!(text, "{name:<14}{}", counts.concat()).unwrap();
        };
        writeln!(
            text,
            "calls of the writer, and what it was doing: {DOINGS:?}"
        )
        .unwrap();
        for (asked, counts) in ASKED.iter().zip(&self.asked) {
            row(&mut text, &format!("{asked:?}"), counts);
        }
        writeln!(text, "calls of the store, and how they failed").unwrap();
        for call in CALLS {
            let faults = [Fault::None];
            let faults = faults.iter().chain(call.faults());
            let counts = faults.map(|fault| {
                let count = self.calls[call as usize][*fault as usize];
                format!(" {fault:?} {count}")
            });
            let counts: Vec<_> = counts.collect();
            writeln!(text, "{:<14}{}", format!("{call:?}"), counts.concat()).unwrap();
        }
        writeln!(text, "an actor, and who came next: {actors:?}").unwrap();
        for (name, counts) in actors.iter().zip(&self.pairs) {
            row(&mut text, name, &counts[..actors.len()]);
        }
        writeln!(text, "what was done by hand").unwrap();
        for (act, count) in ACTS.iter().zip(&self.acts) {
            row(&mut text, &format!("{act:?}"), &[*count]);
        }
        let rare = self.rare(actors);
        if rare.is_empty() {
            writeln!(text, "everything was tried at least {ENOUGH} times").unwrap();
        } else {
            let (count, rare) = (rare.len(), rare.join(", "));
            writeln!(text, "{count} were tried fewer than {ENOUGH} times: {rare}").unwrap();
        }
        text
    }
}
