//! A table as a server holds it, and as a target should have it, with the stream of its changes.
//!
//! Slow and plain: rows are a list, and each change is applied to it as PostgreSQL does, and as the
//! rules of docs/fold.md say for a target.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use arbitrary::Arbitrary;
use std::collections::BTreeMap;
use walrow_stream::Fact;
use walrow_testkit::{OwnedCell, Stream, binary, null, text, unchanged};
use walrow_wire::ReplicaIdentity;

pub(super) const OID: u32 = 70_009;

/// Values by the names of columns.
pub(super) type Values = BTreeMap<String, Option<String>>;

/// A row.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// The values of the current columns, as the server has them.
    now: Values,
    /// The values that were sent, of all columns.
    pub(super) sent: Values,
}

/// The contents of old images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Identity {
    Id,
    /// An index over `id` and `part`.
    Wide,
    Full,
}

/// A step of a history. A step that makes no sense does nothing. Numbers choose rows and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
pub(super) enum Step {
    Insert {
        id: u8,
        value: u8,
        lost: bool,
    },
    Update {
        row: u8,
        value: u8,
        big: bool,
        old: bool,
    },
    Respell {
        row: u8,
        form: u8,
    },
    Move {
        row: u8,
        id: u8,
        big: bool,
    },
    Swap {
        one: u8,
        other: u8,
    },
    Delete {
        row: u8,
    },
    Replace {
        row: u8,
        value: u8,
    },
    Brief {
        id: u8,
        value: u8,
    },
    Truncate {
        chance: u8,
    },
    Load {
        chance: u8,
        rows: u8,
    },
    AddColumn {
        chance: u8,
    },
    DropColumn {
        chance: u8,
        column: u8,
    },
    Rename {
        chance: u8,
        column: u8,
    },
    Identity {
        which: u8,
    },
    Commit,
    CommitTwice,
}

/// The table.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "a plain model")]
pub(super) struct Server {
    pub(super) columns: Vec<String>,
    pub(super) rows: Vec<Row>,
    pub(super) stream: Stream,
    /// The number of transactions.
    pub(super) transactions: usize,
    /// Whether columns may be renamed, so that they are new ones for the target.
    renames: bool,
    identity: Identity,
    is_described: bool,
    is_open: bool,
    /// Whether two rows with equal images may not be equal for the target.
    is_altered: bool,
    next_column: u32,
    /// Chooses between text and binary.
    toss: u32,
}

impl Server {
    /// A table with some rows, which are not in the stream.
    pub(super) fn new(renames: bool, identity: u8, rows: u8) -> Self {
        let mut server = Self {
            columns: ["id", "part", "big", "v"].map(str::to_owned).to_vec(),
            rows: Vec::new(),
            stream: Stream::new().session(),
            transactions: 0,
            renames,
            identity: identity_of(identity),
            is_described: false,
            is_open: false,
            is_altered: false,
            next_column: 0,
            toss: 7,
        };
        for id in 0..rows % 6 {
            let mut row = server.row(id, id.wrapping_mul(3));
            row.sent = row.now.clone();
            server.rows.push(row);
        }
        server
    }

    /// The rows of a target, as they were sent.
    pub(super) fn sent(&self) -> Vec<Values> {
        self.rows.iter().map(|row| row.sent.clone()).collect()
    }

    /// A row with values that few numbers choose, so that rows are often equal.
    fn row(&self, id: u8, value: u8) -> Row {
        let mut now = Values::new();
        for (place, name) in self.columns.iter().enumerate() {
            let place = u8::try_from(place).unwrap();
            let value = match &**name {
                "id" => Some(spelled(id % 7, value)),
                "part" => Some(format!("p{}", value % 3)),
                _ => of_few(value.wrapping_add(place)),
            };
            now.insert(name.clone(), value);
        }
        Row {
            now,
            sent: Values::new(),
        }
    }

    fn place(&self, row: u8) -> Option<usize> {
        (!self.rows.is_empty()).then(|| usize::from(row) % self.rows.len())
    }

    fn has(&self, id: &str) -> bool {
        self.rows
            .iter()
            .any(|row| number(row.now["id"].as_ref()) == id)
    }

    /// Whether the identity allows one more row with this key, for a while.
    fn may_have(&self, new: &Row) -> bool {
        let id = number(new.now["id"].as_ref());
        match self.identity {
            Identity::Id => !self.has(&id),
            Identity::Wide => !self.rows.iter().any(|row| {
                number(row.now["id"].as_ref()) == id && row.now["part"] == new.now["part"]
            }),
            // Equal rows are not interchangeable if they had other columns before.
            Identity::Full => !self.is_altered || !self.rows.iter().any(|row| row.now == new.now),
        }
    }

    pub(super) fn apply(&mut self, step: Step) {
        match step {
            Step::Insert { id, value, lost } => {
                let row = self.row(id, value);
                self.insert(row, lost && value.is_multiple_of(5));
            }
            Step::Update {
                row,
                value,
                big,
                old,
            } => {
                let Some(at) = self.place(row) else { return };
                let mut new = self.rows[at].clone();
                for (place, name) in self.columns.iter().enumerate().skip(2) {
                    if place > 2 || big {
                        let value = value.wrapping_add(u8::try_from(place).unwrap());
                        new.now.insert(name.clone(), of_few(value));
                    }
                }
                self.update(at, new, old);
            }
            Step::Respell { row, form } => {
                let Some(at) = self.place(row) else { return };
                let mut new = self.rows[at].clone();
                let id: u8 = number(new.now["id"].as_ref()).parse().unwrap();
                new.now.insert("id".to_owned(), Some(spelled(id, form)));
                self.update(at, new, false);
            }
            Step::Move { row, id, big } => {
                let Some(at) = self.place(row) else { return };
                let mut new = self.rows[at].clone();
                new.now.insert("id".to_owned(), Some(spelled(id % 7, id)));
                if big {
                    new.now.insert("big".to_owned(), of_few(id));
                }
                let own =
                    number(self.rows[at].now["id"].as_ref()) == number(new.now["id"].as_ref());
                if own || self.may_have(&new) {
                    self.update(at, new, true);
                }
            }
            Step::Swap { one, other } => self.swap(one, other),
            Step::Delete { row } => {
                if let Some(at) = self.place(row) {
                    self.delete(at);
                }
            }
            Step::Replace { row, value } => {
                let Some(at) = self.place(row) else { return };
                let id: u8 = number(self.rows[at].now["id"].as_ref()).parse().unwrap();
                let new = self.row(id, value);
                // The new row may come before the old one goes.
                if self.identity == Identity::Id || value.is_multiple_of(2) {
                    self.delete(at);
                    self.insert(new, false);
                } else if self.may_have(&new) {
                    self.insert(new, false);
                    self.delete(at);
                }
            }
            Step::Brief { id, value } => {
                let new = self.row(id, value);
                if self.may_have(&new) {
                    self.insert(new, false);
                    self.delete(self.rows.len() - 1);
                }
            }
            Step::Truncate { chance } => {
                if chance < 12 {
                    self.settle();
                    self.change(|it| it.truncate(0, &[OID]));
                    self.rows.clear();
                }
            }
            Step::Load { chance, rows } => {
                if chance < 12 {
                    self.load(rows % 5);
                }
            }
            Step::AddColumn { chance } => {
                if chance < 60 && self.columns.len() < 7 {
                    self.next_column += 1;
                    let name = format!("x{}", self.next_column);
                    self.columns.push(name.clone());
                    for row in &mut self.rows {
                        row.now.insert(name.clone(), None);
                    }
                    self.is_described = false;
                    self.touch();
                }
            }
            Step::DropColumn { chance, column } => {
                if chance < 60 && self.columns.len() > 4 {
                    self.commit();
                    self.is_altered = true;
                    let at = 3 + usize::from(column) % (self.columns.len() - 3);
                    let name = self.columns.remove(at);
                    for row in &mut self.rows {
                        row.now.remove(&name);
                    }
                    self.is_described = false;
                    self.touch();
                }
            }
            Step::Rename { chance, column } => {
                if chance < 40 && self.renames {
                    self.commit();
                    self.is_altered = true;
                    let at = 3 + usize::from(column) % (self.columns.len() - 3);
                    self.next_column += 1;
                    let name = format!("x{}", self.next_column);
                    let old = std::mem::replace(&mut self.columns[at], name.clone());
                    for row in &mut self.rows {
                        let value = row.now.remove(&old).unwrap();
                        row.now.insert(name.clone(), value);
                    }
                    self.is_described = false;
                    self.touch();
                }
            }
            Step::Identity { which } => {
                if !self.is_open {
                    self.identity = identity_of(which);
                    self.is_described = false;
                }
            }
            Step::Commit | Step::CommitTwice => self.commit(),
        }
    }

    /// Changes a row, so that the stream shows new columns.
    fn touch(&mut self) {
        match self.rows.len() {
            0 => {
                let row = self.row(1, 1);
                self.insert(row, false);
            }
            rows => {
                let at = rows / 2;
                let row = self.rows[at].clone();
                self.update(at, row, false);
            }
        }
    }

    fn insert(&mut self, mut row: Row, is_lost: bool) {
        // Without the value, an image of an earlier row with this key may mean either.
        let is_full = self.identity == Identity::Full;
        let is_lost = is_lost && !(is_full && self.has(&number(row.now["id"].as_ref())));
        self.is_altered |= is_lost;
        if !self.may_have(&row) {
            return;
        }
        let mut cells = self.cells(&row);
        row.sent = row.now.clone();
        if is_lost {
            // An update made it match a row filter, and left this value as it was.
            cells[2] = unchanged();
            row.sent.insert("big".to_owned(), None);
        }
        self.change(|it| it.insert(OID, &cells));
        self.rows.push(row);
    }

    fn update(&mut self, at: usize, mut new: Row, sends_key: bool) {
        let old = self.rows[at].clone();
        if self.identity == Identity::Full && old.now != new.now && !self.may_have(&new) {
            return;
        }
        let mut cells = self.cells(&new);
        let (whole, key) = (self.cells(&old), self.key(&old));
        let is_full = self.identity == Identity::Full;
        let big = "big".to_owned();
        let is_unsent = old.now[&big] == new.now[&big] && new.now[&big].is_some();
        let known = new.sent.get(&big).cloned().flatten();
        for name in &self.columns {
            new.sent.insert(name.clone(), new.now[name].clone());
        }
        if is_unsent {
            cells[2] = unchanged();
            if !is_full {
                new.sent.insert(big, known);
            }
        }
        let is_key = |name: &str| old.now[name] != new.now[name];
        let moves = match self.identity {
            Identity::Id => is_key("id"),
            Identity::Wide | Identity::Full => is_key("id") || is_key("part"),
        };
        self.change(|it| match (is_full, moves || sends_key) {
            (true, _) => it.update_full(OID, &whole, &cells),
            (false, true) => it.update_key(OID, &key, &cells),
            (false, false) => it.update(OID, &cells),
        });
        self.rows[at] = new;
    }

    fn swap(&mut self, one: u8, other: u8) {
        let (Some(one), Some(other)) = (self.place(one), self.place(other)) else {
            return;
        };
        let ids = [one, other].map(|at| self.rows[at].now["id"].clone());
        let moves = if self.identity == Identity::Full && one != other {
            // Both have one key in between.
            vec![(one, ids[1].clone()), (other, ids[0].clone())]
        } else if self.has("90") || one == other {
            return;
        } else {
            let free = Some("90".to_owned());
            vec![(one, free), (other, ids[0].clone()), (one, ids[1].clone())]
        };
        for (at, id) in moves {
            let mut new = self.rows[at].clone();
            new.now.insert("id".to_owned(), id);
            if self.identity != Identity::Full && !self.may_have(&new) {
                continue;
            }
            self.update(at, new, true);
        }
    }

    fn delete(&mut self, at: usize) {
        let row = self.rows.remove(at);
        let (whole, key) = (self.cells(&row), self.key(&row));
        let is_full = self.identity == Identity::Full;
        self.change(|it| {
            if is_full {
                it.delete_full(OID, &whole)
            } else {
                it.delete_key(OID, &key)
            }
        });
    }

    fn load(&mut self, rows: u8) {
        self.commit();
        let mut fact = Vec::new();
        Fact::Snapshot.encode(false, &mut fact);
        self.send(|it| it.raw(&fact));
        self.rows.clear();
        self.change(|it| it.truncate(0, &[OID]));
        for id in 0..rows {
            let row = self.row(id, id.wrapping_mul(7));
            self.insert(row, false);
        }
        self.commit();
    }

    /// Commits the open transaction.
    pub(super) fn commit(&mut self) {
        if self.is_open {
            self.settle();
            self.is_open = false;
            self.transactions += 1;
            self.send(Stream::commit);
        }
    }

    /// Deletes rows until each key has one.
    fn settle(&mut self) {
        let mut at = 0;
        while at < self.rows.len() {
            let id = number(self.rows[at].now["id"].as_ref());
            let mut others = self.rows.iter().enumerate().skip(at + 1);
            match others.find(|(_, row)| number(row.now["id"].as_ref()) == id) {
                // One of the two, so that both orders are seen.
                Some((other, _)) => self.delete(if self.toss.is_multiple_of(2) {
                    other
                } else {
                    at
                }),
                None => at += 1,
            }
        }
    }

    fn cells(&mut self, row: &Row) -> Vec<OwnedCell> {
        let mut cells = Vec::new();
        for name in &self.columns {
            self.toss = self.toss.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            cells.push(match &row.now[name] {
                None => null(),
                Some(value) if self.toss >> 16 & 1 == 0 => {
                    binary([b"\x01", value.as_bytes()].concat())
                }
                Some(value) => text(value),
            });
        }
        cells
    }

    fn key(&mut self, row: &Row) -> Vec<OwnedCell> {
        let mut cells = self.cells(row);
        let keys = if self.identity == Identity::Wide {
            2
        } else {
            1
        };
        cells[keys..].fill(null());
        cells
    }

    /// Sends a change of the open transaction.
    fn change(&mut self, send: impl FnOnce(Stream) -> Stream) {
        if !self.is_open {
            self.is_open = true;
            let lsn = (self.transactions as u64 + 1) << 16;
            self.send(|it| it.begin(lsn, 700));
        }
        if !std::mem::replace(&mut self.is_described, true) {
            let identity = match self.identity {
                Identity::Id => ReplicaIdentity::Default,
                Identity::Wide => ReplicaIdentity::Index,
                Identity::Full => ReplicaIdentity::Full,
            };
            let names = self.columns.clone();
            let columns = names.iter().enumerate().map(|(place, name)| {
                let is_key = match self.identity {
                    Identity::Id => place == 0,
                    Identity::Wide => place < 2,
                    Identity::Full => true,
                };
                (&**name, if place == 0 { 1700 } else { 25 }, -1, is_key)
            });
            let columns: Vec<_> = columns.collect();
            self.send(|it| it.relation(OID, "public", "net", identity, &columns));
        }
        self.send(send);
    }

    fn send(&mut self, send: impl FnOnce(Stream) -> Stream) {
        self.stream = send(std::mem::take(&mut self.stream));
    }
}

fn identity_of(number: u8) -> Identity {
    match number % 3 {
        0 => Identity::Id,
        1 => Identity::Wide,
        _ => Identity::Full,
    }
}

/// A number in one of its texts.
fn spelled(id: u8, form: u8) -> String {
    let zeros = ["", ".0", ".00"][usize::from(form % 3)];
    format!("{id}{zeros}")
}

/// A number without zeros at the end of its fraction.
pub(super) fn number(text: Option<&String>) -> String {
    let text = text.unwrap();
    let (whole, _) = text.split_once('.').unwrap_or((text, ""));
    whole.to_owned()
}

/// One of a few values, so that whole rows are equal.
fn of_few(value: u8) -> Option<String> {
    let size = usize::from(value % 4);
    (size > 0).then(|| "y".repeat(size))
}
