//! Takes the events of a stream. It skips the events that the log has, and gives the others to the
//! buffer.

use crate::error::{Error, ErrorKind};
use crate::store::Store;
use crate::write::buffer::{At, Buffer};
use crate::write::counts::WriterCounts;
use crate::write::journaled::{taken, taken_message};
use crate::write::repeats::Repeats;
use crate::write::session::Session;
use std::mem;
use std::sync::Arc;
use walrow_stream::fact::Taken;
use walrow_stream::{Assembler, Event, Transaction};
use walrow_wire::Lsn;

/// The result of a call of [`Intake::fill`].
#[derive(Debug)]
pub(crate) enum Next {
    /// The buffer has no room for other events.
    Full,
    /// The last part of a large transaction was taken. The transaction is whole now.
    Whole,
    /// The first transaction or message at or behind the place of a load was taken.
    First(First),
    /// The assembler needs more input.
    None,
}

/// The first transaction, message or position at or behind the place of a load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum First {
    /// A transaction, whose begin is in the block.
    Transaction,
    /// A message outside transactions, which is in the block.
    Message(Lsn, Taken),
    /// The LSN of a keepalive.
    Position(Lsn),
}

/// Takes events, and knows the end of the log.
#[derive(Debug)]
pub(crate) struct Intake {
    store: Arc<dyn Store>,
    session: Session,
    repeats: Repeats,
    /// Where the last whole transaction, message or position ends.
    end: Lsn,
    /// Where the log ended when the session began. The server may repeat everything up to this LSN.
    repeats_until: Lsn,
    /// Whether the session has passed this LSN, and its server is the log's.
    has_passed: bool,
    /// Whether the current transaction has a logical message.
    has_message: bool,
    counts: WriterCounts,
}

impl Intake {
    pub(crate) fn new(store: Arc<dyn Store>, session: Session, repeats: Repeats, end: Lsn) -> Self {
        Self {
            store,
            session,
            repeats,
            end,
            repeats_until: end,
            has_passed: false,
            has_message: false,
            counts: WriterCounts::default(),
        }
    }

    /// Begins another session.
    pub(crate) fn begin_session(&mut self) {
        self.session.begin();
        (self.repeats_until, self.has_passed) = (self.end, false);
    }

    /// Begins to compare the server, which sends all changes after `confirmed`.
    pub(crate) fn compare(&mut self, confirmed: Lsn, only: bool) {
        self.session.compare(self.end, confirmed, only);
        self.has_passed = false;
    }

    /// Notes that the server was compared before.
    pub(crate) fn assume_compared(&mut self) {
        self.session.assume_compared(self.end);
        self.has_passed = false;
    }

    /// Whether the log may already have the decision about a transaction that was prepared up to
    /// this LSN. The server repeats such a decision before anything new.
    pub(crate) fn may_be_repeated(&self, end: Lsn) -> bool {
        !self.has_passed && end <= self.repeats_until
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) const fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    pub(crate) const fn set_end(&mut self, end: Lsn) {
        self.end = end;
    }

    pub(crate) const fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// Counts segments that were published.
    pub(crate) const fn count_segments(&mut self, more: u64) {
        self.counts.segments = self.counts.segments.saturating_add(more);
    }

    /// Notes that everything that was taken is in segments.
    pub(crate) fn published(&mut self) {
        self.count_segments(1);
        self.repeats.published();
    }

    /// Takes events of an assembler, until the block has `room` bytes or something else is due.
    #[inline]
    pub(crate) fn fill(
        &mut self,
        buffer: &mut Buffer,
        assembler: &mut Assembler,
        input: &mut &[u8],
        place: Option<Lsn>,
        room: usize,
    ) -> Result<Next, Error> {
        loop {
            let event = assembler.next_with(input, |change| {
                buffer.row(&change).map_err(Some)?;
                // `None`: the block has no room.
                if buffer.size() < room {
                    Ok(())
                } else {
                    Err(None)
                }
            });
            // The match is by reference, because most events are large, and few of their fields are
            // used.
            match &event {
                Ok(Some(Event::Change(None))) => return Ok(Next::Full),
                Ok(Some(Event::Begin(transaction))) => {
                    if self.begin_new(buffer, transaction)?
                        && place.is_some_and(|point| transaction.commit_lsn >= point)
                    {
                        return Ok(Next::First(First::Transaction));
                    }
                }
                Ok(Some(Event::Commit { .. })) if buffer.at() == At::Skipping => {
                    buffer.skip(false);
                }
                Ok(Some(Event::Commit {
                    transaction,
                    changes,
                    ..
                })) => {
                    self.counts.transactions = self.counts.transactions.saturating_add(1);
                    self.counts.rows = self.counts.rows.saturating_add(*changes);
                    self.counts.last_commit_time = Some(transaction.commit_time);
                    if mem::take(&mut self.has_message) {
                        self.counts.last_message = Some(transaction.commit_lsn);
                    }
                    buffer.commit(transaction);
                    self.end = self.end.max(transaction.end_lsn);
                    self.repeats.took(transaction.commit_lsn);
                    self.session.take(taken(transaction));
                    if matches!(buffer.at(), At::LastPart(_)) {
                        return Ok(Next::Whole);
                    }
                    if buffer.is_full() {
                        return Ok(Next::Full);
                    }
                }
                Ok(None) => return Ok(Next::None),
                Ok(Some(Event::Change(Some(error)))) | Err(error) => {
                    return Err(error.clone().into());
                }
                Ok(Some(event)) => {
                    if let Some(first) = self.other(buffer, event, place)? {
                        return Ok(Next::First(first));
                    }
                }
            }
            if buffer.size() >= room {
                return Ok(Next::Full);
            }
        }
    }

    /// Takes an event that is rare.
    #[inline(never)]
    fn other<T>(
        &mut self,
        buffer: &mut Buffer,
        event: &Event<'_, T>,
        place: Option<Lsn>,
    ) -> Result<Option<First>, Error> {
        match event {
            Event::Truncate(truncate) => buffer.truncate(truncate),
            Event::Fact(fact) => buffer.fact(fact),
            Event::Message(message) if !self.session.takes_message(message) => {}
            Event::Message(message) if message.transactional && buffer.at() != At::Skipping => {
                self.has_message = true;
                buffer.message(message);
            }
            Event::Message(message) if !message.transactional => {
                let taken = taken_message(message, self.session.source().last.as_ref());
                if self.meet(buffer, || taken.clone(), message.lsn)? {
                    self.check_repeated(message.lsn)?;
                    return Ok(None);
                }
                buffer.message(message);
                if place.is_some_and(|point| message.lsn >= point) {
                    return Ok(Some(First::Message(message.lsn, taken)));
                }
                self.end_message(buffer, message.lsn, taken);
            }
            Event::Prepared { xid, prepared, .. } => {
                let taken = Taken::prepare(prepared.prepare_lsn, *xid, prepared.prepare_time);
                if !self.meet(buffer, || taken.clone(), prepared.prepare_end_lsn)? {
                    self.session.prepare(taken, prepared.prepare_end_lsn);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Compares a transaction, prepare or message that ends at this LSN. Returns whether the log
    /// skips it.
    #[inline]
    fn meet(
        &mut self,
        buffer: &mut Buffer,
        found: impl FnOnce() -> Taken,
        end: Lsn,
    ) -> Result<bool, Error> {
        // Usually, the session only sends new changes.
        if self.has_passed {
            return Ok(end <= self.end);
        }
        if !self.session.is_compared() {
            let facts = self.session.meet(&found(), end)?;
            buffer.note(facts);
        }
        self.pass(end);
        Ok(end <= self.end || !self.session.takes())
    }

    /// Notes that the session has sent everything up to this LSN.
    fn pass(&mut self, end: Lsn) {
        self.has_passed |= end > self.repeats_until && self.session.takes();
    }

    /// Refuses a skipped transaction or message that is not in the log.
    fn check_repeated(&mut self, lsn: Lsn) -> Result<(), Error> {
        if self.session.takes() {
            self.repeats.check(&self.store, lsn, self.end)?;
        }
        Ok(())
    }

    /// Begins a transaction, and returns true, unless the log has it.
    #[inline]
    fn begin_new(&mut self, buffer: &mut Buffer, transaction: &Transaction) -> Result<bool, Error> {
        let (commit_lsn, end) = (transaction.commit_lsn, transaction.end_lsn);
        if end <= commit_lsn {
            // A skipped transaction would look like one that the log has.
            let lsn = commit_lsn;
            return Err(Error::new("", ErrorKind::EndLsn { lsn, end }));
        }
        if self.meet(buffer, || taken(transaction), end)? {
            self.check_repeated(commit_lsn)?;
            buffer.skip(true);
            self.counts.repeated = self.counts.repeated.saturating_add(1);
            return Ok(false);
        }
        buffer.begin(transaction, 0, None);
        Ok(true)
    }

    /// Notes that the message that the buffer got last is whole.
    pub(crate) fn end_message(&mut self, buffer: &mut Buffer, lsn: Lsn, taken: Taken) {
        buffer.end_message();
        self.end = lsn;
        self.repeats.took(lsn);
        self.session.take(taken);
    }

    /// Notes that the server has sent everything up to this LSN. Returns this position if it is at
    /// or behind the place of a load.
    pub(crate) fn advance(
        &mut self,
        buffer: &mut Buffer,
        lsn: Lsn,
        place: Option<Lsn>,
    ) -> Result<Option<First>, Error> {
        let is_between = buffer.at().is_between();
        if is_between {
            let facts = self.session.reach(lsn)?;
            buffer.note(facts);
        }
        if !self.session.takes() || lsn <= self.end || !is_between {
            return Ok(None);
        }
        if place.is_some_and(|point| lsn >= point) {
            return Ok(Some(First::Position(lsn)));
        }
        self.go_to(buffer, lsn);
        Ok(None)
    }

    /// Takes a position.
    pub(crate) fn go_to(&mut self, buffer: &mut Buffer, lsn: Lsn) {
        if lsn <= self.end {
            return;
        }
        self.pass(lsn);
        let prepare = self.session.take_prepare(lsn);
        buffer.note(prepare);
        buffer.position(lsn);
        self.end = lsn;
    }
}
