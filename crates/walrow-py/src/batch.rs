//! Rows of one table.

use crate::engine;
use crate::export;
use crate::schema::Schema;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use walrow::stream::Printable;

/// Change rows of one version of one table.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Batch(pub(crate) walrow::Batch);

#[pymethods]
impl Batch {
    #[getter]
    fn table(&self) -> String {
        self.0.relation().to_string()
    }

    #[getter]
    fn schema_name(&self) -> &str {
        &self.0.relation().namespace
    }

    #[getter]
    fn table_name(&self) -> &str {
        &self.0.relation().name
    }

    #[getter]
    fn relation_oid(&self) -> u32 {
        self.0.relation().oid
    }

    #[getter]
    fn replica_identity(&self) -> &'static str {
        self.0.relation().replica_identity.name()
    }

    #[getter]
    fn key_columns(&self) -> Vec<&str> {
        let columns = self.0.relation().columns.iter();
        columns
            .filter(|column| column.is_key)
            .map(|column| &*column.name)
            .collect()
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.0.record_batch().num_rows()
    }

    #[getter]
    fn num_columns(&self) -> usize {
        self.0.record_batch().num_columns()
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema().names()
    }

    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.record_batch().schema())
    }

    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(py, self.0.nulled().iter().map(|(name, n)| (name, n)))
    }

    #[getter]
    fn dropped_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        engine::dict(
            py,
            self.0
                .dropped_lower_bounds()
                .iter()
                .map(|(name, n)| (name, n)),
        )
    }

    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __repr__(&self) -> String {
        format!(
            "<walrow.Batch {}: {} rows, {} columns>",
            Printable(self.table()),
            self.num_rows(),
            self.num_columns()
        )
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.0.record_batch().schema())
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface lets a producer leave a wish unfulfilled.
        let _ = requested_schema;
        export::batch(py, self.0.record_batch())
    }
}
