//! The errors of a [`Fold`](crate::Fold): why the rows of a table are not known.

use crate::error::Error;
use crate::printable::Printable;
use std::fmt;
use std::io;
use walrow_wire::Lsn;

/// The reason why a [`Fold`](crate::Fold) failed.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[non_exhaustive]
pub enum FoldError {
    /// A row does not follow the protocol.
    Stream(Error),
    /// Rows cannot be stored or read.
    Spool(io::Error),
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

/// The part that is missing in the changes.
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
    /// The values of a column whose type was changed.
    Type {
        /// The column.
        column: String,
    },
}

impl From<Error> for FoldError {
    fn from(error: Error) -> Self {
        Self::Stream(error)
    }
}

impl From<io::Error> for FoldError {
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
            Self::Type { column } => write!(
                f,
                "the type of column {} changed, and the new values were not sent",
                Printable(column)
            ),
        }
    }
}

impl fmt::Display for FoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) => error.fmt(f),
            Self::Spool(error) => error.fmt(f),
            Self::Incomplete { table, lsn, gap } => {
                write!(f, "{}: {gap} (lsn {lsn})", Printable(table))
            }
        }
    }
}

impl fmt::Debug for FoldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        match self {
            Self::Stream(error) => f.debug_tuple("Stream").field(error).finish(),
            Self::Spool(error) => f.debug_tuple("Spool").field(error).finish(),
            Self::Incomplete { table, lsn, gap } => f
                .debug_struct("Incomplete")
                .field("table", table)
                .field("lsn", lsn)
                .field("gap", gap)
                .finish(),
        }
    }
}

impl std::error::Error for FoldError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Stream(error) => Some(error),
            Self::Spool(error) => Some(error),
            Self::Incomplete { .. } => None,
        }
    }
}
