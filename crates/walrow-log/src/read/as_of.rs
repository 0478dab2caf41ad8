//! Finds the part of a log that gives the rows of a table as of an LSN or a time.
//!
//! ```text
//!  segments ──┬──────────┬──────────┬──────────┬──►
//!             │  load    │          │   as of  │
//!             │  ▲───────┼──────────┼───▲      │      the load, and the changes after it
//! ```
//! A load has all rows of the table at its end, so earlier changes do not matter. The part begins
//! with the last load before the point. Without a load, the part is all of the log, if no changes
//! of the table were removed.

use crate::error::{Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::segment::SegmentName;
use crate::format::version::TableVersion;
use crate::read::log::{Log, Plan, chains};
use std::collections::BTreeSet;
use std::sync::Arc;
use walrow_stream::{Assembler, End, Event, Relation, Transaction};
use walrow_wire::{Framing, Lsn, Oid};

/// The part of a log that gives the rows of a table.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) oid: Oid,
    /// The LSN of the rows: the part gives the table as of this LSN.
    pub(crate) at: Lsn,
    /// The LSN where the load ends that the part begins with.
    pub(crate) load: Option<Lsn>,
    pub(crate) segments: Vec<SegmentName>,
}

impl Part {
    /// The LSN where reading begins, just before the load.
    pub(crate) fn start(&self) -> Lsn {
        self.load.map_or(Lsn::INVALID, before)
    }
}

/// The LSN before the end of a load. The transaction of the load has this commit LSN.
fn before(load: Lsn) -> Lsn {
    Lsn(load.0.saturating_sub(1))
}

/// Whether a table is wanted, by OID, schema and name.
pub(crate) type Wants<'a> = dyn Fn(Oid, &str, &str) -> bool + 'a;

impl Log {
    /// Finds the part of the log.
    pub(crate) fn part_as_of(&self, wants: &Wants<'_>, as_of: Option<End>) -> Result<Part, Error> {
        let at = self.lsn_of(as_of)?;
        let oid = self.oid_as_of(wants, at)?;
        let load = self.load_as_of(oid, at)?;
        let is_table = |version: &TableVersion| version.oid == oid;
        let segments = self.plan(&Plan {
            start: load.map_or(Lsn::INVALID, before),
            end: Some(End::Lsn(at)),
            table: Some(&is_table),
        })?;
        Ok(Part {
            oid,
            at,
            load,
            segments,
        })
    }

    /// The LSN of an end that is in the log. A time means the end of the last transaction before the
    /// first one that was committed after it.
    ///
    /// # Errors
    /// A segment is damaged, or the store failed.
    pub fn lsn_of(&self, end: Option<End>) -> Result<Lsn, Error> {
        match end {
            None => Ok(self.end()),
            Some(End::Lsn(lsn)) => Ok(lsn.min(self.end())),
            Some(time) => self.before_time(time),
        }
    }

    /// The end of the last transaction before the first transaction that was committed after a
    /// time.
    fn before_time(&self, end: End) -> Result<Lsn, Error> {
        let End::Time(time) = end else {
            return Ok(self.end());
        };
        let is_later = |segment: &Segment| segment.times.is_some_and(|(_, last)| last > time.0);
        let mut at = self.start();
        for chain in chains(self.segments()) {
            if !chain.iter().any(is_later) {
                at = chain.last().map_or(at, |last| last.end);
                continue;
            }
            self.visit(chain, Some(end), &|_| false, &mut |transaction, _| {
                at = at.max(transaction.end_lsn);
            })?;
            break;
        }
        Ok(at)
    }

    /// The OID of the table that had the name last, up to this point. A table that is created again
    /// has another OID.
    pub(crate) fn oid_as_of(&self, wants: &Wants<'_>, at: Lsn) -> Result<Oid, Error> {
        let all = self.versions().iter().enumerate();
        let wanted = all.filter(|(_, it)| wants(it.oid, &it.schema, &it.name));
        let wanted: Vec<_> = wanted.collect();
        let Some((_, first)) = wanted.first() else {
            let mut removed = self.removed();
            return Err(
                match removed.find(|(oid, schema, name, _)| wants(*oid, schema, name)) {
                    Some((_, schema, name, _)) => not_loaded(&format!("{schema}.{name}")),
                    None => Error::new("", ErrorKind::NoTable),
                },
            );
        };
        if wanted.iter().all(|(_, it)| it.oid == first.oid) {
            return Ok(first.oid);
        }
        let name = |schema: &str, name: &str| format!("{schema}.{name}");
        let others = wanted.iter().map(|(_, it)| name(&it.schema, &it.name));
        let names: BTreeSet<_> = others.collect();
        let mut names = names.into_iter();
        if let (Some(one), Some(other)) = (names.next(), names.next()) {
            return Err(Error::new("", ErrorKind::Ambiguous { one, other }));
        }
        let wanted: BTreeSet<usize> = wanted.iter().map(|(number, _)| *number).collect();
        let chains: Vec<_> = chains(self.segments()).collect();
        for chain in chains.into_iter().rev() {
            let (Some(head), Some(last)) = (chain.first(), chain.last()) else {
                continue;
            };
            if head.start >= at {
                continue;
            }
            let mut found = None;
            if last.end <= at {
                let tables = chain.iter().flat_map(|segment| &segment.tables);
                let tables = tables.filter(|it| wanted.contains(&it.version));
                let latest = tables.max_by_key(|it| (it.last, it.version));
                let version = latest.and_then(|it| self.versions().get(it.version));
                found = version.map(|it| it.oid);
            } else {
                let is_wanted = |it: &Relation| wants(it.oid, &it.namespace, &it.name);
                self.visit(chain, Some(End::Lsn(at)), &is_wanted, &mut |_, changed| {
                    found = changed.last().map(|it| it.oid).or(found);
                })?;
            }
            if let Some(oid) = found {
                return Ok(oid);
            }
        }
        Ok(first.oid)
    }

    /// The end of the last load of a table up to this point. `None` if the log has all changes of the
    /// table.
    fn load_as_of(&self, oid: Oid, at: Lsn) -> Result<Option<Lsn>, Error> {
        let mut first: Option<&[Segment]> = None;
        let mut last = None;
        for chain in chains(self.segments()) {
            // The index has only the last load in each segment. Other loads may come before it.
            if let Some(load) = self.load_in(chain, oid) {
                first.get_or_insert(chain);
                if load <= at {
                    last = Some(load);
                } else if chain.first().is_some_and(|it| it.start < at) {
                    let loads = self.loads(chain, oid)?;
                    last = loads.into_iter().rfind(|load| *load <= at).or(last);
                }
            }
        }
        if last.is_some() {
            return Ok(last);
        }
        let table = self.name_of(oid);
        if let Some(chain) = first {
            let first = self.loads(chain, oid)?.into_iter().next();
            let first = first.unwrap_or_else(|| self.end());
            return Err(Error::new("", ErrorKind::TooEarly { table, first }));
        }
        if self.removed().any(|(removed, ..)| removed == oid) {
            return Err(not_loaded(&table));
        }
        let first = self.first_change(oid, at)?;
        if let Some(first) = first {
            return Err(Error::new("", ErrorKind::TooEarly { table, first }));
        }
        Ok(None)
    }

    /// The LSN where the first transaction with changes of a table ends, if it is after a point.
    fn first_change(&self, oid: Oid, at: Lsn) -> Result<Option<Lsn>, Error> {
        let has = |segment: &Segment| {
            let mut tables = segment.tables.iter();
            tables.any(|it| self.is_of(it.version, oid))
        };
        let mut chains = chains(self.segments());
        let Some(chain) = chains.find(|chain| chain.iter().any(has)) else {
            return Ok(None);
        };
        if chain.last().is_some_and(|last| last.end <= at) {
            return Ok(None);
        }
        let mut first = None;
        self.visit(
            chain,
            None,
            &|it| it.oid == oid,
            &mut |transaction, changed| {
                if !changed.is_empty() {
                    first.get_or_insert(transaction.end_lsn);
                }
            },
        )?;
        Ok(first.filter(|first| *first > at))
    }

    pub(crate) fn is_of(&self, version: usize, oid: Oid) -> bool {
        let version = self.versions().get(version);
        version.is_some_and(|version| version.oid == oid)
    }

    /// The end of the last load of a table in these segments.
    pub(crate) fn load_in(&self, chain: &[Segment], oid: Oid) -> Option<Lsn> {
        let tables = chain.iter().flat_map(|segment| &segment.tables);
        let tables = tables.filter(|it| self.is_of(it.version, oid));
        tables.filter_map(|it| it.loaded).max()
    }

    /// The ends of all loads of a table in these segments.
    pub(crate) fn loads(&self, chain: &[Segment], oid: Oid) -> Result<Vec<Lsn>, Error> {
        let mut loads = Vec::new();
        self.visit(
            chain,
            None,
            &|it| it.oid == oid,
            &mut |transaction, changed| {
                if transaction.snapshot && !changed.is_empty() {
                    loads.push(transaction.end_lsn);
                }
            },
        )?;
        Ok(loads)
    }

    /// The last name of a table.
    pub(crate) fn name_of(&self, oid: Oid) -> String {
        let mut versions = self.versions().iter().rev();
        let version = versions.find(|it| it.oid == oid);
        version.map_or_else(
            || oid.to_string(),
            |it| format!("{}.{}", it.schema, it.name),
        )
    }

    /// Reads segments up to an end. Calls a function at the end of each transaction, with the wanted
    /// relations that it changed.
    pub(super) fn visit(
        &self,
        chain: &[Segment],
        end: Option<End>,
        wants: &dyn Fn(&Relation) -> bool,
        at_commit: &mut dyn FnMut(&Transaction, &[Arc<Relation>]),
    ) -> Result<(), Error> {
        let mut assembler = Assembler::new(Framing::Wire);
        if let Some(end) = end {
            assembler = assembler.with_end(end);
        }
        let mut chunk = Vec::new();
        let mut changed: Vec<Arc<Relation>> = Vec::new();
        let mut stream = self.read_segments(chain);
        while !assembler.is_past_end() && stream.read(&mut chunk)? {
            let mut input = &*chunk;
            while let Some(event) = assembler.next_with(&mut input, |change| {
                if changed.last().map(|it| it.version) != Some(change.relation.version) {
                    changed.push(Arc::clone(change.relation));
                }
                Ok::<_, ()>(())
            })? {
                match event {
                    Event::Begin(_) => changed.clear(),
                    Event::Relation { relation, .. } if !wants(relation) => {
                        let version = relation.version;
                        assembler.leave_out(version);
                    }
                    Event::Truncate(truncate) => {
                        let relations = truncate.relations.into_iter();
                        changed.extend(relations.filter(|it| wants(it)));
                    }
                    Event::Commit { transaction, .. } => at_commit(transaction, &changed),
                    _ => {}
                }
            }
        }
        Ok(())
    }
}

fn not_loaded(table: &str) -> Error {
    let table = table.to_owned();
    Error::new("", ErrorKind::NotLoaded { table })
}
