//! The rows of a table as of an LSN or a time, as a stream.

use crate::error::{Error, ErrorKind};
use crate::read::as_of::Part;
use crate::read::log::Log;
use crate::read::resolve::PlanReader;
use crate::read::segment_reader::SegmentReader;
use std::io;
use std::sync::Arc;
use walrow_stream::{
    Assembler, CatalogColumn, CellTextOf, Encoding, End, Event, Fold, FoldError, FoldedRows, Spool,
};
use walrow_wire::{Framing, Lsn, Oid};

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
    /// The columns that the table got after its last change: [`FoldedRows::with_columns`].
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
        let mut fold = Fold::new(part.oid);
        if part.load.is_some() {
            fold = fold.after_load();
        }
        if let Some(cell_text) = options.cell_text {
            fold = fold.with_cell_text(cell_text);
        }
        let encoding = self.encoding();
        let mut assembler = Assembler::new(Framing::Wire)
            .with_start(part.start())
            .with_end(End::Lsn(part.at))
            .with_encoding(encoding);
        if let Some(memory) = options.memory {
            fold = fold.with_memory(memory);
            assembler = assembler.with_spool_memory(memory);
        }
        if let Some(spool) = options.spool {
            fold = fold.with_spool(Arc::clone(&spool));
            assembler = assembler.with_spool(spool);
        }
        let Part { oid, at, .. } = part;
        Ok(StateReader {
            oid,
            at,
            stream_bytes,
            read_bytes: 0,
            encoding,
            columns: options.columns,
            phase: Phase::Changes(Box::new(Changes {
                segments,
                segment: None,
                chunk: Vec::new(),
                assembler,
                fold,
            })),
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
    Rows(Box<FoldedRows>),
    /// A failure was returned.
    Failed,
}

/// The changes that are left to apply, and the rows so far.
#[derive(Debug)]
struct Changes {
    segments: PlanReader,
    segment: Option<SegmentReader>,
    chunk: Vec<u8>,
    assembler: Assembler,
    fold: Fold,
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
                    let mut rows = changes.fold.into_rows(self.encoding).with_end(self.at);
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

impl Changes {
    /// Applies a chunk of changes. Returns its size, or `None` at the end.
    fn apply(&mut self) -> Result<Option<usize>, Error> {
        let segment = loop {
            let segment = match (&mut self.segment, self.assembler.is_past_end()) {
                (_, true) => return Ok(None),
                (Some(segment), false) => segment,
                (none, false) => match self.segments.open_next()? {
                    None => return Ok(None),
                    Some(opened) => none.insert(opened),
                },
            };
            if segment.read(&mut self.chunk)? {
                break self.chunk.len();
            }
            self.segment = None;
        };
        let Self {
            chunk,
            assembler,
            fold,
            ..
        } = self;
        let mut input = &**chunk;
        let offset = assembler.offset();
        let failed = |error| failed(error, offset);
        while let Some(event) = assembler.next_with(&mut input, |row| fold.row(&row))? {
            match event {
                Event::Change(applied) => applied.map_err(failed)?,
                Event::Begin(transaction) => fold.begin(transaction),
                Event::Truncate(truncate) => fold.truncate(&truncate).map_err(failed)?,
                Event::Fact(fact) => fold.fact(&fact),
                Event::Relation { relation, .. } if relation.oid == fold.oid() => {
                    fold.relation(relation).map_err(failed)?;
                }
                Event::Relation { relation, .. } => {
                    let version = relation.version;
                    assembler.leave_out(version);
                }
                _ => {}
            }
        }
        Ok(Some(segment))
    }
}

fn failed(error: FoldError, offset: u64) -> Error {
    match error {
        FoldError::Stream(error) => error.into(),
        FoldError::Spool(error) => spool(error, offset),
        FoldError::Incomplete {
            table, lsn, gap, ..
        } => Error::new("", ErrorKind::Incomplete { table, lsn, gap }),
        // There are no other kinds of this error.
        other => spool(io::Error::other(other.to_string()), offset),
    }
}

/// The error of a spool.
fn spool(error: io::Error, offset: u64) -> Error {
    let kind = walrow_stream::ErrorKind::from(error);
    Error::from(walrow_stream::Error::new(kind, offset, None))
}
