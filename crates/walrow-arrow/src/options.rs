//! How a decoder is set up.

use crate::decoder::Decoder;
use crate::error::{Error, ErrorKind};
use crate::layout::Layout;
use crate::metadata::MetadataColumn;
use crate::resolve;
use arrow_schema::{DataType, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Relation};
use walrow_wire::Framing;

/// Which Arrow types columns get where several could hold them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Profile {
    /// Native types: the closest that Arrow has.
    #[default]
    Arrow,
    /// Only types that every supported Spark and table format takes.
    Spark,
    /// Every column utf8, exactly as PostgreSQL's output function writes it.
    Text,
}

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
    pub(crate) metadata: Vec<MetadataColumn>,
    pub(crate) prefix: String,
    pub(crate) batch_rows: usize,
    pub(crate) batch_bytes: usize,
    pub(crate) batch_memory: usize,
    pub(crate) table: Option<TableName>,
    pub(crate) schema: Option<SchemaRef>,
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
            metadata: MetadataColumn::ALL.to_vec(),
            prefix: "_".to_owned(),
            batch_rows: 16_384,
            batch_bytes: 32 << 20,
            batch_memory: 128 << 20,
            table: None,
            schema: None,
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
    /// type by its name in `pg_type` (`numeric`, `_int4`); the longest key that fits wins.
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

    /// What becomes of them in one column, by a key as of [`DecoderBuilder::with_type`].
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

    /// After how many bytes of values a batch is full; one row may go past it.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.batch_bytes = bytes;
        self
    }

    /// How many bytes all tables' unfinished batches hold before the fullest is handed out.
    #[must_use]
    pub fn with_batch_memory(mut self, bytes: usize) -> Self {
        self.batch_memory = bytes;
        self
    }

    /// Decodes one table only, all batches under one schema.
    ///
    /// Without [`DecoderBuilder::with_schema`] a change of its columns is an error.
    #[must_use]
    pub fn with_table(mut self, table: TableName) -> Self {
        self.table = Some(table);
        self
    }

    /// Projects every version of the table onto this schema's columns, by name.
    ///
    /// Columns that a version lacks are null and listed in `_unsent`. Metadata columns that the
    /// schema names, with their prefix, are filled; others are left out.
    #[must_use]
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.schema = Some(schema);
        self
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// Options that contradict each other or name what there is not; a type that the PostgreSQL
    /// type it is for cannot become.
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
            return Err(schema_error(format!(
                "{}.{} and {}.{} are both meant; name one with its schema, as a pair",
                table.schema, table.name, other.schema, other.name
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
        if self.schema.is_some() && self.table.is_none() {
            return Err(options("a schema is for one table: say which"));
        }
        let sentinel = |policy: &OnUnrepresentable| *policy == OnUnrepresentable::Sentinel;
        if self.profile == Profile::Spark
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
