//! The net changes of a table in a range of the log, as a stream.

use crate::error::{Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::version::TableVersion;
use crate::read::as_of::Wants;
use crate::read::log::{Log, Plan, chains};
use crate::read::table_changes::{Changes, assembler};
use crate::read::table_reader::{Columns, TableReader};
use std::sync::Arc;
use walrow_stream::{
    CatalogColumn, CellTextOf, Deletes, End, KeyBytesOf, Net, NetColumns, NetOptions, Spool,
};
use walrow_wire::{Lsn, Oid};

/// The options of [`Log::net`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LogNetOptions {
    /// The target has all changes up to this LSN. Default: it has no changes.
    pub start: Lsn,
    /// The LSN or the time where the net changes end. Default: the end of the log.
    pub end: Option<End>,
    /// Whether rows may have been erased in the range. The target may then still have them.
    pub allows_erased: bool,
    /// Whether columns may have been altered since `start`: renamed, of another type, or dropped and
    /// added again. The target then has the right values of its rows under the new names.
    pub allows_altered: bool,
    /// How the net changes are made.
    pub net: NetOptions,
    /// The spool for what does not fit in memory.
    pub spool: Option<Arc<dyn Spool>>,
    /// Bytes of rows in memory. Default: 64 MiB.
    pub memory: Option<usize>,
    /// The function that writes the text of binary cells: `walrow_arrow::cell_text`. Without it,
    /// keys that came as text differ from the same keys that came as binary.
    pub cell_text: Option<CellTextOf>,
    /// How keys are compared: `walrow_arrow::key_bytes`. Without it, by PostgreSQL's text.
    pub key_bytes: Option<KeyBytesOf>,
}

impl LogNetOptions {
    /// Net changes without a change, of the table with this OID.
    pub fn begin(&self, oid: Oid) -> Net {
        let mut net = Net::changes(oid, self.net.clone());
        if let Some(cell_text) = self.cell_text {
            net = net.with_cell_text(cell_text);
        }
        if let Some(key_bytes) = self.key_bytes {
            net = net.with_key_bytes(key_bytes);
        }
        if let Some(memory) = self.memory {
            net = net.with_memory(memory);
        }
        if let Some(spool) = &self.spool {
            net = net.with_spool(Arc::clone(spool));
        }
        net
    }
}

impl Log {
    /// The net changes of a table in a range, as a stream with one transaction: see
    /// [`walrow_stream::Net`]. `wants` chooses the table by OID, schema and name.
    ///
    /// It is not checked whether the table needs a load, whether the log begins after `start`, and
    /// whether rows are erased while they are read.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use walrow_log::{Directory, FileSpool, Log, LogNetOptions};
    ///
    /// let log = Log::open(Arc::new(Directory::open("log/")?))?;
    /// let mut options = LogNetOptions::default();
    /// options.start = "16/B374D848".parse()?; // what the target has
    /// options.spool = Some(Arc::new(FileSpool::default()));
    /// let mut net = log.net(&|_, schema, name| (schema, name) == ("public", "orders"), options)?;
    /// let mut chunk = Vec::new();
    /// while net.read(&mut chunk)? {
    ///     // Wire frames, for `walrow::Decoder`: nothing while changes are read.
    ///     println!("{} bytes", chunk.len());
    /// }
    /// println!("the target has all changes up to {}", net.at());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoTable`] and [`ErrorKind::Ambiguous`] if not exactly one table is chosen.
    /// [`ErrorKind::PastEnd`] if the range ends before its start: the log is an older copy.
    /// [`ErrorKind::OtherTable`] if another table had the name at the start or in the range.
    /// [`ErrorKind::Incomplete`] if rows of the target get values or names that were not sent.
    /// [`ErrorKind::Pruned`] and [`ErrorKind::NotLoaded`] if changes were removed, and
    /// [`ErrorKind::Erased`] if rows were erased. A segment is damaged.
    pub fn net(&self, wants: &Wants<'_>, options: LogNetOptions) -> Result<TableReader, Error> {
        let at = self.lsn_of(options.end)?;
        if options.start > at {
            let (position, end) = (options.start, at);
            return Err(Error::new("", ErrorKind::PastEnd { position, end }));
        }
        let oid = self.oid_as_of(wants, at)?;
        self.check_others(wants, oid, options.start, at)?;
        let mut start = options.start;
        // A truncate before the load removes rows that the load leaves if deletes do nothing.
        let is_free = options.net.deletes != Deletes::Ignore;
        let load = self.last_load(oid, start, at)?;
        if let Some(load) = load.filter(|_| is_free) {
            start = start.max(Lsn(load.0.saturating_sub(1)));
        }
        let is_removed = || self.removed().any(|(removed, ..)| removed == oid);
        if load.is_none() && !start.is_valid() && is_removed() {
            let table = self.name_of(oid);
            return Err(Error::new("", ErrorKind::NotLoaded { table }));
        }
        if load.is_none() && options.start.is_valid() && !options.allows_erased {
            self.check_erased(oid, options.start)?;
        }
        let is_table = |version: &TableVersion| version.oid == oid;
        // Before a load, the target has no rows that count. With the columns of all versions, the caller
        // compares them.
        let has_rows = start.is_valid() && start == options.start;
        let is_alone = self.versions().iter().filter(|it| is_table(it)).count() == 1;
        let compares = !options.allows_altered && options.net.columns == NetColumns::Last;
        let target = (compares && has_rows && !is_alone)
            .then(|| self.definition(oid, start))
            .flatten();
        let segments = self.plan(&Plan {
            start,
            end: Some(End::Lsn(at)),
            table: Some(&is_table),
        })?;
        let found = segments.iter().filter_map(|name| self.segment_of(*name));
        let stream_bytes = found.map(|segment| segment.stream_bytes).sum();
        let assembler = assembler(start, at, options.memory, options.spool.as_ref());
        let segments = self.read(&segments, start)?;
        let mut net = self.begin(oid, options);
        if let Some(target) = target {
            let relation = target.define_types(&mut net)?;
            net = net.with_target(&relation);
        }
        let changes = Changes::new(segments, assembler, net);
        let columns = Columns::Defined(self.definition(oid, at));
        Ok(TableReader::new(at, stream_bytes, columns, changes))
    }

    /// Refuses a start before erased changes. A target that begins empty, or is loaded, has no rows
    /// whose deletes were erased.
    fn check_erased(&self, oid: Oid, start: Lsn) -> Result<(), Error> {
        match self.erased()?.get(&oid) {
            Some(end) if *end > start => {
                let (table, lsn) = (self.name_of(oid), *end);
                Err(Error::new("", ErrorKind::Erased { table, lsn }))
            }
            _ => Ok(()),
        }
    }

    /// Net changes without a change, of a table that may have the columns of all versions.
    pub(crate) fn begin(&self, oid: Oid, mut options: LogNetOptions) -> Net {
        if options.net.columns == NetColumns::All {
            let known = &mut options.net.known;
            let more = self.all_columns(oid).into_iter();
            let more = more.filter(|it| known.iter().all(|known| known.name != it.name));
            let more: Vec<_> = more.collect();
            known.extend(more);
        }
        options.begin(oid)
    }

    /// The columns of all versions of a table, with the types of the last version that has them.
    fn all_columns(&self, oid: Oid) -> Vec<CatalogColumn> {
        let mut columns: Vec<CatalogColumn> = Vec::new();
        let versions = self.versions().iter().filter(|it| it.oid == oid);
        for (name, type_oid, type_modifier, _) in versions.flat_map(|it| &it.columns) {
            let column = CatalogColumn::new(name, *type_oid, *type_modifier);
            match columns.iter_mut().find(|it| it.name == *name) {
                Some(known) => *known = column,
                None => columns.push(column),
            }
        }
        columns
    }

    /// Refuses a range where another table had the name, and a target that may have its rows: they
    /// would stay.
    fn check_others(&self, wants: &Wants<'_>, oid: Oid, start: Lsn, at: Lsn) -> Result<(), Error> {
        let is_other = |it: &TableVersion| it.oid != oid && wants(it.oid, &it.schema, &it.name);
        if !self.versions().iter().any(|it| is_other(it)) {
            return Ok(());
        }
        let before = start.is_valid().then(|| self.oid_as_of(wants, start));
        if let Some(Ok(other)) = before
            && other != oid
        {
            let (table, lsn) = (self.name_of(oid), start);
            return Err(Error::new("", ErrorKind::OtherTable { table, lsn }));
        }
        for segment in self.segments() {
            if segment.end <= start || segment.start >= at {
                continue;
            }
            let mut tables = segment.tables.iter();
            let other = tables.find(|it| {
                let version = self.versions().get(it.version);
                it.last > start && version.is_some_and(|version| is_other(version))
            });
            if let Some(other) = other {
                let table = self.name_of(oid);
                let lsn = other.last.min(at);
                return Err(Error::new("", ErrorKind::OtherTable { table, lsn }));
            }
        }
        Ok(())
    }

    /// The end of the last load of a table between two LSNs.
    ///
    /// # Errors
    /// A segment is damaged, or the store failed.
    pub fn last_load(&self, oid: Oid, start: Lsn, at: Lsn) -> Result<Option<Lsn>, Error> {
        let mut last = None;
        let is_there = |segment: &Segment| segment.end > start && segment.start < at;
        for chain in chains(self.segments()) {
            if !chain.iter().any(is_there) {
                continue;
            }
            // The index has only the last load in each segment. Other loads may come before it.
            if let Some(load) = self.load_in(chain, oid) {
                if load <= at {
                    last = Some(load).max(last);
                } else {
                    let loads = self.loads(chain, oid)?;
                    last = loads.into_iter().rfind(|load| *load <= at).max(last);
                }
            }
        }
        Ok(last.filter(|load| *load > start))
    }
}
