//! The machine of a world: its directories, its processes, and how their calls fail.

use super::actors::ACTORS;
use super::choices::Choices;
use super::coverage::{Act, CHANGES, Call, Coverage, Fault};
use super::disk::{Disk, Inode, Life, Loss};
use super::script::Script;
use super::truth::Truth;
use std::collections::BTreeMap;
use std::io;
use walrow_log::Tag;

/// The most calls of the store in a run after the last fault.
const MOST_CALM: usize = 30_000;
/// The most calls of the store before faults end in any case.
const MOST: usize = 20_000;

/// The disk, the processes that use it, and how they fail.
#[expect(
    clippy::struct_excessive_bools,
    reason = "what is true of a world, each by itself"
)]
#[derive(Debug)]
pub(crate) struct Inner {
    /// The directories that have been at the log's path. The last one is there now.
    pub(super) places: Vec<Disk>,
    /// The failures that a test asks for.
    pub(crate) script: Script,
    /// Whether the directory was moved away for a while.
    pub(crate) is_away: bool,
    pub(crate) choices: Choices,
    pub(crate) truth: Truth,
    pub(crate) coverage: Coverage,
    /// The actor that runs.
    pub(super) turn: usize,
    /// Whether each actor still runs.
    pub(super) running: Vec<bool>,
    /// The process that each actor is now, and whether it is dead.
    pub(super) lives: Vec<Life>,
    pub(super) dead: Vec<bool>,
    pub(super) late: Vec<Late>,
    pub(crate) steps: usize,
    /// The step at the end of the faults.
    pub(super) calm: Option<usize>,
    /// How many faults are left.
    pub(super) faults: usize,
    /// A call fails in one of this many cases.
    pub(super) rate: usize,
    /// The failure that is most frequent in this world, and in how many cases such a call fails.
    /// Otherwise a call that is rare would fail too rarely.
    pub(super) focus: Option<(Call, Fault, usize)>,
    /// The call that fails again, how, and how often at most. Two failures in a row are an order of
    /// their own.
    pub(super) again: Option<(Call, Fault, usize)>,
    /// Another actor has the turn before one of this many calls.
    pub(super) turns: usize,
    /// The stops of this world.
    pub(super) holds: Vec<Hold>,
    /// The stop of each actor.
    pub(super) held: Vec<Option<Held>>,
    /// Whether the next call fails.
    pub(super) fails: bool,
    /// The actor that has the next turn, because the call came that it waits for.
    pub(super) woken: Option<usize>,
    pub(super) checked: (u64, u64),
    pub(crate) failure: Option<String>,
    pub(super) over: bool,
    /// How often each actor has found that the directory is at the log's path, and that an object
    /// has its name.
    pub(crate) found_here: Vec<u64>,
    pub(crate) found_named: Vec<u64>,
    /// Whether each step is printed.
    pub(crate) prints: bool,
    /// The objects as they were printed last.
    pub(super) printed: BTreeMap<String, String>,
}

/// An actor stops before a call, while others run. Turns that are drawn one by one bring such an
/// order too rarely.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hold {
    pub(super) actor: usize,
    pub(super) call: Call,
}

/// A stop: until a step, or a call of another actor.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    until: usize,
    call: Option<Call>,
}

/// A name that is given later.
#[derive(Debug)]
pub(super) struct Late {
    pub(super) due: usize,
    pub(super) life: Life,
    pub(super) place: Place,
    pub(super) inode: Inode,
    pub(super) name: String,
    pub(super) expected: Option<Tag>,
}

/// The number of a directory that is or was at the log's path.
pub(crate) type Place = usize;
/// How much of its work a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Part,
    /// This many bytes, at most.
    First(usize),
}

impl Extent {
    /// How much of this size.
    pub(crate) fn of(self, size: usize, choices: &mut Choices) -> usize {
        match self {
            Self::Whole => size,
            Self::Part => choices.next(size + 1),
            Self::First(most) => size.min(most),
        }
    }
}

pub(crate) fn failed() -> io::Error {
    io::Error::other("the disk failed")
}

impl Inner {
    pub(super) fn of(disk: Disk, choices: Choices, truth: Truth, running: Vec<bool>) -> Self {
        let actors = running.len();
        Self {
            places: vec![disk],
            script: Script::default(),
            is_away: false,
            choices,
            truth,
            coverage: Coverage::default(),
            turn: usize::MAX,
            found_here: vec![0; actors],
            found_named: vec![0; actors],
            running,
            lives: (0..actors as u64).collect(),
            dead: vec![false; actors],
            late: Vec::new(),
            steps: 0,
            calm: None,
            faults: 0,
            rate: 0,
            focus: None,
            again: None,
            turns: 3,
            holds: Vec::new(),
            held: vec![None; actors],
            fails: false,
            woken: None,
            checked: (0, 0),
            failure: None,
            over: false,
            prints: false,
            printed: BTreeMap::new(),
        }
    }

    /// The directory at the log's path.
    pub(crate) fn disk(&self) -> &Disk {
        &self.places[self.here()]
    }

    pub(crate) fn disk_mut(&mut self) -> &mut Disk {
        let here = self.here();
        &mut self.places[here]
    }

    pub(crate) fn here(&self) -> Place {
        self.places.len() - 1
    }

    /// Whether this directory is at the log's path.
    pub(crate) fn is_here(&self, place: Place) -> bool {
        !self.is_away && place == self.here()
    }

    /// Whether failures of this call are the most frequent ones in this world.
    pub(crate) fn focuses(&self, call: Call) -> bool {
        self.focus.is_some_and(|it| it.0 == call)
    }

    pub(crate) fn place_mut(&mut self, place: Place) -> &mut Disk {
        &mut self.places[place]
    }

    /// Puts another directory at the log's path. Processes go on in the earlier directory, if they
    /// write to it. Other processes end, because their work there does not matter.
    pub(crate) fn replace(&mut self, disk: Disk) {
        for life in 0..self.dead.len() as u64 {
            if !self.truth.writers.contains(&life) {
                self.end_life(life);
            }
        }
        self.places.push(disk);
        self.checked = (u64::MAX, u64::MAX);
    }

    /// Does something by hand, which is a step, too.
    pub(crate) fn act(&mut self, actor: usize, act: Act) {
        if self.prints {
            println!("{} {} {act:?}", self.steps, ACTORS[actor]);
        }
        self.coverage.act(act);
        self.coverage.step(actor);
    }

    /// Ends the world early.
    pub(crate) fn end(&mut self) {
        self.over = true;
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// Whether the faults have ended.
    pub(crate) fn is_calm(&self) -> bool {
        self.calm.is_some()
    }

    pub(crate) fn has_ended(&self, life: Life) -> bool {
        self.over || self.dead[usize::try_from(life).unwrap()]
    }

    pub(super) fn end_life(&mut self, life: Life) {
        self.dead[usize::try_from(life).unwrap()] = true;
        for disk in &mut self.places {
            disk.kill(life);
        }
        self.truth.writers.remove(&life);
        self.truth.opening.remove(&life);
        self.late.retain(|it| it.life != life);
    }

    pub(super) fn lose_power(&mut self) {
        let loss = self
            .choices
            .of(&[Loss::All, Loss::Chosen, Loss::Chosen, Loss::Nothing]);
        let is_ordered = !self.truth.is_unordered;
        for disk in &mut self.places {
            disk.lose_power(loss, is_ordered, &mut self.choices);
        }
        for life in 0..self.dead.len() as u64 {
            self.end_life(life);
        }
        self.late.clear();
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
        self.over = true;
    }

    pub(super) fn count_step(&mut self) {
        self.steps += 1;
        match self.calm {
            None if self.faults == 0 || self.steps > MOST => self.calm = Some(self.steps),
            Some(since) if self.steps > since + MOST_CALM => {
                let turn = self.turn;
                self.fail(format!("end: it has not ended; actor {turn} runs"));
            }
            _ => {}
        }
    }

    /// Another actor that has not ended and is not stopped. With the quiet choice, the next actor
    /// after this one.
    pub(super) fn other(&mut self, actor: usize) -> Option<usize> {
        let count = self.running.len();
        let others = (1..count).map(|it| (actor + it) % count);
        let is_held = |held: Held| held.until > self.steps && self.calm.is_none();
        let others = others.filter(|it| self.running[*it] && !self.held[*it].is_some_and(is_held));
        let others: Vec<_> = others.collect();
        (!others.is_empty()).then(|| others[self.choices.next(others.len())])
    }

    /// The actor that has the turn before this call. `None` if it is the caller.
    pub(super) fn next(&mut self, actor: usize, call: Call) -> Option<usize> {
        if let Some(woken) = self.woken.take_if(|it| *it != actor) {
            return Some(woken).filter(|it| self.running[*it]);
        }
        let mut holds = self.holds.iter();
        let is_held = holds.any(|it| it.actor == actor && it.call == call);
        if self.calm.is_none() && is_held && self.choices.rarely(2) {
            let other = self.other(actor);
            if other.is_some() {
                self.hold(actor);
            }
            return other;
        }
        let turns = if self.calm.is_some() { 3 } else { self.turns };
        if self.choices.rarely(turns) {
            self.other(actor)
        } else {
            None
        }
    }

    /// Stops an actor. Another actor has to have the turn next.
    pub(crate) fn hold(&mut self, actor: usize) {
        if self.over {
            return;
        }
        let until = self.steps + self.choices.of(&[10, 100, 300, 1000]);
        let call = self.choices.next(2 * CHANGES.len());
        let call = CHANGES.get(call).copied();
        self.held[actor] = Some(Held { until, call });
    }

    /// An actor has the turn again. If it was stopped, the call often fails: what others have done
    /// meanwhile meets what a process leaves that dies there.
    pub(super) fn resume(&mut self, actor: usize) {
        self.fails = self.held[actor].take().is_some() && self.choices.rarely(3);
    }

    /// Wakes an actor that waits for this call.
    fn wake(&mut self, actor: usize, call: Call) {
        let waits = |held: &Option<Held>| held.is_some_and(|it| it.call == Some(call));
        let woken = self.held.iter().position(waits);
        if let Some(woken) = woken.filter(|it| *it != actor) {
            self.held[woken] = Some(Held::default());
            self.woken = Some(woken);
        }
    }

    /// Gives names that are due.
    pub(crate) fn make_late(&mut self, all: bool) {
        let steps = self.steps;
        let due = self.late.extract_if(.., |it| all || it.due <= steps);
        for late in due.collect::<Vec<_>>() {
            let Late {
                place,
                inode,
                name,
                expected,
                ..
            } = late;
            let disk = &mut self.places[place];
            if !disk.is_staged(inode) {
                continue;
            }
            disk.sync(inode);
            match expected {
                None => {
                    disk.link(inode, &name);
                }
                Some(tag) if disk.is_expected(inode, &name, &tag) => {
                    disk.rename(inode, &name);
                }
                Some(_) => {}
            }
            disk.sync_names();
        }
    }

    pub(super) fn draw(&mut self, call: Call) -> Fault {
        if self.faults == 0 || self.calm.is_some() {
            return Fault::None;
        }
        if let Some((again, fault, left)) = self.again
            && again == call
        {
            self.again = Some((again, fault, left - 1)).filter(|it| it.2 > 0);
            if self.choices.next(3) > 0 {
                self.faults -= 1;
                return fault;
            }
        }
        let fault = self.draw_new(call);
        let repeats = matches!(fault, Fault::Refused | Fault::Part | Fault::AnswerLost);
        if repeats && self.choices.rarely(2) {
            self.again = Some((call, fault, self.choices.next(2) + 1));
        }
        fault
    }

    fn draw_new(&mut self, call: Call) -> Fault {
        if let Some((focus, fault, rate)) = self.focus
            && focus == call
            && self.choices.rarely(rate)
        {
            self.faults -= 1;
            return fault;
        }
        let fails = std::mem::take(&mut self.fails);
        if !fails && !self.choices.rarely((self.rate * call.rarity() / 4).max(3)) {
            return Fault::None;
        }
        self.faults -= 1;
        let faults = call.faults();
        let chosen = if fails && self.choices.rarely(2) {
            Fault::Killed
        } else {
            faults[self.choices.next(faults.len())]
        };
        if chosen == Fault::Later && !self.truth.has_late {
            Fault::Refused
        } else {
            chosen
        }
    }

    pub(super) fn call<T>(
        &mut self,
        (life, place): (Life, Place),
        call: Call,
        late: Option<(Inode, &str, Option<&Tag>)>,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        let fault = self.draw(call);
        self.coverage.call(call, fault);
        self.wake(self.turn, call);
        if self.prints {
            let (step, turn) = (self.steps, ACTORS[self.turn]);
            println!("{step} {turn} ({life}) {call:?} {fault:?}");
        }
        let changes = matches!(call, Call::Create | Call::Swap | Call::Remove);
        if changes && self.truth.opening.contains(&life) {
            // A writer repairs the log without the removed object.
            self.truth.opened += 1;
        }
        let extent = match fault {
            Fault::None => {
                let disk = &mut self.places[place];
                return run(disk, &mut self.choices, Extent::Whole);
            }
            Fault::AnswerLost | Fault::KilledAfter | Fault::PowerLossAfter => Some(Extent::Whole),
            Fault::Part | Fault::KilledWithin | Fault::PowerLossWithin => Some(Extent::Part),
            Fault::Refused | Fault::Killed | Fault::PowerLoss => None,
            Fault::Later => {
                let due = self.steps + self.choices.of(&[5, 20, 100, 500]);
                if let Some((inode, name, expected)) = late {
                    self.late.push(Late {
                        due,
                        life,
                        place,
                        inode,
                        name: name.to_owned(),
                        expected: expected.cloned(),
                    });
                }
                None
            }
        };
        if let Some(extent) = extent {
            // The caller does not get the answer.
            let _ = run(&mut self.places[place], &mut self.choices, extent);
        }
        match fault {
            Fault::Killed | Fault::KilledWithin | Fault::KilledAfter => self.end_life(life),
            Fault::PowerLoss | Fault::PowerLossWithin | Fault::PowerLossAfter => self.lose_power(),
            _ => {}
        }
        Err(failed())
    }

    /// Prints the objects that a step has changed.
    fn print_changes(&mut self) {
        let now = self.disk().described();
        for (name, text) in &now {
            if self.printed.get(name) != Some(text) {
                println!("        {name}: {text}");
            }
        }
        for name in self.printed.keys().filter(|it| !now.contains_key(*it)) {
            println!("        {name}: gone");
        }
        self.printed = now;
    }

    /// Checks the world after a step, if it has changed.
    pub(super) fn check(&mut self) {
        if self.prints {
            self.print_changes();
        }
        let disk = &self.places[self.places.len() - 1];
        let now = (disk.seen, disk.kept + self.truth.changes);
        if self.over || self.checked == now {
            return;
        }
        let has_seen = self.checked.0 != now.0;
        let has_kept = self.checked.1 != now.1;
        self.checked = now;
        if let Err(what) = self.truth.check(disk, has_seen, has_kept) {
            self.fail(what);
        }
    }
}
