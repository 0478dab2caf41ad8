//! From bytes, cut anywhere, to committed transactions.
//!
//! An open transaction is stored as its bytes. A plain transaction that is complete in the current
//! block is read from that block. Otherwise its available part is copied to the spool, until its
//! end:
//!
//! ```text
//! block 1                      block 2
//! ┌───────────────┬──────────┐ ┌──────────────┬─────────────┐
//! │ B I I I C     │ B I I I  │ │ I I C        │ B U C       │
//! └───────────────┴──────────┘ └──────────────┴─────────────┘
//!   read in place    └─ spool ◄────┘ read from the spool        read in place
//! ```
//! A streamed (`S` … `E` `S` … `E` `c`) or prepared (`b` … `P`, `K`) transaction always goes
//! through the spool. [`search`] finds the end. It reads only frame lengths and kinds. [`read`]
//! returns the rows of a committed transaction.

mod core;
mod interrupted;
mod prepared;
mod read;
mod reading;
mod reconnect;
mod search;
mod session;
mod unmarked;

use self::core::{Core, Phase};
use self::search::Search;
pub use self::session::End;
use self::session::Start;
use crate::encoding::Encoding;
use crate::error::Error;
use crate::frames::Frames;
use crate::relation::Relation;
use crate::spool::{DEFAULT_LIMIT, Spool};
use crate::transaction::{Change, Event, Prepared, Transaction, Unread};
use crate::undecided::Earlier;
use std::sync::Arc;
use walrow_wire::{Framing, Lsn, Xid};

/// Turns a stream into the events of its committed transactions, in commit order.
///
/// Push bytes and pull events: [`Assembler::next`] takes bytes from the front of the input and
/// returns one event, or `None` when it needs more input. The result never depends on where the
/// input is cut, nor on how the server sent a transaction: whole, in chunks while it ran, or
/// prepared first. After an error, every later call repeats the error.
///
/// Logical messages of a streamed transaction always carry its top-level ID. So messages of a
/// subtransaction that was rolled back are returned too: the stream does not identify them.
#[derive(Debug, Default)]
pub struct Assembler {
    core: Core,
    failure: Option<Error>,
}

impl Assembler {
    /// The default of [`Assembler::with_spool_memory`]: 64 MiB.
    pub const SPOOL_MEMORY: usize = DEFAULT_LIMIT;

    /// An assembler for input in this framing. Chunks must be wire frames: [`Framing::append`]
    /// makes them. Offsets count the bytes of the chunks.
    ///
    /// A file of `pg_recvlogical` ([`Framing::Recvlogical`]) does not mark where a session begins.
    /// The assembler finds this place if the server sends messages again after a reconnect. It
    /// skips transactions and non-transactional messages that it returned before.
    pub fn new(framing: Framing) -> Self {
        let mut assembler = Self::default();
        assembler.core.frames = Frames::new(framing);
        if framing == Framing::Recvlogical {
            assembler.core.session.unmarked = Some(Box::default());
        }
        assembler
    }

    /// Sets the spool for open transactions beyond [`Assembler::with_spool_memory`]. Without a
    /// spool, exceeding that limit is an error.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.core.session.undecided.spools.set_spool(spool);
        self
    }

    /// Limits the memory of all open and prepared transactions together. Default: 64 MiB.
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.core.session.undecided.spools.set_limit(bytes);
        self
    }

    /// Limits the size of a message, in bytes. Default: 1 GiB, PostgreSQL's own limit.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.core.frames.set_limit(bytes);
        self
    }

    /// Skips transactions that end at or before `lsn`, and non-transactional messages at or before
    /// it: they were delivered before. With 0/0, the assembler skips no transaction and no message.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.core.session.start = Start(lsn);
        if lsn.is_valid() {
            self.core.session.undecided.earlier = Earlier::Unknown;
        }
        self
    }

    /// Stops after the last commit up to this end. Later input is taken without being read.
    #[must_use]
    pub fn with_end(mut self, end: End) -> Self {
        self.core.session.end = Some(end);
        self
    }

    /// Returns an event when a transaction is prepared. By default, a prepared transaction comes
    /// only with its commit.
    #[must_use]
    pub const fn with_prepares(mut self, prepares: bool) -> Self {
        self.core.session.tells_prepares = prepares;
        self
    }

    /// Allows a stream that begins late: skips transactions whose begin is missing. By default,
    /// they are errors.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.core.session.undecided.late_start = late;
        self
    }

    /// Sets the encoding of names and text in sessions that do not report their `client_encoding`.
    /// Default: UTF-8.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        let relations = &mut self.core.session.relations;
        (relations.encoding, relations.chosen) = (encoding, encoding);
        self
    }

    /// Refuses sessions that report another encoding.
    #[must_use]
    pub fn with_fixed_encoding(mut self) -> Self {
        self.core.session.relations.is_fixed = true;
        self
    }

    /// Bytes fed and consumed so far.
    pub const fn offset(&self) -> u64 {
        self.core.frames.offset()
    }

    /// Whether the input so far ends inside a frame, a transaction or a chunk of one. False after
    /// an error, which contains the offset where reading ended.
    ///
    /// Transactions that are open between two chunks do not count.
    pub const fn is_mid_transaction(&self) -> bool {
        let continues = match &self.core.session.facts {
            Some(facts) => facts.continued.is_some(),
            None => false,
        };
        let between = matches!(self.core.phase, Phase::Search(Search::Between)) && !continues;
        self.failure.is_none() && !self.is_past_end() && (self.core.frames.is_cut() || !between)
    }

    /// Whether the stream passed [`Assembler::with_end`]: no more input is needed.
    pub const fn is_past_end(&self) -> bool {
        self.core.session.ended
    }

    /// The ID and commit LSN of a transaction that is missing: a session ended inside it, and later
    /// sessions have sent later transactions, but not this one again.
    pub fn missing_transaction(&self) -> Option<(Xid, Lsn)> {
        self.core.session.interrupted.missing()
    }

    /// The commit LSN of a plain transaction whose Begin has come, and whose Commit has not.
    pub const fn open_commit(&self) -> Option<Lsn> {
        match self.core.phase {
            Phase::Search(Search::Plain(_)) => Some(self.core.session.transaction.commit_lsn),
            Phase::Search(_) | Phase::Reading(_) => None,
        }
    }

    /// The committed transaction that is being read.
    pub const fn transaction(&self) -> Option<&Transaction> {
        match self.core.phase {
            Phase::Reading(_) => Some(&self.core.session.transaction),
            Phase::Search(_) => None,
        }
    }

    /// Whether a committed transaction is being read: there are events without more input.
    pub const fn is_reading(&self) -> bool {
        self.failure.is_none() && matches!(self.core.phase, Phase::Reading(_))
    }

    /// The relations that the session has described so far, in no particular order. Includes
    /// relations of rolled back and skipped transactions.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.core.session.relations.iter()
    }

    /// Counts Commit Prepared messages whose transaction the stream did not prepare: it has no
    /// changes, or the stream begins after its prepare.
    ///
    /// Up to PostgreSQL 17, a server sends only this message for a prepared transaction without
    /// changes.
    pub const fn unprepared_commits(&self) -> u64 {
        self.core.session.undecided.unprepared
    }

    /// Counts the transactions that were skipped because they came again after a reconnect.
    ///
    /// Only in [`Framing::Recvlogical`]. Other framings mark sessions, and only
    /// [`Assembler::with_start`] skips transactions.
    pub fn repeated_transactions(&self) -> u64 {
        let unmarked = self.core.session.unmarked.as_ref();
        unmarked.map_or(0, |it| it.repeated)
    }

    /// Begins a new server session: drops open transactions and all relations, and keeps prepared
    /// transactions.
    ///
    /// A `W` frame does the same. Call it if a session's bytes begin without a `W` frame, for
    /// example at the start of another file.
    pub fn new_session(&mut self) {
        self.core.frames.drop_partial();
        self.core.drop_session();
    }

    /// Skips the rows of a relation version from now on. They are counted, but not parsed. The best
    /// time for the call is when [`Event::Relation`] returns the version.
    pub fn leave_out(&mut self, version: u32) {
        self.core.session.relations.leave_out(version);
    }

    /// The streamed transactions that are open between two chunks, by ID.
    pub fn streamed(&self) -> impl Iterator<Item = Xid> {
        self.core.session.undecided.streamed()
    }

    /// The prepared transactions that are not yet committed or rolled back, with their IDs.
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

    /// Takes bytes from the front of `input` and returns the next event, or `None` when all of
    /// `input` was taken and more is needed.
    ///
    /// Pass the rest of the input again, with or without more bytes after it.
    ///
    /// # Errors
    /// The stream cannot be read further. All transactions before the fault were returned.
    pub fn next<'t, 'i: 't>(
        &'t mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'t>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let event = self.core.next(input);
        let event = event.and_then(|event| event.map(Event::read).transpose());
        event.inspect_err(|error| self.failure = Some(error.clone()))
    }

    /// Gives rows to `row` before their cells are read, until `row` returns an error or another
    /// event comes. An event with a change holds the error. A caller that puts rows into columns
    /// reads and checks each cell only once.
    ///
    /// If [`UnreadRow`](walrow_wire::UnreadRow) finds that a row does not follow the protocol,
    /// [`Change::read`](crate::Change) returns the error, and the caller must stop.
    /// [`Assembler::next`] would return the same error.
    ///
    /// # Errors
    /// As [`Assembler::next`].
    #[inline]
    pub fn next_with<'t, 'i: 't, T>(
        &'t mut self,
        input: &mut &'i [u8],
        row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Result<Option<Event<'t, T>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        match self.core.rows(input, row) {
            Err(error) => Err(self.failure.insert(error).clone()),
            event => event,
        }
    }

    /// The Begin or the Commit of a plain transaction, if it is at the front of the input and the
    /// transaction lies in the input as a whole. Otherwise [`Assembler::next_with`] goes on.
    #[inline]
    pub fn edge_in_input<'t, T>(&'t mut self, input: &mut &[u8]) -> Option<Event<'t, T>> {
        let edge = self.core.edge_in_input(input)?;
        Some(self.core.edge(edge))
    }

    /// Gives the rows at the front of the input to `row`, unread, and returns the error with which
    /// it stops. It ends at anything else than a row of a committed transaction that lies in the
    /// input as a whole, and of a relation that was used lately: [`Assembler::next_with`] goes on.
    ///
    /// This is the shortest way for a row, whose parts stay in registers. It is large, so it belongs
    /// into one place of a program.
    #[expect(clippy::inline_always, reason = "as `Core::rows_in_input`")]
    #[inline(always)]
    pub fn rows_in_input<T>(
        &mut self,
        input: &mut &[u8],
        row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Option<T> {
        self.core.rows_in_input(input, row)
    }
}
