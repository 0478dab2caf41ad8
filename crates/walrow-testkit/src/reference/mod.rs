//! The committed transactions of a stream, assembled slowly and plainly: everything is kept in
//! memory, owned, and looked through again whenever something has to be found.

mod reader;
mod transaction;

use crate::history::Expected;
use crate::{OwnedColumn, OwnedMessage, PgText, walk};
use reader::Reader;
use std::sync::Arc;
use walrow_wire::{Error, Frame, ReplicaIdentity};

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

/// Names are longer in no server, and are refused.
const LONGEST_NAME: usize = 256;
const LONGEST_ORIGIN: usize = 8192;
const MOST_COLUMNS: usize = 1600;

/// Reads a stream of any protocol version to its last whole frame.
///
/// # Errors
/// Bytes that are not the protocol, and messages that come where they cannot: also those of
/// transactions that are rolled back later.
pub fn committed(bytes: &[u8]) -> Result<Committed, Box<Refused>> {
    committed_as(bytes, Told::default())
}

/// As [`committed`], told these things.
pub fn committed_as(bytes: &[u8], told: Told) -> Result<Committed, Box<Refused>> {
    let mut reader = Reader::new(told);
    let limit = told.message_limit.saturating_add(30);
    let mut refused = None;
    let walked = walk(bytes, |step| {
        if refused.is_some() {
            return;
        }
        let size = step.frame.body.len() + Frame::HEADER;
        let result = if size > limit {
            Err(Reason::Impossible("a message past the limit"))
        } else {
            reader.step(&step.backend, step.message.as_ref().map(OwnedMessage::from))
        };
        refused = result.err();
    });
    let reason = refused.or_else(|| match walked {
        Err(error) => Some(Reason::Wire(error)),
        Ok(end) => match Frame::size(&bytes[end..]) {
            Ok(Some(size)) if size > limit => Some(Reason::Impossible("a message past the limit")),
            Ok(_) => None,
            Err(error) => Some(Reason::Wire(error.at(end))),
        },
    });
    let mut committed = reader.committed;
    committed.prepared = reader
        .prepared
        .into_keys()
        .map(|(gid, xid, _)| (xid, gid))
        .collect();
    match reason {
        None => Ok(committed),
        Some(reason) => Err(Box::new(Refused { committed, reason })),
    }
}
