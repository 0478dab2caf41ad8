//! The next segment, while it receives blocks and the definitions that they use.

use crate::error::Error;
use crate::format::contents::{Contents, Which};
use crate::format::segment::Foot;
use crate::store::Store;
use crate::write::open_file::{Block, OpenFile};
use crate::write::segment_file::{Piece, SegmentFile};
use std::collections::HashSet;
use std::sync::Arc;
use walrow_stream::Catalog;
use walrow_stream::fact::{Fact, Segment};

/// A segment that was begun.
#[derive(Debug)]
pub(crate) struct Filling {
    file: SegmentFile,
    /// The number of the next block.
    next: usize,
    /// The relation versions that the catalogs of the segment describe so far.
    described: HashSet<usize>,
}

impl Filling {
    /// Begins a segment, whose first block has this number.
    pub(crate) fn begin(
        store: &dyn Store,
        head: Segment,
        level: Option<i32>,
        first: usize,
    ) -> Result<Self, Error> {
        Ok(Self {
            file: SegmentFile::create(store, head, level)?,
            next: first,
            described: HashSet::new(),
        })
    }

    /// The number of the next block.
    pub(crate) const fn next(&self) -> usize {
        self.next
    }

    /// Describes all relations of the next blocks again, because the catalog has changed.
    pub(crate) fn describe_again(&mut self) {
        self.described.clear();
    }

    /// Gives the segment the definitions of relations that it does not describe yet.
    pub(crate) fn describe(
        &mut self,
        contents: &Contents,
        which: Which,
        catalog: &Catalog,
    ) -> Result<(), Error> {
        let (tables, types) = contents.oids(which, &mut self.described);
        if tables.is_empty() {
            // This is the usual case. A search would read the whole catalog.
            return Ok(());
        }
        let catalog = catalog.restricted(tables, types);
        if catalog.is_empty() {
            return Ok(());
        }
        let mut fact = Vec::new();
        Fact::Catalog(Arc::new(catalog)).encode(false, &mut fact);
        self.file.append(fact)
    }

    /// Gives the segment the blocks before this number. `inherited` is a place in the first block,
    /// and the bytes to insert there.
    pub(crate) fn give(
        &mut self,
        open: &mut OpenFile,
        end: usize,
        mut inherited: Option<(usize, Vec<u8>)>,
    ) -> Result<(), Error> {
        let file = &mut self.file;
        open.read(self.next..end, |Block { bytes, between }| {
            let mut range = 0..bytes.len();
            if let Some((place, inherited)) = inherited.take() {
                range.start = place.min(range.end);
                file.append(Piece {
                    bytes: Arc::clone(&bytes),
                    range: 0..range.start,
                    between: false,
                })?;
                file.append(Piece {
                    between: false,
                    ..inherited.into()
                })?;
            }
            file.append(Piece {
                bytes,
                range,
                between,
            })
        })?;
        self.next = end;
        Ok(())
    }

    /// Gives the segment the end of a transaction's part.
    pub(crate) fn give_end(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        self.file.append(bytes)
    }

    /// Publishes the segment.
    pub(crate) fn publish(self, store: &dyn Store, foot: Foot) -> Result<Foot, Error> {
        self.file.publish(store, foot)
    }
}
