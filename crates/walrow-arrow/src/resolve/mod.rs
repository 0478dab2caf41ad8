//! From a column's PostgreSQL type to its Arrow field, and to the form that fills it.
//!
//! The field depends only on OID, type modifier, type name, catalog and options. It never depends
//! on values, or on whether they are sent as text or binary.

mod catalog;
mod repeated;

use crate::error::{Conversion, Error, ErrorKind, OptionsError, Remedy, SchemaError, TypeLimit};
use crate::forms::{self, Extension, Form, Target};
use crate::options::{OnUnrepresentable, Options};
use crate::profile::Profile;
use crate::table_name::names_column;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field};
use catalog::ColumnType;
use serde_json::json;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Column, Encoding, Relation, TypeKind, TypeName};
use walrow_types::{BuiltIn, Unknown};
use walrow_wire::Oid;

pub(crate) use catalog::Types;
pub(crate) use repeated::RepeatedColumns;

/// A column's PostgreSQL type, with its Arrow field and form.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) field: Field,
    pub(crate) pg_type: ColumnType,
    pub(crate) form: Form,
}

/// The options that decide which Arrow types columns become.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) profile: Profile,
    trim_bpchar: bool,
    catalog: Arc<Catalog>,
    types: HashMap<String, DataType>,
    /// The keys of the wanted columns. `None` for all columns.
    columns: Option<Vec<String>>,
    unrepresentable: OnUnrepresentable,
    column_unrepresentable: HashMap<String, OnUnrepresentable>,
    pub(crate) keys: Arc<[String]>,
}

impl Resolver {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            profile: options.profile,
            trim_bpchar: options.trim_bpchar,
            catalog: Arc::clone(&options.catalog),
            types: options.types.clone(),
            columns: options.columns.clone(),
            unrepresentable: options.unrepresentable,
            column_unrepresentable: options.column_unrepresentable.clone(),
            keys: Arc::clone(&options.keys),
        }
    }

    /// Like [`Resolver::new`], but every column becomes text.
    pub(crate) fn of_text(options: &Options) -> Self {
        Self {
            profile: Profile::Text,
            ..Self::new(options)
        }
    }

    /// Takes the definitions of a catalog in the stream. Those of the option `catalog` have
    /// precedence, and stay.
    pub(crate) fn learn(&mut self, found: &Catalog) {
        if !self.catalog.has_each_of(found) {
            let mut catalog = found.clone();
            catalog.extend(&self.catalog);
            self.catalog = Arc::new(catalog);
        }
    }

    /// Begins the search for the types of one table's columns.
    pub(crate) fn types(&self) -> Types<'_> {
        Types::new(&self.catalog)
    }

    fn target(&self, encoding: Encoding, ewkb: bool) -> Target {
        Target {
            profile: self.profile,
            trim_bpchar: self.trim_bpchar,
            encoding,
            ewkb,
        }
    }

    /// Resolves one column. `requested` is the type in a declared schema. It has precedence over
    /// the option `types`.
    pub(crate) fn column(
        &self,
        relation: &Relation,
        column: &Column,
        requested: Option<&DataType>,
        types: &mut Types<'_>,
    ) -> Result<Resolved, Error> {
        let (schema, type_name) = name_of(&self.catalog, column);
        let chosen = for_column(&self.types, relation, &column.name);
        let of_column = requested.or(chosen);
        let of_type = || for_type(&self.types, &self.catalog, column);
        // Only `types` asks for EWKB: bytes in a declared schema may be the profile's default.
        let target = self.target(relation.encoding, chosen.or_else(of_type).is_some());
        let wanted = of_column.or_else(of_type);
        let pg_type = match types.find(column) {
            Ok(pg_type) => pg_type,
            // Like an unknown type, it has the server's text.
            Err(_) if is_text(wanted, self.profile) => Arc::new(Unknown),
            Err(limit) => return Err(too_much(limit, relation, column, requested.is_some())),
        };
        let form = match wanted {
            None => Arc::clone(&pg_type).default_form(target),
            Some(data_type) => {
                let form = Some(data_type).filter(|it| self.profile.has(it));
                let form = form.and_then(|it| Arc::clone(&pg_type).form_as(it, target));
                form.ok_or_else(|| {
                    let pg = type_name
                        .clone()
                        .unwrap_or_else(|| column.type_oid.to_string());
                    let conversion = cannot_become(&pg, data_type, &pg_type, self.profile);
                    // A key that names the type does not name this column.
                    let kind = match of_column {
                        Some(_) => ErrorKind::Schema(SchemaError::Conversion(conversion)),
                        None => ErrorKind::Options(OptionsError::Conversion {
                            conversion,
                            type_name: None,
                        }),
                    };
                    Error::new(kind)
                        .in_table(&relation.to_string())
                        .in_column(&column.name)
                })?
            }
        };
        if !form.is_exact() && self.is_key(column) {
            let table = relation.to_string();
            let text = Remedy::data_type(&format!("{table}.{}", column.name), &DataType::Utf8);
            let data_type = form.data_type().clone();
            return Err(
                Error::new(ErrorKind::Schema(SchemaError::KeyType { data_type }))
                    .with_remedies([text])
                    .in_table(&table)
                    .in_column(&column.name),
            );
        }
        let mut metadata = HashMap::from([
            ("pg.oid".to_owned(), column.type_oid.to_string()),
            ("pg.typmod".to_owned(), column.type_modifier.to_string()),
        ]);
        if let Some(name) = &type_name {
            metadata.insert("pg.type".to_owned(), name.clone());
        }
        if let Some(schema) = schema {
            metadata.insert("pg.schema".to_owned(), schema);
        }
        if let Some(extension) = form.extension()
            && self.profile.has_extension_types()
        {
            let (name, parameters) = extension_type(extension, type_name.as_deref());
            metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
            metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), parameters);
        }
        let data_type = form.data_type().clone();
        let field = Field::new(&*column.name, data_type, true).with_metadata(metadata);
        Ok(Resolved {
            field,
            pg_type,
            form,
        })
    }

    /// Whether this is the name of a type: built in, of an extension, or in the catalog.
    pub(crate) fn knows_type(&self, name: &str) -> bool {
        catalog::all_named(&self.catalog, name, -1).next().is_some()
    }

    /// Whether the options name the wanted columns.
    pub(crate) const fn has_columns(&self) -> bool {
        self.columns.is_some()
    }

    /// Whether the relation's column is wanted.
    pub(crate) fn wants(&self, relation: &Relation, column: &Column) -> bool {
        let (namespace, table) = (&relation.namespace, &relation.name);
        let names = |key: &String| names_column(key, namespace, table, &column.name);
        self.columns
            .as_ref()
            .is_none_or(|keys| keys.iter().any(names))
    }

    /// The policy for a column's values that Arrow cannot hold.
    pub(crate) fn policy(&self, relation: &Relation, column: &Column) -> OnUnrepresentable {
        let policies = &self.column_unrepresentable;
        let policy = for_column(policies, relation, &column.name)
            .or_else(|| for_type(policies, &self.catalog, column))
            .copied()
            .unwrap_or(self.unrepresentable);
        match policy {
            OnUnrepresentable::Null if self.is_key(column) => OnUnrepresentable::Error,
            policy => policy,
        }
    }

    fn is_key(&self, column: &Column) -> bool {
        self.keys.iter().any(|key| **key == *column.name)
    }

    /// Rejects a `types` entry whose Arrow type no column can have, or none that its key names.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let mut keys: Vec<_> = self.types.iter().collect();
        keys.sort_by_key(|(key, _)| *key);
        for (key, data_type) in keys {
            if self.profile.has(data_type) {
                self.check_pair(key, data_type)?;
                continue;
            }
            let (key, data_type) = (key.clone(), data_type.clone());
            let error = if !self.profile.is_native() && Profile::Arrow.has(&data_type) {
                OptionsError::NotInSpark { key, data_type }
            } else if !has_nullable_items(&data_type) {
                OptionsError::ItemsNotNullable { key, data_type }
            } else {
                OptionsError::NoColumnType { key, data_type }
            };
            return Err(Error::new(ErrorKind::Options(error)));
        }
        Ok(())
    }

    /// Rejects a `types` entry if no known type or column of its key can become it. A key without a
    /// table may name columns that appear later.
    fn check_pair(&self, key: &str, data_type: &DataType) -> Result<(), Error> {
        let target = self.target(Encoding::Utf8, false);
        // An unknown type may become anything.
        let can_be = |pg_type: Option<&ColumnType>| {
            pg_type.is_none_or(|it| Arc::clone(it).form_as(data_type, target).is_some())
        };
        // No type modifier, that of one bit, which can be a boolean, and that of a vector's length.
        let modifiers = [-1, 1, dimensions(data_type)];
        // One at a time: a type may be large, and many types may have this name.
        let mut types = modifiers
            .into_iter()
            .flat_map(|modifier| catalog::all_named(&self.catalog, key, modifier));
        let first = types.next();
        if first.is_none() && !key.contains('.') {
            return Ok(());
        }
        let mut impossible = None;
        if let Some(pg_type) = first {
            if can_be(pg_type.as_ref()) || types.any(|it| can_be(it.as_ref())) {
                return Ok(());
            }
            impossible = pg_type.map(|it| OptionsError::Conversion {
                conversion: cannot_become(key, data_type, &it, self.profile),
                type_name: Some(key.to_owned()),
            });
        }
        let is_possible = self.any_column(key, data_type, |is_alone, type_name, pg_type| {
            if let (None, false, Some(pg_type)) = (&impossible, is_alone, pg_type) {
                let of_type = format!("{key} ({type_name})");
                impossible = Some(OptionsError::Conversion {
                    conversion: cannot_become(&of_type, data_type, pg_type, self.profile),
                    type_name: None,
                });
            }
            can_be(pg_type)
        });
        match impossible {
            Some(error) if !is_possible => Err(Error::new(ErrorKind::Options(error))),
            _ => Ok(()),
        }
    }

    /// Whether `holds` is true for any column in the catalog that gets its Arrow type from this
    /// key. `holds` takes whether the key is only the column's name, the type's name, and the type.
    fn any_column(
        &self,
        key: &str,
        data_type: &DataType,
        mut holds: impl FnMut(bool, &str, Option<&ColumnType>) -> bool,
    ) -> bool {
        let catalog = &self.catalog;
        for table in &catalog.tables {
            // Most tables have no such column, and the check below takes longer.
            let of_table = |before: &str| {
                let schema = before.strip_suffix(&*table.name);
                schema
                    .is_some_and(|it| it.is_empty() || it.strip_suffix('.') == Some(&table.schema))
            };
            let names = |column: &str| {
                let before = key.strip_suffix(column);
                before.is_some_and(|it| it.is_empty() || it.strip_suffix('.').is_some_and(of_table))
            };
            if !table.columns.iter().any(|it| names(&it.name)) {
                continue;
            }
            let relation = Relation::from(table);
            for column in &relation.columns {
                let chosen = for_column(&self.types, &relation, &column.name);
                if !chosen.is_some_and(|chosen| std::ptr::eq(chosen, data_type)) {
                    continue;
                }
                let (oid, type_modifier) = (column.type_oid, column.type_modifier);
                let (_, type_name) = name_of(catalog, column);
                let type_name = type_name.unwrap_or_else(|| oid.to_string());
                let pg_type = catalog::column_type(catalog, oid, type_modifier);
                if holds(*column.name == *key, &type_name, pg_type.as_ref()) {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether the column becomes a string or bytes, which need no parts of the type.
fn is_text(wanted: Option<&DataType>, profile: Profile) -> bool {
    match wanted {
        None => profile.is_text(),
        Some(data_type) => forms::is_text_or_bytes(data_type),
    }
}

fn too_much(limit: TypeLimit, relation: &Relation, column: &Column, in_schema: bool) -> Error {
    let table = relation.to_string();
    let name = format!("{table}.{}", column.name);
    let remedies = (!in_schema).then(|| Remedy::data_type(&name, &DataType::Utf8));
    Error::new(ErrorKind::Schema(SchemaError::TypeLimit {
        limit,
        in_schema,
    }))
    .with_remedies(Vec::from_iter(remedies))
    .in_table(&table)
    .in_column(&column.name)
}

/// The entry of the longest key that names this column.
fn for_column<'a, T>(
    map: &'a HashMap<String, T>,
    relation: &Relation,
    column: &str,
) -> Option<&'a T> {
    if map.is_empty() {
        return None;
    }
    let Relation {
        namespace, name, ..
    } = relation;
    map.get(&format!("{namespace}.{name}.{column}"))
        .or_else(|| map.get(&format!("{name}.{column}")))
        .or_else(|| map.get(column))
}

/// The type's schema, unless it is built in, and its name, if they are known.
fn name_of(catalog: &Catalog, column: &Column) -> (Option<String>, Option<String>) {
    if let Some(known) = known_name(catalog, column.type_oid) {
        return known;
    }
    match &column.type_name {
        Some(TypeName {
            namespace, name, ..
        }) => (Some(namespace.to_string()), Some(name.to_string())),
        None => (None, None),
    }
}

fn known_name(catalog: &Catalog, oid: Oid) -> Option<(Option<String>, Option<String>)> {
    if let Some((entry, is_array)) = BuiltIn::by_oid(oid) {
        let underscore = if is_array { "_" } else { "" };
        return Some((None, Some(format!("{underscore}{}", entry.name))));
    }
    let entry = catalog.type_of(oid)?;
    Some((Some(entry.schema.clone()), Some(entry.name.clone())))
}

/// The entry for the name of the type, or of a domain's base type. A server sends only the base
/// type of a domain, so options mean the same with and without a catalog.
fn for_type<'a, T>(
    map: &'a HashMap<String, T>,
    catalog: &Catalog,
    column: &Column,
) -> Option<&'a T> {
    if map.is_empty() {
        return None;
    }
    let (_, mut name) = name_of(catalog, column);
    let mut oid = column.type_oid;
    // The base type of a domain may be another domain.
    for _ in 0..=catalog::MAX_LEVELS {
        if let Some(found) = name.as_ref().and_then(|name| map.get(name)) {
            return Some(found);
        }
        oid = match catalog.type_of(oid).map(|entry| &entry.kind) {
            Some(TypeKind::Domain { base, .. }) if BuiltIn::by_oid(oid).is_none() => *base,
            _ => return None,
        };
        name = known_name(catalog, oid).and_then(|(_, name)| name);
    }
    None
}

/// The name of a canonical extension type and its parameters.
fn extension_type(extension: &Extension, type_name: Option<&str>) -> (&'static str, String) {
    match extension {
        Extension::Uuid => ("arrow.uuid", String::new()),
        Extension::Json => ("arrow.json", String::new()),
        Extension::Wkb { srid, is_geography } => {
            let mut parameters = serde_json::Map::new();
            if *srid != 0 {
                parameters.insert("crs".to_owned(), json!(srid.to_string()));
                parameters.insert("crs_type".to_owned(), json!("srid"));
            }
            if *is_geography {
                parameters.insert("edges".to_owned(), json!("spherical"));
            }
            ("geoarrow.wkb", json!(parameters).to_string())
        }
        Extension::Opaque => {
            let name = type_name.unwrap_or("unknown");
            let parameters = json!({ "type_name": name, "vendor_name": "PostgreSQL" });
            ("arrow.opaque", parameters.to_string())
        }
    }
}

/// The number of dimensions that vectors must have to become this type. -1 means any number.
fn dimensions(data_type: &DataType) -> i32 {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => dimensions(item.data_type()),
        DataType::FixedSizeList(_, size) => *size,
        _ => -1,
    }
}

/// Whether all fields and items within this type are nullable.
pub(crate) fn has_nullable_items(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields
            .iter()
            .all(|field| field.is_nullable() && has_nullable_items(field.data_type())),
        DataType::List(item) | DataType::LargeList(item) => {
            item.is_nullable() && has_nullable_items(item.data_type())
        }
        _ => true,
    }
}

/// Describes a failed conversion, and the Arrow types that the PostgreSQL type can become.
fn cannot_become(
    subject: &str,
    data_type: &DataType,
    pg_type: &ColumnType,
    profile: Profile,
) -> Conversion {
    let mut alternatives = pg_type.alternatives(profile);
    let always = if profile.is_native() {
        [
            "string (also large_string, string_view, dictionary)",
            "binary (also large_binary, binary_view)",
        ]
    } else {
        ["string", "binary"]
    };
    alternatives.extend(always.map(Cow::Borrowed));
    Conversion {
        subject: subject.to_owned(),
        data_type: data_type.clone(),
        alternatives,
    }
}
