//! The names of tables: those of the stream, and the side tables.

use walrow_wire::Oid;

/// The name of a table, as options choose it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TableName {
    /// Schema and name.
    Qualified(String, String),
    /// `schema.name`, or a name that is unique without its schema.
    Text(String),
    /// The OID, for a table of any name. It chooses between tables of one name.
    Oid(Oid),
}

impl TableName {
    /// Whether this chooses the table `namespace.name` with this OID.
    pub fn matches(&self, oid: Oid, namespace: &str, name: &str) -> bool {
        match self {
            Self::Oid(chosen) => *chosen == oid,
            Self::Qualified(schema, table) => schema == namespace && table == name,
            Self::Text(text) => {
                text == name
                    || text
                        .strip_prefix(namespace)
                        .and_then(|rest| rest.strip_prefix('.'))
                        .is_some_and(|rest| rest == name)
            }
        }
    }
}

impl TableName {
    /// The side table of this name, such as `walrow.transactions`.
    pub(crate) fn side_table(&self) -> Option<SideTable> {
        let name = match self {
            Self::Qualified(schema, name) if schema == SideTable::SCHEMA => name,
            Self::Qualified(..) | Self::Oid(_) => return None,
            Self::Text(text) => text.strip_prefix(SideTable::SCHEMA)?.strip_prefix('.')?,
        };
        SideTable::ALL
            .into_iter()
            .find(|table| table.name() == name)
    }
}

impl std::fmt::Display for TableName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Qualified(schema, name) => write!(f, "{schema}.{name}"),
            Self::Text(text) => f.write_str(text),
            Self::Oid(oid) => write!(f, "with OID {oid}"),
        }
    }
}

impl From<&str> for TableName {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for TableName {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<Oid> for TableName {
    fn from(oid: Oid) -> Self {
        Self::Oid(oid)
    }
}

impl From<(&str, &str)> for TableName {
    fn from((schema, name): (&str, &str)) -> Self {
        Self::Qualified(schema.to_owned(), name.to_owned())
    }
}

impl From<(String, String)> for TableName {
    fn from((schema, name): (String, String)) -> Self {
        Self::Qualified(schema, name)
    }
}

/// A table of a stream's contents besides rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SideTable {
    /// `walrow.transactions`: one row for each committed transaction.
    Transactions,
    /// `walrow.messages`: one row for each message that `pg_logical_emit_message` wrote.
    Messages,
    /// `walrow.relations`: one row for each relation version.
    Relations,
    /// `walrow.truncates`: one row for each TRUNCATE, with its options and all its tables.
    Truncates,
}

impl SideTable {
    /// All side tables.
    pub const ALL: [Self; 4] = [
        Self::Transactions,
        Self::Messages,
        Self::Relations,
        Self::Truncates,
    ];

    /// The schema of the side tables.
    pub const SCHEMA: &'static str = "walrow";

    /// The table's name without the schema: `transactions`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Transactions => "transactions",
            Self::Messages => "messages",
            Self::Relations => "relations",
            Self::Truncates => "truncates",
        }
    }
}

/// Whether the key names the table's column: alone, after the table, or after schema and table.
pub(crate) fn names_column(key: &str, namespace: &str, table: &str, column: &str) -> bool {
    let is_table = |before: &str| {
        let of_namespace = before.strip_suffix(table);
        of_namespace.is_some_and(|it| it.is_empty() || it.strip_suffix('.') == Some(namespace))
    };
    let before = key.strip_suffix(column);
    before.is_some_and(|it| it.is_empty() || it.strip_suffix('.').is_some_and(is_table))
}
