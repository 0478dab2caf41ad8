//! Changes of tables' definitions, as an event trigger writes them into the stream.

use crate::transaction::Message;
use serde::Deserialize;
use walrow_wire::Oid;

/// A command that defined a table: CREATE TABLE, ALTER TABLE or DROP TABLE.
///
/// The event trigger of `walrow.postgres.ddl_trigger` emits it as a transactional logical message.
/// Event triggers can be disabled, and each user of the database can write a message with this
/// prefix.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Ddl {
    /// The command's tag.
    pub command: String,
    /// The schema's name.
    pub schema: String,
    /// The table's name after the command.
    pub table: String,
    /// The table.
    pub oid: Oid,
    /// Its columns after the command, in the order of their numbers. `None` if it was dropped.
    pub columns: Option<Vec<DdlColumn>>,
}

/// A column of a [`Ddl`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct DdlColumn {
    /// `pg_attribute.attnum`, which stays the same when the column is renamed.
    pub number: i16,
    /// `pg_attribute.attname`
    pub name: String,
    /// `pg_attribute.atttypid`
    #[serde(rename = "type")]
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
}

impl Ddl {
    /// The prefix of its messages.
    pub const PREFIX: &str = "walrow.ddl";

    /// The command of a message. `None` if it is another message, or may belong to a savepoint that
    /// was rolled back.
    pub fn of(message: &Message<'_>) -> Option<Self> {
        let is_ddl = message.transactional && message.prefix == Self::PREFIX;
        (is_ddl && !message.undecidable)
            .then(|| serde_json::from_slice(message.content).ok())
            .flatten()
    }
}
