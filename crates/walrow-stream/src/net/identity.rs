//! The identity of a row: the values of its replica identity's columns.
//!
//! The values are compared as PostgreSQL's text, which is the same for a text cell and for a binary
//! cell. A log may have both. A server reports a changed identity if its stored bytes changed.
//! Different bytes have different texts, or PostgreSQL takes the values as equal too.

use crate::catalog::Catalog;
use crate::net::heap::Id;
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

/// Appends bytes that are the same for all cells of a value that is one value to a target. Returns
/// false if it does not know them. Then it may have appended a part of them.
pub type KeyBytes = Arc<dyn Fn(Cell<'_>, &mut Vec<u8>) -> bool + Send + Sync>;

/// Finds the function that writes the key bytes of a column. `None` if PostgreSQL's text of a value
/// is always the same.
///
/// This crate knows no types: `walrow-arrow` has such a function.
pub type KeyBytesOf = fn(&Column, &Catalog) -> Option<KeyBytes>;

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
    /// The functions for the key bytes of the columns of a target's key.
    key_bytes: Box<[Option<KeyBytes>]>,
    key_bytes_of: Option<KeyBytesOf>,
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

/// A cell of a target's key that has no value, by its number in the key.
#[derive(Clone, Copy, Debug)]
pub(super) enum Missing {
    Null(usize),
    Unsent(usize),
}

impl Identity {
    pub(super) fn new() -> Self {
        Self {
            kind: Kind::Nothing,
            places: Box::default(),
            texts: None,
            text_of: None,
            key_bytes: Box::default(),
            key_bytes_of: None,
            hashes: [RandomState::new(), RandomState::new()],
            values: Vec::new(),
        }
    }

    pub(super) fn set_cell_text(&mut self, text_of: CellTextOf) {
        self.text_of = Some(text_of);
    }

    pub(super) fn set_key_bytes(&mut self, key_bytes_of: KeyBytesOf) {
        self.key_bytes_of = Some(key_bytes_of);
    }

    /// The text of a binary cell of this column. `None` if it is not known.
    pub(super) fn cell_text(&self, column: &Column, catalog: &Catalog) -> Option<CellText> {
        self.text_of?(column, catalog)
    }

    /// Takes the columns of a target's key, at these places. Those in `texts` are compared as texts.
    pub(super) fn take_keys(
        &mut self,
        places: Box<[usize]>,
        texts: &[String],
        relation: &Relation,
        catalog: &Catalog,
    ) {
        let find = |place: &usize| {
            let column = relation.columns.get(*place)?;
            if texts.iter().any(|name| **name == *column.name) {
                return None;
            }
            self.key_bytes_of?(column, catalog)
        };
        self.key_bytes = places.iter().map(find).collect();
        (self.kind, self.places) = (Kind::Key, places);
        self.forget_types();
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
        for number in 0..self.places.len() {
            let Some(place) = self.places.get(number).copied() else {
                break;
            };
            let cell = cells.by_ref().find(|(at, _)| *at == place);
            let cell = cell.map_or(Cell::Null, |(_, cell)| cell);
            match cell {
                Cell::Null => self.values.push(b'n'),
                Cell::Text(text) => put(b't', text, &mut self.values),
                Cell::Binary(bytes) => self.put_binary(bytes, number, relation, catalog),
                Cell::Unchanged => return Err(Unsent(place)),
            }
        }
        Ok(self.hashed())
    }

    /// Appends a binary cell of the column with this number, as text.
    fn put_binary(&mut self, cell: &[u8], number: usize, relation: &Relation, catalog: &Catalog) {
        let find = |place: &usize| {
            let column = relation.columns.get(*place);
            column.and_then(|column| self.text_of?(column, catalog))
        };
        let texts = self.texts.get_or_insert_with(|| {
            let texts = self.places.iter().map(find);
            texts.collect()
        });
        let text = texts.get(number).and_then(Option::as_ref);
        put_text(cell, text, &mut self.values);
    }

    /// The identity of the key that has these cells, in the order of the key.
    ///
    /// # Errors
    /// The place in the key of a cell that is NULL or was not sent.
    pub(super) fn of_key<'a>(
        &mut self,
        cells: impl Iterator<Item = Cell<'a>>,
        relation: &Relation,
        catalog: &Catalog,
    ) -> Result<Id, Missing> {
        self.values.clear();
        for (number, cell) in cells.enumerate() {
            self.put_key(number, cell, relation, catalog)?;
        }
        Ok(self.hashed())
    }

    /// The identity of the key in a row.
    ///
    /// # Errors
    /// As [`Identity::of_key`].
    pub(super) fn of_key_in(
        &mut self,
        row: Tuple<'_>,
        relation: &Relation,
        catalog: &Catalog,
    ) -> Result<Id, Missing> {
        self.values.clear();
        for number in 0..self.places.len() {
            let place = self.places.get(number).copied();
            let cell = place.and_then(|place| row.cells().nth(place));
            self.put_key(number, cell.unwrap_or(Cell::Null), relation, catalog)?;
        }
        Ok(self.hashed())
    }

    /// Appends the cell of a key's column with this number.
    fn put_key(
        &mut self,
        number: usize,
        cell: Cell<'_>,
        relation: &Relation,
        catalog: &Catalog,
    ) -> Result<(), Missing> {
        match cell {
            Cell::Null => return Err(Missing::Null(number)),
            Cell::Unchanged => return Err(Missing::Unsent(number)),
            _ => {}
        }
        let start = self.values.len();
        if let Some(Some(write)) = self.key_bytes.get(number) {
            put(b'k', &[], &mut self.values);
            let from = self.values.len();
            if write(cell, &mut self.values) {
                finish(start, from, &mut self.values);
                return Ok(());
            }
            self.values.truncate(start);
        }
        match cell {
            Cell::Binary(bytes) => self.put_binary(bytes, number, relation, catalog),
            Cell::Text(text) => put(b't', text, &mut self.values),
            _ => {}
        }
        Ok(())
    }

    /// The hash of the key whose identity was found last. It is the same in all processes.
    pub(super) fn fixed_hash(&self) -> u64 {
        // FNV-1a, then the last steps of SplitMix64, so that each bit depends on all others.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in &self.values {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^ (hash >> 31)
    }

    /// The hash of the values.
    #[inline]
    fn hashed(&self) -> Id {
        let hash = |state: &RandomState| {
            let mut hasher = state.build_hasher();
            hasher.write(&self.values);
            hasher.finish()
        };
        let [one, other] = &self.hashes;
        Id::from(hash(one)) << 64 | Id::from(hash(other))
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
    finish(start, from, out);
}

/// Writes the length of a value, which ends here, behind the kind at `start`.
fn finish(start: usize, from: usize, out: &mut [u8]) {
    let size = out.len().saturating_sub(from).to_le_bytes();
    let length = out.get_mut(start.saturating_add(1)..from);
    if let Some(length) = length {
        length.copy_from_slice(&size);
    }
}
