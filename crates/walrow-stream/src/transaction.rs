//! The values that an assembler returns: events, transactions and changes.

use crate::error::{Error, ErrorKind, Fault, MessagePlace};
use crate::fact::Fact;
use crate::relation::Relation;
use std::sync::Arc;
use walrow_wire::{
    self as wire, Begin, Framing, Image, Kind, Lsn, OldTuple, Peek, Timestamp, Tuple, UnreadCells,
    UnreadRow, UnreadTuple, Xid,
};

/// The properties of a committed transaction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Transaction {
    /// Its transaction ID: 32 bits that wrap around.
    pub xid: Xid,
    /// The LSN where its commit record starts. With a change's `seq` it is the change's identity.
    pub commit_lsn: Lsn,
    /// The LSN where its commit record ends. A client confirms it when the whole transaction is
    /// durable.
    pub end_lsn: Lsn,
    /// When it was committed, by the server's clock; not monotonic.
    pub commit_time: Timestamp,
    /// Its origins, if it was itself replicated. The last origin counts.
    pub origins: Vec<Origin>,
    /// How it was prepared, if the stream contained its prepare (`two_phase`).
    pub prepared: Option<Prepared>,
    /// The LSN of the last rollback of a savepoint, if the transaction was streamed before it;
    /// otherwise 0/0. Logical messages up to here may belong to a savepoint that was rolled back:
    /// see [`Message::undecidable`].
    pub rolled_back_until: Lsn,
    /// Whether it is a load: a truncate of tables, and their rows in a snapshot, which no transaction
    /// of the server wrote. The snapshot has the transactions that were committed before `end_lsn`.
    pub snapshot: bool,
}

impl Transaction {
    /// Becomes the plain transaction that begins here.
    #[inline]
    pub(crate) fn restart(&mut self, begin: Begin) {
        self.xid = begin.xid;
        self.commit_lsn = begin.final_lsn;
        self.commit_time = begin.commit_time;
        self.end_lsn = Lsn::INVALID;
        self.rolled_back_until = Lsn::INVALID;
        if !self.origins.is_empty() || self.prepared.is_some() {
            self.forget_source();
        }
    }

    #[cold]
    fn forget_source(&mut self) {
        self.origins.clear();
        self.prepared = None;
    }

    /// Adds an origin, unless it is the same as the last origin.
    pub(crate) fn push_origin(&mut self, origin: Origin) {
        if self.origins.last() != Some(&origin) {
            self.origins.push(origin);
        }
    }
}

/// How a transaction was prepared.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prepared {
    /// The GID from PREPARE TRANSACTION. Later transactions may reuse it.
    pub gid: String,
    /// The LSN where the prepare record starts. 0/0 if the stream contains only the commit of an
    /// empty transaction, as up to PostgreSQL 17.
    pub prepare_lsn: Lsn,
    /// The LSN where the prepare record ends; 0/0 in the same case.
    pub prepare_end_lsn: Lsn,
    /// When it was prepared. Meaningless if `prepare_lsn` is 0/0.
    pub prepare_time: Timestamp,
}

/// The replication origin of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Origin {
    /// The origin's name.
    pub name: String,
    /// The commit LSN on the origin server; 0/0 if the writer set none.
    pub commit_lsn: Lsn,
}

/// An event of an assembler. Changes, truncates, transactional messages and relation versions come
/// between their transaction's Begin and Commit, in order.
///
/// `C` is the row change, or the error of a function that took it: [`Assembler::next_with`].
///
/// [`Assembler::next_with`]: crate::Assembler::next_with
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event<'a, C = Change<'a>> {
    /// A committed transaction begins.
    Begin(&'a Transaction),
    /// A relation version that is seen for the first time.
    #[non_exhaustive]
    Relation {
        /// The version.
        relation: &'a Arc<Relation>,
        /// The seq of the change that follows.
        seq: u64,
    },
    /// A row change of the transaction.
    Change(C),
    /// A truncate of the transaction.
    Truncate(Truncate),
    /// A logical message. A non-transactional message comes between transactions.
    Message(Message<'a>),
    /// The transaction is complete.
    #[non_exhaustive]
    Commit {
        /// The transaction.
        transaction: &'a Transaction,
        /// How many changes it has, including skipped changes.
        changes: u64,
    },
    /// A transaction was prepared: its rows come when it is committed. Only if
    /// [`Assembler::with_prepares`] asks for it.
    ///
    /// [`Assembler::with_prepares`]: crate::Assembler::with_prepares
    #[non_exhaustive]
    Prepared {
        /// Its ID.
        xid: Xid,
        /// How it was prepared.
        prepared: &'a Prepared,
    },
    /// A fact of walrow's own. A fact inside a transaction comes between its Begin and Commit.
    Fact(Box<Fact>),
    /// Many messages were read without an event: of a skipped transaction or relation, or of a
    /// subtransaction that was rolled back. More follow: the caller may check for interrupts here.
    Skipped,
    /// A new server session begins. The server sends relations again.
    SessionStart,
    /// The server ended the stream with an error. Open transactions were dropped.
    #[non_exhaustive]
    ServerError {
        /// The SQLSTATE.
        sqlstate: &'a str,
    },
}

/// One committed change of a row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Change<'a, R = RowChange<'a>> {
    /// Counts the transaction's changes from 0, the same for every protocol version.
    pub seq: u64,
    /// The change's own LSN; 0/0 if the server sent none.
    pub lsn: Lsn,
    /// Bytes fed to the assembler before the change's message.
    pub offset: u64,
    /// The relation version it arrived under.
    pub relation: &'a Arc<Relation>,
    /// The change.
    pub row: R,
}

/// A change of a row. Tuples have as many cells as the relation has columns.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "rows change in no other way")]
pub enum RowChange<'a> {
    /// A row was inserted.
    Insert {
        /// The row.
        new: Tuple<'a>,
    },
    /// A row was updated.
    Update {
        /// The old row or its key, if the replica identity requires it.
        old: Option<OldTuple<'a>>,
        /// The new row.
        new: Tuple<'a>,
    },
    /// A row was deleted.
    Delete {
        /// The old row or its key.
        old: OldTuple<'a>,
    },
}

/// A committed truncate of tables.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Truncate {
    /// Its place among the transaction's changes: [`Change::seq`].
    pub seq: u64,
    /// Its own LSN; 0/0 if the server sent none.
    pub lsn: Lsn,
    /// Bytes fed to the assembler before its message.
    pub offset: u64,
    /// The tables, including the tables that CASCADE truncated.
    pub relations: Vec<Arc<Relation>>,
    /// Whether CASCADE was given.
    pub cascade: bool,
    /// Whether RESTART IDENTITY was given.
    pub restart_identity: bool,
}

/// A change whose tuples were not read: [`Assembler::next_with`](crate::Assembler::next_with).
#[derive(Clone, Copy, Debug)]
pub struct Unread<'a> {
    pub(crate) peek: Peek<'a>,
    pub(crate) context: &'a Context,
}

/// Values that are the same for all rows of a transaction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Context {
    /// Whether its messages carry a transaction ID.
    pub(crate) in_stream: bool,
    pub(crate) framing: Framing,
    pub(crate) commit_lsn: Lsn,
}

impl<'a> Unread<'a> {
    #[inline]
    pub(crate) const fn new(peek: Peek<'a>, context: &'a Context) -> Self {
        Self { peek, context }
    }

    /// Bytes of its message in a frame.
    #[inline]
    pub const fn size(&self) -> usize {
        self.peek.size()
    }

    /// The row. Its cells are checked while they are read. `None` if it does not follow the
    /// protocol.
    #[inline]
    pub fn row(&self) -> Option<UnreadRow<'a>> {
        self.peek.row(self.context.in_stream)
    }
}

impl<'a> Change<'a, Unread<'a>> {
    /// Whether the row follows the protocol. Reads the lengths of its cells, not their values.
    pub fn is_valid(&self) -> bool {
        let columns = self.relation.columns.len();
        let is_valid = || {
            let row = self.row.row()?;
            let (image, tuple) = row.first()?;
            let mut rest = pass_cells(tuple, columns)?;
            if row.kind() == Kind::Update && image != Image::New {
                rest = pass_cells(rest.then_new()?, columns)?;
            }
            rest.is_end().then_some(())
        };
        is_valid().is_some()
    }

    /// Reads all cells at once, and returns an error that describes the fault.
    ///
    /// # Errors
    /// Bytes that do not follow the protocol, or a number of cells that differs from the relation's
    /// columns.
    pub fn read(&self) -> Result<Change<'a>, Error> {
        let Unread { peek, context } = &self.row;
        let Context {
            in_stream,
            framing,
            commit_lsn,
        } = context;
        match row_change(peek, *in_stream, self.relation) {
            Ok(row) => Ok(Change {
                seq: self.seq,
                lsn: self.lsn,
                offset: self.offset,
                relation: self.relation,
                row,
            }),
            Err(fault) => {
                let fault = fault.or_near(self.lsn).or_near(*commit_lsn);
                Err(fault.at_frame(framing.header(), self.offset))
            }
        }
    }
}

/// Reads the lengths of the cells, and returns what follows them. `None` for another number of cells, and if a cell is incomplete.
fn pass_cells(tuple: UnreadTuple<'_>, columns: usize) -> Option<UnreadCells<'_>> {
    if tuple.len() != columns {
        return None;
    }
    tuple.pass()
}

impl<'a> Event<'a, Change<'a, Unread<'a>>> {
    /// The event, with all cells of its change.
    pub(crate) fn read(self) -> Result<Event<'a>, Error> {
        Ok(match self {
            Event::Change(change) => Event::Change(change.read()?),
            Event::Begin(transaction) => Event::Begin(transaction),
            Event::Relation { relation, seq } => Event::Relation { relation, seq },
            Event::Truncate(truncate) => Event::Truncate(truncate),
            Event::Message(message) => Event::Message(message),
            Event::Commit {
                transaction,
                changes,
            } => Event::Commit {
                transaction,
                changes,
            },
            Event::Prepared { xid, prepared } => Event::Prepared { xid, prepared },
            Event::Fact(fact) => Event::Fact(fact),
            Event::Skipped => Event::Skipped,
            Event::SessionStart => Event::SessionStart,
            Event::ServerError { sqlstate } => Event::ServerError { sqlstate },
        })
    }
}

fn row_change<'a>(
    peek: &Peek<'a>,
    in_stream: bool,
    relation: &Relation,
) -> Result<RowChange<'a>, Fault> {
    let check = |tuple: Tuple<'_>| {
        let (expected, found) = (relation.columns.len(), tuple.len());
        if expected == found {
            return Ok(());
        }
        Err(Fault::from(ErrorKind::ColumnCount {
            message: peek.kind().name(),
            relation: relation.to_string(),
            expected,
            found,
        }))
    };
    match peek.message(in_stream)? {
        wire::Message::Insert(insert) => {
            check(insert.new)?;
            Ok(RowChange::Insert { new: insert.new })
        }
        wire::Message::Update(update) => {
            if let Some(old) = update.old {
                check(old.tuple())?;
            }
            check(update.new)?;
            Ok(RowChange::Update {
                old: update.old,
                new: update.new,
            })
        }
        wire::Message::Delete(delete) => {
            check(delete.old.tuple())?;
            Ok(RowChange::Delete { old: delete.old })
        }
        other => Err(Fault::unexpected(other.name(), MessagePlace::Inside)),
    }
}

/// A logical decoding message, written by `pg_logical_emit_message`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'a> {
    /// The LSN where its record ends. For a non-transactional message, this is its position.
    pub lsn: Lsn,
    /// Whether it belongs to the transaction around it.
    pub transactional: bool,
    /// Whether it may belong to a savepoint that was rolled back. A streamed transaction's rows
    /// have the ID of their subtransaction, but its messages do not.
    pub undecidable: bool,
    /// The seq of the next change, for its place among the changes.
    pub seq: u64,
    /// Its prefix; may be empty.
    pub prefix: &'a str,
    /// Its content: bytes without an encoding.
    pub content: &'a [u8],
}
