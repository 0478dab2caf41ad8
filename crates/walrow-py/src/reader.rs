//! The pull reader: an iterator over batches and, for one schema, an Arrow stream.

use crate::batch::Batch;
use crate::dataframes;
use crate::engine::{self, Engine, Failure, Returned, lock};
use crate::errors;
use crate::export;
use crate::lsn;
use crate::options::Options;
use crate::rows;
use crate::schema::Schema;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// Reads a stream to its end: an iterator over its batches.
///
/// `walrow.read` returns it. With `table` or `envelope`, it is an Arrow stream, which
/// decodes while it is consumed. It can be read once. As a context manager, it closes
/// its source.
///
/// Example:
///     with walrow.read("shop.wire") as reader:
///         for batch in reader:
///             print(batch.table, pa.record_batch(batch))
///     print(reader.position)
///
/// Args:
///     chunks: An iterable of the bytes of a connection, cut anywhere. If it has the attribute
///         `framing`, as the sources of `walrow.read` do, its chunks are in that framing.
///     **options: Those of `walrow.read`.
///
/// Raises:
///     OptionError: The options are invalid or contradict each other.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Reader {
    engine: Arc<Mutex<Engine>>,
    one_schema: bool,
}

#[pymethods]
impl Reader {
    #[new]
    #[pyo3(signature = (chunks, /, **options))]
    fn new(chunks: &Bound<'_, PyAny>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::new(chunks.py(), options)?;
        let one_schema = options.builder.has_one_schema();
        let engine = Engine::reading(options, chunks)?;
        Ok(Self {
            engine: Arc::new(Mutex::new(engine)),
            one_schema,
        })
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        // An Arrow stream, which the garbage collector does not see, may use the same objects.
        match self.engine.try_lock() {
            Ok(engine) if Arc::strong_count(&self.engine) == 1 => engine.traverse(&visit),
            _ => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut engine) = self.engine.try_lock() {
            engine.clear();
        }
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut engine = lock(&self.engine)?;
        let engine = &mut *engine;
        match py.detach(|| engine.next()) {
            Ok(batch) => Ok(batch.map(Batch)),
            Err(failure) => Err(engine.explain(py, failure)),
        }
    }

    const fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(
        &self,
        py: Python<'_>,
        _exception: &Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        self.close(py)
    }

    /// Closes the source, as an error does. No more batches are returned.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let refusal = PyValueError::new_err("the reader is closed");
        let source = lock(&self.engine)?.close(py, refusal);
        match source.map(|source| source.into_bound(py)) {
            Some(source) if source.hasattr("close")? => source.call_method0("close").map(|_| ()),
            _ => Ok(()),
        }
    }

    /// All transactions that end at or before this LSN were returned. It begins at `start`.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, lock(&self.engine)?.decoder.position())
    }

    /// Bytes read from the source. For a compressed file, compressed bytes.
    #[getter]
    fn bytes_read(&self, py: Python<'_>) -> PyResult<u64> {
        let engine = lock(&self.engine)?;
        let read = engine.size(py).read;
        Ok(read.unwrap_or_else(|| engine.decoder.offset()))
    }

    /// Bytes of the whole source, as `bytes_read` counts them. None if it is not known.
    #[getter]
    fn bytes_total(&self, py: Python<'_>) -> PyResult<Option<u64>> {
        Ok(lock(&self.engine)?.size(py).total)
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Ok(engine) = lock(&self.engine) else {
            return "<walrow.Reader in use by another thread>".to_owned();
        };
        let Returned { batches, rows } = engine.returned;
        let size = engine.size(py);
        let read = size.read.unwrap_or_else(|| engine.decoder.offset());
        let of = size.total.map_or(String::new(), |it| format!(" of {it}"));
        let position = engine.decoder.position();
        format!(
            "<walrow.Reader at {position}: {batches} batches, {rows} rows, {read}{of} bytes read>"
        )
    }

    /// Whether the source so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.engine)?.decoder.is_unfinished())
    }

    /// Transactions that are neither committed nor rolled back.
    ///
    /// Each has `xid` and `gid`, which is None for a streamed transaction that waits for
    /// its next chunk. The rows come with the commit, maybe in the next session.
    #[getter]
    fn open_transactions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        engine::open_transactions(py, &lock(&self.engine)?.decoder)
    }

    /// Number of COMMIT PREPARED without earlier messages of their transactions.
    ///
    /// These transactions changed nothing, or were prepared before the stream begins.
    /// Their rows in `walrow.transactions` have no `prepare_lsn`.
    #[getter]
    fn unprepared_commits(&self) -> PyResult<u64> {
        Ok(lock(&self.engine)?.decoder.unprepared_commits())
    }

    /// Number of transactions that `pg_recvlogical` received again after a reconnect.
    ///
    /// They are returned only once.
    #[getter]
    fn repeated_transactions(&self) -> PyResult<u64> {
        Ok(lock(&self.engine)?.decoder.repeated_transactions())
    }

    /// The SQLSTATE of the server error that ended the stream.
    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        let engine = lock(&self.engine)?;
        Ok(engine.decoder.server_error().map(str::to_owned))
    }

    /// The unknown types, neither built in nor in the catalog, and their columns.
    ///
    /// These are the types of columns, and the types inside an array, a composite type,
    /// a domain or a range in the catalog. Their values are text. The list is sorted, and
    /// has at most 10,000 types.
    #[getter]
    fn unresolved_types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        engine::unresolved_types(py, &lock(&self.engine)?.decoder)
    }

    /// As in `Batch`, by `schema.table.column`, over all returned batches.
    ///
    /// If the batches have several tables of one name, such as one that was dropped and
    /// created again, their keys have the OID: `public.orders (OID 16400).total`.
    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        lock(&self.engine)?.counts.nulled(py)
    }

    /// As in `Batch`, by column over all returned batches, with the keys of `nulled`.
    #[getter]
    fn dropped_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        lock(&self.engine)?.counts.dropped_lower_bounds(py)
    }

    /// The schema of the Arrow stream. Reads until the chosen table appears.
    ///
    /// Raises:
    ///     TypeError: Neither `table` nor `envelope` was set.
    ///     SchemaError: The table never appeared.
    #[getter]
    fn schema(&self, py: Python<'_>) -> PyResult<Schema> {
        if !self.one_schema {
            return Err(PyTypeError::new_err(
                "batches of several tables have no common schema, so they are not an Arrow stream: choose \
                 one with table=, or take the batches one by one",
            ));
        }
        let mut engine = lock(&self.engine)?;
        let engine = &mut *engine;
        let schema = py.detach(move || -> Result<Option<SchemaRef>, Failure> {
            loop {
                if let Some(schema) = engine.decoder.schema() {
                    return Ok(Some(schema));
                }
                // A batch always has a schema. Without this check, the loop might never end.
                if engine.decoder.has_batch() || !engine.advance()? {
                    return Ok(None);
                }
            }
        })?;
        schema.map(Schema).ok_or_else(|| {
            let text = "the table did not appear in the stream; give its schema with schema=";
            errors::schema_error(py, text, None)
        })
    }

    /// Takes all rows: `Rows`, or a dictionary of them by table, or of its error.
    fn _rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        if self.one_schema {
            let schema = self.schema(py)?.0;
            rows::of_one(py, &self.engine, schema)
        } else {
            rows::of_all(py, &self.engine)
        }
    }

    /// Reads all rows into a `pyarrow.Table`.
    ///
    /// Without `table` or `envelope`, reads them into a mapping of tables by name,
    /// `schema.table`: `walrow.typing.ByTable`. If the columns of a table changed, or two
    /// tables have its name, the mapping raises its error when you ask for it, and when
    /// you iterate over all. The other tables are there.
    ///
    /// Raises:
    ///     SchemaError: The columns of the only table changed.
    ///     ImportError: pyarrow is not installed.
    ///     ValueError: All batches were taken.
    fn to_pyarrow<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_pyarrow", (slf,))
    }

    /// Reads all rows into a `pandas.DataFrame`, or several by name, as `to_pyarrow` does.
    ///
    /// By default, columns have Arrow's types. NumPy's types cannot hold all values: with
    /// `dtype_backend="numpy"`, integers with NULL become floats.
    ///
    /// Args:
    ///     dtype_backend: `"pyarrow"` or `"numpy"`.
    ///     decimals: `"exact"`, or `"float"` for the nearest floats, which pandas can plot.
    ///
    /// Raises:
    ///     SchemaError: As in `to_pyarrow`.
    ///     ImportError: pandas or pyarrow is not installed.
    ///     ValueError: All batches were taken.
    #[pyo3(signature = (*, dtype_backend = "pyarrow", decimals = "exact"))]
    fn to_pandas<'py>(
        slf: &Bound<'py, Self>,
        dtype_backend: &str,
        decimals: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_pandas", (slf, dtype_backend, decimals))
    }

    /// Writes all rows to a Parquet file, batch by batch. Needs `table` or `envelope`.
    ///
    /// The file gets its name when it is complete, and replaces an earlier one. After an error,
    /// there is no new file.
    ///
    /// Args:
    ///     path: The path of the file.
    ///
    /// Returns:
    ///     The number of rows.
    ///
    /// Raises:
    ///     OptionError: The reader has several tables.
    ///     ImportError: pyarrow is not installed.
    ///     OSError: The file cannot be written.
    fn to_parquet<'py>(
        slf: &Bound<'py, Self>,
        path: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let one_schema = slf.get().one_schema;
        dataframes::call(slf.py(), "to_parquet", (slf, path, one_schema))
    }

    /// Reads all rows into a `polars.DataFrame`, or several by name, as `to_pyarrow` does.
    ///
    /// Raises:
    ///     SchemaError: As in `to_pyarrow`.
    ///     ImportError: polars is not installed.
    ///     ValueError: All batches were taken.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_polars", (slf,))
    }

    /// Reads all rows into a DuckDB relation, or several by name, as `to_pyarrow` does.
    ///
    /// Args:
    ///     connection: The connection that queries them. Default: DuckDB's default one.
    ///
    /// Raises:
    ///     SchemaError: As in `to_pyarrow`.
    ///     ImportError: duckdb or pyarrow is not installed.
    ///     ValueError: All batches were taken.
    #[pyo3(signature = (connection = None))]
    fn to_duckdb<'py>(
        slf: &Bound<'py, Self>,
        connection: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        dataframes::call(slf.py(), "to_duckdb", (slf, connection))
    }

    /// Raises `TypeError`: pandas would otherwise make a column of `Batch` objects.
    #[expect(clippy::unused_self, reason = "Python calls it on the object")]
    #[pyo3(signature = (*_arguments, **_options))]
    fn __array__(
        &self,
        _arguments: &Bound<'_, pyo3::types::PyTuple>,
        _options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        Err(PyTypeError::new_err(
            "a reader is not a NumPy array; for a DataFrame, call reader.to_pandas() or \
             reader.to_polars()",
        ))
    }

    /// Exports the schema, for Arrow consumers. Needs `table` or `envelope`.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        export::schema(py, &self.schema(py)?.0)
    }

    /// Exports the batches, for Arrow consumers. Ignores a requested schema.
    ///
    /// Raises:
    ///     TypeError: Neither `table` nor `envelope` was set.
    ///     SchemaError: The table never appeared.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // The interface allows a producer to ignore a requested schema.
        let _ = requested_schema;
        let stream = Stream {
            schema: self.schema(py)?.0,
            engine: Some(Arc::clone(&self.engine)),
            begun: false,
        };
        export::stream(py, stream)
    }
}

/// The Arrow stream from which a consumer pulls, on any thread.
struct Stream {
    /// Present until the stream is dropped.
    engine: Option<Arc<Mutex<Engine>>>,
    schema: SchemaRef,
    begun: bool,
}

impl Drop for Stream {
    fn drop(&mut self) {
        let engine = self.engine.take();
        attached(|_| Python::attach(|_| drop(engine)));
    }
}

/// Runs a function with the interpreter attached. Returns `None` if the interpreter has ended.
///
/// A consumer may call from a thread that is not attached although `PyO3` counts it as attached: C
/// and C++ code can detach without `PyO3`, for example in a source whose own code reads another
/// stream. [`Python::attach`] would rely on the wrong count.
#[expect(unsafe_code, reason = "PyO3's count cannot be asked to look")]
fn attached<T>(run: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    struct Held(ffi::PyGILState_STATE);
    impl Drop for Held {
        fn drop(&mut self) {
            // SAFETY: it releases the state of `PyGILState_Ensure`, on the same thread.
            unsafe { ffi::PyGILState_Release(self.0) }
        }
    }
    // SAFETY: this may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        return None;
    }
    // SAFETY: the interpreter exists, and this may be called whether or not the thread holds it.
    let held = Held(unsafe { ffi::PyGILState_Ensure() });
    // SAFETY: the thread holds the interpreter as long as `held` lives.
    let result = run(unsafe { Python::assume_attached() });
    drop(held);
    Some(result)
}

impl Stream {
    fn pull(&mut self) -> Result<Option<RecordBatch>, String> {
        let Some(engine) = &self.engine else {
            return Ok(None);
        };
        let mut engine = engine
            .try_lock()
            .map_err(|_| "the reader is already in use by another thread".to_owned())?;
        if !self.begun && engine.is_exhausted() {
            return Err("all batches of this reader were taken: read the source again".to_owned());
        }
        self.begun = true;
        let batch = engine.next().map_err(|failure| {
            let text = failure.to_string();
            failure.interrupt_again();
            text
        })?;
        let Some(batch) = batch else { return Ok(None) };
        // Consumers trust the stream's schema and read memory with it.
        if *batch.record_batch().schema_ref() != self.schema {
            let table = batch.relation();
            return Err(format!(
                "internal error: a batch of {table} has another schema"
            ));
        }
        Ok(Some(batch.into_record_batch()))
    }
}

impl Iterator for Stream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        // A panic must not cross into the consumer, which is C or C++.
        let pull =
            AssertUnwindSafe(|| attached(|py| py.detach(|| self.pull())).unwrap_or(Ok(None)));
        catch_unwind(pull)
            .unwrap_or_else(|_| Err("internal error: the decoder panicked".to_owned()))
            .map_err(|text| ArrowError::ExternalError(text.into()))
            .transpose()
    }
}

impl RecordBatchReader for Stream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
