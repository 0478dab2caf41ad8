//! PostgreSQL's text of binary cells, for what compares cells of both forms.

use crate::resolve::Types;
use std::sync::Arc;
use walrow_stream::{Catalog, CellText, Column};
use walrow_types::write_text_of_binary;

/// Finds how the text of a column's binary cells is written. `None` if it cannot be.
///
/// With it, [`Net`](walrow_stream::Net) finds rows by their keys, whether these came as text or as
/// binary.
pub fn cell_text(column: &Column, catalog: &Catalog) -> Option<CellText> {
    let pg_type = Types::new(catalog).find(column).ok()?;
    Some(Arc::new(move |cell, out| {
        write_text_of_binary(&*pg_type, cell, out).is_ok()
    }))
}
