//! Errors of a stream, with their place.

use crate::printable::Printable;
use std::fmt;
use walrow_wire::{Lsn, Oid, Xid};

/// The error that ends the reading of a stream, with its byte and the nearest LSN.
///
/// Its text is the reason, then the [remedies](ErrorKind::remedies), then the place. It never
/// contains a row's values. `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// Bytes fed to the assembler before the fault.
    pub offset: u64,
    /// The LSN of the message, or of its transaction's commit, if it is known.
    pub lsn: Option<Lsn>,
}

/// The kind of an error of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes that do not follow the protocol.
    Wire(walrow_wire::Error),
    /// A message in a place where the protocol does not allow it.
    UnexpectedMessage {
        /// The message, by the manual's name.
        message: &'static str,
        /// The place of the message.
        place: MessagePlace,
    },
    /// A Commit whose commit LSN differs from its Begin's.
    CommitMismatch {
        /// The commit LSN in the Begin.
        begin: Lsn,
    },
    /// A row or truncate of a relation that no Relation message described in this session.
    UnknownRelation {
        /// The message, by the manual's name.
        message: &'static str,
        /// The relation.
        oid: Oid,
    },
    /// A row whose number of cells is not its relation's number of columns.
    ColumnCount {
        /// The message, by the manual's name.
        message: &'static str,
        /// The relation, as `schema.name`.
        relation: String,
        /// Columns of the relation.
        expected: usize,
        /// Cells of the row.
        found: usize,
    },
    /// A session reports a `client_encoding` that is not supported, or that differs from the
    /// encoding of earlier names.
    ClientEncoding {
        /// Its value.
        found: String,
        /// The values that it could have.
        wanted: &'static str,
    },
    /// A name that is not UTF-8.
    InvalidUtf8 {
        /// The message, by the manual's name.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A name that no PostgreSQL server can have.
    NameTooLong {
        /// The message, by the manual's name.
        message: &'static str,
        /// The field.
        field: &'static str,
        /// Its bytes.
        size: usize,
        /// The most bytes that are read.
        limit: usize,
    },
    /// A Relation with more columns than a table of PostgreSQL can have.
    TooManyColumns {
        /// The relation.
        oid: Oid,
        /// Its columns.
        columns: usize,
        /// The most columns of a table.
        limit: usize,
    },
    /// A Truncate that names a relation twice, which no server does.
    RepeatedRelation {
        /// The relation.
        oid: Oid,
    },
    /// A message of a streamed transaction whose first chunk is missing.
    MissingBegin {
        /// The message, by the manual's name.
        message: &'static str,
        /// The top-level transaction.
        xid: Xid,
    },
    /// A first chunk of a transaction that is open already. It is from another session.
    StreamRestarted {
        /// The top-level transaction.
        xid: Xid,
    },
    /// A Prepare of another transaction than its Begin Prepare's.
    PrepareMismatch {
        /// The transaction of the Begin Prepare.
        xid: Xid,
    },
    /// A Commit Prepared of a transaction that was prepared in a session that is not in the stream.
    MissingPrepared {
        /// The transaction.
        xid: Xid,
    },
    /// A Commit Prepared of a transaction that may have been prepared before the slot was where the
    /// log begins.
    PreparedBefore {
        /// The transaction.
        xid: Xid,
    },
    /// A message larger than the limit.
    TooLarge {
        /// Its bytes. If it has no length, as in a file of `pg_recvlogical`, the bytes of it that
        /// are known.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// Open transactions could not be written to or read from the spool.
    Spool {
        /// The kind of the failure.
        kind: std::io::ErrorKind,
        /// The operating system's number for it.
        code: Option<i32>,
        /// The failure in words.
        text: String,
    },
    /// Bytes that are not a state of prepared transactions.
    NotPreparedState,
    /// A fact that only a later version of walrow knows, and that no reader may skip.
    UnknownFact {
        /// The name of the fact.
        name: String,
    },
}

/// A step that avoids an error of a stream, and that is not an option of a decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Set the walsender's `client_encoding` to `UTF8`. In a `SQL_ASCII` database, change the name.
    ClientEncoding,
    /// Set the walsender's `DateStyle` to `ISO`.
    DateStyle,
    /// Set the walsender's `IntervalStyle` to `postgres`.
    IntervalStyle,
    /// Read from the beginning of the transaction's session.
    EarlierStart,
    /// Announce the beginning of a session:
    /// [`Assembler::new_session`](crate::Assembler::new_session).
    NewSession,
    /// Restore the prepared transactions of the session before.
    RestorePrepared,
}

impl Remedy {
    /// The name of the step.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClientEncoding => "client_encoding",
            Self::DateStyle => "DateStyle",
            Self::IntervalStyle => "IntervalStyle",
            Self::EarlierStart => "earlier_start",
            Self::NewSession => "new_session",
            Self::RestorePrepared => "restore_prepared",
        }
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ClientEncoding => {
                "set the walsender's client_encoding to UTF8; in a SQL_ASCII database, change the \
                 name"
            }
            Self::DateStyle => "set the walsender's DateStyle to ISO",
            Self::IntervalStyle => "set the walsender's IntervalStyle to postgres",
            Self::EarlierStart => "read from where its session begins",
            Self::NewSession => "announce where the new session begins",
            Self::RestorePrepared => "restore the prepared transactions of the session before",
        })
    }
}

/// The place of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MessagePlace {
    /// Between a transaction's begin and its end.
    Inside,
    /// Outside transactions.
    Outside,
    /// From the server, although only clients send it.
    FromServer,
}

impl fmt::Display for MessagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inside => "inside a transaction",
            Self::Outside => "outside a transaction",
            Self::FromServer => "in what the server sent",
        })
    }
}

impl From<std::io::Error> for ErrorKind {
    fn from(error: std::io::Error) -> Self {
        Self::Spool {
            kind: error.kind(),
            code: error.raw_os_error(),
            text: error.to_string(),
        }
    }
}

impl ErrorKind {
    /// The remedies of the error. Each alone is enough.
    pub const fn remedies(&self) -> &'static [Remedy] {
        match self {
            Self::InvalidUtf8 { .. } => &[Remedy::ClientEncoding],
            Self::MissingBegin { .. } => &[Remedy::EarlierStart],
            Self::StreamRestarted { .. } => &[Remedy::NewSession],
            Self::MissingPrepared { .. } => &[Remedy::RestorePrepared],
            _ => &[],
        }
    }
}

impl Error {
    /// Creates an error at an offset and an LSN.
    pub const fn new(kind: ErrorKind, offset: u64, lsn: Option<Lsn>) -> Self {
        Self { kind, offset, lsn }
    }

    /// The place of the fault. `None` for a state of prepared transactions, which is not a stream.
    pub const fn location(&self) -> Option<Location> {
        match self.kind {
            ErrorKind::NotPreparedState => None,
            _ => Some(Location::new(self.offset, self.lsn)),
        }
    }

    /// The message at fault, by the manual's name.
    pub const fn message(&self) -> &'static str {
        match &self.kind {
            ErrorKind::Wire(error) => error.message,
            ErrorKind::UnexpectedMessage { message, place: _ }
            | ErrorKind::UnknownRelation { message, oid: _ }
            | ErrorKind::ColumnCount {
                message,
                relation: _,
                expected: _,
                found: _,
            }
            | ErrorKind::InvalidUtf8 { message, field: _ }
            | ErrorKind::NameTooLong { message, .. }
            | ErrorKind::MissingBegin { message, xid: _ } => message,
            ErrorKind::TooManyColumns { .. } => "Relation",
            ErrorKind::RepeatedRelation { oid: _ } => "Truncate",
            ErrorKind::ClientEncoding { .. } => "ParameterStatus",
            ErrorKind::CommitMismatch { begin: _ } => "Commit",
            ErrorKind::StreamRestarted { xid: _ } => "Stream Start",
            ErrorKind::PrepareMismatch { xid: _ } => "Prepare",
            ErrorKind::MissingPrepared { xid: _ } | ErrorKind::PreparedBefore { xid: _ } => {
                "Commit Prepared"
            }
            ErrorKind::TooLarge { size: _, limit: _ } => "frame",
            ErrorKind::Spool {
                kind: _,
                code: _,
                text: _,
            } => "spool",
            ErrorKind::NotPreparedState => "prepared state",
            ErrorKind::UnknownFact { name: _ } => "Message",
        }
    }

    /// The field at fault, if the fault is in a field.
    pub const fn field(&self) -> Option<&'static str> {
        match &self.kind {
            ErrorKind::Wire(error) => Some(error.field),
            ErrorKind::CommitMismatch { begin: _ } => Some("commit LSN"),
            ErrorKind::UnknownRelation { message: _, oid: _ }
            | ErrorKind::RepeatedRelation { oid: _ } => Some("relation OID"),
            ErrorKind::ColumnCount { .. } | ErrorKind::TooManyColumns { .. } => {
                Some("number of columns")
            }
            ErrorKind::InvalidUtf8 { message: _, field } | ErrorKind::NameTooLong { field, .. } => {
                Some(field)
            }
            ErrorKind::TooLarge { size: _, limit: _ } => Some("length"),
            ErrorKind::ClientEncoding { .. } => Some("value"),
            ErrorKind::MissingBegin { message: _, xid: _ }
            | ErrorKind::StreamRestarted { xid: _ }
            | ErrorKind::MissingPrepared { xid: _ }
            | ErrorKind::PreparedBefore { xid: _ } => Some("transaction ID"),
            ErrorKind::PrepareMismatch { xid: _ } => Some("prepare LSN"),
            ErrorKind::UnknownFact { name: _ } => Some("content"),
            ErrorKind::UnexpectedMessage {
                message: _,
                place: _,
            }
            | ErrorKind::Spool {
                kind: _,
                code: _,
                text: _,
            }
            | ErrorKind::NotPreparedState => None,
        }
    }
}

/// A fault inside one frame, whose place in the stream the caller knows.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) lsn: Option<Lsn>,
}

impl From<ErrorKind> for Fault {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, lsn: None }
    }
}

impl From<walrow_wire::Error> for Fault {
    fn from(error: walrow_wire::Error) -> Self {
        ErrorKind::Wire(error).into()
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        ErrorKind::from(error).into()
    }
}

impl Fault {
    /// A message in a place where the protocol does not allow it.
    #[cold]
    pub(crate) fn unexpected(message: &'static str, place: MessagePlace) -> Self {
        ErrorKind::UnexpectedMessage { message, place }.into()
    }

    /// The fault of a message at this LSN.
    pub(crate) fn near(mut self, lsn: Lsn) -> Self {
        self.lsn = Some(lsn).filter(|lsn| lsn.is_valid());
        self
    }

    /// The fault of a message at this LSN, unless it has an LSN already.
    pub(crate) fn or_near(self, lsn: Lsn) -> Self {
        match self.lsn {
            Some(_) => self,
            None => self.near(lsn),
        }
    }

    /// The fault of the frame at `offset`. The first `header` bytes of the frame were not in the
    /// stream.
    #[cold]
    pub(crate) fn at_frame(self, header: usize, offset: u64) -> Error {
        let Self { kind, lsn } = self;
        let inside = match &kind {
            ErrorKind::Wire(error) => error.offset.saturating_sub(header) as u64,
            _ => 0,
        };
        Error {
            kind,
            offset: offset.saturating_add(inside),
            lsn,
        }
    }
}

/// A place in a stream, in an error's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Location {
    /// The number of bytes before it.
    pub offset: u64,
    /// The LSN of the message, or of its transaction's commit, if it is known.
    pub lsn: Option<Lsn>,
}

impl Location {
    /// A place in a stream.
    pub const fn new(offset: u64, lsn: Option<Lsn>) -> Self {
        Self { offset, lsn }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {} of the stream", self.offset)?;
        match self.lsn {
            Some(lsn) => write!(f, ", lsn {lsn}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind.fmt(f)?;
        for remedy in self.kind.remedies() {
            write!(f, "; {remedy}")?;
        }
        match self.location() {
            Some(location) => write!(f, " ({location})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self { kind, offset, lsn } = self;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("offset", offset)
            .field("lsn", lsn)
            .finish()
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(Words(self)).fmt(f)
    }
}

/// The error's text, without escapes in names.
struct Words<'a>(&'a ErrorKind);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // Its own offset counts from the start of the frame.
            ErrorKind::Wire(error) => error.reason().fmt(f),
            ErrorKind::UnexpectedMessage { message, place } => write!(f, "{message} {place}"),
            ErrorKind::CommitMismatch { begin } => write!(
                f,
                "Commit: commit LSN is not {begin}, which Begin announced"
            ),
            ErrorKind::UnknownRelation { message, oid } => write!(
                f,
                "{message}: no Relation message described relation {oid} before"
            ),
            ErrorKind::ColumnCount {
                message,
                relation,
                expected,
                found,
            } => write!(
                f,
                "{message}: {found} cells for the {expected} columns of {relation}"
            ),
            ErrorKind::ClientEncoding { found, wanted } => write!(
                f,
                "the session's client_encoding must be {wanted}, not {}",
                Printable(found)
            ),
            ErrorKind::InvalidUtf8 { message, field } => {
                write!(f, "{message}: {field} is not UTF-8")
            }
            ErrorKind::NameTooLong {
                message,
                field,
                size,
                limit,
            } => write!(
                f,
                "{message}: {field} of {size} bytes; at most {limit} are possible"
            ),
            ErrorKind::TooManyColumns {
                oid,
                columns,
                limit,
            } => write!(
                f,
                "Relation: {columns} columns of relation {oid}; a table has at most {limit}"
            ),
            ErrorKind::RepeatedRelation { oid } => {
                write!(f, "Truncate: relation {oid} is named twice")
            }
            ErrorKind::MissingBegin { message, xid } => {
                write!(f, "{message}: transaction {xid} began before the stream")
            }
            ErrorKind::StreamRestarted { xid } => write!(
                f,
                "Stream Start: transaction {xid} begins again while it is open"
            ),
            ErrorKind::PrepareMismatch { xid } => write!(
                f,
                "Prepare does not match its Begin Prepare, of transaction {xid}"
            ),
            ErrorKind::MissingPrepared { xid } => write!(
                f,
                "Commit Prepared: the rows of transaction {xid} are not in the stream, it was \
                 prepared before"
            ),
            ErrorKind::PreparedBefore { xid } => write!(
                f,
                "Commit Prepared: the rows of transaction {xid} are not in the stream. It may have \
                 been prepared before the slot was where the log begins. Begin with a new slot, a \
                 new log, and a new copy of the tables"
            ),
            ErrorKind::TooLarge { size, limit } => write!(
                f,
                "a message of {size} bytes is larger than the message limit, {limit} bytes"
            ),
            ErrorKind::Spool { text, .. } => write!(
                f,
                "the bytes of open transactions cannot be spooled: {text}"
            ),
            ErrorKind::NotPreparedState => {
                f.write_str("not a complete state of prepared transactions")
            }
            ErrorKind::UnknownFact { name } => write!(
                f,
                "the log has a fact of a later version of walrow, {}: upgrade this walrow",
                Printable(name)
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Wire(error) => Some(error),
            _ => None,
        }
    }
}
