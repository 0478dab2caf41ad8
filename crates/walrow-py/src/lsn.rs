//! LSNs as `walrow.Lsn`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyInt, PyType};
use walrow::Lsn;

/// A `walrow.Lsn`.
pub(crate) fn new(py: Python<'_>, lsn: Lsn) -> PyResult<Bound<'_, PyAny>> {
    static MAKE: PyOnceLock<(Py<PyAny>, Py<PyType>)> = PyOnceLock::new();
    let (make, class) = MAKE.get_or_try_init(py, || {
        let class = py.import("walrow._lsn")?.getattr("Lsn")?;
        // The constructor would check the number again.
        let make = py.get_type::<PyInt>().getattr("__new__")?;
        Ok::<_, PyErr>((make.unbind(), class.cast_into::<PyType>()?.unbind()))
    })?;
    make.bind(py).call1((class, lsn.0))
}
