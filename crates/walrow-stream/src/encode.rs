//! Committed transactions as a stream of protocol 1, which any decoder of pgoutput reads.
//!
//! ```text
//! stream of any protocol version ─► Assembler ─► events ─► Encoder ─► B … C of protocol 1
//! ```
//! Row messages are copied: nothing reads their cells. Each Relation, and the Types of its columns,
//! comes before its first use, and again when a row uses another version of the relation.

use crate::encoding::Encoding;
use crate::error::Error;
use crate::message_frame::put;
use crate::relation::Relation;
use crate::transaction::{Change, Message, Transaction, Truncate, Unread};
use std::collections::{HashMap, HashSet};
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
///         Event::Change(row) => row?,
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
    encoding: Encoding,
    /// The version of each relation that was written last.
    described: HashMap<Oid, u32>,
    /// The last one, because most rows follow a row of the same table.
    last: Option<u32>,
    /// The versions that the current transaction uses, but that were written before it.
    inherited: Vec<Arc<Relation>>,
    /// The relations that the current transaction uses.
    written: HashSet<Oid>,
    clock: Timestamp,
}

impl Encoder {
    /// Writes names in this encoding, which is that of the rows.
    pub fn new(encoding: Encoding) -> Self {
        Self {
            encoding,
            ..Self::default()
        }
    }

    /// Forgets which relations were written: what follows can be read without what came before.
    pub fn restart(&mut self) {
        self.described.clear();
        self.last = None;
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
        self.last = None;
        self.inherited.clear();
        self.written.clear();
        let begin = wire::Message::Begin(Begin {
            final_lsn: commit_lsn,
            commit_time,
            xid,
        });
        put(&begin, commit_lsn, commit_time, out);
        for origin in &transaction.origins {
            let name = self.encoding.encode(&origin.name);
            let origin = wire::Message::Origin(wire::Origin {
                commit_lsn: origin.commit_lsn,
                name: PgString(&name),
            });
            put(&origin, Lsn::INVALID, commit_time, out);
        }
    }

    /// Writes a row change, and its relation if necessary.
    ///
    /// # Errors
    /// The row does not follow the protocol. Nothing of it is written.
    #[inline]
    pub fn row(&mut self, change: &Change<'_, Unread<'_>>, out: &mut Vec<u8>) -> Result<(), Error> {
        if !change.is_valid() {
            // Returns the error.
            change.read()?;
        }
        if self.last != Some(change.relation.version) {
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
        put(&message, truncate.lsn, self.clock, out);
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
        put(&logical, message.lsn, self.clock, out);
    }

    /// Writes the relations that the current transaction uses, but that were written before it.
    /// With them after its Begin, it can be read without what came before.
    pub fn inherited(&self, out: &mut Vec<u8>) {
        for relation in &self.inherited {
            self.put(relation, out);
        }
    }

    fn put(&self, relation: &Relation, out: &mut Vec<u8>) {
        let at = (Lsn::INVALID, self.clock);
        put_relation(relation, None, self.encoding, at, out);
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
        put(&commit, end_lsn, commit_time, out);
    }

    /// Writes a relation, unless its last description was the same.
    fn describe(&mut self, relation: &Arc<Relation>, out: &mut Vec<u8>) {
        self.last = Some(relation.version);
        let known = self.described.insert(relation.oid, relation.version);
        if known != Some(relation.version) {
            self.written.insert(relation.oid);
            self.put(relation, out);
        } else if self.written.insert(relation.oid) {
            self.inherited.push(Arc::clone(relation));
        }
    }
}

/// Writes a relation version, after the names of its types, as sent at this LSN and time. `xid` is
/// that of the stream block around it.
pub(crate) fn put_relation(
    relation: &Relation,
    xid: Option<Xid>,
    encoding: Encoding,
    (lsn, clock): (Lsn, Timestamp),
    out: &mut Vec<u8>,
) {
    for column in &relation.columns {
        if let Some(name) = &column.type_name {
            let message = Type {
                xid,
                oid: column.type_oid,
                namespace: PgString(&encoding.encode(&name.namespace)),
                name: PgString(&encoding.encode(&name.name)),
            };
            put(&wire::Message::Type(message), lsn, clock, out);
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
    put(&wire::Message::Relation(message), lsn, clock, out);
}
