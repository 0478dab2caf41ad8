//! `walrow.truncates`.

use super::row::{SideRow, Types, lists};
use crate::metadata::Commit;
use crate::table_name::SideTable;
use arrow_array::builder::StringBuilder;
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, Field, Fields};
use std::sync::Arc;
use walrow_stream::Relation;

/// The bytes of a table without its names: offsets and OID.
const TABLE_BYTES: usize = 32;

/// A TRUNCATE.
#[derive(Debug)]
pub(super) struct TruncateRow {
    pub(super) commit: Commit,
    pub(super) seq: u64,
    pub(super) cascade: bool,
    pub(super) restart_identity: bool,
    pub(super) relations: Vec<Arc<Relation>>,
}

impl TruncateRow {
    fn table_fields(types: Types) -> Fields {
        Fields::from(vec![
            Field::new("schema_name", DataType::Utf8, false),
            Field::new("table_name", DataType::Utf8, false),
            Field::new("relation_oid", types.narrow(), false),
        ])
    }

    fn tables(rows: &[Self], types: Types) -> ArrayRef {
        let all = || rows.iter().flat_map(|row| &row.relations);
        let (mut schemas, mut tables) = (StringBuilder::new(), StringBuilder::new());
        for relation in all() {
            schemas.append_value(&relation.namespace);
            tables.append_value(&relation.name);
        }
        let columns: Vec<ArrayRef> = vec![
            Arc::new(schemas.finish()),
            Arc::new(tables.finish()),
            types.narrows(all().map(|relation| Some(relation.oid))),
        ];
        let lengths = rows.iter().map(|row| row.relations.len());
        lists(Self::table_fields(types), columns, lengths, None)
    }
}

impl SideRow for TruncateRow {
    const TABLE: SideTable = SideTable::Truncates;

    fn fields(types: Types) -> Vec<Field> {
        let table = DataType::Struct(Self::table_fields(types));
        vec![
            Field::new("commit_lsn", types.wide(), false),
            Field::new("seq", types.wide(), false),
            Field::new("commit_timestamp", Types::time(), false),
            Field::new("xid", types.narrow(), false),
            Field::new("cascade", DataType::Boolean, false),
            Field::new("restart_identity", DataType::Boolean, false),
            Field::new("tables", DataType::new_list(table, true), false),
        ]
    }

    fn size(&self) -> usize {
        let tables = self.relations.iter().map(|relation| {
            let names = relation.namespace.len().saturating_add(relation.name.len());
            names.saturating_add(TABLE_BYTES)
        });
        tables.fold(size_of::<Self>(), usize::saturating_add)
    }

    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef> {
        let cascade = rows.iter().map(|row| Some(row.cascade));
        let restart = rows.iter().map(|row| Some(row.restart_identity));
        vec![
            types.wides(rows.iter().map(|row| Some(row.commit.lsn))),
            types.wides(rows.iter().map(|row| Some(row.seq))),
            Types::times(rows.iter().map(|row| Some(row.commit.time))),
            types.narrows(rows.iter().map(|row| Some(row.commit.xid))),
            Arc::new(cascade.collect::<BooleanArray>()),
            Arc::new(restart.collect::<BooleanArray>()),
            Self::tables(rows, types),
        ]
    }
}
