//! Bytes in, batches out.

use crate::batch::Batch;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::metadata::{ChangeType, Commit};
use crate::options::{DecoderBuilder, Profile};
use crate::table::{Current, NewRow, Table};
use arrow_schema::SchemaRef;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use walrow_stream::{Assembler, Change, Item, Relation, Row, Transaction};
use walrow_wire::{Lsn, Oid, OldTuple};

/// Turns a stream into record batches of its committed rows, one table and version a batch.
///
/// Push bytes with [`Decoder::decode`], which stops when a batch is full; take batches with
/// [`Decoder::next_batch`]; end with [`Decoder::finish`]. Batches never depend on where the input
/// was cut.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
///
/// let stream: &[u8] = &[]; // wire frames, from a file or a connection
/// let mut decoder = DecoderBuilder::new().build()?;
/// let mut rest = stream;
/// loop {
///     let consumed = decoder.decode(rest)?;
///     rest = &rest[consumed..];
///     let mut any = false;
///     while let Some(batch) = decoder.next_batch() {
///         println!("{}: {} rows", batch.relation(), batch.records().num_rows());
///         any = true;
///     }
///     if rest.is_empty() && !any {
///         break;
///     }
/// }
/// decoder.finish()?;
/// while let Some(batch) = decoder.next_batch() {
///     println!("{}: {} rows", batch.relation(), batch.records().num_rows());
/// }
/// println!("complete up to {}", decoder.position());
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Debug)]
pub struct Decoder {
    assembler: Assembler,
    tables: Tables,
    failure: Option<Error>,
}

impl Decoder {
    pub(crate) fn new(options: DecoderBuilder) -> Self {
        Self {
            assembler: Assembler::new(options.framing),
            tables: Tables::new(options),
            failure: None,
        }
    }

    /// Decodes from the front of `input` and says how many bytes it took; give it the rest again.
    ///
    /// It stops early when a batch is full: take all batches before the next call. In framings
    /// other than wire, each chunk is made wire frames by [`walrow_wire::Framing::append`] first.
    ///
    /// # Errors
    /// What stops the decoder for good: later calls repeat the error. Everything before the fault
    /// lies ready for [`Decoder::next_batch`]: of bytes that are not the protocol all transactions
    /// before theirs, of a value that Arrow cannot hold all rows before its own.
    pub fn decode(&mut self, input: &[u8]) -> Result<usize, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let mut rest = input;
        while self.tables.ready.is_empty() {
            match self.step(&mut rest) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => return Err(self.fail(error)),
            }
        }
        Ok(input.len().saturating_sub(rest.len()))
    }

    #[inline]
    fn step(&mut self, rest: &mut &[u8]) -> Result<bool, Error> {
        match self.assembler.next(rest)? {
            None => return Ok(false),
            Some(Item::Change(change)) => self.tables.change(&change)?,
            Some(Item::Begin(transaction)) => self.tables.begin(transaction)?,
            Some(Item::Commit(transaction)) => self.tables.commit(transaction),
            Some(Item::ServerError { sqlstate }) => {
                self.tables.server_error = Some(sqlstate.to_owned());
            }
            Some(_) => {}
        }
        Ok(true)
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        if matches!(error.kind(), ErrorKind::Stream(_)) {
            self.tables.take_back();
        }
        self.failure = Some(error.clone());
        // What came before is handed out; that it cannot be would be a second fault.
        let _ = self.tables.flush();
        error
    }

    /// Takes the next finished batch.
    pub fn next_batch(&mut self) -> Option<Batch> {
        self.tables.ready.pop_front().map(|(batch, _)| batch)
    }

    /// Makes batches of all rows so far, that is, of everything up to the last commit.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn flush(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        self.tables.flush().map_err(|error| self.fail(error))
    }

    /// Ends the stream: as [`Decoder::flush`], and refuses more input no more than before.
    ///
    /// # Errors
    /// A chosen table that never appeared is [`ErrorKind::Schema`].
    pub fn finish(&mut self) -> Result<(), Error> {
        self.flush()?;
        match (&self.tables.options.table, &self.tables.selected) {
            (Some(name), None) => {
                let text = format!("no table {name} in the stream");
                Err(Error::new(ErrorKind::Schema(text)))
            }
            _ => Ok(()),
        }
    }

    /// The end LSN up to which every transaction's rows were taken with [`Decoder::next_batch`];
    /// 0/0 before the first. Never goes back.
    pub fn position(&self) -> Lsn {
        self.tables.position()
    }

    /// Bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.assembler.offset()
    }

    /// Whether the input so far ends inside a frame or a transaction: more should have come.
    pub fn is_mid_transaction(&self) -> bool {
        self.assembler.is_mid_transaction()
    }

    /// Begins a new server session: open transactions and relations are dropped.
    pub fn new_session(&mut self) {
        self.assembler.new_session();
    }

    /// The chosen table's schema, once it has appeared.
    pub fn schema(&self) -> Option<SchemaRef> {
        let options = &self.tables.options;
        options
            .schema
            .clone()
            .or_else(|| Some(Arc::clone(&self.tables.selected.as_ref()?.1)))
    }

    /// OIDs of column types that are neither built in nor in the catalog; their columns are utf8.
    pub fn unresolved_types(&self) -> impl Iterator<Item = Oid> + '_ {
        self.tables.unresolved.iter().copied()
    }

    /// The SQLSTATE of the last error with which a server ended the stream.
    pub fn server_error(&self) -> Option<&str> {
        self.tables.server_error.as_deref()
    }
}

/// All tables' batches under construction.
#[derive(Debug)]
struct Tables {
    options: DecoderBuilder,
    /// By relation version.
    slots: Vec<Slot>,
    /// The version whose rows came last, by `schema.name` and by OID.
    by_name: HashMap<String, u32>,
    by_oid: HashMap<Oid, u32>,
    /// Finished batches, and up to where everything was handed out before their first row.
    ready: VecDeque<(Batch, Lsn)>,
    /// Bytes of all unfinished batches.
    bytes: usize,
    current: Current,
    /// The end of the last transaction that is complete.
    last_end: Lsn,
    /// Up to where everything was handed out before the first row that could not be.
    lost: Option<Lsn>,
    /// The chosen table, once it has appeared: `schema.name`, its schema, its layout's origin.
    selected: Option<(String, SchemaRef)>,
    unresolved: BTreeSet<Oid>,
    server_error: Option<String>,
}

#[derive(Debug)]
enum Slot {
    New,
    Skipped,
    Table(Box<Table>),
}

impl Tables {
    fn new(options: DecoderBuilder) -> Self {
        Self {
            options,
            slots: Vec::new(),
            by_name: HashMap::new(),
            by_oid: HashMap::new(),
            ready: VecDeque::new(),
            bytes: 0,
            current: Current::default(),
            last_end: Lsn::INVALID,
            lost: None,
            selected: None,
            unresolved: BTreeSet::new(),
            server_error: None,
        }
    }

    fn begin(&mut self, transaction: &Transaction) -> Result<(), Error> {
        let out_of_range = |column: &str| {
            Error::new(ErrorKind::Schema("is beyond 64 bits".to_owned()))
                .in_column(column)
                .at(0, transaction.commit_lsn)
        };
        let time = transaction
            .commit_time
            .unix_micros()
            .ok_or_else(|| out_of_range("commit_timestamp"))?;
        let lsn = transaction.commit_lsn.0;
        if self.options.profile == Profile::Spark && i64::try_from(lsn).is_err() {
            return Err(out_of_range("commit_lsn"));
        }
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        self.current.commit = Commit {
            lsn,
            time,
            xid: transaction.xid,
        };
        self.current.floor = self.last_end;
        Ok(())
    }

    fn commit(&mut self, transaction: &Transaction) {
        self.last_end = self.last_end.max(transaction.end_lsn);
        // A later fault takes back nothing of it.
        self.current.ordinal = self.current.ordinal.saturating_add(1);
    }

    #[inline]
    fn change(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let seq = change.seq;
        let at = |error: Error, commit: Commit| {
            let lsn = if change.lsn.is_valid() {
                change.lsn
            } else {
                Lsn(commit.lsn)
            };
            error.at(change.offset, lsn)
        };
        let commit = self.current.commit;
        match &change.row {
            Row::Insert { new } => {
                let row = NewRow {
                    change_type: ChangeType::Insert,
                    seq,
                    key_only: false,
                    tuple: *new,
                    old: None,
                };
                self.row(change.relation, &row)
            }
            Row::Update { old, new } => {
                let before = old.map_or(Ok(()), |old| {
                    self.old_row(change.relation, ChangeType::UpdatePreimage, seq, old)
                });
                let row = NewRow {
                    change_type: ChangeType::UpdatePostimage,
                    seq,
                    key_only: false,
                    tuple: *new,
                    old: *old,
                };
                before.and_then(|()| self.row(change.relation, &row))
            }
            Row::Delete { old } => self.old_row(change.relation, ChangeType::Delete, seq, *old),
            Row::Truncate { relations, .. } => relations
                .iter()
                .try_for_each(|relation| self.truncate(relation, seq)),
            _ => Ok(()),
        }
        .map_err(|error| at(error, commit))
    }

    #[inline]
    fn old_row(
        &mut self,
        relation: &Arc<Relation>,
        change_type: ChangeType,
        seq: u64,
        old: OldTuple<'_>,
    ) -> Result<(), Error> {
        let key_only = matches!(old, OldTuple::Key(_));
        let row = NewRow {
            change_type,
            seq,
            key_only,
            tuple: old.tuple(),
            old: None,
        };
        self.row(relation, &row)
    }

    #[inline]
    fn row(&mut self, relation: &Arc<Relation>, row: &NewRow<'_>) -> Result<(), Error> {
        let index = relation.version as usize;
        if matches!(self.slots.get(index), None | Some(Slot::New)) {
            self.open(relation)?;
        }
        let Some(Slot::Table(table)) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let before = table.bytes();
        let result = table.append(&self.current, row);
        self.bytes = self
            .bytes
            .saturating_sub(before)
            .saturating_add(table.bytes());
        result?;
        if table.rows() >= self.options.batch_rows
            || table.bytes() >= self.options.batch_bytes
            || self.bytes > self.options.batch_memory
        {
            return self.settle(index);
        }
        Ok(())
    }

    fn truncate(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        let index = relation.version as usize;
        if matches!(self.slots.get(index), None | Some(Slot::New)) {
            self.open(relation)?;
        }
        let Some(Slot::Table(table)) = self.slots.get_mut(index) else {
            return Ok(());
        };
        let before = table.bytes();
        table.append_truncate(&self.current, seq);
        self.bytes = self
            .bytes
            .saturating_sub(before)
            .saturating_add(table.bytes());
        self.settle(index)
    }

    /// Hands out the batch if it is full, and those that memory cannot hold beside the others.
    #[cold]
    fn settle(&mut self, index: usize) -> Result<(), Error> {
        if let Some(Slot::Table(table)) = self.slots.get(index)
            && (table.rows() >= self.options.batch_rows
                || table.bytes() >= self.options.batch_bytes)
        {
            self.finish(index, true)?;
        }
        while self.bytes > self.options.batch_memory {
            let size = |slot: &Slot| match slot {
                Slot::Table(table) if table.rows() > 0 => Some(table.bytes()),
                _ => None,
            };
            let fullest = self
                .slots
                .iter()
                .enumerate()
                .filter_map(|(i, s)| Some((size(s)?, i)));
            match fullest.max() {
                Some((_, index)) => self.finish(index, false)?,
                None => break,
            }
        }
        Ok(())
    }

    fn finish(&mut self, index: usize, full: bool) -> Result<(), Error> {
        if let Some(Slot::Table(table)) = self.slots.get_mut(index)
            && let Some(floor) = table.floor()
        {
            self.bytes = self.bytes.saturating_sub(table.bytes());
            match table.finish(full) {
                Ok(batch) => self.ready.push_back((batch, floor)),
                Err(error) => {
                    // Its rows are gone: nothing from the first of them on was handed out.
                    self.lost = Some(self.lost.map_or(floor, |lost| lost.min(floor)));
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        (0..self.slots.len()).try_for_each(|index| self.finish(index, false))
    }

    fn take_back(&mut self) {
        let current = self.current;
        for slot in &mut self.slots {
            if let Slot::Table(table) = slot {
                table.take_back(&current);
            }
        }
    }

    fn position(&self) -> Lsn {
        let unfinished = self.slots.iter().filter_map(|slot| match slot {
            Slot::Table(table) => table.floor(),
            _ => None,
        });
        let ready = self.ready.iter().map(|(_, floor)| *floor);
        unfinished
            .chain(ready)
            .chain(self.lost)
            .min()
            .unwrap_or(self.last_end)
    }

    /// Sees a relation version for the first time.
    #[cold]
    fn open(&mut self, relation: &Arc<Relation>) -> Result<(), Error> {
        let index = relation.version as usize;
        while self.slots.len() <= index {
            self.slots.push(Slot::New);
        }
        let chosen = self
            .options
            .table
            .as_ref()
            .is_none_or(|name| name.matches(&relation.namespace, &relation.name));
        let slot = if chosen {
            let layout = self.layout(relation)?;
            self.retire(relation)?;
            self.unresolved.extend(&layout.unresolved);
            Slot::Table(Box::new(Table::new(Arc::clone(relation), layout)))
        } else {
            Slot::Skipped
        };
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
        Ok(())
    }

    fn layout(&mut self, relation: &Arc<Relation>) -> Result<Layout, Error> {
        let mut layout = Layout::new(&self.options, relation)?;
        if self.options.table.is_none() {
            return Ok(layout);
        }
        match &self.selected {
            None => self.selected = Some((layout.table.clone(), Arc::clone(&layout.schema))),
            Some((table, _)) if *table != layout.table => {
                let text = format!(
                    "{table} and {} are both meant; name one with its schema, as a pair",
                    layout.table
                );
                return Err(Error::new(ErrorKind::Schema(text)));
            }
            Some((_, schema)) if schema.fields() == layout.schema.fields() => {
                // One schema for all, although the replica identity may have changed.
                layout.schema = Arc::clone(schema);
            }
            Some(_) => {
                let text = "the table's columns changed; give the schema that all its versions \
                            shall have, or read all tables";
                return Err(Error::new(ErrorKind::Schema(text.to_owned())).in_table(&layout.table));
            }
        }
        Ok(layout)
    }

    /// Hands out the rows of the versions that this one follows, so that a table's batches stay
    /// in order, and forgets those versions.
    fn retire(&mut self, relation: &Relation) -> Result<(), Error> {
        let version = relation.version;
        let earlier = [
            self.by_name.insert(relation.to_string(), version),
            self.by_oid.insert(relation.oid, version),
        ];
        for index in earlier
            .into_iter()
            .flatten()
            .map(|version| version as usize)
        {
            self.finish(index, false)?;
            if let Some(slot) = self.slots.get_mut(index) {
                *slot = Slot::New;
            }
        }
        Ok(())
    }
}
