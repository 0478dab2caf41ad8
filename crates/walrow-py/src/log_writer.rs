//! The writer of a log, for the receiver and for `seal`.

use crate::catalog::Catalog;
use crate::detached::Detached;
use crate::engine::{append, lock};
use crate::errors::{self, Fail};
use crate::log::source;
use crate::log_load::{LogLoad, relations};
use crate::lsn;
use crate::options::{framing, read_lsn};
use crate::signals;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use walrow::FileSpool;
use walrow::Framing;
use walrow::Lsn;
use walrow::log::{Confirmable, Directory, Error, RepeatedBy, Writer, WriterOptions};
use walrow::stream::Assembler;
use walrow::stream::fact::{PreparedBefore, Taken};
use walrow::wire::Timestamp;

/// The one writer of a log. It is for one thread at a time.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogWriter(Mutex<State>);

struct State {
    /// `None` after `close`. Its end waits for the thread that compresses a segment.
    writer: Option<Detached<Writer>>,
    assembler: Detached<Assembler>,
    framing: Framing,
    /// Bytes that a failure of the store has left.
    rest: Vec<u8>,
    spool_memory: usize,
    spool_directory: Option<PathBuf>,
    /// The relation versions that `new_relations` has returned.
    seen: HashSet<(u32, u32)>,
}

impl State {
    fn assembler(&self) -> Assembler {
        let spool = match &self.spool_directory {
            None => FileSpool::default(),
            Some(directory) => FileSpool::new(directory.clone()),
        };
        Assembler::new(self.framing)
            .with_spool_memory(self.spool_memory)
            .with_spool(Arc::new(spool))
    }

    fn parts(&mut self) -> PyResult<(&mut Writer, &mut Assembler)> {
        match &mut self.writer {
            Some(writer) => Ok((&mut **writer, &mut *self.assembler)),
            None => Err(closed()),
        }
    }

    fn writer(&self) -> PyResult<&Writer> {
        self.writer.as_deref().ok_or_else(closed)
    }

    fn begin(&mut self) -> Result<(), Error> {
        let assembler = self.assembler();
        if let Some(writer) = &mut self.writer {
            self.assembler = Detached::new(writer.resume(assembler)?);
            self.seen.clear();
            self.rest.clear();
        }
        Ok(())
    }
}

fn closed() -> PyErr {
    pyo3::exceptions::PyValueError::new_err("the log's writer is closed")
}

#[pymethods]
impl LogWriter {
    #[new]
    #[pyo3(signature = (path, *, segment_bytes, spool_memory, level=1, framing="wire",
        system_identifier=None, database=None, slot=None, session=None, spool_directory=None,
        group_access=false, syncs=true, captures=false))]
    #[expect(
        clippy::too_many_arguments,
        clippy::needless_pass_by_value,
        reason = "they are keywords in Python"
    )]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        segment_bytes: u64,
        spool_memory: usize,
        level: Option<i32>,
        framing: &str,
        system_identifier: Option<String>,
        database: Option<String>,
        slot: Option<String>,
        session: Option<BTreeMap<String, String>>,
        spool_directory: Option<PathBuf>,
        group_access: bool,
        syncs: bool,
        captures: bool,
    ) -> PyResult<Self> {
        let framing = self::framing(py, framing)?;
        let mut options = WriterOptions::default();
        options.source.system_identifier = system_identifier;
        options.source.database = database;
        options.source.slot = slot;
        options.source.session = session.unwrap_or_default();
        (options.segment_bytes, options.level, options.syncs) = (segment_bytes, level, syncs);
        if captures {
            options.repeats = RepeatedBy::Captures;
        }
        let opened = py.detach(|| {
            let directory = Directory::create_for(&path, group_access)?;
            let directory = directory.with_pause(signals::pause);
            let writer = Writer::open(Arc::new(directory), options).map_err(Fail::Log)?;
            let mut state = State {
                writer: Some(Detached::new(writer)),
                assembler: Detached::new(Assembler::default()),
                framing,
                rest: Vec::new(),
                spool_memory,
                spool_directory,
                seen: HashSet::new(),
            };
            state.begin().map_err(Fail::Log)?;
            Ok(state)
        });
        let state = opened.map_err(|error: Fail| error.raise(py, &path))?;
        Ok(Self(Mutex::new(state)))
    }

    /// Begins a session of the server, at `position`.
    fn new_session(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let state = &mut *state;
        py.detach(|| state.begin())
            .map_err(|error| errors::log_error(py, error))
    }

    /// Publishes a gap from the log's end to this LSN, and begins a session there.
    fn cross_gap(&self, py: Python<'_>, end: &Bound<'_, PyAny>, reason: &str) -> PyResult<()> {
        let end = read_lsn(end, "end")?;
        let mut state = lock(&self.0)?;
        let state = &mut *state;
        py.detach(|| {
            if let Some(writer) = &mut state.writer {
                writer.cross_gap(end, reason)?;
            }
            state.begin()
        })
        .map_err(|error| errors::log_error(py, error))
    }

    /// Compares the server of the session with the log's.
    ///
    /// The log takes no changes until that server has sent everything up to `position`, and with
    /// `only`, no later changes, either. The server sends all changes after `confirmed`, or from
    /// `resent_from` on if that is later.
    #[pyo3(signature = (confirmed, *, only=false))]
    fn compare(&self, py: Python<'_>, confirmed: &Bound<'_, PyAny>, only: bool) -> PyResult<()> {
        let confirmed = read_lsn(confirmed, "confirmed")?;
        let compared = lock(&self.0)?.parts()?.0.compare(confirmed, only);
        compared.map_err(|error| errors::log_error(py, error))
    }

    /// As `compare`, for a server that was compared, and is asked for other things now.
    fn assume_compared(&self, py: Python<'_>) -> PyResult<()> {
        let compared = lock(&self.0)?.parts()?.0.assume_compared();
        compared.map_err(|error| errors::log_error(py, error))
    }

    /// Whether the server has sent everything up to `position`.
    #[getter]
    fn is_compared(&self, py: Python<'_>) -> PyResult<bool> {
        let is_compared = lock(&self.0)?.writer()?.is_compared();
        is_compared.map_err(|error| errors::log_error(py, error))
    }

    /// The last transaction or message that the log took.
    ///
    /// Its LSN, from where it is sent again, the ID of the last transaction, and whether that was
    /// prepared only.
    #[getter]
    #[expect(clippy::type_complexity, reason = "plain data for Python")]
    fn last<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>, Option<u32>, bool)>> {
        let state = lock(&self.0)?;
        let source = state.writer()?.source();
        let source = source.map_err(|error| errors::log_error(py, error))?;
        let Some(last) = &source.last else {
            return Ok(None);
        };
        Ok(Some((
            lsn::new(py, last.lsn())?,
            lsn::new(py, last.resent_from())?,
            last.xid(),
            matches!(last, Taken::Prepare { .. }),
        )))
    }

    /// Where the last gap ends. `None` without a gap.
    #[getter]
    fn gap_end<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let state = lock(&self.0)?;
        let source = state.writer()?.source();
        let source = source.map_err(|error| errors::log_error(py, error))?;
        source.gap_end.map(|end| lsn::new(py, end)).transpose()
    }

    /// The commit LSN of a transaction whose begin has come, and whose end has not.
    #[getter]
    fn open_commit<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = lock(&self.0)?.assembler.open_commit();
        found.map(|commit| lsn::new(py, commit)).transpose()
    }

    /// The options of the stream that the log was received with.
    #[getter]
    fn asked(&self, py: Python<'_>) -> PyResult<BTreeMap<String, String>> {
        let state = lock(&self.0)?;
        let source = state.writer()?.source();
        Ok(source
            .map_err(|error| errors::log_error(py, error))?
            .asked
            .clone())
    }

    /// Sets them. They are as durable as what comes.
    fn set_asked(&self, py: Python<'_>, options: BTreeMap<String, String>) -> PyResult<()> {
        let set = lock(&self.0)?.parts()?.0.set_asked(options);
        set.map_err(|error| errors::log_error(py, error))
    }

    /// Begins a session of a capture.
    fn next_session(&self) -> PyResult<()> {
        lock(&self.0)?.assembler.new_session();
        Ok(())
    }

    /// Appends bytes of the stream, in the writer's framing.
    ///
    /// After an error of the file system, another call continues where this one stopped: pass no
    /// bytes, or the next ones.
    fn append(&self, py: Python<'_>, chunk: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        if let Ok(bytes) = chunk.cast::<PyBytes>()
            && state.framing == Framing::Wire
            && state.rest.is_empty()
        {
            // Immutable, and what it contains: nothing is copied.
            let mut rest = bytes.as_bytes();
            let (writer, assembler) = state.parts()?;
            let (appended, rest) = py.detach(|| {
                let appended = writer.append(assembler, &mut rest);
                (appended, rest)
            });
            state.rest.extend_from_slice(rest);
            return appended.map_err(|error| errors::log_error(py, error));
        }
        let mut frames = mem::take(&mut state.rest);
        append(state.framing, chunk, &mut frames)?;
        let (writer, assembler) = state.parts()?;
        let mut rest = &*frames;
        let appended = py.detach(|| writer.append(assembler, &mut rest));
        let taken = frames.len().saturating_sub(rest.len());
        if taken < frames.len() {
            frames.drain(..taken);
            state.rest = frames;
        }
        appended.map_err(|error| errors::log_error(py, error))
    }

    /// Whether the transactions that are not published fill a segment.
    #[getter]
    fn is_full(&self, py: Python<'_>) -> PyResult<bool> {
        let is_full = lock(&self.0)?.writer()?.is_full();
        is_full.map_err(|error| errors::log_error(py, error))
    }

    /// Whether there are transactions or messages that are not published.
    #[getter]
    fn has_changes(&self, py: Python<'_>) -> PyResult<bool> {
        let has_changes = lock(&self.0)?.writer()?.has_changes();
        has_changes.map_err(|error| errors::log_error(py, error))
    }

    /// Sets the timeline of the WAL that comes next, and where it began, if that is known.
    #[pyo3(signature = (timeline, start=None))]
    fn set_timeline(
        &self,
        py: Python<'_>,
        timeline: u32,
        start: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let start = start.map(|start| read_lsn(start, "start")).transpose()?;
        let set = lock(&self.0)?.parts()?.0.set_timeline(timeline, start);
        set.map_err(|error| errors::log_error(py, error))
    }

    /// Sets where the slot begins, for a log that is empty.
    ///
    /// Transactions that were committed up to `prepared_until`, and those with an ID in
    /// `prepared`, may have been prepared before.
    #[pyo3(signature = (lsn, *, prepared_until=None, prepared=Vec::new()))]
    fn set_slot_start(
        &self,
        py: Python<'_>,
        lsn: &Bound<'_, PyAny>,
        prepared_until: Option<&Bound<'_, PyAny>>,
        prepared: Vec<u32>,
    ) -> PyResult<()> {
        let lsn = read_lsn(lsn, "lsn")?;
        let until = prepared_until.map(|until| read_lsn(until, "prepared_until"));
        let until = until.transpose()?.unwrap_or_default();
        let mut state = lock(&self.0)?;
        let (writer, assembler) = state.parts()?;
        let before = PreparedBefore::new(until, prepared);
        let set = writer
            .set_slot_start(lsn)
            .and_then(|()| writer.set_prepared_before(&before, assembler));
        set.map_err(|error| errors::log_error(py, error))
    }

    /// Records that the server has decoded everything up to this LSN.
    fn advance(&self, py: Python<'_>, lsn: &Bound<'_, PyAny>) -> PyResult<()> {
        let lsn = read_lsn(lsn, "lsn")?;
        let mut state = lock(&self.0)?;
        let (writer, assembler) = state.parts()?;
        if !assembler.is_mid_transaction() {
            let advanced = py.detach(|| writer.advance(lsn));
            advanced.map_err(|error| errors::log_error(py, error))?;
        }
        Ok(())
    }

    /// Makes all transactions durable. Returns the position.
    fn sync<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut state = lock(&self.0)?;
        let (writer, assembler) = state.parts()?;
        let synced = py.detach(|| writer.sync(assembler));
        let synced = synced.map_err(|error| errors::log_error(py, error))?;
        lsn::new(py, synced.map_or(Lsn::INVALID, Confirmable::lsn))
    }

    /// Gives what fills blocks to the next segment. The catalog must have the definitions.
    fn fill(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let (writer, _) = state.parts()?;
        let filled = py.detach(|| writer.fill());
        filled.map_err(|error| errors::log_error(py, error))
    }

    /// Publishes all transactions. Returns whether there were any.
    fn publish(&self, py: Python<'_>) -> PyResult<bool> {
        let mut state = lock(&self.0)?;
        let (writer, assembler) = state.parts()?;
        let published = py.detach(|| writer.publish(assembler));
        let published = published.map_err(|error| errors::log_error(py, error))?;
        Ok(published.is_some())
    }

    /// Up to where everything is durable.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, lock(&self.0)?.writer()?.position())
    }

    /// Where the changes come from.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = lock(&self.0)?;
        let known = state.writer()?.source();
        source(py, known.map_err(|error| errors::log_error(py, error))?)
    }

    /// Appended transactions, rows, repeated transactions, segments, last commit time, and the commit
    /// LSN of the last transaction that has a logical message.
    #[getter]
    fn counts<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let counts = lock(&self.0)?.writer()?.counts();
        let dict = PyDict::new(py);
        dict.set_item("transactions", counts.transactions)?;
        dict.set_item("rows", counts.rows)?;
        dict.set_item("repeated", counts.repeated)?;
        dict.set_item("segments", counts.segments)?;
        let time = counts.last_commit_time.and_then(Timestamp::unix_micros);
        dict.set_item("last_commit_time", time)?;
        let message = counts.last_message.map(|message| lsn::new(py, message));
        dict.set_item("last_message", message.transpose()?)?;
        Ok(dict)
    }

    /// Whether the stream so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        let state = lock(&self.0)?;
        let assembler = &state.assembler;
        Ok(assembler.is_mid_transaction() || assembler.missing_transaction().is_some())
    }

    /// The relations that came since the last call: OID, schema, name, OIDs of the columns' types.
    #[expect(clippy::type_complexity, reason = "plain data for Python")]
    fn new_relations(&self) -> PyResult<Vec<(u32, String, String, Vec<u32>)>> {
        let mut state = lock(&self.0)?;
        let State {
            assembler, seen, ..
        } = &mut *state;
        let mut found = Vec::new();
        for relation in assembler.relations() {
            if seen.insert((relation.oid, relation.version)) {
                let types = relation.columns.iter().map(|it| it.type_oid).collect();
                let (schema, name) = (relation.namespace.to_string(), relation.name.to_string());
                found.push((relation.oid, schema, name, types));
            }
        }
        Ok(found)
    }

    /// The definitions of types and tables that the log has.
    #[getter]
    fn catalog(&self, py: Python<'_>) -> PyResult<Catalog> {
        let state = lock(&self.0)?;
        let catalog = state.writer()?.catalog();
        let catalog = catalog.map_err(|error| errors::log_error(py, error))?;
        Ok(Catalog(Arc::new(catalog.clone())))
    }

    /// Adds definitions, for the next segments.
    fn extend_catalog(&self, py: Python<'_>, catalog: &Catalog) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let (writer, _) = state.parts()?;
        py.detach(|| writer.extend_catalog(&catalog.0))
            .map_err(|error| errors::log_error(py, error))
    }

    /// Whether the log lacks the load that it begins with, because that was broken off.
    #[getter]
    fn lacks_first_load(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.writer()?.lacks_first_load())
    }

    /// Records that the log begins with a load, before its slot is created.
    fn plan_first_load(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let (writer, _) = state.parts()?;
        py.detach(|| writer.plan_first_load())
            .map_err(|error| errors::log_error(py, error))
    }

    /// Begins a load of tables, by OID and replica identity, in a snapshot.
    ///
    /// `point` is its consistent point, and `micros` its time, in microseconds since 1970.
    #[expect(clippy::needless_pass_by_value, reason = "as Python calls it")]
    fn begin_load(
        &self,
        py: Python<'_>,
        point: &Bound<'_, PyAny>,
        micros: i64,
        catalog: &Catalog,
        tables: Vec<(u32, char)>,
    ) -> PyResult<LogLoad> {
        let point = read_lsn(point, "point")?;
        let relations = relations(&catalog.0, &tables)?;
        let time = Timestamp::from_unix_micros(micros);
        let mut state = lock(&self.0)?;
        let (writer, _) = state.parts()?;
        py.detach(|| writer.begin_load(point, time, relations))
            .map(|load| LogLoad(Detached::new(Arc::new(load))))
            .map_err(|error| errors::log_error(py, error))
    }

    /// Gives a load its place. Returns false while something before it may still come.
    fn end_load(&self, py: Python<'_>, load: &LogLoad) -> PyResult<bool> {
        let mut state = lock(&self.0)?;
        let (writer, _) = state.parts()?;
        py.detach(|| writer.end_load(&load.0))
            .map_err(|error| errors::log_error(py, error))
    }

    /// Cancels a load.
    fn give_up_load(&self, py: Python<'_>, load: &LogLoad) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let (writer, assembler) = state.parts()?;
        py.detach(|| writer.give_up_load(&load.0, assembler))
            .map_err(|error| errors::log_error(py, error))
    }

    /// Closes the log, so that others can write to it. Publishes nothing.
    fn close(&self) -> PyResult<()> {
        let mut state = lock(&self.0)?;
        let assembler = Detached::new(Assembler::default());
        let assembler = mem::replace(&mut state.assembler, assembler);
        let writer = state.writer.take();
        drop(state);
        drop((writer, assembler));
        Ok(())
    }
}
