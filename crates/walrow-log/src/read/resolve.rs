//! Finds the segments of a plan, even if they were merged after the plan was made.
//!
//! ```text
//! plan       a   b   c   d   e          names and ends, as they were
//! now        │ a · b · c · d │ e │
//! opened     └──── one range ┘ └ e      a list and a foot for all of them
//! ```

use crate::error::{Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::listing::{ATTEMPTS, Listing};
use crate::format::segment::{Foot, Member, SegmentName};
use crate::format::state::State;
use crate::read::log::Log;
use crate::read::segment_reader::{Planned, SegmentReader, SpareMemory};
use crate::store::{Objects, ReadAt, Tag};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::sync::Arc;
use walrow_wire::Lsn;

/// The stream of the segments of a plan, in chunks of any size.
///
/// Each byte of the segments is compared with its checksum while it is read.
#[derive(Debug)]
pub struct PlanReader {
    objects: Arc<dyn Objects>,
    current: Option<Box<SegmentReader>>,
    rest: VecDeque<Planned>,
    after: Lsn,
    merged: Merged,
    spare: SpareMemory,
}

impl Log {
    /// A reader of the segments of a [`Log::plan`]. It leaves out members of merged segments that
    /// end at or before `after`. It also finds segments that are merged meanwhile.
    ///
    /// # Errors
    /// The log does not have one of the segments.
    pub fn read(&self, names: &[SegmentName], after: Lsn) -> Result<PlanReader, Error> {
        let known = names.iter().map(|name| {
            self.segment_of(*name).ok_or_else(|| {
                let error = io::ErrorKind::NotFound.into();
                removed(
                    &*self.objects(),
                    *name,
                    Error::store(&name.to_string(), &error),
                )
            })
        });
        let known: Vec<_> = known.collect::<Result<_, _>>()?;
        Ok(PlanReader {
            after,
            ..self.read_segments(known)
        })
    }

    /// A reader of these segments.
    pub(crate) fn read_segments<'a>(
        &self,
        segments: impl IntoIterator<Item = &'a Segment>,
    ) -> PlanReader {
        PlanReader {
            objects: self.objects(),
            current: None,
            rest: segments.into_iter().map(Planned::of).collect(),
            after: Lsn::INVALID,
            merged: Merged::default(),
            spare: SpareMemory::default(),
        }
    }
}

impl PlanReader {
    /// Reads the next bytes of the stream, in place of the buffer's contents. Returns false at the
    /// end. A chunk never has bytes of two segments, unless they were merged.
    ///
    /// # Errors
    /// A segment is damaged, was removed, or cannot be read.
    pub fn read(&mut self, chunk: &mut Vec<u8>) -> Result<bool, Error> {
        loop {
            if self.current.is_none() {
                self.current = self.open_next()?.map(Box::new);
            }
            let Some(segment) = &mut self.current else {
                chunk.clear();
                return Ok(false);
            };
            if segment.read(chunk)? {
                return Ok(true);
            }
            self.current = None;
        }
    }

    /// Opens the next segment, or several next segments if they are neighbours in a merged segment.
    /// `None` at the end.
    pub(crate) fn open_next(&mut self) -> Result<Option<SegmentReader>, Error> {
        let Some(next) = self.rest.pop_front() else {
            return Ok(None);
        };
        let objects = &*self.objects;
        let opened = self
            .merged
            .open(objects, next, &mut self.rest, self.after)?;
        let checked = next.check(opened)?;
        Ok(Some(checked.with_spare(&self.spare)))
    }
}

/// The merged segments that were found so far.
#[derive(Debug, Default)]
struct Merged {
    /// Their names, as they were listed last.
    names: BTreeSet<SegmentName>,
    /// The feet of some of them. A segment may be rewritten, and then has another tag.
    feet: BTreeMap<SegmentName, (Tag, Arc<Foot>)>,
}

impl Merged {
    /// Opens a segment, or its part of a merged segment. The part also has the next segments of
    /// `rest` that follow it in the merged segment.
    fn open(
        &mut self,
        objects: &dyn Objects,
        segment: Planned,
        rest: &mut VecDeque<Planned>,
        after: Lsn,
    ) -> Result<SegmentReader, Error> {
        if let Some(found) = self.part(objects, segment, rest, after)? {
            return Ok(found);
        }
        let name = segment.name;
        let mut attempts = 1..ATTEMPTS;
        let missing = loop {
            let missing = match whole(objects, name) {
                Ok((file, foot)) => {
                    return Ok(SegmentReader::new(file, name, foot, |it| it.end > after));
                }
                Err(error) if error.is_not_found() => error,
                Err(error) => return Err(error),
            };
            self.list(objects)?;
            if let Some(found) = self.part(objects, segment, rest, after)? {
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
        Planned { name, end, .. }: Planned,
        rest: &mut VecDeque<Planned>,
        after: Lsn,
    ) -> Result<Option<SegmentReader>, Error> {
        // The parts of a transaction are never merged.
        if name.place().part > 0 {
            return Ok(None);
        }
        let last = SegmentName {
            part: u32::MAX,
            ..name
        };
        let listed: Vec<_> = self.names.range(..=last).rev().copied().collect();
        for merged in listed {
            if let Some((_, foot)) = self.feet.get(&merged)
                && !has(foot, name, end)
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
            if !has(&foot, name, end) {
                continue;
            }
            let mut count = 0_usize;
            let mut until = end;
            for Planned { name, end, .. } in rest.iter().copied() {
                if name.start != until || !has(&foot, name, end) {
                    break;
                }
                (count, until) = (count.saturating_add(1), end);
            }
            rest.drain(..count);
            let wants = |it: &Member| it.start >= name.start && it.end <= until && it.end > after;
            return Ok(Some(SegmentReader::new(file, merged, foot, wants)));
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

/// Opens the segment of this name.
fn whole(objects: &dyn Objects, name: SegmentName) -> Result<(Box<dyn ReadAt>, Arc<Foot>), Error> {
    let object = name.to_string();
    let file = objects.open(&object);
    let mut file = file.map_err(|error| Error::store(&object, &error))?;
    let foot = Foot::read_from(&mut *file, name)?;
    Ok((file, Arc::new(foot)))
}

/// Whether a segment is a part of a merged segment: one member, or several members together.
fn has(foot: &Foot, name: SegmentName, end: Lsn) -> bool {
    let members = &foot.members;
    let from = members.partition_point(|it| it.start < name.start);
    let place = members.partition_point(|it| it.end < end);
    let begins = members.get(from).is_some_and(|it| it.start == name.start);
    let ends = members.get(place).is_some_and(|it| it.end == end);
    name.place().part == 0 && begins && ends && from <= place
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
