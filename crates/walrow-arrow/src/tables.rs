//! All tables' batches under construction.

use crate::batch::Batch;
use crate::envelope::{Envelope, Forms};
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::metadata::{ChangeType, Commit, MetadataColumn};
use crate::options::{DecoderBuilder, Profile, TableName};
use crate::side::Sides;
use crate::table::{Current, NewRow, Table};
use arrow_schema::{FieldRef, SchemaRef};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use walrow_stream::{Change, Message, Relation, Row, Transaction};
use walrow_wire::{Lsn, Oid, OldTuple};

/// What the layouts of tables take that are kept for their next rows: a table of a thousand
/// columns takes about one MiB. More is built again when it is needed.
const LAYOUT_MEMORY: usize = 16 << 20;

/// All tables' batches under construction.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) options: DecoderBuilder,
    /// By relation version.
    slots: Vec<Slot>,
    /// The versions that have rows.
    open: BTreeSet<u32>,
    /// Those of them that are to become batches, in this order, before there are more rows. They
    /// are finished one by one as batches are taken: all at once would take much more memory.
    pub(crate) due: VecDeque<u32>,
    /// The versions that have a layout, the oldest layout first, and the bytes of all layouts.
    laid_out: VecDeque<u32>,
    layout_bytes: usize,
    /// The version whose rows came last, by schema and name and by OID, while it has a place.
    by_name: HashMap<(Box<str>, Box<str>), u32>,
    by_oid: HashMap<Oid, u32>,
    /// Finished batches, and up to where everything was handed out before their first row.
    pub(crate) ready: VecDeque<(Batch, Lsn)>,
    /// Bytes that all unfinished batches hold.
    held: usize,
    current: Current,
    /// What cannot be told of the current transaction.
    untold: Option<MetadataColumn>,
    /// The end of the last transaction that is complete.
    last_end: Lsn,
    /// Up to where everything was handed out before the first row that could not be.
    lost: Option<Lsn>,
    /// The chosen table, once it has appeared.
    selected: Option<Selected>,
    /// All tables' rows, if they are to have one schema.
    envelope: Option<Box<Envelope>>,
    sides: Sides,
    /// Changes of the current transaction.
    changes: u64,
    pub(crate) unresolved: BTreeSet<Oid>,
    pub(crate) server_error: Option<String>,
}

#[derive(Debug)]
enum Slot {
    /// Not seen, or forgotten.
    New,
    Skipped,
    /// Has rows, or a layout for the next ones, or both.
    Table(Box<Table>),
    /// Its rows go to the envelope.
    Enveloped(Forms),
}

/// What the envelope takes.
#[derive(Clone, Copy)]
enum Enclosed<'a, 'b> {
    Row(&'a NewRow<'b>),
    /// A truncate with this seq.
    Truncate(u64),
}

/// The one table that is read, and the schema of all its batches.
#[derive(Debug)]
struct Selected {
    namespace: Box<str>,
    name: Box<str>,
    schema: SchemaRef,
}

impl Tables {
    pub(crate) fn new(options: DecoderBuilder) -> Self {
        Self {
            envelope: options.envelope.then(|| Box::new(Envelope::new(&options))),
            sides: Sides::new(&options),
            changes: 0,
            last_end: options.start,
            options,
            slots: Vec::new(),
            open: BTreeSet::new(),
            due: VecDeque::new(),
            laid_out: VecDeque::new(),
            layout_bytes: 0,
            by_name: HashMap::new(),
            by_oid: HashMap::new(),
            ready: VecDeque::new(),
            held: 0,
            current: Current::default(),
            untold: None,
            lost: None,
            selected: None,
            unresolved: BTreeSet::new(),
            server_error: None,
        }
    }

    pub(crate) fn has_batch(&self) -> bool {
        !self.ready.is_empty() || !self.due.is_empty()
    }

    pub(crate) fn begin(&mut self, transaction: &Transaction) {
        let lsn = transaction.commit_lsn.0;
        let time = transaction.commit_time.unix_micros();
        // Only a row makes it a fault, and only where the column is wanted.
        self.untold = if time.is_none() && self.tells(MetadataColumn::CommitTimestamp) {
            Some(MetadataColumn::CommitTimestamp)
        } else if self.options.profile == Profile::Spark
            && i64::try_from(lsn).is_err()
            && self.tells(MetadataColumn::CommitLsn)
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
        };
        self.current.floor = self.last_end;
        self.changes = 0;
    }

    /// A logical message: of the current transaction, or outside transactions.
    pub(crate) fn message(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if !self.sides.has_messages() {
            return Ok(());
        }
        if message.transactional {
            let full = self.sides.message(&self.current, message)?;
            self.ready.extend(full);
            return Ok(());
        }
        let alone = Current {
            commit: Commit::default(),
            floor: self.last_end,
            ..self.current
        };
        let full = self.sides.message(&alone, message)?;
        self.ready.extend(full);
        // Its LSN is a position of its own, and a later fault takes nothing of it back.
        self.last_end = self.last_end.max(message.lsn);
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    /// A relation version that begins before the change with this seq.
    pub(crate) fn relation(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        let full = self.sides.relation(&self.current, relation, seq)?;
        self.ready.extend(full);
        Ok(())
    }

    /// Whether batches have this metadata column.
    fn tells(&self, column: MetadataColumn) -> bool {
        let options = &self.options;
        let name = || format!("{}{}", options.prefix, column.name());
        options.metadata.contains(&column)
            && options
                .schema
                .as_ref()
                .is_none_or(|schema| schema.field_with_name(&name()).is_ok())
    }

    #[cold]
    fn untold_error(&self, column: MetadataColumn, relation: &Relation) -> Error {
        let others = self.options.metadata.iter().filter(|it| **it != column);
        let others: Vec<_> = others.map(|it| format!("\"{}\"", it.name())).collect();
        let reason = match column {
            MetadataColumn::CommitTimestamp => {
                "a commit time beyond 64 bits of microseconds around 1970"
            }
            _ => "an LSN beyond 63 bits",
        };
        Error::new(ErrorKind::Unrepresentable {
            reason: reason.to_owned(),
            option: format!("metadata=[{}]", others.join(", ")),
        })
        .in_table(&relation.to_string())
        .in_column(&format!("{}{}", self.options.prefix, column.name()))
    }

    pub(crate) fn commit(&mut self, transaction: &Transaction) -> Result<(), Error> {
        let sides = &mut self.sides;
        let full = sides.transaction(&self.current, transaction, self.changes)?;
        self.ready.extend(full);
        self.last_end = self.last_end.max(transaction.end_lsn);
        // A later fault takes back nothing of it.
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    #[inline]
    pub(crate) fn change(&mut self, change: &Change<'_>) -> Result<(), Error> {
        let seq = change.seq;
        self.changes = seq.saturating_add(1);
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
                before.and_then(|()| {
                    let after = self.row(change.relation, &row);
                    if let (Err(error), Some(_)) = (&after, old)
                        && error.is_of_a_cell()
                    {
                        self.take_back_row(change.relation);
                    }
                    after
                })
            }
            Row::Delete { old } => self.old_row(change.relation, ChangeType::Delete, seq, *old),
            Row::Truncate {
                relations,
                cascade,
                restart_identity,
            } => {
                let options = (*cascade, *restart_identity);
                let sides = &mut self.sides;
                let full = sides.truncate(&self.current, seq, options, relations);
                full.and_then(|full| {
                    self.ready.extend(full);
                    relations
                        .iter()
                        .try_for_each(|relation| self.truncate(relation, seq))
                })
            }
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

    /// Makes ready for a row of the relation, which cannot be where something of it cannot be told.
    #[inline]
    fn admit(&mut self, relation: &Arc<Relation>) -> Result<(), Error> {
        let index = relation.version as usize;
        if matches!(self.slots.get(index), None | Some(Slot::New)) {
            self.open(relation)?;
        }
        match (self.untold, self.slots.get(index)) {
            (Some(column), Some(Slot::Table(_) | Slot::Enveloped(_))) => {
                Err(self.untold_error(column, relation))
            }
            _ => Ok(()),
        }
    }

    #[inline]
    fn row(&mut self, relation: &Arc<Relation>, row: &NewRow<'_>) -> Result<(), Error> {
        self.admit(relation)?;
        let table = match self.slots.get_mut(relation.version as usize) {
            Some(Slot::Table(table)) => table,
            Some(Slot::Enveloped(_)) => return self.enveloped(relation, Enclosed::Row(row)),
            _ => return Ok(()),
        };
        let (held, first) = (table.held(), table.rows() == 0);
        let result = table.append(&self.current, row);
        self.held = self.held.saturating_sub(held).saturating_add(table.held());
        result?;
        if first {
            self.open.insert(relation.version);
        }
        if table.rows() >= self.options.batch_rows
            || table.bytes() >= self.options.batch_bytes
            || self.held > self.options.batch_memory
        {
            return self.settle(relation.version);
        }
        Ok(())
    }

    /// Puts a row into the envelope.
    fn enveloped(
        &mut self,
        relation: &Arc<Relation>,
        enclosed: Enclosed<'_, '_>,
    ) -> Result<(), Error> {
        let (Some(envelope), Some(Slot::Enveloped(forms))) = (
            &mut self.envelope,
            self.slots.get(relation.version as usize),
        ) else {
            return Ok(());
        };
        match enclosed {
            Enclosed::Row(row) => envelope.append(&self.current, relation, forms, row)?,
            Enclosed::Truncate(seq) => envelope.append_truncate(&self.current, relation, seq)?,
        }
        let bytes = self.options.batch_bytes.min(self.options.batch_memory);
        if envelope.rows() >= self.options.batch_rows || envelope.bytes() >= bytes {
            self.finish_envelope()?;
        }
        Ok(())
    }

    fn finish_envelope(&mut self) -> Result<(), Error> {
        if let Some(envelope) = &mut self.envelope
            && let Some(floor) = envelope.floor()
        {
            let batch = envelope.finish().inspect_err(|_| {
                self.lost = Some(self.lost.map_or(floor, |lost| lost.min(floor)));
            })?;
            self.ready.push_back((batch, floor));
        }
        Ok(())
    }

    /// Takes back the old image of an update whose new image is at fault: half an update would be
    /// a change that never was.
    #[cold]
    fn take_back_row(&mut self, relation: &Relation) {
        let version = relation.version;
        let enveloped = self.envelope.is_some();
        match (self.slots.get_mut(version as usize), &mut self.envelope) {
            (Some(Slot::Table(table)), _) => {
                if table.take_back_row() {
                    if table.rows() == 0 {
                        self.open.remove(&version);
                    }
                    return;
                }
            }
            (Some(Slot::Enveloped(_)), Some(envelope)) => {
                if envelope.rows() > 0 {
                    envelope.take_back_row();
                    return;
                }
            }
            _ => return,
        }
        // The old image filled a batch, which nobody has seen yet.
        if let Some((batch, _)) = self.ready.back_mut()
            && (enveloped || batch.relation.version == version)
        {
            let rows = batch.records.num_rows().saturating_sub(1);
            batch.records = batch.records.slice(0, rows);
            if rows == 0 {
                self.ready.pop_back();
            }
        }
    }

    fn truncate(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        self.admit(relation)?;
        let table = match self.slots.get_mut(relation.version as usize) {
            Some(Slot::Table(table)) => table,
            Some(Slot::Enveloped(_)) => return self.enveloped(relation, Enclosed::Truncate(seq)),
            _ => return Ok(()),
        };
        let held = table.held();
        table.append_truncate(&self.current, seq);
        self.held = self.held.saturating_sub(held).saturating_add(table.held());
        self.open.insert(relation.version);
        self.settle(relation.version)
    }

    /// Hands out the batch if it is full, and those that memory cannot hold beside the others.
    #[cold]
    fn settle(&mut self, version: u32) -> Result<(), Error> {
        if let Some(Slot::Table(table)) = self.slots.get(version as usize)
            && (table.rows() >= self.options.batch_rows
                || table.bytes() >= self.options.batch_bytes)
        {
            self.finish(version, true)?;
        }
        if self.held > self.options.batch_memory && self.due.is_empty() {
            let slots = &self.slots;
            let size = |version: &u32| match slots.get(*version as usize) {
                Some(Slot::Table(table)) => Some((table.held(), *version)),
                _ => None,
            };
            let mut sizes: Vec<_> = self.open.iter().filter_map(size).collect();
            sizes.sort_unstable_by(|one, other| other.cmp(one));
            // The fullest first, until a quarter is free: each look at all tables takes a while.
            let quarter = self.options.batch_memory / 4;
            let mut excess = self
                .held
                .saturating_sub(self.options.batch_memory)
                .saturating_add(quarter);
            for (size, version) in sizes {
                self.due.push_back(version);
                excess = excess.saturating_sub(size);
                if excess == 0 {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Makes a batch of the version's rows now.
    fn finish(&mut self, version: u32, full: bool) -> Result<(), Error> {
        self.due.retain(|due| *due != version);
        self.finish_version(version, full)
    }

    pub(crate) fn finish_due(&mut self) -> Result<(), Error> {
        while let Some(version) = self.due.pop_front() {
            self.finish_version(version, false)?;
        }
        Ok(())
    }

    pub(crate) fn finish_version(&mut self, version: u32, full: bool) -> Result<(), Error> {
        let Some(Slot::Table(table)) = self.slots.get(version as usize) else {
            return Ok(());
        };
        let Some(floor) = table.floor() else {
            return Ok(());
        };
        let layout = if table.has_layout() {
            Ok(())
        } else {
            let relation = Arc::clone(&table.relation);
            self.layout(&relation)
                .map(|layout| self.place(&relation, layout))
        };
        self.open.remove(&version);
        if let Some(Slot::Table(table)) = self.slots.get_mut(version as usize) {
            self.held = self.held.saturating_sub(table.held());
            match layout.and_then(|()| table.finish(full)) {
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

    /// All rows so far are to become batches.
    pub(crate) fn flush(&mut self) -> Result<(), Error> {
        self.due.clear();
        self.due.extend(&self.open);
        self.finish_envelope()?;
        let sides = self.sides.flush()?;
        self.ready.extend(sides);
        Ok(())
    }

    pub(crate) fn take_back(&mut self) {
        self.sides.take_back(&self.current);
        if let Some(envelope) = &mut self.envelope {
            envelope.take_back(&self.current);
        }
        let (slots, current) = (&mut self.slots, self.current);
        self.open.retain(|version| {
            let Some(Slot::Table(table)) = slots.get_mut(*version as usize) else {
                return false;
            };
            table.take_back(&current);
            table.rows() > 0
        });
    }

    pub(crate) fn position(&self) -> Lsn {
        let unfinished =
            self.open
                .iter()
                .filter_map(|version| match self.slots.get(*version as usize) {
                    Some(Slot::Table(table)) => table.floor(),
                    _ => None,
                });
        let ready = self.ready.iter().map(|(_, floor)| *floor);
        let envelope = self.envelope.as_ref().and_then(|envelope| envelope.floor());
        unfinished
            .chain(ready)
            .chain(self.lost)
            .chain(envelope)
            .chain(self.sides.floor())
            .min()
            .unwrap_or(self.last_end)
    }

    /// Sees a relation version for the first time, or again after it was forgotten.
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
        let side = self.options.table.as_ref().and_then(TableName::side_table);
        if side.is_some() && chosen {
            let text = format!(
                "{relation} is a table of the stream and one of walrow's own; read all tables, and \
                 side_tables"
            );
            return Err(Error::new(ErrorKind::Schema(text)));
        }
        let slot = if !chosen {
            Slot::Skipped
        } else if let Some(envelope) = &self.envelope {
            let schema = Arc::clone(envelope.schema());
            let (forms, unresolved) = envelope.forms(relation)?;
            self.select(relation, schema)?;
            self.unresolved.extend(unresolved);
            Slot::Enveloped(forms)
        } else {
            let layout = self.layout(relation)?;
            self.retire(relation)?;
            self.unresolved.extend(&layout.unresolved);
            self.place(relation, layout);
            return Ok(());
        };
        if let Some(place) = self.slots.get_mut(index) {
            *place = slot;
        }
        Ok(())
    }

    fn layout(&mut self, relation: &Arc<Relation>) -> Result<Layout, Error> {
        self.make_room(relation);
        let mut layout = Layout::new(&self.options, relation)?;
        if self.options.table.is_none() {
            return Ok(layout);
        }
        self.select(relation, Arc::clone(&layout.schema))?;
        match &self.selected {
            None => {}
            Some(selected) if same_columns(&selected.schema, &layout.schema) => {
                // One schema for all, although the replica identity or a length may have changed.
                layout.share_schema(&selected.schema);
            }
            Some(_) => {
                let text = "the table's columns changed; give the schema that all its versions \
                            shall have, or read all tables";
                return Err(Error::new(ErrorKind::Schema(text.to_owned())).in_table(&layout.table));
            }
        }
        Ok(layout)
    }

    /// Takes the relation for the one table that is read, if there is one, or sees that it is.
    fn select(&mut self, relation: &Relation, schema: SchemaRef) -> Result<(), Error> {
        match &self.selected {
            _ if self.options.table.is_none() => Ok(()),
            None => {
                self.selected = Some(Selected {
                    namespace: relation.namespace.clone(),
                    name: relation.name.clone(),
                    schema,
                });
                Ok(())
            }
            Some(selected)
                if (&selected.namespace, &selected.name)
                    != (&relation.namespace, &relation.name) =>
            {
                let text = both_meant(
                    (&selected.namespace, &selected.name),
                    (&relation.namespace, &relation.name),
                );
                Err(Error::new(ErrorKind::Schema(text)))
            }
            Some(_) => Ok(()),
        }
    }

    /// The one schema of all batches, once it is known.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        let options = &self.options;
        if let Some(side) = options.table.as_ref().and_then(TableName::side_table) {
            return Some(side.schema(options.profile));
        }
        if let Some(envelope) = &self.envelope {
            return Some(Arc::clone(envelope.schema()));
        }
        let selected = || Some(Arc::clone(&self.selected.as_ref()?.schema));
        options.schema.clone().or_else(selected)
    }

    /// The table that was chosen and did not appear.
    pub(crate) fn missing(&self) -> Option<&TableName> {
        let name = self.options.table.as_ref()?;
        (name.side_table().is_none() && self.selected.is_none()).then_some(name)
    }

    /// Whether all rows were handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.ready.is_empty()
            && self.sides.floor().is_none()
            && self.envelope.as_ref().is_none_or(|it| it.rows() == 0)
    }

    /// Drops layouts of others if there is no room beside them for this relation's: how many tables
    /// a stream has must not decide what memory it takes.
    fn make_room(&mut self, relation: &Relation) {
        let bytes = Layout::most_bytes(relation);
        while self.layout_bytes.saturating_add(bytes) > LAYOUT_MEMORY {
            let Some(oldest) = self.laid_out.pop_front() else {
                break;
            };
            self.drop_layout(oldest);
        }
    }

    fn place(&mut self, relation: &Arc<Relation>, layout: Layout) {
        self.layout_bytes = self.layout_bytes.saturating_add(layout.bytes());
        self.laid_out.push_back(relation.version);
        match self.slots.get_mut(relation.version as usize) {
            Some(Slot::Table(table)) => table.set_layout(layout),
            Some(slot) => {
                *slot = Slot::Table(Box::new(Table::new(Arc::clone(relation), layout)));
            }
            None => {}
        }
    }

    /// Drops a layout, and the table with it unless it has rows.
    fn drop_layout(&mut self, version: u32) {
        let Some(Slot::Table(table)) = self.slots.get_mut(version as usize) else {
            return;
        };
        let bytes = table.drop_layout();
        self.layout_bytes = self.layout_bytes.saturating_sub(bytes);
        if table.rows() == 0 {
            self.forget(version);
        }
    }

    fn forget(&mut self, version: u32) {
        let Some(slot) = self.slots.get_mut(version as usize) else {
            return;
        };
        let Slot::Table(mut table) = std::mem::replace(slot, Slot::New) else {
            return;
        };
        self.layout_bytes = self.layout_bytes.saturating_sub(table.drop_layout());
        let relation = &table.relation;
        if self.by_oid.get(&relation.oid) == Some(&version) {
            self.by_oid.remove(&relation.oid);
        }
        let name = (relation.namespace.clone(), relation.name.clone());
        if self.by_name.get(&name) == Some(&version) {
            self.by_name.remove(&name);
        }
    }

    /// Hands out the rows of the versions that this one follows, so that a table's batches stay
    /// in order, and forgets those versions.
    fn retire(&mut self, relation: &Relation) -> Result<(), Error> {
        let version = relation.version;
        let name = (relation.namespace.clone(), relation.name.clone());
        let earlier = [
            self.by_name.insert(name, version),
            self.by_oid.insert(relation.oid, version),
        ];
        for earlier in earlier.into_iter().flatten() {
            if earlier != version {
                self.finish(earlier, false)?;
                self.laid_out.retain(|other| *other != earlier);
                self.forget(earlier);
            }
        }
        Ok(())
    }
}

/// Whether batches of the one can go by the other's schema: field metadata, such as the type
/// modifier that lengthened a varchar, is no part of the columns' types.
fn same_columns(one: &SchemaRef, other: &SchemaRef) -> bool {
    let (one, other) = (one.fields(), other.fields());
    let same = |(one, other): (&FieldRef, &FieldRef)| {
        one.name() == other.name()
            && one.data_type() == other.data_type()
            && one.is_nullable() == other.is_nullable()
    };
    one.len() == other.len() && one.iter().zip(other).all(same)
}

/// What is wrong with a name that two tables have.
pub(crate) fn both_meant(one: (&str, &str), other: (&str, &str)) -> String {
    let quote = [one.0, one.1, other.0, other.1]
        .iter()
        .any(|name| name.contains('.'));
    let name = |(schema, name): (&str, &str)| {
        if quote {
            format!("\"{schema}\".\"{name}\"")
        } else {
            format!("{schema}.{name}")
        }
    };
    format!(
        "{} and {} are both meant; name one with its schema, as a pair",
        name(one),
        name(other)
    )
}
