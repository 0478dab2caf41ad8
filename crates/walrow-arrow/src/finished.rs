//! The finished batches that were not taken yet, and the position that follows from them.

use crate::batch::Batch;
use std::collections::VecDeque;
use walrow_wire::Lsn;

/// The finished batches that were not taken yet.
#[derive(Debug)]
pub(crate) struct Finished {
    /// Each with the position before its first row.
    batches: VecDeque<(Batch, Lsn)>,
    /// The position before the first row that could not become part of a batch.
    lost: Option<Lsn>,
    /// The end of the last complete transaction.
    end: Lsn,
}

impl Finished {
    pub(crate) const fn new(start: Lsn) -> Self {
        Self {
            batches: VecDeque::new(),
            lost: None,
            end: start,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    pub(crate) fn push(&mut self, batch: Batch, floor: Lsn) {
        self.batches.push_back((batch, floor));
    }

    pub(crate) fn extend(&mut self, batches: Vec<(Batch, Lsn)>) {
        self.batches.extend(batches);
    }

    pub(crate) fn pop(&mut self) -> Option<Batch> {
        self.batches.pop_front().map(|(batch, _)| batch)
    }

    /// Notes that rows after this position are lost.
    pub(crate) fn note_lost(&mut self, floor: Lsn) {
        self.lost = Some(self.lost.map_or(floor, |lost| lost.min(floor)));
    }

    /// The end of the last complete transaction.
    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    /// Notes that everything up to here is complete.
    pub(crate) fn complete(&mut self, end: Lsn) {
        self.end = self.end.max(end);
    }

    /// The position up to which all rows were taken. `unfinished` has the positions before the
    /// unfinished batches.
    pub(crate) fn position(&self, unfinished: impl Iterator<Item = Lsn>) -> Lsn {
        let finished = self.batches.iter().map(|(_, floor)| *floor);
        let floors = unfinished.chain(finished).chain(self.lost);
        floors.min().unwrap_or(self.end)
    }
}
