//! Does one thing once, for a counter of instructions.
//!
//! `once floor|walrow FILE` reads a capture. `once append FILE LOG` writes it to a new log, `once
//! segments FILE LOG` too, as many small segments, `once read LOG` decodes a log, `once state LOG TABLE`
//! makes the rows of a table, and `once net LOG TABLE` its net changes. `once write FOLDER` writes all
//! captures there.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use walrow::log::{Directory, Log, LogNetOptions, Plan, StateOptions, Writer, WriterOptions};
use walrow::stream::{Assembler, Catalog, CatalogColumn, CatalogTable, Event};
use walrow::{DecoderBuilder, Lsn, cell_text, key_bytes};
use walrow_benches::{captures::captures, decode, floor};

/// The bytes that a receiver gives to a writer at once.
const BLOCK: usize = 4 << 20;

/// The bytes of a small segment.
const SMALL: usize = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *arguments.as_slice() {
        ["write", folder] => {
            for capture in captures() {
                let file = Path::new(folder).join(capture.name).with_extension("wire");
                std::fs::write(file, capture.bytes)?;
            }
        }
        ["floor", file] => {
            floor::rows(&std::fs::read(file)?, |table| drop(black_box(table)));
        }
        ["walrow", file] => {
            decode::rows(&std::fs::read(file)?)?;
        }
        ["append", file, log] => append(&std::fs::read(file)?, log, None)?,
        ["segments", file, log] => append(&std::fs::read(file)?, log, Some(SMALL))?,
        ["read", log] => read(log)?,
        ["state", log, table] => state(log, table)?,
        ["net", log, table] => net(log, table)?,
        _ => {
            let usage =
                "once floor|walrow FILE, append|segments FILE LOG, read LOG, state|net LOG TABLE";
            return Err(usage.into());
        }
    }
    Ok(())
}

/// Writes a log as a receiver does. Its frames are stored: zstd's own instructions would be most.
/// Each segment has about `segment` bytes, or as many as usual.
fn append(bytes: &[u8], log: &str, segment: Option<usize>) -> Result<(), Box<dyn Error>> {
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

/// Decodes a log, as `walrow.read` does.
fn read(log: &str) -> Result<(), Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut decoder = DecoderBuilder::new().build()?;
    let mut chunk = Vec::new();
    let mut segments = log.read(&log.plan(&Plan::default())?, Lsn::INVALID);
    while let Some(mut segment) = segments.open_next()? {
        while segment.read(&mut chunk)? {
            let mut rest = &*chunk;
            while !rest.is_empty() || !decoder.wants_input() {
                while let Some(batch) = decoder.next_batch()? {
                    black_box(batch.into_record_batch());
                }
                let consumed = decoder.decode(rest)?;
                rest = rest.get(consumed..).unwrap_or_default();
            }
        }
    }
    decoder.finish()?;
    Ok(())
}

/// Makes the rows of a table, as a stream.
fn state(log: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut options = StateOptions::default();
    options.cell_text = Some(cell_text);
    let mut rows = log.state(&|_, _, name| name == table, options)?;
    let mut chunk = Vec::new();
    while rows.read(&mut chunk)? {
        black_box(&chunk);
    }
    Ok(())
}

/// Makes the net changes of a table since the beginning of a log, as a stream.
fn net(log: &str, table: &str) -> Result<(), Box<dyn Error>> {
    let log = Log::open(Arc::new(Directory::open(log)?))?;
    let mut options = LogNetOptions::default();
    options.cell_text = Some(cell_text);
    options.key_bytes = Some(key_bytes);
    let wants = |_, schema: &str, name: &str| format!("{schema}.{name}") == table;
    let mut net = log.net(&wants, options)?;
    let mut chunk = Vec::new();
    while net.read(&mut chunk)? {
        black_box(&chunk);
    }
    Ok(())
}
