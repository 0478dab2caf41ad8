//! The nineteen messages of pgoutput.
//!
//! Manual: [Logical Replication Message Formats](https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html).

mod control;
mod relation;
mod row;
mod tuple;

pub use control::{
    Begin, BeginPrepare, Commit, CommitPrepared, LogicalMessage, Origin, Prepare, RollbackPrepared,
    StreamAbort, StreamCommit, StreamPrepare, StreamStart,
};
pub use relation::{Column, Columns, Relation, ReplicaIdentity, Type};
pub use row::{Delete, Insert, OldTuple, Truncate, Update};
pub use tuple::{Cell, Cells, Tuple};

use crate::Xid;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use alloc::vec::Vec;

/// One message of pgoutput, borrowed from the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Message<'a> {
    /// `B`
    Begin(Begin),
    /// `C`
    Commit(Commit),
    /// `O`
    Origin(Origin<'a>),
    /// `R`
    Relation(Relation<'a>),
    /// `Y`
    Type(Type<'a>),
    /// `I`
    Insert(Insert<'a>),
    /// `U`
    Update(Update<'a>),
    /// `D`
    Delete(Delete<'a>),
    /// `T`
    Truncate(Truncate<'a>),
    /// `M`
    Message(LogicalMessage<'a>),
    /// `S`, protocol 2 and later
    StreamStart(StreamStart),
    /// `E`, protocol 2 and later
    StreamStop,
    /// `c`, protocol 2 and later
    StreamCommit(StreamCommit),
    /// `A`, protocol 2 and later
    StreamAbort(StreamAbort),
    /// `b`, protocol 3 and later
    BeginPrepare(BeginPrepare<'a>),
    /// `P`, protocol 3 and later
    Prepare(Prepare<'a>),
    /// `K`, protocol 3 and later
    CommitPrepared(CommitPrepared<'a>),
    /// `r`, protocol 3 and later
    RollbackPrepared(RollbackPrepared<'a>),
    /// `p`, protocol 3 and later
    StreamPrepare(StreamPrepare<'a>),
}

impl<'a> Message<'a> {
    /// Parses one message.
    ///
    /// Between a Stream Start and its Stream Stop, and only there, Relation, Type, Insert,
    /// Update, Delete, Truncate and Message carry a transaction ID after their kind byte. The
    /// message does not say so itself: `in_stream` does.
    ///
    /// # Errors
    /// Bytes that are not one whole message and nothing more. Cells are walked, so a
    /// [`Tuple`] of a parsed message is known to be well formed.
    #[inline]
    pub fn parse(bytes: &'a [u8], in_stream: bool) -> Result<Self, Error> {
        match row::valid_row(bytes, in_stream) {
            Some(row) => Ok(row),
            None => Self::parse_any(bytes, in_stream),
        }
    }

    /// Parses any message field by field, and so can tell which one is wrong.
    #[inline(never)]
    fn parse_any(bytes: &'a [u8], in_stream: bool) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes, "message");
        let unread = cursor;
        let message = match cursor.u8("kind")? {
            b'I' => Self::Insert(Insert::parse(&mut cursor, in_stream)?),
            b'U' => Self::Update(Update::parse(&mut cursor, in_stream)?),
            b'D' => Self::Delete(Delete::parse(&mut cursor, in_stream)?),
            b'T' => Self::Truncate(Truncate::parse(&mut cursor, in_stream)?),
            b'B' => Self::Begin(Begin::parse(&mut cursor)?),
            b'C' => Self::Commit(Commit::parse(&mut cursor)?),
            b'O' => Self::Origin(Origin::parse(&mut cursor)?),
            b'R' => Self::Relation(Relation::parse(&mut cursor, in_stream)?),
            b'Y' => Self::Type(Type::parse(&mut cursor, in_stream)?),
            b'M' => Self::Message(LogicalMessage::parse(&mut cursor, in_stream)?),
            b'S' => Self::StreamStart(StreamStart::parse(&mut cursor)?),
            b'E' => {
                cursor = cursor.named("Stream Stop");
                Self::StreamStop
            }
            b'c' => Self::StreamCommit(StreamCommit::parse(&mut cursor)?),
            b'A' => Self::StreamAbort(StreamAbort::parse(&mut cursor)?),
            b'b' => Self::BeginPrepare(BeginPrepare::parse(&mut cursor)?),
            b'P' => Self::Prepare(Prepare::parse(&mut cursor)?),
            b'K' => Self::CommitPrepared(CommitPrepared::parse(&mut cursor)?),
            b'r' => Self::RollbackPrepared(RollbackPrepared::parse(&mut cursor)?),
            b'p' => Self::StreamPrepare(StreamPrepare::parse(&mut cursor)?),
            other => return Err(unread.error(ErrorKind::UnknownKind(other), "kind")),
        };
        cursor.finish()?;
        Ok(message)
    }

    /// Appends the message's bytes: the exact inverse of [`Message::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind());
        match self {
            Self::Begin(message) => message.encode(out),
            Self::Commit(message) => message.encode(out),
            Self::Origin(message) => message.encode(out),
            Self::Relation(message) => message.encode(out),
            Self::Type(message) => message.encode(out),
            Self::Insert(message) => message.encode(out),
            Self::Update(message) => message.encode(out),
            Self::Delete(message) => message.encode(out),
            Self::Truncate(message) => message.encode(out),
            Self::Message(message) => message.encode(out),
            Self::StreamStart(message) => message.encode(out),
            Self::StreamStop => {}
            Self::StreamCommit(message) => message.encode(out),
            Self::StreamAbort(message) => message.encode(out),
            Self::BeginPrepare(message) => message.encode(out),
            Self::Prepare(message) => message.encode(out),
            Self::CommitPrepared(message) => message.encode(out),
            Self::RollbackPrepared(message) => message.encode(out),
            Self::StreamPrepare(message) => message.encode(out),
        }
    }

    /// The kind byte.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Begin(_) => b'B',
            Self::Commit(_) => b'C',
            Self::Origin(_) => b'O',
            Self::Relation(_) => b'R',
            Self::Type(_) => b'Y',
            Self::Insert(_) => b'I',
            Self::Update(_) => b'U',
            Self::Delete(_) => b'D',
            Self::Truncate(_) => b'T',
            Self::Message(_) => b'M',
            Self::StreamStart(_) => b'S',
            Self::StreamStop => b'E',
            Self::StreamCommit(_) => b'c',
            Self::StreamAbort(_) => b'A',
            Self::BeginPrepare(_) => b'b',
            Self::Prepare(_) => b'P',
            Self::CommitPrepared(_) => b'K',
            Self::RollbackPrepared(_) => b'r',
            Self::StreamPrepare(_) => b'p',
        }
    }

    /// The message's name in the manual.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "Begin",
            Self::Commit(_) => "Commit",
            Self::Origin(_) => "Origin",
            Self::Relation(_) => "Relation",
            Self::Type(_) => "Type",
            Self::Insert(_) => "Insert",
            Self::Update(_) => "Update",
            Self::Delete(_) => "Delete",
            Self::Truncate(_) => "Truncate",
            Self::Message(_) => "Message",
            Self::StreamStart(_) => "Stream Start",
            Self::StreamStop => "Stream Stop",
            Self::StreamCommit(_) => "Stream Commit",
            Self::StreamAbort(_) => "Stream Abort",
            Self::BeginPrepare(_) => "Begin Prepare",
            Self::Prepare(_) => "Prepare",
            Self::CommitPrepared(_) => "Commit Prepared",
            Self::RollbackPrepared(_) => "Rollback Prepared",
            Self::StreamPrepare(_) => "Stream Prepare",
        }
    }
}

/// The transaction ID that a message carries inside a stream block.
fn stream_xid(cursor: &mut Cursor<'_>, in_stream: bool) -> Result<Option<Xid>, Error> {
    if in_stream {
        cursor.u32("transaction ID").map(Some)
    } else {
        Ok(None)
    }
}

fn put_stream_xid(out: &mut Vec<u8>, xid: Option<Xid>) {
    if let Some(xid) = xid {
        out.put_u32(xid);
    }
}
