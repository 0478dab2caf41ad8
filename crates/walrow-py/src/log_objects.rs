//! The small objects of a log that Python reads and writes: requests for loads, and records of the receiver.

use crate::engine::lock;
use crate::errors::{self, Fail};
use crate::signals;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use walrow::log::{Directory, Error, Locked, SmallObjects, Tag};

/// The small objects in a log's directory, by name.
///
/// Everything goes to the directory that was opened, and no link is followed below it. An object
/// that does not exist is a FileNotFoundError, another failure a LogError.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogObjects {
    directory: Directory,
    objects: SmallObjects,
}

#[pymethods]
impl LogObjects {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it from any path")]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Directory::open(&path));
        let directory = opened.map_err(|error| Fail::Io(error).raise(py, &path))?;
        let directory = directory.with_pause(signals::pause);
        let objects = SmallObjects::new(Arc::new(directory.clone()));
        Ok(Self { directory, objects })
    }

    /// The names that begin so, sorted.
    fn list(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<String>> {
        let listed = py.detach(|| self.objects.list(prefix));
        listed.map_err(|error| errors::log_error(py, error))
    }

    /// When a name came or went last, in nanoseconds since 1970.
    fn changed(&self, py: Python<'_>) -> PyResult<i128> {
        Ok(py.detach(|| self.directory.changed())?)
    }

    /// All bytes of an object, and the tag that distinguishes it from a later one.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let read = py.detach(|| self.objects.read(name));
        let (bytes, tag) = read.map_err(|error| failure(py, name, error))?;
        Ok((PyBytes::new(py, &bytes), tag.0))
    }

    /// Creates an object as a whole, and durably. Returns false if there is another of this name.
    fn create(&self, py: Python<'_>, name: &str, data: &[u8]) -> PyResult<bool> {
        let created = py.detach(|| self.objects.create(name, data));
        created.map_err(|error| failure(py, name, error))
    }

    /// Replaces the object that has this tag. Returns false if that is gone. Hold the lock.
    fn swap(&self, py: Python<'_>, name: &str, data: &[u8], tag: String) -> PyResult<bool> {
        let swapped = py.detach(|| self.objects.swap(name, data, &Tag(tag)));
        swapped.map_err(|error| failure(py, name, error))
    }

    /// Creates or replaces an object. Nobody else may write it meanwhile.
    fn replace(&self, py: Python<'_>, name: &str, data: &[u8]) -> PyResult<()> {
        let replaced = py.detach(|| self.objects.replace(name, data));
        replaced.map_err(|error| failure(py, name, error))
    }

    /// Removes an object for good, if there is one.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let removed = py.detach(|| self.objects.remove(name));
        removed.map_err(|error| failure(py, name, error))
    }

    /// Waits for the lock that is held while small objects change. Use it in a `with` statement.
    fn lock(&self, py: Python<'_>) -> PyResult<LogLock> {
        let locked = py.detach(|| self.objects.lock());
        let locked = locked.map_err(|error| errors::log_error(py, error))?;
        Ok(LogLock(Mutex::new(Some(locked))))
    }
}

/// The exception for an object that could not be read or written.
pub(crate) fn failure(py: Python<'_>, name: &str, error: Error) -> PyErr {
    if error.is_not_found() {
        return PyFileNotFoundError::new_err(format!("the log has no {name}"));
    }
    errors::log_error(py, error)
}

/// The lock of a log, until it is left.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogLock(Mutex<Option<Locked>>);

#[pymethods]
impl LogLock {
    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, PyTuple>) -> PyResult<()> {
        *lock(&self.0)? = None;
        Ok(())
    }
}
