//! Errors of a decoder, and where they occurred.
//!
//! An error is data: a kind, the table and the column, the options that avoid it, and a place in
//! the stream. Its text in Rust names options in neutral words. Python and the command line print
//! the same data with their own option names.

mod options;
mod remedy;
mod schema;

pub use options::OptionsError;
pub use remedy::{Advice, DecoderOption, Remedy, RemedyValue};
pub use schema::{Conversion, MissingTable, SchemaError, TypeLimit};

pub(crate) use remedy::Way;

use std::fmt;
use walrow_stream::ErrorKind::UnexpectedMessage;
use walrow_stream::{Location, Printable};
use walrow_types::{CellError, Style, Unrepresentable};
use walrow_wire::Lsn;

/// Why decoding stopped, at which byte, LSN, table and column.
///
/// Its text is the [reason](Error::reason), then the [remedies of the
/// stream](Error::stream_remedies), then the [advice](Error::advice) with the
/// [remedies](Error::remedies), then the [place](Error::location). It never contains a value.
/// `{:?}` prints the same text, so a `main` that returns the error prints words. `{:#?}` prints the
/// fields.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Fields>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Fields {
    kind: ErrorKind,
    remedies: Vec<Remedy>,
    location: Option<Location>,
    table: Option<String>,
    column: Option<String>,
}

/// Why decoding stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes of the stream are invalid.
    Stream(walrow_stream::Error),
    /// A transaction cannot be stored until its commit.
    Spool(walrow_stream::Error),
    /// A cell is not a value of the column's type.
    #[non_exhaustive]
    Malformed {
        /// What was expected.
        expected: &'static str,
        /// The size of the cell in bytes.
        size: usize,
        /// The setting under which the server may have written it.
        style: Option<Style>,
    },
    /// The column's Arrow type cannot hold a value.
    Unrepresentable(Reason),
    /// A table, its columns or their types do not match the request.
    Schema(SchemaError),
    /// The options are invalid or contradict each other.
    Options(OptionsError),
    /// The stream ends inside a frame or a transaction. The rows of all complete transactions come
    /// first. The LSN of its place is the position behind them.
    Unfinished,
    /// A session of the stream ends inside a transaction, and no later session has sent it again,
    /// but later transactions: a part of the stream is missing. The rows of all complete transactions
    /// come first.
    #[non_exhaustive]
    Missing {
        /// The ID of the transaction.
        xid: u32,
        /// Its commit LSN.
        commit_lsn: Lsn,
    },
    /// The server ended the stream with an error. The rows of all complete transactions come first.
    /// The LSN of its place is the position behind them.
    #[non_exhaustive]
    Server {
        /// Its SQLSTATE.
        sqlstate: String,
    },
    /// The log lacks all changes of a range. The rows before it come first.
    #[non_exhaustive]
    Gap {
        /// The last LSN before it.
        start: Lsn,
        /// The LSN where it ends.
        end: Lsn,
    },
    /// The source cannot be read.
    #[non_exhaustive]
    Source {
        /// The kind of the source's error.
        kind: std::io::ErrorKind,
        /// The text of the source's error.
        text: String,
    },
    /// A bug in walrow.
    #[non_exhaustive]
    Internal {
        /// What did not work, or why Arrow refused a batch.
        text: String,
    },
}

/// Why an Arrow type cannot hold a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A value of a table's column.
    Value(Unrepresentable),
    /// The commit time of a change.
    CommitTime,
    /// A time in a side table.
    Time,
    /// An LSN, which has no sign.
    Lsn,
    /// The LSN of an origin, which may be any number.
    OriginLsn,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Value(reason) => return reason.fmt(f),
            Self::CommitTime => "a commit time beyond 64 bits of microseconds around 1970",
            Self::Time => "a time beyond 64 bits of microseconds around 1970",
            Self::Lsn => "an LSN beyond 63 bits",
            Self::OriginLsn => "an origin's LSN beyond 63 bits",
        })
    }
}

impl Error {
    pub(crate) fn new(kind: ErrorKind) -> Self {
        let remedies = match &kind {
            ErrorKind::Schema(error) => error.remedies(),
            ErrorKind::Options(error) => error.remedies(),
            _ => Vec::new(),
        };
        Self(Box::new(Fields {
            kind,
            remedies,
            location: None,
            table: None,
            column: None,
        }))
    }

    /// Makes the error of a bug in walrow, or of a batch that Arrow refused.
    #[cold]
    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal { text: text.into() })
    }

    /// Makes the error of a cell that did not become a value.
    #[cold]
    pub(crate) fn cell(error: CellError, size: usize, table: &str, column: &str, way: Way) -> Self {
        let this = match error {
            CellError::Malformed(expected) => {
                let style = error.style();
                Self::new(ErrorKind::Malformed {
                    expected,
                    size,
                    style,
                })
            }
            CellError::Unrepresentable(reason) => {
                let remedies = remedy::remedies_for(reason, &format!("{table}.{column}"), way);
                let kind = ErrorKind::Unrepresentable(Reason::Value(reason));
                Self::new(kind).with_remedies(remedies)
            }
            other => Self::internal(other.to_string()),
        };
        this.in_table(table).in_column(column)
    }

    pub(crate) fn with_remedies(mut self, remedies: impl Into<Vec<Remedy>>) -> Self {
        self.0.remedies = remedies.into();
        self
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
        let lsn = Some(lsn).filter(|lsn| lsn.is_valid());
        self.0.location = Some(Location::new(offset, lsn));
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// What is wrong, with the table and the column, but without remedies and place.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        Printable(fmt::from_fn(|f| {
            match (&self.0.table, &self.0.column, &self.0.kind) {
                // A stream error names its table itself.
                (_, _, ErrorKind::Stream(_)) | (None, _, _) => {}
                (Some(table), Some(column), _) => write!(f, "{table}.{column}: ")?,
                (Some(table), None, _) => write!(f, "{table}: ")?,
            }
            write!(f, "{}", self.0.kind)
        }))
    }

    /// The steps that avoid an error of the stream, or of a value in it, besides [options](Error::remedies).
    pub fn stream_remedies(&self) -> &'static [walrow_stream::Remedy] {
        match &self.0.kind {
            ErrorKind::Stream(error) => error.kind.remedies(),
            ErrorKind::Malformed {
                style: Some(style), ..
            } => match style {
                Style::Interval => &[walrow_stream::Remedy::IntervalStyle],
                _ => &[walrow_stream::Remedy::DateStyle],
            },
            _ => &[],
        }
    }

    /// The options that avoid the error. Each of them alone is enough.
    pub fn remedies(&self) -> &[Remedy] {
        &self.0.remedies
    }

    /// What the remedies do.
    pub fn advice(&self) -> Advice {
        match &self.0.kind {
            ErrorKind::Unrepresentable(_) => Advice::LetThrough,
            ErrorKind::Stream(error) => match error.kind {
                walrow_stream::ErrorKind::InvalidUtf8 { .. } => Advice::ByteByByte,
                walrow_stream::ErrorKind::TooLarge { .. } => Advice::Raise,
                _ if is_framing(error) => Advice::GiveDecoder,
                _ => Advice::SkipTransaction,
            },
            ErrorKind::Schema(SchemaError::TypeLimit { .. } | SchemaError::KeyType { .. }) => {
                Advice::ReadText
            }
            ErrorKind::Schema(SchemaError::VersionsDiffer { .. }) => Advice::ReadBoth,
            ErrorKind::Schema(
                SchemaError::ColumnsChanged | SchemaError::ColumnsNotInSchema { .. },
            ) => Advice::ReadAllVersions,
            ErrorKind::Schema(SchemaError::NotInStream { .. }) => Advice::ReadNoRows,
            ErrorKind::Schema(SchemaError::Ambiguous { .. }) => Advice::ChooseOne,
            ErrorKind::Unfinished | ErrorKind::Missing { .. } | ErrorKind::Server { .. } => {
                Advice::OnlyComplete
            }
            _ => Advice::Choose,
        }
    }

    /// The place of the error in the stream, if it has one.
    pub fn location(&self) -> Option<Location> {
        match &self.0.kind {
            ErrorKind::Stream(error) | ErrorKind::Spool(error) => error.location(),
            _ => self.0.location,
        }
    }

    /// The offset of the error in the stream, in bytes.
    pub fn offset(&self) -> Option<u64> {
        self.location().map(|it| it.offset)
    }

    /// The LSN of the change, or of its transaction's commit.
    pub fn lsn(&self) -> Option<Lsn> {
        self.location()?.lsn
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

impl From<walrow_stream::Error> for Error {
    fn from(error: walrow_stream::Error) -> Self {
        let table = match &error.kind {
            walrow_stream::ErrorKind::ColumnCount { relation, .. } => Some(relation.clone()),
            _ => None,
        };
        let remedies = if is_framing(&error) {
            vec![Remedy::another(DecoderOption::Framing)]
        } else {
            stream_remedies(&error.kind)
        };
        let kind = match error.kind {
            walrow_stream::ErrorKind::Spool { .. } => ErrorKind::Spool(error),
            _ => ErrorKind::Stream(error),
        };
        let mut this = Self::new(kind).with_remedies(remedies);
        this.0.table = table;
        this
    }
}

/// Whether the very first byte begins neither a frame nor a message: the bytes may be framed in
/// another way.
fn is_framing(error: &walrow_stream::Error) -> bool {
    is_first(error) && matches!(error.field(), Some("type byte" | "kind"))
}

/// Whether the error is at the very first byte.
fn is_first(error: &walrow_stream::Error) -> bool {
    error.location().is_some_and(|it| it.offset == 0)
}

/// The options under which the stream could be read.
fn stream_remedies(kind: &walrow_stream::ErrorKind) -> Vec<Remedy> {
    match kind {
        // The encoding matters only for these messages.
        walrow_stream::ErrorKind::InvalidUtf8 {
            message: "Relation" | "Type",
            ..
        } => vec![Remedy::word(DecoderOption::Session, "LATIN1").for_key("client_encoding")],
        walrow_stream::ErrorKind::MissingBegin { .. }
        | walrow_stream::ErrorKind::MissingPrepared { .. } => {
            let on = RemedyValue::Flag(true);
            vec![Remedy::new(DecoderOption::LateStart, on)]
        }
        walrow_stream::ErrorKind::TooLarge { size, .. } => {
            let size = RemedyValue::Size(*size);
            vec![Remedy::new(DecoderOption::MessageLimit, size)]
        }
        walrow_stream::ErrorKind::Spool { .. } => vec![
            Remedy::another(DecoderOption::Spool),
            Remedy::another(DecoderOption::SpoolMemory),
        ],
        _ => Vec::new(),
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason().fmt(f)?;
        for remedy in self.stream_remedies() {
            write!(f, "; {remedy}")?;
        }
        for (place, remedy) in self.remedies().iter().enumerate() {
            match place {
                0 => self.advice().fmt(f)?,
                _ => f.write_str(" or ")?,
            }
            Printable(remedy).fmt(f)?;
        }
        match self.location() {
            Some(location) => write!(f, " ({location})"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return self.0.fmt(f);
        }
        // The text contains the text of the sources.
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stream(error) | Self::Spool(error) => {
                error.kind.fmt(f)?;
                if is_first(error) && matches!(error.kind, UnexpectedMessage { .. }) {
                    f.write_str(": the stream must begin between two transactions")?;
                }
                Ok(())
            }
            Self::Malformed { expected, size, .. } => {
                write!(f, "expected {expected} in a cell of {size} bytes")
            }
            Self::Unrepresentable(reason) => {
                write!(f, "the column's type cannot hold {reason}")
            }
            Self::Schema(error) => error.fmt(f),
            Self::Options(error) => error.fmt(f),
            Self::Unfinished => f.write_str("the stream ends inside a frame or transaction"),
            Self::Missing { xid, commit_lsn } => write!(
                f,
                "a session of the stream ends inside transaction {xid} (commit LSN {commit_lsn}), \
                 and no later session sent it again: a part of the stream is missing"
            ),
            Self::Server { sqlstate } => write!(
                f,
                "the server ended the stream with an error, SQLSTATE {sqlstate}"
            ),
            Self::Gap { start, end } => write!(
                f,
                "the log lacks the changes between {start} and {end}, which the server did not \
                 send: read the tables as of a later LSN, or begin at {end}"
            ),
            Self::Source { text, .. } => write!(f, "the source cannot be read: {text}"),
            Self::Internal { text } => write!(f, "internal error: {text}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.0.kind {
            ErrorKind::Stream(error) | ErrorKind::Spool(error) => Some(error),
            _ => None,
        }
    }
}
