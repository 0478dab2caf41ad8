//! What a part of a stream contains: counted while it is written, for a segment's foot.

use crate::log::segment::{FORMAT, Foot, TableFoot};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use walrow_stream::fact::Source;
use walrow_stream::{Relation, Transaction};
use walrow_wire::{Lsn, Oid};

/// Counts of transactions and changes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    transactions: u64,
    /// Where the current transaction ends.
    current_end: Lsn,
    times: Option<(i64, i64)>,
    tables: Vec<(Arc<Relation>, Counts)>,
    /// The place of each relation version in `tables`.
    places: HashMap<u32, usize>,
    /// The place of the last one.
    last: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rows: u64,
    truncates: u64,
    bytes: u64,
    last: Lsn,
}

impl Contents {
    pub(crate) fn transaction(&mut self, transaction: &Transaction) {
        self.current_end = transaction.end_lsn;
        add(&mut self.transactions, 1);
        let time = transaction.commit_time.0;
        let (least, greatest) = self.times.unwrap_or((time, time));
        self.times = Some((least.min(time), greatest.max(time)));
    }

    pub(crate) fn row(&mut self, relation: &Arc<Relation>, bytes: usize) {
        let counts = self.counts(relation);
        add(&mut counts.rows, 1);
        add(&mut counts.bytes, bytes as u64);
    }

    pub(crate) fn truncate(&mut self, relation: &Arc<Relation>) {
        add(&mut self.counts(relation).truncates, 1);
    }

    fn counts(&mut self, relation: &Arc<Relation>) -> &mut Counts {
        let (tables, places) = (&mut self.tables, &mut self.places);
        // Most rows have the relation of the row before.
        let is_last = tables
            .get(self.last)
            .is_some_and(|(last, _)| last.version == relation.version);
        if !is_last {
            self.last = *places.entry(relation.version).or_insert_with(|| {
                tables.push((Arc::clone(relation), Counts::default()));
                tables.len().saturating_sub(1)
            });
        }
        #[expect(clippy::indexing_slicing, reason = "places are those of tables")]
        let counts = &mut tables[self.last].1;
        counts.last = self.current_end;
        counts
    }

    /// Adds what comes after it.
    pub(crate) fn extend(&mut self, other: &Self) {
        add(&mut self.transactions, other.transactions);
        self.times = match (self.times, other.times) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
        for (relation, counts) in &other.tables {
            self.current_end = counts.last;
            let own = self.counts(relation);
            add(&mut own.rows, counts.rows);
            add(&mut own.truncates, counts.truncates);
            add(&mut own.bytes, counts.bytes);
        }
    }

    /// The OIDs of the tables, and of the types of their columns.
    pub(crate) fn oids(&self) -> (HashSet<Oid>, HashSet<Oid>) {
        let relations = self.tables.iter().map(|(relation, _)| relation);
        let columns = relations.clone().flat_map(|it| it.columns.iter());
        (
            relations.map(|it| it.oid).collect(),
            columns.map(|it| it.type_oid).collect(),
        )
    }

    /// The foot of a segment with these contents.
    pub(crate) fn foot(&self, source: &Source, end: Lsn, continues: bool) -> Foot {
        let tables = self.tables.iter().map(|(relation, counts)| TableFoot {
            oid: relation.oid,
            schema: relation.namespace.to_string(),
            name: relation.name.to_string(),
            columns: relation
                .columns
                .iter()
                .map(|it| {
                    (
                        it.name.to_string(),
                        it.type_oid,
                        it.type_modifier,
                        it.is_key,
                    )
                })
                .collect(),
            rows: counts.rows,
            truncates: counts.truncates,
            bytes: counts.bytes,
            last: counts.last,
        });
        Foot {
            format: FORMAT,
            start: Lsn::INVALID,
            part: 0,
            end,
            continues,
            source: source.clone(),
            transactions: self.transactions,
            times: self.times,
            tables: tables.collect(),
            stream_bytes: 0,
            bytes: 0,
            crc32c: 0,
        }
    }
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}
