//! One schema for all versions of a table.

use crate::catalog::Catalog;
use crate::engine::{append, lock};
use crate::errors;
use crate::options::{self, Options};
use crate::schema::Schema;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;
use walrow::Framing;

/// Finds one schema for all versions of a table: see `walrow.schema`.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct SchemaUnion(Mutex<State>);

#[derive(Debug)]
struct State {
    framing: Framing,
    union: walrow::SchemaUnion,
    /// A chunk as wire frames.
    frames: Vec<u8>,
}

#[pymethods]
impl SchemaUnion {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let Options { builder, .. } = Options::new(py, options)?;
        let union = builder.build_schema_union();
        Ok(Self(Mutex::new(State {
            framing: Framing::default(),
            union: union.map_err(|error| errors::raise(&error))?,
            frames: Vec::new(),
        })))
    }

    /// Adds the table's version in a catalog.
    fn add_catalog(&self, catalog: &Bound<'_, PyAny>) -> PyResult<()> {
        let catalog = Catalog::of(catalog)?;
        let added = lock(&self.0)?.union.add_catalog(&catalog);
        added.map_err(|error| errors::raise(&error))
    }

    /// Begins another stream, with its framing. The name is for errors.
    fn begin_stream(&self, py: Python<'_>, name: &str, framing: &str) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        state.framing = options::framing(py, framing)?;
        let framing = state.framing;
        state.union.begin_stream(name, framing);
        Ok(())
    }

    /// Decodes a chunk of the current stream.
    fn feed(&self, py: Python<'_>, chunk: &Bound<'_, PyAny>) -> PyResult<()> {
        py.check_signals()?;
        let mut state = lock(&self.0)?;
        let State {
            framing,
            union,
            frames,
        } = &mut *state;
        frames.clear();
        append(*framing, chunk, frames)?;
        let decoded = py.detach(|| union.decode(frames));
        decoded.map_err(|error| errors::raise(&error))
    }

    /// Ends the current stream.
    fn finish_stream(&self) -> PyResult<()> {
        let ended = lock(&self.0)?.union.finish_stream();
        ended.map_err(|error| errors::raise(&error))
    }

    /// The schema of all versions so far.
    fn schema(&self) -> PyResult<Schema> {
        let schema = lock(&self.0)?.union.schema();
        schema.map(Schema).map_err(|error| errors::raise(&error))
    }
}
