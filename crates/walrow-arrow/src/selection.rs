//! The tables that the options select, and the one schema of their batches.

use crate::error::{Error, ErrorKind, SchemaError};
use crate::options::Options;
use crate::table_name::TableName;
use arrow_schema::{FieldRef, SchemaRef};
use std::sync::Arc;
use walrow_stream::Relation;

/// The selected tables, or all tables.
#[derive(Debug)]
pub(crate) struct Selection {
    /// Empty for all tables.
    tables: Vec<Selected>,
    has_one_schema: bool,
    /// The one schema: the declared one, or that of the first version.
    schema: Option<SchemaRef>,
}

/// A selected table.
#[derive(Debug)]
struct Selected {
    name: TableName,
    /// Schema and name of the table, once it has appeared.
    found: Option<(Box<str>, Box<str>)>,
}

impl Selected {
    fn has(&self, relation: &Relation) -> bool {
        let (namespace, name) = (&relation.namespace, &relation.name);
        self.name.matches(relation.oid, namespace, name)
    }

    /// Binds the table to the relation, or checks that the relation is the same table.
    fn find(&mut self, relation: &Relation) -> Result<(), Error> {
        let (namespace, name) = (&relation.namespace, &relation.name);
        match &self.found {
            Some((one_namespace, one)) if (one_namespace, one) != (namespace, name) => {
                if matches!(self.name, TableName::Oid(_)) {
                    // It was renamed.
                    return Ok(());
                }
                let error = SchemaError::ambiguous((one_namespace, one), (namespace, name));
                Err(Error::new(ErrorKind::Schema(error)))
            }
            Some(_) => Ok(()),
            None => {
                self.found = Some((namespace.clone(), name.clone()));
                Ok(())
            }
        }
    }
}

impl Selection {
    pub(crate) fn new(options: &Options) -> Self {
        let names = options.tables.names().iter().cloned();
        let tables = names.map(|name| Selected { name, found: None });
        Self {
            tables: tables.collect(),
            has_one_schema: options.tables.one().is_some(),
            schema: options.schema.clone(),
        }
    }

    /// Whether the relation's table is selected.
    pub(crate) fn has(&self, relation: &Relation) -> bool {
        self.tables.is_empty() || self.tables.iter().any(|table| table.has(relation))
    }

    /// Like [`Selection::has`].
    ///
    /// # Errors
    /// The name is also the name of a side table.
    pub(crate) fn chooses(&self, relation: &Relation) -> Result<bool, Error> {
        let mut chosen = self.tables.iter().filter(|table| table.has(relation));
        if let Some(table) = chosen.find_map(|table| table.name.side_table()) {
            let oid = relation.oid;
            let error = SchemaError::SideTableName { table, oid };
            return Err(Error::new(ErrorKind::Schema(error)));
        }
        Ok(self.has(relation))
    }

    /// Binds the names that match the relation to it, or checks that it is the same table. Returns
    /// the one schema of all batches, if there is one and it is known.
    ///
    /// # Errors
    /// Another table has the same name in another schema.
    pub(crate) fn select(
        &mut self,
        relation: &Relation,
        schema: &SchemaRef,
    ) -> Result<Option<SchemaRef>, Error> {
        for table in &mut self.tables {
            if table.has(relation) {
                table.find(relation)?;
            }
        }
        if !self.has_one_schema {
            return Ok(None);
        }
        let known = self.schema.clone();
        self.schema.get_or_insert_with(|| Arc::clone(schema));
        Ok(known)
    }

    /// The one schema of all batches, once it is known.
    pub(crate) fn schema(&self) -> Option<SchemaRef> {
        self.schema.clone()
    }

    /// The selected tables that have not appeared.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &TableName> {
        let missing = self.tables.iter().filter(|table| table.found.is_none());
        let names = missing.map(|table| &table.name);
        names.filter(|name| name.side_table().is_none())
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
