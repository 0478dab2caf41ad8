//! All rows of a reader, in memory.

use crate::engine::{Engine, lock};
use crate::errors;
use crate::export;
use crate::schema::Schema;
use arrow_array::{RecordBatch, RecordBatchIterator, RecordBatchOptions};
use arrow_schema::{FieldRef, SchemaRef};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use walrow::Batch;
use walrow::stream::Printable;

/// Rows of one table in memory. Unlike a `Reader`, they can be read again.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Rows {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Rows {
    pub(crate) fn new(schema: SchemaRef) -> Self {
        let batches = Vec::new();
        Self { schema, batches }
    }

    pub(crate) fn of(batch: &Batch) -> Self {
        let records = batch.record_batch();
        Self {
            schema: records.schema(),
            batches: vec![records.clone()],
        }
    }

    /// Adds rows with the same columns. The metadata of the first schema remains.
    fn push(&mut self, records: RecordBatch) -> PyResult<()> {
        let options = RecordBatchOptions::new().with_row_count(Some(records.num_rows()));
        let schema = Arc::clone(&self.schema);
        let (_, columns, _) = records.into_parts();
        let records = RecordBatch::try_new_with_options(schema, columns, &options);
        self.batches.push(
            records.map_err(|error| PyRuntimeError::new_err(format!("internal error: {error}")))?,
        );
        Ok(())
    }
}

#[pymethods]
impl Rows {
    fn __len__(&self) -> usize {
        let rows = self.batches.iter().map(RecordBatch::num_rows);
        rows.fold(0, usize::saturating_add)
    }

    /// The schema.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(Arc::clone(&self.schema))
    }

    /// Exports the schema, for Arrow consumers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.schema)
    }

    /// Exports the batches, for Arrow consumers. Ignores a requested schema.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore a requested schema.
        let _ = requested_schema;
        let batches = self.batches.clone().into_iter().map(Ok);
        export::stream(
            py,
            RecordBatchIterator::new(batches, Arc::clone(&self.schema)),
        )
    }
}

/// Takes all batches, which have this schema.
pub(crate) fn of_one<'py>(
    py: Python<'py>,
    engine: &Mutex<Engine>,
    schema: SchemaRef,
) -> PyResult<Bound<'py, PyAny>> {
    let mut rows = Rows::new(schema);
    let mut engine = begin(engine)?;
    let engine = &mut *engine;
    while let Some(batch) = py.detach(|| engine.next())? {
        rows.push(batch.into_record_batch())?;
    }
    Ok(Bound::new(py, rows)?.into_any())
}

/// Takes all batches: a dictionary of `schema.table` to [`Rows`], in the order in which tables
/// appear. A table whose rows do not fit together has its error instead.
pub(crate) fn of_all<'py>(py: Python<'py>, engine: &Mutex<Engine>) -> PyResult<Bound<'py, PyAny>> {
    let mut tables: Vec<(String, u32, Result<Rows, PyErr>)> = Vec::new();
    let mut places = HashMap::new();
    let mut engine = begin(engine)?;
    let engine = &mut *engine;
    while let Some(batch) = py.detach(|| engine.next())? {
        let (name, oid) = (batch.relation().to_string(), batch.relation().oid);
        let schema = batch.record_batch().schema();
        let place = *places.entry(name.clone()).or_insert(tables.len());
        if place == tables.len() {
            let rows = Rows::new(Arc::clone(&schema));
            tables.push((name.clone(), oid, Ok(rows)));
        }
        let Some((_, first, entry)) = tables.get_mut(place) else {
            continue;
        };
        let Ok(rows) = entry else {
            continue;
        };
        let shown = Printable(&name);
        let refused = if *first != oid {
            Some(format!(
                "{shown} is the name of two tables, with OIDs {first} and {oid}: choose one by its \
                 OID with table={first} or table={oid}, or take the batches one by one"
            ))
        } else if !has_same_columns(&rows.schema, &schema) {
            Some(format!(
                "the columns of {shown} changed, so its rows do not fit in one frame: choose it with \
                 table= and versions=\"union\", or take the batches one by one"
            ))
        } else {
            None
        };
        if let Some(text) = refused {
            // Its rows are in vain.
            *entry = Err(errors::schema_error(py, &text, Some(&name)));
            continue;
        }
        rows.push(batch.into_record_batch())?;
    }
    let result = PyDict::new(py);
    for (name, _, rows) in tables {
        match rows {
            Ok(rows) => result.set_item(name, Bound::new(py, rows)?)?,
            Err(error) => result.set_item(name, error)?,
        }
    }
    Ok(result.into_any())
}

fn begin(engine: &Mutex<Engine>) -> PyResult<std::sync::MutexGuard<'_, Engine>> {
    let engine = lock(engine)?;
    if engine.is_exhausted() {
        let text = "all batches of this reader were taken: read the source again";
        return Err(PyValueError::new_err(text));
    }
    Ok(engine)
}

/// Whether both schemas have the same columns. Their metadata may differ, such as the type modifier
/// of a varchar that got longer.
fn has_same_columns(one: &SchemaRef, other: &SchemaRef) -> bool {
    let column = |field: &FieldRef| {
        (
            field.name().clone(),
            field.data_type().clone(),
            field.is_nullable(),
        )
    };
    let (one, other) = (one.fields().iter(), other.fields().iter());
    one.map(column).eq(other.map(column))
}
