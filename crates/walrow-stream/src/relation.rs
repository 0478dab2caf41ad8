//! The relation versions of a session: what its tables look like, and looked like.

use crate::catalog::CatalogTable;
use crate::error::ErrorKind;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use walrow_wire::{Oid, PgString, ReplicaIdentity};

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

/// The definitions that hold at one point of a session.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    current: HashMap<Oid, Arc<Relation>>,
    types: HashMap<Oid, TypeName>,
    next_version: u32,
    /// The relations looked up last, by the low bits of their OID: a transaction alternates
    /// between few tables, and a run of rows is of one.
    recent: [Option<Arc<Relation>>; RECENT],
}

const RECENT: usize = 8;

impl Relations {
    /// Forgets all definitions: a new session sends them again. Version numbers go on.
    pub(crate) fn clear(&mut self) {
        self.current.clear();
        self.types.clear();
        self.recent = [const { None }; RECENT];
    }

    #[inline]
    pub(crate) fn get(&mut self, oid: Oid) -> Option<&Arc<Relation>> {
        let slot = self.recent.get_mut(oid as usize % RECENT)?;
        if slot.as_ref().is_none_or(|relation| relation.oid != oid) {
            *slot = Some(Arc::clone(self.current.get(&oid)?));
        }
        slot.as_ref()
    }

    /// Takes a Type message.
    pub(crate) fn define_type(&mut self, message: &walrow_wire::Type<'_>) -> Result<(), ErrorKind> {
        let name = TypeName {
            namespace: namespace(message.namespace, "Type")?.into(),
            name: text(message.name, "Type", "type name")?.into(),
        };
        self.types.insert(message.oid, name);
        Ok(())
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
                type_name: self.types.get(&column.type_oid).cloned(),
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
        if let Some(known) = self.current.get(&message.oid) {
            relation.version = known.version;
            if **known == relation {
                return Ok(());
            }
            relation.version = self.next_version;
        }
        self.next_version = self.next_version.saturating_add(1);
        self.current.insert(message.oid, Arc::new(relation));
        if let Some(slot) = self.recent.get_mut(message.oid as usize % RECENT) {
            *slot = None;
        }
        Ok(())
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
