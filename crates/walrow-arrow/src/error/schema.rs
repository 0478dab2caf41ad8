//! What is wrong with a table, its columns or their types.

use crate::arrow_type::ArrowTypeName;
use crate::error::remedy::{DecoderOption, Remedy, RemedyValue};
use crate::table_name::SideTable;
use arrow_schema::DataType;
use std::borrow::Cow;
use std::fmt;
use walrow_wire::Oid;

/// Why a table, its columns or their types do not match the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SchemaError {
    /// Chosen tables are not in the stream.
    #[non_exhaustive]
    NotInStream {
        /// All of them.
        missing: Vec<MissingTable>,
    },
    /// The key of an option names no column of the stream, and no type.
    #[non_exhaustive]
    NoColumn {
        /// The option.
        option: DecoderOption,
        /// The key.
        key: String,
        /// The columns of the stream with similar names.
        suggestions: Vec<String>,
    },
    /// No type holds the values of two versions of the column.
    #[non_exhaustive]
    VersionsDiffer {
        /// Where each version comes from, and its type.
        versions: [(String, DataType); 2],
    },
    /// A version of the table has columns that the given schema lacks.
    #[non_exhaustive]
    ColumnsNotInSchema {
        /// The columns.
        columns: Vec<String>,
        /// The number of the relation version.
        version: u32,
    },
    /// The chosen table is not in the catalog.
    #[non_exhaustive]
    NotInCatalog {
        /// Its name as it was given.
        table: String,
    },
    /// Two tables have the name.
    #[non_exhaustive]
    Ambiguous {
        /// Schema and name of both tables.
        tables: [(String, String); 2],
    },
    /// A table of the stream has the name of a side table.
    #[non_exhaustive]
    SideTableName {
        /// The side table.
        table: SideTable,
        /// The OID of the stream's table.
        oid: Oid,
    },
    /// The columns of the chosen table changed.
    ColumnsChanged,
    /// The table has a column with the name of a metadata column.
    MetadataName,
    /// The given schema has two columns of this name.
    RepeatedColumn,
    /// The given schema has a column that is never null.
    NotNullable,
    /// The given schema has a column whose items are never null.
    ItemsNotNullable,
    /// The given schema has another type for a metadata column.
    #[non_exhaustive]
    MetadataType {
        /// The column's type.
        expected: DataType,
        /// The schema's.
        found: DataType,
    },
    /// The given schema declares a metadata column not nullable that is sometimes null.
    MetadataNotNullable,
    /// The table lacks a column of the given schema whose nulls are too large.
    #[non_exhaustive]
    MissingColumnSize {
        /// The bytes of a null.
        size: usize,
        /// The supported bytes of all such columns.
        limit: usize,
    },
    /// The table lacks a column of the given schema, and no PostgreSQL column has its type.
    MissingColumnType,
    /// The column's type cannot become the requested Arrow type.
    Conversion(Conversion),
    /// The column identifies rows, and different values may be equal in the requested Arrow type.
    #[non_exhaustive]
    KeyType {
        /// The type.
        data_type: DataType,
    },
    /// The column's type consists of too many types.
    #[non_exhaustive]
    TypeLimit {
        /// The limit that the type exceeds.
        limit: TypeLimit,
        /// Whether its Arrow type is that of the given schema.
        in_schema: bool,
    },
}

/// A chosen table that is not in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MissingTable {
    /// Its name as it was given.
    pub table: String,
    /// The tables of the stream with similar names.
    pub suggestions: Vec<String>,
}

impl SchemaError {
    pub(crate) fn ambiguous(one: (&str, &str), other: (&str, &str)) -> Self {
        let tables = [one, other].map(|(schema, name)| (schema.to_owned(), name.to_owned()));
        Self::Ambiguous { tables }
    }

    /// The options that avoid the error.
    pub(super) fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::ColumnsChanged => {
                vec![Remedy::new(DecoderOption::Schema, RemedyValue::SchemaUnion)]
            }
            Self::ColumnsNotInSchema { .. } => vec![
                Remedy::new(DecoderOption::Schema, RemedyValue::SchemaUnion),
                Remedy::own(DecoderOption::Columns),
            ],
            Self::Ambiguous { tables } => tables.iter().map(Remedy::table).collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotInStream { missing } => return write_missing(f, missing),
            Self::NoColumn {
                option,
                key,
                suggestions,
            } => {
                let or_type = match option {
                    DecoderOption::Columns => "",
                    _ => " or type",
                };
                write!(
                    f,
                    "{}: no column{or_type} {key} in the stream",
                    option.name()
                )?;
                return write_suggestions(f, suggestions);
            }
            Self::VersionsDiffer { versions } => {
                let [(one, one_type), (other, other_type)] = versions;
                let (one_type, other_type) = (ArrowTypeName(one_type), ArrowTypeName(other_type));
                return write!(
                    f,
                    "is {one_type} in one version ({one}) and {other_type} in another ({other}), \
                     and no type holds the values of both"
                );
            }
            Self::ColumnsNotInSchema { columns, .. } => {
                let s = if columns.len() == 1 { "" } else { "s" };
                let shown = columns.get(..MOST_SHOWN).unwrap_or(columns).join(", ");
                let more = match columns.len().saturating_sub(MOST_SHOWN) {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                return write!(
                    f,
                    "this version of the table has the column{s} {shown}{more}, which the schema \
                     lacks"
                );
            }
            Self::NotInCatalog { table } => return write!(f, "no table {table} in the catalog"),
            Self::Ambiguous { tables } => return write_ambiguous(f, tables),
            Self::SideTableName { table, oid } => {
                let (schema, name) = (SideTable::SCHEMA, table.name());
                return write!(
                    f,
                    "{schema}.{name} is the name of a side table and of a table in the stream; \
                     choose the table in the stream by its OID, {oid}"
                );
            }
            Self::ColumnsChanged => "the table's columns changed",
            Self::MetadataName => {
                "the table has a column with the same name as this metadata column"
            }
            Self::RepeatedColumn => "the schema names the column twice",
            Self::NotNullable => {
                "the schema declares the column not nullable, but changes may lack the values of \
                 any column, even if it is NOT NULL in the table; make it nullable"
            }
            Self::ItemsNotNullable => {
                "the schema declares its items not nullable, but any array in PostgreSQL may \
                 contain NULL; make them nullable"
            }
            Self::MetadataType { expected, found } => {
                return write!(f, "is {expected}, but {found} in the schema");
            }
            Self::MetadataNotNullable => {
                "is null in rows whose columns were all sent, but the schema declares it not \
                 nullable; make it nullable"
            }
            Self::MissingColumnSize { size, limit } => {
                return write!(
                    f,
                    "the table has no such column, and a null of its type in the schema takes \
                     {size} bytes; at most {limit} are supported in a row"
                );
            }
            Self::MissingColumnType => "no PostgreSQL column becomes its type in the schema",
            Self::Conversion(conversion) => return conversion.fmt(f),
            Self::KeyType { data_type } => {
                return write!(
                    f,
                    "is a column of the key, and two keys of the table may be equal as {}",
                    ArrowTypeName(data_type)
                );
            }
            Self::TypeLimit { limit, in_schema } => {
                let advice = if *in_schema {
                    "; declare it as string in the schema to read it as the server's text"
                } else {
                    ""
                };
                return write!(f, "{limit}{advice}");
            }
        })
    }
}

/// The maximum number of columns that an error lists.
const MOST_SHOWN: usize = 5;

fn write_missing(f: &mut fmt::Formatter<'_>, missing: &[MissingTable]) -> fmt::Result {
    if let [MissingTable { table, suggestions }] = missing {
        write!(f, "no table {table} in the stream")?;
        if suggestions.is_empty() && table.starts_with("walrow.") {
            let names = SideTable::ALL.map(|side| format!("walrow.{}", side.name()));
            write!(f, "; walrow's own are {}", names.join(", "))?;
        }
        return write_suggestions(f, suggestions);
    }
    f.write_str("no tables ")?;
    for (place, MissingTable { table, suggestions }) in missing.iter().enumerate() {
        let separator = if place == 0 { "" } else { ", " };
        write!(f, "{separator}{table}")?;
        if !suggestions.is_empty() {
            write!(f, " (did you mean {}?)", suggestions.join(" or "))?;
        }
    }
    f.write_str(" in the stream")
}

fn write_suggestions(f: &mut fmt::Formatter<'_>, suggestions: &[String]) -> fmt::Result {
    match suggestions {
        [] => Ok(()),
        [others @ .., last] if !others.is_empty() => {
            write!(f, "; did you mean {} or {last}?", others.join(", "))
        }
        [only, ..] => write!(f, "; did you mean {only}?"),
    }
}

/// Writes both tables. Quotes names if one contains a dot, because a dot separates schema and name.
fn write_ambiguous(f: &mut fmt::Formatter<'_>, tables: &[(String, String); 2]) -> fmt::Result {
    let quoted = tables
        .iter()
        .any(|(schema, name)| schema.contains('.') || name.contains('.'));
    let quote = if quoted { "\"" } else { "" };
    let [one, other] = tables
        .each_ref()
        .map(|(schema, name)| format!("{quote}{schema}{quote}.{quote}{name}{quote}"));
    write!(f, "the name matches {one} and {other}")
}

/// An Arrow type that a PostgreSQL type cannot become.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Conversion {
    /// The PostgreSQL type, or the option's key that names it.
    pub subject: String,
    /// The Arrow type.
    pub data_type: DataType,
    /// The Arrow types that it can become. Some depend on the types of its parts, which are words.
    pub alternatives: Vec<Cow<'static, str>>,
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            subject,
            data_type,
            alternatives,
        } = self;
        let name = ArrowTypeName(data_type);
        write!(f, "{subject} cannot become {name}; it can become ")?;
        for (place, alternative) in alternatives.iter().enumerate() {
            f.write_str(match place {
                0 => "",
                _ if place.saturating_add(1) == alternatives.len() => " or ",
                _ => ", ",
            })?;
            f.write_str(alternative)?;
        }
        Ok(())
    }
}

/// A limit that a type exceeds. A catalog may contain types that consist of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TypeLimit {
    /// The number of types that it consists of.
    Types,
    /// The number of types that the table's columns up to this one consist of.
    TypesOfTable,
    /// The depth of types within types.
    Levels,
}

impl fmt::Display for TypeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Types => {
                "the column's type consists of more than 65,536 types in the catalog (a \
                 type that contains itself has no end)"
            }
            Self::TypesOfTable => {
                "the column's type and those of the columns before it consist of more than 65,536 \
                 types in the catalog"
            }
            Self::Levels => {
                "the column's type has more than 64 levels of types within types in the catalog \
                 (a type that contains itself has no end)"
            }
        })
    }
}
