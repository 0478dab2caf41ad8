//! A table's rows after its changes.
//!
//! ```text
//! events ─► Fold: identity ─► last row ─► FoldedRows ─► B R I I I … C of protocol 1
//! ```
//! Rows stay as they were sent: only the cells of their identity are read. The result is a stream
//! again. So the decoder that turns changes into columns also turns rows into columns.

mod error;
mod heap;
mod identity;
mod rows;
mod versions;

use crate::catalog::Catalog;
use crate::fact::Fact;
use crate::relation::Relation;
use crate::spool::Spool;
use crate::transaction::{Change, RowChange, Transaction, Truncate, Unread};
pub use error::{FoldError, Gap};
use heap::{Heap, Id, Scan};
pub use identity::{CellText, CellTextOf};
use identity::{Identity, Kind, Unsent};
pub use rows::FoldedRows;
use std::sync::Arc;
use versions::{Step, Versions, numbers};
use walrow_wire::{Cell, Lsn, Oid, OldTuple, Timestamp, Tuple};

/// The rows of one table. It applies the table's changes in their order.
///
/// ```
/// use walrow_stream::{Assembler, Event, Fold};
///
/// let stream: &[u8] = &[]; // wire frames of any protocol version
/// let (mut assembler, mut fold) = (Assembler::default(), Fold::new(16_400));
/// let mut input = stream;
/// while let Some(event) = assembler.next_with(&mut input, |row| fold.row(&row))? {
///     match event {
///         Event::Change(row) => row?,
///         Event::Begin(transaction) => fold.begin(transaction),
///         Event::Relation { relation, .. } => fold.relation(relation)?,
///         Event::Truncate(truncate) => fold.truncate(&truncate)?,
///         Event::Fact(fact) => fold.fact(&fact),
///         _ => {}
///     }
/// }
/// let (mut rows, mut chunk) = (fold.into_rows(walrow_stream::Encoding::Utf8), Vec::new());
/// while rows.read(&mut chunk)? {
///     println!("{} bytes of wire frames", chunk.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Fold {
    oid: Oid,
    /// The version of the last change.
    relation: Option<Arc<Relation>>,
    /// The attribute numbers of its columns.
    numbers: Option<Vec<i16>>,
    identity: Identity,
    versions: Versions,
    heap: Heap,
    catalog: Catalog,
    /// Whether the rows before a load are still skipped.
    waits: bool,
    /// Whether the current transaction is a load.
    loads: bool,
    /// The current transaction.
    commit_lsn: Lsn,
    time: Timestamp,
    scratch: Scratch,
}

/// Memory for one row.
#[derive(Debug, Default)]
struct Scratch {
    /// A stored row.
    stored: Vec<u8>,
    /// The stored row, with the columns of the last version.
    projected: Vec<u8>,
    /// A new row with all of its values.
    merged: Vec<u8>,
}

/// 64 MiB.
const DEFAULT_MEMORY: usize = 64 << 20;

impl Fold {
    /// An empty fold for the table with this OID.
    pub fn new(oid: Oid) -> Self {
        Self {
            oid,
            relation: None,
            numbers: None,
            identity: Identity::new(None),
            versions: Versions::default(),
            heap: Heap::new(None, DEFAULT_MEMORY),
            catalog: Catalog::default(),
            waits: false,
            loads: false,
            commit_lsn: Lsn::INVALID,
            time: Timestamp(0),
            scratch: Scratch::default(),
        }
    }

    /// Skips the changes before the first load of the table.
    #[must_use]
    pub const fn after_load(mut self) -> Self {
        self.waits = true;
        self
    }

    /// Sets how the text of binary cells is written. Without it, a row that came with a binary key
    /// is not found by a text key.
    #[must_use]
    pub fn with_cell_text(mut self, text_of: CellTextOf) -> Self {
        self.identity = Identity::new(Some(text_of));
        self
    }

    /// Sets the spool for rows beyond [`Fold::with_memory`]. Without a spool, exceeding that limit is
    /// an error.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.heap.set_spool(spool);
        self
    }

    /// Limits the memory of rows. Default: 64 MiB. The index takes more: up to 114 bytes for each
    /// row.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.heap.set_limit(bytes);
        self
    }

    /// The table.
    pub const fn oid(&self) -> Oid {
        self.oid
    }

    /// The last version of the table. `None` if the stream did not describe it yet.
    pub const fn last_version(&self) -> Option<&Arc<Relation>> {
        self.relation.as_ref()
    }

    /// Begins a transaction.
    pub fn begin(&mut self, transaction: &Transaction) {
        self.loads = transaction.snapshot;
        self.commit_lsn = transaction.commit_lsn;
        self.time = transaction.commit_time;
    }

    /// Takes a fact. A catalog contains the types of the rows.
    pub fn fact(&mut self, fact: &Fact) {
        if let Fact::Catalog(catalog) = fact {
            self.catalog.extend(catalog);
            self.identity.forget_types();
        }
    }

    /// Takes a relation version.
    ///
    /// # Errors
    /// The rows of this version do not follow from the rows of the last version.
    pub fn relation(&mut self, relation: &Arc<Relation>) -> Result<(), FoldError> {
        if relation.oid != self.oid {
            return Ok(());
        }
        self.take_version(relation)
    }

    /// Applies a TRUNCATE.
    ///
    /// # Errors
    /// As [`Fold::relation`].
    pub fn truncate(&mut self, truncate: &Truncate) -> Result<(), FoldError> {
        let mut relations = truncate.relations.iter();
        let Some(relation) = relations.find(|it| it.oid == self.oid) else {
            return Ok(());
        };
        self.waits &= !self.loads;
        self.heap.clear();
        self.take_version(relation)
    }

    /// Applies a row change.
    ///
    /// # Errors
    /// The row does not follow the protocol, or the change does not give the rows of the table.
    pub fn row(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), FoldError> {
        if change.relation.oid != self.oid {
            return Ok(());
        }
        let change = change.read()?;
        let version = self.relation.as_ref().map(|it| it.version);
        if version != Some(change.relation.version) {
            self.take_version(change.relation)?;
        }
        if self.waits {
            return Ok(());
        }
        match change.row {
            RowChange::Insert { new } => self.insert(new),
            RowChange::Update { old, new } => self.update(old, new),
            RowChange::Delete { old } => self.delete(old),
        }
    }

    fn insert(&mut self, new: Tuple<'_>) -> Result<(), FoldError> {
        if let Some(place) = unsent(new) {
            return Err(self.unsent(Unsent(place)));
        }
        let id = self.id(new)?;
        self.put(id, new.bytes())
    }

    /// Adds a row.
    fn put(&mut self, id: Id, cells: &[u8]) -> Result<(), FoldError> {
        if self.identity.kind == Kind::Key && self.heap.has(id) {
            return Err(self.gap(Gap::Removal));
        }
        let version = self.versions.last();
        Ok(self.heap.add(id, version, cells, 1)?)
    }

    fn update(&mut self, old: Option<OldTuple<'_>>, new: Tuple<'_>) -> Result<(), FoldError> {
        // Without an old tuple, the identity is the same.
        let old_id = match (self.identity.kind, old) {
            (Kind::Key, None) => self.id(new)?,
            _ => self.old_id(old)?,
        };
        if !self.heap.has(old_id) {
            return Err(self.gap(Gap::Row));
        }
        let mut scratch = std::mem::take(&mut self.scratch);
        let applied = match unsent(new) {
            None => self.replace(old_id, old.is_some(), new),
            Some(place) => match self.merge(old_id, old, new, &mut scratch)? {
                Some(whole) => self.replace(old_id, old.is_some(), whole),
                None => Err(self.unsent(Unsent(place))),
            },
        };
        self.scratch = scratch;
        applied
    }

    /// Replaces a row. Its identity may change.
    fn replace(&mut self, old_id: Id, may_move: bool, new: Tuple<'_>) -> Result<(), FoldError> {
        let new_id = if may_move { self.id(new)? } else { old_id };
        if new_id == old_id && self.identity.kind == Kind::Key {
            let version = self.versions.last();
            return Ok(self.heap.replace(new_id, version, new.bytes())?);
        }
        self.heap.remove(old_id)?;
        self.put(new_id, new.bytes())
    }

    /// The new row with the values that were not sent. They come from the old image, or else from
    /// the stored row. `None` if a value is missing in both.
    fn merge<'a>(
        &mut self,
        id: Id,
        old: Option<OldTuple<'_>>,
        new: Tuple<'_>,
        scratch: &'a mut Scratch,
    ) -> Result<Option<Tuple<'a>>, FoldError> {
        let Scratch {
            stored,
            projected,
            merged,
        } = scratch;
        let Some(version) = self.heap.read(id, stored)? else {
            return Err(self.gap(Gap::Row));
        };
        let Some(stored) = self.versions.project(version, stored, projected) else {
            return Err(self.gap(Gap::Row));
        };
        merged.clear();
        let is_key = matches!(old, Some(OldTuple::Key(_)));
        let mut olds = old.map(|old| old.tuple().cells());
        let mut stored = stored.cells();
        for (place, cell) in new.cells().enumerate() {
            let of_old = olds.as_mut().and_then(Iterator::next);
            // A key tuple has no values of other columns.
            let of_old = of_old.filter(|_| !is_key || self.identity.places.contains(&place));
            let of_old = of_old.filter(|cell| *cell != Cell::Unchanged);
            let of_stored = stored.next();
            let cell = match cell {
                Cell::Unchanged => of_old.or(of_stored).unwrap_or(Cell::Unchanged),
                sent => sent,
            };
            if cell == Cell::Unchanged {
                return Ok(None);
            }
            cell.encode(merged);
        }
        let columns = u16::try_from(new.len()).unwrap_or(u16::MAX);
        Ok(Tuple::of(columns, merged))
    }

    fn delete(&mut self, old: OldTuple<'_>) -> Result<(), FoldError> {
        let id = self.old_id(Some(old))?;
        if self.heap.remove(id)? {
            return Ok(());
        }
        Err(self.gap(Gap::Row))
    }

    /// The identity of the row before a change.
    fn old_id(&mut self, old: Option<OldTuple<'_>>) -> Result<Id, FoldError> {
        match (self.identity.kind, old) {
            (Kind::Key, Some(old)) => self.id(old.tuple()),
            (Kind::Whole, Some(OldTuple::Full(old))) => self.id(old),
            _ => Err(self.gap(Gap::Identity)),
        }
    }

    /// The identity of a row of the last version.
    #[inline]
    fn id(&mut self, row: Tuple<'_>) -> Result<Id, FoldError> {
        let Some(relation) = &self.relation else {
            return Err(self.gap(Gap::Row));
        };
        let id = self.identity.of(row, relation, &self.catalog);
        id.map_err(|unsent| self.unsent(unsent))
    }

    /// Takes a version, which becomes the last version.
    #[cold]
    fn take_version(&mut self, relation: &Arc<Relation>) -> Result<(), FoldError> {
        let numbers = numbers(relation, &self.catalog);
        let columns = relation.columns.len();
        let before = self.relation.replace(Arc::clone(relation));
        let numbers_before = std::mem::replace(&mut self.numbers, numbers);
        let before = before.filter(|_| !self.heap.is_empty());
        let Some(before) = before else {
            self.versions.begin(columns);
            self.identity.take(relation);
            return Ok(());
        };
        let was = (&*before, numbers_before.as_deref());
        let places = match Step::new(was, (relation, self.numbers.as_deref())) {
            Step::Same => None,
            Step::Changed(places) => Some(places),
            Step::Unclear { went, came } => return Err(self.gap(Gap::Columns { went, came })),
            Step::Retyped(column) => return Err(self.gap(Gap::Type { column })),
        };
        let (kind, keys) = identity::of(relation);
        let keys_before: Option<Box<[usize]>> = match &places {
            None => Some(keys),
            Some(places) => {
                let before = keys.iter().map(|place| *places.get(*place)?);
                before.collect()
            }
        };
        let is_same =
            keys_before.as_ref() == Some(&self.identity.places) && kind == self.identity.kind;
        if let Some(places) = &places {
            self.versions.add(columns, places);
        }
        self.identity.take(relation);
        if is_same {
            return Ok(());
        }
        self.identify_again()
    }

    /// Finds the identities of all rows, under the last version.
    fn identify_again(&mut self) -> Result<(), FoldError> {
        let fresh = self.heap.like();
        let mut before = std::mem::replace(&mut self.heap, fresh);
        let mut scan = Scan::default();
        let mut projected = Vec::new();
        let version = self.versions.last();
        while let Some(row) = before.next(&mut scan)? {
            let cells = self
                .versions
                .project(row.version, &scan.cells, &mut projected);
            let Some(cells) = cells else {
                return Err(self.gap(Gap::Row));
            };
            let id = self.id(cells)?;
            if self.identity.kind == Kind::Key && (row.count > 1 || self.heap.has(id)) {
                return Err(self.gap(Gap::Removal));
            }
            self.heap.add(id, version, cells.bytes(), row.count)?;
        }
        Ok(())
    }

    #[cold]
    fn unsent(&self, Unsent(place): Unsent) -> FoldError {
        let column = self.relation.as_ref().and_then(|it| it.columns.get(place));
        let column = column.map_or_else(String::new, |column| column.name.to_string());
        self.gap(Gap::Value { column })
    }

    #[cold]
    fn gap(&self, gap: Gap) -> FoldError {
        let table = self.relation.as_ref();
        let table = table.map_or_else(|| self.oid.to_string(), ToString::to_string);
        FoldError::Incomplete {
            table,
            lsn: self.commit_lsn,
            gap,
        }
    }
}

/// The first column without a value.
fn unsent(row: Tuple<'_>) -> Option<usize> {
    row.cells().position(|cell| cell == Cell::Unchanged)
}
