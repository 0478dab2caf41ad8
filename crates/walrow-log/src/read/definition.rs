//! The definition of a table for a range that does not change it: its net has no rows, and still
//! has columns.

use crate::error::Error;
use crate::read::log::Log;
use crate::read::resolve::PlanReader;
use crate::read::table_changes::failed;
use std::sync::Arc;
use walrow_stream::{Assembler, CatalogColumn, CatalogTable, Event, Net, Relation};
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
