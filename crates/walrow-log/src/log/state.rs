//! Objects beside the segments: the catalog, prepared transactions, and what was removed.

use crate::log::block_file::{BlockReader, open_object, read_object, write_object};
use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::store::{Store, remove_if_there};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use walrow_stream::{Assembler, Catalog};
use walrow_wire::{Lsn, Oid, Xid};

/// The catalog of the next segments.
pub(crate) const CATALOG: &str = "_catalog";
/// What was removed.
pub(crate) const PRUNED: &str = "_pruned";
/// The beginning of the names of prepared transactions.
const PREPARED: &str = "_prepared-";
/// Bytes of a block of a prepared transaction.
const BLOCK: usize = 1 << 20;

/// Where a prepared transaction's prepare record ends, and its ID. Names sort in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PreparedName {
    pub(crate) end: Lsn,
    pub(crate) xid: Xid,
}

impl PreparedName {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (end, xid) = name.strip_prefix(PREPARED)?.split_once('-')?;
        let parsed = Self {
            end: Lsn(u64::from_str_radix(end, 16).ok()?),
            xid: Xid::from_str_radix(xid, 16).ok()?,
        };
        (parsed.object() == name).then_some(parsed)
    }

    pub(crate) fn object(self) -> String {
        format!("{PREPARED}{:016X}-{:08X}", self.end.0, self.xid)
    }

    /// Makes the transaction durable.
    pub(crate) fn save(self, store: &dyn Store, assembler: &mut Assembler) -> Result<(), Error> {
        write_object(store, &self.object(), |file| {
            let mut out = Chunks {
                block: Vec::new(),
                write: |block: &[u8]| file.append(block),
            };
            assembler.save_prepared_transaction(self.xid, self.end, &mut out)?;
            out.finish()
        })
    }

    /// Gives the transaction to an assembler.
    pub(crate) fn restore(self, store: &dyn Store, assembler: &mut Assembler) -> Result<(), Error> {
        let object = self.object();
        let damaged = || {
            let what = DamagedPart::Prepared;
            Error::new(&object, ErrorKind::Damaged { what })
        };
        let mut file = open_object(store, &object)?.ok_or_else(damaged)?;
        let state = BlockReader::new(&mut *file);
        let mut state = state.map_err(|error| Error::store(&object, &error))?;
        let restored = assembler.restore_prepared(&mut state);
        restored.map_err(|error| match (state.failure, &error.kind) {
            (Some(failure), _) => Error::store(&object, &failure),
            (None, walrow_stream::ErrorKind::Spool { .. }) => error.into(),
            (None, _) => damaged(),
        })
    }

    pub(crate) fn remove(self, store: &dyn Store) -> Result<(), Error> {
        remove_if_there(store, &self.object())
    }
}

/// Collects bytes, and writes them in blocks.
struct Chunks<W> {
    block: Vec<u8>,
    write: W,
}

impl<W: FnMut(&[u8]) -> io::Result<()>> Chunks<W> {
    fn finish(&mut self) -> io::Result<()> {
        if self.block.is_empty() {
            return Ok(());
        }
        (self.write)(&self.block)?;
        self.block.clear();
        Ok(())
    }
}

impl<W: FnMut(&[u8]) -> io::Result<()>> io::Write for Chunks<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.block.extend_from_slice(bytes);
        if self.block.len() >= BLOCK {
            self.finish()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn write_catalog(store: &dyn Store, catalog: &Catalog) -> Result<(), Error> {
    write_object(store, CATALOG, |file| {
        file.append(catalog.to_json().as_bytes())
    })
}

pub(crate) fn read_catalog(store: &dyn Store) -> Result<Catalog, Error> {
    Ok(read_json(store, CATALOG, DamagedPart::Catalog)?.unwrap_or_default())
}

/// What [`Log::prune`](crate::Log::prune) has removed, and [`Eraser`](crate::Eraser) erased.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pruned {
    /// The end of the last segment that was removed.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) until: Lsn,
    /// The end of the last segment that was merged: readers that are not there yet look for it.
    #[serde(default, with = "walrow_stream::fact::lsn")]
    pub(crate) merged: Lsn,
    /// The last removed changes of each table, by OID.
    pub(crate) tables: BTreeMap<Oid, LastRemoved>,
    /// The last transaction of each table of which rows were erased, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) erased: BTreeMap<Oid, LastErased>,
}

/// The last transaction of which rows of a table were erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastErased {
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) end: Lsn,
}

/// The last removed changes of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRemoved {
    #[serde(flatten)]
    last: Removed,
    /// Under its other names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Removed>,
}

/// The last removed changes of a table, under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) schema: String,
    pub(crate) name: String,
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) end: Lsn,
}

impl LastRemoved {
    /// Under each of its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Removed> {
        std::iter::once(&self.last).chain(&self.others)
    }

    /// Adds changes that were removed too, whether they came before or after the others.
    fn add(&mut self, removed: Removed) {
        let Self { last, others } = self;
        let is_same =
            |it: &&mut Removed| (&it.schema, &it.name) == (&removed.schema, &removed.name);
        let mut names = std::iter::once(&mut *last).chain(&mut *others);
        match names.find(is_same) {
            Some(known) => known.end = known.end.max(removed.end),
            None => others.push(removed),
        }
        for other in others {
            if other.end > last.end {
                std::mem::swap(other, last);
            }
        }
    }
}

impl Pruned {
    pub(crate) fn read(store: &dyn Store) -> Result<Self, Error> {
        Ok(read_json(store, PRUNED, DamagedPart::Removed)?.unwrap_or_default())
    }

    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        write_json(store, PRUNED, self)
    }

    /// Makes durable where the transactions end of which rows of tables are erased.
    pub(crate) fn note_erased(
        store: &dyn Store,
        ends: impl IntoIterator<Item = (Oid, Lsn)>,
    ) -> Result<(), Error> {
        let mut pruned = Self::read(store)?;
        let before = pruned.erased.clone();
        for (oid, end) in ends {
            let known = pruned.erased.entry(oid).or_insert(LastErased { end });
            known.end = known.end.max(end);
        }
        if pruned.erased == before {
            return Ok(());
        }
        pruned.write(store)
    }

    /// Notes removed changes of a table.
    pub(crate) fn add(&mut self, oid: Oid, removed: Removed) {
        match self.tables.entry(oid) {
            Entry::Occupied(known) => known.into_mut().add(removed),
            Entry::Vacant(none) => {
                none.insert(LastRemoved {
                    last: removed,
                    others: Vec::new(),
                });
            }
        }
    }
}

/// Writes an object of one block of JSON, instead of the one that has the name.
pub(crate) fn write_json(
    store: &dyn Store,
    name: &str,
    value: &impl Serialize,
) -> Result<(), Error> {
    // Serializing plain data into memory cannot fail.
    let json = serde_json::to_vec(value).unwrap_or_default();
    write_object(store, name, |file| file.append(&json))
}

/// Reads an object of one block of JSON.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(
    store: &dyn Store,
    name: &str,
    what: DamagedPart,
) -> Result<Option<T>, Error> {
    let mut json = None;
    let found = read_object(store, name, |block| {
        json = serde_json::from_slice(block).ok();
        Ok(())
    })?;
    match (found, json) {
        (None, _) => Ok(None),
        (Some(()), Some(json)) => Ok(Some(json)),
        (Some(()), None) => Err(Error::new(name, ErrorKind::Damaged { what })),
    }
}
