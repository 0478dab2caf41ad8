//! Relation versions. Counting, merging and erasing compare them with each other.

use crate::format::segment::{TableFoot, unknown_identity};
use serde::{Deserialize, Serialize};
use walrow_stream::Relation;
use walrow_wire::Oid;

/// A table with its columns, as a relation version describes it. Equal values are the same version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableVersion {
    /// The relation.
    pub oid: Oid,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns: name, type, type modifier, and whether it is part of the replica identity.
    pub columns: Vec<(String, Oid, i32, bool)>,
    /// The letter of its replica identity: `pg_class.relreplident`.
    #[serde(default = "unknown_identity")]
    pub identity: char,
}

impl From<&Relation> for TableVersion {
    fn from(relation: &Relation) -> Self {
        let columns = relation.columns.iter().map(|it| {
            let name = it.name.to_string();
            (name, it.type_oid, it.type_modifier, it.is_key)
        });
        Self {
            oid: relation.oid,
            schema: relation.namespace.to_string(),
            name: relation.name.to_string(),
            columns: columns.collect(),
            identity: char::from(relation.replica_identity.letter()),
        }
    }
}

impl TableFoot {
    /// The relation version of its changes.
    pub(crate) fn version(&self) -> TableVersion {
        TableVersion {
            oid: self.oid,
            schema: self.schema.clone(),
            name: self.name.clone(),
            columns: self.columns.clone(),
            identity: self.identity,
        }
    }
}
