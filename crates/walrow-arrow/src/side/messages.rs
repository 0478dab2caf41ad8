//! `walrow.messages`.

use super::row::{SideRow, Types};
use crate::table_name::SideTable;
use arrow_array::builder::{BinaryBuilder, StringBuilder};
use arrow_array::{ArrayRef, BooleanArray};
use arrow_schema::{DataType, Field};
use std::sync::Arc;
use walrow_stream::Message;
use walrow_wire::Xid;

/// A logical message.
#[derive(Debug)]
pub(super) struct MessageRow {
    lsn: u64,
    transactional: bool,
    undecidable: bool,
    prefix: String,
    content: Vec<u8>,
    /// The transaction of a transactional message, and the seq of the change after it.
    transaction: Option<Place>,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    xid: Xid,
    commit_lsn: u64,
    seq: u64,
}

impl MessageRow {
    /// Makes the row of a message. Only a transactional one belongs to the transaction with this ID
    /// and commit LSN.
    pub(super) fn new(message: &Message<'_>, xid: Xid, commit_lsn: u64) -> Self {
        Self {
            lsn: message.lsn.0,
            transactional: message.transactional,
            undecidable: message.undecidable,
            prefix: message.prefix.to_owned(),
            content: message.content.to_vec(),
            transaction: message.transactional.then_some(Place {
                xid,
                commit_lsn,
                seq: message.seq,
            }),
        }
    }
}

impl SideRow for MessageRow {
    const TABLE: SideTable = SideTable::Messages;

    fn fields(types: Types) -> Vec<Field> {
        vec![
            Field::new("lsn", types.wide(), false),
            Field::new("xid", types.narrow(), true),
            Field::new("transactional", DataType::Boolean, false),
            Field::new("prefix", DataType::Utf8, false),
            Field::new("content", DataType::Binary, false),
            Field::new("commit_lsn", types.wide(), true),
            Field::new("seq", types.wide(), true),
            Field::new("undecidable", DataType::Boolean, false),
        ]
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            .saturating_add(self.prefix.len())
            .saturating_add(self.content.len())
    }

    fn arrays(rows: &[Self], types: Types) -> Vec<ArrayRef> {
        let places = || rows.iter().map(|row| row.transaction);
        let transactional = rows.iter().map(|row| Some(row.transactional));
        let undecidable = rows.iter().map(|row| Some(row.undecidable));
        let (mut prefixes, mut contents) = (StringBuilder::new(), BinaryBuilder::new());
        for row in rows {
            prefixes.append_value(&row.prefix);
            contents.append_value(&row.content);
        }
        vec![
            types.wides(rows.iter().map(|row| Some(row.lsn))),
            types.narrows(places().map(|place| Some(place?.xid))),
            Arc::new(transactional.collect::<BooleanArray>()),
            Arc::new(prefixes.finish()),
            Arc::new(contents.finish()),
            types.wides(places().map(|place| Some(place?.commit_lsn))),
            types.wides(places().map(|place| Some(place?.seq))),
            Arc::new(undecidable.collect::<BooleanArray>()),
        ]
    }
}
