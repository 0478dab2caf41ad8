//! The rows of a table, or its net changes, as a stream: changes are read, then rows are written.

use crate::error::Error;
use crate::read::definition::Definition;
use crate::read::table_changes::{Changes, failed, spool};
use std::sync::Arc;
use walrow_stream::{CatalogColumn, Net, NetRows, Relation, Tally};
use walrow_wire::{Lsn, Oid};

/// The rows of a table, or its net changes, as a stream of wire frames, in chunks of any size:
/// [`Log::state`] and [`Log::net`].
///
/// [`Log::state`]: crate::Log::state
/// [`Log::net`]: crate::Log::net
#[derive(Debug)]
pub struct TableReader {
    oid: Oid,
    at: Lsn,
    stream_bytes: u64,
    read_bytes: u64,
    columns: Columns,
    phase: Phase,
}

/// The source of the columns that the changes do not show.
#[derive(Debug)]
pub(super) enum Columns {
    /// The columns that the table got after its last change.
    Added(Option<Vec<CatalogColumn>>),
    /// The definition of a range without changes.
    Defined(Option<Definition>),
}

#[derive(Debug)]
enum Phase {
    /// The changes are read.
    Changes(Box<Changes<Net>>),
    /// The rows are written.
    Rows(Box<NetRows>),
    /// A failure was returned, or the net was taken.
    Failed,
}

impl TableReader {
    /// Begins with changes up to an LSN.
    pub(super) fn new(at: Lsn, stream_bytes: u64, columns: Columns, changes: Changes<Net>) -> Self {
        Self {
            oid: changes.taker().oid(),
            at,
            stream_bytes,
            read_bytes: 0,
            columns,
            phase: Phase::Changes(Box::new(changes)),
        }
    }

    /// The table.
    pub const fn oid(&self) -> Oid {
        self.oid
    }

    /// The LSN of the rows, or the end of the net changes. The changes after this LSN continue it.
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// Bytes of the log's streams that were read so far, and all bytes to read.
    pub const fn progress(&self) -> (u64, u64) {
        (self.read_bytes, self.stream_bytes)
    }

    /// The version of the rows. Before all changes were read, [`TableReader::advance`], the version
    /// of the last change so far. `None` if nothing described the table.
    pub fn relation(&self) -> Option<&Arc<Relation>> {
        match &self.phase {
            Phase::Changes(changes) => changes.taker().last_version(),
            Phase::Rows(rows) => rows.relation(),
            Phase::Failed => None,
        }
    }

    /// The tally of net changes. `None` until all changes were read, [`TableReader::advance`], and for
    /// a state.
    pub fn tally(&self) -> Option<&Tally> {
        match &self.phase {
            Phase::Rows(rows) => rows.tally(),
            Phase::Changes(_) | Phase::Failed => None,
        }
    }

    /// Reads a part of the changes. Returns false once all were read.
    ///
    /// # Errors
    /// [`ErrorKind::Incomplete`] if the changes do not give the rows. A segment is damaged, or the
    /// spool failed.
    ///
    /// [`ErrorKind::Incomplete`]: crate::ErrorKind::Incomplete
    pub fn advance(&mut self) -> Result<bool, Error> {
        let is_read = self.take_changes();
        if !matches!(is_read, Ok(false)) || !matches!(self.phase, Phase::Changes(_)) {
            return is_read;
        }
        if let Phase::Changes(changes) = std::mem::replace(&mut self.phase, Phase::Failed) {
            let mut net = changes.into_taker();
            if let Columns::Defined(definition) = &mut self.columns
                && net.last_version().is_none()
                && let Some(definition) = definition.take()
            {
                definition.describe(&mut net)?;
            }
            let rows = net.into_rows();
            let mut rows = rows.map_err(|error| failed(error, 0))?.with_end(self.at);
            if let Columns::Added(Some(columns)) = &self.columns {
                rows = rows.with_columns(columns);
            }
            self.phase = Phase::Rows(Box::new(rows));
        }
        Ok(false)
    }

    /// Reads a part of the changes, for [`TableReader::into_net`]. Returns false once all were read.
    ///
    /// # Errors
    /// As [`TableReader::advance`].
    pub fn take_changes(&mut self) -> Result<bool, Error> {
        let Phase::Changes(changes) = &mut self.phase else {
            return Ok(false);
        };
        match changes.apply() {
            Ok(Some(bytes)) => {
                self.read_bytes = self.read_bytes.saturating_add(bytes as u64);
                Ok(true)
            }
            Ok(None) => Ok(false),
            Err(error) => {
                self.phase = Phase::Failed;
                Err(error)
            }
        }
    }

    /// The net of the changes that were taken so far. `None` if rows were already read.
    pub fn into_net(self) -> Option<Net> {
        match self.phase {
            Phase::Changes(changes) => Some(changes.into_taker()),
            Phase::Rows(_) | Phase::Failed => None,
        }
    }

    /// Reads the next bytes of the stream, in place of the buffer's contents. Returns false at the
    /// end.
    ///
    /// While changes are read, there are no bytes, and each call reads only a part of the changes. So
    /// the caller may check for interrupts in between.
    ///
    /// # Errors
    /// As [`TableReader::advance`].
    pub fn read(&mut self, out: &mut Vec<u8>) -> Result<bool, Error> {
        out.clear();
        match &mut self.phase {
            Phase::Failed => Ok(false),
            Phase::Rows(rows) => rows.read(out).map_err(|error| spool(error, 0)),
            Phase::Changes(_) => {
                self.advance()?;
                Ok(true)
            }
        }
    }
}
