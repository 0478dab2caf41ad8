//! What the stream does not say of types and tables.

use crate::errors;
use pyo3::prelude::*;
use pyo3::types::PyType;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// User-defined types and tables, as a value.
#[pyclass(frozen, eq, module = "walrow")]
#[derive(PartialEq)]
pub(crate) struct Catalog(pub(crate) Arc<walrow::Catalog>);

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (json = None))]
    fn new(py: Python<'_>, json: Option<&str>) -> PyResult<Self> {
        let Some(json) = json else {
            return Ok(Self(Arc::default()));
        };
        let catalog = walrow::Catalog::from_json(json)
            .map_err(|error| errors::option_error(py, &error.to_string()))?;
        Ok(Self(Arc::new(catalog)))
    }

    #[classmethod]
    fn from_json(class: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        Self::new(class.py(), Some(json))
    }

    fn to_json(&self) -> String {
        self.0.to_json()
    }

    /// The tables, as pairs of schema and name.
    fn tables(&self) -> Vec<(&str, &str)> {
        let tables = self.0.tables.iter();
        tables
            .map(|table| (table.schema.as_str(), table.name.as_str()))
            .collect()
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.to_json().hash(&mut hasher);
        hasher.finish()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, (String,)) {
        (py.get_type::<Self>(), (self.to_json(),))
    }

    fn __repr__(&self) -> String {
        let (types, tables) = (self.0.types.len(), self.0.tables.len());
        format!("<walrow.Catalog {types} types, {tables} tables>")
    }
}
