//! Rows that are appended later: their places, and what their transactions share.

use crate::rows::Current;
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

/// Rows of one transaction that follow each other.
#[derive(Debug)]
pub(crate) struct KeptRun<'a> {
    /// The number of the first row.
    pub(crate) number: u64,
    pub(crate) current: &'a Current,
    pub(crate) rows: KeptRunRows<'a>,
}

/// The rows of a run.
#[derive(Debug)]
pub(crate) enum KeptRunRows<'a> {
    /// Rows, their frames, and the number of rows that are wanted.
    Sent {
        run: &'a RowRun,
        frames: &'a [u8],
        most: usize,
    },
    /// The row of a TRUNCATE.
    Truncate { seq: u64 },
}

/// The rows that are appended. After a fault, some are dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted {
    /// The rows before this number.
    pub(crate) before: u64,
    /// The transaction whose rows are dropped, too.
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

    /// How many rows of a transaction are wanted, from this number on. `None` if it has no such rows.
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

    /// The runs of rows, up to the first row that is not wanted.
    pub(crate) fn runs<'a>(
        &'a self,
        input: &'a [u8],
        wanted: Wanted,
    ) -> impl Iterator<Item = KeptRun<'a>> {
        let runs = self.runs.iter().map_while(move |run| {
            let most = wanted.rows(run.number, run.current.ordinal)?;
            Some((run, most))
        });
        runs.map(move |(run, most)| {
            let rows = match &run.rows {
                RunRows::Truncate { seq } => KeptRunRows::Truncate { seq: *seq },
                RunRows::Sent {
                    run,
                    source,
                    start,
                    end,
                } => KeptRunRows::Sent {
                    run,
                    frames: self
                        .frames(*source, input)
                        .get(*start..*end)
                        .unwrap_or_default(),
                    most,
                },
            };
            KeptRun {
                number: run.number,
                current: &run.current,
                rows,
            }
        })
    }

    fn frames<'a>(&'a self, source: Source, input: &'a [u8]) -> &'a [u8] {
        match source {
            Source::Input => input,
            Source::Own => &self.own,
        }
    }
}
