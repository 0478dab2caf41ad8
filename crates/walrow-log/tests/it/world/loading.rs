//! The loads of a writer.

use super::actors::{Attempt, Code as _};
use super::coverage::{Asked, Doing};
use super::marks::Mark;
use super::truth::LoadTruth;
use super::writing::Session;
use crate::log::loads::{rows, tables};
use walrow_log::Load;
use walrow_wire::{Lsn, Timestamp};

/// A load that runs.
#[derive(Debug)]
pub(super) struct Loading {
    pub(super) load: Load,
    rows: usize,
    pub(super) is_behind: bool,
    /// The end of the transaction that was current when the load began.
    pub(super) inside: Lsn,
}

impl Session<'_> {
    /// Begins a load. A second load beside it is refused.
    pub(super) fn begin_some_load(&mut self, is_between: bool, marks: &[Mark]) -> Attempt<()> {
        // The load's point is after a keepalive, and before the next message.
        let mut point = Lsn(self.mark.end.0 + 6);
        let mut inside = Lsn::INVALID;
        if self.load.is_some() {
            self.ask(Asked::BeginLoad);
            let begun = self.writer.begin_load(point, Timestamp(7), tables());
            return self.refused(Asked::BeginLoad, begun);
        }
        if self.mark.is_inside {
            // The current transaction was committed before the snapshot.
            let later = marks.iter().find(|it| it.end > self.mark.end);
            let Some(later) = later else {
                return Ok(());
            };
            (inside, point) = (later.end, Lsn(later.end.0 + 6));
        } else if !is_between {
            return Ok(());
        }
        if self.doing() == Doing::Planned {
            point = Lsn(8);
        }
        self.begin_load(point)?;
        if let Some(load) = &mut self.load {
            load.inside = inside;
        }
        Ok(())
    }

    pub(super) fn fill_load(&mut self) -> Attempt<()> {
        let Some(mut load) = self.load.take() else {
            return Ok(());
        };
        let filled = self.fill(&mut load, self.actor.next(4));
        self.load = Some(load);
        filled
    }

    pub(super) fn begin_load(&mut self, point: Lsn) -> Attempt<()> {
        self.ask(Asked::BeginLoad);
        let begun = self.writer.begin_load(point, Timestamp(7), tables());
        let load = match begun {
            // A load ends there already.
            Err(error) if error.code_is("load") => return Ok(()),
            begun => self.actor.take(&self.process, begun)?,
        };
        let life = self.process.life();
        self.note(|it| {
            it.loads.retain(|it| it.point != point);
            it.loads.push(LoadTruth {
                point,
                rows: 0,
                is_ended: false,
                by: Some(life),
            });
        })?;
        self.load = Some(Loading {
            load,
            rows: 0,
            is_behind: self.writer.lacks_first_load(),
            inside: Lsn::INVALID,
        });
        Ok(())
    }

    /// Appends rows to the load.
    pub(super) fn fill(&self, load: &mut Loading, count: usize) -> Attempt<()> {
        let Some(mut copy) = load.load.copy(0, false) else {
            return self.actor.fault("no table".to_owned());
        };
        let more = load.rows..load.rows + count;
        let appended = load.load.append(&mut copy, rows(more.clone()).as_bytes());
        self.actor.take(&self.process, appended)?;
        load.rows = more.end;
        let (point, rows) = (load.load.point(), load.rows);
        self.note(|it| {
            let known = it.loads.iter_mut().find(|it| it.point == point);
            if let Some(known) = known {
                known.rows = rows;
            }
        })
    }

    pub(super) fn end_load(&mut self) -> Attempt<()> {
        self.ask(Asked::EndLoad);
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        let (point, life) = (load.load.point(), self.process.life());
        // All parts of the load are there before the call returns.
        let by = self.note(|it| {
            let known = it.loads.iter_mut().find(|it| it.point == point);
            known.and_then(|it| it.by.take())
        })?;
        let ended = self.writer.end_load(&load.load);
        let ended = self.actor.take(&self.process, ended);
        let is_ended = matches!(ended, Ok(true)) && !self.process.has_ended();
        self.note(|it| {
            if let Some(known) = it.loads.iter_mut().find(|it| it.point == point) {
                known.is_ended |= is_ended;
                if matches!(ended, Ok(false)) {
                    known.by = by.filter(|it| *it == life);
                }
            }
            if is_ended {
                it.lacks_first_load = false;
            }
        })?;
        if !ended? {
            self.load = Some(load);
        }
        Ok(())
    }

    pub(super) fn give_up_load(&mut self) -> Attempt<()> {
        self.ask(Asked::GiveUpLoad);
        let Some(load) = self.load.take() else {
            return Ok(());
        };
        if self.writer.lacks_first_load() {
            let given_up = self.writer.give_up_load(&load.load, &mut self.assembler);
            self.load = Some(load);
            return self.refused(Asked::GiveUpLoad, given_up);
        }
        let point = load.load.point();
        self.note(|it| {
            let known = it.loads.iter_mut().filter(|it| it.point == point);
            known.for_each(|it| it.by = None);
        })?;
        let given_up = self.writer.give_up_load(&load.load, &mut self.assembler);
        self.old = Some(load.load);
        self.actor.take(&self.process, given_up)
    }
}
