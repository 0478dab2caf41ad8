//! `walrow.relations`.

use super::row::{SideRow, Types, lists};
use crate::table_name::SideTable;
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BooleanArray, Int32Array};
use arrow_schema::{DataType, Field, Fields};
use std::sync::Arc;
use walrow_stream::{Column, Relation};

/// A relation version, and the first change to which it applies.
#[derive(Debug)]
pub(super) struct RelationRow {
    relation: Arc<Relation>,
    commit_lsn: u64,
    seq: u64,
}

impl RelationRow {
    pub(super) fn new(relation: &Arc<Relation>, commit_lsn: u64, seq: u64) -> Self {
        Self {
            relation: Arc::clone(relation),
            commit_lsn,
            seq,
        }
    }

    fn column_fields(types: Types) -> Fields {
        Fields::from(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("type_oid", types.narrow(), false),
            Field::new("type_modifier", DataType::Int32, false),
            Field::new("type_name", DataType::Utf8, true),
            Field::new("key", DataType::Boolean, false),
        ])
    }

    fn columns(rows: &[Self], types: Types) -> ArrayRef {
        let all = || rows.iter().flat_map(|row| &row.relation.columns);
        let (mut names, mut type_names) = (StringBuilder::new(), StringBuilder::new());
        for column in all() {
            names.append_value(&column.name);
            let name = column.type_name.as_ref();
            type_names.append_option(name.map(|it| format!("{}.{}", it.namespace, it.name)));
        }
        let modifiers = all().map(|column: &Column| Some(column.type_modifier));
        let keys = all().map(|column| Some(column.is_key));
        let columns: Vec<ArrayRef> = vec![
            Arc::new(names.finish()),
            types.narrows(all().map(|column| Some(column.type_oid))),
            Arc::new(modifiers.collect::<Int32Array>()),
            Arc::new(type_names.finish()),
            Arc::new(keys.collect::<BooleanArray>()),
        ];
        let lengths = rows.iter().map(|row| row.relation.columns.len());
        lists(Self::column_fields(types), columns, lengths, None)
    }
}

impl SideRow for RelationRow {
    const TABLE: SideTable = SideTable::Relations;

    fn fields(types: Types) -> Vec<Field> {
        let column = DataType::Struct(Self::column_fields(types));
        vec![
            Field::new("relation_oid", types.narrow(), false),
            Field::new("schema_name", DataType::Utf8, false),
            Field::new("table_name", DataType::Utf8, false),
            Field::new("replica_identity", DataType::Utf8, false),
            Field::new("columns", DataType::new_list(column, true), false),
            Field::new("commit_lsn", types.wide(), false),
            Field::new("seq", types.wide(), false),
        ]
    }

    fn size(&self) -> usize {
        let relation = &self.relation;
        let names = relation.namespace.len().saturating_add(relation.name.len());
        let columns = relation.columns.iter().map(|column| {
            let type_name = column.type_name.as_ref();
            let type_name =
                type_name.map_or(0, |it| it.namespace.len().saturating_add(it.name.len()));
            size_of::<Column>()
                .saturating_add(column.name.len())
                .saturating_add(type_name)
        });
        let size = size_of::<Self>().saturating_add(names);
        columns.fold(size, usize::saturating_add)
    }

    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef> {
        let (mut schemas, mut tables) = (StringBuilder::new(), StringBuilder::new());
        let mut identities = StringBuilder::new();
        for row in rows {
            schemas.append_value(&row.relation.namespace);
            tables.append_value(&row.relation.name);
            identities.append_value(row.relation.replica_identity.name());
        }
        vec![
            types.narrows(rows.iter().map(|row| Some(row.relation.oid))),
            Arc::new(schemas.finish()),
            Arc::new(tables.finish()),
            Arc::new(identities.finish()),
            Self::columns(rows, types),
            types.wides(rows.iter().map(|row| Some(row.commit_lsn))),
            types.wides(rows.iter().map(|row| Some(row.seq))),
        ]
    }
}
