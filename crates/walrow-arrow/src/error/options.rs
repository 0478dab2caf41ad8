//! What is wrong with options.

use crate::arrow_type::ArrowTypeName;
use crate::error::remedy::{DecoderOption, Remedy, RemedyValue};
use crate::error::schema::Conversion;
use arrow_schema::DataType;
use std::fmt;

/// Why options are invalid or contradict each other.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionsError {
    /// A number is too small or too large.
    #[non_exhaustive]
    OutOfRange {
        /// The option.
        option: DecoderOption,
        /// The largest number, if there is one. The smallest is 1.
        limit: Option<usize>,
    },
    /// A metadata column or a table is chosen twice.
    #[non_exhaustive]
    Repeated {
        /// The option.
        option: DecoderOption,
        /// The column or the table.
        name: String,
    },
    /// One table is chosen, and also several.
    TableAndTables,
    /// An empty list of tables is chosen.
    NoTables,
    /// A text contains a zero byte, which names cannot.
    #[non_exhaustive]
    ZeroByte {
        /// The option.
        option: DecoderOption,
    },
    /// Spark does not support the Arrow type of the entry of `types`.
    #[non_exhaustive]
    NotInSpark {
        /// The entry's key.
        key: String,
        /// Its type.
        data_type: DataType,
    },
    /// The entry of `types` has items that are never null.
    #[non_exhaustive]
    ItemsNotNullable {
        /// The entry's key.
        key: String,
        /// Its type.
        data_type: DataType,
    },
    /// No column can have the Arrow type of the entry of `types`.
    #[non_exhaustive]
    NoColumnType {
        /// The entry's key.
        key: String,
        /// Its type.
        data_type: DataType,
    },
    /// The column or type that the key in `types` names cannot become this Arrow type.
    #[non_exhaustive]
    Conversion {
        /// The key and the type.
        conversion: Conversion,
        /// The key, if it names a PostgreSQL type. With a table before it, it names a column.
        type_name: Option<String>,
    },
    /// An envelope holds text: `types` do not apply to it.
    EnvelopeTypes,
    /// Envelopes and side tables have a schema of their own.
    OwnSchema,
    /// The chosen table is a side table, which an envelope does not hold.
    EnvelopeOfSideTable,
    /// A schema without a table.
    SchemaWithoutTable,
    /// One schema for several tables.
    SchemaOfSeveral,
    /// Side tables have fixed columns.
    SideTableColumns,
    /// The wanted columns contain one that the declared schema lacks.
    #[non_exhaustive]
    ColumnNotInSchema {
        /// The column.
        column: String,
    },
    /// The declared schema has a column that is not among the wanted ones.
    #[non_exhaustive]
    SchemaColumnLeftOut {
        /// The column.
        column: String,
    },
    /// Spark's types have no sentinels.
    SparkSentinel,
    /// Prepared transactions cannot be saved while some rows were not taken.
    RowsNotTaken,
}

impl OptionsError {
    /// The options that avoid the error.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::SchemaWithoutTable | Self::SchemaOfSeveral => {
                vec![Remedy::own(DecoderOption::Table)]
            }
            Self::TableAndTables => vec![Remedy::own(DecoderOption::Tables)],
            Self::NoTables => vec![Remedy::new(DecoderOption::Tables, RemedyValue::Unset)],
            Self::SparkSentinel => vec![Remedy::word(DecoderOption::Unrepresentable, "null")],
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = |f: &mut fmt::Formatter<'_>, key: &str, data_type: &DataType, why: &str| {
            let name = ArrowTypeName(data_type);
            write!(f, "types: {key} cannot become {name}{why}")
        };
        f.write_str(match self {
            Self::OutOfRange { option, limit } => {
                let option = option.name();
                return match limit {
                    Some(limit) => write!(f, "{option} must be from 1 to {limit}"),
                    None => write!(f, "{option} must be at least 1"),
                };
            }
            Self::Repeated { option, name } => {
                let what = match option {
                    DecoderOption::Metadata => "metadata column",
                    _ => "table",
                };
                return write!(f, "{what} {name} is chosen twice");
            }
            Self::ZeroByte { option } => {
                return write!(f, "{} has a zero byte", option.name());
            }
            Self::NotInSpark { key, data_type } => {
                return types(f, key, data_type, ", which Spark's schemas do not have");
            }
            Self::ItemsNotNullable { key, data_type } => {
                return types(f, key, data_type, ": the items of a list must be nullable");
            }
            Self::NoColumnType { key, data_type } => {
                return types(f, key, data_type, ": no column can have this type");
            }
            Self::Conversion {
                conversion,
                type_name,
            } => {
                write!(f, "types: {conversion}")?;
                return match type_name {
                    Some(key) => write!(
                        f,
                        "; {key} is a type here: the key of a column begins with its table"
                    ),
                    None => Ok(()),
                };
            }
            Self::EnvelopeTypes => "an envelope holds text: types do not apply to it",
            Self::OwnSchema => "envelopes and side tables have a schema of their own",
            Self::EnvelopeOfSideTable => "a side table is not read in an envelope",
            Self::SchemaWithoutTable => "a schema needs one table",
            Self::SchemaOfSeveral => {
                "a schema is for one table, because several have different columns"
            }
            Self::TableAndTables => "table and tables contradict each other",
            Self::NoTables => "tables is an empty list",
            Self::SparkSentinel => {
                "the spark profile does not support unrepresentable \"sentinel\", because Spark has no \
                 infinite dates"
            }
            Self::SideTableColumns => "columns: side tables have fixed columns",
            Self::ColumnNotInSchema { column } => {
                return write!(f, "columns: the schema has no column {column}");
            }
            Self::SchemaColumnLeftOut { column } => {
                return write!(
                    f,
                    "columns: {column} is in the schema, but not among the columns"
                );
            }
            Self::RowsNotTaken => {
                "some rows were not returned yet: prepared transactions can be saved after a flush, \
                 when all batches are taken"
            }
        })
    }
}
