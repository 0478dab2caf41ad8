//! The rows of a table.

use crate::column::Column;
use crate::frames::cells;
use crate::{array, u32_at};

/// The kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    missing_docs,
    clippy::exhaustive_enums,
    reason = "PostgreSQL has no more"
)]
pub enum Change {
    Insert,
    Preimage,
    Postimage,
    Delete,
    Truncate,
}

/// Some rows of one relation.
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "plain columns")]
pub struct Table {
    pub oid: u32,
    pub columns: Vec<Column>,
    pub change: Vec<Change>,
    pub seq: Vec<u64>,
    pub runs: Vec<Run>,
}

/// Rows of one transaction that follow each other.
#[derive(Clone, Copy, Debug, Default)]
#[expect(missing_docs, reason = "plain values")]
pub struct Run {
    pub first_row: usize,
    pub commit_lsn: u64,
    pub commit_time: i64,
    pub xid: u32,
}

impl Table {
    /// The empty table of a Relation, which begins with the OID.
    pub(crate) fn new(relation: &[u8]) -> Self {
        let mut rest = after_string(after_string(&relation[4..]));
        let count = u16::from_be_bytes(array(&rest[1..]));
        rest = &rest[3..];
        let mut columns = Vec::new();
        for _ in 0..count {
            rest = after_string(&rest[1..]);
            columns.push(Column::new(u32_at(rest, 0)));
            rest = &rest[8..];
        }
        Self {
            oid: u32_at(relation, 0),
            columns,
            ..Self::default()
        }
    }

    /// Takes the rows out; the next ones are given as much room.
    pub(crate) fn take(&mut self) -> Self {
        Self {
            oid: self.oid,
            columns: self.columns.iter_mut().map(Column::take).collect(),
            change: renewed(&mut self.change),
            seq: renewed(&mut self.seq),
            runs: renewed(&mut self.runs),
        }
    }

    /// Appends a row and returns the bytes after its tuple.
    #[inline]
    pub(crate) fn push<'a>(
        &mut self,
        run: &Run,
        seq: u64,
        change: Change,
        tuple: &'a [u8],
    ) -> &'a [u8] {
        self.place(run, seq, change);
        let mut columns = self.columns.iter_mut();
        cells(tuple, |tag, value| {
            if let Some(column) = columns.next() {
                column.push(tag, value);
            }
        })
    }

    /// Appends the new row of an update, after its old row. A whole old row has the values that were
    /// not sent.
    #[inline]
    pub(crate) fn push_after(&mut self, run: &Run, seq: u64, is_whole: bool, tuple: &[u8]) {
        if !is_whole {
            self.push(run, seq, Change::Postimage, tuple);
            return;
        }
        self.place(run, seq, Change::Postimage);
        let mut columns = self.columns.iter_mut();
        cells(tuple, |tag, value| {
            if let Some(column) = columns.next() {
                if tag == b'u' {
                    column.repeat_last();
                } else {
                    column.push(tag, value);
                }
            }
        });
    }

    pub(crate) fn push_truncate(&mut self, run: &Run, seq: u64) {
        self.place(run, seq, Change::Truncate);
        for column in &mut self.columns {
            column.push(b'n', &[]);
        }
    }

    #[inline]
    fn place(&mut self, run: &Run, seq: u64, change: Change) {
        let last = self.runs.last();
        if last.is_none_or(|last| last.commit_lsn != run.commit_lsn) {
            self.runs.push(Run {
                first_row: self.seq.len(),
                ..*run
            });
        }
        self.change.push(change);
        self.seq.push(seq);
    }
}

/// Takes the values out and leaves room for as many.
pub(crate) fn renewed<T>(values: &mut Vec<T>) -> Vec<T> {
    let next = Vec::with_capacity(values.len());
    std::mem::replace(values, next)
}

fn after_string(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    &bytes[end.unwrap_or_else(|| panic!("a string without its zero")) + 1..]
}
