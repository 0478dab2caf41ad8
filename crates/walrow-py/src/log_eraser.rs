//! Erases columns and rows of a log.

use crate::engine::lock;
use crate::errors::Fail;
use crate::signals;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use walrow::Lsn;
use walrow::log::{Directory, Erase, Eraser, Images, Writer};

/// Erases columns and rows. While it is open, other processes cannot write to the log.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogEraser(Mutex<Option<Eraser>>);

#[pymethods]
impl LogEraser {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it from any path")]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| {
            let directory = Directory::open(&path)?.with_pause(signals::pause);
            let quiet = Writer::quiet(Arc::new(directory)).map_err(Fail::Log)?;
            Eraser::open(quiet).map_err(Fail::Log)
        });
        let eraser = opened.map_err(|error: Fail| error.raise(py, &path))?;
        Ok(Self(Mutex::new(Some(eraser))))
    }

    /// Rewrites segments without these columns and rows of tables.
    ///
    /// A row is its commit LSN, seq, and whether the old and the new image go. Returns how many
    /// segments were read, and how many rewritten. `force` erases what readers have not taken, too.
    fn erase(
        &self,
        py: Python<'_>,
        tables: Vec<u32>,
        columns: Vec<String>,
        rows: Vec<(u64, u64, bool, bool)>,
        force: bool,
    ) -> PyResult<(usize, usize)> {
        let mut erase = Erase::default();
        erase.tables = tables.into_iter().collect();
        erase.columns = columns.into_iter().collect();
        let rows = rows
            .into_iter()
            .map(|(lsn, seq, old, new)| ((Lsn(lsn), seq), Images { old, new }));
        erase.rows = rows.collect();
        erase.force = force;
        let mut eraser = lock(&self.0)?;
        let Some(eraser) = &mut *eraser else {
            return Err(PyValueError::new_err("the log is closed"));
        };
        let erased = py.detach(|| signals::in_steps(|step| eraser.erase(&erase, step)));
        let erased = erased.map_err(|stopped| stopped.raise(py))?;
        Ok((erased.segments, erased.rewritten))
    }

    /// Closes the log, so that others can write to it.
    fn close(&self) -> PyResult<()> {
        *lock(&self.0)? = None;
        Ok(())
    }
}
