//! LSNs as `walrow.Lsn`, and from it, an int or a text.

use crate::errors;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyInt, PyString, PyType};
use walrow::Lsn;

/// Parses the text of an LSN: two hexadecimal numbers with a slash between them.
///
/// Raises:
///     ValueError: The text is not an LSN.
#[pyfunction]
pub(crate) fn parse_lsn(text: &str) -> PyResult<u64> {
    let lsn: Result<Lsn, _> = text.parse();
    lsn.map(|lsn| lsn.0)
        .map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A `walrow.Lsn`.
pub(crate) fn new(py: Python<'_>, lsn: Lsn) -> PyResult<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<(Py<PyAny>, Py<PyType>)> = PyOnceLock::new();
    let (make, class) = MAKE.get_or_try_init(py, || {
        let class = py.import("walrow.lsn")?.getattr("Lsn")?;
        // Its own constructor would check the number, which is one.
        let make = py.get_type::<PyInt>().getattr("__new__")?;
        Ok::<_, PyErr>((make.unbind(), class.cast_into::<PyType>()?.unbind()))
    })?;
    make.bind(py).call1((class, lsn.0))
}

/// The LSN of an option or a tuple: an `Lsn`, another integer, or a text.
pub(crate) fn option(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Lsn> {
    let wrong_type = || {
        PyTypeError::new_err(format!(
            "{name} must be an LSN: a walrow.Lsn, an int, or a text such as \"16/B374D848\""
        ))
    };
    if value.is_instance_of::<PyBool>() {
        return Err(wrong_type());
    }
    if let Ok(number) = value.extract::<u64>() {
        return Ok(Lsn(number));
    }
    let refuse = |reason: &str| errors::option_error(value.py(), format!("{name}: {reason}"));
    if value.is_instance_of::<PyInt>() {
        return Err(refuse("an LSN is a number from 0 to 2**64 - 1"));
    }
    // Drivers may have a class of their own that prints like PostgreSQL.
    match value.str()?.to_string().parse() {
        Ok(lsn) => Ok(lsn),
        Err::<_, walrow::wire::ParseLsnError>(error) if value.is_instance_of::<PyString>() => {
            Err(refuse(&error.to_string()))
        }
        Err(_) => Err(wrong_type()),
    }
}
