//! A writer's segments: what is whole is published, and a transaction that is larger than a segment in
//! parts.

use crate::log::contents::Which;
use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::filling::Filling;
use crate::log::recovery::Recovered;
use crate::log::segment::{Foot, SegmentName};
use crate::log::store::OPEN;
use crate::log::writer::{POSITIONS, Writer, not_synced};
use std::io;
use walrow_stream::Assembler;
use walrow_stream::fact::{Fact, Segment};
use walrow_wire::Lsn;

impl Writer {
    /// Publishes all whole transactions as a segment, and returns its foot. `None` if there are none.
    ///
    /// # Errors
    /// The store failed. Another call tries again. Another writer has published the segment.
    pub fn publish(&mut self, assembler: &mut Assembler) -> Result<Option<Foot>, Error> {
        self.pass_load(assembler)?;
        let is_due = self.has_changes || self.size.saturating_sub(self.published) >= POSITIONS;
        if self.current.is_open || !is_due || self.end <= self.name.start {
            return Ok(None);
        }
        // What is published is durable, so what was prepared before must be, too.
        self.save_prepared(assembler)?;
        self.note_decided(assembler);
        self.flush()?;
        let foot = self.publish_whole()?;
        // The facts about decisions go with the open file.
        self.durable = self.end;
        self.forget_decided()?;
        self.continue_at(self.end, 0)?;
        Ok(Some(foot))
    }

    /// Publishes what there is of a transaction that is larger than a segment.
    pub(super) fn publish_part(&mut self, assembler: &mut Assembler) -> Result<(), Error> {
        self.save_prepared(assembler)?;
        let Some(transaction) = assembler.transaction() else {
            return Ok(());
        };
        self.flush()?;
        // A position alone, too: the open file is emptied, and it may be confirmed.
        if self.has_changes || self.end > self.name.start {
            self.publish_whole()?;
            self.contents.drop_whole();
            self.has_changes = false;
            self.name = SegmentName {
                start: self.end,
                part: 0,
            };
        }
        (self.published, self.published_blocks) = (self.whole, self.open.whole());
        let mut segment = self.begun()?;
        self.give(&mut segment, self.open.count(), Which::Current)?;
        let mut end = Vec::new();
        Fact::Continues.encode(true, &mut end);
        self.encoder.commit(transaction, &mut end);
        segment.give_end(end)?;
        self.complete(segment, Which::Current)?;
        let next_seq = self.current.next_seq;
        self.continue_at(self.name.start, self.name.part.saturating_add(1))?;
        self.begin(transaction, Some(next_seq));
        Ok(())
    }

    /// Begins the next segment.
    pub(super) fn continue_at(&mut self, start: Lsn, part: u32) -> Result<(), Error> {
        self.clear_open()?;
        self.contents.clear();
        self.name = SegmentName { start, part };
        Ok(())
    }

    /// Empties the open file: everything in it is published.
    pub(super) fn clear_open(&mut self) -> Result<(), Error> {
        // What was published is no longer there to be published again.
        self.open.clear().map_err(|error| not_synced(&error))?;
        (self.size, self.whole) = (0, 0);
        (self.published, self.published_blocks) = (0, 0);
        self.has_changes = false;
        self.encoder.restart();
        Ok(())
    }

    /// The segment that was begun, or a new one.
    pub(super) fn begun(&mut self) -> Result<Filling, Error> {
        if let Some(segment) = self.segment.take() {
            return Ok(segment);
        }
        if self.open.begin() > self.published_blocks {
            let what = "the segment that was begun: open the log again, and append what is missing";
            let error = io::Error::other(what);
            return Err(Error::store(&self.name.to_string(), &error));
        }
        let source = self.options.source.clone();
        let head = Segment::new(self.name.start, self.name.part, source);
        let (store, level) = (&*self.store, self.options.level);
        Filling::begin(store, head, level, self.published_blocks)
    }

    /// Gives blocks to a segment, up to this number, after the definitions that they use.
    pub(super) fn give(
        &mut self,
        segment: &mut Filling,
        end: usize,
        which: Which,
    ) -> Result<(), Error> {
        segment.describe(&self.contents, which, &self.catalog)?;
        // A part of a transaction is read without what came before, so it describes its relations.
        let inherited = (which == Which::Current).then(|| {
            let mut inherited = Vec::new();
            self.encoder.inherited(&mut inherited);
            let begin = self.current.head.saturating_sub(self.whole);
            (usize::try_from(begin).unwrap_or(usize::MAX), inherited)
        });
        segment.give(&mut self.open, end, inherited)
    }

    /// Publishes the whole transactions.
    pub(super) fn publish_whole(&mut self) -> Result<Foot, Error> {
        let mut segment = self.begun()?;
        self.give(&mut segment, self.open.whole(), Which::Whole)?;
        self.complete(segment, Which::Whole)
    }

    /// Publishes a segment that has all its blocks.
    fn complete(&mut self, segment: Filling, which: Which) -> Result<Foot, Error> {
        let foot = self.contents.foot(which, &self.options.source, self.end);
        let foot = segment.publish(&*self.store, foot)?;
        self.counts.segments = self.counts.segments.saturating_add(1);
        if !self.is_behind_a_load() {
            // The index follows from the segments: what it lacks is added when the log is opened.
            let _ = self.index.append(&*self.store, &foot);
        }
        Ok(foot)
    }

    /// Publishes the whole transactions that the open file has after a crash.
    pub(super) fn recover(&mut self) -> Result<(), Error> {
        let mut stream = Vec::new();
        self.open.read(0..self.open.count(), |block| {
            stream.extend_from_slice(&block.bytes);
            Ok(())
        })?;
        let found = Recovered::of(&stream)?;
        for name in found.decided {
            if self.prepared.remove(&name) {
                self.decided.push(name);
            }
        }
        let first = found.first.unwrap_or(found.end);
        if found.end > self.end && first <= self.end {
            let what = DamagedPart::Order;
            return Err(Error::new(OPEN, ErrorKind::Damaged { what }));
        }
        let has_source =
            found.timeline.is_some() || found.slot_start.is_some() || found.asked.is_some();
        if found.end <= self.end && !(has_source && found.first.is_none()) {
            self.forget_decided()?;
            return self.continue_at(self.end, 0);
        }
        self.end = self.end.max(found.end);
        self.durable = self.durable.max(found.end);
        let source = &mut self.options.source;
        if let Some((timeline, start)) = found.timeline {
            (source.timeline, source.timeline_start) = (Some(timeline), start);
        }
        source.last = found.last.or_else(|| source.last.take());
        if let Some(asked) = found.asked {
            source.asked = asked;
        }
        source.slot_start = found.slot_start.or(source.slot_start);
        if let Some(before) = found.prepared_before {
            source.prepared_before = before;
        }
        if found.has_changes {
            self.contents = found.contents;
            self.publish_whole()?;
            self.forget_decided()?;
            return self.continue_at(self.end, 0);
        }
        self.forget_decided()?;
        // Only a position, or what is known of the source. It must stay durable, so it stays.
        self.size = stream.len() as u64;
        (self.whole, self.published) = (self.size, self.size);
        self.published_blocks = self.open.count();
        let io = |error| Error::store(OPEN, &error);
        self.open.rewrite().map_err(io)?;
        self.sync_open()
    }
}
