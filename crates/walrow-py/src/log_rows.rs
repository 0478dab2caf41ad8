//! The rows of a table of a log, or its net changes, as the chunks of a stream.

use crate::engine::lock;
use crate::errors;
use crate::log_net::NetTally;
use crate::lsn;
use crate::signals;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use walrow::Lsn;
use walrow::log::TableReader;
use walrow::stream::Tally;

/// The rows of a table of a log, or its net changes, as the chunks of a stream.
///
/// The first one comes after all changes were read.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogRows(Mutex<Reading>);

struct Reading {
    /// `None` once it was closed.
    reader: Option<TableReader>,
    chunk: Vec<u8>,
    oid: u32,
    position: Lsn,
    /// The bytes of the log that were read before it was closed, and all of them.
    progress: (u64, u64),
    /// Whether all changes were read.
    has_rows: bool,
    tally: Option<Tally>,
}

impl LogRows {
    pub(crate) fn new(reader: TableReader) -> Self {
        Self(Mutex::new(Reading {
            oid: reader.oid(),
            position: reader.at(),
            progress: reader.progress(),
            reader: Some(reader),
            chunk: Vec::new(),
            has_rows: false,
            tally: None,
        }))
    }
}

impl Reading {
    /// Reads all changes.
    fn read_changes(&mut self, py: Python<'_>) -> PyResult<()> {
        let Some(reader) = &mut self.reader else {
            return Ok(());
        };
        while !self.has_rows {
            signals::check()?;
            let read = py.detach(|| reader.advance());
            self.progress = reader.progress();
            if !read.map_err(|error| errors::log_error(py, error))? {
                self.has_rows = true;
                self.tally = reader.tally().cloned();
            }
        }
        Ok(())
    }
}

#[pymethods]
impl LogRows {
    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut reading = lock(&self.0)?;
        reading.read_changes(py)?;
        let Reading { reader, chunk, .. } = &mut *reading;
        let Some(reader) = reader else {
            return Ok(None);
        };
        signals::check()?;
        match py.detach(|| reader.read(chunk)) {
            Ok(true) => Ok(Some(PyBytes::new(py, chunk))),
            Ok(false) => Ok(None),
            Err(error) => Err(errors::log_error(py, error)),
        }
    }

    /// The LSN of the rows, or the end of the net changes.
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

    /// The tally of net changes. It reads all changes first, if they were not read yet.
    #[getter]
    fn tally(&self, py: Python<'_>) -> PyResult<NetTally> {
        let mut reading = lock(&self.0)?;
        reading.read_changes(py)?;
        Ok(NetTally(reading.tally.clone().unwrap_or_default()))
    }

    /// Frees the rows. There are no more chunks.
    fn close(&self) -> PyResult<()> {
        lock(&self.0)?.reader = None;
        Ok(())
    }
}
