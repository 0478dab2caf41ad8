//! Counts of values by table and column, over all batches that a decoder returned.

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use std::collections::{BTreeMap, HashMap};
use walrow::Batch;

/// The counts of all returned batches.
#[derive(Debug, Default)]
pub(crate) struct ColumnCounts {
    nulled: BTreeMap<Column, u64>,
    dropped_lower_bounds: BTreeMap<Column, u64>,
    names: HashMap<String, Name>,
}

/// A column of a table.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Column {
    /// `schema.name`.
    table: String,
    table_oid: u32,
    name: String,
}

/// The name of a table.
#[derive(Clone, Copy, Debug)]
struct Name {
    /// The first table with this name.
    oid: u32,
    /// Whether a later table has it too.
    is_reused: bool,
}

impl ColumnCounts {
    pub(crate) fn add(&mut self, batch: &Batch) {
        let (table, oid) = (batch.relation().to_string(), batch.relation().oid);
        for (counts, more) in [
            (&mut self.nulled, batch.nulled()),
            (&mut self.dropped_lower_bounds, batch.dropped_lower_bounds()),
        ] {
            for (name, count) in more {
                let column = Column {
                    table: table.clone(),
                    table_oid: oid,
                    name: name.clone(),
                };
                let total = counts.entry(column).or_default();
                *total = total.saturating_add(*count);
            }
        }
        // A batch without counts matters too: otherwise a key could mean either table.
        let first = Name {
            oid,
            is_reused: false,
        };
        let name = self.names.entry(table).or_insert(first);
        name.is_reused |= name.oid != oid;
    }

    /// The values that became null.
    pub(crate) fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, &self.nulled)
    }

    /// The arrays that lost a first subscript.
    pub(crate) fn dropped_lower_bounds<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Bound<'py, PyDict>> {
        self.dict(py, &self.dropped_lower_bounds)
    }

    fn dict<'py>(
        &self,
        py: Python<'py>,
        counts: &BTreeMap<Column, u64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let counts = counts.iter();
        counts
            .map(|(column, count)| (self.key(column), count))
            .into_py_dict(py)
    }

    fn key(&self, column: &Column) -> String {
        let Column {
            table,
            table_oid,
            name,
        } = column;
        if self.names.get(table).is_some_and(|name| name.is_reused) {
            format!("{table} (OID {table_oid}).{name}")
        } else {
            format!("{table}.{name}")
        }
    }
}
