//! An actor that writes the stream of a server, with loads beside it.

use super::actors::{Actor, Attempt, Code as _, Stop};
use super::coverage::{Asked, Doing};
use super::store::Process;
use super::truth::LoadTruth;
use crate::log::loads::{rows, tables};
use crate::log::sent_again;
use std::sync::Arc;
use walrow_log::{Error, Load, Writer, WriterOptions};
use walrow_stream::Assembler;
use walrow_wire::{Frame, Kind, Lsn, Message, Peek, Timestamp};

/// The state of the stream after some bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Mark {
    bytes: usize,
    end: Lsn,
    is_inside: bool,
}

/// The end of each frame, with the greatest end LSN of a transaction or message up to it.
fn marks(stream: &[u8]) -> Vec<Mark> {
    let (mut marks, mut mark, mut is_streamed) = (Vec::new(), Mark::default(), false);
    let mut rest = stream;
    while let Ok(Some(size)) = Frame::size(rest) {
        let (frame, more) = rest.split_at(size);
        rest = more;
        mark.bytes += size;
        if let Some(peek) = Peek::new(frame) {
            match peek.kind() {
                Kind::StreamStart => is_streamed = true,
                Kind::StreamStop => is_streamed = false,
                Kind::Begin | Kind::BeginPrepare => mark.is_inside = true,
                _ => {}
            }
            let end = match peek.message(is_streamed) {
                Ok(Message::Commit(it)) => it.end_lsn,
                Ok(Message::StreamCommit(it)) => it.end_lsn,
                Ok(Message::Prepare(it)) => it.end_lsn,
                Ok(Message::StreamPrepare(it)) => it.end_lsn,
                Ok(Message::CommitPrepared(it)) => it.end_lsn,
                Ok(Message::RollbackPrepared(it)) => it.rollback_end_lsn,
                Ok(Message::Message(it)) if !it.transactional => it.lsn,
                _ => Lsn::INVALID,
            };
            if matches!(peek.kind(), Kind::Commit | Kind::Prepare) {
                mark.is_inside = false;
            }
            mark.end = mark.end.max(end);
        }
        marks.push(mark);
    }
    marks
}

/// A load that runs.
#[derive(Debug)]
struct Loading {
    load: Load,
    rows: usize,
    is_behind: bool,
}

/// One writer, from its start to its end.
#[derive(Debug)]
struct Session<'a> {
    actor: &'a Actor,
    process: Process,
    writer: Writer,
    assembler: Assembler,
    /// The end of the bytes that were appended.
    mark: Mark,
    load: Option<Loading>,
    /// A load that was given up.
    old: Option<Load>,
    /// The greatest position that the writer has received from the server.
    reached: Lsn,
    /// The position at the start.
    opened: Lsn,
    is_broken: bool,
}

impl Actor {
    /// Writes everything that the server has. The second writer gives up after some attempts.
    pub(crate) fn write(&self, is_first: bool) -> Attempt<()> {
        let mut attempts = if is_first { 400 } else { self.next(12) };
        while attempts > 0 && !self.is_over() {
            attempts -= 1;
            let process = self.process();
            match self.write_once(&process) {
                Ok(true) => return Ok(()),
                Ok(false) | Err(Stop::Again) => {}
                Err(Stop::Fault(_)) if process.has_ended() => {}
                Err(fault) => return Err(fault),
            }
            self.wait();
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
        let writer = Writer::open(Arc::new(process.clone()), options);
        let mut writer = self.take(process, writer)?;
        if process.has_ended() {
            return Err(Stop::Again);
        }
        let position = writer.position();
        if writer.lacks_first_load() {
            self.truth(super::truth::Truth::begin_again);
        }
        let confirmed = self.truth(|it| {
            it.writers.insert(process.life());
            // Loads of dead writers are complete, or gone.
            it.loads.iter_mut().for_each(|it| it.by = None);
            it.confirmed
        });
        if position < confirmed {
            return self.fault(format!(
                "opened at {position}, and {confirmed} was confirmed"
            ));
        }
        let resumed = writer.resume(Assembler::default());
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
        };
        let done = session.run();
        session.ask(Asked::Drop);
        let life = process.life();
        drop(session);
        self.truth(|it| it.writers.remove(&life));
        done
    }
}

impl Session<'_> {
    fn doing(&self) -> Doing {
        if self.is_broken {
            return Doing::Broken;
        }
        match &self.load {
            Some(load) if load.is_behind => return Doing::Behind,
            Some(load) if self.reached >= load.load.point() || self.mark.is_inside => {
                return Doing::Crossing;
            }
            Some(_) => return Doing::Before,
            None => {}
        }
        if self.writer.lacks_first_load() {
            Doing::Planned
        } else if self.mark.is_inside {
            Doing::Inside
        } else if self.mark.bytes == 0 && !self.writer.position().is_valid() {
            Doing::Empty
        } else {
            Doing::Between
        }
    }

    fn ask(&self, asked: Asked) {
        let doing = self.doing();
        self.actor.world.aside(|it| {
            it.coverage.ask(asked, doing);
            if it.prints {
                println!("    {asked:?} {doing:?} after {:?}", self.mark);
            }
        });
    }

    /// Makes a call, and perhaps again after a failure.
    fn call<T>(
        &mut self,
        asked: Asked,
        mut call: impl FnMut(&mut Self) -> Result<T, Error>,
    ) -> Attempt<T> {
        self.ask(asked);
        let passes = self.doing() == Doing::Crossing
            && matches!(asked, Asked::Append | Asked::Sync | Asked::Publish);
        let mut result = call(self);
        while let Err(error) = &result {
            self.is_broken |= error.code_is("not_synced");
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
        if let Some(load) = &mut self.load {
            load.is_behind |= passes && result.is_ok();
        }
        self.actor.take(&self.process, result)
    }

    /// After a failed sync, no call makes bytes durable: each call must return an error.
    fn use_broken(&mut self) -> Attempt<()> {
        for _ in 0..self.actor.next(3) {
            let asked = self.actor.of(&[Asked::Sync, Asked::Publish, Asked::Append]);
            self.ask(asked);
            let called = match asked {
                Asked::Sync => self.writer.sync(&mut self.assembler).map(drop),
                Asked::Publish => self.writer.publish(&mut self.assembler).map(drop),
                _ => self.writer.append(&mut self.assembler, &mut &[][..]),
            };
            if self.process.has_ended() {
                break;
            }
            let is_said = |error: &Error| ["not_synced", "broken"].contains(&error.kind.code());
            match called {
                Err(error) if is_said(&error) => {}
                result => {
                    return self.actor.fault(format!("broken: {asked:?}: {result:?}"));
                }
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Attempt<()> {
        let position = self.call(Asked::Sync, |it| it.writer.sync(&mut it.assembler))?;
        position.map_or(Ok(()), |it| self.confirm(it.lsn()))
    }

    /// Takes note of a durable position.
    fn confirm(&self, position: Lsn) -> Attempt<()> {
        let life = self.process.life();
        if self.process.has_ended() {
            return Err(Stop::Again);
        }
        let (opened, sends) = (self.opened, self.actor.next(2) == 0);
        let confirmed = self.actor.truth(|it| {
            it.confirm(life, position)?;
            if position > opened && sends {
                it.flushed = it.flushed.max(position);
            }
            Ok(())
        });
        confirmed.or_else(|what: String| self.actor.fault(what))
    }

    fn run(&mut self) -> Attempt<bool> {
        let actor = self.actor;
        if actor.day.has_first_load {
            if !self.writer.position().is_valid() && !self.writer.lacks_first_load() {
                self.call(Asked::PlanFirstLoad, |it| it.writer.plan_first_load())?;
                actor.truth(super::truth::Truth::begin_again);
                self.use_planned()?;
            }
            if self.writer.lacks_first_load() {
                self.begin_load(Lsn(8))?;
            }
        }
        if self.load.is_none() {
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
            for _ in 0..actor.next(4) {
                if !self.something(is_between)? {
                    return Ok(false);
                }
            }
        }
        self.advance(Lsn(self.mark.end.0 + 0x1000))?;
        for _ in 0..actor.next(4) {
            self.something(true)?;
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

    /// Makes calls before the first load has begun. The log cannot take data yet.
    fn use_planned(&mut self) -> Attempt<()> {
        for _ in 0..self.actor.next(3) {
            match self.actor.next(5) {
                0 => {
                    self.call(Asked::Sync, |it| it.writer.sync(&mut it.assembler))?;
                }
                1 => self.publish()?,
                2 => self.call(Asked::Fill, |it| it.writer.fill())?,
                3 => self.call(Asked::PlanFirstLoad, |it| it.writer.plan_first_load())?,
                _ => {
                    self.ask(Asked::Advance);
                    if self.writer.advance(Lsn(4)).is_ok() {
                        return self.actor.fault("not begun: Advance is taken".to_owned());
                    }
                }
            }
        }
        Ok(())
    }

    /// Checks that a call was refused.
    fn refused<T>(&self, asked: Asked, result: Result<T, Error>) -> Attempt<()> {
        match result {
            Err(error) if error.code_is("load") => Ok(()),
            Ok(_) => self.actor.fault(format!("refusal: {asked:?} is taken")),
            Err(error) => self.actor.take(&self.process, Err(error)),
        }
    }

    /// One of the calls that may come at any time. Returns false to open the log again.
    fn something(&mut self, is_between: bool) -> Attempt<bool> {
        let actor = self.actor;
        match actor.next(18) {
            0..=2 => self.sync()?,
            3 => self.call(Asked::Fill, |it| it.writer.fill())?,
            4 => self.publish()?,
            5 if is_between && !self.mark.is_inside => {
                self.advance(Lsn(self.mark.end.0 + 2))?;
            }
            6 => {
                self.ask(Asked::SetTimeline);
                let timeline = u32::try_from(actor.next(3) + 1).unwrap();
                let set = self.writer.set_timeline(timeline, None);
                self.actor.take(&self.process, set)?;
            }
            7 | 15..=17 if is_between && !self.mark.is_inside && self.load.is_none() => {
                // The load's point is after a keepalive, and before the next message.
                self.begin_load(Lsn(self.mark.end.0 + 6))?;
            }
            8 => {
                if let Some(mut load) = self.load.take() {
                    let filled = self.fill(&mut load, actor.next(4));
                    self.load = Some(load);
                    filled?;
                }
            }
            9 => self.end_load()?,
            10 => self.give_up_load()?,
            11 if actor.next(4) == 1 => return Ok(false),
            12 if self.writer.position().is_valid() => {
                self.ask(Asked::PlanFirstLoad);
                let planned = self.writer.plan_first_load();
                self.refused(Asked::PlanFirstLoad, planned)?;
            }
            13 if self.load.is_some() => {
                self.ask(Asked::BeginLoad);
                let point = Lsn(self.mark.end.0 + 6);
                let begun = self.writer.begin_load(point, Timestamp(7), tables());
                self.refused(Asked::BeginLoad, begun)?;
            }
            14 => {
                if let Some(old) = self.old.take() {
                    self.ask(Asked::EndLoad);
                    let ended = self.writer.end_load(&old);
                    if matches!(ended, Ok(true)) {
                        let what = "another load: one that was given up takes its place";
                        return self.actor.fault(what.to_owned());
                    }
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn advance(&mut self, lsn: Lsn) -> Attempt<()> {
        self.call(Asked::Advance, |it| it.writer.advance(lsn))?;
        self.reached = self.reached.max(lsn);
        Ok(())
    }

    fn publish(&mut self) -> Attempt<()> {
        self.call(Asked::Publish, |it| it.writer.publish(&mut it.assembler))?;
        Ok(())
    }

    fn begin_load(&mut self, point: Lsn) -> Attempt<()> {
        self.ask(Asked::BeginLoad);
        let begun = self.writer.begin_load(point, Timestamp(7), tables());
        let load = match begun {
            // A load ends there already.
            Err(error) if error.code_is("load") => return Ok(()),
            begun => self.actor.take(&self.process, begun)?,
        };
        let life = self.process.life();
        if self.process.has_ended() {
            return Err(Stop::Again);
        }
        self.actor.truth(|it| {
            it.loads.retain(|it| it.point != point);
            it.loads.push(LoadTruth {
                point,
                rows: 0,
                is_ended: false,
                by: Some(life),
            });
        });
        self.load = Some(Loading {
            load,
            rows: 0,
            is_behind: self.writer.lacks_first_load(),
        });
        Ok(())
    }

    /// Appends rows to the load.
    fn fill(&self, load: &mut Loading, count: usize) -> Attempt<()> {
        let Some(mut copy) = load.load.copy(0, false) else {
            return self.actor.fault("no table".to_owned());
        };
        let more = load.rows..load.rows + count;
        let appended = load.load.append(&mut copy, rows(more.clone()).as_bytes());
        self.actor.take(&self.process, appended)?;
        load.rows = more.end;
        let (point, rows) = (load.load.point(), load.rows);
        self.actor.truth(|it| {
            let known = it.loads.iter_mut().find(|it| it.point == point);
            if let Some(known) = known {
                known.rows = rows;
            }
        });
        Ok(())
    }

    fn end_load(&mut self) -> Attempt<()> {
        self.ask(Asked::EndLoad);
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        let (point, life) = (load.load.point(), self.process.life());
        // All parts of the load are there before the call returns.
        let by = self.actor.truth(|it| {
            let known = it.loads.iter_mut().find(|it| it.point == point);
            known.and_then(|it| it.by.take())
        });
        let ended = self.writer.end_load(&load.load);
        let ended = self.actor.take(&self.process, ended);
        let is_ended = matches!(ended, Ok(true)) && !self.process.has_ended();
        self.actor.truth(|it| {
            if let Some(known) = it.loads.iter_mut().find(|it| it.point == point) {
                known.is_ended |= is_ended;
                if matches!(ended, Ok(false)) {
                    known.by = by.filter(|it| *it == life);
                }
            }
            if is_ended {
                it.lacks_first_load = false;
            }
        });
        if !ended? {
            self.load = Some(load);
        }
        Ok(())
    }

    fn give_up_load(&mut self) -> Attempt<()> {
        self.ask(Asked::GiveUpLoad);
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        if self.writer.lacks_first_load() {
            self.load = Some(load);
            return Ok(());
        }
        let point = load.load.point();
        self.actor.truth(|it| {
            let known = it.loads.iter_mut().filter(|it| it.point == point);
            known.for_each(|it| it.by = None);
        });
        let given_up = self.writer.give_up_load(&load.load, &mut self.assembler);
        self.old = Some(load.load);
        self.actor.take(&self.process, given_up)
    }
}
