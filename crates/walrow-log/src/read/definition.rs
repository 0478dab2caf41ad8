//! The definition of a table for a range that does not change it: its net has no rows, and still
//! has columns.

use crate::error::Error;
use crate::format::version::TableVersion;
use crate::read::log::{Log, chains};
use crate::read::resolve::PlanReader;
use crate::read::table_changes::failed;
use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_stream::{Assembler, CatalogColumn, CatalogTable, End, Event, Net, Relation};
use walrow_wire::{Framing, Lsn, Oid, ReplicaIdentity};

/// A definition of a table, and a segment that uses it.
#[derive(Debug)]
pub(crate) struct Definition {
    relation: Relation,
    stream: PlanReader,
}

impl Log {
    /// The definition that changes of a table used last, up to a point. If all changes are later, the
    /// first one.
    pub(crate) fn definition(&self, oid: Oid, at: Lsn) -> Option<Definition> {
        let segments = self.segments().iter();
        let mut used = segments
            .flat_map(|segment| segment.tables.iter().map(move |table| (segment, table)))
            .filter(|(_, table)| self.is_of(table.version, oid));
        let earlier = used.clone().filter(|(_, table)| table.last <= at);
        let last = earlier.max_by_key(|(_, table)| (table.last, table.version));
        let (segment, table) = last.or_else(|| used.next())?;
        let version = self.versions().get(table.version)?;
        let columns = version.columns.iter();
        let columns = columns.map(|(name, type_oid, type_modifier, key)| {
            let mut column = CatalogColumn::new(name.clone(), *type_oid, *type_modifier);
            column.key = *key;
            column
        });
        let table = CatalogTable::new(oid, &*version.schema, &*version.name, columns.collect());
        let letter = u8::try_from(version.identity).ok();
        let identity = letter.and_then(ReplicaIdentity::from_letter);
        let mut relation = Relation::from(&table);
        relation.replica_identity = identity.unwrap_or(ReplicaIdentity::Default);
        Some(Definition {
            relation,
            stream: self.read_segments([segment]),
        })
    }
}

impl Log {
    /// The versions of a table that its changes between two LSNs use, as places in
    /// [`Log::versions`](crate::Log::versions), in the order of their last use. Without changes
    /// in between, the last version before.
    ///
    /// # Errors
    /// A segment is damaged, or the store failed.
    pub fn versions_between(&self, oid: Oid, start: Lsn, end: Lsn) -> Result<Vec<usize>, Error> {
        let mut used: BTreeMap<usize, Lsn> = BTreeMap::new();
        let mut before: Option<(Lsn, usize)> = None;
        let mut note = |version: usize, last: Lsn| {
            if last > start {
                let known = used.entry(version).or_insert(last);
                *known = last.max(*known);
            } else {
                before = before.max(Some((last, version)));
            }
        };
        for chain in chains(self.segments()) {
            let tables = chain.iter().flat_map(|segment| &segment.tables);
            let mut tables = tables.filter(|it| self.is_of(it.version, oid)).peekable();
            let is_after = chain.first().is_none_or(|head| head.start >= end);
            if is_after || tables.peek().is_none() {
                continue;
            }
            if chain.last().is_some_and(|last| last.end <= end) {
                tables.for_each(|it| note(it.version, it.last));
                continue;
            }
            // The index lacks the places where versions begin.
            let is_wanted = |it: &Relation| it.oid == oid;
            let at_end = Some(End::Lsn(end));
            self.visit(chain, at_end, &is_wanted, &mut |transaction, changed| {
                for relation in changed {
                    let version = TableVersion::from(&**relation);
                    if let Some(place) = self.versions().iter().position(|it| **it == version) {
                        note(place, transaction.end_lsn);
                    }
                }
            })?;
        }
        if used.is_empty() {
            return Ok(before.into_iter().map(|(_, version)| version).collect());
        }
        let mut found: Vec<_> = used.into_iter().collect();
        found.sort_unstable_by_key(|(version, last)| (*last, *version));
        Ok(found.into_iter().map(|(version, _)| version).collect())
    }
}

impl Definition {
    /// Gives it to a net, after the types that the segment defines.
    pub(crate) fn describe(self, net: &mut Net) -> Result<(), Error> {
        let relation = self.define_types(net)?;
        net.relation(&relation).map_err(|error| failed(error, 0))
    }

    /// Gives a net the types that the segment defines, and returns the definition.
    pub(crate) fn define_types(mut self, net: &mut Net) -> Result<Arc<Relation>, Error> {
        let mut assembler = Assembler::new(Framing::Wire);
        let mut chunk = Vec::new();
        let mut is_head = true;
        while is_head && self.stream.read(&mut chunk)? {
            let mut input = &*chunk;
            while let Some(event) = assembler.next_with(&mut input, |_| Ok::<_, ()>(()))? {
                match event {
                    Event::Fact(fact) => net.fact(&fact),
                    Event::Begin(_) => {
                        is_head = false;
                        break;
                    }
                    _ => {}
                }
            }
        }
        Ok(Arc::new(self.relation))
    }
}
