//! The search for what is committed: what is open is taken to the spool until its end is told.

use super::{Assembler, Phase, Start};
use crate::error::{Error, ErrorKind};
use crate::frames::Place;
use crate::look::{Fault, INSIDE, OUTSIDE, Seen, look, parse, pass_message, pass_row, unexpected};
use crate::relation::{Announce, Relations};
use crate::transaction::Transaction;
use crate::undecided::{Inside, Open, Undecided, read_origin};
use walrow_wire::{Lsn, Message, XLogData};

/// What ends the search.
pub(super) enum Found<'a> {
    SessionStart,
    ServerError,
    Committed,
    Message(Place<'a>, u64),
}

/// The first major version that sends a Prepare for a transaction that changed nothing.
const PREPARES_EMPTY: u32 = 18;

/// What a message outside transactions comes to.
enum Outside {
    Nothing,
    Message,
    Begin,
    Block,
    Committed(Box<Open>),
}

impl Assembler {
    pub(super) fn find<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<Found<'t>>, Error> {
        loop {
            if !self.frames.is_cut() {
                match self.phase {
                    Phase::Plain => return self.find_commit(input),
                    Phase::Inside => {
                        if !self.gather(input)? {
                            return Ok(None);
                        }
                        continue;
                    }
                    Phase::Between | Phase::Reading => {}
                }
            }
            let Some(taken) = self.frames.next(input)? else {
                return Ok(None);
            };
            let frame = match taken.place {
                Place::Input(frame) => frame,
                Place::Completed => self.frames.completed(),
            };
            let at = |fault: Fault| fault.at(&self.frames, taken.offset);
            match look(frame).map_err(at)? {
                Seen::Nothing => {}
                Seen::ServerVersion(major) => {
                    self.undecided.prepares_empty = major >= PREPARES_EMPTY;
                }
                Seen::SessionStart => {
                    self.drop_session();
                    return Ok(Some(Found::SessionStart));
                }
                Seen::ServerError(sqlstate) => {
                    self.sqlstate = sqlstate;
                    self.drop_open();
                    return Ok(Some(Found::ServerError));
                }
                Seen::Message(kind, data) => {
                    let fed = self.frames.fed(frame.len());
                    match self.phase {
                        Phase::Plain => {
                            let ends = inside_plain(
                                kind,
                                &data,
                                &mut self.transaction,
                                &mut self.undecided,
                            )
                            .map_err(at)?;
                            let spools = &mut self.undecided.spools;
                            let id = *self.plain.get_or_insert_with(|| spools.create());
                            spools
                                .append(id, frame, taken.offset, fed)
                                .map_err(|error| at(error.into()))?;
                            if ends {
                                self.committed_plain();
                                return Ok(Some(Found::Committed));
                            }
                        }
                        Phase::Inside => {
                            let undecided = &mut self.undecided;
                            let kept = undecided
                                .inside(kind, frame, &data, &mut self.relations)
                                .map_err(at)?;
                            match kept {
                                Inside::Keep => {
                                    undecided.keep(frame, taken.offset, fed).map_err(at)?;
                                }
                                Inside::End => self.phase = Phase::Between,
                            }
                        }
                        Phase::Between | Phase::Reading => {
                            let outside = outside(
                                &data,
                                &mut self.transaction,
                                &mut self.relations,
                                &mut self.undecided,
                                self.start,
                            );
                            match outside.map_err(at)? {
                                Outside::Begin => self.phase = Phase::Plain,
                                Outside::Block => self.phase = Phase::Inside,
                                Outside::Message => {
                                    return Ok(Some(Found::Message(taken.place, taken.offset)));
                                }
                                Outside::Committed(open) => {
                                    self.committed(*open);
                                    return Ok(Some(Found::Committed));
                                }
                                Outside::Nothing => {}
                            }
                        }
                    }
                }
            }
        }
    }

    /// Looks ahead for the plain transaction's Commit: the input is taken, and copied to the
    /// spool, only if it is not there or if the transaction began in an earlier block.
    fn find_commit<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<Found<'t>>, Error> {
        let start = *input;
        let mut rest = start;
        let mut fed = 0_u64;
        let taken = |rest: &'t [u8]| start.split_at(start.len().saturating_sub(rest.len())).0;
        loop {
            // Almost all frames of a transaction are its rows, and they are only counted.
            while let Some((size, behind)) = pass_message(rest) {
                if size > self.frames.limit() {
                    break;
                }
                fed = fed.saturating_add(self.frames.fed(size));
                rest = behind;
            }
            let offset = self.frames.offset().saturating_add(fed);
            let Some(size) = self.frames.peek(rest, offset)? else {
                self.spool_plain(taken(rest), fed)?;
                *input = rest;
                self.frames.keep(input);
                return Ok(None);
            };
            let (frame, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            let at = |fault: Fault| fault.at(&self.frames, offset);
            match look(frame).map_err(at)? {
                Seen::Nothing | Seen::ServerVersion(_) => {}
                Seen::SessionStart | Seen::ServerError(_) => {
                    // The transaction is cut off here; take the frame itself again.
                    self.drop_open();
                    self.frames.skip(fed);
                    *input = rest;
                    return self.find(input);
                }
                Seen::Message(kind, data) => {
                    if inside_plain(kind, &data, &mut self.transaction, &mut self.undecided)
                        .map_err(at)?
                    {
                        if self.plain.is_some() {
                            let fed = fed.saturating_add(self.frames.fed(size));
                            self.spool_plain(taken(behind), fed)?;
                            *input = behind;
                        }
                        self.committed_plain();
                        return Ok(Some(Found::Committed));
                    }
                }
            }
            fed = fed.saturating_add(self.frames.fed(size));
            rest = behind;
        }
    }

    fn spool_plain(&mut self, frames: &[u8], fed: u64) -> Result<(), Error> {
        let offset = self.frames.offset();
        let spools = &mut self.undecided.spools;
        let id = *self.plain.get_or_insert_with(|| spools.create());
        spools
            .append(id, frames, offset, fed)
            .map_err(|error| Fault::from(error).at(&self.frames, offset))?;
        self.frames.skip(fed);
        Ok(())
    }

    /// Takes the frames of the current block to the spool; whether its end was there.
    fn gather(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        loop {
            // Whole frames from `start` on are the transaction's, one after the other.
            let start = *input;
            let taken = |rest: &[u8]| start.split_at(start.len().saturating_sub(rest.len())).0;
            let mut rest = start;
            let mut fed = 0_u64;
            let offset = self.frames.offset();
            let undecided = &mut self.undecided;
            let (size, ended) = loop {
                if let Some(open) = undecided.current()
                    && let (Some(relation), streamed) = (open.relation, open.streamed)
                {
                    while let Some((size, behind)) = pass_row(rest, relation, streamed) {
                        if size > self.frames.limit() {
                            break;
                        }
                        fed = fed.saturating_add(self.frames.fed(size));
                        rest = behind;
                    }
                }
                let here = offset.saturating_add(fed);
                let Some(size) = self.frames.peek(rest, here)? else {
                    break (None, false);
                };
                let (frame, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
                let at = |fault: Fault| fault.at(&self.frames, here);
                match look(frame).map_err(at)? {
                    Seen::Nothing | Seen::ServerVersion(_) => break (Some(size), false),
                    Seen::SessionStart | Seen::ServerError(_) => {
                        // Cut off here; take the frame itself again.
                        *input = rest;
                        self.frames.skip(fed);
                        self.drop_open();
                        return Ok(true);
                    }
                    Seen::Message(kind, data) => {
                        // What ends the block is the last to be kept, while there is a current one.
                        if ends(kind) {
                            undecided.keep(taken(rest), offset, fed).map_err(at)?;
                            undecided
                                .inside(kind, frame, &data, &mut self.relations)
                                .map_err(at)?;
                            break (Some(size), true);
                        }
                        undecided
                            .inside(kind, frame, &data, &mut self.relations)
                            .map_err(at)?;
                    }
                }
                fed = fed.saturating_add(self.frames.fed(size));
                rest = behind;
            };
            if !ended {
                let at = |fault: Fault| fault.at(&self.frames, offset);
                undecided.keep(taken(rest), offset, fed).map_err(at)?;
            }
            self.frames.skip(fed);
            *input = rest;
            let Some(size) = size else {
                self.frames.keep(input);
                return Ok(false);
            };
            // What is no part of the transaction is passed over.
            self.frames.skip(self.frames.fed(size));
            *input = rest.split_at_checked(size).unwrap_or((rest, &[])).1;
            if ended {
                self.phase = Phase::Between;
                return Ok(true);
            }
        }
    }
}

/// Whether a message of this kind ends a block.
const fn ends(kind: u8) -> bool {
    matches!(kind, b'E' | b'P')
}

/// Looks at a message of the open plain transaction; whether it is its Commit.
#[inline]
fn inside_plain(
    kind: u8,
    data: &XLogData<'_>,
    transaction: &mut Transaction,
    undecided: &mut Undecided,
) -> Result<bool, Fault> {
    if matches!(kind, b'I' | b'U' | b'D' | b'T' | b'R' | b'Y' | b'M') {
        return Ok(false);
    }
    match parse(data, false)? {
        Message::Commit(commit) => {
            if commit.commit_lsn != transaction.commit_lsn {
                let begin = transaction.commit_lsn;
                return Err(
                    Fault::from(ErrorKind::CommitMismatch { begin }).near(commit.commit_lsn)
                );
            }
            transaction.end_lsn = commit.end_lsn;
            transaction.commit_time = commit.commit_time;
            Ok(true)
        }
        Message::Origin(origin) => {
            transaction.push_origin(read_origin(&origin)?);
            Ok(false)
        }
        // PostgreSQL 18 sends these for transactions of which it streamed nothing.
        Message::StreamAbort(abort) => {
            undecided.stream_abort(&abort);
            Ok(false)
        }
        other => Err(unexpected(other.name(), INSIDE).near(data.start)),
    }
}

/// Takes a message that stands outside transactions.
fn outside(
    data: &XLogData<'_>,
    transaction: &mut Transaction,
    relations: &mut Relations,
    undecided: &mut Undecided,
    start: Start,
) -> Result<Outside, Fault> {
    let near = |fault: Fault| Fault {
        lsn: fault
            .lsn
            .or_else(|| Some(data.start).filter(|lsn| lsn.is_valid())),
        ..fault
    };
    match parse(data, false)? {
        Message::Message(message) if start.has_delivered(message.lsn) && !message.transactional => {
        }
        Message::Message(_) => return Ok(Outside::Message),
        Message::Begin(begin) => {
            transaction.xid = begin.xid;
            transaction.commit_lsn = begin.final_lsn;
            transaction.commit_time = begin.commit_time;
            transaction.end_lsn = Lsn::INVALID;
            transaction.origins.clear();
            transaction.prepared = None;
            return Ok(Outside::Begin);
        }
        Message::Relation(relation) => relations.define(&relation, Announce::No)?,
        Message::Type(message) => relations.define_type(&message)?,
        Message::StreamStart(message) => {
            undecided.stream_start(message).map_err(near)?;
            return Ok(Outside::Block);
        }
        Message::StreamAbort(abort) => undecided.stream_abort(&abort),
        Message::StreamCommit(commit) => {
            if let Some(open) = undecided.stream_commit(&commit)? {
                return Ok(Outside::Committed(Box::new(open)));
            }
        }
        Message::StreamPrepare(prepare) => undecided.stream_prepare(&prepare)?,
        Message::BeginPrepare(begin) => {
            undecided.begin_prepare(&begin).map_err(near)?;
            return Ok(Outside::Block);
        }
        Message::CommitPrepared(commit) => {
            let delivered = start.has_delivered(commit.end_lsn);
            if let Some(open) = undecided.commit_prepared(&commit, delivered)? {
                return Ok(Outside::Committed(Box::new(open)));
            }
        }
        Message::Prepare(prepare) => undecided.prepare_empty(&prepare)?,
        Message::RollbackPrepared(rollback) => undecided.rollback_prepared(&rollback)?,
        other => return Err(unexpected(other.name(), OUTSIDE).near(data.start)),
    }
    Ok(Outside::Nothing)
}
