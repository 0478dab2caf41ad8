//! A job: a thread appends rows to a table, and may make a batch of them.

use super::kept_rows::{KeptRows, Wanted};
use crate::batch::{Batch, Counts};
use crate::error::Error;
use crate::rows::Current;
use crate::table::Table;

/// Rows, and the table that gets them.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) table: Box<Table>,
    /// The rows that the table has already.
    pub(crate) first: First,
    pub(crate) rows: KeptRows,
    /// Whether the table's rows become a batch. Otherwise more rows follow.
    pub(crate) finish: bool,
}

/// The rows that a table has before a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct First {
    pub(crate) rows: usize,
    pub(crate) nulled: Counts,
    pub(crate) dropped_lower_bounds: Counts,
}

/// The result of a job.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) table: Box<Table>,
    first: First,
    rows: KeptRows,
    pub(crate) batch: Option<Result<Batch, Error>>,
    pub(crate) fault: Option<Fault>,
}

/// The first row that could not be appended.
#[derive(Debug)]
pub(crate) struct Fault {
    /// Its number among the rows of all tables.
    pub(crate) number: u64,
    pub(crate) current: Current,
    pub(crate) error: Error,
}

impl Job {
    /// Appends the rows.
    pub(crate) fn run(self, input: &[u8]) -> Done {
        let Self {
            mut table,
            first,
            rows,
            finish,
        } = self;
        let fault = table.append_kept(&rows, input, Wanted::ALL).err();
        let has_rows = table.rows() > 0;
        let batch = (finish && has_rows).then(|| table.finish(true));
        Done {
            table,
            first,
            rows,
            batch,
            fault,
        }
    }
}

impl Done {
    /// All rows that were appended, as a batch. `None` if no row was.
    pub(crate) fn into_batch(mut self) -> Result<Option<Batch>, Error> {
        match self.batch {
            Some(batch) => batch.map(Some),
            None if self.table.rows() > 0 => self.table.finish(false).map(Some),
            None => Ok(None),
        }
    }

    /// The number of rows that the table had before the stretch.
    pub(crate) const fn first(&self) -> usize {
        self.first.rows
    }

    /// The rows that are wanted after a fault. The caller drops the first rows if they belong to the
    /// failed transaction.
    #[cold]
    pub(crate) fn into_wanted(self, wanted: Wanted, input: &[u8]) -> Result<Option<Batch>, Error> {
        let Some(mut again) = self.table.empty() else {
            return Err(Error::internal("no layout"));
        };
        // The rows before the fault could be appended.
        let _ = again.append_kept(&self.rows, input, wanted);
        let First {
            rows,
            nulled,
            dropped_lower_bounds,
        } = self.first.clone();
        let again = if again.rows() > 0 {
            Some(again.finish(false)?)
        } else {
            None
        };
        if rows == 0 {
            return Ok(again);
        }
        let Some(mut batch) = self.into_batch()? else {
            return Ok(None);
        };
        let more = again.as_ref().map_or(0, |it| it.records.num_rows());
        batch.truncate(rows.saturating_add(more));
        (batch.nulled, batch.dropped_lower_bounds) = (nulled, dropped_lower_bounds);
        if let Some(again) = again {
            batch.add_counts(again.nulled, again.dropped_lower_bounds);
        }
        Ok(Some(batch))
    }
}
