//! The rows of a table of a log, as the chunks of a stream.

use crate::engine::lock;
use crate::errors;
use crate::lsn;
use crate::signals;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use walrow::Lsn;
use walrow::log::StateReader;

/// The rows of a table of a log, as the chunks of a stream.
///
/// The first one comes after all changes were read.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogState(Mutex<State>);

struct State {
    /// `None` once it was closed.
    reader: Option<StateReader>,
    chunk: Vec<u8>,
    oid: u32,
    position: Lsn,
    /// The bytes of the log that were read before it was closed, and all of them.
    progress: (u64, u64),
}

impl LogState {
    pub(crate) fn new(reader: StateReader) -> Self {
        Self(Mutex::new(State {
            oid: reader.oid(),
            position: reader.at(),
            progress: reader.progress(),
            reader: Some(reader),
            chunk: Vec::new(),
        }))
    }
}

#[pymethods]
impl LogState {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut state = lock(&self.0)?;
        let State {
            reader,
            chunk,
            progress,
            ..
        } = &mut *state;
        let Some(reader) = reader else {
            return Ok(None);
        };
        loop {
            signals::check()?;
            let read = py.detach(|| reader.read(chunk));
            *progress = reader.progress();
            match read {
                Ok(true) if chunk.is_empty() => {}
                Ok(true) => return Ok(Some(PyBytes::new(py, chunk))),
                Ok(false) => return Ok(None),
                Err(error) => return Err(errors::log_error(py, error)),
            }
        }
    }

    /// The rows are those of the table as of this LSN.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, lock(&self.0)?.position)
    }

    /// The OID of the table.
    #[getter]
    fn oid(&self) -> PyResult<u32> {
        Ok(lock(&self.0)?.oid)
    }

    /// Bytes of the log's stream that were read.
    #[getter]
    fn bytes_read(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.progress.0)
    }

    /// Bytes of the log's stream that are read.
    #[getter]
    fn bytes_total(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.progress.1)
    }

    /// Frees the rows. There are no more chunks.
    fn close(&self) -> PyResult<()> {
        lock(&self.0)?.reader = None;
        Ok(())
    }
}
