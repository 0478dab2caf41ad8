//! A log as a receiver writes it, and as `walrow.read` reads it.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use walrow::log::{Directory, Log, Plan, Writer, WriterOptions};
use walrow::stream::{Assembler, Catalog, CatalogColumn, CatalogTable, Event};
use walrow::{Decoder, DecoderBuilder, Lsn};

/// The bytes that a receiver gives to a writer at once.
const BLOCK: usize = 4 << 20;

/// The bytes of a small segment.
pub const SMALL: usize = 100_000;

/// Writes a log as a receiver does. Its frames are stored: zstd's own instructions would be most.
/// Each segment has about `segment` bytes, or as many as usual.
///
/// # Errors
/// Those of the log.
pub fn append(bytes: &[u8], log: &Path, segment: Option<usize>) -> Result<(), Box<dyn Error>> {
    let mut options = WriterOptions::default();
    options.level = None;
    let mut writer = Writer::open(Arc::new(Directory::create(log)?), options)?;
    let mut assembler = writer.resume(Assembler::default())?;
    writer.extend_catalog(&catalog(bytes)?)?;
    for block in bytes.chunks(segment.unwrap_or(BLOCK)) {
        writer.append(&mut assembler, &mut &*block)?;
        writer.sync(&mut assembler)?;
        if segment.is_some() || writer.is_full()? {
            writer.publish(&mut assembler)?;
        }
    }
    writer.publish(&mut assembler)?;
    Ok(())
}

/// The tables of a capture, as a receiver reads them from the server.
fn catalog(bytes: &[u8]) -> Result<Catalog, Box<dyn Error>> {
    let (mut assembler, mut tables, mut rest) = (Assembler::default(), BTreeMap::new(), bytes);
    while let Some(event) = assembler.next_with(&mut rest, |_| Ok::<_, ()>(()))? {
        if let Event::Relation { relation, .. } = event {
            let columns = relation.columns.iter().zip(1_i16..).map(|(it, number)| {
                let mut column = CatalogColumn::new(&*it.name, it.type_oid, it.type_modifier);
                column.key = it.is_key;
                column.number = Some(number);
                column.not_null = Some(it.is_key);
                column
            });
            let columns = columns.collect();
            let table =
                CatalogTable::new(relation.oid, &*relation.namespace, &*relation.name, columns);
            tables.insert(relation.oid, table);
        }
    }
    Ok(Catalog::new(Vec::new(), tables.into_values().collect()))
}

/// Decodes a log, as `walrow.read` does, and drops its batches; how many rows there were.
///
/// # Errors
/// Those of the log and of the decoder.
pub fn rows(log: &Path) -> Result<usize, Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut decoder = DecoderBuilder::new().build()?;
    let (mut chunk, mut rows) = (Vec::new(), 0_usize);
    let mut take = |decoder: &mut Decoder| -> Result<(), walrow::Error> {
        while let Some(batch) = decoder.next_batch()? {
            rows = rows.saturating_add(black_box(batch.into_record_batch()).num_rows());
        }
        Ok(())
    };
    let mut stream = log.read(&log.plan(&Plan::default())?, Lsn::INVALID)?;
    while stream.read(&mut chunk)? {
        let mut rest = &*chunk;
        while !rest.is_empty() || !decoder.wants_input() {
            take(&mut decoder)?;
            let consumed = decoder.decode(rest)?;
            rest = rest.get(consumed..).unwrap_or_default();
        }
    }
    decoder.finish()?;
    take(&mut decoder)?;
    Ok(rows)
}
