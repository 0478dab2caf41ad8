//! Messages that describe a table: Relation and Type.

use super::stream_xid::{put_stream_xid, stream_xid};
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use crate::{Oid, PgString, Xid};
use alloc::vec::Vec;

/// `R`: a table's columns as the publication shows them, for the row messages that follow.
///
/// The server sends it before the first use of the relation in a session, and again whenever its
/// definition might have changed, often with identical content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Relation<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// The relation.
    pub oid: Oid,
    /// Its schema; empty for `pg_catalog`.
    pub namespace: PgString<'a>,
    /// Its name.
    pub name: PgString<'a>,
    /// The replica identity: which columns old tuples contain.
    pub replica_identity: ReplicaIdentity,
    /// The published columns, in attribute order.
    pub columns: Columns<'a>,
}

/// Which old columns a table sends with updates and deletes: `pg_class.relreplident`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplicaIdentity {
    /// `d`: the primary key, if there is one.
    Default,
    /// `n`: nothing.
    Nothing,
    /// `f`: all columns.
    Full,
    /// `i`: a chosen unique index.
    Index,
}

impl ReplicaIdentity {
    /// The identity with this letter.
    pub const fn from_letter(letter: u8) -> Option<Self> {
        Some(match letter {
            b'd' => Self::Default,
            b'n' => Self::Nothing,
            b'f' => Self::Full,
            b'i' => Self::Index,
            _ => return None,
        })
    }

    /// The letter of `pg_class.relreplident`.
    pub const fn letter(self) -> u8 {
        match self {
            Self::Default => b'd',
            Self::Nothing => b'n',
            Self::Full => b'f',
            Self::Index => b'i',
        }
    }

    /// The word of `ALTER TABLE … REPLICA IDENTITY`, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Nothing => "nothing",
            Self::Full => "full",
            Self::Index => "index",
        }
    }
}

/// A relation's columns. They are well formed, and are parsed while they are iterated.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Columns<'a> {
    count: u16,
    bytes: &'a [u8],
}

/// One column of a Relation message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column<'a> {
    /// Bit 1: part of the replica identity. No other bit is defined yet.
    pub flags: u8,
    /// Its name.
    pub name: PgString<'a>,
    /// Its type.
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
}

impl Column<'_> {
    /// Whether the column is part of the replica identity.
    pub const fn is_key(&self) -> bool {
        self.flags & 1 == 1
    }
}

impl<'a> Relation<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Relation");
        Ok(Self {
            xid: stream_xid(cursor, in_stream)?,
            oid: cursor.u32("relation OID")?,
            namespace: cursor.string("namespace")?,
            name: cursor.string("relation name")?,
            replica_identity: {
                let unread = *cursor;
                match cursor.u8("replica identity")? {
                    b'd' => ReplicaIdentity::Default,
                    b'n' => ReplicaIdentity::Nothing,
                    b'f' => ReplicaIdentity::Full,
                    b'i' => ReplicaIdentity::Index,
                    _ => {
                        let kind = ErrorKind::InvalidValue {
                            expected: "d, n, f or i",
                        };
                        return Err(unread.error(kind, "replica identity"));
                    }
                }
            },
            columns: Columns::parse(cursor)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u32(self.oid);
        out.put_string(self.namespace);
        out.put_string(self.name);
        out.put_u8(self.replica_identity.letter());
        out.put_u16(self.columns.count);
        out.put_bytes(self.columns.bytes);
    }
}

impl<'a> Columns<'a> {
    fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let count = cursor.u16("number of columns")?;
        let bytes = cursor.rest();
        for _ in 0..count {
            Column::parse(cursor)?;
        }
        let length = bytes.len().saturating_sub(cursor.remaining());
        Ok(Self {
            count,
            bytes: bytes.get(..length).unwrap_or(bytes),
        })
    }

    /// Encodes columns for a message into `buffer`. At most 65,535 are used.
    pub fn encoded(columns: impl IntoIterator<Item = Column<'a>>, buffer: &'a mut Vec<u8>) -> Self {
        let mut count = 0_u16;
        buffer.clear();
        for column in columns.into_iter().take(usize::from(u16::MAX)) {
            column.encode(buffer);
            count = count.saturating_add(1);
        }
        Self {
            count,
            bytes: buffer,
        }
    }

    /// How many columns there are; 0 is legal.
    pub const fn len(&self) -> usize {
        self.count as usize
    }

    /// Whether there are no columns.
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Each column in order.
    pub fn iter(&self) -> impl Iterator<Item = Column<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.bytes, "Relation");
        // `parse` checked the bytes, so this yields exactly `count` columns.
        core::iter::from_fn(move || Column::parse(&mut cursor).ok()).take(self.len())
    }
}

impl core::fmt::Debug for Columns<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Column<'a> {
    fn parse(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        Ok(Self {
            flags: cursor.u8("column flags")?,
            name: cursor.string("column name")?,
            type_oid: cursor.u32("column type OID")?,
            type_modifier: cursor.i32("column type modifier")?,
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u8(self.flags);
        out.put_string(self.name);
        out.put_u32(self.type_oid);
        out.put_i32(self.type_modifier);
    }
}

/// `Y`: the name of a type that is not built in.
///
/// For a domain it holds the domain's OID and the **base type's** name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Type<'a> {
    /// In a stream block, the (sub)transaction.
    pub xid: Option<Xid>,
    /// The type.
    pub oid: Oid,
    /// Its schema; empty for `pg_catalog`.
    pub namespace: PgString<'a>,
    /// Its name.
    pub name: PgString<'a>,
}

impl<'a> Type<'a> {
    pub(super) fn parse(cursor: &mut Cursor<'a>, in_stream: bool) -> Result<Self, Error> {
        *cursor = cursor.named("Type");
        Ok(Self {
            xid: stream_xid(cursor, in_stream)?,
            oid: cursor.u32("type OID")?,
            namespace: cursor.string("namespace")?,
            name: cursor.string("type name")?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_stream_xid(out, self.xid);
        out.put_u32(self.oid);
        out.put_string(self.namespace);
        out.put_string(self.name);
    }
}
