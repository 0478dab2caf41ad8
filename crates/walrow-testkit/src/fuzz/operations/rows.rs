//! Compares rows as text with those of the slow reference.

use super::check::is_side;
use super::options::Options;
use super::run::Outcome;
use crate::reference::{Committed, Described};
use crate::{Expected, ExpectedChange, OwnedCell, OwnedMessage, OwnedOld};
use arrow_array::cast::AsArray;
use arrow_array::types::{TimestampMicrosecondType, UInt32Type, UInt64Type};
use arrow_array::{Array, ListArray, MapArray, RecordBatch};
use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_wire::Timestamp;

/// A row without the values that were not sent.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Line {
    table: (String, String),
    change_type: &'static str,
    commit_lsn: u64,
    seq: u64,
    commit_time: i64,
    xid: u32,
    key_only: bool,
    unsent: Vec<String>,
    /// Values by name, for columns that the row has.
    cells: Vec<(String, Value)>,
    /// Names of the columns of the replica identity. `None` for a truncate.
    key: Option<Vec<String>>,
}

#[derive(Clone, Debug)]
enum Value {
    Null,
    /// Not valid text, so it became null and was counted.
    Nulled,
    Text(String),
    /// Sent in binary: text, or null if it has no text.
    Any,
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null | Self::Nulled, Self::Null | Self::Nulled) => true,
            (Self::Text(one), Self::Text(other)) => one == other,
            (Self::Any, _) | (_, Self::Any) => true,
            _ => false,
        }
    }
}

impl Eq for Value {}

type Lines = BTreeMap<(String, String), Vec<Line>>;

/// The rows of each table are those of the reference. After a fault, they are the first of them.
pub(super) fn rows(options: &Options, outcome: &Outcome, committed: &Committed, is_whole: bool) {
    let mut expected = Lines::new();
    let all = committed.transactions.iter().zip(&committed.relations);
    for (transaction, relations) in all {
        for (change, relations) in transaction.changes.iter().zip(relations) {
            for line in lines(transaction, change, relations) {
                if options.selects(&line.table.0, &line.table.1) {
                    let of = table_of(options, &line);
                    expected.entry(of).or_default().push(line);
                }
            }
        }
    }
    let mut found = Lines::new();
    for batch in &outcome.batches {
        if is_side(options, batch) {
            continue;
        }
        let relation = batch.relation();
        let table = (relation.namespace.to_string(), relation.name.to_string());
        let records = batch.record_batch();
        let read = if options.envelope {
            enveloped
        } else {
            of_table
        };
        for row in 0..records.num_rows() {
            let line = read(records, relation, row);
            let of = table_of(options, &line);
            found.entry(of).or_default().push(line);
        }
        assert!(options.envelope || found.contains_key(&table));
    }
    if is_whole {
        let names = |lines: &Lines| lines.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&found), names(&expected), "tables");
    }
    for (table, expected) in &expected {
        let found = found.get(table).map_or(&[][..], Vec::as_slice);
        assert!(
            found.len() >= expected.len(),
            "rows of {table:?} are missing"
        );
        assert!(!is_whole || found.len() == expected.len(), "{table:?}");
        for (one, other) in found.iter().zip(expected) {
            if options.envelope {
                assert_eq!(*one, other.as_maps());
            } else {
                let key = None;
                assert_eq!(
                    *one,
                    Line {
                        key,
                        ..other.clone()
                    }
                );
            }
        }
    }
    let count = |lines: &Lines| lines.values().map(Vec::len).sum::<usize>();
    if count(&found) == count(&expected) {
        nulled(
            outcome,
            expected.into_values().flatten().map(|line| {
                if options.envelope {
                    line.as_maps()
                } else {
                    line
                }
            }),
        );
    }
}

/// Checks the number of values that became null.
fn nulled(outcome: &Outcome, lines: impl Iterator<Item = Line>) {
    let mut expected = 0;
    for (_, value) in lines.flat_map(|line| line.cells) {
        match value {
            Value::Any => return,
            Value::Nulled => expected += 1,
            _ => {}
        }
    }
    let counted: u64 = outcome.counts.values().map(|(nulled, _)| nulled).sum();
    assert_eq!(counted, expected, "values that became null");
}

/// The table of a row. An envelope is one table for all.
fn table_of(options: &Options, line: &Line) -> (String, String) {
    if options.envelope {
        return Default::default();
    }
    line.table.clone()
}

/// The rows that a change makes.
fn lines(
    transaction: &Expected,
    change: &ExpectedChange,
    relations: &[Arc<Described>],
) -> Vec<Line> {
    let line =
        |relation: &Described, change_type, key_only, cells: &[OwnedCell], old: &[OwnedCell]| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let names = || relation.columns.iter().map(|it| text(it.name.as_bytes()));
            let mut unsent = Vec::new();
            let mut values = Vec::new();
            for (place, name) in names().enumerate() {
                let cell = match (cells.get(place), old.get(place)) {
                    (None, _) => &OwnedCell::Null,
                    (
                        Some(OwnedCell::Unchanged),
                        Some(sent @ (OwnedCell::Text(_) | OwnedCell::Binary(_))),
                    ) => sent,
                    (Some(cell), _) => cell,
                };
                if *cell == OwnedCell::Unchanged {
                    unsent.push(name.clone());
                }
                let value = match cell {
                    // Invalid text becomes null, unless it ends the run.
                    OwnedCell::Text(value) => std::str::from_utf8(value)
                        .map_or(Value::Nulled, |value| Value::Text(value.to_owned())),
                    OwnedCell::Binary(_) => Value::Any,
                    OwnedCell::Null | OwnedCell::Unchanged => Value::Null,
                };
                values.push((name, value));
            }
            let key = relation.columns.iter().zip(names());
            let key = key.filter(|(column, _)| column.flags & 1 == 1);
            Line {
                table: (
                    text(relation.namespace.as_bytes()),
                    text(relation.name.as_bytes()),
                ),
                change_type,
                commit_lsn: transaction.commit_lsn,
                seq: change.seq,
                commit_time: transaction
                    .commit_time
                    .wrapping_add(Timestamp::UNIX_EPOCH_OFFSET),
                xid: transaction.xid,
                key_only,
                unsent,
                cells: values,
                key: (change_type != "truncate").then(|| key.map(|(_, name)| name).collect()),
            }
        };
    let is_key = |old: &OwnedOld| matches!(old, OwnedOld::Key(_));
    match &change.message {
        OwnedMessage::Insert { new, .. } => vec![line(&relations[0], "insert", false, new, &[])],
        OwnedMessage::Update { old, new, .. } => {
            let before = old.as_ref().map(|old| {
                let kind = "update_preimage";
                line(&relations[0], kind, is_key(old), old.cells(), &[])
            });
            let old = old.as_ref().map_or(&[][..], OwnedOld::cells);
            let after = line(&relations[0], "update_postimage", false, new, old);
            before.into_iter().chain([after]).collect()
        }
        OwnedMessage::Delete { old, .. } => {
            vec![line(&relations[0], "delete", is_key(old), old.cells(), &[])]
        }
        OwnedMessage::Truncate { .. } => relations
            .iter()
            .map(|relation| line(relation, "truncate", false, &[], &[]))
            .collect(),
        _ => Vec::new(),
    }
}

impl Line {
    /// As in the envelope: values that were not sent have no place.
    fn as_maps(&self) -> Self {
        let key = self.key.clone().unwrap_or_default();
        let is_truncate = self.change_type == "truncate";
        let mut cells = self.cells.clone();
        cells.retain(|(name, _)| {
            !is_truncate && !self.unsent.contains(name) && (!self.key_only || key.contains(name))
        });
        let kept = cells.iter().map(|(name, _)| name.clone());
        let in_key: Vec<_> = kept.filter(|name| key.contains(name)).collect();
        let mut unsent = self.unsent.clone();
        unsent.retain(|name| !self.key_only || key.contains(name));
        Self {
            key: (!key.is_empty()).then_some(in_key),
            cells,
            unsent,
            ..self.clone()
        }
    }
}

/// The metadata of a row, which follow its columns.
fn metadata(records: &RecordBatch, row: usize) -> Line {
    let first = records.num_columns() - 7;
    let column = |place: usize| records.column(first + place);
    let kinds = [
        "insert",
        "update_preimage",
        "update_postimage",
        "delete",
        "truncate",
    ];
    let kind = column(0).as_string::<i32>().value(row);
    let unsent: &ListArray = column(6).as_list();
    let names = |list: arrow_array::ArrayRef| -> Vec<String> {
        let list = list.as_string::<i32>();
        list.iter().flatten().map(str::to_owned).collect()
    };
    let unsent = (!unsent.is_null(row)).then(|| names(unsent.value(row)));
    assert!(unsent.as_ref().is_none_or(|names| !names.is_empty()));
    Line {
        table: Default::default(),
        change_type: kinds.into_iter().find(|it| *it == kind).expect(kind),
        commit_lsn: column(1).as_primitive::<UInt64Type>().value(row),
        seq: column(2).as_primitive::<UInt64Type>().value(row),
        commit_time: column(3)
            .as_primitive::<TimestampMicrosecondType>()
            .value(row),
        xid: column(4).as_primitive::<UInt32Type>().value(row),
        key_only: column(5).as_boolean().value(row),
        unsent: unsent.unwrap_or_default(),
        cells: Vec::new(),
        key: None,
    }
}

fn of_table(records: &RecordBatch, relation: &Relation, row: usize) -> Line {
    let mut line = metadata(records, row);
    line.table = (relation.namespace.to_string(), relation.name.to_string());
    assert_eq!(records.num_columns(), relation.columns.len() + 7);
    for (column, array) in relation.columns.iter().zip(records.columns()) {
        let array = array.as_string::<i32>();
        let value = if array.is_null(row) {
            Value::Null
        } else {
            Value::Text(array.value(row).to_owned())
        };
        line.cells.push((column.name.to_string(), value));
    }
    line
}

fn enveloped(records: &RecordBatch, _: &Relation, row: usize) -> Line {
    let mut line = metadata(records, row);
    let name = |place: usize| {
        records
            .column(place)
            .as_string::<i32>()
            .value(row)
            .to_owned()
    };
    line.table = (name(0), name(1));
    let pairs = |map: &MapArray| -> Option<Vec<(String, Value)>> {
        if map.is_null(row) {
            return None;
        }
        let pairs = map.value(row);
        let (names, values) = (pairs.column(0).as_string::<i32>(), pairs.column(1));
        let values = values.as_string::<i32>().iter();
        let pairs = names.iter().flatten().zip(values).map(|(name, value)| {
            let value = value.map_or(Value::Null, |value| Value::Text(value.to_owned()));
            (name.to_owned(), value)
        });
        Some(pairs.collect())
    };
    let key = pairs(records.column(2).as_map());
    line.cells = pairs(records.column(3).as_map()).unwrap_or_default();
    let held = |pair: &(String, Value)| line.cells.contains(pair);
    assert!(
        key.iter().flatten().all(held),
        "a key column that the row lacks"
    );
    line.key = key.map(|key| key.into_iter().map(|(name, _)| name).collect());
    line
}
