//! The options of a run, from the bytes of its plan.

use super::source::PLAN;
use crate::reference::ReadOptions;
use crate::{OwnedColumn, OwnedMessage, walk};
use arrow_schema::{DataType, Field, Schema};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use walrow_arrow::{
    DecoderBuilder, MetadataColumn, OnMissingTable, OnUnrepresentable, Profile, SideTable,
    TableName,
};
use walrow_log::FileSpool;
use walrow_stream::{Relation, Spool, SpoolFile};
use walrow_wire::{Lsn, Oid};

/// The options of a run's decoders, and of the reference reader.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "options are chosen one by one"
)]
pub(super) struct Options {
    pub(super) builder: DecoderBuilder,
    pub(super) reference: ReadOptions,
    pub(super) profile: Profile,
    /// The selected tables as schema and name. Empty for all, and for side tables alone.
    pub(super) tables: Vec<(String, String)>,
    /// Whether a schema was given for the one table.
    pub(super) projected: bool,
    pub(super) envelope: bool,
    pub(super) side_tables: Vec<SideTable>,
    /// Whether only a side table is read.
    pub(super) side_alone: bool,
    /// Whether all metadata columns are selected.
    pub(super) all_metadata: bool,
    pub(super) batch_memory: usize,
    pub(super) spool: Option<Arc<Counted>>,
}

/// A spool that counts its files.
#[derive(Debug, Default)]
pub(super) struct Counted {
    spool: FileSpool,
    files: AtomicUsize,
}

impl Counted {
    pub(super) fn files(&self) -> usize {
        self.files.load(Ordering::Relaxed)
    }
}

impl Options {
    /// Whether rows of the relation are selected.
    pub(super) fn reads(&self, relation: &Relation) -> bool {
        self.selects(&relation.namespace, &relation.name)
    }

    /// Whether rows of the table are selected.
    pub(super) fn selects(&self, namespace: &str, name: &str) -> bool {
        let is = |(schema, table): &(String, String)| schema == namespace && table == name;
        !self.side_alone && (self.tables.is_empty() || self.tables.iter().any(is))
    }
}

impl Spool for Counted {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.spool.create()
    }
}

/// A table of the stream: schema, name and columns.
type Found = (String, String, Vec<OwnedColumn>);

impl Options {
    /// Options for this stream, whose transactions end at `ends`.
    pub(super) fn choose(plan: &[u8; PLAN], stream: &[u8], ends: &[u64]) -> Self {
        let at = |byte: usize| usize::from(plan[byte]);
        let profile = [Profile::Text, Profile::Text, Profile::Arrow, Profile::Spark][at(3) % 4];
        let rows = [1000, 1, 2, 3, 16_384, 16_384, 7, 1000][at(4) % 8];
        let bytes = [32 << 20, 1, 200, 4000, 32 << 20, 32 << 20][at(5) % 6];
        let batch_memory = [128 << 20, 1, 4096, 1 << 16, 16 << 20, 128 << 20][at(6) % 6];
        let mut builder = DecoderBuilder::new()
            .with_profile(profile)
            .with_batch_rows(rows)
            .with_batch_bytes(bytes)
            .with_batch_memory(batch_memory);
        let spool_memory = [None, Some(0), Some(300), Some(5000), None, Some(100)][at(7) % 6];
        let spool = spool_memory.map(|_| Arc::new(Counted::default()));
        if let (Some(memory), Some(spool)) = (spool_memory, spool.clone()) {
            builder = builder.with_spool(spool).with_spool_memory(memory);
        }
        let start = (at(13) >= 200)
            .then(|| ends.get(at(14) % ends.len().max(1)))
            .flatten()
            .map(|end| end.saturating_add_signed([0, 0, -1, 1][at(13) % 4]))
            .filter(|start| *start > 0);
        let message_limit = match at(16) {
            0xF0.. => [1, 50, 100, 2000][at(16) % 4],
            _ => usize::MAX,
        };
        let reference = ReadOptions {
            start,
            late_start: at(15) >= 220,
            message_limit,
        };
        builder = builder
            .with_start(Lsn(start.unwrap_or(0)))
            .with_late_start(reference.late_start)
            .with_message_limit(message_limit);
        builder = builder.with_unrepresentable(match at(17) % 4 {
            0 => OnUnrepresentable::Error,
            2 if profile != Profile::Spark => OnUnrepresentable::Sentinel,
            _ => OnUnrepresentable::Null,
        });
        let all_metadata = at(10) < 128;
        if !all_metadata {
            let all = MetadataColumn::ALL.into_iter().enumerate();
            let chosen = all.filter(|(bit, _)| at(10) >> bit & 1 == 1);
            builder = builder.with_metadata(chosen.map(|(_, it)| it).collect::<Vec<_>>());
        }
        let mut this = Self {
            builder,
            reference,
            profile,
            tables: Vec::new(),
            projected: false,
            envelope: at(8) % 5 == 4,
            side_tables: Vec::new(),
            side_alone: false,
            all_metadata,
            batch_memory,
            spool,
        };
        this.choose_table(plan, stream);
        this
    }

    fn choose_table(&mut self, plan: &[u8; PLAN], stream: &[u8]) {
        let at = |byte: usize| usize::from(plan[byte]);
        let mut builder = self.builder.clone();
        let found = match at(9) {
            0xF0.. => Some(None),
            0x90..0xD0 => Some(table(stream, at(11))),
            0xD0..0xF0 => {
                let side = SideTable::ALL[at(11) % 4];
                let name = format!("walrow.{}", side.name());
                self.side_alone = true;
                self.envelope = false;
                self.side_tables = vec![side];
                self.builder = builder.with_table(TableName::Text(name));
                return;
            }
            _ => None,
        };
        if at(12) < 128 {
            let all = SideTable::ALL.into_iter().enumerate();
            let chosen = all.filter(|(bit, _)| at(12) >> bit & 1 == 1);
            self.side_tables = chosen.map(|(_, it)| it).collect();
        }
        let sides = self.side_tables.iter();
        let sides: Vec<_> = sides
            .map(|side| TableName::Text(format!("walrow.{}", side.name())))
            .collect();
        if found.is_none() && !sides.is_empty() {
            // By their OIDs, all tables of the stream, whatever their names are.
            let tables = oids(stream).into_iter().map(TableName::Oid);
            builder = builder
                .with_tables(tables.chain(sides.clone()))
                .with_missing_table(OnMissingTable::Ignore);
        }
        if let Some(found) = found {
            let (namespace, name, columns) = found.unwrap_or_else(|| {
                let missing = |text: &str| text.to_owned();
                (missing("public"), missing("no such table"), Vec::new())
            });
            self.tables.push((namespace, name));
            let projected = at(18) % 3 == 0 && !self.envelope && self.profile == Profile::Text;
            if !projected && (at(19) % 2 == 1 || !sides.is_empty()) {
                let other = table(stream, at(20)).map(|(namespace, name, _)| (namespace, name));
                let other = other.filter(|other| !self.tables.contains(other));
                self.tables.extend(other);
                let pairs = self.tables.iter().cloned().map(TableName::from);
                builder = builder.with_tables(pairs.chain(sides));
            } else {
                self.side_tables.clear();
                builder = builder.with_table(self.tables[0].clone());
            }
            if projected {
                self.projected = true;
                // If columns are missing, a row is an error.
                let step = 1 + usize::from(at(20) % 4 == 3);
                builder = builder.with_schema(Arc::new(schema(&columns, step)));
            }
        }
        self.builder = builder.with_envelope(self.envelope);
    }

    /// The most memory that a run may use.
    pub(super) fn memory(&self, input: usize) -> usize {
        if self.batch_memory <= 16 << 20 {
            (64 << 20) + 64 * input
        } else {
            512 << 20
        }
    }
}

/// The OIDs of all tables of the stream.
fn oids(stream: &[u8]) -> BTreeSet<Oid> {
    let mut found = BTreeSet::new();
    let _ = walk(stream, |step| {
        if let Some(walrow_wire::Message::Relation(relation)) = &step.message {
            found.insert(relation.oid);
        }
    });
    found
}

/// A table of the stream.
fn table(stream: &[u8], choice: usize) -> Option<Found> {
    let mut found = Vec::new();
    // Frames after a fault do not matter here.
    let _ = walk(stream, |step| {
        if let Some(message @ walrow_wire::Message::Relation(_)) = &step.message
            && let OwnedMessage::Relation {
                namespace,
                name,
                columns,
                ..
            } = OwnedMessage::from(message)
            && let (Ok(namespace), Ok(name)) = (
                String::from_utf8(namespace.as_bytes().to_vec()),
                String::from_utf8(name.as_bytes().to_vec()),
            )
            && !namespace.is_empty()
        {
            found.push((namespace, name, columns));
        }
    });
    let place = choice % found.len().max(1);
    found.into_iter().nth(place)
}

/// Each column, or each second one, in reverse order, an added column, and metadata.
fn schema(columns: &[OwnedColumn], step: usize) -> Schema {
    let mut fields = vec![
        Field::new("_commit_lsn", DataType::UInt64, false),
        Field::new("not a column", DataType::Int32, true),
        Field::new("_seq", DataType::UInt64, false),
        Field::new("_change_type", DataType::Utf8, false),
    ];
    for column in columns.iter().rev().step_by(step) {
        let name = String::from_utf8_lossy(column.name.as_bytes());
        if fields.iter().all(|field| **field.name() != *name) {
            fields.push(Field::new(name, DataType::Utf8, true));
        }
    }
    Schema::new(fields)
}
