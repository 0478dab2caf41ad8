//! The items of one committed transaction, from its messages.

use super::{Assembler, Phase};
use crate::error::{Error, ErrorKind};
use crate::frames::{Frames, Place};
use crate::look::{
    Fault, INSIDE, OUTSIDE, data_of, kind_of, parse, relation_of, unexpected, xid_of,
};
use crate::relation::{Announce, Kept, Relation, Relations};
use crate::spool::{SpoolReader, Spot};
use crate::transaction::{Change, Item, Message, Row};
use crate::undecided::Open;
use std::collections::HashSet;
use std::sync::Arc;
use walrow_wire::{LogicalMessage, Oid, OldTuple, Tuple, XLogData, Xid};

/// How the committed transaction is read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// Its frames, where they do not lie in the input.
    pub(super) reader: Option<SpoolReader>,
    /// Whether its messages carry a transaction ID.
    pub(super) streamed: bool,
    /// Subtransactions that were rolled back.
    pub(super) aborted: HashSet<Xid>,
    /// What of its own definitions the session keeps.
    pub(super) kept: Kept,
    /// Whether nothing of it is handed out: it was delivered before, or its begin is missing.
    pub(super) skipped: bool,
    /// A row's frame that waits until the relation versions that it uses were handed out, and where
    /// it begins in the stream.
    held: Vec<u8>,
    held_offset: Option<u64>,
}

impl Reading {
    /// Whether the message is of a subtransaction that was rolled back.
    ///
    /// A logical message always carries the top-level transaction's ID, so it never is.
    #[inline]
    pub(super) fn is_aborted(&self, frame: &[u8]) -> bool {
        !self.aborted.is_empty() && xid_of(frame).is_some_and(|xid| self.aborted.contains(&xid))
    }
}

/// So many frames are read past before the caller may look around.
const PASSED: usize = 1 << 14;

/// How far a transaction was read past.
pub(super) enum Passed {
    /// To its end.
    All,
    /// There is more of it at hand.
    Part,
    /// There is more of it to come: all of the input was taken.
    Input,
}

/// What comes next of a committed transaction.
enum Next<'a> {
    /// A row or message, and where its frame begins in the stream.
    Frame(Source<'a>, u64),
    Relation(Arc<Relation>),
    /// Many frames were read that nothing is handed out of: definitions, rows that were rolled back
    /// or are left out.
    Passed,
    End,
}

/// Where the frame being read lies.
#[derive(Clone, Copy)]
enum Source<'a> {
    Input(&'a [u8]),
    Completed,
    Spool(Spot),
    Held,
}

impl<'a> Source<'a> {
    #[inline]
    fn frame(self, frames: &'a Frames, reading: &'a Reading) -> &'a [u8] {
        match self {
            Self::Input(frame) => frame,
            Self::Completed => frames.completed(),
            Self::Held => &reading.held,
            Self::Spool(spot) => match &reading.reader {
                Some(reader) => reader.frame(spot),
                None => &[],
            },
        }
    }
}

impl Assembler {
    /// The plain transaction's Commit was found.
    pub(super) fn committed_plain(&mut self) {
        let spooled = self.plain.take().map(|id| self.undecided.spools.take(id));
        self.reading.reader = spooled.map(SpoolReader::new);
        self.phase = Phase::Reading;
    }

    /// A streamed or prepared transaction was committed.
    pub(super) fn committed(&mut self, open: Open) {
        let spooled = self.undecided.spools.take(open.spool);
        self.relations.enter(open.inherited);
        // What was prepared is the session's already, or was never meant to be.
        let kept = match open.transaction.prepared {
            None => open.kept,
            Some(_) => Kept::default(),
        };
        self.transaction = open.transaction;
        self.reading = Reading {
            reader: Some(SpoolReader::new(spooled)),
            streamed: open.streamed,
            aborted: open.aborted,
            kept,
            skipped: open.lost,
            held: Vec::new(),
            held_offset: None,
        };
        self.phase = Phase::Reading;
    }

    /// The next frame of the committed transaction, and where it begins in the stream.
    #[inline]
    fn next_frame<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<(Source<'t>, u64)>, Error> {
        if let Some(reader) = &mut self.reading.reader {
            let header = self.frames.framing().header();
            let end = self.frames.offset();
            let foreign = reader.is_foreign();
            return match reader.next(header) {
                // What another stream held is told of at its commit.
                Ok(spot) if foreign => Ok(spot.map(|spot| (Source::Spool(spot), end))),
                Ok(spot) => Ok(spot.map(|spot| (Source::Spool(spot), spot.offset))),
                Err(error) => Err(Fault::from(error).at(&self.frames, self.frames.offset())),
            };
        }
        Ok(self.frames.next(input)?.map(|taken| match taken.place {
            Place::Input(frame) => (Source::Input(frame), taken.offset),
            Place::Completed => (Source::Completed, taken.offset),
        }))
    }

    /// Hands out the next item of the committed transaction.
    #[inline]
    pub(super) fn read<'t, 'i: 't>(
        &'t mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<Item<'t>>, Error> {
        let (source, offset) = match self.next_row(input) {
            Ok(Some(Next::Frame(source, offset))) => (source, offset),
            Ok(Some(Next::Relation(relation))) => {
                return Ok(Some(Item::Relation {
                    relation: self.announced.insert(relation),
                    seq: self.seq,
                }));
            }
            Ok(Some(Next::Passed)) => return Ok(Some(Item::Skipped)),
            Ok(Some(Next::End)) => {
                self.end_reading();
                return Ok(Some(Item::Commit(&self.transaction)));
            }
            Ok(None) => return Ok(None),
            Err(error) => return Err(self.fail(error)),
        };
        let frame = source.frame(&self.frames, &self.reading);
        let streamed = self.reading.streamed;
        match row_item(frame, streamed, offset, &mut self.seq, &mut self.relations) {
            Ok(item) => Ok(Some(item)),
            Err(mut fault) => {
                fault.lsn = fault.lsn.or(Some(self.transaction.commit_lsn));
                let error = fault.at(&self.frames, offset);
                self.failure = Some(error.clone());
                self.phase = Phase::Between;
                Err(error)
            }
        }
    }

    /// Finds the next row or message of the committed transaction, or its end.
    #[inline]
    fn next_row<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<Next<'t>>, Error> {
        for _ in 0..PASSED {
            if !self.reading.skipped
                && let Some(relation) = self.relations.next_new()
            {
                return Ok(Some(Next::Relation(relation)));
            }
            if let Some(offset) = self.reading.held_offset.take() {
                return Ok(Some(Next::Frame(Source::Held, offset)));
            }
            let Some((source, offset)) = self.next_frame(input)? else {
                // A streamed or prepared transaction ends where its spool does.
                return Ok(self.reading.reader.is_some().then_some(Next::End));
            };
            let frame = source.frame(&self.frames, &self.reading);
            match kind_of(frame) {
                Some(b'I' | b'U' | b'D' | b'T' | b'R' | b'Y') if self.reading.is_aborted(frame) => {
                }
                // What is read past hands out no version; a row that uses one waits behind it.
                Some(b'I' | b'U' | b'D' | b'T')
                    if !self.reading.skipped
                        && self.relations.has_unannounced()
                        && (self.relations)
                            .uses_unannounced(&relations_of(frame, self.reading.streamed)) =>
                {
                    self.reading.held = frame.to_vec();
                    self.reading.held_offset = Some(offset);
                }
                Some(b'I' | b'U' | b'D' | b'T' | b'M') if self.reading.skipped => {}
                Some(b'I' | b'U' | b'D' | b'T' | b'M') => {
                    return Ok(Some(Next::Frame(source, offset)));
                }
                Some(b'C') => return Ok(Some(Next::End)),
                Some(b'R' | b'Y') => {
                    let announce = if self.reading.skipped {
                        Announce::No
                    } else {
                        Announce::Yes
                    };
                    define(frame, self.reading.streamed, announce, &mut self.relations)
                        .map_err(|fault| fault.at(&self.frames, offset))?;
                }
                _ => {}
            }
        }
        Ok(Some(Next::Passed))
    }

    /// Reads on in a committed transaction of which nothing is handed out.
    pub(super) fn read_past(&mut self, input: &mut &[u8]) -> Result<Passed, Error> {
        Ok(match self.next_row(input)? {
            None => Passed::Input,
            Some(Next::End) => {
                self.end_reading();
                Passed::All
            }
            Some(_) => Passed::Part,
        })
    }
}

/// The relations that a row's frame names; none where it does not parse.
fn relations_of(frame: &[u8], streamed: bool) -> Vec<Oid> {
    if kind_of(frame) != Some(b'T') {
        return relation_of(frame, streamed).into_iter().collect();
    }
    let message = data_of(frame).ok().map(|data| parse(&data, streamed));
    match message {
        Some(Ok(walrow_wire::Message::Truncate(truncate))) => truncate.relations().collect(),
        _ => Vec::new(),
    }
}

/// Takes a Relation or Type message of the transaction.
fn define(
    frame: &[u8],
    streamed: bool,
    announce: Announce,
    relations: &mut Relations,
) -> Result<(), Fault> {
    match parse(&data_of(frame)?, streamed)? {
        walrow_wire::Message::Relation(relation) => Ok(relations.define(&relation, announce)?),
        walrow_wire::Message::Type(message) => Ok(relations.define_type(&message)?),
        other => Err(unexpected(other.name(), INSIDE)),
    }
}

/// Parses a message that stands outside transactions.
pub(super) fn outside_message(frame: &[u8]) -> Result<Message<'_>, Fault> {
    let data = data_of(frame)?;
    match parse(&data, false)? {
        walrow_wire::Message::Message(message) if message.transactional => {
            Err(unexpected("Message (transactional)", OUTSIDE).near(data.start))
        }
        walrow_wire::Message::Message(message) => logical_message(&message, 0),
        other => Err(unexpected(other.name(), OUTSIDE).near(data.start)),
    }
}

fn logical_message<'a>(message: &LogicalMessage<'a>, seq: u64) -> Result<Message<'a>, Fault> {
    let prefix = message
        .prefix
        .to_str()
        .map_err(|_| ErrorKind::InvalidUtf8 {
            message: "Message",
            field: "prefix",
        })?;
    let &LogicalMessage {
        xid: _,
        transactional,
        lsn,
        prefix: _,
        content,
    } = message;
    Ok(Message {
        lsn,
        transactional,
        seq,
        prefix,
        content,
    })
}

/// Parses a change or message of the committed transaction.
#[inline]
fn row_item<'a>(
    frame: &'a [u8],
    streamed: bool,
    offset: u64,
    seq: &mut u64,
    relations: &'a mut Relations,
) -> Result<Item<'a>, Fault> {
    let data = data_of(frame)?;
    let (relation, row) = match parse(&data, streamed)? {
        walrow_wire::Message::Insert(insert) => {
            let relation = known(relations, insert.relation, "Insert", &data)?;
            check(relation, insert.new, "Insert", &data)?;
            (relation, Row::Insert { new: insert.new })
        }
        walrow_wire::Message::Update(update) => {
            let relation = known(relations, update.relation, "Update", &data)?;
            if let Some(old) = update.old {
                check(relation, old.tuple(), "Update", &data)?;
            }
            check(relation, update.new, "Update", &data)?;
            (
                relation,
                Row::Update {
                    old: update.old,
                    new: update.new,
                },
            )
        }
        walrow_wire::Message::Delete(delete) => {
            let relation = known(relations, delete.relation, "Delete", &data)?;
            check(relation, OldTuple::tuple(delete.old), "Delete", &data)?;
            (relation, Row::Delete { old: delete.old })
        }
        walrow_wire::Message::Truncate(truncate) => {
            let (mut truncated, mut named) = (Vec::new(), HashSet::new());
            for oid in truncate.relations() {
                if !named.insert(oid) {
                    return Err(Fault::from(ErrorKind::RepeatedRelation { oid }).near(data.start));
                }
                truncated.push(Arc::clone(known(relations, oid, "Truncate", &data)?));
            }
            let Some(first) = truncate.relations().next() else {
                return Err(unexpected("Truncate of no relation", INSIDE).near(data.start));
            };
            let row = Row::Truncate {
                relations: truncated,
                cascade: truncate.cascade(),
                restart_identity: truncate.restart_identity(),
            };
            (known(relations, first, "Truncate", &data)?, row)
        }
        walrow_wire::Message::Message(message) if !message.transactional => {
            return Err(unexpected("Message (non-transactional)", INSIDE).near(data.start));
        }
        walrow_wire::Message::Message(message) => {
            return Ok(Item::Message(logical_message(&message, *seq)?));
        }
        other => return Err(unexpected(other.name(), INSIDE).near(data.start)),
    };
    let change = Change {
        seq: *seq,
        lsn: data.start,
        offset,
        relation,
        row,
    };
    *seq = seq.saturating_add(1);
    Ok(Item::Change(change))
}

#[inline]
fn known<'a>(
    relations: &'a mut Relations,
    oid: Oid,
    message: &'static str,
    data: &XLogData<'_>,
) -> Result<&'a Arc<Relation>, Fault> {
    relations
        .get(oid)
        .ok_or_else(|| Fault::from(ErrorKind::UnknownRelation { message, oid }).near(data.start))
}

#[inline]
fn check(
    relation: &Relation,
    tuple: Tuple<'_>,
    message: &'static str,
    data: &XLogData<'_>,
) -> Result<(), Fault> {
    let (expected, found) = (relation.columns.len(), tuple.len());
    if expected == found {
        return Ok(());
    }
    let relation = relation.to_string();
    Err(Fault::from(ErrorKind::ColumnCount {
        message,
        relation,
        expected,
        found,
    })
    .near(data.start))
}
