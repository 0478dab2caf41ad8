//! The net changes of several tables in one range, in one pass over its segments.

use crate::error::Error;
use crate::format::version::TableVersion;
use crate::read::log::{Log, Plan};
use crate::read::table_changes::{Changes, Takes, assembler, failed};
use crate::read::table_net::LogNetOptions;
use std::collections::BTreeMap;
use walrow_stream::{Change, End, Event, Net, NetError, Unread};
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
        let assembler = assembler(start, at, first.memory, first.spool.as_ref());
        let tables = tables.iter();
        let tables = tables.map(|(oid, options)| (*oid, Ok(self.begin(*oid, options.clone()))));
        let segments = self.read(&segments, start)?;
        let tables = Tables(tables.collect());
        Ok(NetsReader {
            at,
            changes: Changes::new(segments, assembler, tables),
        })
    }
}

/// The net changes of several tables, as far as they were read. A table that fails does not stop
/// the others.
#[derive(Debug)]
pub struct NetsReader {
    at: Lsn,
    changes: Changes<Tables>,
}

impl NetsReader {
    /// Changes are read up to this LSN.
    pub const fn at(&self) -> Lsn {
        self.at
    }

    /// Reads a part of the changes. Returns false once all were read.
    ///
    /// # Errors
    /// A segment is damaged, or the spool failed.
    pub fn take_changes(&mut self) -> Result<bool, Error> {
        Ok(self.changes.apply()?.is_some())
    }

    /// The net or the error of each table, by OID.
    pub fn into_nets(self) -> impl Iterator<Item = (Oid, Result<Net, Error>)> {
        let tables = self.changes.into_taker().0.into_iter();
        tables.map(|(oid, net)| (oid, net.map_err(|error| failed(error, 0))))
    }
}

/// The net of each table by its OID, or the failure of the table.
#[derive(Debug)]
struct Tables(BTreeMap<Oid, Result<Net, NetError>>);

impl Takes for Tables {
    fn row(&mut self, row: &Change<'_, Unread<'_>>) -> Result<(), NetError> {
        if let Some(table) = self.0.get_mut(&row.relation.oid) {
            take(table, |net| net.row(row));
        }
        Ok(())
    }

    fn event(&mut self, event: &Event<'_, NetError>) -> Result<bool, NetError> {
        if let Event::Relation { relation, .. } = event {
            let Some(table) = self.0.get_mut(&relation.oid) else {
                return Ok(false);
            };
            take(table, |net| net.relation(relation));
        } else {
            for table in self.0.values_mut() {
                take(table, |net| net.event(event).map(drop));
            }
        }
        Ok(true)
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
