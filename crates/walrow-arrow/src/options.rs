//! The options of a decoder.

use crate::decoder::Decoder;
use crate::envelope;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::metadata::MetadataColumn;
use crate::profile::Profile;
use crate::resolve;
use crate::side::SideTable;
use crate::tables::both_meant;
use arrow_schema::{DataType, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Relation, Spool};
use walrow_types::SessionSettings;
use walrow_wire::{Framing, Lsn};

/// The policy for values that their column's Arrow type cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnrepresentable {
    /// The value is an error.
    #[default]
    Error,
    /// The value becomes null, and [`crate::Batch::nulled`] counts it.
    Null,
    /// Infinite dates and timestamps become the largest or smallest ones. Other values are errors.
    Sentinel,
}

/// One table of a stream.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableName {
    /// Schema and name.
    Qualified(String, String),
    /// `schema.name`, or a name that is unique without its schema.
    Text(String),
}

impl TableName {
    /// Whether this is the name of the table `namespace.name`.
    pub fn matches(&self, namespace: &str, name: &str) -> bool {
        match self {
            Self::Qualified(schema, table) => schema == namespace && table == name,
            Self::Text(text) => {
                text == name
                    || text
                        .strip_prefix(namespace)
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|rest| rest == name)
            }
        }
    }
}

impl TableName {
    /// The side table that is meant: `walrow.transactions`.
    pub(crate) fn side_table(&self) -> Option<SideTable> {
        let name = match self {
            Self::Qualified(schema, name) if schema == SideTable::SCHEMA => name,
            Self::Qualified(..) => return None,
            Self::Text(text) => text.strip_prefix(SideTable::SCHEMA)?.strip_prefix('.')?,
        };
        SideTable::ALL
            .into_iter()
            .find(|table| table.name() == name)
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Qualified(schema, name) => write!(f, "{schema}.{name}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl From<&str> for TableName {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for TableName {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<(&str, &str)> for TableName {
    fn from((schema, name): (&str, &str)) -> Self {
        Self::Qualified(schema.to_owned(), name.to_owned())
    }
}

impl From<(String, String)> for TableName {
    fn from((schema, name): (String, String)) -> Self {
        Self::Qualified(schema, name)
    }
}

/// Sets up a [`Decoder`].
///
/// ```
/// use walrow_arrow::{DecoderBuilder, Profile};
/// let decoder = DecoderBuilder::new().with_profile(Profile::Spark).with_batch_rows(10_000).build()?;
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct DecoderBuilder {
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
    pub(crate) side_tables: Vec<SideTable>,
    pub(crate) envelope: bool,
    pub(crate) start: Lsn,
    pub(crate) late_start: bool,
    /// None for the default, if there is one.
    pub(crate) spool: Option<Arc<dyn Spool>>,
    pub(crate) spool_memory: usize,
    pub(crate) message_limit: usize,
}

impl Default for DecoderBuilder {
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
            side_tables: Vec::new(),
            envelope: false,
            start: Lsn::INVALID,
            late_start: false,
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

/// Past this, two values of PostgreSQL's largest size would not fit a column's 2 GiB.
const MAX_BATCH_BYTES: usize = 1 << 29;

impl DecoderBuilder {
    /// Creates a builder with the defaults: wire framing, Arrow profile, all metadata columns, errors
    /// for values that Arrow cannot hold, batches of up to 16,384 rows or 32 MiB, and 128 MiB for the
    /// unfinished batches of all tables. With the feature `file-spool`, open transactions beyond 64 MiB
    /// wait in a file in the system's directory for temporary files.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the stream is passed: as the bytes of a connection ([`Decoder::decode`]), or in chunks
    /// ([`Decoder::decode_chunk`]).
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// The Arrow types of columns.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Chooses the Arrow type of a column, or of all columns of a PostgreSQL type.
    ///
    /// `key` is a column (`total`, `orders.total`, `public.orders.total`) or the name of a type in
    /// `pg_type` (`numeric`, `_int4`). The longest key that matches wins. A key such as `date` can be
    /// both: it then means the column in tables that have one of this name, and the type elsewhere.
    ///
    /// [`DecoderBuilder::build`] refuses a type that the PostgreSQL type cannot become, for built-in
    /// types, extensions' types and the catalog's types and columns. So name a column with its table if
    /// its name is also a type's. Other columns are checked when they appear in the stream:
    /// [`ErrorKind::Options`] if the key names a type, [`ErrorKind::Schema`] if it names a column.
    ///
    /// Values never change, except `numeric` as `Float64`, which is rounded to the nearest. A `time`
    /// can have microseconds or nanoseconds, and in the Spark profile only nanoseconds.
    #[must_use]
    pub fn with_type(mut self, key: impl Into<String>, data_type: DataType) -> Self {
        self.types.insert(key.into(), data_type);
        self
    }

    /// The policy for values that their Arrow type cannot hold.
    #[must_use]
    pub fn with_unrepresentable(mut self, policy: OnUnrepresentable) -> Self {
        self.unrepresentable = policy;
        self
    }

    /// The policy for one column or one PostgreSQL type, with a key as in [`DecoderBuilder::with_type`].
    #[must_use]
    pub fn with_column_unrepresentable(
        mut self,
        key: impl Into<String>,
        policy: OnUnrepresentable,
    ) -> Self {
        self.column_unrepresentable.insert(key.into(), policy);
        self
    }

    /// The definitions of user-defined types.
    #[must_use]
    pub fn with_catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = catalog;
        self
    }

    /// The settings of the session that wrote the stream. Default: those that walrow pins.
    #[must_use]
    pub fn with_session(mut self, session: SessionSettings) -> Self {
        self.session = session;
        self
    }

    /// Removes the trailing blanks of `character(n)`, except in the text profile.
    #[must_use]
    pub fn with_trim_bpchar(mut self, trim: bool) -> Self {
        self.trim_bpchar = trim;
        self
    }

    /// The metadata columns that follow the table's own columns, in this order. Default: all.
    #[must_use]
    pub fn with_metadata(mut self, columns: impl Into<Vec<MetadataColumn>>) -> Self {
        self.metadata = columns.into();
        self
    }

    /// The prefix of the metadata columns' names. Default: `_`.
    #[must_use]
    pub fn with_metadata_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// The maximum number of rows in a batch. The two images of an update are never split.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// The number of bytes of values after which a batch is full. At most 512 MiB.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// The number of bytes that the unfinished batches of all tables may take together. Beyond it, the
    /// fullest batch is returned.
    ///
    /// This includes the memory of empty builders, which wide tables have. It is an estimate.
    #[must_use]
    pub fn with_batch_memory(mut self, bytes: usize) -> Self {
        self.batch_memory = bytes;
        self
    }

    /// Decodes one table only: `"public.orders"`, `"orders"` or `("public", "orders")`. All batches have
    /// one schema.
    ///
    /// Without [`DecoderBuilder::with_schema`], this is the schema of the first version, and a change
    /// of the names or Arrow types of columns is an error.
    #[must_use]
    pub fn with_table(mut self, table: impl Into<TableName>) -> Self {
        self.table = Some(table.into());
        self
    }

    /// Projects every version of the table onto the columns of this schema, by name.
    ///
    /// Columns that a version lacks are null and listed in `_unsent`, so only metadata columns may be
    /// declared not nullable. The batches have the metadata columns that the schema names, with their
    /// prefix.
    #[must_use]
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Returns batches of these side tables with the others.
    ///
    /// For a single side table, use [`DecoderBuilder::with_table`] with its name:
    /// `walrow.transactions`.
    #[must_use]
    pub fn with_side_tables(mut self, tables: impl Into<Vec<SideTable>>) -> Self {
        self.side_tables = tables.into();
        self
    }

    /// Returns all tables, or the chosen table, under one schema: `schema_name`, `table_name`, `key` and
    /// `data` as maps of column names to PostgreSQL's own text, then the metadata columns.
    #[must_use]
    pub fn with_envelope(mut self, envelope: bool) -> Self {
        self.envelope = envelope;
        self
    }

    /// Skips what was delivered before: transactions that end at or before this LSN.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.start = lsn;
        self
    }

    /// Skips transactions whose beginning is before the stream. Otherwise they are errors.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.late_start = late;
        self
    }

    /// Where open transactions beyond [`DecoderBuilder::with_spool_memory`] wait. Default: with the
    /// feature `file-spool`, a file in the system's directory for temporary files.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.spool = Some(spool);
        self
    }

    /// The number of bytes of memory that open and prepared transactions take together. Default:
    /// 64 MiB. Beyond it, they wait in the spool. Without a spool, this is an error.
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.spool_memory = bytes;
        self
    }

    /// The maximum size of a message, in bytes. Default: 1 GiB, which PostgreSQL never exceeds.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// Whether all batches have one schema: with one table or the envelope, and without side tables.
    pub fn has_one_schema(&self) -> bool {
        let chosen = self.table.as_ref().and_then(TableName::side_table);
        let others = self.side_tables.iter().any(|side| Some(*side) != chosen);
        (self.table.is_some() || self.envelope) && !others
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if options are invalid or contradict each other.
    pub fn build(self) -> Result<Decoder, Error> {
        self.check()?;
        Ok(Decoder::new(self))
    }

    /// The schema of a table's batches under these options, from a table in the catalog.
    ///
    /// Its metadata lacks only `pg.replica_identity`, which only the stream contains.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] if the catalog does not contain the table, or has several of that name.
    /// [`ErrorKind::Options`] as in [`DecoderBuilder::build`].
    pub fn schema_of(&self, name: &TableName) -> Result<SchemaRef, Error> {
        self.check()?;
        if let Some(side) = name.side_table() {
            return Ok(side.schema(self.profile));
        }
        if self.envelope {
            return Ok(envelope::schema(self));
        }
        let schema_error = |text: String| Error::new(ErrorKind::Schema(text));
        let mut found = self
            .catalog
            .tables
            .iter()
            .filter(|table| name.matches(&table.schema, &table.name));
        let Some(table) = found.next() else {
            return Err(schema_error(format!("no table {name} in the catalog")));
        };
        if let Some(other) = found.next() {
            return Err(schema_error(both_meant(
                (&table.schema, &table.name),
                (&other.schema, &other.name),
            )));
        }
        let mut schema = Arc::unwrap_or_clone(Layout::new(self, &Relation::from(table))?.schema);
        schema.metadata.remove("pg.replica_identity");
        Ok(Arc::new(schema))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.batch_rows == 0 || self.batch_rows > i32::MAX.unsigned_abs() as usize {
            return Err(options("batch_rows must be from 1 to 2147483647"));
        }
        if self.batch_bytes == 0 || self.batch_bytes > MAX_BATCH_BYTES {
            return Err(options("batch_bytes must be from 1 to 536870912 (512 MiB)"));
        }
        if self.batch_memory == 0 {
            return Err(options("batch_memory must be at least 1"));
        }
        for (index, column) in self.metadata.iter().enumerate() {
            if self
                .metadata
                .iter()
                .skip(index.saturating_add(1))
                .any(|other| other == column)
            {
                let name = column.name();
                return Err(options(&format!("metadata column {name} is chosen twice")));
            }
        }
        if self.prefix.contains('\0') {
            return Err(options("metadata_prefix has a zero byte"));
        }
        if self.message_limit == 0 {
            return Err(options("message_limit must be at least 1"));
        }
        for (index, table) in self.side_tables.iter().enumerate() {
            let rest = self.side_tables.get(index.saturating_add(1)..);
            if rest.is_some_and(|rest| rest.contains(table)) {
                let name = table.name();
                return Err(options(&format!("side table {name} is chosen twice")));
            }
        }
        let side = self.table.as_ref().and_then(TableName::side_table);
        if self.envelope && !self.types.is_empty() {
            return Err(options("an envelope holds text: types= is not for it"));
        }
        if self.schema.is_some() && (self.envelope || side.is_some()) {
            let text = "envelopes and side tables have a schema of their own";
            return Err(options(text));
        }
        if side.is_some() && (self.envelope || !self.side_tables.is_empty()) {
            let text = "one side table alone is table=, several are side_tables=, without an \
                        envelope";
            return Err(options(text));
        }
        if self.schema.is_some() && self.table.is_none() {
            return Err(options("a schema is for one table: say which"));
        }
        let sentinel = |policy: &OnUnrepresentable| *policy == OnUnrepresentable::Sentinel;
        if !self.profile.has_sentinels()
            && (sentinel(&self.unrepresentable)
                || self.column_unrepresentable.values().any(sentinel))
        {
            return Err(options(
                "unrepresentable \"sentinel\" is not for the spark profile: Spark knows no \
                 infinite dates; choose \"null\" or a string type",
            ));
        }
        resolve::check_types(self)
    }

    /// The longest of the keys that name this column.
    pub(crate) fn for_column<'a, T>(
        map: &'a HashMap<String, T>,
        relation: &Relation,
        column: &str,
    ) -> Option<&'a T> {
        if map.is_empty() {
            return None;
        }
        let Relation {
            namespace, name, ..
        } = relation;
        map.get(&format!("{namespace}.{name}.{column}"))
            .or_else(|| map.get(&format!("{name}.{column}")))
            .or_else(|| map.get(column))
    }
}

fn options(text: &str) -> Error {
    Error::new(ErrorKind::Options(text.to_owned()))
}
