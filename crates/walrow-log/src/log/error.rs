//! What is wrong with a log.

use crate::log::hold::Hold;
use std::fmt;
use std::io;
use walrow_stream::{Gap, Printable};
use walrow_wire::Lsn;

/// A log that cannot be read or written, and the object where this was found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The name of the object in the log's directory; empty for the directory itself.
    pub object: String,
}

/// What is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store failed.
    Store {
        /// What kind of failure.
        kind: io::ErrorKind,
        /// The system's error number.
        code: Option<i32>,
        /// The system's own words.
        text: String,
    },
    /// Bytes could not be made durable, so it is not known which are. Open the log again.
    NotSynced {
        /// The system's error number.
        code: Option<i32>,
        /// The system's own words.
        text: String,
    },
    /// The directory is not a log.
    NotALog,
    /// The object is not one of a log.
    Foreign,
    /// A later version of walrow wrote it.
    Version {
        /// The version of its format.
        found: u32,
    },
    /// Its bytes are not those that were written.
    Damaged {
        /// What differs.
        what: &'static str,
    },
    /// A segment is missing.
    Missing {
        /// Where the segment before it ends.
        after: Lsn,
    },
    /// Segments were removed that a reader needs.
    Pruned {
        /// Where the reader begins.
        start: Lsn,
        /// Where the log begins.
        until: Lsn,
    },
    /// A registered reader or a load needs the segments that would be removed.
    Held {
        /// Which.
        hold: Hold,
    },
    /// No reader is registered under this name.
    NoReader {
        /// The name.
        name: String,
    },
    /// The name is empty, too long, or has control characters.
    ReaderName,
    /// A registered reader would go back.
    Backwards {
        /// The reader.
        name: String,
        /// Its position.
        from: Lsn,
        /// The new one.
        to: Lsn,
    },
    /// The log does not reach a position.
    PastEnd {
        /// The position.
        position: Lsn,
        /// Where the log ends.
        end: Lsn,
    },
    /// A column that would be erased identifies rows.
    KeyColumn,
    /// Transactions are prepared and not decided.
    Prepared,
    /// The store is read only, so that segments and readers cannot be changed.
    ReadOnly,
    /// Another process registers readers, or removes or replaces segments, for too long.
    Busy,
    /// Another process writes to the log.
    Locked,
    /// Another writer has published the same segment with other contents.
    Published,
    /// The changes come from another source than those in the log.
    OtherSource {
        /// What differs.
        what: &'static str,
        /// In the log.
        log: String,
        /// Of the new changes.
        found: String,
    },
    /// A load is not possible.
    Load {
        /// Why not.
        what: &'static str,
    },
    /// The rows of a load are not those of a COPY.
    Copy(walrow_wire::Error),
    /// The log does not have the table.
    NoTable,
    /// Two tables have the name.
    Ambiguous {
        /// One of them, as `schema.name`.
        one: String,
        /// Another one.
        other: String,
    },
    /// The rows of the table are not known as of an LSN or a time, but later.
    TooEarly {
        /// The table, as `schema.name`.
        table: String,
        /// From where on they are known.
        first: Lsn,
    },
    /// The rows of the table are not known: changes of it were removed, and no load is left.
    NotLoaded {
        /// The table, as `schema.name`.
        table: String,
    },
    /// The changes of the table do not give its rows.
    Incomplete {
        /// The table, as `schema.name`.
        table: String,
        /// The commit LSN of the transaction where this was found.
        lsn: Lsn,
        /// What is missing.
        gap: Gap,
    },
    /// The stream does not follow the protocol.
    Stream(walrow_stream::Error),
}

impl Error {
    pub(crate) fn new(object: &str, kind: ErrorKind) -> Self {
        Self {
            kind,
            object: object.to_owned(),
        }
    }

    /// Whether there is no such object.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(
            &self.kind,
            ErrorKind::Store {
                kind: io::ErrorKind::NotFound,
                ..
            }
        )
    }

    /// Whether an object is missing that other objects belong to.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_not_found() || matches!(self.kind, ErrorKind::Missing { .. })
    }

    pub(crate) fn store(object: &str, error: &io::Error) -> Self {
        let (kind, code) = (error.kind(), error.raw_os_error());
        let text = error.to_string();
        Self::new(object, ErrorKind::Store { kind, code, text })
    }
}

impl From<walrow_stream::Error> for Error {
    fn from(error: walrow_stream::Error) -> Self {
        Self::new("", ErrorKind::Stream(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.object.is_empty() {
            write!(f, "{}: ", Printable(&self.object))?;
        }
        match &self.kind {
            ErrorKind::Store { text, .. } => write!(f, "{}", Printable(text)),
            ErrorKind::NotSynced { text, .. } => write!(
                f,
                "the changes could not be made durable: {}",
                Printable(text)
            ),
            ErrorKind::NotALog => f.write_str(
                "the directory is not a log: it has files, but none that walrow wrote; choose an \
                 empty or new directory",
            ),
            ErrorKind::Foreign => {
                f.write_str("the file is not a segment: remove it from the log's directory")
            }
            ErrorKind::Version { found } => write!(
                f,
                "a later version of walrow wrote format {found}: read it with that version"
            ),
            ErrorKind::Damaged { what } => write!(
                f,
                "the file is damaged: {what} differs; restore it from a copy"
            ),
            ErrorKind::Missing { after } => write!(
                f,
                "the segment after {after} is missing: restore the file from a copy"
            ),
            ErrorKind::Pruned { start, until } => write!(
                f,
                "the log begins at {until}, and changes between {start} and there were removed: read \
                 from {until} on, and load again what depends on earlier changes"
            ),
            ErrorKind::Held { hold } => write!(
                f,
                "{hold}, and needs segments that would be removed: advance or forget the reader, load \
                 the table again, or use force"
            ),
            ErrorKind::NoReader { name } => write!(
                f,
                "no reader {} is registered: register it first",
                Printable(name)
            ),
            ErrorKind::ReaderName => f.write_str(
                "the name of a reader has 1 to 64 bytes of UTF-8, and no control characters",
            ),
            ErrorKind::Backwards { name, from, to } => write!(
                f,
                "the reader {} is at {from} already, past {to}: rewind it to read changes again",
                Printable(name)
            ),
            ErrorKind::PastEnd { position, end } => {
                write!(f, "the log ends at {end}, before {position}")
            }
            ErrorKind::KeyColumn => f.write_str(
                "the column is part of the replica identity: without it, updates and deletes would \
                 not say which row they change",
            ),
            ErrorKind::Prepared => f.write_str(
                "a transaction is prepared, and may have rows that are to be erased: commit it or \
                 roll it back, receive that, and try again",
            ),
            ErrorKind::ReadOnly => {
                f.write_str("the log can only be read here: change it where its receiver writes it")
            }
            ErrorKind::Busy => f.write_str(
                "another process changes the log's readers or segments: try again later",
            ),
            ErrorKind::Locked => {
                f.write_str("another process writes to the log: stop it first, or use another log")
            }
            ErrorKind::Published => f.write_str(
                "another writer has published this segment with other contents: only one writer \
                 may use a log",
            ),
            ErrorKind::OtherSource { what, log, found } => write!(
                f,
                "the changes come from another source: the log has {what} {}, not {}; use another \
                 log",
                Printable(log),
                Printable(found)
            ),
            ErrorKind::Load { what } => write!(f, "the load is not possible: {what}"),
            ErrorKind::Copy(error) => write!(f, "the rows of a load: {error}"),
            ErrorKind::NoTable => f.write_str("the log does not have the table"),
            ErrorKind::Ambiguous { one, other } => write!(
                f,
                "the name is that of {} and of {}: choose one of them",
                Printable(one),
                Printable(other)
            ),
            ErrorKind::TooEarly { table, first } => write!(
                f,
                "{}: its rows are known from {first} on, not earlier",
                Printable(table)
            ),
            ErrorKind::NotLoaded { table } => write!(
                f,
                "{}: its rows are not known, because changes were removed from the log: load the \
                 table again",
                Printable(table)
            ),
            ErrorKind::Incomplete { table, lsn, gap } => write!(
                f,
                "{}: {gap}; load the table again (lsn {lsn})",
                Printable(table)
            ),
            ErrorKind::Stream(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.kind {
            ErrorKind::Stream(error) => Some(error),
            ErrorKind::Copy(error) => Some(error),
            _ => None,
        }
    }
}
