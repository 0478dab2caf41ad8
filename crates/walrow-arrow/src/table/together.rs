//! A table whose rows several threads append. Here, its rows are only counted.
//!
//! A table that appends its rows itself has the same counts, so batches end at the same rows. No
//! column of such a table expands: the size of its rows follows from their bytes.

use super::later::Part;
use super::{Ended, OldCells, Refused, Table, unsent_bytes};
use crate::batch::Batch;
use crate::error::Error;
use crate::layout::Layout;
use crate::metadata::{Commit, Metadata};
use crate::rows::{Begins, Current, Rows};
use crate::tables::refuse;
use crate::threads::{Done, Fault, First, Job, KeptRows, KeptRun, KeptRunRows, Stretch, Wanted};
use std::sync::Arc;
use walrow_stream::{Change, Unread};
use walrow_wire::{Cell, Image, Kind, UnreadRow, UnreadTuple};

/// Bytes of a finished batch without rows, mostly for its arrays of metadata, and of a column of it.
const BATCH: usize = 8 << 10;
const COLUMN_OF_BATCH: usize = 512;

impl Table {
    /// The number of rows in parts. The rows in the columns follow them.
    pub(super) fn rows_in_parts(&self) -> usize {
        self.later.as_ref().map_or(0, |later| later.in_parts)
    }

    /// Whether the size of its rows follows from their bytes, so that other threads may append them.
    #[inline]
    const fn can_keep(&self) -> bool {
        self.expanding.is_empty()
    }

    /// The layout of the rows of the stretch.
    #[inline]
    fn layout_of_stretch(&self) -> Option<&Arc<Layout>> {
        let later = self.later.as_ref();
        later
            .and_then(|later| later.layout.as_ref())
            .or(self.layout.as_ref())
    }

    /// Whether it has a layout for rows of the stretch.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        self.layout_of_stretch().is_some()
    }

    /// Notes rows that were appended here, up to the number `rows`.
    fn note_appended(&mut self, before: usize, number: u64, transaction: u64) {
        let rows = self.rows.count().saturating_sub(before);
        let later = self.later.get_or_insert_default();
        later
            .appended
            .extend(std::iter::repeat_n((number, transaction), rows));
    }

    /// Appends rows that were kept, up to the first one that is not wanted, or cannot be appended.
    ///
    /// # Errors
    /// Why it cannot be appended, and its number.
    pub(crate) fn append_kept(
        &mut self,
        rows: &KeptRows,
        input: &[u8],
        wanted: Wanted,
    ) -> Result<(), Fault> {
        let relation = Arc::clone(&self.relation);
        for run in rows.runs(input, wanted) {
            let KeptRun {
                number,
                current,
                rows,
            } = run;
            let rows = match rows {
                KeptRunRows::Truncate { seq } => {
                    self.append_truncate(current, seq);
                    continue;
                }
                KeptRunRows::Sent { run, frames, most } => run.rows(frames, &relation).take(most),
            };
            for (number, change) in (number..).zip(rows) {
                let row = change.row.row().ok_or(Refused::Malformed);
                let appended = row.and_then(|row| self.append(current, change.seq, &row));
                if let Err(refused) = appended {
                    return Err(Fault {
                        number,
                        current: *current,
                        error: refuse(&change, refused, current.commit),
                    });
                }
            }
        }
        Ok(())
    }

    /// Counts a row, or both images of an update, and keeps it. Or appends it, if its size does not
    /// follow from its bytes.
    ///
    /// # Errors
    /// The row does not follow the protocol. Nothing of it is counted.
    #[inline]
    pub(crate) fn keep(
        &mut self,
        stretch: &mut Stretch<Job>,
        current: &Current,
        change: &Change<'_, Unread<'_>>,
        row: &UnreadRow<'_>,
    ) -> Result<(), Refused> {
        if !self.can_keep() {
            return self.append_in_stretch(stretch, current, change, row);
        }
        self.enter_stretch(stretch);
        self.enter_counted(current);
        self.count_images(row).ok_or(Refused::Malformed)?;
        let place = stretch.place_of(change);
        let number = stretch.count();
        if let Some(later) = &mut self.later {
            later.kept.push(place, current, change, number);
            if stretch.is_job(later.kept.size()) {
                self.hand_over_part(stretch);
            }
        }
        Ok(())
    }

    /// Appends a row here, as [`Table::append`] does.
    #[inline(never)]
    fn append_in_stretch(
        &mut self,
        stretch: &mut Stretch<Job>,
        current: &Current,
        change: &Change<'_, Unread<'_>>,
        row: &UnreadRow<'_>,
    ) -> Result<(), Refused> {
        self.enter_stretch(stretch);
        let before = self.rows.count();
        let appended = self.append(current, change.seq, row);
        self.note_appended(before, stretch.count(), current.ordinal);
        appended
    }

    /// The row of a TRUNCATE.
    pub(crate) fn truncate_in_stretch(
        &mut self,
        stretch: &mut Stretch<Job>,
        current: &Current,
        seq: u64,
    ) {
        self.enter_stretch(stretch);
        if self.can_keep() {
            self.keep_truncate(current, seq, stretch.count());
        } else {
            let before = self.rows.count();
            self.append_truncate(current, seq);
            self.note_appended(before, stretch.count(), current.ordinal);
        }
    }

    /// Notes the rows before the stretch, with its first row of this table.
    #[inline]
    fn enter_stretch(&mut self, stretch: &mut Stretch<Job>) {
        if self.later.as_ref().is_none_or(|it| it.before.is_none()) {
            let layout = self.layout.clone();
            stretch.hold(layout.as_ref().map_or(0, |layout| layout.bytes()));
            stretch.versions.push(self.relation.version);
            let later = self.later.get_or_insert_default();
            later.before = Some(self.rows);
            later.layout = layout;
        }
    }

    /// Counts the row of a TRUNCATE, and keeps it.
    fn keep_truncate(&mut self, current: &Current, seq: u64, number: u64) {
        self.enter_counted(current);
        self.rows.push();
        self.bytes = self.bytes.saturating_add(self.row_bytes);
        let later = self.later.get_or_insert_default();
        later.kept.push_truncate(current, seq, number);
    }

    /// Prepares for rows of this transaction, without columns.
    #[inline]
    fn enter_counted(&mut self, current: &Current) {
        if self.rows.enter(current) == Begins::Batch
            && let Some(layout) = self.layout_of_stretch()
        {
            let inner = layout.inner_types;
            self.begin_counts(self.relation.columns.len().saturating_add(inner));
        }
    }

    /// Counts as [`Table::append`] does. `None` if the row does not follow the protocol.
    #[inline]
    fn count_images(&mut self, row: &UnreadRow<'_>) -> Option<()> {
        let (image, first) = row.first()?;
        let size = first.cells().size();
        let (rest, has_unsent) = first.pass()?;
        if row.kind() != Kind::Update || image == Image::New {
            self.count_kept(size);
            if has_unsent {
                self.count_unsent(first, None);
            }
            return Some(());
        }
        let old = size.saturating_sub(rest.size());
        let new = rest.then_new()?;
        let (_, new_has_unsent) = new.pass()?;
        self.count_kept(old);
        // Its unchanged values come from the old row.
        self.count_kept(old.saturating_add(new.cells().size()));
        if has_unsent {
            self.count_unsent(first, None);
        }
        if new_has_unsent {
            self.count_unsent(new, Some(&mut OldCells::new(first)));
        }
        Some(())
    }

    #[inline]
    fn count_kept(&mut self, cells: usize) {
        self.rows.push();
        self.count_bytes(cells);
    }

    /// Counts the names of the unsent columns of a tuple.
    #[inline(never)]
    fn count_unsent<'a>(&mut self, tuple: UnreadTuple<'a>, mut old: Option<&mut OldCells<'a>>) {
        let (true, Some(layout)) = (self.names_unsent, self.layout_of_stretch()) else {
            return;
        };
        let (mut cells, mut unsent) = (tuple.cells(), 0_usize);
        for place in 0..tuple.len() {
            if cells.cell() == Some(Cell::Unchanged)
                && layout.keeps(place)
                && old
                    .as_mut()
                    .is_none_or(|old| old.sent(place) == Cell::Unchanged)
            {
                unsent = unsent.saturating_add(unsent_bytes(&self.relation, place));
            }
        }
        self.unsent_bytes = self.unsent_bytes.saturating_add(unsent);
    }

    /// Makes a job of the rows that are kept. The columns go with them, as they have the rows before.
    fn take_job(&mut self, finish: bool) -> Option<Job> {
        let in_parts = self.rows_in_parts();
        let later = self.later.as_mut()?;
        if later.kept.is_empty() {
            return None;
        }
        let layout = later.layout.clone()?;
        let rows = std::mem::take(&mut later.kept);
        // The columns have no rows of the stretch, whose transactions were already entered.
        let before = later.before.unwrap_or_default();
        let first = First {
            rows: self.metadata.len(),
            nulled: self.counts(|losses| losses.nulled),
            dropped_lower_bounds: self.counts(|losses| losses.dropped_bounds),
        };
        let mut table = Self::new(Arc::clone(&self.relation), layout);
        table.columns = std::mem::take(&mut self.columns);
        table.metadata = std::mem::replace(&mut self.metadata, Metadata::new(0));
        table.rows = before.part(in_parts, first.rows);
        if in_parts == 0 {
            table.expected_rows = self.expected_rows;
            table.expected_bytes.clone_from(&self.expected_bytes);
        }
        Some(Job {
            table: Box::new(table),
            first,
            rows,
            finish,
        })
    }

    /// Hands over the rows that are kept, as a part of the batch.
    fn hand_over_part(&mut self, stretch: &mut Stretch<Job>) {
        let rows = self.rows.count();
        if let Some(job) = self.take_job(true) {
            let number = stretch.push(job);
            let later = self.later.get_or_insert_default();
            later.parts.push(Part::Waits(number));
            later.in_parts = rows;
        }
    }

    /// Hands over all rows at the end of the stretch. The columns come back with them.
    pub(crate) fn hand_over_rest(&mut self, stretch: &mut Stretch<Job>) {
        if let Some(job) = self.take_job(false) {
            let number = stretch.push(job);
            self.later.get_or_insert_default().open = Some(number);
        }
    }

    /// Ends the batch. Its rows may wait for other threads.
    ///
    /// # Errors
    /// The rows that were appended here cannot become a batch.
    pub(crate) fn end_batch(
        &mut self,
        stretch: &mut Stretch<Job>,
        full: bool,
    ) -> Result<Ended, Error> {
        let columns = self.relation.columns.len().saturating_mul(COLUMN_OF_BATCH);
        stretch.hold(self.bytes().saturating_add(BATCH).saturating_add(columns));
        let is_entered = self.later.as_ref().is_some_and(|it| it.before.is_some());
        let layout = self.layout_of_stretch().cloned();
        self.hand_over_part(stretch);
        let ended = self.take_later(stretch.number(), full)?;
        if is_entered {
            let later = self.later.get_or_insert_default();
            later.before = Some(Rows::default());
            later.layout = layout;
        }
        Ok(ended)
    }

    /// Takes out all rows, after a fault.
    #[cold]
    pub(crate) fn take_ended(&mut self) -> Result<Ended, Error> {
        self.take_later(u64::MAX, false)
    }

    fn take_later(&mut self, end: u64, full: bool) -> Result<Ended, Error> {
        let mut later = self.later.take().map(|it| *it).unwrap_or_default();
        // Without rows of the stretch, all were there before it.
        later.before.get_or_insert(self.rows);
        let rows = self.rows.count().saturating_sub(later.in_parts);
        if let Some(number) = later.open.take() {
            later.parts.push(Part::Waits(number));
        } else if rows > 0 {
            later
                .parts
                .push(Part::Made(self.finish_columns(rows, full)?));
        }
        self.end_rows(full);
        Ok(Ended {
            version: self.relation.version,
            end,
            later,
        })
    }

    /// Takes what other threads made of its rows. `commit` is the current transaction's.
    pub(crate) fn settle(&mut self, done: &mut [Option<Done>], commit: Commit) {
        let Some(later) = &mut self.later else {
            return;
        };
        later.before = None;
        later.layout = None;
        later.appended.clear();
        let mut layout = None;
        for part in &mut later.parts {
            if let Part::Waits(number) = *part
                && let Some(done) = take(done, number)
            {
                layout = done.table.layout;
                if let Some(Ok(batch)) = done.batch {
                    *part = Part::Made(batch);
                }
            }
        }
        if let Some(number) = later.open.take() {
            if let Some(done) = take(done, number) {
                self.columns = done.table.columns;
                self.metadata = done.table.metadata;
            }
        } else if let Some(layout) = layout {
            // The next rows need columns.
            self.columns = layout.columns(0);
            self.metadata = Metadata::new(0);
            self.metadata.begin(commit);
        }
        if later.parts.is_empty() {
            self.later = None;
        }
    }

    /// An empty table of the same rows.
    pub(crate) fn empty(&self) -> Option<Self> {
        let layout = self.layout.clone();
        let relation = Arc::clone(&self.relation);
        layout.map(|layout| Self::new(relation, layout))
    }

    /// Expects columns as large as in the full batch that another table made.
    pub(crate) fn expect_as(&mut self, other: &Self) {
        self.expected_bytes.clone_from(&other.expected_bytes);
    }

    /// Returns all rows so far as a batch. Some are in parts.
    pub(super) fn finish_parts(&mut self, full: bool) -> Result<Batch, Error> {
        let ended = self.take_later(u64::MAX, full)?;
        let parts = ended.later.parts.into_iter().filter_map(|part| match part {
            Part::Made(batch) => Some(batch),
            Part::Waits(_) => None,
        });
        Batch::join(parts.collect())
    }

    /// Drops all rows in parts after the first `rows`.
    #[cold]
    pub(super) fn truncate_parts(&mut self, rows: usize) {
        if let Some(later) = &mut self.later {
            later.in_parts = later.in_parts.min(rows);
            let mut left = rows;
            for part in &mut later.parts {
                if let Part::Made(batch) = part {
                    batch.truncate(left);
                    left = left.saturating_sub(batch.records.num_rows());
                }
            }
        }
    }
}

impl Ended {
    /// The batch. Its columns teach the table what to expect of the next batch.
    pub(crate) fn settle(
        self,
        done: &mut [Option<Done>],
        table: Option<&mut Table>,
    ) -> Result<Batch, Error> {
        let mut parts = Vec::with_capacity(self.later.parts.len());
        let mut made_by = None;
        for part in self.later.parts {
            match part {
                Part::Made(batch) => parts.push(batch),
                Part::Waits(number) => {
                    if let Some(Done { table, batch, .. }) = take(done, number) {
                        parts.extend(batch.transpose()?);
                        made_by = Some(table);
                    }
                }
            }
        }
        if let (Some(table), Some(made_by), [_]) = (table, made_by, parts.as_slice()) {
            table.expect_as(&made_by);
        }
        Batch::join(parts)
    }

    /// The rows of the batch before a fault. `None` if the batch begins behind it.
    #[cold]
    pub(crate) fn fall_back(
        self,
        done: &mut [Option<Done>],
        wanted: Wanted,
        input: &[u8],
    ) -> Result<Option<Batch>, Error> {
        let before = self.later.before.unwrap_or_default();
        let mut rows = match wanted.without {
            Some(transaction) => before.before(transaction),
            None => before.count(),
        };
        let mut parts = Vec::with_capacity(self.later.parts.len());
        for part in self.later.parts {
            match part {
                Part::Made(batch) => parts.push(batch),
                Part::Waits(number) => {
                    let Some(done) = take(done, number) else {
                        continue;
                    };
                    let first = done.first();
                    if let Some(batch) = done.into_wanted(wanted, input)? {
                        let more = batch.records.num_rows().saturating_sub(first);
                        rows = rows.saturating_add(more);
                        parts.push(batch);
                    }
                }
            }
        }
        let appended = self.later.appended.into_iter();
        let appended = appended.filter(|(number, transaction)| wanted.has(*number, *transaction));
        rows = rows.saturating_add(appended.count());
        if rows == 0 {
            return Ok(None);
        }
        let mut batch = Batch::join(parts)?;
        batch.truncate(rows);
        Ok(Some(batch))
    }
}

fn take(done: &mut [Option<Done>], number: usize) -> Option<Done> {
    done.get_mut(number)?.take()
}
