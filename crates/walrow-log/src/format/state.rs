//! What is known of a log beside its segments: one small object, which is replaced as a whole.

use crate::error::{DamagedPart, Error};
use crate::format::blocks::{put_object, read_tagged};
use crate::format::history::History;
use crate::format::load_place::Place;
use crate::store::lease::Locked;
use crate::store::{Objects, Store, Tag};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use walrow_wire::{Lsn, Oid};

/// The name of the object.
pub(crate) const STATE: &str = "_loaded-and-removed";

/// What is known of a log beside its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The number of the log's history.
    #[serde(default, skip_serializing_if = "History::is_first")]
    history: History,
    /// Where the log begins: the end of the last segment that was removed, or 0/0.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) boundary: Lsn,
    /// Up to where somebody is about to remove segments. Readers are counted once this is written, so
    /// who registers before it later than that sees it. It stays until the segments are gone.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    removing: Option<Lsn>,
    /// The end of the last segment that was merged: readers that are not there yet look for it.
    #[serde(default, with = "walrow_stream::fact::lsn")]
    pub(crate) merged: Lsn,
    /// The last removed changes of each table, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) removed: BTreeMap<Oid, LastRemoved>,
    /// The last transaction of each table of which rows were erased, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) erased: BTreeMap<Oid, LastErased>,
    /// Where a load is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
    /// The number of the last load that ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) last_load: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The last transaction of which rows of a table were erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastErased {
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) end: Lsn,
}

/// The last removed changes of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LastRemoved {
    #[serde(flatten)]
    last: Removed,
    /// Under its other names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    others: Vec<Removed>,
}

/// The last removed changes of a table, under one of its names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Removed {
    pub(crate) schema: String,
    pub(crate) name: String,
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) end: Lsn,
}

impl LastRemoved {
    /// Under each of its names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Removed> {
        std::iter::once(&self.last).chain(&self.others)
    }

    /// Adds changes that were removed too, whether they came before or after the others.
    fn add(&mut self, removed: Removed) {
        let Self { last, others } = self;
        let is_same =
            |it: &&mut Removed| (&it.schema, &it.name) == (&removed.schema, &removed.name);
        let mut names = std::iter::once(&mut *last).chain(&mut *others);
        match names.find(is_same) {
            Some(known) => known.end = known.end.max(removed.end),
            None => others.push(removed),
        }
        for other in others {
            if other.end > last.end {
                std::mem::swap(other, last);
            }
        }
    }
}

impl State {
    /// The number of the last load that ended: the state knows it, or one of these segments.
    pub(crate) fn ended(&self, loads: impl Iterator<Item = Option<u64>>) -> u64 {
        loads.flatten().max().unwrap_or(0).max(self.last_load)
    }

    /// Where a load is expected, unless that has ended.
    pub(crate) fn pending(&self, ended: u64) -> Option<&Place> {
        self.place.as_ref().filter(|place| place.number > ended)
    }

    pub(crate) fn read(objects: &dyn Objects) -> Result<Self, Error> {
        Ok(Self::found(objects)?.0)
    }

    /// The state, and the tag of its object if there is one.
    fn found(objects: &dyn Objects) -> Result<(Self, Option<Tag>), Error> {
        let found: Option<(Self, Tag)> = read_tagged(objects, STATE, DamagedPart::State)?;
        let Some((state, tag)) = found else {
            return Ok((Self::default(), None));
        };
        state.history.check(STATE)?;
        Ok((state, Some(tag)))
    }

    /// Changes the newest state. The lock says that nobody else does: otherwise it fails.
    pub(crate) fn change<T>(
        store: &dyn Store,
        _lock: &Locked,
        change: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (before, tag) = Self::found(store)?;
        let mut state = before.clone();
        let changed = change(&mut state)?;
        if state != before {
            // Serializing plain data into memory cannot fail.
            let json = serde_json::to_vec(&state).unwrap_or_default();
            put_object(store, STATE, tag.as_ref(), |blocks| blocks.append(&json))?;
        }
        Ok(changed)
    }

    /// Whether a log can be so: what was removed ends where the log begins, at the latest.
    pub(crate) fn is_possible(&self) -> bool {
        let names = self.removed.values().flat_map(LastRemoved::names);
        let mut ends = names.map(|it| it.end);
        ends.all(|end| end <= self.boundary)
    }

    /// Where a new reader may begin: nothing after it was removed, or is about to be.
    pub(crate) fn kept(&self) -> Lsn {
        let removing = self.removing.unwrap_or(Lsn::INVALID);
        removing.max(self.boundary)
    }

    /// Whether segments are being removed, or were not all removed when somebody crashed.
    pub(crate) const fn is_removing(&self) -> bool {
        self.removing.is_some()
    }

    /// Notes the intent to remove segments up to there.
    pub(crate) fn intend_removal(&mut self, until: Lsn) {
        self.removing = Some(until);
    }

    /// Notes that no segment is left that was to be removed.
    pub(crate) fn end_removal(&mut self) {
        self.removing = None;
    }

    /// Notes where the transactions end of which rows of tables are erased.
    pub(crate) fn note_erased(&mut self, ends: impl IntoIterator<Item = (Oid, Lsn)>) {
        for (oid, end) in ends {
            let known = self.erased.entry(oid).or_insert(LastErased { end });
            known.end = known.end.max(end);
        }
    }

    /// Notes removed changes of a table.
    pub(crate) fn note_removed(&mut self, oid: Oid, removed: Removed) {
        match self.removed.entry(oid) {
            Entry::Occupied(known) => known.into_mut().add(removed),
            Entry::Vacant(none) => {
                none.insert(LastRemoved {
                    last: removed,
                    others: Vec::new(),
                });
            }
        }
    }
}
