//! walrow's errors as the exceptions of `walrow.errors`.

use crate::log_store;
use crate::lsn;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::fmt::Display;
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
    let code = match &error.kind {
        ErrorKind::Store { .. } => "store",
        ErrorKind::NotSynced { .. } => "not_synced",
        ErrorKind::NotALog => "not_a_log",
        ErrorKind::Foreign => "foreign",
        ErrorKind::Version { .. } => "version",
        ErrorKind::Damaged { .. } => "damaged",
        ErrorKind::Missing { .. } => "missing",
        ErrorKind::Pruned { .. } => "pruned",
        ErrorKind::Held { .. } => "held",
        ErrorKind::NoReader { .. } => "no_reader",
        ErrorKind::ReaderName => "reader_name",
        ErrorKind::Backwards { .. } => "backwards",
        ErrorKind::PastEnd { .. } => "past_end",
        ErrorKind::KeyColumn => "key_column",
        ErrorKind::Prepared => "prepared",
        ErrorKind::ReadOnly => "read_only",
        ErrorKind::Busy => "busy",
        ErrorKind::Locked => "locked",
        ErrorKind::Published => "published",
        ErrorKind::OtherSource { .. } => "other_source",
        ErrorKind::Load { .. } => "load",
        ErrorKind::Copy(_) => "copy",
        ErrorKind::TooEarly { .. } => "too_early",
        ErrorKind::NotLoaded { .. } => "not_loaded",
        ErrorKind::Incomplete { .. } => "incomplete",
        _ => "other",
    };
    let fields = PyDict::new(py);
    fields.set_item("code", code)?;
    match &error.kind {
        ErrorKind::TooEarly { table, first } => {
            fields.set_item("table", table)?;
            fields.set_item("lsn", lsn::new(py, *first)?)?;
        }
        ErrorKind::Incomplete { table, lsn, .. } => {
            fields.set_item("table", table)?;
            fields.set_item("lsn", lsn::new(py, *lsn)?)?;
        }
        ErrorKind::NotLoaded { table } => fields.set_item("table", table)?,
        _ => {}
    }
    fields.set_item("file", Some(&error.object).filter(|it| !it.is_empty()))?;
    if let ErrorKind::Store { code, .. } | ErrorKind::NotSynced { code, .. } = error.kind {
        fields.set_item("errno", code)?;
    }
    let place = error.lsn().map(|lsn| format!("lsn {lsn}"));
    fields.set_item("place", place)?;
    let text = with_remedies(py, error.reason().to_string(), &error.remedies(), &fields)?;
    exception(py, "LogError", text, &fields)
}

/// The reason with what avoids the error. Options are remedies, and all else is words.
fn with_remedies(
    py: Python<'_>,
    mut text: String,
    remedies: &[walrow::log::Remedy],
    fields: &Bound<'_, PyDict>,
) -> PyResult<String> {
    use walrow::log;
    let is_option = |remedy: &&log::Remedy| matches!(remedy, log::Remedy::Force);
    let (options, steps): (Vec<_>, Vec<_>) = remedies.iter().partition(is_option);
    for (place, step) in steps.iter().enumerate() {
        let is_last = place.saturating_add(1) == remedies.len();
        text.push_str(match place {
            0 => "; ",
            _ if is_last => ", or ",
            _ => ", ",
        });
        text.push_str(&step.to_string());
    }
    if !options.is_empty() {
        let force = py.import("walrow.errors")?.getattr("Remedy")?;
        let force = force.call1(("force", py.None(), true))?;
        fields.set_item("remedies", (force,))?;
        let advice = if steps.is_empty() {
            "; choose "
        } else {
            ", or choose "
        };
        fields.set_item("advice", advice)?;
    }
    Ok(text)
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
    let remedies = error.remedies().iter().map(|it| remedy(py, it));
    let remedies = remedies.collect::<PyResult<Vec<_>>>()?;
    fields.set_item("remedies", PyTuple::new(py, remedies)?)?;
    fields.set_item("advice", error.advice())?;
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
        None | Some(RemedyValue::SchemaUnion) => None,
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
