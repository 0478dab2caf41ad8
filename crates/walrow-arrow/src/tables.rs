//! All tables' batches under construction.

use crate::batch::Batch;
use crate::envelope::Envelope;
use crate::error::{DecoderOption, Error, ErrorKind, Reason, Remedy, RemedyValue, SchemaError};
use crate::finished::Finished;
use crate::keys::Keys;
use crate::layout::{Layout, Template};
use crate::metadata::{Commit, MetadataColumn};
use crate::open_batches::OpenBatches;
use crate::options::{OnMissingTable, Options};
use crate::rows::Current;
use crate::selection::{Selection, has_same_columns};
use crate::side::Sides;
use crate::table::Refused;
use crate::unresolved::UnresolvedTypes;
use crate::versions::{Slot, Versions};
use arrow_schema::SchemaRef;
use std::sync::Arc;
use walrow_stream::{Change, Fact, Message, Relation, Transaction, Truncate, Unread};
use walrow_wire::Lsn;

/// All tables' batches under construction.
#[derive(Debug)]
pub(crate) struct Tables {
    may_lack_table: bool,
    /// Whether the options choose a part of the stream, which may lack the chosen table.
    is_part: bool,
    /// The keys of options, and the names that the stream has.
    keys: Keys,
    template: Template,
    selection: Selection,
    versions: Versions,
    /// The versions that have rows.
    open: OpenBatches,
    finished: Finished,
    current: Current,
    /// The metadata column that cannot hold this transaction's value.
    unrepresentable: Option<MetadataColumn>,
    /// The rows of all tables, if the options choose an envelope.
    envelope: Option<Box<Envelope>>,
    sides: Sides,
    /// The current TRUNCATE, while it has tables left.
    truncating: Option<Truncating>,
    pub(crate) unresolved: UnresolvedTypes,
    pub(crate) server_error: Option<String>,
}

/// A TRUNCATE becomes one row in each of its tables. The rows are appended one by one, as batches
/// are taken: all at once, they could need any amount of memory.
#[derive(Debug)]
struct Truncating {
    relations: std::vec::IntoIter<Arc<Relation>>,
    seq: u64,
    offset: u64,
    lsn: Lsn,
}

/// The result of taking a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// More rows can follow.
    Row,
    /// Batches are ready, and must be taken first.
    Batch,
}

impl Tables {
    pub(crate) fn new(options: &Options, template: Template) -> Self {
        let is_part = options.start.is_valid() || options.end.is_some();
        let keys = Keys::new(options, template.resolver());
        Self {
            keys,
            is_part,
            may_lack_table: is_part || options.missing_table == OnMissingTable::Ignore,
            template,
            selection: Selection::new(options),
            versions: Versions::default(),
            open: OpenBatches::new(options),
            finished: Finished::new(options.start),
            current: Current::default(),
            unrepresentable: None,
            envelope: options.envelope.then(|| Box::new(Envelope::new(options))),
            sides: Sides::new(options),
            truncating: None,
            unresolved: UnresolvedTypes::default(),
            server_error: None,
        }
    }

    /// Ends the stream, which described these relations: checks that it has the selected tables,
    /// and that the keys of options match something.
    pub(crate) fn check_names<'a>(
        &mut self,
        relations: impl Iterator<Item = &'a Arc<Relation>>,
    ) -> Result<(), Error> {
        let relations: Vec<_> = relations.collect();
        self.describe(&relations)?;
        for relation in relations {
            self.keys.see(relation);
        }
        let missing: Vec<_> = self.selection.missing().collect();
        if !missing.is_empty() && !self.may_lack_table {
            return Err(self.keys.missing(&missing));
        }
        // A part of the stream may have no changes of a table that a key names.
        if !missing.is_empty() || self.is_part {
            return Ok(());
        }
        self.keys.check()
    }

    /// Takes the next finished batch, or the error of a due batch that cannot be finished.
    pub(crate) fn next_batch(&mut self) -> Option<Result<Batch, Error>> {
        loop {
            if let Some(batch) = self.finished.pop() {
                return Some(Ok(batch));
            }
            let version = self.open.next_due()?;
            if let Err(error) = self.finish_version(version, false) {
                return Some(Err(error));
            }
        }
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.finished.is_empty() || self.open.has_due()
    }

    /// Whether a TRUNCATE has tables left, for [`Tables::truncate_next`].
    pub(crate) const fn is_truncating(&self) -> bool {
        self.truncating.is_some()
    }

    pub(crate) fn begin(&mut self, transaction: &Transaction) {
        let lsn = transaction.commit_lsn.0;
        let time = transaction.commit_time.unix_micros();
        // It is an error only if the transaction has rows and the batches have the column.
        self.unrepresentable =
            if time.is_none() && self.template.has(MetadataColumn::CommitTimestamp) {
                Some(MetadataColumn::CommitTimestamp)
            } else if !self.template.resolver().profile.has_unsigned()
                && i64::try_from(lsn).is_err()
                && self.template.has(MetadataColumn::CommitLsn)
            {
                Some(MetadataColumn::CommitLsn)
            } else {
                None
            };
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        self.current.commit = Commit {
            lsn,
            time: time.unwrap_or(0),
            xid: transaction.xid,
            is_loaded: transaction.snapshot,
        };
        self.current.floor = self.finished.end();
    }

    /// Takes a logical message, in the current transaction or outside transactions.
    pub(crate) fn message(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if !self.sides.has_messages() {
            return Ok(());
        }
        if message.transactional {
            self.sides.message(&self.current, message)?;
            return self.finish_full_sides();
        }
        let alone = Current {
            commit: Commit::default(),
            floor: self.finished.end(),
            ..self.current
        };
        self.sides.message(&alone, message)?;
        self.finish_full_sides()?;
        // The message has its own position, and a later error does not take its row back.
        self.finished.complete(message.lsn);
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    /// Takes one of walrow's own facts.
    pub(crate) fn fact(&mut self, fact: &Fact) {
        match fact {
            Fact::Catalog(catalog) => {
                self.keys.learn(catalog);
                self.template.learn(catalog);
                if let Some(envelope) = &mut self.envelope {
                    envelope.learn(catalog);
                }
            }
            Fact::Position { lsn } => self.finished.complete(*lsn),
            _ => {}
        }
    }

    /// Takes a relation version that applies from the change with this seq on.
    pub(crate) fn relation(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        self.keys.see(relation);
        self.sides.relation(&self.current, relation, seq)?;
        self.finish_full_sides()
    }

    #[cold]
    fn unrepresentable_error(&self, column: MetadataColumn, relation: &Relation) -> Error {
        let others = self.template.metadata().iter().filter(|it| **it != column);
        let others: Vec<_> = others.map(|it| it.name()).collect();
        let reason = match column {
            MetadataColumn::CommitTimestamp => Reason::CommitTime,
            _ => Reason::Lsn,
        };
        let others = RemedyValue::Names(others);
        Error::new(ErrorKind::Unrepresentable(reason))
            .with_remedies([Remedy::new(DecoderOption::Metadata, others)])
            .in_table(&relation.to_string())
            .in_column(&format!("{}{}", self.template.prefix(), column.name()))
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction, changes: u64) -> Result<(), Error> {
        if self.sides.is_wanted() {
            self.sides
                .transaction(&self.current, transaction, changes)?;
            self.finish_full_sides()?;
        }
        self.finished.complete(transaction.end_lsn);
        // A later error does not take this transaction's rows back.
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    /// Whether the options select the relation's table.
    pub(crate) fn wants(&self, relation: &Relation) -> bool {
        self.selection.has(relation)
    }

    /// Takes a row. Its cells are checked when they are appended.
    #[expect(clippy::inline_always, reason = "as `Table::append`")]
    #[inline(always)]
    pub(crate) fn row(&mut self, change: &Change<'_, Unread<'_>>) -> Result<Taken, Error> {
        let appended = self.append(change);
        appended.map_err(|refused| refuse(change, refused, self.current.commit))
    }

    /// Takes a TRUNCATE, for [`Tables::truncate_next`].
    pub(crate) fn truncate(&mut self, truncate: Truncate) -> Result<(), Error> {
        let options = (truncate.cascade, truncate.restart_identity);
        let taken = self
            .sides
            .truncate(&self.current, truncate.seq, options, &truncate.relations)
            .and_then(|()| self.finish_full_sides());
        let commit = self.current.commit;
        let taken = taken.map_err(|error| place(error, truncate.offset, truncate.lsn, commit));
        self.truncating = Some(Truncating {
            relations: truncate.relations.into_iter(),
            seq: truncate.seq,
            offset: truncate.offset,
            lsn: truncate.lsn,
        });
        taken
    }

    /// Takes the next table of the current TRUNCATE.
    pub(crate) fn truncate_next(&mut self) -> Result<(), Error> {
        let Some(truncating) = &mut self.truncating else {
            return Ok(());
        };
        let Truncating {
            seq, offset, lsn, ..
        } = *truncating;
        let Some(relation) = truncating.relations.next() else {
            self.truncating = None;
            return Ok(());
        };
        let commit = self.current.commit;
        self.truncate_table(&relation, seq)
            .map_err(|error| place(error, offset, lsn, commit))
    }

    /// Prepares the relation's table for a row. Fails if a selected metadata column cannot hold
    /// this transaction's value.
    fn open_for_row(&mut self, relation: &Arc<Relation>) -> Result<(), Error> {
        if matches!(self.versions.get(relation.version), Slot::New) {
            self.open(relation)?;
        }
        match (self.unrepresentable, self.versions.get(relation.version)) {
            (Some(column), Slot::Table(_) | Slot::Enveloped(_)) => {
                Err(self.unrepresentable_error(column, relation))
            }
            _ => Ok(()),
        }
    }

    /// Appends a row, or both images of an update.
    #[expect(clippy::inline_always, reason = "as `Table::append`")]
    #[inline(always)]
    fn append(&mut self, change: &Change<'_, Unread<'_>>) -> Result<Taken, Refused> {
        let version = change.relation.version;
        let row = change.row.row().ok_or(Refused::Malformed)?;
        if self.unrepresentable.is_none()
            && let Some(table) = self.versions.table_mut(version)
            && (!row.has_old() || self.open.has_room(table.rows(), 2))
        {
            let appended = table.append(&self.current, change.seq, &row);
            if appended.is_ok() && !table.is_at_mark() && !self.open.is_full(table.rows(), 0) {
                return Ok(Taken::Row);
            }
            return self.check(version, appended);
        }
        self.prepare(change)?;
        if matches!(self.versions.get(version), Slot::Enveloped(_)) {
            self.envelop(change)?;
        } else if let Some(table) = self.versions.table_mut(version) {
            let appended = table.append(&self.current, change.seq, &row);
            return self.check(version, appended);
        }
        Ok(self.taken())
    }

    /// Counts the memory of a table with a new row, and finishes batches that are full.
    #[cold]
    fn check(&mut self, version: u32, appended: Result<(), Refused>) -> Result<Taken, Refused> {
        self.count(version);
        appended?;
        self.finish_if_full(version)?;
        Ok(self.taken())
    }

    /// Counts the memory of a table, up to its next mark.
    fn count(&mut self, version: u32) {
        if let Some(table) = self.versions.table_mut(version) {
            let held = table.held();
            table.estimate(self.open.mark_after(table.bytes()));
            self.open.recount(held, table.held());
            if table.rows() > 0 {
                self.open.insert(version);
            }
        }
    }

    fn taken(&self) -> Taken {
        if self.has_batch() {
            Taken::Batch
        } else {
            Taken::Row
        }
    }

    /// Prepares for a row that is a special case: the table is new, the batch may have no room for
    /// both images, or a metadata column cannot hold the transaction's value. This may finish
    /// batches, so it first checks that the row is valid.
    #[cold]
    fn prepare(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Refused> {
        if change.read().is_err() {
            return Err(Refused::Malformed);
        }
        self.open_for_row(change.relation)?;
        if change.row.row().is_some_and(|row| row.has_old()) {
            self.make_room_for(change.relation.version, 2)?;
        }
        Ok(())
    }

    /// Appends a change to the envelope.
    fn envelop(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Error> {
        let (relation, seq) = (change.relation, change.seq);
        let row = change.read()?.row;
        if let (Slot::Enveloped(forms), Some(envelope)) =
            (self.versions.get(relation.version), &mut self.envelope)
        {
            envelope.append(&self.current, relation, forms, seq, row)?;
        }
        self.finish_envelope_if_full()
    }

    /// Finishes the batch if it has no room for this number of rows.
    fn make_room_for(&mut self, version: u32, rows: usize) -> Result<(), Error> {
        let open = &self.open;
        match self.versions.get(version) {
            Slot::Table(table) if !open.has_room(table.rows(), rows) => self.finish(version, true),
            Slot::Enveloped(_) => match &self.envelope {
                Some(it) if !open.has_room(it.rows(), rows) => self.finish_envelope(),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Finishes the envelope's batch if it is full.
    fn finish_envelope_if_full(&mut self) -> Result<(), Error> {
        if let Some(envelope) = &self.envelope
            && self.open.is_full(envelope.rows(), envelope.bytes())
        {
            self.finish_envelope()?;
        }
        self.check_memory()
    }

    /// Finishes the side tables' batches that are full.
    fn finish_full_sides(&mut self) -> Result<(), Error> {
        if !self.sides.is_wanted() {
            return Ok(());
        }
        let full = self.sides.full()?;
        self.finished.extend(full);
        self.check_memory()
    }

    /// Counts the bytes of the envelope and the side tables, and frees memory above the limit.
    fn check_memory(&mut self) -> Result<(), Error> {
        self.count_other();
        if self.open.hold_too_much() {
            return self.free_memory();
        }
        Ok(())
    }

    fn count_other(&mut self) {
        let envelope = self.envelope.as_ref().map_or(0, |it| it.bytes());
        self.open
            .count_other(envelope.saturating_add(self.sides.bytes()));
    }

    fn finish_envelope(&mut self) -> Result<(), Error> {
        if let Some(envelope) = &mut self.envelope
            && let Some(floor) = envelope.floor()
        {
            let batch = envelope.finish().inspect_err(|_| {
                self.finished.note_lost(floor);
            })?;
            self.finished.push(batch, floor);
        }
        Ok(())
    }

    fn truncate_table(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        self.open_for_row(relation)?;
        let table = match self.versions.get(relation.version) {
            Slot::Table(_) => self.versions.table_mut(relation.version),
            Slot::Enveloped(_) => {
                if let Some(envelope) = &mut self.envelope {
                    envelope.append_truncate(&self.current, relation, seq)?;
                }
                return self.finish_envelope_if_full();
            }
            _ => None,
        };
        let Some(table) = table else {
            return Ok(());
        };
        table.append_truncate(&self.current, seq);
        self.count(relation.version);
        self.finish_if_full(relation.version)
    }

    /// Finishes the version's batch if it is full, and frees memory above the limit.
    fn finish_if_full(&mut self, version: u32) -> Result<(), Error> {
        if let Some(table) = self.versions.table(version)
            && self.open.is_full(table.rows(), table.bytes())
        {
            self.finish(version, true)?;
        }
        if self.open.hold_too_much() {
            return self.free_memory();
        }
        Ok(())
    }

    /// Finishes the batches beside the tables if they are large, and chooses tables to finish.
    #[cold]
    fn free_memory(&mut self) -> Result<(), Error> {
        if self.open.has_due() {
            return Ok(());
        }
        if self.open.is_other_large() {
            self.finish_envelope()?;
            let sides = self.sides.flush()?;
            self.finished.extend(sides);
            self.count_other();
        }
        let versions = &self.versions;
        self.open
            .make_largest_due(|version| Some(versions.table(version)?.held()));
        Ok(())
    }

    /// Makes a batch of the version's rows immediately.
    fn finish(&mut self, version: u32, full: bool) -> Result<(), Error> {
        self.open.not_due(version);
        self.finish_version(version, full)
    }

    pub(crate) fn finish_due(&mut self) -> Result<(), Error> {
        while let Some(version) = self.open.next_due() {
            self.finish_version(version, false)?;
        }
        Ok(())
    }

    pub(crate) fn finish_version(&mut self, version: u32, full: bool) -> Result<(), Error> {
        let Some(table) = self.versions.table(version) else {
            return Ok(());
        };
        let Some(floor) = table.floor() else {
            return Ok(());
        };
        let layout = if table.has_layout() {
            Ok(())
        } else {
            // It was dropped.
            let relation = Arc::clone(&table.relation);
            self.layout(&relation)
                .map(|layout| self.versions.lay_out(&relation, layout))
        };
        self.open.remove(version);
        if let Some(table) = self.versions.table_mut(version) {
            self.open.recount(table.held(), 0);
            match layout.and_then(|()| table.finish(full)) {
                Ok(batch) => self.finished.push(batch, floor),
                Err(error) => {
                    // The rows are lost, so the position must stay before the first of them.
                    self.finished.note_lost(floor);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Marks all rows so far to become batches.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.open.all_due();
        self.finish_envelope()?;
        let sides = self.sides.flush()?;
        self.finished.extend(sides);
        self.count_other();
        Ok(())
    }

    pub(crate) fn roll_back(&mut self) {
        self.sides.roll_back(&self.current);
        if let Some(envelope) = &mut self.envelope {
            envelope.roll_back(&self.current);
        }
        let (versions, current) = (&mut self.versions, self.current);
        self.open.retain(|version| {
            let Some(table) = versions.table_mut(version) else {
                return false;
            };
            table.roll_back(&current);
            table.rows() > 0
        });
    }

    /// The end of the last complete transaction.
    pub(crate) const fn end(&self) -> Lsn {
        self.finished.end()
    }

    pub(crate) fn position(&self) -> Lsn {
        let tables = self.open.iter();
        let tables = tables.filter_map(|version| self.versions.table(version)?.floor());
        let envelope = self.envelope.as_ref().and_then(|envelope| envelope.floor());
        let unfinished = tables.chain(envelope).chain(self.sides.floor());
        self.finished.position(unfinished)
    }

    /// Prepares a relation version that is new, or that was forgotten.
    #[cold]
    fn open(&mut self, relation: &Arc<Relation>) -> Result<(), Error> {
        if !self.selection.chooses(relation)? {
            self.versions.skip(relation.version);
        } else if let Some(envelope) = &self.envelope {
            let schema = Arc::clone(envelope.schema());
            let (forms, unresolved) = envelope.forms(relation)?;
            self.selection.select(relation, &schema)?;
            self.unresolved.add(&relation.to_string(), unresolved);
            self.versions.envelop(relation.version, forms);
        } else {
            let layout = self.layout(relation)?;
            self.retire(relation)?;
            self.versions.lay_out(relation, layout);
        }
        Ok(())
    }

    fn layout(&mut self, relation: &Arc<Relation>) -> Result<Layout, Error> {
        self.versions.make_room(Layout::most_bytes(relation));
        let mut layout = self.template.layout(relation)?;
        if let Some(schema) = self.selection.select(relation, &layout.schema)? {
            if !has_same_columns(&schema, &layout.schema) {
                let kind = ErrorKind::Schema(SchemaError::ColumnsChanged);
                return Err(Error::new(kind).in_table(&layout.table));
            }
            // All batches share one schema, even if the replica identity or a length changed.
            layout.share_schema(&schema);
        }
        let unresolved = std::mem::take(&mut layout.unresolved);
        self.unresolved.add(&layout.table, unresolved);
        Ok(layout)
    }

    /// The one schema of all batches, once it is known.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        let of_side = || self.sides.schema_alone();
        let envelope = self.envelope.as_ref();
        of_side()
            .or_else(|| envelope.map(|it| Arc::clone(it.schema())))
            .or_else(|| self.selection.schema())
    }

    /// Finds the selected tables that have no rows among the relations that the stream described.
    fn describe(&mut self, relations: &[&Arc<Relation>]) -> Result<(), Error> {
        let missing: Vec<_> = self.selection.missing().collect();
        let is_missing = |it: &&&Arc<Relation>| {
            let mut missing = missing.iter();
            missing.any(|name| name.matches(it.oid, &it.namespace, &it.name))
        };
        let mut named: Vec<_> = relations.iter().filter(is_missing).collect();
        named.sort_unstable_by_key(|relation| relation.version);
        for relation in named {
            self.open(relation)?;
        }
        Ok(())
    }

    /// Whether all rows were returned.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.finished.is_empty()
            && self.sides.floor().is_none()
            && self.envelope.as_ref().is_none_or(|it| it.rows() == 0)
    }

    /// Finishes the batches of the earlier versions of this table, so that its batches stay in
    /// order, and forgets those versions.
    fn retire(&mut self, relation: &Relation) -> Result<(), Error> {
        for earlier in self.versions.make_latest(relation) {
            self.finish(earlier, false)?;
            self.versions.retire(earlier);
        }
        Ok(())
    }
}

/// The error of a change that was not appended.
#[cold]
fn refuse(change: &Change<'_, Unread<'_>>, refused: Refused, commit: Commit) -> Error {
    // A protocol error comes before an error in a cell.
    if let Err(error) = change.read() {
        return error.into();
    }
    let error = match refused {
        Refused::Error(error) => error,
        Refused::Malformed => Error::internal("a row was not read"),
    };
    place(error, change.offset, change.lsn, commit)
}

/// Adds a change's place in the stream to its error.
#[cold]
fn place(error: Error, offset: u64, lsn: Lsn, commit: Commit) -> Error {
    let lsn = if lsn.is_valid() { lsn } else { Lsn(commit.lsn) };
    error.at(offset, lsn)
}
