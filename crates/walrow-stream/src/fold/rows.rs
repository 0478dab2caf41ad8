//! The rows of a table as a stream.

use crate::catalog::CatalogColumn;
use crate::encode::put_relation;
use crate::encoding::Encoding;
use crate::fact::Fact;
use crate::fold::{Fold, Scan};
use crate::relation::Column;
use std::io;
use std::sync::Arc;
use walrow_wire::{Begin, Commit, Insert, Lsn, Message, Timestamp, Tuple};

/// Bytes of a part of the transaction, about.
const PART: usize = 1 << 20;

/// The rows of a table, as one transaction that inserts them: wire frames of protocol 1.
///
/// The transaction comes in parts of about 1 MiB, so that its reader need not hold it. Rows are in
/// the order of their last change.
#[derive(Debug)]
pub struct FoldedRows {
    fold: Fold,
    encoding: Encoding,
    /// The LSN where the transaction ends.
    end: Lsn,
    scan: Scan,
    /// How many more times to write the scan's row, and its version.
    left: (u32, u32),
    /// How many rows were written.
    rows: u64,
    is_begun: bool,
    is_ended: bool,
    projected: Vec<u8>,
}

impl Fold {
    /// The rows, as one transaction that inserts them. Names are written in this encoding. The rows
    /// have the same encoding.
    pub fn into_rows(self, encoding: Encoding) -> FoldedRows {
        FoldedRows::new(self, encoding)
    }
}

impl FoldedRows {
    fn new(fold: Fold, encoding: Encoding) -> Self {
        let end = Lsn(fold.commit_lsn.0.saturating_add(1));
        Self {
            fold,
            encoding,
            end,
            scan: Scan::default(),
            left: (0, 0),
            rows: 0,
            is_begun: false,
            is_ended: false,
            projected: Vec::new(),
        }
    }

    /// Sets the LSN where the transaction ends. Changes were applied up to this LSN.
    #[must_use]
    pub const fn with_end(mut self, end: Lsn) -> Self {
        self.end = end;
        self
    }

    /// Gives the rows the columns that the table got after its last change.
    ///
    /// A column with a new name is NULL in all rows. A column that is not in `columns` is left out.
    #[must_use]
    pub fn with_columns(mut self, columns: &[CatalogColumn]) -> Self {
        let Some(last) = &self.fold.relation else {
            return self;
        };
        let place_of =
            |it: &CatalogColumn| last.columns.iter().position(|old| *old.name == it.name);
        let places: Box<[_]> = columns.iter().map(place_of).collect();
        let is_same = places.iter().enumerate().all(|(at, it)| *it == Some(at));
        if is_same && places.len() == last.columns.len() {
            return self;
        }
        let columns = columns.iter().zip(&places).map(|(column, place)| {
            let old = place.and_then(|place| last.columns.get(place));
            old.cloned().unwrap_or_else(|| Column::from(column))
        });
        let mut relation = (**last).clone();
        relation.columns = columns.collect();
        self.fold.versions.add(places.len(), &places);
        self.fold.relation = Some(Arc::new(relation));
        self
    }

    /// The next part of the stream, instead of the buffer's contents. Returns false at the end.
    ///
    /// # Errors
    /// The spool failed.
    pub fn read(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        out.clear();
        if self.is_ended {
            return Ok(false);
        }
        let (end, time) = (self.end, self.fold.time);
        let commit_lsn = Lsn(end.0.saturating_sub(1));
        if !self.is_begun && !self.fold.catalog.is_empty() {
            Fact::Catalog(self.fold.catalog.clone()).encode(false, out);
        }
        if self.is_begun {
            let first_seq = self.rows;
            Fact::Part { first_seq }.encode(false, out);
        }
        let begin = Message::Begin(Begin {
            final_lsn: commit_lsn,
            commit_time: time,
            xid: 0,
        });
        begin.encode_in_frame(commit_lsn, time, out);
        if let Some(relation) = self.fold.relation.as_ref().filter(|_| !self.is_begun) {
            put_relation(relation, None, self.encoding, (Lsn::INVALID, time), out);
        }
        self.is_begun = true;
        self.is_ended = !self.put_rows(out)?;
        if !self.is_ended {
            Fact::Continues.encode(true, out);
        }
        let commit = Message::Commit(Commit {
            commit_lsn,
            end_lsn: end,
            commit_time: time,
        });
        commit.encode_in_frame(end, time, out);
        Ok(true)
    }

    /// Writes rows until the part is full. Returns whether there may be more.
    fn put_rows(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        while out.len() < PART {
            let (count, version) = self.left;
            if count == 0 {
                let Some(row) = self.fold.heap.next(&mut self.scan)? else {
                    return Ok(false);
                };
                self.left = (row.count, row.version);
                continue;
            }
            let versions = &self.fold.versions;
            let row = versions.project(version, &self.scan.cells, &mut self.projected);
            let row = row.ok_or(io::ErrorKind::InvalidData)?;
            put_row(self.fold.oid, row, self.fold.time, out);
            self.left = (count.saturating_sub(1), version);
            self.rows = self.rows.saturating_add(1);
        }
        Ok(true)
    }
}

fn put_row(oid: u32, new: Tuple<'_>, time: Timestamp, out: &mut Vec<u8>) {
    let insert = Message::Insert(Insert {
        xid: None,
        relation: oid,
        new,
    });
    insert.encode_in_frame(Lsn::INVALID, time, out);
}
