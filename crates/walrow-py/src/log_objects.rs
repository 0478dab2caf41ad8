//! The small objects of a log that Python reads and writes: requests for loads, and records of the receiver.

use crate::engine::lock;
use crate::errors::{self, Fail};
use crate::signals;
use pyo3::exceptions::PyFileNotFoundError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;
use walrow::log::{Directory, Error, ErrorKind, Lock, Objects, Put, Store, Tag};

/// The largest object that is read. What walrow writes is far smaller.
const LARGEST: u64 = 256 << 20;
/// The object that is locked while small objects change.
const LOCK: &str = "_lock";
/// How often the lock is tried, and how long each wait is: ten seconds.
const ATTEMPTS: usize = 1000;
const PAUSE: Duration = Duration::from_millis(10);

/// The small objects in a log's directory, by name.
///
/// Everything goes to the directory that was opened, and no link is followed below it. An object
/// that does not exist is a FileNotFoundError, another failure a LogError.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogObjects(Directory);

#[pymethods]
impl LogObjects {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it from any path")]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let opened = py.detach(|| Directory::open(&path));
        opened
            .map(Self)
            .map_err(|error| Fail::Io(error).raise(py, &path))
    }

    /// The names that begin so, sorted.
    fn list(&self, py: Python<'_>, prefix: &str) -> PyResult<Vec<String>> {
        let listed = py.detach(|| {
            let mut names = self.0.list()?;
            names.retain(|name| name.starts_with(prefix));
            names.sort_unstable();
            Ok(names)
        });
        listed.map_err(|error| failure(py, "", &error))
    }

    /// When a name came or went last, in nanoseconds since 1970.
    fn changed(&self, py: Python<'_>) -> PyResult<i128> {
        let changed = py.detach(|| self.0.changed());
        changed.map_err(|error| failure(py, "", &error))
    }

    /// All bytes of an object, and the tag that distinguishes it from a later one.
    fn read<'py>(&self, py: Python<'py>, name: &str) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let (bytes, tag) = read(py, &self.0, name)?;
        Ok((bytes, tag.0))
    }

    /// Creates an object as a whole, and durably. Returns false if there is one of this name.
    fn create(&self, py: Python<'_>, name: &str, data: &[u8]) -> PyResult<bool> {
        let put = py.detach(|| self.put(data, name, None));
        put.map_err(|error| failure(py, name, &error))
    }

    /// Replaces the object that has this tag. Returns false if that is gone. Hold the lock.
    fn swap(&self, py: Python<'_>, name: &str, data: &[u8], tag: String) -> PyResult<bool> {
        let put = py.detach(|| self.put(data, name, Some(Tag(tag))));
        put.map_err(|error| failure(py, name, &error))
    }

    /// Creates an object, or replaces the one that there is. Nobody else may write it meanwhile.
    fn replace(&self, py: Python<'_>, name: &str, data: &[u8]) -> PyResult<()> {
        let put = py.detach(|| {
            let known = match self.0.open(name).and_then(|mut known| known.tag()) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                known => Some(known?),
            };
            if self.put(data, name, known)? {
                return Ok(());
            }
            Err(io::Error::other("another process has written it"))
        });
        put.map_err(|error| failure(py, name, &error))
    }

    /// Removes an object for good, if there is one.
    fn remove(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        let removed = py.detach(|| self.0.remove(&[name]));
        removed.map_err(|error| failure(py, name, &error))
    }

    /// Waits for the lock that is held while small objects change. Use it in a `with` statement.
    fn lock(&self, py: Python<'_>) -> PyResult<LogLock> {
        for _ in 0..ATTEMPTS {
            let held = py.detach(|| self.0.lock(LOCK));
            match held {
                Ok(Some(held)) => return Ok(LogLock(Mutex::new(Some(held)))),
                Ok(None) => {
                    signals::check()?;
                    py.detach(|| thread::sleep(PAUSE));
                }
                Err(error) => return Err(failure(py, LOCK, &error)),
            }
        }
        Err(errors::log_error(py, ErrorKind::Busy.into()))
    }
}

impl LogObjects {
    /// Gives bytes a name: that of the object with this tag, or one that no object has.
    fn put(&self, data: &[u8], name: &str, instead: Option<Tag>) -> io::Result<bool> {
        let mut staged = self.0.stage()?;
        staged.append(data)?;
        let put = match instead {
            None => staged.create(name),
            Some(tag) => staged.swap(name, &tag),
        };
        match put {
            Put::Done => Ok(true),
            Put::Lost => Ok(false),
            Put::Unknown(error) => Err(error),
        }
    }
}

/// All bytes of an object, and its tag.
pub(crate) fn read<'py>(
    py: Python<'py>,
    objects: &dyn Objects,
    name: &str,
) -> PyResult<(Bound<'py, PyBytes>, Tag)> {
    let found = py.detach(|| {
        let mut object = objects.open(name)?;
        let size = object.size()?;
        if size > LARGEST {
            let text = format!("it has {size} bytes: walrow wrote no such file");
            return Err(io::Error::new(io::ErrorKind::InvalidData, text));
        }
        let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
        object.read_at(0, &mut bytes)?;
        Ok((bytes, object.tag()?))
    });
    let (bytes, tag) = found.map_err(|error| failure(py, name, &error))?;
    Ok((PyBytes::new(py, &bytes), tag))
}

/// The exception for a failure of the store.
fn failure(py: Python<'_>, name: &str, error: &io::Error) -> PyErr {
    if error.kind() == io::ErrorKind::NotFound && !name.is_empty() {
        return PyFileNotFoundError::new_err(format!("the log has no {name}"));
    }
    let (kind, code, text) = (error.kind(), error.raw_os_error(), error.to_string());
    let mut failure = Error::from(match kind {
        io::ErrorKind::ReadOnlyFilesystem => ErrorKind::ReadOnly,
        _ => ErrorKind::Store { kind, code, text },
    });
    name.clone_into(&mut failure.object);
    errors::log_error(py, failure)
}

/// The lock of a log, until it is left.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogLock(Mutex<Option<Box<dyn Lock>>>);

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
