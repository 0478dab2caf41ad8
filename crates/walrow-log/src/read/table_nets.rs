//! The net changes of several tables in one range, in one pass over its segments.

use crate::error::Error;
use crate::format::version::TableVersion;
use crate::read::log::{Log, Plan};
use crate::read::resolve::PlanReader;
use crate::read::segment_reader::SegmentReader;
use crate::read::table_changes::failed;
use crate::read::table_net::LogNetOptions;
use std::collections::BTreeMap;
use walrow_stream::{Assembler, Change, Encoding, End, Event, Net, NetError, Unread};
use walrow_wire::{Lsn, Oid};

impl Log {
    /// Reads the changes of several tables in a range of whole transactions, in one pass. Each
    /// table has its own options. The reader uses the range, memory and spool of the first table.
    ///
    /// # Errors
    /// As [`Log::net`], of all tables.
    pub fn nets(&self, tables: &[(Oid, LogNetOptions)]) -> Result<NetsReader, Error> {
        let first = tables.first().map(|(_, options)| options.clone());
        let first = first.unwrap_or_default();
        let (start, at) = (first.start, self.lsn_of(first.end)?);
        let is_wanted = |version: &TableVersion| tables.iter().any(|(oid, _)| *oid == version.oid);
        let segments = self.plan(&Plan {
            start,
            end: Some(End::Lsn(at)),
            table: Some(&is_wanted),
        })?;
        let encoding = self.encoding();
        let assembler = self.assembler(start, at, first.memory, first.spool.as_ref());
        let tables = tables.iter();
        let tables = tables.map(|(oid, options)| (*oid, Ok(self.begin(*oid, options.clone()))));
        Ok(NetsReader {
            at,
            encoding,
            segments: self.read(&segments, start),
            segment: None,
            chunk: Vec::new(),
            assembler,
            tables: tables.collect(),
        })
    }
}

/// The net changes of several tables, as far as they were read. A table that fails does not stop
/// the others.
#[derive(Debug)]
pub struct NetsReader {
    at: Lsn,
    encoding: Encoding,
    segments: PlanReader,
    segment: Option<SegmentReader>,
    chunk: Vec<u8>,
    assembler: Assembler,
    tables: BTreeMap<Oid, Result<Net, NetError>>,
}

impl NetsReader {
    /// Changes are read up to this LSN.
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// The encoding of names and texts.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Reads a part of the changes. Returns false once all were read.
    ///
    /// # Errors
    /// A segment is damaged, or the spool failed.
    pub fn take_changes(&mut self) -> Result<bool, Error> {
        if self.assembler.is_past_end() {
            return Ok(false);
        }
        let segment = match &mut self.segment {
            Some(segment) => segment,
            none => match self.segments.open_next()? {
                None => return Ok(false),
                Some(opened) => none.insert(opened),
            },
        };
        if !segment.read(&mut self.chunk)? {
            self.segment = None;
            return Ok(true);
        }
        let Self {
            chunk,
            assembler,
            tables,
            ..
        } = self;
        let mut input = &**chunk;
        while let Some(event) = assembler.next_with(&mut input, |row| take_row(tables, &row))? {
            match event {
                Event::Begin(transaction) => each(tables, |net| net.begin(transaction)),
                Event::Truncate(truncate) => each(tables, |net| net.truncate(&truncate)),
                Event::Fact(fact) => each(tables, |net| {
                    net.fact(&fact);
                    Ok(())
                }),
                Event::Relation { relation, .. } => {
                    if let Some(table) = tables.get_mut(&relation.oid) {
                        take(table, |net| net.relation(relation));
                    } else {
                        let version = relation.version;
                        assembler.leave_out(version);
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    }

    /// The net or the error of each table, by OID.
    pub fn into_nets(self) -> impl Iterator<Item = (Oid, Result<Net, Error>)> {
        let tables = self.tables.into_iter();
        tables.map(|(oid, net)| (oid, net.map_err(|error| failed(error, 0))))
    }
}

fn take_row(tables: &mut BTreeMap<Oid, Result<Net, NetError>>, row: &Change<'_, Unread<'_>>) {
    if let Some(table) = tables.get_mut(&row.relation.oid) {
        take(table, |net| net.row(row));
    }
}

fn each(
    tables: &mut BTreeMap<Oid, Result<Net, NetError>>,
    mut apply: impl FnMut(&mut Net) -> Result<(), NetError>,
) {
    for table in tables.values_mut() {
        take(table, &mut apply);
    }
}

/// Lets a table that has not failed take an event.
fn take(table: &mut Result<Net, NetError>, apply: impl FnOnce(&mut Net) -> Result<(), NetError>) {
    if let Ok(net) = table
        && let Err(error) = apply(net)
    {
        *table = Err(error);
    }
}
