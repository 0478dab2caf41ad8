//! Appends a stream to a log.
//!
//! ```text
//! stream ─► Assembler ─► Encoder ─► block ─► open file ─► segment
//!           committed    protocol 1          durable      published
//! ```
//! A transaction is durable when the open file is synced, and visible to readers when its segment is
//! published. After a crash, the whole transactions of the open file are published first.
//!
//! A prepared transaction is an object of its own until it is decided: the server does not send its
//! rows again.

use crate::log::block_file::BlockFile;
use crate::log::broken_load::settle;
use crate::log::comparison::Comparison;
use crate::log::contents::{Contents, Which};
use crate::log::error::{Error, ErrorKind};
use crate::log::filling::Filling;
use crate::log::index::IndexFile;
use crate::log::listing::Listing;
use crate::log::load_place::{Awaited, First};
use crate::log::recovery::{Published, compare, taken, taken_message};
use crate::log::segment::SegmentName;
use crate::log::state::{PreparedName, read_catalog, write_catalog};
use crate::log::store::{OPEN, Store};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::mem;
use std::sync::Arc;
use walrow_stream::fact::{Fact, PreparedBefore, Source, Taken};
use walrow_stream::{Assembler, Catalog, Encoder, Event, Transaction};
use walrow_wire::{Lsn, Timestamp};

/// Bytes of a block that ends with a transaction.
const BLOCK: usize = 1 << 20;
/// Bytes of positions after which they become a segment, although it has no changes.
pub(super) const POSITIONS: u64 = 1 << 20;
/// Bytes after which a block ends inside a transaction.
const LARGEST: usize = 4 << 20;

/// How a log is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Where the changes come from. What is `None` is taken from the log.
    pub source: Source,
    /// Bytes of the stream after which a segment ends with the transaction. A larger transaction
    /// continues in several segments.
    pub segment_bytes: u64,
    /// The compression level of zstd. `None` stores the bytes as they are. Higher levels than 1 cost
    /// more time and make rows of a stream hardly smaller.
    pub level: Option<i32>,
    /// Whether transactions become durable before they fill a segment, by [`Writer::sync`]. Otherwise
    /// [`Writer::fill`] needs less memory, `sync` publishes them, and after a failure of the store,
    /// the log must be opened again.
    pub syncs: bool,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            source: Source::default(),
            segment_bytes: 64 << 20,
            level: Some(1),
            syncs: true,
        }
    }
}

/// The one writer of a log.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, Writer, WriterOptions};
/// use walrow_stream::Assembler;
///
/// let stream: &[u8] = &[]; // wire frames
/// # let path = std::env::temp_dir().join(format!("walrow-writer-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&path);
/// let store = Arc::new(Directory::create(&path)?);
/// let mut writer = Writer::open(store, WriterOptions::default())?;
/// let mut assembler = writer.resume(Assembler::default())?;
/// writer.append(&mut assembler, &mut &*stream)?;
/// writer.sync(&mut assembler)?;
/// writer.publish(&mut assembler)?;
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    pub(super) store: Arc<dyn Store>,
    pub(super) options: WriterOptions,
    pub(super) encoder: Encoder,
    pub(super) open: BlockFile,
    pub(super) index: IndexFile,
    pub(super) catalog: Catalog,
    /// The prepared transactions that are objects of the log.
    pub(super) prepared: BTreeSet<PreparedName>,
    /// Those of them that were decided. They are removed when their decision is durable.
    pub(super) decided: Vec<PreparedName>,
    /// What is not in the open file yet.
    pub(super) block: Vec<u8>,
    /// Bytes of the stream in the open file and the block.
    pub(super) size: u64,
    /// How many of them are whole transactions.
    pub(super) whole: u64,
    /// What the transactions contain.
    pub(super) contents: Contents,
    /// Whether there are transactions or messages.
    pub(super) has_changes: bool,
    /// Bytes and blocks of the open file that are published.
    pub(super) published: u64,
    pub(super) published_blocks: usize,
    /// The next segment, if it was begun.
    pub(super) segment: Option<Filling>,
    pub(super) current: Current,
    /// The next segment.
    pub(super) name: SegmentName,
    /// Where the last whole transaction ends.
    pub(super) end: Lsn,
    /// The same, of what is durable.
    pub(super) durable: Lsn,
    pub(super) counts: WriterCounts,
    /// Whether the log lacks the load that it begins with.
    pub(super) lacks_first_load: bool,
    /// The load that was begun.
    pub(super) awaited: Awaited,
    /// The last transaction or message that the log took before that load.
    pub(super) last_before_load: Option<Taken>,
    /// The message that came first after it.
    pub(super) first_after_load: Option<Taken>,
    /// The last transaction that was prepared since the last thing, and the end of its record. It
    /// becomes the last thing once the log is past it.
    last_prepare: Option<(Taken, Lsn)>,
    /// Whether the server of the session is the log's.
    pub(super) comparison: Comparison,
    /// The server's timeline and options, until the comparison has ended.
    found: FoundSource,
}

/// The timeline and the options of a session.
#[derive(Debug, Default)]
struct FoundSource {
    timeline: Option<(u32, Option<Lsn>)>,
    asked: Option<BTreeMap<String, String>>,
}

/// What a writer was given since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WriterCounts {
    /// Transactions that were appended.
    pub transactions: u64,
    /// Rows that were inserted, updated or deleted in them.
    pub rows: u64,
    /// Transactions that were skipped, because the log has them.
    pub repeated: u64,
    /// Segments that were published.
    pub segments: u64,
    /// When the last one was committed. `None` before the first.
    pub last_commit_time: Option<Timestamp>,
}

/// The transaction that is being written.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// False between transactions.
    pub(super) is_open: bool,
    /// Whether the log has it.
    is_repeated: bool,
    /// Where its relations would come, if it were written without what came before.
    pub(super) head: u64,
    /// The seq of its next change.
    pub(super) next_seq: u64,
}

impl Writer {
    /// Opens a log for writing. What a crash has left is put in order: whole transactions are
    /// published, incomplete ones are removed.
    ///
    /// # Errors
    /// Another process writes to the log. The log belongs to another source, or is not a log. The
    /// store failed.
    pub fn open(store: Arc<dyn Store>, mut options: WriterOptions) -> Result<Self, Error> {
        // First, so that nothing is created in a directory that is not a log.
        Listing::of(&*store)?;
        let mut open = BlockFile::open(&*store, OPEN).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::new("", ErrorKind::Locked),
            _ => Error::store(OPEN, &error),
        })?;
        let lacks_first_load = settle(&*store, options.level)?;
        if lacks_first_load {
            open.clear().map_err(|error| Error::store(OPEN, &error))?;
        }
        let (published, index) = Published::with_index(&*store)?;
        // Of what comes next, while what is recovered may be of another one.
        let timeline = options.source.timeline.take();
        if let Some(source) = &published.source {
            compare(source, &options.source)?;
            complete(&mut options.source, source);
        }
        let catalog = read_catalog(&*store)?;
        let end = published.end;
        let mut writer = Self {
            store,
            options,
            encoder: Encoder::default(),
            open,
            index,
            catalog,
            prepared: published.prepared,
            decided: Vec::new(),
            block: Vec::new(),
            size: 0,
            whole: 0,
            contents: Contents::default(),
            has_changes: false,
            published: 0,
            published_blocks: 0,
            segment: None,
            current: Current::default(),
            name: SegmentName {
                start: end,
                part: 0,
            },
            end,
            durable: end,
            counts: WriterCounts::default(),
            lacks_first_load,
            awaited: Awaited::Nothing,
            last_before_load: None,
            first_after_load: None,
            last_prepare: None,
            comparison: Comparison::default(),
            found: FoundSource::default(),
        };
        writer.recover()?;
        if let Some(timeline) = timeline {
            writer.set_timeline(timeline);
        }
        Ok(writer)
    }

    /// Prepares a new assembler for a session of the server that begins at [`Writer::position`] or
    /// before: it knows the transactions that are prepared. What the log has is skipped. Call it between
    /// transactions: when [`Writer::append`] has taken all input of the session before.
    ///
    /// # Errors
    /// A prepared transaction is damaged, or the store failed.
    pub fn resume(&mut self, mut assembler: Assembler) -> Result<Assembler, Error> {
        self.encoder.restart();
        self.contents.begin_session();
        self.last_prepare = None;
        (self.comparison, self.found) = (Comparison::default(), FoundSource::default());
        assembler = assembler.with_prepares(true);
        let before = self.options.source.prepared_before.clone();
        assembler.set_prepared_before(before, self.end);
        if !self.durable.is_valid() {
            return Ok(assembler);
        }
        for name in &self.prepared {
            name.restore(&*self.store, &mut assembler)?;
        }
        assembler.assume_prepared_restored();
        Ok(assembler)
    }

    /// Compares the server of the session that [`Writer::resume`] has begun with the log's.
    ///
    /// Until it has sent everything up to [`Writer::position`], the log takes no changes, and makes
    /// no changes durable. The server begins at `confirmed`, or at [`Taken::resent_from`] of the
    /// last thing if that is later. With `only`, the log takes no later changes, either.
    pub fn compare(&mut self, confirmed: Lsn, only: bool) {
        let last = self.options.source.last.as_ref();
        self.comparison = Comparison::begin(self.end, last, confirmed, only);
    }

    /// As [`Writer::compare`], for a server that was compared: it is asked for other things now.
    pub fn assume_compared(&mut self) {
        self.comparison = Comparison::known(self.end);
    }

    /// Whether the server of the session has sent everything that it should have in common with the log.
    pub const fn is_compared(&self) -> bool {
        !self.comparison.is_waiting()
    }

    /// Where the changes come from.
    pub const fn source(&self) -> &Source {
        &self.options.source
    }

    /// Whether the transactions that are not published fill a segment.
    pub const fn is_full(&self) -> bool {
        let size = self.size.saturating_sub(self.published);
        size >= self.options.segment_bytes || !self.has_changes && size >= POSITIONS
    }

    /// Whether there are transactions or messages that are not published.
    pub const fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// The timeline of the WAL that comes next. It is as durable as what comes.
    pub fn set_timeline(&mut self, timeline: u32) {
        self.set_timeline_from(timeline, None);
    }

    /// As [`Writer::set_timeline`], and where it began, if that is known.
    pub fn set_timeline_from(&mut self, timeline: u32, start: Option<Lsn>) {
        if !self.comparison.takes() {
            self.found.timeline = Some((timeline, start));
            return;
        }
        let source = &mut self.options.source;
        let is_same = source.timeline == Some(timeline);
        if is_same && (start.is_none() || source.timeline_start == start) {
            return;
        }
        (source.timeline, source.timeline_start) = (Some(timeline), start);
        self.note(&Fact::Timeline { timeline, start });
    }

    /// Sets the options that the server is asked for. They are as durable as the next changes.
    pub fn set_asked(&mut self, options: BTreeMap<String, String>) {
        if !self.comparison.takes() {
            self.found.asked = Some(options);
            return;
        }
        if self.options.source.asked != options {
            self.options.source.asked.clone_from(&options);
            self.note(&Fact::Asked { options });
        }
    }

    /// The server of the session has something, which ends at this LSN. Returns whether the log skips it.
    fn meet(&mut self, found: &Taken, end: Lsn) -> Result<bool, Error> {
        if self.comparison.meet(found, end)? {
            self.note_found();
        }
        Ok(end <= self.end || !self.comparison.takes())
    }

    /// Records the session's timeline and options, now that its server is the log's.
    fn note_found(&mut self) {
        if !self.comparison.takes() {
            return;
        }
        let FoundSource { timeline, asked } = mem::take(&mut self.found);
        if let Some((timeline, start)) = timeline {
            self.set_timeline_from(timeline, start);
        }
        if let Some(asked) = asked {
            self.set_asked(asked);
        }
    }

    /// Makes the last prepared transaction the last thing, if its record ends by this LSN.
    pub(super) fn take_prepare(&mut self, until: Lsn) {
        if let Some((taken, _)) = self.last_prepare.take_if(|(_, end)| *end <= until) {
            self.options.source.last = Some(taken.clone());
            self.note(&Fact::Taken(taken));
        }
    }

    /// Sets where the slot begins, for a log that is empty. It is as durable as what comes.
    pub fn set_slot_start(&mut self, lsn: Lsn) {
        if !self.end.is_valid() && self.options.source.slot_start != Some(lsn) {
            self.options.source.slot_start = Some(lsn);
            self.note(&Fact::SlotStart { lsn });
        }
    }

    /// Sets which transactions may have been prepared before the slot begins, for a log that is empty:
    /// a commit of one of them is an error. It is as durable as what comes.
    pub fn set_prepared_before(&mut self, before: PreparedBefore, assembler: &mut Assembler) {
        if !self.end.is_valid() && self.options.source.prepared_before != before {
            self.options.source.prepared_before = before.clone();
            assembler.set_prepared_before(before.clone(), self.end);
            self.note(&Fact::PreparedBefore(before));
        }
    }

    /// Writes what is known of the source to the open file: segments have it in their feet.
    pub(super) fn note_source(&mut self) {
        let Source {
            timeline,
            timeline_start: start,
            slot_start,
            prepared_before,
            asked,
            ..
        } = &self.options.source;
        let facts = [
            timeline.map(|timeline| Fact::Timeline {
                timeline,
                start: *start,
            }),
            (!asked.is_empty()).then(|| Fact::Asked {
                options: asked.clone(),
            }),
            slot_start.map(|lsn| Fact::SlotStart { lsn }),
            (!prepared_before.is_empty()).then(|| Fact::PreparedBefore(prepared_before.clone())),
        ];
        for fact in facts.iter().flatten() {
            self.note(fact);
        }
    }

    fn note(&mut self, fact: &Fact) {
        let is_whole = self.whole == self.size;
        let before = self.block.len();
        fact.encode(false, &mut self.block);
        self.count(before);
        if is_whole {
            self.whole = self.size;
        }
    }

    /// What was appended since the writer was opened.
    pub const fn counts(&self) -> WriterCounts {
        self.counts
    }

    /// The definitions of types and tables.
    pub const fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Adds definitions to the catalog. Each segment has those that it uses, before the transactions
    /// that [`Writer::fill`] did not give to it yet.
    ///
    /// # Errors
    /// The store failed.
    pub fn extend_catalog(&mut self, found: &Catalog) -> Result<(), Error> {
        let mut catalog = self.catalog.clone();
        catalog.extend(found);
        if catalog != self.catalog {
            write_catalog(&*self.store, &catalog)?;
            self.catalog = catalog;
            if let Some(segment) = &mut self.segment {
                segment.describe_again();
            }
        }
        Ok(())
    }

    /// The LSN up to which everything is durable: it may be confirmed to the server. After a restart,
    /// it may be past what was confirmed. Then let the server begin where it was confirmed, and confirm
    /// nothing until [`Writer::sync`] returns a later one, as transactions that were prepared between may
    /// not be saved. See [`Writer::resume`].
    pub const fn position(&self) -> Lsn {
        self.durable
    }

    /// Appends all events of an assembler, and takes all input. Of a transaction that is larger than a
    /// segment, parts are published. Call [`Writer::publish`] if [`Writer::is_full`].
    ///
    /// # Errors
    /// The stream does not follow the protocol, or the store failed. After a failure of the store,
    /// the next call continues where this one stopped, with the rest of the input.
    pub fn append(&mut self, assembler: &mut Assembler, input: &mut &[u8]) -> Result<(), Error> {
        self.publish_last_part(assembler)?;
        loop {
            self.make_room(assembler)?;
            let Self {
                encoder,
                block,
                current,
                contents,
                size,
                ..
            } = self;
            let before = block.len();
            let event = assembler.next_with(input, |change| {
                if current.is_repeated {
                    return Ok(());
                }
                encoder.row(&change, block)?;
                let bytes = block.len().saturating_sub(before);
                contents.row(change.relation, bytes);
                current.next_seq = change.seq.saturating_add(1);
                *size = size.saturating_add(bytes as u64);
                Ok::<_, walrow_stream::Error>(())
            });
            // By reference: most events are large, and few of their fields are used.
            match &event {
                Ok(Some(Event::Change(Ok(())))) => {}
                Ok(Some(Event::Begin(transaction))) => {
                    let (found, end) = (taken(transaction), transaction.end_lsn);
                    if self.meet(&found, end)? {
                        self.current.is_repeated = true;
                        self.counts.repeated = self.counts.repeated.saturating_add(1);
                    } else {
                        self.begin(transaction, None);
                        self.awaited
                            .reach(transaction.commit_lsn, First::Transaction);
                    }
                }
                Ok(Some(Event::Commit { .. })) if self.current.is_repeated => {
                    self.current = Current::default();
                }
                Ok(Some(Event::Commit {
                    transaction,
                    changes,
                    ..
                })) => {
                    let end = transaction.end_lsn;
                    let taken = taken(transaction);
                    self.counts.transactions = self.counts.transactions.saturating_add(1);
                    self.counts.rows = self.counts.rows.saturating_add(*changes);
                    self.counts.last_commit_time = Some(transaction.commit_time);
                    self.encoder.commit(transaction, &mut self.block);
                    self.count(before);
                    self.end_transaction(taken, end, assembler)?;
                }
                Ok(None) => return Ok(()),
                Ok(Some(Event::Change(Err(error)))) | Err(error) => {
                    return Err(error.clone().into());
                }
                Ok(Some(event)) => self.other(event)?,
            }
        }
    }

    /// Appends an event that is rare.
    #[inline(never)]
    fn other<T>(&mut self, event: &Event<'_, T>) -> Result<(), Error> {
        let before = self.block.len();
        match event {
            Event::Truncate(truncate) if !self.current.is_repeated => {
                self.encoder.truncate(truncate, &mut self.block);
                for relation in &truncate.relations {
                    self.contents.truncate(relation);
                }
                self.current.next_seq = truncate.seq.saturating_add(1);
                self.count(before);
            }
            Event::Fact(fact) if self.current.is_open && !self.current.is_repeated => {
                // Of a segment that is sealed again.
                if let Fact::Seq { next } = **fact {
                    fact.encode(true, &mut self.block);
                    self.current.next_seq = next;
                    self.count(before);
                }
            }
            Event::Message(message) if message.transactional && !self.current.is_repeated => {
                self.encoder.message(message, &mut self.block);
                self.count(before);
            }
            Event::Message(message) if !message.transactional => {
                let taken = taken_message(message, self.options.source.last.as_ref());
                if self.meet(&taken, message.lsn)? {
                    return Ok(());
                }
                let before = self.block.len();
                self.encoder.message(message, &mut self.block);
                self.count(before);
                self.last_prepare = None;
                if self.awaited.reach(message.lsn, First::Message(message.lsn)) {
                    self.first_after_load = Some(taken);
                } else {
                    self.has_changes = true;
                    (self.whole, self.end) = (self.size, message.lsn);
                    self.options.source.last = Some(taken);
                }
            }
            Event::Prepared { xid, prepared, .. } => {
                let taken = Taken::prepare(prepared.prepare_lsn, *xid, prepared.prepare_time);
                if !self.meet(&taken, prepared.prepare_end_lsn)? {
                    self.last_prepare = Some((taken, prepared.prepare_end_lsn));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Counts what was added to the block, which had this many bytes.
    fn count(&mut self, before: usize) {
        let bytes = self.block.len().saturating_sub(before);
        self.size = self.size.saturating_add(bytes as u64);
    }

    /// Writes a transaction's begin, or that of another part, whose first change has this seq.
    pub(super) fn begin(&mut self, transaction: &Transaction, first_seq: Option<u64>) {
        let before = self.block.len();
        if let Some(first_seq) = first_seq {
            Fact::Part { first_seq }.encode(false, &mut self.block);
        }
        if let Some(prepared) = &transaction.prepared {
            Fact::Prepared {
                gid: prepared.gid.clone(),
                prepare_lsn: prepared.prepare_lsn,
                prepare_end_lsn: prepared.prepare_end_lsn,
                prepare_time: prepared.prepare_time.0,
            }
            .encode(false, &mut self.block);
        }
        if transaction.snapshot {
            Fact::Snapshot.encode(false, &mut self.block);
        }
        let until = transaction.rolled_back_until;
        if until.is_valid() {
            Fact::RolledBack { until }.encode(false, &mut self.block);
        }
        self.encoder.begin(transaction, &mut self.block);
        self.count(before);
        self.current = Current {
            head: self.size,
            is_repeated: false,
            next_seq: first_seq.unwrap_or(0),
            is_open: true,
        };
        self.contents.begin(transaction);
    }

    fn end_transaction(
        &mut self,
        taken: Taken,
        end: Lsn,
        assembler: &mut Assembler,
    ) -> Result<(), Error> {
        self.current = Current::default();
        self.contents.commit();
        self.has_changes = true;
        (self.whole, self.end) = (self.size, self.end.max(end));
        self.options.source.last = Some(taken);
        self.last_prepare = None;
        self.publish_last_part(assembler)
    }

    /// Publishes the last part of a large transaction: it is a segment of its own. An earlier call may
    /// have failed.
    fn publish_last_part(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if self.name.part > 0 && self.has_changes {
            self.publish(assembler)?;
        }
        Ok(())
    }

    /// Writes a block that is full to the open file, and a part of a transaction that is larger than a
    /// segment to a segment.
    fn make_room(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        self.pass_load(assembler)?;
        let between = !self.current.is_open;
        if self.block.len() >= LARGEST || between && self.block.len() >= BLOCK {
            if self.open.is_full(self.block.len()) {
                self.save_prepared(assembler)?;
            }
            self.flush()?;
        }
        if !between && self.size.saturating_sub(self.whole) >= self.options.segment_bytes {
            self.publish_part(assembler)?;
        }
        Ok(())
    }

    /// Ends the block. Blocks have whole transactions only, or a part of the current one only.
    pub(super) fn flush(&mut self) -> Result<(), Error> {
        let io = |error| Error::store(OPEN, &error);
        let between = !self.current.is_open;
        if !between {
            let current = self.size.saturating_sub(self.whole);
            let current = usize::try_from(current).unwrap_or(usize::MAX);
            let whole = self.block.len().saturating_sub(current);
            if whole > 0 {
                let rest = self.block.split_off(whole);
                let held = self.open.hold(&mut self.block, true);
                // If it was refused, the block is as before.
                self.block.extend_from_slice(&rest);
                held.map_err(io)?;
            }
        }
        if self.block.is_empty() {
            return Ok(());
        }
        self.open.hold(&mut self.block, between).map_err(io)
    }

    /// Gives the whole transactions that fill blocks to the next segment, so that
    /// [`Writer::publish`] has less to do. Call it when the catalog has the definitions that they use.
    ///
    /// # Errors
    /// The store failed. Another call, or [`Writer::publish`], begins the segment again.
    pub fn fill(&mut self) -> Result<(), Error> {
        if !self.has_changes || self.name.part > 0 {
            return Ok(());
        }
        let next = self.segment.as_ref().map(Filling::next);
        if next.unwrap_or(self.published_blocks) < self.open.whole() {
            let mut segment = self.begun()?;
            self.give(&mut segment, self.open.whole(), Which::Whole)?;
            self.segment = Some(segment);
        }
        match &self.segment {
            Some(segment) if self.options.syncs => self.open.release(segment.next()),
            Some(segment) => self.open.discard(segment.next()),
            None => {}
        }
        Ok(())
    }

    /// Records that the server has decoded everything up to this LSN, so that it may be confirmed when
    /// it is durable. A quiet database would keep its WAL for ever otherwise.
    ///
    /// # Errors
    /// The server differs from the log's: see [`Writer::compare`].
    pub fn advance(&mut self, lsn: Lsn) -> Result<(), Error> {
        if !self.current.is_open && self.comparison.reach(lsn)? {
            self.note_found();
        }
        if self.comparison.takes() {
            self.go_to(lsn);
        }
        Ok(())
    }

    pub(super) fn go_to(&mut self, lsn: Lsn) {
        if lsn <= self.end || self.current.is_open {
            return;
        }
        if self.awaited.reach(lsn, First::Position(lsn)) {
            return;
        }
        self.take_prepare(lsn);
        let before = self.block.len();
        Fact::Position { lsn }.encode(false, &mut self.block);
        self.count(before);
        (self.whole, self.end) = (self.size, lsn);
    }

    /// Makes all whole transactions durable, and those that the assembler has prepared, and returns
    /// [`Writer::position`].
    ///
    /// # Errors
    /// The store failed. Another call tries again.
    pub fn sync(&mut self, assembler: &mut Assembler) -> Result<Lsn, Error> {
        if !self.comparison.takes() {
            // Nothing of the session is the log's.
            return Ok(self.durable);
        }
        self.pass_load(assembler)?;
        // A large transaction is durable when its last part is published, and so is the decision about it.
        let is_whole = !self.current.is_open && self.name.part == 0;
        if !self.options.syncs {
            self.publish(assembler)?;
            if self.open.begin() > 0 {
                return Ok(self.durable);
            }
        }
        self.save_prepared(assembler)?;
        if is_whole {
            self.note_decided(assembler);
        }
        self.flush()?;
        if let Err(error) = self.open.write_held() {
            // Its bytes may be those that the file lacks on a full disk.
            if let Some(segment) = self.segment.take() {
                segment.remove(&*self.store)?;
            }
            return Err(Error::store(OPEN, &error));
        }
        self.sync_open()?;
        if self.name.part == 0 {
            self.durable = self.end;
        }
        if is_whole {
            self.forget_decided()?;
        }
        Ok(self.durable)
    }

    /// Makes the open file durable.
    pub(super) fn sync_open(&mut self) -> Result<(), Error> {
        self.open.sync().map_err(|error| not_synced(&error))
    }

    /// Saves the transactions that were prepared since. What comes after them is written later: then the
    /// server may not send their rows again, as the log's end is confirmed when it is opened.
    pub(super) fn save_prepared(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        if !self.comparison.takes() {
            return Ok(());
        }
        let found: Vec<_> = prepared(assembler).collect();
        for name in found {
            if !self.prepared.contains(&name) {
                name.save(&*self.store, assembler)?;
                self.prepared.insert(name);
            }
        }
        Ok(())
    }

    /// Notes which of them were decided, between transactions.
    pub(super) fn note_decided(&mut self, assembler: &Assembler) {
        if !self.comparison.takes() {
            return;
        }
        let found: BTreeSet<_> = prepared(assembler).collect();
        let decided: Vec<_> = self.prepared.difference(&found).copied().collect();
        for name in &decided {
            let before = self.block.len();
            Fact::Decided {
                xid: name.xid,
                prepare_end_lsn: name.end,
            }
            .encode(false, &mut self.block);
            self.count(before);
            self.whole = self.size;
        }
        self.decided.extend(decided);
        self.prepared = found;
    }

    /// Removes the prepared transactions whose decision is durable.
    pub(super) fn forget_decided(&mut self) -> Result<(), Error> {
        while let Some(name) = self.decided.last() {
            name.remove(&*self.store)?;
            self.decided.pop();
        }
        Ok(())
    }
}

/// What the open file contains is not known: the log must be opened again.
pub(super) fn not_synced(error: &io::Error) -> Error {
    let (code, text) = (error.raw_os_error(), error.to_string());
    Error::new(OPEN, ErrorKind::NotSynced { code, text })
}

/// The transactions that an assembler has prepared.
fn prepared(assembler: &Assembler) -> impl Iterator<Item = PreparedName> {
    assembler.prepared().map(|(xid, prepared)| PreparedName {
        end: prepared.prepare_end_lsn,
        xid,
    })
}

/// Takes what is not known from the log.
fn complete(source: &mut Source, log: &Source) {
    let log = log.clone();
    source.system_identifier = source.system_identifier.take().or(log.system_identifier);
    source.database = source.database.take().or(log.database);
    source.slot = source.slot.take().or(log.slot);
    source.timeline = source.timeline.or(log.timeline);
    source.timeline_start = log.timeline_start;
    source.last = log.last;
    source.slot_start = log.slot_start;
    source.asked = log.asked;
    source.prepared_before = log.prepared_before;
    if source.session.is_empty() {
        source.session = log.session;
    }
}
