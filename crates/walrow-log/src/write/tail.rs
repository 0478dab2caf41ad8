//! The end of a log while it is written: the stream since the last segment.
//!
//! ```text
//! events ─► buffer ─► journal ─► next segment
//! ```

use crate::error::{Error, ErrorKind};
use crate::format::contents::Which;
use crate::format::journal::Header;
use crate::format::prepared::PreparedName;
use crate::format::segment::{Foot, LARGEST_FOOT, SegmentName};
use crate::store::{OPEN, Store};
use crate::write::buffer::{At, Buffer};
use crate::write::counts::WriterCounts;
use crate::write::filling::Filling;
use crate::write::journaled::{Journaled, taken, taken_message};
use crate::write::load_place::BeforeLoad;
use crate::write::open_file::OpenFile;
use crate::write::recovery::Repair;
use crate::write::repeats::Repeats;
use crate::write::saved_prepared::SavedPrepared;
use crate::write::session::Session;
use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;
use walrow_stream::fact::{Fact, Segment, Source, Taken};
use walrow_stream::{Assembler, Catalog, Event, Transaction};
use walrow_wire::Lsn;

/// A segment without changes is full at this many bytes.
const POSITIONS: u64 = 1 << 20;
/// A segment is full when the tables in its foot have this many bytes. The rest of the foot needs
/// space, too.
const FOOT: u64 = LARGEST_FOOT / 2;

/// How segments are written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of the stream that fill a segment.
    pub(crate) segment_bytes: u64,
    /// The compression level of zstd. `None` stores the bytes as they are.
    pub(crate) level: Option<i32>,
    /// Whether [`Tail::sync`] makes changes durable in the journal. Otherwise it publishes them.
    pub(crate) syncs: bool,
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

/// The end of a log.
#[derive(Debug)]
pub(crate) struct Tail {
    store: Arc<dyn Store>,
    shape: Shape,
    /// The number of the last load that ended.
    last_load: u64,
    session: Session,
    prepared: SavedPrepared,
    repeats: Repeats,
    catalog: Catalog,
    /// The messages since the last segment.
    buffer: Buffer,
    journal: OpenFile,
    /// The next segment, if it was begun.
    segment: Option<Filling>,
    /// Where the next segment begins.
    start: Lsn,
    /// Where the last whole transaction, message or position ends.
    end: Lsn,
    /// Where the durable changes and positions end.
    durable: Lsn,
    counts: WriterCounts,
    /// The segments since [`Tail::new_feet`] was called.
    feet: Vec<Foot>,
}

/// The parts of a new tail.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) shape: Shape,
    pub(crate) source: Source,
    /// The prepared transactions that are not decided, with the CRC-32C of each object.
    pub(crate) prepared: BTreeMap<PreparedName, u32>,
    pub(crate) repeats: Repeats,
    pub(crate) catalog: Catalog,
    pub(crate) journal: OpenFile,
    pub(crate) end: Lsn,
    /// The number of the last load that ended.
    pub(crate) last_load: u64,
}

impl Tail {
    pub(crate) fn new(beginning: Beginning) -> Self {
        let Beginning {
            store,
            shape,
            source,
            prepared,
            repeats,
            catalog,
            journal,
            end,
            last_load,
        } = beginning;
        Self {
            store,
            shape,
            last_load,
            session: Session::new(source),
            prepared: SavedPrepared::new(prepared),
            repeats,
            catalog,
            buffer: Buffer::default(),
            journal,
            segment: None,
            start: end,
            end,
            durable: end,
            counts: WriterCounts::default(),
            feet: Vec::new(),
        }
    }

    /// Does the planned repairs of the journal. `found` has its transactions.
    pub(crate) fn recover(&mut self, found: Journaled, repairs: &[Repair]) -> Result<(), Error> {
        let io = |error| Error::store(OPEN, &error);
        let header = self.header(self.start);
        self.journal.begin_with(header).map_err(io)?;
        let (bytes, end) = (found.bytes(), found.end());
        let (contents, source) = found.into_parts();
        for repair in repairs {
            match repair {
                Repair::BeginAgain | Repair::ClearJournal => self.clear(self.start)?,
                Repair::PublishJournal { .. } => {
                    self.reach(end);
                    self.session.recover(source);
                    self.buffer.recover(contents);
                    self.publish_whole()?;
                    return self.clear(self.end);
                }
                Repair::KeepJournal { .. } => {
                    self.reach(end);
                    self.session.recover(source);
                    self.prepared.keep_journal();
                    // The facts must stay durable, so the journal stays.
                    self.buffer.recover_facts(bytes, self.journal.count());
                    self.journal.rewrite().map_err(io)?;
                    return self.sync_journal();
                }
                _ => {}
            }
        }
        if self.journal.count() == 0 {
            // An earlier process may have failed to sync the empty journal. The next removals
            // depend on a journal that is empty and synced.
            self.clear(self.start)?;
        }
        Ok(())
    }

    /// Removes decided prepared transactions.
    pub(crate) fn forget(&mut self, repairs: &[Repair]) -> Result<(), Error> {
        for repair in repairs {
            if let Repair::ForgetPrepared { xid, end } = *repair {
                self.prepared.add_decided(PreparedName { end, xid });
            }
        }
        self.forget_decided()
    }

    /// Notes that everything up to this LSN is durable.
    fn reach(&mut self, end: Lsn) {
        self.end = self.end.max(end);
        self.durable = self.durable.max(end);
    }

    /// The header of a journal that begins at this LSN.
    fn header(&self, begin: Lsn) -> Header {
        let undecided = self.prepared.undecided();
        Header::new(begin, self.session.source(), undecided)
    }

    /// Prepares a new assembler for a session that begins at the tail's position or before.
    pub(crate) fn resume(&mut self, assembler: Assembler) -> Result<Assembler, Error> {
        self.buffer.begin_session();
        self.session.begin();
        let mut assembler = assembler.with_prepares(true);
        let before = self.session.source().prepared_before.clone();
        assembler.set_prepared_before(before, self.end);
        if !self.durable.is_valid() {
            return Ok(assembler);
        }
        for name in self.prepared.names() {
            name.restore(&*self.store, &mut assembler)?;
        }
        assembler.assume_prepared_restored();
        Ok(assembler)
    }

    /// Begins to compare the server, which sends all changes after `confirmed`.
    pub(crate) fn compare(&mut self, confirmed: Lsn, only: bool) {
        self.session.compare(self.end, confirmed, only);
    }

    /// Notes that the server was compared before.
    pub(crate) fn assume_compared(&mut self) {
        self.session.assume_compared(self.end);
    }

    pub(crate) const fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    pub(crate) const fn counts(&self) -> WriterCounts {
        self.counts
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Where the last whole transaction, message or position ends.
    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    /// Where the durable changes and positions end.
    pub(crate) const fn durable(&self) -> Lsn {
        self.durable
    }

    /// The number of the last load that ended.
    pub(crate) const fn last_load(&self) -> u64 {
        self.last_load
    }

    /// Notes that a load has ended or was given up.
    pub(crate) fn end_load(&mut self, number: u64) {
        self.last_load = self.last_load.max(number);
    }

    /// Whether the log has never taken changes or positions.
    pub(crate) const fn is_empty(&self) -> bool {
        let is_inside = matches!(self.buffer.at(), At::Inside { .. });
        !self.end.is_valid() && !is_inside && !self.buffer.has_changes()
    }

    /// Whether there are transactions or messages that are in no segment.
    pub(crate) const fn has_changes(&self) -> bool {
        self.buffer.has_changes()
    }

    /// Whether the messages since the last segment fill a segment.
    pub(crate) const fn is_full(&self) -> bool {
        let size = self.buffer.marks().unpublished();
        size >= self.shape.segment_bytes
            || !self.has_changes() && size >= POSITIONS
            || self.buffer.contents().foot_bytes() >= FOOT
    }

    /// The segments that were published since the last call, in order.
    pub(crate) fn new_feet(&mut self) -> Vec<Foot> {
        mem::take(&mut self.feet)
    }

    /// Counts segments that were published.
    pub(crate) const fn count_segments(&mut self, more: u64) {
        self.counts.segments = self.counts.segments.saturating_add(more);
    }

    /// The journal, which stays locked.
    pub(crate) fn into_journal(self) -> OpenFile {
        self.journal
    }

    /// Sets the definitions of types and tables for the next changes.
    pub(crate) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = catalog;
        if let Some(segment) = &mut self.segment {
            segment.describe_again();
        }
    }

    /// Changes the facts about the source, and notes the new fact in the stream.
    pub(crate) fn learn(&mut self, learn: impl FnOnce(&mut Session) -> Option<Fact>) {
        let fact = learn(&mut self.session);
        self.buffer.note(fact);
    }

    /// Appends all events of an assembler, and takes all input. Stops at the first transaction or
    /// message at or behind the place of a load, and returns it.
    pub(crate) fn append(
        &mut self,
        assembler: &mut Assembler,
        input: &mut &[u8],
        place: Option<Lsn>,
    ) -> Result<Option<First>, Error> {
        self.publish_last_part(assembler)?;
        loop {
            self.make_room(assembler)?;
            let buffer = &mut self.buffer;
            let event = assembler.next_with(input, |change| buffer.row(&change));
            // The match is by reference, because most events are large, and few of their fields are
            // used.
            match &event {
                Ok(Some(Event::Change(Ok(())))) => {}
                Ok(Some(Event::Begin(transaction))) => {
                    if self.begin_new(transaction)?
                        && place.is_some_and(|point| transaction.commit_lsn >= point)
                    {
                        return Ok(Some(First::Transaction));
                    }
                }
                Ok(Some(Event::Commit { .. })) if self.buffer.at() == At::Skipping => {
                    self.buffer.skip(false);
                }
                Ok(Some(Event::Commit {
                    transaction,
                    changes,
                    ..
                })) => {
                    self.counts.transactions = self.counts.transactions.saturating_add(1);
                    self.counts.rows = self.counts.rows.saturating_add(*changes);
                    self.counts.last_commit_time = Some(transaction.commit_time);
                    self.buffer.commit(transaction);
                    self.end = self.end.max(transaction.end_lsn);
                    self.repeats.took(transaction.commit_lsn);
                    self.session.take(taken(transaction));
                    self.publish_last_part(assembler)?;
                }
                Ok(None) => return Ok(None),
                Ok(Some(Event::Change(Err(error)))) | Err(error) => {
                    return Err(error.clone().into());
                }
                Ok(Some(event)) => {
                    if let Some(first) = self.other(event, place)? {
                        return Ok(Some(first));
                    }
                }
            }
        }
    }

    /// Appends an event that is rare.
    #[inline(never)]
    fn other<T>(
        &mut self,
        event: &Event<'_, T>,
        place: Option<Lsn>,
    ) -> Result<Option<First>, Error> {
        match event {
            Event::Truncate(truncate) => self.buffer.truncate(truncate),
            Event::Fact(fact) => self.buffer.fact(fact),
            Event::Message(message)
                if message.transactional && self.buffer.at() != At::Skipping =>
            {
                self.buffer.message(message);
            }
            Event::Message(message) if !message.transactional => {
                let taken = taken_message(message, self.session.source().last.as_ref());
                if self.meet(&taken, message.lsn)? {
                    self.check_repeated(message.lsn)?;
                    return Ok(None);
                }
                self.buffer.message(message);
                if place.is_some_and(|point| message.lsn >= point) {
                    return Ok(Some(First::Message(message.lsn, taken)));
                }
                self.end_message(message.lsn, taken);
            }
            Event::Prepared { xid, prepared, .. } => {
                let taken = Taken::prepare(prepared.prepare_lsn, *xid, prepared.prepare_time);
                if !self.meet(&taken, prepared.prepare_end_lsn)? {
                    self.session.prepare(taken, prepared.prepare_end_lsn);
                }
            }
            _ => {}
        }
        Ok(None)
    }

    /// Compares a transaction, prepare or message that ends at this LSN. Returns whether the log
    /// skips it.
    fn meet(&mut self, found: &Taken, end: Lsn) -> Result<bool, Error> {
        let facts = self.session.meet(found, end)?;
        self.buffer.note(facts);
        Ok(end <= self.end || !self.session.takes())
    }

    /// Refuses a skipped transaction or message that is not in the log.
    fn check_repeated(&mut self, lsn: Lsn) -> Result<(), Error> {
        if self.session.takes() {
            self.repeats.check(&self.store, lsn, self.end)?;
        }
        Ok(())
    }

    /// Begins a transaction, and returns true, unless the log has it.
    fn begin_new(&mut self, transaction: &Transaction) -> Result<bool, Error> {
        let (commit_lsn, end) = (transaction.commit_lsn, transaction.end_lsn);
        if end <= commit_lsn {
            // A skipped transaction would look like one that the log has.
            let lsn = commit_lsn;
            return Err(Error::new("", ErrorKind::EndLsn { lsn, end }));
        }
        if self.meet(&taken(transaction), end)? {
            self.check_repeated(commit_lsn)?;
            self.buffer.skip(true);
            self.counts.repeated = self.counts.repeated.saturating_add(1);
            return Ok(false);
        }
        self.buffer.begin(transaction, 0, None);
        Ok(true)
    }

    fn end_message(&mut self, lsn: Lsn, taken: Taken) {
        self.buffer.end_message();
        self.end = lsn;
        self.repeats.took(lsn);
        self.session.take(taken);
    }

    /// Notes that the server has sent everything up to this LSN. Returns this position if it is at
    /// or behind the place of a load.
    pub(crate) fn advance(&mut self, lsn: Lsn, place: Option<Lsn>) -> Result<Option<First>, Error> {
        let is_between = self.buffer.at().is_between();
        if is_between {
            let facts = self.session.reach(lsn)?;
            self.buffer.note(facts);
        }
        if !self.session.takes() || lsn <= self.end || !is_between {
            return Ok(None);
        }
        if place.is_some_and(|point| lsn >= point) {
            return Ok(Some(First::Position(lsn)));
        }
        self.go_to(lsn);
        Ok(None)
    }

    fn go_to(&mut self, lsn: Lsn) {
        if lsn <= self.end {
            return;
        }
        let prepare = self.session.take_prepare(lsn);
        self.buffer.note(prepare);
        self.buffer.position(lsn);
        self.end = lsn;
    }

    /// Gives a full block to the journal. Publishes a part of a transaction that is larger than a
    /// segment.
    fn make_room(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if self.buffer.is_full() {
            // A block has facts about all transactions that were prepared before its end.
            self.save_prepared(assembler)?;
            self.flush()?;
        }
        let has_large_foot = self.buffer.contents().foot_bytes() >= FOOT;
        if let At::Inside { part, next_seq, .. } = self.buffer.at() {
            if has_large_foot || self.buffer.marks().current() >= self.shape.segment_bytes {
                self.publish_part(part, next_seq, assembler)?;
            }
        } else if has_large_foot {
            self.publish(assembler)?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.buffer.flush(&mut self.journal)
    }

    /// Makes all whole transactions durable, and all prepared transactions of the assembler.
    pub(crate) fn sync(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if !self.session.takes() {
            // The log takes no changes of this session.
            return Ok(());
        }
        // A large transaction and its decision become durable with the segment of its last part.
        let is_whole = matches!(self.buffer.at(), At::Between | At::Skipping);
        if !self.shape.syncs {
            self.publish(assembler)?;
            if self.journal.begin() > 0 {
                return Ok(());
            }
        }
        self.save_prepared(assembler)?;
        if is_whole {
            self.note_decided(assembler);
        }
        self.flush()?;
        if let Err(error) = self.journal.write_held() {
            // On a full disk, the segment may have the space that the journal needs.
            drop(self.segment.take());
            return Err(Error::store(OPEN, &error));
        }
        self.sync_journal()?;
        if self.buffer.at().part() == 0 {
            self.durable = self.end;
        }
        if is_whole {
            self.forget_decided()?;
        }
        Ok(())
    }

    fn sync_journal(&mut self) -> Result<(), Error> {
        self.journal.sync().map_err(|error| not_synced(&error))
    }

    /// Saves the transactions that were prepared since the last call. Call it before later changes
    /// are written. When the log is opened again, its end is confirmed. Then the server may not
    /// send the rows of these transactions again.
    pub(crate) fn save_prepared(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if !self.session.takes() {
            return Ok(());
        }
        while let Some(fact) = self.prepared.save(&*self.store, assembler)? {
            self.buffer.note_before_current(&fact);
        }
        Ok(())
    }

    /// Notes which prepared transactions were decided. Call it between transactions.
    fn note_decided(&mut self, assembler: &Assembler) {
        if self.session.takes() {
            let facts = self.prepared.decide(assembler, None);
            self.buffer.note(facts);
        }
    }

    fn forget_decided(&mut self) -> Result<(), Error> {
        self.prepared.forget_decided(&*self.store)
    }

    /// Gives the whole transactions that fill blocks to the next segment.
    pub(crate) fn fill(&mut self) -> Result<(), Error> {
        if !self.has_changes() || self.buffer.at().part() > 0 {
            return Ok(());
        }
        let next = self.segment.as_ref().map(Filling::next);
        let next = next.unwrap_or_else(|| self.buffer.marks().published_blocks());
        if next < self.journal.whole() {
            let mut segment = self.begun()?;
            self.give(&mut segment, self.journal.whole(), Which::Whole)?;
            self.segment = Some(segment);
        }
        match &self.segment {
            Some(segment) if self.shape.syncs => self.journal.release(segment.next()),
            Some(segment) => self.journal.discard(segment.next()),
            None => {}
        }
        Ok(())
    }

    /// Publishes all whole transactions as a segment, and returns its foot. `None` if no segment is
    /// due.
    pub(crate) fn publish(&mut self, assembler: &mut Assembler) -> Result<Option<Foot>, Error> {
        let is_due = self.has_changes() || self.buffer.marks().unpublished() >= POSITIONS;
        let is_inside = matches!(self.buffer.at(), At::Inside { .. });
        if is_inside || !is_due || self.end <= self.start {
            return Ok(None);
        }
        // A published segment is durable, so earlier prepared transactions must be durable, too.
        self.save_prepared(assembler)?;
        self.note_decided(assembler);
        self.flush()?;
        let foot = self.publish_whole()?;
        self.durable = self.end;
        self.clear(self.end)?;
        // The removal comes last, because the segment lists the undecided transactions. If it
        // fails, another call must not publish the segment again.
        self.forget_decided()?;
        Ok(Some(foot))
    }

    /// Publishes the last part of a large transaction as a separate segment. An earlier call may
    /// have failed.
    fn publish_last_part(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if matches!(self.buffer.at(), At::LastPart(_)) {
            self.publish(assembler)?;
        }
        Ok(())
    }

    /// Publishes the next part of a transaction that is larger than a segment. `part` is the number
    /// of its earlier parts.
    fn publish_part(
        &mut self,
        part: u32,
        next_seq: u64,
        assembler: &mut Assembler,
    ) -> Result<(), Error> {
        self.save_prepared(assembler)?;
        let Some(transaction) = assembler.transaction() else {
            return Ok(());
        };
        let mut until = self.end;
        if part == 0 {
            for fact in self.prepared.decide(assembler, Some(transaction)) {
                self.buffer.note_before_current(&fact);
            }
            if self.prepared.is_only_in_journal() {
                // The journal is cleared, so a segment needs the facts about prepared transactions.
                // Only their records came between the log's end and this commit.
                until = until.max(transaction.commit_lsn);
            }
        }
        self.flush()?;
        // A position alone is enough, because it may be confirmed, and the journal is cleared.
        if self.has_changes() || until > self.start {
            let end = mem::replace(&mut self.end, until);
            if let Err(error) = self.publish_whole() {
                // No segment has the new end.
                self.end = end;
                return Err(error);
            }
            self.buffer.publish_whole();
            self.start = self.end;
            self.forget_decided()?;
        }
        self.buffer.publish_blocks(self.journal.whole());
        let mut segment = self.begun()?;
        self.give(&mut segment, self.journal.count(), Which::Current)?;
        segment.give_end(self.buffer.end_of_part(transaction))?;
        self.complete(segment, Which::Current)?;
        self.clear(self.start)?;
        let part = part.saturating_add(1);
        self.buffer.begin(transaction, part, Some(next_seq));
        Ok(())
    }

    /// Empties the journal and the buffer, and begins the next segment at this LSN.
    fn clear(&mut self, start: Lsn) -> Result<(), Error> {
        self.clear_journal(start)?;
        self.buffer.clear();
        self.start = start;
        Ok(())
    }

    fn clear_journal(&mut self, start: Lsn) -> Result<(), Error> {
        // After a failure, the journal may lack published changes, so no later call can publish
        // them again.
        let header = self.header(start);
        self.journal
            .clear(header)
            .map_err(|error| not_synced(&error))
    }

    const fn name(&self) -> SegmentName {
        SegmentName {
            start: self.start,
            part: self.buffer.at().part(),
        }
    }

    /// The segment that was begun, or a new one.
    fn begun(&mut self) -> Result<Filling, Error> {
        if let Some(segment) = self.segment.take() {
            return Ok(segment);
        }
        let name = self.name();
        if self.journal.begin() > self.buffer.marks().published_blocks() {
            let what = "the segment that was begun: open the log again, and append what is missing";
            let error = io::Error::other(what);
            return Err(Error::store(&name.to_string(), &error));
        }
        let head = Segment::new(name.start, name.part, self.session.source().clone());
        let first = self.buffer.marks().published_blocks();
        Filling::begin(&*self.store, head, self.shape.level, first)
    }

    /// Gives the blocks before this number to a segment, after the definitions that they use.
    fn give(&mut self, segment: &mut Filling, end: usize, which: Which) -> Result<(), Error> {
        segment.describe(self.buffer.contents(), which, &self.catalog)?;
        // A part of a transaction is read without the earlier messages, so it describes its
        // relations.
        let inherited = match which {
            Which::Current => self.buffer.inherited(),
            Which::Whole => None,
        };
        segment.give(&mut self.journal, end, inherited)
    }

    /// Publishes the whole transactions.
    fn publish_whole(&mut self) -> Result<Foot, Error> {
        let mut segment = self.begun()?;
        self.give(&mut segment, self.journal.whole(), Which::Whole)?;
        self.complete(segment, Which::Whole)
    }

    /// Publishes a segment that has all its blocks.
    fn complete(&mut self, segment: Filling, which: Which) -> Result<Foot, Error> {
        let mut foot = self.buffer.foot(which, self.session.source(), self.end);
        if which == Which::Whole {
            foot.undecided = Some(self.prepared.undecided());
            foot.load = (self.last_load > 0).then_some(self.last_load);
        }
        let foot = segment.publish(&*self.store, foot)?;
        if which == Which::Whole {
            self.prepared.publish();
        }
        self.count_segments(1);
        self.repeats.published();
        self.feet.push(foot.clone());
        Ok(foot)
    }

    /// Publishes the changes before the place of a load, as a segment that ends at `before`. The
    /// next changes are behind the load, and begin at `point`. If `first` is a transaction or
    /// message, the block already has it. Returns the facts of the log at the place of the load.
    pub(crate) fn cross(
        &mut self,
        before: Option<Lsn>,
        point: Lsn,
        first: &First,
    ) -> Result<BeforeLoad, Error> {
        let later = self.buffer.take_later();
        let published = self.publish_before(before, point);
        self.buffer.put_back(&later);
        let last = published?;
        match first {
            First::Transaction => {}
            First::Message(lsn, taken) => self.end_message(*lsn, taken.clone()),
            First::Position(lsn) => self.go_to(*lsn),
        }
        Ok(last)
    }

    fn publish_before(&mut self, before: Option<Lsn>, point: Lsn) -> Result<BeforeLoad, Error> {
        if let Some(before) = before {
            let prepare = self.session.take_prepare(before);
            self.buffer.note(prepare);
            self.end = self.end.max(before);
            self.flush()?;
            self.publish_whole()?;
        }
        self.clear_journal(point)?;
        // The segment lists the undecided transactions. After a failure, the next sync tries again.
        let _ = self.forget_decided();
        // The load's foot may become the last foot, and its source dates from the begin of the
        // load. So the stream has the newer facts.
        self.buffer.begin_behind(self.session.facts());
        (self.start, self.end) = (point, point);
        Ok(BeforeLoad {
            last: self.session.source().last.clone(),
            undecided: Some(self.prepared.undecided()),
        })
    }
}

/// The error for a journal whose contents are not known: the log must be opened again.
fn not_synced(error: &io::Error) -> Error {
    if error.kind() == io::ErrorKind::StaleNetworkFileHandle {
        return Error::store(OPEN, error);
    }
    let (code, text) = (error.raw_os_error(), error.to_string());
    Error::new(OPEN, ErrorKind::NotSynced { code, text })
}
