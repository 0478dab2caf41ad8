//! The rows of a key: one, and until the end of a transaction perhaps several.

use crate::net::changes::Changes;
use crate::net::error::damaged;
use crate::net::error::{Gap, NetError};
use crate::net::heap::{Id, Version};
use crate::net::images::Image;
use crate::net::options::Deletes;
use crate::net::record::{Head, Record, Row, set_beside};
use crate::net::stored::{Keep, load, store};
use crate::net::table::{Table, cell_at};
use walrow_wire::Tuple;

/// The row that a key still has after one row was taken from it.
#[derive(Debug)]
pub(super) enum Left {
    /// The row from before the transaction may be there.
    Untouched,
    /// No row.
    Nothing,
    /// Another row, which is stored beside.
    Other(Version, Vec<u8>),
    /// The stored row. The row that was taken was beside it.
    Stored,
    /// The stored row. The row from before the transaction was taken.
    StoredAlone,
}

impl Left {
    /// Whether the key has a known row.
    pub(super) const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored)
    }
}

impl Changes {
    /// The row that a key has when another row comes there.
    pub(super) fn left_at(
        &self,
        table: &mut Table,
        id: Id,
        keep: &mut Keep,
    ) -> Result<Left, NetError> {
        if !self.layout.has_whole_images {
            // A key has one row, so whatever was there is gone.
            return Ok(Left::Nothing);
        }
        let Some((_, stored)) = table.heap.read(id, &mut keep.stored)? else {
            return Ok(if self.is_cleared() {
                Left::Nothing
            } else {
                Left::Untouched
            });
        };
        let record = Record::parse(stored).ok_or_else(damaged)?;
        Ok(if record.is_row {
            Left::Stored
        } else {
            Left::Nothing
        })
    }

    /// Takes the row of a key: its cells in the columns of the layout, if the image needs them.
    pub(super) fn take(
        &mut self,
        table: &mut Table,
        id: Id,
        image: Image<'_>,
        row: &mut Row,
        keep: &mut Keep,
    ) -> Result<Left, NetError> {
        let Some((version, stored)) = table.heap.read(id, &mut keep.stored)? else {
            self.take_unknown(table, row);
            return Ok(Left::Nothing);
        };
        let record = Record::parse(stored).ok_or_else(damaged)?;
        if !record.is_row {
            row.begin(Head::None);
            self.lack_all(table, row);
            return Ok(Left::Nothing);
        }
        let is_beside = record.is_beside && record.since == self.transaction;
        let has_others = self.others.contains_key(&id);
        if !is_beside && !has_others {
            if image.keeps_values {
                load(&table.versions, version, &record, row, &mut keep.projected)?;
            } else {
                row.load(&record);
                row.cells.clear();
            }
            return Ok(Left::Nothing);
        }
        let stored = stored.to_vec();
        let record = Record::parse(&stored).ok_or_else(damaged)?;
        let mut others = self.take_others(table, id)?;
        let identity = &*self.layout.identity;
        // A row that this transaction changed is best, and then the row that lacks the fewest values.
        // Other rows come second, since not every part of a range knows their values.
        let rank = |record: &Record<'_>, lacking| (record.changed != self.transaction, lacking);
        let own = image.lacking(table, version, &record, identity, &mut keep.projected)?;
        let mut best = own.map(|lacking| (rank(&record, lacking), None));
        for (place, (version, bytes)) in others.iter().enumerate() {
            let record = Record::parse(bytes).ok_or_else(damaged)?;
            let found = image.lacking(table, *version, &record, identity, &mut keep.projected)?;
            let found = found.map(|lacking| rank(&record, lacking));
            if let Some(rank) = found
                && best.is_none_or(|(least, _)| rank < least)
            {
                best = Some((rank, Some(place)));
            }
        }
        // If no row fits, the image means the row from before, which may have any image.
        let place = match best {
            Some((_, None)) => None,
            Some((_, place)) => place,
            None if is_beside => {
                self.take_unknown(table, row);
                self.put_others(table, id, &others)?;
                return Ok(Left::StoredAlone);
            }
            None => Some(0),
        };
        let left = if let Some(place) = place {
            let (version, bytes) = others.remove(place);
            let record = Record::parse(&bytes).ok_or_else(damaged)?;
            load(&table.versions, version, &record, row, &mut keep.projected)?;
            Left::Stored
        } else {
            load(&table.versions, version, &record, row, &mut keep.projected)?;
            match others.pop() {
                Some((version, mut bytes)) => {
                    set_beside(&mut bytes, is_beside);
                    Left::Other(version, bytes)
                }
                None if is_beside => Left::Untouched,
                None => Left::Nothing,
            }
        };
        self.put_others(table, id, &others)?;
        Ok(left)
    }

    /// Takes the rows that a key has besides the stored one.
    fn take_others(
        &mut self,
        table: &mut Table,
        id: Id,
    ) -> Result<Vec<(Version, Vec<u8>)>, NetError> {
        let mut rows = Vec::new();
        for handle in self.others.remove(&id).unwrap_or_default() {
            rows.push(table.heap.copy(handle)?.ok_or_else(damaged)?);
            table.heap.remove(handle)?;
        }
        Ok(rows)
    }

    /// Stores rows beside the row of a key. The heap bounds their memory.
    fn put_others(
        &mut self,
        table: &mut Table,
        id: Id,
        rows: &[(Version, Vec<u8>)],
    ) -> Result<(), NetError> {
        for (version, bytes) in rows {
            // A counter. Identities are hashes of 128 bits, so no identity is so small.
            self.handle = self.handle.wrapping_add(1);
            table.heap.add(self.handle, *version, bytes, 1)?;
            self.others.entry(id).or_default().push(self.handle);
        }
        Ok(())
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
    pub(super) fn leave(
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
                store(table, id, &Record::gone(&keep.key))?;
            }
            Left::Other(version, bytes) => table.heap.replace(id, version, &bytes)?,
            Left::Stored => {}
            Left::StoredAlone => {
                if let Some((version, mut bytes)) = table.heap.copy(id)? {
                    set_beside(&mut bytes, false);
                    table.heap.replace(id, version, &bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Gives a key a row. `has_unsent` says whether the cells lack values.
    pub(super) fn put(
        &mut self,
        table: &mut Table,
        id: Id,
        left: Left,
        (row, cells): (&Row, Tuple<'_>),
        has_unsent: bool,
    ) -> Result<(), NetError> {
        let is_beside = match left {
            Left::Untouched => true,
            Left::Nothing => false,
            Left::Other(version, mut bytes) => {
                let record = Record::parse(&bytes).ok_or_else(damaged)?;
                let is_beside = record.is_beside && record.since == self.transaction;
                set_beside(&mut bytes, false);
                self.put_others(table, id, &[(version, bytes)])?;
                is_beside
            }
            Left::Stored | Left::StoredAlone => {
                let mut is_beside = false;
                if let Some((version, mut bytes)) = table.heap.copy(id)? {
                    let record = Record::parse(&bytes).ok_or_else(damaged)?;
                    is_beside = record.is_beside
                        && record.since == self.transaction
                        && matches!(left, Left::Stored);
                    set_beside(&mut bytes, false);
                    self.put_others(table, id, &[(version, bytes)])?;
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
            has_unsent,
            since: row.since,
            changed: self.transaction,
            cells: cells.bytes(),
        };
        store(table, id, &record)
    }

    /// Ends a transaction: each key has one row.
    pub(super) fn settle(&mut self, table: &mut Table) -> Result<(), NetError> {
        let arrivals = std::mem::take(&mut self.arrivals);
        while let Some(id) = self.others.first_key_value().map(|(id, _)| *id) {
            let mut rows = self.take_others(table, id)?;
            rows.extend(table.heap.copy(id)?);
            // Since when a row has its key, unless it is marked.
            let since = |bytes: &[u8]| {
                let record = Record::parse(bytes)?;
                (record.is_row && !record.is_marked).then_some(record.since)
            };
            // Without published deletes, an insert may replace a row. An update that gives another
            // row its key may not. If deletes are ignored, the row may have been deleted.
            let arrived = arrivals.contains(&id) && self.options.deletes != Deletes::Ignore;
            let is_live = |bytes: &[u8]| since(bytes).is_some_and(|it| it >= self.ignored_truncate);
            let live = rows.iter().filter(|(_, it)| is_live(it)).count();
            let is_new = |bytes: &[u8]| since(bytes) == Some(self.transaction);
            let mut new = rows.iter().filter(|(_, it)| is_new(it));
            let found = new.next();
            if new.next().is_some() || arrived && found.is_some() && live > 1 {
                let places = table.identity.places.iter();
                let columns = places.map(|place| table.column(Some(*place))).collect();
                return Err(table.gap(Gap::DuplicateKey { columns }));
            }
            // A row of this transaction replaces an earlier row, which the target no longer has.
            let found = found.or_else(|| rows.iter().find(|(_, it)| since(it).is_some()));
            if let Some((version, bytes)) = found.or_else(|| rows.last()) {
                table.heap.replace(id, *version, bytes)?;
            }
        }
        Ok(())
    }
}
