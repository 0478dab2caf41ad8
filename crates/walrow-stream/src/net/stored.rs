//! Rows and their stored records, with cells in the columns of the layout.

use crate::net::error::{NetError, damaged};
use crate::net::heap::{Id, Version};
use crate::net::record::{Head, Record, Row};
use crate::net::table::Table;
use crate::net::versions::Versions;
use walrow_wire::{Cell, Tuple};

/// Memory for stored rows and keys.
#[derive(Debug, Default)]
pub(super) struct Keep {
    pub(super) stored: Vec<u8>,
    pub(super) projected: Vec<u8>,
    pub(super) key: Vec<u8>,
}

/// Loads the row of a record, with its cells in the columns of the layout.
pub(super) fn load(
    versions: &Versions,
    version: Version,
    record: &Record<'_>,
    row: &mut Row,
    projected: &mut Vec<u8>,
) -> Result<(), NetError> {
    row.load(record);
    let cells = cells_of(versions, version, record, projected).ok_or_else(damaged)?;
    row.cells.clear();
    row.cells.extend_from_slice(cells.bytes());
    Ok(())
}

/// The cells of a record's row, in the columns of the layout.
pub(super) fn cells_of<'a>(
    versions: &Versions,
    version: Version,
    record: &Record<'a>,
    out: &'a mut Vec<u8>,
) -> Option<Tuple<'a>> {
    let missing = match record.head {
        Head::None => Cell::Null,
        Head::Own | Head::Other => Cell::Unchanged,
    };
    versions.project(version, record.cells, missing, out)
}

pub(super) fn store(table: &mut Table, id: Id, record: &Record<'_>) -> Result<(), NetError> {
    let version = table.versions.last();
    let heap = &mut table.heap;
    Ok(heap.replace_with(id, version, record.size(), |out| record.encode(out))?)
}

/// The cells of a row. The values that it lacks come from the row before.
pub(super) fn over<'a>(
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
