//! Where the frames of a committed transaction are, from its commit until it was read.

use super::session::Session;
use crate::relation::Promotions;
use crate::spool::SpoolReader;
use crate::undecided::Open;
use std::collections::HashSet;
use walrow_wire::Xid;

/// How the committed transaction is read.
#[derive(Debug, Default)]
pub(super) struct Reading {
    pub(super) source: Source,
    /// Whether nothing of it is handed out: it was delivered before, or its begin is missing.
    pub(super) skipped: bool,
}

/// Where its frames are.
#[derive(Debug, Default)]
pub(super) enum Source {
    /// In front of the input; its Commit is the last one.
    #[default]
    Input,
    Spool(Box<Spooling>),
}

/// What is read from the spool.
#[derive(Debug, Default)]
pub(super) struct Spooling {
    pub(super) reader: SpoolReader,
    /// Whether its messages carry a transaction ID.
    pub(super) streamed: bool,
    /// Subtransactions that were rolled back.
    pub(super) aborted: HashSet<Xid>,
    /// What of its own definitions the session takes over.
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
    /// A streamed or prepared transaction was committed.
    pub(super) fn enter(&mut self, open: Open, header: usize) -> Reading {
        let spooled = self.undecided.spools.take(open.spool);
        self.relations.enter(open.inherited);
        // What was prepared is the session's already, or was never meant to be.
        let promotions = match open.transaction.prepared {
            None => open.promotions,
            Some(_) => Promotions::default(),
        };
        self.transaction = open.transaction;
        Reading {
            skipped: open.lost,
            ..Reading::of(Spooling {
                reader: SpoolReader::new(spooled, header),
                streamed: open.streamed,
                aborted: open.aborted,
                promotions,
            })
        }
    }

    /// A transaction was read.
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
