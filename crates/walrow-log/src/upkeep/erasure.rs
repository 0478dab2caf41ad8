//! Rewrites segments without some columns or rows, for example when a person has a right to be
//! forgotten.
//!
//! No process may write to the log meanwhile. Each segment is replaced as a whole. So a reader gets
//! either the old or the new version of a segment, and a crash may leave segments of both kinds. A
//! second call with the same columns and rows goes on: it does not rewrite segments again that were
//! rewritten already.
//!
//! A reader that is further back than an erased change never gets it, and may keep the row that the
//! change was to delete. So a registered reader holds the erasure back. Before a change is erased,
//! the log records where the last erased change of the table ends.

use crate::error::hold::Hold;
use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::catalog::{read_catalog, write_catalog};
use crate::format::frames::LEVEL;
use crate::format::index::{Index, Segment, rewrite};
use crate::format::listing::{INDEX, Listing};
use crate::format::new_segment::NewSegment;
use crate::format::segment::{Foot, Member, TableFoot};
use crate::format::state::State;
use crate::read::Step;
use crate::read::log::Log;
use crate::read::log::registered;
use crate::read::recount::Recount;
use crate::store::lease::{Lease, Quiet, lease, lock};
use crate::store::{Objects, Put, Store, once::remove};
use crate::upkeep::columns::ErasedColumns;
use crate::upkeep::compaction;
use crate::upkeep::erase::Erase;
use crate::upkeep::filter::Filter;
use crate::upkeep::retention;
use std::io;
use std::sync::Arc;
use walrow_stream::Catalog;

/// Erases columns and rows of a log. While it is open, no other process can write to the log.
#[derive(Debug)]
pub struct Eraser {
    store: Arc<dyn Store>,
    /// The lock that keeps other processes from writing.
    _quiet: Quiet,
    catalog: Catalog,
}

/// The result of [`Eraser::erase`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erased {
    /// How many segments were read.
    pub segments: usize,
    /// How many of these segments were rewritten.
    pub rewritten: usize,
}

impl Eraser {
    /// Opens a log that has no writer now: see [`Writer::quiet`](crate::Writer::quiet).
    ///
    /// # Errors
    /// A transaction is prepared, and not decided: its rows are in the log, too. The store failed.
    pub fn open(quiet: Quiet) -> Result<Self, Error> {
        let store = quiet.store();
        if !Listing::of(&*store)?.prepared.is_empty() {
            return Err(Error::new("", ErrorKind::Prepared));
        }
        Ok(Self {
            catalog: read_catalog(&*store)?,
            store,
            _quiet: quiet,
        })
    }

    /// Rewrites the segments with columns or rows to erase, and the catalog. `step` is called after
    /// each MiB or so, and after each segment. An error of `step` ends the call.
    ///
    /// # Errors
    /// A registered reader has not taken a row's change, and `force` is not set: then no segment is
    /// rewritten. A column is part of a replica identity. A segment is damaged, another process
    /// removes, merges or erases segments, or the store failed; or the error of `step`. Another call
    /// continues the work.
    pub fn erase(&mut self, erase: &Erase, step: &mut Step<'_>) -> Result<Erased, Error> {
        let mut erased = Erased::default();
        let lease = lease(&*self.store)?;
        self.sweep(&lease)?;
        refuse_held(&*self.store, erase)?;
        let log = Log::open(self.store.clone())?;
        let after = log.end();
        let mut names = Listing::of(&*self.store)?.segments.into_iter();
        if names.any(|name| name.start >= after) {
            // The last part of a transaction was removed by hand. The rows of its other parts would stay.
            return Err(Error::new("", ErrorKind::Missing { after }));
        }
        let columns = ErasedColumns::find(&log, &self.catalog, erase, step)?;
        let segments = log.segments().iter();
        let mut segments: Vec<_> = segments.filter(|it| concerns(&log, it, erase)).collect();
        // Segments with the erased names come last: another call after a crash still finds the
        // segments with other names.
        segments.sort_by_key(|it| has_names(&log, it, erase));
        let what = What {
            erase,
            columns: &columns,
            log: &log,
        };
        for segment in segments {
            step()?;
            let has_changed = self.rewrite(segment, &what, step)?;
            erased.segments = erased.segments.saturating_add(1);
            let more = usize::from(has_changed);
            erased.rewritten = erased.rewritten.saturating_add(more);
        }
        self.erase_in_catalog(&columns)?;
        let until = State::read(&*self.store)?.boundary;
        let mut names = Listing::of(&*self.store)?.segments;
        names.retain(|name| name.start >= until);
        rewrite(&*self.store, &Index::read(&*self.store, &names)?)?;
        Ok(erased)
    }

    /// Removes segments that readers do not see, because a process has removed or merged them, and
    /// then crashed. These segments also have the columns and rows to erase. Also removes objects
    /// that a process has not completed.
    fn sweep(&self, lease: &Lease) -> Result<(), Error> {
        retention::end_removal(&*self.store, lease)?;
        compaction::sweep(&*self.store, lease)?;
        let swept = self.store.sweep();
        swept.map_err(|error| Error::store("", &error))?;
        Ok(())
    }

    /// Rewrites a segment. Returns false if it has nothing to erase.
    fn rewrite(
        &mut self,
        segment: &Segment,
        what: &What<'_>,
        step: &mut Step<'_>,
    ) -> Result<bool, Error> {
        let store = Arc::clone(&self.store);
        let store = &*store;
        let name = segment.name();
        let foot = Foot::read(store, name)?;
        // The new segment is compressed if the old segment was compressed.
        let level = (foot.bytes < foot.stream_bytes).then_some(LEVEL);
        let object = name.to_string();
        let io = |error| Error::store(&object, &error);
        let tag = store
            .open(&object)
            .and_then(|mut it| it.tag())
            .map_err(io)?;
        let mut frames = NewSegment::stage(store, name, level)?;
        let mut filter = Filter::new(what.erase, what.columns);
        let mut recount = Recount::new();
        let members = Self::copy(
            what.log,
            segment,
            &foot,
            &mut filter,
            &mut recount,
            &mut frames,
            step,
        )?;
        if !filter.has_changed() {
            return Ok(false);
        }
        let lost: Vec<_> = filter.lost().collect();
        let is_erased = |table: &TableFoot| what.erase.tables.contains(&table.oid);
        let kept = foot.tables.iter().filter(|it| !is_erased(it)).cloned();
        let counted = recount.tables().into_iter().filter(is_erased);
        let mut new = Foot {
            tables: kept.chain(counted).collect(),
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
        // This record comes first, so that no rows are erased without it.
        if !lost.is_empty() {
            let lock = lock(store)?;
            State::change(store, &lock, |state| {
                // A reader may have been registered meanwhile.
                refuse_held(store, what.erase)?;
                state.note_erased(lost);
                Ok(())
            })?;
        }
        let mut staged = frames.finish(&new)?;
        // The catalog comes first, because another call does not look for a column that no segment
        // has any more.
        self.erase_in_catalog(what.columns)?;
        // The index goes first, so that it never describes another version of the segment.
        remove(store, INDEX)?;
        match staged.swap(&object, &tag) {
            Put::Done => Ok(true),
            // The lease keeps other processes from changing the file: somebody has changed it by
            // hand.
            Put::Lost => Err(io(io::ErrorKind::NotFound.into())),
            Put::Unknown(error) => Err(io(error)),
        }
    }

    fn erase_in_catalog(&mut self, columns: &ErasedColumns) -> Result<(), Error> {
        let mut catalog = self.catalog.clone();
        if columns.leave_out(&mut catalog) {
            write_catalog(&*self.store, &catalog)?;
            self.catalog = catalog;
        }
        Ok(())
    }

    /// Appends the parts of a segment that stay, and returns its members.
    fn copy(
        log: &Log,
        segment: &Segment,
        foot: &Foot,
        filter: &mut Filter<'_>,
        recount: &mut Recount,
        frames: &mut NewSegment,
        step: &mut Step<'_>,
    ) -> Result<Vec<Member>, Error> {
        let name = segment.name();
        let mut stream = log.read_segments([segment]);
        let (mut chunk, mut out, mut members) = (Vec::new(), Vec::new(), Vec::new());
        let named = |error: Error| Error::new(&name.to_string(), error.kind);
        let damaged = || {
            let what = DamagedPart::Content;
            Error::new(&name.to_string(), ErrorKind::Damaged { what })
        };
        let mut rest: &[u8] = &[];
        for member in foot.members() {
            let mut left = member.stream_bytes;
            while left > 0 {
                if rest.is_empty() {
                    if !stream.read(&mut chunk)? {
                        return Err(damaged());
                    }
                    rest = &chunk;
                }
                // A chunk may have the end of one member, and the next members.
                let size = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
                let (bytes, more) = rest.split_at(size);
                rest = more;
                left = left.saturating_sub(size as u64);
                out.clear();
                filter.take(bytes, &mut out).map_err(named)?;
                // Readers take the bytes that are written, so these bytes are counted.
                recount.take(&out).map_err(named)?;
                frames.append(&out, filter.is_between())?;
                step()?;
            }
            if !filter.is_whole() {
                return Err(damaged());
            }
            let size = frames.end()?;
            members.push(Member {
                stream_bytes: size.stream_bytes,
                bytes: size.bytes,
                crc32c: size.crc32c,
                ..member
            });
        }
        Ok(members)
    }
}

/// Refuses to erase rows of changes that a registered reader has not taken.
fn refuse_held(objects: &dyn Objects, erase: &Erase) -> Result<(), Error> {
    let Some(((last, _), _)) = erase.rows.last_key_value().filter(|_| !erase.force) else {
        return Ok(());
    };
    let mut readers = registered(objects)?.into_iter().map(Hold::from);
    // No position is inside of a commit: a position after its commit LSN is at or after its end.
    match readers.find(|hold| hold.position() <= *last) {
        Some(hold) => Err(Error::new("", ErrorKind::Held { hold })),
        None => Ok(()),
    }
}

/// The columns and rows that are erased in each segment.
struct What<'a> {
    erase: &'a Erase,
    columns: &'a ErasedColumns,
    log: &'a Log,
}

/// Whether a segment has a column that is erased, under the given name.
fn has_names(log: &Log, segment: &Segment, erase: &Erase) -> bool {
    segment.tables.iter().any(|table| {
        log.versions().get(table.version).is_some_and(|version| {
            let mut columns = version.columns.iter();
            erase.tables.contains(&version.oid) && columns.any(|it| erase.columns.contains(&it.0))
        })
    })
}

/// Whether a segment may have columns or rows to erase.
fn concerns(log: &Log, segment: &Segment, erase: &Erase) -> bool {
    let has_table = segment.tables.iter().any(|table| {
        let version = log.versions().get(table.version);
        version.is_some_and(|version| erase.tables.contains(&version.oid))
    });
    // A part of a transaction does not say where the transaction was committed.
    let from = erase.rows.range((segment.start, 0)..).next();
    let has_rows = from
        .is_some_and(|((lsn, _), _)| segment.continues || segment.part > 0 || *lsn < segment.end);
    has_table && (!erase.columns.is_empty() || has_rows)
}
