//! The messages that a writer has taken since the last segment, encoded as in a segment. The buffer
//! collects them in a block until the block is full.

use crate::error::Error;
use crate::format::contents::{Contents, Which};
use crate::format::segment::Foot;
use crate::store::OPEN;
use crate::write::marks::Marks;
use crate::write::open_file::OpenFile;
use std::mem;
use walrow_stream::fact::{Fact, Gap, Source};
use walrow_stream::{Change, Encoder, Message, Transaction, Truncate, Unread};
use walrow_wire::Lsn;

/// A block between transactions is full at this many bytes.
const BLOCK: usize = 1 << 20;
/// A block inside a transaction is full at this many bytes.
const LARGEST: usize = 4 << 20;
/// The tables in a foot are counted at least once in this many bytes.
const STRIDE: usize = 64 << 10;

/// Where the stream is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum At {
    /// Between transactions.
    #[default]
    Between,
    /// In a transaction that the log has.
    Skipping,
    /// In a transaction.
    Inside {
        /// The number of its parts that are segments already.
        part: u32,
        /// The place of its inherited relations, if a segment begins with this transaction.
        head: u64,
        /// The seq of its next change.
        next_seq: u64,
    },
    /// After a large transaction. Its last part has this number, and is no segment yet.
    LastPart(u32),
}

impl At {
    /// The part number of the next segment.
    pub(crate) const fn part(self) -> u32 {
        match self {
            Self::Between | Self::Skipping => 0,
            Self::Inside { part, .. } | Self::LastPart(part) => part,
        }
    }

    /// Whether no transaction of the log is open.
    pub(crate) const fn is_between(self) -> bool {
        matches!(self, Self::Between | Self::LastPart(_))
    }
}

/// The messages since the last segment.
#[derive(Debug, Default)]
pub(crate) struct Buffer {
    encoder: Encoder,
    /// Bytes that are not in the journal yet.
    block: Vec<u8>,
    marks: Marks,
    /// Counts of the transactions and changes.
    contents: Contents,
    /// Whether there are transactions or messages.
    has_changes: bool,
    at: At,
}

/// A transaction or message that is not whole, while the buffer moves it behind a load.
#[derive(Debug)]
pub(crate) struct Later {
    bytes: Vec<u8>,
    at: At,
}

impl Buffer {
    /// Begins another session.
    pub(crate) fn begin_session(&mut self) {
        self.encoder.restart();
        self.contents.begin_session();
    }

    pub(crate) const fn at(&self) -> At {
        self.at
    }

    pub(crate) const fn marks(&self) -> Marks {
        self.marks
    }

    pub(crate) const fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Whether there are transactions or messages.
    pub(crate) const fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// Takes over the counts of a journal. Its blocks already have the whole transactions.
    pub(crate) fn recover(&mut self, contents: Contents) {
        self.contents = contents;
        self.has_changes = true;
    }

    /// Takes over a journal that has only facts. The facts stay in the journal.
    pub(crate) const fn recover_facts(&mut self, size: u64, blocks: usize) {
        self.marks = Marks::known(size, blocks);
    }

    /// Sets whether the buffer skips the rest of a transaction.
    pub(crate) const fn skip(&mut self, skips: bool) {
        self.at = if skips { At::Skipping } else { At::Between };
    }

    /// Appends a row, unless its transaction is skipped.
    #[inline]
    pub(crate) fn row(
        &mut self,
        change: &Change<'_, Unread<'_>>,
    ) -> Result<(), walrow_stream::Error> {
        let At::Inside { next_seq, .. } = &mut self.at else {
            return Ok(());
        };
        let before = self.block.len();
        self.encoder.row(change, &mut self.block)?;
        let bytes = self.block.len().saturating_sub(before);
        self.contents.row(change.relation, bytes);
        *next_seq = change.seq.saturating_add(1);
        self.marks.add(bytes);
        Ok(())
    }

    /// Appends a truncate, unless its transaction is skipped.
    pub(crate) fn truncate(&mut self, truncate: &Truncate) {
        if let At::Inside { next_seq, .. } = &mut self.at {
            *next_seq = truncate.seq.saturating_add(1);
            let before = self.block.len();
            self.encoder.truncate(truncate, &mut self.block);
            for relation in &truncate.relations {
                self.contents.truncate(relation);
            }
            self.count(before);
        }
    }

    /// Appends a fact of a transaction. It comes from a segment that is sealed again.
    pub(crate) fn fact(&mut self, fact: &Fact) {
        if let (Fact::Seq { next }, At::Inside { next_seq, .. }) = (fact, &mut self.at) {
            *next_seq = *next;
            let before = self.block.len();
            fact.encode(true, &mut self.block);
            self.count(before);
        }
    }

    /// Appends a message. A message outside transactions is whole after [`Buffer::end_message`].
    pub(crate) fn message(&mut self, message: &Message<'_>) {
        let before = self.block.len();
        self.encoder.message(message, &mut self.block);
        self.count(before);
    }

    /// Marks the message that was appended last as whole.
    pub(crate) const fn end_message(&mut self) {
        self.has_changes = true;
        self.marks.end();
    }

    /// Writes the begin of a transaction or of a later part. `first_seq` is the seq of the first
    /// change in a later part.
    pub(crate) fn begin(&mut self, transaction: &Transaction, part: u32, first_seq: Option<u64>) {
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
        self.at = At::Inside {
            part,
            head: self.marks.size(),
            next_seq: first_seq.unwrap_or(0),
        };
        self.contents.begin(transaction);
    }

    /// Writes a transaction's commit.
    pub(crate) fn commit(&mut self, transaction: &Transaction) {
        let before = self.block.len();
        self.encoder.commit(transaction, &mut self.block);
        self.count(before);
        self.at = match self.at.part() {
            0 => At::Between,
            part => At::LastPart(part),
        };
        self.contents.commit();
        self.has_changes = true;
        self.marks.end();
    }

    /// The end of the current part of a transaction.
    pub(crate) fn end_of_part(&mut self, transaction: &Transaction) -> Vec<u8> {
        let mut end = Vec::new();
        Fact::Continues.encode(true, &mut end);
        self.encoder.commit(transaction, &mut end);
        end
    }

    /// Notes that the server has decoded everything up to this LSN.
    pub(crate) fn position(&mut self, lsn: Lsn) {
        let before = self.block.len();
        Fact::Position { lsn }.encode(false, &mut self.block);
        self.count(before);
        self.marks.end();
    }

    /// Notes a gap. Readers have to see it, so a segment is due.
    pub(crate) fn gap(&mut self, gap: Gap) {
        self.contents.gap(gap.clone());
        self.note([Fact::Gap(gap)]);
        self.has_changes = true;
    }

    /// Notes facts about the log.
    pub(crate) fn note(&mut self, facts: impl IntoIterator<Item = Fact>) {
        for fact in facts {
            let is_whole = self.marks.current() == 0;
            let before = self.block.len();
            fact.encode(false, &mut self.block);
            self.count(before);
            if is_whole {
                self.marks.end();
            }
        }
    }

    /// Notes a fact before the current transaction, so that a block with whole transactions has the
    /// fact. If the journal already has a part of the transaction, the fact comes after the changes
    /// so far.
    pub(crate) fn note_before_current(&mut self, fact: &Fact) {
        let Some(whole) = self.block.len().checked_sub(self.current()) else {
            self.note([fact.clone()]);
            return;
        };
        let rest = self.block.split_off(whole);
        fact.encode(false, &mut self.block);
        let added = self.block.len().saturating_sub(whole);
        self.block.extend_from_slice(&rest);
        self.marks.add_whole(added);
        if let At::Inside { head, .. } = &mut self.at {
            *head = head.saturating_add(added as u64);
        }
    }

    /// Counts the bytes that were added to the block. It had `before` bytes.
    fn count(&mut self, before: usize) {
        self.marks.add(self.block.len().saturating_sub(before));
    }

    /// Whether the block is full.
    pub(crate) const fn is_full(&self) -> bool {
        let size = self.block.len();
        // In this order, most events need one comparison.
        size >= BLOCK && (size >= LARGEST || !matches!(self.at, At::Inside { .. }))
    }

    /// The size that the block may reach while only events are taken: until then, no part and no
    /// foot gets full. A transaction that ends may fill the block before.
    pub(crate) fn room(&self, segment_bytes: u64) -> usize {
        let size = self.block.len();
        let part = segment_bytes.saturating_sub(self.marks.current());
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        let block = if size < BLOCK { BLOCK } else { LARGEST };
        block.min(size.saturating_add(part.min(STRIDE)))
    }

    /// The size of the block.
    #[inline]
    pub(crate) const fn size(&self) -> usize {
        self.block.len()
    }

    /// Ends the block. A block has either whole transactions or a part of the current transaction.
    pub(crate) fn flush(&mut self, journal: &mut OpenFile) -> Result<(), Error> {
        let io = |error| Error::store(OPEN, &error);
        let is_outside = !matches!(self.at, At::Inside { .. });
        if !is_outside {
            let whole = self.block.len().saturating_sub(self.current());
            if whole > 0 {
                let rest = self.block.split_off(whole);
                let held = journal.hold(&mut self.block, true);
                // If the journal refuses the block, the buffer keeps it.
                self.block.extend_from_slice(&rest);
                held.map_err(io)?;
            }
        }
        if self.block.is_empty() {
            return Ok(());
        }
        journal.hold(&mut self.block, is_outside).map_err(io)
    }

    /// Bytes of the transaction that is being written.
    fn current(&self) -> usize {
        usize::try_from(self.marks.current()).unwrap_or(usize::MAX)
    }

    /// The place and the bytes of the relations that the current transaction inherits from earlier
    /// transactions.
    pub(crate) fn inherited(&self) -> Option<(usize, Vec<u8>)> {
        let At::Inside { head, .. } = self.at else {
            return None;
        };
        let mut inherited = Vec::new();
        self.encoder.inherited(&mut inherited);
        let begin = head.saturating_sub(self.marks.whole());
        Some((usize::try_from(begin).unwrap_or(usize::MAX), inherited))
    }

    /// The foot of a segment with these transactions.
    pub(crate) fn foot(&self, which: Which, source: &Source, end: Lsn) -> Foot {
        self.contents.foot(which, source, end)
    }

    /// Notes that the whole transactions are in a segment.
    pub(crate) fn publish_whole(&mut self) {
        self.contents.drop_whole();
        self.has_changes = false;
    }

    /// Notes that this many blocks are in segments.
    pub(crate) const fn publish_blocks(&mut self, blocks: usize) {
        self.marks.publish(blocks);
    }

    /// Begins again after the journal was emptied.
    pub(crate) fn clear(&mut self) {
        self.clear_marks();
        self.contents.clear();
        self.at = match self.at {
            At::LastPart(_) => At::Between,
            at => at,
        };
    }

    fn clear_marks(&mut self) {
        self.marks = Marks::default();
        self.has_changes = false;
        self.encoder.restart();
    }

    /// Takes out the transaction or message that is not whole. [`Buffer::put_back`] appends it
    /// again.
    pub(crate) fn take_later(&mut self) -> Later {
        let at = mem::take(&mut self.at);
        let size = usize::try_from(self.marks.cut()).unwrap_or(usize::MAX);
        let bytes = self.block.split_off(self.block.len().saturating_sub(size));
        Later { bytes, at }
    }

    /// Begins behind a load. Segments have the messages before the load, so only these facts come
    /// before the bytes that [`Buffer::put_back`] appends.
    pub(crate) fn begin_behind(&mut self, facts: Vec<Fact>) {
        self.clear_marks();
        self.block.clear();
        self.contents.drop_whole();
        self.note(facts);
    }

    /// Appends the bytes that [`Buffer::take_later`] took out.
    pub(crate) fn put_back(&mut self, later: &Later) {
        self.block.extend_from_slice(&later.bytes);
        self.marks.add(later.bytes.len());
        self.at = match later.at {
            At::Inside { next_seq, .. } => At::Inside {
                part: 0,
                head: self.marks.size(),
                next_seq,
            },
            at => at,
        };
    }
}
