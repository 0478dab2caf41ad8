//! Transactions that a session began to send, and that no session has completed.
//!
//! ```text
//! B 100 I C 100  B 200 I │ B 200 I I C 200    the server sends it again: nothing is missing
//! B 100 I C 100  B 200 I │                    the server has not sent it again yet
//! B 100 I C 100  B 200 I │ B 300 I C 300      a part of the stream is missing
//!                        │
//!                  a new session
//! ```
//! Only plain transactions count: their Begin shows that they are committed. A streamed transaction
//! may be rolled back later, and is then not sent again.

use walrow_wire::{Lsn, Xid};

/// The plain transactions inside which a session ended, in this order.
#[derive(Debug, Default)]
pub(super) struct Interrupted {
    transactions: Vec<(Xid, Lsn)>,
    /// The greatest commit LSN so far. Commits come in order: a commit at or below it came before.
    greatest: Lsn,
}

impl Interrupted {
    /// A session ended inside the transaction.
    pub(super) fn add(&mut self, xid: Xid, lsn: Lsn) {
        if !self.transactions.contains(&(xid, lsn)) {
            self.transactions.push((xid, lsn));
        }
    }

    /// Whether a transaction with this commit LSN came before.
    pub(super) fn has_passed(&self, lsn: Lsn) -> bool {
        lsn <= self.greatest
    }

    /// The transaction is complete.
    pub(super) fn complete(&mut self, xid: Xid, lsn: Lsn) {
        self.greatest = self.greatest.max(lsn);
        if !self.transactions.is_empty() {
            self.transactions.retain(|it| *it != (xid, lsn));
        }
    }

    /// The first transaction that is not complete, although a later one is.
    pub(super) fn missing(&self) -> Option<(Xid, Lsn)> {
        let mut transactions = self.transactions.iter().copied();
        transactions.find(|(_, lsn)| *lsn < self.greatest)
    }
}
