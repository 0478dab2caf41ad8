//! The contents of a part of a stream, which are counted while it is written, for a segment's foot.

use crate::format::history::{FORMAT, History};
use crate::format::segment::{Foot, TableFoot};
use crate::format::version::TableVersion;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use walrow_stream::fact::{Gap, Source};
use walrow_stream::{Relation, Transaction};
use walrow_wire::{Lsn, Oid};

/// Counts of transactions and changes, for whole transactions and for the current transaction.
#[derive(Debug, Default)]
pub(crate) struct Contents {
    transactions: u64,
    times: Option<(i64, i64)>,
    tables: Vec<Table>,
    /// The places of relation versions in `tables`.
    places: HashMap<TableVersion, usize>,
    /// The place of each version of the current assembler.
    versions: BTreeMap<u32, usize>,
    /// The version of the last row, and its place.
    last: Option<(u32, usize)>,
    /// The LSN where the current transaction ends, and its commit time.
    current: (Lsn, i64),
    /// Whether the current transaction is a load.
    loads: bool,
    /// The places of the tables that the current transaction changes.
    changed: Vec<usize>,
    /// The approximate number of bytes that the tables have in a foot.
    foot_bytes: u64,
    /// The gaps between whole transactions.
    gaps: Vec<Gap>,
}

/// A relation version.
#[derive(Debug)]
struct Table {
    relation: Arc<Relation>,
    whole: Counts,
    current: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    rows: u64,
    truncates: u64,
    bytes: u64,
    last: Lsn,
    loaded: Option<Lsn>,
}

/// The transactions that a segment contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// All whole transactions.
    Whole,
    /// A part of the current transaction.
    Current,
}

impl Contents {
    /// Begins a transaction, or another part of it. Drops the counts of the last transaction, if it
    /// was not completed.
    pub(crate) fn begin(&mut self, transaction: &Transaction) {
        self.drop_current();
        self.current = (transaction.end_lsn, transaction.commit_time.0);
        self.loads = transaction.snapshot;
    }

    #[inline]
    pub(crate) fn row(&mut self, relation: &Arc<Relation>, bytes: usize) {
        self.rows(relation, 1, bytes);
    }

    #[inline]
    pub(crate) fn rows(&mut self, relation: &Arc<Relation>, rows: u64, bytes: usize) {
        let counts = self.counts(relation);
        add(&mut counts.rows, rows);
        add(&mut counts.bytes, bytes as u64);
    }

    pub(crate) fn truncate(&mut self, relation: &Arc<Relation>) {
        add(&mut self.counts(relation).truncates, 1);
    }

    /// Completes the current transaction: its counts become counts of whole transactions.
    pub(crate) fn commit(&mut self) {
        let (_, time) = self.current;
        add(&mut self.transactions, 1);
        let (least, greatest) = self.times.unwrap_or((time, time));
        self.times = Some((least.min(time), greatest.max(time)));
        for place in &self.changed {
            if let Some(Table { whole, current, .. }) = self.tables.get_mut(*place) {
                add(&mut whole.rows, current.rows);
                add(&mut whole.truncates, current.truncates);
                add(&mut whole.bytes, current.bytes);
                whole.last = current.last;
                whole.loaded = current.loaded.or(whole.loaded);
                *current = Counts::default();
            }
        }
        self.changed.clear();
    }

    /// Adds a gap between transactions.
    pub(crate) fn gap(&mut self, gap: Gap) {
        self.gaps.push(gap);
    }

    fn drop_current(&mut self) {
        for place in &self.changed {
            if let Some(table) = self.tables.get_mut(*place) {
                table.current = Counts::default();
            }
        }
        self.changed.clear();
    }

    /// Forgets the version numbers: another assembler begins.
    pub(crate) fn begin_session(&mut self) {
        self.versions.clear();
        self.last = None;
    }

    /// Forgets the whole transactions.
    pub(crate) fn drop_whole(&mut self) {
        (self.transactions, self.times) = (0, None);
        self.gaps.clear();
        for table in &mut self.tables {
            table.whole = Counts::default();
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The approximate number of bytes that the tables have in a foot.
    pub(crate) const fn foot_bytes(&self) -> u64 {
        self.foot_bytes
    }

    #[inline]
    fn counts(&mut self, relation: &Arc<Relation>) -> &mut Counts {
        let place = match self.last {
            // Most rows have the same relation as the row before.
            Some((version, place)) if version == relation.version => place,
            _ => self.place(relation),
        };
        #[expect(clippy::indexing_slicing, reason = "places are those of tables")]
        let counts = &mut self.tables[place].current;
        // A table that changes has at least one row or truncate.
        if counts.rows == 0 && counts.truncates == 0 {
            counts.last = self.current.0;
            counts.loaded = self.loads.then_some(counts.last);
            self.changed.push(place);
        }
        counts
    }

    fn place(&mut self, relation: &Arc<Relation>) -> usize {
        let known = self.versions.get(&relation.version).copied();
        let place = known.unwrap_or_else(|| self.new_place(relation));
        self.last = Some((relation.version, place));
        place
    }

    #[cold]
    fn new_place(&mut self, relation: &Arc<Relation>) -> usize {
        let Self {
            tables,
            places,
            foot_bytes,
            ..
        } = self;
        let version = TableVersion::from(&**relation);
        let place = *places.entry(version).or_insert_with(|| {
            add(foot_bytes, json_bytes(relation));
            tables.push(Table {
                relation: Arc::clone(relation),
                whole: Counts::default(),
                current: Counts::default(),
            });
            tables.len().saturating_sub(1)
        });
        self.versions.insert(relation.version, place);
        place
    }

    /// The relation versions with changes: their places, relations and counts.
    fn changed(&self, which: Which) -> impl Iterator<Item = (usize, &Relation, &Counts)> {
        let tables = self.tables.iter().enumerate().map(move |(place, table)| {
            let counts = match which {
                Which::Whole => &table.whole,
                Which::Current => &table.current,
            };
            (place, &*table.relation, counts)
        });
        tables.filter(|(_, _, counts)| counts.rows > 0 || counts.truncates > 0)
    }

    /// The OIDs of the tables that are not described yet, and of the types of their columns.
    pub(crate) fn oids(
        &self,
        which: Which,
        described: &mut HashSet<usize>,
    ) -> (HashSet<Oid>, HashSet<Oid>) {
        let (mut tables, mut types) = (HashSet::new(), HashSet::new());
        for (place, relation, _) in self.changed(which) {
            if described.insert(place) {
                tables.insert(relation.oid);
                types.extend(relation.columns.iter().map(|it| it.type_oid));
            }
        }
        (tables, types)
    }

    /// The foot of a segment with these transactions.
    pub(crate) fn foot(&self, which: Which, source: &Source, end: Lsn) -> Foot {
        let tables = self.changed(which).map(|(_, relation, counts)| {
            let TableVersion {
                oid,
                schema,
                name,
                columns,
                identity,
            } = relation.into();
            TableFoot {
                oid,
                schema,
                name,
                columns,
                identity,
                rows: counts.rows,
                truncates: counts.truncates,
                bytes: counts.bytes,
                last: counts.last,
                loaded: counts.loaded,
            }
        });
        let (_, time) = self.current;
        let (transactions, times, gaps) = match which {
            Which::Whole => (self.transactions, self.times, self.gaps.clone()),
            Which::Current => (1, Some((time, time)), Vec::new()),
        };
        Foot {
            format: FORMAT,
            start: Lsn::INVALID,
            part: 0,
            end,
            continues: which == Which::Current,
            history: History::default(),
            source: source.clone(),
            undecided: None,
            load: None,
            gaps,
            transactions,
            times,
            tables: tables.collect(),
            members: Vec::new(),
            stream_bytes: 0,
            bytes: 0,
            crc32c: 0,
        }
    }
}

/// The approximate number of bytes that a relation has in a foot.
fn json_bytes(relation: &Relation) -> u64 {
    let escaped = |text: &str| {
        let bytes = text.bytes().map(|byte| match byte {
            0..0x20 => 6,
            b'"' | b'\\' => 2,
            _ => 1,
        });
        bytes.sum::<u64>()
    };
    let columns = relation.columns.iter();
    let columns = columns.map(|it| escaped(&it.name).saturating_add(40));
    let names = escaped(&relation.namespace).saturating_add(escaped(&relation.name));
    columns
        .sum::<u64>()
        .saturating_add(names)
        .saturating_add(400)
}

fn add(count: &mut u64, more: u64) {
    *count = count.saturating_add(more);
}
