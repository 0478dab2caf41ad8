//! Checks whether the log has a transaction that it seems to have.

use crate::error::{Error, ErrorKind};
use crate::format::index::Segment;
use crate::read::log::{Log, chains};
use crate::store::Store;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use walrow_stream::{Assembler, Event};
use walrow_wire::Lsn;

/// How a writer treats a transaction or message that ends at or before the log's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum RepeatedBy {
    /// Changes come from a slot, which sends them in order. So the log has the transaction or
    /// message, and the writer skips it.
    #[default]
    Slot,
    /// Changes come from captures, whose order is not known. The writer looks for the transaction
    /// or message in the log, and refuses it if the log does not have it.
    Captures,
}

/// The check of transactions and messages that a log seems to have.
#[derive(Debug)]
pub(crate) enum Repeats {
    Trusted,
    Proven(Proof),
}

#[derive(Debug, Default)]
pub(crate) struct Proof {
    /// The LSNs of commits and messages that are in no segment.
    unpublished: BTreeSet<Lsn>,
    /// The range of the segments that were read last, and the LSNs of their commits and messages.
    read: Option<(Range<Lsn>, BTreeSet<Lsn>)>,
}

impl Repeats {
    pub(crate) fn of(by: RepeatedBy) -> Self {
        match by {
            RepeatedBy::Slot => Self::Trusted,
            RepeatedBy::Captures => Self::Proven(Proof::default()),
        }
    }

    /// Notes that the log takes the commit or the message at this LSN.
    pub(crate) fn took(&mut self, lsn: Lsn) {
        if let Self::Proven(proof) = self {
            proof.unpublished.insert(lsn);
        }
    }

    /// Notes that segments have all commits and messages that the log took.
    pub(crate) fn published(&mut self) {
        if let Self::Proven(proof) = self {
            proof.unpublished.clear();
        }
    }

    /// Refuses the commit or the message at this LSN, unless the log has it. The log ends at `end`.
    pub(crate) fn check(
        &mut self,
        store: &Arc<dyn Store>,
        lsn: Lsn,
        end: Lsn,
    ) -> Result<(), Error> {
        let Self::Proven(proof) = self else {
            return Ok(());
        };
        if proof.has(store, lsn)? {
            Ok(())
        } else {
            Err(ErrorKind::OutOfOrder { lsn, end }.into())
        }
    }
}

impl Proof {
    fn has(&mut self, store: &Arc<dyn Store>, lsn: Lsn) -> Result<bool, Error> {
        if self.unpublished.contains(&lsn) {
            return Ok(true);
        }
        if let Some((range, found)) = &self.read
            && range.contains(&lsn)
        {
            return Ok(found.contains(&lsn));
        }
        let log = Log::open(store.clone())?;
        if lsn < log.start() {
            // The segment with this LSN was removed, or would be removed.
            return Ok(true);
        }
        let covers = |chain: &&[Segment]| chain.last().is_some_and(|last| lsn < last.end);
        let Some(chain) = chains(log.segments()).find(covers) else {
            return Ok(false);
        };
        let (Some(first), Some(last)) = (chain.first(), chain.last()) else {
            return Ok(false);
        };
        let found = read(&log, chain)?;
        let has = found.contains(&lsn);
        self.read = Some((first.start..last.end, found));
        Ok(has)
    }
}

/// The LSNs of the commits and messages in segments.
fn read(log: &Log, chain: &[Segment]) -> Result<BTreeSet<Lsn>, Error> {
    let (mut assembler, mut found) = (Assembler::default(), BTreeSet::new());
    let mut chunk = Vec::new();
    let mut stream = log.read_segments(chain);
    while stream.read(&mut chunk)? {
        let mut rest = &*chunk;
        while let Some(event) = assembler.next_with(&mut rest, |_| Ok::<_, ()>(()))? {
            match event {
                Event::Begin(transaction) => {
                    found.insert(transaction.commit_lsn);
                }
                Event::Message(message) if !message.transactional => {
                    found.insert(message.lsn);
                }
                _ => {}
            }
        }
    }
    Ok(found)
}
