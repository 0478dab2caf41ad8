//! The committed transactions of a stream, assembled slowly and plainly: everything is kept in
//! memory, owned, and looked through again whenever something has to be found.

use crate::history::{Expected, ExpectedChange};
use crate::{OwnedColumn, OwnedMessage, PgText, walk};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use walrow_wire::{BackendMessage, Error, Frame, ReplicaIdentity};

/// What a stream comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The committed transactions, in commit order.
    pub transactions: Vec<Expected>,
    /// Of each of them, of each change: its relations as they were described then.
    pub relations: Vec<Vec<Vec<Arc<Described>>>>,
    /// The non-transactional messages in order: LSN and prefix.
    pub notes: Vec<(u64, PgText)>,
    /// Where those end and these lie, in the order in which they came.
    pub ends: Vec<u64>,
    /// What is prepared at the end: ID and name.
    pub prepared: Vec<(u32, PgText)>,
    /// How many prepared transactions were told of without what began them, as servers tell of
    /// empty ones.
    pub unannounced: usize,
}

/// A relation as a Relation message describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the message")]
pub struct Described {
    pub oid: u32,
    pub namespace: PgText,
    pub name: PgText,
    pub replica_identity: ReplicaIdentity,
    pub columns: Vec<OwnedColumn>,
}

/// What a reader was told besides the stream.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    /// What ends here or before was delivered before.
    pub start: Option<u64>,
    /// Whether transactions may lack their begin.
    pub late_start: bool,
    /// The most bytes of a message.
    pub message_limit: usize,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            start: None,
            late_start: false,
            message_limit: usize::MAX,
        }
    }
}

/// A stream that is read no further, and what it came to before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// What was committed before.
    pub committed: Committed,
    /// Why.
    pub reason: Reason,
}

/// Why a stream is read no further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Bytes that are not the protocol.
    Wire(Error),
    /// A message that comes where it cannot.
    Impossible(&'static str),
    /// What no server sends and nobody promises to read in one way.
    Unclear(&'static str),
}

/// Names are longer in no server, and are refused.
const LONGEST_NAME: usize = 1024;

/// Reads a stream of any protocol version to its last whole frame.
///
/// # Errors
/// Bytes that are not the protocol, and messages that come where they cannot: also those of
/// transactions that are rolled back later.
pub fn committed(bytes: &[u8]) -> Result<Committed, Box<Refused>> {
    committed_as(bytes, Told::default())
}

/// As [`committed`], told these things.
pub fn committed_as(bytes: &[u8], told: Told) -> Result<Committed, Box<Refused>> {
    let mut reader = Reader {
        told,
        ..Reader::default()
    };
    let limit = told.message_limit.saturating_add(30);
    let mut refused = None;
    let walked = walk(bytes, |step| {
        if refused.is_some() {
            return;
        }
        let size = step.frame.body.len() + Frame::HEADER;
        let result = if size > limit {
            Err(Reason::Impossible("a message past the limit"))
        } else {
            reader.step(
                &step.backend,
                step.message.as_ref().map(OwnedMessage::from),
            )
        };
        refused = result.err();
    });
    let reason = refused.or(match walked {
        Err(error) => Some(Reason::Wire(error)),
        Ok(end) => match Frame::size(&bytes[end..]) {
            Ok(Some(size)) if size > limit => Some(Reason::Impossible("a message past the limit")),
            Ok(_) => None,
            Err(error) => Some(Reason::Wire(error.at(end))),
        },
    });
    let mut committed = reader.committed;
    committed.prepared = reader
        .prepared
        .into_keys()
        .map(|(gid, xid, _)| (xid, gid))
        .collect();
    match reason {
        None => Ok(committed),
        Some(reason) => Err(Box::new(Refused { committed, reason })),
    }
}

/// A change, its (sub)transaction, its relations and the (sub)transactions that described them.
#[derive(Clone)]
struct Row {
    writer: Option<u32>,
    message: OwnedMessage,
    relations: Vec<Arc<Described>>,
    describers: Vec<Option<u32>>,
}

/// A description in a streamed transaction.
#[derive(Clone)]
struct Own {
    writer: u32,
    relation: Arc<Described>,
    arrival: usize,
}

#[derive(Clone, Default)]
struct Transaction {
    origin: Option<PgText>,
    rows: Vec<Row>,
    /// Its own descriptions, in the order they arrived; of a streamed one only.
    own: Vec<Own>,
    /// What the session takes over of them at its end.
    kept: BTreeMap<u32, Own>,
    /// The session's descriptions that its rows were read by.
    used: BTreeMap<u32, Arc<Described>>,
    aborted: BTreeSet<u32>,
    /// Whether its begin is missing.
    lost: bool,
}

/// What the session knows of a relation.
struct Known {
    relation: Arc<Described>,
    /// When it was described outside streams, and when it was last taken over from a stream.
    outside: usize,
    taken_over: usize,
    /// Whether two transactions described it in different ways at the same time.
    unclear: bool,
}

/// A plain transaction's begin.
enum Begin {
    Begin(u64),
    Prepare(OwnedMessage),
}

#[derive(Default)]
struct Reader {
    told: Told,
    committed: Committed,
    relations: BTreeMap<u32, Known>,
    arrivals: usize,
    plain: Option<(u32, Begin, Transaction)>,
    block: Option<u32>,
    streamed: BTreeMap<u32, Transaction>,
    /// By name, transaction and the end of the prepare.
    prepared: BTreeMap<(PgText, u32, u64), Transaction>,
    /// Committed prepared ones: transaction and end; and those that were not held.
    finished: BTreeSet<(u32, u64)>,
    alone: BTreeSet<(u32, u64)>,
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
    demand(text.as_bytes().len() <= LONGEST_NAME, "a long name")?;
    utf8(text)
}

impl Reader {
    fn step(
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
                matches!(data, walrow_wire::CopyData::PrimaryKeepalive(_)),
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
            OwnedMessage::BeginPrepare { xid, ref gid, .. } => {
                self.outside()?;
                utf8(gid)?;
                self.plain = Some((xid, Begin::Prepare(message), Transaction::default()));
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
            OwnedMessage::Prepare {
                prepare_lsn,
                end_lsn,
                prepare_time,
                xid,
                gid,
            } => self.prepare(prepare_lsn, end_lsn, prepare_time, xid, gid)?,
            OwnedMessage::CommitPrepared {
                commit_lsn,
                end_lsn,
                commit_time,
                xid,
                gid,
            } => {
                self.outside()?;
                utf8(&gid)?;
                let held = (gid.clone(), xid, 0)..=(gid, xid, u64::MAX);
                let key = self.prepared.range(held).next_back();
                let key = key.map(|(key, _)| key.clone());
                if let Some(transaction) = key.and_then(|key| self.prepared.remove(&key)) {
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
                    (false, None) if self.told.late_start => true,
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
            OwnedMessage::StreamPrepare {
                xid, gid, end_lsn, ..
            } => {
                utf8(&gid)?;
                if let Some(transaction) = self.streamed_to_its_end(xid)? {
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
                utf8(&name)?;
                self.open()?.1.origin = Some(name);
            }
            OwnedMessage::Type {
                namespace, name: it, ..
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
                if self.told.start.is_none_or(|start| lsn > start) {
                    self.committed.notes.push((lsn, prefix));
                    self.committed.ends.push(lsn);
                }
            }
            row => self.row(row)?,
        }
        Ok(())
    }

    fn prepare(
        &mut self,
        prepare_lsn: u64,
        end_lsn: u64,
        prepare_time: i64,
        xid: u32,
        gid: PgText,
    ) -> Result<(), Reason> {
        utf8(&gid)?;
        demand(self.block.is_none(), "a Prepare inside a block")?;
        let Some((_, begin, transaction)) = self.plain.take() else {
            // An empty one, unless what the session held before is told again.
            self.committed.unannounced += 1;
            let held = (gid.clone(), xid, 0)..=(gid.clone(), xid, u64::MAX);
            if self.prepared.range(held).next().is_none() {
                let empty = Transaction::default();
                self.prepared.insert((gid, xid, end_lsn), empty);
            }
            return Ok(());
        };
        let said = OwnedMessage::BeginPrepare {
            prepare_lsn,
            end_lsn,
            prepare_time,
            xid,
            gid: gid.clone(),
        };
        let same = matches!(begin, Begin::Prepare(begin) if begin == said);
        demand(same, "a Prepare without its Begin Prepare")?;
        self.prepared.insert((gid, xid, end_lsn), transaction);
        Ok(())
    }

    /// Whether the commit of a prepared transaction that is not held is one of an empty one.
    fn is_missed(&mut self, xid: u32, end_lsn: u64) -> Result<bool, Reason> {
        let told = self.told.start.is_some_and(|start| end_lsn <= start);
        if told || self.finished.contains(&(xid, end_lsn)) {
            return Ok(false);
        }
        if self.told.late_start || !self.alone.insert((xid, end_lsn)) {
            return Err(Reason::Unclear("a commit of what is not held"));
        }
        demand(
            self.told.start.is_none(),
            "a commit of what was prepared before",
        )?;
        Ok(true)
    }

    fn streamed_to_its_end(&mut self, xid: u32) -> Result<Option<Transaction>, Reason> {
        self.outside()?;
        let transaction = self.streamed.remove(&xid);
        demand(
            transaction.is_some() || self.told.late_start,
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

    /// A committed transaction's description becomes the session's, unless a later one is.
    fn take_over(&mut self, own: Own) {
        self.arrivals += 1;
        let now = self.arrivals;
        let known = self.relations.entry(own.relation.oid).or_insert(Known {
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
        demand(
            !is_truncate || !oids.is_empty() && distinct.len() == oids.len(),
            "a Truncate of none, or of one twice",
        )?;
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

    /// The relation as it is described now, and the streamed (sub)transaction that did so.
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
        if transaction.lost || self.told.start.is_some_and(|start| end_lsn <= start) {
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

impl Transaction {
    /// A subtransaction is rolled back; its logical messages do not name it, and stay.
    fn abort(&mut self, subxid: u32) -> Result<(), Reason> {
        self.rows.retain(|row| row.writer != Some(subxid));
        self.own.retain(|own| own.writer != subxid);
        self.kept.retain(|_, own| own.writer != subxid);
        self.aborted.insert(subxid);
        let left = |row: &Row| row.describers.contains(&Some(subxid));
        if self.rows.iter().any(left) {
            return Err(Reason::Unclear("a row described by what was rolled back"));
        }
        Ok(())
    }
}
