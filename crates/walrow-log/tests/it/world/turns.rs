//! One actor runs at a time. Each call of the store hands the turn to the actor that the next number names,
//! and may fail in a way that the next numbers name.

use super::actors::ACTORS;
use super::choices::Choices;
use super::coverage::{Call, Coverage, Fault};
use super::disk::{Disk, Inode, Life, Loss};
use super::truth::Truth;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use walrow_log::Tag;

/// The most calls of the store in a run after the last fault.
const MOST_CALM: usize = 30_000;
/// The most calls of the store before faults end in any case.
const MOST: usize = 20_000;

/// A disk, the processes that use it, and the truth.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    wake: Vec<Condvar>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) disk: Disk,
    pub(crate) choices: Choices,
    pub(crate) truth: Truth,
    pub(crate) coverage: Coverage,
    /// The actor that runs.
    turn: usize,
    /// Whether each actor still runs.
    running: Vec<bool>,
    /// The process that each actor is now, and whether it is dead.
    lives: Vec<Life>,
    dead: Vec<bool>,
    late: Vec<Late>,
    pub(crate) steps: usize,
    /// The step at the end of the faults.
    calm: Option<usize>,
    /// How many faults are left.
    faults: usize,
    /// A call fails in one of this many cases.
    rate: usize,
    checked: (u64, u64),
    pub(crate) failure: Option<String>,
    over: bool,
    /// Whether each step is printed.
    pub(crate) prints: bool,
}

/// A name that is given later.
#[derive(Debug)]
struct Late {
    due: usize,
    life: Life,
    inode: Inode,
    name: String,
    expected: Option<Tag>,
}

/// How much of its work a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Whole,
    Part,
}

pub(crate) fn failed() -> io::Error {
    io::Error::other("the disk failed")
}

fn ended() -> io::Error {
    io::Error::other("the process has ended")
}

impl World {
    /// A world with this many actors. They wait for `begin`.
    pub(crate) fn new(mut choices: Choices, actors: usize, truth: Truth) -> Self {
        let faults = choices.of(&[0, 1, 2, 4, 10, 30]);
        let rate = choices.of(&[240, 80, 30, 12]);
        let inner = Inner {
            disk: Disk::default(),
            choices,
            truth,
            coverage: Coverage::default(),
            turn: usize::MAX,
            running: vec![true; actors],
            lives: (0..actors as u64).collect(),
            dead: vec![false; actors],
            late: Vec::new(),
            steps: 0,
            calm: None,
            faults,
            rate,
            checked: (0, 0),
            failure: None,
            over: false,
            prints: false,
        };
        Self(Arc::new(Shared {
            inner: Mutex::new(inner),
            wake: (0..actors).map(|_| Condvar::new()).collect(),
        }))
    }

    /// A disk that one process uses, and that does not fail.
    pub(crate) fn alone(disk: Disk) -> Self {
        let world = Self::new(Choices::of_list(&[]), 0, Truth::default());
        world.lock().disk = disk;
        world
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the first turn.
    pub(crate) fn begin(&self) {
        self.lock().turn = 0;
        self.0.wake[0].notify_one();
    }

    fn wait<'a>(&'a self, mut inner: MutexGuard<'a, Inner>, actor: usize) -> MutexGuard<'a, Inner> {
        while inner.turn != actor && !inner.over {
            let woken = self.0.wake[actor].wait(inner);
            inner = woken.unwrap_or_else(PoisonError::into_inner);
        }
        inner
    }

    /// Waits for the first turn.
    pub(crate) fn enter(&self, actor: usize) {
        drop(self.wait(self.lock(), actor));
    }

    /// The actor has ended.
    pub(crate) fn leave(&self, actor: usize) {
        let mut inner = self.lock();
        inner.running[actor] = false;
        let life = inner.lives[actor];
        inner.end_life(life);
        if let Some(next) = inner.other(actor) {
            inner.turn = next;
            self.0.wake[next].notify_one();
        }
    }

    pub(crate) fn fail(&self, what: String) {
        let mut inner = self.lock();
        inner.fail(what);
        self.wake_all();
    }

    fn wake_all(&self) {
        self.0.wake.iter().for_each(Condvar::notify_all);
    }

    /// The actor's current process. If it is dead, a new process.
    pub(crate) fn life(&self, actor: usize) -> Life {
        let mut inner = self.lock();
        let life = inner.lives[actor];
        if inner.dead[usize::try_from(life).unwrap()] {
            inner.dead.push(false);
            inner.lives[actor] = inner.dead.len() as u64 - 1;
        }
        inner.lives[actor]
    }

    /// Lets another actor run.
    pub(crate) fn pause(&self, actor: Option<usize>) {
        let Some(actor) = actor else { return };
        let mut inner = self.lock();
        if !inner.over {
            inner.count_step();
            if let Some(next) = inner.other(actor) {
                inner.turn = next;
                self.0.wake[next].notify_one();
                drop(self.wait(inner, actor));
                return;
            }
        }
        drop(inner);
    }

    /// A call of the store.
    pub(crate) fn operate<T>(
        &self,
        who: Option<(usize, Life)>,
        call: Call,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        self.operate_late(who, call, None, run)
    }

    /// As `operate`, for a call that gives a name. The name may come later.
    pub(crate) fn operate_late<T>(
        &self,
        who: Option<(usize, Life)>,
        call: Call,
        late: Option<(Inode, &str, Option<&Tag>)>,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.lock();
        let Some((actor, life)) = who else {
            let Inner { disk, choices, .. } = &mut *inner;
            return run(disk, choices, Extent::Whole);
        };
        if inner.has_ended(life) {
            return Err(ended());
        }
        let next = if inner.choices.rarely(3) {
            inner.other(actor)
        } else {
            None
        };
        if let Some(next) = next {
            inner.turn = next;
            self.0.wake[next].notify_one();
            inner = self.wait(inner, actor);
            if inner.has_ended(life) {
                return Err(ended());
            }
        }
        inner.count_step();
        inner.make_late(false);
        let result = inner.call(life, call, late, run);
        inner.coverage.step(actor);
        inner.check();
        if inner.over {
            self.wake_all();
        }
        result
    }

    /// Uses the world without a step.
    pub(crate) fn aside<T>(&self, run: impl FnOnce(&mut Inner) -> T) -> T {
        run(&mut self.lock())
    }
}

impl Inner {
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

    fn end_life(&mut self, life: Life) {
        self.dead[usize::try_from(life).unwrap()] = true;
        self.disk.kill(life);
        self.truth.writers.remove(&life);
        self.late.retain(|it| it.life != life);
    }

    fn lose_power(&mut self) {
        let loss = self
            .choices
            .of(&[Loss::All, Loss::Chosen, Loss::Chosen, Loss::Nothing]);
        let is_ordered = !self.truth.is_unordered;
        self.disk.lose_power(loss, is_ordered, &mut self.choices);
        for life in 0..self.dead.len() as u64 {
            self.end_life(life);
        }
        self.late.clear();
    }

    pub(crate) fn fail(&mut self, what: String) {
        self.failure.get_or_insert(what);
        self.over = true;
    }

    fn count_step(&mut self) {
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

    /// Another actor that has not ended. With the quiet choice, the next actor after this one.
    fn other(&mut self, actor: usize) -> Option<usize> {
        let count = self.running.len();
        let others = (1..count).map(|it| (actor + it) % count);
        let others: Vec<_> = others.filter(|it| self.running[*it]).collect();
        (!others.is_empty()).then(|| others[self.choices.next(others.len())])
    }

    /// Gives names that are due.
    pub(crate) fn make_late(&mut self, all: bool) {
        let steps = self.steps;
        let due = self.late.extract_if(.., |it| all || it.due <= steps);
        for late in due.collect::<Vec<_>>() {
            let Late {
                inode,
                name,
                expected,
                ..
            } = late;
            if !self.disk.is_staged(inode) {
                continue;
            }
            self.disk.sync(inode);
            match expected {
                None => {
                    self.disk.link(inode, &name);
                }
                Some(tag) if self.disk.is_expected(inode, &name, &tag) => {
                    self.disk.rename(inode, &name);
                }
                Some(_) => {}
            }
            self.disk.sync_names();
        }
    }

    fn draw(&mut self, call: Call) -> Fault {
        if self.faults == 0 || self.calm.is_some() {
            return Fault::None;
        }
        if !self.choices.rarely((self.rate * call.rarity() / 4).max(3)) {
            return Fault::None;
        }
        self.faults -= 1;
        let faults = call.faults();
        let chosen = faults[self.choices.next(faults.len())];
        if chosen == Fault::Later && !self.truth.has_late {
            Fault::Refused
        } else {
            chosen
        }
    }

    fn call<T>(
        &mut self,
        life: Life,
        call: Call,
        late: Option<(Inode, &str, Option<&Tag>)>,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        let fault = self.draw(call);
        self.coverage.call(call, fault);
        if self.prints {
            let (step, turn) = (self.steps, ACTORS[self.turn]);
            println!("{step} {turn} ({life}) {call:?} {fault:?}");
        }
        let extent = match fault {
            Fault::None => return run(&mut self.disk, &mut self.choices, Extent::Whole),
            Fault::AnswerLost | Fault::KilledAfter | Fault::PowerLossAfter => Some(Extent::Whole),
            Fault::Part | Fault::KilledWithin | Fault::PowerLossWithin => Some(Extent::Part),
            Fault::Refused | Fault::Killed | Fault::PowerLoss => None,
            Fault::Later => {
                let due = self.steps + self.choices.of(&[5, 20, 100, 500]);
                if let Some((inode, name, expected)) = late {
                    self.late.push(Late {
                        due,
                        life,
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
            let _ = run(&mut self.disk, &mut self.choices, extent);
        }
        match fault {
            Fault::Killed | Fault::KilledWithin | Fault::KilledAfter => self.end_life(life),
            Fault::PowerLoss | Fault::PowerLossWithin | Fault::PowerLossAfter => self.lose_power(),
            _ => {}
        }
        Err(failed())
    }

    /// Checks the world after a step, if it has changed.
    fn check(&mut self) {
        let now = (self.disk.seen, self.disk.kept + self.truth.changes);
        if self.over || self.checked == now {
            return;
        }
        let has_seen = self.checked.0 != now.0;
        let has_kept = self.checked.1 != now.1;
        self.checked = now;
        if let Err(what) = self.truth.check(&self.disk, has_seen, has_kept) {
            self.fail(what);
        }
    }
}
