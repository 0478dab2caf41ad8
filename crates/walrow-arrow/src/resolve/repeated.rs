//! Columns that many tables have, resolved once: partitions, and tables with an `id`.

use super::{Resolved, Resolver, Types};
use crate::error::Error;
use crate::forms::Form;
use arrow_schema::FieldRef;
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Column, Relation};
use walrow_types::BuiltIn;
use walrow_wire::Oid;

/// Columns at most. A stream may have any number of names.
const MOST: usize = 1024;

type ByName = HashMap<Box<str>, (FieldRef, Form)>;

/// Fields and forms of columns with built-in types, by type, type modifier and name.
///
/// The first table's columns are not kept: most streams have no other table.
#[derive(Debug, Default)]
pub(crate) struct RepeatedColumns {
    first: Option<Oid>,
    columns: HashMap<(Oid, i32), ByName>,
    count: usize,
}

impl RepeatedColumns {
    /// As [`Resolver::column`], without a declared type.
    pub(crate) fn column(
        &mut self,
        resolver: &Resolver,
        relation: &Relation,
        column: &Column,
        types: &mut Types<'_>,
    ) -> Result<(FieldRef, Form), Error> {
        // A catalog may define other types again, and options may choose the type of one table's column.
        let is_same_everywhere =
            resolver.types.is_empty() && BuiltIn::by_oid(column.type_oid).is_some();
        let key = (column.type_oid, column.type_modifier);
        let known = self.columns.get(&key).and_then(|it| it.get(&*column.name));
        if let (true, Some(known)) = (is_same_everywhere, known) {
            return Ok(known.clone());
        }
        let Resolved { field, form, .. } = resolver.column(relation, column, None, types)?;
        let made = (Arc::new(field), form);
        if is_same_everywhere && *self.first.get_or_insert(relation.oid) != relation.oid {
            if self.count >= MOST {
                self.columns.clear();
                self.count = 0;
            }
            self.count = self.count.saturating_add(1);
            let of_type = self.columns.entry(key).or_default();
            of_type.insert(column.name.clone(), made.clone());
        }
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Options;
    use arrow_schema::DataType;
    use walrow_stream::{CatalogColumn, CatalogTable};

    const INT4: Oid = 23;
    const NUMERIC: Oid = 1700;

    fn relation(oid: Oid, name: &str, columns: &[(&str, Oid, i32)]) -> Relation {
        let column = |(name, type_oid, type_modifier): &(&str, Oid, i32)| {
            CatalogColumn::new(*name, *type_oid, *type_modifier)
        };
        let columns = columns.iter().map(column).collect();
        Relation::from(&CatalogTable::new(oid, "public", name, columns))
    }

    fn fields(
        repeated: &mut RepeatedColumns,
        resolver: &Resolver,
        table: &Relation,
    ) -> Vec<FieldRef> {
        let mut types = resolver.types();
        let columns = table.columns.iter();
        let made = columns.map(|it| repeated.column(resolver, table, it, &mut types).unwrap().0);
        made.collect()
    }

    #[test]
    fn tables_share_the_fields_of_equal_columns() {
        let resolver = Resolver::new(&Options::default());
        let mut repeated = RepeatedColumns::default();
        // numeric(10,2) is another type, and a name belongs to the field.
        let tables = [
            relation(1, "a", &[("id", INT4, -1), ("n", NUMERIC, -1)]),
            relation(2, "b", &[("id", INT4, -1), ("n", NUMERIC, 655_366)]),
            relation(
                3,
                "c",
                &[("m", INT4, -1), ("id", INT4, -1), ("n", NUMERIC, -1)],
            ),
        ];
        let [a, b, c] = tables.map(|table| fields(&mut repeated, &resolver, &table));
        assert!(Arc::ptr_eq(&b[0], &c[1]) && a[0] == b[0]);
        assert_ne!(b[1].data_type(), c[2].data_type());
        assert_eq!((c[0].name().as_str(), &a[1]), ("m", &c[2]));
    }

    #[test]
    fn options_choose_the_type_of_one_tables_column() {
        let mut options = Options::default();
        options.types.insert("c.id".to_owned(), DataType::Int64);
        let resolver = Resolver::new(&options);
        let mut repeated = RepeatedColumns::default();
        for (oid, name, data_type) in [
            (1, "a", DataType::Int32),
            (2, "b", DataType::Int32),
            (3, "c", DataType::Int64),
        ] {
            let table = relation(oid, name, &[("id", INT4, -1)]);
            let fields = fields(&mut repeated, &resolver, &table);
            assert_eq!(*fields[0].data_type(), data_type);
        }
    }

    #[test]
    fn unknown_types_are_resolved_for_each_table() {
        let resolver = Resolver::new(&Options::default());
        let mut repeated = RepeatedColumns::default();
        for oid in 1..=3 {
            let table = relation(oid, "a", &[("c", 16_400, -1)]);
            let mut types = resolver.types();
            let column = &table.columns[0];
            repeated
                .column(&resolver, &table, column, &mut types)
                .unwrap();
            assert_eq!(Vec::from_iter(&types.missing), [&16_400]);
        }
    }

    #[test]
    fn memory_is_bounded() {
        let resolver = Resolver::new(&Options::default());
        let mut repeated = RepeatedColumns::default();
        for n in 0..3 * MOST {
            let name = format!("c{n}");
            let oid = Oid::from(n > 0);
            let table = relation(oid, "a", &[(&name, INT4, -1)]);
            assert_eq!(fields(&mut repeated, &resolver, &table)[0].name(), &name);
            let held: usize = repeated.columns.values().map(HashMap::len).sum();
            assert!(held == repeated.count && held <= MOST, "{held}");
        }
        assert!(repeated.count > 0);
    }
}
