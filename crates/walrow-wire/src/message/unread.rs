//! Rows whose cells are checked while they are read.

use super::kind::Kind;
use super::tuple::{Cell, Tuple, first_cell};
use crate::{Oid, Xid};

/// An Insert, Update or Delete. Only its relation was read.
///
/// [`UnreadRow::first`] starts reading its cells, and checks each one as it is read. So a row that
/// goes into columns is read only once. `None` means that the bytes do not follow the protocol;
/// then [`Message::parse`](super::Message::parse) returns the error.
#[derive(Clone, Copy, Debug)]
pub struct UnreadRow<'a> {
    kind: Kind,
    xid: Option<Xid>,
    relation: Oid,
    /// The bytes from the first tuple's marker to the end.
    tuples: &'a [u8],
}

/// Which version of the row a tuple contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// `N`: the new row.
    New,
    /// `K`: the old values of the replica identity's columns.
    Key,
    /// `O`: the old row.
    Full,
}

impl<'a> UnreadRow<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], in_stream: bool) -> Option<Self> {
        let (kind, rest) = bytes.split_first()?;
        let kind = Kind::from_byte(*kind).filter(|kind| kind.is_row())?;
        Self::of(kind, rest, in_stream)
    }

    /// A row of this kind, from the bytes after its kind.
    #[inline]
    pub(crate) fn of(kind: Kind, rest: &'a [u8], in_stream: bool) -> Option<Self> {
        let (xid, rest) = if in_stream {
            let (xid, rest) = rest.split_first_chunk()?;
            (Some(Xid::from_be_bytes(*xid)), rest)
        } else {
            (None, rest)
        };
        let (relation, tuples) = rest.split_first_chunk()?;
        Some(Self {
            kind,
            xid,
            relation: Oid::from_be_bytes(*relation),
            tuples,
        })
    }

    /// Insert, Update or Delete.
    #[inline]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// The relation.
    #[inline]
    pub const fn relation(&self) -> Oid {
        self.relation
    }

    /// The transaction ID inside a stream block.
    #[inline]
    pub(super) const fn xid(&self) -> Option<Xid> {
        self.xid
    }

    /// Whether it is an Update with an old tuple: it has two images.
    #[inline]
    pub const fn has_old(&self) -> bool {
        matches!((self.kind, self.tuples), (Kind::Update, [b'K' | b'O', ..]))
    }

    /// The first tuple. It is the old row of a Delete, and of an Update that has one; otherwise the
    /// new row.
    #[inline]
    pub fn first(&self) -> Option<(Image, UnreadTuple<'a>)> {
        let (marker, rest) = self.tuples.split_first()?;
        let image = match (self.kind, marker) {
            (Kind::Insert | Kind::Update, b'N') => Image::New,
            (Kind::Update | Kind::Delete, b'K') => Image::Key,
            (Kind::Update | Kind::Delete, b'O') => Image::Full,
            _ => return None,
        };
        Some((image, UnreadTuple::split(rest)?))
    }
}

/// A tuple whose cells were not read, and the bytes after it in its message.
#[derive(Clone, Copy, Debug)]
pub struct UnreadTuple<'a> {
    count: u16,
    cells: UnreadCells<'a>,
}

/// The cells of a tuple that were not read yet, and the bytes after the tuple in its message.
///
/// The caller reads as many cells as the tuple has.
#[derive(Clone, Copy, Debug)]
pub struct UnreadCells<'a>(&'a [u8]);

impl<'a> UnreadTuple<'a> {
    #[inline]
    fn split(bytes: &'a [u8]) -> Option<Self> {
        let (count, rest) = bytes.split_first_chunk()?;
        Some(Self {
            count: u16::from_be_bytes(*count),
            cells: UnreadCells(rest),
        })
    }

    /// How many cells it claims to have.
    #[inline]
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether it has no cells.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The cells, from the first one.
    #[inline]
    pub const fn cells(&self) -> UnreadCells<'a> {
        self.cells
    }

    /// The cell at this index. `None` if the tuple has no such cell.
    pub fn nth(self, index: usize) -> Option<Cell<'a>> {
        let mut cells = self.cells;
        for _ in 0..index {
            cells.cell()?;
        }
        (index < self.len()).then(|| cells.cell())?
    }

    /// Passes over the cells, without reading their values. Returns the bytes that follow.
    #[inline]
    pub fn pass(&self) -> Option<UnreadCells<'a>> {
        let mut rest = self.cells.0;
        for _ in 0..self.count {
            rest = match rest {
                [b't' | b'b', a, b, c, d, rest @ ..] => {
                    rest.get(u32::from_be_bytes([*a, *b, *c, *d]) as usize..)?
                }
                [b'n' | b'u', rest @ ..] => rest,
                _ => return None,
            };
        }
        Some(UnreadCells(rest))
    }

    /// Reads all cells at once.
    #[inline]
    pub(super) fn skip(self) -> Option<(Tuple<'a>, UnreadCells<'a>)> {
        let (tuple, rest) = Tuple::split(self.count, self.cells.0)?;
        Some((tuple, UnreadCells(rest)))
    }
}

impl<'a> UnreadCells<'a> {
    /// Reads the next cell.
    #[inline]
    pub fn cell(&mut self) -> Option<Cell<'a>> {
        let (cell, rest) = first_cell(self.0)?;
        self.0 = rest;
        Some(cell)
    }

    /// The first byte of the next cell: `t`, `b`, `n` or `u`.
    #[inline]
    pub fn kind(&self) -> Option<u8> {
        self.0.first().copied()
    }

    /// Reads the next cell if it is of this kind, which has a value: `t` or `b`. Otherwise
    /// [`UnreadCells::cell`] reads it.
    #[inline]
    pub fn value(&mut self, kind: u8) -> Option<&'a [u8]> {
        let [first, a, b, c, d, rest @ ..] = self.0 else {
            return None;
        };
        if *first != kind {
            return None;
        }
        let length = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(value)
    }

    /// Bytes of the message that were not read.
    #[inline]
    pub const fn size(&self) -> usize {
        self.0.len()
    }

    /// After all cells were read: whether the message ends here.
    #[inline]
    pub const fn is_end(&self) -> bool {
        self.0.is_empty()
    }

    /// After all cells of an old tuple were read: the new tuple that follows.
    #[inline]
    pub fn then_new(&self) -> Option<UnreadTuple<'a>> {
        match self.0 {
            [b'N', rest @ ..] => UnreadTuple::split(rest),
            _ => None,
        }
    }
}
