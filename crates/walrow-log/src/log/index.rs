//! The index of a log: what all segments contain, so that opening a log reads one object and not
//! each segment.
//!
//! Each block is the foot of a segment, as JSON. A relation version is described when it comes
//! first, and then only numbered: feet of many tables with many columns would be large. The index
//! follows from the segments. So it may lack the last ones, after a crash.

use crate::log::block_file::{BlockFile, read_object, write_object_as};
use crate::log::error::{Error, ErrorKind};
use crate::log::listing::{INDEX, Listing};
use crate::log::segment::{Foot, SegmentName, TableFoot};
use crate::log::store::{Store, TEMPORARY};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use walrow_stream::fact::Source;
use walrow_wire::{Lsn, Oid};

/// A table with its columns, as a relation version describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableVersion {
    /// The relation.
    pub oid: Oid,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns: name, type, type modifier, and whether it is part of the replica identity.
    pub columns: Vec<(String, Oid, i32, bool)>,
    /// The letter of its replica identity: `pg_class.relreplident`.
    #[serde(default = "crate::log::segment::unknown_identity")]
    pub identity: char,
}

impl TableVersion {
    fn of(table: &TableFoot) -> Self {
        Self {
            oid: table.oid,
            schema: table.schema.clone(),
            name: table.name.clone(),
            columns: table.columns.clone(),
            identity: table.identity,
        }
    }
}

/// A segment of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Segment {
    /// Where the segment before it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub start: Lsn,
    /// Its part number.
    pub part: u32,
    /// Where its last transaction ends, or the position that was recorded after it.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub end: Lsn,
    /// Whether its last transaction continues in the next segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// How many transactions it has. A part counts as one.
    pub transactions: u64,
    /// The least and the greatest commit time, in microseconds since 2000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<(i64, i64)>,
    /// The tables that have changes in it.
    pub tables: Vec<TableChanges>,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the frames before the foot.
    pub bytes: u64,
    /// The CRC-32C of these bytes.
    pub crc32c: u32,
}

/// The changes of a table in a segment, under one relation version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableChanges {
    /// The place of its version in [`Log::versions`](crate::Log::versions).
    pub version: usize,
    /// How many rows were inserted, updated or deleted.
    pub rows: u64,
    /// How often it was truncated.
    pub truncates: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// Where the last transaction with changes of it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub last: Lsn,
    /// Where the last load of it ends. Its rows are those of the table from there on, whatever came
    /// before. `None` without a load.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub loaded: Option<Lsn>,
}

impl Segment {
    /// The segment with this foot. `number` numbers the versions. In one foot, each comes once.
    fn of(foot: &Foot, mut number: impl FnMut(TableVersion) -> usize) -> Self {
        let tables = foot.tables.iter().map(|table| TableChanges {
            version: number(TableVersion::of(table)),
            rows: table.rows,
            truncates: table.truncates,
            bytes: table.bytes,
            last: table.last,
            loaded: table.loaded,
        });
        Self {
            start: foot.start,
            part: foot.part,
            end: foot.end,
            continues: foot.continues,
            transactions: foot.transactions,
            times: foot.times,
            tables: tables.collect(),
            stream_bytes: foot.stream_bytes,
            bytes: foot.bytes,
            crc32c: foot.crc32c,
        }
    }

    /// Its name.
    pub const fn name(&self) -> SegmentName {
        SegmentName {
            start: self.start,
            part: self.part,
        }
    }

    /// The name of the segment after it.
    pub(crate) fn next(&self) -> Option<SegmentName> {
        self.name().next(self.end, self.continues)
    }
}

/// A block of the index.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    segment: Segment,
    /// The versions that come first here.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    versions: Vec<Arc<TableVersion>>,
}

/// All segments of a log, in order, with the relation versions that they use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(crate) segments: Vec<Segment>,
    pub(crate) versions: Vec<Arc<TableVersion>>,
    places: HashMap<Arc<TableVersion>, usize>,
    pub(crate) source: Source,
}

impl Index {
    /// Reads the index of these segments, which are sorted, and the feet of those that it lacks. What
    /// was merged into another one is left out.
    pub(crate) fn read(store: &dyn Store, names: &[SegmentName]) -> Result<Self, Error> {
        // If it is damaged, everything is in the feet.
        let (mut index, mut by_name) = Self::stored(store)?.unwrap_or_default();
        let mut merged_until = Lsn::INVALID;
        let mut rest = names.iter();
        while let Some(name) = rest.next() {
            if name.start < merged_until {
                continue;
            }
            let stored = by_name.remove(name);
            let end = stored.as_ref().filter(|_| name.is_merged());
            let end = end.map_or(Lsn::INVALID, |segment| segment.end);
            let next = rest.as_slice().iter().find(|next| next.start >= end);
            match (stored, next) {
                // An index that was copied from elsewhere may describe other segments.
                (Some(segment), Some(next)) if segment.next() == Some(next.place()) => {
                    index.segments.push(segment);
                }
                (_, next) => {
                    let foot = Foot::read(store, *name)?;
                    index.add(&foot);
                    if next.is_none() {
                        // All segments have one source. It may have more fields later.
                        index.source = foot.source;
                    }
                }
            }
            if name.is_merged() {
                merged_until = index.segments.last().map_or(merged_until, |it| it.end);
            }
        }
        Ok(index)
    }

    /// The stored versions, and the stored segments by name. `None` if the index is damaged.
    fn stored(store: &dyn Store) -> Result<Option<(Self, ByName)>, Error> {
        let mut index = Self::default();
        let mut by_name = ByName::new();
        let mut is_damaged = false;
        let is_read = entries(store, |entry| {
            for version in entry.versions {
                index.number(version);
            }
            let mut versions = entry.segment.tables.iter().map(|it| it.version);
            is_damaged |= versions.any(|version| version >= index.versions.len());
            by_name.insert(entry.segment.name(), entry.segment);
        })?;
        is_damaged |= !is_read;
        Ok((!is_damaged).then_some((index, by_name)))
    }

    /// Adds the segment with this foot.
    pub(crate) fn add(&mut self, foot: &Foot) {
        let segment = Segment::of(foot, |version| self.number(Arc::new(version)));
        self.segments.push(segment);
    }

    /// The number of a version.
    fn number(&mut self, version: Arc<TableVersion>) -> usize {
        let next = self.versions.len();
        let versions = &mut self.versions;
        *self.places.entry(version).or_insert_with_key(|version| {
            versions.push(Arc::clone(version));
            next
        })
    }
}

/// Reads the blocks of the index. Returns whether all of them are entries.
fn entries(store: &dyn Store, mut read: impl FnMut(Entry)) -> Result<bool, Error> {
    let mut are_entries = true;
    read_object(store, INDEX, |block| {
        match serde_json::from_slice(block) {
            Ok(entry) => read(entry),
            Err(_) => are_entries = false,
        }
        Ok(())
    })?;
    Ok(are_entries)
}

type ByName = HashMap<SegmentName, Segment>;

/// The index as its writer keeps it.
#[derive(Debug)]
pub(crate) struct IndexFile {
    file: BlockFile,
    places: HashMap<Arc<TableVersion>, usize>,
    /// The last segment that it has.
    last: Option<SegmentName>,
}

impl IndexFile {
    /// Opens the index of these segments. Writes it again unless it has the first of them, in order.
    pub(crate) fn open(store: &dyn Store, names: &[SegmentName]) -> Result<Self, Error> {
        if names.iter().any(|name| name.is_merged()) {
            // Without those that were merged into others.
            let index = Index::read(store, names)?;
            let names: Vec<_> = index.segments.iter().map(Segment::name).collect();
            return Self::open_for(store, &names);
        }
        Self::open_for(store, names)
    }

    fn open_for(store: &dyn Store, names: &[SegmentName]) -> Result<Self, Error> {
        let (mut stored, mut next) = (Vec::new(), None);
        let mut places = HashMap::new();
        let mut is_damaged = false;
        let is_read = entries(store, |entry| {
            // An index that was copied from elsewhere may describe other segments.
            is_damaged |= next.is_some_and(|next| next != entry.segment.name().place());
            next = entry.segment.next();
            stored.push(entry.segment.name());
            for version in entry.versions {
                let next = places.len();
                places.entry(version).or_insert(next);
            }
        })?;
        is_damaged |= !is_read;
        is_damaged |= match names.get(stored.len()) {
            Some(after) => !stored.is_empty() && next != Some(after.place()),
            None => false,
        };
        if is_damaged || !names.starts_with(&stored) {
            let index = Index::read(store, names)?;
            let start = names.first().map_or(Lsn::INVALID, |first| first.start);
            check_order(&index.segments, start)?;
            rewrite(store, &index)?;
            return Self::open_for(store, names);
        }
        let io = |error| Error::store(INDEX, &error);
        let file = BlockFile::open(store, INDEX).map_err(io)?;
        let last = stored.last().copied();
        let mut index = Self { file, places, last };
        for name in names.get(stored.len()..).unwrap_or_default() {
            index.add(&Foot::read(store, *name)?).map_err(io)?;
        }
        Ok(index)
    }

    /// Adds a segment that was published. If another process has written the index again, it is opened
    /// again. The index is not synced: it follows from the segments.
    pub(crate) fn append(&mut self, store: &dyn Store, foot: &Foot) -> Result<(), Error> {
        let io = |error| Error::store(INDEX, &error);
        let found = store.open(INDEX).and_then(|mut file| file.size());
        if found.map_err(io)? != self.file.stored().map_err(io)? {
            *self = Self::open(store, &Listing::of(store)?.segments)?;
        }
        self.add(foot).map_err(io)
    }

    fn add(&mut self, foot: &Foot) -> io::Result<()> {
        let name = Some(SegmentName {
            start: foot.start,
            part: foot.part,
        });
        if name <= self.last {
            return Ok(());
        }
        let known = self.places.len();
        let mut versions: Vec<Arc<TableVersion>> = Vec::new();
        let segment = Segment::of(foot, |version| {
            if let Some(place) = self.places.get(&version) {
                return *place;
            }
            versions.push(Arc::new(version));
            known.saturating_add(versions.len()).saturating_sub(1)
        });
        let entry = Entry { segment, versions };
        // Serializing plain data into memory cannot fail.
        let json = serde_json::to_vec(&entry).unwrap_or_default();
        self.file.append(&json)?;
        self.last = name;
        for version in entry.versions {
            let next = self.places.len();
            self.places.entry(version).or_insert(next);
        }
        Ok(())
    }
}

/// Writes the whole index, instead of the stored one.
pub(crate) fn rewrite(store: &dyn Store, index: &Index) -> Result<(), Error> {
    rewrite_as(store, &format!("{TEMPORARY}{INDEX}"), index)
}

/// As `rewrite`, beside a writer, which may do the same.
pub(crate) fn rewrite_beside(store: &dyn Store, index: &Index) -> Result<(), Error> {
    rewrite_as(store, &format!("{TEMPORARY}beside-{INDEX}"), index)
}

fn rewrite_as(store: &dyn Store, temporary: &str, index: &Index) -> Result<(), Error> {
    write_object_as(store, temporary, INDEX, |file| {
        let mut described = 0;
        for segment in &index.segments {
            let most = segment.tables.iter().map(|it| it.version.saturating_add(1));
            let upto = most.max().unwrap_or(0).max(described);
            let versions = index.versions.get(described..upto).unwrap_or_default();
            described = upto;
            let entry = Entry {
                segment: segment.clone(),
                versions: versions.to_vec(),
            };
            let json = serde_json::to_vec(&entry).unwrap_or_default();
            file.append(&json)?;
        }
        Ok(())
    })
}

/// Checks that each segment begins where the one before it ends.
pub(crate) fn check_order(segments: &[Segment], start: Lsn) -> Result<(), Error> {
    let mut next = Some(SegmentName { start, part: 0 });
    let mut after = start;
    for segment in segments {
        let name = segment.name();
        if next != Some(name.place()) {
            return Err(Error::new("", ErrorKind::Missing { after }));
        }
        next = segment.next();
        after = if segment.continues {
            segment.start
        } else {
            segment.end
        };
    }
    Ok(())
}
