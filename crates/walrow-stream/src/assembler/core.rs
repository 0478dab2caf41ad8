//! The assembler without its error. It searches for transactions, reads them and returns the
//! events.

use super::read::{At, Next, Outside, Reader, Row, Where, peek};
use super::reading::{Reading, Source};
use super::search::{Found, Search, Searcher, whole_transaction};
use super::session::Session;
use crate::error::{Error, ErrorKind, Fault, MessagePlace};
use crate::fact::{Fact, ReadCatalogs, refused};
use crate::frames::{Frames, Place};
use crate::relation::Relation;
use crate::transaction::{Change, Context, Event, Message, Prepared, Transaction, Unread};
use std::sync::Arc;
use walrow_wire::{self as wire, Kind, LogicalMessage, Peek, Timestamp};

/// The assembler's state, except the error that stopped it.
#[derive(Debug, Default)]
pub(super) struct Core {
    pub(super) frames: Frames,
    pub(super) phase: Phase,
    pub(super) session: Session,
    /// The relation version of the last [`Event::Relation`].
    pub(super) announced: Option<Arc<Relation>>,
    /// The seq of the transaction's next change.
    pub(super) seq: u64,
    /// Values that are the same for all rows of the transaction.
    pub(super) context: Context,
}

/// How the next frame is used.
#[derive(Debug)]
pub(super) enum Phase {
    /// The assembler searches for a committed transaction.
    Search(Search),
    /// A transaction was committed, and is being read.
    Reading(Reading),
}

/// The first or the last message of a plain transaction.
#[derive(Clone, Copy)]
pub(super) enum Edge {
    Begin,
    Commit,
}

/// The next item of the input or the spool.
enum Front<'i> {
    Edge(Edge),
    Row(Row<'i>),
    Other(Next<'i>),
}

impl Default for Phase {
    fn default() -> Self {
        Self::Search(Search::default())
    }
}

impl Core {
    pub(super) fn drop_session(&mut self) {
        self.drop_open();
        self.session.facts = None;
        self.session.relations.clear();
        if let Some(unmarked) = &mut self.session.unmarked {
            unmarked.begin_session();
        }
    }

    /// Drops open transactions: the server sends them again, or they are no longer needed.
    fn drop_open(&mut self) {
        match std::mem::take(&mut self.phase) {
            Phase::Search(mut search) => self.session.drop_open(&mut search),
            Phase::Reading(reading) => {
                self.session.leave(reading);
                self.session.undecided.drop_open();
            }
        }
    }

    /// The next event.
    ///
    /// Unlike [`Core::rows`], it makes an event of each row.
    pub(super) fn next<'t, 'i: 't>(
        &'t mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Event<'t, Change<'t, Unread<'t>>>>, Error> {
        Ok(Some(match self.front(input)? {
            None => return Ok(None),
            Some(Front::Row(row)) => Event::Change(self.change(row)?),
            Some(Front::Edge(edge)) => self.edge(edge),
            Some(Front::Other(next)) => self.event(next)?,
        }))
    }

    /// Gives rows to `row`, unread, until it stops or another event comes.
    #[inline]
    pub(super) fn rows<'t, 'i: 't, T>(
        &'t mut self,
        input: &mut &'i [u8],
        mut row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Result<Option<Event<'t, T>>, Error> {
        loop {
            if let Some(stop) = self.rows_in_input(input, &mut row) {
                return Ok(Some(Event::Change(stop)));
            }
            if let Some(stop) = self.rows_in_spool(&mut row) {
                return Ok(Some(Event::Change(stop)));
            }
            match self.front(input)? {
                None => return Ok(None),
                Some(Front::Row(front)) => {
                    if let Err(stop) = row(self.change(front)?) {
                        return Ok(Some(Event::Change(stop)));
                    }
                }
                Some(Front::Edge(edge)) => return Ok(Some(self.edge(edge))),
                Some(Front::Other(next)) => return self.event(next).map(Some),
            }
        }
    }

    /// Takes the next item of the input or the spool, up to a row or an event.
    fn front<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Front<'i>>, Error> {
        loop {
            if let Some(edge) = self.edge_in_input(input) {
                return Ok(Some(Front::Edge(edge)));
            }
            let row = (self.reader()).and_then(|mut reader| reader.take_front(input));
            if let Some(row) = row {
                return Ok(Some(Front::Row(row)));
            }
            match self.other(input) {
                Ok(Some(Next::Row)) => {}
                Ok(next) => return Ok(next.map(Front::Other)),
                Err(error) => {
                    self.drop_open();
                    return Err(error);
                }
            }
        }
    }

    /// See [`Assembler::rows_in_input`](super::Assembler::rows_in_input).
    #[expect(
        clippy::inline_always,
        reason = "else LLVM gives each row in memory: decoding takes a quarter longer"
    )]
    #[inline(always)]
    pub(super) fn rows_in_input<T>(
        &mut self,
        input: &mut &[u8],
        row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Option<T> {
        let Phase::Reading(Reading {
            source: Source::Input,
            skipped: false,
        }) = &self.phase
        else {
            return None;
        };
        if !self.frames.is_clear() || self.session.relations.has_new() {
            return None;
        }
        let (mut rest, mut offset, mut seq) = (*input, self.frames.offset(), self.seq);
        let stopped = self.give_rows(&mut rest, &mut offset, &mut seq, false, row);
        *input = rest;
        self.seq = seq;
        self.frames.advance_to(offset);
        stopped
    }

    /// As [`Core::rows_in_input`], for frames in the memory of the spool.
    fn rows_in_spool<T>(
        &mut self,
        row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Option<T> {
        let Phase::Reading(Reading {
            source: Source::Spool(it),
            skipped: false,
        }) = &self.phase
        else {
            return None;
        };
        if !it.aborted.is_empty() || self.session.relations.has_new() {
            return None;
        }
        let (mut rest, mut offset) = it.reader.rest()?;
        let (size, mut seq) = (rest.len(), self.seq);
        let stopped = self.give_rows(&mut rest, &mut offset, &mut seq, it.streamed, row);
        let size = size.saturating_sub(rest.len());
        self.seq = seq;
        if let Phase::Reading(Reading {
            source: Source::Spool(it),
            ..
        }) = &mut self.phase
        {
            it.reader.advance(size, offset);
        }
        stopped
    }

    /// Gives rows to `row` until it stops, or until another frame comes.
    #[expect(clippy::inline_always, reason = "as `Core::rows_in_input`")]
    #[inline(always)]
    fn give_rows<T>(
        &self,
        rest: &mut &[u8],
        offset: &mut u64,
        seq: &mut u64,
        in_stream: bool,
        mut row: impl FnMut(Change<'_, Unread<'_>>) -> Result<(), T>,
    ) -> Option<T> {
        while let Some((peek, behind)) = Peek::split(rest)
            && peek.size() <= self.frames.limit()
            && let Some(unread) = peek.row(in_stream)
            && let Some(relation) = self.session.relations.known(unread.relation())
        {
            let change = Change {
                seq: *seq,
                lsn: peek.start(),
                offset: *offset,
                relation,
                row: Unread::new(peek, &self.context),
            };
            *rest = behind;
            *seq = seq.wrapping_add(1);
            *offset = offset.wrapping_add(self.frames.fed(peek.size()));
            if let Err(stop) = row(change) {
                return Some(stop);
            }
        }
        None
    }

    /// Takes the Begin of a plain transaction that lies in the input as a whole, or its Commit.
    /// Nearly all events that are not rows are one of these.
    #[inline]
    pub(super) fn edge_in_input(&mut self, input: &mut &[u8]) -> Option<Edge> {
        if !self.frames.is_clear() || self.session.relations.has_new() || self.session.ended {
            return None;
        }
        match &self.phase {
            Phase::Search(Search::Between) => {
                let (begin, commit, rest) = whole_transaction(input, self.frames.limit())?;
                let size = input.len().saturating_sub(rest.len());
                self.frames.skip(self.frames.fed(size));
                *input = rest;
                self.session.transaction.restart(begin);
                self.session.transaction.end_lsn = commit.end_lsn;
                self.session.transaction.commit_time = commit.commit_time;
                match self.begin(Reading::default(), input) {
                    Some(Next::Begin) if !self.is_skipped() => Some(Edge::Begin),
                    _ => None,
                }
            }
            Phase::Reading(Reading {
                source: Source::Input,
                skipped: false,
            }) => {
                let (peek, rest) = Peek::split(input)?;
                if peek.kind() != Kind::Commit {
                    return None;
                }
                self.frames.skip(self.frames.fed(peek.size()));
                *input = rest;
                self.end_reading();
                Some(Edge::Commit)
            }
            _ => None,
        }
    }

    /// Finds the next event that is not a row, or stops at a row.
    #[inline(never)]
    fn other<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Next<'i>>, Error> {
        loop {
            let Some(mut reader) = self.reader() else {
                match self.find(input) {
                    Ok(Some(Next::Begin)) if self.is_skipped() => continue,
                    Ok(Some(Next::Message(at, true))) => {
                        return self.fact_or_message(at, true).map(Some);
                    }
                    found => return found,
                }
            };
            match reader.other(input)? {
                // A skipped transaction returns no events, but its relations count.
                Some(Next::End) if self.end_reading() => {}
                Some(Next::Message(at, false)) => return self.fact_or_message(at, false).map(Some),
                next => return Ok(next),
            }
        }
    }

    /// Applies the message if it is a fact. A fact that is not known may change what the stream
    /// means, so it is an error.
    #[cold]
    fn fact_or_message<'i>(&mut self, at: At<'i>, outside: Outside) -> Result<Next<'i>, Error> {
        let next = Next::Message(at, outside);
        let in_stream = self.context.in_stream && !outside;
        let mut catalogs = std::mem::take(&mut self.session.catalogs);
        let peek = self.peek(at);
        let found = peek.and_then(|peek| fact(&peek, in_stream, &mut catalogs));
        self.session.catalogs = catalogs;
        let fact = match found {
            None => return Ok(next),
            Some(Ok(fact)) => fact,
            Some(Err(name)) => {
                let fault = Fault::from(ErrorKind::UnknownFact { name });
                return Err(fault.at(&self.frames, at.offset));
            }
        };
        let facts = self.session.facts.get_or_insert_default();
        match &fact {
            Fact::Prepared {
                gid,
                prepare_lsn,
                prepare_end_lsn,
                prepare_time,
            } => {
                facts.prepared = Some(Prepared {
                    gid: gid.clone(),
                    prepare_lsn: *prepare_lsn,
                    prepare_end_lsn: *prepare_end_lsn,
                    prepare_time: Timestamp(*prepare_time),
                });
            }
            Fact::RolledBack { until } => facts.rolled_back_until = *until,
            Fact::Snapshot => facts.snapshot = true,
            Fact::Part { first_seq } => facts.first_seq = Some(*first_seq),
            Fact::Seq { next } if !outside => self.seq = *next,
            Fact::Continues => facts.continues = true,
            _ => {}
        }
        Ok(Next::Fact(Box::new(fact)))
    }

    /// Reads the current transaction, if there is one.
    #[inline]
    const fn reader(&mut self) -> Option<Reader<'_>> {
        let Phase::Reading(reading) = &mut self.phase else {
            return None;
        };
        Some(Reader {
            frames: &mut self.frames,
            session: &mut self.session,
            reading,
            seq: &mut self.seq,
        })
    }

    /// Whether the current transaction is skipped.
    const fn is_skipped(&self) -> bool {
        matches!(&self.phase, Phase::Reading(reading) if reading.skipped)
    }

    /// Ends the current transaction. Returns whether it was skipped.
    #[inline]
    fn end_reading(&mut self) -> bool {
        match std::mem::take(&mut self.phase) {
            Phase::Reading(reading) => {
                let skipped = reading.skipped;
                self.session.leave(reading);
                skipped
            }
            Phase::Search(_) => false,
        }
    }

    /// Finds the next committed transaction, or the next event between transactions.
    fn find<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Next<'i>>, Error> {
        let Phase::Search(search) = &mut self.phase else {
            return Ok(None);
        };
        if self.session.ended {
            *input = &[];
            return Ok(None);
        }
        let mut searcher = Searcher {
            frames: &mut self.frames,
            session: &mut self.session,
            search,
        };
        let Some(found) = searcher.find(input)? else {
            if self.session.ended {
                *input = &[];
            }
            return Ok(None);
        };
        Ok(Some(match found {
            Found::Committed(reading) => return Ok(self.begin(reading, input)),
            _ if self.session.ended => {
                *input = &[];
                return Ok(None);
            }
            Found::SessionStart => Next::SessionStart,
            Found::ServerError => Next::ServerError,
            Found::Prepared => Next::Prepared,
            Found::Message(place, offset) => {
                let frame = match place {
                    Place::Input(frame) => Peek::new(frame).map_or(Where::Completed, Where::Input),
                    Place::Completed => Where::Completed,
                };
                Next::Message(At { frame, offset }, true)
            }
        }))
    }

    /// Begins to read the transaction that was found, unless it is after the end.
    #[inline]
    fn begin<'i>(&mut self, mut reading: Reading, input: &mut &'i [u8]) -> Option<Next<'i>> {
        let Transaction {
            xid,
            commit_lsn,
            end_lsn,
            commit_time,
            ..
        } = self.session.transaction;
        reading.skipped |= self.session.start.has_delivered(end_lsn);
        if !reading.skipped {
            self.session.passes_end(end_lsn, Some(commit_time));
        }
        if self.session.ended {
            *input = &[];
            self.session.leave(reading);
            return None;
        }
        reading.skipped |= self.session.commits(xid, commit_lsn, reading.skipped);
        self.context = Context {
            in_stream: reading.is_streamed(),
            framing: self.frames.framing(),
            commit_lsn,
        };
        self.seq = 0;
        self.session.transaction.snapshot = false;
        let skipped = reading.skipped;
        self.phase = Phase::Reading(reading);
        // Only walrow's own streams have facts.
        if self.session.facts.is_some() && self.apply_facts() && !skipped {
            // The Begin was returned with the transaction's first part.
            return Some(Next::Skipped);
        }
        Some(Next::Begin)
    }

    /// Applies the facts about the transaction. Returns whether it continues the last transaction.
    #[cold]
    fn apply_facts(&mut self) -> bool {
        let Session {
            facts: Some(facts),
            transaction,
            ..
        } = &mut self.session
        else {
            return false;
        };
        if let Some(prepared) = facts.prepared.take() {
            transaction.prepared = Some(prepared);
        }
        let until = std::mem::take(&mut facts.rolled_back_until);
        transaction.rolled_back_until = until.max(transaction.rolled_back_until);
        transaction.snapshot = std::mem::take(&mut facts.snapshot);
        self.seq = facts.first_seq.take().unwrap_or(0);
        facts.continued.take() == Some(transaction.commit_lsn)
    }

    /// Makes the change, which borrows from the assembler and the input.
    #[expect(clippy::inline_always, reason = "as `Core::next`")]
    #[inline(always)]
    fn change<'t, 'i: 't>(&'t mut self, row: Row<'i>) -> Result<Change<'t, Unread<'t>>, Error> {
        let seq = self.seq;
        self.seq = seq.saturating_add(1);
        let (Some(peek), Some(relation)) = (
            self.peek(row.at),
            self.session.relations.recent(row.relation),
        ) else {
            return Err(self.lost(row.at));
        };
        Ok(Change {
            seq,
            lsn: peek.start(),
            offset: row.at.offset,
            relation,
            row: Unread::new(peek, &self.context),
        })
    }

    #[inline]
    fn peek<'t, 'i: 't>(&'t self, at: At<'i>) -> Option<Peek<'t>> {
        let source = match &self.phase {
            Phase::Reading(reading) => &reading.source,
            Phase::Search(_) => &Source::Input,
        };
        peek(at.frame, &self.frames, source)
    }

    /// Makes the event, which borrows from the assembler and the input.
    fn event<'t, 'i: 't, T>(&'t mut self, next: Next<'i>) -> Result<Event<'t, T>, Error> {
        Ok(match next {
            Next::Message(at, outside) => {
                let Some(peek) = self.peek(at) else {
                    return Err(self.lost(at));
                };
                let context = self.context;
                let read = if outside {
                    logical_message(&peek, false, MessagePlace::Outside, 0)
                } else {
                    logical_message(&peek, context.in_stream, MessagePlace::Inside, self.seq)
                        .map_err(|fault| fault.or_near(context.commit_lsn))
                };
                let mut message = read.map_err(|fault| fault.at(&self.frames, at.offset))?;
                let until = self.session.transaction.rolled_back_until;
                message.undecidable = !outside && message.lsn <= until;
                Event::Message(message)
            }
            Next::Truncate(truncate) => Event::Truncate(*truncate),
            Next::Relation(relation) => Event::Relation {
                relation: self.announced.insert(relation),
                seq: self.seq,
            },
            Next::Begin => Event::Begin(&self.session.transaction),
            Next::Prepared => match self.session.prepared.as_deref() {
                Some((xid, prepared)) => Event::Prepared {
                    xid: *xid,
                    prepared,
                },
                None => Event::Skipped,
            },
            Next::Fact(fact) => Event::Fact(fact),
            Next::End => self.commit(),
            Next::Row | Next::Skipped => Event::Skipped,
            Next::SessionStart => Event::SessionStart,
            Next::ServerError => Event::ServerError {
                sqlstate: &self.session.sqlstate,
            },
        })
    }

    /// Makes the event of a plain transaction's Begin or Commit.
    #[inline]
    pub(super) fn edge<T>(&mut self, edge: Edge) -> Event<'_, T> {
        match edge {
            Edge::Begin => Event::Begin(&self.session.transaction),
            Edge::Commit => self.commit(),
        }
    }

    fn commit<T>(&mut self) -> Event<'_, T> {
        if let Some(facts) = &mut self.session.facts
            && std::mem::take(&mut facts.continues)
        {
            facts.continued = Some(self.session.transaction.commit_lsn);
            return Event::Skipped;
        }
        Event::Commit {
            transaction: &self.session.transaction,
            changes: self.seq,
        }
    }

    /// The error of a frame that is no longer there. No stream can cause it.
    #[cold]
    fn lost(&self, at: At<'_>) -> Error {
        Fault::unexpected("frame", MessagePlace::Inside).at(&self.frames, at.offset)
    }
}

/// The fact in a message, or the name of a fact that must not be skipped.
fn fact(
    peek: &Peek<'_>,
    in_stream: bool,
    catalogs: &mut ReadCatalogs,
) -> Option<Result<Fact, String>> {
    let Ok(wire::Message::Message(message)) = peek.message(in_stream) else {
        return None;
    };
    match catalogs.fact_of(&message)? {
        Fact::Unknown => Some(refused(message.content).map_or(Ok(Fact::Unknown), Err)),
        fact => Some(Ok(fact)),
    }
}

/// Parses a logical message. `place` says whether it is inside or outside a transaction.
fn logical_message<'a>(
    peek: &Peek<'a>,
    in_stream: bool,
    place: MessagePlace,
    seq: u64,
) -> Result<Message<'a>, Fault> {
    let message = peek.message(in_stream);
    let message = message.map_err(|error| Fault::from(error).near(peek.start()))?;
    let message = match (message, place) {
        (wire::Message::Message(message), MessagePlace::Inside) if message.transactional => message,
        (wire::Message::Message(message), MessagePlace::Outside) if !message.transactional => {
            message
        }
        (wire::Message::Message(message), _) => {
            let name = if message.transactional {
                "Message (transactional)"
            } else {
                "Message (non-transactional)"
            };
            return Err(Fault::unexpected(name, place).near(peek.start()));
        }
        (other, _) => return Err(Fault::unexpected(other.name(), place).near(peek.start())),
    };
    let prefix = message.prefix.to_str();
    let LogicalMessage {
        transactional,
        lsn,
        content,
        ..
    } = message;
    Ok(Message {
        lsn,
        transactional,
        undecidable: false,
        seq,
        prefix: prefix.map_err(|_| ErrorKind::InvalidUtf8 {
            message: "Message",
            field: "prefix",
        })?,
        content,
    })
}
