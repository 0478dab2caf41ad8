//! A load of a log, for the receiver.

use crate::detached::Detached;
use crate::engine::lock;
use crate::errors;
use crate::lsn;
use pyo3::prelude::*;
use std::sync::{Arc, Mutex};
use walrow::log::{Load, TableCopy};
use walrow::stream::Relation;
use walrow::wire::ReplicaIdentity;

/// A load under construction. Several threads may append rows.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogLoad(pub(crate) Detached<Arc<Load>>);

#[pymethods]
impl LogLoad {
    /// The consistent point of its snapshot.
    #[getter]
    fn point<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, self.0.point())
    }

    /// Begins a COPY of the table with this number. A large table may come in several.
    #[pyo3(signature = (table, *, binary))]
    fn copy(&self, table: usize, binary: bool) -> PyResult<LogCopy> {
        let copy = self.0.copy(table, binary).ok_or_else(|| {
            pyo3::exceptions::PyIndexError::new_err("the load has no table of this number")
        })?;
        Ok(LogCopy {
            load: Detached::new(Arc::clone(&*self.0)),
            copy: Mutex::new(copy),
        })
    }
}

/// The rows of one COPY. It is for one thread at a time.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogCopy {
    load: Detached<Arc<Load>>,
    copy: Mutex<TableCopy>,
}

#[pymethods]
impl LogCopy {
    /// Appends rows: whole payloads of CopyData, joined. Returns how many there were.
    fn append(&self, py: Python<'_>, data: &[u8]) -> PyResult<u64> {
        let mut copy = lock(&self.copy)?;
        let copy = &mut *copy;
        py.detach(|| self.load.append(copy, data))
            .map_err(|error| errors::log_error(py, error))
    }
}

/// The tables of a load, as a server describes them, by OID and replica identity.
pub(crate) fn relations(
    catalog: &walrow::Catalog,
    tables: &[(u32, char)],
) -> PyResult<Vec<Relation>> {
    let relation = |(oid, identity): &(u32, char)| {
        let table = catalog.tables.iter().find(|it| it.oid == *oid);
        let identity = u8::try_from(*identity)
            .ok()
            .and_then(ReplicaIdentity::from_letter);
        match (table, identity) {
            (Some(table), Some(identity)) => Ok(Relation::of_catalog(catalog, table, identity)),
            (None, _) => Err(format!("the catalog has no table of OID {oid}")),
            (_, None) => Err(format!("the replica identity of OID {oid} is unknown")),
        }
    };
    let relations: Result<Vec<_>, String> = tables.iter().map(relation).collect();
    relations.map_err(pyo3::exceptions::PyValueError::new_err)
}
