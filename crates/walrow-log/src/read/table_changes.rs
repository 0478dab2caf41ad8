//! The changes of tables in segments, which nets take a chunk at a time.

use crate::error::{Error, ErrorKind};
use crate::read::resolve::PlanReader;
use std::io;
use std::sync::Arc;
use walrow_stream::{Assembler, Change, End, Event, Net, NetError, Spool, Unread};
use walrow_wire::{Framing, Lsn};

/// An assembler for the transactions of a range.
pub(crate) fn assembler(
    start: Lsn,
    at: Lsn,
    memory: Option<usize>,
    spool: Option<&Arc<dyn Spool>>,
) -> Assembler {
    let mut assembler = Assembler::new(Framing::Wire)
        .with_start(start)
        .with_end(End::Lsn(at));
    if let Some(memory) = memory {
        assembler = assembler.with_spool_memory(memory);
    }
    if let Some(spool) = spool {
        assembler = assembler.with_spool(Arc::clone(spool));
    }
    assembler
}

/// Takes changes: the net of a table does, and the nets of several tables.
pub(crate) trait Takes {
    fn row(&mut self, row: &Change<'_, Unread<'_>>) -> Result<(), NetError>;

    /// Takes an event between rows. Returns false for a relation whose rows are not wanted.
    fn event(&mut self, event: &Event<'_, NetError>) -> Result<bool, NetError>;
}

impl Takes for Net {
    fn row(&mut self, row: &Change<'_, Unread<'_>>) -> Result<(), NetError> {
        self.row(row)
    }

    fn event(&mut self, event: &Event<'_, NetError>) -> Result<bool, NetError> {
        match event {
            Event::Begin(transaction) => self.begin(transaction)?,
            Event::Truncate(truncate) => self.truncate(truncate)?,
            Event::Fact(fact) => self.fact(fact),
            Event::Relation { relation, .. } if relation.oid == self.oid() => {
                self.relation(relation)?;
            }
            Event::Relation { .. } => return Ok(false),
            _ => {}
        }
        Ok(true)
    }
}

/// The changes that are left, and the taker of the others.
#[derive(Debug)]
pub(crate) struct Changes<T> {
    stream: PlanReader,
    chunk: Vec<u8>,
    assembler: Assembler,
    taker: T,
}

impl<T: Takes> Changes<T> {
    pub(crate) const fn new(stream: PlanReader, assembler: Assembler, taker: T) -> Self {
        Self {
            stream,
            chunk: Vec::new(),
            assembler,
            taker,
        }
    }

    /// The taker of the changes.
    pub(crate) const fn taker(&self) -> &T {
        &self.taker
    }

    /// The taker, with the changes that it has taken.
    pub(crate) fn into_taker(self) -> T {
        self.taker
    }

    /// Takes a chunk of changes. Returns its size, or `None` at the end.
    pub(crate) fn apply(&mut self) -> Result<Option<usize>, Error> {
        if self.assembler.is_past_end() || !self.stream.read(&mut self.chunk)? {
            return Ok(None);
        }
        let Self {
            chunk,
            assembler,
            taker,
            ..
        } = self;
        let mut input = &**chunk;
        let offset = assembler.offset();
        let failed = |error| failed(error, offset);
        while let Some(event) = assembler.next_with(&mut input, |row| taker.row(&row))? {
            match event {
                Event::Change(error) => return Err(failed(error)),
                event => {
                    let is_wanted = taker.event(&event).map_err(failed)?;
                    if !is_wanted && let Event::Relation { relation, .. } = event {
                        let version = relation.version;
                        assembler.leave_out(version);
                    }
                }
            }
        }
        Ok(Some(chunk.len()))
    }
}

/// The error of a net.
pub(crate) fn failed(error: NetError, offset: u64) -> Error {
    match error {
        NetError::Stream(error) => error.into(),
        NetError::Spool(error) => spool(error, offset),
        NetError::Incomplete {
            table, lsn, gap, ..
        } => Error::new("", ErrorKind::Incomplete { table, lsn, gap }),
        NetError::Part => Error::new("", ErrorKind::NetPart),
        // There are no other kinds of this error.
        other => spool(io::Error::other(other.to_string()), offset),
    }
}

impl From<NetError> for Error {
    fn from(error: NetError) -> Self {
        failed(error, 0)
    }
}

/// The error of a spool.
pub(crate) fn spool(error: io::Error, offset: u64) -> Error {
    let kind = walrow_stream::ErrorKind::from(error);
    Error::from(walrow_stream::Error::new(kind, offset, None))
}
