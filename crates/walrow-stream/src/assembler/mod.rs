//! From bytes, cut anywhere, to committed transactions.
//!
//! An open transaction is nothing but its bytes. Where all of a plain one lies in the block at
//! hand it is read from there; else what is there of it is copied to the spool until its end:
//!
//! ```text
//! block 1                      block 2
//! ┌───────────────┬──────────┐ ┌──────────────┬─────────────┐
//! │ B I I I C     │ B I I I  │ │ I I C        │ B U C       │
//! └───────────────┴──────────┘ └──────────────┴─────────────┘
//!   read in place    └─ spool ◄────┘ read from the spool        read in place
//! ```
//! One that is streamed (`S` … `E` `S` … `E` `c`) or prepared (`b` … `P`, `K`) always goes through
//! the spool. [`search`] finds the end and looks at frame lengths and kinds only. [`read`] hands out a
//! transaction's rows when it is known to be committed. [`committed`] takes it out instead, to be
//! read elsewhere.

mod committed;
mod core;
mod prepared;
mod read;
mod reading;
mod search;
mod session;

use self::core::{Core, Phase};
use self::search::Search;
use self::session::Start;
use crate::encoding::Encoding;
use crate::error::Error;
use crate::frames::Frames;
use crate::relation::Relation;
use crate::spool::Spool;
use crate::transaction::{Event, Prepared, Unread};
use crate::undecided::Earlier;
pub use committed::Committed;
use std::sync::Arc;
use walrow_wire::{Framing, Lsn, Xid};

/// Turns a stream into the events of its committed transactions, in commit order.
///
/// Pushed bytes, pulled events: [`Assembler::next`] takes what it can from the front of the input
/// and hands out one event, or `None` when it needs more. The result never depends on where the
/// input is cut, nor on how the server sent a transaction: whole, in chunks while it ran, or
/// prepared first. After an error it refuses more input: every later call repeats the error.
///
/// Logical messages of a streamed transaction carry its top-level ID even where a subtransaction
/// wrote them that was rolled back: the server does not say so, and they are handed out.
#[derive(Debug, Default)]
pub struct Assembler {
    core: Core,
    failure: Option<Error>,
}

impl Assembler {
    /// An assembler of chunks in this framing, made wire frames by [`Framing::append`].
    ///
    /// The framing only decides what offsets count: bytes as the user handed them over.
    pub fn new(framing: Framing) -> Self {
        let mut assembler = Self::default();
        assembler.core.frames = Frames::new(framing);
        assembler
    }

    /// Where open transactions go that have no place in memory. Without one, more than
    /// [`Assembler::with_spool_memory`] of them is an error.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.core.session.undecided.spools.set_spool(spool);
        self
    }

    /// How many bytes of memory all open and prepared transactions take, 64 MiB by default.
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.core.session.undecided.spools.set_limit(bytes);
        self
    }

    /// The largest message that is taken, in bytes; 1 GiB by default, which PostgreSQL never passes.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.core.frames.set_limit(bytes);
        self
    }

    /// Leaves out what was delivered before: transactions that end, and non-transactional
    /// messages that lie, at `lsn` or before it. 0/0 leaves out nothing.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.core.session.start = Start(lsn);
        if lsn.is_valid() {
            self.core.session.undecided.earlier = Earlier::Unknown;
        }
        self
    }

    /// Says that the stream begins late: transactions whose begin it lacks are left out, where
    /// they are errors otherwise.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.core.session.undecided.late_start = late;
        self
    }

    /// What tables, columns and types are named in, UTF-8 by default.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.core.session.relations.encoding = encoding;
        self
    }

    /// Bytes fed and consumed so far.
    pub const fn offset(&self) -> u64 {
        self.core.frames.offset()
    }

    /// Whether the input so far ends inside a frame, a transaction or a chunk of one. After an
    /// error it does not: the error says where reading ended.
    ///
    /// Transactions that are open between two chunks do not count.
    pub const fn is_mid_transaction(&self) -> bool {
        let between = matches!(self.core.phase, Phase::Search(Search::Between));
        self.failure.is_none() && (self.core.frames.is_cut() || !between)
    }

    /// Whether a committed transaction is being read: there are events without more input.
    pub const fn is_reading(&self) -> bool {
        self.failure.is_none() && matches!(self.core.phase, Phase::Reading(_))
    }

    /// The relations that the session has described so far, in no order, those of rolled back and
    /// left out transactions included.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.core.session.relations.iter()
    }

    /// How many Commit Prepared came of transactions that nothing had been prepared of in the
    /// stream: they changed nothing, or the stream begins later than their prepare.
    ///
    /// Up to PostgreSQL 17 a server sends only that message of a transaction that changed nothing.
    pub const fn unprepared_commits(&self) -> u64 {
        self.core.session.undecided.unprepared
    }

    /// Begins a new server session: what was open and all relations are dropped; what is prepared
    /// stays.
    ///
    /// A `W` frame does the same; call it where a session's bytes begin without one, as at the
    /// start of another file.
    pub fn new_session(&mut self) {
        self.core.frames.drop_partial();
        self.core.drop_session();
    }

    /// Leaves out the rows of a relation version from now on: they are passed over by their length,
    /// and counted. Best said when it is handed out, with [`Event::Relation`].
    pub fn leave_out(&mut self, version: u32) {
        self.core.session.relations.leave_out(version);
    }

    /// The transactions that are prepared and whose end was not told yet, with their IDs.
    pub fn prepared(&self) -> impl Iterator<Item = (Xid, &Prepared)> {
        self.core
            .session
            .undecided
            .prepared
            .values()
            .filter_map(|open| {
                let transaction = &open.transaction;
                Some((transaction.xid, transaction.prepared.as_ref()?))
            })
    }

    /// Takes bytes from the front of `input` and hands out the next event; `None` asks for more,
    /// when all of `input` was taken.
    ///
    /// Input that is left must be given again, with or without more behind it.
    ///
    /// # Errors
    /// The stream cannot be read on. All transactions before the fault were handed out.
    pub fn next<'t, 'i: 't>(
        &'t mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'t>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let event = self.core.next(input).and_then(|event| match event {
            None => Ok(None),
            Some(event) => event.read().map(Some),
        });
        event.inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// The same, but rows come unread: who puts them into columns checks each cell as it is read, and
    /// reads it once.
    ///
    /// Where [`UnreadRow`](walrow_wire::UnreadRow) says that a row is not the protocol,
    /// [`Change::read`](crate::Change) says what is wrong, and the caller must stop: this is the
    /// error that [`Assembler::next`] has in its place.
    ///
    /// # Errors
    /// As [`Assembler::next`].
    #[inline]
    pub fn next_unread<'t, 'i: 't>(
        &'t mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'t, Unread<'t>>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        match self.core.next(input) {
            Err(error) => Err(self.failure.insert(error).clone()),
            event => event,
        }
    }
}
