//! What an assembler hands out.

use crate::relation::Relation;
use std::sync::Arc;
use walrow_wire::{Lsn, OldTuple, Timestamp, Tuple, Xid};

/// A committed transaction's head.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// Its ID; 32 bits that wrap around.
    pub xid: Xid,
    /// Where its commit record starts. With a change's `seq` it is the change's identity.
    pub commit_lsn: Lsn,
    /// Where its commit record ends: what a client confirms once all of it is durable.
    pub end_lsn: Lsn,
    /// When it was committed, by the server's clock; not monotonic.
    pub commit_time: Timestamp,
    /// Where it came from, if it was replicated itself. The last one counts.
    pub origins: Vec<Origin>,
    /// How it was prepared, if the stream brought it at its prepare (`two_phase`).
    pub prepared: Option<Prepared>,
}

impl Transaction {
    /// Adds an origin, unless it is the last one again.
    pub(crate) fn push_origin(&mut self, origin: Origin) {
        if self.origins.last() != Some(&origin) {
            self.origins.push(origin);
        }
    }
}

/// How a transaction was prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The name that PREPARE TRANSACTION gave it; used again by others, in time.
    pub gid: String,
    /// Where the prepare record starts; 0/0 where the stream has nothing of an empty transaction
    /// but its commit, as up to PostgreSQL 17.
    pub prepare_lsn: Lsn,
    /// Where it ends; 0/0 likewise.
    pub prepare_end_lsn: Lsn,
    /// When it was prepared; meaningless where there is no `prepare_lsn`.
    pub prepare_time: Timestamp,
}

/// Where a transaction came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The origin's name.
    pub name: String,
    /// The commit's LSN there; 0/0 where the writer set none.
    pub commit_lsn: Lsn,
}

/// One thing a stream tells. Changes, transactional messages and relation versions lie between
/// their transaction's Begin and Commit, in order.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Item<'a> {
    /// A committed transaction begins.
    Begin(&'a Transaction),
    /// A relation version that is seen for the first time.
    Relation {
        /// The version.
        relation: &'a Arc<Relation>,
        /// The seq of the change that follows.
        seq: u64,
    },
    /// A row change of it.
    Change(Change<'a>),
    /// A logical message; a non-transactional one stands outside transactions.
    Message(Message<'a>),
    /// The transaction is complete.
    Commit(&'a Transaction),
    /// Many messages were read that nothing comes of: of a transaction that is left out, of a
    /// subtransaction that was rolled back. There are more: a caller may look around.
    Skipped,
    /// A new server session begins: relations are sent again.
    SessionStart,
    /// The server ended the stream with an error; what was open is dropped.
    ServerError {
        /// The SQLSTATE.
        sqlstate: &'a str,
    },
}

/// One committed change of rows.
#[derive(Clone, Debug)]
pub struct Change<'a> {
    /// Counts the transaction's changes from 0, the same for every protocol version.
    pub seq: u64,
    /// The change's own LSN, 0/0 where the server sent none.
    pub lsn: Lsn,
    /// Bytes fed to the assembler before the change's message.
    pub offset: u64,
    /// The relation version it arrived under; of a truncate, the first one's.
    pub relation: &'a Arc<Relation>,
    /// What happened.
    pub row: Row<'a>,
}

/// What happened to a row or to tables. Tuples have as many cells as the relation has columns.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Row<'a> {
    /// A row came to be.
    Insert {
        /// The row.
        new: Tuple<'a>,
    },
    /// A row was changed.
    Update {
        /// The old row or its key, if the replica identity calls for one.
        old: Option<OldTuple<'a>>,
        /// The new row.
        new: Tuple<'a>,
    },
    /// A row is gone.
    Delete {
        /// The old row or its key.
        old: OldTuple<'a>,
    },
    /// All rows of some tables are gone.
    Truncate {
        /// The tables, those that CASCADE took included.
        relations: Vec<Arc<Relation>>,
        /// Whether CASCADE was given.
        cascade: bool,
        /// Whether RESTART IDENTITY was given.
        restart_identity: bool,
    },
}

/// What `pg_logical_emit_message` wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Where its record ends; of a non-transactional one, its position.
    pub lsn: Lsn,
    /// Whether it belongs to the transaction around it.
    pub transactional: bool,
    /// The seq of the next change, for its place among the changes.
    pub seq: u64,
    /// Its prefix; may be empty.
    pub prefix: &'a str,
    /// Its content: bytes, in no encoding.
    pub content: &'a [u8],
}
