//! Removes old segments: up to an LSN, or by age and size, and never what a reader or a table still
//! needs.
//!
//! ```text
//! segments   ─┬────────┬────────┬────────┬────────┬─►
//!             │  old   │  old   │  old   │        │
//!            start     ▲                 ▲        end
//!                      │ a hold: a reader's position, or the segment before a table's last load
//!                      └─ what is removed ends here, and not here ─┘ where age and size say
//! ```

use crate::log::error::{Error, ErrorKind};
use crate::log::hold::Hold;
use crate::log::index::{self, Segment};
use crate::log::listing::Listing;
use crate::log::locking::lock;
use crate::log::state::{Pruned, Removed};
use crate::log::store::remove_if_there;
use crate::log::view::{Log, chains};
use std::collections::BTreeMap;
use walrow_wire::{Lsn, Oid, Timestamp};

/// What a log keeps.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Retention {
    /// Microseconds. Older transactions may go.
    pub age: Option<i64>,
    /// Bytes of segments. If there are more, the oldest may go.
    pub bytes: Option<u64>,
    /// Microseconds. Readers that were not used for so long are forgotten.
    pub forget_after: Option<i64>,
    /// Whether readers and loads hold nothing back.
    pub force: bool,
}

/// What [`Log::retain`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retained {
    /// How many segments were removed.
    pub segments: usize,
    /// Bytes of their frames.
    pub bytes: u64,
    /// What holds back more, the most restrictive first.
    pub held: Vec<Hold>,
    /// The readers that were forgotten.
    pub forgotten: Vec<String>,
}

impl Log {
    /// Removes the segments that end at or before this LSN, and returns how many. The last segment
    /// stays: it says where the log ends.
    ///
    /// # Errors
    /// A reader or a load needs them, and `force` is not set: then none is removed. The store failed.
    /// Another call tries again.
    pub fn prune(&mut self, until: Lsn, force: bool) -> Result<usize, Error> {
        let store = self.store();
        let _lock = lock(&*store)?;
        // Others may have removed or merged segments.
        *self = Self::open(store)?;
        let count = self.prefix(|chain| chain.last().is_some_and(|last| last.end <= until));
        if !force {
            let end = self.end_of(count);
            let mut holds = self.holds()?.into_iter();
            if let Some(hold) = holds.find(|hold| hold.position() < end) {
                return Err(Error::new("", ErrorKind::Held { hold }));
            }
        }
        self.remove(count)
    }

    /// Removes the segments that are too old or too many, as far as nothing holds them back. If age
    /// and bytes are given, what one of them says goes. The last segment stays.
    ///
    /// # Errors
    /// The store failed. Another call tries again.
    pub fn retain(&mut self, retention: &Retention, now: Timestamp) -> Result<Retained, Error> {
        let store = self.store();
        self.follow()?;
        // Nearly always.
        if self.unwanted(retention, now) == 0 && retention.forget_after.is_none() {
            return Ok(Retained::default());
        }
        let mut retained = Retained::default();
        if let Some(age) = retention.forget_after {
            let since = now.0.saturating_sub(age);
            for reader in self.readers()? {
                if reader.used < since && self.forget_unused(&reader.name, since)? {
                    retained.forgotten.push(reader.name);
                }
            }
        }
        let _lock = lock(&*store)?;
        *self = Self::open(store)?;
        let unwanted = self.unwanted(retention, now);
        let mut count = unwanted;
        if !retention.force {
            let end = self.end_of(unwanted);
            retained.held = self.holds()?;
            retained.held.retain(|hold| hold.position() < end);
            if let Some(hold) = retained.held.first() {
                let position = hold.position();
                let is_free = |chain: &[Segment]| chain.last().is_some_and(|it| it.end <= position);
                count = self.prefix(is_free).min(unwanted);
            }
        }
        let removed = self.segments().get(..count).unwrap_or_default();
        retained.bytes = bytes(removed);
        retained.segments = self.remove(count)?;
        Ok(retained)
    }

    /// What needs segments, the most restrictive first.
    ///
    /// # Errors
    /// A record of a reader is damaged, or the store failed.
    pub fn holds(&self) -> Result<Vec<Hold>, Error> {
        let readers = self.readers()?.into_iter().map(|reader| Hold::Reader {
            name: reader.name,
            position: reader.position,
            used: reader.used,
        });
        let mut holds: Vec<_> = readers.chain(self.last_loads()).collect();
        holds.sort_by_key(Hold::position);
        Ok(holds)
    }

    /// The last load of each table. That of a table whose name another one has since is not needed.
    fn last_loads(&self) -> Vec<Hold> {
        let mut loads: BTreeMap<Oid, Lsn> = BTreeMap::new();
        let mut names: BTreeMap<Oid, (Lsn, &str, &str)> = BTreeMap::new();
        let mut owners: BTreeMap<(&str, &str), (Lsn, Oid)> = BTreeMap::new();
        for segment in self.segments() {
            for table in &segment.tables {
                let Some(version) = self.versions().get(table.version) else {
                    continue;
                };
                let (oid, schema, name) = (version.oid, &*version.schema, &*version.name);
                if table.loaded.is_some() {
                    loads.insert(oid, segment.start);
                }
                let known = names.entry(oid).or_insert((table.last, schema, name));
                if table.last >= known.0 {
                    *known = (table.last, schema, name);
                }
                let owner = owners.entry((schema, name)).or_insert((table.last, oid));
                if table.last >= owner.0 {
                    *owner = (table.last, oid);
                }
            }
        }
        let live = loads.into_iter().filter_map(|(oid, position)| {
            let (_, schema, name) = *names.get(&oid)?;
            let (_, owner) = owners.get(&(schema, name))?;
            (*owner == oid).then(|| Hold::Load {
                oid,
                schema: schema.to_owned(),
                name: name.to_owned(),
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

    /// Where the first segments end, of this number.
    fn end_of(&self, count: usize) -> Lsn {
        let last = count.checked_sub(1).and_then(|it| self.segments().get(it));
        last.map_or(self.pruned.until, |last| last.end)
    }

    /// Removes the first segments, of this number, and those that an earlier call left.
    fn remove(&mut self, count: usize) -> Result<usize, Error> {
        let removed: Vec<Segment> = self.index.segments.drain(..count).collect();
        for segment in &removed {
            self.pruned.until = self.pruned.until.max(segment.end);
            for table in &segment.tables {
                let Some(version) = self.index.versions.get(table.version) else {
                    continue;
                };
                let removed = Removed {
                    schema: version.schema.clone(),
                    name: version.name.clone(),
                    end: table.last,
                };
                self.pruned.add(version.oid, removed);
            }
        }
        if removed.is_empty() {
            return self.sweep();
        }
        // Readers that open the log from now on do not expect the segments.
        self.pruned.write(&*self.store)?;
        let swept = self.sweep()?;
        if removed.len() >= self.index.segments.len() {
            // Otherwise it would grow for ever. It follows from the segments.
            index::rewrite_beside(&*self.store, &self.index)?;
        }
        Ok(swept)
    }

    /// Removes the segments before [`Log::start`], also those that an earlier call left.
    pub(super) fn sweep(&self) -> Result<usize, Error> {
        let names = Listing::of(&*self.store)?.segments;
        let mut removed = 0_usize;
        for name in names.iter().filter(|name| name.start < self.pruned.until) {
            remove_if_there(&*self.store, &name.to_string())?;
            removed = removed.saturating_add(1);
        }
        Ok(removed)
    }

    /// Where the last transaction ends of which rows were erased by now, by OID. Readers that are
    /// further back never get those changes. Empty if none were.
    ///
    /// # Errors
    /// The record is damaged, or the store failed.
    pub fn erased(&self) -> Result<BTreeMap<Oid, Lsn>, Error> {
        let erased = Pruned::read(&*self.store)?.erased.into_iter();
        Ok(erased.map(|(oid, it)| (oid, it.end)).collect())
    }

    /// Where the last removed changes of a table end, by OID and name. Empty if nothing was removed.
    pub fn removed(&self) -> impl Iterator<Item = (Oid, &str, &str, Lsn)> {
        let Pruned { tables, .. } = &self.pruned;
        tables.iter().flat_map(|(oid, it)| {
            let names = it.names();
            names.map(|it| (*oid, &*it.schema, &*it.name, it.end))
        })
    }
}

/// Bytes of the segments' frames.
fn bytes(segments: &[Segment]) -> u64 {
    let bytes = segments.iter().map(|it| it.bytes);
    bytes.fold(0, u64::saturating_add)
}
