//! Rewrites segments without some columns or rows: where somebody has a right to be forgotten.
//!
//! Nobody may write to the log meanwhile. A segment is replaced as a whole, so readers get one version or the
//! other, and a crash leaves segments of both. The same call again goes on: what was rewritten has nothing
//! more to erase.
//!
//! A reader that is further back than an erased change never gets it, and may keep the row that the change
//! was to delete. So a registered one holds the erasure back, and where the last erased change of each table
//! ends is recorded before it goes.

use crate::log::compaction;
use crate::log::erasing::{Erase, Erasing, erase_columns};
use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::hold::Hold;
use crate::log::index::{Index, Segment, rewrite_beside};
use crate::log::listing::{INDEX, Listing};
use crate::log::locking::{Lock, lock};
use crate::log::reader::SegmentReader;
use crate::log::segment::{Foot, Member, SegmentName};
use crate::log::segment_file::Frames;
use crate::log::state::{Pruned, write_catalog};
use crate::log::store::{Store, TEMPORARY, remove_if_there};
use crate::log::view::Log;
use crate::log::writer::{Writer, WriterOptions};
use std::sync::Arc;
use walrow_stream::Catalog;
use walrow_wire::Lsn;

/// Erases columns and rows of a log. While it is open, nobody else can write to the log.
#[derive(Debug)]
pub struct Eraser {
    store: Arc<dyn Store>,
    /// Keeps others from writing.
    _writer: Writer,
    catalog: Catalog,
}

/// What [`Eraser::erase`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// How many segments were read.
    pub segments: usize,
    /// How many of them were rewritten.
    pub rewritten: usize,
}

impl Eraser {
    /// Opens a log. What is durable is published, so that all of it is in segments.
    ///
    /// # Errors
    /// Another process writes to the log. A transaction is prepared, and not decided: its rows are in
    /// the log, too. The store failed.
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        Log::open(Arc::clone(&store))?;
        let writer = Writer::open(Arc::clone(&store), WriterOptions::default())?;
        if !Listing::of(&*store)?.prepared.is_empty() {
            return Err(Error::new("", ErrorKind::Prepared));
        }
        let catalog = writer.catalog().clone();
        Ok(Self {
            store,
            _writer: writer,
            catalog,
        })
    }

    /// Rewrites the segments that have what is erased, and the catalog.
    ///
    /// # Errors
    /// A registered reader has not taken a row's change, and `force` is not set: then nothing is
    /// rewritten. A column is part of a replica identity. A segment is damaged, or the store failed. Another
    /// call goes on.
    pub fn erase(&mut self, erase: &Erase) -> Result<Erased, Error> {
        let mut erased = Erased::default();
        {
            let _lock = self.sweep()?;
            self.refuse_held(erase)?;
        }
        // Merged or removed by others meanwhile: then the merged ones are looked at, too.
        loop {
            let log = Log::open(Arc::clone(&self.store))?;
            let mut is_complete = true;
            for segment in log.segments().iter().filter(|it| concerns(&log, it, erase)) {
                let _lock = lock(&*self.store)?;
                match self.rewrite(segment, erase) {
                    Ok(has_changed) => {
                        erased.segments = erased.segments.saturating_add(1);
                        let more = usize::from(has_changed);
                        erased.rewritten = erased.rewritten.saturating_add(more);
                    }
                    Err(error) if error.is_not_found() => is_complete = false,
                    Err(error) => return Err(error),
                }
            }
            if is_complete {
                break;
            }
        }
        self.erase_in_catalog(erase)?;
        // Others may have left more meanwhile.
        let _lock = self.sweep()?;
        let until = Pruned::read(&*self.store)?.until;
        let mut names = Listing::of(&*self.store)?.segments;
        names.retain(|name| name.start >= until);
        rewrite_beside(&*self.store, &Index::read(&*self.store, &names)?)?;
        Ok(erased)
    }

    /// Refuses to erase rows of changes that a registered reader has not taken.
    fn refuse_held(&self, erase: &Erase) -> Result<(), Error> {
        let Some(((last, _), _)) = erase.rows.last_key_value().filter(|_| !erase.force) else {
            return Ok(());
        };
        let holds = Log::open(Arc::clone(&self.store))?.holds()?;
        let mut readers = holds
            .into_iter()
            .filter(|hold| matches!(hold, Hold::Reader { .. }));
        // No position is inside of a commit: one after its beginning is at its end.
        match readers.find(|hold| hold.position() <= *last) {
            Some(hold) => Err(Error::new("", ErrorKind::Held { hold })),
            None => Ok(()),
        }
    }

    /// Removes segments that readers do not see: those that were removed or merged by a process that
    /// then crashed. They have what is erased, too. Returns the lock.
    fn sweep(&self) -> Result<Lock, Error> {
        let lock = lock(&*self.store)?;
        Log::open(Arc::clone(&self.store))?.sweep()?;
        compaction::sweep(&*self.store)?;
        for object in Listing::of(&*self.store)?.temporary {
            let name = object.strip_prefix(TEMPORARY).and_then(SegmentName::parse);
            if name.is_some() {
                remove_if_there(&*self.store, &object)?;
            }
        }
        Ok(lock)
    }

    /// Rewrites a segment. Returns false if it has nothing to erase.
    fn rewrite(&mut self, segment: &Segment, erase: &Erase) -> Result<bool, Error> {
        let store = Arc::clone(&self.store);
        let store = &*store;
        let name = segment.name();
        let foot = Foot::read(store, name)?;
        // As it was stored.
        let level = (foot.bytes < foot.stream_bytes).then_some(1);
        let temporary = format!("{TEMPORARY}erased-{name}");
        let mut frames = Frames::create(store, temporary.clone(), level)?;
        let mut erasing = Erasing::new(erase);
        let members = self.copy(segment, &foot, &mut erasing, &mut frames)?;
        if !erasing.has_changed() {
            drop(frames);
            remove_if_there(store, &temporary)?;
            return Ok(false);
        }
        let lost: Vec<_> = erasing.lost().collect();
        let mut new = Foot {
            tables: erasing.tables(&foot),
            members: Vec::new(),
            stream_bytes: 0,
            bytes: 0,
            crc32c: 0,
            ..foot.clone()
        };
        for member in &members {
            let size = usize::try_from(member.bytes).unwrap_or(usize::MAX);
            new.crc32c = crc32c::crc32c_combine(new.crc32c, member.crc32c, size);
            new.bytes = new.bytes.saturating_add(member.bytes);
            new.stream_bytes = new.stream_bytes.saturating_add(member.stream_bytes);
        }
        if !foot.members.is_empty() {
            new.members = members;
        }
        // First, so that nothing is erased without it.
        Pruned::note_erased(store, lost)?;
        let io = |error| Error::store(&temporary, &error);
        frames.file.append(&new.encode()).map_err(io)?;
        frames.file.sync().map_err(io)?;
        drop(frames);
        // First, as a column that no segment has any more is not looked for again.
        self.erase_in_catalog(erase)?;
        // First, so that it never describes another version of the segment.
        remove_if_there(store, INDEX)?;
        store.replace(&temporary, &name.to_string()).map_err(io)?;
        Ok(true)
    }

    fn erase_in_catalog(&mut self, erase: &Erase) -> Result<(), Error> {
        let mut catalog = self.catalog.clone();
        if erase_columns(&mut catalog, erase) {
            write_catalog(&*self.store, &catalog)?;
            self.catalog = catalog;
        }
        Ok(())
    }

    /// Appends what stays of a segment, and returns its members.
    fn copy(
        &self,
        segment: &Segment,
        foot: &Foot,
        erasing: &mut Erasing<'_>,
        frames: &mut Frames,
    ) -> Result<Vec<Member>, Error> {
        let (name, end) = (segment.name(), Some(segment.end));
        let mut reader = SegmentReader::open_after(&*self.store, name, end, Lsn::INVALID)?;
        let (mut chunk, mut out, mut members) = (Vec::new(), Vec::new(), Vec::new());
        let named = |error: Error| Error::new(&name.to_string(), error.kind);
        let damaged = || {
            let what = DamagedPart::Content;
            Error::new(&name.to_string(), ErrorKind::Damaged { what })
        };
        let mut rest: &[u8] = &[];
        for member in foot.members() {
            (frames.stream_bytes, frames.bytes, frames.crc32c) = (0, 0, 0);
            let mut left = member.stream_bytes;
            while left > 0 {
                if rest.is_empty() {
                    if !reader.read(&mut chunk)? {
                        return Err(damaged());
                    }
                    rest = &chunk;
                }
                // A chunk may have the end of one member and the next ones.
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let (bytes, more) = rest.split_at(size);
                rest = more;
                left = left.saturating_sub(size as u64);
                out.clear();
                erasing.take(bytes, &mut out).map_err(named)?;
                frames.append(&out, erasing.is_between())?;
            }
            if !erasing.is_whole() {
                return Err(damaged());
            }
            frames.end_frame()?;
            members.push(Member {
                stream_bytes: frames.stream_bytes,
                bytes: frames.bytes,
                crc32c: frames.crc32c,
                ..member
            });
        }
        Ok(members)
    }
}

/// Whether a segment may have what is erased.
fn concerns(log: &Log, segment: &Segment, erase: &Erase) -> bool {
    let has_table = segment.tables.iter().any(|table| {
        let version = log.versions().get(table.version);
        version.is_some_and(|version| erase.tables.contains(&version.oid))
    });
    // A part of a transaction does not say where that was committed.
    let from = erase.rows.range((segment.start, 0)..).next();
    let has_rows = from
        .is_some_and(|((lsn, _), _)| segment.continues || segment.part > 0 || *lsn < segment.end);
    has_table && (!erase.columns.is_empty() || has_rows)
}
