//! A load: the rows of tables in a snapshot, as one transaction of the log.
//!
//! ```text
//! segments  ┌──────────────┬ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┬─────────┬─────────┐
//!           │              │ load: part 0, 1, …  │         │         │
//!           └──────────────┴ ─ ─ ─ ─ ─ ─ ─ ─ ─ ─ ┴─────────┴─────────┘
//!                       start                  point
//! ```
//! A snapshot has exactly the transactions that were committed before its consistent point. So the
//! load belongs at this point in the order of commits. While tables are copied, the writer takes
//! later transactions and publishes their segments. But readers stop before the gap until the
//! load's last part fills it. So no reader passes a load that is not complete.
//!
//! The load is one transaction: a truncate of its tables, and then their rows. Its commit LSN is
//! point − 1, where no commit record can start. Its end LSN is the point. It is as large as the
//! tables, so it continues over several segments.

use crate::error::{Error, ErrorKind};
use crate::format::contents::{Contents, Which};
use crate::format::load_place::Place;
use crate::store::Store;
use crate::write::load_place::BeforeLoad;
use crate::write::segment_file::{CompleteSegment, Piece, SegmentFile};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use walrow_stream::fact::{Fact, Segment, Source};
use walrow_stream::{Catalog, Encoder, Relation, Transaction, Truncate};
use walrow_wire::{CopyRows, Lsn, Timestamp};

/// Distinguishes loads of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoadId(u64);

impl LoadId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// How a load is written: in the same way as the log's other segments.
#[derive(Debug)]
pub(crate) struct LoadOptions {
    pub(crate) id: LoadId,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) level: Option<i32>,
    pub(crate) segment_bytes: u64,
    pub(crate) source: Source,
    pub(crate) catalog: Catalog,
}

/// A load under construction. Several threads may append rows. [`Writer::begin_load`] begins a
/// load, and [`Writer::end_load`] publishes it in its place.
///
/// [`Writer::begin_load`]: crate::Writer::begin_load
/// [`Writer::end_load`]: crate::Writer::end_load
#[derive(Debug)]
pub struct Load {
    options: LoadOptions,
    place: Place,
    tables: Vec<Arc<Relation>>,
    transaction: Transaction,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    encoder: Encoder,
    contents: Contents,
    /// The seq of the next change.
    next_seq: u64,
    part: Option<Part>,
    complete: Vec<CompleteSegment>,
}

/// The part that is being written.
#[derive(Debug)]
struct Part {
    file: SegmentFile,
    bytes: u64,
}

/// The rows of one COPY of a table.
#[derive(Clone, Debug)]
pub struct TableCopy {
    table: usize,
    rows: CopyRows,
}

impl Load {
    pub(crate) fn new(
        mut options: LoadOptions,
        place: Place,
        time: Timestamp,
        tables: Vec<Relation>,
    ) -> Self {
        let mut transaction = Transaction::default();
        transaction.commit_lsn = Lsn(place.point.0.saturating_sub(1));
        transaction.end_lsn = place.point;
        transaction.commit_time = time;
        transaction.snapshot = true;
        // Each part describes all tables.
        let types = tables.iter().flat_map(|table| &table.columns);
        let types = types.map(|column| column.type_oid);
        options.catalog = options
            .catalog
            .restricted(tables.iter().map(|it| it.oid), types);
        let tables = (0..).zip(tables);
        let tables = tables.map(|(version, mut table): (u32, Relation)| {
            table.version = version;
            Arc::new(table)
        });
        Self {
            options,
            place,
            tables: tables.collect(),
            transaction,
            state: Mutex::default(),
        }
    }

    pub(crate) const fn id(&self) -> LoadId {
        self.options.id
    }

    /// The consistent point of the snapshot. The load comes after all transactions that were
    /// committed before this LSN.
    pub const fn point(&self) -> Lsn {
        self.place.point
    }

    /// Begins a COPY of a table. The COPY has the columns of the table's relation. A large table
    /// may come in several COPYs. `None` if the load has no table of this number.
    pub fn copy(&self, table: usize, binary: bool) -> Option<TableCopy> {
        let relation = self.tables.get(table)?;
        let columns = u16::try_from(relation.columns.len()).ok()?;
        let rows = if binary {
            CopyRows::binary(relation.oid, columns)
        } else {
            CopyRows::text(relation.oid, columns)
        };
        Some(TableCopy { table, rows })
    }

    /// Appends rows. `data` has whole payloads of CopyData messages. Returns the number of rows.
    ///
    /// # Errors
    /// The bytes are no data of a COPY, or the store failed. Then the load is useless.
    pub fn append(&self, copy: &mut TableCopy, data: &[u8]) -> Result<u64, Error> {
        let Some(relation) = self.tables.get(copy.table) else {
            return Ok(0);
        };
        let mut frames = Vec::with_capacity(data.len().saturating_mul(2));
        let clock = self.transaction.commit_time;
        let rows = copy
            .rows
            .encode(data, clock, &mut frames)
            .map_err(|error| Error::new("", ErrorKind::Copy(error)))?;
        if rows > 0 {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            self.put(&mut state, relation, rows, frames)?;
        }
        Ok(rows)
    }

    /// Writes rows to the current part, and ends it if it is full.
    fn put(
        &self,
        state: &mut State,
        relation: &Arc<Relation>,
        rows: u64,
        frames: Vec<u8>,
    ) -> Result<(), Error> {
        self.begin_part(state)?;
        let State {
            encoder,
            contents,
            part: Some(part),
            ..
        } = state
        else {
            return Ok(());
        };
        let mut relations = Vec::new();
        encoder.describe(relation, &mut relations);
        contents.rows(relation, rows, frames.len());
        let bytes = relations.len().saturating_add(frames.len());
        part.bytes = part.bytes.saturating_add(bytes as u64);
        part.append(relations)?;
        part.append(frames)?;
        let is_full = part.bytes >= self.options.segment_bytes;
        state.next_seq = state.next_seq.saturating_add(rows);
        if is_full {
            self.end_part(state, Which::Current, None)
        } else {
            Ok(())
        }
    }

    /// Begins a part, unless a part is open. The first part has the truncate.
    fn begin_part(&self, state: &mut State) -> Result<(), Error> {
        if state.part.is_some() {
            return Ok(());
        }
        let Some(number) = u32::try_from(state.complete.len()).ok() else {
            let error = std::io::Error::other("the load has too many parts");
            return Err(Error::store("", &error));
        };
        let source = self.options.source.clone();
        let head = Segment::new(self.place.start, number, source);
        let mut file = SegmentFile::create(&*self.options.store, head, self.options.level)?;
        let mut begin = Vec::new();
        let catalog = &self.options.catalog;
        if !catalog.is_empty() {
            Fact::Catalog(Arc::new(catalog.clone())).encode(false, &mut begin);
        }
        if number > 0 {
            let first_seq = state.next_seq;
            Fact::Part { first_seq }.encode(false, &mut begin);
        }
        Fact::Snapshot.encode(false, &mut begin);
        state.encoder.restart();
        state.encoder.begin(&self.transaction, &mut begin);
        state.contents.begin(&self.transaction);
        if number == 0 && !self.tables.is_empty() {
            let mut truncate = Truncate::default();
            truncate.relations.clone_from(&self.tables);
            state.encoder.truncate(&truncate, &mut begin);
            self.tables
                .iter()
                .for_each(|it| state.contents.truncate(it));
            state.next_seq = 1;
        }
        let bytes = begin.len() as u64;
        file.append(Piece {
            between: false,
            ..begin.into()
        })?;
        state.part = Some(Part { file, bytes });
        Ok(())
    }

    fn end_part(
        &self,
        state: &mut State,
        which: Which,
        before: Option<&BeforeLoad>,
    ) -> Result<(), Error> {
        let Some(mut part) = state.part.take() else {
            return Ok(());
        };
        let mut end = Vec::new();
        if which == Which::Current {
            Fact::Continues.encode(true, &mut end);
        } else {
            state.contents.commit();
        }
        state.encoder.commit(&self.transaction, &mut end);
        part.append(end)?;
        let mut foot = state
            .contents
            .foot(which, &self.options.source, self.place.point);
        foot.source.last = None;
        if let Some(before) = before {
            before.complete(&self.place, &mut foot);
        }
        state.complete.push(part.file.complete(foot)?);
        state.contents.clear();
        Ok(())
    }

    /// Completes the last part, and publishes all parts in order. Returns the number of parts.
    /// `before` has the facts of the log at the place of the load.
    pub(crate) fn publish(&self, before: &BeforeLoad) -> Result<u64, Error> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let complete = state.complete.last();
        if complete.is_none_or(CompleteSegment::continues) {
            self.begin_part(&mut state)?;
            self.end_part(&mut state, Which::Whole, Some(before))?;
        }
        for segment in &mut state.complete {
            segment.publish(&*self.options.store)?;
        }
        Ok(state.complete.len() as u64)
    }

    /// Drops all parts.
    pub(crate) fn give_up(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        *state = State::default();
    }
}

impl Part {
    fn append(&mut self, bytes: Vec<u8>) -> Result<(), Error> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.file.append(Piece {
            between: false,
            ..bytes.into()
        })
    }
}
