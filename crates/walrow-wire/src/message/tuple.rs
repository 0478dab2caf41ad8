//! A row's cells.
//!
//! ```text
//! ┌───────────┬───┬───┬───┬────────────┬───────┬ …
//! │ count (2) │ n │ u │ t │ length (4) │ bytes │     one cell a column, `b` like `t`
//! └───────────┴───┴───┴───┴────────────┴───────┴ …
//! ```

use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use alloc::vec::Vec;

/// A row or its key. Its cells are well formed, and are parsed while they are iterated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Tuple<'a> {
    count: u16,
    bytes: &'a [u8],
}

/// One column's value as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cell<'a> {
    /// `n`: NULL, or in a key tuple "not part of the key".
    Null,
    /// `u`: an unchanged TOAST value, which is not sent. Not NULL.
    Unchanged,
    /// `t`: text from the type's output function.
    Text(&'a [u8]),
    /// `b`: binary from the type's send function.
    Binary(&'a [u8]),
}

impl Cell<'_> {
    /// Appends the cell's kind, length and value.
    #[inline]
    pub fn encode(&self, out: &mut Vec<u8>) {
        let (kind, value) = match self {
            Self::Null => return out.put_u8(b'n'),
            Self::Unchanged => return out.put_u8(b'u'),
            Self::Text(value) => (b't', value),
            Self::Binary(value) => (b'b', value),
        };
        out.put_u8(kind);
        out.put_length(value.len());
        out.put_bytes(value);
    }
}

impl<'a> Tuple<'a> {
    /// Reads the cells field by field, so that an error names the field.
    pub(super) fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let count = cursor.u16("number of columns")?;
        let bytes = cursor.rest();
        for _ in 0..count {
            let unread = *cursor;
            match cursor.u8("cell kind")? {
                b'n' | b'u' => {}
                b't' | b'b' => {
                    let unread = *cursor;
                    let length = cursor.i32("cell length")?;
                    let Ok(length) = usize::try_from(length) else {
                        let kind = ErrorKind::InvalidLength(length.into());
                        return Err(unread.error(kind, "cell length"));
                    };
                    cursor.bytes(length, "cell")?;
                }
                other => return Err(unread.error(ErrorKind::UnknownKind(other), "cell kind")),
            }
        }
        let length = bytes.len().saturating_sub(cursor.remaining());
        Ok(Self {
            count,
            bytes: bytes.get(..length).unwrap_or(bytes),
        })
    }

    /// The tuple of `count` cells and the bytes after it, if it is well formed. Otherwise,
    /// [`Tuple::parse`] returns the error.
    #[inline]
    pub(super) fn split(count: u16, bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let rest = after_cells(bytes, count)?;
        let bytes = bytes.get(..bytes.len().saturating_sub(rest.len()))?;
        Some((Self { count, bytes }, rest))
    }

    /// Encodes cells for a message into `buffer`. At most 65,535 are used.
    pub fn encoded(cells: impl IntoIterator<Item = Cell<'a>>, buffer: &'a mut Vec<u8>) -> Self {
        let mut count = 0_u16;
        buffer.clear();
        for cell in cells.into_iter().take(usize::from(u16::MAX)) {
            let (kind, value) = match cell {
                Cell::Null => (b'n', None),
                Cell::Unchanged => (b'u', None),
                Cell::Text(value) => (b't', Some(value)),
                Cell::Binary(value) => (b'b', Some(value)),
            };
            buffer.put_u8(kind);
            if let Some(value) = value {
                buffer.put_length(value.len());
                buffer.put_bytes(value);
            }
            count = count.saturating_add(1);
        }
        Self {
            count,
            bytes: buffer,
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u16(self.count);
        out.put_bytes(self.bytes);
    }

    /// The tuple of these cells: kinds, lengths and values, as [`Tuple::bytes`] returns them. `None`
    /// unless these are `count` well-formed cells.
    ///
    /// ```
    /// use walrow_wire::{Cell, Tuple};
    ///
    /// let tuple = Tuple::of(2, b"nt\0\0\0\x01a").unwrap();
    /// assert_eq!(tuple.cells().last(), Some(Cell::Text(b"a")));
    /// assert!(Tuple::of(1, tuple.bytes()).is_none());
    /// ```
    #[inline]
    pub fn of(count: u16, bytes: &'a [u8]) -> Option<Self> {
        let (tuple, rest) = Self::split(count, bytes)?;
        rest.is_empty().then_some(tuple)
    }

    /// The cells' kinds, lengths and values.
    #[inline]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// How many cells there are; 0 is legal.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no cells.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The size of the cells in bytes, including kinds and lengths.
    pub const fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// Each cell in order.
    #[inline]
    pub const fn cells(&self) -> Cells<'a> {
        Cells { rest: self.bytes }
    }
}

/// The bytes after `count` cells, if these are well formed.
///
/// A function of its own for speed: a loop that only needs the rest runs in registers.
#[inline(never)]
fn after_cells(bytes: &[u8], count: u16) -> Option<&[u8]> {
    let mut rest = bytes;
    for _ in 0..count {
        rest = match rest {
            [b't' | b'b', a, b, c, d, rest @ ..] => {
                let length = i32::from_be_bytes([*a, *b, *c, *d]);
                rest.get(usize::try_from(length).ok()?..)?
            }
            [b'n' | b'u', rest @ ..] => rest,
            _ => return None,
        };
    }
    Some(rest)
}

impl core::fmt::Debug for Tuple<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.cells()).finish()
    }
}

/// The cells of a [`Tuple`], in order.
#[derive(Clone, Debug)]
pub struct Cells<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Cells<'a> {
    type Item = Cell<'a>;

    // `Tuple::parse` checked the bytes, so `?` never ends the cells early.
    #[inline]
    fn next(&mut self) -> Option<Cell<'a>> {
        let (cell, rest) = first_cell(self.rest)?;
        self.rest = rest;
        Some(cell)
    }
}

/// The first cell and the bytes after it, if it is well formed.
#[inline]
pub(super) fn first_cell(bytes: &[u8]) -> Option<(Cell<'_>, &[u8])> {
    Some(match bytes {
        [b't', a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (value, rest) = rest.split_at_checked(length)?;
            (Cell::Text(value), rest)
        }
        [b'n', rest @ ..] => (Cell::Null, rest),
        [b'b', a, b, c, d, rest @ ..] => {
            let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
            let (value, rest) = rest.split_at_checked(length)?;
            (Cell::Binary(value), rest)
        }
        [b'u', rest @ ..] => (Cell::Unchanged, rest),
        _ => return None,
    })
}
