//! The index of a log describes the contents of all segments. So opening a log reads one object and
//! not each segment.
//!
//! Each block is the foot of a segment, as JSON. The first block with a relation version describes
//! it. Later blocks only have its number, because feet of many tables with many columns would be
//! large. The index follows from the segments. So it may lack the last segments after a crash.

use crate::error::{Error, ErrorKind};
use crate::format::blocks::{NewBlocks, read_object};
use crate::format::listing::{ATTEMPTS, INDEX};
use crate::format::segment::{Foot, SegmentName, TableFoot};
use crate::format::version::TableVersion;
use crate::store::{Objects, Store, once};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::Arc;
use walrow_stream::fact::{Gap, Source};
use walrow_wire::Lsn;

/// A segment of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Segment {
    /// The LSN where the segment before it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub start: Lsn,
    /// Its part number.
    pub part: u32,
    /// The LSN where its last transaction ends, or the position that was recorded after that
    /// transaction.
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
    /// The number of the last load that had ended at the end of the segment. The parts of a load
    /// before its last part do not have this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u64>,
    /// The ranges in it whose changes the server did not send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
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
    /// The LSN where the last transaction with changes of the table ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub last: Lsn,
    /// The LSN where the last load of the table ends. The table has the rows of the load there, so
    /// earlier changes do not matter. `None` without a load.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub loaded: Option<Lsn>,
}

impl TableChanges {
    /// The changes, as a foot describes them.
    pub(crate) fn table(&self, version: &TableVersion) -> TableFoot {
        let TableVersion {
            oid,
            schema,
            name,
            columns,
            identity,
        } = version.clone();
        TableFoot {
            oid,
            schema,
            name,
            columns,
            identity,
            rows: self.rows,
            truncates: self.truncates,
            bytes: self.bytes,
            last: self.last,
            loaded: self.loaded,
        }
    }
}

impl Segment {
    /// The segment with this foot. `number` numbers the versions. In one foot, each version comes
    /// once.
    pub(crate) fn of(foot: &Foot, mut number: impl FnMut(TableVersion) -> usize) -> Self {
        let tables = foot.tables.iter().map(|table| TableChanges {
            version: number(table.version()),
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
            load: foot.load,
            gaps: foot.gaps.clone(),
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
pub(crate) struct Entry {
    #[serde(flatten)]
    pub(crate) segment: Segment,
    /// The versions that come first in this segment.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) versions: Vec<Arc<TableVersion>>,
}

/// All segments of a log, in order, with the relation versions that they use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    pub(crate) segments: Vec<Segment>,
    pub(crate) versions: Vec<Arc<TableVersion>>,
    places: HashMap<Arc<TableVersion>, usize>,
    pub(crate) source: Source,
    /// The segments that the stored index names, but the caller has not asked for.
    pub(crate) others: BTreeSet<SegmentName>,
}

impl Index {
    /// Reads the index of these segments, which are sorted, and the feet of segments that the index
    /// lacks. Leaves out segments that were merged into another segment.
    pub(crate) fn read(objects: &dyn Objects, names: &[SegmentName]) -> Result<Self, Error> {
        // If the index is damaged, the feet have everything.
        let (mut index, mut by_name) = Self::stored(objects)?.unwrap_or_default();
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
                    let foot = Foot::read(objects, *name)?;
                    index.add(&foot);
                    if next.is_none() {
                        // All segments have the same source, but it may have more fields in later
                        // segments.
                        index.source = foot.source;
                    }
                }
            }
            if name.is_merged() {
                merged_until = index.segments.last().map_or(merged_until, |it| it.end);
            }
        }
        index.others = by_name.into_keys().collect();
        Ok(index)
    }

    /// The stored versions, and the stored segments by name. `None` if the index is damaged.
    fn stored(objects: &dyn Objects) -> Result<Option<(Self, ByName)>, Error> {
        let mut index = Self::default();
        let mut by_name = ByName::new();
        let mut is_damaged = false;
        let is_read = entries(objects, |entry| {
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

    /// Appends the entries of the index.
    fn write(&self, blocks: &mut NewBlocks<'_>) -> io::Result<()> {
        let mut described = 0;
        for segment in &self.segments {
            let most = segment.tables.iter().map(|it| it.version.saturating_add(1));
            let upto = most.max().unwrap_or(0).max(described);
            let versions = self.versions.get(described..upto).unwrap_or_default();
            described = upto;
            let entry = Entry {
                segment: segment.clone(),
                versions: versions.to_vec(),
            };
            // Serializing plain data into memory cannot fail.
            let json = serde_json::to_vec(&entry).unwrap_or_default();
            blocks.append(&json)?;
        }
        Ok(())
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
pub(crate) fn entries(objects: &dyn Objects, mut read: impl FnMut(Entry)) -> Result<bool, Error> {
    let mut are_entries = true;
    read_object(objects, INDEX, |block| {
        match serde_json::from_slice(block) {
            Ok(entry) => read(entry),
            Err(_) => are_entries = false,
        }
        Ok(())
    })?;
    Ok(are_entries)
}

type ByName = HashMap<SegmentName, Segment>;

/// Writes the whole index, in place of the stored index. The log's writer may append to the stored
/// index meanwhile. If this happens at each try, the index is removed: it follows from the
/// segments.
pub(crate) fn rewrite(store: &dyn Store, index: &Index) -> Result<(), Error> {
    for _ in 0..ATTEMPTS {
        if once::replace(store, INDEX, |staged| {
            index.write(&mut NewBlocks::new(staged))
        })? {
            return Ok(());
        }
    }
    once::remove(store, INDEX)
}

/// Checks that each segment begins where the segment before it ends.
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
