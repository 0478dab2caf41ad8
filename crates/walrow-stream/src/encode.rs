//! Committed transactions as a stream of protocol 1, which any decoder of pgoutput reads.
//!
//! ```text
//! stream of any protocol version ─► Assembler ─► events ─► Encoder ─► B … C of protocol 1
//! ```
//! Row messages are copied. The encoder does not read their cells. Each Relation, and the Types of
//! its columns, comes before its first use, and again when a row uses another version of the
//! relation.

use crate::error::Error;
use crate::relation::Relation;
use crate::transaction::{Change, Message, Transaction, Truncate, Unread};
use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_wire::{
    self as wire, Begin, Columns, Commit, LogicalMessage, Lsn, Oid, PgString, Timestamp, Type, Xid,
};

/// Writes committed transactions as wire frames with messages of protocol 1.
///
/// ```
/// use walrow_stream::{Assembler, Encoder, Event};
///
/// let stream: &[u8] = &[]; // wire frames of any protocol version
/// let (mut assembler, mut encoder) = (Assembler::default(), Encoder::default());
/// let (mut input, mut out) = (stream, Vec::new());
/// while let Some(event) = assembler.next_with(&mut input, |row| encoder.row(&row, &mut out))? {
///     match event {
///         Event::Change(error) => return Err(error),
///         Event::Begin(transaction) => encoder.begin(transaction, &mut out),
///         Event::Truncate(truncate) => encoder.truncate(&truncate, &mut out),
///         Event::Message(message) => encoder.message(&message, &mut out),
///         Event::Commit { transaction, .. } => encoder.commit(transaction, &mut out),
///         _ => {}
///     }
/// }
/// # Ok::<(), walrow_stream::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Encoder {
    /// The relations that were written.
    written: Vec<Written>,
    /// The places of the relations in `written`.
    places: BTreeMap<Oid, usize>,
    /// The place of the last row's relation: most rows follow a row of the same table.
    last: usize,
    /// Versions that the current transaction has used, and then defined again.
    replaced: Vec<Arc<Relation>>,
    /// Counts transactions.
    transaction: u64,
    clock: Timestamp,
}

/// A relation that was written.
#[derive(Debug)]
struct Written {
    /// The version that was written last.
    relation: Arc<Relation>,
    /// The last transaction that used it.
    used_in: u64,
    /// Whether it was written before that transaction.
    is_inherited: bool,
}

impl Encoder {
    /// Forgets which relations were written: a reader needs no earlier bytes for the next ones.
    /// Call it before the first event of another assembler, which numbers its versions again.
    pub fn restart(&mut self) {
        self.written.clear();
        self.places.clear();
    }

    /// Writes a transaction's Begin, and its origins.
    pub fn begin(&mut self, transaction: &Transaction, out: &mut Vec<u8>) {
        let &Transaction {
            xid,
            commit_lsn,
            commit_time,
            ..
        } = transaction;
        self.clock = commit_time;
        self.transaction = self.transaction.wrapping_add(1);
        self.replaced.clear();
        let begin = wire::Message::Begin(Begin {
            final_lsn: commit_lsn,
            commit_time,
            xid,
        });
        begin.encode_in_frame(commit_lsn, commit_time, out);
        for origin in &transaction.origins {
            let origin = wire::Message::Origin(wire::Origin {
                commit_lsn: origin.commit_lsn,
                name: PgString(origin.name.as_bytes()),
            });
            origin.encode_in_frame(Lsn::INVALID, commit_time, out);
        }
    }

    /// Writes a row change, and its relation if necessary.
    ///
    /// # Errors
    /// The row does not follow the protocol. No byte of it is written.
    #[inline]
    pub fn row(&mut self, change: &Change<'_, Unread<'_>>, out: &mut Vec<u8>) -> Result<(), Error> {
        if !change.is_valid() {
            // Returns the error.
            change.read()?;
        }
        let last = self.written.get(self.last);
        let is_described = last.is_some_and(|last| {
            last.relation.version == change.relation.version && last.used_in == self.transaction
        });
        if !is_described {
            self.describe(change.relation, out);
        }
        let Unread { peek, context } = &change.row;
        peek.encode_outside(context.in_stream, out);
        Ok(())
    }

    /// Writes a TRUNCATE, and its relations if necessary.
    pub fn truncate(&mut self, truncate: &Truncate, out: &mut Vec<u8>) {
        for relation in &truncate.relations {
            self.describe(relation, out);
        }
        let relations = truncate.relations.iter();
        let relations: Vec<_> = relations.map(|it| it.oid.to_be_bytes()).collect();
        let Truncate {
            cascade,
            restart_identity,
            ..
        } = *truncate;
        let message = wire::Truncate::new(cascade, restart_identity, &relations);
        let message = wire::Message::Truncate(message);
        message.encode_in_frame(truncate.lsn, self.clock, out);
    }

    /// Writes a logical message.
    pub fn message(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        let logical = wire::Message::Message(LogicalMessage {
            xid: None,
            transactional: message.transactional,
            lsn: message.lsn,
            prefix: PgString(message.prefix.as_bytes()),
            content: message.content,
        });
        logical.encode_in_frame(message.lsn, self.clock, out);
    }

    /// Writes the relations that the current transaction uses, and that were written before it. If
    /// they come after its Begin, a reader needs no earlier bytes for the transaction.
    pub fn inherited(&self, out: &mut Vec<u8>) {
        let written = self.written.iter();
        let inherited = written.filter(|it| it.is_inherited && it.used_in == self.transaction);
        let inherited = inherited.map(|it| &it.relation);
        for relation in inherited.chain(&self.replaced) {
            self.put(relation, out);
        }
    }

    fn put(&self, relation: &Relation, out: &mut Vec<u8>) {
        let at = (Lsn::INVALID, self.clock);
        put_relation(relation, None, at, out);
    }

    /// Writes a transaction's Commit.
    pub fn commit(&mut self, transaction: &Transaction, out: &mut Vec<u8>) {
        let &Transaction {
            commit_lsn,
            end_lsn,
            commit_time,
            ..
        } = transaction;
        let commit = wire::Message::Commit(Commit {
            commit_lsn,
            end_lsn,
            commit_time,
        });
        commit.encode_in_frame(end_lsn, commit_time, out);
    }

    /// Notes that the current transaction uses a relation. Writes it, unless its last description was
    /// the same.
    pub fn describe(&mut self, relation: &Arc<Relation>, out: &mut Vec<u8>) {
        let last = self.written.get(self.last);
        let place = match last {
            Some(last) if last.relation.oid == relation.oid => Some(self.last),
            _ => self.places.get(&relation.oid).copied(),
        };
        if let Some(place) = place
            && let Some(written) = self.written.get_mut(place)
        {
            self.last = place;
            let is_used = written.used_in == self.transaction;
            if written.relation.version == relation.version {
                written.is_inherited |= !is_used;
                written.used_in = self.transaction;
                return;
            }
            let before = std::mem::replace(&mut written.relation, Arc::clone(relation));
            if is_used && written.is_inherited {
                self.replaced.push(before);
            }
            (written.used_in, written.is_inherited) = (self.transaction, false);
        } else {
            self.last = self.written.len();
            self.places.insert(relation.oid, self.last);
            self.written.push(Written {
                relation: Arc::clone(relation),
                used_in: self.transaction,
                is_inherited: false,
            });
        }
        self.put(relation, out);
    }
}

/// Writes a relation version, after the names of its types, as sent at this LSN and time. `xid` is
/// the transaction of the stream block around it.
pub(crate) fn put_relation(
    relation: &Relation,
    xid: Option<Xid>,
    (lsn, clock): (Lsn, Timestamp),
    out: &mut Vec<u8>,
) {
    let encoding = relation.encoding;
    for column in &relation.columns {
        if let Some(name) = &column.type_name {
            let message = Type {
                xid,
                oid: column.type_oid,
                namespace: PgString(&encoding.encode(&name.namespace)),
                name: PgString(&encoding.encode(&name.name)),
            };
            wire::Message::Type(message).encode_in_frame(lsn, clock, out);
        }
    }
    let names = relation.columns.iter().map(|it| encoding.encode(&it.name));
    let names: Vec<_> = names.collect();
    let columns = relation.columns.iter().zip(&names);
    let columns = columns.map(|(column, name)| wire::Column {
        flags: column.is_key.into(),
        name: PgString(name),
        type_oid: column.type_oid,
        type_modifier: column.type_modifier,
    });
    let mut buffer = Vec::new();
    let message = wire::Relation {
        xid,
        oid: relation.oid,
        namespace: PgString(&encoding.encode(&relation.namespace)),
        name: PgString(&encoding.encode(&relation.name)),
        replica_identity: relation.replica_identity,
        columns: Columns::encoded(columns, &mut buffer),
    };
    wire::Message::Relation(message).encode_in_frame(lsn, clock, out);
}
