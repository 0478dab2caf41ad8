//! The definitions of types and tables that a stream lacks.

use crate::errors;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyString, PyType};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// Definitions of types and tables that a stream lacks: a value, read from a server.
///
/// `walrow.postgres.catalog` reads one from a server. It can be compared, hashed and
/// pickled.
///
/// Example:
///     catalog = walrow.Catalog.from_file("shop.json")
///     walrow.read("shop.wire", catalog=catalog)
///
/// Args:
///     json: A catalog as JSON, from `to_json`. Default: an empty catalog.
///
/// Raises:
///     OptionError: The text is not a catalog: it contains an unknown key, an OID
///         twice, or an invalid array delimiter. The error names the entry by its OID.
#[pyclass(frozen, eq, module = "walrow")]
#[derive(PartialEq)]
pub(crate) struct Catalog(pub(crate) Arc<walrow::Catalog>);

impl Catalog {
    fn of_json(py: Python<'_>, json: &str) -> PyResult<Self> {
        let catalog = walrow::Catalog::from_json(json).map_err(|error| {
            let is_json = json.trim_start().starts_with(['{', '[']) || json.trim().is_empty();
            let hint = if is_json {
                ""
            } else {
                "; for the path of a file, use walrow.Catalog.from_file"
            };
            errors::option_error(py, format!("{error}{hint}"))
        })?;
        Ok(Self(Arc::new(catalog)))
    }

    /// The catalog of an option: a catalog, or the path of its file.
    pub(crate) fn of(value: &Bound<'_, PyAny>) -> PyResult<Arc<walrow::Catalog>> {
        if let Ok(catalog) = value.cast::<Self>() {
            return Ok(Arc::clone(&catalog.get().0));
        }
        let is_json = value
            .cast::<PyString>()
            .is_ok_and(|text| text.to_string_lossy().trim_start().starts_with('{'));
        let is_path = value.is_instance_of::<PyString>() || value.hasattr("__fspath__")?;
        if is_json || !is_path {
            let hint = if is_json {
                "for JSON, use walrow.Catalog.from_json"
            } else {
                "to read one from a server, use walrow.postgres.catalog"
            };
            let text = format!("catalog must be a walrow.Catalog or the path of its file; {hint}");
            return Err(PyTypeError::new_err(text));
        }
        Ok(Self::from_file(&value.py().get_type::<Self>(), value)?.0)
    }
}

#[pymethods]
impl Catalog {
    #[new]
    #[pyo3(signature = (json = None))]
    fn new(json: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        let Some(json) = json else {
            return Ok(Self(Arc::default()));
        };
        if let Ok(text) = json.extract::<String>() {
            return Self::of_json(json.py(), &text);
        }
        let text = format!("json must be a string, not {}", json.get_type().name()?);
        Err(PyTypeError::new_err(text))
    }

    /// Reads a catalog from a file that contains JSON, in UTF-8.
    ///
    /// Raises:
    ///     OptionError: The file is not a catalog.
    ///     OSError: The file cannot be read.
    #[classmethod]
    fn from_file(class: &Bound<'_, PyType>, path: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = class.py();
        let text = py.import("os")?.call_method1("fsdecode", (path,))?;
        if py
            .import("walrow._secrets")?
            .call_method1("is_conninfo", (text,))?
            .is_truthy()?
        {
            // It may contain a password.
            let text = "the catalog is a connection string or a URL, not a path: connect with \
                        psycopg.connect(...), and read it with walrow.postgres.catalog(conn)";
            return Err(errors::option_error(py, text));
        }
        // Read with Python, because its errors name the file.
        let path = py.import("pathlib")?.getattr("Path")?.call1((path,))?;
        let bytes: PyBackedBytes = path.call_method0("read_bytes")?.extract()?;
        let refuse = |reason: &str| {
            // Format with Python, because the path may not be UTF-8.
            let text = PyString::new(py, "{}: {}");
            match text.call_method1("format", (&path, reason)) {
                Ok(text) => errors::option_error(py, text),
                Err(error) => error,
            }
        };
        let text = str::from_utf8(&bytes).map_err(|_| refuse("not a catalog: it is not UTF-8"))?;
        let catalog =
            walrow::Catalog::from_json(text).map_err(|error| refuse(&error.to_string()))?;
        Ok(Self(Arc::new(catalog)))
    }

    /// Reads a catalog from JSON.
    ///
    /// Raises:
    ///     OptionError: The text is not a catalog.
    #[classmethod]
    fn from_json(class: &Bound<'_, PyType>, json: &str) -> PyResult<Self> {
        Self::of_json(class.py(), json)
    }

    /// Returns the catalog as JSON.
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
