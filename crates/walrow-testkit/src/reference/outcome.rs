//! What the reference reads: its options, its result, and why it rejects a stream.

use crate::history::Expected;
use crate::{OwnedColumn, PgText};
use std::sync::Arc;
use walrow_wire::{Error, ReplicaIdentity};

/// The result of reading a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The committed transactions, in commit order.
    pub transactions: Vec<Expected>,
    /// For each change of each transaction: its relations, as they were described at that time.
    pub relations: Vec<Vec<Vec<Arc<Described>>>>,
    /// The non-transactional messages in order: LSN and prefix.
    pub notes: Vec<(u64, PgText)>,
    /// The end LSNs of the transactions and the LSNs of those messages, in order of arrival.
    pub ends: Vec<u64>,
    /// The prepared transactions at the end: ID and GID.
    pub prepared: Vec<(u32, PgText)>,
    /// How many prepared transactions came without their begin, as servers send empty ones.
    pub unannounced: usize,
}

/// A relation as a Relation message describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the message")]
pub struct Described {
    pub oid: u32,
    pub namespace: PgText,
    pub name: PgText,
    pub replica_identity: ReplicaIdentity,
    pub columns: Vec<OwnedColumn>,
}

/// The options of a reader.
#[derive(Clone, Copy, Debug)]
pub struct ReadOptions {
    /// Transactions that end here or before were already delivered.
    pub start: Option<u64>,
    /// Whether transactions may lack their begin.
    pub late_start: bool,
    /// The most bytes of a message.
    pub message_limit: usize,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            start: None,
            late_start: false,
            message_limit: usize::MAX,
        }
    }
}

/// A rejected stream, and its transactions up to there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The transactions that were committed before.
    pub committed: Committed,
    /// Why it is rejected.
    pub reason: Reason,
}

/// Why a stream is rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Bytes that do not follow the protocol.
    Wire(Error),
    /// A message in a wrong place.
    Impossible(&'static str),
    /// A name that is longer than any name of a server.
    LongName,
    /// A relation with more columns than a table can have.
    TooWide,
    /// A Truncate that names a relation twice.
    TruncatedTwice,
    /// Something that no server sends, and whose meaning is not defined.
    Unclear(&'static str),
}
