//! Frames and their messages, one by one.

use crate::engine::{append, lock};
use crate::errors;
use crate::lsn;
use crate::options;
use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::gc::{PyTraverseError, PyVisit};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyIterator, PyList, PyString};
use std::sync::Mutex;
use walrow::stream::{self, Walk};
use walrow::wire::{
    self, BackendMessage, Cell, Columns, CopyData, OldTuple, PgString, Tuple, XLogData,
};
use walrow::{Framing, Lsn};

/// Iterates over the frames of a stream; `walrow.frames` returns it.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Frames(Mutex<State>);

struct State {
    framing: Framing,
    /// The source, if it knows the framing after its first chunk.
    undecided: Option<Py<PyAny>>,
    chunks: Option<Py<PyIterator>>,
    /// The current chunk. The walk has taken the bytes before `at`.
    buffer: Vec<u8>,
    at: usize,
    walk: Walk,
    ignores_unfinished: bool,
}

#[pymethods]
impl Frames {
    #[new]
    #[pyo3(signature = (chunks, /, framing = None, unfinished = "error"))]
    fn new(chunks: &Bound<'_, PyAny>, framing: Option<&str>, unfinished: &str) -> PyResult<Self> {
        let undecided = framing.is_none().then(|| chunks.clone().unbind());
        let framing = framing.map_or(Ok(Framing::Wire), |it| options::framing(chunks.py(), it))?;
        Ok(Self(Mutex::new(State {
            framing,
            undecided,
            chunks: Some(chunks.try_iter()?.unbind()),
            buffer: Vec::new(),
            at: 0,
            walk: Walk::new(framing),
            ignores_unfinished: options::ignored(chunks.py(), "unfinished", unfinished)?,
        })))
    }

    fn __traverse__(&self, visit: PyVisit<'_>) -> Result<(), PyTraverseError> {
        match self.0.try_lock() {
            Ok(state) => {
                visit.call(&state.undecided)?;
                visit.call(&state.chunks)
            }
            Err(_) => Ok(()),
        }
    }

    fn __clear__(&self) {
        if let Ok(mut state) = self.0.try_lock() {
            state.undecided = None;
            state.chunks = None;
        }
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> PyResult<Option<Frame>> {
        lock(&self.0)?.next(py)
    }

    /// Whether the source so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        let state = lock(&self.0)?;
        Ok(state.at < state.buffer.len() || state.walk.is_mid_transaction())
    }

    /// The SQLSTATE of the server error that ended the stream.
    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        Ok(lock(&self.0)?.walk.server_error().map(str::to_owned))
    }
}

impl State {
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Frame>> {
        loop {
            match self.frame() {
                Ok(Some(frame)) => return Ok(Some(frame)),
                Ok(None) => {
                    if !self.fetch(py)? {
                        return self.end(py).map(|()| None);
                    }
                }
                Err(error) => return Err(errors::raise(&error.into())),
            }
        }
    }

    /// Ends the stream. Later calls repeat the error.
    ///
    /// A transaction without its end, and an error of the server, are no errors here: the frames
    /// show them, and none is missing.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        if self.walk.is_cut() && !self.ignores_unfinished {
            return Err(errors::cut_frame(py, self.walk.offset()));
        }
        Ok(())
    }

    fn fetch(&mut self, py: Python<'_>) -> PyResult<bool> {
        let Some(chunks) = &self.chunks else {
            return Ok(false);
        };
        // An iterator may return empty chunks forever without running Python code.
        py.check_signals()?;
        let mut chunks = chunks.bind(py).clone();
        match chunks.next().transpose()? {
            None => {
                self.chunks = None;
                Ok(false)
            }
            Some(chunk) => {
                if let Some(source) = self.undecided.take() {
                    self.framing = options::framing_of(source.bind(py))?;
                    self.walk = Walk::new(self.framing);
                }
                self.buffer.clear();
                self.at = 0;
                append(self.framing, &chunk, &mut self.buffer)?;
                Ok(true)
            }
        }
    }

    /// Takes the next complete frame, with its contents parsed.
    fn frame(&mut self) -> Result<Option<Frame>, stream::Error> {
        let mut rest = self.buffer.get(self.at..).unwrap_or_default();
        let step = self.walk.next(&mut rest)?;
        self.at = self.buffer.len().saturating_sub(rest.len());
        Ok(step.map(|step| Frame {
            bytes: step.bytes.into(),
            framing: self.framing,
            offset: step.offset,
            in_stream: step.block.is_some(),
            has_message: step.message.is_some(),
        }))
    }
}

/// One message of the server, or the payload of a CopyData message.
#[pyclass(frozen, module = "walrow.typing")]
pub(crate) struct Frame {
    /// The wire frame, including its header.
    bytes: Box<[u8]>,
    framing: Framing,
    offset: u64,
    in_stream: bool,
    has_message: bool,
}

impl Frame {
    /// Parses the frame. It was parsed before it was returned, so this does not fail.
    fn parse(&self) -> PyResult<BackendMessage<'_>> {
        let (frame, _) = wire::Frame::parse(&self.bytes)
            .map_err(|error| internal(&error))?
            .ok_or_else(|| PyRuntimeError::new_err("internal error: a frame is cut"))?;
        BackendMessage::parse(frame).map_err(|error| internal(&error))
    }

    fn pgoutput(&self) -> PyResult<Option<wire::Message<'_>>> {
        match self.parse()? {
            BackendMessage::CopyData(CopyData::XLogData(data)) if self.has_message => {
                let message = data.message(self.in_stream);
                message.map(Some).map_err(|error| internal(&error))
            }
            _ => Ok(None),
        }
    }
}

#[pymethods]
impl Frame {
    /// `w` or `k` for CopyData, otherwise the letter of the message's type.
    #[getter]
    fn kind(&self) -> PyResult<char> {
        Ok(char::from(self.parse()?.kind()))
    }

    /// `XLogData`, `PrimaryKeepalive`, `CopyBothResponse`, ....
    #[getter]
    fn name(&self) -> PyResult<&'static str> {
        Ok(self.parse()?.name())
    }

    /// The offset in the stream, in bytes.
    #[getter]
    const fn offset(&self) -> u64 {
        self.offset
    }

    /// The size in bytes.
    #[getter]
    fn size(&self) -> usize {
        self.framing.fed(self.bytes.len())
    }

    /// The pgoutput message in an XLogData frame, otherwise None.
    #[getter]
    fn message(slf: Bound<'_, Self>) -> PyResult<Option<Message>> {
        let has_one = slf.get().pgoutput()?.is_some();
        Ok(has_one.then(|| Message(slf.unbind())))
    }

    /// The frame's fields. LSNs are `Lsn`, clocks are microseconds since 2000.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        backend_fields(&fields, &self.parse()?)?;
        Ok(fields)
    }

    /// Encodes the parsed frame: exactly the original bytes.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::with_capacity(self.bytes.len());
        match (self.parse()?, self.pgoutput()?) {
            (BackendMessage::CopyData(CopyData::XLogData(data)), Some(parsed)) => {
                let mut message = Vec::with_capacity(data.message.len());
                parsed.encode(&mut message);
                let message = &message;
                let data = XLogData { message, ..data };
                BackendMessage::CopyData(CopyData::XLogData(data)).encode(&mut out);
            }
            (other, _) => other.encode(&mut out),
        }
        if self.framing == Framing::Recvlogical {
            out.push(b'\n');
        }
        let own = out.get(self.framing.header()..).unwrap_or_default();
        Ok(PyBytes::new(py, own))
    }

    fn __repr__(&self) -> PyResult<String> {
        let name = self.name()?;
        let message = self.pgoutput()?;
        let message = message.map_or(String::new(), |message| format!(" {}", message.name()));
        Ok(format!(
            "<walrow.typing.Frame {name}{message} at {}>",
            self.offset
        ))
    }
}

/// A pgoutput message. Its fields are attributes, except `name` and `kind`.
#[pyclass(frozen, module = "walrow.typing")]
pub(crate) struct Message(Py<Frame>);

impl Message {
    fn parse(&self) -> PyResult<wire::Message<'_>> {
        let message = self.0.get().pgoutput()?;
        message.ok_or_else(|| PyRuntimeError::new_err("internal error: no message in the frame"))
    }
}

#[pymethods]
impl Message {
    /// The letter of the message: `I`.
    #[getter]
    fn kind(&self) -> PyResult<char> {
        Ok(char::from(self.parse()?.kind().byte()))
    }

    /// The message's name in the manual: `Insert`. A relation's name is in `fields`.
    #[getter]
    fn name(&self) -> PyResult<&'static str> {
        Ok(self.parse()?.name())
    }

    /// The fields in the manual. LSNs are `Lsn`, times are microseconds since 2000.
    ///
    /// Rows (`key`, `old`, `new`) are lists with one value per column: None for NULL,
    /// `UNCHANGED` for a value that was not sent, a string (or bytes, if not UTF-8) for
    /// a text value, and bytes for a binary value.
    #[getter]
    fn fields<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let fields = PyDict::new(py);
        message_fields(&fields, &self.parse()?)?;
        Ok(fields)
    }

    fn __getattr__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.fields(py)?.get_item(name)?.ok_or_else(|| {
            let kind = self.name().unwrap_or("message");
            PyAttributeError::new_err(format!("{kind} has no field {name:?}"))
        })
    }

    fn __dir__(slf: &Bound<'_, Self>) -> PyResult<Py<PyList>> {
        let py = slf.py();
        let names = py
            .get_type::<PyAny>()
            .call_method1("__dir__", (slf,))?
            .cast_into::<PyList>()?;
        for name in slf.get().fields(py)?.keys() {
            names.append(name)?;
        }
        for name in ["kind", "name", "fields"] {
            names.append(name)?;
        }
        Ok(names.unbind())
    }

    fn __repr__(&self) -> PyResult<String> {
        Ok(format!("<walrow.typing.Message {}>", self.name()?))
    }
}

/// The type of `UNCHANGED`: a value that was not sent because it is unchanged.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Unchanged;

#[pymethods]
impl Unchanged {
    #[expect(clippy::unused_self, reason = "Python calls it on the object")]
    const fn __repr__(&self) -> &'static str {
        "UNCHANGED"
    }

    #[expect(clippy::unused_self, reason = "Python calls it on the object")]
    const fn __reduce__(&self) -> &'static str {
        "UNCHANGED"
    }
}

/// The only instance of [`Unchanged`].
pub(crate) fn unchanged(py: Python<'_>) -> PyResult<Py<Unchanged>> {
    static ONE: PyOnceLock<Py<Unchanged>> = PyOnceLock::new();
    let one = ONE.get_or_try_init(py, || Py::new(py, Unchanged))?;
    Ok(one.clone_ref(py))
}

#[cold]
fn internal(error: &wire::Error) -> PyErr {
    PyRuntimeError::new_err(format!("internal error: {error}"))
}

fn backend_fields(fields: &Bound<'_, PyDict>, message: &BackendMessage<'_>) -> PyResult<()> {
    let py = fields.py();
    match message {
        BackendMessage::CopyData(CopyData::XLogData(data)) => {
            fields.set_item("start", lsn::new(py, data.start)?)?;
            fields.set_item("end", lsn::new(py, data.end)?)?;
            fields.set_item("clock", data.clock.0)
        }
        BackendMessage::CopyData(CopyData::PrimaryKeepalive(keepalive)) => {
            fields.set_item("end", lsn::new(py, keepalive.end)?)?;
            fields.set_item("clock", keepalive.clock.0)?;
            fields.set_item("reply_requested", keepalive.reply_requested)
        }
        BackendMessage::CopyData(CopyData::StandbyStatusUpdate(update)) => {
            fields.set_item("write", lsn::new(py, update.write)?)?;
            fields.set_item("flush", lsn::new(py, update.flush)?)?;
            fields.set_item("apply", lsn::new(py, update.apply)?)?;
            fields.set_item("clock", update.clock.0)?;
            fields.set_item("reply_requested", update.reply_requested)
        }
        BackendMessage::CopyData(CopyData::HotStandbyFeedback(feedback)) => {
            fields.set_item("clock", feedback.clock.0)?;
            fields.set_item("xmin", feedback.xmin)?;
            fields.set_item("xmin_epoch", feedback.xmin_epoch)?;
            fields.set_item("catalog_xmin", feedback.catalog_xmin)?;
            fields.set_item("catalog_xmin_epoch", feedback.catalog_xmin_epoch)
        }
        BackendMessage::Authentication(step) => {
            fields.set_item("request", step.request)?;
            fields.set_item("data", PyBytes::new(py, step.data))
        }
        BackendMessage::BackendKeyData(key) => {
            fields.set_item("process_id", key.process_id)?;
            fields.set_item("secret", PyBytes::new(py, key.secret))
        }
        BackendMessage::CopyBothResponse(response)
        | BackendMessage::CopyOutResponse(response)
        | BackendMessage::CopyInResponse(response) => {
            fields.set_item("format", response.format)?;
            fields.set_item("columns", response.columns().collect::<Vec<_>>())
        }
        BackendMessage::NoticeResponse(parts) | BackendMessage::ErrorResponse(parts) => {
            for (code, value) in parts.iter() {
                fields.set_item(char::from(code), text(py, value))?;
            }
            Ok(())
        }
        BackendMessage::ParameterStatus(status) => {
            fields.set_item("name", text(py, status.name))?;
            fields.set_item("value", text(py, status.value))
        }
        BackendMessage::NotificationResponse(notification) => {
            fields.set_item("process_id", notification.process_id)?;
            fields.set_item("channel", text(py, notification.channel))?;
            fields.set_item("payload", text(py, notification.payload))
        }
        BackendMessage::CommandComplete(tag) => fields.set_item("command_tag", text(py, *tag)),
        BackendMessage::ReadyForQuery(status) => {
            fields.set_item("transaction_status", char::from(*status))
        }
        BackendMessage::RowDescription(description) => {
            let list = PyList::empty(py);
            for field in description.fields() {
                let entry = PyDict::new(py);
                entry.set_item("name", text(py, field.name))?;
                entry.set_item("table", field.table)?;
                entry.set_item("attribute", field.attribute)?;
                entry.set_item("type_oid", field.type_oid)?;
                entry.set_item("type_size", field.type_size)?;
                entry.set_item("type_modifier", field.type_modifier)?;
                entry.set_item("format", field.format)?;
                list.append(entry)?;
            }
            fields.set_item("fields", list)
        }
        BackendMessage::DataRow(row) => {
            let list = PyList::empty(py);
            for value in row.values() {
                list.append(value.map(|bytes| text(py, PgString(bytes))))?;
            }
            fields.set_item("values", list)
        }
        _ => Ok(()),
    }
}

fn message_fields(fields: &Bound<'_, PyDict>, message: &wire::Message<'_>) -> PyResult<()> {
    use wire::Message as M;
    let py = fields.py();
    let set = |name: &str, value: u64| fields.set_item(name, value);
    let lsn = |name: &str, value: Lsn| fields.set_item(name, lsn::new(py, value)?);
    let time = |name: &str, value: wire::Timestamp| fields.set_item(name, value.0);
    let string = |name: &str, value: PgString<'_>| fields.set_item(name, text(py, value));
    let xid = |value: Option<wire::Xid>| fields.set_item("xid", value);
    match message {
        M::Begin(m) => {
            lsn("final_lsn", m.final_lsn)?;
            time("commit_time", m.commit_time)?;
            set("xid", m.xid.into())
        }
        M::Commit(m) => {
            lsn("commit_lsn", m.commit_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("commit_time", m.commit_time)
        }
        M::Origin(m) => {
            lsn("commit_lsn", m.commit_lsn)?;
            string("name", m.name)
        }
        M::Relation(m) => {
            xid(m.xid)?;
            set("oid", m.oid.into())?;
            string("namespace", m.namespace)?;
            string("name", m.name)?;
            fields.set_item("replica_identity", m.replica_identity.name())?;
            fields.set_item("columns", columns(py, m.columns)?)
        }
        M::Type(m) => {
            xid(m.xid)?;
            set("oid", m.oid.into())?;
            string("namespace", m.namespace)?;
            string("name", m.name)
        }
        M::Insert(m) => {
            xid(m.xid)?;
            set("relation", m.relation.into())?;
            fields.set_item("new", row(py, m.new)?)
        }
        M::Update(m) => {
            xid(m.xid)?;
            set("relation", m.relation.into())?;
            old(fields, m.old)?;
            fields.set_item("new", row(py, m.new)?)
        }
        M::Delete(m) => {
            xid(m.xid)?;
            set("relation", m.relation.into())?;
            old(fields, Some(m.old))
        }
        M::Truncate(m) => {
            xid(m.xid)?;
            set("options", m.options.into())?;
            fields.set_item("relations", m.relations().collect::<Vec<_>>())
        }
        M::Message(m) => {
            xid(m.xid)?;
            fields.set_item("transactional", m.transactional)?;
            lsn("lsn", m.lsn)?;
            string("prefix", m.prefix)?;
            fields.set_item("content", PyBytes::new(py, m.content))
        }
        M::StreamStart(m) => {
            set("xid", m.xid.into())?;
            fields.set_item("first", m.first)
        }
        M::StreamStop => Ok(()),
        M::StreamCommit(m) => {
            set("xid", m.xid.into())?;
            lsn("commit_lsn", m.commit_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("commit_time", m.commit_time)
        }
        M::StreamAbort(m) => {
            set("xid", m.xid.into())?;
            set("subxid", m.subxid.into())?;
            let abort_lsn = m.abort.map(|abort| lsn::new(py, abort.lsn)).transpose()?;
            fields.set_item("abort_lsn", abort_lsn)?;
            fields.set_item("abort_time", m.abort.map(|abort| abort.time.0))
        }
        M::BeginPrepare(m) => {
            lsn("prepare_lsn", m.prepare_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("prepare_time", m.prepare_time)?;
            set("xid", m.xid.into())?;
            string("gid", m.gid)
        }
        M::Prepare(m) => {
            lsn("prepare_lsn", m.prepare_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("prepare_time", m.prepare_time)?;
            set("xid", m.xid.into())?;
            string("gid", m.gid)
        }
        M::CommitPrepared(m) => {
            lsn("commit_lsn", m.commit_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("commit_time", m.commit_time)?;
            set("xid", m.xid.into())?;
            string("gid", m.gid)
        }
        M::RollbackPrepared(m) => {
            lsn("prepare_end_lsn", m.prepare_end_lsn)?;
            lsn("rollback_end_lsn", m.rollback_end_lsn)?;
            time("prepare_time", m.prepare_time)?;
            time("rollback_time", m.rollback_time)?;
            set("xid", m.xid.into())?;
            string("gid", m.gid)
        }
        M::StreamPrepare(m) => {
            lsn("prepare_lsn", m.prepare_lsn)?;
            lsn("end_lsn", m.end_lsn)?;
            time("prepare_time", m.prepare_time)?;
            set("xid", m.xid.into())?;
            string("gid", m.gid)
        }
    }
}

fn columns<'py>(py: Python<'py>, columns: Columns<'_>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for column in columns.iter() {
        let entry = PyDict::new(py);
        entry.set_item("flags", column.flags)?;
        entry.set_item("name", text(py, column.name))?;
        entry.set_item("type_oid", column.type_oid)?;
        entry.set_item("type_modifier", column.type_modifier)?;
        list.append(entry)?;
    }
    Ok(list)
}

/// Sets `key` to the key of the old row, or `old` to the whole old row. The other one is None.
fn old(fields: &Bound<'_, PyDict>, old: Option<OldTuple<'_>>) -> PyResult<()> {
    let py = fields.py();
    let (mut key, mut full) = (None, None);
    match old {
        Some(OldTuple::Key(tuple)) => key = Some(row(py, tuple)?),
        Some(old) => full = Some(row(py, old.tuple())?),
        None => {}
    }
    fields.set_item("key", key)?;
    fields.set_item("old", full)
}

fn row<'py>(py: Python<'py>, tuple: Tuple<'_>) -> PyResult<Bound<'py, PyList>> {
    let list = PyList::empty(py);
    for cell in tuple.cells() {
        match cell {
            Cell::Null => list.append(py.None())?,
            Cell::Unchanged => list.append(unchanged(py)?)?,
            Cell::Text(bytes) => list.append(text(py, PgString(bytes)))?,
            Cell::Binary(bytes) => list.append(PyBytes::new(py, bytes))?,
        }
    }
    Ok(list)
}

/// A string, or bytes if it is not UTF-8.
fn text<'py>(py: Python<'py>, string: PgString<'_>) -> Bound<'py, PyAny> {
    match string.to_str() {
        Ok(text) => PyString::new(py, text).into_any(),
        Err(_) => PyBytes::new(py, string.0).into_any(),
    }
}
