//! `walrow.transactions`.

use super::row::{SideRow, Types, lists};
use crate::table_name::SideTable;
use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, StringBuilder};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field, Fields};
use std::sync::Arc;
use walrow_stream::Transaction;

/// A committed transaction.
#[derive(Debug)]
pub(super) struct TransactionRow {
    transaction: Transaction,
    /// Microseconds since 1970.
    commit_time: i64,
    prepare_time: Option<i64>,
    changes: u64,
}

impl TransactionRow {
    /// Makes the row of a transaction. The caller has checked that its times fit.
    pub(super) fn new(transaction: &Transaction, changes: u64) -> Self {
        Self {
            commit_time: transaction.commit_time.unix_micros().unwrap_or(i64::MAX),
            prepare_time: transaction
                .prepared
                .as_ref()
                .filter(|prepared| prepared.prepare_lsn.is_valid())
                .and_then(|prepared| prepared.prepare_time.unix_micros()),
            transaction: transaction.clone(),
            changes,
        }
    }

    fn origin_fields(types: Types) -> Fields {
        Fields::from(vec![
            Field::new("name", DataType::Utf8, false),
            Field::new("lsn", types.wide(), true),
        ])
    }

    fn origins(rows: &[Self], types: Types) -> ArrayRef {
        let all = || rows.iter().flat_map(|row| &row.transaction.origins);
        let mut names = StringBuilder::new();
        for origin in all() {
            names.append_value(&origin.name);
        }
        // 0/0 means that the writer set no LSN. The caller has checked that an LSN that does not
        // fit may become null.
        let fits = |lsn: &u64| *lsn != 0 && types.holds(*lsn);
        let lsns = all().map(|origin| Some(origin.commit_lsn.0).filter(fits));
        let columns = vec![Arc::new(names.finish()) as ArrayRef, types.wides(lsns)];
        let lengths = rows.iter().map(|row| row.transaction.origins.len());
        let nulls: NullBuffer = rows
            .iter()
            .map(|row| !row.transaction.origins.is_empty())
            .collect();
        lists(Self::origin_fields(types), columns, lengths, Some(nulls))
    }
}

impl SideRow for TransactionRow {
    const TABLE: SideTable = SideTable::Transactions;

    fn fields(types: Types) -> Vec<Field> {
        let origin = DataType::Struct(Self::origin_fields(types));
        vec![
            Field::new("xid", types.narrow(), false),
            Field::new("commit_lsn", types.wide(), false),
            Field::new("end_lsn", types.wide(), false),
            Field::new("commit_timestamp", Types::time(), false),
            Field::new("origins", DataType::new_list(origin, true), true),
            Field::new("gid", DataType::Utf8, true),
            Field::new("prepare_lsn", types.wide(), true),
            Field::new("prepare_timestamp", Types::time(), true),
            Field::new("snapshot", DataType::Boolean, false),
            Field::new("changes", types.wide(), false),
        ]
    }

    fn size(&self) -> usize {
        let origins = self.transaction.origins.iter();
        let names: usize = origins
            .map(|origin| origin.name.len().saturating_add(32))
            .sum();
        let prepared = self.transaction.prepared.as_ref();
        size_of::<Self>()
            .saturating_add(names)
            .saturating_add(prepared.map_or(0, |prepared| prepared.gid.len()))
    }

    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef> {
        let heads = || rows.iter().map(|row| &row.transaction);
        let prepared = || heads().map(|head| head.prepared.as_ref());
        let mut gids = StringBuilder::new();
        for prepared in prepared() {
            gids.append_option(prepared.map(|prepared| &prepared.gid));
        }
        let mut snapshots = BooleanBuilder::new();
        heads().for_each(|head| snapshots.append_value(head.snapshot));
        vec![
            types.narrows(heads().map(|head| Some(head.xid))),
            types.wides(heads().map(|head| Some(head.commit_lsn.0))),
            types.wides(heads().map(|head| Some(head.end_lsn.0))),
            Types::times(rows.iter().map(|row| Some(row.commit_time))),
            Self::origins(rows, types),
            Arc::new(gids.finish()),
            types.wides(prepared().map(|it| Some(it?.prepare_lsn.0).filter(|lsn| *lsn > 0))),
            Types::times(rows.iter().map(|row| row.prepare_time)),
            Arc::new(snapshots.finish()),
            types.wides(rows.iter().map(|row| Some(row.changes))),
        ]
    }
}
