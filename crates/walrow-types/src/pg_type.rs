//! What each type implements: how its cells are read, and how PostgreSQL writes them.

use crate::encoding::check_utf8;
use crate::error::CellError;
use std::fmt::Debug;
use walrow_wire::Oid;

/// A PostgreSQL type, and the text that PostgreSQL writes of its values.
///
/// The text has the encoding of the cell: the session's `client_encoding`.
pub trait PgType: Debug + Send + Sync + 'static {
    /// Appends the text of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed, or its text cannot be derived from its binary form. The caller
    /// discards what was appended.
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError>;

    /// Appends the text of a text cell, as the server writes it under the pinned settings. Text
    /// that is not shaped is copied.
    ///
    /// # Errors
    /// The cell is malformed, or was written under other settings. The caller discards what was
    /// appended.
    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        out.extend_from_slice(cell);
        Ok(())
    }

    /// Whether the text depends on settings and its shape shows which ones.
    fn is_shaped(&self) -> bool {
        false
    }

    /// Whether the text can be much longer than the cell.
    fn expands(&self) -> bool {
        true
    }

    /// Whether both forms are the text itself.
    fn is_plain_text(&self) -> bool {
        false
    }

    /// Whether the text is always ASCII, so that other bytes are malformed.
    fn is_ascii(&self) -> bool {
        false
    }

    /// Whether the text of a binary cell, or of a part of it, cannot be derived.
    fn lacks_text(&self) -> bool {
        false
    }

    /// As [`PgType::lacks_text`], for a value that is not a part of another.
    fn lacks_text_alone(&self) -> bool {
        self.lacks_text()
    }

    /// Whether the type is unknown.
    fn is_unknown(&self) -> bool {
        false
    }

    /// Whether it is an array. An array of arrays stays text.
    fn is_array(&self) -> bool {
        false
    }
}

/// Appends PostgreSQL's text of a binary cell of a session whose `client_encoding` is UTF8.
///
/// # Errors
/// See [`PgType::text_from_binary`]; or the text is not UTF-8. The caller discards what was
/// appended.
#[inline]
pub fn write_text_of_binary(
    pg_type: &dyn PgType,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let start = out.len();
    pg_type.text_from_binary(cell, out)?;
    check_utf8(out.get(start..).unwrap_or_default())
}

/// Copies a text cell that has its type's shape, whether or not its value is representable.
pub(crate) fn copy_shaped<T>(
    read: Result<T, CellError>,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    read.map_or_else(CellError::malformed, |_| Ok(()))?;
    out.extend_from_slice(cell);
    Ok(())
}

/// A reader of cells that each become one value.
pub trait Scalar: Debug + Send + Sync + 'static {
    /// The value.
    type Value;

    /// Reads a text cell under the pinned settings.
    ///
    /// # Errors
    /// The cell is malformed, or its value is not representable.
    fn text(&self, cell: &[u8]) -> Result<Self::Value, CellError>;

    /// The value of a short text cell, if it is read without a call. `None` says nothing about the
    /// cell: [`Scalar::text`] reads it.
    #[inline]
    fn short_text(&self, cell: &[u8]) -> Option<Self::Value> {
        let _ = cell;
        None
    }

    /// Reads a binary cell.
    ///
    /// # Errors
    /// The cell is malformed, or its value is not representable.
    fn binary(&self, cell: &[u8]) -> Result<Self::Value, CellError>;

    /// Whether PostgreSQL's text of a binary cell cannot be derived.
    fn lacks_text(&self) -> bool {
        false
    }
}

/// A reader of cells that become any number of bytes.
///
/// After an error, the caller discards what was appended.
pub trait AppendBytes: Debug + Send + Sync + 'static {
    /// Appends the bytes of a text cell.
    ///
    /// # Errors
    /// The cell is malformed, or its value is not representable.
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError>;

    /// Appends the bytes of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed, or its value is not representable.
    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError>;
}

/// A type that is known by an OID or a name.
pub trait Known: PgType + Sized {
    /// The OIDs of built-in types, which are the same on every server.
    const OIDS: &'static [Oid] = &[];

    /// The names of types that extensions define, whose OIDs differ between databases.
    const EXTENSION_NAMES: &'static [&'static str] = &[];

    /// The type with this name in `pg_type` and this type modifier, -1 for none.
    fn new(name: &str, type_modifier: i32) -> Self;
}

/// Text whose two forms are the text itself, in UTF-8.
#[derive(Clone, Copy, Debug)]
pub struct PlainText;

impl AppendBytes for PlainText {
    #[inline]
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        check_utf8(cell)?;
        out.extend_from_slice(cell);
        Ok(())
    }

    #[inline]
    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        self.text(cell, out)
    }
}

/// Implements [`Known`] for a type without parameters.
macro_rules! known {
    ($type:ident: $($oid:ident),*; $($name:literal),*) => {
        impl crate::pg_type::Known for $type {
            const OIDS: &'static [walrow_wire::Oid] = &[$(crate::built_in::$oid),*];
            const EXTENSION_NAMES: &'static [&'static str] = &[$($name),*];

            fn new(_: &str, _: i32) -> Self {
                Self
            }
        }
    };
}

/// Implements [`Scalar`] with two functions.
macro_rules! scalar {
    ($type:ident => $value:ty: $text:expr, $binary:expr $(, short: $short:expr)?) => {
        impl crate::pg_type::Scalar for $type {
            type Value = $value;

            $(#[inline(always)]
            fn short_text(&self, cell: &[u8]) -> Option<$value> {
                $short(cell)
            })?

            #[inline]
            fn text(&self, cell: &[u8]) -> Result<$value, crate::error::CellError> {
                $text(cell)
            }

            #[inline]
            fn binary(&self, cell: &[u8]) -> Result<$value, crate::error::CellError> {
                $binary(cell)
            }
        }
    };
}

/// Implements the method of [`PgType`] that every type has.
macro_rules! text_from_binary {
    ($write:expr) => {
        fn text_from_binary(
            &self,
            cell: &[u8],
            out: &mut Vec<u8>,
        ) -> Result<(), crate::error::CellError> {
            $write(cell, out)
        }
    };
}

pub(crate) use {known, scalar, text_from_binary};

#[cfg(test)]
pub(crate) mod tests {
    use super::CellError;

    type Write = fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>;

    /// The text that a function appends; nothing after an error.
    pub(crate) fn rendered(write: Write, cell: &[u8]) -> Result<String, CellError> {
        let mut out = b"before".to_vec();
        let result = write(cell, &mut out);
        let text = String::from_utf8(out)
            .unwrap()
            .strip_prefix("before")
            .unwrap()
            .to_owned();
        if result.is_err() {
            assert_eq!(text, "");
        }
        result.map(|()| text)
    }
}
