//! The same rows as CSV, read by `arrow-csv`: a format whose reader has no protocol to follow.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use walrow::arrow_array::cast::AsArray;
use walrow::arrow_array::types::TimestampMicrosecondType;
use walrow::arrow_array::{Array, ArrayRef, RecordBatch};
use walrow::arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use walrow::{DecoderBuilder, MetadataColumn};

use crate::decode;

/// The rows of a table as CSV.
#[derive(Clone, Debug)]
pub struct Table {
    schema: SchemaRef,
    text: Vec<u8>,
}

/// Writes the rows of a capture, with the metadata columns or without them.
///
/// CSV has no lists, so there is no `_unsent`. It has no binary either: a `uuid` is text.
///
/// # Errors
/// Those of the decoder and of the writer.
pub fn tables(bytes: &[u8], with_metadata: bool) -> Result<Vec<Table>, Box<dyn Error>> {
    let metadata = MetadataColumn::ALL
        .into_iter()
        .filter(|column| with_metadata && *column != MetadataColumn::Unsent)
        .collect::<Vec<_>>();
    let options = DecoderBuilder::new()
        .with_type("uuid", DataType::Utf8)
        .with_metadata(metadata);
    let mut tables = BTreeMap::<u32, Table>::new();
    let mut result = Ok(());
    decode::batches(options, [bytes], |batch| {
        let table = tables.entry(batch.relation().oid);
        if let Err(error) = write(
            table.or_insert_with(|| Table {
                schema: batch.record_batch().schema(),
                text: Vec::new(),
            }),
            batch.record_batch(),
        ) {
            result = Err(error);
        }
    })?;
    result?;
    Ok(tables.into_values().collect())
}

fn write(table: &mut Table, rows: &RecordBatch) -> Result<(), ArrowError> {
    let columns: Vec<_> = rows.columns().iter().map(with_offset).collect();
    let fields = rows.schema();
    let fields = fields.fields().iter().zip(&columns);
    let field = |(field, column): (&Arc<Field>, &ArrayRef)| {
        let field = Field::clone(field);
        field.with_data_type(column.data_type().clone())
    };
    table.schema = Arc::new(Schema::new(fields.map(field).collect::<Vec<_>>()));
    let rows = RecordBatch::try_new(table.schema.clone(), columns)?;
    let writer = arrow_csv::WriterBuilder::new().with_header(false);
    writer.build(&mut table.text).write(&rows)
}

/// Names of time zones need a database, so `UTC` is an offset here.
fn with_offset(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Timestamp(_, Some(_)) => {
            let times = column.as_primitive::<TimestampMicrosecondType>();
            Arc::new(times.clone().with_timezone("+00:00"))
        }
        _ => column.clone(),
    }
}

/// Reads tables and drops their batches; how many rows there were.
///
/// # Errors
/// Those of the reader.
pub fn rows(tables: &[Table]) -> Result<usize, Box<dyn Error>> {
    let mut rows = 0_usize;
    for table in tables {
        let reader = arrow_csv::ReaderBuilder::new(table.schema.clone())
            .with_batch_size(8_192)
            .build(&*table.text)?;
        for batch in reader {
            rows = rows.saturating_add(black_box(batch?).num_rows());
        }
    }
    Ok(rows)
}
