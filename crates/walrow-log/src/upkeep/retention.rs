//! Removes old segments: up to an LSN, or by age and size. It keeps segments that a reader or a
//! table still needs, unless the caller forces the removal.
//!
//! ```text
//! segments   ─┬────────┬────────┬────────┬────────┬─►
//!             │  old   │  old   │  old   │        │
//!            start     ▲                 ▲        end
//!                      │ a hold: a reader's position, or without one, the segment before a table's
//!                      │ last load
//!                      └─ removed segments end here, and not here ─┘ where age and size say
//! ```

use crate::error::hold::Hold;
use crate::error::{Error, ErrorKind};
use crate::format::index::{self, Segment};
use crate::format::listing::{INDEX, Listing};
use crate::format::segment::remove;
use crate::format::state::{Removed, State};
use crate::read::log::chains;
use crate::store::lease::{Lease, Locked, lease, lock};
use crate::store::{Store, once};
use crate::upkeep::Upkeep;
use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_wire::{Lsn, Oid, Timestamp};

/// The limits on the segments that a log keeps.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Retention {
    /// An age in microseconds. Older transactions may be removed.
    pub age: Option<i64>,
    /// Bytes of segments. If there are more, the oldest segments may be removed.
    pub bytes: Option<u64>,
    /// A time in microseconds. Readers that were not used for so long are forgotten.
    pub forget_after: Option<i64>,
    /// Whether to remove segments even if readers and loads need them.
    pub force: bool,
}

/// The result of [`Upkeep::retain`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retained {
    /// How many segments were removed.
    pub segments: usize,
    /// Bytes of their frames.
    pub bytes: u64,
    /// The readers and loads that hold back more segments, the most restrictive first.
    pub held: Vec<Hold>,
    /// The readers that were forgotten.
    pub forgotten: Vec<String>,
}

impl Upkeep {
    /// Removes the segments that end at or before this LSN, and returns how many. The last segment
    /// stays: it says where the log ends.
    ///
    /// # Errors
    /// A reader or a load needs the segments, and `force` is not set: then no segment is removed.
    /// Another process removes, merges or erases segments. The store failed. Another call tries
    /// again.
    pub fn prune(&mut self, until: Lsn, force: bool) -> Result<usize, Error> {
        let mut lease = lease(&*self.store)?;
        let left = end_removal(&*self.store, &lease)?;
        self.refresh()?;
        let count = self.prefix(|chain| chain.last().is_some_and(|last| last.end <= until));
        let refuse_held = |log: &Self| match log.held(count, force)?.into_iter().next() {
            Some(hold) => Err(Error::new("", ErrorKind::Held { hold })),
            None => Ok(()),
        };
        refuse_held(self)?;
        let removed = self.remove(count, &mut lease, |log| refuse_held(log).map(|()| count))?;
        Ok(left.saturating_add(removed))
    }

    /// Removes the segments that are too old or too many, unless a reader or a load holds them
    /// back. If age and bytes are given, one of the two limits is enough to remove a segment. The
    /// last segment stays.
    ///
    /// # Errors
    /// Another process removes, merges or erases segments. The store failed. Another call tries again.
    pub fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<Retained, Error> {
        self.follow()?;
        let mut retained = Retained::default();
        if let Some(age) = retention.forget_after {
            let since = now.0.saturating_sub(age);
            for reader in self.readers()? {
                if reader.used < since && self.forget_unused(&reader.name, since)? {
                    retained.forgotten.push(reader.name);
                }
            }
        }
        // This is nearly always the case.
        if self.unwanted(retention, now) == 0 && !State::read(&*self.store)?.is_removing() {
            return Ok(retained);
        }
        let mut lease = lease(&*self.store)?;
        retained.segments = end_removal(&*self.store, &lease)?;
        self.refresh()?;
        let unwanted = self.unwanted(retention, now);
        let free = |log: &Self, held: &mut Vec<Hold>| -> Result<usize, Error> {
            *held = log.held(unwanted, retention.force)?;
            let first = held.first().map(Hold::position);
            let is_free = |chain: &[Segment]| {
                first.is_none_or(|first| chain.last().is_some_and(|it| it.end <= first))
            };
            Ok(log.prefix(is_free).min(unwanted))
        };
        let count = free(self, &mut retained.held)?;
        let (mut freed, mut held) = (0, Vec::new());
        let removed = self.remove(count, &mut lease, |log| {
            let count = free(log, &mut held)?.min(count);
            freed = bytes(log.segments().get(..count).unwrap_or_default());
            Ok(count)
        })?;
        if count > 0 {
            (retained.bytes, retained.held) = (freed, held);
        }
        retained.segments = retained.segments.saturating_add(removed);
        Ok(retained)
    }

    /// The readers and loads that hold back the first `count` segments, the most restrictive first.
    fn held(&self, count: usize, force: bool) -> Result<Vec<Hold>, Error> {
        if force {
            return Ok(Vec::new());
        }
        let (end, mut holds) = (self.end_of(count), self.holds()?);
        holds.retain(|hold| hold.position() < end);
        Ok(holds)
    }

    /// The readers that need segments, the most restrictive first. Without a reader, the last load
    /// of each table. Readers that are past a load have its rows, and a new reader loads the
    /// table again.
    ///
    /// # Errors
    /// A record of a reader is damaged, or the store failed.
    pub fn holds(&self) -> Result<Vec<Hold>, Error> {
        let readers = self.readers()?.into_iter();
        let mut holds: Vec<_> = readers.map(Hold::from).collect();
        if holds.is_empty() {
            holds = self.last_loads();
        }
        holds.sort_by_key(Hold::position);
        Ok(holds)
    }

    /// The last load of each table that has not left.
    fn last_loads(&self) -> Vec<Hold> {
        let mut loads = BTreeMap::new();
        for segment in self.segments() {
            for table in segment.tables.iter().filter(|it| it.loaded.is_some()) {
                if let Some(version) = self.versions().get(table.version) {
                    loads.insert(version.oid, (segment.start, version));
                }
            }
        }
        let live = loads.into_iter().filter_map(|(oid, (position, version))| {
            let (schema, name) = match self.tables.get(&oid) {
                Some(known) => known.clone()?,
                None => (version.schema.clone(), version.name.clone()),
            };
            Some(Hold::Load {
                oid,
                schema,
                name,
                position,
            })
        });
        live.collect()
    }

    /// How many segments come before the first chain that does not fit, and before the last chain.
    fn prefix(&self, mut fits: impl FnMut(&[Segment]) -> bool) -> usize {
        let mut count = 0_usize;
        for chain in chains(self.segments()) {
            let after = count.saturating_add(chain.len());
            if after >= self.segments().len() || !fits(chain) {
                break;
            }
            count = after;
        }
        count
    }

    /// How many segments are too old or too many.
    fn unwanted(&self, retention: &Retention, now: Timestamp) -> usize {
        let old = retention.age.map_or(0, |age| {
            let oldest = now.0.saturating_sub(age);
            self.prefix(|chain| {
                let mut times = chain.iter().filter_map(|it| it.times);
                times.all(|(_, greatest)| greatest < oldest)
            })
        });
        let many = retention.bytes.map_or(0, |most| {
            let mut rest = bytes(self.segments());
            self.prefix(|chain| {
                let is_too_much = rest > most;
                rest = rest.saturating_sub(bytes(chain));
                is_too_much
            })
        });
        old.max(many)
    }

    /// The LSN where the first `count` segments end.
    fn end_of(&self, count: usize) -> Lsn {
        let last = count.checked_sub(1).and_then(|it| self.segments().get(it));
        last.map_or_else(|| self.start(), |last| last.end)
    }

    /// Removes the first `most` segments, or fewer. Writes its intent, then calls `count`, which
    /// returns how many segments may be removed. Returns how many were removed.
    fn remove(
        &mut self,
        most: usize,
        lease: &mut Lease,
        count: impl FnOnce(&Self) -> Result<usize, Error>,
    ) -> Result<usize, Error> {
        if most == 0 {
            return Ok(0);
        }
        let store = Arc::clone(&self.store);
        let until = self.end_of(most);
        let note = |change: &dyn Fn(&mut State)| {
            let lock = lock(&*store)?;
            change_state(&*store, &lock, change)
        };
        let held_lock = match note(&|state| state.intend_removal(until)) {
            Ok(()) => None,
            // A disk without room has space for one write only. Under the lock, no process
            // registers a reader.
            Err(error) if error.is_full() => {
                make_room(&*store, lease)?;
                Some(lock(&*store)?)
            }
            Err(error) => return Err(error),
        };
        let (removed, kept) = match count(self) {
            Ok(count) => self.segments().split_at(count),
            Err(error) if held_lock.is_some() => return Err(error),
            Err(error) => {
                note(&State::end_removal)?;
                return Err(error);
            }
        };
        let is_most = removed.len() >= kept.len();
        let boundary = self.end_of(removed.len());
        let last = self.last_changes(removed);
        let last_load = removed.iter().filter_map(|it| it.load).max();
        let last_gap = removed.iter().flat_map(|it| &it.gaps).map(|gap| gap.end);
        let last_gap = last_gap.max();
        let held_lock = held_lock.map_or_else(|| lock(&*store), Ok)?;
        let raise = |state: &mut State| {
            state.boundary = state.boundary.max(boundary);
            // A writer may have crashed before it noted that this load has ended. Then only these
            // segments say so.
            state.last_load = state.last_load.max(last_load.unwrap_or(0));
            state.gap = state.gap.max(last_gap);
            for (oid, removed) in &last {
                state.note_removed(*oid, removed.clone());
            }
        };
        // Readers that open the log from now on do not expect the segments.
        match change_state(&*store, &held_lock, &raise) {
            Err(error) if error.is_full() => {
                make_room(&*store, lease)?;
                change_state(&*store, &held_lock, &raise)?;
            }
            changed => changed?,
        }
        drop(held_lock);
        let count = end_removal(&*store, lease)?;
        self.refresh()?;
        if is_most {
            // Otherwise the index would grow for ever. It follows from the segments.
            index::rewrite(&*store, self.index())?;
        }
        Ok(count)
    }

    /// The last changes of each table in these segments.
    fn last_changes(&self, segments: &[Segment]) -> Vec<(Oid, Removed)> {
        let tables = segments.iter().flat_map(|segment| &segment.tables);
        let last = tables.filter_map(|table| {
            let version = self.versions().get(table.version)?;
            let removed = Removed {
                schema: version.schema.clone(),
                name: version.name.clone(),
                end: table.last,
            };
            Some((version.oid, removed))
        });
        last.collect()
    }
}

/// Removes the segments before [`Log::start`](crate::Log::start), also segments that a process has
/// left when it crashed. Returns how many.
pub(crate) fn end_removal(store: &dyn Store, _lease: &Lease) -> Result<usize, Error> {
    let state = State::read(store)?;
    let mut names = Listing::of(store)?.segments;
    names.retain(|name| name.start < state.boundary);
    remove(store, &names)?;
    if state.is_removing() {
        let lock = lock(store)?;
        change_state(store, &lock, &State::end_removal)?;
    }
    Ok(names.len())
}

fn change_state(
    store: &dyn Store,
    lock: &Locked,
    change: &dyn Fn(&mut State),
) -> Result<(), Error> {
    State::change(store, lock, |state| {
        change(state);
        Ok(())
    })
}

/// Makes room for a small object on a full disk. If no room was kept for that, removes the index,
/// which follows from the segments.
fn make_room(store: &dyn Store, lease: &mut Lease) -> Result<(), Error> {
    store.sweep().map_err(|error| Error::store("", &error))?;
    if lease.release_room()? {
        return Ok(());
    }
    once::remove(store, INDEX)
}

/// Bytes of the segments' frames.
fn bytes(segments: &[Segment]) -> u64 {
    let bytes = segments.iter().map(|it| it.bytes);
    bytes.fold(0, u64::saturating_add)
}
