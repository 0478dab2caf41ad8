//! A target that net changes are written to, as docs/fold.md says.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::net::server::{Values, number};
use std::collections::{BTreeMap, BTreeSet};
use walrow_stream::{Assembler, Event, NetRows, RowChange};
use walrow_wire::{Cell, OldTuple, Tuple};

/// The rows of a target by their keys, and whether they are marked as deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    pub(super) rows: BTreeMap<String, (Values, bool)>,
    /// Whether keys are compared as texts.
    pub(super) is_text: bool,
    pub(super) is_soft: bool,
}

impl Target {
    pub(super) fn new(rows: &[Values], is_text: bool, is_soft: bool) -> Self {
        let mut target = Self {
            rows: BTreeMap::new(),
            is_text,
            is_soft,
        };
        for row in rows {
            target.rows.insert(target.key(row), (row.clone(), false));
        }
        target
    }

    fn key(&self, row: &Values) -> String {
        if self.is_text {
            row["id"].clone().unwrap()
        } else {
            number(row["id"].as_ref())
        }
    }

    /// The target after net changes, which may come as several streams.
    pub(super) fn after(&self, streams: Vec<NetRows>) -> Self {
        let mut after = self.clone();
        let clears = streams.iter().any(|it| it.tally().unwrap().clears);
        if clears && self.is_soft {
            after.rows.values_mut().for_each(|row| row.1 = true);
        } else if clears {
            after.rows.clear();
        }
        let mut seen = BTreeSet::new();
        for mut stream in streams {
            let tally = stream.tally().unwrap().clone();
            let (mut rows, mut heads) = (0, 0);
            let mut chunk = Vec::new();
            let mut assembler = Assembler::default();
            let mut names: Vec<String> = Vec::new();
            while stream.read(&mut chunk).unwrap() {
                let mut input = &*chunk;
                while let Some(event) = assembler.next(&mut input).unwrap() {
                    match event {
                        Event::Relation { relation, .. } => {
                            let columns = relation.columns.iter();
                            names = columns.map(|it| it.name.to_string()).collect();
                        }
                        Event::Truncate(_) => assert!(tally.clears && rows == 0),
                        Event::Change(change) => {
                            rows += 1;
                            let key = after.change(self, &names, change.row, &tally.kept);
                            let is_head =
                                matches!(change.row, RowChange::Update { old: Some(_), .. });
                            assert!(!is_head || heads + 1 == rows, "heads come first");
                            heads += u64::from(is_head);
                            assert!(seen.insert(key), "a key comes once");
                        }
                        _ => {}
                    }
                }
            }
            assert!(!assembler.is_mid_transaction());
            assert_eq!((rows, heads), (tally.rows, tally.heads));
        }
        for (row, is_gone) in after.rows.values_mut() {
            if *is_gone && !self.is_text {
                // A row that is gone may have any text of its key.
                let id = number(row["id"].as_ref());
                row.insert("id".to_owned(), Some(id));
            }
            // A column that the stream does not have is NULL.
            row.retain(|_, value| value.is_some());
        }
        after
    }

    /// Applies a change. Returns its key.
    fn change(
        &mut self,
        before: &Self,
        names: &[String],
        change: RowChange<'_>,
        kept: &BTreeSet<String>,
    ) -> String {
        let row = |tuple: Tuple<'_>, base: Option<&Values>| {
            let mut row = base.cloned().unwrap_or_default();
            for (name, cell) in names.iter().zip(tuple.cells()) {
                if cell != Cell::Unchanged {
                    row.insert(name.clone(), value(cell));
                }
            }
            row
        };
        let lacks = |tuple: Tuple<'_>| tuple.cells().any(|cell| cell == Cell::Unchanged);
        match change {
            RowChange::Insert { new } => {
                let row = row(new, None);
                let key = self.key(&row);
                self.rows.insert(key.clone(), (row, false));
                key
            }
            RowChange::Update { old: None, new } => {
                let own = row(new, None);
                let key = self.key(&own);
                let base = before.rows.get(&key).map(|it| &it.0);
                for (name, cell) in names.iter().zip(new.cells()) {
                    assert!(cell != Cell::Unchanged || kept.contains(name));
                }
                assert!(base.is_some() || !lacks(new), "the target has the row");
                self.rows.insert(key.clone(), (row(new, base), false));
                key
            }
            RowChange::Update {
                old: Some(old),
                new,
            } => {
                assert!(lacks(new));
                let head = self.key(&row(old.tuple(), None));
                let base = before.rows.get(&head).map(|it| &it.0);
                assert!(base.is_some(), "the target has the head");
                let row = row(new, base);
                let key = self.key(&row);
                assert!(key != head);
                let is_gone = matches!(old, OldTuple::Full(_));
                assert!(!is_gone || self.is_soft);
                self.rows.insert(key.clone(), (row, is_gone));
                key
            }
            RowChange::Delete {
                old: OldTuple::Key(old),
            } => {
                assert!(!self.is_soft);
                let key = self.key(&row(old, None));
                self.rows.remove(&key);
                key
            }
            RowChange::Delete { old } => {
                assert!(self.is_soft);
                let old = old.tuple();
                let key = self.key(&row(old, None));
                let base = before.rows.get(&key).map(|it| &it.0);
                if base.is_some() || !lacks(old) {
                    self.rows.insert(key.clone(), (row(old, base), true));
                }
                key
            }
        }
    }

    /// The rows that are not marked, of these columns or of all, without NULL values.
    pub(super) fn live(&self, columns: Option<&[String]>) -> BTreeMap<String, Values> {
        let live = self.rows.iter().filter(|(_, row)| !row.1);
        let plain = |row: &Values| {
            let mut row = row.clone();
            row.retain(|name, value| {
                value.is_some() && columns.is_none_or(|columns| columns.contains(name))
            });
            row
        };
        live.map(|(key, row)| (key.clone(), plain(&row.0)))
            .collect()
    }
}

/// The text of a cell, as the server writes it.
fn value(cell: Cell<'_>) -> Option<String> {
    match cell {
        Cell::Text(text) | Cell::Binary([1, text @ ..]) => {
            Some(String::from_utf8(text.to_vec()).unwrap())
        }
        _ => None,
    }
}
