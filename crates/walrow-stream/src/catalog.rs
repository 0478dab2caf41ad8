//! What the stream does not say of types and tables: an immutable value, read once from a server
//! or kept in a file beside a capture.

use serde::{Deserialize, Serialize};
use std::fmt;
use walrow_wire::Oid;

/// User-defined types, and tables whose schema is wanted before a stream is there.
///
/// ```
/// use walrow_stream::Catalog;
/// let catalog = Catalog::from_json(r#"{
///     "types": [{"oid": 16400, "schema": "public", "name": "price",
///                "kind": "domain", "base": 1700, "type_modifier": 655366}]
/// }"#)?;
/// assert_eq!(catalog.types[0].name, "price");
/// assert_eq!(Catalog::from_json(&catalog.to_json())?, catalog);
/// # Ok::<(), walrow_stream::CatalogError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Catalog {
    /// Types that are not built in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<CatalogType>,
    /// Tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<CatalogTable>,
}

/// A type of `pg_type`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CatalogType {
    /// `pg_type.oid`
    pub oid: Oid,
    /// The schema's name.
    pub schema: String,
    /// `pg_type.typname`
    pub name: String,
    /// What kind of type it is.
    #[serde(flatten)]
    pub kind: TypeKind,
}

/// What kind of type it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[non_exhaustive]
pub enum TypeKind {
    /// A base type of an extension, known by its name.
    Base,
    /// An array.
    Array {
        /// `pg_type.typelem`
        element: Oid,
        /// `pg_type.typdelim` of the element.
        #[serde(default = "comma")]
        delimiter: char,
    },
    /// A domain.
    Domain {
        /// `pg_type.typbasetype`
        base: Oid,
        /// `pg_type.typtypmod`; -1 for none.
        #[serde(default = "no_modifier")]
        type_modifier: i32,
    },
    /// An enum.
    Enum {
        /// The labels in their order.
        labels: Vec<String>,
    },
    /// A composite type.
    Composite {
        /// The attributes in their order.
        attributes: Vec<Attribute>,
    },
    /// A range.
    Range {
        /// `pg_range.rngsubtype`
        subtype: Oid,
    },
    /// A multirange.
    Multirange {
        /// The range type.
        range: Oid,
    },
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attribute {
    /// `pg_attribute.attname`
    pub name: String,
    /// `pg_attribute.atttypid`
    #[serde(rename = "type")]
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    #[serde(default = "no_modifier")]
    pub type_modifier: i32,
}

/// A table as a publication shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogTable {
    /// The schema's name.
    pub schema: String,
    /// `pg_class.relname`
    pub name: String,
    /// `pg_class.oid`
    pub oid: Oid,
    /// The published columns in attribute order.
    pub columns: Vec<CatalogColumn>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogColumn {
    /// `pg_attribute.attname`
    pub name: String,
    /// `pg_attribute.atttypid`
    #[serde(rename = "type")]
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    #[serde(default = "no_modifier")]
    pub type_modifier: i32,
    /// Whether it is part of the replica identity.
    #[serde(default)]
    pub key: bool,
}

const fn comma() -> char {
    ','
}

const fn no_modifier() -> i32 {
    -1
}

/// A text that is not a catalog.
#[derive(Debug)]
pub struct CatalogError(serde_json::Error);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a catalog in JSON: {}", self.0)
    }
}

impl std::error::Error for CatalogError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

impl Catalog {
    /// Reads a catalog from JSON.
    pub fn from_json(json: &str) -> Result<Self, CatalogError> {
        serde_json::from_str(json).map_err(CatalogError)
    }

    /// Writes the catalog as JSON.
    pub fn to_json(&self) -> String {
        // Strings, numbers and lists only: nothing that JSON cannot hold.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The type with this OID.
    pub fn type_of(&self, oid: Oid) -> Option<&CatalogType> {
        self.types.iter().find(|entry| entry.oid == oid)
    }
}
