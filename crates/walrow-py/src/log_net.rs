//! The net changes of a table of a log: as the chunks of a stream, and in parts.

use crate::engine::{buffer, lock, not_bytes};
use crate::errors;
use crate::lsn;
use crate::options;
use crate::signals;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::{PyBytes, PyDict, PyString};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use walrow::log::{Error, LogNetOptions, NetsReader, TableReader};
use walrow::stream::{
    CatalogColumn, Deletes, Net, NetColumns, NetError, NetJoin as Join, NetRows, NeverSent, Tally,
    Truncates,
};
use walrow::{FileSpool, Lsn, cell_text, key_bytes};

/// PostgreSQL's OID of bool.
const BOOL: u32 = 16;

/// The options of net changes.
pub(crate) struct Options(pub(crate) LogNetOptions);

impl Options {
    pub(crate) fn new(py: Python<'_>, given: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let mut all = LogNetOptions::default();
        // The callers in Python look at it, with their own words.
        all.allows_erased = true;
        let mut directory = None;
        for (name, value) in given.into_iter().flatten() {
            let name: String = name.extract()?;
            if value.is_none() {
                continue;
            }
            let net = &mut all.net;
            match &*name {
                "start" => all.start = options::read_lsn(&value, "start")?,
                "end" => all.end = Some(options::end(&value, "end")?),
                "keys" => net.keys = Some(names(&value, &name)?),
                "text_keys" => net.text_keys = names(&value, &name)?,
                "more" => {
                    let columns = names(&value, &name)?.into_iter();
                    // Their values never come, so any type does.
                    let columns = columns.map(|name| CatalogColumn::new(name, BOOL, -1));
                    net.known = columns.collect();
                }
                "nullable" => net.nullable = names(&value, &name)?,
                "deletes" => {
                    let words = [
                        ("apply", Deletes::Apply),
                        ("soft", Deletes::Soft),
                        ("ignore", Deletes::Ignore),
                    ];
                    net.deletes = word(py, &name, &value, &words)?;
                }
                "truncates" => {
                    let words = [("apply", Truncates::Apply), ("ignore", Truncates::Ignore)];
                    net.truncates = word(py, &name, &value, &words)?;
                }
                "columns" => {
                    let words = [("last", NetColumns::Last), ("all", NetColumns::All)];
                    net.columns = word(py, &name, &value, &words)?;
                }
                "never_sent" => {
                    let words = [("error", NeverSent::Error), ("null", NeverSent::Null)];
                    net.never_sent = word(py, &name, &value, &words)?;
                }
                "allows_altered" => all.allows_altered = value.extract()?,
                "spool_memory" => all.memory = Some(value.extract()?),
                "spool_directory" => directory = Some(value.extract::<PathBuf>()?),
                _ => {
                    let text = format!("{name} is not an option of net changes");
                    return Err(PyTypeError::new_err(text));
                }
            }
        }
        let spool = directory.map_or_else(FileSpool::default, FileSpool::new);
        all.spool = Some(Arc::new(spool));
        all.cell_text = Some(cell_text);
        all.key_bytes = Some(key_bytes);
        Ok(Self(all))
    }
}

fn names(value: &Bound<'_, PyAny>, name: &str) -> PyResult<Vec<String>> {
    if value.is_instance_of::<PyString>() {
        return Err(PyTypeError::new_err(format!(
            "{name} must be a list of names"
        )));
    }
    value.extract()
}

/// The value that a word means.
fn word<T: Copy>(
    py: Python<'_>,
    name: &str,
    value: &Bound<'_, PyAny>,
    words: &[(&str, T)],
) -> PyResult<T> {
    let given: String = value.extract()?;
    let found = words.iter().find(|(word, _)| *word == given);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let words: Vec<_> = words.iter().map(|(word, _)| *word).collect();
        let text = format!("{name} must be {}, not {given:?}", words.join(" or "));
        errors::option_error(py, &text)
    })
}

fn net_error(py: Python<'_>, error: NetError) -> PyErr {
    errors::log_error(py, Error::from(error))
}

/// The net changes of one unit: a range of whole transactions.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct NetPart {
    /// `None` once it was divided.
    net: Mutex<Option<Net>>,
    events: u64,
    position: Lsn,
}

impl NetPart {
    pub(crate) fn read(py: Python<'_>, mut reader: TableReader) -> PyResult<Self> {
        let position = reader.at();
        loop {
            signals::check()?;
            let read = py.detach(|| reader.take_changes());
            if !read.map_err(|error| errors::log_error(py, error))? {
                break;
            }
        }
        Ok(Self::new(reader.into_net(), position))
    }

    fn new(net: Option<Net>, position: Lsn) -> Self {
        Self {
            events: net.as_ref().map_or(0, Net::events),
            net: Mutex::new(net),
            position,
        }
    }

    /// The parts of several tables, by OID. `None` if the changes of a table do not give its part.
    pub(crate) fn read_all(
        py: Python<'_>,
        mut reader: NetsReader,
    ) -> PyResult<Vec<(u32, Option<Self>)>> {
        let position = reader.at();
        loop {
            signals::check()?;
            let read = py.detach(|| reader.take_changes());
            if !read.map_err(|error| errors::log_error(py, error))? {
                break;
            }
        }
        let nets = reader.into_nets().map(|(oid, net)| {
            let part = net.map(|net| Self::new(Some(net), position));
            (oid, part.ok())
        });
        Ok(nets.collect())
    }
}

#[pymethods]
impl NetPart {
    /// The number of row changes that were read, since the last barrier.
    #[getter]
    const fn events(&self) -> u64 {
        self.events
    }

    /// The LSN where the unit ends.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, self.position)
    }

    /// Divides them by the hashes of their keys: partitions with their bytes. Call it once.
    ///
    /// A partition without changes is left out, unless there is a barrier. The bytes stand alone.
    fn split<'py>(
        &self,
        py: Python<'py>,
        partitions: u32,
    ) -> PyResult<Vec<(u32, Bound<'py, PyBytes>)>> {
        let Some(net) = lock(&self.net)?.take() else {
            return Ok(Vec::new());
        };
        let end = self.position;
        let parts = py.detach(|| net.split(partitions, end));
        let parts = parts.map_err(|error| net_error(py, error))?.into_iter();
        let parts = parts.map(|(partition, bytes)| (partition, PyBytes::new(py, &bytes)));
        Ok(parts.collect())
    }
}

/// The parts of one partition together, as the chunks of a stream.
///
/// Changes of keys that take part in moves are left out, and are `entangled`.
///
/// `parts` have the numbers of their units, in any order. With `whole`, their bytes come from
/// `entangled` of all partitions. These bytes have unit numbers inside, and no change is left out.
/// It takes the options of `net`.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct NetJoin {
    rows: Mutex<(Option<NetRows>, Vec<u8>)>,
    tally: Tally,
    oid: u32,
    position: Lsn,
    entangled: Option<Vec<u8>>,
}

#[pymethods]
impl NetJoin {
    #[new]
    #[pyo3(
        signature = (parts, *, whole = false, **options),
        text_signature = "(parts, *, whole=False, start=None, end=None, keys=None, text_keys=(), deletes='apply', truncates='apply', columns='last', more=(), nullable=(), never_sent='error', allows_altered=False, spool_memory=None, spool_directory=None)"
    )]
    fn new(
        py: Python<'_>,
        parts: &Bound<'_, PyAny>,
        whole: bool,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = Options::new(py, options)?.0;
        let mut found: Vec<(u64, PyBackedBytes)> = Vec::new();
        for part in parts.try_iter()? {
            let (unit, bytes): (u64, Bound<'_, PyAny>) = part?.extract()?;
            let bytes = buffer(&bytes)?.ok_or_else(|| not_bytes(&bytes))?;
            found.push((unit, bytes.into()));
        }
        found.sort_by_key(|(unit, _)| *unit);
        let end = match options.end {
            Some(walrow::stream::End::Lsn(end)) => end,
            _ => Lsn::INVALID,
        };
        let joined = py.detach(|| join(Join::new(options.begin(0)), &found, whole));
        let mut join = joined.map_err(|error| net_error(py, error))?;
        let (entangled, count) = (join.take_entangled(), join.entangled());
        let position = if end.is_valid() { end } else { join.end() };
        let net = join.into_net();
        let oid = net.oid();
        let rows = py.detach(|| net.into_rows());
        let rows = rows
            .map_err(|error| net_error(py, error))?
            .with_end(position);
        let mut tally = rows.tally().cloned().unwrap_or_default();
        tally.entangled = count;
        Ok(Self {
            rows: Mutex::new((Some(rows), Vec::new())),
            tally,
            oid,
            position,
            entangled,
        })
    }

    const fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let mut rows = lock(&self.rows)?;
        let (Some(rows), chunk) = &mut *rows else {
            return Ok(None);
        };
        signals::check()?;
        match py.detach(|| rows.read(chunk)) {
            Ok(true) => Ok(Some(PyBytes::new(py, chunk))),
            Ok(false) => Ok(None),
            Err(error) => Err(net_error(py, error.into())),
        }
    }

    /// The LSN where the last unit ends.
    #[getter]
    fn position<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        lsn::new(py, self.position)
    }

    /// The OID of the table. 0 without parts.
    #[getter]
    const fn oid(&self) -> u32 {
        self.oid
    }

    /// The changes that were left out. Their bytes stand alone. `None` without such changes.
    #[getter]
    fn entangled<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        let entangled = self.entangled.as_deref();
        entangled.map(|bytes| PyBytes::new(py, bytes))
    }

    /// The tally of the rows, without the changes that were left out.
    #[getter]
    fn tally(&self) -> NetTally {
        NetTally(self.tally.clone())
    }

    /// Frees the rows. There are no more chunks.
    fn close(&self) -> PyResult<()> {
        lock(&self.rows)?.0 = None;
        Ok(())
    }
}

/// Joins parts, which are in the order of their units.
fn join(mut join: Join, parts: &[(u64, PyBackedBytes)], is_whole: bool) -> Result<Join, NetError> {
    if is_whole {
        let parts: Vec<&[u8]> = parts.iter().map(|(_, bytes)| &**bytes).collect();
        join.add_entangled(&parts)?;
        return Ok(join);
    }
    for (_, bytes) in parts {
        join.note(bytes)?;
    }
    for (unit, bytes) in parts {
        join.add(*unit, bytes)?;
    }
    Ok(join)
}

/// Counts and columns of net changes, known before their first row.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct NetTally(pub(crate) Tally);

#[pymethods]
impl NetTally {
    /// The number of row changes that were read, since the last barrier.
    #[getter]
    const fn events(&self) -> u64 {
        self.0.events
    }

    /// The number of net rows.
    #[getter]
    const fn rows(&self) -> u64 {
        self.0.rows
    }

    /// The number of updates that gave a row another key, since the last barrier.
    #[getter]
    const fn moves(&self) -> u64 {
        self.0.moves
    }

    /// The number of net rows that keep values of a row with another key.
    #[getter]
    const fn heads(&self) -> u64 {
        self.0.heads
    }

    /// The columns where some updates, or deletes that mark rows, keep the target's values.
    #[getter]
    fn kept(&self) -> Vec<&str> {
        listed(&self.0.kept)
    }

    /// The number of new rows without a value in a column that is not nullable.
    #[getter]
    const fn never_sent(&self) -> u64 {
        self.0.never_sent
    }

    /// The columns without a value in these rows.
    #[getter]
    fn lacking(&self) -> Vec<&str> {
        listed(&self.0.lacking)
    }

    /// The last load or truncate that counts: its commit LSN, seq, and whether it is a load.
    #[getter]
    fn barrier<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyAny>, u64, bool)>> {
        let barrier = self.0.barrier;
        let barrier = barrier.map(|it| Ok((lsn::new(py, it.lsn)?, it.seq, it.is_load)));
        barrier.transpose()
    }

    /// Whether the target's other rows go: the stream begins with a truncate.
    #[getter]
    const fn clears(&self) -> bool {
        self.0.clears
    }

    /// The number of changes that were left out, of one key in one unit each.
    #[getter]
    const fn entangled(&self) -> u64 {
        self.0.entangled
    }

    /// The columns that some versions of the table in the range lack.
    #[getter]
    fn partial(&self) -> Vec<&str> {
        listed(&self.0.partial)
    }
}

fn listed(names: &BTreeSet<String>) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
