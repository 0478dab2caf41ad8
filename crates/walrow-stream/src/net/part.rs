//! The net of a unit as bytes, in parts by the hashes of the keys.
//!
//! ```text
//! block   │ "wnet" 1 │ unit (8) │ size (4), header as JSON │ size (8), entries │
//! entry   │ size (4) │ hash of the key (8) │ moved (1) │ record │
//! ```
//! A part is one block or several. Its bytes stand alone: the header has all versions of the table,
//! and the types of their columns.

use crate::catalog::Catalog;
use crate::encoding::Encoding;
use crate::net::error::{NetError, damaged};
use crate::net::heap::{Id, Scan};
use crate::net::options::NetColumns;
use crate::net::record::{Head, Record};
use crate::net::stored::cells_of;
use crate::net::table::Table;
use crate::net::tally::Barrier;
use crate::net::versions::Seen;
use crate::net::{Base, Net};
use crate::relation::{Column, Relation, TypeName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use walrow_wire::{Lsn, Oid, ReplicaIdentity, Timestamp};

const MAGIC: &[u8; 5] = b"wnet\x01";
/// The most columns of a table.
const MAX_COLUMNS: usize = 1600;

/// The header of all parts of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) oid: Oid,
    /// The last transaction, and where the unit ends.
    pub(super) lsn: u64,
    pub(super) time: i64,
    pub(super) end: u64,
    /// In one of the parts, the number of events, and of moves among them.
    pub(super) events: u64,
    pub(super) moves: u64,
    pub(super) barrier: Option<(u64, u64, bool)>,
    pub(super) clears: bool,
    pub(super) keys: Vec<String>,
    /// The versions in their order. The last one has the columns of the entries.
    versions: Vec<Version>,
    pub(super) catalog: Catalog,
    /// Whether the rows are in LATIN1.
    latin1: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Version {
    schema: String,
    name: String,
    identity: char,
    columns: Vec<Described>,
    numbers: Option<Vec<i16>>,
}

/// A column: its name, type, type modifier, whether it identifies rows, and the names of the type.
type Described = (String, Oid, i32, bool, Option<(String, String)>);

impl Version {
    fn of(seen: &Seen) -> Self {
        let Seen { relation, numbers } = seen;
        let columns = relation.columns.iter().map(|it| {
            let names = it.type_name.as_ref();
            let names = names.map(|it| (it.namespace.to_string(), it.name.to_string()));
            let name = it.name.to_string();
            (name, it.type_oid, it.type_modifier, it.is_key, names)
        });
        Self {
            schema: relation.namespace.to_string(),
            name: relation.name.to_string(),
            identity: char::from(relation.replica_identity.letter()),
            columns: columns.collect(),
            numbers: numbers.clone(),
        }
    }

    fn seen(&self, oid: Oid, encoding: Encoding) -> Option<Seen> {
        let identity = u8::try_from(self.identity).ok()?;
        let columns = self.columns.iter();
        let columns = columns.map(|(name, type_oid, type_modifier, is_key, names)| Column {
            name: name.as_str().into(),
            type_oid: *type_oid,
            type_modifier: *type_modifier,
            is_key: *is_key,
            type_name: names
                .as_ref()
                .map(|(namespace, name)| TypeName::new(namespace.as_str(), name.as_str())),
        });
        let numbers = self.numbers.clone();
        let is_valid = self.columns.len() <= MAX_COLUMNS
            && numbers
                .as_ref()
                .is_none_or(|it| it.len() == self.columns.len());
        is_valid.then(|| Seen {
            relation: Arc::new(Relation {
                version: 0,
                oid,
                namespace: self.schema.as_str().into(),
                name: self.name.as_str().into(),
                replica_identity: ReplicaIdentity::from_letter(identity)
                    .unwrap_or(ReplicaIdentity::Default),
                columns: columns.collect(),
                encoding,
            }),
            numbers,
        })
    }
}

impl Header {
    pub(super) fn barrier(&self) -> Option<Barrier> {
        let (lsn, seq, is_load) = self.barrier?;
        let lsn = Lsn(lsn);
        Some(Barrier { lsn, seq, is_load })
    }

    const fn encoding(&self) -> Encoding {
        if self.latin1 {
            Encoding::Latin1
        } else {
            Encoding::Utf8
        }
    }

    pub(super) const fn time(&self) -> Timestamp {
        Timestamp(self.time)
    }

    /// The versions in their order.
    pub(super) fn versions(&self) -> Result<Vec<Seen>, NetError> {
        let versions = self
            .versions
            .iter()
            .map(|it| it.seen(self.oid, self.encoding()));
        versions.collect::<Option<Vec<_>>>().ok_or(NetError::Part)
    }
}

/// A block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block<'a> {
    pub(super) unit: u64,
    header: &'a [u8],
    entries: &'a [u8],
}

/// An entry of a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry<'a> {
    pub(super) hash: u64,
    /// Whether its row has another head, or the other way round.
    pub(super) is_moved: bool,
    pub(super) record: &'a [u8],
}

impl<'a> Block<'a> {
    /// The blocks of a part.
    pub(super) fn all(mut bytes: &'a [u8]) -> Result<Vec<Self>, NetError> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let (block, rest) = Self::parse(bytes).ok_or(NetError::Part)?;
            blocks.push(block);
            bytes = rest;
        }
        Ok(blocks)
    }

    fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let (unit, rest) = rest.split_first_chunk()?;
        let (size, rest) = rest.split_first_chunk()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (header, rest) = rest.split_at_checked(size)?;
        let (size, rest) = rest.split_first_chunk()?;
        let size = usize::try_from(u64::from_le_bytes(*size)).ok()?;
        let (entries, rest) = rest.split_at_checked(size)?;
        let unit = u64::from_le_bytes(*unit);
        let block = Self {
            unit,
            header,
            entries,
        };
        Some((block, rest))
    }

    pub(super) fn header(&self) -> Result<Header, NetError> {
        serde_json::from_slice(self.header).map_err(|_| NetError::Part)
    }

    /// The entries.
    pub(super) fn entries(&self) -> impl Iterator<Item = Result<Entry<'a>, NetError>> + use<'a> {
        let mut rest = self.entries;
        std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let Some((entry, after)) = Entry::parse(rest) else {
                rest = &[];
                return Some(Err(NetError::Part));
            };
            rest = after;
            Some(Ok(entry))
        })
    }

    /// Writes entries of the block, and the number of its unit. Its events are counted already.
    pub(super) fn encode_left(
        unit: u64,
        mut header: Header,
        entries: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), NetError> {
        (header.events, header.moves) = (0, 0);
        put_block(unit, &to_json(&header)?, entries, out);
        Ok(())
    }
}

impl<'a> Entry<'a> {
    fn parse(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (size, rest) = bytes.split_first_chunk()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (entry, rest) = rest.split_at_checked(size)?;
        let (hash, entry) = entry.split_first_chunk()?;
        let (moved, record) = entry.split_first()?;
        let hash = u64::from_le_bytes(*hash);
        let is_moved = *moved != 0;
        let entry = Self {
            hash,
            is_moved,
            record,
        };
        Some((entry, rest))
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) -> Result<(), NetError> {
        let size = self.record.len().saturating_add(9);
        let size = u32::try_from(size).map_err(|_| damaged())?;
        out.extend_from_slice(&size.to_le_bytes());
        out.extend_from_slice(&self.hash.to_le_bytes());
        out.push(self.is_moved.into());
        out.extend_from_slice(self.record);
        Ok(())
    }
}

fn put_block(unit: u64, header: &[u8], entries: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&unit.to_le_bytes());
    let size = u32::try_from(header.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(header);
    out.extend_from_slice(&(entries.len() as u64).to_le_bytes());
    out.extend_from_slice(entries);
}

impl Net {
    /// Divides net changes by the hashes of their keys: the bytes of each partition, for
    /// [`NetJoin`](crate::NetJoin). `end` is the LSN where the unit ends.
    ///
    /// A partition without changes has no bytes, unless the others need to know of a barrier or of
    /// columns.
    ///
    /// # Errors
    /// At the end, several rows have one key. The spool failed.
    pub fn split(self, partitions: u32, end: Lsn) -> Result<Vec<(u32, Vec<u8>)>, NetError> {
        let Self { mut table, base } = self;
        let Base::Unknown(mut changes) = base else {
            return Err(NetError::Part);
        };
        changes.settle(&mut table)?;
        let Some(relation) = table.relation.clone() else {
            return Ok(Vec::new());
        };
        let moved = moved(&mut table)?;
        let partitions = partitions.max(1);
        let mut entries = vec![Vec::new(); usize::try_from(partitions).unwrap_or(1)];
        let (mut scan, mut projected, mut bytes) = (Scan::default(), Vec::new(), Vec::new());
        let mut stored = Vec::new();
        while let Some(row) = table.heap.next(&mut scan)? {
            stored.clear();
            stored.extend_from_slice(table.heap.cells(&scan));
            let mut record = Record::parse(&stored).ok_or_else(damaged)?;
            (record.since, record.changed, record.is_beside) = (0, 0, false);
            let id = if record.is_row {
                record.has_unsent |= !table.versions.is_last(row.version);
                let cells = cells_of(&table.versions, row.version, &record, &mut projected);
                let cells = cells.ok_or_else(damaged)?;
                record.cells = cells.bytes();
                table.id_in(cells)?
            } else {
                table.id_of_cells(record.cells)?
            };
            let hash = table.identity.fixed_hash();
            bytes.clear();
            record.encode(&mut bytes);
            let entry = Entry {
                hash,
                is_moved: record.head == Head::Other || moved.contains(&id),
                record: &bytes,
            };
            let place = u128::from(hash).saturating_mul(u128::from(partitions)) >> 64;
            let place = usize::try_from(place).unwrap_or(0);
            if let Some(entries) = entries.get_mut(place) {
                entry.encode(entries)?;
            }
        }
        let layout = Seen {
            relation: Arc::clone(&relation),
            numbers: table.numbers.clone(),
        };
        let versions = changes.layout.chain.iter().chain([&layout]);
        let mut header = Header {
            oid: table.oid,
            lsn: table.commit_lsn.0,
            time: table.time.0,
            end: end.0,
            events: changes.events,
            moves: changes.moves,
            barrier: changes.barrier.map(|it| (it.lsn.0, it.seq, it.is_load)),
            clears: changes.clears,
            keys: changes.layout.keys.clone().unwrap_or_default(),
            versions: versions.map(Version::of).collect(),
            catalog: used(&table),
            latin1: relation.encoding == Encoding::Latin1,
        };
        let needs_all = changes.barrier.is_some() || changes.options.columns == NetColumns::Last;
        let is_empty = entries.iter().all(Vec::is_empty);
        let mut parts = Vec::new();
        let mut json = to_json(&header)?;
        for (partition, entries) in (0..partitions).zip(entries) {
            let is_first = partition == 0 && is_empty && header.events > 0;
            if entries.is_empty() && !needs_all && !is_first {
                continue;
            }
            let mut part = Vec::new();
            put_block(0, &json, &entries, &mut part);
            parts.push((partition, part));
            if header.events > 0 {
                (header.events, header.moves) = (0, 0);
                json = to_json(&header)?;
            }
        }
        Ok(parts)
    }
}

fn to_json(header: &Header) -> Result<Vec<u8>, NetError> {
    serde_json::to_vec(header).map_err(|_| NetError::Part)
}

/// The keys that rows of other keys had.
fn moved(table: &mut Table) -> Result<BTreeSet<Id>, NetError> {
    let mut moved = BTreeSet::new();
    let mut scan = Scan::default();
    while table.heap.next(&mut scan)?.is_some() {
        let record = Record::parse(table.heap.cells(&scan)).ok_or_else(damaged)?;
        if record.head == Head::Other {
            let key = record.head_key.to_vec();
            moved.insert(table.id_of_cells(&key)?);
        }
    }
    Ok(moved)
}

/// The types of the catalog that the columns consist of.
fn used(table: &Table) -> Catalog {
    let columns = table.relation.iter().flat_map(|it| &it.columns);
    let mut found = table.catalog.restricted([], columns.map(|it| it.type_oid));
    found.types.sort_by_key(|it| it.oid);
    found
}
