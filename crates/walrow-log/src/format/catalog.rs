//! The definitions of types and tables, for the next segments.

use crate::error::{DamagedPart, Error};
use crate::format::blocks::{read_json, write_object};
use crate::store::{Objects, Store};
use walrow_stream::Catalog;

/// The name of the catalog.
pub(crate) const CATALOG: &str = "_catalog";

pub(crate) fn write_catalog(store: &dyn Store, catalog: &Catalog) -> Result<(), Error> {
    write_object(store, CATALOG, |blocks| {
        blocks.append(catalog.to_json().as_bytes())
    })
}

pub(crate) fn read_catalog(objects: &dyn Objects) -> Result<Catalog, Error> {
    Ok(read_json(objects, CATALOG, DamagedPart::Catalog)?.unwrap_or_default())
}
