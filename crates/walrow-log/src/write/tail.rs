//! The end of a log while it is written: the stream since the last segment.
//!
//! ```text
//! events ─► intake ─► buffer ─► journal ─► publisher: the next segment
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
use crate::write::intake::{First, Intake, Next};
use crate::write::journaled::Journaled;
use crate::write::load_place::BeforeLoad;
use crate::write::open_file::OpenFile;
use crate::write::publisher::Publisher;
use crate::write::recovery::Repair;
use crate::write::repeats::Repeats;
use crate::write::saved_prepared::SavedPrepared;
use crate::write::session::Session;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use walrow_stream::fact::{Fact, Gap, Source};
use walrow_stream::{Assembler, Catalog, Encoding};
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

/// The end of a log.
#[derive(Debug)]
pub(crate) struct Tail {
    store: Arc<dyn Store>,
    shape: Shape,
    /// The number of the last load that ended.
    last_load: u64,
    intake: Intake,
    prepared: SavedPrepared,
    /// The messages since the last segment.
    buffer: Buffer,
    journal: OpenFile,
    publisher: Publisher,
    /// Where the next segment begins.
    start: Lsn,
    /// Where the durable changes and positions end.
    durable: Lsn,
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
        let session = Session::new(source);
        Self {
            shape,
            last_load,
            intake: Intake::new(Arc::clone(&store), session, repeats, end),
            prepared: SavedPrepared::new(prepared),
            buffer: Buffer::default(),
            journal,
            publisher: Publisher::new(Arc::clone(&store), shape.level, catalog),
            start: end,
            durable: end,
            store,
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
                    self.intake.session_mut().recover(source);
                    self.buffer.recover(contents);
                    self.publish_whole()?;
                    return self.clear(self.end());
                }
                Repair::KeepJournal { .. } => {
                    self.reach(end);
                    self.intake.session_mut().recover(source);
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
        self.intake.set_end(self.end().max(end));
        self.durable = self.durable.max(end);
    }

    /// The header of a journal that begins at this LSN.
    fn header(&self, begin: Lsn) -> Header {
        let undecided = self.prepared.undecided();
        Header::new(begin, self.session().source(), undecided)
    }

    /// Prepares a new assembler for a session that begins at the tail's position or before.
    pub(crate) fn resume(&mut self, assembler: Assembler) -> Result<Assembler, Error> {
        self.buffer.begin_session();
        self.intake.begin_session();
        let mut assembler = assembler
            .with_prepares(true)
            .with_encoding(Encoding::Utf8)
            .with_fixed_encoding();
        let before = self.session().source().prepared_before.clone();
        assembler.set_prepared_before(before, self.end());
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
        self.intake.compare(confirmed, only);
    }

    /// Notes that the server was compared before.
    pub(crate) fn assume_compared(&mut self) {
        self.intake.assume_compared();
    }

    pub(crate) const fn session(&self) -> &Session {
        self.intake.session()
    }

    pub(crate) const fn counts(&self) -> WriterCounts {
        self.intake.counts()
    }

    pub(crate) const fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    pub(crate) const fn publisher_mut(&mut self) -> &mut Publisher {
        &mut self.publisher
    }

    /// Counts segments that were published.
    pub(crate) const fn count_segments(&mut self, more: u64) {
        self.intake.count_segments(more);
    }

    pub(crate) const fn shape(&self) -> Shape {
        self.shape
    }

    /// Where the last whole transaction, message or position ends.
    pub(crate) const fn end(&self) -> Lsn {
        self.intake.end()
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
        !self.end().is_valid() && !is_inside && !self.buffer.has_changes()
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

    /// The journal, which stays locked.
    pub(crate) fn into_journal(self) -> OpenFile {
        self.journal
    }

    /// Changes the facts about the source, and notes the new fact in the stream.
    pub(crate) fn learn(&mut self, learn: impl FnOnce(&mut Session) -> Option<Fact>) {
        let fact = learn(self.intake.session_mut());
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
            let room = self.buffer.room(self.shape.segment_bytes);
            match self
                .intake
                .fill(&mut self.buffer, assembler, input, place, room)?
            {
                Next::Full => {}
                Next::Whole => self.publish_last_part(assembler)?,
                Next::First(first) => return Ok(Some(first)),
                Next::None => return Ok(None),
            }
        }
    }

    /// Notes that the server has sent everything up to this LSN. Returns this position if it is at
    /// or behind the place of a load.
    pub(crate) fn advance(&mut self, lsn: Lsn, place: Option<Lsn>) -> Result<Option<First>, Error> {
        self.intake.advance(&mut self.buffer, lsn, place)
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
        let is_large = self.buffer.marks().current() >= self.shape.segment_bytes;
        match self.buffer.at() {
            _ if !has_large_foot && !is_large => {}
            At::Inside { part, next_seq, .. } => self.publish_part(part, next_seq, assembler)?,
            _ if has_large_foot => {
                self.publish(assembler)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.buffer.flush(&mut self.journal)
    }

    /// Makes all whole transactions durable, and all prepared transactions of the assembler.
    pub(crate) fn sync(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if !self.session().takes() {
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
            self.publisher.drop_begun();
            return Err(Error::store(OPEN, &error));
        }
        self.sync_journal()?;
        if self.buffer.at().part() == 0 {
            self.durable = self.end();
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
        if !self.session().takes() {
            return Ok(());
        }
        let intake = &self.intake;
        let repeats = |end| intake.may_be_repeated(end);
        while let Some(fact) = self.prepared.save(&*self.store, assembler, repeats)? {
            self.buffer.note_before_current(&fact);
        }
        Ok(())
    }

    /// Notes which prepared transactions were decided. Call it between transactions.
    fn note_decided(&mut self, assembler: &Assembler) {
        if self.session().takes() {
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
        let (name, source) = (self.name(), self.intake.session().source());
        let (buffer, journal) = (&self.buffer, &mut self.journal);
        let syncs = self.shape.syncs;
        self.publisher.fill(name, source, buffer, journal, syncs)
    }

    /// Publishes all whole transactions as a segment, and returns its foot. `None` if no segment is
    /// due.
    pub(crate) fn publish(&mut self, assembler: &mut Assembler) -> Result<Option<Foot>, Error> {
        let is_due = self.has_changes() || self.buffer.marks().unpublished() >= POSITIONS;
        let is_inside = matches!(self.buffer.at(), At::Inside { .. });
        if is_inside || !is_due || self.end() <= self.start {
            return Ok(None);
        }
        // A published segment is durable, so earlier prepared transactions must be durable, too.
        self.save_prepared(assembler)?;
        self.note_decided(assembler);
        self.flush()?;
        let foot = self.publish_whole()?;
        self.durable = self.end();
        self.clear(self.end())?;
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
        let mut until = self.end();
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
            let end = self.end();
            self.intake.set_end(until);
            if let Err(error) = self.publish_whole() {
                // No segment has the new end.
                self.intake.set_end(end);
                return Err(error);
            }
            self.buffer.publish_whole();
            self.start = until;
            self.forget_decided()?;
        }
        self.buffer.publish_blocks(self.journal.whole());
        let mut segment = self.given(self.journal.count(), Which::Current)?;
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

    /// Publishes a gap up to this LSN, whose changes no server will send. Transactions that are
    /// prepared there end as unknown: neither their decision nor its absence can be known.
    pub(crate) fn cross_gap(&mut self, end: Lsn, reason: String) -> Result<(), Error> {
        let mut unprepared = Assembler::default();
        self.intake.begin_session();
        self.publish_last_part(&mut unprepared)?;
        if end > self.end() {
            let gap = Gap::new(self.end(), end, reason);
            self.buffer.gap(gap);
            self.intake.go_to(&mut self.buffer, end);
            self.intake.session_mut().cross_gap(end);
        }
        // After a failure of the store, another call publishes it.
        self.publish(&mut unprepared)?;
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

    /// The next segment, with the blocks before this number.
    fn given(&mut self, end: usize, which: Which) -> Result<Filling, Error> {
        let (name, source) = (self.name(), self.intake.session().source());
        let (buffer, journal) = (&self.buffer, &mut self.journal);
        let mut segment = self.publisher.begin(name, source, buffer, journal)?;
        self.publisher
            .give(&mut segment, buffer, journal, end, which)?;
        Ok(segment)
    }

    /// Publishes the whole transactions.
    fn publish_whole(&mut self) -> Result<Foot, Error> {
        let segment = self.given(self.journal.whole(), Which::Whole)?;
        self.complete(segment, Which::Whole)
    }

    /// Publishes a segment that has all its blocks.
    fn complete(&mut self, segment: Filling, which: Which) -> Result<Foot, Error> {
        let (source, end) = (self.session().source(), self.end());
        let mut foot = self.buffer.foot(which, source, end);
        if which == Which::Whole {
            foot.undecided = Some(self.prepared.undecided());
            foot.load = (self.last_load > 0).then_some(self.last_load);
        }
        let foot = self.publisher.publish(segment, foot)?;
        if which == Which::Whole {
            self.prepared.publish();
        }
        self.intake.published();
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
            First::Message(lsn, taken) => {
                let taken = taken.clone();
                self.intake.end_message(&mut self.buffer, *lsn, taken);
            }
            First::Position(lsn) => self.intake.go_to(&mut self.buffer, *lsn),
        }
        Ok(last)
    }

    fn publish_before(&mut self, before: Option<Lsn>, point: Lsn) -> Result<BeforeLoad, Error> {
        if let Some(before) = before {
            let prepare = self.intake.session_mut().take_prepare(before);
            self.buffer.note(prepare);
            self.intake.set_end(self.end().max(before));
            self.flush()?;
            self.publish_whole()?;
        }
        self.clear_journal(point)?;
        // The segment lists the undecided transactions. After a failure, the next sync tries again.
        let _ = self.forget_decided();
        // The load's foot may become the last foot, and its source dates from the begin of the
        // load. So the stream has the newer facts.
        self.buffer.begin_behind(self.session().facts());
        self.start = point;
        self.intake.set_end(point);
        Ok(BeforeLoad {
            last: self.session().source().last.clone(),
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
