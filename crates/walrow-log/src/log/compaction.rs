//! Merges many small segments into few large ones, without changing what readers see.
//!
//! ```text
//! before    │ a │ b │ c │ d │ e │          each ends where the next one begins
//! merged    │ a · b · c · d │              published beside them, under a name of its own
//! after     │ a · b · c · d │ e │          the others are removed
//! ```
//! The frames are copied as they are, so the merged stream is that of its members, one after the other.
//! Its foot says where each of them begins and ends: a reader that has planned `c` reads its part of the
//! merged segment. While both are there, what begins inside a merged segment does not count, so a crash at
//! any time leaves a log with each transaction once.
//!
//! The parts of a large transaction are never merged, nor is the last segment: it is where the
//! writer continues.

use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::index::{Index, Segment, rewrite_beside};
use crate::log::listing::Listing;
use crate::log::load_place::Place;
use crate::log::locking::lock;
use crate::log::segment::{Foot, MERGED, SegmentName, TableFoot};
use crate::log::state::Pruned;
use crate::log::store::{ReadAt, Store, TEMPORARY, WriteAt, remove_if_there};
use crate::log::view::Log;
use std::collections::HashSet;
use walrow_wire::Lsn;

/// Segments that are merged into one, at most.
const MOST: usize = 4096;
/// Bytes of one read.
const READ: u64 = 1 << 20;

/// What [`Log::compact`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// How many segments were merged.
    pub segments: usize,
    /// How many there are instead of them.
    pub merged: usize,
    /// Bytes that were copied.
    pub bytes: u64,
}

impl Log {
    /// Merges neighbouring segments whose streams have this many bytes together, at most. Any number of
    /// readers and a writer may use the log meanwhile. Each segment is copied a few times at most,
    /// however often this is called.
    ///
    /// # Errors
    /// A segment is damaged, or the store failed. Another call goes on.
    pub fn compact(&mut self, stream_bytes: u64) -> Result<Compacted, Error> {
        let store = self.store();
        {
            let _lock = lock(&*store)?;
            sweep(&*store)?;
            *self = Self::open(store.clone())?;
        }
        let mut compacted = Compacted::default();
        for group in groups(self.mergeable()?, stream_bytes) {
            let _lock = lock(&*store)?;
            match merge(&*store, group) {
                Ok(bytes) => {
                    compacted.segments = compacted.segments.saturating_add(group.len());
                    compacted.merged = compacted.merged.saturating_add(1);
                    compacted.bytes = compacted.bytes.saturating_add(bytes);
                }
                // They were removed meanwhile, or a writer that starts has removed what was not complete.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        if compacted.merged > 0 {
            let _lock = lock(&*store)?;
            let (_, index) = kept(&*store)?;
            rewrite_beside(&*store, &index)?;
            *self = Self::open(store)?;
        }
        Ok(compacted)
    }

    /// The segments that may be merged.
    fn mergeable(&self) -> Result<&[Segment], Error> {
        let segments = self.segments().split_last().map_or(&[][..], |(_, it)| it);
        // A load that takes its place is recognized by its own segments.
        let end = Place::read(&*self.store)?.map_or(Lsn(u64::MAX), |place| place.start);
        let count = segments.partition_point(|segment| segment.end <= end);
        Ok(segments.get(..count).unwrap_or_default())
    }
}

/// The segments of a log that were not pruned: all names, and the index without those that were merged.
fn kept(store: &dyn Store) -> Result<(Vec<SegmentName>, Index), Error> {
    let until = Pruned::read(store)?.until;
    let mut names = Listing::of(store)?.segments;
    names.retain(|name| name.start >= until);
    let index = Index::read(store, &names)?;
    Ok((names, index))
}

/// Removes segments that were merged into others, and that a crash has left.
pub(super) fn sweep(store: &dyn Store) -> Result<(), Error> {
    let (names, index) = kept(store)?;
    if names.len() == index.segments.len() {
        return Ok(());
    }
    let mut merged = index.segments.iter().filter(|it| it.name().is_merged());
    if let Some(last) = merged.next_back() {
        note(store, last.end)?;
    }
    let visible: HashSet<_> = index.segments.iter().map(Segment::name).collect();
    for name in names.iter().filter(|name| !visible.contains(name)) {
        remove_if_there(store, &name.to_string())?;
    }
    Ok(())
}

/// Records where merged segments end, before their members are removed: readers that do not find their next
/// segment look for it.
fn note(store: &dyn Store, end: Lsn) -> Result<(), Error> {
    let mut pruned = Pruned::read(store)?;
    if pruned.merged < end {
        pruned.merged = end;
        pruned.write(store)?;
    }
    Ok(())
}

/// The groups of neighbours that are worth merging.
fn groups(segments: &[Segment], stream_bytes: u64) -> Vec<&[Segment]> {
    let mut groups = Vec::new();
    let is_alone = |segment: &Segment| segment.continues || segment.name().place().part > 0;
    for run in segments.split(is_alone) {
        let mut rest = run;
        while !rest.is_empty() {
            let mut total = 0_u64;
            let fits = rest.iter().take(MOST).take_while(|segment| {
                total = total.saturating_add(segment.stream_bytes);
                total <= stream_bytes
            });
            let (group, more) = rest.split_at(fits.count().max(1));
            worthwhile(group, &mut groups);
            rest = more;
        }
    }
    groups
}

/// Finds the groups in which the largest segment has no more than half of the bytes. So each byte is
/// copied only when its segment doubles at least.
fn worthwhile<'a>(group: &'a [Segment], groups: &mut Vec<&'a [Segment]>) {
    let mut rest = vec![group];
    while let Some(group) = rest.pop() {
        let sizes = group.iter().map(|it| it.stream_bytes).enumerate();
        let Some((place, largest)) = sizes.max_by_key(|(_, size)| *size) else {
            continue;
        };
        let others = group.iter().map(|it| it.stream_bytes);
        let others = others.fold(0, u64::saturating_add).saturating_sub(largest);
        if group.len() > 1 && others >= largest {
            groups.push(group);
        } else {
            let (before, after) = group.split_at(place);
            rest.extend(after.split_first().map(|(_, after)| after));
            rest.push(before);
        }
    }
}

/// Merges a group of segments. Returns how many bytes were copied.
fn merge(store: &dyn Store, group: &[Segment]) -> Result<u64, Error> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return Ok(0);
    };
    let name = match first.name() {
        name if name.is_merged() => SegmentName {
            part: name.part.saturating_add(1),
            ..name
        },
        name => SegmentName {
            part: MERGED,
            ..name
        },
    };
    // A retention may have decided to remove them.
    if Pruned::read(store)?.until > name.start {
        return Err(Error::new("", ErrorKind::Missing { after: name.start }));
    }
    let temporary = format!("{TEMPORARY}{name}");
    let io = |error| Error::store(&temporary, &error);
    remove_if_there(store, &temporary)?;
    let mut file = store.write(&temporary).map_err(io)?;
    let mut merged: Option<Foot> = None;
    for segment in group {
        let foot = copy(store, segment, &mut *file, &temporary)?;
        merged = Some(match merged {
            None => Foot {
                members: foot.members(),
                ..foot
            },
            Some(merged) => join(merged, foot),
        });
    }
    let Some(mut foot) = merged else {
        return Ok(0);
    };
    foot.part = name.part;
    file.append(&foot.encode()).map_err(io)?;
    file.sync().map_err(io)?;
    drop(file);
    let object = name.to_string();
    store
        .publish(&temporary, &object)
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::new(&object, ErrorKind::Published),
            _ => Error::store(&object, &error),
        })?;
    note(store, last.end)?;
    for segment in group {
        remove_if_there(store, &segment.name().to_string())?;
    }
    Ok(foot.bytes)
}

/// Appends the frames of a segment, and compares them with their checksum.
fn copy(
    store: &dyn Store,
    segment: &Segment,
    file: &mut dyn WriteAt,
    temporary: &str,
) -> Result<Foot, Error> {
    let object = segment.name().to_string();
    let io = |error| Error::store(&object, &error);
    let mut from: Box<dyn ReadAt> = store.open(&object).map_err(io)?;
    let foot = Foot::read_from(&mut *from, segment.name())?;
    let damaged = |what| Err(Error::new(&object, ErrorKind::Damaged { what }));
    if foot.end != segment.end {
        return damaged(DamagedPart::Foot);
    }
    let (mut at, mut crc32c, mut buffer) = (0, 0, Vec::new());
    while at < foot.bytes {
        let size = foot.bytes.saturating_sub(at).min(READ);
        buffer.resize(usize::try_from(size).unwrap_or(usize::MAX), 0);
        from.read_at(at, &mut buffer).map_err(io)?;
        crc32c = crc32c::crc32c_append(crc32c, &buffer);
        file.append(&buffer)
            .map_err(|error| Error::store(temporary, &error))?;
        at = at.saturating_add(size);
    }
    if crc32c != foot.crc32c {
        return damaged(DamagedPart::Checksum);
    }
    Ok(foot)
}

/// The foot of one segment after the other.
fn join(one: Foot, next: Foot) -> Foot {
    let crc32c = crc32c::crc32c_combine(
        one.crc32c,
        next.crc32c,
        usize::try_from(next.bytes).unwrap_or(usize::MAX),
    );
    let mut members = one.members;
    members.extend(if next.members.is_empty() {
        next.members()
    } else {
        next.members.clone()
    });
    let mut tables = one.tables;
    for table in next.tables {
        add_table(&mut tables, table);
    }
    Foot {
        format: one.format.max(next.format),
        start: one.start,
        part: one.part,
        end: next.end,
        continues: next.continues,
        source: next.source,
        transactions: one.transactions.saturating_add(next.transactions),
        times: match (one.times, next.times) {
            (Some((least, greatest)), Some((other, later))) => {
                Some((least.min(other), greatest.max(later)))
            }
            (one, next) => one.or(next),
        },
        tables,
        members,
        stream_bytes: one.stream_bytes.saturating_add(next.stream_bytes),
        bytes: one.bytes.saturating_add(next.bytes),
        crc32c,
    }
}

/// Adds the changes of a table to those of the same version, if there are any.
fn add_table(tables: &mut Vec<TableFoot>, table: TableFoot) {
    let same = tables.iter_mut().find(|it| {
        it.oid == table.oid
            && it.schema == table.schema
            && it.name == table.name
            && it.columns == table.columns
    });
    let Some(same) = same else {
        tables.push(table);
        return;
    };
    same.rows = same.rows.saturating_add(table.rows);
    same.truncates = same.truncates.saturating_add(table.truncates);
    same.bytes = same.bytes.saturating_add(table.bytes);
    same.last = same.last.max(table.last);
    same.loaded = table.loaded.or(same.loaded);
}
