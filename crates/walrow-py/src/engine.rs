//! Runs a decoder: a queue of steps, and the batches that they produce.
//!
//! Steps run in order, and only when a caller takes batches. So nothing is lost if an iterator over
//! batches is dropped early.

use crate::column_counts::ColumnCounts;
use crate::errors;
use crate::log_block::LogBlock;
use crate::options::{self, Options, read_lsn};
use crate::signals::{self, set_interrupt};
use pyo3::exceptions::{PyBaseException, PyKeyboardInterrupt, PyRuntimeError, PyTypeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyMemoryView, PyString, PyTuple};
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::Duration;
use walrow::{Batch, Decoder, DecoderBuilder, Framing, Lsn};

/// A decoder and its next steps.
pub(crate) struct Engine {
    framing: Framing,
    pub(crate) decoder: Decoder,
    steps: VecDeque<Step>,
    /// The source of the chunks, if the engine closes it.
    source: Option<Py<PyAny>>,
    /// The failure that every later call repeats.
    failure: Option<Failure>,
    /// Which of several files the source was reading when it failed.
    place: Option<String>,
    exhausted: bool,
    /// Makes the decoder again when the source knows its framing, after its first chunk.
    undecided: Option<DecoderBuilder>,
    pub(crate) counts: ColumnCounts,
    pub(crate) returned: Returned,
    /// What the source knew of its size when it was closed.
    size: Size,
}

/// How much was returned so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Returned {
    pub(crate) batches: u64,
    pub(crate) rows: u64,
}

/// The size of a source, if it knows it. Compressed bytes count as they are.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Size {
    /// Bytes that were read.
    pub(crate) read: Option<u64>,
    /// All of its bytes.
    pub(crate) total: Option<u64>,
}

impl Size {
    /// Asks the source. Only walrow's own sources have these attributes.
    fn of(source: &Bound<'_, PyAny>) -> Self {
        let attribute = |name| source.getattr(name).ok()?.extract().ok();
        Self {
            read: attribute("bytes_read"),
            total: attribute("bytes_total"),
        }
    }
}

/// One step of the queue.
enum Step {
    /// Decode a block from this offset.
    Block(Bytes, usize),
    /// Decode all chunks of an iterator.
    Chunks(Py<PyIterator>),
    /// Raise the exception of the iterator, after its chunks are decoded.
    Raise(Py<PyBaseException>),
    Flush,
    Finish,
    NewSession,
}

/// A block, in memory of Python or of Rust.
pub(crate) enum Bytes {
    Python(PyBackedBytes),
    Log(Arc<Vec<u8>>),
    Own(Vec<u8>),
}

impl Bytes {
    pub(crate) fn get(&self) -> &[u8] {
        match self {
            Self::Python(bytes) => bytes,
            Self::Log(bytes) => bytes,
            Self::Own(bytes) => bytes,
        }
    }
}

/// Why there is no batch.
#[derive(Debug)]
pub(crate) enum Failure {
    Walrow(walrow::Error),
    /// The exception itself, so that the garbage collector sees what it refers to.
    Python(Py<PyBaseException>),
    /// The interpreter is shutting down.
    Shutdown,
}

impl Failure {
    fn python(error: PyErr) -> Self {
        Python::try_attach(|py| error.into_value(py)).map_or(Self::Shutdown, Self::Python)
    }

    /// After Ctrl-C, makes Python raise it again. The caller only passes on the failure's text.
    pub(crate) fn interrupt_again(&self) {
        if let Self::Python(error) = self {
            Python::try_attach(|py| {
                if error.bind(py).is_instance_of::<PyKeyboardInterrupt>() {
                    set_interrupt();
                }
            });
        }
    }

    fn repeat(&self) -> Self {
        match self {
            Self::Walrow(error) => Self::Walrow(error.clone()),
            Self::Python(error) => {
                Python::try_attach(|py| error.clone_ref(py)).map_or(Self::Shutdown, Self::Python)
            }
            Self::Shutdown => Self::Shutdown,
        }
    }
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Walrow(error) => errors::raise(&error),
            Failure::Python(error) => {
                Python::attach(|py| Self::from_value(error.into_bound(py).into_any()))
            }
            Failure::Shutdown => PyRuntimeError::new_err(SHUTDOWN),
        }
    }
}

const SHUTDOWN: &str = "the interpreter is shutting down";

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // With the names that options have in Python.
            Self::Walrow(error) => {
                Python::try_attach(|_| errors::raise(error).fmt(f)).unwrap_or_else(|| error.fmt(f))
            }
            Self::Python(error) => Python::try_attach(|py| {
                let error = PyErr::from_value(error.bind(py).clone().into_any());
                error.fmt(f)
            })
            .unwrap_or(Ok(())),
            Self::Shutdown => f.write_str(SHUTDOWN),
        }
    }
}

/// Chunks are joined up to this size.
const JOINED: usize = 256 << 10;
/// The bytes that are decoded before signals are checked, about a tenth of a second. A transaction that
/// lies in two slices takes longer, as it waits in the spool.
const SLICE: usize = 64 << 20;

impl Engine {
    /// An engine whose caller queues the steps.
    pub(crate) fn new(framing: Framing, decoder: Decoder) -> Self {
        Self {
            framing,
            decoder,
            steps: VecDeque::new(),
            source: None,
            failure: None,
            place: None,
            exhausted: false,
            undecided: None,
            counts: ColumnCounts::default(),
            returned: Returned::default(),
            size: Size::default(),
        }
    }

    /// The size of the source.
    pub(crate) fn size(&self, py: Python<'_>) -> Size {
        let source = self.source.as_ref();
        source.map_or(self.size, |source| Size::of(source.bind(py)))
    }

    /// An engine that reads its chunks to the end.
    pub(crate) fn reading(options: Options, source: &Bound<'_, PyAny>) -> PyResult<Self> {
        let chunks = source.try_iter().map_err(|_| {
            let text = "chunks must be an iterable of bytes, such as those of a connection; to read a \
                        file, use walrow.read";
            options::wrong_type(source, text)
        })?;
        let chunks = chunks.unbind();
        Ok(Self {
            steps: VecDeque::from([Step::Chunks(chunks), Step::Finish]),
            source: Some(source.clone().unbind()),
            undecided: Some(options.builder.clone()),
            ..Self::new(Framing::Wire, options.decoder()?)
        })
    }

    /// Takes the framing that the source found.
    fn decide(&mut self, py: Python<'_>, builder: DecoderBuilder) -> PyResult<()> {
        let Some(source) = &self.source else {
            return Ok(());
        };
        let framing = options::framing_of(source.bind(py))?;
        if framing == self.framing {
            return Ok(());
        }
        self.framing = framing;
        let decoder = builder.with_framing(self.framing).build();
        self.decoder = decoder.map_err(|error| errors::raise(&error))?;
        Ok(())
    }

    /// Visits the Python objects that the engine refers to, for the garbage collector.
    pub(crate) fn traverse(&self, visit: &PyVisit<'_>) -> Result<(), PyTraverseError> {
        visit.call(&self.source)?;
        if let Some(Failure::Python(error)) = &self.failure {
            visit.call(error)?;
        }
        for step in &self.steps {
            match step {
                Step::Chunks(chunks) => visit.call(chunks)?,
                Step::Raise(error) => visit.call(error)?,
                Step::Block(..) | Step::Flush | Step::Finish | Step::NewSession => {}
            }
        }
        Ok(())
    }

    /// Drops these objects: no caller can reach the engine.
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.source = None;
        self.failure = None;
    }

    /// Queues a block, or an iterable of chunks.
    pub(crate) fn feed(&mut self, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let one = data.is_instance_of::<LogBlock>()
            || buffer(data)?.is_some()
            || self.framing == Framing::Message && is_row(data)?;
        let step = if !one {
            let chunks = data.try_iter().map_err(|_| not_bytes(data))?;
            if data.is_instance_of::<PyString>() {
                return Err(not_bytes(data));
            }
            Step::Chunks(chunks.unbind())
        } else if !self.framing.is_chunked() {
            block(data)?
        } else {
            let mut frames = Vec::new();
            append(self.framing, data, &mut frames)?;
            Step::Block(Bytes::Own(frames), 0)
        };
        self.push(step);
        Ok(())
    }

    pub(crate) fn flush(&mut self) {
        self.push(Step::Flush);
    }

    pub(crate) fn finish(&mut self) {
        self.push(Step::Finish);
    }

    pub(crate) fn new_session(&mut self) {
        self.push(Step::NewSession);
    }

    fn push(&mut self, step: Step) {
        if self.failure.is_none() {
            self.steps.push_back(step);
        }
    }

    /// Ends the engine: drops the queue, and makes later calls raise `refusal`. Returns the source,
    /// which the caller must close.
    pub(crate) fn close(&mut self, py: Python<'_>, refusal: PyErr) -> Option<Py<PyAny>> {
        self.steps.clear();
        let refusal = Failure::Python(refusal.into_value(py));
        self.failure.get_or_insert(refusal);
        self.size = self.size(py);
        self.source.take()
    }

    /// Whether a call found no more batches.
    pub(crate) const fn is_exhausted(&self) -> bool {
        self.exhausted
    }

    /// Whether the queue is empty.
    pub(crate) fn is_idle(&self) -> bool {
        self.steps.is_empty()
    }

    /// Takes the next batch of the queued steps.
    ///
    /// Attaches to the interpreter only to get another chunk, to check signals, and for a failure.
    /// Returns an error after the batches before it.
    pub(crate) fn next(&mut self) -> Result<Option<Batch>, Failure> {
        loop {
            match self.decoder.next_batch() {
                Ok(Some(batch)) => {
                    self.counts.add(&batch);
                    self.returned.add(&batch);
                    return Ok(Some(batch));
                }
                Ok(None) => {}
                Err(error) if self.failure.is_none() => self.fail(Failure::Walrow(error)),
                // Keep the first failure.
                Err(_) => {}
            }
            if !self.advance()? {
                self.exhausted = true;
                return Ok(None);
            }
        }
    }

    /// Does a part of the next step. Returns false if the queue is empty. Takes no batch.
    pub(crate) fn advance(&mut self) -> Result<bool, Failure> {
        if let Some(failure) = &self.failure {
            let failure = failure.repeat();
            self.close_source();
            return Err(failure);
        }
        let result = match self.steps.front_mut() {
            None => return Ok(false),
            Some(Step::Block(bytes, at)) => {
                let rest = bytes.get().get(*at..).unwrap_or_default();
                let slice = rest.get(..SLICE).unwrap_or(rest);
                match self.decoder.decode(slice) {
                    Ok(consumed) => {
                        *at = at.saturating_add(consumed);
                        // A transaction whose bytes were all taken may contain more batches.
                        if slice.is_empty() && self.decoder.wants_input() {
                            self.steps.pop_front();
                        } else if !self.decoder.has_batch() {
                            signals::check().map_err(Failure::python)?;
                        }
                        Ok(())
                    }
                    Err(error) => Err(error),
                }
            }
            Some(Step::Chunks(_)) => {
                return match Python::try_attach(|py| self.fetch(py)) {
                    Some(Ok(())) => Ok(true),
                    Some(Err(error)) => Err(Failure::python(error)),
                    None => Err(Failure::Shutdown),
                };
            }
            Some(Step::Raise(_)) => return self.raise().map(|()| true),
            Some(Step::Flush) => {
                self.steps.pop_front();
                self.decoder.flush()
            }
            Some(Step::Finish) => {
                self.steps.pop_front();
                self.decoder.finish()
            }
            Some(Step::NewSession) => {
                self.steps.pop_front();
                self.decoder.new_session();
                Ok(())
            }
        };
        if let Err(error) = result {
            // It is raised after the batches that are ready.
            self.fail(Failure::Walrow(error));
        }
        Ok(true)
    }

    /// Closes the source early: a file need not wait for the garbage collector.
    #[cold]
    fn close_source(&mut self) {
        let Some(source) = self.source.take() else {
            return;
        };
        Python::try_attach(|py| {
            self.size = Size::of(source.bind(py));
            let place = source.bind(py).getattr_opt("place").ok().flatten();
            self.place = place.and_then(|place| place.extract().ok());
            // The caller gets the earlier failure instead.
            let _ = source.call_method0(py, "close");
        });
    }

    /// Names the file in walrow's errors. Those of the source name it themselves.
    #[cold]
    pub(crate) fn explain(&self, py: Python<'_>, failure: Failure) -> PyErr {
        let place = match failure {
            Failure::Walrow(_) => self.place.as_deref(),
            Failure::Python(_) | Failure::Shutdown => None,
        };
        let error = PyErr::from(failure);
        if let Some(place) = place {
            // Without the note, the error is still the right one.
            let _ = error
                .value(py)
                .call_method1("add_note", (format!("walrow: {place}"),));
        }
        error
    }

    fn fail(&mut self, failure: Failure) {
        self.steps.clear();
        self.failure = Some(failure);
    }

    #[cold]
    fn raise(&mut self) -> Result<(), Failure> {
        let Some(Step::Raise(error)) = self.steps.pop_front() else {
            return Ok(());
        };
        if self.source.is_none() {
            return Err(Failure::Python(error));
        }
        // Return the complete rows first. An error in them would only be the second one.
        let _ = self.decoder.flush();
        self.fail(Failure::Python(error));
        Ok(())
    }

    /// Takes chunks from the iterator that is the next step, and queues them before it.
    ///
    /// # Errors
    /// The exception of Ctrl-C. An iterator may return chunks forever without a batch and without
    /// running Python code, so signals are checked here.
    fn fetch(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.decoder.is_past_end() {
            self.steps.pop_front();
            return Ok(());
        }
        let Some(Step::Chunks(chunks)) = self.steps.pop_front() else {
            return Ok(());
        };
        let mut iterator = chunks.bind(py).clone();
        let mut frames = Vec::new();
        let mut last = None;
        let mut interrupted;
        let raise = |error: PyErr| Step::Raise(error.into_value(py));
        loop {
            interrupted = py.check_signals();
            if interrupted.is_err() {
                last = Some(Step::Chunks(chunks));
                break;
            }
            let chunk = iterator.next();
            if chunk.as_ref().is_some_and(Result::is_ok)
                && let Some(builder) = self.undecided.take()
                && let Err(error) = self.decide(py, builder)
            {
                last = Some(raise(error));
                break;
            }
            match chunk {
                None => break,
                Some(Err(error)) => {
                    last = Some(raise(error));
                    break;
                }
                Some(Ok(chunk)) if !self.framing.is_chunked() => {
                    match block(&chunk) {
                        Ok(block) => {
                            self.steps.push_front(Step::Chunks(chunks));
                            // A live source that has nothing now: its rows must not wait.
                            let is_empty =
                                matches!(&block, Step::Block(bytes, _) if bytes.get().is_empty());
                            self.steps
                                .push_front(if is_empty { Step::Flush } else { block });
                        }
                        Err(error) => self.steps.push_front(raise(error)),
                    }
                    return Ok(());
                }
                Some(Ok(chunk)) => {
                    if let Err(error) = append(self.framing, &chunk, &mut frames) {
                        last = Some(raise(error));
                        break;
                    }
                    if frames.len() >= JOINED {
                        last = Some(Step::Chunks(chunks));
                        break;
                    }
                }
            }
        }
        if let Some(step) = last {
            self.steps.push_front(step);
        }
        if !frames.is_empty() {
            self.steps.push_front(Step::Block(Bytes::Own(frames), 0));
        }
        interrupted
    }
}

impl Returned {
    fn add(&mut self, batch: &Batch) {
        let rows = u64::try_from(batch.record_batch().num_rows()).unwrap_or(u64::MAX);
        self.batches = self.batches.saturating_add(1);
        self.rows = self.rows.saturating_add(rows);
    }
}

/// Locks an object that one thread at a time may use. Fails instead of waiting for another thread.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    mutex.try_lock().map_err(|error| {
        PyRuntimeError::new_err(match error {
            TryLockError::WouldBlock => "already in use by another thread",
            TryLockError::Poisoned(_) => UNUSABLE,
        })
    })
}

/// Locks an object that several threads may use. Waits for another thread, and looks for signals.
pub(crate) fn wait_for<T>(mutex: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    loop {
        match mutex.try_lock() {
            Ok(guard) => return Ok(guard),
            Err(TryLockError::Poisoned(_)) => return Err(PyRuntimeError::new_err(UNUSABLE)),
            Err(TryLockError::WouldBlock) => {
                signals::check()?;
                // The other thread may need the interpreter to end its work.
                Python::attach(|py| py.detach(|| std::thread::sleep(PAUSE)));
            }
        }
    }
}

const UNUSABLE: &str = "unusable after an internal error";
/// Between two looks at a lock.
const PAUSE: Duration = Duration::from_millis(1);

/// The open transactions as dictionaries.
pub(crate) fn open_transactions<'py>(
    py: Python<'py>,
    decoder: &Decoder,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let open = decoder.open_transactions().map(|transaction| {
        let dict = PyDict::new(py);
        dict.set_item("xid", transaction.xid)?;
        dict.set_item("gid", transaction.gid)?;
        Ok(dict)
    });
    open.collect()
}

/// The unknown types, as a list of `walrow.typing.UnresolvedType`.
pub(crate) fn unresolved_types<'py>(
    py: Python<'py>,
    decoder: &Decoder,
) -> PyResult<Vec<Bound<'py, PyAny>>> {
    let class = py.import("walrow._unresolved")?.getattr("UnresolvedType")?;
    let types = decoder.unresolved_types();
    let types = types.map(|it| class.call1((&it.table, &it.column, it.type_oid)));
    types.collect()
}

fn block(chunk: &Bound<'_, PyAny>) -> PyResult<Step> {
    Ok(Step::Block(bytes(chunk)?, 0))
}

/// The bytes of a chunk, where they are if nobody can change them.
pub(crate) fn bytes(chunk: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(block) = chunk.cast::<LogBlock>() {
        return Ok(Bytes::Log(Arc::clone(&block.get().0)));
    }
    let bytes = buffer(chunk)?.ok_or_else(|| not_bytes(chunk))?;
    Ok(Bytes::Python(bytes.into()))
}

/// The object's bytes: `bytes` without a copy, and other buffers, which may change, as a copy.
pub(crate) fn buffer<'py>(data: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    if let Ok(bytes) = data.cast::<PyBytes>() {
        return Ok(Some(bytes.clone()));
    }
    match PyMemoryView::from(data) {
        Ok(view) => Ok(Some(view.call_method0("tobytes")?.cast_into()?)),
        Err(error) if error.is_instance_of::<PyTypeError>(data.py()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Appends a chunk as wire frames, or a block as it is.
pub(crate) fn append(
    framing: Framing,
    chunk: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    if let Some(bytes) = buffer(chunk)? {
        framing.append(bytes.as_bytes(), Lsn::INVALID, out);
        return Ok(());
    }
    if framing != Framing::Message {
        return Err(not_bytes(chunk));
    }
    let (lsn, data) = row(chunk)?;
    let lsn = lsn.map_or(Ok(Lsn::INVALID), |lsn| row_lsn(&lsn))?;
    let bytes = buffer(&data)?.ok_or_else(|| not_bytes(&data))?;
    framing.append(bytes.as_bytes(), lsn, out);
    Ok(())
}

/// Whether it is a row of `pg_logical_slot_get_binary_changes`, not an iterable of chunks.
fn is_row(data: &Bound<'_, PyAny>) -> PyResult<bool> {
    if let Ok(tuple) = data.cast::<PyTuple>() {
        return Ok(tuple.len() == 3 && buffer(&tuple.get_item(0)?)?.is_none());
    }
    data.hasattr("keys")
}

/// LSN and message of a row of `pg_logical_slot_get_binary_changes`: `lsn`, `xid`, `data`, by
/// position or by name; or only `data`. Drivers have many classes of rows.
fn row<'py>(row: &Bound<'py, PyAny>) -> PyResult<(Option<Bound<'py, PyAny>>, Bound<'py, PyAny>)> {
    if let Ok(tuple) = row.cast::<PyTuple>() {
        // The usual rows, without the cost of the general way.
        return match tuple.len() {
            3 => Ok((Some(tuple.get_item(0)?), tuple.get_item(2)?)),
            1 => Ok((None, tuple.get_item(0)?)),
            _ => Err(no_row()),
        };
    }
    if row.hasattr("keys")? {
        let data = row.get_item("data").map_err(|_| no_row())?;
        return Ok((row.get_item("lsn").ok(), data));
    }
    if row.is_instance_of::<PyString>() || !row.hasattr("__getitem__")? {
        return Err(not_bytes(row));
    }
    match row.len() {
        Ok(3) => Ok((Some(row.get_item(0)?), row.get_item(2)?)),
        Ok(1) => Ok((None, row.get_item(0)?)),
        _ => Err(no_row()),
    }
}

/// The LSN of a row. As binary, it is bytes: drivers have no class for it.
fn row_lsn(lsn: &Bound<'_, PyAny>) -> PyResult<Lsn> {
    if let Some(bytes) = buffer(lsn)?
        && let Ok(bytes) = bytes.as_bytes().try_into()
    {
        return Ok(Lsn(u64::from_be_bytes(bytes)));
    }
    read_lsn(lsn, "lsn")
}

fn no_row() -> PyErr {
    PyTypeError::new_err(
        "a row must have the columns of pg_logical_slot_get_binary_changes: lsn, xid, data; or only \
         data",
    )
}

pub(crate) fn not_bytes(data: &Bound<'_, PyAny>) -> PyErr {
    let name = data.get_type().name();
    let name = name.map_or_else(|_| "?".to_owned(), |name| name.to_string());
    let hint = if name == "str" {
        "; open files in binary mode"
    } else {
        ""
    };
    PyTypeError::new_err(format!("expected bytes-like chunks, not {name}{hint}"))
}
