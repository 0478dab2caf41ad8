//! The batch under construction of one relation version.

use crate::batch::Batch;
use crate::column::{Column, Losses};
use crate::error::{Error, Way};
use crate::layout::{Layout, Source};
use crate::metadata::{ChangeType, Metadata, MetadataColumn, UNSENT_BYTES};
use crate::rows::{Begins, Current, Rows};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_types::{CellError, Unrepresentable};
use walrow_wire::{Cell, Image, Kind, Lsn, UnreadCells, UnreadRow, UnreadTuple};

/// A table's rows since its last batch.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) relation: Arc<Relation>,
    /// Present when the first row is appended. Later rows use only the copies below.
    layout: Option<Box<Layout>>,
    /// In the relation's order. Empty while the table has no rows.
    columns: Vec<Option<Box<dyn Column>>>,
    metadata: Metadata,
    rows: Rows,
    /// Bytes of the rows, and of the names of their unsent columns.
    bytes: usize,
    unsent_bytes: usize,
    /// Bytes of the empty builders, and bytes reserved for expected rows.
    base: usize,
    reserved: usize,
    /// Estimated bytes of memory, as if the rows had `mark` bytes.
    held: usize,
    /// The memory is estimated again when the rows have this number of bytes.
    mark: usize,
    /// The minimum bytes of a row.
    row_bytes: usize,
    /// Columns whose values can be much larger than their cells.
    expanding: Vec<usize>,
    /// Whether batches list the unsent columns of each row.
    names_unsent: bool,
    /// The number of rows in the last batch, if it was full. The next batch reserves as many.
    expected_rows: usize,
    /// The bytes of the rows in that batch, and the bytes of the values of each column, for columns
    /// of varying size.
    expected_size: usize,
    expected_bytes: Vec<usize>,
}

/// Fixed bytes of a column that has rows, mostly for its aligned null bitmap, and of a table.
const COLUMN_BYTES: usize = 384;
const TABLE_BYTES: usize = 1024;

/// Why a row was not appended.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Its bytes do not follow the protocol.
    Malformed,
    Error(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Reads the old row's cells on demand.
struct OldCells<'a> {
    cells: UnreadCells<'a>,
    /// The index of the next cell.
    place: usize,
}

impl<'a> OldCells<'a> {
    const fn new(tuple: UnreadTuple<'a>) -> Self {
        Self {
            cells: tuple.cells(),
            place: 0,
        }
    }

    /// The cell at this index, if it was sent. Each call must pass a larger index.
    #[cold]
    fn sent(&mut self, place: usize) -> Cell<'a> {
        while let Some(cell) = self.cells.cell() {
            let at = self.place;
            self.place = at.saturating_add(1);
            if at == place {
                return match cell {
                    Cell::Text(_) | Cell::Binary(_) => cell,
                    _ => Cell::Unchanged,
                };
            }
        }
        Cell::Unchanged
    }
}

impl Table {
    pub(crate) fn new(relation: Arc<Relation>, layout: Layout) -> Self {
        Self {
            relation,
            row_bytes: layout.row_bytes,
            expanding: layout.expanding.clone(),
            names_unsent: layout.metadata.contains(&MetadataColumn::Unsent),
            layout: Some(Box::new(layout)),
            columns: Vec::new(),
            metadata: Metadata::new(0),
            rows: Rows::default(),
            bytes: 0,
            unsent_bytes: 0,
            base: 0,
            reserved: 0,
            held: 0,
            mark: 0,
            expected_rows: 0,
            expected_size: 0,
            expected_bytes: Vec::new(),
        }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows.count()
    }

    /// Bytes of the rows.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.unsent_bytes)
    }

    /// Estimated bytes of memory.
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// Whether the memory must be estimated again.
    #[inline]
    pub(crate) const fn is_at_mark(&self) -> bool {
        self.bytes() >= self.mark
    }

    /// Estimates the memory until the rows have this number of bytes.
    pub(crate) fn estimate(&mut self, mark: usize) {
        self.mark = mark;
        let bytes = self.bytes().max(mark);
        // A growing vector may reserve twice the bytes that it holds.
        self.held = self
            .base
            .saturating_add(bytes)
            .saturating_add(bytes.max(self.reserved));
    }

    pub(crate) const fn has_layout(&self) -> bool {
        self.layout.is_some()
    }

    pub(crate) fn set_layout(&mut self, layout: Layout) {
        self.layout = Some(Box::new(layout));
    }

    /// Drops the layout and returns its bytes. [`Table::finish`] needs a layout again.
    pub(crate) fn drop_layout(&mut self) -> usize {
        self.layout.take().map_or(0, |layout| layout.bytes())
    }

    /// The position before the oldest row that was not returned.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.rows.floor()
    }

    /// Prepares for rows of this transaction.
    #[inline]
    fn enter(&mut self, current: &Current) {
        match self.rows.enter(current) {
            Begins::Nothing => return,
            Begins::Transaction => {}
            Begins::Batch => self.begin_batch(),
        }
        self.metadata.begin(current.commit);
    }

    #[cold]
    fn begin_batch(&mut self) {
        let mut inner = 0;
        if let Some(layout) = &self.layout {
            self.columns = layout.columns(self.expected_rows);
            inner = layout.inner_types;
        }
        self.metadata = Metadata::new(self.expected_rows);
        (self.bytes, self.unsent_bytes) = (0, 0);
        self.base = COLUMN_BYTES
            .saturating_mul(self.columns.len().saturating_add(inner))
            .saturating_add(TABLE_BYTES);
        self.reserved = a_little_more(self.expected_size);
        self.mark = 0;
        for (column, bytes) in self.columns.iter_mut().zip(&self.expected_bytes) {
            if let Some(column) = column {
                column.reserve_bytes(a_little_more(*bytes));
            }
        }
    }

    /// Appends a row, or both images of an update, which must be in one batch.
    ///
    /// # Errors
    /// A cell is invalid, or the row does not follow the protocol. Nothing of the row is appended.
    #[expect(
        clippy::inline_always,
        reason = "else the parts of a row are written to memory and read again"
    )]
    #[inline(always)]
    pub(crate) fn append(
        &mut self,
        current: &Current,
        seq: u64,
        row: &UnreadRow<'_>,
    ) -> Result<(), Refused> {
        self.enter(current);
        let (image, tuple) = row.first().ok_or(Refused::Malformed)?;
        let change_type = match (row.kind(), image) {
            (Kind::Insert, _) => ChangeType::Insert,
            (Kind::Update, Image::New) => ChangeType::UpdatePostimage,
            (Kind::Update, _) => return self.append_both(seq, image, tuple),
            _ => ChangeType::Delete,
        };
        match self.append_cells(tuple.cells(), tuple.len(), None) {
            Some(rest) if rest.is_end() => {
                self.count_row(change_type, seq, image == Image::Key, tuple.cells().size());
                Ok(())
            }
            _ => {
                let refused = self.refused(tuple, None);
                self.truncate(self.rows.count());
                Err(refused)
            }
        }
    }

    /// Appends both images of an update.
    #[inline(never)]
    fn append_both(&mut self, seq: u64, image: Image, old: UnreadTuple<'_>) -> Result<(), Refused> {
        let before = (self.rows.count(), self.bytes, self.unsent_bytes);
        let appended = self.append_images(seq, image, old);
        if appended.is_err() {
            self.truncate(before.0);
            (_, self.bytes, self.unsent_bytes) = before;
        }
        appended
    }

    fn append_images(
        &mut self,
        seq: u64,
        image: Image,
        old: UnreadTuple<'_>,
    ) -> Result<(), Refused> {
        let rest = self.append_cells(old.cells(), old.len(), None);
        let rest = rest.ok_or_else(|| self.refused(old, None))?;
        let bytes = old.cells().size().saturating_sub(rest.size());
        self.count_row(ChangeType::UpdatePreimage, seq, image == Image::Key, bytes);

        let new = rest.then_new().ok_or(Refused::Malformed)?;
        let mut sent = OldCells::new(old);
        let rest = self.append_cells(new.cells(), new.len(), Some(&mut sent));
        if rest.is_none_or(|rest| !rest.is_end()) {
            return Err(self.refused(new, Some(old)));
        }
        // Its unchanged values came from the old row.
        let bytes = bytes.saturating_add(new.cells().size());
        self.count_row(ChangeType::UpdatePostimage, seq, false, bytes);
        Ok(())
    }

    /// Counts the row whose cells were appended, of this number of bytes.
    #[inline]
    fn count_row(&mut self, change_type: ChangeType, seq: u64, key_only: bool, bytes: usize) {
        self.metadata.append(change_type, seq, key_only);
        self.rows.push();
        self.count_bytes(bytes);
    }

    /// Appends a cell to each column and returns the rest after the tuple, which claims to have
    /// `count` cells. Unchanged cells come from the old row if the replica identity covers them.
    /// `None` if a column refuses its cell, or the tuple does not follow the protocol:
    /// [`Table::refused`] finds the error.
    #[inline]
    fn append_cells<'a>(
        &mut self,
        cells: UnreadCells<'a>,
        count: usize,
        old: Option<&mut OldCells<'a>>,
    ) -> Option<UnreadCells<'a>> {
        if cells.kind() == Some(b'b') {
            self.append_most::<b'b'>(cells, count, old)
        } else {
            self.append_most::<b't'>(cells, count, old)
        }
    }

    /// The same where most cells are of one kind: `t` or `b`.
    // It is not inlined, so that its loop has all registers of the processor. Its arguments and results
    // are in registers, too.
    #[inline(never)]
    fn append_most<'a, const KIND: u8>(
        &mut self,
        mut cells: UnreadCells<'a>,
        count: usize,
        mut old: Option<&mut OldCells<'a>>,
    ) -> Option<UnreadCells<'a>> {
        if count != self.columns.len() {
            return None;
        }
        for (place, slot) in self.columns.iter_mut().enumerate() {
            if let Some(bytes) = cells.value(KIND) {
                match slot {
                    Some(column) if KIND == b'b' => column.append_binary(bytes).ok()?,
                    Some(column) => column.append_text(bytes).ok()?,
                    None => {}
                }
                continue;
            }
            let cell = cells.cell()?;
            let Some(column) = slot else { continue };
            let cell = match (cell, &mut old) {
                (Cell::Unchanged, Some(old)) => old.sent(place),
                _ => cell,
            };
            match cell {
                Cell::Text(bytes) => column.append_text(bytes).ok()?,
                Cell::Binary(bytes) => column.append_binary(bytes).ok()?,
                Cell::Unchanged => {
                    column.append_null();
                    if self.names_unsent {
                        self.metadata
                            .unsent(u32::try_from(place).unwrap_or(u32::MAX));
                        let bytes = unsent_bytes(&self.relation, place);
                        self.unsent_bytes = self.unsent_bytes.saturating_add(bytes);
                    }
                }
                Cell::Null => column.append_null(),
            }
        }
        Some(cells)
    }

    #[inline]
    fn count_bytes(&mut self, cells: usize) {
        self.bytes = self.bytes.wrapping_add(cells).wrapping_add(self.row_bytes);
        if !self.expanding.is_empty() {
            let sizes = self.expanding.iter().filter_map(|place| {
                self.columns
                    .get(*place)?
                    .as_ref()
                    .map(|column| column.variable_bytes())
            });
            self.bytes = self.bytes.max(sizes.fold(0, usize::saturating_add));
        }
    }

    /// Appends the row of a TRUNCATE, which has no tuple.
    pub(crate) fn append_truncate(&mut self, current: &Current, seq: u64) {
        self.enter(current);
        for column in self.columns.iter_mut().flatten() {
            column.append_null();
        }
        self.metadata.append(ChangeType::Truncate, seq, false);
        self.rows.push();
        self.bytes = self.bytes.saturating_add(self.row_bytes);
    }

    /// Why the cells of a tuple were not all appended.
    #[cold]
    fn refused(&self, tuple: UnreadTuple<'_>, old: Option<UnreadTuple<'_>>) -> Refused {
        // The first column without a cell of this row refused it, or was never given one.
        let rows = self.rows.count();
        let is_short = |slot: &Option<Box<dyn Column>>| {
            let column = slot.as_deref();
            column.is_some_and(|column| column.len() <= rows)
        };
        match self.columns.iter().position(is_short) {
            Some(place) if tuple.len() == self.columns.len() => match tuple.nth(place) {
                Some(cell) => self.refuse(cell, old, place),
                None => Refused::Malformed,
            },
            _ => Refused::Malformed,
        }
    }

    /// The error of a cell in the column at this index.
    #[cold]
    fn refuse(&self, cell: Cell<'_>, old: Option<UnreadTuple<'_>>, place: usize) -> Refused {
        let name = self
            .relation
            .columns
            .get(place)
            .map_or("", |column| &column.name);
        let cell = match (cell, old) {
            (Cell::Unchanged, Some(old)) => OldCells::new(old).sent(place),
            _ => cell,
        };
        let size = match cell {
            Cell::Text(bytes) | Cell::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        let is_binary = matches!(cell, Cell::Binary(_));
        let column = self.columns.get(place).and_then(Option::as_deref);
        let error = column.map_or(CellError::Malformed("a cell"), Column::failure);
        let text_is_lost = column.is_some_and(|column| column.lacks_text(is_binary, false));
        // A binary composite without its types has no text.
        let way = match &self.layout {
            Some(layout) if layout.keys.iter().any(|key| **key == *name) => Way::Key,
            Some(layout) if layout.projected => Way::Null,
            _ if text_is_lost
                || is_binary
                    && error == CellError::Unrepresentable(Unrepresentable::AlteredType) =>
            {
                Way::Bytes
            }
            _ => Way::Text,
        };
        Error::cell(error, size, &self.relation.to_string(), name, way).into()
    }

    fn truncate(&mut self, rows: usize) {
        for column in self.columns.iter_mut().flatten() {
            if column.len() > rows {
                column.truncate(rows);
            }
        }
        self.metadata.truncate(rows);
        self.rows.truncate(rows);
    }

    /// Drops all rows of this transaction.
    pub(crate) fn roll_back(&mut self, current: &Current) {
        if let Some(rows) = self.rows.without(current) {
            self.truncate(rows);
        }
    }

    /// Returns all rows so far as a batch.
    pub(crate) fn finish(&mut self, full: bool) -> Result<Batch, Error> {
        let rows = self.rows.finish();
        (self.expected_rows, self.expected_size) = if full { (rows, self.bytes) } else { (0, 0) };
        (self.bytes, self.unsent_bytes) = (0, 0);
        (self.base, self.reserved, self.held, self.mark) = (0, 0, 0, 0);
        let nulled = self.counts(|losses| losses.nulled);
        let dropped_lower_bounds = self.counts(|losses| losses.dropped_bounds);
        let columns = std::mem::take(&mut self.columns);
        let metadata = std::mem::replace(&mut self.metadata, Metadata::new(0));
        let variable = |column: &Option<Box<dyn Column>>| {
            let column = column.as_deref();
            column.map_or(0, <dyn Column>::variable_bytes)
        };
        self.expected_bytes.clear();
        if full {
            self.expected_bytes.extend(columns.iter().map(variable));
        }
        let Some(layout) = &self.layout else {
            let error = Error::internal("no layout");
            return Err(error.in_table(&self.relation.to_string()));
        };

        let names: Vec<Option<&str>> = self
            .relation
            .columns
            .iter()
            .zip(&columns)
            .map(|(column, kept)| kept.as_ref().map(|_| &*column.name))
            .collect();
        let arrow = |error: arrow_schema::ArrowError| {
            Error::internal(error.to_string()).in_table(&layout.table)
        };
        let metadata = metadata
            .finish(&layout.metadata, layout.profile, &layout.missing, &names)
            .map_err(arrow)?;
        let mut columns = columns
            .into_iter()
            .map(|column| column.map(<dyn Column>::finish).transpose())
            .collect::<Result<Vec<Option<ArrayRef>>, _>>()
            .map_err(arrow)?;
        let mut arrays = Vec::with_capacity(layout.sources.len());
        for (source, field) in layout.sources.iter().zip(layout.schema.fields()) {
            arrays.push(match source {
                Source::Column(place) => columns.get_mut(*place).and_then(Option::take),
                Source::Metadata(place) => metadata.get(*place).map(|array| named(array, field)),
                // Its size was checked and counted when the layout was made.
                Source::Nothing(data_type) => Some(new_null_array(data_type, rows)),
            });
        }
        let arrays = arrays.into_iter().flatten().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let records =
            RecordBatch::try_new_with_options(Arc::clone(&layout.schema), arrays, &options)
                .map_err(arrow)?;
        Ok(Batch {
            relation: Arc::clone(&self.relation),
            records,
            nulled,
            dropped_lower_bounds,
        })
    }

    /// The columns that lost something, in the relation's order, and how often.
    fn counts(&self, count: fn(Losses) -> u64) -> Vec<(String, u64)> {
        let columns = self.relation.columns.iter().zip(&self.columns);
        let counts = columns.map(|(column, kept)| {
            let losses = kept.as_ref().map(|it| it.losses()).unwrap_or_default();
            (column.name.to_string(), count(losses))
        });
        counts.filter(|(_, count)| *count > 0).collect()
    }
}

/// The bytes that are reserved for values, as the next rows may have longer ones.
const fn a_little_more(bytes: usize) -> usize {
    bytes.saturating_add(bytes / 8)
}

/// The bytes of an unsent column in a row.
fn unsent_bytes(relation: &Relation, place: usize) -> usize {
    let column = relation.columns.get(place);
    column.map_or(UNSENT_BYTES, |column| {
        column.name.len().saturating_add(UNSENT_BYTES)
    })
}

/// Gives the array its field's type: a declared schema may use another name for a list's items.
fn named(array: &ArrayRef, field: &Field) -> ArrayRef {
    if let (Some(list), DataType::List(item)) = (array.as_list_opt::<i32>(), field.data_type()) {
        let (_, offsets, items, nulls) = list.clone().into_parts();
        if let Ok(list) = ListArray::try_new(Arc::clone(item), offsets, items, nulls) {
            return Arc::new(list);
        }
    }
    Arc::clone(array)
}
