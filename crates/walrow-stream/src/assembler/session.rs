//! What outlives a transaction: the server's session, and what is prepared.

use crate::relation::Relations;
use crate::transaction::Transaction;
use crate::undecided::Undecided;
use walrow_wire::Lsn;

/// What is known of the server's session, and of transactions that outlive it.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) undecided: Undecided,
    /// The plain transaction that is open, or the one that is read or was read last.
    pub(super) transaction: Transaction,
    pub(super) relations: Relations,
    pub(super) start: Start,
    pub(super) sqlstate: String,
}

/// Up to where everything was delivered before; 0/0 for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start(pub(super) Lsn);

impl Start {
    /// Whether what ends there was delivered before.
    pub(super) fn has_delivered(self, end: Lsn) -> bool {
        self.0.is_valid() && end <= self.0
    }
}
