//! Net changes of a table whose earlier rows are unknown: a row change is applied to the records of
//! its keys.

use crate::net::error::{NetError, damaged};
use crate::net::heap::Id;
use crate::net::images::Image;
use crate::net::layout::Layout;
use crate::net::options::{Deletes, NetOptions, Truncates};
use crate::net::record::{Head, Row};
use crate::net::stored::{Keep, over};
use crate::net::table::{Table, cell_at, is_binary, unsent};
use crate::net::tally::Barrier;
use crate::net::target::Target;
use crate::transaction::{RowChange, Truncate};
use std::collections::{BTreeMap, BTreeSet};
use walrow_wire::{Cell, OldTuple, Tuple};

/// The state of a range, except the records of its keys.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) options: NetOptions,
    pub(super) layout: Layout,
    /// The number of row changes since the barrier.
    pub(super) events: u64,
    /// The number of updates since the barrier that gave a row another key.
    pub(super) moves: u64,
    pub(super) barrier: Option<Barrier>,
    /// Whether the target's other rows go.
    pub(super) clears: bool,
    /// Counts the transactions, from 1.
    pub(super) transaction: u32,
    /// The handles of more rows that a key has, until the end of the transaction.
    pub(super) others: BTreeMap<Id, Vec<Id>>,
    /// The last handle.
    pub(super) handle: Id,
    /// The keys that an update gave to a row, beside a known row, in the transaction.
    pub(super) arrivals: BTreeSet<Id>,
    /// The first transaction after the last ignored truncate. The server no longer has rows from
    /// before it, so other rows may get their keys.
    pub(super) ignored_truncate: u32,
    /// `None` before the first change, and while one is applied.
    scratch: Option<Box<Scratch>>,
}

/// Memory for one change.
#[derive(Debug, Default)]
struct Scratch {
    /// The images, in the columns of the layout.
    new: Vec<u8>,
    old: Vec<u8>,
    /// The new image, with the values of the old one.
    filled: Vec<u8>,
    merged: Vec<u8>,
    row: Row,
    keep: Keep,
}

impl Changes {
    pub(super) fn new(options: NetOptions) -> Self {
        Self {
            layout: Layout::new(&options),
            options,
            events: 0,
            moves: 0,
            barrier: None,
            clears: false,
            transaction: 0,
            others: BTreeMap::new(),
            handle: 0,
            arrivals: BTreeSet::new(),
            ignored_truncate: 0,
            scratch: None,
        }
    }

    /// Whether the range has a barrier: then no key has a row from before.
    pub(super) const fn is_cleared(&self) -> bool {
        self.barrier.is_some()
    }

    /// Begins a transaction.
    pub(super) fn begin(&mut self, table: &mut Table) -> Result<(), NetError> {
        self.settle(table)?;
        self.transaction = self.transaction.saturating_add(1);
        Ok(())
    }

    /// Applies a TRUNCATE.
    pub(super) fn truncate(
        &mut self,
        table: &mut Table,
        truncate: &Truncate,
    ) -> Result<(), NetError> {
        let is_load = table.loads;
        if self.options.truncates == Truncates::Ignore && !is_load {
            // Rows after the truncate replace rows before it, as in a later transaction.
            self.begin(table)?;
            self.ignored_truncate = self.transaction;
            return Ok(());
        }
        let barrier = Barrier {
            lsn: table.commit_lsn,
            seq: truncate.seq,
            is_load,
        };
        self.clear(table, barrier, 0);
        self.clears |= !is_load || self.options.deletes != Deletes::Ignore;
        if self.clears {
            self.layout.target = Target::Unseen;
        }
        Ok(())
    }

    /// Forgets all changes before a barrier.
    pub(super) fn clear(&mut self, table: &mut Table, barrier: Barrier, events: u64) {
        table.heap.clear();
        self.others.clear();
        self.arrivals.clear();
        self.barrier = Some(barrier);
        self.events = events;
        self.moves = 0;
    }

    /// Applies a row change.
    pub(super) fn row(&mut self, table: &mut Table, row: RowChange<'_>) -> Result<(), NetError> {
        self.events = self.events.saturating_add(1);
        table.has_binary = table.has_binary
            || match row {
                RowChange::Insert { new } => is_binary(new),
                RowChange::Update { old, new } => {
                    is_binary(new) || old.is_some_and(|old| is_binary(old.tuple()))
                }
                RowChange::Delete { old } => is_binary(old.tuple()),
            };
        let mut scratch = self.scratch.take().unwrap_or_default();
        let applied = match row {
            RowChange::Insert { new } => self.insert(table, new, &mut scratch),
            RowChange::Update { old, new } => self.update(table, old, new, &mut scratch),
            RowChange::Delete { old } => self.delete(table, old, &mut scratch),
        };
        self.scratch = Some(scratch);
        applied
    }

    fn insert(
        &mut self,
        table: &mut Table,
        new: Tuple<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), NetError> {
        let Scratch {
            new: buffer,
            row,
            keep,
            ..
        } = scratch;
        let new = self.layout.row(new, Cell::Null, buffer);
        let new = new.ok_or_else(damaged)?;
        let id = table.id_in(new)?;
        row.begin(Head::None);
        row.since = self.transaction;
        let left = self.left_at(table, id, keep)?;
        self.put(table, id, left, (row, new), unsent(new).is_some())
    }

    fn update(
        &mut self,
        table: &mut Table,
        old: Option<OldTuple<'_>>,
        new: Tuple<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), NetError> {
        let Scratch {
            new: new_buffer,
            old: old_buffer,
            filled,
            merged,
            row,
            keep,
        } = scratch;
        let new = self.layout.row(new, Cell::Unchanged, new_buffer);
        let new = new.ok_or_else(damaged)?;
        let old = self.layout.old(old, old_buffer)?;
        let new = match old {
            Some(old) if unsent(new).is_some() => self.layout.filled(new, old, filled)?,
            _ => new,
        };
        let keeps_values = unsent(new).is_some();
        let new_id = table.id_in(new)?;
        let old_id = match old {
            None => new_id,
            Some(old) => table.id_in(old.tuple())?,
        };
        let image = Image {
            old,
            new,
            keeps_values,
        };
        let left = self.take(table, old_id, image, row, keep)?;
        let whole = if keeps_values {
            let columns = u16::try_from(new.len()).unwrap_or(u16::MAX);
            let was = Tuple::of(columns, &row.cells).ok_or_else(damaged)?;
            over(new, was, merged)?
        } else {
            new
        };
        let has_unsent = keeps_values && unsent(whole).is_some();
        row.is_marked = false;
        if old_id == new_id {
            return self.put(table, new_id, left, (row, whole), has_unsent);
        }
        self.moves = self.moves.saturating_add(1);
        let old = old.map_or(new, OldTuple::tuple);
        match row.head {
            Head::None => {}
            Head::Own => {
                row.head = Head::Other;
                row.head_key.clear();
                for place in &table.identity.places {
                    cell_at(old, *place).encode(&mut row.head_key);
                }
            }
            Head::Other => {
                if table.id_of_cells(&row.head_key)? == new_id {
                    row.head = Head::Own;
                    row.head_key.clear();
                }
            }
        }
        row.since = self.transaction;
        self.leave(table, old_id, left, old, keep)?;
        let left = self.left_at(table, new_id, keep)?;
        if left.is_stored() {
            self.arrivals.insert(new_id);
        }
        self.put(table, new_id, left, (row, whole), has_unsent)
    }

    fn delete(
        &mut self,
        table: &mut Table,
        old: OldTuple<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), NetError> {
        let is_whole = self.layout.has_whole_images;
        if self.options.deletes == Deletes::Ignore && !is_whole {
            return Ok(());
        }
        let Scratch {
            old: buffer,
            merged,
            row,
            keep,
            ..
        } = scratch;
        let Some(old) = self.layout.old(Some(old), buffer)? else {
            return Ok(());
        };
        let image = old.tuple();
        let id = table.id_in(image)?;
        let left = self.take(
            table,
            id,
            Image {
                old: Some(old),
                new: image,
                keeps_values: self.options.deletes != Deletes::Apply,
            },
            row,
            keep,
        )?;
        // A row may come and go in one transaction while the earlier row of its key stays.
        let is_brief = is_whole && row.since == self.transaction;
        let is_kept = self.options.deletes != Deletes::Apply && !is_brief;
        if !is_kept {
            return self.leave(table, id, left, image, keep);
        }
        row.is_marked = true;
        let columns = u16::try_from(image.len()).unwrap_or(u16::MAX);
        let was = Tuple::of(columns, &row.cells).ok_or_else(damaged)?;
        let whole = match old {
            OldTuple::Full(image) => over(image, was, merged)?,
            OldTuple::Key(image) => {
                merged.clear();
                for (place, (cell, was)) in image.cells().zip(was.cells()).enumerate() {
                    let is_key = self.layout.identity.contains(&place);
                    if is_key { cell } else { was }.encode(merged);
                }
                Tuple::of(columns, merged).ok_or_else(damaged)?
            }
        };
        self.put(table, id, left, (row, whole), unsent(whole).is_some())
    }
}
