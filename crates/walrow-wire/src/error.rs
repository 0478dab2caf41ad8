//! Why bytes do not follow the protocol.

use core::fmt;

/// Bytes that do not follow the protocol: what is wrong, and in which message, field and byte.
///
/// Never contains the bytes themselves, because they are users' data. Missing bytes at the end of a
/// [`Frame`](crate::Frame) are not an error but `Ok(None)`.
///
/// `{:?}` prints the text of `{}`, and `{:#?}` the fields.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Bytes from the start of the parsed slice to the fault.
    pub offset: usize,
    /// The message, by the manual's name: `"Relation"`, `"XLogData"`.
    pub message: &'static str,
    /// The field of the message: `"column name"`.
    pub field: &'static str,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The message ends before the field does.
    UnexpectedEnd {
        /// Bytes the field needs.
        needed: u64,
        /// Bytes that remain.
        available: u64,
    },
    /// Bytes follow the last field.
    TrailingBytes {
        /// How many.
        count: u64,
    },
    /// A kind byte that the protocol does not define.
    UnknownKind(u8),
    /// A length that no server sends: negative, or beyond PostgreSQL's limit of 1 GiB.
    InvalidLength(i64),
    /// A string without its terminating zero byte.
    UnterminatedString,
    /// A value outside what the field allows.
    InvalidValue {
        /// What the field allows.
        expected: &'static str,
    },
    /// Physical replication: WAL itself, not the output of pgoutput.
    PhysicalStream,
}

impl Error {
    /// Creates an error.
    pub const fn new(
        kind: ErrorKind,
        offset: usize,
        message: &'static str,
        field: &'static str,
    ) -> Self {
        Self {
            kind,
            offset,
            message,
            field,
        }
    }

    /// The same error, with an offset that counts from `base` bytes before the parsed slice.
    #[must_use]
    pub fn at(mut self, base: usize) -> Self {
        self.offset = self.offset.saturating_add(base);
        self
    }

    /// What is wrong, in which field of which message, without the offset.
    pub fn reason(&self) -> impl fmt::Display + '_ {
        fmt::from_fn(|f| write!(f, "{}: {} {}", self.message, self.field, self.kind))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (byte {})", self.reason(), self.offset)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !f.alternate() {
            return fmt::Display::fmt(self, f);
        }
        let Self {
            kind,
            offset,
            message,
            field,
        } = self;
        f.debug_struct("Error")
            .field("kind", kind)
            .field("offset", offset)
            .field("message", message)
            .field("field", field)
            .finish()
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnexpectedEnd { needed, available } => {
                write!(f, "needs {needed} bytes, {available} are left")
            }
            Self::TrailingBytes { count } => write!(f, "is followed by {count} extra bytes"),
            Self::UnknownKind(byte) => write!(f, "0x{byte:02X} is not one of the protocol's"),
            Self::InvalidLength(length) => write!(f, "{length} is impossible"),
            Self::UnterminatedString => f.write_str("is not terminated"),
            Self::InvalidValue { expected } => write!(f, "is not {expected}"),
            Self::PhysicalStream => f.write_str(
                "is WAL of a physical replication stream; start it with SLOT … LOGICAL and the \
                 pgoutput plugin",
            ),
        }
    }
}

impl core::error::Error for Error {}
