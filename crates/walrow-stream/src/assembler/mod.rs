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
//! the spool. The search for the end looks at frame lengths and kind bytes only. A transaction's
//! messages are parsed and its rows handed out when it is known to be committed.

mod read;
mod search;

use crate::encoding::Encoding;
use crate::error::Error;
use crate::frames::{Frames, Place};
use crate::prepared;
use crate::relation::{Relation, Relations};
use crate::spool::{Spool, SpoolId};
use crate::transaction::{Item, Prepared, Transaction};
#[cfg(test)]
use crate::undecided::Open;
use crate::undecided::{Earlier, Undecided};
use read::{Passed, Reading, outside_message};
use search::Found;
use std::io;
use std::sync::Arc;
use walrow_wire::{Framing, Lsn, Xid};

/// Turns a stream into the items of its committed transactions, in commit order.
///
/// Pushed bytes, pulled items: [`Assembler::next`] takes what it can from the front of the input
/// and hands out one item, or `None` when it needs more. The result never depends on where the
/// input is cut, nor on how the server sent a transaction: whole, in chunks while it ran, or
/// prepared first. After an error it refuses more input: every later call repeats the error.
///
/// Logical messages of a streamed transaction carry its top-level ID even where a subtransaction
/// wrote them that was rolled back: the server does not say so, and they are handed out.
#[derive(Debug, Default)]
pub struct Assembler {
    frames: Frames,
    phase: Phase,
    undecided: Undecided,
    /// The frames of a plain transaction after its Begin, where they do not lie in the input.
    plain: Option<SpoolId>,
    /// The plain transaction that is open, or the one that is read.
    transaction: Transaction,
    reading: Reading,
    relations: Relations,
    /// The version that was handed out last.
    announced: Option<Arc<Relation>>,
    /// The seq of the transaction's next change.
    seq: u64,
    start: Start,
    sqlstate: String,
    failure: Option<Error>,
}

/// Up to where everything was delivered before; 0/0 for nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Start(Lsn);

impl Start {
    /// Whether what ends there was delivered before.
    fn has_delivered(self, end: Lsn) -> bool {
        self.0.is_valid() && end <= self.0
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Outside transactions.
    #[default]
    Between,
    /// A Begin was read, its Commit was not: what was fed since is in the spool.
    Plain,
    /// Between Stream Start and Stream Stop, or between Begin Prepare and Prepare.
    Inside,
    /// A transaction was committed: it is read from the front of the input or from the spool.
    Reading,
}

impl Assembler {
    /// An assembler of chunks in this framing, made wire frames by [`Framing::append`].
    ///
    /// The framing only decides what offsets count: bytes as the user handed them over.
    pub fn new(framing: Framing) -> Self {
        Self {
            frames: Frames::new(framing),
            ..Self::default()
        }
    }

    /// Where open transactions go that have no place in memory. Without one, more than
    /// [`Assembler::with_spool_memory`] of them is an error.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.undecided.spools.set_spool(spool);
        self
    }

    /// How many bytes of memory all open and prepared transactions take, 64 MiB by default.
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.undecided.spools.set_limit(bytes);
        self
    }

    /// The largest message that is taken, in bytes; 1 GiB by default, which PostgreSQL never passes.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.frames.set_limit(bytes);
        self
    }

    /// Leaves out what was delivered before: transactions that end, and non-transactional
    /// messages that lie, at `lsn` or before it. 0/0 leaves out nothing.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.start = Start(lsn);
        if lsn.is_valid() {
            self.undecided.earlier = Earlier::Unknown;
        }
        self
    }

    /// Says that the stream begins late: transactions whose begin it lacks are left out, where
    /// they are errors otherwise.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.undecided.late_start = late;
        self
    }

    /// What tables, columns and types are named in, UTF-8 by default.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.relations.encoding = encoding;
        self
    }

    /// Bytes fed and consumed so far.
    pub const fn offset(&self) -> u64 {
        self.frames.offset()
    }

    /// Whether the input so far ends inside a frame, a transaction or a chunk of one. After an
    /// error it does not: the error says where reading ended.
    ///
    /// Transactions that are open between two chunks do not count.
    pub const fn is_mid_transaction(&self) -> bool {
        self.failure.is_none() && (self.frames.is_cut() || !matches!(self.phase, Phase::Between))
    }

    /// Whether a committed transaction is being read: there are items without more input.
    pub const fn is_reading(&self) -> bool {
        matches!(self.phase, Phase::Reading)
    }

    /// The relations that the session has described so far, in no order, those of rolled back and
    /// left out transactions included.
    pub fn relations(&self) -> impl Iterator<Item = &Arc<Relation>> {
        self.relations.iter()
    }

    /// How many Commit Prepared came of transactions that nothing had been prepared of in the
    /// stream: they changed nothing, or the stream begins later than their prepare.
    ///
    /// Up to PostgreSQL 17 a server sends only that message of a transaction that changed nothing.
    pub const fn unprepared_commits(&self) -> u64 {
        self.undecided.unprepared
    }

    /// Begins a new server session: what was open and all relations are dropped; what is prepared
    /// stays.
    ///
    /// A `W` frame does the same; call it where a session's bytes begin without one, as at the
    /// start of another file.
    pub fn new_session(&mut self) {
        self.frames.drop_partial();
        self.drop_session();
    }

    /// The transactions that are prepared and whose end was not told yet, with their IDs.
    pub fn prepared(&self) -> impl Iterator<Item = (Xid, &Prepared)> {
        self.undecided.prepared.values().filter_map(|open| {
            let transaction = &open.transaction;
            Some((transaction.xid, transaction.prepared.as_ref()?))
        })
    }

    /// Writes the prepared transactions, for [`Assembler::restore_prepared`] of another assembler:
    /// after a restart the server does not send them again, only how they ended.
    ///
    /// What is written is their messages, each transaction with the relations it uses: a stream of
    /// its own, in wire frames.
    ///
    /// # Errors
    /// Those of `out` and of the spool. A committed transaction was not handed out to its end: it is
    /// prepared no more, and nobody has its rows.
    pub fn save_prepared(&mut self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.phase == Phase::Reading || self.failure.is_some() {
            let text = "a transaction was committed and not handed out to its end";
            return Err(io::Error::other(text));
        }
        prepared::save(&mut self.undecided, self.relations.encoding, out)
    }

    /// Takes in what [`Assembler::save_prepared`] wrote.
    ///
    /// # Errors
    /// Bytes that are no such state, or cut short; nothing of it is taken in.
    pub fn restore_prepared(&mut self, state: &mut dyn io::Read) -> Result<(), Error> {
        let mut inner = Self::default();
        inner.undecided.spools = self.undecided.spools.like();
        inner.relations.encoding = self.relations.encoding;
        // What a stream that starts late lacks may be in the state of one.
        inner.undecided.late_start = true;
        let restored = prepared::restore(inner, state)?;
        let moved = restored.undecided.move_prepared(&mut self.undecided);
        moved.map_err(|error| Error {
            kind: error.into(),
            offset: self.frames.offset(),
            lsn: None,
        })
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = &Open> {
        self.undecided.prepared.values()
    }

    /// Whether its state has all that was prepared.
    pub(crate) fn set_complete(&mut self, complete: bool) {
        self.undecided.earlier = if complete {
            Earlier::Restored
        } else {
            Earlier::Unknown
        };
    }

    pub(crate) fn has_streamed(&self) -> bool {
        self.undecided.has_streamed()
    }

    fn drop_session(&mut self) {
        self.drop_open();
        self.relations.clear();
    }

    fn drop_open(&mut self) {
        self.undecided.drop_open();
        if let Some(id) = self.plain.take() {
            self.undecided.spools.remove(id);
        }
        self.end_reading();
    }

    fn end_reading(&mut self) {
        self.phase = Phase::Between;
        let reading = std::mem::take(&mut self.reading);
        if let Some(reader) = reading.reader {
            self.undecided.spools.give_back(reader.into_memory());
        }
        self.relations.leave(&reading.kept);
    }

    /// Takes bytes from the front of `input` and hands out the next item; `None` asks for more,
    /// when all of `input` was taken.
    ///
    /// Input that is left must be given again, with or without more behind it.
    ///
    /// # Errors
    /// The stream cannot be read on. All transactions before the fault were handed out.
    #[inline]
    pub fn next<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Result<Option<Item<'t>>, Error> {
        if self.phase == Phase::Reading && !self.reading.skipped {
            return self.read(input);
        }
        self.search(input)
    }

    /// Looks for the next committed transaction, or for what stands between transactions.
    fn search<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Result<Option<Item<'t>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let found = loop {
            if self.phase == Phase::Reading {
                // It hands out nothing, and its relations count.
                match self.read_past(input) {
                    Ok(Passed::All) => {}
                    Ok(Passed::Part) => return Ok(Some(Item::Skipped)),
                    Ok(Passed::Input) => return Ok(None),
                    Err(error) => return Err(self.fail(error)),
                }
            }
            let found = match self.find(input) {
                Ok(found) => found,
                Err(error) => return Err(self.fail(error)),
            };
            if matches!(found, Some(Found::Committed)) {
                self.reading.skipped |= self.start.has_delivered(self.transaction.end_lsn);
                if self.reading.skipped {
                    continue;
                }
            }
            break found;
        };
        match found {
            None => Ok(None),
            Some(Found::SessionStart) => Ok(Some(Item::SessionStart)),
            Some(Found::ServerError) => Ok(Some(Item::ServerError {
                sqlstate: &self.sqlstate,
            })),
            Some(Found::Committed) => {
                self.seq = 0;
                Ok(Some(Item::Begin(&self.transaction)))
            }
            Some(Found::Message(place, offset)) => {
                let frame = match place {
                    Place::Input(frame) => frame,
                    Place::Completed => self.frames.completed(),
                };
                match outside_message(frame) {
                    Ok(message) => Ok(Some(Item::Message(message))),
                    Err(fault) => {
                        let error = fault.at(&self.frames, offset);
                        self.failure = Some(error.clone());
                        Err(error)
                    }
                }
            }
        }
    }

    #[cold]
    fn fail(&mut self, error: Error) -> Error {
        self.drop_open();
        self.failure = Some(error.clone());
        error
    }
}
