//! From a column's PostgreSQL type to its Arrow field, and to the plan that fills it.
//!
//! The field follows from OID, type modifier, type name, catalog and options alone; never from
//! values or from the format they come in.

mod catalog;

use crate::error::{Conversion, Error, ErrorKind, OptionsError, Remedy, SchemaError, TypeLimit};
use crate::forms::{self, Extension, Form, Target};
use crate::options::{OnUnrepresentable, Options};
use crate::profile::Profile;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field};
use catalog::ColumnType;
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Column, Relation, TypeKind, TypeName};
use walrow_types::{BuiltIn, SessionSettings, Unknown};
use walrow_wire::Oid;

pub(crate) use catalog::Types;

/// What a column becomes.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) field: Field,
    pub(crate) pg_type: ColumnType,
    pub(crate) form: Form,
}

/// Chooses what columns become: the options that this depends on.
#[derive(Debug)]
pub(crate) struct Resolver {
    pub(crate) profile: Profile,
    trim_bpchar: bool,
    pub(crate) settings: SessionSettings,
    catalog: Arc<Catalog>,
    types: HashMap<String, DataType>,
    unrepresentable: OnUnrepresentable,
    column_unrepresentable: HashMap<String, OnUnrepresentable>,
}

impl Resolver {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            profile: options.profile,
            trim_bpchar: options.trim_bpchar,
            settings: options.session,
            catalog: Arc::clone(&options.catalog),
            types: options.types.clone(),
            unrepresentable: options.unrepresentable,
            column_unrepresentable: options.column_unrepresentable.clone(),
        }
    }

    /// As [`Resolver::new`], for the text of columns.
    pub(crate) fn of_text(options: &Options) -> Self {
        Self {
            profile: Profile::Text,
            ..Self::new(options)
        }
    }

    /// The types of one table's columns, to be found.
    pub(crate) fn types(&self) -> Types<'_> {
        Types::new(&self.catalog)
    }

    fn target(&self, ewkb: bool) -> Target {
        Target {
            profile: self.profile,
            trim_bpchar: self.trim_bpchar,
            settings: self.settings,
            ewkb,
        }
    }

    /// Resolves one column. `requested` is a target schema's type, which goes before the option
    /// `types`.
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
        // A schema's bytes may as well be the profile's own.
        let target = self.target(chosen.or_else(of_type).is_some());
        let wanted = of_column.or_else(of_type);
        let pg_type = match types.find(column) {
            Ok(pg_type) => pg_type,
            // As of a type that nothing tells of, the server's text is there.
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
                    // A key that names the type is no word on this column.
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

    /// What becomes of a column's values that Arrow cannot hold.
    pub(crate) fn policy(&self, relation: &Relation, column: &Column) -> OnUnrepresentable {
        let policies = &self.column_unrepresentable;
        for_column(policies, relation, &column.name)
            .or_else(|| for_type(policies, &self.catalog, column))
            .copied()
            .unwrap_or(self.unrepresentable)
    }

    /// Refuses `types` that nothing can become, or nothing that the key is known to name.
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

    /// Refuses what nothing can become that the key is known to name: types, and columns with their tables. Where columns
    /// are named without theirs, others may come.
    fn check_pair(&self, key: &str, data_type: &DataType) -> Result<(), Error> {
        let target = self.target(false);
        // Of what nothing is told, anything may come.
        let can_be = |pg_type: Option<&ColumnType>| {
            pg_type.is_none_or(|it| Arc::clone(it).form_as(data_type, target).is_some())
        };
        // Of no type modifier, of that of one bit, which is a boolean, and of that of a vector's length.
        let modifiers = [-1, 1, dimensions(data_type)];
        // One at a time: a type may be large, and there may be many.
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

    /// Whether this is so of any of the catalog's columns that take their type from this key, given whether it is their
    /// name alone, and what their type is called and is.
    fn any_column(
        &self,
        key: &str,
        data_type: &DataType,
        mut is_so: impl FnMut(bool, &str, Option<&ColumnType>) -> bool,
    ) -> bool {
        let catalog = &self.catalog;
        for table in &catalog.tables {
            // Most tables have none: what follows takes longer.
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
                let pg_type = catalog::told(catalog, oid, type_modifier);
                if is_so(*column.name == *key, &type_name, pg_type.as_ref()) {
                    return true;
                }
            }
        }
        false
    }
}

/// Whether strings or bytes are wanted, which need not be taken apart.
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

/// The longest of the keys that name this column.
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

/// The type's schema, unless it is built in, and its name, if anything tells it.
fn name_of(catalog: &Catalog, column: &Column) -> (Option<String>, Option<String>) {
    if let Some(known) = known_name(catalog, column.type_oid) {
        return known;
    }
    match &column.type_name {
        Some(TypeName { namespace, name }) => (Some(namespace.to_string()), Some(name.to_string())),
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

/// What options have for the type by its own name, or by that of one that it is a domain over. A server calls a domain
/// by the last of these, and so options mean the same with a catalog as without one.
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
    // A catalog's domains may be over one another.
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

/// The number of dimensions that vectors must have to become such lists; -1 for any.
fn dimensions(data_type: &DataType) -> i32 {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => dimensions(item.data_type()),
        DataType::FixedSizeList(_, size) => *size,
        _ => -1,
    }
}

/// Whether nothing within this type says that it is never null.
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

/// Says what a type can become instead.
fn cannot_become(
    subject: &str,
    data_type: &DataType,
    pg_type: &ColumnType,
    profile: Profile,
) -> Conversion {
    let own = match pg_type.alternatives(profile) {
        own if own.is_empty() => own,
        own => format!("{own}, "),
    };
    let always = if profile.is_native() {
        "string (also large_string, string_view, dictionary) or binary (also large_binary, \
         binary_view)"
    } else {
        "string or binary"
    };
    Conversion {
        subject: subject.to_owned(),
        data_type: data_type.clone(),
        alternatives: format!("{own}{always}"),
    }
}
