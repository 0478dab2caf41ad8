//! The prepared transactions that a log has saved. Each transaction is an object until its decision
//! is durable.

use crate::error::Error;
use crate::format::prepared::PreparedName;
use crate::format::undecided::Undecided;
use crate::store::Store;
use std::collections::{BTreeMap, BTreeSet};
use walrow_stream::fact::Fact;
use walrow_stream::{Assembler, Transaction};
use walrow_wire::Lsn;

/// The prepared transactions of a log.
#[derive(Debug, Default)]
pub(crate) struct SavedPrepared {
    /// The transactions that are not decided, with the CRC-32C of each object.
    undecided: BTreeMap<PreparedName, u32>,
    /// Transactions that were decided. Their objects stay until the decisions are durable.
    decided: Vec<PreparedName>,
    /// Whether only the journal has the newest prepares and decisions, and no segment has them.
    is_only_in_journal: bool,
}

impl SavedPrepared {
    pub(crate) fn new(undecided: BTreeMap<PreparedName, u32>) -> Self {
        Self {
            undecided,
            ..Self::default()
        }
    }

    /// Notes that the journal may have facts about prepared transactions that no segment has.
    pub(crate) const fn keep_journal(&mut self) {
        self.is_only_in_journal = true;
    }

    /// Notes that a segment lists the undecided transactions.
    pub(crate) const fn publish(&mut self) {
        self.is_only_in_journal = false;
    }

    /// Whether a segment must list the undecided transactions before the journal is emptied.
    pub(crate) const fn is_only_in_journal(&self) -> bool {
        self.is_only_in_journal
    }

    /// The names of the transactions that are not decided.
    pub(crate) fn names(&self) -> impl Iterator<Item = PreparedName> + '_ {
        self.undecided.keys().copied()
    }

    /// The transactions that are not decided.
    pub(crate) fn undecided(&self) -> Vec<Undecided> {
        let undecided = self.undecided.iter();
        let undecided = undecided.map(|(name, crc32c)| Undecided::new(*name, *crc32c));
        undecided.collect()
    }

    /// Saves a transaction that an assembler has prepared, and returns a fact about it. The fact
    /// has to be as durable as the changes after it. `None` if all prepared transactions are saved.
    ///
    /// A transaction that may be repeated waits until the session has passed the repeats. If its
    /// decision is repeated, too, no byte of the transaction is written again: its rows may have
    /// been erased since.
    pub(crate) fn save(
        &mut self,
        store: &dyn Store,
        assembler: &mut Assembler,
        may_be_repeated: impl Fn(Lsn) -> bool,
    ) -> Result<Option<Fact>, Error> {
        let new = prepared(assembler)
            .find(|name| !may_be_repeated(name.end) && !self.undecided.contains_key(name));
        let Some(name) = new else {
            return Ok(None);
        };
        let crc32c = name.save(store, assembler)?;
        // A server may send the transaction again.
        self.decided.retain(|it| *it != name);
        self.undecided.insert(name, crc32c);
        self.is_only_in_journal = true;
        Ok(Some(Fact::Undecided {
            xid: name.xid,
            prepare_end_lsn: name.end,
        }))
    }

    /// Adds a transaction that was decided before.
    pub(crate) fn add_decided(&mut self, name: PreparedName) {
        self.decided.push(name);
    }

    /// Returns facts about the transactions that were decided since the last call. The current
    /// transaction is not decided yet.
    pub(crate) fn decide(
        &mut self,
        assembler: &Assembler,
        current: Option<&Transaction>,
    ) -> Vec<Fact> {
        let mut found: BTreeSet<_> = prepared(assembler).collect();
        found.extend(current.and_then(|it| {
            let end = it.prepared.as_ref()?.prepare_end_lsn;
            Some(PreparedName { end, xid: it.xid })
        }));
        let decided: Vec<_> = self.names().filter(|it| !found.contains(it)).collect();
        let facts = decided.iter().map(|name| Fact::Decided {
            xid: name.xid,
            prepare_end_lsn: name.end,
        });
        let facts = facts.collect();
        self.is_only_in_journal |= !decided.is_empty();
        self.decided.extend(decided);
        self.undecided.retain(|name, _| found.contains(name));
        facts
    }

    /// Removes the objects of decided transactions. The decisions must be durable.
    pub(crate) fn forget_decided(&mut self, store: &dyn Store) -> Result<(), Error> {
        while let Some(name) = self.decided.last() {
            name.remove(store)?;
            self.decided.pop();
        }
        Ok(())
    }
}

/// The transactions that an assembler has prepared.
fn prepared(assembler: &Assembler) -> impl Iterator<Item = PreparedName> {
    assembler.prepared().map(|(xid, prepared)| PreparedName {
        end: prepared.prepare_end_lsn,
        xid,
    })
}
