//! One schema for all versions of a table.

use crate::builder::DecoderBuilder;
use crate::decoder;
use crate::envelope;
use crate::error::{DecoderOption, Error, ErrorKind, OptionsError, Remedy, SchemaError};
use crate::keys::Keys;
use crate::layout::{Layout, Source, Template};
use crate::options::{ChosenTables, OnUnfinished, Options};
use crate::table_name::TableName;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use walrow_stream::{Assembler, Catalog, Event, Fact, Relation};
use walrow_wire::{Framing, Lsn};

/// Finds one schema that holds every version of a table, in any number of catalogs and streams.
///
/// The schema has the columns of all versions, in the order in which they first appear, then the
/// metadata columns. A column with several types gets one that holds all of their values. Pass the
/// schema to [`DecoderBuilder::with_schema`] to decode the same streams.
///
/// ```
/// use walrow_arrow::DecoderBuilder;
/// use walrow_wire::Framing;
///
/// let captures: [(&str, &[u8]); 0] = []; // names and bytes
/// let mut union = DecoderBuilder::new().with_table("public.orders").build_schema_union()?;
/// for (name, bytes) in captures {
///     union.begin_stream(name, Framing::Wire);
///     union.decode(bytes)?;
///     union.finish_stream()?;
/// }
/// # let catalog = walrow_stream::Catalog::from_json(
/// #     r#"{"tables": [{"schema": "public", "name": "orders", "oid": 1, "columns": []}]}"#,
/// # )?;
/// # union.add_catalog(&catalog)?;
/// let schema = union.schema()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SchemaUnion {
    options: Options,
    template: Template,
    keys: Keys,
    /// Schema and name of the table, once it has appeared.
    table: Option<(Box<str>, Box<str>)>,
    versions: Vec<Version>,
    stream: Stream,
    has_stream: bool,
}

/// A version of the table.
#[derive(Debug)]
struct Version {
    relation: Arc<Relation>,
    layout: Layout,
    /// How many versions appeared before it. They are stored by their last appearance.
    number: usize,
    /// Where it comes from, for errors.
    origin: String,
}

/// The current stream.
#[derive(Debug)]
struct Stream {
    assembler: Assembler,
    name: String,
    server_error: Option<String>,
    /// The commit LSN of the current transaction.
    lsn: Lsn,
    has_table: bool,
}

impl Stream {
    fn new(options: &Options, name: &str, framing: Framing) -> Self {
        Self {
            assembler: decoder::assembler(options, framing),
            name: name.to_owned(),
            server_error: None,
            lsn: Lsn::INVALID,
            has_table: false,
        }
    }
}

impl DecoderBuilder {
    /// Builds a finder of one schema for all versions of the table, under these options.
    ///
    /// # Errors
    /// The errors of [`DecoderBuilder::build`], and [`ErrorKind::Options`] without one table or an
    /// envelope.
    pub fn build_schema_union(self) -> Result<SchemaUnion, Error> {
        let (options, template) = self.into_parts()?;
        let error = match options.tables {
            ChosenTables::Several(_) => Some(OptionsError::SchemaOfSeveral),
            ChosenTables::All if !options.envelope => Some(OptionsError::SchemaWithoutTable),
            _ => None,
        };
        if let Some(error) = error {
            return Err(Error::new(ErrorKind::Options(error)));
        }
        Ok(SchemaUnion {
            keys: Keys::new(&options, template.resolver()),
            stream: Stream::new(&options, "", options.framing),
            table: None,
            versions: Vec::new(),
            has_stream: false,
            options,
            template,
        })
    }
}

impl SchemaUnion {
    /// Adds the table's version in a catalog, if it contains the table. Types are those of
    /// [`DecoderBuilder::with_catalog`], which should be this catalog.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] if the catalog contains several tables of that name, or the table does
    /// not fit the options.
    pub fn add_catalog(&mut self, catalog: &Catalog) -> Result<(), Error> {
        for table in &catalog.tables {
            let relation = Arc::new(Relation::from(table));
            self.add(&relation, "the catalog".to_owned())?;
        }
        Ok(())
    }

    /// Begins another stream, with its framing. The name is for errors.
    pub fn begin_stream(&mut self, name: &str, framing: Framing) {
        self.stream = Stream::new(&self.options, name, framing);
        self.has_stream = true;
    }

    /// Decodes bytes of the current stream, cut anywhere. Rows are skipped.
    ///
    /// # Errors
    /// The bytes do not follow the protocol, or the table does not fit the options.
    pub fn decode(&mut self, input: &[u8]) -> Result<(), Error> {
        let mut rest = input;
        loop {
            let relation = match self
                .stream
                .assembler
                .next_with(&mut rest, |_| Ok::<_, ()>(()))?
            {
                None => return Ok(()),
                Some(Event::Begin(transaction)) => {
                    self.stream.lsn = transaction.commit_lsn;
                    continue;
                }
                Some(Event::Relation { relation, .. }) => Arc::clone(relation),
                Some(Event::Fact(fact)) => {
                    if let Fact::Catalog(catalog) = &*fact {
                        self.keys.learn(catalog);
                        self.template.learn(catalog);
                    }
                    continue;
                }
                Some(Event::SessionStart) => {
                    self.stream.server_error = None;
                    continue;
                }
                Some(Event::ServerError { sqlstate, .. }) => {
                    self.stream.server_error = Some(sqlstate.to_owned());
                    continue;
                }
                Some(_) => continue,
            };
            self.stream.assembler.leave_out(relation.version);
            let origin = format!("{}, lsn {}", self.stream.name, self.stream.lsn);
            self.add(&relation, origin)?;
        }
    }

    /// Ends the current stream.
    ///
    /// # Errors
    /// As [`Decoder::finish`](crate::Decoder::finish), if the stream is not complete: its rest may
    /// have more versions.
    pub fn finish_stream(&mut self) -> Result<(), Error> {
        let relations = self.stream.assembler.relations().map(Arc::clone);
        let mut relations: Vec<_> = relations.collect();
        relations.sort_unstable_by_key(|relation| relation.version);
        // The table may be described, but without rows. Relations before the start are only
        // known by name, if there are others.
        let is_whole = !self.options.start.is_valid() || self.versions.is_empty();
        let adds = is_whole && !self.stream.has_table;
        for relation in relations {
            if adds {
                self.add(&relation, self.stream.name.clone())?;
            } else {
                self.keys.see(&relation);
            }
        }
        if self.options.unfinished == OnUnfinished::Ignore {
            return Ok(());
        }
        let assembler = &self.stream.assembler;
        let server_error = self.stream.server_error.as_deref();
        match decoder::broken_off(assembler, server_error, assembler.is_mid_transaction()) {
            Some(error) => Err(error.at(assembler.offset(), Lsn::INVALID)),
            None => Ok(()),
        }
    }

    /// The schema of all versions so far.
    ///
    /// The schema's metadata lacks `pg.replica_identity`, which versions need not share.
    ///
    /// # Errors
    /// [`ErrorKind::Schema`] if there was no such table, if no type holds the values of all versions
    /// of a column, or if the key of an option names neither a column nor a type.
    pub fn schema(&self) -> Result<SchemaRef, Error> {
        let name = self.options.tables.one();
        if let Some(side) = name.and_then(TableName::side_table) {
            return Ok(side.schema(self.options.profile));
        }
        if self.options.envelope {
            return Ok(envelope::schema(&self.options));
        }
        let Some(last) = self.versions.last() else {
            return Err(match name {
                Some(name) if !self.has_stream => {
                    let table = name.to_string();
                    Error::new(ErrorKind::Schema(SchemaError::NotInCatalog { table }))
                }
                Some(name) => self.keys.missing(&[name]),
                None => Error::internal("no table was chosen"),
            });
        };
        self.keys.check()?;
        if let Some(schema) = &self.options.schema {
            return Ok(Arc::clone(schema));
        }
        let mut fields = self.columns()?;
        let metadata = last.layout.schema.fields().iter().zip(&last.layout.sources);
        let metadata = metadata.filter(|(_, source)| matches!(source, Source::Metadata(_)));
        for (field, _) in metadata {
            self.check_metadata_name(field, &fields)?;
            fields.push(Arc::clone(field));
        }
        let mut metadata = last.layout.schema.metadata().clone();
        metadata.remove("pg.replica_identity");
        Ok(Arc::new(Schema::new_with_metadata(fields, metadata)))
    }

    /// Adds a relation version if it is of the table and not known yet.
    fn add(&mut self, relation: &Arc<Relation>, origin: String) -> Result<(), Error> {
        self.keys.see(relation);
        let (namespace, table) = (&relation.namespace, &relation.name);
        let name = self.options.tables.one();
        if !name.is_some_and(|name| name.matches(relation.oid, namespace, table))
            || self.options.envelope
        {
            return Ok(());
        }
        match &self.table {
            Some((schema, other))
                if (schema, other) != (namespace, table)
                    && !matches!(name, Some(TableName::Oid(_))) =>
            {
                let name = other;
                let error = SchemaError::ambiguous((schema, name), (namespace, table));
                return Err(Error::new(ErrorKind::Schema(error)));
            }
            Some(_) => {}
            None => self.table = Some((namespace.clone(), table.clone())),
        }
        self.stream.has_table = true;
        let is_known = |version: &Version| version.relation.columns == relation.columns;
        if let Some(known) = self.versions.iter().position(is_known) {
            // The last version is the latest one.
            let version = self.versions.remove(known);
            self.versions.push(version);
            return Ok(());
        }
        let layout = self.template.layout(relation)?;
        self.versions.push(Version {
            relation: Arc::clone(relation),
            layout,
            number: self.versions.len(),
            origin,
        });
        Ok(())
    }

    /// The fields of all columns.
    fn columns(&self) -> Result<Vec<FieldRef>, Error> {
        let mut columns: HashMap<&str, Vec<(&Version, &FieldRef)>> = HashMap::new();
        for version in &self.versions {
            for (field, source) in version.fields() {
                if matches!(source, Source::Column(_)) {
                    columns
                        .entry(field.name())
                        .or_default()
                        .push((version, field));
                }
            }
        }
        let mut appeared: Vec<&Version> = self.versions.iter().collect();
        appeared.sort_unstable_by_key(|version| version.number);
        let fields = appeared.into_iter().flat_map(Version::fields);
        let names = fields.filter(|(_, source)| matches!(source, Source::Column(_)));
        let mut seen = HashSet::new();
        let names = names.map(|(field, _)| field.name().as_str());
        let names = names.filter(|name| seen.insert(*name));
        let fields = names.map(|name| {
            let versions = columns.get(name).map(Vec::as_slice).unwrap_or_default();
            self.column(name, versions)
        });
        fields.collect()
    }

    /// The field of a column that these versions have.
    fn column(&self, name: &str, versions: &[(&Version, &FieldRef)]) -> Result<FieldRef, Error> {
        let Some(((mut at, first), others)) = versions.split_first().map(|(it, rest)| (*it, rest))
        else {
            return Err(Error::internal("a column of no version"));
        };
        let mut data_type = first.data_type().clone();
        for (version, field) in others {
            let wider = wider(&data_type, field.data_type())
                .filter(|wider| self.template.resolver().profile.has(wider));
            let Some(wider) = wider else {
                let types = [&data_type, field.data_type()].map(DataType::clone);
                return Err(self.differ(name, [at, version], types));
            };
            data_type = wider;
            at = version;
        }
        // What the last version becomes, with its metadata.
        let mut latest = None;
        for (version, field) in versions {
            latest = Some(if *field.data_type() == data_type {
                Arc::clone(field)
            } else {
                self.as_type(version, name, &data_type).map_err(|_| {
                    let types = [&data_type, field.data_type()].map(DataType::clone);
                    self.differ(name, [at, version], types)
                })?
            });
        }
        let latest = latest.ok_or_else(|| Error::internal("a column of no version"))?;
        let extension = |field: &FieldRef| {
            let metadata = field.metadata();
            [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY]
                .map(|key| metadata.get(key).cloned())
        };
        let all: HashSet<_> = versions.iter().map(|(_, field)| extension(field)).collect();
        if all.len() == 1 {
            return Ok(latest);
        }
        let mut latest = Arc::unwrap_or_clone(latest);
        let mut metadata = latest.metadata().clone();
        metadata.remove(EXTENSION_TYPE_NAME_KEY);
        metadata.remove(EXTENSION_TYPE_METADATA_KEY);
        latest.set_metadata(metadata);
        Ok(Arc::new(latest))
    }

    /// The version's column as this type.
    fn as_type(
        &self,
        version: &Version,
        name: &str,
        data_type: &DataType,
    ) -> Result<FieldRef, Error> {
        let relation = &version.relation;
        let column = relation.columns.iter().find(|column| *column.name == *name);
        let column = column.ok_or_else(|| Error::internal("no such column"))?;
        let resolver = self.template.resolver();
        let mut types = resolver.types();
        let resolved = resolver.column(relation, column, Some(data_type), &mut types)?;
        Ok(Arc::new(resolved.field))
    }

    /// The error of a column whose types no type holds.
    fn differ(&self, name: &str, versions: [&Version; 2], types: [DataType; 2]) -> Error {
        let table = match &self.table {
            Some((schema, name)) => format!("{schema}.{name}"),
            None => String::new(),
        };
        let text = Remedy::data_type(&format!("{table}.{name}"), &DataType::Utf8);
        let [one, other] = types;
        let [first, second] = versions.map(|version| version.origin.clone());
        let versions = [(first, one), (second, other)];
        Error::new(ErrorKind::Schema(SchemaError::VersionsDiffer { versions }))
            .with_remedies([text])
            .in_table(&table)
            .in_column(name)
    }

    /// Rejects a column of an earlier version with the name of a metadata column.
    fn check_metadata_name(&self, field: &FieldRef, columns: &[FieldRef]) -> Result<(), Error> {
        let profile = self.template.resolver().profile;
        if columns
            .iter()
            .any(|column| profile.is_same_name(column.name(), field.name()))
        {
            let kind = ErrorKind::Schema(SchemaError::MetadataName);
            let prefix = Remedy::another(DecoderOption::MetadataPrefix);
            return Err(Error::new(kind)
                .with_remedies([prefix])
                .in_column(field.name()));
        }
        Ok(())
    }
}

impl Version {
    fn fields(&self) -> impl Iterator<Item = (&FieldRef, &Source)> {
        let fields = self.layout.schema.fields().iter();
        fields.zip(&self.layout.sources)
    }
}

/// The smallest type that holds the values of both without loss.
fn wider(one: &DataType, other: &DataType) -> Option<DataType> {
    if one == other {
        return Some(one.clone());
    }
    let ordered = |narrow: &[DataType], wide: DataType| {
        let all = |it: &DataType| *it == wide || narrow.contains(it);
        (all(one) && all(other)).then_some(wide)
    };
    ordered(&[DataType::Int16], DataType::Int32)
        .or_else(|| ordered(&[DataType::Int16, DataType::Int32], DataType::Int64))
        .or_else(|| ordered(&[DataType::UInt32], DataType::Int64))
        .or_else(|| ordered(&[DataType::Float32], DataType::Float64))
        .or_else(|| match (one, other) {
            // The server's text holds every value.
            (DataType::Utf8, _) | (_, DataType::Utf8) => Some(DataType::Utf8),
            (
                DataType::List(one) | DataType::FixedSizeList(one, _),
                DataType::List(other) | DataType::FixedSizeList(other, _),
            ) => Some(DataType::List(wider_field(one, other)?)),
            (DataType::Struct(one), DataType::Struct(other)) => {
                let is_alike = one.len() == other.len();
                let fields = one.iter().zip(other);
                let fields = fields.map(|(one, other)| wider_field(one, other));
                let fields = is_alike.then(|| fields.collect::<Option<Fields>>())?;
                Some(DataType::Struct(fields?))
            }
            _ => wider_decimal(one, other),
        })
}

/// The wider of two fields or items of the same name.
fn wider_field(one: &FieldRef, other: &FieldRef) -> Option<FieldRef> {
    if one.name() != other.name() {
        return None;
    }
    let data_type = wider(one.data_type(), other.data_type())?;
    Some(Arc::new(Field::new(one.name(), data_type, true)))
}

/// The decimal with the integer digits of one and the fractional digits of the other. An integer has
/// none of the latter.
fn wider_decimal(one: &DataType, other: &DataType) -> Option<DataType> {
    let parts = |data_type: &DataType| match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            let scale = u8::try_from(*scale).ok()?;
            Some((precision.checked_sub(scale)?, scale))
        }
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        _ => None,
    };
    let ((integer, scale), (other_integer, other_scale)) = (parts(one)?, parts(other)?);
    let scale = scale.max(other_scale);
    let precision = integer.max(other_integer).checked_add(scale)?;
    let scale = i8::try_from(scale).ok()?;
    match precision {
        0..=38 => Some(DataType::Decimal128(precision, scale)),
        39..=76 if !one.is_integer() && !other.is_integer() => {
            Some(DataType::Decimal256(precision, scale))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wider_types_hold_both() {
        use DataType::{Boolean, Date32, Float32, Float64, Int16, Int32, Int64, UInt32, Utf8};
        let list = |item| DataType::new_list(item, true);
        let decimal = |precision, scale| DataType::Decimal128(precision, scale);
        for (one, other, expected) in [
            (Int16, Int16, Some(Int16)),
            (Int16, Int32, Some(Int32)),
            (Int16, Int64, Some(Int64)),
            (Int32, Int64, Some(Int64)),
            (UInt32, Int64, Some(Int64)),
            (Float32, Float64, Some(Float64)),
            (Int32, Float64, None),
            (Int32, Boolean, None),
            (Date32, Int32, None),
            (Int64, Utf8, Some(Utf8)),
            (decimal(10, 2), decimal(12, 2), Some(decimal(12, 2))),
            (decimal(10, 2), decimal(8, 4), Some(decimal(12, 4))),
            (
                decimal(38, 0),
                decimal(38, 38),
                Some(DataType::Decimal256(76, 38)),
            ),
            (decimal(5, 5), decimal(5, 0), Some(decimal(10, 5))),
            (Int16, decimal(4, 2), Some(decimal(7, 2))),
            (decimal(12, 2), Int32, Some(decimal(12, 2))),
            (Int64, decimal(12, 2), Some(decimal(21, 2))),
            (Int64, decimal(20, 20), None),
            (list(Int16), list(Int32), Some(list(Int32))),
            (list(Int16), list(Boolean), None),
            (list(Int16), Int16, None),
        ] {
            assert_eq!(wider(&one, &other), expected, "{one} {other}");
            assert_eq!(wider(&other, &one), expected, "{other} {one}");
        }
    }
}
