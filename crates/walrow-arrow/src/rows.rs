//! The rows of a batch under construction: their number, and the transaction of the last ones.

use crate::metadata::Commit;
use walrow_wire::Lsn;

/// The transaction to which the next rows belong.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Current {
    /// Numbers the decoder's transactions.
    pub(crate) ordinal: u64,
    pub(crate) commit: Commit,
    /// The position before the transaction.
    pub(crate) floor: Lsn,
}

/// Counts the rows of a batch under construction.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    count: usize,
    /// The position before the first row.
    floor: Lsn,
    /// The transaction of the last rows, and the number of rows before it.
    transaction: u64,
    before_transaction: usize,
}

/// What begins with the next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begins {
    Batch,
    Transaction,
    Nothing,
}

impl Rows {
    pub(crate) const fn count(&self) -> usize {
        self.count
    }

    /// The position before the oldest row, if there are rows.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        (self.count > 0).then_some(self.floor)
    }

    /// Prepares for rows of this transaction.
    #[inline]
    pub(crate) fn enter(&mut self, current: &Current) -> Begins {
        let begins = if self.count == 0 {
            self.floor = current.floor;
            Begins::Batch
        } else if self.transaction == current.ordinal {
            return Begins::Nothing;
        } else {
            Begins::Transaction
        };
        self.transaction = current.ordinal;
        self.before_transaction = self.count;
        begins
    }

    #[inline]
    pub(crate) fn push(&mut self) {
        self.count = self.count.wrapping_add(1);
    }

    pub(crate) fn truncate(&mut self, count: usize) {
        self.count = self.count.min(count);
    }

    /// The number of rows before those of this transaction. `None` if it has no rows.
    pub(crate) fn without(&self, current: &Current) -> Option<usize> {
        (self.count > 0 && self.transaction == current.ordinal).then_some(self.before_transaction)
    }

    /// Begins the next batch and returns the number of rows. The transaction may continue there.
    pub(crate) fn finish(&mut self) -> usize {
        self.before_transaction = 0;
        std::mem::take(&mut self.count)
    }
}
