//! The relation versions of a session: what its tables look like, and looked like.

use crate::catalog::CatalogTable;
use crate::error::ErrorKind;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use walrow_wire::{Oid, PgString, ReplicaIdentity, Xid};

/// One version of a table, as rows arrived under it.
///
/// An identical Relation message sent again is the same version; changed columns, names, types or
/// replica identity make a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Numbers the versions of one assembler from 0, in the order in which they appeared.
    pub version: u32,
    /// The relation.
    pub oid: Oid,
    /// Its schema; `pg_catalog` is spelt out.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What identifies a row in old tuples.
    pub replica_identity: ReplicaIdentity,
    /// The published columns, in attribute order.
    pub columns: Box<[Column]>,
}

/// A column of one relation version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: Box<str>,
    /// Its type.
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
    /// Whether it is part of the replica identity.
    pub is_key: bool,
    /// What a Type message said of its type; `None` for built-in types.
    pub type_name: Option<TypeName>,
}

/// A type's name from a Type message. **For a domain it is the base type's.**
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeName {
    /// The schema; `pg_catalog` is spelt out.
    pub namespace: Arc<str>,
    /// The name.
    pub name: Arc<str>,
}

/// What a Relation message would say of a catalog's table.
impl From<&CatalogTable> for Relation {
    fn from(table: &CatalogTable) -> Self {
        let columns = table.columns.iter().map(|column| Column {
            name: column.name.as_str().into(),
            type_oid: column.type_oid,
            type_modifier: column.type_modifier,
            is_key: column.key,
            type_name: None,
        });
        Self {
            version: 0,
            oid: table.oid,
            namespace: table.schema.as_str().into(),
            name: table.name.as_str().into(),
            replica_identity: ReplicaIdentity::Default,
            columns: columns.collect(),
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.namespace, self.name)
    }
}

/// What Relation and Type messages defined, and in which order they arrived.
#[derive(Debug, Default)]
struct Definitions {
    relations: HashMap<Oid, (Arc<Relation>, u64)>,
    types: HashMap<Oid, (TypeName, u64)>,
}

/// The definitions that hold at one point of a session.
///
/// While a transaction is read that arrived in stream blocks or was prepared, its own definitions
/// lie over those of the session.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    session: Definitions,
    overlay: Option<Definitions>,
    next_version: u32,
    /// Counts Relation and Type messages as they arrive.
    arrivals: u64,
    /// Versions that were not handed out yet.
    new: VecDeque<Arc<Relation>>,
    /// The relations looked up last, by the low bits of their OID: a transaction alternates
    /// between few tables, and a run of rows is of one.
    recent: [Option<Arc<Relation>>; RECENT],
}

const RECENT: usize = 8;

impl Relations {
    /// Forgets all definitions: a new session sends them again. Version numbers go on.
    pub(crate) fn clear(&mut self) {
        self.session = Definitions::default();
        self.overlay = None;
        self.forget_recent();
    }

    fn forget_recent(&mut self) {
        self.recent = [const { None }; RECENT];
    }

    #[inline]
    pub(crate) fn get(&mut self, oid: Oid) -> Option<&Arc<Relation>> {
        let slot = self.recent.get_mut(oid as usize % RECENT)?;
        if slot.as_ref().is_none_or(|relation| relation.oid != oid) {
            let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
            let (relation, _) = overlay.or_else(|| self.session.relations.get(&oid))?;
            *slot = Some(Arc::clone(relation));
        }
        slot.as_ref()
    }

    /// A version that was not handed out yet.
    #[inline]
    pub(crate) fn next_new(&mut self) -> Option<Arc<Relation>> {
        self.new.pop_front()
    }

    /// The number of a message that arrives now.
    pub(crate) fn arrive(&mut self) -> u64 {
        self.arrivals = self.arrivals.saturating_add(1);
        self.arrivals
    }

    /// Definitions from now on are one transaction's own; it begins with these.
    pub(crate) fn enter(&mut self, inherited: Vec<Arc<Relation>>) {
        let relations = inherited.into_iter().map(|it| (it.oid, (it, 0))).collect();
        self.overlay = Some(Definitions {
            relations,
            types: HashMap::new(),
        });
        self.forget_recent();
    }

    /// Definitions from now on are the session's again. Those of the transaction that `keep`
    /// names, with their arrival, become the session's if nothing arrived outside since.
    pub(crate) fn leave(&mut self, keep: &Kept) {
        let Some(mut overlay) = self.overlay.take() else {
            return;
        };
        for (oid, (arrival, _)) in &keep.relations {
            let newer = self
                .session
                .relations
                .get(oid)
                .is_some_and(|(_, it)| it > arrival);
            if let (false, Some((relation, _))) = (newer, overlay.relations.remove(oid)) {
                self.session.relations.insert(*oid, (relation, *arrival));
            }
        }
        for (oid, (arrival, _)) in &keep.types {
            let newer = self
                .session
                .types
                .get(oid)
                .is_some_and(|(_, it)| it > arrival);
            if let (false, Some((name, _))) = (newer, overlay.types.remove(oid)) {
                self.session.types.insert(*oid, (name, *arrival));
            }
        }
        self.forget_recent();
    }

    /// Takes a Type message.
    pub(crate) fn define_type(&mut self, message: &walrow_wire::Type<'_>) -> Result<(), ErrorKind> {
        let name = TypeName {
            namespace: namespace(message.namespace, "Type")?.into(),
            name: text(message.name, "Type", "type name")?.into(),
        };
        let arrival = self.arrive();
        let types = match &mut self.overlay {
            Some(overlay) => &mut overlay.types,
            None => &mut self.session.types,
        };
        types.insert(message.oid, (name, arrival));
        Ok(())
    }

    fn type_name(&self, oid: Oid) -> Option<&TypeName> {
        let overlay = self.overlay.as_ref().and_then(|it| it.types.get(&oid));
        let (name, _) = overlay.or_else(|| self.session.types.get(&oid))?;
        Some(name)
    }

    /// Takes a Relation message.
    pub(crate) fn define(&mut self, message: &walrow_wire::Relation<'_>) -> Result<(), ErrorKind> {
        let mut columns = Vec::with_capacity(message.columns.len());
        for column in message.columns.iter() {
            columns.push(Column {
                name: text(column.name, "Relation", "column name")?.into(),
                type_oid: column.type_oid,
                type_modifier: column.type_modifier,
                is_key: column.is_key(),
                type_name: self.type_name(column.type_oid).cloned(),
            });
        }
        let mut relation = Relation {
            version: self.next_version,
            oid: message.oid,
            namespace: namespace(message.namespace, "Relation")?.into(),
            name: text(message.name, "Relation", "relation name")?.into(),
            replica_identity: message.replica_identity,
            columns: columns.into(),
        };
        let oid = message.oid;
        let arrival = self.arrive();
        let overlay = self.overlay.as_ref().and_then(|it| it.relations.get(&oid));
        let known = overlay.into_iter().chain(self.session.relations.get(&oid));
        let same = known.map(|(known, _)| known).find(|known| {
            relation.version = known.version;
            ***known == relation
        });
        let relation = if let Some(same) = same {
            Arc::clone(same)
        } else {
            relation.version = self.next_version;
            self.next_version = self.next_version.saturating_add(1);
            let relation = Arc::new(relation);
            self.new.push_back(Arc::clone(&relation));
            relation
        };
        let relations = match &mut self.overlay {
            Some(overlay) => &mut overlay.relations,
            None => &mut self.session.relations,
        };
        relations.insert(oid, (relation, arrival));
        if let Some(slot) = self.recent.get_mut(oid as usize % RECENT) {
            *slot = None;
        }
        Ok(())
    }
}

/// What a streamed transaction defined: each definition's arrival and the (sub)transaction that
/// it came with.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    pub(crate) relations: BTreeMap<Oid, (u64, Xid)>,
    pub(crate) types: BTreeMap<Oid, (u64, Xid)>,
}

impl Kept {
    /// The subtransaction was rolled back.
    pub(crate) fn forget(&mut self, subxid: Xid) {
        self.relations.retain(|_, (_, xid)| *xid != subxid);
        self.types.retain(|_, (_, xid)| *xid != subxid);
    }
}

fn text<'a>(
    string: PgString<'a>,
    message: &'static str,
    field: &'static str,
) -> Result<&'a str, ErrorKind> {
    string
        .to_str()
        .map_err(|_| ErrorKind::InvalidUtf8 { message, field })
}

/// The wire leaves `pg_catalog` empty.
fn namespace<'a>(string: PgString<'a>, message: &'static str) -> Result<&'a str, ErrorKind> {
    Ok(match text(string, message, "namespace")? {
        "" => "pg_catalog",
        name => name,
    })
}
