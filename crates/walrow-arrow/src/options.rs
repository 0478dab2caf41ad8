//! The options of a decoder, as plain data.

use crate::metadata::MetadataColumn;
use crate::profile::Profile;
use crate::table_name::{SideTable, TableName};
use arrow_schema::{DataType, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Spool};
use walrow_types::SessionSettings;
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

/// The options of a decoder; [`DecoderBuilder`](crate::DecoderBuilder) sets them.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) framing: Framing,
    pub(crate) profile: Profile,
    pub(crate) types: HashMap<String, DataType>,
    pub(crate) unrepresentable: OnUnrepresentable,
    pub(crate) column_unrepresentable: HashMap<String, OnUnrepresentable>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) session: SessionSettings,
    pub(crate) trim_bpchar: bool,
    pub(crate) metadata: Vec<MetadataColumn>,
    pub(crate) prefix: String,
    pub(crate) batch_rows: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) batch_memory: usize,
    pub(crate) table: Option<TableName>,
    pub(crate) schema: Option<SchemaRef>,
    /// Keys of the wanted columns. `None` for all columns.
    pub(crate) columns: Option<Vec<String>>,
    pub(crate) side_tables: Vec<SideTable>,
    pub(crate) envelope: bool,
    pub(crate) start: Lsn,
    pub(crate) late_start: bool,
    pub(crate) unfinished: OnUnfinished,
    pub(crate) missing_table: OnMissingTable,
    /// `None` for the default spool, if the feature `file-spool` is on.
    pub(crate) spool: Option<Arc<dyn Spool>>,
    pub(crate) spool_memory: usize,
    pub(crate) message_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            framing: Framing::Wire,
            profile: Profile::Arrow,
            types: HashMap::new(),
            unrepresentable: OnUnrepresentable::Error,
            column_unrepresentable: HashMap::new(),
            catalog: Arc::new(Catalog::default()),
            session: SessionSettings::default(),
            trim_bpchar: false,
            metadata: MetadataColumn::ALL.to_vec(),
            prefix: "_".to_owned(),
            batch_rows: 16_384,
            batch_bytes: 32 << 20,
            batch_memory: 128 << 20,
            table: None,
            schema: None,
            columns: None,
            side_tables: Vec::new(),
            envelope: false,
            start: Lsn::INVALID,
            late_start: false,
            unfinished: OnUnfinished::Error,
            missing_table: OnMissingTable::Error,
            spool: None,
            spool_memory: 64 << 20,
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
