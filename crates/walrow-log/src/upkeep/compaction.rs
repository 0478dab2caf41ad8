//! Merges many small segments into few large segments, without a change of the transactions that
//! readers see.
//!
//! ```text
//! before    │ a │ b │ c │ d │ e │          each ends where the next begins
//! merged    │ a · b · c · d │              published beside them, under another name
//! after     │ a · b · c · d │ e │          the members are removed
//! ```
//! The frames are copied as they are, so the merged stream has the streams of its members, one
//! after the other. The foot of the merged segment says where each member begins and ends. So a
//! reader that has planned `c` reads its part of the merged segment. While both are there, segments
//! that begin inside of a merged segment do not count. So a crash at any time leaves a log with
//! each transaction once.
//!
//! The parts of a large transaction are never merged. The last segment is not merged either,
//! because the writer continues there.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::index::{self, Index, Segment};
use crate::format::listing::Listing;
use crate::format::segment::{Foot, LARGEST_FOOT, MERGED, SegmentName, TableFoot, remove};
use crate::format::state::State;
use crate::read::Step;
use crate::read::log::{drop_incomplete, leave_out_hidden};
use crate::store::lease::{Lease, lease, lock};
use crate::store::{Objects, ReadAt, Staged, Store, once};
use crate::upkeep::{Upkeep, retention};
use std::collections::HashSet;
use std::sync::Arc;
use walrow_wire::Lsn;

/// The number of segments that are merged into one segment, at most.
const MOST: usize = 4096;
/// Bytes of one read.
const READ: u64 = 1 << 20;

/// The result of [`Upkeep::compact`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compacted {
    /// How many segments were merged.
    pub segments: usize,
    /// How many merged segments there are in their place.
    pub merged: usize,
    /// Bytes that were copied.
    pub bytes: u64,
}

impl Upkeep {
    /// Merges neighbouring segments whose streams have this many bytes together, at most. Any
    /// number of readers and a writer may use the log meanwhile. Each segment is copied only a few
    /// times, even if this is called often. `step` is called after each MiB, and after each segment.
    /// An error of `step` ends the call.
    ///
    /// # Errors
    /// A segment is damaged, another process removes, merges or erases segments, or the store failed;
    /// or the error of `step`. Another call continues the work.
    pub fn compact(&mut self, stream_bytes: u64, step: &mut Step<'_>) -> Result<Compacted, Error> {
        let store = Arc::clone(&self.store);
        let lease = lease(&*store)?;
        retention::end_removal(&*store, &lease)?;
        sweep(&*store, &lease)?;
        self.refresh()?;
        let mut compacted = Compacted::default();
        for group in groups(self.mergeable()?, stream_bytes) {
            step()?;
            match merge(&*store, &lease, group, step) {
                // The foot would be too large for readers.
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    compacted.segments = compacted.segments.saturating_add(group.len());
                    compacted.merged = compacted.merged.saturating_add(1);
                    compacted.bytes = compacted.bytes.saturating_add(bytes);
                }
                // The segments were removed meanwhile.
                Err(error) if error.is_missing() => {}
                Err(error) => return Err(error),
            }
        }
        if compacted.merged > 0 {
            let (state, _, mut index) = kept(&*store)?;
            // A writer that opens the log may remove parts of transactions meanwhile, and an index
            // that names a removed segment is damage.
            leave_out_hidden(&mut index, &state);
            drop_incomplete(&mut index.segments);
            index::rewrite(&*store, &index)?;
            self.refresh()?;
        }
        Ok(compacted)
    }

    /// The segments that may be merged.
    fn mergeable(&self) -> Result<&[Segment], Error> {
        let segments = self.segments().split_last().map_or(&[][..], |(_, it)| it);
        // A load that takes its place is recognized by its own segments.
        let end = State::read(&*self.store)?
            .place
            .map_or(Lsn(u64::MAX), |place| place.start);
        let count = segments.partition_point(|segment| segment.end <= end);
        Ok(segments.get(..count).unwrap_or_default())
    }
}

/// The state of a log, and its segments that were not pruned: the names of all of them, and the
/// index without segments that were merged into other segments.
fn kept(objects: &dyn Objects) -> Result<(State, Vec<SegmentName>, Index), Error> {
    let state = State::read(objects)?;
    let mut names = Listing::of(objects)?.segments;
    names.retain(|name| name.start >= state.boundary);
    let index = Index::read(objects, &names)?;
    Ok((state, names, index))
}

/// Removes segments that were merged into other segments, and that a crash has left.
pub(crate) fn sweep(store: &dyn Store, _lease: &Lease) -> Result<(), Error> {
    let (_, names, index) = kept(store)?;
    if names.len() == index.segments.len() {
        return Ok(());
    }
    let mut merged = index.segments.iter().filter(|it| it.name().is_merged());
    if let Some(last) = merged.next_back() {
        note(store, last.start, last.end)?;
    }
    let visible: HashSet<_> = index.segments.iter().map(Segment::name).collect();
    let mut names = names;
    names.retain(|name| !visible.contains(name));
    remove(store, &names)
}

/// Records where a merged segment ends, before its members are removed. Readers that do not find
/// their next segment look at this record. Fails if the first member was removed meanwhile.
fn note(store: &dyn Store, start: Lsn, end: Lsn) -> Result<(), Error> {
    let lock = lock(store)?;
    State::change(store, &lock, |state| {
        if state.boundary > start {
            return Err(Error::new("", ErrorKind::Missing { after: start }));
        }
        state.merged = state.merged.max(end);
        Ok(())
    })
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

/// Finds the groups whose largest segment has no more than half of the bytes. So each byte is
/// copied only when its segment at least doubles.
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

/// Merges a group of segments. Returns how many bytes were copied. `None` if the segments are too
/// many for one foot: then they stay.
fn merge(
    store: &dyn Store,
    _lease: &Lease,
    group: &[Segment],
    step: &mut Step<'_>,
) -> Result<Option<u64>, Error> {
    let (Some(first), Some(last)) = (group.first(), group.last()) else {
        return Ok(None);
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
    let object = name.to_string();
    let io = |error| Error::store(&object, &error);
    let mut staged = store.stage().map_err(io)?;
    let mut merged: Option<Foot> = None;
    for segment in group {
        let foot = copy(store, segment, &mut *staged, step)?;
        merged = Some(match merged {
            None => Foot {
                members: foot.members(),
                ..foot
            },
            Some(merged) => join(merged, foot),
        });
    }
    let Some(mut foot) = merged else {
        return Ok(None);
    };
    foot.part = name.part;
    let encoded = foot.encode();
    if encoded.len() as u64 > LARGEST_FOOT {
        return Ok(None);
    }
    staged.append(&encoded).map_err(io)?;
    step()?;
    let names: Vec<_> = group.iter().map(Segment::name).collect();
    // The lease keeps other processes from removing the segments. But somebody may have removed
    // files by hand.
    let listed = Listing::of(store)?.segments;
    if State::read(store)?.boundary > name.start || !names.iter().all(|it| listed.contains(it)) {
        return Err(Error::new("", ErrorKind::Missing { after: name.start }));
    }
    let is_mine = |found: &mut dyn ReadAt| Ok(Foot::read_from(found, name)? == foot);
    if !once::create(store, &mut *staged, &object, is_mine)? {
        return Err(Error::new(&object, ErrorKind::Published));
    }
    note(store, name.start, last.end)?;
    remove(store, &names)?;
    Ok(Some(foot.bytes))
}

/// Appends the frames of a segment, and compares them with their checksum.
fn copy(
    store: &dyn Store,
    segment: &Segment,
    staged: &mut dyn Staged,
    step: &mut Step<'_>,
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
        staged.append(&buffer).map_err(io)?;
        at = at.saturating_add(size);
        step()?;
    }
    if crc32c != foot.crc32c {
        return damaged(DamagedPart::Checksum);
    }
    Ok(foot)
}

/// Joins the feet of two segments, which follow each other.
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
    let mut gaps = one.gaps;
    gaps.extend(next.gaps);
    let mut tables = one.tables;
    for table in next.tables {
        add_table(&mut tables, table);
    }
    Foot {
        format: one.format.max(next.format),
        history: next.history,
        undecided: next.undecided,
        load: one.load.max(next.load),
        gaps,
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

/// Adds the changes of a table to its earlier changes under the same version, if there are any.
fn add_table(tables: &mut Vec<TableFoot>, table: TableFoot) {
    let version = table.version();
    let same = tables.iter_mut().find(|it| it.version() == version);
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
