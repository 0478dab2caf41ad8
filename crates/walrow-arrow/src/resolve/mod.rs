//! From a column's PostgreSQL type to its Arrow field, and to the plan that fills it.
//!
//! The field follows from OID, type modifier, type name, catalog and options alone; never from
//! values or from the format they come in.

mod kind;
mod profile;
mod requested;

use crate::arrow_type::ArrowTypeName;
use crate::column::{Foreign, Plan};
use crate::error::{Error, ErrorKind, python};
use crate::options::{DecoderBuilder, OnUnrepresentable, Profile};
use crate::pg_type;
use crate::session::SessionSettings;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field};
use kind::{Beyond, PgType};
use serde_json::json;
use std::collections::HashMap;
use walrow_stream::{Catalog, Column, Relation, TypeKind, TypeName};
use walrow_wire::Oid;

pub(crate) use kind::Types;
pub(crate) use requested::has_nullable_items;

/// What a column becomes.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) field: Field,
    pub(crate) plan: Plan,
}

/// The options that plans follow.
#[derive(Clone, Copy)]
struct Target<'a> {
    profile: Profile,
    trim_bpchar: bool,
    session: &'a SessionSettings,
    /// Whether a geometry as bytes is one as `PostGIS` keeps it: where `types` asks for bytes.
    ewkb: bool,
}

impl<'a> Target<'a> {
    fn new(options: &'a DecoderBuilder) -> Self {
        Self {
            profile: options.profile,
            trim_bpchar: options.trim_bpchar,
            session: &options.session,
            ewkb: false,
        }
    }

    /// The plan for cells that were written under the session's settings.
    fn under_session(self, pg_type: &PgType, plan: Plan) -> Plan {
        let session = *self.session;
        let foreign = match &plan {
            // The cell as it came.
            Plan::Foreign(..) | Plan::Laid(..) | Plan::Binary(_) => None,
            Plan::Utf8(form) => form.is_foreign(session).then_some(Foreign::Text(session)),
            Plan::Trimmed | Plan::Map => session.latin1.then_some(Foreign::Latin1),
            _ => match pg_type {
                PgType::Date | PgType::Timestamp { zone: _ } | PgType::Interval => {
                    Foreign::of(&profile::text_form(pg_type), session)
                }
                _ => None,
            },
        };
        let Some(foreign) = foreign else { return plan };
        Plan::Foreign(Box::new(plan), foreign)
    }
}

/// Resolves one column. `requested` is a target schema's type, which goes before the option
/// `types`.
pub(crate) fn column(
    options: &DecoderBuilder,
    relation: &Relation,
    column: &Column,
    requested: Option<&DataType>,
    types: &mut Types<'_>,
) -> Result<Resolved, Error> {
    let mut target = Target::new(options);
    let (schema, type_name) = name_of(&options.catalog, column);
    let chosen = DecoderBuilder::for_column(&options.types, relation, &column.name);
    let of_column = requested.or(chosen);
    let of_type = || for_type(&options.types, &options.catalog, column);
    // A schema's bytes may as well be the profile's own.
    target.ewkb = chosen.or_else(of_type).is_some();
    let wanted = of_column.or_else(of_type);
    let pg_type = match types.find(column) {
        Ok(pg_type) => pg_type,
        // As of a type that nothing tells of, the server's text is there.
        Err(_) if is_text(wanted, options.profile) => PgType::Other,
        Err(beyond) => return Err(too_much(beyond, relation, column, requested.is_some())),
    };
    let plan = match wanted {
        None => profile::plan(&pg_type, target),
        Some(data_type) => {
            let plan = requested::plan(&pg_type, data_type, target);
            let plan = plan.filter(|_| requested::can_be(data_type, options.profile));
            plan.ok_or_else(|| {
                let pg = type_name
                    .clone()
                    .unwrap_or_else(|| column.type_oid.to_string());
                let text = requested::impossible(&pg, data_type, &pg_type, options.profile);
                // A key that names the type is no word on this column.
                let kind = match of_column {
                    Some(_) => ErrorKind::Schema(text),
                    None => ErrorKind::Options(format!("types: {text}")),
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
    if options.profile == Profile::Arrow {
        extension(&pg_type, &plan, type_name.as_deref(), &mut metadata);
    }
    let field = Field::new(&*column.name, plan.data_type(), true).with_metadata(metadata);
    Ok(Resolved { field, plan })
}

/// Whether strings or bytes are wanted, which need not be taken apart.
fn is_text(wanted: Option<&DataType>, profile: Profile) -> bool {
    match wanted {
        None => profile == Profile::Text,
        Some(data_type) => requested::is_text(data_type),
    }
}

fn too_much(beyond: Beyond, relation: &Relation, column: &Column, in_schema: bool) -> Error {
    let table = relation.to_string();
    let way_out = if in_schema {
        "a schema that says string for it".to_owned()
    } else {
        let column = python(&format!("{table}.{}", column.name));
        format!("types={{\"{column}\": \"string\"}}")
    };
    let text = format!("{beyond}; {way_out} reads it as the server's text");
    Error::new(ErrorKind::Schema(text))
        .in_table(&table)
        .in_column(&column.name)
}

/// What becomes of a column's values that Arrow cannot hold.
pub(crate) fn policy(
    options: &DecoderBuilder,
    relation: &Relation,
    column: &Column,
) -> OnUnrepresentable {
    let policies = &options.column_unrepresentable;
    DecoderBuilder::for_column(policies, relation, &column.name)
        .or_else(|| for_type(policies, &options.catalog, column))
        .copied()
        .unwrap_or(options.unrepresentable)
}

/// Refuses `types` that nothing can become, or nothing that the key is known to name.
pub(crate) fn check_types(options: &DecoderBuilder) -> Result<(), Error> {
    let mut keys: Vec<_> = options.types.iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    for (key, data_type) in keys {
        let name = ArrowTypeName(data_type);
        if requested::can_be(data_type, options.profile) {
            check_pair(key, data_type, options)?;
            continue;
        }
        let text =
            if options.profile == Profile::Spark && requested::can_be(data_type, Profile::Arrow) {
                format!("types: {key} cannot become {name}, which Spark's schemas do not have")
            } else if !has_nullable_items(data_type) {
                format!("types: {key} cannot become {name}: a list's items may be null")
            } else {
                format!("types: {key} cannot become {name}, nor can any column")
            };
        return Err(Error::new(ErrorKind::Options(text)));
    }
    Ok(())
}

/// Refuses what nothing can become that the key is known to name: types, and columns with their tables. Where columns
/// are named without theirs, others may come.
fn check_pair(key: &str, data_type: &DataType, options: &DecoderBuilder) -> Result<(), Error> {
    let target = Target::new(options);
    // Of what nothing is told, anything may come.
    let can_be = |pg_type: Option<&PgType>| {
        pg_type.is_none_or(|it| requested::plan(it, data_type, target).is_some())
    };
    // Of no type modifier, of that of one bit, which is a boolean, and of that of a vector's length.
    let modifiers = [-1, 1, requested::dimensions(data_type)];
    // One at a time: a type may be large, and there may be many.
    let mut types = modifiers
        .into_iter()
        .flat_map(|modifier| kind::all_named(&options.catalog, key, modifier));
    let first = types.next();
    if first.is_none() && !key.contains('.') {
        return Ok(());
    }
    let mut impossible = None;
    if let Some(pg_type) = first {
        if can_be(pg_type.as_ref()) || types.any(|it| can_be(it.as_ref())) {
            return Ok(());
        }
        impossible = pg_type.map(|it| {
            let text = requested::impossible(key, data_type, &it, options.profile);
            format!("types: {text}; for a column of that name say \"table.{key}\"")
        });
    }
    let is_possible = any_column(options, key, data_type, |is_alone, type_name, pg_type| {
        if let (None, false, Some(pg_type)) = (&impossible, is_alone, pg_type) {
            let of_type = format!("{key} ({type_name})");
            let text = requested::impossible(&of_type, data_type, pg_type, options.profile);
            impossible = Some(format!("types: {text}"));
        }
        can_be(pg_type)
    });
    match impossible {
        Some(text) if !is_possible => Err(Error::new(ErrorKind::Options(text))),
        _ => Ok(()),
    }
}

/// Whether this is so of any of the catalog's columns that take their type from this key, given whether it is their
/// name alone, and what their type is called and is.
fn any_column(
    options: &DecoderBuilder,
    key: &str,
    data_type: &DataType,
    mut is_so: impl FnMut(bool, &str, Option<&PgType>) -> bool,
) -> bool {
    let catalog = &options.catalog;
    for table in &catalog.tables {
        // Most tables have none: what follows takes longer.
        let of_table = |before: &str| {
            let schema = before.strip_suffix(&*table.name);
            schema.is_some_and(|it| it.is_empty() || it.strip_suffix('.') == Some(&table.schema))
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
            let chosen = DecoderBuilder::for_column(&options.types, &relation, &column.name);
            if !chosen.is_some_and(|chosen| std::ptr::eq(chosen, data_type)) {
                continue;
            }
            let (oid, type_modifier) = (column.type_oid, column.type_modifier);
            let (_, type_name) = name_of(catalog, column);
            let type_name = type_name.unwrap_or_else(|| oid.to_string());
            let pg_type = kind::told(catalog, oid, type_modifier);
            if is_so(*column.name == *key, &type_name, pg_type.as_ref()) {
                return true;
            }
        }
    }
    false
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
    if let Some((entry, is_array)) = pg_type::by_oid(oid) {
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
    for _ in 0..=kind::MAX_LEVELS {
        if let Some(found) = name.as_ref().and_then(|name| map.get(name)) {
            return Some(found);
        }
        oid = match catalog.type_of(oid).map(|entry| &entry.kind) {
            Some(TypeKind::Domain { base, .. }) if pg_type::by_oid(oid).is_none() => *base,
            _ => return None,
        };
        name = known_name(catalog, oid).and_then(|(_, name)| name);
    }
    None
}

/// Names the canonical extension type that a field's values are of.
fn extension(
    pg_type: &PgType,
    plan: &Plan,
    type_name: Option<&str>,
    metadata: &mut HashMap<String, String>,
) {
    let strings = matches!(
        plan.data_type(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    let bytes = matches!(
        plan.data_type(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    );
    // What says nothing to whom the type is unknown.
    let is_opaque = match pg_type {
        PgType::Other | PgType::Cube | PgType::Nested(_) => strings || bytes,
        PgType::TextOnly | PgType::Geometry { .. } => bytes,
        _ => false,
    };
    let (name, parameters) = match (pg_type, plan) {
        (PgType::Uuid, Plan::Uuid) => ("arrow.uuid", String::new()),
        (PgType::Json | PgType::Jsonb, _) if strings => ("arrow.json", String::new()),
        (PgType::Geometry { is_geography, .. }, Plan::Wkb { srid }) => {
            let mut parameters = json!({});
            if let (Some(parameters), true) = (parameters.as_object_mut(), *srid != 0) {
                parameters.insert("crs".to_owned(), json!(srid.to_string()));
                parameters.insert("crs_type".to_owned(), json!("srid"));
            }
            if let (Some(parameters), true) = (parameters.as_object_mut(), *is_geography) {
                parameters.insert("edges".to_owned(), json!("spherical"));
            }
            ("geoarrow.wkb", parameters.to_string())
        }
        _ if is_opaque => {
            let name = type_name.unwrap_or("unknown");
            let parameters = json!({ "type_name": name, "vendor_name": "PostgreSQL" });
            ("arrow.opaque", parameters.to_string())
        }
        _ => return,
    };
    metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
    metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), parameters);
}
