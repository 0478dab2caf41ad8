//! All tables' batches under construction.

use crate::batch::Batch;
use crate::envelope::{Envelope, Forms};
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::metadata::{ChangeType, Commit, MetadataColumn};
use crate::options::{DecoderBuilder, Profile, TableName};
use crate::side::Sides;
use crate::table::{Current, NewRow, Refused, Table};
use arrow_schema::{FieldRef, SchemaRef};
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use walrow_stream::{Change, Message, Relation, RowChange, Transaction, Truncate, Unread};
use walrow_wire::{Lsn, Oid};

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
    /// Bytes that the envelope and the side tables hold.
    beside: usize,
    /// The TRUNCATE that is read, while it has tables left.
    truncating: Option<Truncating>,
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

/// A TRUNCATE is a row of each of its tables. They are made one by one, as batches are taken: all
/// at once they could take any memory.
#[derive(Debug)]
struct Truncating {
    relations: std::vec::IntoIter<Arc<Relation>>,
    seq: u64,
    offset: u64,
    lsn: Lsn,
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
            beside: 0,
            truncating: None,
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

    /// Whether a TRUNCATE has tables left, for [`Tables::truncate_next`].
    pub(crate) const fn is_truncating(&self) -> bool {
        self.truncating.is_some()
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
    }

    /// A logical message: of the current transaction, or outside transactions.
    pub(crate) fn message(&mut self, message: &Message<'_>) -> Result<(), Error> {
        if !self.sides.has_messages() {
            return Ok(());
        }
        if message.transactional {
            self.sides.message(&self.current, message)?;
            return self.settle_sides();
        }
        let alone = Current {
            commit: Commit::default(),
            floor: self.last_end,
            ..self.current
        };
        self.sides.message(&alone, message)?;
        self.settle_sides()?;
        // Its LSN is a position of its own, and a later fault takes nothing of it back.
        self.last_end = self.last_end.max(message.lsn);
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    /// A relation version that begins before the change with this seq.
    pub(crate) fn relation(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        self.sides.relation(&self.current, relation, seq)?;
        self.settle_sides()
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

    pub(crate) fn commit(&mut self, transaction: &Transaction, changes: u64) -> Result<(), Error> {
        self.sides
            .transaction(&self.current, transaction, changes)?;
        self.settle_sides()?;
        self.last_end = self.last_end.max(transaction.end_lsn);
        // A later fault takes back nothing of it.
        self.current.ordinal = self.current.ordinal.saturating_add(1);
        Ok(())
    }

    /// Whether rows of the relation are read. Faults in other tables' rows are errors all the same.
    fn wants(&self, relation: &Relation) -> bool {
        let table = self.options.table.as_ref();
        table.is_none_or(|name| name.matches(&relation.namespace, &relation.name))
    }

    /// Takes a row, whose cells are checked as they are appended.
    #[inline]
    pub(crate) fn row(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Error> {
        let appended = self.append(change);
        appended.map_err(|refused| refuse(change, refused, self.current.commit))
    }

    /// Takes a TRUNCATE, for [`Tables::truncate_next`].
    pub(crate) fn truncate(&mut self, truncate: Truncate) -> Result<(), Error> {
        let options = (truncate.cascade, truncate.restart_identity);
        let taken = self
            .sides
            .truncate(&self.current, truncate.seq, options, &truncate.relations)
            .and_then(|()| self.settle_sides());
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

    /// Takes the next table of the TRUNCATE that is read.
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

    /// Makes ready for a row of the relation, which cannot be where something of it cannot be told.
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

    /// Appends a row, or both images of one.
    #[inline]
    fn append(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Refused> {
        let relation = change.relation;
        let version = relation.version;
        let row = change.row.row().ok_or(Refused::Malformed)?;
        let table = match self.slots.get_mut(version as usize) {
            Some(Slot::Table(table))
                if self.untold.is_none()
                    && (!row.has_old()
                        || table.rows() <= self.options.batch_rows.saturating_sub(2)) =>
            {
                table
            }
            _ => {
                self.prepare(change)?;
                if matches!(self.slots.get(version as usize), Some(Slot::Enveloped(_))) {
                    return Ok(self.envelop(change)?);
                }
                match self.slots.get_mut(version as usize) {
                    Some(Slot::Table(table)) => table,
                    _ => return Ok(()),
                }
            }
        };
        let (held, first) = (table.held(), table.rows() == 0);
        let result = table.append(&self.current, change.seq, &row);
        self.held = self.held.saturating_sub(held).saturating_add(table.held());
        result?;
        if first {
            self.open.insert(version);
        }
        if table.rows() >= self.options.batch_rows
            || table.bytes() >= self.options.batch_bytes
            || self.held.saturating_add(self.beside) > self.options.batch_memory
        {
            self.settle(version)?;
        }
        Ok(())
    }

    /// Makes ready for a row that is not just one more: of a table that is new, of two images that
    /// the batch may have no place for, or of which a metadata column cannot be told. Batches are
    /// finished here, so first it is sure that the row is one.
    #[cold]
    fn prepare(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Refused> {
        if change.read().is_err() {
            return Err(Refused::Malformed);
        }
        self.admit(change.relation)?;
        if change.row.row().is_some_and(|row| row.has_old()) {
            self.make_room_for(change.relation.version, 2)?;
        }
        Ok(())
    }

    /// Appends a change to the envelope.
    fn envelop(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), Error> {
        let (relation, seq) = (change.relation, change.seq);
        let rows: &[NewRow<'_>] = match change.read()?.row {
            RowChange::Insert { new } => &[NewRow::new(ChangeType::Insert, seq, new)],
            RowChange::Update { old: None, new } => {
                &[NewRow::new(ChangeType::UpdatePostimage, seq, new)]
            }
            RowChange::Update {
                old: Some(old),
                new,
            } => &[
                NewRow::old(ChangeType::UpdatePreimage, seq, old),
                NewRow {
                    old: Some(old),
                    ..NewRow::new(ChangeType::UpdatePostimage, seq, new)
                },
            ],
            RowChange::Delete { old } => &[NewRow::old(ChangeType::Delete, seq, old)],
            _ => &[],
        };
        if let (Some(Slot::Enveloped(forms)), Some(envelope)) = (
            self.slots.get(relation.version as usize),
            &mut self.envelope,
        ) {
            envelope.append(&self.current, relation, forms, rows)?;
        }
        self.settle_envelope()
    }

    /// Hands out the batch first that has no place for so many rows more.
    fn make_room_for(&mut self, version: u32, rows: usize) -> Result<(), Error> {
        let most = self.options.batch_rows.saturating_sub(rows);
        match self.slots.get(version as usize) {
            Some(Slot::Table(table)) if table.rows() > most => self.finish(version, true),
            Some(Slot::Enveloped(_)) => match &self.envelope {
                Some(envelope) if envelope.rows() > most => self.finish_envelope(),
                _ => Ok(()),
            },
            _ => Ok(()),
        }
    }

    /// Hands out the envelope's batch if it is full.
    fn settle_envelope(&mut self) -> Result<(), Error> {
        if let Some(envelope) = &self.envelope
            && (envelope.rows() >= self.options.batch_rows
                || envelope.bytes() >= self.options.batch_bytes)
        {
            self.finish_envelope()?;
        }
        self.settle_beside()
    }

    /// Hands out the side tables' batches that are full.
    fn settle_sides(&mut self) -> Result<(), Error> {
        if !self.sides.is_wanted() {
            return Ok(());
        }
        let full = self.sides.full()?;
        self.ready.extend(full);
        self.settle_beside()
    }

    /// Counts what the envelope and the side tables hold, which memory may not be able to hold.
    fn settle_beside(&mut self) -> Result<(), Error> {
        self.count_beside();
        if self.held.saturating_add(self.beside) > self.options.batch_memory {
            return self.relieve();
        }
        Ok(())
    }

    fn count_beside(&mut self) {
        let envelope = self.envelope.as_ref().map_or(0, |it| it.bytes());
        let bytes = envelope.saturating_add(self.sides.bytes());
        // A vector that grows has room for as much again.
        self.beside = bytes.saturating_mul(2);
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

    fn truncate_table(&mut self, relation: &Arc<Relation>, seq: u64) -> Result<(), Error> {
        self.admit(relation)?;
        let table = match self.slots.get_mut(relation.version as usize) {
            Some(Slot::Table(table)) => table,
            Some(Slot::Enveloped(_)) => {
                if let Some(envelope) = &mut self.envelope {
                    envelope.append_truncate(&self.current, relation, seq)?;
                }
                return self.settle_envelope();
            }
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
        if self.held.saturating_add(self.beside) > self.options.batch_memory {
            return self.relieve();
        }
        Ok(())
    }

    /// Hands out batches that memory cannot hold beside the others, until a quarter of it is free:
    /// each look at all tables takes a while.
    #[cold]
    fn relieve(&mut self) -> Result<(), Error> {
        if !self.due.is_empty() {
            return Ok(());
        }
        let quarter = self.options.batch_memory / 4;
        if self.beside > quarter {
            self.finish_envelope()?;
            let sides = self.sides.flush()?;
            self.ready.extend(sides);
            self.count_beside();
        }
        let held = self.held.saturating_add(self.beside);
        let most = self.options.batch_memory.saturating_sub(quarter);
        let mut excess = held.saturating_sub(most);
        if excess == 0 {
            return Ok(());
        }
        let slots = &self.slots;
        let size = |version: &u32| match slots.get(*version as usize) {
            Some(Slot::Table(table)) => Some((table.held(), *version)),
            _ => None,
        };
        let mut sizes: Vec<_> = self.open.iter().filter_map(size).collect();
        // The fullest first.
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        for (size, version) in sizes {
            self.due.push_back(version);
            excess = excess.saturating_sub(size);
            if excess == 0 {
                break;
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
        self.count_beside();
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
        let chosen = self.wants(relation);
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
            self.make_room(forms.bytes());
            self.layout_bytes = self.layout_bytes.saturating_add(forms.bytes());
            self.laid_out.push_back(relation.version);
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
        self.make_room(Layout::most_bytes(relation));
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

    /// Takes the chosen table, of which no row came, from what the stream said of it.
    pub(crate) fn describe<'a>(
        &mut self,
        relations: impl Iterator<Item = &'a Arc<Relation>>,
    ) -> Result<(), Error> {
        let Some(name) = self.missing().cloned() else {
            return Ok(());
        };
        let named = relations.filter(|it| name.matches(&it.namespace, &it.name));
        let mut named: Vec<_> = named.collect();
        named.sort_unstable_by_key(|relation| relation.version);
        for relation in named {
            self.open(relation)?;
        }
        Ok(())
    }

    /// Whether all rows were handed out.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
            && self.ready.is_empty()
            && self.sides.floor().is_none()
            && self.envelope.as_ref().is_none_or(|it| it.rows() == 0)
    }

    /// Drops layouts of others if there is no room beside them for one of so many bytes: how many
    /// tables a stream has must not decide what memory it takes.
    fn make_room(&mut self, bytes: usize) {
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
        match self.slots.get_mut(version as usize) {
            Some(Slot::Table(table)) => {
                let bytes = table.drop_layout();
                self.layout_bytes = self.layout_bytes.saturating_sub(bytes);
                if table.rows() == 0 {
                    self.forget(version);
                }
            }
            Some(slot @ Slot::Enveloped(_)) => {
                if let Slot::Enveloped(forms) = std::mem::replace(slot, Slot::New) {
                    self.layout_bytes = self.layout_bytes.saturating_sub(forms.bytes());
                }
            }
            _ => {}
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

/// What is wrong with a change that was refused.
#[cold]
fn refuse(change: &Change<'_, Unread<'_>>, refused: Refused, commit: Commit) -> Error {
    // Bytes that are not the protocol come before what their cells would be.
    if let Err(error) = change.read() {
        return error.into();
    }
    let error = match refused {
        Refused::Error(error) => error,
        Refused::Malformed => Error::new(ErrorKind::Arrow("a row was not read".to_owned())),
    };
    place(error, change.offset, change.lsn, commit)
}

/// The error of a change, which lies there in the stream.
#[cold]
fn place(error: Error, offset: u64, lsn: Lsn, commit: Commit) -> Error {
    let lsn = if lsn.is_valid() { lsn } else { Lsn(commit.lsn) };
    error.at(offset, lsn)
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
