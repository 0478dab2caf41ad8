//! The same rows as CSV, read by `arrow-csv`: a format whose reader has no protocol to follow.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use walrow::arrow_schema::{DataType, SchemaRef};
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
    let mut tables = BTreeMap::new();
    let mut result = Ok(());
    decode::batches(options, [bytes], |batch| {
        let (oid, rows) = (batch.relation().oid, batch.record_batch());
        let table = tables.entry(oid).or_insert_with(|| Table {
            schema: rows.schema(),
            text: Vec::new(),
        });
        let writer = arrow_csv::WriterBuilder::new().with_header(false);
        if let Err(error) = writer.build(&mut table.text).write(rows) {
            result = Err(error);
        }
    })?;
    result?;
    Ok(tables.into_values().collect())
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
