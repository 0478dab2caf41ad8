//! Registered readers and retention of a log, as plain data.

use crate::lsn;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::time::SystemTime;
use walrow::log::{Hold, RegisteredReader, Retained};
use walrow::wire::Timestamp;

/// Name, position, last use in microseconds since 1970.
pub(crate) type Reader<'py> = (String, Bound<'py, PyAny>, Option<i64>);

/// Kind, name, position, last use in microseconds since 1970.
pub(crate) type Held<'py> = (&'static str, String, Bound<'py, PyAny>, Option<i64>);

/// From 1970 to 2000.
const EPOCH: i64 = 946_684_800_000_000;

/// The time.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let micros = since.map_or(0, |it| i64::try_from(it.as_micros()).unwrap_or(i64::MAX));
    Timestamp(micros.saturating_sub(EPOCH))
}

pub(crate) fn reader(py: Python<'_>, reader: RegisteredReader) -> PyResult<Reader<'_>> {
    let used = Timestamp(reader.used).unix_micros();
    Ok((reader.name, lsn::new(py, reader.position)?, used))
}

pub(crate) fn held<'py>(py: Python<'py>, hold: &Hold) -> PyResult<Held<'py>> {
    let position = lsn::new(py, hold.position())?;
    Ok(match hold {
        Hold::Reader { name, used, .. } => {
            let used = Timestamp(*used).unix_micros();
            ("reader", name.clone(), position, used)
        }
        Hold::Load { schema, name, .. } => ("load", format!("{schema}.{name}"), position, None),
        _ => ("other", String::new(), position, None),
    })
}

pub(crate) fn retained<'py>(py: Python<'py>, done: &Retained) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("segments", done.segments)?;
    dict.set_item("bytes", done.bytes)?;
    dict.set_item("forgotten", &done.forgotten)?;
    let held = done.held.iter().map(|hold| held(py, hold));
    dict.set_item("held", held.collect::<PyResult<Vec<_>>>()?)?;
    Ok(dict)
}
