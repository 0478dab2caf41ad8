//! The columns of net rows, and how the rows of a relation version become rows with them.

use crate::net::error::damaged;
use crate::net::error::{Gap, NetError};
use crate::net::heap::Scan;
use crate::net::identity::{self, CellText, Kind};
use crate::net::options::{NetColumns, NetOptions};
use crate::net::record::Record;
use crate::net::state::places;
use crate::net::stored::cells_of;
use crate::net::table::Table;
use crate::net::target::Target;
use crate::net::versions::{Seen, numbers};
use crate::relation::{Column, Relation};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use walrow_wire::{Cell, OldTuple, Tuple};

/// The columns of net rows.
#[derive(Debug)]
pub(super) struct Layout {
    columns: NetColumns,
    /// The columns of the target's key.
    pub(super) keys: Option<Vec<String>>,
    /// Those that are texts there.
    text_keys: Vec<String>,
    /// Columns that come first, whether or not a version has them.
    known: Box<[Column]>,
    /// For each column, its place in rows of the current version. `None` if these have the same
    /// columns.
    incoming: Option<Box<[Option<usize>]>>,
    /// The places of the replica identity of the current version.
    pub(super) identity: Box<[usize]>,
    /// Whether old images of the current version have more than the key.
    pub(super) has_whole_images: bool,
    /// The versions so far, with the attribute numbers of their columns.
    pub(super) chain: Vec<Seen>,
    /// The columns of all versions, and of some versions only.
    names: BTreeSet<Box<str>>,
    pub(super) partial: BTreeSet<Box<str>>,
    pub(super) target: Target,
}

impl Layout {
    pub(super) fn new(options: &NetOptions) -> Self {
        Self {
            columns: options.columns,
            keys: options.keys.clone(),
            text_keys: options.text_keys.clone(),
            known: match options.columns {
                NetColumns::Last => Box::default(),
                NetColumns::All => options.known.iter().map(Column::from).collect(),
            },
            incoming: None,
            identity: Box::default(),
            has_whole_images: false,
            chain: Vec::new(),
            names: BTreeSet::new(),
            partial: BTreeSet::new(),
            target: Target::default(),
        }
    }

    /// Takes the version of the rows that the target has from before the changes.
    pub(super) fn take_target(&mut self, version: Seen) {
        let names = version.relation.columns.iter().map(|it| it.name.clone());
        self.names.extend(names);
        self.target = Target::new(version);
    }

    /// The columns before the current version.
    fn before<'a>(&'a self, table: &'a Table) -> &'a [Column] {
        match &table.relation {
            Some(relation) => &relation.columns,
            None => &self.known,
        }
    }

    /// A row of the current version, as a row of the layout. Other columns have the cell `missing`.
    pub(super) fn row<'a>(
        &self,
        row: Tuple<'a>,
        missing: Cell<'_>,
        out: &'a mut Vec<u8>,
    ) -> Option<Tuple<'a>> {
        let Some(incoming) = &self.incoming else {
            return Some(row);
        };
        let cells: Vec<Cell<'_>> = row.cells().collect();
        out.clear();
        for place in incoming {
            let cell = place.and_then(|place| cells.get(place));
            cell.unwrap_or(&missing).encode(out);
        }
        Tuple::of(u16::try_from(incoming.len()).ok()?, out)
    }

    /// How many columns rows of the current version have.
    pub(super) fn incoming_columns(&self, table: &Table) -> usize {
        match self.chain.last() {
            Some(seen) => seen.relation.columns.len(),
            None => table.relation.as_ref().map_or(0, |it| it.columns.len()),
        }
    }

    /// An old image of the current version, as an image of the layout.
    pub(super) fn old<'a>(
        &self,
        old: Option<OldTuple<'a>>,
        out: &'a mut Vec<u8>,
    ) -> Result<Option<OldTuple<'a>>, NetError> {
        Ok(match old {
            None => None,
            Some(OldTuple::Full(row)) => {
                let row = self.row(row, Cell::Unchanged, out).ok_or_else(damaged)?;
                Some(OldTuple::Full(row))
            }
            Some(old) => {
                let row = self.row(old.tuple(), Cell::Null, out);
                Some(OldTuple::Key(row.ok_or_else(damaged)?))
            }
        })
    }

    /// A new image with the values that its old image has.
    pub(super) fn filled<'a>(
        &self,
        new: Tuple<'_>,
        old: OldTuple<'_>,
        out: &'a mut Vec<u8>,
    ) -> Result<Tuple<'a>, NetError> {
        let is_key = matches!(old, OldTuple::Key(_));
        out.clear();
        for (place, (cell, old)) in new.cells().zip(old.tuple().cells()).enumerate() {
            // A key tuple has no values of other columns. An unchanged value was not NULL: the old
            // image of a partition with less of an identity than its root lacks it.
            let is_known = (!is_key || self.identity.contains(&place)) && old != Cell::Null;
            let is_filled = cell == Cell::Unchanged && is_known;
            if is_filled { old } else { cell }.encode(out);
        }
        let columns = u16::try_from(new.len()).unwrap_or(u16::MAX);
        Tuple::of(columns, out).ok_or_else(damaged)
    }

    /// Takes a version.
    #[cold]
    pub(super) fn take_version(
        &mut self,
        table: &mut Table,
        relation: &Arc<Relation>,
        numbers_now: Option<Vec<i16>>,
    ) -> Result<(), NetError> {
        self.see(table, relation, numbers_now.as_deref());
        match self.columns {
            NetColumns::Last => self.replace(table, relation, numbers_now)?,
            NetColumns::All => self.unite(table, relation)?,
        }
        self.take_keys(table, relation)
    }

    /// The attribute numbers of a version's columns.
    pub(super) fn numbers(table: &Table, relation: &Relation) -> Option<Vec<i16>> {
        numbers(relation, &table.catalog)
    }

    /// Finds the functions for the key's columns again.
    pub(super) fn forget_types(&self, table: &mut Table) {
        if let Some(relation) = &table.relation {
            let places = std::mem::take(&mut table.identity.places);
            let (texts, catalog) = (&self.text_keys, &table.catalog);
            table.identity.take_keys(places, texts, relation, catalog);
        }
    }

    /// Notes a version and which columns it has.
    fn see(&mut self, table: &Table, relation: &Arc<Relation>, numbers: Option<&[i16]>) {
        let is_first = self.names.is_empty() && self.known.is_empty();
        self.names
            .extend(self.known.iter().map(|it| it.name.clone()));
        let has = |name: &str| relation.columns.iter().any(|it| *it.name == *name);
        let gone = self.names.iter().filter(|name| !has(name)).cloned();
        let gone: Vec<_> = gone.collect();
        self.partial.extend(gone);
        for column in &relation.columns {
            if self.names.insert(column.name.clone()) && !is_first {
                self.partial.insert(column.name.clone());
            }
        }
        let is_same = self.chain.last().is_some_and(|last| {
            last.relation.columns == relation.columns
                && last.relation.replica_identity == relation.replica_identity
                && last.numbers.as_deref() == numbers
        });
        let seen = Seen {
            relation: Arc::clone(relation),
            numbers: numbers.map(<[i16]>::to_vec),
        };
        self.target.take_version(table, &seen);
        if is_same {
            self.chain.pop();
        }
        self.chain.push(seen);
    }

    /// Takes the columns of the version, and leaves out all others.
    fn replace(
        &mut self,
        table: &mut Table,
        relation: &Arc<Relation>,
        numbers: Option<Vec<i16>>,
    ) -> Result<(), NetError> {
        self.incoming = None;
        let before = table.relation.replace(Arc::clone(relation));
        let numbers_before = std::mem::replace(&mut table.numbers, numbers);
        let columns = relation.columns.len();
        let before = before.filter(|_| !table.heap.is_empty());
        match before {
            None => table.versions.begin(columns),
            Some(before) => {
                let places = places(table, (&before, numbers_before.as_deref()))?;
                if let Some(places) = &places {
                    table.versions.add(columns, places);
                }
            }
        }
        Ok(())
    }

    /// Takes the columns of the version beside all others, by their names.
    fn unite(&mut self, table: &mut Table, relation: &Arc<Relation>) -> Result<(), NetError> {
        let mut united = Relation::clone(relation);
        let places = relation.columns.iter().enumerate();
        let places: HashMap<&str, usize> = places.map(|(at, it)| (&*it.name, at)).collect();
        let before = self.before(table);
        let mut columns: Vec<Column> = Vec::new();
        let mut retyped: Vec<(usize, Option<CellText>)> = Vec::new();
        let mut incoming: Vec<Option<usize>> = Vec::new();
        for (at, old) in before.iter().enumerate() {
            let place = places.get(&*old.name).copied();
            let now = place.and_then(|place| relation.columns.get(place));
            if now.is_some_and(|now| now.type_oid != old.type_oid) {
                retyped.push((at, table.identity.cell_text(old, &table.catalog)));
            }
            let now = now.cloned().unwrap_or_else(|| Column {
                is_key: false,
                ..old.clone()
            });
            columns.push(now);
            incoming.push(place);
        }
        let known = columns.len();
        for (place, column) in relation.columns.iter().enumerate() {
            let is_known = |it: &Column| it.name == column.name;
            if !columns.iter().take(known).any(is_known) {
                columns.push(column.clone());
                incoming.push(Some(place));
            }
        }
        let steps = (0..columns.len()).map(|at| (at < known).then_some(at));
        let steps: Box<[_]> = steps.collect();
        united.columns = columns.into();
        if !retyped.is_empty() && table.has_binary {
            as_texts(table, &retyped)?;
        }
        if table.heap.is_empty() {
            table.versions.begin(steps.len());
        } else if steps.len() > known {
            table.versions.add(steps.len(), &steps);
        }
        let is_same = incoming.iter().enumerate().all(|(at, it)| *it == Some(at));
        let is_same = is_same && incoming.len() == relation.columns.len();
        self.incoming = (!is_same).then(|| incoming.into());
        table.relation = Some(Arc::new(united));
        Ok(())
    }

    /// Finds the key and the identity in the columns.
    fn take_keys(&mut self, table: &mut Table, version: &Relation) -> Result<(), NetError> {
        let Some(relation) = table.relation.clone() else {
            return Ok(());
        };
        let (kind, own) = identity::of(version);
        let name_of = |place: &usize| version.columns.get(*place).map(|it| it.name.to_string());
        let identity: Vec<String> = match kind {
            Kind::Key | Kind::Whole => own.iter().filter_map(name_of).collect(),
            Kind::Nothing => Vec::new(),
        };
        if self.keys.is_none() {
            self.keys = match kind {
                Kind::Key => Some(identity.clone()),
                Kind::Whole => {
                    let mut tables = table.catalog.tables.iter();
                    let found = tables.find(|it| it.oid == table.oid);
                    found.and_then(|it| it.primary_key.clone())
                }
                Kind::Nothing => None,
            };
        }
        let keys = self.keys.as_deref().filter(|keys| !keys.is_empty());
        let Some(keys) = keys else {
            return Err(table.gap(Gap::Identity));
        };
        let place_of = |name: &String| relation.columns.iter().position(|it| *it.name == **name);
        let places: Box<[usize]> = keys.iter().filter_map(place_of).collect();
        let is_there = |name: &&String| {
            place_of(name).is_none() || !identity.is_empty() && !identity.contains(name)
        };
        if let Some(column) = keys.iter().find(is_there) {
            let column = column.clone();
            return Err(table.gap(Gap::Key { column }));
        }
        self.has_whole_images = identity.len() > keys.len();
        self.identity = identity.iter().filter_map(place_of).collect();
        let (texts, catalog) = (&self.text_keys, &table.catalog);
        table.identity.take_keys(places, texts, &relation, catalog);
        Ok(())
    }
}

/// Makes texts of the binary cells of columns whose type changes.
fn as_texts(table: &mut Table, retyped: &[(usize, Option<CellText>)]) -> Result<(), NetError> {
    let fresh = table.heap.like();
    let mut before = std::mem::replace(&mut table.heap, fresh);
    let mut scan = Scan::default();
    let (mut projected, mut cells, mut out) = (Vec::new(), Vec::new(), Vec::new());
    let version = table.versions.last();
    while let Some(row) = before.next(&mut scan)? {
        let stored = before.cells(&scan);
        let record = Record::parse(stored).ok_or_else(damaged)?;
        if !record.is_row {
            // Its key is read under its old type, if that matters at all.
            table.heap.replace(row.id, row.version, stored)?;
            continue;
        }
        let found = cells_of(&table.versions, row.version, &record, &mut projected);
        cells.clear();
        for (place, cell) in found.ok_or_else(damaged)?.cells().enumerate() {
            put_as_text(cell, retyped.iter().find(|it| it.0 == place), &mut cells);
        }
        out.clear();
        let record = Record {
            cells: &cells,
            ..record
        };
        record.encode(&mut out);
        table.heap.replace(row.id, version, &out)?;
    }
    Ok(())
}

fn put_as_text(cell: Cell<'_>, retyped: Option<&(usize, Option<CellText>)>, out: &mut Vec<u8>) {
    if let (Cell::Binary(bytes), Some((_, Some(write)))) = (cell, retyped) {
        let mut text = Vec::new();
        if write(bytes, &mut text) {
            return Cell::Text(&text).encode(out);
        }
    }
    cell.encode(out);
}
