//! Compares transactions with those of the slow reference.

use super::options::Options;
use super::run::Outcome;
use crate::reference::{Committed, Described};
use crate::{Expected, ExpectedChange, OwnedCell, OwnedMessage, OwnedOld};
use std::sync::Arc;
use walrow_stream::{Assembler, ErrorKind, Event, Relation, RowChange};
use walrow_wire::Lsn;

/// What the assembler returns for a stream.
#[derive(Debug, Default)]
pub(super) struct Assembled {
    transactions: Vec<Expected>,
    relations: Vec<Vec<Vec<Arc<Relation>>>>,
    notes: Vec<(u64, Vec<u8>)>,
    prepared: Vec<(u32, Vec<u8>)>,
    pub(super) error: Option<walrow_stream::Error>,
}

/// Reads the whole stream. With `leave_out`, it skips the rows of unselected tables, as the decoder
/// does.
pub(super) fn assembled(options: &Options, stream: &[u8], leave_out: bool) -> Assembled {
    let mut assembler = Assembler::default()
        .with_start(Lsn(options.reference.start.unwrap_or(0)))
        .with_late_start(options.reference.late_start)
        .with_message_limit(options.reference.message_limit);
    let mut this = Assembled::default();
    let mut open: Option<(Expected, Vec<Vec<Arc<Relation>>>)> = None;
    let mut rest = stream;
    loop {
        let item = match assembler.next(&mut rest) {
            Ok(Some(item)) => item,
            Ok(None) => break,
            Err(error) => {
                this.error = Some(error);
                break;
            }
        };
        match item {
            Event::Relation { relation, .. } if leave_out && !options.reads(relation) => {
                let version = relation.version;
                assembler.leave_out(version);
            }
            Event::Begin(it) => {
                let expected = Expected {
                    xid: it.xid,
                    commit_lsn: it.commit_lsn.0,
                    end_lsn: it.end_lsn.0,
                    commit_time: it.commit_time.0,
                    origin: it.origins.last().map(|it| it.name.as_str().into()),
                    changes: Vec::new(),
                };
                assert!(open.replace((expected, Vec::new())).is_none());
            }
            Event::Commit { .. } => {
                let (expected, relations) = open.take().expect("it began");
                this.transactions.push(expected);
                this.relations.push(relations);
            }
            Event::Message(message) if !message.transactional => {
                let prefix = message.prefix.as_bytes().to_vec();
                this.notes.push((message.lsn.0, prefix));
            }
            Event::Message(message) => {
                let change = ExpectedChange {
                    seq: message.seq,
                    message: OwnedMessage::Message {
                        xid: None,
                        transactional: true,
                        lsn: message.lsn.0,
                        prefix: message.prefix.into(),
                        content: message.content.to_vec(),
                    },
                    columns: Vec::new(),
                };
                let (expected, relations) = open.as_mut().expect("it began");
                expected.changes.push(change);
                relations.push(Vec::new());
            }
            Event::Change(change) => {
                let (message, of) = owned(change.relation, &change.row);
                let (expected, relations) = open.as_mut().expect("it began");
                expected.changes.push(ExpectedChange {
                    seq: change.seq,
                    message,
                    columns: of.iter().map(|it| it.columns.len()).collect(),
                });
                relations.push(of);
            }
            Event::Truncate(truncate) => {
                let of = truncate.relations;
                let message = OwnedMessage::Truncate {
                    xid: None,
                    options: u8::from(truncate.cascade) | u8::from(truncate.restart_identity) << 1,
                    relations: of.iter().map(|it| it.oid).collect(),
                };
                let (expected, relations) = open.as_mut().expect("it began");
                expected.changes.push(ExpectedChange {
                    seq: truncate.seq,
                    message,
                    columns: of.iter().map(|it| it.columns.len()).collect(),
                });
                relations.push(of);
            }
            _ => {}
        }
    }
    this.prepared = assembler
        .prepared()
        .map(|(xid, it)| (xid, it.gid.as_bytes().to_vec()))
        .collect();
    this
}

fn owned(relation: &Arc<Relation>, row: &RowChange<'_>) -> (OwnedMessage, Vec<Arc<Relation>>) {
    let xid = None;
    let oid = relation.oid;
    let cells = |tuple: &walrow_wire::Tuple<'_>| tuple.cells().map(OwnedCell::from).collect();
    let one = vec![Arc::clone(relation)];
    match row {
        RowChange::Insert { new } => {
            let new = cells(new);
            let message = OwnedMessage::Insert {
                xid,
                relation: oid,
                new,
            };
            (message, one)
        }
        RowChange::Update { old, new } => {
            let message = OwnedMessage::Update {
                xid,
                relation: oid,
                old: old.map(OwnedOld::from),
                new: cells(new),
            };
            (message, one)
        }
        RowChange::Delete { old } => {
            let old = OwnedOld::from(*old);
            let message = OwnedMessage::Delete {
                xid,
                relation: oid,
                old,
            };
            (message, one)
        }
    }
}

/// The assembler returns the reference's transactions. If the reference read the whole stream, it
/// returns no others and no error.
pub(super) fn transactions(found: &Assembled, committed: &Committed, is_whole: bool) {
    let mut expected = committed.transactions.clone();
    for change in expected.iter_mut().flat_map(|it| &mut it.changes) {
        if let OwnedMessage::Truncate { options, .. } = &mut change.message {
            // Other bits have no meaning.
            *options &= 3;
        }
    }
    if is_whole {
        assert_eq!(found.error, None, "the reference reads this stream");
        assert_eq!(found.transactions.len(), expected.len());
        let mut prepared: Vec<_> = (committed.prepared.iter())
            .map(|(xid, gid)| (*xid, gid.as_bytes().to_vec()))
            .collect();
        let mut held = found.prepared.clone();
        prepared.sort();
        held.sort();
        assert_eq!(held, prepared, "what is prepared");
        assert_eq!(found.notes.len(), committed.notes.len());
    }
    assert!(
        found.transactions.len() >= expected.len(),
        "{} transactions, {} by the reference; {:?}",
        found.transactions.len(),
        expected.len(),
        found.error,
    );
    for (one, other) in found.transactions.iter().zip(&expected) {
        assert_eq!(one, other);
    }
    for (one, (lsn, prefix)) in found.notes.iter().zip(&committed.notes) {
        assert_eq!((one.0, &*one.1), (*lsn, prefix.as_bytes()));
    }
    let described = found.relations.iter().zip(&committed.relations);
    for (one, other) in described.flat_map(|(one, other)| one.iter().zip(other)) {
        for (one, other) in one.iter().zip(other) {
            alike(one, other);
        }
    }
}

fn alike(relation: &Relation, described: &Described) {
    assert_eq!(relation.oid, described.oid);
    assert_eq!(
        relation.namespace.as_bytes(),
        described.namespace.as_bytes()
    );
    assert_eq!(relation.name.as_bytes(), described.name.as_bytes());
    assert_eq!(relation.replica_identity, described.replica_identity);
    for (one, other) in relation.columns.iter().zip(&described.columns) {
        assert_eq!(one.name.as_bytes(), other.name.as_bytes());
        let found = (one.type_oid, one.type_modifier, one.is_key);
        let flags = other.flags & 1 == 1;
        assert_eq!(found, (other.type_oid, other.type_modifier, flags));
    }
}

/// The decoder and the assembler return the same errors of the stream.
pub(super) fn errors(outcome: &Outcome, found: &Assembled) {
    match (&outcome.fault, &found.error) {
        (None, Some(error)) => panic!("the decoder passes {error}"),
        (Some(fault), error) if fault.is_of_stream => {
            let of = |kind: &ErrorKind| format!("{kind:?}");
            let expected = error.as_ref().map(|it| (of(&it.kind), Some(it.offset)));
            assert_eq!(Some((fault.kind.clone(), fault.offset)), expected);
        }
        _ => {}
    }
}
