//! Rows of one table.

use crate::dataframes;
use crate::export;
use crate::rows::Rows;
use crate::schema::Schema;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyCapsule, PyDict};
use walrow::stream::Printable;

/// Change rows of one version of one table: its own columns, then metadata columns.
///
/// Libraries with the Arrow PyCapsule interface import it without a copy.
///
/// Example:
///     for batch in walrow.read("shop.wire"):
///         print(batch.table, pa.record_batch(batch), pl.DataFrame(batch))
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Batch(pub(crate) walrow::Batch);

#[pymethods]
impl Batch {
    /// Schema and name, joined by a dot without quotes: `public.orders`.
    #[getter]
    fn table(&self) -> String {
        self.0.relation().to_string()
    }

    /// The table's schema.
    #[getter]
    fn schema_name(&self) -> &str {
        &self.0.relation().namespace
    }

    /// The table's name.
    #[getter]
    fn table_name(&self) -> &str {
        &self.0.relation().name
    }

    /// The table's OID.
    #[getter]
    fn relation_oid(&self) -> u32 {
        self.0.relation().oid
    }

    /// `default`, `nothing`, `full` or `index`.
    #[getter]
    fn replica_identity(&self) -> &'static str {
        self.0.relation().replica_identity.name()
    }

    /// The columns of the replica identity.
    #[getter]
    fn key_columns(&self) -> Vec<&str> {
        let columns = self.0.relation().columns.iter();
        columns
            .filter(|column| column.is_key)
            .map(|column| &*column.name)
            .collect()
    }

    /// The number of the relation version. Versions of all tables are numbered from 0.
    #[getter]
    fn version(&self) -> u32 {
        self.0.relation().version
    }

    /// The number of rows; also `len(batch)`.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.record_batch().num_rows()
    }

    /// The number of columns, including metadata columns.
    #[getter]
    fn num_columns(&self) -> usize {
        self.0.record_batch().num_columns()
    }

    /// The names of the columns, metadata columns last.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.schema().names()
    }

    /// The Arrow schema.
    #[getter]
    fn schema(&self) -> Schema {
        Schema(self.0.record_batch().schema())
    }

    /// Number of values that `unrepresentable="null"` made null, by column.
    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let nulled = self.0.nulled().iter();
        nulled.map(|(name, n)| (name, n)).into_py_dict(py)
    }

    /// Number of arrays that lost a first subscript other than 1, by column.
    #[getter]
    fn dropped_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dropped = self.0.dropped_lower_bounds().iter();
        dropped.map(|(name, n)| (name, n)).into_py_dict(py)
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

    /// Returns all rows.
    fn _rows(&self) -> Rows {
        Rows::of(&self.0)
    }

    /// Returns the rows as a `pyarrow.Table`.
    ///
    /// Raises:
    ///     ImportError: pyarrow is not installed.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_pyarrow", (slf,))
    }

    /// Returns the rows as a `pandas.DataFrame`: see `Reader.to_pandas`.
    ///
    /// Raises:
    ///     ImportError: pandas or pyarrow is not installed.
    #[pyo3(signature = (*, dtype_backend = "pyarrow", decimals = "exact"))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        dtype_backend: &str,
        decimals: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_pandas", (slf, dtype_backend, decimals))
    }

    /// Returns the rows as a `polars.DataFrame`.
    ///
    /// Raises:
    ///     ImportError: polars is not installed.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_polars", (slf,))
    }

    /// Returns the rows as a `duckdb.DuckDBPyRelation`: see `Reader.to_duckdb`.
    ///
    /// Raises:
    ///     ImportError: duckdb or pyarrow is not installed.
    #[pyo3(signature = (connection = None))]
    fn to_duckdb<'py>(
        slf: &Bound<'py, Self>,
        connection: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_duckdb", (slf, connection))
    }

    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        dataframes::html(slf)
    }

    /// Exports the schema, for Arrow consumers.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.0.record_batch().schema())
    }

    /// Exports the rows, for Arrow consumers. Ignores a requested schema.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        // The interface allows a producer to ignore a requested schema.
        let _ = requested_schema;
        export::batch(py, self.0.record_batch())
    }
}
