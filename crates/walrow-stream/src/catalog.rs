//! Facts about types and tables that the stream does not contain. A catalog is immutable. It is
//! read once from a server, or kept in a file beside a capture.

use serde::de::{self, DeserializeOwned};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{HashMap, HashSet};
use std::fmt;
use walrow_wire::Oid;

/// User-defined types, and tables whose schema is needed before there is a stream.
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Catalog {
    /// The server's major version if it is 19 or later, which prints `pg_lsn` in another form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_version: Option<u32>,
    /// Types that are not built in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub types: Vec<CatalogType>,
    /// Tables.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tables: Vec<CatalogTable>,
}

impl Catalog {
    /// A catalog of these types and tables.
    pub const fn new(types: Vec<CatalogType>, tables: Vec<CatalogTable>) -> Self {
        Self {
            server_version: None,
            types,
            tables,
        }
    }
}

/// A type of `pg_type`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TypeEntry")]
#[non_exhaustive]
pub struct CatalogType {
    /// `pg_type.oid`
    pub oid: Oid,
    /// The schema's name.
    pub schema: String,
    /// `pg_type.typname`
    pub name: String,
    /// The kind of the type.
    #[serde(flatten)]
    pub kind: TypeKind,
}

impl CatalogType {
    /// A type.
    pub fn new(
        oid: Oid,
        schema: impl Into<String>,
        name: impl Into<String>,
        kind: TypeKind,
    ) -> Self {
        let (schema, name) = (schema.into(), name.into());
        Self {
            oid,
            schema,
            name,
            kind,
        }
    }
}

/// The kind of the type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
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
        delimiter: char,
    },
    /// A domain.
    Domain {
        /// `pg_type.typbasetype`
        base: Oid,
        /// `pg_type.typtypmod`; -1 for none.
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

impl TypeKind {
    /// The types that a type of this kind consists of, each as often as it occurs.
    pub fn parts(&self) -> Vec<Oid> {
        match self {
            Self::Base | Self::Enum { .. } => Vec::new(),
            Self::Array { element, .. } => vec![*element],
            Self::Domain { base, .. } => vec![*base],
            Self::Composite { attributes } => attributes.iter().map(|it| it.type_oid).collect(),
            // Two bounds.
            Self::Range { subtype } => vec![*subtype; 2],
            Self::Multirange { range } => vec![*range],
        }
    }
}

/// An attribute of a composite type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Attribute {
    /// `pg_attribute.attname`
    pub name: String,
    /// `pg_attribute.atttypid`; 0 if unknown.
    #[serde(rename = "type")]
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
}

impl Attribute {
    /// An attribute, with -1 as the type modifier for none.
    pub fn new(name: impl Into<String>, type_oid: Oid, type_modifier: i32) -> Self {
        let name = name.into();
        Self {
            name,
            type_oid,
            type_modifier,
        }
    }
}

/// A table as a publication shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TableEntry")]
#[non_exhaustive]
pub struct CatalogTable {
    /// The schema's name.
    pub schema: String,
    /// `pg_class.relname`
    pub name: String,
    /// `pg_class.oid`
    pub oid: Oid,
    /// The published columns in attribute order.
    pub columns: Vec<CatalogColumn>,
    /// The columns of the primary key, in its order. `None` if the catalog does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary_key: Option<Vec<String>>,
}

impl CatalogTable {
    /// A table without the fields that only some catalogs have.
    pub fn new(
        oid: Oid,
        schema: impl Into<String>,
        name: impl Into<String>,
        columns: Vec<CatalogColumn>,
    ) -> Self {
        Self {
            schema: schema.into(),
            name: name.into(),
            oid,
            columns,
            primary_key: None,
        }
    }
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CatalogColumn {
    /// `pg_attribute.attname`
    pub name: String,
    /// `pg_attribute.atttypid`
    #[serde(rename = "type")]
    pub type_oid: Oid,
    /// `pg_attribute.atttypmod`; -1 for none.
    pub type_modifier: i32,
    /// Whether it is part of the replica identity.
    pub key: bool,
    /// `pg_attribute.attnum`, which stays the same when the column is renamed. `None` if the catalog
    /// does not have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<i16>,
    /// `pg_attribute.attnotnull`
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_null: Option<bool>,
    /// The expression of its default, or of a generated column, as `pg_get_expr` writes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Whether the expression generates its values (`pg_attribute.attgenerated`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated: Option<bool>,
}

impl CatalogColumn {
    /// A column outside the replica identity, without the fields that only some catalogs have.
    pub fn new(name: impl Into<String>, type_oid: Oid, type_modifier: i32) -> Self {
        Self {
            name: name.into(),
            type_oid,
            type_modifier,
            key: false,
            number: None,
            not_null: None,
            default: None,
            generated: None,
        }
    }
}

/// Unknown keys of an entry. They are errors, so that a misspelt key does not count as a missing
/// key.
type UnknownKeys = serde_json::Map<String, serde_json::Value>;

/// The JSON form of a catalog.
#[derive(Deserialize)]
#[serde(expecting = "a catalog's object")]
struct CatalogEntry {
    #[serde(default)]
    server_version: Option<u32>,
    #[serde(default)]
    types: Vec<CatalogType>,
    #[serde(default)]
    tables: Vec<CatalogTable>,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

#[derive(Deserialize)]
#[serde(expecting = "a type's object")]
struct TypeEntry {
    oid: Oid,
    schema: String,
    name: String,
    kind: String,
    #[serde(default, deserialize_with = "required")]
    element: Option<Oid>,
    #[serde(default, deserialize_with = "required")]
    delimiter: Option<String>,
    #[serde(default, deserialize_with = "required")]
    base: Option<Oid>,
    #[serde(default, deserialize_with = "required")]
    type_modifier: Option<i32>,
    #[serde(default, deserialize_with = "required")]
    labels: Option<Vec<String>>,
    #[serde(default, deserialize_with = "required")]
    attributes: Option<Vec<ColumnEntry>>,
    #[serde(default, deserialize_with = "required")]
    subtype: Option<Oid>,
    #[serde(default, deserialize_with = "required")]
    range: Option<Oid>,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

/// A column, or an attribute, which has no `key`.
#[derive(Deserialize)]
#[serde(expecting = "a column's or an attribute's object")]
struct ColumnEntry {
    name: String,
    #[serde(rename = "type")]
    type_oid: Oid,
    #[serde(default = "no_modifier")]
    type_modifier: i32,
    #[serde(default, deserialize_with = "required")]
    key: Option<bool>,
    #[serde(default, deserialize_with = "required")]
    number: Option<i16>,
    #[serde(default, deserialize_with = "required")]
    not_null: Option<bool>,
    #[serde(default, deserialize_with = "required")]
    default: Option<String>,
    #[serde(default, deserialize_with = "required")]
    generated: Option<bool>,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

impl ColumnEntry {
    /// The first key that only a column has.
    fn key_of_columns(&self) -> Option<&'static str> {
        [
            ("key", self.key.is_some()),
            ("number", self.number.is_some()),
            ("not_null", self.not_null.is_some()),
            ("default", self.default.is_some()),
            ("generated", self.generated.is_some()),
        ]
        .into_iter()
        .find_map(|(key, is_there)| is_there.then_some(key))
    }
}

#[derive(Deserialize)]
#[serde(expecting = "a table's object")]
struct TableEntry {
    schema: String,
    name: String,
    oid: Oid,
    columns: Vec<ColumnEntry>,
    #[serde(default, deserialize_with = "required")]
    primary_key: Option<Vec<String>>,
    #[serde(flatten)]
    unknown: UnknownKeys,
}

const fn no_modifier() -> i32 {
    -1
}

/// A required, non-null value.
fn required<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

fn reject_unknown_keys(entry: impl fmt::Display, unknown: &UnknownKeys) -> Result<(), String> {
    match unknown.keys().next() {
        Some(key) => Err(format!("{entry} has no key {key:?}")),
        None => Ok(()),
    }
}

/// The first duplicate OID.
fn first_duplicate(mut oids: impl Iterator<Item = Oid>) -> Option<Oid> {
    let mut seen = HashSet::new();
    oids.find(|oid| !seen.insert(*oid))
}

/// Reads a part of other JSON from its own text, so that each type has one parser: parsers are large.
pub(crate) fn part<'de, D: Deserializer<'de>, T: DeserializeOwned>(from: D) -> Result<T, D::Error> {
    let json = serde_json::Value::deserialize(from)?.to_string();
    serde_json::from_slice(json.as_bytes()).map_err(de::Error::custom)
}

impl<'de> Deserialize<'de> for Catalog {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let entry: CatalogEntry = part(from)?;
        entry.try_into().map_err(de::Error::custom)
    }
}

impl TryFrom<CatalogEntry> for Catalog {
    type Error = String;

    fn try_from(entry: CatalogEntry) -> Result<Self, String> {
        let CatalogEntry {
            server_version,
            types,
            tables,
            unknown,
        } = entry;
        reject_unknown_keys("a catalog", &unknown)?;
        if let Some(oid) = first_duplicate(types.iter().map(|it| it.oid)) {
            return Err(format!("types: two types have the OID {oid}"));
        }
        if let Some(oid) = first_duplicate(tables.iter().map(|it| it.oid)) {
            return Err(format!("tables: two tables have the OID {oid}"));
        }
        Ok(Self {
            server_version,
            types,
            tables,
        })
    }
}

impl TryFrom<TypeEntry> for CatalogType {
    type Error = String;

    fn try_from(entry: TypeEntry) -> Result<Self, String> {
        let TypeEntry {
            oid,
            schema,
            name,
            kind,
            mut element,
            mut delimiter,
            mut base,
            mut type_modifier,
            mut labels,
            mut attributes,
            mut subtype,
            mut range,
            unknown,
        } = entry;
        let of_kind = format!("type {oid}, of kind {kind:?},");
        let lacks = |key: &str| format!("{of_kind} lacks the key {key:?}");
        let kind = match &*kind {
            "base" => TypeKind::Base,
            "array" => TypeKind::Array {
                element: element.take().ok_or_else(|| lacks("element"))?,
                delimiter: match delimiter.take() {
                    None => ',',
                    Some(text) => delimiter_of(&text)
                        .ok_or_else(|| format!("type {oid}: {text:?} is not a valid delimiter"))?,
                },
            },
            "domain" => TypeKind::Domain {
                base: base.take().ok_or_else(|| lacks("base"))?,
                type_modifier: type_modifier.take().unwrap_or(-1),
            },
            "enum" => TypeKind::Enum {
                labels: labels.take().ok_or_else(|| lacks("labels"))?,
            },
            "composite" => {
                let entries = attributes.take().ok_or_else(|| lacks("attributes"))?;
                let attributes = entries.into_iter().map(|entry| {
                    let attribute = format!("type {oid}: the attribute {:?}", entry.name);
                    reject_unknown_keys(&attribute, &entry.unknown)?;
                    if let Some(key) = entry.key_of_columns() {
                        return Err(format!("{attribute} has no key {key:?}"));
                    }
                    Ok(Attribute {
                        name: entry.name,
                        type_oid: entry.type_oid,
                        type_modifier: entry.type_modifier,
                    })
                });
                TypeKind::Composite {
                    attributes: attributes.collect::<Result<_, String>>()?,
                }
            }
            "range" => TypeKind::Range {
                subtype: subtype.take().ok_or_else(|| lacks("subtype"))?,
            },
            "multirange" => TypeKind::Multirange {
                range: range.take().ok_or_else(|| lacks("range"))?,
            },
            _ => {
                return Err(format!(
                    "{of_kind} must be of kind base, array, domain, enum, composite, range or multirange"
                ));
            }
        };
        let of_other_kinds = [
            ("element", element.is_some()),
            ("delimiter", delimiter.is_some()),
            ("base", base.is_some()),
            ("type_modifier", type_modifier.is_some()),
            ("labels", labels.is_some()),
            ("attributes", attributes.is_some()),
            ("subtype", subtype.is_some()),
            ("range", range.is_some()),
        ];
        if let Some((key, _)) = of_other_kinds.iter().find(|(_, is_left)| *is_left) {
            return Err(format!("{of_kind} has no key {key:?}"));
        }
        reject_unknown_keys(&of_kind, &unknown)?;
        Ok(Self {
            oid,
            schema,
            name,
            kind,
        })
    }
}

/// The delimiter of an array, if it is one byte that array syntax does not use.
fn delimiter_of(text: &str) -> Option<char> {
    let mut chars = text.chars();
    let delimiter = chars.next().filter(char::is_ascii)?;
    let is_special = matches!(delimiter, '{' | '}' | '"' | '\\' | ' ' | '\t'..='\r' | '\0');
    (chars.next().is_none() && !is_special).then_some(delimiter)
}

impl TryFrom<TableEntry> for CatalogTable {
    type Error = String;

    fn try_from(entry: TableEntry) -> Result<Self, String> {
        let TableEntry {
            schema,
            name,
            oid,
            columns,
            primary_key,
            unknown,
        } = entry;
        reject_unknown_keys(format_args!("table {oid}"), &unknown)?;
        let columns = columns.into_iter().map(|entry| {
            let column = format!("table {oid}: the column {:?}", entry.name);
            reject_unknown_keys(column, &entry.unknown)?;
            Ok(CatalogColumn {
                name: entry.name,
                type_oid: entry.type_oid,
                type_modifier: entry.type_modifier,
                key: entry.key.unwrap_or(false),
                number: entry.number,
                not_null: entry.not_null,
                default: entry.default,
                generated: entry.generated,
            })
        });
        Ok(Self {
            schema,
            name,
            oid,
            columns: columns.collect::<Result<_, String>>()?,
            primary_key,
        })
    }
}

/// A text that is not a catalog. `{:?}` prints the text of `{}`, and `{:#?}` the fields.
pub struct CatalogError(serde_json::Error);

impl fmt::Display for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a catalog in JSON: {}", self.0)
    }
}

impl fmt::Debug for CatalogError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return f.debug_tuple("CatalogError").field(&self.0).finish();
        }
        fmt::Display::fmt(self, f)
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
        serde_json::from_slice(json.as_bytes())
            .and_then(|entry: CatalogEntry| entry.try_into().map_err(de::Error::custom))
            .map_err(CatalogError)
    }

    /// Writes the catalog as JSON.
    pub fn to_json(&self) -> String {
        // Only strings, numbers and lists, which JSON can always represent.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The type with this OID.
    pub fn type_of(&self, oid: Oid) -> Option<&CatalogType> {
        self.types.iter().find(|entry| entry.oid == oid)
    }

    /// Adds the entries of another catalog, which replace entries with the same OID. Returns whether
    /// an entry is new or differs.
    pub fn extend(&mut self, other: &Self) -> bool {
        let types = extend(&mut self.types, &other.types, |it| it.oid);
        let tables = extend(&mut self.tables, &other.tables, |it| it.oid);
        let version = other.server_version.or(self.server_version);
        let before = std::mem::replace(&mut self.server_version, version);
        types || tables || before != version
    }

    /// Whether it has an entry for each entry of another catalog, by OID.
    pub fn has_each_of(&self, other: &Self) -> bool {
        let has_type = |entry: &CatalogType| self.types.iter().any(|it| it.oid == entry.oid);
        let has_table = |entry: &CatalogTable| self.tables.iter().any(|it| it.oid == entry.oid);
        let has_version = other.server_version.is_none() || self.server_version.is_some();
        has_version && other.types.iter().all(has_type) && other.tables.iter().all(has_table)
    }

    /// The entries of these tables, and of these types with all types inside them.
    #[must_use]
    pub fn restricted(
        &self,
        tables: impl IntoIterator<Item = Oid>,
        types: impl IntoIterator<Item = Oid>,
    ) -> Self {
        let mut oids: HashSet<Oid> = HashSet::new();
        let mut waiting: Vec<Oid> = types.into_iter().collect();
        let by_oid: HashMap<Oid, &CatalogType> =
            self.types.iter().map(|entry| (entry.oid, entry)).collect();
        while let Some(oid) = waiting.pop() {
            if let Some(entry) = by_oid.get(&oid)
                && oids.insert(oid)
            {
                waiting.extend(entry.kind.parts());
            }
        }
        let tables: HashSet<Oid> = tables.into_iter().collect();
        let types = self.types.iter().filter(|it| oids.contains(&it.oid));
        let tables = self.tables.iter().filter(|it| tables.contains(&it.oid));
        Self {
            server_version: self.server_version,
            types: types.cloned().collect(),
            tables: tables.cloned().collect(),
        }
    }

    /// Whether it has no entries.
    pub const fn is_empty(&self) -> bool {
        self.server_version.is_none() && self.types.is_empty() && self.tables.is_empty()
    }

    /// The type with this name, or `None` if there are several. OIDs differ between databases.
    pub fn type_named(&self, schema: &str, name: &str) -> Option<&CatalogType> {
        let same = |entry: &&CatalogType| entry.name == name && entry.schema == schema;
        let mut found = self.types.iter().filter(same);
        found.next().filter(|_| found.next().is_none())
    }
}

/// [`Catalog::extend`] for one list.
fn extend<T: Clone + PartialEq>(
    entries: &mut Vec<T>,
    others: &[T],
    oid: impl Fn(&T) -> Oid,
) -> bool {
    let mut has_changed = false;
    for entry in others {
        match entries.iter_mut().find(|it| oid(it) == oid(entry)) {
            Some(known) if known == entry => continue,
            Some(known) => known.clone_from(entry),
            None => entries.push(entry.clone()),
        }
        has_changed = true;
    }
    has_changed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(json: &str) -> String {
        Catalog::from_json(json).unwrap_err().to_string()
    }

    fn of_type(rest: &str) -> String {
        format!(r#"{{"types": [{{"oid": 20000, "schema": "s", "name": "n", {rest}}}]}}"#)
    }

    #[test]
    fn all_kinds_are_read_and_written() {
        for (rest, kind) in [
            (r#""kind": "base""#, TypeKind::Base),
            (
                r#""kind": "array", "element": 23"#,
                TypeKind::Array {
                    element: 23,
                    delimiter: ',',
                },
            ),
            (
                r#""kind": "array", "element": 603, "delimiter": ";""#,
                TypeKind::Array {
                    element: 603,
                    delimiter: ';',
                },
            ),
            (
                r#""kind": "domain", "base": 25"#,
                TypeKind::Domain {
                    base: 25,
                    type_modifier: -1,
                },
            ),
            (
                r#""kind": "domain", "base": 1700, "type_modifier": 655366"#,
                TypeKind::Domain {
                    base: 1700,
                    type_modifier: 655_366,
                },
            ),
            (
                r#""kind": "enum", "labels": ["a"]"#,
                TypeKind::Enum {
                    labels: vec!["a".to_owned()],
                },
            ),
            (
                r#""kind": "composite", "attributes": [{"name": "a", "type": 23}]"#,
                TypeKind::Composite {
                    attributes: vec![Attribute {
                        name: "a".to_owned(),
                        type_oid: 23,
                        type_modifier: -1,
                    }],
                },
            ),
            (
                r#""kind": "range", "subtype": 23"#,
                TypeKind::Range { subtype: 23 },
            ),
            (
                r#""kind": "multirange", "range": 20001"#,
                TypeKind::Multirange { range: 20_001 },
            ),
        ] {
            let catalog = Catalog::from_json(&of_type(rest)).unwrap();
            assert_eq!(catalog.types[0].kind, kind);
            assert_eq!(Catalog::from_json(&catalog.to_json()).unwrap(), catalog);
        }
    }

    #[test]
    fn a_key_that_has_no_place_is_named_with_its_entry() {
        for (json, wanted) in [
            (
                of_type(r#""kind": "domain", "base": 1700, "typmod": 655366"#),
                r#"type 20000, of kind "domain", has no key "typmod""#,
            ),
            (
                of_type(r#""kind": "base", "labels": []"#),
                r#"type 20000, of kind "base", has no key "labels""#,
            ),
            (
                of_type(r#""kind": "enum", "labels": [], "base": 23"#),
                r#"type 20000, of kind "enum", has no key "base""#,
            ),
            (
                of_type(
                    r#""kind": "composite", "attributes": [{"name": "a", "type": 23, "typmod": 1}]"#,
                ),
                r#"type 20000: the attribute "a" has no key "typmod""#,
            ),
            (
                of_type(
                    r#""kind": "composite", "attributes": [{"name": "a", "type": 23, "key": true}]"#,
                ),
                r#"type 20000: the attribute "a" has no key "key""#,
            ),
            (
                r#"{"tables": [{"oid": 7, "schema": "s", "name": "t", "columns": [], "kind": "r"}]}"#
                    .to_owned(),
                r#"table 7 has no key "kind""#,
            ),
            (
                r#"{"tables": [{"oid": 7, "schema": "s", "name": "t", "columns": [
                    {"name": "c", "type": 23, "typmod": 4}]}]}"#
                    .to_owned(),
                r#"table 7: the column "c" has no key "typmod""#,
            ),
            (
                r#"{"type": []}"#.to_owned(),
                r#"a catalog has no key "type""#,
            ),
            (
                of_type(r#""kind": "array""#),
                r#"type 20000, of kind "array", lacks the key "element""#,
            ),
            (
                of_type(r#""kind": "pseudo""#),
                r#"type 20000, of kind "pseudo", must be of kind base, array"#,
            ),
        ] {
            let text = refused(&json);
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn facts_of_columns_are_read_and_written() {
        let json = r#"{"tables":[{"schema":"s","name":"t","oid":7,"columns":[{"name":"a","type":23,"type_modifier":-1,"key":true,"number":3,"not_null":true,"default":"0","generated":false}],"primary_key":["a"]}]}"#;
        let catalog = Catalog::from_json(json).unwrap();
        assert_eq!(catalog.to_json(), json);
        assert_eq!(catalog.tables[0].columns[0].number, Some(3));
    }

    #[test]
    fn a_part_has_the_types_inside_its_types() {
        let json = r#"{"types": [
            {"oid": 1, "schema": "s", "name": "e", "kind": "enum", "labels": []},
            {"oid": 2, "schema": "s", "name": "_e", "kind": "array", "element": 1},
            {"oid": 3, "schema": "s", "name": "c", "kind": "composite", "attributes": [
                {"name": "itself", "type": 3}, {"name": "e", "type": 2}]},
            {"oid": 4, "schema": "s", "name": "other", "kind": "base"}
        ], "tables": [
            {"schema": "s", "name": "t", "oid": 7, "columns": []},
            {"schema": "s", "name": "u", "oid": 8, "columns": []}]}"#;
        let catalog = Catalog::from_json(json).unwrap();
        let part = catalog.restricted([8, 9], [23, 3]);
        let oids = |it: &Catalog| -> (Vec<_>, Vec<_>) {
            let types = it.types.iter().map(|it| it.oid);
            (types.collect(), it.tables.iter().map(|it| it.oid).collect())
        };
        assert_eq!(oids(&part), (vec![1, 2, 3], vec![8]));
        let mut whole = catalog.restricted([7], [4]);
        whole.extend(&part);
        assert_eq!(oids(&whole), (vec![4, 1, 2, 3], vec![7, 8]));
    }

    #[test]
    fn an_oid_is_of_one_entry() {
        let base = r#"{"oid": 20000, "schema": "s", "name": "a", "kind": "base"}"#;
        let table = r#"{"oid": 20000, "schema": "s", "name": "a", "columns": []}"#;
        let both = format!(r#"{{"types": [{base}], "tables": [{table}]}}"#);
        assert!(Catalog::from_json(&both).is_ok());
        let text = refused(&format!(r#"{{"types": [{base}, {base}]}}"#));
        assert!(
            text.contains("types: two types have the OID 20000"),
            "{text}"
        );
        let text = refused(&format!(r#"{{"tables": [{table}, {table}]}}"#));
        assert!(
            text.contains("tables: two tables have the OID 20000"),
            "{text}"
        );
    }

    #[test]
    fn json_of_another_shape_is_refused() {
        for json in [
            "[]",
            "null",
            r#"{"types": null}"#,
            r#"{"types": [[20000, "s", "n", "base"]]}"#,
            r#"{"tables": [["s", "t", 7, []]]}"#,
            &of_type(r#""kind": "composite", "attributes": [["a", 23, -1]]"#),
            &of_type(r#""kind": "domain", "base": 23, "type_modifier": null"#),
            &of_type(r#""kind": "domain", "base": null"#),
            &of_type(r#""kind": "base", "kind": "base""#),
        ] {
            refused(json);
        }
        assert!(refused("[]").contains("expected a catalog's object"));
    }

    #[test]
    fn a_delimiter_is_not_part_of_array_syntax() {
        for text in [
            "", "{", "}", r#"\""#, r"\\", " ", r"\t", r"\n", r"\u000b", r"\f", r"\r", r"\u0000",
            "é", ",,", "::",
        ] {
            let rest = format!(r#""kind": "array", "element": 23, "delimiter": "{text}""#);
            let text = refused(&of_type(&rest));
            assert!(text.contains("is not a valid delimiter"), "{text}");
        }
    }

    #[test]
    fn a_type_is_found_by_its_name_if_one_has_it() {
        let json = r#"{"types": [
            {"oid": 1, "schema": "a", "name": "n", "kind": "base"},
            {"oid": 2, "schema": "b", "name": "n", "kind": "base"},
            {"oid": 3, "schema": "b", "name": "m", "kind": "base"},
            {"oid": 4, "schema": "b", "name": "m", "kind": "base"}
        ]}"#;
        let catalog = Catalog::from_json(json).unwrap();
        let oid = |schema, name| catalog.type_named(schema, name).map(|it| it.oid);
        assert_eq!(oid("b", "n"), Some(2));
        assert_eq!(oid("b", "m"), None);
        assert_eq!(oid("a", "m"), None);
    }
}
