//! Appends a stream to a log.
//!
//! ```text
//! stream ─► Assembler ─► Encoder ─► block ─► open file ─► segment
//!           committed    protocol 1          durable      published
//! ```
//! A transaction is durable when the open file is synced, and visible to readers when its segment is
//! published. After a crash, the whole transactions of the open file are published first.

use crate::contents::Contents;
use crate::error::{Error, ErrorKind};
use crate::open_file::OpenFile;
use crate::segment::{Foot, SegmentName};
use crate::segment_file::SegmentFile;
use crate::store::Store;
use std::io;
use std::sync::Arc;
use walrow_stream::fact::{Fact, Segment, Source};
use walrow_stream::{Assembler, Encoder, Event, Transaction};
use walrow_wire::Lsn;

/// Bytes of a block that ends with a transaction.
const BLOCK: usize = 1 << 20;
/// Bytes after which a block ends inside a transaction.
const LARGEST: usize = 4 << 20;

/// How a log is written.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct WriterOptions {
    /// Where the changes come from.
    pub source: Source,
    /// Bytes of the stream after which a segment ends with the transaction. A larger transaction
    /// continues in several segments.
    pub segment_bytes: u64,
    /// The compression level of zstd. `None` stores the bytes as they are.
    pub level: Option<i32>,
}

impl Default for WriterOptions {
    fn default() -> Self {
        Self {
            source: Source::default(),
            segment_bytes: 64 << 20,
            level: Some(3),
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
/// let mut assembler = Assembler::default().with_start(writer.position());
/// writer.append(&mut assembler, &mut &*stream)?;
/// writer.publish()?;
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Writer {
    store: Arc<dyn Store>,
    options: WriterOptions,
    encoder: Encoder,
    open: OpenFile,
    /// What is not in the open file yet.
    block: Vec<u8>,
    /// Bytes of the stream in the open file and the block.
    size: u64,
    /// How many of them are whole transactions.
    whole: u64,
    /// What the whole transactions contain.
    contents: Contents,
    /// Whether there are transactions or messages.
    has_changes: bool,
    /// Bytes of the open file that are published.
    published: u64,
    current: Current,
    /// The next segment.
    name: SegmentName,
    /// Where the last whole transaction ends.
    end: Lsn,
    /// The same, of what is durable.
    durable: Lsn,
}

/// The transaction that is being written.
#[derive(Debug, Default)]
struct Current {
    /// `None` between transactions.
    transaction: Option<Transaction>,
    contents: Contents,
    /// Where its relations would come, if it were written without what came before.
    head: u64,
    /// The seq of its next change.
    next_seq: u64,
}

impl Writer {
    /// Opens a log for writing. What a crash has left is put in order: whole transactions are
    /// published, incomplete ones are removed.
    ///
    /// # Errors
    /// Another process writes to the log. The log belongs to another source, or is not a log. The
    /// store failed.
    pub fn open(store: Arc<dyn Store>, options: WriterOptions) -> Result<Self, Error> {
        let open = OpenFile::open(&*store).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::new("", ErrorKind::Locked),
            _ => Error::store(OpenFile::NAME, &error),
        })?;
        let end = end_of(&*store, &options.source)?;
        let mut writer = Self {
            store,
            options,
            encoder: Encoder::default(),
            open,
            block: Vec::new(),
            size: 0,
            whole: 0,
            contents: Contents::default(),
            has_changes: false,
            published: 0,
            current: Current::default(),
            name: SegmentName {
                start: end,
                part: 0,
            },
            end,
            durable: end,
        };
        writer.recover()?;
        Ok(writer)
    }

    /// The LSN up to which everything is durable: it may be confirmed to the server. Give it to
    /// [`Assembler::with_start`], so that nothing is written twice.
    pub const fn position(&self) -> Lsn {
        self.durable
    }

    /// Appends all events of an assembler, and takes all input. A segment that is full is published.
    ///
    /// # Errors
    /// The stream does not follow the protocol, or the store failed. After a failure of the store,
    /// the next call continues where this one stopped.
    pub fn append(&mut self, assembler: &mut Assembler, input: &mut &[u8]) -> Result<(), Error> {
        loop {
            self.make_room()?;
            let Self {
                encoder,
                block,
                current,
                ..
            } = self;
            let event = assembler.next_with(input, |change| {
                let before = block.len();
                encoder.row(&change, block)?;
                let bytes = block.len().saturating_sub(before);
                current.contents.row(change.relation, bytes);
                current.next_seq = change.seq.saturating_add(1);
                Ok::<_, walrow_stream::Error>(bytes)
            })?;
            let before = self.block.len();
            match event {
                None => return Ok(()),
                Some(Event::Change(bytes)) => {
                    self.size = self.size.saturating_add(bytes? as u64);
                    continue;
                }
                Some(Event::Begin(transaction)) => {
                    let transaction = transaction.clone();
                    self.begin(transaction, None);
                    continue;
                }
                Some(Event::Truncate(truncate)) => {
                    self.encoder.truncate(&truncate, &mut self.block);
                    for relation in &truncate.relations {
                        self.current.contents.truncate(relation);
                    }
                    self.current.next_seq = truncate.seq.saturating_add(1);
                }
                Some(Event::Message(message)) => {
                    self.encoder.message(&message, &mut self.block);
                    if !message.transactional {
                        self.count(before);
                        self.has_changes = true;
                        (self.whole, self.end) = (self.size, self.end.max(message.lsn));
                        continue;
                    }
                }
                Some(Event::Commit { transaction, .. }) => {
                    let end = transaction.end_lsn;
                    self.encoder.commit(transaction, &mut self.block);
                    self.count(before);
                    self.end_transaction(end)?;
                    continue;
                }
                Some(_) => {}
            }
            self.count(before);
        }
    }

    /// Counts what was added to the block, which had this many bytes.
    fn count(&mut self, before: usize) {
        let bytes = self.block.len().saturating_sub(before);
        self.size = self.size.saturating_add(bytes as u64);
    }

    /// Writes a transaction's begin, or that of another part, whose first change has this seq.
    fn begin(&mut self, transaction: Transaction, first_seq: Option<u64>) {
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
        self.encoder.begin(&transaction, &mut self.block);
        self.count(before);
        self.current = Current {
            head: self.size,
            contents: Contents::default(),
            next_seq: first_seq.unwrap_or(0),
            transaction: Some(transaction),
        };
        if let Some(transaction) = &self.current.transaction {
            self.current.contents.transaction(transaction);
        }
    }

    fn end_transaction(&mut self, end: Lsn) -> Result<(), Error> {
        let current = std::mem::take(&mut self.current);
        self.contents.extend(&current.contents);
        self.has_changes = true;
        (self.whole, self.end) = (self.size, self.end.max(end));
        // The last part of a large transaction is a segment of its own.
        if self.size >= self.options.segment_bytes || self.name.part > 0 {
            self.publish()?;
        }
        Ok(())
    }

    /// Writes a block that is full to the open file, and a part of a transaction that is larger than a
    /// segment to a segment.
    fn make_room(&mut self) -> Result<(), Error> {
        let between = self.current.transaction.is_none();
        if self.block.len() >= LARGEST || between && self.block.len() >= BLOCK {
            self.flush()?;
        }
        if !between && self.size.saturating_sub(self.whole) >= self.options.segment_bytes {
            self.publish_part()?;
        }
        Ok(())
    }

    /// Writes the block to the open file.
    fn flush(&mut self) -> Result<(), Error> {
        if self.block.is_empty() {
            return Ok(());
        }
        let between = self.current.transaction.is_none();
        self.open
            .append(&self.block, between)
            .map_err(|error| Error::store(OpenFile::NAME, &error))?;
        self.block.clear();
        Ok(())
    }

    /// Records that the server has decoded everything up to this LSN, so that it may be confirmed when
    /// it is durable. A quiet database would keep its WAL for ever otherwise.
    pub fn advance(&mut self, lsn: Lsn) {
        if lsn <= self.end || self.current.transaction.is_some() {
            return;
        }
        let before = self.block.len();
        Fact::Position { lsn }.encode(false, &mut self.block);
        self.count(before);
        (self.whole, self.end) = (self.size, lsn);
    }

    /// Makes all whole transactions durable, and returns [`Writer::position`].
    ///
    /// # Errors
    /// The store failed. Another call tries again.
    pub fn sync(&mut self) -> Result<Lsn, Error> {
        self.flush()?;
        self.open
            .sync()
            .map_err(|error| Error::store(OpenFile::NAME, &error))?;
        // A large transaction is durable when its last part is published.
        if self.name.part == 0 {
            self.durable = self.end;
        }
        Ok(self.durable)
    }

    /// Publishes all whole transactions as a segment, and returns its foot. `None` if there are none.
    ///
    /// # Errors
    /// The store failed. Another call tries again. Another writer has published the segment.
    pub fn publish(&mut self) -> Result<Option<Foot>, Error> {
        if self.current.transaction.is_some() || !self.has_changes {
            return Ok(None);
        }
        self.flush()?;
        let foot = self.contents.foot(&self.options.source, self.end, false);
        let foot = self.publish_range(self.published, self.size, None, foot)?;
        self.continue_at(self.end, 0)?;
        self.durable = self.end;
        Ok(Some(foot))
    }

    /// Publishes what there is of a transaction that is larger than a segment.
    fn publish_part(&mut self) -> Result<(), Error> {
        let Some(transaction) = self.current.transaction.clone() else {
            return Ok(());
        };
        self.flush()?;
        if self.has_changes {
            let foot = self.contents.foot(&self.options.source, self.end, false);
            self.publish_range(self.published, self.whole, None, foot)?;
            self.published = self.whole;
            (self.contents, self.has_changes) = (Contents::default(), false);
            self.name = SegmentName {
                start: self.end,
                part: 0,
            };
        }
        let (mut inherited, mut end) = (Vec::new(), Vec::new());
        self.encoder.inherited(&mut inherited);
        Fact::Continues.encode(true, &mut end);
        self.encoder.commit(&transaction, &mut end);
        let foot = (self.current.contents).foot(&self.options.source, self.end, true);
        let added = (self.current.head, inherited, end);
        self.publish_range(self.whole, self.size, Some(&added), foot)?;
        let next_seq = self.current.next_seq;
        self.continue_at(self.name.start, self.name.part.saturating_add(1))?;
        self.begin(transaction, Some(next_seq));
        Ok(())
    }

    /// Begins the next segment.
    fn continue_at(&mut self, start: Lsn, part: u32) -> Result<(), Error> {
        self.open
            .clear()
            .map_err(|error| Error::store(OpenFile::NAME, &error))?;
        (self.size, self.whole, self.published) = (0, 0, 0);
        (self.contents, self.has_changes) = (Contents::default(), false);
        self.encoder.restart();
        self.name = SegmentName { start, part };
        Ok(())
    }

    /// Publishes a range of the open file. `added` has bytes to add at a place, and at the end.
    fn publish_range(
        &mut self,
        from: u64,
        to: u64,
        added: Option<&(u64, Vec<u8>, Vec<u8>)>,
        foot: Foot,
    ) -> Result<Foot, Error> {
        let head = Segment {
            start: self.name.start,
            part: self.name.part,
            source: self.options.source.clone(),
            ..Segment::default()
        };
        let mut segment = SegmentFile::create(&*self.store, head, self.options.level)?;
        let mut at = 0_u64;
        let mut copy = |bytes: &[u8], at: u64, between| -> Result<(), Error> {
            let end = at.saturating_add(bytes.len() as u64);
            let within = |place: u64| {
                let place = place.clamp(at, end).saturating_sub(at);
                usize::try_from(place).unwrap_or(usize::MAX)
            };
            let part = |from, to| bytes.get(within(from)..within(to)).unwrap_or_default();
            match added {
                Some((place, more, _)) if (at..end).contains(place) && *place < to => {
                    segment.append(part(from, *place), false)?;
                    segment.append(more, false)?;
                    segment.append(part(*place, to), between)
                }
                _ => segment.append(part(from, to), between),
            }
        };
        self.open.read(|bytes, between| {
            copy(bytes, at, between)?;
            at = at.saturating_add(bytes.len() as u64);
            Ok(())
        })?;
        if let Some((_, _, end)) = added {
            segment.append(end, true)?;
        }
        segment.publish(&*self.store, foot)
    }

    /// Publishes the whole transactions that the open file has after a crash.
    fn recover(&mut self) -> Result<(), Error> {
        let mut stream = Vec::new();
        self.open.read(|bytes, _| {
            stream.extend_from_slice(bytes);
            Ok(())
        })?;
        let found = Recovered::of(&stream)?;
        let first = found.first.unwrap_or(found.end);
        if found.end > self.end && first <= self.end {
            let what = "the order of its transactions";
            return Err(Error::new(OpenFile::NAME, ErrorKind::Damaged { what }));
        }
        if found.end <= self.end {
            return self.continue_at(self.end, 0);
        }
        self.end = found.end;
        self.size = found.whole;
        if found.has_changes {
            let foot = found.contents.foot(&self.options.source, self.end, false);
            self.publish_range(0, found.whole, None, foot)?;
            self.continue_at(self.end, 0)?;
        }
        self.whole = self.size;
        self.durable = self.end;
        Ok(())
    }
}

/// The whole transactions in an open file.
#[derive(Debug, Default)]
struct Recovered {
    contents: Contents,
    has_changes: bool,
    /// Where the first one ends.
    first: Option<Lsn>,
    end: Lsn,
    /// Bytes of the stream up to there.
    whole: u64,
}

impl Recovered {
    fn of(stream: &[u8]) -> Result<Self, Error> {
        let mut found = Self::default();
        let (mut assembler, mut encoder) = (Assembler::default(), Encoder::default());
        let (mut current, mut scratch) = (Contents::default(), Vec::new());
        // A part is useless without the others, which were not all published.
        let mut is_part = false;
        let mut rest = stream;
        loop {
            scratch.clear();
            let event = assembler.next_with(&mut rest, |change| {
                encoder.row(&change, &mut scratch)?;
                current.row(change.relation, scratch.len());
                Ok::<_, walrow_stream::Error>(())
            })?;
            let end = match event {
                None => return Ok(found),
                Some(Event::Change(row)) => {
                    row?;
                    continue;
                }
                Some(Event::Begin(transaction)) => {
                    current = Contents::default();
                    current.transaction(transaction);
                    continue;
                }
                Some(Event::Truncate(truncate)) => {
                    for relation in &truncate.relations {
                        current.truncate(relation);
                    }
                    continue;
                }
                Some(Event::Fact(fact)) => match *fact {
                    Fact::Part { .. } => {
                        is_part = true;
                        continue;
                    }
                    Fact::Position { lsn } => lsn,
                    _ => continue,
                },
                Some(Event::Message(message)) if !message.transactional => {
                    found.has_changes = true;
                    message.lsn
                }
                Some(Event::Commit { transaction, .. }) => {
                    if std::mem::take(&mut is_part) {
                        continue;
                    }
                    found.contents.extend(&current);
                    found.has_changes = true;
                    transaction.end_lsn
                }
                Some(_) => continue,
            };
            found.first.get_or_insert(end);
            found.end = found.end.max(end);
            found.whole = (stream.len().saturating_sub(rest.len())) as u64;
        }
    }
}

/// Where the last whole transaction of the published segments ends. Removes the parts of one that is
/// not complete, and temporary objects.
fn end_of(store: &dyn Store, source: &Source) -> Result<Lsn, Error> {
    let mut names = Vec::new();
    for object in store.list().map_err(|error| Error::store("", &error))? {
        if let Some(name) = SegmentName::parse(&object) {
            names.push(name);
        } else if object.starts_with(SegmentFile::TEMPORARY) {
            store
                .remove(&object)
                .map_err(|error| Error::store(&object, &error))?;
        } else if object != OpenFile::NAME {
            return Err(Error::new(&object, ErrorKind::NotALog));
        }
    }
    names.sort_unstable();
    while let Some(name) = names.pop() {
        let foot = Foot::read(store, name)?;
        compare(&foot.source, source)?;
        if !foot.continues {
            return Ok(foot.end);
        }
        let object = name.to_string();
        store
            .remove(&object)
            .map_err(|error| Error::store(&object, &error))?;
    }
    Ok(Lsn::INVALID)
}

/// Refuses changes of another source. What is not known of one of them is not compared.
fn compare(log: &Source, found: &Source) -> Result<(), Error> {
    let fields = [
        (
            "system identifier",
            &log.system_identifier,
            &found.system_identifier,
        ),
        ("database", &log.database, &found.database),
        ("slot", &log.slot, &found.slot),
    ];
    for (what, log, found) in fields {
        if let (Some(log), Some(found)) = (log, found)
            && log != found
        {
            let (log, found) = (log.clone(), found.clone());
            return Err(Error::new("", ErrorKind::OtherSource { what, log, found }));
        }
    }
    Ok(())
}
