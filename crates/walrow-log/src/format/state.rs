//! The state of a log beside its segments: one small object, which is replaced as a whole.

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

/// The state of a log beside its segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct State {
    /// The number of the log's history.
    #[serde(default, skip_serializing_if = "History::is_first")]
    history: History,
    /// The LSN where the log begins: the end of the last segment that was removed, or 0/0.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) boundary: Lsn,
    /// The LSN up to where a process is about to remove segments. The process writes this LSN, then
    /// looks at the readers. So a process that later registers a reader at an earlier position sees
    /// this LSN. It stays until the segments are gone.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    removing: Option<Lsn>,
    /// The end of the last segment that was merged. Readers that are not there yet look for that
    /// segment.
    #[serde(default, with = "walrow_stream::fact::lsn")]
    pub(crate) merged: Lsn,
    /// The last removed changes of each table, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) removed: BTreeMap<Oid, LastRemoved>,
    /// Where the last gap ends whose segment was removed.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) gap: Option<Lsn>,
    /// The last transaction with erased rows of each table, by OID.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) erased: BTreeMap<Oid, LastErased>,
    /// The place where a load is expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Place>,
    /// The number of the last load that ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) last_load: u64,
    /// Where the last load ended. Segments that end before it are not all: the load is lost.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub(crate) loaded: Option<Lsn>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The last transaction with erased rows of a table.
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
    /// The last removed changes under other names of the table.
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
    /// The last removed changes under each of the table's names.
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
    /// The number of the last load that ended, from the state or from one of these segments.
    pub(crate) fn ended(&self, loads: impl Iterator<Item = Option<u64>>) -> u64 {
        loads.flatten().max().unwrap_or(0).max(self.last_load)
    }

    /// The place where a load is expected, unless the load has ended.
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

    /// Changes the newest state. The lock keeps other processes from changing it. Fails if another
    /// process has changed it anyway.
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

    /// Whether a log can have this state: all removed changes end at or before the start of the
    /// log.
    pub(crate) fn is_possible(&self) -> bool {
        let names = self.removed.values().flat_map(LastRemoved::names);
        let mut ends = names.map(|it| it.end);
        ends.all(|end| end <= self.boundary)
    }

    /// The LSN where a new reader may begin. The log has all changes after it, and no process is
    /// about to remove them.
    pub(crate) fn kept(&self) -> Lsn {
        let removing = self.removing.unwrap_or(Lsn::INVALID);
        removing.max(self.boundary)
    }

    /// Whether a process removes segments, or has crashed before all of them were removed.
    pub(crate) const fn is_removing(&self) -> bool {
        self.removing.is_some()
    }

    /// Notes the intent to remove segments up to this LSN.
    pub(crate) fn intend_removal(&mut self, until: Lsn) {
        self.removing = Some(until);
    }

    /// Notes that all segments are gone that were to be removed.
    pub(crate) fn end_removal(&mut self) {
        self.removing = None;
    }

    /// Notes the ends of transactions with erased rows, by table.
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
