//! The push decoder.

use crate::batch::Batch;
use crate::engine::{self, Engine, Returned, lock};
use crate::errors;
use crate::lsn;
use crate::options::Options;
use crate::schema::Schema;
use crate::signals::Interruptible;
use pyo3::exceptions::PyRuntimeError;
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict};
use std::sync::Mutex;

/// Converts a stream to batches as its bytes arrive.
///
/// `feed` queues input. The iterators decode it, without the interpreter lock. A later
/// iterator first decodes all input that is still queued, so a dropped iterator
/// loses no rows. An error is raised after all earlier batches were returned.
/// Every later call raises it again.
///
/// Example:
///     decoder = walrow.Decoder(framing="copydata")
///     for batch in decoder.feed(payloads):
///         ...
///     for batch in decoder.flush():
///         ...
///     confirm(decoder.position)
///
/// Args:
///     framing: The bytes that `feed` takes. `"wire"`: the bytes of the connection, cut
///         anywhere. `"recvlogical"`: a file that `pg_recvlogical` wrote with the plugin
///         pgoutput, cut anywhere. Transactions that it received again after a reconnect are
///         returned only once. `"copydata"`: each chunk is one CopyData payload, as drivers
///         return them. `"message"`: each chunk is one pgoutput message, or a row of
///         `pg_logical_slot_get_binary_changes`.
///     batch_memory: The number of bytes that the unfinished batches of all tables may take
///         together. Beyond it, the fullest batch is returned.
///     trim_bpchar: Removes the trailing blanks of `character(n)`, except inside a longer text:
///         the text profile, and arrays as strings.
///     **options: Those of `walrow.read`.
///
/// Raises:
///     OptionError: The options are invalid or contradict each other.
#[pyclass(frozen, module = "walrow")]
pub(crate) struct Decoder(Mutex<Engine>);

#[pymethods]
impl Decoder {
    #[new]
    #[pyo3(signature = (**options))]
    fn new(py: Python<'_>, options: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = Options::of_decoder(py, options)?;
        let framing = options.framing;
        Ok(Self(Mutex::new(Engine::new(framing, options.decoder()?))))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(engine) => engine.traverse(&visit),
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut engine) = self.0.try_lock() {
            engine.clear();
        }
    }

    /// Queues a block or an iterable of chunks. Iterates over the full batches.
    ///
    /// Args:
    ///     data: Bytes, which are not copied; another buffer, which is copied once; or
    ///         an iterable of these, in which each is a chunk of the decoder's framing.
    ///
    /// Raises:
    ///     TypeError: The data has another type.
    ///     RuntimeError: Another thread uses the decoder.
    fn feed(slf: Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.feed(data)?;
        Ok(BatchIterator(slf.unbind()))
    }

    /// Iterates over batches of all rows up to the last commit.
    ///
    /// Raises:
    ///     RuntimeError: Another thread uses the decoder.
    fn flush(slf: Bound<'_, Self>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.flush();
        Ok(BatchIterator(slf.unbind()))
    }

    /// Ends the stream: like `flush`, then checks that the stream is complete.
    ///
    /// It must end between transactions, without an error of the server, and the chosen
    /// tables must have appeared. For a connection that goes on, use `flush`. Transactions
    /// of `open_transactions` may end in the next session.
    ///
    /// Raises:
    ///     UnfinishedError: While iterating, if the stream ends inside a frame or a
    ///         transaction.
    ///     ReplicationError: While iterating, if the server ended the stream with an error.
    ///     SchemaError: While iterating, if a chosen table never appeared.
    ///     RuntimeError: Another thread uses the decoder.
    fn finish(slf: Bound<'_, Self>) -> PyResult<BatchIterator> {
        lock(&slf.get().0)?.finish();
        Ok(BatchIterator(slf.unbind()))
    }

    /// Begins a new server session: open transactions and relations are discarded.
    ///
    /// Prepared transactions are kept.
    fn new_session(&self) -> PyResult<()> {
        lock(&self.0)?.new_session();
        Ok(())
    }

    /// Prepared transactions not yet committed or rolled back.
    ///
    /// Each has `gid`, `xid`, `prepare_lsn` and `prepare_end_lsn` (`Lsn`).
    #[getter]
    fn prepared<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let engine = lock(&self.0)?;
        let prepared = engine.decoder.prepared().map(|(xid, prepared)| {
            let dict = PyDict::new(py);
            dict.set_item("gid", &prepared.gid)?;
            dict.set_item("xid", xid)?;
            dict.set_item("prepare_lsn", lsn::new(py, prepared.prepare_lsn)?)?;
            dict.set_item("prepare_end_lsn", lsn::new(py, prepared.prepare_end_lsn)?)?;
            Ok(dict)
        });
        prepared.collect()
    }

    /// Returns the prepared transactions as bytes, for `restore_prepared`.
    ///
    /// The state matches `position`. Resume from `position` to see their outcome; the
    /// server sends their rows again only if `position` is before their prepare. So
    /// call `flush` first, and take all batches.
    ///
    /// Raises:
    ///     RuntimeError: Queued input is not yet decoded.
    ///     OptionError: Some rows were not returned yet.
    ///     Error: The error that stopped the decoder: use the last saved state with its
    ///         position.
    ///     SpoolError: The transactions cannot be read from disk.
    fn save_prepared<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut engine = lock(&self.0)?;
        let engine = &mut *engine;
        if !engine.is_idle() {
            let text = "some chunks are not decoded yet: take all batches before saving";
            return Err(PyRuntimeError::new_err(text));
        }
        let mut state = Interruptible::new(Vec::new());
        let saved = py.detach(|| engine.decoder.save_prepared(&mut state));
        state.raised()?;
        saved.map_err(|error| errors::raise(&error))?;
        Ok(PyBytes::new(py, &state.inner))
    }

    /// Loads the prepared transactions that `save_prepared` returned.
    ///
    /// Raises:
    ///     DecodeError: The bytes are not a state, or are truncated. Nothing is loaded.
    fn restore_prepared(&self, py: Python<'_>, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes: PyBackedBytes = state.extract()?;
        let mut state = Interruptible::new(&*bytes);
        let mut engine = lock(&self.0)?;
        let engine = &mut *engine;
        let restored = py.detach(|| engine.decoder.restore_prepared(&mut state));
        state.raised()?;
        restored.map_err(|error| errors::raise(&error))
    }

    /// All transactions that end at or before this LSN were returned. It begins at `start`.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, lock(&self.0)?.decoder.position())
    }

    fn __repr__(&self) -> String {
        let Ok(engine) = lock(&self.0) else {
            return "<walrow.Decoder in use by another thread>".to_owned();
        };
        let Returned { batches, rows } = engine.returned;
        let (position, bytes) = (engine.decoder.position(), engine.decoder.offset());
        format!(
            "<walrow.Decoder at {position}: {batches} batches, {rows} rows, {bytes} bytes read>"
        )
    }

    /// Whether the input so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.decoder.is_unfinished())
    }

    /// Transactions that are neither committed nor rolled back.
    ///
    /// Each has `xid` and `gid`, which is None for a streamed transaction that waits for
    /// its next chunk. The rows come with the commit, maybe in the next session.
    #[getter]
    fn open_transactions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        engine::open_transactions(py, &lock(&self.0)?.decoder)
    }

    /// Number of COMMIT PREPARED without earlier messages of their transactions.
    ///
    /// These transactions changed nothing, or were prepared before the stream begins.
    /// Their rows in `walrow.transactions` have no `prepare_lsn`.
    #[getter]
    fn unprepared_commits(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.decoder.unprepared_commits())
    }

    /// Number of transactions that `pg_recvlogical` received again after a reconnect.
    ///
    /// With `framing="recvlogical"`, they are returned only once.
    #[getter]
    fn repeated_transactions(&self) -> PyResult<u64> {
        Ok(lock(&self.0)?.decoder.repeated_transactions())
    }

    /// The SQLSTATE of the server error that ended the stream.
    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        Ok(lock(&self.0)?.decoder.server_error().map(str::to_owned))
    }

    /// The unknown types, neither built in nor in the catalog, and their columns.
    ///
    /// These are the types of columns, and the types inside an array, a composite type,
    /// a domain or a range in the catalog. Their values are text. The list is sorted, and
    /// has at most 10,000 types.
    #[getter]
    fn unresolved_types<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        engine::unresolved_types(py, &lock(&self.0)?.decoder)
    }

    /// As in `Batch`, by `schema.table.column`, over all returned batches.
    ///
    /// If the batches have several tables of one name, such as one that was dropped and
    /// created again, their keys have the OID: `public.orders (OID 16400).total`.
    #[getter]
    fn nulled<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        lock(&self.0)?.counts.nulled(py)
    }

    /// As in `Batch`, by column over all returned batches, with the keys of `nulled`.
    #[getter]
    fn dropped_lower_bounds<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        lock(&self.0)?.counts.dropped_lower_bounds(py)
    }

    /// The Arrow schema of all batches, once it is known. None for several tables.
    #[getter]
    fn schema(&self) -> PyResult<Option<Schema>> {
        Ok(lock(&self.0)?.decoder.schema().map(Schema))
    }
}

/// Iterates over the batches of a `Decoder`.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct BatchIterator(Py<Decoder>);

#[pymethods]
impl BatchIterator {
    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.0)
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        let mut engine = lock(&self.0.get().0)?;
        let engine = &mut *engine;
        Ok(py.detach(move || engine.next())?.map(Batch))
    }
}
