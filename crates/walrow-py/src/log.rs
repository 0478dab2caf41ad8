//! Logs: their segments, and the stream of some of them as a file.

use crate::engine::{lock, wait_for};
use crate::errors::{self, Fail};
use crate::log_block::{BlockMemory, LogBlock};
use crate::log_net::{NetPart, Options};
use crate::log_objects;
use crate::log_rows::LogRows;
use crate::log_store::{self, PythonStore};
use crate::lsn;
use crate::options;
use crate::signals::{self, Stopped};
use crate::upkeep;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::BTreeMap;
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use walrow::log::{
    Directory, Error, ErrorKind, Log, Plan, PlanReader, ReadAhead, Repair, Retention, Segment,
    SegmentName, StateOptions, TableReader, TableVersion, Upkeep, check, read_object,
};
use walrow::stream::{Assembler, CatalogColumn, End, Event, Printable, fact::Source};
use walrow::wire::ReplicaIdentity;
use walrow::{FileSpool, Framing, Lsn, TableName, cell_text};

/// The published segments of a log.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogDirectory(Mutex<Opened>);

/// A log that can only be read, or also be changed.
enum Opened {
    Read(Log),
    Keep(Upkeep),
}

impl Deref for Opened {
    type Target = Log;

    fn deref(&self) -> &Log {
        match self {
            Self::Read(log) => log,
            Self::Keep(upkeep) => upkeep,
        }
    }
}

impl Opened {
    fn follow(&mut self) -> Result<usize, Error> {
        match self {
            Self::Read(log) => log.follow(),
            Self::Keep(upkeep) => upkeep.follow(),
        }
    }

    fn upkeep(&mut self) -> Result<&mut Upkeep, Error> {
        match self {
            Self::Read(_) => Err(ErrorKind::ReadOnly.into()),
            Self::Keep(upkeep) => Ok(upkeep),
        }
    }
}

impl LogDirectory {
    /// Calls a function that reads one table.
    fn of_table<T: Send>(
        &self,
        py: Python<'_>,
        table: &TableName,
        read: impl FnOnce(&Log, &Wants<'_>) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let log = wait_for(&self.0)?;
        let log: &Log = &log;
        let wants = |oid: u32, schema: &str, name: &str| table.matches(oid, schema, name);
        py.detach(|| read(log, &wants))
            .map_err(|error| match error.kind {
                ErrorKind::NoTable => no_table(py, log, table),
                ErrorKind::Ambiguous { .. } => {
                    errors::schema_error(py, &error.to_string(), Some(&table.to_string()))
                }
                _ => errors::log_error(py, error),
            })
    }

    fn net_reader(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<TableReader> {
        let table = options::table(table, "table")?;
        let Options(options) = Options::new(py, options)?;
        self.of_table(py, &table, |log, wants| log.net(wants, options))
    }
}

/// Whether a table is wanted, by OID, schema and name.
type Wants<'a> = dyn Fn(u32, &str, &str) -> bool + 'a;

#[pymethods]
impl LogDirectory {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it from any path")]
    #[pyo3(signature = (path, store = None))]
    fn new(py: Python<'_>, path: PathBuf, store: Option<Py<PyAny>>) -> PyResult<Self> {
        if let Some(store) = store {
            let opened = py.detach(|| Log::open(Arc::new(PythonStore::new(store))));
            let log = opened.map_err(|error| {
                log_store::not_opened(&error).unwrap_or_else(|| errors::log_error(py, error))
            });
            return Ok(Self(Mutex::new(Opened::Read(log?))));
        }
        let opened = py.detach(|| {
            let directory = Directory::open(&path)?.with_pause(signals::pause);
            Upkeep::open(Arc::new(directory)).map_err(Fail::Log)
        });
        let upkeep = opened.map_err(|error: Fail| error.raise(py, &path))?;
        Ok(Self(Mutex::new(Opened::Keep(upkeep))))
    }

    /// Where the changes come from.
    #[getter]
    fn source<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        source(py, wait_for(&self.0)?.source())
    }

    /// Where the log begins.
    #[getter]
    fn start<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, wait_for(&self.0)?.start())
    }

    /// Where the log ends.
    #[getter]
    fn end<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, wait_for(&self.0)?.end())
    }

    /// Where the last transaction ends of which rows were erased by now, by OID.
    fn erased<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let erased = self.changed(py, |log| log.erased())?;
        let dict = PyDict::new(py);
        for (oid, end) in erased {
            dict.set_item(oid, lsn::new(py, end)?)?;
        }
        Ok(dict)
    }

    /// The number of segments.
    fn __len__(&self) -> PyResult<usize> {
        Ok(wait_for(&self.0)?.segments().len())
    }

    /// A segment, as a dictionary.
    fn segment<'py>(&self, py: Python<'py>, place: usize) -> PyResult<Option<Bound<'py, PyDict>>> {
        let log = wait_for(&self.0)?;
        let segment = log.segments().get(place);
        segment.map(|segment| describe(py, segment)).transpose()
    }

    /// All relation versions: OID, schema, name, columns, replica identity.
    #[expect(clippy::type_complexity, reason = "plain data for Python")]
    fn versions(
        &self,
    ) -> PyResult<
        Vec<(
            u32,
            String,
            String,
            Vec<(String, u32, i32, bool)>,
            &'static str,
        )>,
    > {
        let log = wait_for(&self.0)?;
        let versions = log.versions().iter().map(|it| {
            let (schema, name) = (it.schema.clone(), it.name.clone());
            let identity = u8::try_from(it.identity).ok();
            let identity = identity.and_then(ReplicaIdentity::from_letter);
            let identity = identity.map_or("default", ReplicaIdentity::name);
            (it.oid, schema, name, it.columns.clone(), identity)
        });
        Ok(versions.collect())
    }

    /// The stream of the segments that have what these options of `walrow.read` choose.
    ///
    /// `columns` are names in these options that may be those of columns. With `ahead`, another thread
    /// reads the segments of a log in a local directory.
    #[pyo3(signature = (tables = None, start = None, end = None, columns = Vec::new(), ahead = false))]
    #[expect(clippy::needless_pass_by_value, reason = "PyO3 makes it from a list")]
    fn open(
        &self,
        py: Python<'_>,
        tables: Option<&Bound<'_, PyAny>>,
        start: Option<&Bound<'_, PyAny>>,
        end: Option<&Bound<'_, PyAny>>,
        columns: Vec<String>,
        ahead: bool,
    ) -> PyResult<LogFile> {
        let tables = tables.map(|it| options::tables(it, "tables")).transpose()?;
        let start = start.map(|it| options::read_lsn(it, "start")).transpose()?;
        let end = end.map(|it| options::end(it, "end")).transpose()?;
        let log = wait_for(&self.0)?;
        let start = start.unwrap_or_default();
        let names = plan(&log, tables.as_deref(), start, end, &columns);
        let names = names.map_err(|error| errors::log_error(py, error))?;
        let stream = log.read(&names, start);
        let stream = stream.map_err(|error| errors::log_error(py, error))?;
        let segments = match &*log {
            // At a URL, the thread would need the interpreter for each read.
            Opened::Read(_) => Segments::Here(stream),
            Opened::Keep(_) if ahead => Segments::Ahead(ReadAhead::start(stream)?),
            Opened::Keep(_) => Segments::Here(stream),
        };
        Ok(LogFile::new(&log, &names, segments))
    }

    /// The stream of segments that have each relation version of a table.
    #[pyo3(signature = (table, after = None))]
    fn examples(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        after: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<LogFile> {
        let table = options::table(table, "table")?;
        let after = after.map(|it| options::read_lsn(it, "after")).transpose()?;
        let log = wait_for(&self.0)?;
        let after = after.unwrap_or(Lsn::INVALID);
        let names = log.examples(&|it| table.matches(it.oid, &it.schema, &it.name), after);
        let stream = log.read(&names, Lsn::INVALID);
        let stream = stream.map_err(|error| errors::log_error(py, error))?;
        Ok(LogFile::new(&log, &names, Segments::Here(stream)))
    }

    /// The indices in `versions` that a table's changes between two LSNs use, in their order.
    /// Without changes in between, the last one before.
    fn versions_between(
        &self,
        py: Python<'_>,
        oid: u32,
        start: &Bound<'_, PyAny>,
        end: &Bound<'_, PyAny>,
    ) -> PyResult<Vec<usize>> {
        let start = options::read_lsn(start, "start")?;
        let end = options::read_lsn(end, "end")?;
        let log = wait_for(&self.0)?;
        let log = &*log;
        let found = py.detach(|| log.versions_between(oid, start, end));
        found.map_err(|error| errors::log_error(py, error))
    }

    /// The end of the last load of a table between two LSNs.
    fn last_load<'py>(
        &self,
        py: Python<'py>,
        oid: u32,
        start: &Bound<'py, PyAny>,
        end: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let start = options::read_lsn(start, "start")?;
        let end = options::read_lsn(end, "end")?;
        let log = wait_for(&self.0)?;
        let log = &*log;
        let found = py.detach(|| log.last_load(oid, start, end));
        let found = found.map_err(|error| errors::log_error(py, error))?;
        found.map(|it| lsn::new(py, it)).transpose()
    }

    /// The tables with removed changes, by OID: the LSN where the last of these changes ends, and the
    /// table's last name.
    fn removed<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<BTreeMap<u32, (Bound<'py, PyAny>, String)>> {
        let log = wait_for(&self.0)?;
        let removed = log.removed().map(|(oid, schema, name, end)| {
            Ok((oid, (lsn::new(py, end)?, format!("{schema}.{name}"))))
        });
        removed.collect()
    }

    /// The readers or loads that keep segments from being removed, the most restrictive first: kind,
    /// name, position, last use in microseconds since 1970.
    fn holds<'py>(&self, py: Python<'py>) -> PyResult<Vec<upkeep::Held<'py>>> {
        let holds = self.changed(py, |log| log.upkeep()?.holds())?;
        holds.iter().map(|hold| upkeep::held(py, hold)).collect()
    }

    /// The rows of a table as of an LSN or a time.
    ///
    /// `columns` are the columns that it got after its last change: name, type and type modifier.
    #[pyo3(signature = (table, as_of = None, spool_memory = None, spool_directory = None, columns = None))]
    fn state(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        as_of: Option<&Bound<'_, PyAny>>,
        spool_memory: Option<usize>,
        spool_directory: Option<PathBuf>,
        columns: Option<Vec<(String, u32, i32)>>,
    ) -> PyResult<LogRows> {
        let table = options::table(table, "table")?;
        let mut state = StateOptions::default();
        state.as_of = as_of.map(|it| options::end(it, "as_of")).transpose()?;
        state.memory = spool_memory;
        let spool = spool_directory.map_or_else(FileSpool::default, FileSpool::new);
        state.spool = Some(Arc::new(spool));
        state.cell_text = Some(cell_text);
        state.columns = columns.map(|columns| {
            let columns = columns.into_iter();
            let columns =
                columns.map(|(name, oid, modifier)| CatalogColumn::new(name, oid, modifier));
            columns.collect()
        });
        let reader = self.of_table(py, &table, |log, wants| log.state(wants, state))?;
        Ok(LogRows::new(reader))
    }

    /// The net changes of a table between two LSNs.
    ///
    /// Rows are found by the columns `keys`. By default, these are the columns of the replica
    /// identity, or of the primary key under FULL. The keys in `text_keys` are texts in the target,
    /// and are compared as texts. `deletes` is `"apply"`, `"soft"` or `"ignore"`, `truncates` is
    /// `"apply"` or `"ignore"`. `columns` chooses the columns of the `"last"` version,
    /// or of `"all"` versions. `more` names further columns that the target has: they are NULL in
    /// new rows, and kept in others. A value that was never sent is an `"error"` or `"null"`. In
    /// the columns `nullable`, it is neither noticed nor counted. With `allows_altered`, the target
    /// has columns that were renamed, retyped, or dropped and added again.
    #[pyo3(
        signature = (table, **options),
        text_signature = "($self, table, *, start=None, end=None, keys=None, text_keys=(), deletes='apply', truncates='apply', columns='last', more=(), nullable=(), never_sent='error', allows_altered=False, spool_memory=None, spool_directory=None)"
    )]
    fn net(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<LogRows> {
        Ok(LogRows::new(self.net_reader(py, table, options)?))
    }

    /// Reads the changes of a unit: its net changes can be divided and joined with others.
    ///
    /// It takes the options of `net`.
    #[pyo3(
        signature = (table, **options),
        text_signature = "($self, table, *, start=None, end=None, keys=None, text_keys=(), deletes='apply', truncates='apply', columns='last', more=(), nullable=(), never_sent='error', allows_altered=False, spool_memory=None, spool_directory=None)"
    )]
    fn net_part(
        &self,
        py: Python<'_>,
        table: &Bound<'_, PyAny>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<NetPart> {
        NetPart::read(py, self.net_reader(py, table, options)?)
    }

    /// Reads the changes of a unit of several tables in one pass: by OID, with the options of each.
    ///
    /// A table whose changes do not give net changes is `None`.
    #[pyo3(signature = (tables))]
    fn net_parts(
        &self,
        py: Python<'_>,
        tables: Vec<(u32, Bound<'_, PyDict>)>,
    ) -> PyResult<Vec<(u32, Option<NetPart>)>> {
        let tables = tables.into_iter().map(|(oid, options)| {
            let Options(options) = Options::new(py, Some(&options))?;
            Ok((oid, options))
        });
        let tables = tables.collect::<PyResult<Vec<_>>>()?;
        let reader = {
            let log = wait_for(&self.0)?;
            let log = &*log;
            py.detach(|| log.nets(&tables))
        };
        NetPart::read_all(py, reader.map_err(|error| errors::log_error(py, error))?)
    }

    /// Looks for new segments. Returns how many there are.
    fn follow(&self, py: Python<'_>) -> PyResult<usize> {
        let mut log = wait_for(&self.0)?;
        let log = &mut *log;
        py.detach(|| log.follow())
            .map_err(|error| errors::log_error(py, error))
    }

    /// All bytes of a small object of the log.
    fn read_object<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        // Other threads may use the log meanwhile.
        let objects = wait_for(&self.0)?.objects();
        let read = py.detach(|| read_object(&*objects, name));
        let (bytes, _) = read.map_err(|error| log_objects::failure(py, name, error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// The repairs that the next writer will make, in words.
    fn check(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        let log = wait_for(&self.0)?;
        let repairs = match &*log {
            // Nobody writes to a copy.
            Opened::Read(log) => match log.missing() {
                None => Ok(Vec::new()),
                Some(after) => Err(ErrorKind::Missing { after }.into()),
            },
            Opened::Keep(log) => py.detach(|| check(&*log.objects())),
        };
        let repairs = repairs.map_err(|error| errors::log_error(py, error))?;
        Ok(repairs.iter().map(Repair::to_string).collect())
    }

    /// Up to where the log has everything, whether more came, and the last timeline.
    ///
    /// None if a segment was published since the log was opened.
    #[expect(clippy::type_complexity, reason = "a tuple of Python's")]
    fn reached<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<
        Option<(
            Bound<'py, PyAny>,
            bool,
            Option<(u32, Option<Bound<'py, PyAny>>)>,
        )>,
    > {
        let log = wait_for(&self.0)?;
        let found = py.detach(|| log.reached());
        let Some(found) = found.map_err(|error| errors::log_error(py, error))? else {
            return Ok(None);
        };
        let timeline = match found.timeline {
            None => None,
            Some((timeline, start)) => {
                let start = start.map(|lsn| lsn::new(py, lsn)).transpose()?;
                Some((timeline, start))
            }
        };
        let position = lsn::new(py, found.position)?;
        Ok(Some((position, found.has_more, timeline)))
    }

    /// The transactional logical messages with a prefix, of the transactions that end after an LSN.
    ///
    /// Each has the commit LSN and the ID of its transaction, whether it may belong to a savepoint
    /// that was rolled back, and its content.
    #[expect(clippy::type_complexity, reason = "plain data for Python")]
    fn messages<'py>(
        &self,
        py: Python<'py>,
        prefix: &str,
        start: &Bound<'py, PyAny>,
    ) -> PyResult<Vec<(Bound<'py, PyAny>, u32, bool, Bound<'py, PyBytes>)>> {
        let start = options::read_lsn(start, "start")?;
        let log = wait_for(&self.0)?;
        let log = &*log;
        let found = py.detach(|| messages(log, prefix, start));
        let found = found.map_err(|error| errors::log_error(py, error))?;
        let found = found.into_iter().map(|(lsn, xid, undecidable, content)| {
            let content = PyBytes::new(py, &content);
            Ok((lsn::new(py, lsn)?, xid, undecidable, content))
        });
        found.collect()
    }

    /// Reads a segment, and compares it with its checksums.
    fn verify(&self, py: Python<'_>, place: usize) -> PyResult<()> {
        let log = wait_for(&self.0)?;
        let log = &*log;
        let verified = py.detach(|| {
            signals::in_steps(|step| {
                let segment = log.segments().get(place);
                segment.map_or(Ok(()), |segment| log.verify(segment, step))
            })
        });
        verified.map_err(|stopped| stopped.raise(py))
    }

    /// The LSN in the log that an LSN or a time means.
    fn lsn_of<'py>(
        &self,
        py: Python<'py>,
        at: &Bound<'py, PyAny>,
        option: &str,
    ) -> PyResult<Bound<'py, PyAny>> {
        let end = options::end(at, option)?;
        let log = wait_for(&self.0)?;
        let log = &*log;
        let found = py.detach(|| log.lsn_of(Some(end)));
        lsn::new(py, found.map_err(|error| errors::log_error(py, error))?)
    }

    /// Sets the names of tables. The loads of those without one hold no segments.
    fn set_tables(
        &self,
        py: Python<'_>,
        tables: BTreeMap<u32, Option<(String, String)>>,
    ) -> PyResult<()> {
        self.changed(py, |log| {
            log.upkeep()?.set_tables(tables);
            Ok(())
        })
    }

    /// Removes segments. Returns how many.
    fn prune(&self, py: Python<'_>, until: &Bound<'_, PyAny>, force: bool) -> PyResult<usize> {
        let until = options::read_lsn(until, "until")?;
        self.changed(py, |log| log.upkeep()?.prune(until, force))
    }

    /// Removes segments by age and size. Times are in microseconds.
    fn retain<'py>(
        &self,
        py: Python<'py>,
        age: Option<i64>,
        size: Option<u64>,
        forget_after: Option<i64>,
        force: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let mut retention = Retention::default();
        (retention.age, retention.bytes) = (age, size);
        (retention.forget_after, retention.force) = (forget_after, force);
        let retained = self.changed(py, |log| log.upkeep()?.retain(&retention, upkeep::now()))?;
        upkeep::retained(py, &retained)
    }

    /// Merges small segments. Returns how many, into how many, and the copied bytes.
    fn compact(&self, py: Python<'_>, segment_bytes: u64) -> PyResult<(usize, usize, u64)> {
        let mut log = wait_for(&self.0)?;
        let log = &mut *log;
        let done =
            py.detach(|| signals::in_steps(|step| log.upkeep()?.compact(segment_bytes, step)));
        let done = done.map_err(|stopped| stopped.raise(py))?;
        Ok((done.segments, done.merged, done.bytes))
    }

    /// The registered readers: name, position, last use in microseconds since 1970.
    fn readers<'py>(&self, py: Python<'py>) -> PyResult<Vec<upkeep::Reader<'py>>> {
        let readers = self.changed(py, |log| log.readers())?;
        let readers = readers.into_iter();
        readers.map(|reader| upkeep::reader(py, reader)).collect()
    }

    /// Registers a reader, or returns the registered reader of this name.
    fn register<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        position: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<upkeep::Reader<'py>> {
        let position = position
            .map(|it| options::read_lsn(it, "start"))
            .transpose()?;
        let reader = self.changed(py, |log| {
            log.upkeep()?.register(name, position, upkeep::now())
        })?;
        upkeep::reader(py, reader)
    }

    /// Moves a reader forward, or to any position.
    fn advance<'py>(
        &self,
        py: Python<'py>,
        name: &str,
        position: &Bound<'py, PyAny>,
        rewind: bool,
    ) -> PyResult<upkeep::Reader<'py>> {
        let position = options::read_lsn(position, "position")?;
        let moved = self.changed(py, |log| {
            if rewind {
                log.upkeep()?.rewind(name, position, upkeep::now())
            } else {
                log.upkeep()?.advance(name, position, upkeep::now())
            }
        });
        upkeep::reader(py, moved?)
    }

    /// Forgets a reader.
    fn forget(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        self.changed(py, |log| log.upkeep()?.forget(name))
    }
}

impl LogDirectory {
    /// Does something with the log while other threads of Python run.
    fn changed<T: Send>(
        &self,
        py: Python<'_>,
        change: impl FnOnce(&mut Opened) -> Result<T, Error> + Send,
    ) -> PyResult<T> {
        let mut log = wait_for(&self.0)?;
        let log = &mut *log;
        py.detach(|| change(log))
            .map_err(|error| errors::log_error(py, error))
    }
}

/// The LSN of its commit, the transaction, whether it may belong to a rolled-back savepoint, and the
/// content.
type Told = (Lsn, u32, bool, Vec<u8>);

/// See `LogDirectory::messages`.
fn messages(log: &Log, prefix: &str, start: Lsn) -> Result<Vec<Told>, Error> {
    let mut plan = Plan::default();
    plan.start = start;
    let mut stream = log.read(&log.plan(&plan)?, start)?;
    let mut assembler = Assembler::new(Framing::Wire);
    let (mut chunk, mut found, mut at) = (Vec::new(), Vec::new(), (Lsn::INVALID, 0));
    while stream.read(&mut chunk)? {
        let mut rest = &*chunk;
        while let Some(event) = assembler.next_with(&mut rest, |_| Ok::<_, ()>(()))? {
            match event {
                Event::Begin(transaction) => at = (transaction.commit_lsn, transaction.xid),
                Event::Message(it) if it.transactional && it.prefix == prefix && at.0 >= start => {
                    found.push((at.0, at.1, it.undecidable, it.content.to_vec()));
                }
                _ => {}
            }
        }
    }
    Ok(found)
}

/// The names of the segments to read. A table that the log lacks is looked for in all of them, so that
/// the error can name those that there are. So is a column that only other tables have: the decoder
/// refuses the names of columns that do not come.
fn plan(
    log: &Log,
    tables: Option<&[TableName]>,
    start: Lsn,
    end: Option<End>,
    columns: &[String],
) -> Result<Vec<SegmentName>, Error> {
    let matches = |oid: u32, schema: &str, name: &str| {
        let mut tables = tables.into_iter().flatten();
        tables.any(|table| table.matches(oid, schema, name))
    };
    let is_known = |table: &TableName| {
        let mut versions = log.versions().iter();
        versions.any(|it| table.matches(it.oid, &it.schema, &it.name))
            || log
                .removed()
                .any(|(oid, schema, name, _)| table.matches(oid, schema, name))
    };
    let all_known = tables.is_some_and(|tables| tables.iter().all(is_known));
    let wants = |version: &TableVersion| matches(version.oid, &version.schema, &version.name);
    let has = |version: &TableVersion, name: &str| {
        let mut columns = version.columns.iter();
        columns.any(|(column, ..)| match name.strip_suffix(column.as_str()) {
            Some("") => true,
            Some(table) => table.strip_suffix('.').is_some_and(|table| {
                let name = table.strip_prefix(version.schema.as_str());
                table == version.name
                    || name.and_then(|it| it.strip_prefix('.')) == Some(&version.name)
            }),
            None => false,
        })
    };
    let is_elsewhere = |name: &String| {
        let versions = log.versions().iter();
        let mut having = versions.filter(|version| has(version, name));
        having
            .next()
            .is_some_and(|first| !wants(first) && !having.any(|version| wants(version)))
    };
    let mut plan = Plan::default();
    (plan.start, plan.end) = (start, end);
    if all_known && !columns.iter().any(is_elsewhere) {
        plan.table = Some(&wants);
    }
    log.plan(&plan)
}

/// The error for a table that the log lacks, which names some that it has.
fn no_table(py: Python<'_>, log: &Log, table: &TableName) -> PyErr {
    let mut names: Vec<_> = log.versions().iter().collect();
    names.sort_by_key(|it| (&it.schema, &it.name));
    names.dedup_by_key(|it| (&it.schema, &it.name));
    let shown = names.iter().take(MOST_NAMES);
    let mut shown: Vec<_> = shown
        .map(|it| format!("{}.{}", it.schema, it.name))
        .collect();
    if names.len() > MOST_NAMES {
        shown.push("others".to_owned());
    }
    let has = if shown.is_empty() {
        "no tables".to_owned()
    } else {
        shown.join(", ")
    };
    let text = format!("the log does not have table {table}, only {has}");
    errors::schema_error(py, &Printable(text).to_string(), Some(&table.to_string()))
}

const MOST_NAMES: usize = 5;

/// The stream of some segments of a log, as a file that is read to its end.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogFile {
    /// Bytes of the stream.
    #[pyo3(get)]
    size: u64,
    state: Mutex<State>,
}

struct State {
    segments: Segments,
    memory: BlockMemory,
}

/// The thread that reads the segments.
enum Segments {
    Here(PlanReader),
    Ahead(ReadAhead),
    Closed,
}

impl State {
    /// The next bytes. None at the end.
    fn next(&mut self) -> Result<Option<Arc<Vec<u8>>>, Stopped> {
        let mut chunk = self.memory.take();
        let is_read = match &mut self.segments {
            Segments::Here(stream) => stream.read(&mut chunk)?,
            Segments::Ahead(ahead) => signals::in_steps(|step| ahead.read(&mut chunk, step))?,
            Segments::Closed => false,
        };
        Ok(is_read.then(|| self.memory.share(chunk)))
    }
}

impl LogFile {
    fn new(log: &Log, names: &[SegmentName], segments: Segments) -> Self {
        let segment = |name: &SegmentName| {
            let segments = log.segments();
            let place = segments.binary_search_by_key(name, Segment::name);
            place.ok().and_then(|place| segments.get(place))
        };
        Self {
            size: names
                .iter()
                .filter_map(segment)
                .map(|it| it.stream_bytes)
                .sum(),
            state: Mutex::new(State {
                segments,
                memory: BlockMemory::default(),
            }),
        }
    }
}

#[pymethods]
impl LogFile {
    /// The next bytes, of any number, as a `LogBlock`. No bytes at the end.
    #[pyo3(signature = (size = None))]
    fn read<'py>(&self, py: Python<'py>, size: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
        // As a file that has no more bytes ready.
        let _ = size;
        signals::check()?;
        let mut state = lock(&self.state)?;
        let state = &mut *state;
        match py.detach(|| state.next()) {
            Ok(Some(bytes)) => Ok(Bound::new(py, LogBlock(bytes))?.into_any()),
            Ok(None) => Ok(PyBytes::new(py, b"").into_any()),
            Err(stopped) => Err(stopped.raise(py)),
        }
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    #[pyo3(signature = (*_exception))]
    fn __exit__(&self, _exception: &Bound<'_, pyo3::types::PyTuple>) -> PyResult<()> {
        self.close()
    }

    /// Closes the current segment. Nothing can be read after it.
    fn close(&self) -> PyResult<()> {
        lock(&self.state)?.segments = Segments::Closed;
        Ok(())
    }
}

fn describe<'py>(py: Python<'py>, segment: &Segment) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", segment.name().to_string())?;
    dict.set_item("start", lsn::new(py, segment.start)?)?;
    dict.set_item("part", segment.part)?;
    dict.set_item("end", lsn::new(py, segment.end)?)?;
    dict.set_item("continues", segment.continues)?;
    dict.set_item("transactions", segment.transactions)?;
    let micros = |time: i64| walrow::wire::Timestamp(time).unix_micros();
    let times = segment
        .times
        .map(|(least, most)| (micros(least), micros(most)));
    dict.set_item("commit_times", times)?;
    let tables = segment.tables.iter().map(|it| {
        let last = lsn::new(py, it.last)?;
        let loaded = it.loaded.map(|loaded| lsn::new(py, loaded)).transpose()?;
        Ok((it.version, it.rows, it.truncates, it.bytes, last, loaded))
    });
    dict.set_item("tables", tables.collect::<PyResult<Vec<_>>>()?)?;
    dict.set_item("stream_bytes", segment.stream_bytes)?;
    dict.set_item("bytes", segment.bytes)?;
    Ok(dict)
}

pub(crate) fn source<'py>(py: Python<'py>, source: &Source) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("system_identifier", &source.system_identifier)?;
    dict.set_item("database", &source.database)?;
    dict.set_item("slot", &source.slot)?;
    dict.set_item("timeline", source.timeline)?;
    let start = source.timeline_start.map(|it| lsn::new(py, it));
    dict.set_item("timeline_start", start.transpose()?)?;
    dict.set_item(
        "slot_start",
        source.slot_start.map(|it| lsn::new(py, it)).transpose()?,
    )?;
    dict.set_item("session", source.session.clone())?;
    Ok(dict)
}
