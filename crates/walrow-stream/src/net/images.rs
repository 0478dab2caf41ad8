//! Finds the row that an old image means, among several rows of a key.
//!
//! Old images may have more than the key: whole rows under REPLICA IDENTITY FULL, or more columns of
//! an index. Then two rows may have one key until the end of a transaction, as deferrable constraints
//! allow. An update without an old image leaves the identity as it is, so its new image has the
//! identity's columns of the old one.

use crate::net::error::NetError;
use crate::net::error::damaged;
use crate::net::heap::Version;
use crate::net::record::Record;
use crate::net::table::Table;
use walrow_wire::{Cell, OldTuple, Tuple};

/// The images of a change.
#[derive(Clone, Copy, Debug)]
pub(super) struct Image<'a> {
    pub(super) old: Option<OldTuple<'a>>,
    pub(super) new: Tuple<'a>,
    /// Whether the change leaves values as they are, so that it needs the values of the row.
    pub(super) keeps_values: bool,
}

impl Image<'_> {
    /// How many values of this image the row of a record lacks. `None` if the row has other values:
    /// then the image does not mean this row.
    pub(super) fn lacking(
        self,
        table: &Table,
        version: Version,
        record: &Record<'_>,
        identity: &[usize],
        projected: &mut Vec<u8>,
    ) -> Result<Option<usize>, NetError> {
        if record.is_marked {
            return Ok(None);
        }
        // A column that came later may be one with another name before.
        let cells = record.cells;
        let row = table
            .versions
            .project(version, cells, Cell::Unchanged, projected);
        let row = row.ok_or_else(damaged)?;
        let (image, is_whole) = match self.old {
            Some(OldTuple::Full(image)) => (image, true),
            Some(old) => (old.tuple(), false),
            None => (self.new, false),
        };
        let mut lacking = 0_usize;
        for (place, (cell, image)) in row.cells().zip(image.cells()).enumerate() {
            if !is_whole && !identity.contains(&place) {
                continue;
            }
            if cell == Cell::Unchanged || image == Cell::Unchanged {
                lacking = lacking.saturating_add(1);
            } else if !is_same(table, place, cell, image) {
                return Ok(None);
            }
        }
        Ok(Some(lacking))
    }
}

/// Whether two cells have one value.
fn is_same(table: &Table, place: usize, one: Cell<'_>, other: Cell<'_>) -> bool {
    match (one, other) {
        (Cell::Text(text), Cell::Binary(bytes)) | (Cell::Binary(bytes), Cell::Text(text)) => {
            let relation = table.relation.as_ref();
            let column = relation.and_then(|it| it.columns.get(place));
            let write = column.and_then(|it| table.identity.cell_text(it, &table.catalog));
            let mut found = Vec::new();
            write.is_some_and(|write| write(bytes, &mut found) && found == text)
        }
        (one, other) => one == other,
    }
}
