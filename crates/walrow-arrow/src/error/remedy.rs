//! Options that avoid an error, as data. Rust, Python and the command line each print them in their
//! own form.

use crate::arrow_type::ArrowTypeName;
use arrow_schema::DataType;
use std::fmt;
use walrow_types::Unrepresentable;

/// An option of a decoder, in errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DecoderOption {
    /// [`crate::DecoderBuilder::with_batch_bytes`].
    BatchBytes,
    /// [`crate::DecoderBuilder::with_batch_memory`].
    BatchMemory,
    /// [`crate::DecoderBuilder::with_batch_rows`].
    BatchRows,
    /// [`crate::DecoderBuilder::with_columns`].
    Columns,
    /// [`crate::DecoderBuilder::with_framing`].
    Framing,
    /// [`crate::DecoderBuilder::with_gaps`].
    Gaps,
    /// [`crate::DecoderBuilder::with_late_start`].
    LateStart,
    /// [`crate::DecoderBuilder::with_message_limit`].
    MessageLimit,
    /// [`crate::DecoderBuilder::with_metadata`].
    Metadata,
    /// [`crate::DecoderBuilder::with_metadata_prefix`].
    MetadataPrefix,
    /// [`crate::DecoderBuilder::with_missing_table`].
    MissingTable,
    /// [`crate::DecoderBuilder::with_profile`].
    Profile,
    /// [`crate::DecoderBuilder::with_schema`]. [`crate::SchemaUnion`] makes one of all versions.
    Schema,
    /// [`crate::DecoderBuilder::with_encoding`].
    Session,
    /// [`crate::DecoderBuilder::with_spool`].
    Spool,
    /// [`crate::DecoderBuilder::with_spool_memory`].
    SpoolMemory,
    /// [`crate::DecoderBuilder::with_table`].
    Table,
    /// [`crate::DecoderBuilder::with_tables`].
    Tables,
    /// [`crate::DecoderBuilder::with_type`].
    Types,
    /// [`crate::DecoderBuilder::with_unfinished`].
    Unfinished,
    /// [`crate::DecoderBuilder::with_unrepresentable`], and with a key
    /// [`crate::DecoderBuilder::with_column_unrepresentable`].
    Unrepresentable,
}

impl DecoderOption {
    /// The name of the option.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BatchBytes => "batch_bytes",
            Self::BatchMemory => "batch_memory",
            Self::BatchRows => "batch_rows",
            Self::Columns => "columns",
            Self::Framing => "framing",
            Self::Gaps => "gaps",
            Self::LateStart => "late_start",
            Self::MessageLimit => "message_limit",
            Self::Metadata => "metadata",
            Self::MetadataPrefix => "metadata_prefix",
            Self::MissingTable => "missing_table",
            Self::Profile => "profile",
            Self::Schema => "schema",
            Self::Session => "session",
            Self::Spool => "spool",
            Self::SpoolMemory => "spool_memory",
            Self::Table => "table",
            Self::Tables => "tables",
            Self::Types => "types",
            Self::Unfinished => "unfinished",
            Self::Unrepresentable => "unrepresentable",
        }
    }
}

/// An option that avoids an error, and its value.
///
/// It prints as `types = string for public.orders.total`. Names in it are printed as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Remedy {
    /// The option.
    pub option: DecoderOption,
    /// The entry of the option, if it has entries: a column, or a session's setting.
    pub key: Option<String>,
    /// The value. `None` if the user must choose another value.
    pub value: Option<RemedyValue>,
}

/// What remedies do.
///
/// It prints as the words between a reason and the remedies: `; let it through by `.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Advice {
    /// They avoid the error.
    Choose,
    /// They are an option that only a decoder of bytes has.
    GiveDecoder,
    /// They choose one of two tables.
    ChooseOne,
    /// They let a value through.
    LetThrough,
    /// They read names byte by byte.
    ByteByByte,
    /// They raise a limit.
    Raise,
    /// They skip the transaction.
    SkipTransaction,
    /// They read the server's text.
    ReadText,
    /// They read both versions of a column.
    ReadBoth,
    /// They read all versions of a table.
    ReadAllVersions,
    /// They read no rows of tables that are not there.
    ReadNoRows,
    /// They take only the complete transactions.
    OnlyComplete,
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Choose => "; choose ",
            Self::GiveDecoder => {
                "; decompress the bytes if they are compressed, or give a Decoder "
            }
            Self::ChooseOne => "; choose one of them with ",
            Self::LetThrough => "; let it through by ",
            Self::ByteByByte => ", or read it byte by byte with ",
            Self::Raise => "; raise it with ",
            Self::SkipTransaction => ", or skip the transaction with ",
            Self::ReadText => "; read it as the server's text with ",
            Self::ReadBoth => "; read both with ",
            Self::ReadAllVersions => "; read all versions with ",
            Self::ReadNoRows => "; read no rows with ",
            Self::OnlyComplete => "; take only the complete transactions with ",
        })
    }
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RemedyValue {
    /// A word: a policy, a profile, a setting's value or the name of an Arrow type.
    Text(String),
    /// Names, in this order.
    Names(Vec<&'static str>),
    /// Schema and name of a table.
    Table(String, String),
    /// A number of bytes.
    Size(usize),
    /// Whether the option is on.
    Flag(bool),
    /// The schema that [`crate::SchemaUnion`] makes of all versions of the table.
    SchemaUnion,
    /// A value that only the user knows.
    Own,
    /// No value: the option is left out.
    Unset,
}

impl Remedy {
    /// An option for which the user must choose another value.
    pub(crate) const fn another(option: DecoderOption) -> Self {
        Self {
            option,
            key: None,
            value: None,
        }
    }

    pub(crate) const fn new(option: DecoderOption, value: RemedyValue) -> Self {
        Self {
            option,
            key: None,
            value: Some(value),
        }
    }

    /// An option that only the user has a value for.
    pub(crate) const fn own(option: DecoderOption) -> Self {
        Self::new(option, RemedyValue::Own)
    }

    pub(crate) fn word(option: DecoderOption, value: &str) -> Self {
        Self::new(option, RemedyValue::Text(value.to_owned()))
    }

    pub(crate) fn for_key(mut self, key: impl Into<String>) -> Self {
        self.key = Some(key.into());
        self
    }

    /// This Arrow type for a column.
    pub(crate) fn data_type(column: &str, data_type: &DataType) -> Self {
        let name = ArrowTypeName(data_type).to_string();
        Self::new(DecoderOption::Types, RemedyValue::Text(name)).for_key(column)
    }

    /// This table.
    pub(crate) fn table((schema, name): &(String, String)) -> Self {
        let table = RemedyValue::Table(schema.clone(), name.clone());
        Self::new(DecoderOption::Table, table)
    }

    /// Null for a column's values that its Arrow type cannot hold.
    pub(crate) fn null(column: &str) -> Self {
        Self::word(DecoderOption::Unrepresentable, "null").for_key(column)
    }
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { option, key, value } = self;
        let option = option.name();
        match value {
            Some(value) => write!(f, "{option} = {value}")?,
            None => write!(f, "another {option}")?,
        }
        match key {
            Some(key) => write!(f, " for {key}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for RemedyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Names(names) => write!(f, "[{}]", names.join(", ")),
            // A dot separates schema and name.
            Self::Table(schema, name) if schema.contains('.') || name.contains('.') => {
                write!(f, "\"{schema}\".\"{name}\"")
            }
            Self::Table(schema, name) => write!(f, "{schema}.{name}"),
            Self::Size(size) => size.fmt(f),
            Self::Flag(flag) => flag.fmt(f),
            Self::SchemaUnion => f.write_str("the union of all versions"),
            Self::Own => f.write_str("..."),
            Self::Unset => f.write_str("unset"),
        }
    }
}

/// What a column can become to hold any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Text.
    Text,
    /// Bytes only: the cell has no text.
    Bytes,
    /// Nothing, because its type is fixed: only the value can become null.
    Null,
    /// Text, and no value can become null: the column identifies rows.
    Key,
}

/// The options that avoid an error for such a value of a column.
pub(super) fn remedies_for(reason: Unrepresentable, column: &str, way: Way) -> Vec<Remedy> {
    let other = match way {
        Way::Bytes => DataType::Binary,
        Way::Text | Way::Null | Way::Key => DataType::Utf8,
    };
    let data_type = |data_type| vec![Remedy::data_type(column, &data_type)];
    match reason {
        _ if way == Way::Null => vec![Remedy::null(column)],
        Unrepresentable::MoneyScale if way == Way::Bytes => data_type(DataType::Binary),
        Unrepresentable::BinaryCell
        | Unrepresentable::UnknownType
        | Unrepresentable::InvalidUtf8
        | Unrepresentable::Srid => data_type(DataType::Binary),
        Unrepresentable::MoneyScale => data_type(DataType::Decimal128(19, 2)),
        Unrepresentable::TooLarge if way == Way::Key => Vec::new(),
        Unrepresentable::TooLarge => vec![Remedy::null(column)],
        _ if way == Way::Key => data_type(other),
        _ => vec![Remedy::data_type(column, &other), Remedy::null(column)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedies_print_in_neutral_words() {
        let printed = [
            Remedy::data_type("public.t.x", &DataType::Decimal128(19, 2)),
            Remedy::null("x"),
            Remedy::new(DecoderOption::LateStart, RemedyValue::Flag(true)),
            Remedy::new(DecoderOption::MessageLimit, RemedyValue::Size(5)),
            Remedy::new(
                DecoderOption::Metadata,
                RemedyValue::Names(vec!["xid", "seq"]),
            ),
            Remedy::another(DecoderOption::Spool),
            Remedy::table(&("public".to_owned(), "t".to_owned())),
            Remedy::table(&("a.b".to_owned(), "t".to_owned())),
            Remedy::new(DecoderOption::Schema, RemedyValue::SchemaUnion),
            Remedy::own(DecoderOption::Columns),
            Remedy::new(DecoderOption::Tables, RemedyValue::Unset),
        ]
        .map(|remedy| remedy.to_string());
        assert_eq!(
            printed,
            [
                "types = decimal128(19, 2) for public.t.x",
                "unrepresentable = null for x",
                "late_start = true",
                "message_limit = 5",
                "metadata = [xid, seq]",
                "another spool",
                "table = public.t",
                "table = \"a.b\".\"t\"",
                "schema = the union of all versions",
                "columns = ...",
                "tables = unset",
            ]
        );
    }
}
