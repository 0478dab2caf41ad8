//! The side tables that the options select, filled while the stream is read.

use super::builder::SideBuilder;
use super::messages::MessageRow;
use super::relations::RelationRow;
use super::transactions::TransactionRow;
use super::truncates::TruncateRow;
use crate::batch::Batch;
use crate::error::{DecoderOption, Error, ErrorKind, Reason, Remedy};
use crate::options::{OnUnrepresentable, Options};
use crate::profile::Profile;
use crate::rows::Current;
use crate::table_name::SideTable;
use arrow_schema::SchemaRef;
use std::sync::Arc;
use walrow_stream::{Message, Relation, Transaction};
use walrow_wire::Lsn;

/// The rows of the side tables. `None` for each one that the options do not select.
#[derive(Debug)]
pub(crate) struct Sides {
    transactions: Option<SideBuilder<TransactionRow>>,
    messages: Option<SideBuilder<MessageRow>>,
    relations: Option<SideBuilder<RelationRow>>,
    truncates: Option<SideBuilder<TruncateRow>>,
    profile: Profile,
    /// The side table, if the options select it as the only table.
    alone: Option<SideTable>,
    /// Whether an origin's LSN becomes null if it does not fit. It may be any number.
    nulls: bool,
    batch_rows: usize,
    batch_bytes: usize,
}

impl Sides {
    pub(crate) fn new(options: &Options) -> Self {
        let alone = options.tables.side_table();
        let names = options.tables.names();
        let wants = |table| names.iter().any(|it| it.side_table() == Some(table));
        let profile = options.profile;
        Self {
            transactions: wants(SideTable::Transactions).then(|| SideBuilder::new(profile)),
            messages: wants(SideTable::Messages).then(|| SideBuilder::new(profile)),
            relations: wants(SideTable::Relations).then(|| SideBuilder::new(profile)),
            truncates: wants(SideTable::Truncates).then(|| SideBuilder::new(profile)),
            profile,
            alone,
            nulls: options.unrepresentable == OnUnrepresentable::Null,
            batch_rows: options.batch_rows,
            batch_bytes: options.batch_bytes,
        }
    }

    /// The schema of the side table, if the options select it as the only table.
    pub(crate) fn schema_alone(&self) -> Option<SchemaRef> {
        self.alone.map(|table| table.schema(self.profile))
    }

    /// Whether the options select `walrow.messages`.
    pub(crate) const fn has_messages(&self) -> bool {
        self.messages.is_some()
    }

    /// Appends a complete transaction with this number of changes.
    pub(crate) fn transaction(
        &mut self,
        current: &Current,
        transaction: &Transaction,
        changes: u64,
    ) -> Result<(), Error> {
        let Some(builder) = &mut self.transactions else {
            return Ok(());
        };
        let prepared = transaction.prepared.as_ref();
        let lsns = [
            transaction.end_lsn.0,
            prepared.map_or(0, |it| it.prepare_lsn.0),
        ];
        check_lsns(self.profile, SideTable::Transactions, lsns.into_iter())?;
        let mut origins = transaction.origins.iter().map(|origin| origin.commit_lsn.0);
        if !self.profile.has_unsigned()
            && !self.nulls
            && origins.any(|lsn| i64::try_from(lsn).is_err())
        {
            let null = Remedy::word(DecoderOption::Unrepresentable, "null");
            let remedies = vec![null, Remedy::word(DecoderOption::Profile, "arrow")];
            return Err(beyond(SideTable::Transactions, Reason::OriginLsn, remedies));
        }
        let times = [
            Some(transaction.commit_time),
            prepared.map(|it| it.prepare_time),
        ];
        if times
            .into_iter()
            .flatten()
            .any(|time| time.unix_micros().is_none())
        {
            return Err(beyond(SideTable::Transactions, Reason::Time, Vec::new()));
        }
        builder.append(current, TransactionRow::new(transaction, changes));
        Ok(())
    }

    /// Appends a logical message. A transactional one belongs to the current transaction.
    pub(crate) fn message(
        &mut self,
        current: &Current,
        message: &Message<'_>,
    ) -> Result<(), Error> {
        let Some(builder) = &mut self.messages else {
            return Ok(());
        };
        let lsns = [message.lsn.0, current.commit.lsn];
        check_lsns(self.profile, SideTable::Messages, lsns.into_iter())?;
        let row = MessageRow::new(message, current.commit.xid, current.commit.lsn);
        builder.append(current, row);
        Ok(())
    }

    /// Appends a relation version that applies from the change with this seq on.
    pub(crate) fn relation(
        &mut self,
        current: &Current,
        relation: &Arc<Relation>,
        seq: u64,
    ) -> Result<(), Error> {
        let Some(builder) = &mut self.relations else {
            return Ok(());
        };
        let lsns = [current.commit.lsn];
        check_lsns(self.profile, SideTable::Relations, lsns.into_iter())?;
        builder.append(current, RelationRow::new(relation, current.commit.lsn, seq));
        Ok(())
    }

    /// Appends a TRUNCATE of the current transaction.
    pub(crate) fn truncate(
        &mut self,
        current: &Current,
        seq: u64,
        (cascade, restart_identity): (bool, bool),
        relations: &[Arc<Relation>],
    ) -> Result<(), Error> {
        let Some(builder) = &mut self.truncates else {
            return Ok(());
        };
        let lsns = [current.commit.lsn];
        check_lsns(self.profile, SideTable::Truncates, lsns.into_iter())?;
        let row = TruncateRow {
            commit: current.commit,
            seq,
            cascade,
            restart_identity,
            relations: relations.to_vec(),
        };
        builder.append(current, row);
        Ok(())
    }

    /// The position before the oldest row that was not returned.
    pub(crate) fn floor(&self) -> Option<Lsn> {
        let floors = [
            self.transactions.as_ref().and_then(SideBuilder::floor),
            self.messages.as_ref().and_then(SideBuilder::floor),
            self.relations.as_ref().and_then(SideBuilder::floor),
            self.truncates.as_ref().and_then(SideBuilder::floor),
        ];
        floors.into_iter().flatten().min()
    }

    /// Drops all rows of this transaction.
    pub(crate) fn roll_back(&mut self, current: &Current) {
        if let Some(builder) = &mut self.transactions {
            builder.roll_back(current);
        }
        if let Some(builder) = &mut self.messages {
            builder.roll_back(current);
        }
        if let Some(builder) = &mut self.relations {
            builder.roll_back(current);
        }
        if let Some(builder) = &mut self.truncates {
            builder.roll_back(current);
        }
    }

    /// Whether the options select any side table.
    pub(crate) const fn is_wanted(&self) -> bool {
        self.transactions.is_some()
            || self.messages.is_some()
            || self.relations.is_some()
            || self.truncates.is_some()
    }

    /// The bytes of the rows.
    pub(crate) fn bytes(&self) -> usize {
        let bytes = [
            self.transactions.as_ref().map_or(0, SideBuilder::bytes),
            self.messages.as_ref().map_or(0, SideBuilder::bytes),
            self.relations.as_ref().map_or(0, SideBuilder::bytes),
            self.truncates.as_ref().map_or(0, SideBuilder::bytes),
        ];
        bytes.into_iter().fold(0, usize::saturating_add)
    }

    /// Returns all rows so far as batches, each with the position before its first row.
    pub(crate) fn flush(&mut self) -> Result<Vec<(Batch, Lsn)>, Error> {
        self.finish(1, 0)
    }

    /// Returns the full batches, each with the position before its first row.
    pub(crate) fn full(&mut self) -> Result<Vec<(Batch, Lsn)>, Error> {
        self.finish(self.batch_rows, self.batch_bytes)
    }

    fn finish(&mut self, rows: usize, bytes: usize) -> Result<Vec<(Batch, Lsn)>, Error> {
        let batches = [
            self.transactions.as_mut().map(|it| it.full(rows, bytes)),
            self.messages.as_mut().map(|it| it.full(rows, bytes)),
            self.relations.as_mut().map(|it| it.full(rows, bytes)),
            self.truncates.as_mut().map(|it| it.full(rows, bytes)),
        ];
        let batches = batches
            .into_iter()
            .flatten()
            .collect::<Result<Vec<_>, _>>()?;
        Ok(batches.into_iter().flatten().collect())
    }
}

/// Rejects LSNs that do not fit the profile: Spark has no unsigned integers.
fn check_lsns(
    profile: Profile,
    table: SideTable,
    mut lsns: impl Iterator<Item = u64>,
) -> Result<(), Error> {
    if !profile.has_unsigned() && lsns.any(|lsn| i64::try_from(lsn).is_err()) {
        let remedies = vec![Remedy::word(DecoderOption::Profile, "arrow")];
        return Err(beyond(table, Reason::Lsn, remedies));
    }
    Ok(())
}

#[cold]
fn beyond(table: SideTable, reason: Reason, remedies: Vec<Remedy>) -> Error {
    let name = format!("{}.{}", SideTable::SCHEMA, table.name());
    Error::new(ErrorKind::Unrepresentable(reason))
        .with_remedies(remedies)
        .in_table(&name)
}
