//! How a decoder is set up.

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

/// What becomes of a value that the column's Arrow type cannot hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnUnrepresentable {
    /// Decoding stops before it.
    #[default]
    Error,
    /// It becomes null, and is counted.
    Null,
    /// An infinite date or timestamp becomes the largest or, negated, smallest value; anything
    /// else is an error.
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
    /// Whether the table `namespace.name` is meant.
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

/// Past this, two values of PostgreSQL's largest size would not fit a column's 2 GiB.
const MAX_BATCH_BYTES: usize = 1 << 29;

impl DecoderBuilder {
    /// The defaults: wire framing, Arrow profile, all metadata columns, errors on values that
    /// Arrow cannot hold, batches of up to 16,384 rows or 32 MiB, 128 MiB over all tables.
    pub fn new() -> Self {
        Self::default()
    }

    /// How the stream is handed over.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }

    /// Which Arrow types columns get.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.profile = profile;
        self
    }

    /// Gives columns another Arrow type than the profile does.
    ///
    /// `key` is a column (`total`, `orders.total`, `public.orders.total`) or else a PostgreSQL
    /// type by its name in `pg_type` (`numeric`, `_int4`); the longest key that fits wins. A key
    /// that is both, such as `date`, means a column of that name where a table has one, and the
    /// type of all other columns; what the type cannot become is refused by
    /// [`DecoderBuilder::build`], so such a column is named with its table. So is what a type of an
    /// extension or of the catalog cannot become, and a column of the catalog that is named with
    /// its table. What else cannot be is told when a column comes: [`ErrorKind::Options`] where
    /// the key names its type, [`ErrorKind::Schema`] where it names the column.
    ///
    /// Values are never changed, but for `numeric` as `Float64`, which rounds to the nearest. A
    /// `time` of 64 bits has microseconds or nanoseconds; of the Spark profile only the latter.
    #[must_use]
    pub fn with_type(mut self, key: impl Into<String>, data_type: DataType) -> Self {
        self.types.insert(key.into(), data_type);
        self
    }

    /// What becomes of values that Arrow cannot hold.
    #[must_use]
    pub fn with_unrepresentable(mut self, policy: OnUnrepresentable) -> Self {
        self.unrepresentable = policy;
        self
    }

    /// What becomes of them in one column or of one PostgreSQL type, by a key as of
    /// [`DecoderBuilder::with_type`].
    #[must_use]
    pub fn with_column_unrepresentable(
        mut self,
        key: impl Into<String>,
        policy: OnUnrepresentable,
    ) -> Self {
        self.column_unrepresentable.insert(key.into(), policy);
        self
    }

    /// What is known of user-defined types.
    #[must_use]
    pub fn with_catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.catalog = catalog;
        self
    }

    /// The settings that the stream was written under, if not those that walrow pins.
    #[must_use]
    pub fn with_session(mut self, session: SessionSettings) -> Self {
        self.session = session;
        self
    }

    /// Leaves out the blanks that `character(n)` is filled up with, but in the text profile.
    #[must_use]
    pub fn with_trim_bpchar(mut self, trim: bool) -> Self {
        self.trim_bpchar = trim;
        self
    }

    /// Which metadata columns follow a table's own, in this order.
    #[must_use]
    pub fn with_metadata(mut self, columns: impl Into<Vec<MetadataColumn>>) -> Self {
        self.metadata = columns.into();
        self
    }

    /// What metadata columns' names begin with, `_` by default.
    #[must_use]
    pub fn with_metadata_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// How many rows a batch has at most.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.batch_rows = rows;
        self
    }

    /// After how many bytes of rows a batch is full; one row may go past it.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// How many bytes all tables' unfinished batches hold before the fullest are handed out.
    ///
    /// It counts the memory that builders take, empty ones of wide tables too, as near as can be
    /// told without looking at each.
    #[must_use]
    pub fn with_batch_memory(mut self, bytes: usize) -> Self {
        self.batch_memory = bytes;
        self
    }

    /// Decodes one table only, all batches under one schema.
    ///
    /// Without [`DecoderBuilder::with_schema`] a change of its columns' names or Arrow types is an
    /// error; batches have the first version's schema.
    #[must_use]
    pub fn with_table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// Projects every version of the table onto this schema's columns, by name.
    ///
    /// Columns that a version lacks are null and listed in `_unsent`, so that only metadata columns
    /// may be declared never null. Metadata columns that the
    /// schema names, with their prefix, are filled; others are left out.
    #[must_use]
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Hands out batches of these side tables along with the others.
    ///
    /// One of them alone is [`DecoderBuilder::with_table`] of its name, `walrow.transactions`.
    #[must_use]
    pub fn with_side_tables(mut self, tables: impl Into<Vec<SideTable>>) -> Self {
        self.side_tables = tables.into();
        self
    }

    /// Gives all tables' changes one schema: schema and table name, `key` and `data` as maps of
    /// column names to PostgreSQL's own text, then the metadata columns.
    #[must_use]
    pub fn with_envelope(mut self, envelope: bool) -> Self {
        self.envelope = envelope;
        self
    }

    /// Leaves out what was delivered before: transactions that end at this LSN or before it.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.start = lsn;
        self
    }

    /// Says that the stream begins late: transactions whose begin it lacks are left out, where
    /// they are errors otherwise.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.late_start = late;
        self
    }

    /// Where open transactions go that have no place in memory.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.spool = Some(spool);
        self
    }

    /// How many bytes of memory open and prepared transactions take, 64 MiB by default. More of
    /// them is an error without [`DecoderBuilder::with_spool`].
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.spool_memory = bytes;
        self
    }

    /// The largest message that is taken, in bytes; 1 GiB by default, which PostgreSQL never
    /// passes. A larger one is an error.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.message_limit = bytes;
        self
    }

    /// Whether all batches have one schema: those of one table or of the envelope, with no side
    /// tables' among them.
    pub fn has_one_schema(&self) -> bool {
        let chosen = self.table.as_ref().and_then(TableName::side_table);
        let others = self.side_tables.iter().any(|side| Some(*side) != chosen);
        (self.table.is_some() || self.envelope) && !others
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// Options that contradict each other or name what there is not; a type that no column can
    /// become, or none that its key names, or that the profile does not have.
    pub fn build(self) -> Result<Decoder, Error> {
        self.check()?;
        Ok(Decoder::new(self))
    }

    /// The schema that a table of the catalog has under these options.
    ///
    /// Its fields are those of the batches that a decoder makes of the table. Of its metadata it
    /// lacks `pg.replica_identity`, which catalogs do not hold.
    ///
    /// # Errors
    /// No such table in the catalog, or several; options that its columns cannot follow.
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
