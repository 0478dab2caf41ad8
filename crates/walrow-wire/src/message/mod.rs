//! The nineteen messages of pgoutput.
//!
//! Manual: [Logical Replication Message Formats](https://www.postgresql.org/docs/current/protocol-logicalrep-message-formats.html).

mod control;
mod kind;
mod relation;
mod row;
mod stream_xid;
mod tuple;
mod unread;

pub use control::{
    AbortRecord, Begin, BeginPrepare, Commit, CommitPrepared, LogicalMessage, Origin, Prepare,
    RollbackPrepared, StreamAbort, StreamCommit, StreamPrepare, StreamStart,
};
pub use kind::Kind;
pub use relation::{Column, Columns, Relation, ReplicaIdentity, Type};
pub use row::{Delete, Insert, OldTuple, Truncate, Update};
pub use tuple::{Cell, Cells, Tuple};
pub use unread::{Image, UnreadCells, UnreadRow, UnreadTuple};

use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use alloc::vec::Vec;

/// One message of pgoutput, borrowed from the bytes it was parsed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Between a Stream Start and its Stream Stop, and only there, Relation, Type, Insert, Update,
    /// Delete, Truncate and Message carry a transaction ID after their kind byte. The message
    /// itself does not show this, so the caller passes `in_stream`.
    ///
    /// # Errors
    /// Bytes that are not exactly one whole message. All cells are checked, so a [`Tuple`] of a
    /// parsed message is well formed.
    #[inline]
    pub fn parse(bytes: &'a [u8], in_stream: bool) -> Result<Self, Error> {
        match UnreadRow::new(bytes, in_stream).and_then(Self::of_row) {
            Some(row) => Ok(row),
            None => Self::parse_any(bytes, in_stream),
        }
    }

    /// The message of a row, if it is whole and valid.
    ///
    /// Nearly all messages are, so this is the parser's fast path: it keeps no information for
    /// errors.
    #[inline]
    fn of_row(row: UnreadRow<'a>) -> Option<Self> {
        let (kind, xid, relation) = (row.kind(), row.xid(), row.relation());
        let (image, first) = row.first()?;
        let (first, rest) = first.skip()?;
        let old = match image {
            Image::New => None,
            Image::Key => Some(OldTuple::Key(first)),
            Image::Full => Some(OldTuple::Full(first)),
        };
        let (new, rest) = match (kind, old) {
            (Kind::Update, Some(_)) => rest.then_new()?.skip()?,
            _ => (first, rest),
        };
        if !rest.is_end() {
            return None;
        }
        Some(match (kind, old) {
            (Kind::Insert, _) => Self::Insert(Insert { xid, relation, new }),
            (Kind::Update, old) => Self::Update(Update {
                xid,
                relation,
                old,
                new,
            }),
            (_, Some(old)) => Self::Delete(Delete { xid, relation, old }),
            _ => return None,
        })
    }

    /// Parses any message field by field, so that an error names the field.
    #[inline(never)]
    fn parse_any(bytes: &'a [u8], in_stream: bool) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes, "message");
        let unread = cursor;
        let kind = cursor.u8("kind")?;
        let Some(kind) = Kind::from_byte(kind) else {
            return Err(unread.error(ErrorKind::UnknownKind(kind), "kind"));
        };
        let message = match kind {
            Kind::Insert => Self::Insert(Insert::parse(&mut cursor, in_stream)?),
            Kind::Update => Self::Update(Update::parse(&mut cursor, in_stream)?),
            Kind::Delete => Self::Delete(Delete::parse(&mut cursor, in_stream)?),
            Kind::Truncate => Self::Truncate(Truncate::parse(&mut cursor, in_stream)?),
            Kind::Begin => Self::Begin(Begin::parse(&mut cursor)?),
            Kind::Commit => Self::Commit(Commit::parse(&mut cursor)?),
            Kind::Origin => Self::Origin(Origin::parse(&mut cursor)?),
            Kind::Relation => Self::Relation(Relation::parse(&mut cursor, in_stream)?),
            Kind::Type => Self::Type(Type::parse(&mut cursor, in_stream)?),
            Kind::Message => Self::Message(LogicalMessage::parse(&mut cursor, in_stream)?),
            Kind::StreamStart => Self::StreamStart(StreamStart::parse(&mut cursor)?),
            Kind::StreamStop => {
                cursor = cursor.named("Stream Stop");
                Self::StreamStop
            }
            Kind::StreamCommit => Self::StreamCommit(StreamCommit::parse(&mut cursor)?),
            Kind::StreamAbort => Self::StreamAbort(StreamAbort::parse(&mut cursor)?),
            Kind::BeginPrepare => Self::BeginPrepare(BeginPrepare::parse(&mut cursor)?),
            Kind::Prepare => Self::Prepare(Prepare::parse(&mut cursor)?),
            Kind::CommitPrepared => Self::CommitPrepared(CommitPrepared::parse(&mut cursor)?),
            Kind::RollbackPrepared => Self::RollbackPrepared(RollbackPrepared::parse(&mut cursor)?),
            Kind::StreamPrepare => Self::StreamPrepare(StreamPrepare::parse(&mut cursor)?),
        };
        cursor.finish()?;
        Ok(message)
    }

    /// Appends the message's bytes: the exact inverse of [`Message::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.kind().byte());
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

    /// Its kind.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Begin(_) => Kind::Begin,
            Self::Commit(_) => Kind::Commit,
            Self::Origin(_) => Kind::Origin,
            Self::Relation(_) => Kind::Relation,
            Self::Type(_) => Kind::Type,
            Self::Insert(_) => Kind::Insert,
            Self::Update(_) => Kind::Update,
            Self::Delete(_) => Kind::Delete,
            Self::Truncate(_) => Kind::Truncate,
            Self::Message(_) => Kind::Message,
            Self::StreamStart(_) => Kind::StreamStart,
            Self::StreamStop => Kind::StreamStop,
            Self::StreamCommit(_) => Kind::StreamCommit,
            Self::StreamAbort(_) => Kind::StreamAbort,
            Self::BeginPrepare(_) => Kind::BeginPrepare,
            Self::Prepare(_) => Kind::Prepare,
            Self::CommitPrepared(_) => Kind::CommitPrepared,
            Self::RollbackPrepared(_) => Kind::RollbackPrepared,
            Self::StreamPrepare(_) => Kind::StreamPrepare,
        }
    }

    /// Its name in the manual.
    pub const fn name(&self) -> &'static str {
        self.kind().name()
    }
}
