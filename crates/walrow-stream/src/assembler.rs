//! From bytes, cut anywhere, to committed transactions.
//!
//! An open transaction is nothing but its bytes. Where all of it lies in the block at hand it is
//! read from there; else what is there of it is copied to the spool until its Commit arrives:
//!
//! ```text
//! block 1                      block 2
//! ┌───────────────┬──────────┐ ┌──────────────┬─────────────┐
//! │ B I I I C     │ B I I I  │ │ I I C        │ B U C       │
//! └───────────────┴──────────┘ └──────────────┴─────────────┘
//!   read in place    └─ spool ◄────┘ read from the spool        read in place
//! ```
//! The search for the Commit looks at frame lengths and kind bytes only. A transaction's messages
//! are parsed, its relations defined and its rows handed out when it is known to be committed.

use crate::error::{Error, ErrorKind};
use crate::frames::{Frames, Place};
use crate::relation::{Relation, Relations};
use crate::transaction::{Change, Item, Message, Origin, Row, Transaction};
use std::sync::Arc;
use walrow_wire::{
    BackendMessage, CopyData, Frame, Framing, LogicalMessage, Lsn, Oid, OldTuple, Tuple, XLogData,
};

/// Turns a stream into the items of its committed transactions, in commit order.
///
/// Pushed bytes, pulled items: [`Assembler::next`] takes what it can from the front of the input
/// and hands out one item, or `None` when it needs more. The result never depends on where the
/// input is cut. After an error it refuses more input: every later call repeats the error.
#[derive(Debug, Default)]
pub struct Assembler {
    frames: Frames,
    phase: Phase,
    /// Whole frames of the transaction after its Begin, where they do not lie in the input.
    spool: Vec<u8>,
    /// Bytes before the spool's next unread frame, by the user's count.
    spool_offset: u64,
    transaction: Transaction,
    relations: Relations,
    /// The seq of the transaction's next change.
    seq: u64,
    sqlstate: String,
    failure: Option<Error>,
}

#[derive(Clone, Copy, Debug, Default)]
enum Phase {
    /// Outside transactions.
    #[default]
    Between,
    /// A Begin was read, its Commit was not: what was fed since is in the spool.
    Open,
    /// The Commit was found; the frames up to it lie at the front of the input.
    FromInput,
    /// The Commit was found; the spool's frames from `at` on are to be read.
    FromSpool { at: usize },
}

/// What a frame is to the search for a Commit.
enum Seen<'a> {
    /// Nothing: a keepalive, a notice.
    Nothing,
    /// A pgoutput message and its kind.
    Message(u8, XLogData<'a>),
    /// `W`
    SessionStart,
    /// `E`, with the SQLSTATE
    ServerError(String),
}

/// What ends the search.
enum Found<'a> {
    SessionStart,
    ServerError,
    Committed,
    Message(Place<'a>, u64),
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

    /// Bytes fed and consumed so far.
    pub const fn offset(&self) -> u64 {
        self.frames.offset()
    }

    /// Whether the input so far ends inside a frame or a transaction.
    pub const fn is_mid_transaction(&self) -> bool {
        self.frames.is_cut() || !matches!(self.phase, Phase::Between)
    }

    /// Begins a new server session: what was open and all relations are dropped.
    ///
    /// A `W` frame does the same; call it where a session's bytes begin without one, as at the
    /// start of another file.
    pub fn new_session(&mut self) {
        self.frames.drop_partial();
        self.drop_session();
    }

    fn drop_session(&mut self) {
        self.drop_open();
        self.relations.clear();
    }

    fn drop_open(&mut self) {
        self.phase = Phase::Between;
        if self.spool.capacity() > SPOOL_KEPT {
            self.spool = Vec::new();
        }
        self.spool.clear();
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
        match self.phase {
            Phase::FromInput | Phase::FromSpool { .. } => self.read(input),
            Phase::Between | Phase::Open => self.search(input),
        }
    }

    /// Looks for the next committed transaction, or for what stands between transactions.
    fn search<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Result<Option<Item<'t>>, Error> {
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let found = match self.find(input) {
            Ok(found) => found,
            Err(error) => return Err(self.fail(error)),
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
                match message_item(frame, 0, OUTSIDE) {
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

    fn find<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<Found<'t>>, Error> {
        loop {
            if matches!(self.phase, Phase::Open) && !self.frames.is_cut() {
                return self.find_commit(input);
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
                    if matches!(self.phase, Phase::Open) {
                        let ends = inside(kind, &data, &mut self.transaction).map_err(at)?;
                        if self.spool.is_empty() {
                            self.spool_offset = taken.offset;
                        }
                        self.spool.extend_from_slice(frame);
                        if ends {
                            self.phase = Phase::FromSpool { at: 0 };
                            return Ok(Some(Found::Committed));
                        }
                        continue;
                    }
                    match outside(kind, &data, &mut self.transaction, &mut self.relations)
                        .map_err(at)?
                    {
                        Outside::Begin => self.phase = Phase::Open,
                        Outside::Message => {
                            return Ok(Some(Found::Message(taken.place, taken.offset)));
                        }
                        Outside::Nothing => {}
                    }
                }
            }
        }
    }

    /// Looks ahead for the open transaction's Commit: the input is taken, and copied to the
    /// spool, only if it is not there or if the transaction began in an earlier block.
    fn find_commit<'t>(&mut self, input: &mut &'t [u8]) -> Result<Option<Found<'t>>, Error> {
        let start = *input;
        let mut rest = start;
        let mut fed = 0_u64;
        let taken = |rest: &'t [u8]| start.split_at(start.len().saturating_sub(rest.len())).0;
        loop {
            // Almost all frames of a transaction are its rows, and they are only counted.
            while let Some((size, behind)) = pass_row(rest) {
                fed = fed.saturating_add(self.frames.fed(size));
                rest = behind;
            }
            let offset = self.frames.offset().saturating_add(fed);
            let size = match Frame::parse(rest) {
                Ok(Some((_, size))) => size,
                Ok(None) => {
                    self.spool_up(taken(rest), fed);
                    *input = rest;
                    self.frames.keep(input);
                    return Ok(None);
                }
                Err(error) => return Err(self.frames.error(error, offset)),
            };
            let (frame, behind) = rest.split_at_checked(size).unwrap_or((rest, &[]));
            let at = |fault: Fault| fault.at(&self.frames, offset);
            match look(frame).map_err(at)? {
                Seen::Nothing => {}
                Seen::SessionStart | Seen::ServerError(_) => {
                    // The transaction is cut off here; take the frame itself again.
                    self.drop_open();
                    self.frames.skip(fed);
                    *input = rest;
                    return self.find(input);
                }
                Seen::Message(kind, data) => {
                    if inside(kind, &data, &mut self.transaction).map_err(at)? {
                        if self.spool.is_empty() {
                            self.phase = Phase::FromInput;
                        } else {
                            let fed = fed.saturating_add(self.frames.fed(size));
                            self.spool_up(taken(behind), fed);
                            *input = behind;
                            self.phase = Phase::FromSpool { at: 0 };
                        }
                        return Ok(Some(Found::Committed));
                    }
                }
            }
            fed = fed.saturating_add(self.frames.fed(size));
            rest = behind;
        }
    }

    fn spool_up(&mut self, frames: &[u8], fed: u64) {
        if self.spool.is_empty() {
            self.spool_offset = self.frames.offset();
        }
        self.spool.extend_from_slice(frames);
        self.frames.skip(fed);
    }

    /// Hands out the next item of the committed transaction.
    #[inline]
    fn read<'t, 'i: 't>(&'t mut self, input: &mut &'i [u8]) -> Result<Option<Item<'t>>, Error> {
        // Frames that are no item are dealt with in this loop; one that is ends it.
        let (place, offset) = loop {
            let (place, offset) = match self.phase {
                Phase::FromSpool { at } => {
                    let spool = self.spool.get(at..).unwrap_or_default();
                    let size = Frame::size(spool).ok().flatten().unwrap_or(spool.len());
                    let offset = self.spool_offset;
                    self.spool_offset = offset.saturating_add(self.frames.fed(size));
                    let end = at.saturating_add(size);
                    self.phase = Phase::FromSpool { at: end };
                    (Source::Spool { at, end }, offset)
                }
                _ => match self.frames.next(input) {
                    Ok(None) => return Ok(None),
                    Ok(Some(taken)) => match taken.place {
                        Place::Input(frame) => (Source::Input(frame), taken.offset),
                        Place::Completed => (Source::Completed, taken.offset),
                    },
                    Err(error) => return Err(self.fail(error)),
                },
            };
            let frame = match place {
                Source::Input(frame) => frame,
                Source::Completed => self.frames.completed(),
                Source::Spool { at, end } => self.spool.get(at..end).unwrap_or_default(),
            };
            match kind_of(frame) {
                Some(b'I' | b'U' | b'D' | b'T' | b'M') => break (place, offset),
                Some(b'C') => {
                    self.drop_open();
                    return Ok(Some(Item::Commit(&self.transaction)));
                }
                Some(b'R' | b'Y') => {
                    if let Err(fault) = define(frame, &mut self.relations) {
                        let error = fault.at(&self.frames, offset);
                        return Err(self.fail(error));
                    }
                }
                _ => {}
            }
        };
        let frame = match place {
            Source::Input(frame) => frame,
            Source::Completed => self.frames.completed(),
            Source::Spool { at, end } => self.spool.get(at..end).unwrap_or_default(),
        };
        match row_item(frame, offset, &mut self.seq, &mut self.relations) {
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
}

/// A spool of this size is kept for the next transaction; a larger one gives its memory back.
const SPOOL_KEPT: usize = 1 << 20;

/// Where the frame being read lies.
#[derive(Clone, Copy)]
enum Source<'a> {
    Input(&'a [u8]),
    Completed,
    Spool { at: usize, end: usize },
}

/// A fault inside one frame.
#[derive(Debug)]
struct Fault {
    kind: ErrorKind,
    lsn: Option<Lsn>,
}

impl From<ErrorKind> for Fault {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, lsn: None }
    }
}

impl From<walrow_wire::Error> for Fault {
    fn from(error: walrow_wire::Error) -> Self {
        ErrorKind::Wire(error).into()
    }
}

impl Fault {
    fn near(mut self, lsn: Lsn) -> Self {
        self.lsn = Some(lsn).filter(|lsn| lsn.is_valid());
        self
    }

    /// The fault of the frame at `offset`.
    #[cold]
    fn at(self, frames: &Frames, offset: u64) -> Error {
        let lsn = self.lsn;
        match self.kind {
            ErrorKind::Wire(error) => Error {
                lsn,
                ..frames.error(error, offset)
            },
            kind => Error { kind, offset, lsn },
        }
    }
}

const INSIDE: &str = "inside a transaction";
const OUTSIDE: &str = "outside a transaction";

/// The size of the first frame if it is a whole one with a message that only a committed
/// transaction's reader looks into, and what lies behind it.
#[inline]
fn pass_row(input: &[u8]) -> Option<(usize, &[u8])> {
    let [b'd', l0, l1, l2, l3, b'w', .., kind] = input.first_chunk::<KIND>()? else {
        return None;
    };
    if !matches!(kind, b'I' | b'U' | b'D' | b'T' | b'R' | b'Y' | b'M') {
        return None;
    }
    let size = (u32::from_be_bytes([*l0, *l1, *l2, *l3]) as usize).checked_add(1)?;
    // A frame that claims less than its own header is left to the parser.
    if size < KIND {
        return None;
    }
    Some((size, input.split_at_checked(size)?.1))
}

/// Bytes of a frame up to the message's kind, included.
const KIND: usize = Frame::HEADER
    .saturating_add(XLogData::HEADER)
    .saturating_add(1);

/// The kind byte of the pgoutput message in a frame.
#[inline]
fn kind_of(frame: &[u8]) -> Option<u8> {
    match (frame.first(), frame.get(Frame::HEADER)) {
        (Some(b'd'), Some(b'w')) => frame
            .get(Frame::HEADER.saturating_add(XLogData::HEADER))
            .copied(),
        _ => None,
    }
}

/// The payload of a frame whose kind is known.
#[inline]
fn data_of(frame: &[u8]) -> Result<XLogData<'_>, walrow_wire::Error> {
    let payload = frame.get(Frame::HEADER..).unwrap_or_default();
    match CopyData::parse(payload).map_err(|error| error.at(Frame::HEADER))? {
        CopyData::XLogData(data) => Ok(data),
        // No caller asks for anything else; its message is empty and will not parse.
        _ => Ok(XLogData {
            start: Lsn(0),
            end: Lsn(0),
            clock: walrow_wire::Timestamp(0),
            message: &[],
        }),
    }
}

/// Parses the message of a plain stream; errors count from the frame and know the LSN.
#[inline]
fn parse<'a>(data: &XLogData<'a>) -> Result<walrow_wire::Message<'a>, Fault> {
    data.message(false)
        .map_err(|error| Fault::from(error.at(Frame::HEADER)).near(data.start))
}

#[inline]
fn look(frame: &[u8]) -> Result<Seen<'_>, Fault> {
    if let Some(kind) = kind_of(frame) {
        return Ok(Seen::Message(kind, data_of(frame)?));
    }
    let [tag, _, _, _, _, body @ ..] = frame else {
        return Ok(Seen::Nothing);
    };
    Ok(match BackendMessage::parse(Frame { tag: *tag, body })? {
        BackendMessage::CopyBothResponse(_) => Seen::SessionStart,
        BackendMessage::ErrorResponse(fields) => Seen::ServerError(
            fields
                .get(b'C')
                .map_or_else(String::new, |sqlstate| sqlstate.to_string()),
        ),
        // No message, not even a kind: the parse says so.
        BackendMessage::CopyData(CopyData::XLogData(data)) => {
            parse(&data)?;
            Seen::Nothing
        }
        BackendMessage::CopyData(CopyData::StandbyStatusUpdate(_)) => {
            return Err(unexpected("Standby status update", FROM_SERVER));
        }
        BackendMessage::CopyData(CopyData::HotStandbyFeedback(_)) => {
            return Err(unexpected("Hot standby feedback", FROM_SERVER));
        }
        _ => Seen::Nothing,
    })
}

const FROM_SERVER: &str = "in what the server sent";

#[cold]
fn unexpected(message: &'static str, place: &'static str) -> Fault {
    ErrorKind::UnexpectedMessage { message, place }.into()
}

/// Looks at a message of the open transaction; whether it is its Commit.
#[inline]
fn inside(kind: u8, data: &XLogData<'_>, transaction: &mut Transaction) -> Result<bool, Fault> {
    if matches!(kind, b'I' | b'U' | b'D' | b'T' | b'R' | b'Y' | b'M') {
        return Ok(false);
    }
    match parse(data)? {
        walrow_wire::Message::Commit(commit) => {
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
        walrow_wire::Message::Origin(origin) => {
            let name = origin.name.to_str().map_err(|_| {
                Fault::from(ErrorKind::InvalidUtf8 {
                    message: "Origin",
                    field: "origin name",
                })
            })?;
            transaction.origins.push(Origin {
                name: name.to_owned(),
                commit_lsn: origin.commit_lsn,
            });
            Ok(false)
        }
        // PostgreSQL 18 sends these for transactions of which it streamed nothing.
        walrow_wire::Message::StreamAbort(_) => Ok(false),
        other => Err(unexpected(other.name(), INSIDE).near(data.start)),
    }
}

enum Outside {
    Begin,
    Message,
    Nothing,
}

/// Takes a message that stands outside transactions.
fn outside(
    kind: u8,
    data: &XLogData<'_>,
    transaction: &mut Transaction,
    relations: &mut Relations,
) -> Result<Outside, Fault> {
    if kind == b'M' {
        return Ok(Outside::Message);
    }
    let message = parse(data)?;
    let option = match message {
        walrow_wire::Message::Begin(begin) => {
            transaction.xid = begin.xid;
            transaction.commit_lsn = begin.final_lsn;
            transaction.commit_time = begin.commit_time;
            transaction.end_lsn = Lsn::INVALID;
            transaction.origins.clear();
            return Ok(Outside::Begin);
        }
        walrow_wire::Message::Relation(relation) => {
            relations.define(&relation)?;
            return Ok(Outside::Nothing);
        }
        walrow_wire::Message::Type(message) => {
            relations.define_type(&message)?;
            return Ok(Outside::Nothing);
        }
        // PostgreSQL 18 sends these for transactions of which it streamed nothing.
        walrow_wire::Message::StreamAbort(_) => return Ok(Outside::Nothing),
        walrow_wire::Message::StreamStart(_)
        | walrow_wire::Message::StreamStop
        | walrow_wire::Message::StreamCommit(_)
        | walrow_wire::Message::StreamPrepare(_) => "streaming 'off'",
        walrow_wire::Message::BeginPrepare(_)
        | walrow_wire::Message::Prepare(_)
        | walrow_wire::Message::CommitPrepared(_)
        | walrow_wire::Message::RollbackPrepared(_) => "two_phase 'off'",
        other => return Err(unexpected(other.name(), OUTSIDE).near(data.start)),
    };
    Err(Fault::from(ErrorKind::NotYet {
        message: message.name(),
        option,
    })
    .near(data.start))
}

fn define(frame: &[u8], relations: &mut Relations) -> Result<(), Fault> {
    match parse(&data_of(frame)?)? {
        walrow_wire::Message::Relation(relation) => Ok(relations.define(&relation)?),
        walrow_wire::Message::Type(message) => Ok(relations.define_type(&message)?),
        other => Err(unexpected(other.name(), INSIDE)),
    }
}

fn message_item<'a>(frame: &'a [u8], seq: u64, place: &'static str) -> Result<Message<'a>, Fault> {
    let data = data_of(frame)?;
    match parse(&data)? {
        walrow_wire::Message::Message(message) if place == OUTSIDE && message.transactional => {
            Err(unexpected("Message (transactional)", place).near(data.start))
        }
        walrow_wire::Message::Message(message) => logical_message(&message, seq),
        other => Err(unexpected(other.name(), place).near(data.start)),
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
    offset: u64,
    seq: &mut u64,
    relations: &'a mut Relations,
) -> Result<Item<'a>, Fault> {
    let data = data_of(frame)?;
    let (relation, row) = match parse(&data)? {
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
            let mut truncated = Vec::new();
            for oid in truncate.relations() {
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
