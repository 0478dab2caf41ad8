//! The record of a key after two ranges.

use crate::net::changes::Changes;
use crate::net::error::NetError;
use crate::net::error::damaged;
use crate::net::heap::Id;
use crate::net::record::{Head, Record, Row};
use crate::net::stored::{Keep, load, over};
use crate::net::table::{Table, unsent};
use walrow_wire::Tuple;

impl Changes {
    /// Makes the record of a key after a later range: the later record continues the record that
    /// its head has now. Writes nothing to the table.
    ///
    /// Returns false if the key has no row, and had no row before the range.
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
                changed: 0,
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
            Some((version, stored)) => {
                let earlier = Record::parse(stored).ok_or_else(damaged)?;
                if earlier.is_row {
                    load(&table.versions, version, &earlier, row, &mut keep.projected)?;
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
            changed: 0,
            cells: cells.bytes(),
        };
        record.encode(out);
        keep.key = merged;
        Ok(true)
    }
}
