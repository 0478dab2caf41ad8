//! LSNs as `walrow.Lsn`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyType};
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
        // The constructor would check the number again.
        let make = py.get_type::<PyInt>().getattr("__new__")?;
        Ok::<_, PyErr>((make.unbind(), class.cast_into::<PyType>()?.unbind()))
    })?;
    make.bind(py).call1((class, lsn.0))
}
