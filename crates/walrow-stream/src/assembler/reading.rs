//! The committed transaction that is being read, and where its frames are.

use super::session::Session;
use crate::relation::Promotions;
use crate::spool::SpoolReader;
use crate::undecided::Open;
use std::collections::HashSet;
use walrow_wire::{Framing, Xid};

/// The committed transaction that is being read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) source: Source,
    /// Whether it is skipped: it was delivered before, or its begin is missing.
    pub(super) skipped: bool,
}

/// The place of its frames.
#[derive(Debug, Default)]
pub(super) enum Source {
    /// At the front of the input. Its Commit is the last frame.
    #[default]
    Input,
    Spool(Box<Spooling>),
}

/// A transaction in the spool.
#[derive(Debug, Default)]
pub(super) struct Spooling {
    pub(super) reader: SpoolReader,
    /// Whether its messages carry a transaction ID.
    pub(super) streamed: bool,
    /// Subtransactions that were rolled back.
    pub(super) aborted: HashSet<Xid>,
    /// Its definitions that the session takes over.
    pub(super) promotions: Promotions,
}

impl Reading {
    pub(super) fn of(spooling: Spooling) -> Self {
        Self {
            source: Source::Spool(Box::new(spooling)),
            skipped: false,
        }
    }

    #[inline]
    pub(super) const fn is_streamed(&self) -> bool {
        match &self.source {
            Source::Input => false,
            Source::Spool(it) => it.streamed,
        }
    }
}

impl Session {
    /// Starts to read a streamed or prepared transaction that was committed.
    pub(super) fn enter(&mut self, open: Open, framing: Framing) -> Reading {
        let spooled = self.undecided.spools.take(open.spool);
        self.relations.enter(open.inherited);
        // Definitions of a prepared transaction already belong to the session.
        let promotions = match open.transaction.prepared {
            None => open.promotions,
            Some(_) => Promotions::default(),
        };
        self.transaction = open.transaction;
        Reading {
            skipped: open.lost,
            ..Reading::of(Spooling {
                reader: SpoolReader::new(spooled, framing),
                streamed: open.streamed,
                aborted: open.aborted,
                promotions,
            })
        }
    }

    /// Ends the transaction.
    #[inline]
    pub(super) fn leave(&mut self, reading: Reading) {
        if let Source::Spool(spooling) = reading.source {
            self.leave_spool(*spooling);
        }
    }

    fn leave_spool(&mut self, spooling: Spooling) {
        self.undecided
            .spools
            .give_back(spooling.reader.into_memory());
        self.relations.leave(&spooling.promotions);
    }
}
