//! The events of one committed transaction, from its messages.
//!
//! A row's path is short: look up its relation, take its frame, and return both without reading any
//! cell ([`Reader::take_front`]). All other messages go through [`Reader::other`]. A frame is taken
//! only when its message is returned or skipped. So a row stays in place while the relation version
//! that it uses is returned first.

use super::reading::{Reading, Source};
use super::session::Session;
use crate::error::{Error, ErrorKind, Fault, MessagePlace};
use crate::fact::Fact;
use crate::frames::{Frames, Place};
use crate::relation::{Announce, Lookup, Relation, Relations};
use crate::spool::Spot;
use crate::transaction::Truncate;
use crate::undecided::is_aborted;
use std::collections::HashSet;
use std::sync::Arc;
use walrow_wire::{self as wire, Kind, Peek};

/// After this many skipped frames, the caller gets [`Event::Skipped`](crate::Event::Skipped).
const PASSED: usize = 1 << 14;

/// A row to return.
#[derive(Clone, Copy)]
pub(super) struct Row<'i> {
    pub(super) at: At<'i>,
    /// The place of its relation in the cache.
    pub(super) relation: usize,
}

/// The next event, before it borrows from the assembler.
pub(super) enum Next<'i> {
    /// A row, for [`Reader::take_front`].
    Row,
    Truncate(Box<Truncate>),
    /// A logical message, inside or outside a transaction.
    Message(At<'i>, Outside),
    Relation(Arc<Relation>),
    Fact(Box<Fact>),
    Prepared,
    Begin,
    /// The transaction's end.
    End,
    /// Many frames were read without an event: definitions, and rows that were rolled back or are
    /// skipped.
    Skipped,
    SessionStart,
    ServerError,
}

/// Whether a message lies outside transactions.
pub(super) type Outside = bool;

/// A frame with a message, and where it begins in the stream.
#[derive(Clone, Copy)]
pub(super) struct At<'i> {
    pub(super) frame: Where<'i>,
    pub(super) offset: u64,
}

#[derive(Clone, Copy)]
pub(super) enum Where<'i> {
    Input(Peek<'i>),
    Completed,
    Spool(Spot),
}

/// The state that reading changes.
pub(super) struct Reader<'s> {
    pub(super) frames: &'s mut Frames,
    pub(super) session: &'s mut Session,
    pub(super) reading: &'s mut Reading,
    pub(super) seq: &'s mut u64,
}

impl Reader<'_> {
    /// Takes the next frame if it is a row to return. Otherwise it takes none, and [`Reader::other`]
    /// finds the next event.
    #[expect(clippy::inline_always, reason = "as `Core::next`")]
    #[inline(always)]
    pub(super) fn take_front<'i>(&mut self, input: &mut &'i [u8]) -> Option<Row<'i>> {
        if self.reading.skipped || self.session.relations.has_new() {
            return None;
        }
        let at = match self.at_hand(input) {
            Some(at) => at,
            None => match self.frame(input) {
                Ok(Found::At(at)) => at,
                // `Reader::other` finds the same frame or error.
                _ => return None,
            },
        };
        let peek = peek(at.frame, self.frames, &self.reading.source)?;
        if self.is_aborted(&peek) {
            return None;
        }
        let row = peek.row(self.reading.is_streamed())?;
        let Lookup::Known(relation) = self.session.relations.look_up(row.relation()) else {
            return None;
        };
        self.take(at, input);
        Some(Row { at, relation })
    }

    /// Nearly always, the frame is at the front of the input.
    #[inline]
    fn at_hand<'i>(&self, input: &'i [u8]) -> Option<At<'i>> {
        match &self.reading.source {
            Source::Input if self.frames.is_clear() => {
                let (peek, _) = Peek::split(input)?;
                (peek.size() <= self.frames.limit()).then(|| At {
                    frame: Where::Input(peek),
                    offset: self.frames.offset(),
                })
            }
            _ => None,
        }
    }

    /// Finds the next event, if it is not a row to return: a message, or the end.
    #[inline(never)]
    pub(super) fn other<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Next<'i>>, Error> {
        for _ in 0..PASSED {
            if let Some(relation) = self.session.relations.next_new() {
                return Ok(Some(Next::Relation(relation)));
            }
            let at = match self.at_hand(input) {
                Some(at) => at,
                None => match self.frame(input)? {
                    Found::At(at) => at,
                    Found::Other => continue,
                    Found::End => return Ok(Some(Next::End)),
                    Found::Cut => return Ok(None),
                },
            };
            let Some(peek) = peek(at.frame, self.frames, &self.reading.source) else {
                continue;
            };
            if peek.kind().is_row() && !self.reading.skipped && !self.is_aborted(&peek) {
                let Some(row) = peek.row(self.reading.is_streamed()) else {
                    return Err(self.refuse(&peek, at.offset));
                };
                match self.session.relations.look_up(row.relation()) {
                    Lookup::Known(_) => return Ok(Some(Next::Row)),
                    Lookup::LeftOut => {
                        *self.seq = self.seq.saturating_add(1);
                        self.take(at, input);
                    }
                    Lookup::New => {}
                    Lookup::Unknown => return Err(self.refuse(&peek, at.offset)),
                }
            } else if let Some(next) = self.message(at, input)? {
                return Ok(Some(next));
            }
        }
        Ok(Some(Next::Skipped))
    }

    /// Takes a message that is not a row to return.
    fn message<'i>(&mut self, at: At<'i>, input: &mut &'i [u8]) -> Result<Option<Next<'i>>, Error> {
        let Some(peek) = peek(at.frame, self.frames, &self.reading.source) else {
            return Ok(None);
        };
        let skipped = self.reading.skipped;
        let next = match peek.kind() {
            _ if self.is_aborted(&peek) => None,
            kind if kind.is_definition() => {
                let announce = if skipped { Announce::No } else { Announce::Yes };
                let in_stream = self.reading.is_streamed();
                define(&peek, in_stream, announce, &mut self.session.relations)
                    .map_err(|fault| fault.at(self.frames, at.offset))?;
                None
            }
            Kind::Truncate if !skipped => {
                let in_stream = self.reading.is_streamed();
                let relations = &mut self.session.relations;
                match truncate(&peek, in_stream, relations, at.offset, *self.seq) {
                    Ok(Some(truncate)) => {
                        *self.seq = self.seq.saturating_add(1);
                        Some(Next::Truncate(Box::new(truncate)))
                    }
                    // The relation versions that it uses are returned first.
                    Ok(None) => return Ok(None),
                    Err(fault) => return Err(self.fault(fault, &peek, at.offset)),
                }
            }
            Kind::Message if !skipped => Some(Next::Message(at, false)),
            Kind::Commit => Some(Next::End),
            _ => None,
        };
        self.take(at, input);
        Ok(next)
    }

    #[inline]
    fn is_aborted(&self, peek: &Peek<'_>) -> bool {
        match &self.reading.source {
            Source::Input => false,
            Source::Spool(it) => is_aborted(&it.aborted, peek),
        }
    }

    #[inline]
    fn take(&mut self, at: At<'_>, input: &mut &[u8]) {
        match at.frame {
            Where::Input(peek) => self.frames.take(Place::Input(peek.frame()), input),
            Where::Completed => self.take_elsewhere(None),
            Where::Spool(spot) => self.take_elsewhere(Some(spot)),
        }
    }

    /// Takes a frame that is not in the input: it was completed, or is in the spool.
    #[inline(never)]
    fn take_elsewhere(&mut self, spot: Option<Spot>) {
        match (spot, &mut self.reading.source) {
            (Some(spot), Source::Spool(it)) => it.reader.take(spot),
            (None, _) => self.frames.take_completed(),
            (Some(_), Source::Input) => {}
        }
    }

    /// The next frame, from the input or the spool.
    #[inline(never)]
    fn frame<'i>(&mut self, input: &mut &'i [u8]) -> Result<Found<'i>, Error> {
        let (frame, offset) = match &mut self.reading.source {
            Source::Input => {
                let Some(place) = self.frames.front(input)? else {
                    return Ok(Found::Cut);
                };
                let frame = match place {
                    Place::Completed => Some(Where::Completed),
                    Place::Input(frame) => Peek::new(frame).map(Where::Input),
                };
                let Some(frame) = frame.filter(|it| self.is_message(*it)) else {
                    self.frames.take(place, input);
                    return Ok(Found::Other);
                };
                (frame, self.frames.offset())
            }
            Source::Spool(it) => {
                let end = self.frames.offset();
                let spot = it.reader.front();
                let spot = spot.map_err(|error| Fault::from(error).at(self.frames, end))?;
                let Some(spot) = spot else {
                    // A transaction ends where its spool does.
                    return Ok(Found::End);
                };
                // Errors in a restored transaction are reported at its commit.
                let restored = it.reader.is_restored();
                let offset = if restored { end } else { spot.offset };
                if Peek::new(it.reader.frame(spot)).is_none() {
                    it.reader.take(spot);
                    return Ok(Found::Other);
                }
                (Where::Spool(spot), offset)
            }
        };
        Ok(Found::At(At { frame, offset }))
    }

    fn is_message(&self, frame: Where<'_>) -> bool {
        peek(frame, self.frames, &self.reading.source).is_some()
    }

    /// The error of a row with an unknown relation, or without a relation.
    #[cold]
    fn refuse(&self, peek: &Peek<'_>, offset: u64) -> Error {
        let message = peek.kind().name();
        let fault = match peek.message(self.reading.is_streamed()) {
            Err(error) => error.into(),
            Ok(_) => match peek.row(self.reading.is_streamed()) {
                Some(row) => {
                    let oid = row.relation();
                    ErrorKind::UnknownRelation { message, oid }.into()
                }
                None => Fault::unexpected(message, MessagePlace::Inside),
            },
        };
        self.fault(fault, peek, offset)
    }

    #[cold]
    fn fault(&self, fault: Fault, peek: &Peek<'_>, offset: u64) -> Error {
        let commit_lsn = self.session.transaction.commit_lsn;
        let fault = fault.or_near(peek.start()).or_near(commit_lsn);
        fault.at(self.frames, offset)
    }
}

/// The next frame.
enum Found<'i> {
    At(At<'i>),
    /// A frame without a message. It was taken.
    Other,
    /// The spool is at its end.
    End,
    /// The input ends inside the frame.
    Cut,
}

#[inline]
pub(super) fn peek<'a>(
    frame: Where<'a>,
    frames: &'a Frames,
    source: &'a Source,
) -> Option<Peek<'a>> {
    match (frame, source) {
        (Where::Input(peek), _) => Some(peek),
        (Where::Completed, _) => Peek::new(frames.completed()),
        (Where::Spool(spot), Source::Spool(it)) => Peek::new(it.reader.frame(spot)),
        (Where::Spool(_), Source::Input) => None,
    }
}

/// Takes a Relation or Type message of the transaction.
fn define(
    peek: &Peek<'_>,
    in_stream: bool,
    announce: Announce,
    relations: &mut Relations,
) -> Result<(), Fault> {
    let message = peek.message(in_stream);
    match message.map_err(|error| Fault::from(error).near(peek.start()))? {
        wire::Message::Relation(relation) => Ok(relations.define(&relation, announce)?),
        wire::Message::Type(message) => Ok(relations.define_type(&message)?),
        other => Err(Fault::unexpected(other.name(), MessagePlace::Inside)),
    }
}

/// Parses a Truncate. `None` while relation versions that it uses must be returned first.
fn truncate(
    peek: &Peek<'_>,
    in_stream: bool,
    relations: &mut Relations,
    offset: u64,
    seq: u64,
) -> Result<Option<Truncate>, Fault> {
    let message = peek.message(in_stream);
    let wire::Message::Truncate(truncate) = message? else {
        return Err(Fault::unexpected(peek.kind().name(), MessagePlace::Inside));
    };
    let mut waits = false;
    for oid in truncate.relations() {
        waits |= relations.look_up(oid) == Lookup::New;
    }
    if waits {
        return Ok(None);
    }
    let (mut truncated, mut named) = (Vec::new(), HashSet::new());
    for oid in truncate.relations() {
        if !named.insert(oid) {
            return Err(ErrorKind::RepeatedRelation { oid }.into());
        }
        let message = peek.kind().name();
        let relation = relations.get(oid);
        let relation = relation.ok_or(ErrorKind::UnknownRelation { message, oid })?;
        truncated.push(Arc::clone(relation));
    }
    if truncated.is_empty() {
        return Err(Fault::unexpected(
            "Truncate of no relation",
            MessagePlace::Inside,
        ));
    }
    Ok(Some(Truncate {
        seq,
        lsn: peek.start(),
        offset,
        relations: truncated,
        cascade: truncate.cascade(),
        restart_identity: truncate.restart_identity(),
    }))
}
