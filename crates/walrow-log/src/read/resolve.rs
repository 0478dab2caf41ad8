//! Finds the segments of a plan, even if they were merged after the plan was made.
//!
//! ```text
//! plan       a   b   c   d   e          names and ends, as they were
//! now        │ a · b · c · d │ e │
//! opened     └──── one range ┘ └ e      a list and a foot for all of them
//! ```

use crate::error::{Error, ErrorKind};
use crate::format::listing::{ATTEMPTS, Listing};
use crate::format::segment::{Foot, SegmentName};
use crate::format::state::State;
use crate::read::log::Log;
use crate::read::segment_reader::{Planned, SegmentReader, SpareMemory};
use crate::store::{Objects, ReadAt, Tag};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use walrow_wire::Lsn;

/// Opens the segments of a plan one after the other.
#[derive(Debug)]
pub struct PlanReader {
    objects: Arc<dyn Objects>,
    rest: VecDeque<Planned>,
    after: Lsn,
    merged: Merged,
    spare: SpareMemory,
}

impl Log {
    /// A reader of the segments of a [`Log::plan`]. It leaves out members of merged segments that
    /// end at or before `after`. It also finds segments that are merged meanwhile.
    pub fn read(&self, names: &[SegmentName], after: Lsn) -> PlanReader {
        let rest = names.iter().filter_map(|name| self.segment_of(*name));
        let rest = rest.map(Planned::of);
        PlanReader {
            objects: self.objects(),
            rest: rest.collect(),
            after,
            merged: Merged::default(),
            spare: SpareMemory::default(),
        }
    }
}

impl SegmentReader {
    /// Opens a segment. If it was merged into another segment, opens its part of that segment.
    ///
    /// # Errors
    /// The object is not a segment, is damaged or cannot be read.
    pub fn open(objects: &dyn Objects, name: SegmentName) -> Result<Self, Error> {
        Self::open_after(objects, name, None, Lsn::INVALID)
    }

    /// As [`SegmentReader::open`]. If the segment was merged from several segments, leaves out
    /// members that end at or before `after`. `end` is the LSN where the segment ends. Without it,
    /// a merged segment is not found if it was merged again.
    ///
    /// # Errors
    /// As [`SegmentReader::open`].
    pub fn open_after(
        objects: &dyn Objects,
        name: SegmentName,
        end: Option<Lsn>,
        after: Lsn,
    ) -> Result<Self, Error> {
        Merged::default().open(objects, (name, end), &mut VecDeque::new(), after)
    }
}

impl PlanReader {
    /// Opens the next segment, or several next segments if they are neighbours in a merged segment.
    /// `None` at the end.
    ///
    /// # Errors
    /// A segment is damaged, was removed, or cannot be read.
    pub fn open_next(&mut self) -> Result<Option<SegmentReader>, Error> {
        let Some(next) = self.rest.pop_front() else {
            return Ok(None);
        };
        let segment = (next.name, Some(next.end));
        let objects = &*self.objects;
        let opened = self
            .merged
            .open(objects, segment, &mut self.rest, self.after)?;
        let checked = next.check(opened)?;
        Ok(Some(checked.with_spare(&self.spare)))
    }
}

/// The merged segments that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Merged {
    /// Their names, as they were listed last.
    names: BTreeSet<SegmentName>,
    /// The feet of some of them. A segment may be rewritten, and then has another tag.
    feet: BTreeMap<SegmentName, (Tag, Arc<Foot>)>,
}

impl Merged {
    /// Opens a segment, or its part of a merged segment. The part also has the next segments of
    /// `rest` that follow it in the merged segment. If `end` is `None`, the segment of this name
    /// gives the end.
    pub(crate) fn open(
        &mut self,
        objects: &dyn Objects,
        (name, end): (SegmentName, Option<Lsn>),
        rest: &mut VecDeque<Planned>,
        after: Lsn,
    ) -> Result<SegmentReader, Error> {
        if let Some(found) = self.part(objects, name, end, rest, after)? {
            return Ok(found);
        }
        let mut attempts = 1..ATTEMPTS;
        let missing = loop {
            let missing = match SegmentReader::whole(objects, name, after) {
                Err(error) if error.is_not_found() => error,
                opened => return opened,
            };
            self.list(objects)?;
            if let Some(found) = self.part(objects, name, end, rest, after)? {
                return Ok(found);
            }
            // The merged segment that has it may be merged again.
            if attempts.next().is_none() {
                break missing;
            }
        };
        Err(removed(objects, name, missing))
    }

    fn list(&mut self, objects: &dyn Objects) -> Result<(), Error> {
        let names = Listing::of(objects)?.segments.into_iter();
        self.names = names.filter(|it| it.is_merged()).collect();
        self.feet.retain(|name, _| self.names.contains(name));
        Ok(())
    }

    /// Opens a part of a merged segment. `None` if no listed segment has it.
    fn part(
        &mut self,
        objects: &dyn Objects,
        name: SegmentName,
        end: Option<Lsn>,
        rest: &mut VecDeque<Planned>,
        after: Lsn,
    ) -> Result<Option<SegmentReader>, Error> {
        // The parts of a transaction are never merged.
        if name.place().part > 0 || name.is_merged() && end.is_none() {
            return Ok(None);
        }
        let last = SegmentName {
            part: u32::MAX,
            ..name
        };
        let listed: Vec<_> = self.names.range(..=last).rev().copied().collect();
        for merged in listed {
            if let Some((_, foot)) = self.feet.get(&merged)
                && end_in(foot, name, end).is_none()
            {
                continue;
            }
            let (file, foot) = match self.opened(objects, merged) {
                Ok(opened) => opened,
                Err(error) if error.is_not_found() => {
                    self.names.remove(&merged);
                    self.feet.remove(&merged);
                    continue;
                }
                Err(error) => return Err(error),
            };
            let Some(end) = end_in(&foot, name, end) else {
                continue;
            };
            let mut count = 0_usize;
            let mut until = end;
            for Planned { name, end, .. } in rest.iter().copied() {
                if name.start != until || end_in(&foot, name, Some(end)).is_none() {
                    break;
                }
                (count, until) = (count.saturating_add(1), end);
            }
            rest.drain(..count);
            let range = name.start..until;
            return Ok(Some(SegmentReader::part(file, merged, foot, &range, after)));
        }
        Ok(None)
    }

    fn opened(
        &mut self,
        objects: &dyn Objects,
        name: SegmentName,
    ) -> Result<(Box<dyn ReadAt>, Arc<Foot>), Error> {
        let object = name.to_string();
        let io = |error| Error::store(&object, &error);
        let mut file = objects.open(&object).map_err(io)?;
        let tag = file.tag().map_err(io)?;
        if let Some((known, foot)) = self.feet.get(&name)
            && *known == tag
        {
            return Ok((file, Arc::clone(foot)));
        }
        let foot = Arc::new(Foot::read_from(&mut *file, name)?);
        self.feet.insert(name, (tag, Arc::clone(&foot)));
        Ok((file, foot))
    }
}

/// The end of a segment that is a part of a merged segment: one member, or several members
/// together. `None` if the merged segment does not have it.
fn end_in(foot: &Foot, name: SegmentName, end: Option<Lsn>) -> Option<Lsn> {
    if name.place().part > 0 {
        return None;
    }
    let members = &foot.members;
    let from = members.partition_point(|it| it.start < name.start);
    let first = members.get(from).filter(|it| it.start == name.start)?;
    // Without an end, the segment is the member that begins there.
    let end = end.unwrap_or(first.end);
    let place = members.partition_point(|it| it.end < end);
    let is_there = members.get(place).is_some_and(|it| it.end == end);
    (is_there && end >= first.end).then_some(end)
}

/// The error for a segment that does not exist any more: usually it was pruned.
fn removed(objects: &dyn Objects, name: SegmentName, error: Error) -> Error {
    match State::read(objects) {
        Ok(State {
            boundary: until, ..
        }) if until > name.start => {
            let start = name.start;
            Error::new("", ErrorKind::Pruned { start, until })
        }
        _ => error,
    }
}
