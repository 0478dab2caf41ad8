//! A table's rows after its changes, and its net changes.
//!
//! ```text
//! events ─► Net: key ─► what it has ─► NetRows ─► B T? R I/U/D … C of protocol 1
//! ```
//! Rows stay as they were sent: only the cells of their key are read. The result is a stream again.
//! So the decoder that turns changes into columns also turns rows into columns.
//!
//! A [`Net`] begins in one of two ways:
//!
//! - [`Net::state`]: the table begins empty. The result is its rows, as inserts. A change of a row
//!   that is not there is a [`Gap`]. Rows are found by the replica identity, and equal rows are
//!   counted.
//! - [`Net::changes`]: a *target* has the earlier rows, and they are unknown here. The result turns
//!   the target's rows into the rows after the range. Rows are found by a key, as the target
//!   compares it.
//!
//! # Keys, rows and heads
//!
//! The net of a range is a map of keys. A key that is not in the map is as it was. A key in the map
//! has a row, or it is *gone*: its row was deleted, or got another key. A row has, in each column, a
//! value or a hole, and it has a *head*, which says what a hole means:
//!
//! | head | the row | a hole |
//! |---|---|---|
//! | none | was inserted in the range | was never sent: NULL, or an error |
//! | own | had this key before the range | keeps the value that the target has |
//! | another key | had that key before the range | has the value of the target's row with that key, *as it was before the range* |
//!
//! A *barrier* (a load, or a truncate) makes the map empty, and says that no key has a row from
//! before: then there are no heads, and a key that is not in the map has no row.
//!
//! # `then`
//!
//! Let `a` be the net of a range, and `b` the net of the next range. `a.then(b)` is the net of
//! both:
//!
//! - if `b` has a barrier, it is `b`;
//! - otherwise, keys that are only in `a` stay as they are, and each key of `b` replaces its entry
//!   in `a`. A row of `b` without a head, or a key that is gone, is taken as it is. A row of `b`
//!   with the head `h` continues what `a` has at `h`: that row's head, and its values in the holes.
//!   If `h` is not in `a`, the row stays as it is. If `h` is gone in `a`, or `a` has a barrier and
//!   not `h`, the row has no head.
//!
//! All keys of `b` are replaced at once, so swaps need no order. A row change is the net of a range
//! with one change, which has at most two keys. So folding changes one by one is `then`, again and
//! again.
//!
//! `then` is associative. A net is a function from the rows before a range to the rows after it:
//! each key of the result takes its values from one source for each column, which is a value, a
//! hole that was never sent, or the column of a key before. `then` is the composition of these
//! functions: it replaces the sources of `b` by what `a` has there. A key that is gone, and a row
//! with its own head and only holes, are not the same as no entry: an empty target has no row for
//! all three, but a marked row of a soft delete is kept. So a net may be computed in parts, in
//! any grouping: [`Net::split`] and [`NetJoin`]. Property tests compare groupings with a replay.
//!
//! # Parts
//!
//! A *unit* is a range of whole transactions. Its net is divided by the hashes of its keys. All
//! parts of one partition are joined in the order of their units, in one place. There, a row with
//! another key as its head needs that key, which may be in another partition. A key that is such a
//! head, or has such a row, in any unit, is *entangled*. The join of a partition leaves out all
//! entries of entangled keys, in all units. One more join takes these entries of all partitions. It
//! needs no other entries, since the heads of entangled rows are entangled.
//!
//! # Images with more than the key
//!
//! Under REPLICA IDENTITY FULL, and if the key is a part of the identity, two rows may have one key
//! until the end of a transaction. Then a key has a list of rows, and an old image chooses one:
//! `images.rs`. The row from before the transaction may have any image, so it is chosen if no other
//! row is like the image. At the end of the transaction there is one row, or that is an error. An
//! insert may replace a row of an earlier transaction, because its delete may not be published. So
//! nets of whole transactions need no lists. A row that comes and goes in one transaction leaves
//! nothing behind then, even if deletes only mark rows: the row from before may be there beside it.
//!
//! # The result
//!
//! One transaction, whose Commit has the end of the range. The rows with another head come first,
//! so that they can be looked up before the target is changed. The others come in the order of
//! their last change. Each key comes once.
//!
//! | message | meaning |
//! |---|---|
//! | `T` | the target's other rows go. It comes first |
//! | `I` | a whole row: it is inserted, or replaces the row with this key. `u` was never sent |
//! | `U` | the row with this key. `u` keeps the target's value |
//! | `U` with `K` | the row with this key is new. `u` is the value that the target's row with the old key had before the range. There is at least one `u` |
//! | `D` with `K` | the row with this key is gone |
//! | `D` with `O` | [`Deletes::Soft`]: it is gone, and keeps these values. `u` keeps the target's value |
//! | `U` with `O` | [`Deletes::Soft`]: as `U` with `K`, and the row is gone. The old image has the key, and `u` in all other columns |
//!
//! A row that moved and keeps no value is an `I`. Its old key is a `D`, unless it has a row again.
//! With [`Deletes::Soft`], a key whose row got another key is a `D` with `O` that keeps all values.
//! With [`Deletes::Ignore`], no `D` comes: deleted rows stay, and moved rows also stay at their
//! old keys. After a `T`, no `D` comes of a row that was only known from before.
//!
//! No server sends an old image with `u`, and pgoutput's readers need not know it. Relations in the
//! stream say which columns are the key.

mod changes;
mod compose;
mod error;
mod heap;
mod identity;
mod images;
mod join;
mod keys;
mod layout;
mod net_rows;
mod options;
mod part;
mod record;
mod rows;
mod state;
mod stored;
mod table;
mod tally;
mod target;
mod versions;

use crate::fact::Fact;
use crate::relation::Relation;
use crate::spool::Spool;
use crate::transaction::{Change, Transaction, Truncate, Unread};
use changes::Changes;
pub use error::{Gap, NetError};
pub use identity::{CellText, CellTextOf, KeyBytes, KeyBytesOf};
pub use join::NetJoin;
use layout::Layout;
pub use options::{Deletes, NetColumns, NetOptions, NeverSent, Truncates};
pub use rows::NetRows;
use state::State;
use std::sync::Arc;
use table::Table;
pub use tally::{Barrier, Tally};
use versions::Seen;
use walrow_wire::Oid;

/// The net of one table's changes. It takes them in their order.
///
/// ```
/// use walrow_stream::{Assembler, Event, Net};
///
/// let stream: &[u8] = &[]; // wire frames of any protocol version
/// let (mut assembler, mut net) = (Assembler::default(), Net::state(16_400));
/// let mut input = stream;
/// while let Some(event) = assembler.next_with(&mut input, |row| net.row(&row))? {
///     match event {
///         Event::Change(error) => return Err(error.into()),
///         Event::Begin(transaction) => net.begin(transaction)?,
///         Event::Relation { relation, .. } => net.relation(relation)?,
///         Event::Truncate(truncate) => net.truncate(&truncate)?,
///         Event::Fact(fact) => net.fact(&fact),
///         _ => {}
///     }
/// }
/// let (mut rows, mut chunk) = (net.into_rows()?, Vec::new());
/// while rows.read(&mut chunk)? {
///     println!("{} bytes of wire frames", chunk.len());
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Net {
    table: Table,
    base: Base,
}

/// The rows before the changes.
#[derive(Debug)]
enum Base {
    /// No rows: the table begins empty.
    Empty(State),
    /// The rows of a target, which are unknown here.
    Unknown(Box<Changes>),
}

impl Net {
    /// The rows of the table with this OID, which begins empty.
    pub fn state(oid: Oid) -> Self {
        Self {
            table: Table::new(oid),
            base: Base::Empty(State::default()),
        }
    }

    /// The net changes of the table with this OID.
    pub fn changes(oid: Oid, options: NetOptions) -> Self {
        Self {
            table: Table::new(oid),
            base: Base::Unknown(Box::new(Changes::new(options))),
        }
    }

    /// Sets the version of the rows that the target has from before the changes. Then the net is an
    /// error if a version after it gives such rows other values or names, unless they go.
    #[must_use]
    pub fn with_target(mut self, relation: &Arc<Relation>) -> Self {
        if let Base::Unknown(changes) = &mut self.base {
            let numbers = Layout::numbers(&self.table, relation);
            let relation = Arc::clone(relation);
            changes.layout.take_target(Seen { relation, numbers });
        }
        self
    }

    /// Skips the changes before the first load of the table.
    #[must_use]
    pub fn after_load(mut self) -> Self {
        if let Base::Empty(state) = &mut self.base {
            state.waits = true;
        }
        self
    }

    /// Sets how the text of binary cells is written. Without it, a row that came with a binary key
    /// is not found by a text key.
    #[must_use]
    pub fn with_cell_text(mut self, text_of: CellTextOf) -> Self {
        self.table.identity.set_cell_text(text_of);
        self
    }

    /// Sets how the keys of a target are compared. Without it, by PostgreSQL's text.
    #[must_use]
    pub fn with_key_bytes(mut self, key_bytes_of: KeyBytesOf) -> Self {
        self.table.identity.set_key_bytes(key_bytes_of);
        self
    }

    /// Sets the spool for rows beyond [`Net::with_memory`]. Without a spool, exceeding that limit is
    /// an error.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.table.heap.set_spool(spool);
        self
    }

    /// Limits the memory of rows. Default: 64 MiB. The index takes more: up to 114 bytes for each
    /// row.
    #[must_use]
    pub const fn with_memory(mut self, bytes: usize) -> Self {
        self.table.heap.set_limit(bytes);
        self
    }

    /// The table.
    pub const fn oid(&self) -> Oid {
        self.table.oid
    }

    /// The last version of the table. `None` if the stream did not describe it yet.
    pub const fn last_version(&self) -> Option<&Arc<Relation>> {
        self.table.relation.as_ref()
    }

    /// The number of row changes since the last barrier. 0 for a state.
    pub const fn events(&self) -> u64 {
        match &self.base {
            Base::Empty(_) => 0,
            Base::Unknown(changes) => changes.events,
        }
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// After the transaction before it, several rows have one key. The spool failed.
    pub fn begin(&mut self, transaction: &Transaction) -> Result<(), NetError> {
        if let Base::Unknown(changes) = &mut self.base
            && self.table.commit_lsn != transaction.commit_lsn
        {
            changes.begin(&mut self.table)?;
        }
        self.table.loads = transaction.snapshot;
        self.table.commit_lsn = transaction.commit_lsn;
        self.table.time = transaction.commit_time;
        Ok(())
    }

    /// Takes a fact. A catalog contains the types of the rows.
    pub fn fact(&mut self, fact: &Fact) {
        if let Fact::Catalog(catalog) = fact
            && self.table.catalog.extend(catalog)
        {
            match &self.base {
                Base::Empty(_) => self.table.identity.forget_types(),
                Base::Unknown(changes) => changes.layout.forget_types(&mut self.table),
            }
        }
    }

    /// Takes a relation version.
    ///
    /// # Errors
    /// The rows of this version do not follow from the rows of the last version.
    pub fn relation(&mut self, relation: &Arc<Relation>) -> Result<(), NetError> {
        if relation.oid != self.table.oid {
            return Ok(());
        }
        self.take_version(relation)
    }

    #[cold]
    fn take_version(&mut self, relation: &Arc<Relation>) -> Result<(), NetError> {
        let table = &mut self.table;
        match &mut self.base {
            Base::Empty(_) => state::take_version(table, relation),
            Base::Unknown(changes) => {
                let numbers = Layout::numbers(table, relation);
                changes.layout.take_version(table, relation, numbers)
            }
        }
    }

    /// Applies a TRUNCATE.
    ///
    /// # Errors
    /// As [`Net::relation`].
    pub fn truncate(&mut self, truncate: &Truncate) -> Result<(), NetError> {
        let mut relations = truncate.relations.iter();
        let Some(relation) = relations.find(|it| it.oid == self.table.oid) else {
            return Ok(());
        };
        match &mut self.base {
            Base::Empty(state) => state.truncate(&mut self.table),
            Base::Unknown(changes) => changes.truncate(&mut self.table, truncate)?,
        }
        self.take_version(relation)
    }

    /// Applies a row change.
    ///
    /// # Errors
    /// The row does not follow the protocol, or the change does not give the rows of the table.
    pub fn row(&mut self, change: &Change<'_, Unread<'_>>) -> Result<(), NetError> {
        if change.relation.oid != self.table.oid {
            return Ok(());
        }
        let change = change.read()?;
        let version = self.table.relation.as_ref().map(|it| it.version);
        if version != Some(change.relation.version) {
            self.take_version(change.relation)?;
        }
        match &mut self.base {
            Base::Empty(state) => state.row(&mut self.table, change.row),
            Base::Unknown(changes) => changes.row(&mut self.table, change.row),
        }
    }
}
