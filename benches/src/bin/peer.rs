//! walrow and the floor as harnesses of `make bench-peers`: `peer MODE`, and lines on standard input.
//!
//! `decode` makes `RecordBatch`es, `own-columns` those without metadata columns. `messages` makes all
//! messages and visits their cells, `cells` visits them as the decoder does. `floor` makes columns and
//! `floor-walk` visits all cells, both without any check.

#![expect(
    clippy::arithmetic_side_effects,
    reason = "counts of a capture in memory"
)]

// The harnesses of other parsers are in another workspace, and own this file.
#[expect(
    unreachable_pub,
    dead_code,
    reason = "public and used in the other workspace"
)]
#[path = "../../peers/rust/src/serve.rs"]
mod serve;

use serve::{Counts, Subject};
use std::error::Error;
use std::hint::black_box;
use walrow::DecoderBuilder;
use walrow::arrow_array::cast::AsArray;
use walrow_benches::{decode, walk};
use walrow_floor::{self as floor, Change, Visited};

fn main() -> Result<(), Box<dyn Error>> {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let subject: &mut dyn Subject = match mode.as_str() {
        "decode" => &mut Decode::default(),
        "own-columns" => &mut OwnColumns::default(),
        "messages" => &mut Messages::default(),
        "cells" => &mut Cells::default(),
        "floor" => &mut Floor::default(),
        "floor-walk" => &mut FloorWalk::default(),
        _ => return Err("peer decode|own-columns|messages|cells|floor|floor-walk".into()),
    };
    Ok(serve::serve(subject)?)
}

#[derive(Default)]
struct Decode(Vec<u8>);

impl Subject for Decode {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(decode::rows(&self.0)? as u64)
    }

    /// Rows of a truncate have no cells: a server sends none.
    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        let mut counts = Counts::default();
        let (mut cells, mut nulls) = (0, 0);
        for_each_batch(&self.0, |batch| {
            let kinds = batch.column_by_name("_change_type");
            let kinds = kinds.ok_or("no change type")?.as_string::<i32>();
            let own = batch.columns().iter().zip(batch.schema_ref().fields());
            let own: Vec<_> = own
                .take_while(|(_, field)| field.name() != "_change_type")
                .collect();
            for (row, kind) in kinds.iter().enumerate() {
                match kind {
                    Some("insert") => counts.message(b'I'),
                    Some("update_postimage") => counts.message(b'U'),
                    Some("delete") => counts.message(b'D'),
                    Some("truncate") => continue,
                    _ => {}
                }
                cells += own.len() as u64;
                nulls += own.iter().filter(|(column, _)| column.is_null(row)).count() as u64;
            }
            Ok(())
        })?;
        (counts.cells, counts.nulls) = (Some(cells), Some(nulls));
        Ok(counts)
    }
}

fn for_each_batch(
    capture: &[u8],
    mut each: impl FnMut(&walrow::arrow_array::RecordBatch) -> Result<(), Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    for batch in DecoderBuilder::new().build_reader(capture)?.by_ref() {
        each(batch?.record_batch())?;
    }
    Ok(())
}

#[derive(Default)]
struct OwnColumns(Vec<u8>);

impl Subject for OwnColumns {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        let options = DecoderBuilder::new().with_metadata([]);
        Ok(decode::rows_with(options, [self.0.as_slice()])? as u64)
    }

    /// Without metadata columns, no row says which message it was.
    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        Ok(Counts::default())
    }
}

#[derive(Default)]
struct Messages(Vec<u8>);

impl Subject for Messages {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(walk::messages(&self.0, |_, _| {})?.messages as u64)
    }

    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        let mut counts = Counts::default();
        let visited = walk::messages(&self.0, |kind, _| counts.message(kind))?;
        Ok(of_cells(visited, counts))
    }
}

#[derive(Default)]
struct Cells(Vec<u8>);

impl Subject for Cells {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(walk::cells(&self.0, |_, _| {})?.messages as u64)
    }

    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        let mut counts = Counts::default();
        let visited = walk::cells(&self.0, |kind, _| counts.message(kind))?;
        Ok(of_cells(visited, counts))
    }
}

fn of_cells(visited: Visited, counts: Counts) -> Counts {
    Counts {
        cells: Some(visited.cells as u64),
        nulls: Some((visited.nulls + visited.unsent) as u64),
        value_bytes: Some(visited.value_bytes as u64),
        ..counts
    }
}

#[derive(Default)]
struct Floor(Vec<u8>);

impl Subject for Floor {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(floor::rows(&self.0, |table| drop(black_box(table))) as u64)
    }

    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        let mut counts = Counts::default();
        let mut cells = 0;
        floor::rows(&self.0, |table| {
            let is_truncate = |it: &&Change| matches!(it, Change::Truncate);
            let truncates = table.change.iter().filter(is_truncate).count();
            cells += ((table.change.len() - truncates) * table.columns.len()) as u64;
            for change in &table.change {
                match change {
                    Change::Insert => counts.message(b'I'),
                    Change::Postimage => counts.message(b'U'),
                    Change::Delete => counts.message(b'D'),
                    Change::Preimage | Change::Truncate => {}
                }
            }
        });
        counts.cells = Some(cells);
        Ok(counts)
    }
}

#[derive(Default)]
struct FloorWalk(Vec<u8>);

impl Subject for FloorWalk {
    fn load(&mut self, capture: Vec<u8>) {
        self.0 = capture;
    }

    fn pass(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(floor::walk(black_box(&self.0)).messages as u64)
    }

    fn count(&mut self) -> Result<Counts, Box<dyn Error>> {
        Ok(of_cells(floor::walk(&self.0), Counts::default()))
    }
}
