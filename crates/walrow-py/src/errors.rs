//! walrow's errors as the exceptions of `walrow.errors`.

use crate::log_store;
use crate::lsn;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::fmt::Display;
use std::io;
use std::path::Path;
use walrow::stream::Location;
use walrow::{DecoderOption, Error, ErrorKind, Lsn, Remedy, RemedyValue};

/// The exception for an error.
#[cold]
pub(crate) fn raise(error: &Error) -> PyErr {
    Python::attach(|py| build(py, error).unwrap_or_else(|failed| failed))
}

/// The exception for an error of a log.
#[cold]
pub(crate) fn log_error(py: Python<'_>, error: walrow::log::Error) -> PyErr {
    let raised = log_store::raised();
    raised.unwrap_or_else(|| build_log_error(py, error).unwrap_or_else(|failed| failed))
}

fn build_log_error(py: Python<'_>, error: walrow::log::Error) -> PyResult<PyErr> {
    use walrow::log::ErrorKind;
    // Not the log, but the stream that is written to it.
    if let ErrorKind::Stream(error) = error.kind {
        return build(py, &Error::from(error));
    }
    let fields = PyDict::new(py);
    fields.set_item("code", error.kind.code())?;
    match &error.kind {
        ErrorKind::TooEarly { table, first } => {
            fields.set_item("table", table)?;
            fields.set_item("lsn", lsn::new(py, *first)?)?;
        }
        ErrorKind::Incomplete { table, lsn, gap } => {
            fields.set_item("table", table)?;
            fields.set_item("lsn", lsn::new(py, *lsn)?)?;
            fields.set_item("column", gap.column())?;
        }
        ErrorKind::OtherTable { table, lsn } | ErrorKind::Erased { table, lsn } => {
            fields.set_item("table", table)?;
            fields.set_item("lsn", lsn::new(py, *lsn)?)?;
        }
        ErrorKind::NotLoaded { table } => fields.set_item("table", table)?,
        ErrorKind::OtherServer { lsn, .. } => fields.set_item("lsn", lsn::new(py, *lsn)?)?,
        _ => {}
    }
    fields.set_item("file", Some(&error.object).filter(|it| !it.is_empty()))?;
    if let ErrorKind::Store { code, .. } | ErrorKind::NotSynced { code, .. } = error.kind {
        fields.set_item("errno", code)?;
    }
    let place = error.lsn().map(|lsn| format!("lsn {lsn}"));
    fields.set_item("place", place)?;
    let class = py.import("walrow.errors")?.getattr("Remedy")?;
    let all = error.remedies();
    let advice = match all.first() {
        None | Some(walrow::log::Remedy::Force) => "; choose ",
        Some(_) => ", or choose ",
    };
    fields.set_item("advice", advice)?;
    let remedies = all.into_iter().map(|it| match it {
        walrow::log::Remedy::Force => class.call1((it.name(), py.None(), true)),
        step => class.call1((step.name(), step.subject())),
    });
    let remedies = remedies.collect::<PyResult<Vec<_>>>()?;
    fields.set_item("remedies", PyTuple::new(py, remedies)?)?;
    exception(py, "LogError", error.reason().to_string(), &fields)
}

/// An `OptionError`: options are invalid or contradict each other.
#[cold]
pub(crate) fn option_error<'py>(py: Python<'py>, text: impl IntoPyObject<'py>) -> PyErr {
    exception(py, "OptionError", text, &PyDict::new(py)).unwrap_or_else(|failed| failed)
}

/// A `ReplicationError`: the server answered something that no server of a known version answers.
#[cold]
pub(crate) fn replication_error(py: Python<'_>, text: &dyn Display) -> PyErr {
    exception(py, "ReplicationError", text.to_string(), &PyDict::new(py))
        .unwrap_or_else(|failed| failed)
}

/// A `SchemaError` that names a table.
#[cold]
pub(crate) fn schema_error(py: Python<'_>, text: &str, table: Option<&str>) -> PyErr {
    let fields = PyDict::new(py);
    fields
        .set_item("table", table)
        .and_then(|()| exception(py, "SchemaError", text, &fields))
        .unwrap_or_else(|failed| failed)
}

/// The `UnfinishedError` of a stream whose last complete frame ends at this offset.
#[cold]
pub(crate) fn cut_frame(py: Python<'_>, offset: u64) -> PyErr {
    build_cut_frame(py, offset).unwrap_or_else(|failed| failed)
}

fn build_cut_frame(py: Python<'_>, offset: u64) -> PyResult<PyErr> {
    let ignore = py.import("walrow.errors")?.getattr("Remedy")?;
    let ignore = ignore.call1(("unfinished", py.None(), "ignore"))?;
    let fields = PyDict::new(py);
    fields.set_item("remedies", (ignore,))?;
    fields.set_item("advice", "; take only the complete frames with ")?;
    fields.set_item("place", Location::new(offset, None).to_string())?;
    fields.set_item("offset", offset)?;
    let text = "the stream ends inside a frame";
    exception(py, "UnfinishedError", text, &fields)
}

fn build(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let class = match error.kind() {
        ErrorKind::Spool(_) => "SpoolError",
        ErrorKind::Stream(_) | ErrorKind::Malformed { .. } => "DecodeError",
        ErrorKind::Unrepresentable(_) => "UnrepresentableError",
        ErrorKind::Unfinished | ErrorKind::Missing { .. } => "UnfinishedError",
        ErrorKind::Server { .. } => "ReplicationError",
        ErrorKind::Schema(_) => "SchemaError",
        ErrorKind::Options(_) => "OptionError",
        ErrorKind::Gap { .. } => "LogError",
        _ => "Error",
    };
    let fields = PyDict::new(py);
    match error.kind() {
        ErrorKind::Spool(stream) => {
            if let walrow::stream::ErrorKind::Spool { code, .. } = stream.kind {
                fields.set_item("errno", code)?;
            }
        }
        ErrorKind::Stream(stream) => {
            fields.set_item("message", stream.message())?;
            fields.set_item("field", stream.field())?;
        }
        ErrorKind::Server { sqlstate, .. } => fields.set_item("sqlstate", sqlstate)?,
        ErrorKind::Gap { end, .. } => {
            fields.set_item("code", "gap")?;
            fields.set_item("lsn", lsn::new(py, *end)?)?;
        }
        _ => {}
    }
    if matches!(class, "UnfinishedError" | "ReplicationError") {
        fields.set_item("offset", error.offset())?;
        let position = error.lsn().unwrap_or(Lsn::INVALID);
        fields.set_item("position", lsn::new(py, position)?)?;
    }
    if matches!(class, "DecodeError" | "UnrepresentableError") {
        fields.set_item("offset", error.offset())?;
        let lsn = error.lsn().map(|lsn| lsn::new(py, lsn)).transpose()?;
        fields.set_item("lsn", lsn)?;
    }
    if matches!(
        class,
        "DecodeError" | "UnrepresentableError" | "SchemaError"
    ) {
        fields.set_item("table", error.table())?;
        fields.set_item("column", error.column())?;
    }
    let class_of_remedies = py.import("walrow.errors")?.getattr("Remedy")?;
    let steps = error.stream_remedies().iter();
    let steps = steps.map(|it| class_of_remedies.call1((it.name(),)));
    let is_union = |it: &&Remedy| matches!(it.value, Some(RemedyValue::SchemaUnion));
    let versions = error.remedies().iter().filter(is_union);
    let versions = versions.map(|_| class_of_remedies.call1(("versions", py.None(), "union")));
    let options = error.remedies().iter().map(|it| remedy(py, it));
    let options = versions.chain(options);
    let remedies = steps.chain(options).collect::<PyResult<Vec<_>>>()?;
    fields.set_item("remedies", PyTuple::new(py, remedies)?)?;
    fields.set_item("advice", error.advice().to_string())?;
    fields.set_item("place", error.location().map(|it| it.to_string()))?;
    exception(py, class, error.reason().to_string(), &fields)
}

/// A `walrow.errors.Remedy`.
fn remedy<'py>(py: Python<'py>, remedy: &Remedy) -> PyResult<Bound<'py, PyAny>> {
    let option = match remedy.option {
        DecoderOption::Spool => "spool_directory",
        option => option.name(),
    };
    let value = match &remedy.value {
        None | Some(RemedyValue::SchemaUnion | RemedyValue::Own | RemedyValue::Unset) => None,
        Some(RemedyValue::Text(text)) => Some(text.into_bound_py_any(py)?),
        Some(RemedyValue::Names(names)) => Some(PyTuple::new(py, names)?.into_any()),
        Some(RemedyValue::Table(schema, name)) => {
            Some(PyTuple::new(py, [schema, name])?.into_any())
        }
        Some(RemedyValue::Size(size)) => Some(size.into_bound_py_any(py)?),
        Some(RemedyValue::Flag(flag)) => Some(flag.into_bound_py_any(py)?),
        Some(other) => Some(other.to_string().into_bound_py_any(py)?),
    };
    let code = match remedy.value {
        Some(RemedyValue::SchemaUnion) => Some("walrow.schema(source, table)"),
        Some(RemedyValue::Own) => match remedy.option {
            DecoderOption::Columns | DecoderOption::Tables => Some("[...]"),
            _ => Some("..."),
        },
        Some(RemedyValue::Unset) => Some("None"),
        _ => None,
    };
    let class = py.import("walrow.errors")?.getattr("Remedy")?;
    class.call1((option, remedy.key.as_deref(), value, code))
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

/// Why a log was not opened.
pub(crate) enum Fail {
    /// The directory.
    Io(io::Error),
    Log(walrow::log::Error),
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Fail {
    pub(crate) fn raise(self, py: Python<'_>, path: &Path) -> PyErr {
        match self {
            Self::Io(error) => os_error(py, error, path).unwrap_or_else(|failed| failed),
            Self::Log(error) => log_error(py, error),
        }
    }
}

/// An `OSError` that names the path, as Python raises it.
fn os_error(py: Python<'_>, error: io::Error, path: &Path) -> PyResult<PyErr> {
    let Some(code) = error.raw_os_error() else {
        return Ok(error.into());
    };
    let text = py.import("os")?.call_method1("strerror", (code,))?;
    Ok(PyOSError::new_err((
        code,
        text.unbind(),
        path.as_os_str().to_owned(),
    )))
}
