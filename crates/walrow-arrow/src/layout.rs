//! The schema of one relation version's batches, and what fills each field.

use crate::column::{Column, New};
use crate::error::{DecoderOption, Error, ErrorKind, Remedy, SchemaError};
use crate::forms::Form;
use crate::metadata::{MetadataColumn, UNSENT_BYTES};
use crate::options::{OnUnrepresentable, Options};
use crate::profile::Profile;
use crate::resolve::{self, RepeatedColumns, Resolver};
use crate::unresolved::UnresolvedColumns;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Column as RelationColumn, Relation};

/// The schema of a relation version's batches, and how to fill it.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) schema: SchemaRef,
    /// The table, as `schema.name`.
    pub(crate) table: String,
    /// The form and policy of each of the relation's columns. `None` if the schema lacks it.
    forms: Vec<Option<(Form, OnUnrepresentable)>>,
    /// What fills each field of the schema.
    pub(crate) sources: Vec<Source>,
    pub(crate) metadata: Vec<MetadataColumn>,
    pub(crate) profile: Profile,
    /// Whether the options declare the schema.
    pub(crate) projected: bool,
    /// The columns whose values identify a row.
    pub(crate) keys: Arc<[String]>,
    /// The fields for which the relation has no column.
    pub(crate) missing: Vec<String>,
    /// The minimum bytes of a row.
    pub(crate) row_bytes: usize,
    /// Columns whose values can be much larger than their cells.
    pub(crate) expanding: Vec<usize>,
    /// The unknown types of columns.
    pub(crate) unresolved: UnresolvedColumns,
    /// The number of types inside the columns' types.
    pub(crate) inner_types: usize,
    /// The bytes of the schema, if this layout does not share it.
    schema_bytes: usize,
}

/// What fills a field.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    /// The relation's column at this index.
    Column(usize),
    /// The layout's metadata column at this index.
    Metadata(usize),
    /// Only nulls: the relation has no such column.
    Nothing(DataType),
}

/// The bytes of a row's metadata.
const METADATA_BYTES: usize = 48;

/// The options that the layouts of all tables depend on.
#[derive(Debug)]
pub(crate) struct Template {
    resolver: Resolver,
    repeated: RepeatedColumns,
    metadata: Vec<MetadataColumn>,
    /// The field of each metadata column.
    metadata_fields: Vec<FieldRef>,
    prefix: String,
    schema: Option<SchemaRef>,
}

impl Template {
    pub(crate) fn new(options: &Options) -> Self {
        let field = |it: &MetadataColumn| Arc::new(it.field(&options.prefix, options.profile));
        Self {
            resolver: Resolver::new(options),
            repeated: RepeatedColumns::default(),
            metadata: options.metadata.clone(),
            metadata_fields: options.metadata.iter().map(field).collect(),
            prefix: options.prefix.clone(),
            schema: options.schema.clone(),
        }
    }

    pub(crate) const fn resolver(&self) -> &Resolver {
        &self.resolver
    }

    /// Takes the definitions of a catalog in the stream.
    pub(crate) fn learn(&mut self, found: &Catalog) {
        self.resolver.learn(found);
    }

    pub(crate) fn metadata(&self) -> &[MetadataColumn] {
        &self.metadata
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Whether batches have this metadata column.
    pub(crate) fn has(&self, column: MetadataColumn) -> bool {
        let name = || format!("{}{}", self.prefix, column.name());
        self.metadata.contains(&column)
            && self
                .schema
                .as_ref()
                .is_none_or(|schema| schema.field_with_name(&name()).is_ok())
    }

    /// Makes the layout of a relation version's batches.
    pub(crate) fn layout(&mut self, relation: &Relation) -> Result<Layout, Error> {
        Layout::new(self, relation)
    }
}

impl Layout {
    fn new(template: &mut Template, relation: &Relation) -> Result<Self, Error> {
        let table = relation.to_string();
        match &template.schema {
            None => {
                let mut repeated = std::mem::take(&mut template.repeated);
                let made = Self::of_relation(template, &mut repeated, relation, table);
                template.repeated = repeated;
                made
            }
            Some(schema) => Self::projected(template, relation, table, schema),
        }
    }

    /// Makes a layout of the relation's columns, all or the wanted ones, then the chosen metadata columns.
    fn of_relation(
        template: &Template,
        repeated: &mut RepeatedColumns,
        relation: &Relation,
        table: String,
    ) -> Result<Self, Error> {
        let mut this = Self::empty(template, table);
        let mut types = template.resolver.types();
        let mut fields = Vec::new();
        for (place, column) in relation.columns.iter().enumerate() {
            if !template.resolver.wants(relation, column) {
                this.push_form(template, relation, column, None);
                continue;
            }
            let (field, form) =
                repeated.column(&template.resolver, relation, column, &mut types)?;
            this.unresolved.push(&column.name, &mut types);
            this.sources.push(Source::Column(place));
            fields.push(field);
            this.push_form(template, relation, column, Some(form));
        }
        this.inner_types = types.inner as usize;
        this.metadata.clone_from(&template.metadata);
        for (index, field) in template.metadata_fields.iter().enumerate() {
            clash(template, relation, field.name())?;
            this.sources.push(Source::Metadata(index));
            fields.push(Arc::clone(field));
        }
        let bytes = fields.iter().map(|field: &Arc<Field>| field_bytes(field));
        this.schema_bytes = bytes.fold(0, usize::saturating_add);
        this.schema = Arc::new(Schema::new_with_metadata(fields, schema_metadata(relation)));
        Ok(this)
    }

    /// Makes a layout of the declared fields. The column or metadata column of the same name fills
    /// each field.
    fn projected(
        template: &Template,
        relation: &Relation,
        table: String,
        schema: &SchemaRef,
    ) -> Result<Self, Error> {
        let mut this = Self::empty(template, table);
        let mut types = template.resolver.types();
        let mut plans = vec![None; relation.columns.len()];
        let mut missing_before = 0;
        for field in schema.fields() {
            let metadata = field
                .name()
                .strip_prefix(&template.prefix)
                .and_then(|name| {
                    MetadataColumn::from_name(name)
                        .filter(|column| template.metadata.contains(column))
                });
            let place = relation
                .columns
                .iter()
                .position(|column| *column.name == **field.name());
            this.sources.push(match (metadata, place) {
                (Some(metadata), _) => {
                    clash(template, relation, field.name())?;
                    check_metadata(template, field, metadata)
                        .map_err(|error| error.in_table(&this.table))?;
                    this.metadata.push(metadata);
                    Source::Metadata(this.metadata.len().saturating_sub(1))
                }
                (None, Some(place)) => {
                    let column = relation
                        .columns
                        .get(place)
                        .ok_or_else(|| Error::internal("no such column"))?;
                    check_nullable(field).map_err(|error| error.in_table(&this.table))?;
                    let wanted = field.data_type();
                    let wanted = Some(wanted);
                    let resolved = template
                        .resolver
                        .column(relation, column, wanted, &mut types)?;
                    this.unresolved.push(&column.name, &mut types);
                    if let Some(plan) = plans.get_mut(place) {
                        if plan.is_some() {
                            let kind = ErrorKind::Schema(SchemaError::RepeatedColumn);
                            let error = Error::new(kind).in_column(field.name());
                            return Err(error.in_table(&this.table));
                        }
                        *plan = Some(resolved.form);
                    }
                    Source::Column(place)
                }
                (None, None) => {
                    check_nullable(field).map_err(|error| error.in_table(&this.table))?;
                    let bytes = missing_bytes(field, missing_before)
                        .map_err(|it| it.in_table(&this.table))?;
                    missing_before = missing_before.saturating_add(bytes);
                    this.row_bytes = this.row_bytes.saturating_add(bytes);
                    this.missing.push(field.name().clone());
                    Source::Nothing(field.data_type().clone())
                }
            });
        }
        if !template.resolver.has_columns() {
            check_columns(relation, &plans).map_err(|error| error.in_table(&this.table))?;
        }
        for (column, plan) in relation.columns.iter().zip(plans) {
            this.push_form(template, relation, column, plan);
        }
        this.inner_types = types.inner as usize;
        if this.metadata.contains(&MetadataColumn::Unsent) {
            // Each row lists their names.
            let names = this
                .missing
                .iter()
                .map(|it| it.len().saturating_add(UNSENT_BYTES));
            this.row_bytes = names.fold(this.row_bytes, usize::saturating_add);
        }
        this.schema = Arc::clone(schema);
        Ok(this)
    }

    fn empty(template: &Template, table: String) -> Self {
        Self {
            schema: Arc::new(Schema::empty()),
            table,
            forms: Vec::new(),
            sources: Vec::new(),
            metadata: Vec::new(),
            profile: template.resolver.profile,
            projected: template.schema.is_some(),
            keys: Arc::clone(&template.resolver.keys),
            missing: Vec::new(),
            row_bytes: METADATA_BYTES,
            expanding: Vec::new(),
            unresolved: UnresolvedColumns::default(),
            inner_types: 0,
            schema_bytes: 0,
        }
    }

    fn push_form(
        &mut self,
        template: &Template,
        relation: &Relation,
        column: &RelationColumn,
        form: Option<Form>,
    ) {
        if let Some(form) = &form {
            self.row_bytes = self.row_bytes.saturating_add(form.row_bytes());
            if form.expands() {
                self.expanding.push(self.forms.len());
            }
        }
        let policy = template.resolver.policy(relation, column);
        self.forms.push(form.map(|form| (form, policy)));
    }

    /// Makes empty columns with room for this number of rows, in the relation's order.
    pub(crate) fn columns(&self, rows: usize) -> Vec<Option<Box<dyn Column>>> {
        let column = |(form, policy): &(Form, OnUnrepresentable)| {
            form.column(New {
                rows,
                policy: *policy,
            })
        };
        self.forms
            .iter()
            .map(|plan| plan.as_ref().map(column))
            .collect()
    }

    /// Replaces the schema with one that other layouts use too. It has the same columns.
    pub(crate) fn share_schema(&mut self, schema: &SchemaRef) {
        self.schema = Arc::clone(schema);
        self.schema_bytes = 0;
    }

    /// The maximum bytes of memory of a layout of the relation.
    pub(crate) fn most_bytes(relation: &Relation) -> usize {
        let columns = relation.columns.iter().map(|column| {
            let name = column.type_name.as_ref();
            let name = name.map_or(0, |it| it.namespace.len().saturating_add(it.name.len()));
            (FORM_BYTES.saturating_add(FIELD_BYTES))
                .saturating_add(column.name.len())
                .saturating_add(name.saturating_mul(2))
        });
        columns.fold(LAYOUT_BYTES, usize::saturating_add)
    }

    /// The bytes of memory of the layout and its relation.
    pub(crate) fn bytes(&self) -> usize {
        let columns = self.forms.len().saturating_mul(FORM_BYTES);
        let inner = self.inner_types.saturating_mul(INNER_BYTES);
        columns
            .saturating_add(inner)
            .saturating_add(self.schema_bytes)
            .saturating_add(LAYOUT_BYTES)
    }
}

/// The maximum bytes of a column's field without its names.
const FIELD_BYTES: usize = 1024;
/// The bytes of a layout without its columns.
const LAYOUT_BYTES: usize = 2048;
/// The bytes of a column's form and of its definition in the relation.
const FORM_BYTES: usize = 256;
/// The bytes of a type inside a column's type, with its forms and fields.
const INNER_BYTES: usize = 512;

fn field_bytes(field: &Field) -> usize {
    // Each entry is two strings and its slot in a hash table that is half full.
    let entry = |(key, value): (&String, &String)| {
        160_usize
            .saturating_add(key.len())
            .saturating_add(value.len())
    };
    let metadata = field.metadata().iter().map(entry);
    metadata.fold(
        256_usize.saturating_add(field.name().len()),
        usize::saturating_add,
    )
}

/// Rejects a relation version with columns that no field of the declared schema takes.
fn check_columns(relation: &Relation, plans: &[Option<Form>]) -> Result<(), Error> {
    let columns = relation.columns.iter().zip(plans);
    let columns = columns.filter(|(_, plan)| plan.is_none());
    let columns: Vec<_> = columns.map(|(column, _)| column.name.to_string()).collect();
    if columns.is_empty() {
        return Ok(());
    }
    let version = relation.version;
    let error = SchemaError::ColumnsNotInSchema { columns, version };
    Err(Error::new(ErrorKind::Schema(error)))
}

/// Rejects a metadata column with the name of one of the table's own columns.
fn clash(template: &Template, relation: &Relation, name: &str) -> Result<(), Error> {
    let same = |own: &str| template.resolver.profile.is_same_name(own, name);
    let wants = |column: &&RelationColumn| template.resolver.wants(relation, column);
    let mut own = relation.columns.iter().filter(wants);
    if own.any(|column| same(&column.name)) {
        return Err(Error::new(ErrorKind::Schema(SchemaError::MetadataName))
            .with_remedies([Remedy::another(DecoderOption::MetadataPrefix)])
            .in_table(&relation.to_string())
            .in_column(name));
    }
    Ok(())
}

/// Rejects a field that cannot be null. Any of a table's own columns can be: in key-only old rows,
/// in the rows of a TRUNCATE, and if a version lacks the column.
fn check_nullable(field: &Field) -> Result<(), Error> {
    let error = if !field.is_nullable() {
        SchemaError::NotNullable
    } else if !resolve::has_nullable_items(field.data_type()) {
        SchemaError::ItemsNotNullable
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Schema(error)).in_column(field.name()))
}

/// The bytes of a null in a column that the relation lacks. `before` counts the bytes of earlier
/// such columns.
///
/// # Errors
/// No PostgreSQL column can have the type, or the nulls of a row exceed the limit.
fn missing_bytes(field: &Field, before: usize) -> Result<usize, Error> {
    fn bytes(data_type: &DataType) -> Option<usize> {
        Some(match data_type {
            DataType::Null | DataType::Boolean => 1,
            DataType::Utf8 | DataType::Binary | DataType::List(_) | DataType::Map(..) => 4,
            DataType::LargeUtf8 | DataType::LargeBinary | DataType::LargeList(_) => 8,
            DataType::Utf8View | DataType::BinaryView => 16,
            DataType::FixedSizeBinary(size) => usize::try_from(*size).ok()?,
            DataType::FixedSizeList(item, size) => {
                let size = usize::try_from(*size).ok()?;
                size.saturating_mul(bytes(item.data_type())?)
            }
            DataType::Struct(fields) => fields.iter().try_fold(1_usize, |sum, field| {
                Some(sum.saturating_add(bytes(field.data_type())?))
            })?,
            DataType::Dictionary(key, _) => key.primitive_width()?,
            other => other.primitive_width()?,
        })
    }
    let error = match bytes(field.data_type()) {
        Some(bytes) if bytes.saturating_add(before) <= MOST_MISSING_BYTES => return Ok(bytes),
        Some(size) => SchemaError::MissingColumnSize {
            size,
            limit: MOST_MISSING_BYTES,
        },
        None => SchemaError::MissingColumnType,
    };
    Err(Error::new(ErrorKind::Schema(error)).in_column(field.name()))
}

/// Enough for some vectors, of up to 64,000 bytes each, in a composite type.
const MOST_MISSING_BYTES: usize = 1 << 24;

fn check_metadata(
    template: &Template,
    field: &Field,
    metadata: MetadataColumn,
) -> Result<(), Error> {
    let ours = metadata.field(&template.prefix, template.resolver.profile);
    // The name and nullability of a list's item are free.
    let same = match (ours.data_type(), field.data_type()) {
        (DataType::List(ours), DataType::List(theirs)) => ours.data_type() == theirs.data_type(),
        (ours, theirs) => ours == theirs,
    };
    if same && ours.is_nullable() && !field.is_nullable() {
        let kind = ErrorKind::Schema(SchemaError::MetadataNotNullable);
        return Err(Error::new(kind).in_column(field.name()));
    }
    if same {
        return Ok(());
    }
    let error = SchemaError::MetadataType {
        expected: ours.data_type().clone(),
        found: field.data_type().clone(),
    };
    Err(Error::new(ErrorKind::Schema(error)).in_column(field.name()))
}

fn schema_metadata(relation: &Relation) -> HashMap<String, String> {
    let keys: Vec<&str> = relation
        .columns
        .iter()
        .filter(|column| column.is_key)
        .map(|column| &*column.name)
        .collect();
    HashMap::from([
        ("pg.schema".to_owned(), relation.namespace.to_string()),
        ("pg.table".to_owned(), relation.name.to_string()),
        ("pg.relation_oid".to_owned(), relation.oid.to_string()),
        (
            "pg.replica_identity".to_owned(),
            relation.replica_identity.name().to_owned(),
        ),
        (
            "pg.key_columns".to_owned(),
            serde_json::json!(keys).to_string(),
        ),
    ])
}
