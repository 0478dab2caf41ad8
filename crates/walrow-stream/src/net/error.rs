//! The errors of a [`Net`](crate::Net): why the rows of a table are not known.

use crate::error::Error;
use crate::printable::Printable;
use std::fmt;
use std::io;
use walrow_wire::Lsn;

/// The reason why a [`Net`](crate::Net) failed.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[non_exhaustive]
pub enum NetError {
    /// A row does not follow the protocol.
    Stream(Error),
    /// Rows cannot be stored or read.
    Spool(io::Error),
    /// The bytes are not a part of net changes, or not of the same table.
    Part,
    /// The changes do not give the rows of the table.
    #[non_exhaustive]
    Incomplete {
        /// The table, as `schema.name`.
        table: String,
        /// The transaction's commit LSN.
        lsn: Lsn,
        /// The missing part.
        gap: Gap,
    },
}

/// The part that is missing in the changes, or that a target cannot have.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Gap {
    /// The row that was updated or deleted.
    Row,
    /// The removal of a row whose key another row has now.
    Removal,
    /// The value of a column, which was never sent.
    Value {
        /// The column.
        column: String,
    },
    /// The identity of the row that was updated or deleted: there is no replica identity.
    Identity,
    /// Whether a column was renamed, or was dropped and another column was added.
    Columns {
        /// The column that went.
        went: String,
        /// The column that came.
        came: String,
    },
    /// The values of a column that has a new name: the target's rows have them under the old name.
    Renamed {
        /// The old name.
        before: String,
        /// The new name.
        after: String,
    },
    /// The values of a column that was dropped and added again: the target's rows have the values of
    /// the dropped column.
    CameBack {
        /// The column.
        column: String,
    },
    /// The values of a column whose type was changed.
    Type {
        /// The column.
        column: String,
    },
    /// The value of a key in a change: it is NULL.
    NullKey {
        /// The column.
        column: String,
    },
    /// The one row of a key: there are several at the end of a transaction.
    DuplicateKey {
        /// The columns of the key.
        columns: Vec<String>,
    },
    /// A column of the key, which the table or its replica identity lacks.
    Key {
        /// The column.
        column: String,
    },
    /// A value of a row that the target does not have: it was never sent.
    NeverSent {
        /// The column.
        column: String,
    },
}

impl Gap {
    /// The name of the gap, which stays the same in later versions.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NullKey { .. } => "null_key",
            Self::DuplicateKey { .. } => "duplicate_key",
            Self::NeverSent { .. } => "never_sent",
            _ => "incomplete",
        }
    }

    /// The column, if there is one.
    pub fn column(&self) -> Option<&str> {
        match self {
            Self::Value { column }
            | Self::Type { column }
            | Self::CameBack { column }
            | Self::NullKey { column }
            | Self::Key { column }
            | Self::NeverSent { column } => Some(column),
            _ => None,
        }
    }
}

/// The error for stored bytes that cannot be read.
#[cold]
pub(super) fn damaged() -> NetError {
    let kind = io::ErrorKind::InvalidData;
    NetError::Spool(io::Error::new(kind, "the file of rows is damaged"))
}

impl From<Error> for NetError {
    fn from(error: Error) -> Self {
        Self::Stream(error)
    }
}

impl From<io::Error> for NetError {
    fn from(error: io::Error) -> Self {
        Self::Spool(error)
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Row => f.write_str("a changed row is not there: it is older than the changes"),
            Self::Removal => {
                f.write_str("a row gets the key of another one, whose removal was not sent")
            }
            Self::Value { column } => {
                write!(f, "the value of {} was never sent", Printable(column))
            }
            Self::Identity => f.write_str(
                "it is not known which row was changed: the table has no replica identity",
            ),
            Self::Columns { went, came } => write!(
                f,
                "column {} disappeared and {} appeared; the stream does not say whether it was renamed",
                Printable(went),
                Printable(came)
            ),
            Self::Renamed { before, after } => write!(
                f,
                "column {} was renamed to {}, and the target has its values under the old name",
                Printable(before),
                Printable(after)
            ),
            Self::CameBack { column } => write!(
                f,
                "column {} was dropped and added again, and the target has the values from before",
                Printable(column)
            ),
            Self::Type { column } => write!(
                f,
                "the type of column {} changed, and the new values were not sent",
                Printable(column)
            ),
            Self::NullKey { column } => write!(
                f,
                "column {} of the key is NULL in a change",
                Printable(column)
            ),
            Self::DuplicateKey { columns } => write!(
                f,
                "several rows have one key ({}) at the end of a transaction",
                Printable(&columns.join(", "))
            ),
            Self::Key { column } => {
                write!(f, "old images lack column {} of the key", Printable(column))
            }
            Self::NeverSent { column } => write!(
                f,
                "no value of column {} was ever sent for a row that the target does not have",
                Printable(column)
            ),
        }
    }
}

impl fmt::Display for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Spool(error) => error.fmt(f),
            Self::Part => f.write_str("the bytes are not a part of net changes of this table"),
            Self::Incomplete { table, lsn, gap } => {
                write!(f, "{}: {gap} (lsn {lsn})", Printable(table))
            }
        }
    }
}

impl fmt::Debug for NetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::Stream(error) => f.debug_tuple("Stream").field(error).finish(),
            Self::Spool(error) => f.debug_tuple("Spool").field(error).finish(),
            Self::Part => f.write_str("Part"),
            Self::Incomplete { table, lsn, gap } => f
                .debug_struct("Incomplete")
                .field("table", table)
                .field("lsn", lsn)
                .field("gap", gap)
                .finish(),
        }
    }
}

impl std::error::Error for NetError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Spool(error) => Some(error),
            Self::Part | Self::Incomplete { .. } => None,
        }
    }
}
