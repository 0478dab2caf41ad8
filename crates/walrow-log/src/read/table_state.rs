//! The rows of a table as of an LSN or a time, as a stream.

use crate::error::Error;
use crate::read::log::Log;
use crate::read::table_changes::{Changes, assembler};
use crate::read::table_reader::{Columns, TableReader};
use std::sync::Arc;
use walrow_stream::{CatalogColumn, CellTextOf, End, Net, Spool};
use walrow_wire::{Lsn, Oid};

/// The options of [`Log::state`].
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StateOptions {
    /// The LSN or the time of the rows. Default: the end of the log.
    pub as_of: Option<End>,
    /// The spool for rows that do not fit in memory.
    pub spool: Option<Arc<dyn Spool>>,
    /// Bytes of rows in memory. Default: 64 MiB.
    pub memory: Option<usize>,
    /// The function that writes the text of binary cells: `walrow_arrow::cell_text`. Without it,
    /// keys that came as text differ from the same keys that came as binary.
    pub cell_text: Option<CellTextOf>,
    /// The columns that the table got after its last change: [`NetRows::with_columns`](walrow_stream::NetRows::with_columns).
    pub columns: Option<Vec<CatalogColumn>>,
}

impl Log {
    /// The rows of a table as of an LSN or a time, as a stream with one transaction that inserts
    /// them. `wants` chooses the table by OID, schema and name.
    ///
    /// The rows follow from the last complete load of the table, and the changes after it. A table
    /// that was never loaded begins empty.
    ///
    /// ```no_run
    /// use std::sync::Arc;
    /// use walrow_log::{Directory, FileSpool, Log, StateOptions};
    /// use walrow_stream::End;
    ///
    /// let log = Log::open(Arc::new(Directory::open("log/")?))?;
    /// let mut options = StateOptions::default();
    /// options.as_of = Some(End::Lsn("16/B374D848".parse::<walrow_wire::Lsn>()?));
    /// options.spool = Some(Arc::new(FileSpool::default()));
    /// let mut rows = log.state(&|_, schema, name| (schema, name) == ("public", "orders"), options)?;
    /// let mut chunk = Vec::new();
    /// while rows.read(&mut chunk)? {
    ///     // Wire frames, for `walrow::Decoder`: nothing while changes are read.
    ///     println!("{} bytes", chunk.len());
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::NoTable`] and [`ErrorKind::Ambiguous`] if not exactly one table is chosen.
    /// [`ErrorKind::TooEarly`] if the rows are known only later. [`ErrorKind::NotLoaded`] if changes
    /// were removed, and there is no load. A segment is damaged.
    ///
    /// [`ErrorKind::NoTable`]: crate::ErrorKind::NoTable
    /// [`ErrorKind::Ambiguous`]: crate::ErrorKind::Ambiguous
    /// [`ErrorKind::TooEarly`]: crate::ErrorKind::TooEarly
    /// [`ErrorKind::NotLoaded`]: crate::ErrorKind::NotLoaded
    pub fn state(
        &self,
        wants: &dyn Fn(Oid, &str, &str) -> bool,
        options: StateOptions,
    ) -> Result<TableReader, Error> {
        let part = self.part_as_of(wants, options.as_of)?;
        let found = part.segments.iter();
        let found = found.filter_map(|name| self.segment_of(*name));
        let stream_bytes = found.map(|segment| segment.stream_bytes).sum();
        let segments = self.read(&part.segments, Lsn::INVALID)?;
        let mut net = Net::state(part.oid);
        if part.load.is_some() {
            net = net.after_load();
        }
        if let Some(cell_text) = options.cell_text {
            net = net.with_cell_text(cell_text);
        }
        let (memory, spool) = (options.memory, options.spool.as_ref());
        let assembler = assembler(part.start(), part.at, memory, spool);
        if let Some(memory) = options.memory {
            net = net.with_memory(memory);
        }
        if let Some(spool) = options.spool {
            net = net.with_spool(spool);
        }
        let changes = Changes::new(segments, assembler, net);
        let columns = Columns::Added(options.columns);
        Ok(TableReader::new(part.at, stream_bytes, columns, changes))
    }
}
