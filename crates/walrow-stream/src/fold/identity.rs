//! The identity of a row: the values of its replica identity's columns.
//!
//! The values are compared as PostgreSQL's text, which is the same for a text cell and for a binary
//! cell. A log may have both. A server reports a changed identity if its stored bytes changed.
//! Different bytes have different texts, or PostgreSQL takes the values as equal too.

use crate::catalog::Catalog;
use crate::fold::heap::Id;
use crate::relation::{Column, Relation};
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use walrow_wire::{Cell, ReplicaIdentity, Tuple};

/// Appends PostgreSQL's text of a binary cell. Returns false if the text is not known. Then it may
/// have appended a part of the text.
pub type CellText = Arc<dyn Fn(&[u8], &mut Vec<u8>) -> bool + Send + Sync>;

/// Finds the function that writes the text of a column's binary cells. `None` if there is no such
/// function.
///
/// This crate knows no types: `walrow-arrow` has such a function.
pub type CellTextOf = fn(&Column, &Catalog) -> Option<CellText>;

/// How rows are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By the columns of a unique index: one row at most.
    Key,
    /// By all columns: there may be equal rows.
    Whole,
    /// Not at all. All rows are kept, and equal rows are counted.
    Nothing,
}

/// The columns that identify a row, and the hash of their values.
pub(super) struct Identity {
    pub(super) kind: Kind,
    /// The columns' places.
    pub(super) places: Box<[usize]>,
    /// The functions for the texts of the columns' binary cells. `None` before the first binary
    /// cell.
    texts: Option<Box<[Option<CellText>]>>,
    text_of: Option<CellTextOf>,
    /// Two hashes with different random keys. Together they have 128 bits, and no user of the
    /// server can choose them.
    hashes: [RandomState; 2],
    values: Vec<u8>,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity")
            .field("kind", &self.kind)
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

/// A column of the identity without a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unsent(pub(super) usize);

impl Identity {
    pub(super) fn new(text_of: Option<CellTextOf>) -> Self {
        Self {
            kind: Kind::Nothing,
            places: Box::default(),
            texts: None,
            text_of,
            hashes: [RandomState::new(), RandomState::new()],
            values: Vec::new(),
        }
    }

    /// Takes the identity of a relation version.
    pub(super) fn take(&mut self, relation: &Relation) {
        (self.kind, self.places) = of(relation);
        self.forget_types();
    }

    /// Looks for the types of the columns again.
    pub(super) fn forget_types(&mut self) {
        self.texts = None;
    }

    /// The identity of a row.
    ///
    /// # Errors
    /// A column of the identity has no value.
    #[inline]
    pub(super) fn of(
        &mut self,
        row: Tuple<'_>,
        relation: &Relation,
        catalog: &Catalog,
    ) -> Result<Id, Unsent> {
        self.values.clear();
        let mut cells = row.cells().enumerate();
        for (number, place) in self.places.iter().enumerate() {
            let cell = cells.by_ref().find(|(at, _)| at == place);
            let cell = cell.map_or(Cell::Null, |(_, cell)| cell);
            match cell {
                Cell::Null => self.values.push(b'n'),
                Cell::Text(text) => put(b't', text, &mut self.values),
                Cell::Binary(bytes) => {
                    let find = |place: &usize| {
                        let column = relation.columns.get(*place);
                        column.and_then(|column| self.text_of?(column, catalog))
                    };
                    let texts = self.texts.get_or_insert_with(|| {
                        let texts = self.places.iter().map(find);
                        texts.collect()
                    });
                    let text = texts.get(number).and_then(Option::as_ref);
                    put_text(bytes, text, &mut self.values);
                }
                _ => return Err(Unsent(*place)),
            }
        }
        let hash = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(&self.values);
            hasher.finish()
        };
        let [one, other] = &self.hashes;
        Ok(Id::from(hash(one)) << 64 | Id::from(hash(other)))
    }
}

/// How a relation version identifies its rows.
pub(super) fn of(relation: &Relation) -> (Kind, Box<[usize]>) {
    let columns = || relation.columns.iter().enumerate();
    let all = || columns().map(|(place, _)| place).collect();
    let key = || {
        columns()
            .filter(|(_, it)| it.is_key)
            .map(|(place, _)| place)
    };
    match relation.replica_identity {
        ReplicaIdentity::Full => (Kind::Whole, all()),
        ReplicaIdentity::Default | ReplicaIdentity::Index if key().next().is_some() => {
            (Kind::Key, key().collect())
        }
        _ => (Kind::Nothing, all()),
    }
}

/// A cell's text after its length. So two cells never look like one cell.
fn put(kind: u8, value: &[u8], out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(&value.len().to_le_bytes());
    out.extend_from_slice(value);
}

/// The text of a binary cell. Without a text, a binary cell only equals the same binary cell.
fn put_text(cell: &[u8], text: Option<&CellText>, out: &mut Vec<u8>) {
    let start = out.len();
    put(b't', &[], out);
    let from = out.len();
    if !text.is_some_and(|write| write(cell, out)) {
        out.truncate(start);
        return put(b'b', cell, out);
    }
    let size = out.len().saturating_sub(from).to_le_bytes();
    let length = out.get_mut(start.saturating_add(1)..from);
    if let Some(length) = length {
        length.copy_from_slice(&size);
    }
}
