//! The rows of a table that begins empty: changes are applied one by one.

use crate::net::error::{Gap, NetError};
use crate::net::heap::{Id, Scan};
use crate::net::identity::{self, Kind, Unsent};
use crate::net::table::{Table, unsent};
use crate::net::versions::{Step, numbers};
use crate::relation::Relation;
use crate::transaction::RowChange;
use std::sync::Arc;
use walrow_wire::{Cell, OldTuple, ReplicaIdentity, Tuple};

/// Applies the changes.
#[derive(Debug, Default)]
pub(super) struct State {
    /// Whether the rows before a load are still skipped.
    pub(super) waits: bool,
    scratch: Scratch,
}

/// Memory for one row.
#[derive(Debug, Default)]
struct Scratch {
    /// A stored row.
    stored: Vec<u8>,
    /// The stored row, with the columns of the last version.
    projected: Vec<u8>,
    /// A new row with all of its values.
    merged: Vec<u8>,
}

impl State {
    /// Applies a row change.
    #[inline]
    pub(super) fn row(&mut self, table: &mut Table, row: RowChange<'_>) -> Result<(), NetError> {
        if self.waits {
            return Ok(());
        }
        match row {
            RowChange::Insert { new } => insert(table, new),
            RowChange::Update { old, new } => self.update(table, old, new),
            RowChange::Delete { old } => delete(table, old),
        }
    }

    /// Applies a TRUNCATE.
    pub(super) fn truncate(&mut self, table: &mut Table) {
        self.waits &= !table.loads;
        table.heap.clear();
    }

    fn update(
        &mut self,
        table: &mut Table,
        old: Option<OldTuple<'_>>,
        new: Tuple<'_>,
    ) -> Result<(), NetError> {
        // Without an old tuple, the identity is the same.
        let old_id = match (table.identity.kind, old) {
            (Kind::Key, None) => table.id(new)?,
            _ => id_of_old(table, old)?,
        };
        if !table.heap.has(old_id) {
            return Err(table.gap(Gap::Row));
        }
        match unsent(new) {
            None => replace(table, old_id, old.is_some(), new),
            Some(place) => match merge(table, old_id, old, new, &mut self.scratch)? {
                Some(whole) => replace(table, old_id, old.is_some(), whole),
                None => Err(table.unsent(Unsent(place))),
            },
        }
    }
}

fn insert(table: &mut Table, new: Tuple<'_>) -> Result<(), NetError> {
    if let Some(place) = unsent(new) {
        return Err(table.unsent(Unsent(place)));
    }
    let id = table.id(new)?;
    put(table, id, new)
}

/// Adds a row.
fn put(table: &mut Table, mut id: Id, row: Tuple<'_>) -> Result<(), NetError> {
    if table.identity.kind == Kind::Key && table.heap.has(id) {
        let relation = table.relation.clone();
        let full = relation.filter(|it| it.replica_identity == ReplicaIdentity::Full);
        // The key that rows stay under may not be unique any more.
        table
            .identity
            .take(&*full.ok_or_else(|| table.gap(Gap::Removal))?);
        identify_again(table)?;
        id = table.id(row)?;
    }
    let version = table.versions.last();
    Ok(table.heap.add(id, version, row.bytes(), 1)?)
}

/// Replaces a row. Its identity may change.
fn replace(table: &mut Table, old_id: Id, may_move: bool, new: Tuple<'_>) -> Result<(), NetError> {
    let new_id = if may_move { table.id(new)? } else { old_id };
    if new_id == old_id && table.identity.kind == Kind::Key {
        let version = table.versions.last();
        return Ok(table.heap.replace(new_id, version, new.bytes())?);
    }
    table.heap.remove(old_id)?;
    put(table, new_id, new)
}

/// The new row with the values that were not sent. They come from the old image, or else from the
/// stored row. `None` if a value is missing in both.
fn merge<'a>(
    table: &mut Table,
    id: Id,
    old: Option<OldTuple<'_>>,
    new: Tuple<'_>,
    scratch: &'a mut Scratch,
) -> Result<Option<Tuple<'a>>, NetError> {
    let Scratch {
        stored,
        projected,
        merged,
    } = scratch;
    let Some((version, stored)) = table.heap.read(id, stored)? else {
        return Err(table.gap(Gap::Row));
    };
    let stored = table
        .versions
        .project(version, stored, Cell::Null, projected);
    let Some(stored) = stored else {
        return Err(table.gap(Gap::Row));
    };
    merged.clear();
    let is_key = matches!(old, Some(OldTuple::Key(_)));
    let mut olds = old.map(|old| old.tuple().cells());
    let mut stored = stored.cells();
    for (place, cell) in new.cells().enumerate() {
        let of_old = olds.as_mut().and_then(Iterator::next);
        // A key tuple has no values of other columns.
        let of_old = of_old.filter(|_| !is_key || table.identity.places.contains(&place));
        // An unchanged value is large, so it was not NULL: an old image with NULL lacks it.
        let of_old = of_old.filter(|cell| !matches!(cell, Cell::Unchanged | Cell::Null));
        let of_stored = stored.next();
        let cell = match cell {
            Cell::Unchanged => of_old.or(of_stored).unwrap_or(Cell::Unchanged),
            sent => sent,
        };
        if cell == Cell::Unchanged {
            return Ok(None);
        }
        cell.encode(merged);
    }
    let columns = u16::try_from(new.len()).unwrap_or(u16::MAX);
    Ok(Tuple::of(columns, merged))
}

fn delete(table: &mut Table, old: OldTuple<'_>) -> Result<(), NetError> {
    let id = id_of_old(table, Some(old))?;
    if table.heap.remove(id)? {
        return Ok(());
    }
    Err(table.gap(Gap::Row))
}

/// The identity of the row before a change.
fn id_of_old(table: &mut Table, old: Option<OldTuple<'_>>) -> Result<Id, NetError> {
    match (table.identity.kind, old) {
        (Kind::Key, Some(old)) => table.id(old.tuple()),
        (Kind::Whole, Some(OldTuple::Full(old))) => table.id(old),
        _ => Err(table.gap(Gap::Identity)),
    }
}

/// Takes a version, which becomes the last version.
#[cold]
pub(super) fn take_version(table: &mut Table, relation: &Arc<Relation>) -> Result<(), NetError> {
    let numbers = numbers(relation, &table.catalog);
    let columns = relation.columns.len();
    let before = table.relation.replace(Arc::clone(relation));
    let numbers_before = std::mem::replace(&mut table.numbers, numbers);
    let before = before.filter(|_| !table.heap.is_empty());
    let Some(before) = before else {
        table.versions.begin(columns);
        table.identity.take(relation);
        return Ok(());
    };
    let places = places(table, (&before, numbers_before.as_deref()))?;
    let (kind, keys) = identity::of(relation);
    let was = |place| places.as_ref().map_or(Some(place), |it| *it.get(place)?);
    let now = table.identity.places.iter();
    let now = now.map(|key| (0..columns).find(|place| was(*place) == Some(*key)));
    let now = now.collect::<Option<Box<[usize]>>>();
    let is_same = kind == table.identity.kind && now.as_ref() == Some(&keys);
    // Under FULL, rows stay under their key: a table may get its identity back any number of times.
    let is_kept = is_same || (kind, table.identity.kind) == (Kind::Whole, Kind::Key);
    if let Some(places) = &places {
        table.versions.add(columns, places);
    }
    if let Some(now) = now.filter(|_| is_kept) {
        table.identity.places = now;
        table.identity.forget_types();
        return Ok(());
    }
    table.identity.take(relation);
    identify_again(table)
}

/// The places of the table's columns in the version before. `None` if they are the same.
pub(super) fn places(
    table: &Table,
    before: (&Relation, Option<&[i16]>),
) -> Result<Option<Box<[Option<usize>]>>, NetError> {
    let Some(relation) = &table.relation else {
        return Ok(None);
    };
    match Step::new(before, (relation, table.numbers.as_deref())) {
        Step::Same => Ok(None),
        Step::Changed(places) => Ok(Some(places)),
        Step::Unclear { went, came } => Err(table.gap(Gap::Columns { went, came })),
        Step::Retyped(column) => Err(table.gap(Gap::Type { column })),
    }
}

/// Finds the identities of all rows again.
fn identify_again(table: &mut Table) -> Result<(), NetError> {
    let fresh = table.heap.like();
    let mut before = std::mem::replace(&mut table.heap, fresh);
    let mut scan = Scan::default();
    let mut projected = Vec::new();
    let version = table.versions.last();
    while let Some(row) = before.next(&mut scan)? {
        let versions = std::mem::take(&mut table.versions);
        let cells = versions.project(row.version, before.cells(&scan), Cell::Null, &mut projected);
        table.versions = versions;
        let Some(cells) = cells else {
            return Err(table.gap(Gap::Row));
        };
        let id = table.id(cells)?;
        if table.identity.kind == Kind::Key && (row.count > 1 || table.heap.has(id)) {
            return Err(table.gap(Gap::Removal));
        }
        table.heap.add(id, version, cells.bytes(), row.count)?;
    }
    Ok(())
}
