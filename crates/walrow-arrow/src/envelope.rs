//! All tables' changes under one schema, each row's columns as a map of names to texts.

use crate::batch::Batch;
use crate::column::{CellError, Column, Plan, TextForm, render_text};
use crate::error::{Error, ErrorKind};
use crate::metadata::{ChangeType, Metadata, MetadataColumn};
use crate::options::{DecoderBuilder, OnUnrepresentable, Profile};
use crate::resolve;
use crate::table::{Current, NewRow};
use arrow_array::{ArrayRef, MapArray, RecordBatch, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use std::sync::Arc;
use walrow_stream::Relation;
use walrow_wire::{Cell, Lsn, Oid, ReplicaIdentity};

/// What the columns of a relation version are as text.
pub(crate) type Forms = Box<[(TextForm, OnUnrepresentable)]>;

/// The rows of all tables since the last batch.
#[derive(Debug)]
pub(crate) struct Envelope {
    schema: SchemaRef,
    profile: Profile,
    metadata_columns: Vec<MetadataColumn>,
    /// The options that columns become text by.
    text: DecoderBuilder,
    schema_names: Column,
    table_names: Column,
    /// The replica identity's columns.
    keys: Maps,
    /// All columns that have a value or are NULL.
    data: Maps,
    metadata: Metadata,
    /// The names that unsent columns are told by.
    unsent_names: Vec<String>,
    /// The row's values, before it is sure that all of them are texts.
    scratch: Row,
    rows: usize,
    bytes: usize,
    nulled: u64,
    /// Up to where everything was in earlier batches when the first row came.
    floor: Lsn,
    /// The transaction that the last rows are of, and how many rows there were before it.
    transaction: u64,
    before_transaction: usize,
}

#[derive(Debug, Default)]
struct Row {
    text: Vec<u8>,
    values: Vec<Value>,
    unsent: Vec<usize>,
}

/// A column's value.
#[derive(Clone, Copy, Debug)]
struct Value {
    place: usize,
    is_key: bool,
    /// Where its text lies; none is NULL.
    text: Option<(usize, usize)>,
}

/// What a row takes beside its texts.
const ROW_BYTES: usize = 96;

impl Envelope {
    pub(crate) fn new(options: &DecoderBuilder) -> Self {
        Self {
            schema: schema(options),
            profile: options.profile,
            metadata_columns: options.metadata.clone(),
            text: options.clone().with_profile(Profile::Text),
            schema_names: text_column(),
            table_names: text_column(),
            keys: Maps::new(),
            data: Maps::new(),
            metadata: Metadata::new(0),
            unsent_names: Vec::new(),
            scratch: Row::default(),
            rows: 0,
            bytes: 0,
            nulled: 0,
            floor: Lsn::INVALID,
            transaction: 0,
            before_transaction: 0,
        }
    }

    /// How the columns of a relation version become text, and types that nothing told of.
    pub(crate) fn forms(&self, relation: &Relation) -> Result<(Forms, Vec<Oid>), Error> {
        let (mut forms, mut unresolved) = (Vec::new(), Vec::new());
        for column in &relation.columns {
            let resolved = resolve::column(&self.text, relation, column, None)?;
            if resolved.unresolved {
                unresolved.push(column.type_oid);
            }
            let form = match resolved.plan {
                Plan::Utf8(form) => form,
                _ => TextForm::Unknown,
            };
            let policies = &self.text.column_unrepresentable;
            let policy = DecoderBuilder::for_column(policies, relation, &column.name).copied();
            forms.push((form, policy.unwrap_or(self.text.unrepresentable)));
        }
        Ok((forms.into(), unresolved))
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The position before the oldest row that is still here.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        (self.rows > 0).then_some(self.floor)
    }

    fn enter(&mut self, current: &Current) {
        if self.rows == 0 {
            self.floor = current.floor;
        } else if self.transaction == current.ordinal {
            return;
        }
        self.transaction = current.ordinal;
        self.before_transaction = self.rows;
        self.metadata.begin(current.commit);
    }

    /// Appends a row of this relation version.
    ///
    /// # Errors
    /// What is wrong with a column's cell; the row is not appended.
    pub(crate) fn append(
        &mut self,
        current: &Current,
        relation: &Relation,
        forms: &Forms,
        row: &NewRow<'_>,
    ) -> Result<(), Error> {
        self.read(relation, forms, row)?;
        self.enter(current);
        let result = self
            .append_row(relation)
            .map_err(|error| Error::cell(error, 0, &relation.to_string(), "", false));
        if result.is_err() {
            self.truncate(self.rows);
            return result;
        }
        if !self.scratch.unsent.is_empty() {
            let mut places = Vec::with_capacity(self.scratch.unsent.len());
            for place in &self.scratch.unsent {
                let name = column_name(relation, *place);
                // Few columns are ever unsent, and the same ones again and again.
                let known = self.unsent_names.iter().position(|it| it == name);
                places.push(known.unwrap_or_else(|| {
                    self.unsent_names.push(name.to_owned());
                    self.unsent_names.len().saturating_sub(1)
                }));
            }
            self.metadata.unsent(places);
        }
        self.metadata.append(row.change_type, row.seq, row.key_only);
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Appends a truncate of the table: a row without columns.
    pub(crate) fn append_truncate(
        &mut self,
        current: &Current,
        relation: &Relation,
        seq: u64,
    ) -> Result<(), Error> {
        self.enter(current);
        self.name(relation)
            .map_err(|error| Error::cell(error, 0, &relation.to_string(), "", false))?;
        self.keys.append_null();
        self.data.append_null();
        self.metadata.append(ChangeType::Truncate, seq, false);
        self.rows = self.rows.saturating_add(1);
        Ok(())
    }

    /// Reads the row's cells as texts.
    fn read(&mut self, relation: &Relation, forms: &Forms, row: &NewRow<'_>) -> Result<(), Error> {
        let Row {
            text,
            values,
            unsent,
        } = &mut self.scratch;
        text.clear();
        values.clear();
        unsent.clear();
        let mut old = row.old.map(|old| old.tuple().cells());
        let mut old_at = 0;
        let columns = relation.columns.iter().zip(forms);
        for (place, (cell, (column, (form, policy)))) in row.tuple.cells().zip(columns).enumerate()
        {
            let cell = match cell {
                Cell::Unchanged => {
                    // The old row has it where the replica identity covers the column.
                    let skip = usize::saturating_sub(place, old_at);
                    old_at = place.saturating_add(1);
                    let old = old.as_mut().and_then(|cells| cells.nth(skip));
                    let sent = old.filter(|old| matches!(old, Cell::Text(_) | Cell::Binary(_)));
                    sent.unwrap_or(cell)
                }
                cell => cell,
            };
            if row.key_only && !column.is_key {
                // NULL here only says that it was not sent.
                continue;
            }
            let start = text.len();
            let value = match cell {
                Cell::Unchanged => {
                    unsent.push(place);
                    continue;
                }
                Cell::Null => None,
                cell => match render_text(form, cell, text) {
                    Ok(()) => Some((start, text.len())),
                    Err(CellError::Unrepresentable(_)) if *policy == OnUnrepresentable::Null => {
                        text.truncate(start);
                        self.nulled = self.nulled.saturating_add(1);
                        None
                    }
                    Err(error) => {
                        let size = cell_size(cell);
                        let table = relation.to_string();
                        return Err(Error::cell(error, size, &table, &column.name, false));
                    }
                },
            };
            values.push(Value {
                place,
                is_key: column.is_key,
                text: value,
            });
        }
        Ok(())
    }

    fn name(&mut self, relation: &Relation) -> Result<(), CellError> {
        self.schema_names
            .append_text(relation.namespace.as_bytes())?;
        self.table_names.append_text(relation.name.as_bytes())?;
        let names = relation.namespace.len().saturating_add(relation.name.len());
        self.bytes = self.bytes.saturating_add(ROW_BYTES).saturating_add(names);
        Ok(())
    }

    fn append_row(&mut self, relation: &Relation) -> Result<(), CellError> {
        self.name(relation)?;
        for value in &self.scratch.values {
            let is_key = value.is_key;
            let name = column_name(relation, value.place).as_bytes();
            let text = &self.scratch.text;
            let value = value.text.and_then(|(start, end)| text.get(start..end));
            self.data.push(name, value)?;
            if is_key {
                self.keys.push(name, value)?;
            }
            let size = value.map_or(0, <[u8]>::len).saturating_add(name.len());
            self.bytes = self.bytes.saturating_add(size).saturating_add(8);
        }
        // Without an identity there is no key, rather than an empty one.
        if relation.columns.iter().any(|column| column.is_key) {
            self.keys.close()?;
        } else {
            self.keys.append_null();
        }
        self.data.close()
    }

    fn truncate(&mut self, rows: usize) {
        for column in [&mut self.schema_names, &mut self.table_names] {
            if column.len() > rows {
                column.truncate(rows);
            }
        }
        self.keys.truncate(rows);
        self.data.truncate(rows);
        self.metadata.truncate(rows);
        self.rows = rows;
    }

    /// Takes back all rows of this transaction.
    pub(crate) fn take_back(&mut self, current: &Current) {
        if self.rows > 0 && self.transaction == current.ordinal {
            self.truncate(self.before_transaction);
        }
    }

    /// Takes back the last row, which is there.
    pub(crate) fn take_back_row(&mut self) {
        self.truncate(self.rows.saturating_sub(1));
    }

    /// Hands out all rows so far.
    pub(crate) fn finish(&mut self) -> Result<Batch, Error> {
        let arrow = |error: ArrowError| Error::new(ErrorKind::Arrow(error.to_string()));
        let take = |column: &mut Column| std::mem::replace(column, text_column()).finish();
        let mut arrays = vec![
            take(&mut self.schema_names).map_err(arrow)?,
            take(&mut self.table_names).map_err(arrow)?,
            std::mem::replace(&mut self.keys, Maps::new())
                .finish()
                .map_err(arrow)?,
            std::mem::replace(&mut self.data, Maps::new())
                .finish()
                .map_err(arrow)?,
        ];
        let names = std::mem::take(&mut self.unsent_names);
        let names: Vec<_> = names.iter().map(|name| Some(name.as_str())).collect();
        let metadata = std::mem::replace(&mut self.metadata, Metadata::new(0));
        let metadata = metadata.finish(&self.metadata_columns, self.profile, &[], &names);
        arrays.extend(metadata.map_err(arrow)?);
        self.rows = 0;
        self.bytes = 0;
        self.before_transaction = 0;
        let records = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(arrow)?;
        let nulled = std::mem::take(&mut self.nulled);
        Ok(Batch {
            relation: Arc::new(stand_in()),
            records,
            nulled: if nulled > 0 {
                vec![("data".to_owned(), nulled)]
            } else {
                Vec::new()
            },
            dropped_bounds: Vec::new(),
        })
    }
}

/// What stands in for a batch's relation where it has rows of many.
fn stand_in() -> Relation {
    Relation {
        version: 0,
        oid: 0,
        namespace: "walrow".into(),
        name: "envelope".into(),
        replica_identity: ReplicaIdentity::Nothing,
        columns: Box::default(),
    }
}

/// The one schema of all rows.
pub(crate) fn schema(options: &DecoderBuilder) -> SchemaRef {
    let map = |name: &str| Field::new(name, DataType::Map(entries(), false), true);
    let mut fields = vec![
        Field::new("schema_name", DataType::Utf8, false),
        Field::new("table_name", DataType::Utf8, false),
        map("key"),
        map("data"),
    ];
    for column in &options.metadata {
        fields.push(column.field(&options.prefix, options.profile));
    }
    Arc::new(Schema::new(fields))
}

fn entries() -> FieldRef {
    Arc::new(Field::new(
        "entries",
        DataType::Struct(entry_fields()),
        false,
    ))
}

fn entry_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Utf8, false),
        Field::new("value", DataType::Utf8, true),
    ])
}

fn text_column() -> Column {
    Column::new(&Plan::Utf8(TextForm::Raw), OnUnrepresentable::Error, 0)
}

fn column_name(relation: &Relation, place: usize) -> &str {
    relation
        .columns
        .get(place)
        .map_or("", |column| &column.name)
}

fn cell_size(cell: Cell<'_>) -> usize {
    match cell {
        Cell::Text(bytes) | Cell::Binary(bytes) => bytes.len(),
        _ => 0,
    }
}

/// Maps of names to texts, one after the other.
#[derive(Debug)]
struct Maps {
    names: Column,
    values: Column,
    /// Where each map ends, and 0 before them.
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl Maps {
    fn new() -> Self {
        Self {
            names: text_column(),
            values: text_column(),
            offsets: vec![0],
            nulls: NullBufferBuilder::new(0),
        }
    }

    fn push(&mut self, name: &[u8], value: Option<&[u8]>) -> Result<(), CellError> {
        self.names.append_text(name)?;
        if let Some(value) = value {
            return self.values.append_text(value);
        }
        self.values.append_null();
        Ok(())
    }

    /// Makes a map of what was pushed since the last one.
    fn close(&mut self) -> Result<(), CellError> {
        let end = i32::try_from(self.names.len()).map_err(|_| CellError::too_large())?;
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(end);
        self.nulls.append_null();
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows.saturating_add(1));
        let end = self.offsets.last().copied().unwrap_or(0);
        let end = usize::try_from(end).unwrap_or(0);
        for column in [&mut self.names, &mut self.values] {
            if column.len() > end {
                column.truncate(end);
            }
        }
        if self.nulls.len() > rows {
            self.nulls.truncate(rows);
        }
    }

    fn finish(mut self) -> Result<ArrayRef, ArrowError> {
        let columns = vec![self.names.finish()?, self.values.finish()?];
        let entry = StructArray::try_new(entry_fields(), columns, None)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let nulls = self.nulls.finish();
        Ok(Arc::new(MapArray::try_new(
            entries(),
            offsets,
            entry,
            nulls,
            false,
        )?))
    }
}
