//! Tables whose rows several threads append, during a stretch of the input.

use super::{Tables, Taken};
use crate::batch::Batch;
use crate::error::{Error, ErrorKind};
use crate::table::{Ended, Refused};
use crate::threads::{Done, Fault, Job, Stretch, Wanted};
use std::collections::BTreeMap;
use walrow_stream::{Change, Unread};
use walrow_wire::{Lsn, UnreadRow};

impl Tables {
    /// Begins a stretch with this input. Until [`Tables::settle`], rows are only counted.
    pub(crate) fn begin_stretch(&mut self, input: &[u8], threads: usize) {
        self.stretch = Some(Box::new(Stretch::new(input, threads)));
    }

    /// Whether the stretch must end, as it holds enough.
    pub(crate) fn is_stretch_full(&self) -> bool {
        self.stretch.as_deref().is_none_or(Stretch::is_full)
    }

    /// Takes the jobs that no thread has got.
    pub(crate) fn take_jobs(&mut self) -> impl Iterator<Item = (usize, Job)> {
        self.stretch
            .iter_mut()
            .flat_map(|stretch| stretch.take_jobs())
    }

    /// Hands over all rows, at the end of the stretch.
    pub(crate) fn end_stretch(&mut self) {
        let Some(stretch) = &mut self.stretch else {
            return;
        };
        let versions = std::mem::take(&mut stretch.versions);
        for version in &versions {
            if let Some(table) = self.versions.table_mut(*version) {
                table.hand_over_rest(stretch);
            }
        }
        stretch.versions = versions;
    }

    /// Keeps a row for another thread.
    pub(super) fn keep(
        &mut self,
        change: &Change<'_, Unread<'_>>,
        row: &UnreadRow<'_>,
    ) -> Result<Taken, Refused> {
        let version = change.relation.version;
        if self.unrepresentable.is_none()
            && let (Some(stretch), Some(table)) =
                (&mut self.stretch, self.versions.table_mut(version))
            && table.is_ready()
            && (!row.has_old() || self.open.has_room(table.rows(), 2))
        {
            let kept = table.keep(stretch, &self.current, change, row);
            if kept.is_ok() && !table.is_at_mark() && !self.open.is_full(table.rows(), 0) {
                return Ok(Taken::Row);
            }
            return self.check(version, kept);
        }
        self.prepare(change)?;
        self.lay_out_for_stretch(version)?;
        let (Some(stretch), Some(table)) = (&mut self.stretch, self.versions.table_mut(version))
        else {
            return Ok(self.taken());
        };
        let kept = table.keep(stretch, &self.current, change, row);
        self.check(version, kept)
    }

    /// Keeps the row of a TRUNCATE for another thread.
    pub(super) fn keep_truncate(&mut self, version: u32, seq: u64) -> Result<(), Error> {
        self.lay_out_for_stretch(version)?;
        let (Some(stretch), Some(table)) = (&mut self.stretch, self.versions.table_mut(version))
        else {
            return Ok(());
        };
        table.truncate_in_stretch(stretch, &self.current, seq);
        self.count(version);
        self.finish_if_full(version)
    }

    fn lay_out_for_stretch(&mut self, version: u32) -> Result<(), Error> {
        match self.versions.table(version) {
            Some(table) if !table.is_ready() => self.lay_out_again(version),
            _ => Ok(()),
        }
    }

    /// Takes what the threads made of a stretch.
    ///
    /// # Errors
    /// That of the first row that could not be appended. The batches of all rows before it are
    /// ready, and there are no others.
    pub(crate) fn settle(
        &mut self,
        mut done: Vec<Option<Done>>,
        input: &[u8],
    ) -> Result<(), Error> {
        let Some(stretch) = self.stretch.take() else {
            return Ok(());
        };
        let faults = done.iter_mut().flatten().filter_map(|it| it.fault.take());
        if let Some(fault) = faults.min_by_key(|fault| fault.number) {
            return Err(self.fall_back(fault, &mut done, input));
        }
        let mut failed = Ok(());
        for (ended, floor) in self.finished.take_ended() {
            let table = self.versions.table_mut(ended.version);
            match ended.settle(&mut done, table) {
                Ok(batch) => self.finished.push(batch, floor),
                Err(error) => {
                    self.finished.note_lost(floor);
                    failed = failed.and(Err(error));
                }
            }
        }
        for version in stretch.versions {
            if let Some(table) = self.versions.table_mut(version) {
                table.settle(&mut done, self.current.commit);
            }
        }
        failed
    }

    /// Drops all rows from the fault on, as if they had not been read yet.
    #[cold]
    fn fall_back(&mut self, fault: Fault, done: &mut [Option<Done>], input: &[u8]) -> Error {
        let Fault {
            number,
            current,
            error,
        } = fault;
        let is_stream = matches!(error.kind(), ErrorKind::Stream(_));
        let wanted = Wanted {
            before: number,
            without: is_stream.then_some(current.ordinal),
        };
        // The first batch of each table that ended behind the fault, or that did not end.
        let mut open: BTreeMap<u32, (Ended, Lsn)> = BTreeMap::new();
        for (ended, floor) in self.finished.take_ended() {
            if ended.end <= number {
                let batch = ended.settle(done, None);
                self.take_before_fault(batch.map(Some), floor);
            } else {
                open.entry(ended.version).or_insert((ended, floor));
            }
        }
        for version in self.open.iter().collect::<Vec<_>>() {
            self.open.not_due(version);
            self.open.remove(version);
            // Without a layout, its rows are lost, as below.
            let _ = self.lay_out_again(version);
            let Some(table) = self.versions.table_mut(version) else {
                continue;
            };
            let Some(floor) = table.floor() else {
                continue;
            };
            self.open.recount(table.held(), 0);
            match table.take_ended() {
                Ok(ended) => {
                    open.entry(version).or_insert((ended, floor));
                }
                Err(_) => self.finished.note_lost(floor),
            }
        }
        // A flush returns them in the order of versions.
        for (ended, floor) in open.into_values() {
            let batch = ended.fall_back(done, wanted, input);
            self.take_before_fault(batch, floor);
        }
        self.finished.fall_back(current.floor);
        // A server's error ends its session, so it was behind the row.
        self.server_error = None;
        self.current = current;
        error
    }

    fn take_before_fault(&mut self, batch: Result<Option<Batch>, Error>, floor: Lsn) {
        match batch {
            Ok(Some(batch)) => self.finished.push(batch, floor),
            Ok(None) => {}
            // The fault is the error.
            Err(_) => self.finished.note_lost(floor),
        }
    }
}
