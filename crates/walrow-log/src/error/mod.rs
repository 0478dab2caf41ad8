//! The errors of a log.
//!
//! An error is data: a kind, the object, and remedies. Its text in Rust names them in neutral
//! words.

pub(crate) mod hold;
pub(crate) mod remedy;

use crate::error::hold::Hold;
use crate::error::remedy::Remedy;
use std::fmt;
use std::io;
use walrow_stream::{Gap, Printable};
use walrow_wire::Lsn;

/// The reason why a log cannot be read or written, and the object where this was found.
///
/// Its text is the [reason](Error::reason), then the [remedies](Error::remedies). `{:?}` prints the
/// same text, and `{:#?}` the fields.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// The kind of the error.
    pub kind: ErrorKind,
    /// The name of the object in the log's directory. Empty for the directory itself.
    pub object: String,
}

/// The kind of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The store failed.
    Store {
        /// The kind of the failure.
        kind: io::ErrorKind,
        /// The system's error number.
        code: Option<i32>,
        /// The system's own words.
        text: String,
    },
    /// Bytes could not be made durable, so it is not known which bytes are durable. Open the log
    /// again.
    NotSynced {
        /// The system's error number.
        code: Option<i32>,
        /// The system's own words.
        text: String,
    },
    /// The directory is not a log.
    NotALog,
    /// The object does not belong to a log.
    Foreign,
    /// A version of walrow that was never released wrote it.
    Unreleased {
        /// The version of its format.
        found: u32,
    },
    /// A later version of walrow wrote it.
    Version {
        /// The version of its format.
        found: u32,
    },
    /// Its bytes differ from the bytes that were written.
    Damaged {
        /// The part that differs.
        what: DamagedPart,
    },
    /// A segment is missing.
    Missing {
        /// The LSN where the segment before it ends.
        after: Lsn,
    },
    /// An object is missing that other objects need.
    Absent,
    /// Segments were removed that a reader needs.
    Pruned {
        /// The LSN where the reader begins.
        start: Lsn,
        /// The LSN where the log begins.
        until: Lsn,
    },
    /// A registered reader or a load needs changes that would be removed or erased.
    Held {
        /// The reader or load.
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
        /// The new position.
        to: Lsn,
    },
    /// The log does not reach a position.
    PastEnd {
        /// The position.
        position: Lsn,
        /// The LSN where the log ends.
        end: Lsn,
    },
    /// A column that would be erased identifies rows.
    KeyColumn,
    /// A column that would be erased may have had another name before, which the log does not say.
    EarlierName {
        /// The table, as `schema.name`.
        table: String,
        /// The name that it has in other versions of the table.
        column: String,
    },
    /// Transactions are prepared and not decided.
    Prepared,
    /// The store is read only, so that segments and readers cannot be changed.
    ReadOnly,
    /// Another process removes, merges or erases segments, or changes readers for too long.
    Busy,
    /// The caller has stopped the call.
    Interrupted,
    /// Another process writes to the log.
    Locked,
    /// Another writer has published the same segment with other contents.
    Published,
    /// The writer cannot go on: open the log again.
    Broken {
        /// The reason.
        why: BrokenBy,
    },
    /// The log's directory, or a file that its writer has open, was moved or replaced.
    Replaced,
    /// A commit ends at or before its own LSN.
    EndLsn {
        /// The commit LSN.
        lsn: Lsn,
        /// The LSN where it ends, as the stream says.
        end: Lsn,
    },
    /// A transaction or message comes before the end of the log, but the log does not have it.
    OutOfOrder {
        /// Its LSN.
        lsn: Lsn,
        /// The LSN where the log ends.
        end: Lsn,
    },
    /// The changes come from another source than the changes in the log.
    OtherSource {
        /// The part that differs.
        what: SourcePart,
        /// The value in the log.
        log: String,
        /// The value of the new changes.
        found: String,
    },
    /// The log was received from another server, or the server was set back.
    OtherServer {
        /// How the server differs from the log.
        why: OtherServer,
        /// The LSN of the difference.
        lsn: Lsn,
        /// The LSN where the log ends.
        position: Lsn,
    },
    /// A load is not possible.
    Load {
        /// The reason.
        why: LoadRefusal,
    },
    /// The rows of a load are not valid rows of a COPY.
    Copy(walrow_wire::Error),
    /// The log does not have the table.
    NoTable,
    /// Two tables have the name.
    Ambiguous {
        /// The first table, as `schema.name`.
        one: String,
        /// The second table, as `schema.name`.
        other: String,
    },
    /// The rows of the table are not known as of an LSN or a time. They are known only later.
    TooEarly {
        /// The table, as `schema.name`.
        table: String,
        /// The first LSN where they are known.
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
        /// The part that is missing.
        gap: Gap,
    },
    /// In the range or at its start, another table had the name until it was dropped or renamed.
    OtherTable {
        /// The name, as `schema.name`.
        table: String,
        /// The LSN where the last changes of the other table end, at the latest.
        lsn: Lsn,
    },
    /// The net changes do not fit the target's rows.
    OtherTarget {
        /// The part of its checkpoint that differs, as `"key"`.
        what: &'static str,
        /// The checkpoint's value.
        target: String,
        /// The log's value.
        log: String,
    },
    /// The text is not a [`NetCheckpoint`](crate::NetCheckpoint).
    Checkpoint,
    /// Rows of the table were erased in the range, perhaps the delete of a row that the target has.
    Erased {
        /// The table, as `schema.name`.
        table: String,
        /// The LSN where the last transaction with erased rows ends.
        lsn: Lsn,
    },
    /// The bytes are not a part of net changes of the table.
    NetPart,
    /// The stream does not follow the protocol.
    Stream(walrow_stream::Error),
}

impl ErrorKind {
    /// The name of the kind, which stays the same in later versions.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Store { .. } => "store",
            Self::NotSynced { .. } => "not_synced",
            Self::NotALog => "not_a_log",
            Self::Foreign => "foreign",
            Self::Unreleased { .. } => "unreleased",
            Self::Version { .. } => "version",
            Self::Damaged { .. } => "damaged",
            Self::Missing { .. } => "missing",
            Self::Absent => "absent",
            Self::Pruned { .. } | Self::NotLoaded { .. } => "pruned",
            Self::Held { .. } => "held",
            Self::NoReader { .. } => "no_reader",
            Self::ReaderName => "reader_name",
            Self::Backwards { .. } => "backwards",
            Self::PastEnd { .. } => "past_end",
            Self::KeyColumn => "key_column",
            Self::EarlierName { .. } => "earlier_name",
            Self::Prepared => "prepared",
            Self::ReadOnly => "read_only",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Locked => "locked",
            Self::Published => "published",
            Self::Broken { .. } => "broken",
            Self::Replaced => "replaced",
            Self::EndLsn { .. } => "end_lsn",
            Self::OutOfOrder { .. } => "out_of_order",
            Self::OtherSource { .. } => "other_source",
            Self::OtherServer { .. } => "other_server",
            Self::Load { .. } => "load",
            Self::Copy(_) => "copy",
            Self::NoTable => "no_table",
            Self::Ambiguous { .. } => "ambiguous",
            Self::TooEarly { .. } => "too_early",
            Self::Incomplete { gap, .. } => gap.code(),
            Self::OtherTable { .. } => "other_table",
            Self::OtherTarget { .. } => "other_target",
            Self::Checkpoint => "checkpoint",
            Self::Erased { .. } => "erased",
            Self::NetPart => "net_part",
            Self::Stream(_) => "stream",
        }
    }
}

/// A part of a log that may be damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamagedPart {
    /// The name of a segment.
    Name,
    /// The LSNs where a segment begins and ends.
    Range,
    /// The size of a segment.
    Size,
    /// The foot of a segment.
    Foot,
    /// The end of a segment, which has been cut.
    End,
    /// The stream in a segment.
    Content,
    /// The checksum of a segment.
    Checksum,
    /// A block of the journal.
    Block,
    /// The order of the transactions in the journal.
    Order,
    /// The catalog.
    Catalog,
    /// A prepared transaction.
    Prepared,
    /// The state of the log beside its segments.
    State,
    /// The record of a reader.
    Reader,
    /// The source of its changes.
    Source,
    /// The index, which follows from the segments.
    Index,
}

impl fmt::Display for DamagedPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Name => "its name",
            Self::Range => "its range",
            Self::Size => "its size",
            Self::Foot => "its foot",
            Self::End => "its end",
            Self::Content => "its content",
            Self::Checksum => "its checksum",
            Self::Block => "a block that was written",
            Self::Order => "the order of its transactions",
            Self::Catalog => "the catalog",
            Self::Prepared => "a prepared transaction",
            Self::State => "the record of what was removed, merged and loaded",
            Self::Reader => "the record of a reader",
            Self::Source => "where its changes come from",
            Self::Index => "the index",
        })
    }
}

/// A part of the source of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourcePart {
    /// The system identifier of the cluster.
    SystemIdentifier,
    /// The database.
    Database,
    /// The replication slot.
    Slot,
}

impl fmt::Display for SourcePart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SystemIdentifier => "system identifier",
            Self::Database => "database",
            Self::Slot => "slot",
        })
    }
}

/// How a server differs from the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OtherServer {
    /// It has not sent again the transaction or message that the log took last.
    Missing,
    /// It has sent a transaction or message that the log should have, but does not have.
    Foreign,
}

/// Why a writer cannot go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BrokenBy {
    /// Bytes could not be made durable.
    NotSynced,
    /// The log's directory, or its journal, was moved or replaced.
    Replaced,
    /// Another writer has published the same segment.
    OtherWriter,
    /// A call has ended in the middle.
    Panicked,
}

impl fmt::Display for BrokenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotSynced => "bytes could not be made durable",
            Self::Replaced => "the log was moved or replaced",
            Self::OtherWriter => "another writer has published the same segment",
            Self::Panicked => "an earlier call has ended in the middle",
        })
    }
}

/// Why a load is not possible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LoadRefusal {
    /// The log has changes, so it cannot begin with a load.
    NotEmpty,
    /// Another load is not complete.
    Another,
    /// Its snapshot is from before the end of the log.
    TooEarly,
    /// The log begins with it, so it cannot be given up.
    First,
    /// The log begins with a load, which was not begun.
    NotBegun,
    /// It is not the load that was begun last.
    NoLoad,
}

impl fmt::Display for LoadRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEmpty => "the log has changes already, so it cannot begin with a load",
            Self::Another => "another load is not complete",
            Self::TooEarly => "its snapshot is from before the end of the log",
            Self::First => "the log begins with it",
            Self::NotBegun => "the log begins with a load, which was not begun",
            Self::NoLoad => "it is not the load that was begun last",
        })
    }
}

impl Error {
    pub(crate) fn new(object: &str, kind: ErrorKind) -> Self {
        Self {
            kind,
            object: object.to_owned(),
        }
    }

    /// The object and the kind of the error, without remedies.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| {
            if !self.object.is_empty() {
                write!(f, "{}: ", Printable(&self.object))?;
            }
            write!(f, "{}", self.kind)
        })
    }

    /// The remedies for the error. Each of them alone is enough.
    pub fn remedies(&self) -> Vec<Remedy> {
        match &self.kind {
            ErrorKind::NotALog => vec![Remedy::EmptyDirectory],
            // A later version of walrow may know it.
            ErrorKind::Foreign if self.object.starts_with('_') => vec![Remedy::LaterVersion],
            ErrorKind::Foreign => vec![Remedy::RemoveFile],
            ErrorKind::Unreleased { .. } => vec![Remedy::ReceiveAnew],
            // The next writer makes the index again.
            ErrorKind::Damaged {
                what: DamagedPart::Index,
            } => vec![Remedy::RemoveFile],
            ErrorKind::Version { .. } => vec![Remedy::LaterVersion],
            ErrorKind::Damaged { .. } | ErrorKind::Missing { .. } | ErrorKind::Absent => {
                vec![Remedy::Restore]
            }
            ErrorKind::Pruned { until, .. } => vec![Remedy::ReadFrom { start: *until }],
            ErrorKind::Held { hold } => {
                let mut remedies = hold.remedies();
                remedies.push(Remedy::Force);
                remedies
            }
            ErrorKind::NoReader { name } => vec![Remedy::Register {
                reader: name.clone(),
            }],
            ErrorKind::Backwards { name, .. } => vec![Remedy::Rewind {
                reader: name.clone(),
            }],
            ErrorKind::EarlierName { .. } => vec![Remedy::EraseEarlierName],
            ErrorKind::Prepared => vec![Remedy::Decide],
            ErrorKind::ReadOnly => vec![Remedy::WhereItIsWritten],
            ErrorKind::Busy => vec![Remedy::Retry],
            ErrorKind::Broken { .. } => vec![Remedy::OpenAgain],
            ErrorKind::Replaced => vec![Remedy::PutBack],
            ErrorKind::OutOfOrder { .. } => vec![Remedy::OlderFirst],
            ErrorKind::Locked => vec![Remedy::StopWriter, Remedy::OtherLog],
            ErrorKind::OtherSource { .. } => vec![Remedy::OtherLog],
            ErrorKind::Ambiguous { .. } => vec![Remedy::OneTable],
            // These are about the target, and a load does not avoid them.
            ErrorKind::Incomplete {
                gap: Gap::NullKey { .. } | Gap::DuplicateKey { .. } | Gap::Key { .. },
                ..
            } => Vec::new(),
            ErrorKind::NotLoaded { table }
            | ErrorKind::Incomplete { table, .. }
            | ErrorKind::OtherTable { table, .. }
            | ErrorKind::Erased { table, .. } => {
                vec![Remedy::Load {
                    table: table.clone(),
                }]
            }
            _ => Vec::new(),
        }
    }

    /// The commit LSN of the transaction where this was found, if there is one.
    pub fn lsn(&self) -> Option<Lsn> {
        match self.kind {
            ErrorKind::Incomplete { lsn, .. }
            | ErrorKind::OtherTable { lsn, .. }
            | ErrorKind::Erased { lsn, .. } => Some(lsn),
            _ => None,
        }
    }

    /// Whether there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(
            &self.kind,
            ErrorKind::Store {
                kind: io::ErrorKind::NotFound,
                ..
            }
        )
    }

    /// Whether the store has no room.
    pub(crate) fn is_full(&self) -> bool {
        let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        matches!(&self.kind, ErrorKind::Store { kind, .. } if full.contains(kind))
    }

    /// Whether an object is missing that other objects belong to.
    pub(crate) fn is_missing(&self) -> bool {
        self.is_not_found() || matches!(self.kind, ErrorKind::Missing { .. })
    }

    pub(crate) fn store(object: &str, error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StaleNetworkFileHandle => {
                return Self::new(object, ErrorKind::Replaced);
            }
            io::ErrorKind::ReadOnlyFilesystem => return Self::new(object, ErrorKind::ReadOnly),
            _ => {}
        }
        let (kind, code) = (error.kind(), error.raw_os_error());
        let text = error.to_string();
        Self::new(object, ErrorKind::Store { kind, code, text })
    }
}

impl From<ErrorKind> for Error {
    /// Makes an error of the log as a whole.
    fn from(kind: ErrorKind) -> Self {
        Self::new("", kind)
    }
}

impl From<walrow_stream::Error> for Error {
    fn from(error: walrow_stream::Error) -> Self {
        Self::new("", ErrorKind::Stream(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)?;
        let remedies = self.remedies();
        for (place, remedy) in remedies.iter().enumerate() {
            f.write_str(match place {
                0 => "; ",
                _ if place.saturating_add(1) == remedies.len() => ", or ",
                _ => ", ",
            })?;
            remedy.fmt(f)?;
        }
        match self.lsn() {
            Some(lsn) => write!(f, " (lsn {lsn})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self { kind, object } = self;
        let mut shown = f.debug_struct("Error");
        shown.field("kind", kind).field("object", object).finish()
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store { text, .. } => write!(f, "{}", Printable(text)),
            Self::NotSynced { text, .. } => write!(
                f,
                "the changes could not be made durable: {}",
                Printable(text)
            ),
            Self::NotALog => {
                f.write_str("the directory is not a log: it has files, but none that walrow wrote")
            }
            Self::Foreign => f.write_str("the file is not a segment"),
            Self::Unreleased { found } => {
                write!(
                    f,
                    "an unreleased version of walrow wrote it, in format {found}"
                )
            }
            Self::Version { found } => {
                write!(f, "a later version of walrow wrote it, in format {found}")
            }
            Self::Damaged { what } => write!(f, "the file is damaged: {what} differs"),
            Self::Absent => f.write_str("the file is missing, and the log needs it"),
            Self::Missing { after } => write!(f, "the segment after {after} is missing"),
            Self::Pruned { start, until } => write!(
                f,
                "the log begins at {until}, and changes between {start} and there were removed"
            ),
            Self::Held { hold } => write!(f, "{hold}, and needs what would be removed"),
            Self::NoReader { name } => write!(f, "no reader {} is registered", Printable(name)),
            Self::ReaderName => f.write_str(
                "the name of a reader has 1 to 64 bytes of UTF-8, and no control characters",
            ),
            Self::Backwards { name, from, to } => write!(
                f,
                "the reader {} is already at {from}, after {to}",
                Printable(name)
            ),
            Self::PastEnd { position, end } => {
                write!(f, "the log ends at {end}, before {position}")
            }
            Self::KeyColumn => f.write_str(
                "the column is part of the replica identity: without it, updates and deletes would \
                 not say which row they change",
            ),
            Self::EarlierName { table, column } => write!(
                f,
                "an earlier version of {} lacks {}, which it may have under another name: its catalog \
                 is not in the log",
                Printable(table),
                Printable(column)
            ),
            Self::Prepared => {
                f.write_str("a transaction is prepared, and may have rows that are to be erased")
            }
            Self::ReadOnly => f.write_str("the log can only be read here"),
            Self::OtherTarget { what, target, log } => write!(
                f,
                "the target has another {what}, {}, and the log has {}: empty the target, and begin \
                 at 0/0",
                Printable(target),
                Printable(log)
            ),
            Self::Checkpoint => f.write_str("the text is not the checkpoint of a target"),
            Self::Busy => f.write_str("another process changes the log's readers or segments"),
            Self::Interrupted => f.write_str("it was interrupted"),
            Self::Locked => f.write_str("another process writes to the log"),
            Self::Published => f.write_str(
                "another writer has published this segment with other contents: only one writer \
                 may use a log",
            ),
            Self::OtherSource { what, log, found } => write!(
                f,
                "the changes come from another source: the log has {what} {}, not {}",
                Printable(log),
                Printable(found)
            )
            .and_then(|()| match what {
                SourcePart::Database => f.write_str(" (if it was renamed, give it its name back)"),
                _ => Ok(()),
            }),
            Self::OtherServer { why, lsn, position } => match why {
                OtherServer::Missing => write!(
                    f,
                    "the server has sent its WAL up to {position}, where the log ends, without what the \
                     log took at {lsn}"
                ),
                OtherServer::Foreign => write!(
                    f,
                    "the server has sent something at {lsn} that the log does not have, which ends at \
                     {position}"
                ),
            },
            Self::Broken { why } => write!(f, "the log cannot be written further: {why}"),
            Self::Replaced => f.write_str("it was moved or replaced while it was in use"),
            Self::EndLsn { lsn, end } => write!(
                f,
                "the commit at {lsn} ends at {end}, as the stream says: no server sends that"
            ),
            Self::OutOfOrder { lsn, end } => write!(
                f,
                "the stream has something at {lsn} that the log lacks, which ends at {end}"
            ),
            Self::Load { why } => write!(f, "the load is not possible: {why}"),
            Self::Copy(error) => write!(f, "the rows of a load: {error}"),
            Self::NoTable => f.write_str("the log does not have the table"),
            Self::Ambiguous { one, other } => write!(
                f,
                "the name matches {} and {}",
                Printable(one),
                Printable(other)
            ),
            Self::TooEarly { table, first } => write!(
                f,
                "{}: its rows are known from {first} on, not earlier",
                Printable(table)
            ),
            Self::NotLoaded { table } => write!(
                f,
                "{}: its rows are not known, because changes were removed from the log",
                Printable(table)
            ),
            Self::Incomplete { table, gap, .. } => write!(f, "{}: {gap}", Printable(table)),
            Self::OtherTable { table, .. } => write!(
                f,
                "{}: another table had this name in the range, and its rows are not removed",
                Printable(table)
            ),
            Self::Erased { table, .. } => write!(
                f,
                "{}: changes after the start were erased, perhaps the delete of a row that the \
                 target still has",
                Printable(table)
            ),
            Self::NetPart => f.write_str("the bytes are not a part of net changes of this table"),
            Self::Stream(error) => error.fmt(f),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_is_read_only_is_a_log_that_is_read_only() {
        let failure = io::ErrorKind::ReadOnlyFilesystem.into();
        let error = Error::store("_reader-r", &failure);
        assert_eq!(
            (error.kind.code(), &*error.object),
            ("read_only", "_reader-r")
        );
    }

    #[test]
    fn the_text_is_the_reason_then_the_remedies_then_the_place() {
        let hold = Hold::Reader {
            name: "r\u{202e}".to_owned(),
            position: Lsn(1),
            used: 0,
        };
        let held = Error::new("", ErrorKind::Held { hold });
        assert_eq!(
            held.to_string(),
            "the reader r\\u202e is at 0/1, and needs what would be removed; advance the reader, \
             forget it, or set force"
        );
        let what = DamagedPart::Foot;
        let damaged = Error::new("a", ErrorKind::Damaged { what });
        assert_eq!(
            damaged.to_string(),
            "a: the file is damaged: its foot differs; restore the file from a copy"
        );
        let incomplete = ErrorKind::Incomplete {
            table: "public.t".to_owned(),
            lsn: Lsn(2),
            gap: Gap::Row,
        };
        assert!(
            Error::new("", incomplete)
                .to_string()
                .ends_with("; load the table again (lsn 0/2)")
        );
        assert_eq!(
            Error::new("", ErrorKind::Locked).to_string(),
            "another process writes to the log; stop it first, or use another log"
        );
    }
}
