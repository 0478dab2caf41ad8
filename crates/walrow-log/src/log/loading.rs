//! The loads of a writer: it keeps the place of one, goes on behind it, and fills it at the end.

use crate::log::error::{Error, ErrorKind, LoadRefusal};
use crate::log::listing::Listing;
use crate::log::load::{Load, LoadOptions};
use crate::log::load_place::{Awaited, First, LOAD, Place};
use crate::log::segment::{Foot, SegmentName};
use crate::log::store::remove_if_there;
use crate::log::writer::Writer;
use std::mem;
use std::sync::Arc;
use walrow_stream::{Assembler, Relation};
use walrow_wire::{Lsn, Timestamp};

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
            let why = LoadRefusal::NotEmpty;
            return Err(Error::new("", ErrorKind::Load { why }));
        }
        Place::planned().write(&*self.store)?;
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
        let fault = |why| Err(Error::new("", ErrorKind::Load { why }));
        if self.awaited != Awaited::Nothing {
            return fault(LoadRefusal::Another);
        }
        if self.end >= point {
            return fault(LoadRefusal::TooEarly);
        }
        let first = self.lacks_first_load;
        let before = Lsn(point.0.saturating_sub(1));
        let place = Place {
            start: if first { Lsn::INVALID } else { before },
            point,
            first,
        };
        place.write(&*self.store)?;
        self.awaited = Awaited::Later(place.clone());
        if first {
            // The slot has nothing from before.
            self.awaited.reach(point, First::Transaction);
            self.pass_place()?;
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
        if !self.is_behind_a_load() {
            return Ok(false);
        }
        for segment in load.complete(self.last_before_load.as_ref())? {
            segment.publish(&*self.store)?;
            self.counts.segments = self.counts.segments.saturating_add(1);
        }
        self.filled()?;
        Ok(true)
    }

    /// Cancels a load. Its place in the log is filled without it.
    ///
    /// # Errors
    /// The log begins with it: open the log again, which empties it. The store failed. Another call
    /// tries again.
    pub fn give_up_load(&mut self, load: &Load, assembler: &mut Assembler) -> Result<(), Error> {
        if self.lacks_first_load {
            let why = LoadRefusal::First;
            return Err(Error::new("", ErrorKind::Load { why }));
        }
        load.remove()?;
        self.pass_load(assembler)?;
        match &self.awaited {
            Awaited::Nothing => return Ok(()),
            Awaited::Passed(place) => {
                let mut source = self.options.source.clone();
                source.last.clone_from(&self.last_before_load);
                place.fill(&*self.store, &source, self.options.level)?;
            }
            Awaited::Later(_) | Awaited::Reached(..) => {}
        }
        self.filled()
    }

    /// The place is filled: readers see what comes after it.
    fn filled(&mut self) -> Result<(), Error> {
        remove_if_there(&*self.store, LOAD)?;
        let awaited = mem::take(&mut self.awaited);
        self.lacks_first_load = false;
        if let Some(place) = awaited.place() {
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
            self.index.append(&*self.store, &foot)?;
        }
        Ok(())
    }

    /// Whether segments are published behind a place that is not filled. The index is in the order of
    /// the log, so it gets them later.
    pub(super) fn is_behind_a_load(&self) -> bool {
        matches!(self.awaited, Awaited::Passed(_))
    }

    /// Publishes what came before the load, if something after it has come. That is in the block: the
    /// begin of a transaction, or a message.
    pub(super) fn pass_load(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if matches!(self.awaited, Awaited::Reached(..)) {
            self.save_prepared(assembler)?;
            self.pass_place()?;
        }
        Ok(())
    }

    fn pass_place(&mut self) -> Result<(), Error> {
        let Awaited::Reached(place, first) = &self.awaited else {
            return Ok(());
        };
        let (place, first) = (place.clone(), *first);
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
        self.awaited = Awaited::Passed(place);
        match first {
            First::Transaction => {}
            First::Message(lsn) => {
                self.has_changes = true;
                (self.whole, self.end) = (self.size, lsn);
                self.options.source.last = self.first_after_load.take();
            }
            First::Position(lsn) => self.go_to(lsn),
        }
        Ok(())
    }

    fn publish_before(&mut self, place: &Place) -> Result<(), Error> {
        if !place.first {
            self.take_prepare(place.start);
            self.end = self.end.max(place.start);
            self.flush()?;
            self.publish_whole()?;
            self.forget_decided()?;
        }
        self.clear_open()?;
        self.block.clear();
        self.contents.drop_whole();
        // The load may have the last foot, and was begun before.
        self.note_source();
        self.last_before_load.clone_from(&self.options.source.last);
        self.end = place.point;
        self.name = SegmentName {
            start: place.point,
            part: 0,
        };
        Ok(())
    }
}
