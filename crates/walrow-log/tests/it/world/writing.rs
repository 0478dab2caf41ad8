//! An actor that writes the stream of a server, with loads beside it.

use super::actors::{Actor, Attempt, Code as _, Stop};
use super::coverage::{ASKED, Asked, Doing};
use super::loading::Loading;
use super::marks::{Mark, marks};
use super::store::Process;
use super::truth::Truth;
use crate::log::loads::{catalog, tables};
use crate::log::sent_again;
use std::sync::Arc;
use walrow_log::{Error, Load, Writer, WriterOptions};
use walrow_stream::Assembler;
use walrow_wire::{Lsn, Timestamp};

/// One writer, from its start to its end.
#[derive(Debug)]
pub(super) struct Session<'a> {
    pub(super) actor: &'a Actor,
    pub(super) process: Process,
    pub(super) writer: Writer,
    pub(super) assembler: Assembler,
    /// The end of the bytes that were appended.
    pub(super) mark: Mark,
    pub(super) load: Option<Loading>,
    /// A load that was given up.
    pub(super) old: Option<Load>,
    /// The greatest position that the writer has received from the server.
    pub(super) reached: Lsn,
    /// The position at the start.
    pub(super) opened: Lsn,
    pub(super) is_broken: bool,
    /// Whether the last call failed, but the writer is not broken.
    is_refused: bool,
}

impl Actor {
    /// Writes everything that the server has. The second writer gives up after some attempts.
    pub(crate) fn write(&self, is_first: bool) -> Attempt<()> {
        let mut attempts = if is_first { 400 } else { self.next(24) };
        while attempts > 0 && !self.is_over() {
            attempts -= 1;
            let process = self.process();
            match self.write_once(&process) {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Again) => {}
                Err(Stop::Fault(what)) if process.has_ended() && !what.contains("replaced:") => {}
                Err(fault) => return Err(fault),
            }
            // What a dead writer leaves is there until the next one starts.
            match self.next(3) {
                1 => self.pause(),
                _ if is_first => self.wait(),
                _ => self.rest(),
            }
        }
        Ok(())
    }

    /// Returns whether everything is written.
    fn write_once(&self, process: &Process) -> Attempt<bool> {
        let day = &self.day;
        let mut options = WriterOptions::default();
        (options.segment_bytes, options.level) = (day.segment_bytes, day.level);
        options.syncs = day.syncs;
        options.source.slot = Some("mine".to_owned());
        let life = process.life();
        self.truth(|it| it.opening.insert(life));
        let writer = Writer::open(Arc::new(process.clone()), options);
        self.truth(|it| it.opening.remove(&life));
        let mut writer = self.take(process, writer)?;
        if process.has_ended() {
            return Err(Stop::Again);
        }
        let position = writer.position();
        if writer.lacks_first_load() {
            self.truth(Truth::begin_again);
        }
        let opened = self.truth(|it| {
            let goes_on = it.open_at(position)?;
            if goes_on {
                it.writers.insert(process.life());
                // Loads of dead writers are complete, or gone.
                it.loads.iter_mut().for_each(|it| it.by = None);
            }
            Ok(goes_on)
        });
        if !opened.or_else(|what: String| self.fault(what))? {
            return Err(Stop::Again);
        }
        let resumed = writer.resume(Assembler::default());
        if resumed.is_err() {
            self.truth(|it| it.writers.remove(&life));
        }
        let assembler = self.take(process, resumed)?;
        let mut session = Session {
            actor: self,
            process: process.clone(),
            writer,
            assembler,
            mark: Mark::default(),
            load: None,
            old: None,
            reached: Lsn::INVALID,
            opened: position,
            is_broken: false,
            is_refused: false,
        };
        let done = session.run();
        session.ask(Asked::Drop);
        drop(session);
        self.truth(|it| {
            it.writers.remove(&life);
        });
        done
    }
}

impl Session<'_> {
    pub(super) fn doing(&self) -> Doing {
        if self.is_broken {
            return Doing::Broken;
        }
        match &self.load {
            Some(load) if load.is_behind => return Doing::Behind,
            Some(load)
                if self.reached >= load.load.point()
                    || self.mark.is_inside && self.mark.end >= load.inside =>
            {
                return Doing::Crossing;
            }
            Some(_) => return Doing::Before,
            None => {}
        }
        if self.writer.lacks_first_load() {
            Doing::Planned
        } else if self.mark.is_inside {
            Doing::Inside
        } else if self.is_empty() {
            Doing::Empty
        } else {
            Doing::Between
        }
    }

    fn is_empty(&self) -> bool {
        self.load.is_none() && self.is_new()
    }

    /// Whether the log has taken nothing from the server.
    fn is_new(&self) -> bool {
        self.mark.bytes == 0 && !self.reached.is_valid() && !self.opened.is_valid()
    }

    /// Changes the truth, if the process still matters.
    pub(super) fn note<T>(&self, run: impl FnOnce(&mut Truth) -> T) -> Attempt<T> {
        if self.process.has_ended() {
            return Err(Stop::Again);
        }
        Ok(self.actor.truth(run))
    }

    /// How many calls to make at once in a stage that is short.
    fn some(&self, usual: usize) -> usize {
        let count = if self.actor.day.lingers {
            4 * usual
        } else {
            usual
        };
        self.actor.next(count)
    }

    pub(super) fn ask(&self, asked: Asked) {
        let doing = self.doing();
        self.actor.world.aside(|it| {
            it.coverage.ask(asked, doing);
            if it.prints {
                println!("    {asked:?} {doing:?} after {:?}", self.mark);
            }
        });
    }

    /// Makes a call, and perhaps again after a failure.
    pub(super) fn call<T>(
        &mut self,
        asked: Asked,
        mut call: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Attempt<T> {
        self.ask(asked);
        let passes = self.doing() == Doing::Crossing
            && matches!(asked, Asked::Append | Asked::Sync | Asked::Publish);
        let mut result = call(self);
        while let Err(error) = &result {
            let ends = ["not_synced", "replaced", "published"];
            self.is_broken |= ends.iter().any(|code| error.code_is(code));
            let is_store = error.code_is("store");
            if self.is_broken || !is_store || self.process.has_ended() || self.actor.next(2) == 0 {
                break;
            }
            self.ask(asked);
            result = call(self);
        }
        if self.is_broken && !self.process.has_ended() {
            self.use_broken()?;
        }
        let is_store = |error: &Error| error.code_is("store");
        self.is_refused = !self.is_broken && result.as_ref().is_err_and(is_store);
        if let Some(load) = &mut self.load {
            load.is_behind |= passes && result.is_ok();
        }
        self.actor.take(&self.process, result)
    }

    /// After a failed sync, no call makes bytes durable: each call must return an error.
    fn use_broken(&mut self) -> Attempt<()> {
        for _ in 0..self.some(12) {
            let of_load = [Asked::EndLoad, Asked::GiveUpLoad];
            let asked = if self.actor.next(3) == 2 {
                self.actor.of(&of_load)
            } else {
                self.actor.of(&ASKED)
            };
            let load = self.load.as_ref().map(|it| &it.load).or(self.old.as_ref());
            let (writer, assembler) = (&mut self.writer, &mut self.assembler);
            let called = match (asked, load) {
                (Asked::Append, _) => writer.append(assembler, &mut &[][..]),
                (Asked::Sync, _) => writer.sync(assembler).map(drop),
                (Asked::Fill, _) => writer.fill(),
                (Asked::Publish, _) => writer.publish(assembler).map(drop),
                (Asked::Advance, _) => writer.advance(Lsn(u64::MAX / 8)),
                (Asked::SetTimeline, _) => writer.set_timeline(9, None),
                (Asked::PlanFirstLoad, _) => writer.plan_first_load(),
                (Asked::BeginLoad, _) => {
                    let begun = writer.begin_load(Lsn(u64::MAX / 8), Timestamp(7), tables());
                    begun.map(drop)
                }
                (Asked::EndLoad, Some(load)) => writer.end_load(load).map(drop),
                (Asked::GiveUpLoad, Some(load)) => writer.give_up_load(load, assembler),
                (Asked::EndLoad | Asked::GiveUpLoad, None) | (Asked::Drop, _) => continue,
            };
            self.ask(asked);
            if self.process.has_ended() {
                break;
            }
            match called {
                Err(error) if error.code_is("broken") => {}
                result => {
                    return self.actor.fault(format!("broken: {asked:?}: {result:?}"));
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Attempt<()> {
        let actor = self.actor;
        let found = || {
            let number = actor.number;
            actor
                .world
                .aside(|it| (it.found_here[number], it.found_named[number]))
        };
        let before = found();
        let position = self.call(Asked::Sync, |it| it.writer.sync(&mut it.assembler))?;
        // Somebody may come after the last look of the call.
        if !self.process.is_here() && found().0 == before.0 {
            return actor.fault("replaced: a sync of a log that is not at its path succeeds");
        }
        let life = self.process.life();
        if actor.truth(|it| it.outdated.contains(&life)) {
            if found().1 > before.1 {
                return Err(Stop::Again);
            }
            // Without a journal, all of it is published.
            if actor.day.syncs {
                return actor.fault("removed: a sync without its journal succeeds");
            }
        }
        position.map_or(Ok(()), |it| self.confirm(it.lsn()))
    }

    /// Takes note of a durable position.
    fn confirm(&self, position: Lsn) -> Attempt<()> {
        let life = self.process.life();
        let (opened, sends) = (self.opened, self.actor.next(2) == 0);
        let confirmed = self.note(|it| {
            it.confirm(life, position)?;
            if position > opened && sends {
                it.flush(position);
            }
            Ok(())
        })?;
        confirmed.or_else(|what: String| self.actor.fault(what))
    }

    fn run(&mut self) -> Attempt<bool> {
        let actor = self.actor;
        if actor.next(4) == 1 {
            let extended = self.writer.extend_catalog(&catalog());
            actor.take(&self.process, extended)?;
        }
        if !self.use_empty()? {
            return Ok(false);
        }
        if self.load.is_none() && actor.next(4) != 3 {
            // The position of a keepalive before the first transaction.
            self.advance(Lsn(4))?;
            self.sync()?;
        }
        let flushed = actor.truth(|it| it.flushed);
        let stream = sent_again(&actor.day.stream, flushed);
        let marks = marks(&stream);
        while self.mark.bytes < stream.len() {
            let size = actor.of(&[700, 300, 100, 30, 7]);
            let end = (self.mark.bytes + size).min(stream.len());
            let mut rest = &stream[self.mark.bytes..end];
            self.call(Asked::Append, |it| {
                it.writer.append(&mut it.assembler, &mut rest)
            })?;
            let whole = marks.partition_point(|it| it.bytes <= end);
            let last = whole
                .checked_sub(1)
                .map_or_else(Mark::default, |it| marks[it]);
            self.mark = Mark { bytes: end, ..last };
            self.reached = self.reached.max(last.end);
            let is_full = self.writer.is_full();
            if self.actor.take(&self.process, is_full)? {
                self.publish()?;
            }
            let is_between = last.bytes == end;
            let is_short = self.load.is_some() && self.doing() == Doing::Crossing;
            let count = if is_short {
                self.some(4)
            } else {
                actor.next(4)
            };
            for _ in 0..count {
                if !self.something(is_between, &marks)? {
                    return Ok(false);
                }
            }
        }
        self.advance(Lsn(self.mark.end.0 + 0x1000))?;
        for _ in 0..actor.next(4) {
            self.something(true, &marks)?;
        }
        self.sync()?;
        if let Some(mut load) = self.load.take() {
            self.fill(&mut load, 3)?;
            self.load = Some(load);
            self.end_load()?;
        }
        if self.load.is_some() {
            return self.actor.fault("the load has no place".to_owned());
        }
        self.sync()?;
        self.publish()?;
        Ok(true)
    }

    /// Makes calls while the log is empty, and before its first load has begun. Returns false to
    /// open the log again.
    fn use_empty(&mut self) -> Attempt<bool> {
        let plans = self.actor.day.has_first_load;
        if self.is_empty() {
            for _ in 0..self.some(4) {
                let is_first = self.load.is_some() && self.writer.lacks_first_load();
                if self.is_new() && !is_first && !self.something(true, &[])? {
                    return Ok(false);
                }
            }
            if plans && self.is_empty() && !self.writer.lacks_first_load() {
                self.plan_first_load()?;
            }
        }
        if self.writer.lacks_first_load() && self.load.is_none() {
            for _ in 0..self.some(3) {
                if self.load.is_none() && !self.something(true, &[])? {
                    return Ok(false);
                }
            }
            if self.load.is_none() {
                self.begin_load(Lsn(8))?;
            }
            // Small tables are loaded before the first change comes.
            if self.actor.next(4) == 1 {
                self.end_load()?;
                return Ok(self.actor.next(2) == 0);
            }
        }
        Ok(true)
    }

    fn plan_first_load(&mut self) -> Attempt<()> {
        self.call(Asked::PlanFirstLoad, |it| it.writer.plan_first_load())?;
        self.note(Truth::begin_again)
    }

    /// Checks that a call was refused.
    pub(super) fn refused<T>(&self, asked: Asked, result: Result<T, Error>) -> Attempt<()> {
        match result {
            Err(error) if error.code_is("load") => Ok(()),
            Ok(_) if self.process.has_ended() => Err(Stop::Again),
            Ok(_) => self.actor.fault(format!("refusal: {asked:?} is taken")),
            Err(error) => self.actor.take(&self.process, Err(error)),
        }
    }

    /// Makes a call that may come at any time. Returns false to open the log again.
    fn something(&mut self, is_between: bool, marks: &[Mark]) -> Attempt<bool> {
        let actor = self.actor;
        let is_planned = self.doing() == Doing::Planned;
        let mut favourite = actor.day.favourite.filter(|_| actor.next(2) == 1);
        // At last, the writer has to come to the end.
        favourite = favourite.filter(|it| *it != Asked::Drop || !actor.is_calm());
        if self.is_new() && (self.load.is_some() || self.old.is_some()) && actor.next(2) == 1 {
            favourite = Some(actor.of(&[Asked::GiveUpLoad, Asked::EndLoad]));
        }
        let asked = match actor.next(24) {
            _ if favourite.is_some() => favourite.unwrap(),
            0..=2 => Asked::Sync,
            3 => Asked::Fill,
            4 => Asked::Publish,
            5 => Asked::Advance,
            6 => Asked::SetTimeline,
            7..=10 => Asked::BeginLoad,
            11 | 12 => {
                self.fill_load()?;
                return Ok(true);
            }
            13 | 14 => Asked::EndLoad,
            15 => Asked::GiveUpLoad,
            16 if actor.next(4) == 1 => Asked::Drop,
            17 => Asked::PlanFirstLoad,
            18 => Asked::Append,
            _ => return Ok(true),
        };
        match asked {
            Asked::Sync => self.sync()?,
            Asked::Fill => self.call(Asked::Fill, |it| it.writer.fill())?,
            Asked::Publish => self.publish()?,
            Asked::Append if is_planned => {
                self.ask(asked);
                let appended = self.writer.append(&mut self.assembler, &mut &[][..]);
                self.refused(asked, appended)?;
            }
            Asked::Append => self.call(Asked::Append, |it| {
                it.writer.append(&mut it.assembler, &mut &[][..])
            })?,
            Asked::Advance if is_planned => {
                self.ask(asked);
                let advanced = self.writer.advance(Lsn(4));
                self.refused(asked, advanced)?;
            }
            // Inside a transaction, the position says nothing.
            Asked::Advance if self.mark.is_inside => {
                self.call(Asked::Advance, |it| {
                    it.writer.advance(Lsn(it.mark.end.0 + 2))
                })?;
            }
            Asked::Advance if is_between => self.advance(Lsn(self.mark.end.0 + 2))?,
            Asked::SetTimeline => {
                let timeline = u32::try_from(actor.next(3) + 1).unwrap();
                self.call(Asked::SetTimeline, |it| {
                    it.writer.set_timeline(timeline, None)
                })?;
            }
            Asked::BeginLoad => self.begin_some_load(is_between, marks)?,
            Asked::EndLoad if self.load.is_some() && actor.next(4) != 3 => self.end_load()?,
            Asked::GiveUpLoad if self.load.is_some() && actor.next(4) != 3 => {
                self.give_up_load()?;
            }
            // A load that was given up has no place.
            Asked::EndLoad => {
                if let Some(old) = &self.old {
                    self.ask(asked);
                    let ended = self.writer.end_load(old);
                    self.refused(asked, ended)?;
                }
            }
            Asked::GiveUpLoad => {
                if let Some(old) = &self.old {
                    self.ask(asked);
                    let given_up = self.writer.give_up_load(old, &mut self.assembler);
                    self.refused(asked, given_up)?;
                }
            }
            Asked::Drop => return Ok(false),
            Asked::PlanFirstLoad if self.is_empty() || is_planned => self.plan_first_load()?,
            Asked::PlanFirstLoad if self.writer.position().is_valid() || self.load.is_some() => {
                self.ask(asked);
                let planned = self.writer.plan_first_load();
                self.refused(asked, planned)?;
            }
            Asked::Advance | Asked::PlanFirstLoad => {}
        }
        Ok(true)
    }

    fn advance(&mut self, lsn: Lsn) -> Attempt<()> {
        self.call(Asked::Advance, |it| it.writer.advance(lsn))?;
        self.reached = self.reached.max(lsn);
        Ok(())
    }

    fn publish(&mut self) -> Attempt<()> {
        let published = self.call(Asked::Publish, |it| it.writer.publish(&mut it.assembler));
        // A receiver continues with the stream, and publishes later.
        if self.is_refused && !self.process.has_ended() && self.actor.next(2) == 1 {
            return Ok(());
        }
        published.map(drop)
    }
}
