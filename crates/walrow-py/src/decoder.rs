//! The push decoder.

use crate::batch::Batch;
use crate::engine::{self, Engine, lock};
use crate::options::Options;
use crate::schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;

/// Turns a stream into batches as its bytes come in.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Decoder(Mutex<Engine>);

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (**options), text_signature = "(*, table=None, schema=None, framing='wire', profile='arrow', types=None, unrepresentable='error', catalog=None, metadata=None, metadata_prefix='_', batch_rows=16384, batch_bytes=33554432, batch_memory=134217728)")]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(py, options)?;
        let framing = options.framing;
        Ok(Self(Mutex::new(Engine::new(framing, options.decoder()?))))
    }

    /// Queues a block, or an iterable of chunks; returns an iterator over the batches.
    fn feed(slf: Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.feed(data)?;
        Ok(BatchIterator(slf.unbind()))
    }

    /// Queues that batches are made of all rows so far.
    fn flush(slf: Bound<'_, Self>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.flush();
        Ok(BatchIterator(slf.unbind()))
    }

    /// Queues the end of the stream.
    fn finish(slf: Bound<'_, Self>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.finish();
        Ok(BatchIterator(slf.unbind()))
    }

    /// Queues the begin of a new server session.
    fn new_session(&self) -> PyResult<()> {
        lock(&self.0)?.new_session();
        Ok(())
    }

    #[getter]
    fn position(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.decoder.position().0)
    }

    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.decoder.is_mid_transaction())
    }

    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        Ok(lock(&self.0)?.decoder.server_error().map(str::to_owned))
    }

    #[getter]
    fn unresolved_types(&self) -> PyResult<Vec<u32>> {
        Ok(lock(&self.0)?.decoder.unresolved_types().collect())
    }

    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, &lock(&self.0)?.counts.nulled)
    }

    #[getter]
    fn dropped_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, &lock(&self.0)?.counts.dropped_bounds)
    }

    #[getter]
    fn schema(&self) -> PyResult<Option<Schema>> {
        Ok(lock(&self.0)?.decoder.schema().map(Schema))
    }
}

/// An iterator over the batches of what a decoder was fed.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct BatchIterator(Py<Decoder>);

#[pymethods]
impl BatchIterator {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut engine = lock(&self.0.get().0)?;
        let engine = &mut *engine;
        Ok(py.detach(move || engine.next())?.map(Batch))
    }
}
