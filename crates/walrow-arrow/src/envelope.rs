//! The changes of all tables under one schema. Each row's columns are a map of names to texts.

use crate::batch::Batch;
use crate::column::{Column, Maps, New, Store, append, write_text, write_text_of_binary};
use crate::error::{Error, Way};
use crate::forms::Form as ColumnForm;
use crate::metadata::{ChangeType, Metadata, MetadataColumn, UNSENT_BYTES};
use crate::options::{OnUnrepresentable, Options};
use crate::profile::{Profile, map_type};
use crate::resolve::Resolver;
use crate::rows::{Begins, Current, Rows};
use crate::unresolved::UnresolvedColumns;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Encoding, Relation, RowChange};
use walrow_types::{CellError, PgType, Text};
use walrow_wire::{Cell, Lsn, OldTuple, Tuple};

/// One row to append.
#[derive(Debug)]
struct NewRow<'a> {
    change_type: ChangeType,
    seq: u64,
    key_only: bool,
    tuple: Tuple<'a>,
    /// The old row, which may contain values that the new row lists as unchanged.
    old: Option<OldTuple<'a>>,
}

impl<'a> NewRow<'a> {
    #[inline]
    const fn new(change_type: ChangeType, seq: u64, tuple: Tuple<'a>) -> Self {
        Self {
            change_type,
            seq,
            key_only: false,
            tuple,
            old: None,
        }
    }

    /// A row that holds an old row, or only its key.
    #[inline]
    const fn old(change_type: ChangeType, seq: u64, old: OldTuple<'a>) -> Self {
        Self {
            key_only: matches!(old, OldTuple::Key(_)),
            ..Self::new(change_type, seq, old.tuple())
        }
    }

    /// The row's cells. Unchanged cells come from the old row if the replica identity covers them.
    #[inline]
    fn cells(&self) -> impl Iterator<Item = Cell<'a>> + use<'a> {
        let mut old = self.old.map(|old| old.tuple().cells());
        let mut old_at = 0;
        let cells = self.tuple.cells().enumerate();
        cells.map(move |(place, cell)| {
            if cell != Cell::Unchanged {
                return cell;
            }
            let skip = usize::saturating_sub(place, old_at);
            old_at = place.saturating_add(1);
            match old.as_mut().and_then(|cells| cells.nth(skip)) {
                Some(sent @ (Cell::Text(_) | Cell::Binary(_))) => sent,
                _ => cell,
            }
        })
    }
}

/// How the columns of a relation version become text. `None` if a column is left out.
#[derive(Debug)]
pub(crate) struct Forms(Box<[Option<Form>]>);

impl Forms {
    /// Their bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len().saturating_mul(FORM_BYTES)
    }
}

/// The maximum bytes of a column's form. Types that contain other types may take more.
const FORM_BYTES: usize = 128;

/// How a column's cells become text.
#[derive(Debug)]
struct Form {
    pg_type: Arc<dyn PgType>,
    policy: OnUnrepresentable,
}

impl Form {
    /// Appends the text of a cell.
    fn write(
        &self,
        cell: Cell<'_>,
        encoding: Encoding,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        match cell {
            Cell::Text(cell) => write_text(&*self.pg_type, cell, encoding, out),
            Cell::Binary(cell) => write_text_of_binary(&*self.pg_type, cell, encoding, out),
            _ => Ok(()),
        }
    }
}

/// The rows of all tables since the last batch.
#[derive(Debug)]
pub(crate) struct Envelope {
    schema: SchemaRef,
    profile: Profile,
    metadata_columns: Vec<MetadataColumn>,
    /// Finds the types of columns and their policies.
    resolver: Resolver,
    schema_names: Box<dyn Column>,
    table_names: Box<dyn Column>,
    /// The columns of the replica identity.
    keys: TextMaps,
    /// All columns with a known value, including NULL.
    data: TextMaps,
    metadata: Metadata,
    /// The names of unsent columns, each with its number in this batch.
    unsent_places: BTreeMap<Box<str>, u32>,
    /// The current row's values, until all of them are converted to text.
    scratch: Row,
    rows: Rows,
    bytes: usize,
    /// For each value that the policy made null, its row.
    nulled: Vec<usize>,
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
    /// The start and end of its text. `None` is NULL.
    text: Option<(usize, usize)>,
}

/// The bytes of a row without its texts.
const ROW_BYTES: usize = 96;
/// The bytes of a map entry without its texts: two offsets and a null bit.
const PAIR_BYTES: usize = 9;

impl Envelope {
    /// Takes the definitions of a catalog in the stream.
    pub(crate) fn learn(&mut self, found: &Catalog) {
        self.resolver.learn(found);
    }

    pub(crate) fn new(options: &Options) -> Self {
        Self {
            schema: schema(options),
            profile: options.profile,
            metadata_columns: options.metadata.clone(),
            resolver: Resolver::of_text(options),
            schema_names: text_column(),
            table_names: text_column(),
            keys: TextMaps::new(),
            data: TextMaps::new(),
            metadata: Metadata::new(0),
            unsent_places: BTreeMap::new(),
            scratch: Row::default(),
            rows: Rows::default(),
            bytes: 0,
            nulled: Vec::new(),
        }
    }

    /// Finds how the columns of a relation version become text. Also returns the unknown types.
    pub(crate) fn forms(&self, relation: &Relation) -> Result<(Forms, UnresolvedColumns), Error> {
        let mut unresolved = UnresolvedColumns::default();
        let mut types = self.resolver.types();
        let mut forms = Vec::new();
        for column in &relation.columns {
            if !self.resolver.wants(relation, column) {
                forms.push(None);
                continue;
            }
            let resolved = self.resolver.column(relation, column, None, &mut types)?;
            unresolved.push(&column.name, &mut types);
            let pg_type: Arc<dyn PgType> = resolved.pg_type;
            let policy = self.resolver.policy(relation, column);
            forms.push(Some(Form { pg_type, policy }));
        }
        Ok((Forms(forms.into()), unresolved))
    }

    pub(crate) const fn rows(&self) -> usize {
        self.rows.count()
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The position before the oldest row that was not returned.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        self.rows.floor()
    }

    fn enter(&mut self, current: &Current) {
        if self.rows.enter(current) == Begins::Nothing {
            return;
        }
        self.metadata.begin(current.commit);
    }

    /// Appends a change of this relation version: a row, or both images of an update, which must be
    /// in one batch.
    ///
    /// # Errors
    /// A cell is invalid. No part of the change is appended.
    pub(crate) fn append(
        &mut self,
        current: &Current,
        relation: &Relation,
        forms: &Forms,
        seq: u64,
        row: RowChange<'_>,
    ) -> Result<(), Error> {
        let rows: &[NewRow<'_>] = match row {
            RowChange::Insert { new } => &[NewRow::new(ChangeType::Insert, seq, new)],
            RowChange::Update { old: None, new } => {
                &[NewRow::new(ChangeType::UpdatePostimage, seq, new)]
            }
            RowChange::Update {
                old: Some(old),
                new,
            } => &[
                NewRow::old(ChangeType::UpdatePreimage, seq, old),
                NewRow {
                    old: Some(old),
                    ..NewRow::new(ChangeType::UpdatePostimage, seq, new)
                },
            ],
            RowChange::Delete { old } => &[NewRow::old(ChangeType::Delete, seq, old)],
        };
        self.enter(current);
        let before = (self.rows.count(), self.bytes);
        for row in rows {
            let appended = self
                .read(relation, forms, row)
                .and_then(|()| self.append_read(relation, row));
            if appended.is_err() {
                self.truncate(before.0);
                self.bytes = before.1;
                return appended;
            }
        }
        Ok(())
    }

    /// Appends the row that was read.
    fn append_read(&mut self, relation: &Relation, row: &NewRow<'_>) -> Result<(), Error> {
        self.append_values(relation)
            .map_err(|error| Error::cell(error, 0, &relation.to_string(), "", Way::Null))?;
        if self.metadata_columns.contains(&MetadataColumn::Unsent) {
            for place in &self.scratch.unsent {
                let name = column_name(relation, *place);
                // Usually a few columns are unsent again and again.
                let known = self.unsent_places.get(name).copied();
                let known = known.unwrap_or_else(|| {
                    let place = u32::try_from(self.unsent_places.len()).unwrap_or(u32::MAX);
                    self.unsent_places.insert(name.into(), place);
                    self.bytes = self.bytes.saturating_add(name.len());
                    place
                });
                self.metadata.unsent(known);
                self.bytes = self
                    .bytes
                    .saturating_add(name.len())
                    .saturating_add(UNSENT_BYTES);
            }
        }
        self.metadata.append(row.change_type, row.seq, row.key_only);
        self.rows.push();
        Ok(())
    }

    /// Appends the row of a TRUNCATE, which has no columns.
    pub(crate) fn append_truncate(
        &mut self,
        current: &Current,
        relation: &Relation,
        seq: u64,
    ) -> Result<(), Error> {
        self.enter(current);
        self.name(relation)
            .map_err(|error| Error::cell(error, 0, &relation.to_string(), "", Way::Null))?;
        self.keys.append_null();
        self.data.append_null();
        self.metadata.append(ChangeType::Truncate, seq, false);
        self.rows.push();
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
        let columns = relation.columns.iter().zip(&forms.0);
        for (place, (cell, (column, form))) in row.cells().zip(columns).enumerate() {
            if row.key_only && !column.is_key {
                // Here, NULL only means that the value was not sent.
                continue;
            }
            let Some(form) = form else { continue };
            let start = text.len();
            let value = match cell {
                Cell::Unchanged => {
                    unsent.push(place);
                    continue;
                }
                Cell::Null => None,
                cell => match form.write(cell, relation.encoding, text) {
                    Ok(()) => Some((start, text.len())),
                    Err(CellError::Unrepresentable(_))
                        if form.policy == OnUnrepresentable::Null =>
                    {
                        text.truncate(start);
                        self.nulled.push(self.rows.count());
                        None
                    }
                    Err(error) => {
                        let size = cell_size(cell);
                        let table = relation.to_string();
                        return Err(Error::cell(error, size, &table, &column.name, Way::Null));
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
        let names = [
            (&mut self.schema_names, &relation.namespace),
            (&mut self.table_names, &relation.name),
        ];
        for (column, name) in names {
            append(&mut **column, |column| column.append_text(name.as_bytes()))?;
        }
        let names = relation.namespace.len().saturating_add(relation.name.len());
        self.bytes = self.bytes.saturating_add(ROW_BYTES).saturating_add(names);
        Ok(())
    }

    fn append_values(&mut self, relation: &Relation) -> Result<(), CellError> {
        self.name(relation)?;
        let Row { text, values, .. } = &self.scratch;
        let pair = |value: &Value| {
            let name = column_name(relation, value.place).as_bytes();
            (
                name,
                value.text.and_then(|(start, end)| text.get(start..end)),
            )
        };
        let sizes = values.iter().map(|value| {
            let (name, text) = pair(value);
            let size = name.len().saturating_add(text.map_or(0, <[u8]>::len));
            // A value of the key is stored twice.
            let times = if value.is_key { 2 } else { 1 };
            size.saturating_add(PAIR_BYTES).saturating_mul(times)
        });
        self.bytes = sizes.fold(self.bytes, usize::saturating_add);
        // Without a replica identity, the key is null instead of an empty map.
        if relation.columns.iter().any(|column| column.is_key) {
            let keys = values.iter().filter(|value| value.is_key);
            self.keys.append_pairs(keys.map(pair))?;
        } else {
            self.keys.append_null();
        }
        self.data.append_pairs(values.iter().map(pair))
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
        self.nulled.retain(|row| *row < rows);
        self.rows.truncate(rows);
    }

    /// Drops all rows of this transaction.
    pub(crate) fn roll_back(&mut self, current: &Current) {
        if let Some(rows) = self.rows.without(current) {
            self.truncate(rows);
        }
    }

    /// Returns all rows so far as a batch.
    pub(crate) fn finish(&mut self) -> Result<Batch, Error> {
        let arrow = |error: ArrowError| Error::internal(error.to_string());
        let text = |column: &mut Box<dyn Column>| std::mem::replace(column, text_column()).finish();
        let maps = |column: &mut TextMaps| std::mem::replace(column, TextMaps::new()).finish();
        let mut arrays = vec![
            text(&mut self.schema_names).map_err(arrow)?,
            text(&mut self.table_names).map_err(arrow)?,
            maps(&mut self.keys).map_err(arrow)?,
            maps(&mut self.data).map_err(arrow)?,
        ];
        let unsent = std::mem::take(&mut self.unsent_places);
        let mut names = vec![None; unsent.len()];
        for (name, place) in &unsent {
            if let Some(slot) = names.get_mut(*place as usize) {
                *slot = Some(&**name);
            }
        }
        let metadata = std::mem::replace(&mut self.metadata, Metadata::new(0));
        let metadata = metadata.finish(&self.metadata_columns, self.profile, &[], &names);
        arrays.extend(metadata.map_err(arrow)?);
        self.rows.finish();
        self.bytes = 0;
        let records = RecordBatch::try_new(Arc::clone(&self.schema), arrays).map_err(arrow)?;
        let nulled = std::mem::take(&mut self.nulled).len() as u64;
        let nulled = (nulled > 0).then(|| ("data".to_owned(), nulled));
        Ok(Batch {
            relation: Arc::new(stand_in()),
            records,
            nulled: nulled.into_iter().collect(),
            dropped_lower_bounds: Vec::new(),
        })
    }
}

/// The relation of an envelope's batches, which have rows of many tables.
fn stand_in() -> Relation {
    Relation::stand_in("walrow", "envelope")
}

/// The schema of all rows.
pub(crate) fn schema(options: &Options) -> SchemaRef {
    let map = |name: &str| Field::new(name, map_type(), true);
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

fn text_column() -> Box<dyn Column> {
    ColumnForm::written(Arc::new(Text), Encoding::Utf8).column(NEW)
}

/// An empty column of an unknown number of texts.
const NEW: New = New {
    rows: 0,
    policy: OnUnrepresentable::Error,
};

/// A column of maps from names to texts.
#[derive(Debug)]
struct TextMaps {
    maps: Maps,
    nulls: NullBufferBuilder,
}

impl TextMaps {
    fn new() -> Self {
        Self {
            maps: Maps::new(0, text_column(), text_column()),
            nulls: NullBufferBuilder::new(0),
        }
    }

    fn append_pairs<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), CellError> {
        for (key, value) in pairs {
            self.maps.push_pair(key, value)?;
        }
        self.maps.close()?;
        self.nulls.append_non_null();
        Ok(())
    }

    fn append_null(&mut self) {
        self.maps.push_null();
        self.nulls.append_null();
    }

    /// Drops all maps after the first `rows`, including an incomplete map.
    fn truncate(&mut self, rows: usize) {
        self.maps.truncate(rows);
        if self.nulls.len() > rows {
            self.nulls.truncate(rows);
        }
    }

    fn finish(mut self) -> Result<ArrayRef, ArrowError> {
        let rows = self.nulls.len();
        self.maps.finish(rows, self.nulls.finish(), &map_type())
    }
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
