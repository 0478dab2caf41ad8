//! The options of a decoder, as plain data.

use crate::metadata::MetadataColumn;
use crate::profile::Profile;
use crate::table_name::{SideTable, TableName};
use arrow_schema::{DataType, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Encoding, End, Spool};
use walrow_wire::{Framing, Lsn};

/// The policy for values that their column's Arrow type cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnrepresentable {
    /// Decoding stops with an error.
    #[default]
    Error,
    /// The value becomes null, and [`crate::Batch::nulled`] counts it.
    Null,
    /// Infinite dates and timestamps become the largest or smallest ones. Other values are errors.
    Sentinel,
}

/// The policy for a stream that ends inside a frame or a transaction, or that the server ended with
/// an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnfinished {
    /// It is an error, after the rows of all complete transactions.
    #[default]
    Error,
    /// The incomplete part is dropped.
    Ignore,
}

/// The policy for a range of a log whose changes the server did not send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnGap {
    /// It is an error, after the rows before it.
    #[default]
    Error,
    /// The rows behind it follow the rows before it.
    Cross,
}

/// The policy for a chosen table that is not in the stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnMissingTable {
    /// It is an error at the end of the stream, unless the stream was resumed at a position.
    #[default]
    Error,
    /// There are no rows.
    Ignore,
}

/// The tables that the options choose.
#[derive(Clone, Debug, Default)]
pub(crate) enum ChosenTables {
    #[default]
    All,
    /// One table. All its batches have one schema.
    One(TableName),
    /// Several tables, or one whose batches have the schemas of its versions.
    Several(Vec<TableName>),
    /// Both were chosen, which is an error.
    OneAndSeveral,
}

impl ChosenTables {
    /// Adds the choice of one table.
    pub(crate) fn with_one(self, table: TableName) -> Self {
        match self {
            Self::All | Self::One(_) => Self::One(table),
            Self::Several(_) | Self::OneAndSeveral => Self::OneAndSeveral,
        }
    }

    /// Adds the choice of several tables.
    pub(crate) fn with_several(self, tables: Vec<TableName>) -> Self {
        match self {
            Self::All | Self::Several(_) => Self::Several(tables),
            Self::One(_) | Self::OneAndSeveral => Self::OneAndSeveral,
        }
    }

    /// The table, if it is the only one with one schema.
    pub(crate) const fn one(&self) -> Option<&TableName> {
        match self {
            Self::One(table) => Some(table),
            _ => None,
        }
    }

    /// The chosen tables. Empty if there was no choice.
    pub(crate) fn names(&self) -> &[TableName] {
        match self {
            Self::One(table) => std::slice::from_ref(table),
            Self::Several(tables) => tables,
            Self::All | Self::OneAndSeveral => &[],
        }
    }

    /// The side table that is chosen as the one table.
    pub(crate) fn side_table(&self) -> Option<SideTable> {
        self.one().and_then(TableName::side_table)
    }

    /// Whether a side table is chosen, alone or among several tables.
    pub(crate) fn has_side_tables(&self) -> bool {
        self.names().iter().any(|it| it.side_table().is_some())
    }

    /// Whether only side tables are chosen.
    pub(crate) fn has_only_side_tables(&self) -> bool {
        let names = self.names();
        !names.is_empty() && names.iter().all(|it| it.side_table().is_some())
    }
}

/// The options of a decoder; [`DecoderBuilder`](crate::DecoderBuilder) sets them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) framing: Framing,
    pub(crate) profile: Profile,
    pub(crate) types: HashMap<String, DataType>,
    pub(crate) unrepresentable: OnUnrepresentable,
    pub(crate) column_unrepresentable: HashMap<String, OnUnrepresentable>,
    /// The columns whose values identify a row.
    pub(crate) keys: Arc<[String]>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) encoding: Encoding,
    pub(crate) trim_bpchar: bool,
    pub(crate) metadata: Vec<MetadataColumn>,
    pub(crate) prefix: String,
    pub(crate) batch_rows: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) batch_memory: usize,
    pub(crate) tables: ChosenTables,
    pub(crate) schema: Option<SchemaRef>,
    /// Keys of the wanted columns. `None` for all columns.
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) envelope: bool,
    pub(crate) start: Lsn,
    pub(crate) end: Option<End>,
    pub(crate) late_start: bool,
    pub(crate) unfinished: OnUnfinished,
    pub(crate) gaps: OnGap,
    pub(crate) missing_table: OnMissingTable,
    /// `None` for the default spool, if the feature `file-spool` is on.
    pub(crate) spool: Option<Arc<dyn Spool>>,
    pub(crate) spool_memory: usize,
    pub(crate) message_limit: usize,
}

/// The default limits of a [`DecoderBuilder`](crate::DecoderBuilder).
pub mod defaults {
    /// Rows of a batch.
    pub const BATCH_ROWS: usize = 16_384;
    /// Bytes of a batch.
    pub const BATCH_BYTES: usize = 32 << 20;
    /// Bytes of all batches under construction.
    pub const BATCH_MEMORY: usize = 128 << 20;
    /// Bytes of open and prepared transactions in memory.
    pub const SPOOL_MEMORY: usize = walrow_stream::Assembler::SPOOL_MEMORY;
}

impl Default for Options {
    fn default() -> Self {
        Self {
            framing: Framing::Wire,
            profile: Profile::Arrow,
            types: HashMap::new(),
            unrepresentable: OnUnrepresentable::Error,
            column_unrepresentable: HashMap::new(),
            keys: Arc::default(),
            catalog: Arc::new(Catalog::default()),
            encoding: Encoding::Utf8,
            trim_bpchar: false,
            metadata: MetadataColumn::defaults(),
            prefix: "_".to_owned(),
            batch_rows: defaults::BATCH_ROWS,
            batch_bytes: defaults::BATCH_BYTES,
            batch_memory: defaults::BATCH_MEMORY,
            tables: ChosenTables::All,
            schema: None,
            columns: None,
            envelope: false,
            start: Lsn::INVALID,
            end: None,
            late_start: false,
            unfinished: OnUnfinished::Error,
            gaps: OnGap::Error,
            missing_table: OnMissingTable::Error,
            spool: None,
            spool_memory: defaults::SPOOL_MEMORY,
            message_limit: usize::MAX,
        }
    }
}

#[cfg(feature = "file-spool")]
#[expect(
    clippy::unnecessary_wraps,
    reason = "without the feature, there is none"
)]
pub(crate) fn default_spool() -> Option<Arc<dyn Spool>> {
    Some(Arc::new(walrow_log::FileSpool::default()))
}

#[cfg(not(feature = "file-spool"))]
pub(crate) fn default_spool() -> Option<Arc<dyn Spool>> {
    None
}
