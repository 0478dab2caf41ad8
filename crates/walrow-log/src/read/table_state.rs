//! The rows of a table as of an LSN or a time, as a stream.

use crate::error::Error;
use crate::read::as_of::Part;
use crate::read::log::Log;
use crate::read::table_changes::{Changes, failed, spool};
use std::sync::Arc;
use walrow_stream::{CatalogColumn, CellTextOf, Encoding, End, Net, NetRows, Spool};
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
    /// The columns that the table got after its last change: [`NetRows::with_columns`].
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
    ) -> Result<StateReader, Error> {
        let part = self.part_as_of(wants, options.as_of)?;
        let found = part.segments.iter();
        let found = found.filter_map(|name| self.segment_of(*name));
        let stream_bytes = found.map(|segment| segment.stream_bytes).sum();
        let segments = self.read(&part.segments, Lsn::INVALID);
        let mut net = Net::state(part.oid);
        if part.load.is_some() {
            net = net.after_load();
        }
        if let Some(cell_text) = options.cell_text {
            net = net.with_cell_text(cell_text);
        }
        let encoding = self.encoding();
        let (memory, spool) = (options.memory, options.spool.as_ref());
        let assembler = self.assembler(part.start(), part.at, memory, spool);
        if let Some(memory) = options.memory {
            net = net.with_memory(memory);
        }
        if let Some(spool) = options.spool {
            net = net.with_spool(spool);
        }
        let Part { oid, at, .. } = part;
        Ok(StateReader {
            oid,
            at,
            stream_bytes,
            read_bytes: 0,
            encoding,
            columns: options.columns,
            phase: Phase::Changes(Box::new(Changes::new(segments, assembler, net))),
        })
    }
}

/// The rows of a table as a stream of wire frames, in chunks of any size.
#[derive(Debug)]
pub struct StateReader {
    oid: Oid,
    at: Lsn,
    stream_bytes: u64,
    read_bytes: u64,
    encoding: Encoding,
    columns: Option<Vec<CatalogColumn>>,
    phase: Phase,
}

#[derive(Debug)]
enum Phase {
    /// The changes are read.
    Changes(Box<Changes>),
    /// The rows are written.
    Rows(Box<NetRows>),
    /// A failure was returned.
    Failed,
}

impl StateReader {
    /// The table.
    pub const fn oid(&self) -> Oid {
        self.oid
    }

    /// The LSN of the rows: the stream gives the table as of this LSN. The changes after this LSN
    /// continue it.
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// Bytes of the log's streams that were read so far, and all bytes to read.
    pub const fn progress(&self) -> (u64, u64) {
        (self.read_bytes, self.stream_bytes)
    }

    /// Reads the next bytes of the stream, in place of the buffer's contents. Returns false at the
    /// end.
    ///
    /// While changes are read, there are no bytes, and each call reads only a part of the changes. So
    /// the caller may check for interrupts in between.
    ///
    /// # Errors
    /// [`ErrorKind::Incomplete`] if the changes do not give the rows. A segment is damaged, or the
    /// spool failed.
    ///
    /// [`ErrorKind::Incomplete`]: crate::ErrorKind::Incomplete
    pub fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        out.clear();
        match &mut self.phase {
            Phase::Failed => Ok(false),
            Phase::Rows(rows) => rows.read(out).map_err(|error| spool(error, 0)),
            Phase::Changes(changes) => {
                match changes.apply() {
                    Ok(Some(bytes)) => {
                        self.read_bytes = self.read_bytes.saturating_add(bytes as u64);
                        return Ok(true);
                    }
                    Ok(None) => {}
                    Err(error) => {
                        self.phase = Phase::Failed;
                        return Err(error);
                    }
                }
                if let Phase::Changes(changes) = std::mem::replace(&mut self.phase, Phase::Failed) {
                    let rows = changes.into_net().into_rows(self.encoding);
                    let mut rows = rows.map_err(|error| failed(error, 0))?.with_end(self.at);
                    if let Some(columns) = &self.columns {
                        rows = rows.with_columns(columns);
                    }
                    self.phase = Phase::Rows(Box::new(rows));
                }
                Ok(true)
            }
        }
    }
}
