//! The index as the writer keeps it: each segment is added when it is published.

use crate::error::Error;
use crate::format::blocks::{head, whole};
use crate::format::index::{Entry, Index, Segment, check_order, entries, rewrite};
use crate::format::listing::{INDEX, Listing};
use crate::format::segment::{Foot, SegmentName};
use crate::format::version::TableVersion;
use crate::store::{Journal, Store};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use walrow_wire::Lsn;

/// The index as its writer keeps it.
#[derive(Debug)]
pub(crate) struct IndexFile {
    file: Box<dyn Journal>,
    /// Bytes of its whole entries. Later bytes of the file are a part of an entry that could not be
    /// appended.
    size: u64,
    places: HashMap<Arc<TableVersion>, usize>,
    /// The last segment in the index.
    last: Option<SegmentName>,
}

impl IndexFile {
    /// Opens the index of these segments. Writes the index again unless its entries are the first
    /// of these segments, in order.
    pub(crate) fn open(store: &dyn Store, names: &[SegmentName]) -> Result<Self, Error> {
        if names.iter().any(|name| name.is_merged()) {
            // Segments that were merged into other segments have no entries.
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
        let mut file = store.journal(INDEX).map_err(io)?;
        let size = whole(&mut *file).map_err(io)?;
        let last = stored.last().copied();
        let mut index = Self {
            file,
            size,
            places,
            last,
        };
        for name in names.get(stored.len()..).unwrap_or_default() {
            index.add(&Foot::read(store, *name)?).map_err(io)?;
        }
        Ok(index)
    }

    /// Adds a segment that was published. If another process has replaced the index, the writer
    /// opens it again. The writer does not sync the index, because it can be made from the
    /// segments.
    pub(crate) fn append(&mut self, store: &dyn Store, foot: &Foot) -> Result<(), Error> {
        let io = |error| Error::store(INDEX, &error);
        if !self.file.is_named().map_err(io)? {
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
        if self.file.size()? != self.size {
            self.file.truncate(self.size)?;
        }
        self.file.append(&head(&json)?)?;
        self.file.append(&json)?;
        self.size = self.file.size()?;
        self.last = name;
        for version in entry.versions {
            let next = self.places.len();
            self.places.entry(version).or_insert(next);
        }
        Ok(())
    }
}
