//! Arrow schemas.

use crate::export;
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::collections::BTreeMap;
use walrow::ArrowTypeName;
use walrow::stream::Printable;

/// An Arrow schema: `pa.schema(schema)`.
#[pyclass(frozen, eq, module = "walrow")]
#[derive(PartialEq)]
pub(crate) struct Schema(pub(crate) SchemaRef);

#[pymethods]
impl Schema {
    /// The names of the columns.
    #[getter]
    pub(crate) fn names(&self) -> Vec<String> {
        let fields = self.0.fields().iter();
        fields.map(|field| field.name().clone()).collect()
    }

    /// The Arrow types of the columns, as text that the option `types` accepts.
    #[getter]
    fn types(&self) -> Vec<String> {
        let fields = self.0.fields().iter();
        fields
            .map(|field| ArrowTypeName(field.data_type()).to_string())
            .collect()
    }

    /// The table's metadata: `pg.schema`, `pg.table`, `pg.key_columns`, ....
    #[getter]
    fn metadata(&self) -> BTreeMap<String, String> {
        self.0.metadata.clone().into_iter().collect()
    }

    fn __len__(&self) -> usize {
        self.0.fields().len()
    }

    fn __repr__(&self) -> String {
        let fields: Vec<String> = self
            .0
            .fields()
            .iter()
            .map(|field| {
                let data_type = ArrowTypeName(field.data_type());
                format!("{}: {}", Printable(field.name()), Printable(data_type))
            })
            .collect();
        format!("<walrow.Schema {}>", fields.join(", "))
    }

    /// Exports the schema, for Arrow consumers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.0)
    }
}
