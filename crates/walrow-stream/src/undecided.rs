//! Transactions that are streamed in chunks or prepared, and neither committed nor rolled back.
//! They are stored as their messages, in the spool.

use crate::error::{ErrorKind, Fault};
use crate::fact::PreparedBefore;
use crate::relation::{Promotions, Relation, Relations, bounded};
use crate::spool::{SpoolId, Spools};
use crate::transaction::{Origin, Prepared, Transaction};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use walrow_wire::{
    BeginPrepare, CommitPrepared, Lsn, Oid, Peek, Prepare, RollbackPrepared, StreamAbort,
    StreamCommit, StreamPrepare, StreamStart, Timestamp, Xid,
};

/// A streamed or prepared transaction.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) transaction: Transaction,
    /// Whether it comes in stream blocks, where messages carry a transaction ID.
    pub(crate) streamed: bool,
    pub(crate) spool: SpoolId,
    /// Relation versions that its rows use, and that it did not describe itself.
    pub(crate) inherited: BTreeMap<Oid, Arc<Relation>>,
    /// How its own Relation and Type messages are promoted.
    pub(crate) promotions: Promotions,
    /// Subtransactions that were rolled back.
    pub(crate) aborted: HashSet<Xid>,
    /// The relation of its last row.
    pub(crate) relation: Option<Oid>,
    /// Whether its begin is missing, in a stream that starts late. Then only its definitions count.
    pub(crate) lost: bool,
    /// How many commits came before its first chunk: [`Undecided::commits`].
    pub(crate) since: u64,
}

/// The knowledge about transactions that were prepared before the stream begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Earlier {
    /// There are no such transactions: the stream begins where its slot does.
    #[default]
    Nothing,
    /// All of them were restored from a complete state.
    Restored,
    /// The stream begins later than its slot.
    Unknown,
}

/// Identifies a prepared transaction. Its GID may be used again, and in time its transaction ID
/// too.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    gid: String,
    xid: Xid,
    prepare_end_lsn: Lsn,
}

impl Key {
    fn new(xid: Xid, prepared: &Prepared) -> Self {
        Self {
            gid: prepared.gid.clone(),
            xid,
            prepare_end_lsn: prepared.prepare_end_lsn,
        }
    }
}

/// The streamed transactions between their blocks, and the prepared transactions.
#[derive(Debug, Default)]
pub(crate) struct Undecided {
    pub(crate) spools: Spools,
    /// Whether transactions may lack their begin.
    pub(crate) late_start: bool,
    /// Transactions that were prepared before the stream begins, and may be committed in it.
    pub(crate) earlier: Earlier,
    /// Whether the server sends a Prepare for empty transactions too. Then a lone Commit Prepared
    /// is not an empty transaction.
    pub(crate) prepares_empty: bool,
    /// Transactions that may have been prepared before the slot was there, and the LSN where the
    /// received part of the stream ends.
    pub(crate) prepared_before: (PreparedBefore, Lsn),
    /// How many Commit Prepared messages came for transactions that the stream did not prepare.
    pub(crate) unprepared: u64,
    /// Counts commits, in a stream that does not mark where sessions begin.
    pub(crate) commits: u64,
    /// By top-level transaction.
    streamed: BTreeMap<Xid, Box<Open>>,
    pub(crate) prepared: BTreeMap<Key, Box<Open>>,
    /// The last committed prepared transactions: ID and end LSN.
    finished: VecDeque<(Xid, Lsn)>,
}

/// How many committed prepared transactions are remembered. A reconnect repeats only unconfirmed
/// transactions, which are fewer.
const FINISHED: usize = 1 << 14;

impl Undecided {
    /// Starts a new session: drops streamed transactions, which the server sends again, and keeps
    /// prepared transactions.
    pub(crate) fn drop_open(&mut self) {
        for open in std::mem::take(&mut self.streamed).into_values() {
            self.spools.remove(open.spool);
        }
    }

    /// Drops the streamed transactions that began before the last commit.
    pub(crate) fn drop_earlier(&mut self) {
        let (commits, spools) = (self.commits, &mut self.spools);
        self.streamed.retain(|_, open| {
            let keeps = open.since >= commits;
            if !keeps {
                spools.remove(open.spool);
            }
            keeps
        });
    }

    /// Drops the chunks of this transaction, if it is open.
    pub(crate) fn drop_streamed(&mut self, xid: Xid) {
        if let Some(open) = self.streamed.remove(&xid) {
            self.spools.remove(open.spool);
        }
    }

    /// The streamed transactions that are open, unless the stream lacks their begin.
    pub(crate) fn streamed(&self) -> impl Iterator<Item = Xid> {
        let open = self.streamed.values().filter(|open| !open.lost);
        open.map(|open| open.transaction.xid)
    }

    /// Whether a streamed transaction is open.
    pub(crate) fn has_streamed(&self) -> bool {
        !self.streamed.is_empty()
    }

    /// Whether a streamed or prepared transaction is open.
    pub(crate) fn has_any(&self) -> bool {
        self.has_streamed() || !self.prepared.is_empty()
    }

    /// Whether all earlier prepared transactions are known, so that a saved state is complete.
    ///
    /// By default, a stream begins where its slot does. No transaction is prepared when a slot is
    /// created, or the server sends its rows at Commit Prepared.
    pub(crate) fn knows_prepared(&self) -> bool {
        match self.earlier {
            Earlier::Nothing => !self.late_start,
            Earlier::Restored => true,
            Earlier::Unknown => false,
        }
    }

    /// Whether a Commit Prepared of an unknown transaction means that it is empty.
    fn knows_empty(&self) -> bool {
        self.earlier == Earlier::Restored || (self.knows_prepared() && !self.prepares_empty)
    }

    /// Whether an unknown transaction may have been prepared before the slot was where the log
    /// begins.
    fn may_have_rows(&self, commit: &CommitPrepared<'_>) -> bool {
        let (before, received) = &self.prepared_before;
        commit.end_lsn > *received && before.may_have(commit.xid, commit.end_lsn)
    }

    /// Moves the prepared transactions to `other`.
    pub(crate) fn move_prepared(mut self, other: &mut Self) -> io::Result<()> {
        for mut open in std::mem::take(&mut self.prepared).into_values() {
            open.spool = other.spools.adopt_restored(self.spools.take(open.spool))?;
            other.hold(open);
        }
        // After a complete state, an incomplete state changes only the list of prepared
        // transactions.
        if other.earlier != Earlier::Restored {
            other.earlier = self.earlier;
        }
        Ok(())
    }

    fn open(&mut self, xid: Xid, streamed: bool) -> Box<Open> {
        Box::new(Open {
            transaction: Transaction {
                xid,
                ..Transaction::default()
            },
            streamed,
            spool: self.spools.create(),
            inherited: BTreeMap::new(),
            promotions: Promotions::default(),
            aborted: HashSet::new(),
            relation: None,
            lost: false,
            since: self.commits,
        })
    }

    /// The transaction whose stream block begins.
    pub(crate) fn stream_start(&mut self, start: StreamStart) -> Result<Box<Open>, Fault> {
        let known = self.streamed.remove(&start.xid);
        let xid = start.xid;
        Ok(match (start.first, known) {
            (false, Some(open)) => open,
            (true, None) => self.open(xid, true),
            (true, Some(open)) if open.lost => {
                self.spools.remove(open.spool);
                self.open(xid, true)
            }
            (true, Some(_)) => {
                return Err(ErrorKind::StreamRestarted { xid }.into());
            }
            (false, None) if self.late_start => {
                let mut open = self.open(xid, true);
                open.lost = true;
                open
            }
            (false, None) => return Err(missing("Stream Start", xid)),
        })
    }

    /// Ends its stream block.
    pub(crate) fn stream_stop(&mut self, open: Box<Open>) {
        self.streamed.insert(open.transaction.xid, open);
    }

    /// Takes a Stream Abort, sent at this LSN. PostgreSQL 18 also sends it for transactions that it
    /// never streamed.
    pub(crate) fn stream_abort(&mut self, abort: &StreamAbort, sent: Lsn) {
        if abort.xid == abort.subxid {
            self.drop_streamed(abort.xid);
        } else if let Some(open) = self.streamed.get_mut(&abort.xid) {
            let lsn = abort.abort.map_or(sent, |record| record.lsn);
            // Without an LSN, the stream does not show which messages came later.
            let lsn = if lsn.is_valid() { lsn } else { Lsn(u64::MAX) };
            let until = &mut open.transaction.rolled_back_until;
            *until = lsn.max(*until);
            open.aborted.insert(abort.subxid);
            open.promotions.forget(abort.subxid);
            open.relation = None;
        }
    }

    /// The committed transaction. `None` if a stream that starts late has no part of it.
    pub(crate) fn stream_commit(
        &mut self,
        commit: &StreamCommit,
    ) -> Result<Option<Box<Open>>, Fault> {
        match self.streamed.remove(&commit.xid) {
            Some(mut open) => {
                open.commit(commit.commit_lsn, commit.end_lsn, commit.commit_time);
                Ok(Some(open))
            }
            None if self.late_start => Ok(None),
            None => Err(missing("Stream Commit", commit.xid).near(commit.commit_lsn)),
        }
    }

    /// Keeps the transaction. Returns its definitions, which the session takes over now.
    pub(crate) fn stream_prepare(
        &mut self,
        prepare: &StreamPrepare<'_>,
    ) -> Result<Promotions, Fault> {
        let prepared = read_stream_prepare(prepare)?;
        match self.streamed.remove(&prepare.xid) {
            Some(mut open) => {
                let promotions = std::mem::take(&mut open.promotions);
                open.transaction.prepared = Some(prepared);
                self.hold(open);
                Ok(promotions)
            }
            None if self.late_start => Ok(Promotions::default()),
            None => Err(missing("Stream Prepare", prepare.xid).near(prepare.prepare_lsn)),
        }
    }

    /// The transaction that is being prepared.
    pub(crate) fn begin_prepare(&mut self, begin: &BeginPrepare<'_>) -> Result<Box<Open>, Fault> {
        let mut open = self.open(begin.xid, false);
        open.transaction.prepared = Some(Prepared {
            gid: gid("Begin Prepare", begin.gid)?,
            prepare_lsn: begin.prepare_lsn,
            prepare_end_lsn: begin.end_lsn,
            prepare_time: begin.prepare_time,
        });
        Ok(open)
    }

    /// Keeps it until its commit or rollback. If a new session sends it again, the new copy
    /// replaces the old one.
    pub(crate) fn hold(&mut self, open: Box<Open>) {
        let Some(prepared) = &open.transaction.prepared else {
            return;
        };
        let key = Key::new(open.transaction.xid, prepared);
        if let Some(before) = self.prepared.insert(key, open) {
            self.spools.remove(before.spool);
        }
    }

    /// Takes a Prepare without a Begin Prepare: PostgreSQL 18 sends it for a prepared transaction
    /// without changes: for example, if it only locked rows.
    pub(crate) fn prepare_empty(&mut self, prepare: &Prepare<'_>) -> Result<(), Fault> {
        self.prepares_empty = true;
        let prepared = read_prepare(prepare)?;
        // An empty transaction does not replace a transaction with rows.
        if !self
            .prepared
            .contains_key(&Key::new(prepare.xid, &prepared))
        {
            let mut open = self.open(prepare.xid, false);
            open.transaction.prepared = Some(prepared);
            self.hold(open);
        }
        Ok(())
    }

    /// The committed transaction. `None` if its commit came before, or if a stream that starts late
    /// lacks a part of it.
    ///
    /// `delivered` means that the commit is at or before the start LSN.
    pub(crate) fn commit_prepared(
        &mut self,
        commit: &CommitPrepared<'_>,
        delivered: bool,
    ) -> Result<Option<Box<Open>>, Fault> {
        let missing = || {
            let xid = commit.xid;
            Err(Fault::from(ErrorKind::MissingPrepared { xid }).near(commit.commit_lsn))
        };
        let mut open = match self.take_prepared(commit)? {
            Some(open) if open.lost && !self.late_start && !delivered => return missing(),
            Some(open) => open,
            // No rows are lost: it ends before the start, or was returned before. After a
            // reconnect, the commit comes again without its rows.
            None if delivered || self.finished.contains(&(commit.xid, commit.end_lsn)) => {
                return Ok(None);
            }
            None if self.may_have_rows(commit) => {
                let xid = commit.xid;
                return Err(Fault::from(ErrorKind::PreparedBefore { xid }).near(commit.commit_lsn));
            }
            // Up to PostgreSQL 17, this is the only message of an empty transaction.
            None if self.knows_empty() => {
                self.unprepared = self.unprepared.saturating_add(1);
                let mut open = self.open(commit.xid, false);
                open.transaction.prepared = Some(Prepared {
                    gid: gid("Commit Prepared", commit.gid)?,
                    prepare_lsn: Lsn::INVALID,
                    prepare_end_lsn: Lsn::INVALID,
                    prepare_time: Timestamp(0),
                });
                open
            }
            None if self.late_start => return Ok(None),
            None => return missing(),
        };
        if self.finished.len() >= FINISHED {
            self.finished.pop_front();
        }
        self.finished.push_back((commit.xid, commit.end_lsn));
        open.commit(commit.commit_lsn, commit.end_lsn, commit.commit_time);
        Ok(Some(open))
    }

    fn take_prepared(&mut self, commit: &CommitPrepared<'_>) -> Result<Option<Box<Open>>, Fault> {
        let least = Key {
            gid: gid("Commit Prepared", commit.gid)?,
            xid: commit.xid,
            prepare_end_lsn: Lsn::INVALID,
        };
        let most = Key {
            prepare_end_lsn: Lsn(u64::MAX),
            ..least.clone()
        };
        // The message has no LSN of the prepare. If there are several transactions, only the last
        // can still be open.
        let keys = self.prepared.range(least..=most);
        let mut keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
        let last = keys.pop();
        for key in keys {
            if let Some(open) = self.prepared.remove(&key) {
                self.spools.remove(open.spool);
            }
        }
        Ok(last.and_then(|key| self.prepared.remove(&key)))
    }

    pub(crate) fn rollback_prepared(
        &mut self,
        rollback: &RollbackPrepared<'_>,
    ) -> Result<(), Fault> {
        let key = Key {
            gid: gid("Rollback Prepared", rollback.gid)?,
            xid: rollback.xid,
            prepare_end_lsn: rollback.prepare_end_lsn,
        };
        if let Some(open) = self.prepared.remove(&key) {
            self.spools.remove(open.spool);
        }
        Ok(())
    }

    /// Takes the Prepare of the transaction that Begin Prepare announced.
    pub(crate) fn prepare(&mut self, open: Box<Open>, prepare: &Prepare<'_>) -> Result<(), Fault> {
        let prepared = read_prepare(prepare)?;
        if open.transaction.prepared.as_ref() != Some(&prepared)
            || open.transaction.xid != prepare.xid
        {
            let xid = open.transaction.xid;
            return Err(Fault::from(ErrorKind::PrepareMismatch { xid }).near(prepare.prepare_lsn));
        }
        self.hold(open);
        Ok(())
    }
}

impl Open {
    fn commit(&mut self, commit_lsn: Lsn, end_lsn: Lsn, commit_time: Timestamp) {
        self.transaction.commit_lsn = commit_lsn;
        self.transaction.end_lsn = end_lsn;
        self.transaction.commit_time = commit_time;
    }

    /// Whether the message belongs to a subtransaction that was rolled back.
    pub(crate) fn has_aborted(&self, peek: &Peek<'_>) -> bool {
        is_aborted(&self.aborted, peek)
    }

    /// Notes that a row uses the relation. Keeps the version if the transaction did not define it.
    pub(crate) fn uses(&mut self, oid: Oid, relations: &Relations) {
        if self.relation == Some(oid)
            || self.promotions.relations.contains_key(&oid)
            || self.inherited.contains_key(&oid)
        {
            return;
        }
        // If it is unknown, reading the row returns the error.
        if let Some(relation) = relations.get(oid) {
            self.inherited.insert(oid, Arc::clone(relation));
        }
    }
}

/// Whether a message of a stream block belongs to a subtransaction that was rolled back.
#[inline]
pub(crate) fn is_aborted(aborted: &HashSet<Xid>, peek: &Peek<'_>) -> bool {
    !aborted.is_empty()
        && peek.kind().is_of_subtransaction()
        && peek.xid().is_some_and(|xid| aborted.contains(&xid))
}

/// The most bytes of an origin's name. On the server it is an index key, which must fit in a page.
const MAX_ORIGIN: usize = 8192;

pub(crate) fn read_origin(origin: &walrow_wire::Origin<'_>) -> Result<Origin, Fault> {
    bounded(origin.name, MAX_ORIGIN, "Origin", "origin name")?;
    let name = origin.name.to_str().map_err(|_| {
        Fault::from(ErrorKind::InvalidUtf8 {
            message: "Origin",
            field: "origin name",
        })
    })?;
    Ok(Origin {
        name: name.to_owned(),
        commit_lsn: origin.commit_lsn,
    })
}

pub(crate) fn read_stream_prepare(prepare: &StreamPrepare<'_>) -> Result<Prepared, Fault> {
    Ok(Prepared {
        gid: gid("Stream Prepare", prepare.gid)?,
        prepare_lsn: prepare.prepare_lsn,
        prepare_end_lsn: prepare.end_lsn,
        prepare_time: prepare.prepare_time,
    })
}

pub(crate) fn read_prepare(prepare: &Prepare<'_>) -> Result<Prepared, Fault> {
    Ok(Prepared {
        gid: gid("Prepare", prepare.gid)?,
        prepare_lsn: prepare.prepare_lsn,
        prepare_end_lsn: prepare.end_lsn,
        prepare_time: prepare.prepare_time,
    })
}

fn gid(message: &'static str, gid: walrow_wire::PgString<'_>) -> Result<String, Fault> {
    let field = "GID";
    let text = gid
        .to_str()
        .map_err(|_| ErrorKind::InvalidUtf8 { message, field })?;
    Ok(text.to_owned())
}

fn missing(message: &'static str, xid: Xid) -> Fault {
    ErrorKind::MissingBegin { message, xid }.into()
}
