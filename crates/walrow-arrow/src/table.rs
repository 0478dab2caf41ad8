//! The batch under construction of one relation version.

use crate::batch::Batch;
use crate::column::{Column, Losses};
use crate::error::{Error, ErrorKind, Way};
use crate::layout::{Layout, Source};
use crate::metadata::{ChangeType, Commit, Metadata, MetadataColumn, UNSENT_BYTES};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, ListArray, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_types::CellError;
use walrow_wire::{Cell, Lsn, OldTuple, Tuple};

/// A table's rows since its last batch.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) relation: Arc<Relation>,
    /// There is one when the first row comes; what rows need of it after that is here too.
    layout: Option<Box<Layout>>,
    /// In the relation's order; empty while there are no rows.
    columns: Vec<Option<Box<dyn Column>>>,
    metadata: Metadata,
    rows: usize,
    /// Bytes of the rows, and of the names of columns that they have no value of.
    bytes: usize,
    unsent_bytes: usize,
    /// Bytes that were taken before there were rows, and room for rows that was.
    base: usize,
    reserved: usize,
    /// Bytes that a row takes at least.
    row_bytes: usize,
    /// Columns whose values can be much larger than their cells.
    expanding: Vec<usize>,
    /// Whether batches say which columns a row has no value of.
    names_unsent: bool,
    /// Room for so many rows was needed last time.
    expected_rows: usize,
    /// Up to where everything was in earlier batches when the first row came.
    floor: Lsn,
    /// The transaction that the last rows are of, and how many rows there were before it.
    transaction: u64,
    before_transaction: usize,
}

/// What a column takes once it has a row, beside the row: itself, its values and, most of it, the
/// bits of its nulls, which are aligned; and what a table takes.
const COLUMN_BYTES: usize = 384;
const TABLE_BYTES: usize = 1024;

/// One row, as it is appended.
#[derive(Debug)]
pub(crate) struct NewRow<'a> {
    pub(crate) change_type: ChangeType,
    pub(crate) seq: u64,
    pub(crate) key_only: bool,
    pub(crate) tuple: Tuple<'a>,
    /// Where unchanged values may be found.
    pub(crate) old: Option<OldTuple<'a>>,
}

impl<'a> NewRow<'a> {
    #[inline]
    pub(crate) const fn new(change_type: ChangeType, seq: u64, tuple: Tuple<'a>) -> Self {
        Self {
            change_type,
            seq,
            key_only: false,
            tuple,
            old: None,
        }
    }

    /// An old row, or its key.
    #[inline]
    pub(crate) const fn old(change_type: ChangeType, seq: u64, old: OldTuple<'a>) -> Self {
        Self {
            key_only: matches!(old, OldTuple::Key(_)),
            ..Self::new(change_type, seq, old.tuple())
        }
    }

    /// Its cells; unchanged ones as the old row has them, where the replica identity covers them.
    #[inline]
    pub(crate) fn cells(&self) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let mut old = self.old.map(|old| old.tuple().cells());
        let mut old_at = 0;
        let cells = self.tuple.cells().enumerate();
        cells.map(move |(place, cell)| {
            if cell != Cell::Unchanged {
                return cell;
            }
            let skip = usize::saturating_sub(place, old_at);
            old_at = place.saturating_add(1);
            match old.as_mut().and_then(|cells| cells.nth(skip)) {
                Some(sent @ (Cell::Text(_) | Cell::Binary(_))) => sent,
                _ => cell,
            }
        })
    }
}

/// The transaction that rows are appended for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Current {
    /// Numbers the decoder's transactions.
    pub(crate) ordinal: u64,
    pub(crate) commit: Commit,
    /// Up to where all transactions before it were complete.
    pub(crate) floor: Lsn,
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
            rows: 0,
            bytes: 0,
            unsent_bytes: 0,
            base: 0,
            reserved: 0,
            expected_rows: 0,
            floor: Lsn::INVALID,
            transaction: 0,
            before_transaction: 0,
        }
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    /// Bytes of the rows.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.unsent_bytes)
    }

    /// Bytes of memory that the rows take: a vector that grows has room for as much again.
    pub(crate) fn held(&self) -> usize {
        self.base
            .saturating_add(self.bytes())
            .saturating_add(self.bytes().max(self.reserved))
    }

    pub(crate) const fn has_layout(&self) -> bool {
        self.layout.is_some()
    }

    pub(crate) fn set_layout(&mut self, layout: Layout) {
        self.layout = Some(Box::new(layout));
    }

    /// Drops the layout, which is needed again to finish, and says what it took.
    pub(crate) fn drop_layout(&mut self) -> usize {
        self.layout.take().map_or(0, |layout| layout.bytes())
    }

    /// The position before the oldest row that is still here.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        (self.rows > 0).then_some(self.floor)
    }

    /// Makes ready for rows of this transaction.
    #[inline]
    fn enter(&mut self, current: &Current) {
        if self.rows == 0 {
            self.floor = current.floor;
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
            self.reserved = self.expected_rows.saturating_mul(self.row_bytes);
        } else if self.transaction == current.ordinal {
            return;
        }
        self.transaction = current.ordinal;
        self.before_transaction = self.rows;
        self.metadata.begin(current.commit);
    }

    /// Appends a change: a row, or both images of an update, which so lie in one batch.
    ///
    /// # Errors
    /// The column and what is wrong with its cell; nothing of the change is appended.
    #[inline]
    pub(crate) fn append(&mut self, current: &Current, change: &[NewRow<'_>]) -> Result<(), Error> {
        self.enter(current);
        let before = (self.rows, self.bytes, self.unsent_bytes);
        for row in change {
            if let Err(error) = self.append_row(row) {
                self.truncate(before.0);
                (_, self.bytes, self.unsent_bytes) = before;
                return Err(error);
            }
        }
        Ok(())
    }

    #[inline]
    fn append_row(&mut self, row: &NewRow<'_>) -> Result<(), Error> {
        // Most rows come without an old one, and have their cells in a row.
        match row.old {
            None => self.append_cells(row.tuple.cells())?,
            Some(_) => self.append_cells(row.cells())?,
        }
        self.count_bytes(row);
        self.metadata.append(row.change_type, row.seq, row.key_only);
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    #[inline]
    fn append_cells<'a>(&mut self, cells: impl Iterator<Item = Cell<'a>>) -> Result<(), Error> {
        for (place, (slot, cell)) in (0..).zip(self.columns.iter_mut().zip(cells)) {
            let Some(column) = slot else { continue };
            if let Cell::Unchanged = cell
                && self.names_unsent
            {
                self.metadata.unsent(place);
                let name = self.relation.columns.get(place as usize);
                let name = name.map_or(0, |column| column.name.len());
                let bytes = name.saturating_add(UNSENT_BYTES);
                self.unsent_bytes = self.unsent_bytes.saturating_add(bytes);
            }
            let result = match cell {
                Cell::Text(bytes) => column.append_text(bytes),
                Cell::Binary(bytes) => column.append_binary(bytes),
                _ => {
                    column.append_null();
                    continue;
                }
            };
            if result.is_err() {
                return Err(self.refuse(place as usize, cell));
            }
        }
        Ok(())
    }

    #[inline]
    fn count_bytes(&mut self, row: &NewRow<'_>) {
        let unchanged = row.old.map_or(0, |old| old.tuple().byte_len());
        let cells = row.tuple.byte_len().saturating_add(unchanged);
        self.bytes = self
            .bytes
            .saturating_add(cells)
            .saturating_add(self.row_bytes);
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

    /// Appends a row without a tuple: the table was truncated.
    pub(crate) fn append_truncate(&mut self, current: &Current, seq: u64) {
        self.enter(current);
        for column in self.columns.iter_mut().flatten() {
            column.append_null();
        }
        self.metadata.append(ChangeType::Truncate, seq, false);
        self.rows = self.rows.saturating_add(1);
        self.bytes = self.bytes.saturating_add(self.row_bytes);
    }

    /// What is wrong with the cell of the column at this place.
    #[cold]
    fn refuse(&self, place: usize, cell: Cell<'_>) -> Error {
        let name = self
            .relation
            .columns
            .get(place)
            .map_or("", |column| &column.name);
        let size = match cell {
            Cell::Text(bytes) | Cell::Binary(bytes) => bytes.len(),
            _ => 0,
        };
        let is_binary = matches!(cell, Cell::Binary(_));
        let column = self.columns.get(place).and_then(Option::as_deref);
        let error = column.map_or(CellError::Malformed("a cell"), Column::failure);
        let text_is_lost = column.is_some_and(|column| column.lacks_text(is_binary, false));
        let way = match &self.layout {
            Some(layout) if layout.projected => Way::Null,
            _ if text_is_lost => Way::Bytes,
            _ => Way::Text,
        };
        Error::cell(error, size, &self.relation.to_string(), name, way)
    }

    fn truncate(&mut self, rows: usize) {
        for column in self.columns.iter_mut().flatten() {
            if column.len() > rows {
                column.truncate(rows);
            }
        }
        self.metadata.truncate(rows);
        self.rows = rows;
    }

    /// Takes back all rows of this transaction.
    pub(crate) fn take_back(&mut self, current: &Current) {
        if self.rows > 0 && self.transaction == current.ordinal {
            self.truncate(self.before_transaction);
        }
    }

    /// Hands out all rows so far.
    pub(crate) fn finish(&mut self, full: bool) -> Result<Batch, Error> {
        let columns = std::mem::take(&mut self.columns);
        let metadata = std::mem::replace(&mut self.metadata, Metadata::new(0));
        let rows = std::mem::take(&mut self.rows);
        (self.bytes, self.unsent_bytes) = (0, 0);
        (self.base, self.reserved) = (0, 0);
        self.expected_rows = if full { rows } else { 0 };
        // The transaction goes on in a new batch.
        self.before_transaction = 0;
        let Some(layout) = &self.layout else {
            let error = Error::new(ErrorKind::Arrow("no layout".to_owned()));
            return Err(error.in_table(&self.relation.to_string()));
        };

        let counts = |count: fn(Losses) -> u64| {
            let columns = self.relation.columns.iter().zip(&columns);
            let counts = columns.map(|(column, kept)| {
                let losses = kept.as_ref().map(|it| it.losses()).unwrap_or_default();
                (column.name.to_string(), count(losses))
            });
            counts.filter(|(_, count)| *count > 0).collect::<Vec<_>>()
        };
        let nulled = counts(|losses| losses.nulled);
        let dropped_lower_bounds = counts(|losses| losses.dropped_bounds);

        let names: Vec<Option<&str>> = self
            .relation
            .columns
            .iter()
            .zip(&columns)
            .map(|(column, kept)| kept.as_ref().map(|_| &*column.name))
            .collect();
        let arrow = |error: arrow_schema::ArrowError| {
            Error::new(ErrorKind::Arrow(error.to_string())).in_table(&layout.table)
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
                // What it takes was checked, and counted, when the layout was made.
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
}

/// The array under its field's type: a given schema may call a list's items by another name.
fn named(array: &ArrayRef, field: &Field) -> ArrayRef {
    if let (Some(list), DataType::List(item)) = (array.as_list_opt::<i32>(), field.data_type()) {
        let (_, offsets, items, nulls) = list.clone().into_parts();
        if let Ok(list) = ListArray::try_new(Arc::clone(item), offsets, items, nulls) {
            return Arc::new(list);
        }
    }
    Arc::clone(array)
}
