//! Reads a stream message by message.

use super::outcome::{Committed, Described, ReadOptions, Reason};
use super::transaction::{Own, Row, Transaction};
use crate::history::{Expected, ExpectedChange};
use crate::{OwnedMessage, OwnedPrepared, PgText};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use walrow_wire::{BackendMessage, CopyData};

/// No server has longer names; they are rejected.
const LONGEST_NAME: usize = 256;
const LONGEST_ORIGIN: usize = 8192;
const MOST_COLUMNS: usize = 1600;

/// A relation of the session.
struct Known {
    relation: Arc<Described>,
    /// When it was described outside stream blocks, and when it was last promoted from a stream
    /// block.
    outside: usize,
    taken_over: usize,
    /// Whether two concurrent transactions described it differently.
    unclear: bool,
}

/// A plain transaction's begin.
enum Begin {
    Begin(u64),
    Prepare(OwnedPrepared),
}

#[derive(Default)]
pub(super) struct Reader {
    options: ReadOptions,
    pub(super) committed: Committed,
    relations: BTreeMap<u32, Known>,
    arrivals: usize,
    plain: Option<(u32, Begin, Transaction)>,
    block: Option<u32>,
    streamed: BTreeMap<u32, Transaction>,
    /// By GID, transaction ID and end LSN of the prepare.
    pub(super) prepared: BTreeMap<(PgText, u32, u64), Transaction>,
    /// Committed prepared transactions: ID and end LSN.
    finished: BTreeSet<(u32, u64)>,
    /// The same, for those that were committed without a known prepare.
    alone: BTreeSet<(u32, u64)>,
    /// Whether an empty transaction was prepared.
    prepares_empty: bool,
    /// Whether the server ended the session with an error.
    over: bool,
}

fn demand(holds: bool, what: &'static str) -> Result<(), Reason> {
    if holds {
        Ok(())
    } else {
        Err(Reason::Impossible(what))
    }
}

fn utf8(text: &PgText) -> Result<(), Reason> {
    let valid = std::str::from_utf8(text.as_bytes()).is_ok();
    demand(valid, "a name that is not UTF-8")
}

fn name(text: &PgText) -> Result<(), Reason> {
    if text.as_bytes().len() > LONGEST_NAME {
        return Err(Reason::LongName);
    }
    utf8(text)
}

impl Reader {
    pub(super) fn new(options: ReadOptions) -> Self {
        Self {
            options,
            ..Self::default()
        }
    }

    pub(super) fn step(
        &mut self,
        backend: &BackendMessage<'_>,
        message: Option<OwnedMessage>,
    ) -> Result<(), Reason> {
        match (backend, message) {
            (BackendMessage::CopyBothResponse(_), _) => {
                self.drop_open();
                self.relations.clear();
                self.over = false;
                Ok(())
            }
            (BackendMessage::ErrorResponse(_), _) => {
                self.drop_open();
                self.over = true;
                Ok(())
            }
            (BackendMessage::CopyData(data), None) => demand(
                matches!(data, CopyData::PrimaryKeepalive(_)),
                "what clients send",
            ),
            (_, None) => Ok(()),
            (_, Some(_)) if self.over => Err(Reason::Unclear("a message after the end")),
            (_, Some(message)) => self.read(message),
        }
    }

    fn drop_open(&mut self) {
        self.plain = None;
        self.block = None;
        self.streamed.clear();
    }

    fn outside(&self) -> Result<(), Reason> {
        let outside = self.block.is_none() && self.plain.is_none();
        demand(outside, "a message inside a transaction")
    }

    fn read(&mut self, message: OwnedMessage) -> Result<(), Reason> {
        match message {
            OwnedMessage::Begin { xid, final_lsn, .. } => {
                self.outside()?;
                self.plain = Some((xid, Begin::Begin(final_lsn), Transaction::default()));
            }
            OwnedMessage::BeginPrepare(begun) => {
                self.outside()?;
                utf8(&begun.gid)?;
                self.plain = Some((begun.xid, Begin::Prepare(begun), Transaction::default()));
            }
            OwnedMessage::Commit {
                commit_lsn,
                end_lsn,
                commit_time,
            } => match self.plain.take() {
                Some((xid, Begin::Begin(lsn), transaction)) if lsn == commit_lsn => {
                    self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
                }
                _ => return Err(Reason::Impossible("a Commit without its Begin")),
            },
            OwnedMessage::Prepare(prepared) => self.prepare(&prepared)?,
            OwnedMessage::CommitPrepared(OwnedPrepared {
                lsn: commit_lsn,
                end_lsn,
                time: commit_time,
                xid,
                gid,
            }) => {
                self.outside()?;
                utf8(&gid)?;
                let held = (gid.clone(), xid, 0)..=(gid, xid, u64::MAX);
                let keys = self.prepared.range(held);
                let keys: Vec<_> = keys.map(|(key, _)| key.clone()).collect();
                // Only the last one can still be open.
                let held = keys.iter().map(|key| self.prepared.remove(key));
                if let Some(transaction) = held.last().flatten() {
                    self.finished.insert((xid, end_lsn));
                    self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
                } else if self.is_missed(xid, end_lsn)? {
                    self.committed.unannounced += 1;
                    let empty = Transaction::default();
                    self.commit(empty, xid, commit_lsn, end_lsn, commit_time);
                }
            }
            OwnedMessage::RollbackPrepared {
                prepare_end_lsn,
                xid,
                gid,
                ..
            } => {
                self.outside()?;
                utf8(&gid)?;
                let held = (gid.clone(), xid, 0)..=(gid.clone(), xid, u64::MAX);
                let other = self.prepared.range(held).next_back().is_some();
                let found = self.prepared.remove(&(gid, xid, prepare_end_lsn));
                if found.is_none() && other {
                    return Err(Reason::Unclear("a rollback of another prepare"));
                }
            }
            OwnedMessage::StreamStart { xid, first } => {
                self.outside()?;
                let known = self.streamed.get(&xid);
                let lost = match (first, known) {
                    (true, None) => false,
                    (true, Some(known)) if known.lost => false,
                    (false, Some(known)) => known.lost,
                    (false, None) if self.options.late_start => true,
                    _ => return Err(Reason::Impossible("a Stream Start out of place")),
                };
                if first {
                    self.streamed.remove(&xid);
                }
                self.streamed.entry(xid).or_default().lost = lost;
                self.block = Some(xid);
            }
            OwnedMessage::StreamStop => {
                let block = self.block.take();
                demand(block.is_some(), "a Stream Stop without its Stream Start")?;
            }
            OwnedMessage::StreamCommit {
                xid,
                commit_lsn,
                end_lsn,
                commit_time,
            } => {
                if let Some(mut transaction) = self.streamed_to_its_end(xid)? {
                    let kept = std::mem::take(&mut transaction.kept);
                    self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
                    for own in kept.into_values() {
                        self.take_over(own);
                    }
                }
            }
            OwnedMessage::StreamPrepare(OwnedPrepared {
                xid, gid, end_lsn, ..
            }) => {
                utf8(&gid)?;
                if let Some(mut transaction) = self.streamed_to_its_end(xid)? {
                    for own in std::mem::take(&mut transaction.kept).into_values() {
                        self.take_over(own);
                    }
                    self.prepared.insert((gid, xid, end_lsn), transaction);
                }
            }
            OwnedMessage::StreamAbort { xid, subxid, .. } => {
                demand(self.block.is_none(), "a Stream Abort inside a block")?;
                if xid == subxid {
                    self.streamed.remove(&xid);
                } else if let Some(transaction) = self.streamed.get_mut(&xid) {
                    transaction.abort(subxid)?;
                }
            }
            OwnedMessage::Origin { name, .. } => {
                if name.as_bytes().len() > LONGEST_ORIGIN {
                    return Err(Reason::LongName);
                }
                utf8(&name)?;
                self.open()?.1.origin = Some(name);
            }
            OwnedMessage::Type {
                namespace,
                name: it,
                ..
            } => {
                name(&namespace)?;
                name(&it)?;
            }
            OwnedMessage::Relation {
                xid,
                oid,
                namespace,
                name: it,
                replica_identity,
                columns,
            } => {
                name(&namespace)?;
                name(&it)?;
                columns.iter().try_for_each(|column| name(&column.name))?;
                if columns.len() > MOST_COLUMNS {
                    return Err(Reason::TooWide);
                }
                let described = Described {
                    oid,
                    namespace: if namespace.as_bytes().is_empty() {
                        "pg_catalog".into()
                    } else {
                        namespace
                    },
                    name: it,
                    replica_identity,
                    columns,
                };
                self.describe(xid, described)?;
            }
            OwnedMessage::Message {
                transactional: false,
                lsn,
                prefix,
                ..
            } => {
                self.outside()?;
                utf8(&prefix)?;
                // Only a log's own facts have no LSN. They are returned again after every start.
                if lsn == 0 || self.options.start.is_none_or(|start| lsn > start) {
                    self.committed.notes.push((lsn, prefix));
                    self.committed.ends.push(lsn);
                }
            }
            row => self.row(row)?,
        }
        Ok(())
    }

    fn prepare(&mut self, prepared: &OwnedPrepared) -> Result<(), Reason> {
        let (end_lsn, xid, gid) = (prepared.end_lsn, prepared.xid, prepared.gid.clone());
        utf8(&gid)?;
        demand(self.block.is_none(), "a Prepare inside a block")?;
        let Some((_, begin, transaction)) = self.plain.take() else {
            // It is empty, unless it is a repetition of a known prepare.
            self.committed.unannounced += 1;
            self.prepares_empty = true;
            let held = (gid.clone(), xid, 0)..=(gid.clone(), xid, u64::MAX);
            let mut held = self.prepared.range(held);
            if held.any(|((_, _, end), _)| *end != end_lsn) {
                return Err(Reason::Unclear("two transactions of one name and ID"));
            }
            let empty = Transaction::default();
            self.prepared.entry((gid, xid, end_lsn)).or_insert(empty);
            return Ok(());
        };
        let same = matches!(begin, Begin::Prepare(begin) if begin == *prepared);
        demand(same, "a Prepare without its Begin Prepare")?;
        self.prepared.insert((gid, xid, end_lsn), transaction);
        Ok(())
    }

    /// Whether the commit of an unknown prepared transaction means that it is empty.
    fn is_missed(&mut self, xid: u32, end_lsn: u64) -> Result<bool, Reason> {
        let delivered = self.options.start.is_some_and(|start| end_lsn <= start);
        if delivered || self.finished.contains(&(xid, end_lsn)) {
            return Ok(false);
        }
        // A server that sends a Prepare for empty transactions sends it for all of them.
        let again = !self.alone.insert((xid, end_lsn));
        if self.options.late_start || self.prepares_empty || again {
            return Err(Reason::Unclear("a commit of what is not held"));
        }
        demand(
            self.options.start.is_none(),
            "a commit of what was prepared before",
        )?;
        Ok(true)
    }

    fn streamed_to_its_end(&mut self, xid: u32) -> Result<Option<Transaction>, Reason> {
        self.outside()?;
        let transaction = self.streamed.remove(&xid);
        demand(
            transaction.is_some() || self.options.late_start,
            "an end without its Stream Start",
        )?;
        Ok(transaction)
    }

    fn describe(&mut self, xid: Option<u32>, described: Described) -> Result<(), Reason> {
        self.arrivals += 1;
        let (oid, relation) = (described.oid, Arc::new(described));
        let arrival = self.arrivals;
        let (Some(writer), Some(top)) = (xid, self.block) else {
            let known = Known {
                relation,
                outside: arrival,
                taken_over: 0,
                unclear: false,
            };
            self.relations.insert(oid, known);
            return Ok(());
        };
        let transaction = self.streamed.entry(top).or_default();
        if transaction.aborted.contains(&writer) {
            return Err(Reason::Unclear("a message of what was rolled back"));
        }
        let own = Own {
            writer,
            relation,
            arrival,
        };
        transaction.own.push(own.clone());
        transaction.kept.insert(oid, own);
        Ok(())
    }

    /// Promotes a committed transaction's description, unless the session has a later one.
    fn take_over(&mut self, own: Own) {
        self.arrivals += 1;
        let now = self.arrivals;
        let known = self
            .relations
            .entry(own.relation.oid)
            .or_insert_with(|| Known {
                relation: Arc::clone(&own.relation),
                outside: 0,
                taken_over: 0,
                unclear: false,
            });
        if known.relation == own.relation {
            known.taken_over = now;
        } else if known.taken_over > own.arrival {
            known.unclear = true;
        } else if known.outside < own.arrival {
            known.relation = own.relation;
            known.taken_over = now;
        }
    }

    fn row(&mut self, mut message: OwnedMessage) -> Result<(), Reason> {
        let (xid, oids) = match &mut message {
            OwnedMessage::Insert { xid, relation, .. }
            | OwnedMessage::Update { xid, relation, .. }
            | OwnedMessage::Delete { xid, relation, .. } => (xid, vec![*relation]),
            OwnedMessage::Truncate { xid, relations, .. } => (xid, relations.clone()),
            OwnedMessage::Message { xid, prefix, .. } => {
                utf8(prefix)?;
                (xid, Vec::new())
            }
            _ => return Err(Reason::Impossible("a message that is no row")),
        };
        let xid = xid.take();
        let is_truncate = matches!(message, OwnedMessage::Truncate { .. });
        let distinct: BTreeSet<_> = oids.iter().collect();
        demand(!is_truncate || !oids.is_empty(), "a Truncate of none")?;
        if is_truncate && distinct.len() < oids.len() {
            return Err(Reason::TruncatedTwice);
        }
        let (mut relations, mut describers) = (Vec::new(), Vec::new());
        for oid in oids {
            let (relation, describer) = self.relation(oid)?;
            for cells in message.tuples() {
                demand(
                    cells.len() == relation.columns.len(),
                    "a row of other columns",
                )?;
            }
            relations.push(relation);
            describers.push(describer);
        }
        let (_, transaction) = self.open()?;
        let writer = xid.filter(|_| !matches!(message, OwnedMessage::Message { .. }));
        if writer.is_some_and(|xid| transaction.aborted.contains(&xid)) {
            return Err(Reason::Unclear("a message of what was rolled back"));
        }
        transaction.rows.push(Row {
            writer,
            message,
            relations,
            describers,
        });
        Ok(())
    }

    /// The current description of the relation, and the streamed (sub)transaction that sent it.
    fn relation(&mut self, oid: u32) -> Result<(Arc<Described>, Option<u32>), Reason> {
        let open = self.block.and_then(|xid| self.streamed.get_mut(&xid));
        if let Some(transaction) = &open {
            let mut own = transaction.own.iter().rev();
            if let Some(own) = own.find(|own| own.relation.oid == oid) {
                return Ok((Arc::clone(&own.relation), Some(own.writer)));
            }
        }
        let known = self.relations.get(&oid);
        let known = known.ok_or(Reason::Impossible("a row of an unknown relation"))?;
        if known.unclear {
            return Err(Reason::Unclear("a relation of two descriptions"));
        }
        if let Some(transaction) = open {
            let used = transaction.used.entry(oid);
            if *used.or_insert_with(|| Arc::clone(&known.relation)) != known.relation {
                return Err(Reason::Unclear("a relation of two descriptions"));
            }
        }
        Ok((Arc::clone(&known.relation), None))
    }

    fn open(&mut self) -> Result<(u32, &mut Transaction), Reason> {
        match (self.block, &mut self.plain) {
            (Some(xid), _) => Ok((xid, self.streamed.entry(xid).or_default())),
            (None, Some((xid, _, transaction))) => Ok((*xid, transaction)),
            (None, None) => Err(Reason::Impossible("a message outside transactions")),
        }
    }

    fn commit(
        &mut self,
        transaction: Transaction,
        xid: u32,
        commit_lsn: u64,
        end_lsn: u64,
        commit_time: i64,
    ) {
        if transaction.lost || self.options.start.is_some_and(|start| end_lsn <= start) {
            return;
        }
        let mut seq = 0;
        let (mut changes, mut relations) = (Vec::new(), Vec::new());
        for row in transaction.rows {
            let counts = !matches!(row.message, OwnedMessage::Message { .. });
            changes.push(ExpectedChange {
                seq,
                message: row.message,
                columns: row.relations.iter().map(|it| it.columns.len()).collect(),
            });
            relations.push(row.relations);
            seq += u64::from(counts);
        }
        self.committed.relations.push(relations);
        self.committed.ends.push(end_lsn);
        self.committed.transactions.push(Expected {
            xid,
            commit_lsn,
            end_lsn,
            commit_time,
            origin: transaction.origin,
            changes,
        });
    }
}
