//! The pull reader: an iterator over batches and, of one table, an Arrow stream.

use crate::batch::Batch;
use crate::engine::{self, Engine, Failure, lock};
use crate::errors;
use crate::export;
use crate::options::Options;
use crate::schema::Schema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Reads a stream to its end.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Reader {
    engine: Arc<Mutex<Engine>>,
    chunks: Py<PyAny>,
    one_table: bool,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (chunks, /, **options), text_signature = "(chunks, /, *, table=None, schema=None, framing='wire', profile='arrow', types=None, unrepresentable='error', catalog=None, session=None, trim_bpchar=False, metadata=None, metadata_prefix='_', batch_rows=16384, batch_bytes=33554432, batch_memory=134217728, side_tables=(), envelope=False, start=None, late_start=False, spool_memory=67108864, spool_directory=None, message_limit=None)")]
    fn new(chunks: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(chunks.py(), options)?;
        let (framing, one_table) = (options.framing, options.one_table);
        let iterator = chunks.try_iter()?.unbind();
        let engine = Engine::reading(framing, options.decoder()?, iterator);
        Ok(Self {
            engine: Arc::new(Mutex::new(engine)),
            chunks: chunks.clone().unbind(),
            one_table,
        })
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut engine = lock(&self.engine)?;
        let engine = &mut *engine;
        Ok(py.detach(move || engine.next())?.map(Batch))
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    /// Closes the source; no batches come any more.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        lock(&self.engine)?.close(PyValueError::new_err("the reader is closed"));
        let chunks = self.chunks.bind(py);
        if chunks.hasattr("close")? {
            chunks.call_method0("close")?;
        }
        Ok(())
    }

    #[getter]
    fn position(&self) -> PyResult<u64> {
        Ok(lock(&self.engine)?.decoder.position().0)
    }

    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.engine)?.decoder.is_mid_transaction())
    }

    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        let engine = lock(&self.engine)?;
        Ok(engine.decoder.server_error().map(str::to_owned))
    }

    #[getter]
    fn unresolved_types(&self) -> PyResult<Vec<u32>> {
        Ok(lock(&self.engine)?.decoder.unresolved_types().collect())
    }

    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, &lock(&self.engine)?.counts.nulled)
    }

    #[getter]
    fn dropped_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, &lock(&self.engine)?.counts.dropped_bounds)
    }

    /// The table's schema; reads until the table appears.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        if !self.one_table {
            return Err(PyTypeError::new_err(
                "batches of all tables have no common schema and are no Arrow stream: choose \
                 one with table=, or take the batches one by one",
            ));
        }
        let mut engine = lock(&self.engine)?;
        let engine = &mut *engine;
        let schema = py.detach(move || -> Result<Option<SchemaRef>, Failure> {
            loop {
                if let Some(schema) = engine.decoder.schema() {
                    return Ok(Some(schema));
                }
                if !engine.advance()? {
                    return Ok(None);
                }
            }
        })?;
        schema
            .map(Schema)
            .ok_or_else(|| errors::schema_error(py, "the table did not appear in the stream"))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.schema(py)?.0)
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface lets a producer leave a wish unfulfilled.
        let _ = requested_schema;
        let stream = Stream {
            schema: self.schema(py)?.0,
            engine: Arc::clone(&self.engine),
            begun: false,
        };
        let stream = FFI_ArrowArrayStream::new(Box::new(stream));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }
}

/// What a consumer of the Arrow stream pulls from, on whatever thread.
struct Stream {
    engine: Arc<Mutex<Engine>>,
    schema: SchemaRef,
    begun: bool,
}

impl Stream {
    fn pull(&mut self) -> Result<Option<RecordBatch>, String> {
        let mut engine = self
            .engine
            .try_lock()
            .map_err(|_| "the reader is already in use by another thread".to_owned())?;
        if !self.begun && engine.is_idle() && !engine.has_failed() {
            return Err("the reader was read to its end already: read the source again".to_owned());
        }
        self.begun = true;
        let batch = engine.next().map_err(|failure| failure.to_string())?;
        Ok(batch.map(walrow::Batch::into_records))
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not cross into the consumer, which is C or C++.
        catch_unwind(AssertUnwindSafe(|| self.pull()))
            .unwrap_or_else(|_| Err("internal error: the decoder panicked".to_owned()))
            .map_err(|text| ArrowError::ExternalError(text.into()))
            .transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
