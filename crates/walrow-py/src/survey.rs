//! The tables of a stream, for `walrow.tables`.

use crate::engine::{append, lock};
use crate::errors;
use crate::lsn;
use crate::options::{self, Options};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;
use walrow::{ArrowTypeName, Commit, Framing, SurveyedVersion};

/// Counts the changes of each version of each table: see `walrow.tables`.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Survey(Mutex<State>);

#[derive(Debug)]
struct State {
    framing: Framing,
    survey: walrow::Survey,
    /// A chunk as wire frames.
    frames: Vec<u8>,
}

#[pymethods]
impl Survey {
    #[new]
    #[pyo3(signature = (framing, **options))]
    fn new(py: Python<'_>, framing: &str, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let framing = options::framing(py, framing)?;
        let Options { builder, .. } = Options::new(py, options)?;
        let survey = builder.with_framing(framing).build_survey();
        Ok(Self(Mutex::new(State {
            framing,
            survey: survey.map_err(|error| errors::raise(&error))?,
            frames: Vec::new(),
        })))
    }

    /// Takes a block or a chunk.
    fn feed(&self, chunk: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = chunk.py();
        py.check_signals()?;
        let mut state = lock(&self.0)?;
        let State {
            framing,
            survey,
            frames,
        } = &mut *state;
        frames.clear();
        append(*framing, chunk, frames)?;
        py.detach(|| survey.decode(frames))
            .map_err(|error| errors::raise(&error))
    }

    /// Ends the stream: adds tables without committed changes.
    fn finish(&self) -> PyResult<()> {
        lock(&self.0)?.survey.finish();
        Ok(())
    }

    /// Whether the input so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.survey.is_unfinished())
    }

    /// The SQLSTATE of the server error that ended the stream.
    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        Ok(lock(&self.0)?.survey.server_error().map(str::to_owned))
    }

    /// The versions, in the order of their first appearance.
    fn versions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let state = lock(&self.0)?;
        let versions = state.survey.versions().iter();
        versions.map(|it| version(py, it)).collect()
    }

    /// The commands that changed tables' definitions: OID, tag, and commit.
    #[expect(clippy::type_complexity, reason = "a tuple of Python's")]
    fn ddl<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Vec<(u32, String, (Bound<'py, PyAny>, Option<i64>))>> {
        let state = lock(&self.0)?;
        let ddl = state.survey.ddl().iter();
        ddl.map(|it| Ok((it.oid, it.command.clone(), commit_of(py, it.commit)?)))
            .collect()
    }
}

fn version<'py>(py: Python<'py>, version: &SurveyedVersion) -> PyResult<Bound<'py, PyDict>> {
    let relation = &version.relation;
    let dict = PyDict::new(py);
    dict.set_item("oid", relation.oid)?;
    dict.set_item("schema_name", &*relation.namespace)?;
    dict.set_item("table_name", &*relation.name)?;
    dict.set_item("replica_identity", relation.replica_identity.name())?;
    let mut columns = Vec::with_capacity(version.columns.len());
    for (column, surveyed) in relation.columns.iter().zip(&version.columns) {
        let dict = PyDict::new(py);
        dict.set_item("name", &*column.name)?;
        dict.set_item("type_name", surveyed.type_name.as_deref())?;
        dict.set_item("type_oid", column.type_oid)?;
        dict.set_item("type_modifier", column.type_modifier)?;
        let arrow_type = surveyed.data_type.as_ref();
        let arrow_type = arrow_type.map(|it| ArrowTypeName(it).to_string());
        dict.set_item("arrow_type", arrow_type)?;
        dict.set_item("key", column.is_key)?;
        dict.set_item("unresolved", &surveyed.unresolved)?;
        dict.set_item("number", surveyed.number)?;
        columns.push(dict);
    }
    dict.set_item("columns", columns)?;
    dict.set_item("inserts", version.inserts)?;
    dict.set_item("updates", version.updates)?;
    dict.set_item("deletes", version.deletes)?;
    dict.set_item("truncates", version.truncates)?;
    dict.set_item("loads", version.loads)?;
    dict.set_item("loaded", version.loaded)?;
    dict.set_item("inserts_with_unsent", version.inserts_with_unsent)?;
    dict.set_item("updates_with_unsent", version.updates_with_unsent)?;
    for (name, commit) in [("first", version.first), ("last", version.last)] {
        let commit = commit.map(|it| commit_of(py, it)).transpose()?;
        dict.set_item(name, commit)?;
    }
    Ok(dict)
}

/// LSN, and microseconds since 1970.
fn commit_of(py: Python<'_>, commit: Commit) -> PyResult<(Bound<'_, PyAny>, Option<i64>)> {
    Ok((lsn::new(py, commit.lsn)?, commit.unix_micros))
}
