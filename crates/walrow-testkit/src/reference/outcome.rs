//! What a stream comes to, or why it is refused.

use crate::history::Expected;
use crate::{OwnedColumn, PgText};
use std::sync::Arc;
use walrow_wire::{Error, ReplicaIdentity};

/// What a stream comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The committed transactions, in commit order.
    pub transactions: Vec<Expected>,
    /// Of each of them, of each change: its relations as they were described then.
    pub relations: Vec<Vec<Vec<Arc<Described>>>>,
    /// The non-transactional messages in order: LSN and prefix.
    pub notes: Vec<(u64, PgText)>,
    /// Where those end and these lie, in the order in which they came.
    pub ends: Vec<u64>,
    /// What is prepared at the end: ID and name.
    pub prepared: Vec<(u32, PgText)>,
    /// How many prepared transactions were told of without what began them, as servers tell of
    /// empty ones.
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

/// What a reader was told besides the stream.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What ends here or before was delivered before.
    pub start: Option<u64>,
    /// Whether transactions may lack their begin.
    pub late_start: bool,
    /// The most bytes of a message.
    pub message_limit: usize,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            start: None,
            late_start: false,
            message_limit: usize::MAX,
        }
    }
}

/// A stream that is read no further, and what it came to before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was committed before.
    pub committed: Committed,
    /// Why.
    pub reason: Reason,
}

/// Why a stream is read no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Bytes that are not the protocol.
    Wire(Error),
    /// A message that comes where it cannot.
    Impossible(&'static str),
    /// A name that is longer than any server's.
    LongName,
    /// A relation of more columns than a table can have.
    TooWide,
    /// A Truncate that names a relation twice.
    TruncatedTwice,
    /// What no server sends and nobody promises to read in one way.
    Unclear(&'static str),
}
