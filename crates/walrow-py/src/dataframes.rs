//! Calls of `walrow._read.dataframes` and `walrow._read.html`, which know other libraries.

use pyo3::call::PyCallArgs;
use pyo3::prelude::*;

/// Calls a function of `walrow._read.dataframes`.
pub(crate) fn call<'py>(
    py: Python<'py>,
    name: &str,
    arguments: impl PyCallArgs<'py>,
) -> PyResult<Bound<'py, PyAny>> {
    py.import("walrow._read.dataframes")?
        .call_method1(name, arguments)
}

/// Shows a batch as HTML.
pub(crate) fn html<'py>(batch: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let html = batch.py().import("walrow._read.html")?;
    html.call_method1("batch", (batch,))
}
