//! Makes segments of the journal's blocks.

use crate::error::Error;
use crate::format::contents::Which;
use crate::format::segment::{Foot, SegmentName};
use crate::store::Store;
use crate::write::buffer::Buffer;
use crate::write::filling::Filling;
use crate::write::open_file::OpenFile;
use std::io;
use std::mem;
use std::sync::Arc;
use walrow_stream::Catalog;
use walrow_stream::fact::{Segment, Source};

/// The next segment, and the segments that were published before it.
#[derive(Debug)]
pub(crate) struct Publisher {
    store: Arc<dyn Store>,
    /// The compression level of zstd. `None` stores the bytes as they are.
    level: Option<i32>,
    catalog: Catalog,
    /// The next segment, if it was begun.
    begun: Option<Filling>,
    /// The segments since [`Publisher::new_feet`] was called.
    feet: Vec<Foot>,
}

impl Publisher {
    pub(crate) const fn new(store: Arc<dyn Store>, level: Option<i32>, catalog: Catalog) -> Self {
        Self {
            store,
            level,
            catalog,
            begun: None,
            feet: Vec::new(),
        }
    }

    pub(crate) const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Sets the definitions of types and tables for the next changes.
    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
        if let Some(segment) = &mut self.begun {
            segment.describe_again();
        }
    }

    /// The segments that were published since the last call, in order.
    pub(crate) fn new_feet(&mut self) -> Vec<Foot> {
        mem::take(&mut self.feet)
    }

    /// The segment that was begun, or a new one.
    pub(crate) fn begin(
        &mut self,
        name: SegmentName,
        source: &Source,
        buffer: &Buffer,
        journal: &OpenFile,
    ) -> Result<Filling, Error> {
        if let Some(segment) = self.begun.take() {
            return Ok(segment);
        }
        let first = buffer.marks().published_blocks();
        if journal.begin() > first {
            let what = "the segment that was begun: open the log again, and append what is missing";
            let error = io::Error::other(what);
            return Err(Error::store(&name.to_string(), &error));
        }
        let head = Segment::new(name.start, name.part, source.clone());
        Filling::begin(&*self.store, head, self.level, first)
    }

    /// Drops the segment that was begun. It is begun again when it is needed.
    pub(crate) fn drop_begun(&mut self) {
        self.begun = None;
    }

    /// Gives the blocks before this number to a segment, after the definitions that they use.
    pub(crate) fn give(
        &self,
        segment: &mut Filling,
        buffer: &Buffer,
        journal: &mut OpenFile,
        end: usize,
        which: Which,
    ) -> Result<(), Error> {
        segment.describe(buffer.contents(), which, &self.catalog)?;
        // A part of a transaction is read without the earlier messages, so it describes its
        // relations.
        let inherited = match which {
            Which::Current => buffer.inherited(),
            Which::Whole => None,
        };
        segment.give(journal, end, inherited)
    }

    /// Gives the whole transactions that fill blocks to the next segment. If the journal is not
    /// synced (`syncs`), it forgets these blocks.
    pub(crate) fn fill(
        &mut self,
        name: SegmentName,
        source: &Source,
        buffer: &Buffer,
        journal: &mut OpenFile,
        syncs: bool,
    ) -> Result<(), Error> {
        let next = self.begun.as_ref().map(Filling::next);
        let next = next.unwrap_or_else(|| buffer.marks().published_blocks());
        let whole = journal.whole();
        if next < whole {
            let mut segment = self.begin(name, source, buffer, journal)?;
            self.give(&mut segment, buffer, journal, whole, Which::Whole)?;
            self.begun = Some(segment);
        }
        match &self.begun {
            Some(segment) if syncs => journal.release(segment.next()),
            Some(segment) => journal.discard(segment.next()),
            None => {}
        }
        Ok(())
    }

    /// Publishes a segment that has all its blocks.
    pub(crate) fn publish(&mut self, segment: Filling, foot: Foot) -> Result<Foot, Error> {
        let foot = segment.publish(&*self.store, foot)?;
        self.feet.push(foot.clone());
        Ok(foot)
    }
}
