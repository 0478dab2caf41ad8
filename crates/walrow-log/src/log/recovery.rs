//! What a crash of the writer has left.

use crate::log::contents::Contents;
use crate::log::error::{Error, ErrorKind, SourcePart};
use crate::log::index::{self, Index, IndexFile};
use crate::log::listing::{ATTEMPTS, Listing};
use crate::log::segment::{Foot, SegmentName};
use crate::log::state::{PreparedName, Pruned};
use crate::log::store::{Store, remove_if_there};
use std::collections::{BTreeMap, BTreeSet};
use walrow_stream::fact::{Fact, PreparedBefore, Source, Taken};
use walrow_stream::{Assembler, Encoder, Event, Message, Transaction};
use walrow_wire::Lsn;

/// The whole transactions in an open file.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) contents: Contents,
    pub(crate) has_changes: bool,
    /// Where the first one ends.
    pub(crate) first: Option<Lsn>,
    pub(crate) end: Lsn,
    /// Prepared transactions that were committed or rolled back.
    pub(crate) decided: Vec<PreparedName>,
    /// The timeline of the WAL that was received last, if it has changed.
    pub(crate) timeline: Option<(u32, Option<Lsn>)>,
    /// The last transaction or message that the log took.
    pub(crate) last: Option<Taken>,
    /// The options of the stream that the server is asked for, if they have changed.
    pub(crate) asked: Option<BTreeMap<String, String>>,
    /// Where the slot begins, if the log was empty.
    pub(crate) slot_start: Option<Lsn>,
    /// What may have been prepared before.
    pub(crate) prepared_before: Option<PreparedBefore>,
}

impl Recovered {
    pub(crate) fn of(stream: &[u8]) -> Result<Self, Error> {
        let mut found = Self::default();
        let (mut assembler, mut encoder) = (Assembler::default(), Encoder::default());
        let mut scratch = Vec::new();
        // A part is useless without the others, which were not all published.
        let mut is_part = false;
        let mut rest = stream;
        loop {
            scratch.clear();
            let event = assembler.next_with(&mut rest, |change| {
                encoder.row(&change, &mut scratch)?;
                found.contents.row(change.relation, scratch.len());
                Ok::<_, walrow_stream::Error>(())
            })?;
            let end = match event {
                None => return Ok(found),
                Some(Event::Change(row)) => {
                    row?;
                    continue;
                }
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
                        is_part = true;
                        continue;
                    }
                    _ if is_part => continue,
                    Fact::Position { lsn } => lsn,
                    Fact::Timeline { timeline, start } => {
                        found.timeline = Some((timeline, start));
                        continue;
                    }
                    Fact::Asked { options } => {
                        found.asked = Some(options);
                        continue;
                    }
                    Fact::Taken(taken) => {
                        found.last = Some(taken);
                        continue;
                    }
                    Fact::SlotStart { lsn } => {
                        found.slot_start = Some(lsn);
                        continue;
                    }
                    Fact::PreparedBefore(before) => {
                        found.prepared_before = Some(before);
                        continue;
                    }
                    Fact::Decided {
                        xid,
                        prepare_end_lsn: end,
                    } => {
                        found.decided.push(PreparedName { end, xid });
                        continue;
                    }
                    _ => continue,
                },
                Some(Event::Message(message)) if !message.transactional => {
                    found.has_changes = true;
                    found.last = Some(taken_message(&message, found.last.as_ref()));
                    message.lsn
                }
                Some(Event::Commit { transaction, .. }) => {
                    if is_part {
                        // So is what comes after it, such as the decision about it.
                        return Ok(found);
                    }
                    found.contents.commit();
                    found.has_changes = true;
                    found.last = Some(taken(transaction));
                    transaction.end_lsn
                }
                Some(Event::SessionStart) => {
                    is_part = false;
                    continue;
                }
                Some(_) => continue,
            };
            found.first.get_or_insert(end);
            found.end = found.end.max(end);
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

/// Returns the same values of a logical message, after this transaction or message.
pub(crate) fn taken_message(message: &Message<'_>, before: Option<&Taken>) -> Taken {
    let crc32c = crc32c::crc32c(message.content);
    let bytes = message.content.len();
    Taken::message(message.lsn, message.prefix, crc32c, bytes, before)
}

/// What is published, and what is not decided.
#[derive(Debug, Default)]
pub(crate) struct Published {
    /// The segments, in order.
    pub(crate) names: Vec<SegmentName>,
    /// Where the last whole transaction ends.
    pub(crate) end: Lsn,
    /// The last segment's catalog and source follow from it.
    pub(crate) source: Option<Source>,
    pub(crate) prepared: BTreeSet<PreparedName>,
}

impl Published {
    /// Looks at a log before it is written, and opens its index.
    pub(crate) fn with_index(store: &dyn Store) -> Result<(Self, IndexFile), Error> {
        let once = || {
            let published = Self::of(store, Pruned::read(store)?.until)?;
            let index = IndexFile::open(store, &published.names)?;
            Ok((published, index))
        };
        for _ in 1..ATTEMPTS {
            match once() {
                // Another process may remove or merge segments.
                Err(error) if Error::is_missing(&error) => {}
                opened => return opened,
            }
        }
        once()
    }

    /// Looks at a log before it is written. Removes the parts of a transaction that are not all
    /// published, and temporary objects.
    pub(crate) fn of(store: &dyn Store, pruned: Lsn) -> Result<Self, Error> {
        let listing = Listing::of(store)?;
        let mut names = listing.segments;
        names.retain(|name| name.start >= pruned);
        let mut found = Self {
            end: pruned,
            prepared: listing.prepared,
            ..Self::default()
        };
        let mut incomplete = Vec::new();
        while let Some(name) = names.last() {
            let foot = Foot::read(store, *name)?;
            if !foot.continues {
                (found.end, found.source) = (foot.end, Some(foot.source));
                break;
            }
            incomplete.extend(names.pop());
        }
        if !incomplete.is_empty() {
            // First, so that the index never describes other segments of the same names.
            index::rewrite(store, &Index::read(store, &names)?)?;
        }
        let incomplete = incomplete.iter().map(SegmentName::to_string);
        for object in incomplete.chain(listing.temporary) {
            // A process beside the writer may just have removed its own.
            remove_if_there(store, &object)?;
        }
        found.names = names;
        Ok(found)
    }
}

/// Refuses changes of another source. What is not known of one of them is not compared.
pub(crate) fn compare(log: &Source, found: &Source) -> Result<(), Error> {
    let fields = [
        (
            SourcePart::SystemIdentifier,
            &log.system_identifier,
            &found.system_identifier,
        ),
        (SourcePart::Database, &log.database, &found.database),
        (SourcePart::Slot, &log.slot, &found.slot),
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
