//! State that outlives a transaction: the server's session and the prepared transactions.

use super::interrupted::Interrupted;
use super::unmarked::Unmarked;
use crate::relation::Relations;
use crate::transaction::Transaction;
use crate::undecided::Undecided;
use walrow_wire::Lsn;

/// The state of the server's session, and the prepared transactions, which outlive it.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) undecided: Undecided,
    /// The open plain transaction, or the one that is being read or was read last.
    pub(super) transaction: Transaction,
    pub(super) relations: Relations,
    pub(super) start: Start,
    pub(super) sqlstate: String,
    pub(super) interrupted: Interrupted,
    /// Only if the stream does not mark where sessions begin.
    pub(super) unmarked: Option<Box<Unmarked>>,
}

/// The LSN up to which everything was delivered before; 0/0 for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start(pub(super) Lsn);

impl Start {
    /// Whether a transaction that ends there was delivered before.
    pub(super) fn has_delivered(self, end: Lsn) -> bool {
        self.0.is_valid() && end <= self.0
    }
}
