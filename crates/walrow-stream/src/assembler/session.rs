//! State that outlives a transaction: the server's session and the prepared transactions.

use super::interrupted::Interrupted;
use super::unmarked::Unmarked;
use crate::fact::ReadCatalogs;
use crate::relation::Relations;
use crate::transaction::{Prepared, Transaction};
use crate::undecided::Undecided;
use walrow_wire::{Lsn, Message, Timestamp, Xid};

/// The state of the server's session, and the prepared transactions, which outlive it.
#[derive(Debug, Default)]
pub(super) struct Session {
    pub(super) undecided: Undecided,
    /// The open plain transaction, or the transaction that is being read or was read last.
    pub(super) transaction: Transaction,
    pub(super) relations: Relations,
    pub(super) start: Start,
    pub(super) end: Option<End>,
    /// Whether the end was passed: the assembler returns no more events.
    pub(super) ended: bool,
    pub(super) sqlstate: String,
    /// The transaction that was prepared last, if the caller asks for prepares.
    pub(super) prepared: Option<Box<(Xid, Prepared)>>,
    pub(super) tells_prepares: bool,
    pub(super) interrupted: Interrupted,
    /// The facts about the current and the next transaction. `None` before the first fact.
    pub(super) facts: Option<Box<Facts>>,
    pub(super) catalogs: ReadCatalogs,
    /// Only if the stream does not mark where sessions begin.
    pub(super) unmarked: Option<Box<Unmarked>>,
}

/// The facts about transactions.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// How the next transaction was prepared.
    pub(super) prepared: Option<Prepared>,
    /// [`Transaction::rolled_back_until`] of the next transaction.
    pub(super) rolled_back_until: Lsn,
    /// Whether the next transaction is a load.
    pub(super) snapshot: bool,
    /// The seq of the next transaction's first change.
    pub(super) first_seq: Option<u64>,
    /// Whether the current transaction continues in another segment.
    pub(super) continues: bool,
    /// The commit LSN of the transaction whose next part is expected.
    pub(super) continued: Option<Lsn>,
}

/// The end of the part of the stream that was delivered before; 0/0 if there is no such part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Start(pub(super) Lsn);

impl Start {
    /// Whether a transaction that ends there was delivered before.
    pub(super) fn has_delivered(self, end: Lsn) -> bool {
        self.0.is_valid() && end <= self.0
    }
}

/// The last commit that is returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Transactions that end at or before this LSN, and non-transactional messages at or before it.
    Lsn(Lsn),
    /// Transactions that were committed at or before this time. Commit times are not monotonic:
    /// the first transaction that was committed later ends the stream.
    Time(Timestamp),
}

impl Session {
    /// Whether a commit is after the end, or came after such a commit.
    pub(super) fn passes_end(&mut self, end_lsn: Lsn, time: Option<Timestamp>) -> bool {
        self.ended |= match self.end {
            None => false,
            Some(End::Lsn(last)) => end_lsn > last,
            Some(End::Time(last)) => time.is_some_and(|time| time > last),
        };
        self.ended
    }

    /// Whether a message between transactions is after the end. A prepared transaction that is
    /// committed there stays prepared.
    pub(super) fn is_after_end(&mut self, message: &Message<'_>) -> bool {
        match message {
            Message::CommitPrepared(commit) => {
                self.passes_end(commit.end_lsn, Some(commit.commit_time))
            }
            Message::Message(message) if !message.transactional => {
                self.passes_end(message.lsn, None)
            }
            _ => false,
        }
    }
}
