//! Reads cells into a store: the part of a column that knows PostgreSQL's types.

use super::store::{Bytes, Fixed, Push, Store};
use crate::utf8::Utf8;
use arrow_array::types::TimestampMicrosecondType;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;
use walrow_stream::Encoding;
use walrow_types::{
    AppendBytes, CellError, Micros, PgType, PlainText, Scalar, Unrepresentable, check_utf8,
};
use walrow_wire::PgString;

/// Reads cells of one PostgreSQL type into one kind of store.
///
/// After an error, the store holds part of a value; the column truncates it.
pub(crate) trait Cell: Debug + Send + Sync {
    type Store: Store;

    fn text(&mut self, cell: &[u8], store: &mut Self::Store) -> Result<(), CellError>;

    /// Appends a short text cell, if that needs neither a call nor an allocation: a path without
    /// calls saves no registers. If it returns false, it appended nothing.
    #[inline]
    fn short_text(&mut self, cell: &[u8], store: &mut Self::Store) -> bool {
        let _ = (cell, store);
        false
    }

    fn binary(&mut self, cell: &[u8], store: &mut Self::Store) -> Result<(), CellError>;

    /// The same as `short_text` for a binary cell, if `binary` would need a call.
    #[inline]
    fn short_binary(&mut self, cell: &[u8], store: &mut Self::Store) -> bool {
        let _ = (cell, store);
        false
    }

    /// See [`Column::lacks_text`](super::Column::lacks_text).
    fn lacks_text(&self, is_binary: bool, is_part: bool) -> bool {
        let _ = (is_binary, is_part);
        false
    }
}

/// A scalar whose value goes into the store.
#[derive(Debug)]
pub(crate) struct As<T, S> {
    reader: T,
    store: PhantomData<fn() -> S>,
}

impl<T, S> As<T, S> {
    pub(crate) const fn new(reader: T) -> Self {
        Self {
            reader,
            store: PhantomData,
        }
    }
}

impl<T: Scalar, S: Push<T::Value>> Cell for As<T, S> {
    type Store = S;

    #[inline]
    fn text(&mut self, cell: &[u8], store: &mut S) -> Result<(), CellError> {
        store.push(self.reader.text(cell)?)
    }

    #[inline]
    fn short_text(&mut self, cell: &[u8], store: &mut S) -> bool {
        match self.reader.short_text(cell) {
            Some(value) if store.has_room() => store.push(value).is_ok(),
            _ => false,
        }
    }

    #[inline]
    fn binary(&mut self, cell: &[u8], store: &mut S) -> Result<(), CellError> {
        store.push(self.reader.binary(cell)?)
    }

    fn lacks_text(&self, is_binary: bool, _: bool) -> bool {
        is_binary && self.reader.lacks_text()
    }
}

/// A timestamp. `last` is the last one that is not a sentinel.
#[derive(Debug)]
pub(crate) struct Moments<T> {
    reader: T,
    last: i64,
}

impl<T> Moments<T> {
    pub(crate) const fn new(reader: T, last: i64) -> Self {
        Self { reader, last }
    }

    #[inline]
    fn check(&self, moment: Micros) -> Result<Micros, CellError> {
        if moment.0 > self.last {
            return Err(Unrepresentable::OutOfRange.into());
        }
        Ok(moment)
    }
}

impl<T: Scalar<Value = Micros>> Cell for Moments<T> {
    type Store = Fixed<TimestampMicrosecondType>;

    #[inline]
    fn text(&mut self, cell: &[u8], store: &mut Self::Store) -> Result<(), CellError> {
        store.push(self.check(self.reader.text(cell)?)?)
    }

    #[inline]
    fn binary(&mut self, cell: &[u8], store: &mut Self::Store) -> Result<(), CellError> {
        store.push(self.check(self.reader.binary(cell)?)?)
    }
}

/// Bytes or text, which a reader appends to the store.
#[derive(Debug)]
pub(crate) struct AppendTo<T>(pub(crate) T);

impl<T: AppendBytes> Cell for AppendTo<T> {
    type Store = Bytes;

    #[inline]
    fn text(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        self.0.text(cell, store.bytes())?;
        store.close()
    }

    #[inline]
    fn binary(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        self.0.binary(cell, store.bytes())?;
        store.close()
    }
}

/// Text whose two forms are the text itself, in UTF-8.
#[derive(Debug)]
pub(crate) struct Utf8Text;

impl Cell for Utf8Text {
    type Store = Utf8;

    #[inline]
    fn text(&mut self, cell: &[u8], store: &mut Utf8) -> Result<(), CellError> {
        store.push(cell)
    }

    #[inline]
    fn short_text(&mut self, cell: &[u8], store: &mut Utf8) -> bool {
        store.push_short(cell)
    }

    #[inline]
    fn binary(&mut self, cell: &[u8], store: &mut Utf8) -> Result<(), CellError> {
        store.push(cell)
    }

    #[inline]
    fn short_binary(&mut self, cell: &[u8], store: &mut Utf8) -> bool {
        store.push_short(cell)
    }
}

/// Appends the text of a text cell in UTF-8.
pub(crate) fn write_text(
    pg_type: &dyn PgType,
    cell: &[u8],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let start = out.len();
    pg_type.text_from_text(cell, out)?;
    to_utf8(encoding, start, out)
}

/// Appends the text of a binary cell in UTF-8.
pub(crate) fn write_text_of_binary(
    pg_type: &dyn PgType,
    cell: &[u8],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let start = out.len();
    pg_type.text_from_binary(cell, out)?;
    to_utf8(encoding, start, out)
}

/// Converts the text after `start` to UTF-8.
fn to_utf8(encoding: Encoding, start: usize, out: &mut Vec<u8>) -> Result<(), CellError> {
    if encoding == Encoding::Utf8 {
        return check_utf8(out.get(start..).unwrap_or_default());
    }
    let text = out.split_off(start);
    let text = encoding.decode(PgString(&text));
    let text = text.ok_or(Unrepresentable::InvalidUtf8)?;
    out.extend_from_slice(text.as_bytes());
    Ok(())
}

/// PostgreSQL's text of any type.
#[derive(Debug)]
pub(crate) struct Written {
    pg_type: Arc<dyn PgType>,
    encoding: Encoding,
    /// Whether text cells need no conversion.
    is_plain: bool,
}

impl Written {
    pub(crate) fn new(pg_type: Arc<dyn PgType>, encoding: Encoding) -> Self {
        Self {
            is_plain: !pg_type.is_shaped() && encoding == Encoding::Utf8,
            pg_type,
            encoding,
        }
    }
}

impl Cell for Written {
    type Store = Bytes;

    fn text(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        let written = if self.is_plain {
            PlainText.text(cell, store.bytes())
        } else {
            write_text(&*self.pg_type, cell, self.encoding, store.bytes())
        };
        match written {
            // The type is ASCII, so the cell is invalid as bytes too.
            Err(CellError::Unrepresentable(Unrepresentable::InvalidUtf8))
                if self.pg_type.is_ascii() =>
            {
                Err(CellError::Malformed("ASCII"))
            }
            Err(error) => Err(error),
            Ok(()) => store.close(),
        }
    }

    fn binary(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        write_text_of_binary(&*self.pg_type, cell, self.encoding, store.bytes())?;
        store.close()
    }

    fn lacks_text(&self, is_binary: bool, is_part: bool) -> bool {
        is_binary
            && if is_part {
                self.pg_type.lacks_text()
            } else {
                self.pg_type.lacks_text_alone()
            }
    }
}

/// The cell's own bytes, in either form.
#[derive(Debug)]
pub(crate) struct RawCell;

impl Cell for RawCell {
    type Store = Bytes;

    #[inline]
    fn text(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        store.bytes().extend_from_slice(cell);
        store.close()
    }

    #[inline]
    fn binary(&mut self, cell: &[u8], store: &mut Bytes) -> Result<(), CellError> {
        self.text(cell, store)
    }

    // It may have any type and any encoding.
    fn lacks_text(&self, _: bool, is_part: bool) -> bool {
        is_part
    }
}
