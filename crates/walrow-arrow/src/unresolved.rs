//! The columns whose types nothing defines.

use crate::resolve::Types;
use std::collections::BTreeSet;
use walrow_wire::Oid;

/// An unknown type, neither built in nor in the catalog, and a column that needs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub struct UnresolvedType {
    /// The table, as `schema.name`.
    pub table: String,
    /// The column.
    pub column: String,
    /// The OID of the type: that of the column, or of a type inside it.
    pub type_oid: Oid,
}

/// The unknown types of a relation version's columns.
#[derive(Debug, Default)]
pub(crate) struct UnresolvedColumns(Vec<(Box<str>, BTreeSet<Oid>)>);

impl UnresolvedColumns {
    /// Takes the unknown types that were found since the last column.
    pub(crate) fn push(&mut self, column: &str, types: &mut Types<'_>) {
        let missing = std::mem::take(&mut types.missing);
        if !missing.is_empty() {
            self.0.push((column.into(), missing));
        }
    }
}

/// The unknown types of all tables.
#[derive(Debug, Default)]
pub(crate) struct UnresolvedTypes(BTreeSet<UnresolvedType>);

impl UnresolvedTypes {
    /// The maximum number of types that are kept. A stream can describe any number of tables.
    const MOST: usize = 10_000;

    pub(crate) fn add(&mut self, table: &str, columns: UnresolvedColumns) {
        for (column, types) in columns.0 {
            for type_oid in types {
                if self.0.len() >= Self::MOST {
                    return;
                }
                self.0.insert(UnresolvedType {
                    table: table.to_owned(),
                    column: column.to_string(),
                    type_oid,
                });
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &UnresolvedType> {
        self.0.iter()
    }
}
