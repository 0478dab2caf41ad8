//! The search for committed transactions.
//!
//! Rows have no effect before their transaction's commit, so the search comes first and reads as
//! little as possible: the length of each frame and the kind of its message. It takes one step per
//! frame ([`Session::step`]), whether the frame is in the input or was assembled from pieces of it.
//! Rows that cannot change the result take no step: [`Run::pass_rows`] skips them.
//!
//! ```text
//!          Begin                        Commit
//!   ┌──────────────────► Plain ──────────────────────────┐
//!   │                                                    ▼
//! Between ◄────────────────────────────────────────── Reading
//!   │ ▲  Stream Commit, Commit Prepared                  ▲
//!   │ │────────────────────────────────────────────────► ┘
//!   │ └───────────────── Block
//!   │  Stream Stop,        ▲
//!   └──────────────────────┘ Prepare
//!     Stream Start, Begin Prepare
//! ```
//!
//! Frames that belong to an open transaction form a *run*: bytes of the input that were searched,
//! but not yet taken.
//!
//! ```text
//!         run.start               run.rest
//!         ▼                       ▼
//! ────────┬────┬────┬────┬────────┬────┬────┬───
//!  B      │ I  │ I  │ U  │  …     │ C  │    │     the input
//! ────────┴────┴────┴────┴────────┴────┴────┴───
//! ```
//!
//! The end of a run decides from where its frames are read:
//! - at the Commit, if the whole transaction is in this input: the run is read from the input. No
//!   bytes are copied.
//! - at the end of the input or of a block, or at a frame that belongs to no block: the run goes to
//!   the spool, in one piece.
//! - at the Commit of a transaction that is already in the spool: the run goes there too, and is
//!   read from there.
//! - at a session start or a server error: the run is dropped.

use super::reading::{Reading, Spooling};
use super::session::Session;
use crate::error::{Error, ErrorKind, Fault, MessagePlace};
use crate::frames::{Frames, Place, Span};
use crate::relation::Announce;
use crate::spool::{SpoolId, SpoolReader};
use crate::transaction::{Prepared, Transaction};
use crate::undecided::{Open, read_origin, read_prepare, read_stream_prepare};
use walrow_wire::{
    BackendMessage, Begin, Commit, CopyData, Frame, Kind, Message, Peek, PgString, Xid,
};

/// The state of the search.
#[derive(Debug, Default)]
pub(super) enum Search {
    /// Outside transactions.
    #[default]
    Between,
    /// After a Begin, before its Commit. The part before this input is in the spool.
    Plain(Option<SpoolId>),
    /// Between Stream Start and Stream Stop, or between Begin Prepare and Prepare.
    Block(Box<Open>),
}

/// The result of the search.
pub(super) enum Found<'i> {
    SessionStart,
    ServerError,
    /// A transaction was prepared.
    Prepared,
    /// A committed transaction.
    Committed(Reading),
    /// A logical message outside transactions, and where its frame begins in the stream.
    Message(Place<'i>, u64),
}

/// The meaning of a frame for the search.
enum Step {
    /// It belongs to the open transaction.
    Keep,
    /// It belongs to no transaction, or was used completely.
    Pass,
    SessionStart,
    ServerError,
    Prepared,
    Message,
    /// The Commit of the plain transaction, and the part of it that is in the spool.
    Commit(Option<SpoolId>),
    /// A Stream Commit or Commit Prepared.
    CommitOf(Box<Open>),
}

/// The first major version that sends a Prepare for a transaction without changes.
const PREPARES_EMPTY: u32 = 18;

/// How many bytes ahead of the current frame the search reads memory. Each frame's length gives the
/// start of the next frame. Without reading ahead, each load waits for the previous load.
const AHEAD: usize = 1024;
const CACHE_LINE: usize = 64;

/// Frames at the front of the input that were searched, but not taken.
struct Run<'i> {
    start: &'i [u8],
    rest: &'i [u8],
    fed: u64,
}

impl<'i> Run<'i> {
    const fn new(input: &'i [u8]) -> Self {
        Self {
            start: input,
            rest: input,
            fed: 0,
        }
    }

    #[inline]
    const fn push(&mut self, behind: &'i [u8], fed: u64) {
        self.rest = behind;
        self.fed = self.fed.saturating_add(fed);
    }

    fn frames(&self) -> &'i [u8] {
        let size = self.start.len().saturating_sub(self.rest.len());
        self.start.get(..size).unwrap_or_default()
    }

    /// Adds frames that the search does not need to parse. Returns the first other frame and the
    /// bytes after it, if it is a whole message.
    #[inline]
    fn pass_rows(&mut self, search: &Search, frames: &Frames) -> Option<(Peek<'i>, &'i [u8])> {
        let front = match search {
            Search::Plain(_) => self.pass_while(frames, |peek| peek.kind().carries_xid()),
            // A row of another relation may use a version that the transaction must keep.
            Search::Block(open) if let Some(relation) = open.relation => {
                self.pass_while(frames, |peek| {
                    let row = peek.row(open.streamed);
                    row.is_some_and(|row| row.relation() == relation)
                })
            }
            Search::Between | Search::Block(_) => Peek::split(self.rest),
        };
        front.filter(|(peek, _)| peek.size() <= frames.limit())
    }

    #[inline]
    fn pass_while(
        &mut self,
        frames: &Frames,
        belongs: impl Fn(&Peek<'_>) -> bool,
    ) -> Option<(Peek<'i>, &'i [u8])> {
        let passed = pass_while(self.rest, frames.limit(), belongs);
        let bytes = self.rest.len().saturating_sub(passed.rest.len());
        self.fed = self.fed.saturating_add(frames.fed_of(passed.frames, bytes));
        self.rest = passed.rest;
        passed.front
    }
}

/// Frames at the front of the input that were passed.
struct Passed<'i> {
    /// Their number.
    frames: usize,
    /// The input after them.
    rest: &'i [u8],
    /// The frame after them and the input after that, if it is a whole message.
    front: Option<(Peek<'i>, &'i [u8])>,
}

/// Passes the frames at the front of the input that belong to something.
#[inline]
fn pass_while(input: &[u8], limit: usize, belongs: impl Fn(&Peek<'_>) -> bool) -> Passed<'_> {
    let (mut rest, mut frames, mut touched) = (input, 0_usize, 0);
    let front = loop {
        let Some((peek, behind)) = Peek::split(rest) else {
            break None;
        };
        if !belongs(&peek) || peek.size() > limit {
            break Some((peek, behind));
        }
        if let Some([one, .., other]) = rest.get(AHEAD..=AHEAD.saturating_add(CACHE_LINE)) {
            touched ^= one ^ other;
        }
        frames = frames.wrapping_add(1);
        rest = behind;
    };
    std::hint::black_box(touched);
    Passed {
        frames,
        rest,
        front,
    }
}

/// The Begin and the Commit of a plain transaction that lies at the front of the input as a whole,
/// and the input after its Begin.
///
/// Nearly all transactions do. For all others, [`Searcher`] searches the same frames again.
#[inline]
pub(super) fn whole_transaction(input: &[u8], limit: usize) -> Option<(Begin, Commit, &[u8])> {
    let (first, rows) = Peek::split(input)?;
    let begin = first.begin()?;
    let (last, _) = pass_while(rows, limit, |peek| peek.kind().carries_xid()).front?;
    let commit = last.commit()?;
    let is_whole = commit.commit_lsn == begin.final_lsn && first.size().max(last.size()) <= limit;
    is_whole.then_some((begin, commit, rows))
}

/// The state that the search changes.
pub(super) struct Searcher<'s> {
    pub(super) frames: &'s mut Frames,
    pub(super) session: &'s mut Session,
    pub(super) search: &'s mut Search,
}

impl Searcher<'_> {
    pub(super) fn find<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Found<'i>>, Error> {
        while !self.frames.is_clear() {
            let place = match self.frames.front(input)? {
                None => return Ok(None),
                // The held frame was already taken. The next frame is in the input.
                Some(Place::Input(_)) => break,
                Some(place) => place,
            };
            if let Some(found) = self.step_completed(place, input)? {
                return Ok(Some(found));
            }
        }
        self.find_in(input)
    }

    /// Takes a frame that was assembled from pieces. Its transaction cannot be read from the input
    /// alone.
    #[inline(never)]
    fn step_completed<'i>(
        &mut self,
        place: Place<'i>,
        input: &mut &[u8],
    ) -> Result<Option<Found<'i>>, Error> {
        let span = self.span(self.frames.completed().len());
        let frame = self.frames.completed();
        if self.session.begins_unmarked(self.search, frame) {
            return Ok(Some(Found::SessionStart));
        }
        let at = |fault: Fault| fault.at(self.frames, span.offset);
        let step = match Peek::new(frame) {
            Some(peek) => self.session.step(self.search, peek),
            None => self.session.step_server(self.search, frame),
        };
        let step = step.map_err(at)?;
        if let Step::Keep = step {
            self.session.spool(self.search, frame, span).map_err(at)?;
        }
        self.frames.take(place, input);
        Ok(self.found(step, place, span.offset))
    }

    fn find_in<'i>(&mut self, input: &mut &'i [u8]) -> Result<Option<Found<'i>>, Error> {
        let mut run = Run::new(input);
        loop {
            let front = run.pass_rows(self.search, self.frames);
            let offset = self.frames.offset().saturating_add(run.fed);
            let (frame, behind, step) = if let Some((peek, behind)) = front {
                if self.search.ends_with(&peek) {
                    self.spool(&run)?;
                    run = Run::new(run.rest);
                }
                let step = self.session.step(self.search, peek);
                (peek.frame(), behind, step)
            } else {
                let Some(size) = self.frames.size(run.rest, offset)? else {
                    self.spool(&run)?;
                    *input = run.rest;
                    // The frame is cut, so this takes the rest of the input.
                    self.frames.front(input)?;
                    return Ok(None);
                };
                let (frame, behind) = run.rest.split_at_checked(size).unwrap_or((run.rest, &[]));
                (frame, behind, self.session.step_server(self.search, frame))
            };
            let fed = self.frames.fed(frame.len());
            match step.map_err(|fault| fault.at(self.frames, offset))? {
                Step::Keep => run.push(behind, fed),
                Step::Pass => {
                    self.spool(&run)?;
                    self.frames.skip(fed);
                    run = Run::new(behind);
                }
                Step::Commit(None) => {
                    *input = run.start;
                    return Ok(Some(Found::Committed(Reading::default())));
                }
                step => {
                    match step {
                        Step::SessionStart | Step::ServerError => self.frames.skip(run.fed),
                        _ => self.spool(&run)?,
                    }
                    self.frames.skip(fed);
                    *input = behind;
                    return Ok(self.found(step, Place::Input(frame), offset));
                }
            }
        }
    }

    /// The result of a step whose frame was taken.
    #[inline(never)]
    fn found<'i>(&mut self, step: Step, place: Place<'i>, offset: u64) -> Option<Found<'i>> {
        let framing = self.frames.framing();
        Some(match step {
            Step::Keep | Step::Pass => return None,
            Step::SessionStart => Found::SessionStart,
            Step::ServerError => Found::ServerError,
            Step::Prepared => Found::Prepared,
            Step::Message => Found::Message(place, offset),
            Step::Commit(id) => {
                let spools = &mut self.session.undecided.spools;
                // Without an ID, no frames came between its Begin and this frame.
                let spooled = id.map(|id| spools.take(id)).unwrap_or_default();
                Found::Committed(Reading::of(Spooling {
                    reader: SpoolReader::new(spooled, framing),
                    ..Spooling::default()
                }))
            }
            Step::CommitOf(open) => Found::Committed(self.session.enter(*open, framing)),
        })
    }

    fn span(&self, size: usize) -> Span {
        Span {
            offset: self.frames.offset(),
            fed: self.frames.fed(size),
        }
    }

    /// Moves the run to the spool of the open transaction.
    #[inline]
    fn spool(&mut self, run: &Run<'_>) -> Result<(), Error> {
        let frames = run.frames();
        if frames.is_empty() {
            return Ok(());
        }
        self.spool_frames(frames, run.fed)
    }

    #[inline(never)]
    fn spool_frames(&mut self, frames: &[u8], fed: u64) -> Result<(), Error> {
        let span = Span {
            offset: self.frames.offset(),
            fed,
        };
        self.session
            .spool(self.search, frames, span)
            .map_err(|fault| fault.at(self.frames, span.offset))?;
        self.frames.skip(fed);
        Ok(())
    }
}

impl Search {
    /// Whether the message ends the block.
    fn ends_with(&self, peek: &Peek<'_>) -> bool {
        matches!(self, Self::Block(_)) && peek.kind().ends_block()
    }
}

impl Session {
    pub(super) fn drop_all(&mut self, search: &mut Search) {
        self.drop_open(search);
        self.relations.clear();
    }

    pub(super) fn drop_open(&mut self, search: &mut Search) {
        self.undecided.drop_open();
        match std::mem::take(search) {
            Search::Between => {}
            Search::Plain(id) => {
                self.interrupt();
                if let Some(id) = id {
                    self.undecided.spools.remove(id);
                }
            }
            Search::Block(open) => self.undecided.spools.remove(open.spool),
        }
    }
}

impl Session {
    /// Takes note of the open plain transaction, unless it was delivered before.
    fn interrupt(&mut self) {
        let Transaction {
            xid, commit_lsn, ..
        } = self.transaction;
        let came_before = match &self.unmarked {
            Some(unmarked) => unmarked.has_returned(xid, commit_lsn),
            None => self.interrupted.has_passed(commit_lsn),
        };
        // A transaction ends after its commit LSN.
        if !came_before && commit_lsn >= self.start.0 {
            self.interrupted.add(xid, commit_lsn);
        }
    }

    /// Takes one message.
    #[inline]
    fn step(&mut self, search: &mut Search, peek: Peek<'_>) -> Result<Step, Fault> {
        match search {
            Search::Between if let Some(begin) = peek.begin() => {
                self.transaction.restart(begin);
                *search = Search::Plain(None);
                Ok(Step::Pass)
            }
            Search::Plain(id)
                if let Some(commit) = peek.commit()
                    && commit.commit_lsn == self.transaction.commit_lsn =>
            {
                self.transaction.end_lsn = commit.end_lsn;
                self.transaction.commit_time = commit.commit_time;
                Ok(Step::Commit(*id))
            }
            _ => self.step_further(search, peek),
        }
    }

    /// Takes a message that is neither the Begin of a plain transaction nor its Commit.
    #[inline(never)]
    fn step_further(&mut self, search: &mut Search, peek: Peek<'_>) -> Result<Step, Fault> {
        let peek = &peek;
        match search {
            Search::Between => self.step_between(search, peek),
            Search::Plain(_) if let Some(commit) = peek.commit() => {
                let begin = self.transaction.commit_lsn;
                let fault = Fault::from(ErrorKind::CommitMismatch { begin });
                Err(fault.near(commit.commit_lsn))
            }
            Search::Plain(_) if peek.kind().carries_xid() => Ok(Step::Keep),
            Search::Plain(_) => self.step_plain(peek),
            Search::Block(_) if peek.kind().ends_block() => {
                if let Search::Block(open) = std::mem::take(search) {
                    return self.end_block(open, peek);
                }
                Ok(Step::Pass)
            }
            Search::Block(open) => self.step_block(open, peek),
        }
    }

    /// Takes a frame without a pgoutput message.
    #[cold]
    fn step_server(&mut self, search: &mut Search, frame: &[u8]) -> Result<Step, Fault> {
        let Some(frame) = Frame::new(frame) else {
            return Ok(Step::Pass);
        };
        match BackendMessage::parse(frame)? {
            BackendMessage::CopyBothResponse(_) => {
                self.drop_all(search);
                return Ok(Step::SessionStart);
            }
            BackendMessage::ErrorResponse(fields) => {
                let sqlstate = fields.sqlstate();
                self.sqlstate = sqlstate.map_or_else(String::new, |it| it.to_string());
                self.drop_open(search);
                return Ok(Step::ServerError);
            }
            BackendMessage::ParameterStatus(status)
                if status.name == PgString(b"client_encoding") =>
            {
                let has_open = !matches!(search, Search::Between) || self.undecided.has_any();
                self.relations.report(status.value, has_open)?;
            }
            BackendMessage::ParameterStatus(status)
                if status.name == PgString(b"server_version") =>
            {
                let version = status.value.to_str().unwrap_or_default();
                let digits = version.split(|it: char| !it.is_ascii_digit()).next();
                let major: Option<u32> = digits.and_then(|digits| digits.parse().ok());
                if let Some(major) = major {
                    self.undecided.prepares_empty = major >= PREPARES_EMPTY;
                }
            }
            // The data have no message of a known kind: parsing returns the error.
            BackendMessage::CopyData(CopyData::XLogData(data)) => {
                let parsed = data.message(false);
                parsed.map_err(|error| Fault::from(error.at(Frame::HEADER)).near(data.start))?;
            }
            BackendMessage::CopyData(CopyData::StandbyStatusUpdate(_)) => {
                return Err(Fault::unexpected(
                    "Standby status update",
                    MessagePlace::FromServer,
                ));
            }
            BackendMessage::CopyData(CopyData::HotStandbyFeedback(_)) => {
                return Err(Fault::unexpected(
                    "Hot standby feedback",
                    MessagePlace::FromServer,
                ));
            }
            _ => {}
        }
        // A plain transaction may be read from the input, and then its frames include such frames.
        Ok(match search {
            Search::Plain(_) => Step::Keep,
            Search::Between | Search::Block(_) => Step::Pass,
        })
    }

    /// Takes a message outside transactions, except a valid Begin.
    fn step_between(&mut self, search: &mut Search, peek: &Peek<'_>) -> Result<Step, Fault> {
        let near = |fault: Fault| fault.or_near(peek.start());
        let message = parse(peek, false)?;
        if self.is_after_end(&message) {
            return Ok(Step::Pass);
        }
        let Self {
            undecided,
            relations,
            start,
            unmarked,
            ..
        } = self;
        match message {
            Message::Message(message)
                // walrow's own facts have no LSN.
                if !message.transactional
                    && message.lsn.is_valid()
                    && (start.has_delivered(message.lsn)
                        || unmarked
                            .as_mut()
                            .is_some_and(|it| it.repeats(0, message.lsn))) => {}
            Message::Message(_) => return Ok(Step::Message),
            Message::Relation(relation) => relations.define(&relation, Announce::No)?,
            Message::Type(message) => relations.define_type(&message)?,
            Message::StreamStart(message) => {
                *search = Search::Block(undecided.stream_start(message).map_err(near)?);
            }
            Message::StreamAbort(abort) => undecided.stream_abort(&abort, peek.start()),
            Message::StreamCommit(commit) => {
                if let Some(open) = undecided.stream_commit(&commit)? {
                    return Ok(Step::CommitOf(open));
                }
            }
            Message::StreamPrepare(prepare) => {
                let promotions = undecided.stream_prepare(&prepare)?;
                relations.prepare(&promotions).map_err(near)?;
                return Ok(self.tell(prepare.xid, read_stream_prepare(&prepare)?));
            }
            Message::BeginPrepare(begin) => {
                *search = Search::Block(undecided.begin_prepare(&begin).map_err(near)?);
            }
            Message::CommitPrepared(commit) => {
                let repeated = unmarked
                    .as_ref()
                    .is_some_and(|it| it.has_returned(commit.xid, commit.commit_lsn));
                let delivered = repeated || start.has_delivered(commit.end_lsn);
                if let Some(open) = undecided.commit_prepared(&commit, delivered)? {
                    return Ok(Step::CommitOf(open));
                }
                // The commit came again, without its rows.
                self.commits(commit.xid, commit.commit_lsn, !repeated);
            }
            Message::Prepare(prepare) => {
                undecided.prepare_empty(&prepare)?;
                return Ok(self.tell(prepare.xid, read_prepare(&prepare)?));
            }
            Message::RollbackPrepared(rollback) => undecided.rollback_prepared(&rollback)?,
            other => return Err(near(Fault::unexpected(other.name(), MessagePlace::Outside))),
        }
        Ok(Step::Pass)
    }

    /// Takes a message of the plain transaction that is not a change, a definition or a valid
    /// Commit.
    fn step_plain(&mut self, peek: &Peek<'_>) -> Result<Step, Fault> {
        match parse(peek, false)? {
            Message::Origin(origin) => self.transaction.push_origin(read_origin(&origin)?),
            // PostgreSQL 18 also sends this message for transactions that it never streamed.
            Message::StreamAbort(abort) => self.undecided.stream_abort(&abort, peek.start()),
            other => {
                return Err(
                    Fault::unexpected(other.name(), MessagePlace::Inside).near(peek.start())
                );
            }
        }
        Ok(Step::Keep)
    }

    /// Takes a message of the open block.
    fn step_block(&mut self, open: &mut Open, peek: &Peek<'_>) -> Result<Step, Fault> {
        let relations = &mut self.relations;
        if let Some(row) = peek.row(open.streamed) {
            open.uses(row.relation(), relations);
            open.relation = Some(row.relation());
            return Ok(Step::Keep);
        }
        if peek.kind() == Kind::Message {
            return Ok(Step::Keep);
        }
        match parse(peek, open.streamed)? {
            Message::Relation(relation) => {
                let xid = relation.xid.unwrap_or(open.transaction.xid);
                let promotion = relations.relation_promotion(&relation, xid, peek);
                open.promotions.relations.insert(relation.oid, promotion);
                if !open.streamed {
                    // It applies at once to all following messages.
                    relations.define(&relation, Announce::No)?;
                }
                open.relation = None;
            }
            Message::Type(message) => {
                let xid = message.xid.unwrap_or(open.transaction.xid);
                if open.streamed {
                    let promotion = relations.type_promotion(&message, xid, peek);
                    open.promotions.types.insert(message.oid, promotion);
                } else {
                    relations.define_type(&message)?;
                }
            }
            Message::Truncate(truncate) => {
                for oid in truncate.relations() {
                    open.uses(oid, relations);
                }
            }
            Message::Origin(origin) => open.transaction.push_origin(read_origin(&origin)?),
            // PostgreSQL 18 also sends this message for transactions that it never streamed.
            Message::StreamAbort(abort) if !open.streamed => {
                self.undecided.stream_abort(&abort, peek.start());
            }
            other => {
                return Err(
                    Fault::unexpected(other.name(), MessagePlace::Inside).near(peek.start())
                );
            }
        }
        Ok(Step::Keep)
    }

    /// Takes the end of a block. Each kind of block has another last message.
    fn end_block(&mut self, open: Box<Open>, peek: &Peek<'_>) -> Result<Step, Fault> {
        match (parse(peek, open.streamed)?, open.streamed) {
            (Message::StreamStop, true) => self.undecided.stream_stop(open),
            (Message::Prepare(prepare), false) => {
                self.undecided.prepare(open, &prepare)?;
                return Ok(self.tell(prepare.xid, read_prepare(&prepare)?));
            }
            (other, _) => {
                return Err(
                    Fault::unexpected(other.name(), MessagePlace::Inside).near(peek.start())
                );
            }
        }
        Ok(Step::Pass)
    }

    /// Reports that a transaction was prepared, if the caller asks for prepares.
    fn tell(&mut self, xid: Xid, prepared: Prepared) -> Step {
        if !self.tells_prepares {
            return Step::Pass;
        }
        self.prepared = Some(Box::new((xid, prepared)));
        Step::Prepared
    }

    /// Appends frames to the spool of the open transaction.
    fn spool(&mut self, search: &mut Search, frames: &[u8], span: Span) -> Result<(), Fault> {
        let spools = &mut self.undecided.spools;
        let id = match search {
            Search::Between => return Ok(()),
            Search::Plain(id) => *id.get_or_insert_with(|| spools.create()),
            Search::Block(open) => open.spool,
        };
        Ok(spools.append(id, frames, span)?)
    }
}

/// Parses the message. Errors contain its LSN.
fn parse<'a>(peek: &Peek<'a>, in_stream: bool) -> Result<Message<'a>, Fault> {
    let message = peek.message(in_stream);
    message.map_err(|error| Fault::from(error).near(peek.start()))
}
