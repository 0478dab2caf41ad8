//! The tables that the options select, and the one schema of their batches.

use crate::error::{Error, ErrorKind, SchemaError};
use crate::options::Options;
use crate::table_name::TableName;
use arrow_schema::{FieldRef, SchemaRef};
use std::sync::Arc;
use walrow_stream::Relation;

/// The selected table, or all tables.
#[derive(Debug)]
pub(crate) struct Selection {
    name: Option<TableName>,
    /// The schema that the options declare.
    declared: Option<SchemaRef>,
    /// The table, once it has appeared.
    found: Option<Found>,
}

/// The selected table, and the schema of all its batches.
#[derive(Debug)]
struct Found {
    namespace: Box<str>,
    name: Box<str>,
    schema: SchemaRef,
}

impl Selection {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            name: options.table.clone(),
            declared: options.schema.clone(),
            found: None,
        }
    }

    /// Whether the relation's table is selected.
    pub(crate) fn has(&self, relation: &Relation) -> bool {
        let name = self.name.as_ref();
        name.is_none_or(|name| name.matches(relation.oid, &relation.namespace, &relation.name))
    }

    /// Like [`Selection::has`].
    ///
    /// # Errors
    /// The name is also the name of a side table.
    pub(crate) fn chooses(&self, relation: &Relation) -> Result<bool, Error> {
        let is_chosen = self.has(relation);
        if is_chosen && self.name.as_ref().and_then(TableName::side_table).is_some() {
            let table = relation.to_string();
            return Err(Error::new(ErrorKind::Schema(SchemaError::SideTableName {
                table,
            })));
        }
        Ok(is_chosen)
    }

    /// Binds the selected table to the relation, or checks that the relation is the same table.
    /// Returns the schema of earlier batches, if it is known.
    ///
    /// # Errors
    /// Another table has the same name in another schema.
    pub(crate) fn select(
        &mut self,
        relation: &Relation,
        schema: &SchemaRef,
    ) -> Result<Option<SchemaRef>, Error> {
        if self.name.is_none() {
            return Ok(None);
        }
        let Some(found) = &self.found else {
            self.found = Some(Found {
                namespace: relation.namespace.clone(),
                name: relation.name.clone(),
                schema: Arc::clone(schema),
            });
            return Ok(None);
        };
        let (one, other) = (
            (&*found.namespace, &*found.name),
            (&*relation.namespace, &*relation.name),
        );
        let by_oid = matches!(self.name, Some(TableName::Oid(_)));
        if one != other && !by_oid {
            return Err(Error::new(ErrorKind::Schema(SchemaError::ambiguous(
                one, other,
            ))));
        }
        Ok(Some(Arc::clone(&found.schema)))
    }

    /// The one schema of all batches, once it is known.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        let found = || Some(Arc::clone(&self.found.as_ref()?.schema));
        self.declared.clone().or_else(found)
    }

    /// The selected table, if it has not appeared.
    pub(crate) fn missing(&self) -> Option<&TableName> {
        let name = self.name.as_ref()?;
        (name.side_table().is_none() && self.found.is_none()).then_some(name)
    }
}

/// Whether both schemas have the same columns. Field metadata may differ, such as the type modifier
/// of a varchar that got longer.
pub(crate) fn has_same_columns(one: &SchemaRef, other: &SchemaRef) -> bool {
    let (one, other) = (one.fields(), other.fields());
    let is_same = |(one, other): (&FieldRef, &FieldRef)| {
        one.name() == other.name()
            && one.data_type() == other.data_type()
            && one.is_nullable() == other.is_nullable()
    };
    one.len() == other.len() && one.iter().zip(other).all(is_same)
}
