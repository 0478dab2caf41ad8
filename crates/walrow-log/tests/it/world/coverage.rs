//! Counts how often each case was tried.

use std::collections::BTreeMap;
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
            Self::Create | Self::Swap => &[
                Refused,
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

const ASKED: [Asked; 11] = [
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

/// How often each case must be tried.
const ENOUGH: u64 = 1000;

/// Counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Coverage {
    calls: BTreeMap<(Call, Fault), u64>,
    asked: BTreeMap<(Asked, Doing), u64>,
    pairs: BTreeMap<(usize, usize), u64>,
    last: usize,
}

impl Coverage {
    pub(crate) fn call(&mut self, call: Call, fault: Fault) {
        *self.calls.entry((call, fault)).or_default() += 1;
    }

    pub(crate) fn ask(&mut self, asked: Asked, doing: Doing) {
        *self.asked.entry((asked, doing)).or_default() += 1;
    }

    pub(crate) fn step(&mut self, actor: usize) {
        *self.pairs.entry((self.last, actor)).or_default() += 1;
        self.last = actor;
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (key, count) in &other.calls {
            *self.calls.entry(*key).or_default() += count;
        }
        for (key, count) in &other.asked {
            *self.asked.entry(*key).or_default() += count;
        }
        for (key, count) in &other.pairs {
            *self.pairs.entry(*key).or_default() += count;
        }
    }

    /// A table of each kind, and the cases that were tried too rarely.
    pub(crate) fn print(&self, actors: &[&str]) -> String {
        let mut text = String::new();
        let mut rare = Vec::new();
        writeln!(
            text,
            "calls of the writer, and what it was doing: {DOINGS:?}"
        )
        .unwrap();
        for asked in ASKED {
            let counts = DOINGS.map(|doing| {
                let count = self.asked.get(&(asked, doing)).copied().unwrap_or(0);
                note(&mut rare, count, || format!("{asked:?} {doing:?}"));
                format!("{count:>9}")
            });
            writeln!(text, "{:<14}{}", format!("{asked:?}"), counts.concat()).unwrap();
        }
        writeln!(text, "calls of the store, and how they failed").unwrap();
        for call in CALLS {
            let faults = [Fault::None];
            let faults = faults.iter().chain(call.faults());
            let counts = faults.map(|fault| {
                let count = self.calls.get(&(call, *fault)).copied().unwrap_or(0);
                note(&mut rare, count, || format!("{call:?} {fault:?}"));
                format!(" {fault:?} {count}")
            });
            let counts: Vec<_> = counts.collect();
            writeln!(text, "{:<14}{}", format!("{call:?}"), counts.concat()).unwrap();
        }
        writeln!(text, "an actor, and who came next: {actors:?}").unwrap();
        for (one, name) in actors.iter().enumerate() {
            let counts = (0..actors.len()).map(|next| {
                let count = self.pairs.get(&(one, next)).copied().unwrap_or(0);
                note(&mut rare, count, || format!("{name} {}", actors[next]));
                format!("{count:>9}")
            });
            let counts: Vec<_> = counts.collect();
            writeln!(text, "{name:<14}{}", counts.concat()).unwrap();
        }
        if rare.is_empty() {
            writeln!(text, "everything was tried at least {ENOUGH} times").unwrap();
        } else {
            let (count, first) = (rare.len(), rare.iter().take(100));
            let first: Vec<_> = first.map(String::as_str).collect();
            writeln!(
                text,
                "{count} were tried fewer than {ENOUGH} times: {}",
                first.join(", ")
            )
            .unwrap();
        }
        text
    }
}

fn note(rare: &mut Vec<String>, count: u64, what: impl FnOnce() -> String) {
    if count < ENOUGH {
        rare.push(format!("{} ({count})", what()));
    }
}
