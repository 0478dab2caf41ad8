//! Sets up a decoder.

use crate::decoder::Decoder;
use crate::envelope;
use crate::error::{Error, ErrorKind, SchemaError};
use crate::layout::Template;
use crate::metadata::MetadataColumn;
use crate::options::{OnGap, OnMissingTable, OnUnfinished, OnUnrepresentable, Options};
use crate::profile::Profile;
use crate::table_name::TableName;
use arrow_schema::{DataType, SchemaRef};
use std::sync::Arc;
use walrow_stream::{Catalog, Encoding, End, Relation, Spool};
use walrow_wire::{Framing, Lsn};

/// Sets up a [`Decoder`].
///
/// ```
/// use walrow_arrow::{DecoderBuilder, Profile};
/// let decoder = DecoderBuilder::new().with_profile(Profile::Spark).with_batch_rows(10_000).build()?;
/// # Ok::<(), walrow_arrow::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DecoderBuilder {
    options: Options,
}

impl DecoderBuilder {
    /// Creates a builder with the defaults: wire framing, Arrow profile, all metadata columns,
    /// errors for values that Arrow cannot hold, batches of up to 16,384 rows or 32 MiB, and
    /// 128 MiB for the unfinished batches of all tables. With the feature `file-spool`, open
    /// transactions beyond 64 MiB wait in a file in the system's directory for temporary files.
    pub fn new() -> Self {
        Self::default()
    }

    /// The framing of the input: the bytes of a connection or of a file of `pg_recvlogical`
    /// ([`Decoder::decode`]), or chunks ([`Decoder::decode_chunk`]).
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.options.framing = framing;
        self
    }

    /// The set of Arrow types that columns can have.
    #[must_use]
    pub fn with_profile(mut self, profile: Profile) -> Self {
        self.options.profile = profile;
        self
    }

    /// Chooses the Arrow type of a column, or of all columns of a PostgreSQL type.
    ///
    /// `key` is a column (`total`, `orders.total`, `public.orders.total`) or the name of a type in
    /// `pg_type` (`numeric`, `_int4`). The longest key that matches wins. A key such as `date` can
    /// be both: it means the column in tables that have a column of this name, and the type in
    /// other tables.
    ///
    /// [`DecoderBuilder::build`] rejects an Arrow type that the PostgreSQL type cannot become. It
    /// checks built-in types, types of extensions, and the catalog's types and columns. So name a
    /// column with its table if a type has the same name. Other columns are checked when they
    /// appear in the stream: the error is [`ErrorKind::Options`] if the key names a type, and
    /// [`ErrorKind::Schema`] if it names a column.
    ///
    /// Values never change, except that `numeric` as `Float64` is rounded to the nearest value. A
    /// `time` can have microseconds or nanoseconds, but in the Spark profile only nanoseconds.
    #[must_use]
    pub fn with_type(mut self, key: impl Into<String>, data_type: DataType) -> Self {
        self.options.types.insert(key.into(), data_type);
        self
    }

    /// The policy for values that their Arrow type cannot hold.
    #[must_use]
    pub fn with_unrepresentable(mut self, policy: OnUnrepresentable) -> Self {
        self.options.unrepresentable = policy;
        self
    }

    /// The policy for one column or one PostgreSQL type, with a key as in
    /// [`DecoderBuilder::with_type`].
    #[must_use]
    pub fn with_column_unrepresentable(
        mut self,
        key: impl Into<String>,
        policy: OnUnrepresentable,
    ) -> Self {
        self.options
            .column_unrepresentable
            .insert(key.into(), policy);
        self
    }

    /// The columns of one table whose values identify a row.
    ///
    /// Different keys stay different: values that Arrow cannot hold are errors, whatever the policy, as
    /// are Arrow types that round ([`SchemaError::KeyType`](crate::SchemaError)).
    #[must_use]
    pub fn with_keys(mut self, columns: impl Into<Arc<[String]>>) -> Self {
        self.options.keys = columns.into();
        self
    }

    /// The definitions of user-defined types.
    #[must_use]
    pub fn with_catalog(mut self, catalog: Arc<Catalog>) -> Self {
        self.options.catalog = catalog;
        self
    }

    /// The `client_encoding` of sessions that do not report theirs. Default: UTF-8.
    #[must_use]
    pub fn with_encoding(mut self, encoding: Encoding) -> Self {
        self.options.encoding = encoding;
        self
    }

    /// Removes the trailing blanks of `character(n)`, except inside a longer text: the text profile,
    /// and arrays as strings.
    #[must_use]
    pub fn with_trim_bpchar(mut self, trim: bool) -> Self {
        self.options.trim_bpchar = trim;
        self
    }

    /// The metadata columns that follow the table's own columns, in this order. Default:
    /// [`MetadataColumn::defaults`].
    #[must_use]
    pub fn with_metadata(mut self, columns: impl Into<Vec<MetadataColumn>>) -> Self {
        self.options.metadata = columns.into();
        self
    }

    /// The prefix of the metadata columns' names. Default: `_`.
    #[must_use]
    pub fn with_metadata_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.options.prefix = prefix.into();
        self
    }

    /// The maximum number of rows in a batch. The two images of an update are never split.
    #[must_use]
    pub fn with_batch_rows(mut self, rows: usize) -> Self {
        self.options.batch_rows = rows;
        self
    }

    /// The number of bytes of values after which a batch is full. At most 512 MiB.
    #[must_use]
    pub fn with_batch_bytes(mut self, bytes: usize) -> Self {
        self.options.batch_bytes = bytes;
        self
    }

    /// The number of bytes that the unfinished batches of all tables may take together. Beyond it,
    /// the fullest batch is returned.
    ///
    /// This includes the memory of empty builders, which wide tables have. It is an estimate.
    #[must_use]
    pub fn with_batch_memory(mut self, bytes: usize) -> Self {
        self.options.batch_memory = bytes;
        self
    }

    /// Decodes one table only: `"public.orders"`, `"orders"` or `("public", "orders")`. All batches
    /// have one schema.
    ///
    /// Without [`DecoderBuilder::with_schema`], this is the schema of the first version, and a
    /// change of the names or Arrow types of columns is an error. For several tables, see
    /// [`DecoderBuilder::with_tables`].
    #[must_use]
    pub fn with_table(mut self, table: impl Into<TableName>) -> Self {
        self.options.tables = self.options.tables.with_one(table.into());
        self
    }

    /// Decodes only these tables, each as in [`DecoderBuilder::with_table`]. Each batch has the
    /// schema of its table's version.
    ///
    /// A [side table](crate::SideTable) is chosen by its name: `walrow.transactions`. A table that
    /// two of the names match is decoded once. [`DecoderBuilder::build`] rejects an empty list, and
    /// a name that is in it twice.
    #[must_use]
    pub fn with_tables<T: Into<TableName>>(mut self, tables: impl IntoIterator<Item = T>) -> Self {
        let tables = tables.into_iter().map(Into::into).collect();
        self.options.tables = self.options.tables.with_several(tables);
        self
    }

    /// Projects every version of the table onto the columns of this schema, by name.
    ///
    /// Columns that a version lacks are null and listed in `_unsent`, so only metadata columns may
    /// be declared not nullable. A version with a column that the schema lacks is an error, unless
    /// [`DecoderBuilder::with_columns`] leaves it out. The batches have the metadata columns whose
    /// names, with the prefix, are in the schema. [`DecoderBuilder::build_schema_union`] finds a
    /// schema for all versions.
    #[must_use]
    pub fn with_schema(mut self, schema: SchemaRef) -> Self {
        self.options.schema = Some(schema);
        self
    }

    /// Decodes only these columns, and leaves all others out: `total`, `orders.total` or
    /// `public.orders.total`. Batches have them in the order of the table, and then the metadata
    /// columns.
    ///
    /// With [`DecoderBuilder::with_schema`], these must be the schema's columns.
    #[must_use]
    pub fn with_columns<T: Into<String>>(mut self, columns: impl IntoIterator<Item = T>) -> Self {
        let columns = columns.into_iter().map(Into::into);
        self.options.columns = Some(columns.collect());
        self
    }

    /// Returns all tables, or the chosen ones, under one schema: `schema_name`, `table_name`, then
    /// `key` and `data` as maps of column names to PostgreSQL's text, then the metadata columns.
    #[must_use]
    pub fn with_envelope(mut self, envelope: bool) -> Self {
        self.options.envelope = envelope;
        self
    }

    /// Skips transactions that were already returned: those that end at or before this LSN.
    #[must_use]
    pub fn with_start(mut self, lsn: Lsn) -> Self {
        self.options.start = lsn;
        self
    }

    /// Stops after the last transaction that ends at or before an LSN, or before the first one that
    /// was committed after a time. With the LSN as the next decoder's
    /// [`DecoderBuilder::with_start`], that one continues.
    #[must_use]
    pub fn with_end(mut self, end: End) -> Self {
        self.options.end = Some(end);
        self
    }

    /// Skips transactions whose beginning is before the stream. Otherwise they are errors.
    #[must_use]
    pub fn with_late_start(mut self, late: bool) -> Self {
        self.options.late_start = late;
        self
    }

    /// The policy for a stream that does not end at the end of a transaction:
    /// [`Decoder::finish`] and [`Reader`](crate::Reader) return an error, or ignore it.
    #[must_use]
    pub fn with_unfinished(mut self, policy: OnUnfinished) -> Self {
        self.options.unfinished = policy;
        self
    }

    /// The policy for a gap of a log between [`DecoderBuilder::with_start`] and
    /// [`DecoderBuilder::with_end`]: the server did not send the changes there.
    #[must_use]
    pub fn with_gaps(mut self, policy: OnGap) -> Self {
        self.options.gaps = policy;
        self
    }

    /// The policy for chosen tables that the stream does not contain: [`Decoder::finish`] and
    /// [`Reader`](crate::Reader) return an error, or there are no rows. With
    /// [`DecoderBuilder::with_start`], they may always be missing: they may have no new changes.
    #[must_use]
    pub fn with_missing_table(mut self, policy: OnMissingTable) -> Self {
        self.options.missing_table = policy;
        self
    }

    /// The spool for open transactions beyond [`DecoderBuilder::with_spool_memory`]. Default: with
    /// the feature `file-spool`, a file in the system's directory for temporary files.
    #[must_use]
    pub fn with_spool(mut self, spool: Arc<dyn Spool>) -> Self {
        self.options.spool = Some(spool);
        self
    }

    /// The number of bytes of memory that open and prepared transactions may take together.
    /// Default: 64 MiB. Beyond it, they wait in the spool. Without a spool, this is an error.
    #[must_use]
    pub fn with_spool_memory(mut self, bytes: usize) -> Self {
        self.options.spool_memory = bytes;
        self
    }

    /// The maximum size of a message, in bytes. Default: 1 GiB, which PostgreSQL never exceeds.
    #[must_use]
    pub fn with_message_limit(mut self, bytes: usize) -> Self {
        self.options.message_limit = bytes;
        self
    }

    /// Whether all batches have one schema: with one table, or with the envelope and without side
    /// tables.
    pub fn has_one_schema(&self) -> bool {
        let tables = &self.options.tables;
        tables.one().is_some() || (self.options.envelope && !tables.has_side_tables())
    }

    /// Builds the decoder.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] if options are invalid or contradict each other.
    pub fn build(self) -> Result<Decoder, Error> {
        let template = self.checked()?;
        Ok(Decoder::new(&self.options, template))
    }

    /// Checks the options, and returns them with those that layouts depend on.
    pub(crate) fn into_parts(self) -> Result<(Options, Template), Error> {
        let template = self.checked()?;
        Ok((self.options, template))
    }

    /// The schema of a table's batches under these options. The catalog must contain the table.
    ///
    /// The schema's metadata lacks `pg.replica_identity`, which only the stream contains.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] if the catalog does not contain the table, or contains several of that
    /// name.
    /// [`ErrorKind::Options`] as in [`DecoderBuilder::build`].
    pub fn schema_of(&self, name: &TableName) -> Result<SchemaRef, Error> {
        let mut template = self.checked()?;
        if let Some(side) = name.side_table() {
            return Ok(side.schema(self.options.profile));
        }
        if self.options.envelope {
            return Ok(envelope::schema(&self.options));
        }
        let schema_error = |error| Error::new(ErrorKind::Schema(error));
        let mut found = self
            .options
            .catalog
            .tables
            .iter()
            .filter(|table| name.matches(table.oid, &table.schema, &table.name));
        let Some(table) = found.next() else {
            let table = name.to_string();
            return Err(schema_error(SchemaError::NotInCatalog { table }));
        };
        if let Some(other) = found.next() {
            return Err(schema_error(SchemaError::ambiguous(
                (&table.schema, &table.name),
                (&other.schema, &other.name),
            )));
        }
        let mut schema = Arc::unwrap_or_clone(template.layout(&Relation::from(table))?.schema);
        schema.metadata.remove("pg.replica_identity");
        Ok(Arc::new(schema))
    }

    /// Checks the options, and returns those that layouts depend on.
    fn checked(&self) -> Result<Template, Error> {
        self.options.check()?;
        let template = Template::new(&self.options);
        template.resolver().check()?;
        Ok(template)
    }
}
