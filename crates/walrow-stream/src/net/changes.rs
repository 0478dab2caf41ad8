//! Net changes of a table whose earlier rows are not known: row changes are applied to what is
//! known of their keys.

use crate::net::error::{Gap, NetError};
use crate::net::heap::{Id, Version};
use crate::net::images::Image;
use crate::net::layout::Layout;
use crate::net::options::{Deletes, NetOptions, Truncates};
use crate::net::record::{Head, Record, Row};
use crate::net::table::{Table, cell_at, unsent};
use crate::net::tally::Barrier;
use crate::transaction::{RowChange, Truncate};
use std::collections::BTreeMap;
use std::io;
use walrow_wire::{Cell, OldTuple, Tuple};

/// What is known of a range, besides the records of its keys.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) options: NetOptions,
    pub(super) layout: Layout,
    /// The number of row changes since the barrier.
    pub(super) events: u64,
    pub(super) barrier: Option<Barrier>,
    /// Whether the target's other rows go.
    pub(super) clears: bool,
    /// Counts the transactions, from 1.
    transaction: u32,
    /// More rows that a key has, until the end of the transaction.
    others: BTreeMap<Id, Vec<(Version, Vec<u8>)>>,
    scratch: Scratch,
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

/// Memory for what is stored.
#[derive(Debug, Default)]
pub(super) struct Keep {
    stored: Vec<u8>,
    projected: Vec<u8>,
    record: Vec<u8>,
    key: Vec<u8>,
}

/// What a key has without the row that was taken from it.
#[derive(Debug)]
enum Left {
    /// The row from before the transaction may be there.
    Untouched,
    /// No row.
    Nothing,
    /// Another row, which is stored beside.
    Other(Version, Vec<u8>),
    /// The row that is stored: the one that was taken was beside it.
    Stored,
    /// The row that is stored. The one from before the transaction was taken.
    StoredAlone,
}

impl Changes {
    pub(super) fn new(options: NetOptions) -> Self {
        Self {
            layout: Layout::new(&options),
            options,
            events: 0,
            barrier: None,
            clears: false,
            transaction: 0,
            others: BTreeMap::new(),
            scratch: Scratch::default(),
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
        match self.options.truncates {
            Truncates::Error if !is_load => return Err(table.gap(Gap::Truncated)),
            Truncates::Ignore if !is_load => return Ok(()),
            _ => {}
        }
        let barrier = Barrier {
            lsn: table.commit_lsn,
            seq: truncate.seq,
            is_load,
        };
        self.clear(table, barrier, 0);
        self.clears |= !is_load || self.options.deletes != Deletes::Ignore;
        Ok(())
    }

    /// Forgets what came before a barrier.
    pub(super) fn clear(&mut self, table: &mut Table, barrier: Barrier, events: u64) {
        table.heap.clear();
        self.others.clear();
        self.barrier = Some(barrier);
        self.events = events;
    }

    /// Applies a row change.
    pub(super) fn row(&mut self, table: &mut Table, row: RowChange<'_>) -> Result<(), NetError> {
        self.events = self.events.saturating_add(1);
        let mut scratch = std::mem::take(&mut self.scratch);
        let applied = match row {
            RowChange::Insert { new } => self.insert(table, new, &mut scratch),
            RowChange::Update { old, new } => self.update(table, old, new, &mut scratch),
            RowChange::Delete { old } => self.delete(table, old, &mut scratch),
        };
        self.scratch = scratch;
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
        self.put(table, id, left, (row, new), keep)
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
        let new_id = table.id_in(new)?;
        let old_id = match old {
            None => new_id,
            Some(old) => table.id_in(old.tuple())?,
        };
        let left = self.take(table, old_id, Image { old, new }, row, keep)?;
        let whole = if unsent(new).is_none() {
            new
        } else {
            let columns = u16::try_from(new.len()).unwrap_or(u16::MAX);
            let was = Tuple::of(columns, &row.cells).ok_or_else(damaged)?;
            over(new, was, merged)?
        };
        row.is_marked = false;
        if old_id == new_id {
            return self.put(table, new_id, left, (row, whole), keep);
        }
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
        self.put(table, new_id, left, (row, whole), keep)
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
            },
            row,
            keep,
        )?;
        let is_kept = match self.options.deletes {
            Deletes::Apply => false,
            // A row that comes and goes in one transaction may do so beside the one before.
            Deletes::Soft | Deletes::Ignore => {
                let is_brief = is_whole && row.since == self.transaction;
                !(is_brief && self.has_earlier(table, id, &left, keep)?)
            }
        };
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
            _ => was,
        };
        self.put(table, id, left, (row, whole), keep)
    }

    /// Whether a key has, besides the row that was taken, one from before the transaction.
    fn has_earlier(
        &self,
        table: &mut Table,
        id: Id,
        left: &Left,
        keep: &mut Keep,
    ) -> Result<bool, NetError> {
        let is_earlier = |bytes: &[u8]| {
            let record = Record::parse(bytes);
            record.is_some_and(|it| it.is_beside || it.since != self.transaction)
        };
        let others = self.others.get(&id).into_iter().flatten();
        let mut is_there = others.into_iter().any(|(_, bytes)| is_earlier(bytes));
        is_there |= match left {
            Left::Untouched => true,
            Left::Nothing => false,
            Left::Other(_, bytes) => is_earlier(bytes),
            Left::Stored | Left::StoredAlone => {
                let is_stored = table.heap.read(id, &mut keep.stored)?.is_some();
                is_stored && is_earlier(&keep.stored)
            }
        };
        Ok(is_there)
    }

    /// What a key has, for a row that comes there.
    fn left_at(&self, table: &mut Table, id: Id, keep: &mut Keep) -> Result<Left, NetError> {
        if !self.layout.has_whole_images {
            // A key has one row, so whatever was there is gone.
            return Ok(Left::Nothing);
        }
        if table.heap.read(id, &mut keep.stored)?.is_none() {
            return Ok(if self.is_cleared() {
                Left::Nothing
            } else {
                Left::Untouched
            });
        }
        let record = Record::parse(&keep.stored).ok_or_else(damaged)?;
        Ok(if record.is_row {
            Left::Stored
        } else {
            Left::Nothing
        })
    }

    /// Takes the row of a key, with its cells in the columns of the layout.
    fn take(
        &mut self,
        table: &mut Table,
        id: Id,
        image: Image<'_>,
        row: &mut Row,
        keep: &mut Keep,
    ) -> Result<Left, NetError> {
        let Some(version) = table.heap.read(id, &mut keep.stored)? else {
            self.take_unknown(table, row);
            return Ok(Left::Nothing);
        };
        let record = Record::parse(&keep.stored).ok_or_else(damaged)?;
        if !record.is_row {
            row.begin(Head::None);
            self.lack_all(table, row);
            return Ok(Left::Nothing);
        }
        let is_beside = record.is_beside && record.since == self.transaction;
        let has_others = self.others.contains_key(&id);
        if !is_beside && !has_others {
            load(table, version, &record, row, &mut keep.projected)?;
            return Ok(Left::Nothing);
        }
        let identity = &*self.layout.identity;
        let mut others = self.others.remove(&id).unwrap_or_default();
        let mut found = None;
        for (place, (version, bytes)) in others.iter().enumerate() {
            let record = Record::parse(bytes).ok_or_else(damaged)?;
            if image.is_of(table, *version, &record, identity, &mut keep.projected)? {
                found = Some(place);
                break;
            }
        }
        let left = if let Some(place) = found {
            let (version, bytes) = others.remove(place);
            let record = Record::parse(&bytes).ok_or_else(damaged)?;
            load(table, version, &record, row, &mut keep.projected)?;
            Left::Stored
        } else if image.is_of(table, version, &record, identity, &mut keep.projected)? {
            load(table, version, &record, row, &mut keep.projected)?;
            match others.pop() {
                Some((version, bytes)) => Left::Other(version, bytes),
                None => Left::Untouched,
            }
        } else if is_beside {
            self.take_unknown(table, row);
            Left::StoredAlone
        } else {
            let (version, bytes) = others.remove(0);
            let record = Record::parse(&bytes).ok_or_else(damaged)?;
            load(table, version, &record, row, &mut keep.projected)?;
            Left::Stored
        };
        if !others.is_empty() {
            self.others.insert(id, others);
        }
        Ok(left)
    }

    /// Becomes the row that a key had before the range.
    fn take_unknown(&self, table: &Table, row: &mut Row) {
        row.begin(if self.is_cleared() {
            Head::None
        } else {
            Head::Own
        });
        self.lack_all(table, row);
    }

    /// Gives a row no values.
    #[expect(clippy::unused_self, reason = "a part of taking a row")]
    fn lack_all(&self, table: &Table, row: &mut Row) {
        let columns = table.relation.as_ref().map_or(0, |it| it.columns.len());
        row.cells.clear();
        row.cells.resize(columns, b'u');
    }

    /// Stores what a key has after its row was taken.
    fn leave(
        &self,
        table: &mut Table,
        id: Id,
        left: Left,
        image: Tuple<'_>,
        keep: &mut Keep,
    ) -> Result<(), NetError> {
        match left {
            Left::Untouched => drop(table.heap.remove(id)?),
            Left::Nothing if self.is_cleared() => drop(table.heap.remove(id)?),
            Left::Nothing => {
                keep.key.clear();
                for place in &table.identity.places {
                    cell_at(image, *place).encode(&mut keep.key);
                }
                store(table, id, &Record::gone(&keep.key), &mut keep.record)?;
            }
            Left::Other(version, bytes) => table.heap.replace(id, version, &bytes)?,
            Left::Stored => {}
            Left::StoredAlone => {
                if let Some(version) = table.heap.read(id, &mut keep.stored)? {
                    let mut record = Record::parse(&keep.stored).ok_or_else(damaged)?;
                    record.is_beside = false;
                    keep.record.clear();
                    record.encode(&mut keep.record);
                    table.heap.replace(id, version, &keep.record)?;
                }
            }
        }
        Ok(())
    }

    /// Gives a key a row.
    fn put(
        &mut self,
        table: &mut Table,
        id: Id,
        left: Left,
        (row, cells): (&Row, Tuple<'_>),
        keep: &mut Keep,
    ) -> Result<(), NetError> {
        let is_beside = match left {
            Left::Untouched => true,
            Left::Nothing => false,
            Left::Other(version, bytes) => {
                let record = Record::parse(&bytes).ok_or_else(damaged)?;
                let is_beside = record.is_beside && record.since == self.transaction;
                self.others.entry(id).or_default().push((version, bytes));
                is_beside
            }
            Left::Stored | Left::StoredAlone => {
                let mut is_beside = false;
                if let Some(version) = table.heap.read(id, &mut keep.stored)? {
                    let record = Record::parse(&keep.stored).ok_or_else(damaged)?;
                    is_beside = record.is_beside
                        && record.since == self.transaction
                        && matches!(left, Left::Stored);
                    let others = self.others.entry(id).or_default();
                    others.push((version, keep.stored.clone()));
                }
                is_beside
            }
        };
        let record = Record {
            head: row.head,
            head_key: &row.head_key,
            is_row: true,
            is_marked: row.is_marked,
            is_beside,
            has_unsent: unsent(cells).is_some(),
            since: row.since,
            cells: cells.bytes(),
        };
        store(table, id, &record, &mut keep.record)
    }

    /// Ends a transaction: each key has one row.
    pub(super) fn settle(&mut self, table: &mut Table) -> Result<(), NetError> {
        let keep = &mut self.scratch.keep;
        for (id, others) in std::mem::take(&mut self.others) {
            let is_live = |bytes: &[u8]| Record::parse(bytes).is_some_and(|it| !it.is_marked);
            let is_stored = table.heap.read(id, &mut keep.stored)?.is_some();
            let stored_is_live = is_stored && is_live(&keep.stored);
            let mut live = others.iter().filter(|(_, bytes)| is_live(bytes));
            let (one, more) = (live.next(), live.next().is_some());
            if more || one.is_some() && stored_is_live {
                let places = table.identity.places.iter();
                let columns = places.map(|place| table.column(Some(*place))).collect();
                return Err(table.gap(Gap::DuplicateKey { columns }));
            }
            if let Some((version, bytes)) = one {
                table.heap.replace(id, *version, bytes)?;
            }
        }
        Ok(())
    }

    /// Makes what a key has after a later range: what that range says of it continues what its head
    /// has now. Writes nothing to the table.
    ///
    /// Returns false if the key has no row, and had none before the range.
    pub(super) fn compose(
        &self,
        table: &mut Table,
        id: Id,
        later: &Record<'_>,
        out: &mut Vec<u8>,
        row: &mut Row,
        keep: &mut Keep,
    ) -> Result<bool, NetError> {
        out.clear();
        if !later.is_row {
            later.encode(out);
            return Ok(!self.is_cleared());
        }
        let columns = table.relation.as_ref().map_or(0, |it| it.columns.len());
        let columns = u16::try_from(columns).unwrap_or(u16::MAX);
        let cells = Tuple::of(columns, later.cells).ok_or(NetError::Part)?;
        let head = match later.head {
            Head::None => None,
            Head::Own => Some(id),
            Head::Other => Some(table.id_of_cells(later.head_key)?),
        };
        let Some(head) = head else {
            let record = Record {
                is_beside: false,
                since: 0,
                ..*later
            };
            record.encode(out);
            return Ok(true);
        };
        let mut merged = std::mem::take(&mut keep.key);
        let cells = match table.heap.read(head, &mut keep.stored)? {
            None => {
                row.load(later);
                if self.is_cleared() {
                    row.begin(Head::None);
                }
                cells
            }
            Some(version) => {
                let earlier = Record::parse(&keep.stored).ok_or_else(damaged)?;
                if earlier.is_row {
                    load(table, version, &earlier, row, &mut keep.projected)?;
                    if row.head == Head::Own && later.head == Head::Other {
                        row.head = Head::Other;
                        row.head_key.extend_from_slice(later.head_key);
                    } else if row.head == Head::Other && table.id_of_cells(&row.head_key)? == id {
                        row.begin(Head::Own);
                    }
                    let was = Tuple::of(columns, &row.cells).ok_or_else(damaged)?;
                    over(cells, was, &mut merged)?
                } else {
                    row.begin(Head::None);
                    cells
                }
            }
        };
        let record = Record {
            head: row.head,
            head_key: &row.head_key,
            is_row: true,
            is_marked: later.is_marked,
            is_beside: false,
            has_unsent: unsent(cells).is_some(),
            since: 0,
            cells: cells.bytes(),
        };
        record.encode(out);
        keep.key = merged;
        Ok(true)
    }
}

/// Loads the row of a record, with its cells in the columns of the layout.
fn load(
    table: &Table,
    version: Version,
    record: &Record<'_>,
    row: &mut Row,
    projected: &mut Vec<u8>,
) -> Result<(), NetError> {
    row.load(record);
    let cells = cells_of(table, version, record, projected).ok_or_else(damaged)?;
    row.cells.clear();
    row.cells.extend_from_slice(cells.bytes());
    Ok(())
}

/// The cells of a record's row, in the columns of the layout.
pub(super) fn cells_of<'a>(
    table: &Table,
    version: Version,
    record: &Record<'a>,
    out: &'a mut Vec<u8>,
) -> Option<Tuple<'a>> {
    let missing = match record.head {
        Head::None => Cell::Null,
        Head::Own | Head::Other => Cell::Unchanged,
    };
    table.versions.project(version, record.cells, missing, out)
}

fn store(
    table: &mut Table,
    id: Id,
    record: &Record<'_>,
    buffer: &mut Vec<u8>,
) -> Result<(), NetError> {
    buffer.clear();
    record.encode(buffer);
    let version = table.versions.last();
    Ok(table.heap.replace(id, version, buffer)?)
}

/// The cells of a row, and those of the row before where it lacks a value.
fn over<'a>(
    row: Tuple<'_>,
    before: Tuple<'_>,
    out: &'a mut Vec<u8>,
) -> Result<Tuple<'a>, NetError> {
    out.clear();
    for (cell, was) in row.cells().zip(before.cells()) {
        if cell == Cell::Unchanged { was } else { cell }.encode(out);
    }
    let columns = u16::try_from(row.len()).unwrap_or(u16::MAX);
    Tuple::of(columns, out).ok_or_else(damaged)
}

/// What was stored cannot be read.
#[cold]
pub(super) fn damaged() -> NetError {
    let kind = io::ErrorKind::InvalidData;
    NetError::Spool(io::Error::new(kind, "the file of rows is damaged"))
}
