//! A table as a server holds it, with the stream of its changes.

use crate::{OwnedCell, Stream, binary, null, text, unchanged};
use arbitrary::Arbitrary;
use walrow_wire::ReplicaIdentity;

/// A table of an int4 `id`, a text `big` that is not sent while it does not change, and other texts.
///
/// It is slow and plain: rows are a list, and each change is applied to it as PostgreSQL does. The
/// stream has what pgoutput would send.
#[derive(Debug)]
pub struct TableModel {
    /// Its columns.
    pub columns: Vec<String>,
    /// Its rows, in no order.
    pub rows: Vec<Vec<Option<String>>>,
    /// The stream so far.
    pub stream: Stream,
    identity: ReplicaIdentity,
    /// Whether the stream has the current definition.
    is_described: bool,
    is_open: bool,
    next_id: i32,
    next_column: u32,
    commits: u64,
}

/// A change of the table. One that makes no sense does nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Arbitrary)]
#[expect(missing_docs, reason = "numbers choose rows and values")]
pub enum TableStep {
    Insert {
        value: u8,
        binary: bool,
    },
    Update {
        row: u8,
        value: u8,
        big: bool,
        old: bool,
        binary: bool,
    },
    Move {
        row: u8,
        value: u8,
        binary: bool,
    },
    Swap {
        one: u8,
        other: u8,
        binary: bool,
    },
    Delete {
        row: u8,
        binary: bool,
    },
    Truncate {
        chance: u8,
    },
    AddColumn,
    DropColumn {
        column: u8,
    },
    Identity {
        which: u8,
    },
    Commit,
}

type Row = Vec<Option<String>>;

impl TableModel {
    /// Its OID.
    pub const OID: u32 = 70_003;

    /// An empty table.
    pub fn new() -> Self {
        Self {
            columns: ["id", "big", "v"].map(str::to_owned).to_vec(),
            rows: Vec::new(),
            stream: Stream::new().session(),
            identity: ReplicaIdentity::Default,
            is_described: false,
            is_open: false,
            next_id: 1000,
            next_column: 0,
            commits: 0,
        }
    }

    /// Commits the open transaction.
    pub fn commit(&mut self) {
        if std::mem::take(&mut self.is_open) {
            self.send(Stream::commit);
        }
    }

    /// Applies a change, and sends it.
    pub fn apply(&mut self, step: TableStep) {
        let is_full = self.identity == ReplicaIdentity::Full;
        let can_change = self.identity != ReplicaIdentity::Nothing;
        let place = |row: u8| {
            (can_change && !self.rows.is_empty()).then(|| usize::from(row) % self.rows.len())
        };
        match step {
            TableStep::Insert { value, binary } => {
                let mut row: Row = self.columns.iter().map(|_| of_few(value)).collect();
                row[0] = Some(self.new_id(value).to_string());
                let cells = cells(&row, binary);
                self.change(|it| it.insert(Self::OID, &cells));
                self.rows.push(row);
            }
            TableStep::Update {
                row,
                value,
                big,
                old,
                binary,
            } => {
                let Some(at) = place(row) else { return };
                let mut new = self.rows[at].clone();
                for (column, cell) in new.iter_mut().enumerate().skip(1) {
                    if column > 1 || big {
                        *cell = of_few(value.wrapping_add(u8::try_from(column).unwrap_or(0)));
                    }
                }
                self.update(at, &new, old, binary);
            }
            TableStep::Move { row, value, binary } => {
                let Some(at) = place(row) else { return };
                let mut new = self.rows[at].clone();
                new[0] = Some(self.new_id(value).to_string());
                self.update(at, &new, true, binary);
            }
            TableStep::Swap { one, other, binary } => {
                let (Some(one), Some(other)) = (place(one), place(other)) else {
                    return;
                };
                let ids = [one, other].map(|at| self.rows[at][0].clone());
                let free = Some((-1).to_string());
                let moves = if is_full || one == other {
                    // Both have one key in between.
                    vec![(one, ids[1].clone()), (other, ids[0].clone())]
                } else {
                    vec![(one, free), (other, ids[0].clone()), (one, ids[1].clone())]
                };
                for (at, id) in moves {
                    let mut new = self.rows[at].clone();
                    new[0] = id;
                    self.update(at, &new, true, binary);
                }
            }
            TableStep::Delete { row, binary } => {
                let Some(at) = place(row) else { return };
                let row = self.rows.swap_remove(at);
                let key = key(&row, binary);
                let cells = cells(&row, binary);
                self.change(|it| {
                    if is_full {
                        it.delete_full(Self::OID, &cells)
                    } else {
                        it.delete_key(Self::OID, &key)
                    }
                });
            }
            TableStep::Truncate { chance } => {
                if chance < 20 {
                    self.change(|it| it.truncate(0, &[Self::OID]));
                    self.rows.clear();
                }
            }
            TableStep::AddColumn => {
                if self.columns.len() < 8 {
                    self.next_column += 1;
                    self.columns.push(format!("x{}", self.next_column));
                    self.rows.iter_mut().for_each(|row| row.push(None));
                    self.is_described = false;
                }
            }
            TableStep::DropColumn { column } => {
                // The stream does not show whether a column was renamed, so all come or all go.
                if self.columns.len() > 2 && self.is_described {
                    let column = 2 + usize::from(column) % (self.columns.len() - 2);
                    self.columns.remove(column);
                    self.rows
                        .iter_mut()
                        .for_each(|row| drop(row.remove(column)));
                    self.describe();
                }
            }
            TableStep::Identity { which } => {
                let identity = match which % 4 {
                    0 => ReplicaIdentity::Full,
                    1 => ReplicaIdentity::Nothing,
                    2 => ReplicaIdentity::Index,
                    _ => ReplicaIdentity::Default,
                };
                let mut ids: Vec<_> = self.rows.iter().map(|row| row[0].clone()).collect();
                ids.sort_unstable();
                ids.dedup();
                if ids.len() == self.rows.len() {
                    self.identity = identity;
                    self.describe();
                }
            }
            TableStep::Commit => self.commit(),
        }
    }

    /// An unused key. Without a key, one of a few.
    fn new_id(&mut self, value: u8) -> i32 {
        self.next_id += 1;
        match self.identity {
            ReplicaIdentity::Full | ReplicaIdentity::Nothing => i32::from(value % 3),
            _ => self.next_id,
        }
    }

    fn update(&mut self, at: usize, new: &Row, sends_key: bool, binary: bool) {
        let old = std::mem::replace(&mut self.rows[at], new.clone());
        let mut sent = cells(new, binary);
        if old[1] == new[1] && new[1].is_some() {
            sent[1] = unchanged();
        }
        let (key, whole) = (key(&old, binary), cells(&old, !binary));
        let is_full = self.identity == ReplicaIdentity::Full;
        let has_key = sends_key || old[0] != new[0];
        self.change(|it| match (is_full, has_key) {
            (true, _) => it.update_full(Self::OID, &whole, &sent),
            (false, true) => it.update_key(Self::OID, &key, &sent),
            (false, false) => it.update(Self::OID, &sent),
        });
    }

    /// Sends a change of the open transaction.
    fn change(&mut self, send: impl FnOnce(Stream) -> Stream) {
        self.open();
        if !self.is_described {
            self.describe();
        }
        self.send(send);
    }

    fn open(&mut self) {
        if !self.is_open {
            self.is_open = true;
            self.commits += 1;
            let lsn = self.commits << 16;
            self.send(|it| it.begin(lsn, 700));
        }
    }

    fn describe(&mut self) {
        self.open();
        let identity = self.identity;
        let columns = self.columns.clone();
        let columns: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(place, name)| {
                let is_key = match identity {
                    ReplicaIdentity::Full => true,
                    ReplicaIdentity::Nothing => false,
                    _ => place == 0,
                };
                (&**name, if place == 0 { 23 } else { 25 }, -1, is_key)
            })
            .collect();
        self.send(|it| it.relation(Self::OID, "public", "held", identity, &columns));
        self.is_described = true;
    }

    fn send(&mut self, send: impl FnOnce(Stream) -> Stream) {
        self.stream = send(std::mem::take(&mut self.stream));
    }
}

impl Default for TableModel {
    fn default() -> Self {
        Self::new()
    }
}

/// One of a few values, so that whole rows are equal.
fn of_few(value: u8) -> Option<String> {
    let size = usize::from(value % 4);
    (size > 0).then(|| "y".repeat(size))
}

/// The cells of a row. Only the form of the ID differs.
fn cells(row: &[Option<String>], in_binary: bool) -> Vec<OwnedCell> {
    let cells = row.iter().enumerate().map(|(place, value)| match value {
        None => null(),
        Some(value) if place == 0 && in_binary => {
            let number: i32 = value.parse().expect("a number");
            binary(number.to_be_bytes())
        }
        Some(value) if in_binary => binary(value),
        Some(value) => text(value),
    });
    cells.collect()
}

/// The cells of a key.
fn key(row: &[Option<String>], in_binary: bool) -> Vec<OwnedCell> {
    let mut cells = cells(row, in_binary);
    cells[1..].fill(OwnedCell::Null);
    cells
}
