//! The nineteen messages, owned, and their bytes.

use arbitrary::{Arbitrary, Result, Unstructured};
use std::fmt;
use walrow_wire::{Cell, Lsn, Message, OldTuple, PgString, ReplicaIdentity, Timestamp, Tuple};

/// A string of the protocol: any bytes except zero.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgText(Vec<u8>);

impl PgText {
    /// The bytes, without a terminating zero.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for PgText {
    fn from(text: &str) -> Self {
        Self::from(text.as_bytes())
    }
}

impl From<&[u8]> for PgText {
    fn from(bytes: &[u8]) -> Self {
        assert!(!bytes.contains(&0), "a string of the protocol has no zero");
        Self(bytes.to_vec())
    }
}

impl From<PgString<'_>> for PgText {
    fn from(text: PgString<'_>) -> Self {
        Self::from(text.0)
    }
}

impl fmt::Debug for PgText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0.escape_ascii())
    }
}

impl<'a> Arbitrary<'a> for PgText {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut bytes = list(u, 12)?;
        bytes.retain(|byte| *byte != 0);
        Ok(Self(bytes))
    }
}

/// One column's value.
#[derive(Clone, PartialEq, Eq, Hash, Arbitrary)]
pub enum OwnedCell {
    /// `n`
    Null,
    /// `u`
    Unchanged,
    /// `t`
    Text(#[arbitrary(with = value)] Vec<u8>),
    /// `b`
    Binary(#[arbitrary(with = value)] Vec<u8>),
}

/// A NULL.
pub const fn null() -> OwnedCell {
    OwnedCell::Null
}

/// An unchanged TOAST value, which is not sent.
pub const fn unchanged() -> OwnedCell {
    OwnedCell::Unchanged
}

/// A value as its type's output function writes it.
pub fn text(value: impl AsRef<[u8]>) -> OwnedCell {
    OwnedCell::Text(value.as_ref().to_vec())
}

/// A value as its type's send function writes it.
pub fn binary(value: impl AsRef<[u8]>) -> OwnedCell {
    OwnedCell::Binary(value.as_ref().to_vec())
}

impl fmt::Debug for OwnedCell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("n"),
            Self::Unchanged => f.write_str("u"),
            Self::Text(value) => write!(f, "t\"{}\"", value.escape_ascii()),
            Self::Binary(value) => write!(f, "b\"{}\"", value.escape_ascii()),
        }
    }
}

impl From<Cell<'_>> for OwnedCell {
    fn from(cell: Cell<'_>) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Unchanged => Self::Unchanged,
            Cell::Text(value) => Self::Text(value.to_vec()),
            Cell::Binary(value) => Self::Binary(value.to_vec()),
        }
    }
}

/// The old row of an Update or Delete.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub enum OwnedOld {
    /// `K`
    Key(#[arbitrary(with = cells)] Vec<OwnedCell>),
    /// `O`
    Full(#[arbitrary(with = cells)] Vec<OwnedCell>),
}

impl OwnedOld {
    /// The cells of either variant.
    pub fn cells(&self) -> &[OwnedCell] {
        match self {
            Self::Key(cells) | Self::Full(cells) => cells,
        }
    }
}

impl From<OldTuple<'_>> for OwnedOld {
    fn from(old: OldTuple<'_>) -> Self {
        match old {
            OldTuple::Key(tuple) => Self::Key(owned(tuple)),
            OldTuple::Full(tuple) => Self::Full(owned(tuple)),
        }
    }
}

/// A column of a Relation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Arbitrary)]
pub struct OwnedColumn {
    /// Bit 1: part of the replica identity.
    pub flags: u8,
    /// Its name.
    pub name: PgText,
    /// Its type.
    pub type_oid: u32,
    /// Its type modifier, or -1.
    pub type_modifier: i32,
}

/// A transaction that is prepared, or a prepared one that is committed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Arbitrary)]
#[expect(missing_docs, reason = "the fields are those of walrow_wire::Prepare")]
pub struct OwnedPrepared {
    pub lsn: u64,
    pub end_lsn: u64,
    pub time: i64,
    pub xid: u32,
    pub gid: PgText,
}

impl OwnedPrepared {
    fn new(lsn: Lsn, end_lsn: Lsn, time: Timestamp, xid: u32, gid: PgString<'_>) -> Self {
        Self {
            lsn: lsn.0,
            end_lsn: end_lsn.0,
            time: time.0,
            xid,
            gid: gid.into(),
        }
    }
}

/// A message of pgoutput. Fields are in the manual's order and words.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Arbitrary)]
#[expect(
    missing_docs,
    reason = "the fields are those of walrow_wire's messages"
)]
pub enum OwnedMessage {
    Begin {
        final_lsn: u64,
        commit_time: i64,
        xid: u32,
    },
    Commit {
        commit_lsn: u64,
        end_lsn: u64,
        commit_time: i64,
    },
    Origin {
        commit_lsn: u64,
        name: PgText,
    },
    Relation {
        xid: Option<u32>,
        oid: u32,
        namespace: PgText,
        name: PgText,
        #[arbitrary(with = identity)]
        replica_identity: ReplicaIdentity,
        #[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 6))]
        columns: Vec<OwnedColumn>,
    },
    Type {
        xid: Option<u32>,
        oid: u32,
        namespace: PgText,
        name: PgText,
    },
    Insert {
        xid: Option<u32>,
        relation: u32,
        #[arbitrary(with = cells)]
        new: Vec<OwnedCell>,
    },
    Update {
        xid: Option<u32>,
        relation: u32,
        old: Option<OwnedOld>,
        #[arbitrary(with = cells)]
        new: Vec<OwnedCell>,
    },
    Delete {
        xid: Option<u32>,
        relation: u32,
        old: OwnedOld,
    },
    Truncate {
        xid: Option<u32>,
        options: u8,
        #[arbitrary(with = |u: &mut Unstructured<'_>| list(u, 4))]
        relations: Vec<u32>,
    },
    Message {
        xid: Option<u32>,
        transactional: bool,
        lsn: u64,
        prefix: PgText,
        #[arbitrary(with = value)]
        content: Vec<u8>,
    },
    StreamStart {
        xid: u32,
        first: bool,
    },
    StreamStop,
    StreamCommit {
        xid: u32,
        commit_lsn: u64,
        end_lsn: u64,
        commit_time: i64,
    },
    StreamAbort {
        xid: u32,
        subxid: u32,
        abort: Option<(u64, i64)>,
    },
    BeginPrepare(OwnedPrepared),
    Prepare(OwnedPrepared),
    CommitPrepared(OwnedPrepared),
    RollbackPrepared {
        prepare_end_lsn: u64,
        rollback_end_lsn: u64,
        prepare_time: i64,
        rollback_time: i64,
        xid: u32,
        gid: PgText,
    },
    StreamPrepare(OwnedPrepared),
}

impl OwnedMessage {
    /// Whether the message must be parsed as part of a stream block.
    ///
    /// `false` for messages that are the same inside and outside.
    pub const fn in_stream(&self) -> bool {
        matches!(
            self,
            Self::Relation { xid: Some(_), .. }
                | Self::Type { xid: Some(_), .. }
                | Self::Insert { xid: Some(_), .. }
                | Self::Update { xid: Some(_), .. }
                | Self::Delete { xid: Some(_), .. }
                | Self::Truncate { xid: Some(_), .. }
                | Self::Message { xid: Some(_), .. }
        )
    }

    /// Its rows: the old one before the new one.
    pub fn tuples(&self) -> Vec<&[OwnedCell]> {
        match self {
            Self::Insert { new, .. } => vec![new],
            Self::Update { old, new, .. } => {
                let old = old.as_ref().map(OwnedOld::cells);
                old.into_iter().chain([&**new]).collect()
            }
            Self::Delete { old, .. } => vec![old.cells()],
            _ => Vec::new(),
        }
    }

    /// The message's bytes, written from the manual alone.
    pub fn bytes(&self) -> Vec<u8> {
        let mut out = Bytes::default();
        match self {
            Self::Begin {
                final_lsn,
                commit_time,
                xid,
            } => {
                out.byte(b'B').u64(*final_lsn).i64(*commit_time).u32(*xid);
            }
            Self::Commit {
                commit_lsn,
                end_lsn,
                commit_time,
            } => {
                out.byte(b'C').byte(0);
                out.u64(*commit_lsn).u64(*end_lsn).i64(*commit_time);
            }
            Self::Origin { commit_lsn, name } => {
                out.byte(b'O').u64(*commit_lsn).text(name);
            }
            Self::Relation {
                xid,
                oid,
                namespace,
                name,
                replica_identity,
                columns,
            } => {
                out.byte(b'R')
                    .xid(*xid)
                    .u32(*oid)
                    .text(namespace)
                    .text(name);
                out.byte(match replica_identity {
                    ReplicaIdentity::Default => b'd',
                    ReplicaIdentity::Nothing => b'n',
                    ReplicaIdentity::Full => b'f',
                    ReplicaIdentity::Index => b'i',
                });
                out.count(columns.len());
                for column in columns {
                    out.byte(column.flags).text(&column.name);
                    out.u32(column.type_oid).i32(column.type_modifier);
                }
            }
            Self::Type {
                xid,
                oid,
                namespace,
                name,
            } => {
                out.byte(b'Y')
                    .xid(*xid)
                    .u32(*oid)
                    .text(namespace)
                    .text(name);
            }
            Self::Insert { xid, relation, new } => {
                out.byte(b'I').xid(*xid).u32(*relation);
                out.byte(b'N').tuple(new);
            }
            Self::Update {
                xid,
                relation,
                old,
                new,
            } => {
                out.byte(b'U').xid(*xid).u32(*relation);
                if let Some(old) = old {
                    out.old(old);
                }
                out.byte(b'N').tuple(new);
            }
            Self::Delete { xid, relation, old } => {
                out.byte(b'D').xid(*xid).u32(*relation).old(old);
            }
            Self::Truncate {
                xid,
                options,
                relations,
            } => {
                out.byte(b'T').xid(*xid);
                out.length(relations.len()).byte(*options);
                for relation in relations {
                    out.u32(*relation);
                }
            }
            Self::Message {
                xid,
                transactional,
                lsn,
                prefix,
                content,
            } => {
                out.byte(b'M').xid(*xid);
                out.byte(u8::from(*transactional));
                out.u64(*lsn).text(prefix);
                out.length(content.len()).all(content);
            }
            Self::StreamStart { xid, first } => {
                out.byte(b'S').u32(*xid).byte(u8::from(*first));
            }
            Self::StreamStop => {
                out.byte(b'E');
            }
            Self::StreamCommit {
                xid,
                commit_lsn,
                end_lsn,
                commit_time,
            } => {
                out.byte(b'c').u32(*xid).byte(0);
                out.u64(*commit_lsn).u64(*end_lsn).i64(*commit_time);
            }
            Self::StreamAbort { xid, subxid, abort } => {
                out.byte(b'A').u32(*xid).u32(*subxid);
                if let Some((lsn, time)) = abort {
                    out.u64(*lsn).i64(*time);
                }
            }
            Self::BeginPrepare(it) => {
                out.byte(b'b').prepared(it);
            }
            Self::Prepare(it) => {
                out.byte(b'P').byte(0).prepared(it);
            }
            Self::CommitPrepared(it) => {
                out.byte(b'K').byte(0).prepared(it);
            }
            Self::RollbackPrepared {
                prepare_end_lsn,
                rollback_end_lsn,
                prepare_time,
                rollback_time,
                xid,
                gid,
            } => {
                out.byte(b'r').byte(0);
                out.u64(*prepare_end_lsn).u64(*rollback_end_lsn);
                out.i64(*prepare_time).i64(*rollback_time);
                out.u32(*xid).text(gid);
            }
            Self::StreamPrepare(it) => {
                out.byte(b'p').byte(0).prepared(it);
            }
        }
        out.0
    }
}

/// Copies a parsed message's fields through its accessors.
impl From<&Message<'_>> for OwnedMessage {
    fn from(message: &Message<'_>) -> Self {
        let own = OwnedPrepared::new;
        match message {
            Message::Begin(m) => Self::Begin {
                final_lsn: m.final_lsn.0,
                commit_time: m.commit_time.0,
                xid: m.xid,
            },
            Message::Commit(m) => Self::Commit {
                commit_lsn: m.commit_lsn.0,
                end_lsn: m.end_lsn.0,
                commit_time: m.commit_time.0,
            },
            Message::Origin(m) => Self::Origin {
                commit_lsn: m.commit_lsn.0,
                name: m.name.into(),
            },
            Message::Relation(m) => {
                let columns: Vec<_> = m
                    .columns
                    .iter()
                    .map(|column| OwnedColumn {
                        flags: column.flags,
                        name: column.name.into(),
                        type_oid: column.type_oid,
                        type_modifier: column.type_modifier,
                    })
                    .collect();
                assert_eq!(columns.len(), m.columns.len());
                assert_eq!(columns.is_empty(), m.columns.is_empty());
                Self::Relation {
                    xid: m.xid,
                    oid: m.oid,
                    namespace: m.namespace.into(),
                    name: m.name.into(),
                    replica_identity: m.replica_identity,
                    columns,
                }
            }
            Message::Type(m) => Self::Type {
                xid: m.xid,
                oid: m.oid,
                namespace: m.namespace.into(),
                name: m.name.into(),
            },
            Message::Insert(m) => Self::Insert {
                xid: m.xid,
                relation: m.relation,
                new: owned(m.new),
            },
            Message::Update(m) => Self::Update {
                xid: m.xid,
                relation: m.relation,
                old: m.old.map(Into::into),
                new: owned(m.new),
            },
            Message::Delete(m) => Self::Delete {
                xid: m.xid,
                relation: m.relation,
                old: m.old.into(),
            },
            Message::Truncate(m) => Self::Truncate {
                xid: m.xid,
                options: m.options,
                relations: m.relations().collect(),
            },
            Message::Message(m) => Self::Message {
                xid: m.xid,
                transactional: m.transactional,
                lsn: m.lsn.0,
                prefix: m.prefix.into(),
                content: m.content.to_vec(),
            },
            Message::StreamStart(m) => Self::StreamStart {
                xid: m.xid,
                first: m.first,
            },
            Message::StreamStop => Self::StreamStop,
            Message::StreamCommit(m) => Self::StreamCommit {
                xid: m.xid,
                commit_lsn: m.commit_lsn.0,
                end_lsn: m.end_lsn.0,
                commit_time: m.commit_time.0,
            },
            Message::StreamAbort(m) => Self::StreamAbort {
                xid: m.xid,
                subxid: m.subxid,
                abort: m.abort.map(|abort| (abort.lsn.0, abort.time.0)),
            },
            Message::BeginPrepare(m) => {
                Self::BeginPrepare(own(m.prepare_lsn, m.end_lsn, m.prepare_time, m.xid, m.gid))
            }
            Message::Prepare(m) => {
                Self::Prepare(own(m.prepare_lsn, m.end_lsn, m.prepare_time, m.xid, m.gid))
            }
            Message::CommitPrepared(m) => {
                Self::CommitPrepared(own(m.commit_lsn, m.end_lsn, m.commit_time, m.xid, m.gid))
            }
            Message::RollbackPrepared(m) => Self::RollbackPrepared {
                prepare_end_lsn: m.prepare_end_lsn.0,
                rollback_end_lsn: m.rollback_end_lsn.0,
                prepare_time: m.prepare_time.0,
                rollback_time: m.rollback_time.0,
                xid: m.xid,
                gid: m.gid.into(),
            },
            Message::StreamPrepare(m) => {
                Self::StreamPrepare(own(m.prepare_lsn, m.end_lsn, m.prepare_time, m.xid, m.gid))
            }
        }
    }
}

fn owned(tuple: Tuple<'_>) -> Vec<OwnedCell> {
    let cells: Vec<_> = tuple.cells().map(OwnedCell::from).collect();
    assert_eq!(cells.len(), tuple.len());
    assert_eq!(cells.is_empty(), tuple.is_empty());
    cells
}

/// A buffer for bytes. Integers are big-endian.
#[derive(Default)]
pub(crate) struct Bytes(pub(crate) Vec<u8>);

impl Bytes {
    pub(crate) fn byte(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(crate) fn all(&mut self, bytes: &[u8]) -> &mut Self {
        for byte in bytes {
            self.byte(*byte);
        }
        self
    }

    pub(crate) fn u16(&mut self, value: u16) -> &mut Self {
        self.all(&value.to_be_bytes())
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.all(&value.to_be_bytes())
    }

    pub(crate) fn i32(&mut self, value: i32) -> &mut Self {
        self.all(&value.to_be_bytes())
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.all(&value.to_be_bytes())
    }

    pub(crate) fn i64(&mut self, value: i64) -> &mut Self {
        self.all(&value.to_be_bytes())
    }

    pub(crate) fn text(&mut self, text: &PgText) -> &mut Self {
        self.all(&text.0).byte(0)
    }

    pub(crate) fn count(&mut self, count: usize) -> &mut Self {
        self.u16(u16::try_from(count).expect("a count of the protocol has 16 bits"))
    }

    pub(crate) fn length(&mut self, length: usize) -> &mut Self {
        self.i32(i32::try_from(length).expect("a length of the protocol has 31 bits"))
    }

    fn xid(&mut self, xid: Option<u32>) -> &mut Self {
        if let Some(xid) = xid {
            self.u32(xid);
        }
        self
    }

    fn prepared(&mut self, it: &OwnedPrepared) -> &mut Self {
        let lsns = self.u64(it.lsn).u64(it.end_lsn);
        lsns.i64(it.time).u32(it.xid).text(&it.gid)
    }

    fn old(&mut self, old: &OwnedOld) -> &mut Self {
        match old {
            OwnedOld::Key(cells) => self.byte(b'K').tuple(cells),
            OwnedOld::Full(cells) => self.byte(b'O').tuple(cells),
        }
    }

    fn tuple(&mut self, cells: &[OwnedCell]) -> &mut Self {
        self.count(cells.len());
        for cell in cells {
            match cell {
                OwnedCell::Null => self.byte(b'n'),
                OwnedCell::Unchanged => self.byte(b'u'),
                OwnedCell::Text(value) => self.byte(b't').length(value.len()).all(value),
                OwnedCell::Binary(value) => self.byte(b'b').length(value.len()).all(value),
            };
        }
        self
    }
}

/// Up to `most` items. The number is chosen first, so that empty and full are equally likely.
pub(crate) fn list<'a, T: Arbitrary<'a>>(u: &mut Unstructured<'a>, most: usize) -> Result<Vec<T>> {
    let count = u.int_in_range(0..=most)?;
    (0..count).map(|_| T::arbitrary(u)).collect()
}

fn value(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    list(u, 20)
}

fn cells(u: &mut Unstructured<'_>) -> Result<Vec<OwnedCell>> {
    list(u, 6)
}

pub(crate) fn identity(u: &mut Unstructured<'_>) -> Result<ReplicaIdentity> {
    u.choose(&[
        ReplicaIdentity::Default,
        ReplicaIdentity::Nothing,
        ReplicaIdentity::Full,
        ReplicaIdentity::Index,
    ])
    .copied()
}
