//! Rows that are appended later: their places, and what their transactions share.

use super::work::Fault;
use crate::rows::Current;
use crate::table::{Refused, Table};
use crate::tables::refuse;
use std::sync::Arc;
use walrow_stream::{Change, RowRun, Unread};

/// Rows of one relation version, in order, that are appended later.
#[derive(Debug, Default)]
pub(crate) struct KeptRows {
    runs: Vec<Run>,
    /// The frames of rows that do not lie in the input.
    own: Vec<u8>,
    /// Bytes of all frames.
    size: usize,
}

/// Rows of one transaction that follow each other.
#[derive(Debug)]
struct Run {
    rows: RunRows,
    current: Current,
    /// The number of its first row among the rows of all tables.
    number: u64,
}

#[derive(Debug)]
enum RunRows {
    /// Rows whose frames lie from `start` to `end`.
    Sent {
        run: RowRun,
        source: Source,
        start: usize,
        end: usize,
    },
    /// The row of a TRUNCATE.
    Truncate { seq: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Input,
    Own,
}

/// Which rows are appended, if some are dropped after a fault.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The rows before this number.
    pub(crate) before: u64,
    /// But not those of this transaction.
    pub(crate) without: Option<u64>,
}

impl Wanted {
    /// All rows.
    pub(crate) const ALL: Self = Self {
        before: u64::MAX,
        without: None,
    };

    /// Whether a row of this number and transaction is wanted.
    pub(crate) fn has(self, number: u64, transaction: u64) -> bool {
        number < self.before && self.without != Some(transaction)
    }

    /// How many rows of a transaction are wanted, from this number on. `None` if there are none.
    fn rows(self, first: u64, transaction: u64) -> Option<usize> {
        let rows = self.before.saturating_sub(first);
        self.has(first, transaction)
            .then(|| usize::try_from(rows).unwrap_or(usize::MAX))
    }
}

impl KeptRows {
    /// Adds a row. `start` is its place in the input, if it lies there.
    #[inline]
    pub(crate) fn push(
        &mut self,
        start: Option<usize>,
        current: &Current,
        change: &Change<'_, Unread<'_>>,
        number: u64,
    ) {
        let frame = change.row.frame();
        let (source, start) = match start {
            Some(start) => (Source::Input, start),
            None => (Source::Own, self.own.len()),
        };
        let end = start.wrapping_add(frame.len());
        self.size = self.size.wrapping_add(frame.len());
        if source == Source::Own {
            self.own.extend_from_slice(frame);
        }
        if let Some(last) = self.runs.last_mut()
            && last.current.ordinal == current.ordinal
            && let RunRows::Sent {
                run,
                source: last_source,
                end: last_end,
                ..
            } = &mut last.rows
            && (*last_source, *last_end) == (source, start)
            && run.extend(change)
        {
            *last_end = end;
            return;
        }
        self.runs.push(Run {
            rows: RunRows::Sent {
                run: RowRun::new(change),
                source,
                start,
                end,
            },
            current: *current,
            number,
        });
    }

    /// Adds the row of a TRUNCATE.
    pub(crate) fn push_truncate(&mut self, current: &Current, seq: u64, number: u64) {
        self.runs.push(Run {
            rows: RunRows::Truncate { seq },
            current: *current,
            number,
        });
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Bytes of the rows.
    pub(crate) const fn size(&self) -> usize {
        self.size
    }

    /// Appends the rows to a table, up to the first one that is not wanted, or cannot be appended.
    ///
    /// # Errors
    /// Why it cannot be appended, and its number.
    pub(crate) fn append_to(
        &self,
        table: &mut Table,
        input: &[u8],
        wanted: Wanted,
    ) -> Result<(), Fault> {
        let relation = Arc::clone(&table.relation);
        for Run {
            rows,
            current,
            number,
        } in &self.runs
        {
            let RunRows::Sent {
                run,
                source,
                start,
                end,
            } = rows
            else {
                if let RunRows::Truncate { seq } = rows
                    && wanted.has(*number, current.ordinal)
                {
                    table.append_truncate(current, *seq);
                }
                continue;
            };
            let Some(most) = wanted.rows(*number, current.ordinal) else {
                return Ok(());
            };
            let frames = self.frames(*source, input).get(*start..*end);
            let rows = run.rows(frames.unwrap_or_default(), &relation);
            for (place, change) in rows.take(most).enumerate() {
                let row = change.row.row().ok_or(Refused::Malformed);
                let appended = row.and_then(|row| table.append(current, change.seq, &row));
                if let Err(refused) = appended {
                    return Err(Fault {
                        number: number.saturating_add(place as u64),
                        current: *current,
                        error: refuse(&change, refused, current.commit),
                    });
                }
            }
        }
        Ok(())
    }

    fn frames<'a>(&'a self, source: Source, input: &'a [u8]) -> &'a [u8] {
        match source {
            Source::Input => input,
            Source::Own => &self.own,
        }
    }
}
