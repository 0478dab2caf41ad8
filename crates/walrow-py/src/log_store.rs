//! The objects of a log that Python reads: `walrow._sources.log_objects`.

use pyo3::exceptions::{PyException, PyFileNotFoundError, PyOSError, PyPermissionError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::cell::RefCell;
use std::io;
use walrow::log::{Error, ErrorKind, Objects, ReadAt, Tag};

/// Lists and reads objects through methods of a Python object. Nothing is written.
#[derive(Debug)]
pub(crate) struct PythonStore(Py<PyAny>);

impl PythonStore {
    pub(crate) const fn new(store: Py<PyAny>) -> Self {
        Self(store)
    }
}

thread_local! {
    /// An exception that is not a failure of the store, such as that of Ctrl-C.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Keeps an exception that ends a call of a store on this thread.
pub(crate) fn keep(raised: PyErr) {
    RAISED.set(Some(raised));
}

/// The exception that has ended the last call of a store on this thread, if it is not one of the store's.
pub(crate) fn raised() -> Option<PyErr> {
    RAISED.take()
}

/// The exception for a log that could not be opened: an `OSError`, as that of a directory.
pub(crate) fn not_opened(error: &Error) -> Option<PyErr> {
    let ErrorKind::Store { kind, text, .. } = &error.kind else {
        return None;
    };
    let text = text.clone();
    Some(raised().unwrap_or_else(|| match kind {
        // The directory is missing, not an object.
        io::ErrorKind::NotFound if error.object.is_empty() => PyFileNotFoundError::new_err(text),
        io::ErrorKind::PermissionDenied => PyPermissionError::new_err(text),
        _ => PyOSError::new_err(text),
    }))
}

/// Calls Python. `walrow._sources.log_objects` makes its exceptions safe to show.
fn call<T>(call: impl FnOnce(Python<'_>) -> PyResult<T>) -> io::Result<T> {
    Python::attach(|py| {
        call(py).map_err(|error| {
            if error.is_instance_of::<PyFileNotFoundError>(py) {
                return io::Error::new(io::ErrorKind::NotFound, error.value(py).to_string());
            }
            let text = error.value(py).to_string();
            if error.is_instance_of::<PyPermissionError>(py) {
                return io::Error::new(io::ErrorKind::PermissionDenied, text);
            }
            if !error.is_instance_of::<PyException>(py) {
                keep(error);
            }
            io::Error::other(text)
        })
    })
}

impl Objects for PythonStore {
    fn list(&self) -> io::Result<Vec<String>> {
        call(|py| self.0.bind(py).call_method0("list")?.extract())
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        call(|py| {
            let object = self.0.bind(py).call_method1("open", (name,))?;
            let size = object.getattr("size")?.extract()?;
            let object = object.unbind();
            Ok(Box::new(Object { object, size }) as Box<dyn ReadAt>)
        })
    }
}

#[derive(Debug)]
struct Object {
    object: Py<PyAny>,
    size: u64,
}

impl ReadAt for Object {
    fn size(&mut self) -> io::Result<u64> {
        Ok(self.size)
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        call(|py| {
            let object = self.object.bind(py);
            let bytes = object.call_method1("read_at", (at, buffer.len()))?;
            let bytes = bytes.cast::<PyBytes>()?.as_bytes();
            // Fewer are a failure below.
            let is_whole = bytes.len() == buffer.len();
            if is_whole {
                buffer.copy_from_slice(bytes);
            }
            Ok(is_whole)
        })?
        .then_some(())
        .ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Its size: whoever only reads compares nothing else.
    fn tag(&mut self) -> io::Result<Tag> {
        Ok(Tag(self.size.to_string()))
    }
}
