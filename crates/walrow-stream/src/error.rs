//! What is wrong with a stream, and where.

use std::fmt;
use walrow_wire::{Lsn, Oid};

/// A stream that cannot be read on: what, at which byte, near which LSN.
///
/// Never carries a row's contents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Bytes fed to the assembler before the fault.
    pub offset: u64,
    /// The LSN of the message, or of its transaction's commit, where one is known.
    pub lsn: Option<Lsn>,
}

/// What is wrong with a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bytes that are not the protocol.
    Wire(walrow_wire::Error),
    /// A message in a place where the protocol has none.
    UnexpectedMessage {
        /// The message, by the manual's name.
        message: &'static str,
        /// Where it came: `"outside a transaction"`.
        place: &'static str,
    },
    /// A Commit whose commit LSN is not the one its Begin announced.
    CommitMismatch {
        /// What Begin announced.
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
    /// A name that is not UTF-8.
    InvalidUtf8 {
        /// The message, by the manual's name.
        message: &'static str,
        /// The field.
        field: &'static str,
    },
    /// A message of a streamed or prepared transaction, which are not read yet.
    NotYet {
        /// The message, by the manual's name.
        message: &'static str,
        /// The option of `START_REPLICATION` to leave off.
        option: &'static str,
    },
}

impl Error {
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
            | ErrorKind::NotYet { message, option: _ } => message,
            ErrorKind::CommitMismatch { begin: _ } => "Commit",
        }
    }

    /// The field at fault, where it is one.
    pub const fn field(&self) -> Option<&'static str> {
        match &self.kind {
            ErrorKind::Wire(error) => Some(error.field),
            ErrorKind::CommitMismatch { begin: _ } => Some("commit LSN"),
            ErrorKind::UnknownRelation { message: _, oid: _ } => Some("relation OID"),
            ErrorKind::ColumnCount {
                message: _,
                relation: _,
                expected: _,
                found: _,
            } => Some("number of columns"),
            ErrorKind::InvalidUtf8 { message: _, field } => Some(field),
            ErrorKind::UnexpectedMessage {
                message: _,
                place: _,
            }
            | ErrorKind::NotYet {
                message: _,
                option: _,
            } => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // Its own offset counts from the frame; ours, below, from the stream's start.
            ErrorKind::Wire(error) => {
                let text = error.to_string();
                let offset = format!(" (byte {})", error.offset);
                f.write_str(text.strip_suffix(&offset).unwrap_or(&text))?;
            }
            ErrorKind::UnexpectedMessage { message, place } => write!(f, "{message} {place}")?,
            ErrorKind::CommitMismatch { begin } => {
                write!(
                    f,
                    "Commit: commit LSN is not {begin}, which Begin announced"
                )?;
            }
            ErrorKind::UnknownRelation { message, oid } => {
                write!(
                    f,
                    "{message}: no Relation message described relation {oid} before"
                )?;
            }
            ErrorKind::ColumnCount {
                message,
                relation,
                expected,
                found,
            } => write!(
                f,
                "{message}: {found} cells for the {expected} columns of {relation}"
            )?,
            ErrorKind::InvalidUtf8 { message, field } => write!(
                f,
                "{message}: {field} is not UTF-8 (the walsender's client_encoding must be UTF8)"
            )?,
            ErrorKind::NotYet { message, option } => write!(
                f,
                "{message}: not supported yet; start replication with {option}"
            )?,
        }
        write!(f, " (byte {} of the stream", self.offset)?;
        if let Some(lsn) = self.lsn {
            write!(f, ", lsn {lsn}")?;
        }
        f.write_str(")")
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
