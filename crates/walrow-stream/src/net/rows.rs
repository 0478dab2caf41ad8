//! The result of a net, as a stream.

use crate::catalog::CatalogColumn;
use crate::encode::put_relation;
use crate::fact::Fact;
use crate::net::heap::Scan;
use crate::net::net_rows::Changed;
use crate::net::table::Table;
use crate::net::tally::Tally;
use crate::net::{Base, Net, NetError};
use crate::relation::{Column, Relation};
use std::io;
use std::sync::Arc;
use walrow_wire::{Begin, Cell, Commit, Insert, Lsn, Message, ReplicaIdentity, Truncate};

/// Bytes of a part of the transaction, about.
const PART: usize = 1 << 20;

/// The rows or the net changes of a table, as one transaction: wire frames of protocol 1.
///
/// The transaction comes in parts of about 1 MiB, so that its reader need not hold it. Rows are in
/// the order of their last change.
#[derive(Debug)]
pub struct NetRows {
    table: Table,
    /// The LSN where the transaction ends.
    end: Lsn,
    /// How many messages of rows were written.
    rows: u64,
    is_begun: bool,
    is_ended: bool,
    source: Source,
}

/// Where the rows come from.
#[derive(Debug)]
enum Source {
    State(Stored),
    Changes(Box<Changed>),
}

/// The rows of a state.
#[derive(Debug, Default)]
struct Stored {
    scan: Scan,
    /// How many more times to write the scan's row, and its version.
    left: (u32, u32),
    projected: Vec<u8>,
}

impl Net {
    /// The result, as one transaction.
    ///
    /// # Errors
    /// At the end, several rows have one key. A value was never sent: [`NetOptions::never_sent`]. The
    /// spool failed.
    ///
    /// [`NetOptions::never_sent`]: crate::NetOptions::never_sent
    pub fn into_rows(self) -> Result<NetRows, NetError> {
        let Self { mut table, base } = self;
        let end = Lsn(table.commit_lsn.0.saturating_add(1));
        let source = match base {
            Base::Empty(_) => Source::State(Stored::default()),
            Base::Unknown(mut changes) => {
                changes.layout.target.check()?;
                changes.settle(&mut table)?;
                Source::Changes(Box::new(Changed::new(&mut table, &changes)?))
            }
        };
        Ok(NetRows {
            table,
            end,
            rows: 0,
            is_begun: false,
            is_ended: false,
            source,
        })
    }
}

impl NetRows {
    /// Sets the LSN where the transaction ends. Changes were applied up to this LSN.
    #[must_use]
    pub const fn with_end(mut self, end: Lsn) -> Self {
        self.end = end;
        self
    }

    /// Gives the rows of a state the columns that the table got after its last change.
    ///
    /// A column with a new name is NULL in all rows. A column that is not in `columns` is left out.
    #[must_use]
    pub fn with_columns(mut self, columns: &[CatalogColumn]) -> Self {
        let (Some(last), Source::State(_)) = (&self.table.relation, &self.source) else {
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
        self.table.versions.add(places.len(), &places);
        self.table.relation = Some(Arc::new(relation));
        self
    }

    /// The version of the rows. `None` if no stream described the table.
    pub const fn relation(&self) -> Option<&Arc<Relation>> {
        self.table.relation.as_ref()
    }

    /// The tally of the net changes. `None` for a state.
    pub const fn tally(&self) -> Option<&Tally> {
        match &self.source {
            Source::State(_) => None,
            Source::Changes(changed) => Some(&changed.tally),
        }
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
        let (end, time) = (self.end, self.table.time);
        let commit_lsn = Lsn(end.0.saturating_sub(1));
        if !self.is_begun && !self.table.catalog.is_empty() {
            Fact::Catalog(Arc::new(self.table.catalog.clone())).encode(false, out);
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
        if !self.is_begun {
            self.begin(out);
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

    /// Writes the messages before all rows.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let Some(relation) = &self.table.relation else {
            return;
        };
        let at = (Lsn::INVALID, self.table.time);
        let Source::Changes(changed) = &self.source else {
            return put_relation(relation, None, at, out);
        };
        let mut keyed = Relation::clone(relation);
        keyed.replica_identity = ReplicaIdentity::Default;
        for (place, column) in keyed.columns.iter_mut().enumerate() {
            column.is_key = self.table.identity.places.contains(&place);
        }
        put_relation(&keyed, None, at, out);
        if changed.tally.clears {
            let oids = [self.table.oid.to_be_bytes()];
            let truncate = Message::Truncate(Truncate::new(false, false, &oids));
            truncate.encode_in_frame(Lsn::INVALID, self.table.time, out);
            self.rows = self.rows.saturating_add(1);
        }
    }

    /// Writes rows until the part is full. Returns whether there may be more.
    fn put_rows(&mut self, out: &mut Vec<u8>) -> io::Result<bool> {
        while out.len() < PART {
            let is_written = match &mut self.source {
                Source::State(stored) => stored.put(&mut self.table, out)?,
                Source::Changes(changed) => changed.put(&mut self.table, out)?,
            };
            if !is_written {
                return Ok(false);
            }
            self.rows = self.rows.saturating_add(1);
        }
        Ok(true)
    }
}

impl Stored {
    /// Writes the next row. Returns false at the end.
    fn put(&mut self, table: &mut Table, out: &mut Vec<u8>) -> io::Result<bool> {
        while self.left.0 == 0 {
            let Some(row) = table.heap.next(&mut self.scan)? else {
                return Ok(false);
            };
            self.left = (row.count, row.version);
        }
        let (count, version) = self.left;
        let cells = table.heap.cells(&self.scan);
        let row = table
            .versions
            .project(version, cells, Cell::Null, &mut self.projected);
        let new = row.ok_or(io::ErrorKind::InvalidData)?;
        let insert = Message::Insert(Insert {
            xid: None,
            relation: table.oid,
            new,
        });
        insert.encode_in_frame(Lsn::INVALID, table.time, out);
        self.left = (count.saturating_sub(1), version);
        Ok(true)
    }
}
