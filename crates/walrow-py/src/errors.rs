//! walrow's errors as the exceptions of `walrow.errors`.

use crate::lsn;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use walrow::{Error, ErrorKind};

/// The exception for an error.
#[cold]
pub(crate) fn raise(error: &Error) -> PyErr {
    Python::attach(|py| build(py, error).unwrap_or_else(|failed| failed))
}

/// An `OptionError`: options that contradict each other or name what there is not.
#[cold]
pub(crate) fn option_error<'py>(py: Python<'py>, text: impl IntoPyObject<'py>) -> PyErr {
    exception(py, "OptionError", text, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

/// A `SchemaError` that names a table.
#[cold]
pub(crate) fn schema_error(py: Python<'_>, text: &str) -> PyErr {
    exception(py, "SchemaError", text, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let fields = PyDict::new(py);
    let mut class = "DecodeError";
    match error.kind() {
        ErrorKind::Stream(walrow::stream::Error {
            kind: walrow::stream::ErrorKind::Spool { code, .. },
            ..
        }) => {
            class = "SpoolError";
            fields.set_item("errno", *code)?;
        }
        ErrorKind::Stream(stream) => {
            fields.set_item("message", stream.message())?;
            fields.set_item("field", stream.field())?;
        }
        ErrorKind::Malformed { .. } => {}
        ErrorKind::Unrepresentable { option, .. } => {
            class = "UnrepresentableError";
            fields.set_item("option", option)?;
        }
        ErrorKind::Schema(_) => class = "SchemaError",
        ErrorKind::Options(_) => class = "OptionError",
        _ => class = "Error",
    }
    if class == "DecodeError" || class == "UnrepresentableError" {
        fields.set_item("offset", error.offset())?;
        let lsn = error.lsn().map(|lsn| lsn::new(py, lsn)).transpose()?;
        fields.set_item("lsn", lsn)?;
    }
    if !matches!(class, "OptionError" | "Error" | "SpoolError") {
        fields.set_item("table", error.table())?;
        fields.set_item("column", error.column())?;
    }
    exception(py, class, error.to_string(), &fields)
}

fn exception<'py>(
    py: Python<'py>,
    class: &str,
    text: impl IntoPyObject<'py>,
    fields: &Bound<'py, PyDict>,
) -> PyResult<PyErr> {
    let class = py.import("walrow.errors")?.getattr(class)?;
    let text = text.into_bound_py_any(py)?;
    Ok(PyErr::from_value(class.call((text,), Some(fields))?))
}
