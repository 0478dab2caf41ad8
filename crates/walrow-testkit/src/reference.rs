//! The committed transactions of a stream, assembled slowly and plainly: everything is kept in
//! memory, owned, and looked through again whenever something has to be found.

use crate::history::{Expected, ExpectedChange};
use crate::{OwnedMessage, PgText, walk};
use std::collections::BTreeMap;
use walrow_wire::{BackendMessage, Error};

/// What a stream comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Committed {
    /// The committed transactions, in commit order.
    pub transactions: Vec<Expected>,
    /// The non-transactional messages in order: LSN and prefix.
    pub notes: Vec<(u64, PgText)>,
}

/// Reads a stream of any protocol version to its last whole frame.
///
/// # Errors
/// Bytes that are not the protocol.
///
/// # Panics
/// On messages that come where they cannot: this is for valid streams.
pub fn committed(bytes: &[u8]) -> Result<Committed, Error> {
    let mut reader = Reader::default();
    walk(bytes, |step| {
        if matches!(step.backend, BackendMessage::CopyBothResponse(_)) {
            reader.plain = None;
            reader.block = None;
            reader.streamed.clear();
            reader.overlays.clear();
            reader.relations.clear();
        }
        if let Some(message) = &step.message {
            reader.read(OwnedMessage::from(message));
        }
    })?;
    Ok(reader.committed)
}

/// A change, its (sub)transaction, and how many columns its relations have.
type Row = (u32, OwnedMessage, Vec<usize>);

#[derive(Clone, Default)]
struct Transaction {
    origin: Option<PgText>,
    rows: Vec<Row>,
}

#[derive(Default)]
struct Reader {
    committed: Committed,
    /// The relations known outside stream blocks: columns and arrival.
    relations: BTreeMap<u32, (usize, usize)>,
    /// Those of streamed transactions.
    overlays: BTreeMap<u32, BTreeMap<u32, (usize, usize)>>,
    arrivals: usize,
    plain: Option<(u32, Transaction)>,
    block: Option<u32>,
    streamed: BTreeMap<u32, Transaction>,
    /// By gid and transaction.
    prepared: BTreeMap<(PgText, u32), Transaction>,
}

impl Reader {
    fn read(&mut self, message: OwnedMessage) {
        match message {
            OwnedMessage::Begin { xid, .. } | OwnedMessage::BeginPrepare { xid, .. } => {
                assert!(self.block.is_none() && self.plain.is_none(), "{message:?}");
                self.plain = Some((xid, Transaction::default()));
            }
            OwnedMessage::Commit {
                commit_lsn,
                end_lsn,
                commit_time,
            } => {
                let (xid, transaction) = self.plain.take().expect("Begin comes before Commit");
                self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
            }
            OwnedMessage::Prepare { xid, gid, .. } => {
                let (_, transaction) = self.plain.take().expect("Begin Prepare comes first");
                self.prepared.insert((gid, xid), transaction);
            }
            OwnedMessage::CommitPrepared {
                commit_lsn,
                end_lsn,
                commit_time,
                xid,
                gid,
            } => {
                if let Some(transaction) = self.prepared.remove(&(gid, xid)) {
                    self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
                }
            }
            OwnedMessage::RollbackPrepared { xid, gid, .. } => {
                self.prepared.remove(&(gid, xid));
            }
            OwnedMessage::StreamStart { xid, first } => {
                assert!(self.block.is_none() && self.plain.is_none(), "{message:?}");
                assert_eq!(first, !self.streamed.contains_key(&xid));
                self.streamed.entry(xid).or_default();
                self.block = Some(xid);
            }
            OwnedMessage::StreamStop => {
                self.block
                    .take()
                    .expect("Stream Start comes before Stream Stop");
            }
            OwnedMessage::StreamCommit {
                xid,
                commit_lsn,
                end_lsn,
                commit_time,
            } => {
                for (oid, (columns, arrival)) in self.overlays.remove(&xid).unwrap_or_default() {
                    if self
                        .relations
                        .get(&oid)
                        .is_none_or(|(_, outside)| *outside < arrival)
                    {
                        self.relations.insert(oid, (columns, arrival));
                    }
                }
                let transaction = self.streamed.remove(&xid).unwrap_or_default();
                self.commit(transaction, xid, commit_lsn, end_lsn, commit_time);
            }
            OwnedMessage::StreamPrepare { xid, gid, .. } => {
                self.overlays.remove(&xid);
                let transaction = self.streamed.remove(&xid).unwrap_or_default();
                self.prepared.insert((gid, xid), transaction);
            }
            OwnedMessage::StreamAbort { xid, subxid, .. } => {
                self.overlays.remove(&xid);
                if xid == subxid {
                    self.streamed.remove(&xid);
                } else if let Some(transaction) = self.streamed.get_mut(&xid) {
                    transaction.rows.retain(|(writer, ..)| *writer != subxid);
                }
            }
            OwnedMessage::Origin { name, .. } => self.open().1.origin = Some(name),
            OwnedMessage::Relation { oid, columns, .. } => {
                self.arrivals += 1;
                let relations = match self.block {
                    Some(xid) => self.overlays.entry(xid).or_default(),
                    None => &mut self.relations,
                };
                relations.insert(oid, (columns.len(), self.arrivals));
            }
            OwnedMessage::Type { .. } => {}
            OwnedMessage::Message {
                transactional: false,
                lsn,
                prefix,
                ..
            } => self.committed.notes.push((lsn, prefix)),
            mut row => {
                let (xid, oids) = match &mut row {
                    OwnedMessage::Insert { xid, relation, .. }
                    | OwnedMessage::Update { xid, relation, .. }
                    | OwnedMessage::Delete { xid, relation, .. } => (xid, vec![*relation]),
                    OwnedMessage::Truncate { xid, relations, .. } => (xid, relations.clone()),
                    OwnedMessage::Message { xid, .. } => (xid, Vec::new()),
                    row => panic!("{row:?} is no row"),
                };
                let xid = xid.take();
                assert_eq!(xid.is_some(), self.block.is_some());
                let columns = oids.iter().map(|oid| self.columns(*oid)).collect();
                let (top, transaction) = self.open();
                transaction.rows.push((xid.unwrap_or(top), row, columns));
            }
        }
    }

    fn columns(&self, oid: u32) -> usize {
        let overlay = self
            .block
            .and_then(|xid| self.overlays.get(&xid)?.get(&oid));
        let (columns, _) = overlay
            .or_else(|| self.relations.get(&oid))
            .expect("a Relation comes before its use");
        *columns
    }

    fn open(&mut self) -> (u32, &mut Transaction) {
        match (self.block, &mut self.plain) {
            (Some(xid), _) => (
                xid,
                self.streamed
                    .get_mut(&xid)
                    .expect("its Stream Start was read"),
            ),
            (None, Some((xid, transaction))) => (*xid, transaction),
            (None, None) => panic!("no transaction is open"),
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
        let mut seq = 0;
        let mut changes = Vec::new();
        for (_, message, columns) in transaction.rows {
            let counts = !matches!(message, OwnedMessage::Message { .. });
            changes.push(ExpectedChange {
                seq,
                message,
                columns,
            });
            seq += u64::from(counts);
        }
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
