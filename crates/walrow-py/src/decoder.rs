//! The push decoder.

use crate::batch::Batch;
use crate::engine::{self, Engine, lock};
use crate::errors;
use crate::lsn;
use crate::options::Options;
use crate::schema::Schema;
use crate::signals::Interruptible;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;

/// Turns a stream into batches as its bytes come in.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Decoder(Mutex<Engine>);

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(py, options)?;
        let framing = options.framing;
        Ok(Self(Mutex::new(Engine::new(framing, options.decoder()?))))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(engine) => engine.traverse(&visit),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut engine) = self.0.try_lock() {
            engine.clear();
        }
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

    /// The prepared transactions that the stream did not tell the end of yet.
    #[getter]
    fn prepared<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let engine = lock(&self.0)?;
        let prepared = engine.decoder.prepared().map(|(xid, prepared)| {
            let dict = PyDict::new(py);
            dict.set_item("gid", &prepared.gid)?;
            dict.set_item("xid", xid)?;
            dict.set_item("prepare_lsn", lsn::new(py, prepared.prepare_lsn)?)?;
            dict.set_item("prepare_end_lsn", lsn::new(py, prepared.prepare_end_lsn)?)?;
            Ok(dict)
        });
        prepared.collect()
    }

    /// The prepared transactions as bytes, for `restore_prepared` of another decoder.
    fn save_prepared<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut engine = lock(&self.0)?;
        let engine = &mut *engine;
        if !engine.is_idle() {
            let text = "what was fed is not worked off: take all batches before saving";
            return Err(PyRuntimeError::new_err(text));
        }
        let mut state = Interruptible::new(Vec::new());
        let saved = py.detach(|| engine.decoder.save_prepared(&mut state));
        state.raised()?;
        saved.map_err(|error| errors::raise(&error))?;
        Ok(PyBytes::new(py, &state.inner))
    }

    /// Takes in the prepared transactions of another decoder.
    fn restore_prepared(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes: PyBackedBytes = state.extract()?;
        let mut state = Interruptible::new(&*bytes);
        let mut engine = lock(&self.0)?;
        let engine = &mut *engine;
        let restored = py.detach(|| engine.decoder.restore_prepared(&mut state));
        state.raised()?;
        restored.map_err(|error| errors::raise(&error))
    }

    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, lock(&self.0)?.decoder.position())
    }

    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.decoder.is_unfinished())
    }

    #[getter]
    fn unprepared_commits(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.decoder.unprepared_commits())
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
    fn dropped_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, &lock(&self.0)?.counts.dropped_lower_bounds)
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
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut engine = lock(&self.0.get().0)?;
        let engine = &mut *engine;
        Ok(py.detach(move || engine.next())?.map(Batch))
    }
}
