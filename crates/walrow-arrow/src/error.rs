//! Errors of a decoder, and where they occurred.

use std::fmt::{self, Write as _};
use walrow_stream::Printable;
use walrow_types::{CellError, SettingError, Unrepresentable};
use walrow_wire::Lsn;

/// Why decoding stopped, at which byte, LSN, table and column.
///
/// It never contains a value. Its `Debug` form is its text too, so a `main` that returns it prints
/// words. `{:#?}` prints the fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fields>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    kind: ErrorKind,
    offset: Option<u64>,
    lsn: Option<Lsn>,
    table: Option<String>,
    column: Option<String>,
}

/// Why decoding stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The stream is invalid, or a transaction cannot be stored.
    Stream(walrow_stream::Error),
    /// A cell is not a value of the column's type.
    #[non_exhaustive]
    Malformed {
        /// What was expected.
        expected: &'static str,
        /// The size of the cell in bytes.
        size: usize,
    },
    /// The column's Arrow type cannot hold a value.
    #[non_exhaustive]
    Unrepresentable {
        /// Why not.
        reason: String,
        /// The option that lets the value through, in Python.
        option: String,
    },
    /// A table, its columns or their types do not match the request.
    Schema(String),
    /// The options are invalid or contradict each other.
    Options(String),
    /// The source ends inside a frame or a transaction. All rows before that were returned.
    Unfinished,
    /// The server ended the stream with an error. Open transactions are not returned.
    #[non_exhaustive]
    Server {
        /// Its SQLSTATE.
        sqlstate: String,
    },
    /// The source cannot be read.
    #[non_exhaustive]
    Source {
        /// The kind of the source's error.
        kind: std::io::ErrorKind,
        /// The text of the source's error.
        text: String,
    },
    /// Arrow refused a batch: a bug in walrow.
    Arrow(String),
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        Self(Box::new(Fields {
            kind,
            offset: None,
            lsn: None,
            table: None,
            column: None,
        }))
    }

    /// A cell that did not become a value.
    #[cold]
    pub(crate) fn cell(error: CellError, size: usize, table: &str, column: &str, way: Way) -> Self {
        let kind = match error {
            CellError::Malformed(expected) => ErrorKind::Malformed { expected, size },
            CellError::Unrepresentable(reason) => ErrorKind::Unrepresentable {
                reason: reason.to_string(),
                option: way_out(reason, &format!("{table}.{column}"), way),
            },
        };
        Self::new(kind).in_table(table).in_column(column)
    }

    pub(crate) fn in_table(mut self, table: &str) -> Self {
        self.0.table = Some(table.to_owned());
        self
    }

    pub(crate) fn in_column(mut self, column: &str) -> Self {
        self.0.column = Some(column.to_owned());
        self
    }

    pub(crate) fn at(mut self, offset: u64, lsn: Lsn) -> Self {
        self.0.offset = Some(offset);
        self.0.lsn = Some(lsn).filter(|lsn| lsn.is_valid());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// The offset of the error in the stream, in bytes.
    pub fn offset(&self) -> Option<u64> {
        match &self.0.kind {
            ErrorKind::Stream(error) => Some(error.offset),
            _ => self.0.offset,
        }
    }

    /// The LSN of the change, or of its transaction's commit.
    pub fn lsn(&self) -> Option<Lsn> {
        match &self.0.kind {
            ErrorKind::Stream(error) => error.lsn,
            _ => self.0.lsn,
        }
    }

    /// The table, as `schema.name`.
    pub fn table(&self) -> Option<&str> {
        self.0.table.as_deref()
    }

    /// The column.
    pub fn column(&self) -> Option<&str> {
        self.0.column.as_deref()
    }
}

/// What a column can be that holds any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Text.
    Text,
    /// Bytes only: there is no text of the cell.
    Bytes,
    /// Nothing: its type is given.
    Null,
}

/// The option that lets such a value through.
fn way_out(reason: Unrepresentable, column: &str, way: Way) -> String {
    let column = python(column);
    let other = if way == Way::Bytes {
        "binary"
    } else {
        "string"
    };
    match reason {
        _ if way == Way::Null => format!("unrepresentable={{\"{column}\": \"null\"}}"),
        Unrepresentable::MoneyScale if way == Way::Bytes => {
            format!("types={{\"{column}\": \"binary\"}}")
        }
        Unrepresentable::BinaryCell
        | Unrepresentable::UnknownType
        | Unrepresentable::InvalidUtf8
        | Unrepresentable::Srid => {
            format!("types={{\"{column}\": \"binary\"}}")
        }
        Unrepresentable::MoneyScale => format!("types={{\"{column}\": \"decimal128(19, 2)\"}}"),
        Unrepresentable::TooLarge => format!("unrepresentable={{\"{column}\": \"null\"}}"),
        _ => format!(
            "types={{\"{column}\": \"{other}\"}} or unrepresentable={{\"{column}\": \"null\"}}"
        ),
    }
}

/// What stands for the text between the quotes of a Python string.
pub(crate) fn python(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // All below U+0100.
            c if c.is_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Self {
        Self::new(ErrorKind::Options(format!("session: {error}")))
    }
}

impl From<walrow_stream::Error> for Error {
    fn from(error: walrow_stream::Error) -> Self {
        let table = match &error.kind {
            walrow_stream::ErrorKind::ColumnCount { relation, .. } => Some(relation.clone()),
            _ => None,
        };
        let mut this = Self::new(ErrorKind::Stream(error));
        this.0.table = table;
        this
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printable(Words(&self.0)).fmt(f)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.0.fmt(f);
        }
        // It contains the text of its sources.
        fmt::Display::fmt(self, f)
    }
}

/// The error with names as they are.
struct Words<'a>(&'a Fields);

impl fmt::Display for Words<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fields {
            kind,
            offset,
            lsn,
            table,
            column,
        } = self.0;
        if let ErrorKind::Stream(error) = kind {
            return error.fmt(f);
        }
        match (table, column) {
            (Some(table), Some(column)) => write!(f, "{table}.{column}: ")?,
            (Some(table), None) => write!(f, "{table}: ")?,
            (None, _) => {}
        }
        match kind {
            ErrorKind::Malformed { expected, size } => {
                write!(f, "expected {expected} in a cell of {size} bytes")?;
            }
            ErrorKind::Unrepresentable { reason, option } => {
                write!(
                    f,
                    "the column's type cannot hold {reason}; let it through by {option}"
                )?;
            }
            ErrorKind::Schema(text) | ErrorKind::Options(text) => f.write_str(text)?,
            ErrorKind::Unfinished => {
                f.write_str("the stream ends inside a frame or transaction")?;
            }
            ErrorKind::Server { sqlstate } => {
                write!(
                    f,
                    "the server ended the stream with an error, SQLSTATE {sqlstate}"
                )?;
            }
            ErrorKind::Source { text, .. } => write!(f, "the source cannot be read: {text}")?,
            ErrorKind::Arrow(text) => write!(f, "internal error: {text}")?,
            ErrorKind::Stream(_) => {}
        }
        if let Some(offset) = offset {
            write!(f, " (byte {offset} of the stream")?;
            if let Some(lsn) = lsn {
                write!(f, ", lsn {lsn}")?;
            }
            f.write_str(")")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Stream(error) => Some(error),
            _ => None,
        }
    }
}
