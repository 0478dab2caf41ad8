//! Checks that hold for every run, and for two runs of one stream.

use super::options::Options;
use super::run::Outcome;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use std::collections::{BTreeMap, BTreeSet};
use walrow_arrow::Batch;

/// A batch's table.
pub(super) type TableKey = (String, String);

pub(super) fn key(batch: &Batch) -> TableKey {
    let relation = batch.relation();
    (relation.namespace.to_string(), relation.name.to_string())
}

/// Whether a batch belongs to a side table. A user's table may have the same name.
pub(super) fn is_side(options: &Options, batch: &Batch) -> bool {
    let relation = batch.relation();
    *relation.namespace == *"walrow"
        && relation.columns.is_empty()
        && relation.oid == 0
        && (options.side_tables.iter()).any(|side| side.name() == &*relation.name)
}

/// The numbers of a metadata column, if the batch has it.
pub(super) fn numbers(records: &RecordBatch, name: &str) -> Option<Vec<u64>> {
    let column = records.column_by_name(name)?;
    let unsigned = column.as_primitive_opt::<UInt64Type>();
    let signed = column.as_primitive_opt::<Int64Type>();
    match (unsigned, signed) {
        (Some(numbers), _) => Some(numbers.values().to_vec()),
        (_, Some(numbers)) => Some(
            numbers
                .values()
                .iter()
                .map(|it| it.cast_unsigned())
                .collect(),
        ),
        _ => None,
    }
}

/// Checks of each batch.
pub(super) fn batches(options: &Options, outcome: &Outcome) {
    for batch in &outcome.batches {
        let records = batch.record_batch();
        assert!(records.num_rows() > 0, "a batch of no rows");
        if is_side(options, batch) {
            continue;
        }
        if let Some(schema) = &outcome.schema {
            assert_eq!(records.schema(), *schema, "a batch of another schema");
        }
        if options.all_metadata || options.projected {
            updates(records);
        }
        nulled(batch);
    }
}

/// The count of nulled values is not above the number of nulls. Items of lists are not counted.
fn nulled(batch: &Batch) {
    let (records, fields) = (batch.record_batch(), batch.record_batch().schema());
    for (column, count) in batch.nulled() {
        let same = fields.fields().iter().filter(|it| it.name() == column);
        let nulls = match records.column_by_name(column) {
            Some(array) if array.as_list_opt::<i32>().is_some() => continue,
            Some(array) => array
                .as_map_opt()
                .map_or_else(|| array.null_count(), |map| map.values().null_count()),
            None => continue,
        };
        assert!(
            *count <= nulls as u64 || same.count() != 1,
            "{count} nulled values, {nulls} nulls in {column}"
        );
    }
}

/// Both images of an update are in one batch, one after the other.
fn updates(records: &RecordBatch) {
    let kinds = records.column_by_name("_change_type");
    let (Some(kinds), Some(seqs)) = (
        kinds.and_then(|kinds| kinds.as_string_opt::<i32>()),
        numbers(records, "_seq"),
    ) else {
        return;
    };
    for row in 0..kinds.len() {
        if kinds.value(row) == "update_preimage" {
            assert!(row + 1 < kinds.len(), "an update over two batches");
            assert_eq!(kinds.value(row + 1), "update_postimage");
            assert_eq!(seqs[row], seqs[row + 1], "two images of two updates");
        }
    }
}

/// Two runs of the same stream have the same result, with any operations between its pieces.
pub(super) fn same(options: &Options, once: &Outcome, pieces: &Outcome) {
    let how = pieces.how;
    let mut expected = once.fault.clone();
    if let (true, Some(expected), Some(fault)) = (how.handed_over, &mut expected, &pieces.fault) {
        // Restored transactions are in no stream, so errors are reported at their commit.
        expected.offset = fault.offset;
        if expected.kind == "Unfinished" || expected.kind.starts_with("Server") {
            // The position of the decoder that reads the end.
            expected.lsn = fault.lsn;
        }
    }
    let is_missing = |fault: &super::run::Fault| fault.kind.starts_with("Missing");
    if how.handed_over && expected.as_ref().is_some_and(is_missing) {
        // A decoder that continues another one's stream does not know that the session before ended
        // inside a transaction.
        expected.clone_from(&pieces.fault);
    }
    assert_eq!(expected, pieces.fault, "another error in pieces");
    assert_eq!(once.position, pieces.position, "another position in pieces");
    let mid = (once.is_mid_transaction, pieces.is_mid_transaction);
    assert!(
        mid.0 == mid.1 || (how.handed_over && once.fault.as_ref().is_some_and(is_missing)),
        "in a transaction, and not in pieces"
    );
    assert_eq!(once.prepared, pieces.prepared, "others are prepared");
    // A decoder that continues another one's stream does not know how the earlier session ended.
    // This matters only if its own session does not begin.
    if !how.handed_over || once.fault.is_none() {
        assert_eq!(once.server_error, pieces.server_error);
    }
    assert_eq!(once.unresolved, pieces.unresolved);
    if !how.flushed {
        let numbers = (once.batches.len(), pieces.batches.len());
        assert_eq!(numbers.0, numbers.1, "other batches in pieces");
        for (one, other) in once.batches.iter().zip(&pieces.batches) {
            assert_eq!(one.relation(), other.relation(), "in pieces");
            assert_eq!(one.record_batch(), other.record_batch(), "in pieces");
            assert_eq!(one.nulled(), other.nulled(), "in pieces");
            assert_eq!(
                one.dropped_lower_bounds(),
                other.dropped_lower_bounds(),
                "in pieces"
            );
        }
        return;
    }
    let is_of_stream = once.fault.as_ref().is_some_and(|fault| fault.is_of_stream);
    if !is_of_stream {
        assert_eq!(once.counts, pieces.counts, "other counts of values");
    }
    let mut tables: BTreeSet<_> = once.batches.iter().map(key).collect();
    tables.extend(pieces.batches.iter().map(key));
    for table in tables {
        // Items reported once per session or decoder are reported again by the next one.
        if how.handed_over && table.0 == "walrow" && table.1 != "envelope" {
            continue;
        }
        let of = |outcome: &Outcome| -> Vec<RecordBatch> {
            let batches = outcome.batches.iter().filter(|batch| key(batch) == table);
            batches.map(|batch| batch.record_batch().clone()).collect()
        };
        let (mut one, mut other) = (of(once), of(pieces));
        if is_of_stream {
            // Batches of a faulty transaction that were full before stay.
            let least = rows(&one).min(rows(&other));
            (one, other) = (first(one, least), first(other, least));
        }
        same_rows(&one, &other, &table, options);
    }
}

/// The same rows in all tables, except `relations`, which every session repeats.
pub(super) fn same_tables(options: &Options, one: &[Batch], other: &[Batch]) {
    let mut tables: BTreeSet<_> = one.iter().map(key).collect();
    tables.extend(other.iter().map(key));
    tables.remove(&("walrow".to_owned(), "relations".to_owned()));
    for table in tables {
        let of = |batches: &[Batch]| -> Vec<RecordBatch> {
            let batches = batches.iter().filter(|batch| key(batch) == table);
            batches.map(|batch| batch.record_batch().clone()).collect()
        };
        same_rows(&of(one), &of(other), &table, options);
    }
}

fn rows(batches: &[RecordBatch]) -> usize {
    batches.iter().map(RecordBatch::num_rows).sum()
}

fn first(batches: Vec<RecordBatch>, rows: usize) -> Vec<RecordBatch> {
    let mut left = rows;
    let cut = batches.into_iter().map(|batch| {
        let kept = batch.num_rows().min(left);
        left -= kept;
        batch.slice(0, kept)
    });
    cut.filter(|batch| batch.num_rows() > 0).collect()
}

/// The same rows in the same order, with any batch borders.
pub(super) fn same_rows(
    one: &[RecordBatch],
    other: &[RecordBatch],
    table: &TableKey,
    options: &Options,
) {
    assert_eq!(rows(one), rows(other), "rows of {table:?}");
    let (mut one, mut other) = (one.iter(), other.iter());
    let (mut left, mut right) = (None::<RecordBatch>, None::<RecordBatch>);
    loop {
        let next = |it: &RecordBatch| it.num_rows() > 0;
        left = left.filter(next).or_else(|| one.next().cloned());
        right = right.filter(next).or_else(|| other.next().cloned());
        let (Some(a), Some(b)) = (&left, &right) else {
            return;
        };
        let rows = a.num_rows().min(b.num_rows());
        assert_eq!(
            a.slice(0, rows),
            b.slice(0, rows),
            "rows of {table:?} under {options:?}"
        );
        let rest = |it: &RecordBatch| it.slice(rows, it.num_rows() - rows);
        (left, right) = (Some(rest(a)), Some(rest(b)));
    }
}

/// If end LSNs ascend, no position passes a row that was not taken.
pub(super) fn positions(options: &Options, outcome: &Outcome, ends: &BTreeMap<u64, u64>) {
    if outcome.how.handed_over {
        return;
    }
    // For each batch and all later ones: the lowest end LSN of a row's transaction.
    let mut earliest = vec![None::<u64>; outcome.batches.len() + 1];
    for (place, batch) in outcome.batches.iter().enumerate().rev() {
        earliest[place] = earliest[place + 1];
        if is_side(options, batch) {
            continue;
        }
        for lsn in numbers(batch.record_batch(), "_commit_lsn").unwrap_or_default() {
            let end = ends.get(&lsn);
            let end = end.unwrap_or_else(|| panic!("a row of what was never committed: {lsn:X}"));
            earliest[place] = Some(earliest[place].map_or(*end, |it| it.min(*end)));
        }
    }
    for (taken, position) in &outcome.positions {
        assert!(
            earliest[*taken].is_none_or(|end| position.0 < end),
            "position {position} after {taken} batches passes a row of a transaction that ends at \
             {:X?}",
            earliest[*taken]
        );
    }
}

/// The rows of each table whose transaction ends after this position, without side tables.
pub(super) fn after(
    options: &Options,
    outcome: &Outcome,
    ends: &BTreeMap<u64, u64>,
    position: u64,
) -> BTreeMap<TableKey, Vec<RecordBatch>> {
    let mut rows: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for batch in &outcome.batches {
        let records = batch.record_batch();
        if is_side(options, batch) {
            continue;
        }
        let lsns = numbers(records, "_commit_lsn").unwrap_or_default();
        let first = lsns.iter().position(|lsn| ends[lsn] > position);
        if let Some(first) = first {
            let rest = records.slice(first, records.num_rows() - first);
            rows.entry(key(batch)).or_default().push(rest);
        }
    }
    rows
}
