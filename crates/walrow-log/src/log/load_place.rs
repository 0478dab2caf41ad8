//! The place of a load in the order of commits: kept while tables are copied, and filled at the end.

use crate::log::contents::{Contents, Which};
use crate::log::error::{Error, ErrorKind};
use crate::log::index::{self, Index, Segment};
use crate::log::load::{Load, LoadOptions};
use crate::log::segment::{Foot, SegmentName};
use crate::log::segment_file::SegmentFile;
use crate::log::state::{read_json, write_json};
use crate::log::store::{Store, remove_if_there};
use crate::log::view::Listing;
use crate::log::writer::Writer;
use serde::{Deserialize, Serialize};
use std::mem;
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_stream::fact::{Segment as Head, Source};
use walrow_wire::{Lsn, Timestamp};

/// The name of the object that says where a load is expected.
pub(crate) const LOAD: &str = "_load";

/// A load that was begun, and whose place in the log is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Where the segments before it end.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) start: Lsn,
    /// The consistent point of its snapshot. 0/0 if it is not known yet.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) point: Lsn,
    /// Whether the log begins with it. Without it, what comes later is useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) first: bool,
}

impl Place {
    pub(crate) fn read(store: &dyn Store) -> Result<Option<Self>, Error> {
        read_json(store, LOAD, "the place of a load")
    }

    fn write(&self, store: &dyn Store) -> Result<(), Error> {
        write_json(store, LOAD, self)
    }

    /// Drops the segments after the load, unless it is complete.
    pub(crate) fn hide_later(&self, segments: &mut Vec<Segment>) {
        let last = segments.iter().rfind(|it| it.start == self.start);
        let is_complete = last.is_some_and(|last| last.end == self.point && !last.continues);
        if !is_complete {
            segments.retain(|segment| segment.start < self.point);
        }
    }

    /// Whether the load has all its parts.
    fn is_complete(&self, store: &dyn Store, names: &[SegmentName]) -> Result<bool, Error> {
        let last = names.iter().rfind(|name| name.start == self.start);
        let Some(last) = last.filter(|_| self.point.is_valid()) else {
            return Ok(false);
        };
        let foot = Foot::read(store, *last)?;
        Ok(foot.end == self.point && !foot.continues)
    }

    /// Fills the place without a load.
    fn fill(&self, store: &dyn Store, source: &Source, level: Option<i32>) -> Result<Foot, Error> {
        let head = Head {
            start: self.start,
            part: 0,
            source: source.clone(),
            ..Head::default()
        };
        let foot = Contents::default().foot(Which::Whole, source, self.point);
        SegmentFile::create(store, head, level)?.publish(store, foot)
    }
}

/// Settles a load that was broken by a crash: removes its parts, and fills its place. Without its first
/// load, a log is emptied. Returns whether it was: then `_load` stays, as the slot is useless, too.
pub(crate) fn settle(store: &dyn Store, level: Option<i32>) -> Result<bool, Error> {
    let Some(place) = Place::read(store)? else {
        return Ok(false);
    };
    let listing = Listing::of(store)?;
    let names = listing.segments;
    if place.is_complete(store, &names)? {
        remove_if_there(store, LOAD)?;
        return Ok(false);
    }
    if place.first {
        // First, so that nothing of it is ever read.
        let place = Place {
            start: Lsn::INVALID,
            point: Lsn::INVALID,
            first: true,
        };
        place.write(store)?;
        remove_if_there(store, index::INDEX)?;
        let prepared = listing.prepared.iter().map(|it| it.object());
        let segments = names.iter().map(SegmentName::to_string);
        prepared
            .chain(segments)
            .try_for_each(|object| remove_if_there(store, &object))?;
        return Ok(true);
    }
    let (parts, kept): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| name.start == place.start);
    if !parts.is_empty() {
        // First, so that the index never describes other segments of the same names.
        index::rewrite(store, &Index::read(store, &kept)?)?;
    }
    for part in parts {
        remove_if_there(store, &part.to_string())?;
    }
    let before = kept.iter().rfind(|name| name.start < place.start);
    let before = before.map(|name| Foot::read(store, *name)).transpose()?;
    if let Some(before) = before.filter(|it| it.end == place.start && !it.continues) {
        place.fill(store, &before.source, level)?;
    }
    remove_if_there(store, LOAD)?;
    Ok(false)
}

/// A load that a writer waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    place: Place,
    /// Whether everything before it is published.
    has_passed: bool,
}

impl Writer {
    /// Whether the log lacks the load that it begins with, because that was broken off: then its
    /// slot is useless. Drop it, and begin the load again.
    pub const fn lacks_first_load(&self) -> bool {
        self.lacks_first_load
    }

    /// Records that the log begins with a load, before its slot is created. Until the load is
    /// complete, a writer that opens the log finds it empty.
    ///
    /// # Errors
    /// The log is not empty, or the store failed.
    pub fn plan_first_load(&mut self) -> Result<(), Error> {
        if self.end.is_valid() {
            let what = "the log has changes already, so it cannot begin with a load";
            return Err(Error::new("", ErrorKind::Load { what }));
        }
        let place = Place {
            start: Lsn::INVALID,
            point: Lsn::INVALID,
            first: true,
        };
        place.write(&*self.store)?;
        self.lacks_first_load = true;
        Ok(())
    }

    /// Begins a load of a snapshot: its place in the log is kept. What was committed before `point`,
    /// the consistent point of the snapshot, may have been appended, and nothing that was committed
    /// later.
    ///
    /// # Errors
    /// Something later was appended, another load is not complete, or the store failed.
    pub fn begin_load(
        &mut self,
        point: Lsn,
        time: Timestamp,
        tables: Vec<Relation>,
    ) -> Result<Load, Error> {
        let fault = |what| Err(Error::new("", ErrorKind::Load { what }));
        if self.awaited.is_some() {
            return fault("another load is not complete");
        }
        if self.end >= point {
            return fault("its snapshot is from before the end of the log");
        }
        let first = self.lacks_first_load;
        let before = Lsn(point.0.saturating_sub(1));
        let place = Place {
            start: if first { Lsn::INVALID } else { before },
            point,
            first,
        };
        place.write(&*self.store)?;
        self.awaited = Some(Awaited {
            place: place.clone(),
            has_passed: false,
        });
        self.point = point;
        if first {
            // The slot has nothing from before.
            self.passes = true;
            self.pass_point()?;
        }
        let options = LoadOptions {
            store: Arc::clone(&self.store),
            level: self.options.level,
            segment_bytes: self.options.segment_bytes,
            source: self.options.source.clone(),
            catalog: self.catalog.clone(),
        };
        Ok(Load::new(options, place, time, tables))
    }

    /// Gives a load its place, once everything before it was appended and published. Returns false
    /// before that.
    ///
    /// # Errors
    /// The store failed. Another call tries again.
    pub fn end_load(&mut self, load: &Load) -> Result<bool, Error> {
        if self.passes {
            self.pass_point()?;
        }
        if !self.awaited.as_ref().is_some_and(|it| it.has_passed) {
            return Ok(false);
        }
        for segment in load.complete()? {
            segment.publish(&*self.store)?;
            self.counts.segments = self.counts.segments.saturating_add(1);
        }
        self.filled()?;
        Ok(true)
    }

    /// Gives a load up. Its place in the log is filled without it.
    ///
    /// # Errors
    /// The log begins with it: open the log again, which empties it. The store failed. Another call
    /// tries again.
    pub fn give_up_load(&mut self, load: &Load) -> Result<(), Error> {
        if self.lacks_first_load {
            let what = "the log begins with it";
            return Err(Error::new("", ErrorKind::Load { what }));
        }
        load.remove()?;
        if self.passes {
            self.pass_point()?;
        }
        let Some(Awaited { place, has_passed }) = &self.awaited else {
            return Ok(());
        };
        if *has_passed {
            place.fill(&*self.store, &self.options.source, self.options.level)?;
        }
        self.point = NEVER;
        self.filled()
    }

    /// The place is filled: readers see what comes after it.
    fn filled(&mut self) -> Result<(), Error> {
        remove_if_there(&*self.store, LOAD)?;
        let awaited = self.awaited.take();
        self.lacks_first_load = false;
        if let Some(Awaited { place, .. }) = awaited {
            // What the index lacks is added when the log is opened.
            let _ = self.index_from(place.start);
        }
        Ok(())
    }

    /// Adds the load to the index, and the segments after it, which were published before it.
    fn index_from(&mut self, start: Lsn) -> Result<(), Error> {
        let names = Listing::of(&*self.store)?.segments;
        for name in names.iter().filter(|name| name.start >= start) {
            let foot = Foot::read(&*self.store, *name)?;
            let appended = self.index.append(&foot);
            appended.map_err(|error| Error::store(index::INDEX, &error))?;
        }
        Ok(())
    }

    /// Whether segments are published behind a place that is not filled. The index is in the order of
    /// the log, so it gets them later.
    pub(super) fn is_behind_a_load(&self) -> bool {
        self.awaited.as_ref().is_some_and(|it| it.has_passed)
    }

    /// Publishes what came before the load. What came since is in the block: the begin of a
    /// transaction, or a message.
    pub(super) fn pass_point(&mut self) -> Result<(), Error> {
        let Some(Awaited { place, .. }) = &self.awaited else {
            return Ok(());
        };
        let place = place.clone();
        let current = mem::take(&mut self.current);
        let since = usize::try_from(self.size.saturating_sub(self.whole)).unwrap_or(usize::MAX);
        let since = self.block.len().saturating_sub(since);
        let rest = self.block.split_off(since);
        self.size = self.whole;
        let published = self.publish_before(&place);
        self.block.extend_from_slice(&rest);
        self.size = self.size.saturating_add(rest.len() as u64);
        self.current = current;
        self.current.head = self.size;
        published?;
        (self.passes, self.point) = (false, NEVER);
        if let Some(awaited) = &mut self.awaited {
            awaited.has_passed = true;
        }
        if let Some(lsn) = self.message.take() {
            self.has_changes = true;
            (self.whole, self.end) = (self.size, lsn);
        }
        if let Some(lsn) = self.beyond.take() {
            self.advance(lsn);
        }
        Ok(())
    }

    fn publish_before(&mut self, place: &Place) -> Result<(), Error> {
        if !place.first {
            self.end = self.end.max(place.start);
            self.flush()?;
            self.publish_whole()?;
            self.forget_decided()?;
        }
        self.clear_open()?;
        self.contents.drop_whole();
        self.end = place.point;
        self.name = SegmentName {
            start: place.point,
            part: 0,
        };
        Ok(())
    }
}

/// After every LSN of a server.
pub(super) const NEVER: Lsn = Lsn(u64::MAX);
