//! Side tables: the contents of a stream besides rows, in tables of the schema `walrow`.
//!
//! Each one collects plain values and makes arrays of them when a batch is finished. It has few
//! rows compared to the stream's tables.

mod builder;
mod collect;
mod messages;
mod relations;
mod row;
mod transactions;
mod truncates;

pub(crate) use collect::Sides;
use messages::MessageRow;
use relations::RelationRow;
use row::{SideRow, Types};
use transactions::TransactionRow;
use truncates::TruncateRow;

use crate::profile::Profile;
use crate::table_name::SideTable;
use arrow_schema::{Schema, SchemaRef};
use std::sync::Arc;

impl SideTable {
    /// The schema of the side table in a profile.
    pub fn schema(self, profile: Profile) -> SchemaRef {
        let types = Types::new(profile);
        let fields = match self {
            Self::Transactions => TransactionRow::fields(types),
            Self::Messages => MessageRow::fields(types),
            Self::Relations => RelationRow::fields(types),
            Self::Truncates => TruncateRow::fields(types),
        };
        Arc::new(Schema::new(fields))
    }
}
