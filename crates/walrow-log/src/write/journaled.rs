//! The whole transactions in a writer's journal. The journal is read block by block.

use crate::error::Error;
use crate::format::contents::Contents;
use crate::format::journal::JournalBlocks;
use crate::format::prepared::PreparedName;
use crate::store::{OPEN, ReadAt};
use crate::write::session;
use walrow_stream::fact::{Fact, Taken};
use walrow_stream::{Assembler, Encoder, Event, Message, Transaction};
use walrow_wire::Lsn;

/// The whole transactions of a journal.
#[derive(Debug, Default)]
pub(crate) struct Journaled {
    contents: Contents,
    /// Bytes of the stream.
    bytes: u64,
    has_changes: bool,
    /// Where the first transaction, message or position ends.
    first: Option<Lsn>,
    end: Lsn,
    /// Transactions that were prepared, also if they were decided later.
    undecided: Vec<PreparedName>,
    /// Transactions that were decided, also if they were prepared before the journal began.
    decided: Vec<PreparedName>,
    /// Facts about the source.
    source: session::Recovered,
}

impl Journaled {
    /// Reads this many blocks of a journal. Only one block is in memory at a time.
    pub(crate) fn read(file: &mut dyn ReadAt, blocks: usize) -> Result<Self, Error> {
        let io = |error| Error::store(OPEN, &error);
        let mut reading = Reading::default();
        let mut stored = JournalBlocks::new(file).map_err(io)?;
        // Block 0 is the header.
        stored.next().map_err(io)?;
        for _ in 0..blocks {
            if let Some((block, _)) = stored.next().map_err(io)? {
                reading.take(block)?;
            }
        }
        Ok(reading.found)
    }

    /// Whether there are transactions or messages.
    pub(crate) const fn has_changes(&self) -> bool {
        self.has_changes
    }

    /// Where the first transaction, message or position ends, if there is one.
    pub(crate) const fn first(&self) -> Option<Lsn> {
        self.first
    }

    /// Where the last transaction, message or position ends.
    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }

    /// Bytes of the stream.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn undecided(&self) -> &[PreparedName] {
        &self.undecided
    }

    pub(crate) fn decided(&self) -> &[PreparedName] {
        &self.decided
    }

    /// Whether there are facts about the source or about prepared transactions.
    pub(crate) fn has_facts(&self) -> bool {
        let session::Recovered {
            timeline,
            asked,
            slot_start,
            ..
        } = &self.source;
        let has_source = timeline.is_some() || slot_start.is_some() || asked.is_some();
        has_source || !self.undecided.is_empty() || !self.decided.is_empty()
    }

    pub(crate) fn into_parts(self) -> (Contents, session::Recovered) {
        (self.contents, self.source)
    }
}

/// Reads blocks of a journal.
#[derive(Default)]
struct Reading {
    found: Journaled,
    assembler: Assembler,
    encoder: Encoder,
    scratch: Vec<u8>,
    /// Whether the transaction is a part. A part is useless, because not all other parts were
    /// published.
    is_part: bool,
    is_over: bool,
}

impl Reading {
    fn take(&mut self, mut block: &[u8]) -> Result<(), Error> {
        let Self {
            found,
            assembler,
            encoder,
            scratch,
            ..
        } = self;
        found.bytes = found.bytes.saturating_add(block.len() as u64);
        while !self.is_over {
            scratch.clear();
            let event = assembler.next_with(&mut block, |change| {
                encoder.row(&change, scratch)?;
                found.contents.row(change.relation, scratch.len());
                Ok::<_, walrow_stream::Error>(())
            })?;
            let end = match event {
                None => return Ok(()),
                Some(Event::Change(error)) => return Err(error.into()),
                Some(Event::Begin(transaction)) => {
                    found.contents.begin(transaction);
                    continue;
                }
                Some(Event::Truncate(truncate)) => {
                    for relation in &truncate.relations {
                        found.contents.truncate(relation);
                    }
                    continue;
                }
                Some(Event::Fact(fact)) => match *fact {
                    Fact::Part { .. } => {
                        self.is_part = true;
                        continue;
                    }
                    _ if self.is_part => continue,
                    Fact::Position { lsn } => lsn,
                    fact => {
                        found.learn(fact);
                        continue;
                    }
                },
                Some(Event::Message(message)) if !message.transactional => {
                    found.has_changes = true;
                    found.source.last = Some(taken_message(&message, found.source.last.as_ref()));
                    message.lsn
                }
                Some(Event::Commit { transaction, .. }) => {
                    if self.is_part {
                        // The changes after a part are useless, too, such as the decision about its
                        // transaction.
                        self.is_over = true;
                        return Ok(());
                    }
                    found.contents.commit();
                    found.has_changes = true;
                    found.source.last = Some(taken(transaction));
                    transaction.end_lsn
                }
                Some(Event::SessionStart) => {
                    self.is_part = false;
                    continue;
                }
                Some(_) => continue,
            };
            found.first.get_or_insert(end);
            found.end = found.end.max(end);
        }
        Ok(())
    }
}

impl Journaled {
    fn learn(&mut self, fact: Fact) {
        let source = &mut self.source;
        match fact {
            Fact::Timeline { timeline, start } => source.timeline = Some((timeline, start)),
            Fact::Asked { options } => source.asked = Some(options),
            Fact::Taken(taken) => source.last = Some(taken),
            Fact::SlotStart { lsn } => source.slot_start = Some(lsn),
            Fact::PreparedBefore(before) => source.prepared_before = Some(before),
            Fact::Gap(gap) => {
                source.gap_end = Some(gap.end);
                self.contents.gap(gap);
                self.has_changes = true;
            }
            Fact::Undecided {
                xid,
                prepare_end_lsn: end,
            } => {
                let name = PreparedName { end, xid };
                // The server has sent it again after it seemed to be decided.
                self.decided.retain(|it| *it != name);
                self.undecided.push(name);
            }
            Fact::Decided {
                xid,
                prepare_end_lsn: end,
            } => self.decided.push(PreparedName { end, xid }),
            _ => {}
        }
    }
}

/// Returns the values that distinguish a transaction from another server's transactions.
pub(crate) const fn taken(transaction: &Transaction) -> Taken {
    let Transaction {
        commit_lsn,
        xid,
        commit_time,
        ..
    } = transaction;
    Taken::transaction(*commit_lsn, *xid, *commit_time)
}

/// Returns the same values of a logical message that follows this transaction or message.
pub(crate) fn taken_message(message: &Message<'_>, before: Option<&Taken>) -> Taken {
    let crc32c = crc32c::crc32c(message.content);
    let bytes = message.content.len();
    Taken::message(message.lsn, message.prefix, crc32c, bytes, before)
}
