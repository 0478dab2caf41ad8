//! Changes of rows: Insert, Update, Delete and Truncate.

use super::stream_xid::{put_stream_xid, stream_xid};
use super::tuple::Tuple;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use crate::{Oid, Xid};
use alloc::vec::Vec;

/// `I`: a row was inserted, or entered the publication's row filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insert<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// The relation.
    pub relation: Oid,
    /// The row.
    pub new: Tuple<'a>,
}

/// `U`: a row was updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// The relation.
    pub relation: Oid,
    /// The old row or its key, if the replica identity requires one.
    pub old: Option<OldTuple<'a>>,
    /// The new row.
    pub new: Tuple<'a>,
}

/// `D`: a row was deleted, or left the publication's row filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delete<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// The relation.
    pub relation: Oid,
    /// The old row or its key.
    pub old: OldTuple<'a>,
}

/// The old row: its key or all of it, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// `K`: the columns of the replica identity. All others are sent as NULL, whatever their
    /// values.
    Key(Tuple<'a>),
    /// `O`: the whole row, under REPLICA IDENTITY FULL.
    Full(Tuple<'a>),
}

impl<'a> OldTuple<'a> {
    /// The tuple of either variant.
    pub const fn tuple(self) -> Tuple<'a> {
        match self {
            Self::Key(tuple) | Self::Full(tuple) => tuple,
        }
    }

    const fn marker(self) -> u8 {
        match self {
            Self::Key(_) => b'K',
            Self::Full(_) => b'O',
        }
    }
}

/// `T`: tables were truncated, including those that CASCADE truncated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// Bit 1: CASCADE; bit 2: RESTART IDENTITY.
    pub options: u8,
    /// Four bytes per relation.
    relations: &'a [[u8; 4]],
}

impl<'a> Insert<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Insert");
        let xid = stream_xid(cursor, in_stream)?;
        let relation = cursor.u32("relation OID")?;
        new_marker(cursor)?;
        Ok(Self {
            xid,
            relation,
            new: Tuple::parse(cursor)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u32(self.relation);
        out.put_u8(b'N');
        self.new.encode(out);
    }
}

impl<'a> Update<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Update");
        let xid = stream_xid(cursor, in_stream)?;
        let relation = cursor.u32("relation OID")?;
        let unread = *cursor;
        let old = match cursor.u8("tuple marker")? {
            b'N' => None,
            b'K' => Some(OldTuple::Key(Tuple::parse(cursor)?)),
            b'O' => Some(OldTuple::Full(Tuple::parse(cursor)?)),
            _ => return Err(marker_error(unread, "K, O or N")),
        };
        if old.is_some() {
            new_marker(cursor)?;
        }
        Ok(Self {
            xid,
            relation,
            old,
            new: Tuple::parse(cursor)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u32(self.relation);
        if let Some(old) = self.old {
            out.put_u8(old.marker());
            old.tuple().encode(out);
        }
        out.put_u8(b'N');
        self.new.encode(out);
    }
}

impl<'a> Delete<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Delete");
        let xid = stream_xid(cursor, in_stream)?;
        let relation = cursor.u32("relation OID")?;
        let unread = *cursor;
        let old = match cursor.u8("tuple marker")? {
            b'K' => OldTuple::Key(Tuple::parse(cursor)?),
            b'O' => OldTuple::Full(Tuple::parse(cursor)?),
            _ => return Err(marker_error(unread, "K or O")),
        };
        Ok(Self { xid, relation, old })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u32(self.relation);
        out.put_u8(self.old.marker());
        self.old.tuple().encode(out);
    }
}

impl<'a> Truncate<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Truncate");
        let xid = stream_xid(cursor, in_stream)?;
        let count = usize::try_from(cursor.u32("number of relations")?).unwrap_or(usize::MAX);
        let options = cursor.u8("options")?;
        let bytes = cursor.bytes(count.saturating_mul(4), "relation OIDs")?;
        Ok(Self {
            xid,
            options,
            relations: bytes.as_chunks::<4>().0,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_length(self.relations.len());
        out.put_u8(self.options);
        out.put_bytes(self.relations.as_flattened());
    }

    /// A Truncate outside stream blocks.
    pub const fn new(cascade: bool, restart_identity: bool, relations: &'a [[u8; 4]]) -> Self {
        Self {
            xid: None,
            options: cascade as u8 | (restart_identity as u8) << 1,
            relations,
        }
    }

    /// Whether CASCADE was given.
    pub const fn cascade(&self) -> bool {
        self.options & 1 != 0
    }

    /// Whether RESTART IDENTITY was given.
    pub const fn restart_identity(&self) -> bool {
        self.options & 2 != 0
    }

    /// The truncated relations.
    pub fn relations(&self) -> impl ExactSizeIterator<Item = Oid> + use<'a> {
        self.relations
            .iter()
            .map(|bytes| Oid::from_be_bytes(*bytes))
    }
}

fn new_marker(cursor: &mut Cursor<'_>) -> Result<(), Error> {
    let unread = *cursor;
    match cursor.u8("tuple marker")? {
        b'N' => Ok(()),
        _ => Err(marker_error(unread, "N")),
    }
}

fn marker_error(unread: Cursor<'_>, expected: &'static str) -> Error {
    unread.error(ErrorKind::InvalidValue { expected }, "tuple marker")
}
