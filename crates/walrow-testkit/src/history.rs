//! Histories of a few tables, delivered in every way that a server may use.

use crate::message::{identity, list};
use crate::{
    OwnedCell, OwnedColumn, OwnedMessage, OwnedOld, PgText, Stream, null, text, unchanged,
};
use arbitrary::{Arbitrary, Result, Unstructured};
use std::collections::BTreeSet;
use walrow_wire::ReplicaIdentity;

/// Transactions on some tables, in commit order.
///
/// [`History::whole`] and [`History::delivered`] are two streams of the same transactions.
/// [`History::expected`] is the result of both.
#[derive(Clone, Debug)]
pub struct History {
    /// The tables at the start.
    pub tables: Vec<Table>,
    /// The transactions in commit order.
    pub transactions: Vec<Transaction>,
    /// Whether Stream Abort comes with LSN and time.
    pub parallel: bool,
    /// Whether a relation is described once the streamed transaction that used it is
    /// prepared, as in version 19 and later.
    pub prepare_describes: bool,
    /// The number of frames between keepalives; 0 for no keepalives.
    pub keepalive_every: u8,
}

/// A table: an int4 key and text columns.
#[derive(Clone, Debug)]
pub struct Table {
    /// Its OID.
    pub oid: u32,
    /// Its replica identity: what old rows contain.
    pub identity: ReplicaIdentity,
    /// How many columns it has, including the key.
    pub columns: usize,
}

/// A transaction.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its ID.
    pub xid: u32,
    /// How [`History::delivered`] sends it.
    pub delivery: Delivery,
    /// How many transactions before its end its first message is sent, if it is not sent whole.
    pub lead: usize,
    /// How many changes are in a chunk.
    pub chunk: usize,
    /// Its origin.
    pub origin: Option<PgText>,
    /// Prefixes of non-transactional messages that are written just before its end.
    pub notes: Vec<PgText>,
    /// Its changes.
    pub parts: Vec<Part>,
    /// Whether it is rolled back in the end.
    pub rolled_back: bool,
}

/// How a transaction is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub enum Delivery {
    /// `B` … `C`
    Whole,
    /// `S` … `E`, `c`
    Streamed,
    /// `b` … `P`, `K`
    Prepared,
    /// `S` … `E`, `p`, `K`
    StreamedPrepared,
}

/// Changes in a row of one (sub)transaction.
#[derive(Clone, Debug)]
pub struct Part {
    /// The subtransaction; `None` for the transaction itself.
    pub subxid: Option<u32>,
    /// Whether the subtransaction is rolled back.
    pub aborted: bool,
    /// Its changes.
    pub changes: Vec<Change>,
}

/// A change. Tables are named by their place in [`History::tables`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the messages")]
pub enum Change {
    Insert {
        table: usize,
        new: Vec<OwnedCell>,
    },
    Update {
        table: usize,
        old: Option<OwnedOld>,
        new: Vec<OwnedCell>,
    },
    Delete {
        table: usize,
        old: OwnedOld,
    },
    Truncate {
        tables: Vec<usize>,
        options: u8,
    },
    /// A transactional message.
    Message {
        lsn: u64,
        prefix: PgText,
        content: Vec<u8>,
    },
    /// ALTER TABLE … ADD COLUMN … text
    Alter {
        table: usize,
    },
}

/// A committed transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the messages")]
pub struct Expected {
    pub xid: u32,
    pub commit_lsn: u64,
    pub end_lsn: u64,
    pub commit_time: i64,
    pub origin: Option<PgText>,
    /// Row changes, truncates and messages, in order.
    pub changes: Vec<ExpectedChange>,
}

/// A committed change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpectedChange {
    /// Its seq in the transaction. A message has the seq of the change after it.
    pub seq: u64,
    /// The message, as it is sent outside a stream block.
    pub message: OwnedMessage,
    /// How many columns its relation has. For a Truncate, of each relation.
    pub columns: Vec<usize>,
}

impl Table {
    /// Its name.
    pub fn name(&self) -> String {
        format!("t{}", self.oid)
    }

    /// Its columns, if it has that many.
    pub fn columns(&self, count: usize) -> Vec<OwnedColumn> {
        (0..count)
            .map(|index| OwnedColumn {
                flags: u8::from(match self.identity {
                    ReplicaIdentity::Full => true,
                    ReplicaIdentity::Nothing => false,
                    _ => index == 0,
                }),
                name: match index {
                    0 => "id".into(),
                    _ => PgText::from(format!("c{index}").as_str()),
                },
                type_oid: if index == 0 { 23 } else { 25 },
                type_modifier: -1,
            })
            .collect()
    }
}

impl Transaction {
    /// The GID of its prepare.
    pub fn gid(&self) -> String {
        format!("gid {}", self.xid)
    }

    fn alters(&self) -> bool {
        self.parts
            .iter()
            .flat_map(|part| &part.changes)
            .any(|change| matches!(change, Change::Alter { .. }))
    }

    /// The changes that its commit makes visible.
    fn kept(&self) -> impl Iterator<Item = &Change> {
        self.parts
            .iter()
            .filter(|part| !part.aborted)
            .flat_map(|part| &part.changes)
    }
}

impl History {
    /// Where the transaction's commit or rollback record starts.
    pub const fn commit_lsn(index: usize) -> u64 {
        (index as u64 + 1) << 16
    }

    /// The stream in protocol 1: committed transactions, each sent whole.
    pub fn whole(&self) -> Stream {
        let mut server = Server::new(self);
        for (index, transaction) in self.transactions.iter().enumerate() {
            server.notes(index, transaction);
            server.whole(index, transaction);
        }
        server.stream
    }

    /// The stream in protocol 4: each transaction is sent in its own way.
    pub fn delivered(&self) -> Stream {
        let mut server = Server::new(self);
        let starts = self.starts();
        let plans: Vec<_> = self.transactions.iter().map(chunks).collect();
        for now in 0..self.transactions.len() {
            for (index, transaction) in self.transactions.iter().enumerate().skip(now) {
                let start = starts[index];
                if now < start {
                    continue;
                }
                match transaction.delivery {
                    Delivery::Whole => {}
                    Delivery::Prepared => {
                        if now == start {
                            server.prepare(index, now, transaction);
                        }
                    }
                    Delivery::Streamed | Delivery::StreamedPrepared => {
                        let plan = &plans[index];
                        let slots = index - start + 1;
                        for (number, chunk) in plan.iter().enumerate() {
                            if start + number * slots / plan.len() == now {
                                server.chunk(transaction, chunk, number == 0);
                                if number + 1 == plan.len() {
                                    server.stream_prepare(now, index, transaction);
                                }
                            }
                        }
                    }
                }
            }
            server.notes(now, &self.transactions[now]);
            server.end(now, &self.transactions[now]);
        }
        server.stream
    }

    /// The committed transactions of both streams.
    pub fn expected(&self) -> Vec<Expected> {
        let mut columns: Vec<_> = self.tables.iter().map(|table| table.columns).collect();
        let mut expected = Vec::new();
        for (index, transaction) in self.transactions.iter().enumerate() {
            if transaction.rolled_back {
                continue;
            }
            let mut seq = 0;
            let mut changes = Vec::new();
            for change in transaction.kept() {
                let tables: Vec<usize> = change.tables().collect();
                if let Change::Alter { table } = change {
                    columns[*table] += 1;
                    continue;
                }
                changes.push(ExpectedChange {
                    seq,
                    message: match change {
                        Change::Message { .. } => change.message(None),
                        change => self.row(change, None),
                    },
                    columns: tables.iter().map(|table| columns[*table]).collect(),
                });
                if !matches!(change, Change::Message { .. }) {
                    seq += 1;
                }
            }
            let commit_lsn = Self::commit_lsn(index);
            expected.push(Expected {
                xid: transaction.xid,
                commit_lsn,
                end_lsn: commit_lsn + Stream::RECORD,
                commit_time: Stream::time(transaction.xid),
                origin: transaction.origin.clone(),
                changes,
            });
        }
        expected
    }

    /// The non-transactional messages in order: LSN and prefix.
    pub fn expected_notes(&self) -> Vec<(u64, PgText)> {
        let notes = |(index, transaction): (usize, &Transaction)| {
            let lsn = Self::commit_lsn(index) - 0x100;
            let notes: Vec<_> = (0..).zip(transaction.notes.clone()).collect();
            notes
                .into_iter()
                .map(move |(place, note)| (lsn + 8 * place, note))
        };
        self.transactions
            .iter()
            .enumerate()
            .flat_map(notes)
            .collect()
    }

    /// The slot in which each transaction's first message is sent. While a transaction alters a
    /// table, no other is open, because the server's locks prevent it.
    fn starts(&self) -> Vec<usize> {
        let mut after_alter = 0;
        let mut starts = Vec::new();
        for (index, transaction) in self.transactions.iter().enumerate() {
            let alters = transaction.alters();
            let lead = if alters { 0 } else { transaction.lead };
            starts.push(index.saturating_sub(lead).max(after_alter));
            if alters {
                after_alter = index + 1;
            }
        }
        starts
    }

    /// The message of a row change or truncate.
    fn row(&self, change: &Change, xid: Option<u32>) -> OwnedMessage {
        let oid = |table: &usize| self.tables[*table].oid;
        match change {
            Change::Insert { table, new } => OwnedMessage::Insert {
                xid,
                relation: oid(table),
                new: new.clone(),
            },
            Change::Update { table, old, new } => OwnedMessage::Update {
                xid,
                relation: oid(table),
                old: old.clone(),
                new: new.clone(),
            },
            Change::Delete { table, old } => OwnedMessage::Delete {
                xid,
                relation: oid(table),
                old: old.clone(),
            },
            Change::Truncate { tables, options } => OwnedMessage::Truncate {
                xid,
                options: *options,
                relations: tables.iter().map(oid).collect(),
            },
            Change::Message { .. } | Change::Alter { .. } => panic!("{change:?} is no row"),
        }
    }
}

impl Change {
    /// The tables that it changes.
    pub fn tables(&self) -> impl Iterator<Item = usize> + '_ {
        let (one, many): (Option<usize>, &[usize]) = match self {
            Self::Insert { table, .. }
            | Self::Update { table, .. }
            | Self::Delete { table, .. }
            | Self::Alter { table } => (Some(*table), &[]),
            Self::Truncate { tables, .. } => (None, tables),
            Self::Message { .. } => (None, &[]),
        };
        one.into_iter().chain(many.iter().copied())
    }

    fn message(&self, xid: Option<u32>) -> OwnedMessage {
        let Self::Message {
            lsn,
            prefix,
            content,
        } = self
        else {
            panic!("{self:?} is no message")
        };
        OwnedMessage::Message {
            xid,
            transactional: true,
            lsn: *lsn,
            prefix: prefix.clone(),
            content: content.clone(),
        }
    }
}

/// The changes of one chunk, and the subtransaction that is rolled back after it.
struct Chunk<'a> {
    changes: Vec<(u32, &'a Change)>,
    aborted: Option<u32>,
}

/// Cuts a transaction into chunks. The end of an aborted subtransaction ends its chunk. Never
/// empty.
fn chunks(transaction: &Transaction) -> Vec<Chunk<'_>> {
    let mut chunks = Vec::new();
    let mut changes = Vec::new();
    for part in &transaction.parts {
        let xid = part.subxid.unwrap_or(transaction.xid);
        for change in &part.changes {
            changes.push((xid, change));
            if changes.len() >= transaction.chunk {
                chunks.push(Chunk {
                    changes: std::mem::take(&mut changes),
                    aborted: None,
                });
            }
        }
        if part.aborted {
            chunks.push(Chunk {
                changes: std::mem::take(&mut changes),
                aborted: part.subxid,
            });
        }
    }
    if !changes.is_empty() || chunks.is_empty() {
        chunks.push(Chunk {
            changes,
            aborted: None,
        });
    }
    chunks
}

/// The state that a walsender keeps for a session.
struct Server<'a> {
    history: &'a History,
    stream: Stream,
    /// The current columns of the tables.
    columns: Vec<usize>,
    /// Tables whose Relation was sent to the whole session.
    sent: BTreeSet<usize>,
    /// Tables, and the streamed transactions in which their Relation was sent.
    streamed: BTreeSet<(usize, u32)>,
    keepalive_in: u8,
}

impl<'a> Server<'a> {
    fn new(history: &'a History) -> Self {
        Self {
            history,
            stream: Stream::new().session(),
            columns: history.tables.iter().map(|table| table.columns).collect(),
            sent: BTreeSet::new(),
            streamed: BTreeSet::new(),
            keepalive_in: history.keepalive_every,
        }
    }

    fn send(&mut self, write: impl FnOnce(Stream) -> Stream) {
        self.stream = write(std::mem::take(&mut self.stream));
        if self.keepalive_in == 1 {
            self.stream = std::mem::take(&mut self.stream).keepalive();
            self.keepalive_in = self.history.keepalive_every;
        } else {
            self.keepalive_in = self.keepalive_in.saturating_sub(1);
        }
    }

    fn notes(&mut self, index: usize, transaction: &Transaction) {
        let lsn = History::commit_lsn(index) - 0x100;
        for (place, note) in (0..).zip(&transaction.notes) {
            self.send(|stream| {
                stream.message_at(
                    lsn + 8 * place,
                    OwnedMessage::Message {
                        xid: None,
                        transactional: false,
                        lsn: lsn + 8 * place,
                        prefix: note.clone(),
                        content: Vec::new(),
                    },
                )
            });
        }
    }

    fn whole(&mut self, index: usize, transaction: &Transaction) {
        if transaction.rolled_back {
            return;
        }
        let commit_lsn = History::commit_lsn(index);
        self.send(|stream| stream.begin(commit_lsn, transaction.xid));
        self.origin(transaction, commit_lsn);
        for change in transaction.kept() {
            self.change(change, None);
        }
        self.send(Stream::commit);
    }

    fn prepare(&mut self, index: usize, now: usize, transaction: &Transaction) {
        let lsn = prepare_lsn(now, index);
        self.send(|stream| stream.begin_prepare(lsn, transaction.xid, &transaction.gid()));
        self.origin(transaction, lsn);
        let before = self.columns.clone();
        for change in transaction.kept() {
            self.change(change, None);
        }
        if transaction.rolled_back {
            self.undo(before);
        }
        self.send(Stream::prepare);
    }

    fn chunk(&mut self, transaction: &Transaction, chunk: &Chunk<'_>, first: bool) {
        let top = transaction.xid;
        self.send(|stream| stream.stream_start(top));
        if first {
            self.origin(transaction, 0);
        }
        for (xid, change) in &chunk.changes {
            self.send(|stream| stream.subxid(*xid));
            self.change(change, Some((top, *xid)));
        }
        self.send(Stream::stream_stop);
        if let Some(subxid) = chunk.aborted {
            self.abort(top, subxid);
            // Its ALTERs are undone.
            let part = transaction
                .parts
                .iter()
                .find(|part| part.subxid == Some(subxid));
            let mut columns = self.columns.clone();
            for change in part.into_iter().flat_map(|part| &part.changes) {
                if let Change::Alter { table } = change {
                    columns[*table] -= 1;
                }
            }
            self.undo(columns);
        }
    }

    fn stream_prepare(&mut self, now: usize, index: usize, transaction: &Transaction) {
        if transaction.delivery == Delivery::StreamedPrepared {
            let lsn = prepare_lsn(now, index);
            self.send(|stream| stream.stream_prepare(lsn, transaction.xid, &transaction.gid()));
            if self.history.prepare_describes {
                self.described(transaction.xid);
            }
        }
    }

    /// The client has received the Relations of this transaction.
    fn described(&mut self, xid: u32) {
        for table in 0..self.columns.len() {
            if self.streamed.remove(&(table, xid)) {
                self.sent.insert(table);
            }
        }
    }

    fn end(&mut self, index: usize, transaction: &Transaction) {
        let (lsn, xid) = (History::commit_lsn(index), transaction.xid);
        let gid = transaction.gid();
        match (transaction.delivery, transaction.rolled_back) {
            (Delivery::Whole, _) => self.whole(index, transaction),
            (Delivery::Streamed, false) => {
                self.send(|stream| stream.stream_commit(lsn, xid));
                self.described(xid);
            }
            (Delivery::Streamed, true) => self.abort(xid, xid),
            (Delivery::Prepared | Delivery::StreamedPrepared, false) => {
                self.send(|stream| stream.commit_prepared(lsn, xid, &gid));
            }
            (Delivery::Prepared | Delivery::StreamedPrepared, true) => {
                self.send(|stream| stream.rollback_prepared(lsn, xid, &gid));
            }
        }
        // An ALTER of a streamed transaction that was rolled back.
        if transaction.rolled_back
            && matches!(
                transaction.delivery,
                Delivery::Streamed | Delivery::StreamedPrepared
            )
        {
            let mut columns = self.columns.clone();
            for change in transaction.kept() {
                if let Change::Alter { table } = change {
                    columns[*table] -= 1;
                }
            }
            self.undo(columns);
        }
    }

    fn abort(&mut self, xid: u32, subxid: u32) {
        let parallel = self.history.parallel;
        self.send(|stream| {
            if parallel {
                stream.stream_abort_parallel(xid, subxid)
            } else {
                stream.stream_abort(xid, subxid)
            }
        });
        self.streamed.retain(|(_, streamed)| *streamed != xid);
    }

    fn origin(&mut self, transaction: &Transaction, lsn: u64) {
        if let Some(name) = &transaction.origin {
            self.send(|stream| {
                stream.message(OwnedMessage::Origin {
                    commit_lsn: lsn,
                    name: name.clone(),
                })
            });
        }
    }

    /// Sends a change, after the Relations that the session still needs for it. In a stream block,
    /// also takes its top-level transaction and its own transaction.
    fn change(&mut self, change: &Change, block: Option<(u32, u32)>) {
        if let Change::Alter { table } = change {
            self.columns[*table] += 1;
            self.forget(*table);
            return;
        }
        for table in change.tables() {
            let new = match block {
                None => self.sent.insert(table),
                Some((top, _)) => self.streamed.insert((table, top)),
            };
            if new {
                self.relation(table, block.map(|(_, xid)| xid));
            }
        }
        let message = match change {
            Change::Message { .. } => change.message(block.map(|(top, _)| top)),
            change => self.history.row(change, block.map(|(_, xid)| xid)),
        };
        self.send(|stream| stream.message(message));
    }

    fn relation(&mut self, table: usize, xid: Option<u32>) {
        let definition = &self.history.tables[table];
        let columns = definition.columns(self.columns[table]);
        self.send(|stream| {
            stream.message_at(
                0,
                OwnedMessage::Relation {
                    xid,
                    oid: definition.oid,
                    namespace: "public".into(),
                    name: definition.name().as_str().into(),
                    replica_identity: definition.identity,
                    columns,
                },
            )
        });
    }

    /// Restores the earlier tables.
    fn undo(&mut self, columns: Vec<usize>) {
        for (table, (now, before)) in self.columns.clone().iter().zip(&columns).enumerate() {
            if now != before {
                self.forget(table);
            }
        }
        self.columns = columns;
    }

    /// Invalidates an altered table: its Relation is sent again before its next use.
    fn forget(&mut self, table: usize) {
        self.sent.remove(&table);
        self.streamed.retain(|(streamed, _)| *streamed != table);
    }
}

/// An LSN after all ends before this slot, and before all ends in it.
const fn prepare_lsn(now: usize, index: usize) -> u64 {
    History::commit_lsn(now) - 0x8000 + 0x40 * index as u64
}

impl<'a> Arbitrary<'a> for History {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Self> {
        let mut tables = Vec::new();
        for index in 0..u.int_in_range(1..=3_u32)? {
            tables.push(Table {
                // The last item has its top bit set.
                oid: if index == 2 { u32::MAX } else { 16384 + index },
                identity: identity(u)?,
                columns: u.int_in_range(1..=4)?,
            });
        }
        let mut columns: Vec<_> = tables.iter().map(|table| table.columns).collect();
        let mut transactions = Vec::new();
        let mut xid = 700;
        for index in 0..u.int_in_range(1..=6)? {
            let before = columns.clone();
            let transaction = transaction(
                u,
                &tables,
                &mut columns,
                &mut xid,
                Self::commit_lsn(index) - 0x1000,
            )?;
            if transaction.rolled_back {
                columns = before;
            }
            transactions.push(transaction);
        }
        Ok(Self {
            tables,
            transactions,
            parallel: u.arbitrary()?,
            prepare_describes: u.arbitrary()?,
            keepalive_every: u.int_in_range(0..=5)?,
        })
    }
}

fn transaction(
    u: &mut Unstructured<'_>,
    tables: &[Table],
    columns: &mut Vec<usize>,
    xid: &mut u32,
    lsn: u64,
) -> Result<Transaction> {
    *xid += 1;
    let top = *xid;
    let mut parts = Vec::new();
    for _ in 0..u.int_in_range(0..=4)? {
        let subxid = if u.arbitrary()? {
            *xid += 1;
            Some(*xid)
        } else {
            None
        };
        let aborted = subxid.is_some() && u.arbitrary()?;
        let before = columns.clone();
        let mut changes = Vec::new();
        for _ in 0..u.int_in_range(0..=4)? {
            changes.push(change(u, tables, columns, aborted, lsn)?);
        }
        if aborted {
            columns.clone_from(&before);
        }
        parts.push(Part {
            subxid,
            aborted,
            changes,
        });
    }
    Ok(Transaction {
        xid: top,
        delivery: u.arbitrary()?,
        lead: u.int_in_range(0..=3)?,
        chunk: u.int_in_range(1..=5)?,
        origin: u.arbitrary::<Option<PgText>>()?.map(utf8),
        notes: list(u, 2)?.into_iter().map(utf8).collect(),
        parts,
        rolled_back: u.ratio(1, 4)?,
    })
}

fn change(
    u: &mut Unstructured<'_>,
    tables: &[Table],
    columns: &mut [usize],
    aborted: bool,
    lsn: u64,
) -> Result<Change> {
    let table = u.choose_index(tables.len())?;
    let count = columns[table];
    let identity = tables[table].identity;
    Ok(match u.int_in_range(0..=9)? {
        0..=3 => Change::Insert {
            table,
            new: row(u, count)?,
        },
        // The server rejects these without a replica identity.
        4..=7 if identity == ReplicaIdentity::Nothing => Change::Insert {
            table,
            new: row(u, count)?,
        },
        4 | 5 => {
            let mut new = row(u, count)?;
            for cell in new.iter_mut().skip(1) {
                if u.ratio(1, 4)? {
                    *cell = unchanged();
                }
            }
            let old = match identity {
                ReplicaIdentity::Full => Some(old(u, identity, count)?),
                _ if u.arbitrary()? => Some(old(u, identity, count)?),
                _ => None,
            };
            Change::Update { table, old, new }
        }
        6 | 7 => Change::Delete {
            table,
            old: old(u, identity, count)?,
        },
        8 => {
            // The order of a Truncate's tables is not fixed, so each table appears at most once.
            let mut truncated: Vec<usize> = (0..tables.len()).collect();
            truncated.retain(|other| *other == table || u.arbitrary().unwrap_or(false));
            Change::Truncate {
                tables: truncated,
                options: u.int_in_range(0..=3)?,
            }
        }
        // A streamed message does not name its subtransaction, so it survives the abort.
        _ if !aborted && u.arbitrary()? => Change::Message {
            // An LSN in the transaction that nothing else has.
            lsn: lsn + 8 * u.int_in_range(1..=0x100)?,
            prefix: utf8(u.arbitrary()?),
            content: list(u, 8)?,
        },
        _ => {
            columns[table] += 1;
            Change::Alter { table }
        }
    })
}

/// A valid UTF-8 name: bytes that are not UTF-8 become ASCII.
fn utf8(name: PgText) -> PgText {
    if std::str::from_utf8(name.as_bytes()).is_ok() {
        return name;
    }
    let ascii = name.as_bytes().iter().map(|byte| (byte & 0x7f).max(1));
    PgText::from(&*ascii.collect::<Vec<_>>())
}

/// An int4 column and text columns.
fn row(u: &mut Unstructured<'_>, columns: usize) -> Result<Vec<OwnedCell>> {
    let mut cells = vec![text(u.arbitrary::<i32>()?.to_string())];
    for _ in 1..columns {
        cells.push(if u.ratio(1, 4)? {
            null()
        } else {
            let choices = [
                "",
                "a",
                "NULL",
                "\\N",
                "\t\n\"",
                "żółw",
                "🐢",
                "0123456789abcdef",
            ];
            text(u.choose(&choices)?)
        });
    }
    Ok(cells)
}

fn old(u: &mut Unstructured<'_>, identity: ReplicaIdentity, columns: usize) -> Result<OwnedOld> {
    let mut cells = row(u, columns)?;
    if identity == ReplicaIdentity::Full {
        return Ok(OwnedOld::Full(cells));
    }
    cells[1..].fill(OwnedCell::Null);
    Ok(OwnedOld::Key(cells))
}
