//! One actor runs at a time. Each call of the store hands the turn to the actor that the next
//! number names, and may fail in a way that the next numbers name.

use super::choices::Choices;
use super::coverage::{CHANGES, Call, Fault, weighted_failures};
use super::disk::{Disk, Inode, Life};
use super::machine::{Extent, Hold, Inner, Place};
use super::truth::Truth;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use walrow_log::Tag;

/// A disk, the processes that use it, and the truth.
#[derive(Clone, Debug)]
pub(crate) struct World(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    inner: Mutex<Inner>,
    wake: Vec<Condvar>,
}

/// The place of a process that began when there was no directory at the path.
pub(crate) const NOWHERE: Place = usize::MAX;

/// The caller: an actor, its process, and the directory that the process has opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Who {
    pub(crate) actor: usize,
    pub(crate) life: Life,
    pub(crate) place: Place,
}

fn ended() -> io::Error {
    io::Error::other("the process has ended")
}

impl World {
    /// A world with the actors that run. They wait for `begin`.
    pub(crate) fn new(mut choices: Choices, running: Vec<bool>, mut truth: Truth) -> Self {
        let failures = weighted_failures();
        let focus = choices.next(2 * failures.len()).checked_sub(failures.len());
        let focus = focus.map(|it| (failures[it].0, failures[it].1, choices.of(&[3, 8])));
        truth.has_late |= focus.is_some_and(|it| it.1 == Fault::Later);
        let faults = if focus.is_some() {
            choices.of(&[10, 30, 60])
        } else {
            choices.of(&[0, 1, 2, 4, 10, 30])
        };
        let rate = choices.of(&[240, 80, 30, 12]);
        let actors = running.len();
        let all: Vec<_> = (0..actors).filter(|it| running[*it]).collect();
        let mut holds = Vec::new();
        for _ in 0..choices.of(&[0, 1, 2, 4]) {
            let (actor, call) = (choices.of(&all), choices.of(&CHANGES));
            holds.push(Hold { actor, call });
        }
        let mut inner = Inner::of(Disk::default(), choices, truth, running);
        (inner.faults, inner.rate, inner.focus, inner.holds) = (faults, rate, focus, holds);
        inner.turns = inner.choices.of(&[3, 3, 10, 30]);
        Self::with(inner, actors)
    }

    /// A disk that one process uses, and that does not fail.
    pub(crate) fn alone(disk: Disk) -> Self {
        let choices = Choices::of_list(&[]);
        Self::with(Inner::of(disk, choices, Truth::default(), Vec::new()), 0)
    }

    fn with(inner: Inner, actors: usize) -> Self {
        Self(Arc::new(Shared {
            inner: Mutex::new(inner),
            wake: (0..actors).map(|_| Condvar::new()).collect(),
        }))
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

    /// Gives the turn to another actor, and waits for the next turn.
    fn give<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner>,
        next: usize,
        actor: usize,
    ) -> MutexGuard<'a, Inner> {
        inner.turn = next;
        drop(inner);
        self.0.wake[next].notify_one();
        self.wait(self.lock(), actor)
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
        let next = inner.other(actor).or_else(|| {
            inner.held.fill(None);
            inner.other(actor)
        });
        if let Some(next) = next {
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
                drop(self.give(inner, next, actor));
                return;
            }
        }
        drop(inner);
    }

    /// A call of the store.
    pub(crate) fn operate<T>(
        &self,
        who: Option<Who>,
        call: Call,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        self.operate_late(who, call, None, run)
    }

    /// As `operate`, for a call that gives a name. The name may come later.
    pub(crate) fn operate_late<T>(
        &self,
        who: Option<Who>,
        call: Call,
        late: Option<(Inode, &str, Option<&Tag>)>,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        let Some(Who { actor, life, place }) = who else {
            return self.operate_alone(call, run);
        };
        let mut inner = self.lock();
        if inner.has_ended(life) {
            return Err(ended());
        }
        if let Some(next) = inner.next(actor, call) {
            inner = self.give(inner, next, actor);
            if inner.has_ended(life) {
                return Err(ended());
            }
            inner.resume(actor);
        }
        inner.count_step();
        if place == NOWHERE {
            return Err(io::ErrorKind::NotFound.into());
        }
        inner.make_late(false);
        let result = inner.call((life, place), call, late, run);
        inner.coverage.step(actor);
        inner.check();
        if inner.over {
            self.wake_all();
        }
        result
    }

    /// A call of the only process on a disk.
    fn operate_alone<T>(
        &self,
        call: Call,
        run: impl FnOnce(&mut Disk, &mut Choices, Extent) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut inner = self.lock();
        if let Some(hook) = inner.script.begin() {
            drop(inner);
            hook();
            inner = self.lock();
        }
        let Inner {
            places,
            choices,
            script,
            ..
        } = &mut *inner;
        let disk = &mut places[0];
        let Some(failure) = script.failure() else {
            return run(disk, choices, Extent::Whole);
        };
        if matches!(call, Call::Append | Call::Sync) {
            let _ = run(disk, choices, Extent::First(script.stays));
        }
        Err(failure)
    }

    /// Uses the world without a step.
    pub(crate) fn aside<T>(&self, run: impl FnOnce(&mut Inner) -> T) -> T {
        run(&mut self.lock())
    }
}
