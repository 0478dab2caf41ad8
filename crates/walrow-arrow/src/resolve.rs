//! From a column's PostgreSQL type to its Arrow field, and to the plan that fills it.
//!
//! The field follows from OID, type modifier, type name, catalog and options alone; never from
//! values or from the format they come in.

use crate::column::{
    ArrayText, BoolForm, BytesForm, Decimal128, DecimalForm, Float, Integer, ListForm, ListPlan,
    MacSize, NumericTypmod, Plan, Shape, StructPlan, TextForm,
};
use crate::error::{Error, ErrorKind};
use crate::options::{DecoderBuilder, Profile};
use crate::pg_type;
use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use serde_json::json;
use std::collections::HashMap;
use std::sync::Arc;
use walrow_stream::{Catalog, Column, Relation, TypeKind, TypeName};
use walrow_wire::Oid;

/// What a column becomes.
#[derive(Clone, Debug)]
pub(crate) struct Resolved {
    pub(crate) field: Field,
    pub(crate) plan: Plan,
    /// Whether nothing told what its type is.
    pub(crate) unresolved: bool,
}

/// A PostgreSQL type, as far as its values are read.
#[derive(Clone, Debug, PartialEq)]
enum PgType {
    Bool,
    Integer(Integer),
    Float4,
    Float8,
    Numeric {
        type_modifier: i32,
    },
    Text,
    Char,
    Bytea,
    /// How many bits, if it is always as many.
    Bits {
        length: Option<i32>,
    },
    Uuid,
    Json,
    Jsonb,
    /// Text, which has a version before it in binary: `jsonpath`, `ltree`.
    Versioned,
    Date,
    Time,
    TimeTz,
    Timestamp {
        zone: bool,
    },
    Interval,
    Money,
    /// A name in text, the digits of an OID in binary, which no catalog here brings together.
    Reg,
    Tid,
    Network {
        is_cidr: bool,
    },
    Mac(MacSize),
    TsVector,
    Snapshot,
    /// `int2vector` or `oidvector`
    Vector(Integer),
    Array {
        element: Box<Self>,
        /// 0 if nothing told.
        element_oid: Oid,
        delimiter: u8,
    },
    Shape(Shape),
    Path,
    Polygon,
    Hstore,
    Cube,
    /// pgvector's `vector`, and how many numbers it has if always as many.
    Numbers {
        dimensions: Option<i32>,
    },
    /// pgvector's `halfvec`.
    Halves,
    /// A range of this type's values.
    Range(Box<Self>),
    /// Ranges of this type's values.
    Multirange(Box<Self>),
    /// A built-in type that has no binary form, or none that is read.
    TextOnly,
    /// PostgreSQL's own text.
    Other,
}

/// The most numbers that pgvector takes in a column's type.
const MAX_DIMENSIONS: i32 = 16_000;

/// Domains over domains end at last.
const MAX_DEPTH: u8 = 16;

/// Resolves one column. `requested` is a target schema's type, which goes before `types`.
pub(crate) fn column(
    options: &DecoderBuilder,
    relation: &Relation,
    column: &Column,
    requested: Option<&DataType>,
) -> Result<Resolved, Error> {
    let catalog = &options.catalog;
    let (pg_type, known) = lookup(
        catalog,
        column.type_oid,
        column.type_modifier,
        column.type_name.as_ref(),
        MAX_DEPTH,
    );
    let (schema, type_name) = name_of(catalog, column);
    let of_column =
        requested.or_else(|| DecoderBuilder::for_column(&options.types, relation, &column.name));
    let of_type = || type_name.as_ref().and_then(|name| options.types.get(name));
    let plan = match of_column.or_else(of_type) {
        None => profile_plan(&pg_type, options.profile),
        Some(data_type) => {
            let plan = requested_plan(&pg_type, data_type, options.profile);
            let plan = plan.filter(|_| can_be(data_type, options.profile));
            plan.ok_or_else(|| {
                let pg = type_name
                    .clone()
                    .unwrap_or_else(|| column.type_oid.to_string());
                let text = impossible(&pg, data_type, &pg_type, options.profile);
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
    Ok(Resolved {
        field,
        plan,
        unresolved: !known,
    })
}

/// Refuses `types` that nothing can become.
///
/// Any key can be a column's name, that of a built-in type too: whether this type can become that
/// one is judged when a column comes.
pub(crate) fn check_types(options: &DecoderBuilder) -> Result<(), Error> {
    let mut keys: Vec<_> = options.types.iter().collect();
    keys.sort_by_key(|(key, _)| *key);
    for (key, data_type) in keys {
        if can_be(data_type, options.profile) {
            continue;
        }
        let text = if options.profile == Profile::Spark && can_be(data_type, Profile::Arrow) {
            format!("types: {key} cannot become {data_type}, which Spark does not take")
        } else if !has_nullable_items(data_type) {
            format!("types: {key} cannot become {data_type}: a list's items may be null")
        } else {
            format!("types: {key} cannot become {data_type}, nor can any column")
        };
        return Err(Error::new(ErrorKind::Options(text)));
    }
    Ok(())
}

/// Whether any column can become this type.
fn can_be(data_type: &DataType, profile: Profile) -> bool {
    let spark = profile == Profile::Spark;
    match data_type {
        DataType::Utf8
        | DataType::Binary
        | DataType::Boolean
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::Float32
        | DataType::Float64
        | DataType::Date32
        | DataType::Time64(TimeUnit::Nanosecond)
        | DataType::Timestamp(TimeUnit::Microsecond, None) => true,
        DataType::UInt32
        | DataType::UInt64
        | DataType::FixedSizeBinary(16)
        | DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::Time64(TimeUnit::Microsecond) => !spark,
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => &**zone == "UTC",
        DataType::Decimal128(precision, scale) => {
            u8::try_from(*scale).is_ok_and(|scale| Decimal128::new(*precision, scale).is_some())
        }
        DataType::List(item) => item.is_nullable() && can_be(item.data_type(), profile),
        DataType::FixedSizeList(item, size) => {
            !spark
                && item.is_nullable()
                && *item.data_type() == DataType::Float32
                && (1..=MAX_DIMENSIONS).contains(size)
        }
        DataType::Map(..) => *data_type == Plan::Map.data_type(),
        DataType::Struct(fields) => {
            is_struct(fields, &StructPlan::interval())
                || (!spark && is_struct(fields, &StructPlan::tid()))
                || is_range(fields, profile)
                || is_geometric(fields)
        }
        _ => false,
    }
}

/// Whether these are the fields of a geometric type.
fn is_geometric(fields: &Fields) -> bool {
    let shapes = [Shape::Point, Shape::Box, Shape::Line, Shape::Circle];
    let is_shape = |shape: &Shape| is_struct(fields, &StructPlan::shape(*shape));
    if shapes.iter().any(is_shape) {
        return true;
    }
    let points = fields.get(1).map(|field| field.data_type());
    let points = points.and_then(|it| requested_plan(&PgType::Polygon, it, Profile::Arrow));
    points.is_some_and(|points| is_struct(fields, &StructPlan::path(points)))
}

/// Whether these are the fields of a range.
fn is_range(fields: &Fields, profile: Profile) -> bool {
    let [lower, upper, ..] = &**fields else {
        return false;
    };
    let names = ["lower", "upper", "lower_inc", "upper_inc", "empty"];
    fields.iter().map(|field| &**field.name()).eq(names)
        && fields.iter().all(|field| field.is_nullable())
        && fields
            .iter()
            .skip(2)
            .all(|field| *field.data_type() == DataType::Boolean)
        && can_be(lower.data_type(), profile)
        && can_be(upper.data_type(), profile)
}

/// Whether these are the plan's fields, by name and type; they may bear metadata of their own.
fn is_struct(fields: &Fields, plan: &StructPlan) -> bool {
    fields.len() == plan.fields.len()
        && fields.iter().zip(&plan.fields).all(|(field, ours)| {
            field.is_nullable()
                && field.name() == ours.name()
                && field.data_type() == ours.data_type()
        })
}

/// Whether nothing within this type says that it is never null.
pub(crate) fn has_nullable_items(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields
            .iter()
            .all(|field| field.is_nullable() && has_nullable_items(field.data_type())),
        DataType::List(item) => item.is_nullable() && has_nullable_items(item.data_type()),
        _ => true,
    }
}

fn impossible(pg: &str, data_type: &DataType, pg_type: &PgType, profile: Profile) -> String {
    format!(
        "{pg} cannot become {data_type}; it can become {}",
        choices(pg_type, profile)
    )
}

fn choices(pg_type: &PgType, profile: Profile) -> &'static str {
    let spark = profile == Profile::Spark;
    match pg_type {
        PgType::Bool => "Boolean, Utf8 or Binary",
        PgType::Integer(Integer::Int2) => "Int16, Int32, Int64, Utf8 or Binary",
        PgType::Integer(Integer::Int4) => "Int32, Int64, Utf8 or Binary",
        PgType::Integer(Integer::Int8) => "Int64, Utf8 or Binary",
        PgType::Integer(Integer::Oid) if spark => "Int64, Utf8 or Binary",
        PgType::Integer(Integer::Oid) => "UInt32, Int64, Utf8 or Binary",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) if spark => "Int64, Utf8 or Binary",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) => "UInt64, Int64, Utf8 or Binary",
        PgType::Float4 => "Float32, Float64, Utf8 or Binary",
        PgType::Float8 => "Float64, Utf8 or Binary",
        PgType::Numeric { type_modifier: _ } => {
            "Decimal128 with 0 <= scale <= precision <= 38, Float64, Utf8 or Binary"
        }
        PgType::Uuid if !spark => "FixedSizeBinary(16), Utf8 or Binary",
        PgType::Bits { length: Some(1) } => "Boolean, Utf8 or Binary",
        PgType::Money => "Decimal128 whose scale is the server's lc_monetary's, Utf8 or Binary",
        PgType::Interval if spark => {
            "Struct(months: Int32, days: Int32, micros: Int64), Utf8 or Binary"
        }
        PgType::Interval => {
            "Interval(MonthDayNano), Struct(months: Int32, days: Int32, micros: Int64), Utf8 or \
             Binary"
        }
        PgType::Tid if !spark => "Struct(block: UInt32, offset: UInt16), Utf8 or Binary",
        PgType::Date => "Date32, Utf8 or Binary",
        PgType::Time if spark => "Time64(ns), Utf8 or Binary",
        PgType::Time => "Time64(µs), Time64(ns), Utf8 or Binary",
        PgType::Timestamp { zone: false } => "Timestamp(µs), Utf8 or Binary",
        PgType::Timestamp { zone: true } => "Timestamp(µs, \"UTC\"), Utf8 or Binary",
        PgType::Array {
            element: _,
            element_oid: _,
            delimiter: _,
        }
        | PgType::Vector(_) => "List of what its elements can become, Utf8 or Binary",
        PgType::Hstore => "Map of Utf8 to Utf8, Utf8 or Binary",
        PgType::Numbers {
            dimensions: Some(_),
        } if !spark => {
            "FixedSizeList of as many Float32 as its type says, List(Float32), Utf8 or Binary"
        }
        PgType::Numbers { dimensions: _ } | PgType::Halves => "List(Float32), Utf8 or Binary",
        PgType::Shape(Shape::Point) => "Struct(x, y: Float64), Utf8 or Binary",
        PgType::Shape(Shape::Lseg | Shape::Box) => {
            "Struct(x1, y1, x2, y2: Float64), Utf8 or Binary"
        }
        PgType::Shape(Shape::Line) => "Struct(a, b, c: Float64), Utf8 or Binary",
        PgType::Shape(Shape::Circle) => "Struct(x, y, r: Float64), Utf8 or Binary",
        PgType::Path => {
            "Struct(closed: Boolean, points: List(Struct(x, y: Float64))), Utf8 or Binary"
        }
        PgType::Polygon => "List(Struct(x, y: Float64)), Utf8 or Binary",
        PgType::Range(_) => {
            "Struct(lower, upper: what its bounds can become, lower_inc, upper_inc, empty: \
             Boolean), Utf8 or Binary"
        }
        PgType::Multirange(_) => "List of what its ranges can become, Utf8 or Binary",
        PgType::Bytea => "Binary or Utf8",
        PgType::Text
        | PgType::Char
        | PgType::Uuid
        | PgType::Bits { length: _ }
        | PgType::Json
        | PgType::Jsonb
        | PgType::Versioned
        | PgType::TimeTz
        | PgType::Reg
        | PgType::Tid
        | PgType::Network { is_cidr: _ }
        | PgType::Mac(_)
        | PgType::TsVector
        | PgType::Snapshot
        | PgType::Cube
        | PgType::TextOnly
        | PgType::Other => "Utf8 or Binary",
    }
}

/// The type behind an OID, and whether anything told what it is.
fn lookup(
    catalog: &Catalog,
    oid: Oid,
    type_modifier: i32,
    name: Option<&TypeName>,
    depth: u8,
) -> (PgType, bool) {
    let unknown = (PgType::Other, false);
    let Some(depth) = depth.checked_sub(1) else {
        return unknown;
    };
    if oid < pg_type::FIRST_UNPINNED_OID {
        return match pg_type::by_oid(oid) {
            Some((entry, false)) => (scalar(entry.oid, type_modifier), true),
            Some((entry, true)) => (
                array(scalar(entry.oid, type_modifier), entry.oid, entry.delimiter),
                true,
            ),
            None => unknown,
        };
    }
    if let Some(entry) = catalog.type_of(oid) {
        return match &entry.kind {
            TypeKind::Domain {
                base,
                type_modifier,
            } => lookup(catalog, *base, *type_modifier, None, depth),
            TypeKind::Array { element, delimiter } => {
                let (inner, known) = lookup(catalog, *element, type_modifier, None, depth);
                match u8::try_from(*delimiter) {
                    Ok(delimiter) => (array(inner, *element, delimiter), known),
                    Err(_) => (PgType::Other, known),
                }
            }
            TypeKind::Base => {
                let pg_type = extension_type(&entry.name, type_modifier);
                (pg_type.unwrap_or(PgType::Other), true)
            }
            TypeKind::Enum { labels: _ } => (PgType::Text, true),
            TypeKind::Range { subtype } => {
                (range(lookup(catalog, *subtype, -1, None, depth).0), true)
            }
            TypeKind::Multirange { range } => match lookup(catalog, *range, -1, None, depth).0 {
                PgType::Range(subtype) => (PgType::Multirange(subtype), true),
                _ => (PgType::Other, true),
            },
            _ => (PgType::Other, true),
        };
    }
    // For a domain, the Type message names the base type: one of pg_catalog is built in.
    match name {
        Some(TypeName { namespace, name }) if &**namespace == "pg_catalog" => {
            match pg_type::by_name(name) {
                Some((entry, false)) => (scalar(entry.oid, -1), true),
                Some((entry, true)) => (
                    array(scalar(entry.oid, -1), entry.oid, entry.delimiter),
                    true,
                ),
                None => unknown,
            }
        }
        Some(TypeName { namespace: _, name }) => {
            let by_name = extension_type(name, type_modifier).or_else(|| {
                // Nothing tells the OID of the elements; their array type has a comma, as most do.
                Some(array(
                    extension_type(name.strip_prefix('_')?, type_modifier)?,
                    0,
                    b',',
                ))
            });
            by_name.map_or(unknown, |pg_type| (pg_type, true))
        }
        None => unknown,
    }
}

/// An extension's type by its name, whose OID and schema differ from database to database.
fn extension_type(name: &str, type_modifier: i32) -> Option<PgType> {
    match name {
        "citext" => Some(PgType::Text),
        "hstore" => Some(PgType::Hstore),
        "cube" => Some(PgType::Cube),
        "vector" => Some(PgType::Numbers {
            dimensions: Some(type_modifier).filter(|it| (1..=MAX_DIMENSIONS).contains(it)),
        }),
        "halfvec" => Some(PgType::Halves),
        "ltree" | "lquery" | "ltxtquery" => Some(PgType::Versioned),
        _ => None,
    }
}

fn scalar(oid: Oid, type_modifier: i32) -> PgType {
    match oid {
        pg_type::BOOL => PgType::Bool,
        pg_type::INT2 => PgType::Integer(Integer::Int2),
        pg_type::INT4 => PgType::Integer(Integer::Int4),
        pg_type::INT8 => PgType::Integer(Integer::Int8),
        pg_type::OID | pg_type::XID | pg_type::CID => PgType::Integer(Integer::Oid),
        pg_type::FLOAT4 => PgType::Float4,
        pg_type::FLOAT8 => PgType::Float8,
        pg_type::NUMERIC => PgType::Numeric { type_modifier },
        pg_type::TEXT
        | pg_type::VARCHAR
        | pg_type::BPCHAR
        | pg_type::NAME
        | pg_type::XML
        | pg_type::REFCURSOR
        | pg_type::PG_NODE_TREE => PgType::Text,
        pg_type::CHAR => PgType::Char,
        pg_type::BYTEA => PgType::Bytea,
        pg_type::UUID => PgType::Uuid,
        pg_type::JSON => PgType::Json,
        pg_type::JSONB => PgType::Jsonb,
        pg_type::DATE => PgType::Date,
        pg_type::TIME => PgType::Time,
        pg_type::TIMETZ => PgType::TimeTz,
        pg_type::INTERVAL => PgType::Interval,
        pg_type::XID8 => PgType::Integer(Integer::Xid8),
        pg_type::PG_LSN => PgType::Integer(Integer::Lsn),
        pg_type::BIT => PgType::Bits {
            length: Some(type_modifier).filter(|length| *length > 0),
        },
        pg_type::VARBIT => PgType::Bits { length: None },
        pg_type::MONEY => PgType::Money,
        pg_type::REGPROC
        | pg_type::REGPROCEDURE
        | pg_type::REGOPER
        | pg_type::REGOPERATOR
        | pg_type::REGCLASS
        | pg_type::REGTYPE
        | pg_type::REGCONFIG
        | pg_type::REGDICTIONARY
        | pg_type::REGNAMESPACE
        | pg_type::REGROLE
        | pg_type::REGCOLLATION => PgType::Reg,
        pg_type::TID => PgType::Tid,
        pg_type::INET => PgType::Network { is_cidr: false },
        pg_type::CIDR => PgType::Network { is_cidr: true },
        pg_type::MACADDR => PgType::Mac(MacSize::Six),
        pg_type::MACADDR8 => PgType::Mac(MacSize::Eight),
        pg_type::TSVECTOR => PgType::TsVector,
        pg_type::PG_SNAPSHOT | pg_type::TXID_SNAPSHOT => PgType::Snapshot,
        pg_type::JSONPATH => PgType::Versioned,
        pg_type::INT2VECTOR => PgType::Vector(Integer::Int2),
        pg_type::OIDVECTOR => PgType::Vector(Integer::Oid),
        pg_type::TSQUERY | pg_type::GTSVECTOR | pg_type::ACLITEM => PgType::TextOnly,
        pg_type::POINT => PgType::Shape(Shape::Point),
        pg_type::LSEG => PgType::Shape(Shape::Lseg),
        pg_type::BOX => PgType::Shape(Shape::Box),
        pg_type::LINE => PgType::Shape(Shape::Line),
        pg_type::CIRCLE => PgType::Shape(Shape::Circle),
        pg_type::PATH => PgType::Path,
        pg_type::POLYGON => PgType::Polygon,
        pg_type::INT4RANGE
        | pg_type::NUMRANGE
        | pg_type::TSRANGE
        | pg_type::TSTZRANGE
        | pg_type::DATERANGE
        | pg_type::INT8RANGE => range(scalar(pg_type::subtype(oid), -1)),
        pg_type::INT4MULTIRANGE
        | pg_type::NUMMULTIRANGE
        | pg_type::TSMULTIRANGE
        | pg_type::TSTZMULTIRANGE
        | pg_type::DATEMULTIRANGE
        | pg_type::INT8MULTIRANGE => multirange(scalar(pg_type::subtype(oid), -1)),
        pg_type::TIMESTAMP => PgType::Timestamp { zone: false },
        pg_type::TIMESTAMPTZ => PgType::Timestamp { zone: true },
        _ => PgType::Other,
    }
}

/// Lists are of elements that are read; arrays of anything else stay text, as do arrays of arrays.
fn array(element: PgType, element_oid: Oid, delimiter: u8) -> PgType {
    match element {
        PgType::Other
        | PgType::Array {
            element: _,
            element_oid: _,
            delimiter: _,
        } => PgType::Other,
        element => PgType::Array {
            element: Box::new(element),
            element_oid,
            delimiter,
        },
    }
}

/// Ranges whose bounds are not read stay text, as arrays do.
fn range(subtype: PgType) -> PgType {
    match subtype {
        PgType::Other => PgType::Other,
        subtype => PgType::Range(Box::new(subtype)),
    }
}

fn multirange(subtype: PgType) -> PgType {
    match subtype {
        PgType::Other => PgType::Other,
        subtype => PgType::Multirange(Box::new(subtype)),
    }
}

/// The type's schema, unless it is built in, and its name, if anything tells it.
fn name_of(catalog: &Catalog, column: &Column) -> (Option<String>, Option<String>) {
    if let Some((entry, is_array)) = pg_type::by_oid(column.type_oid) {
        let underscore = if is_array { "_" } else { "" };
        return (None, Some(format!("{underscore}{}", entry.name)));
    }
    if let Some(entry) = catalog.type_of(column.type_oid) {
        return (Some(entry.schema.clone()), Some(entry.name.clone()));
    }
    match &column.type_name {
        Some(TypeName { namespace, name }) => (Some(namespace.to_string()), Some(name.to_string())),
        None => (None, None),
    }
}

fn profile_plan(pg_type: &PgType, profile: Profile) -> Plan {
    let spark = profile == Profile::Spark;
    match pg_type {
        _ if profile == Profile::Text => Plan::Utf8(text_form(pg_type)),
        PgType::Bool => Plan::Bool(BoolForm::Bool),
        PgType::Integer(Integer::Int2) => Plan::Int16,
        PgType::Integer(Integer::Int4) => Plan::Int32(Integer::Int4),
        PgType::Integer(Integer::Int8) => Plan::Int64(Integer::Int8),
        PgType::Integer(Integer::Oid) if spark => Plan::Int64(Integer::Oid),
        PgType::Integer(Integer::Oid) => Plan::UInt32,
        PgType::Integer(integer @ (Integer::Xid8 | Integer::Lsn)) if spark => Plan::Int64(*integer),
        PgType::Integer(integer @ (Integer::Xid8 | Integer::Lsn)) => Plan::UInt64(*integer),
        PgType::Float4 => Plan::Float32,
        PgType::Float8 => Plan::Float64(Float::Double),
        PgType::Numeric { type_modifier } => {
            match NumericTypmod::from_typmod(*type_modifier).and_then(NumericTypmod::decimal128) {
                Some(decimal) => Plan::Decimal(decimal, DecimalForm::Numeric),
                None => Plan::Utf8(TextForm::Numeric),
            }
        }
        PgType::Bytea => Plan::Binary(BytesForm::Bytea),
        PgType::Uuid if !spark => Plan::Uuid,
        PgType::Date => Plan::Date,
        PgType::Time if !spark => Plan::Time(TimeUnit::Microsecond),
        PgType::TimeTz if !spark => Plan::TimeTz,
        PgType::Timestamp { zone } => Plan::Timestamp { zone: *zone },
        PgType::Interval if spark => Plan::Struct(Box::new(StructPlan::interval())),
        PgType::Interval => Plan::Interval,
        PgType::Tid if !spark => Plan::Struct(Box::new(StructPlan::tid())),
        PgType::Vector(integer) => {
            let element = profile_plan(&PgType::Integer(*integer), profile);
            list(element, vector_element(*integer), ListForm::Vector)
        }
        PgType::Array {
            element,
            element_oid,
            delimiter,
        } => {
            let form = ListForm::Array {
                delimiter: *delimiter,
            };
            list(profile_plan(element, profile), *element_oid, form)
        }
        PgType::Hstore => Plan::Map,
        PgType::Numbers {
            dimensions: Some(dimensions),
        } if !spark => Plan::Vector(*dimensions),
        PgType::Numbers { dimensions: _ } => list(Plan::Float32, 0, ListForm::Numbers),
        PgType::Halves => list(Plan::Float32, 0, ListForm::Halves),
        PgType::Shape(shape) if !spark => Plan::Struct(Box::new(StructPlan::shape(*shape))),
        PgType::Path if !spark => Plan::Struct(Box::new(StructPlan::path(polygon()))),
        PgType::Polygon if !spark => polygon(),
        PgType::Range(subtype) if !spark => range_plan(subtype, profile),
        PgType::Multirange(subtype) if !spark => {
            list(range_plan(subtype, profile), 0, ListForm::Multirange)
        }
        other => Plan::Utf8(text_form(other)),
    }
}

fn polygon() -> Plan {
    let point = Plan::Struct(Box::new(StructPlan::shape(Shape::Point)));
    list(point, 0, ListForm::Polygon)
}

fn range_plan(subtype: &PgType, profile: Profile) -> Plan {
    let bound = || profile_plan(subtype, profile);
    Plan::Struct(Box::new(StructPlan::range(bound(), bound())))
}

fn text_form(pg_type: &PgType) -> TextForm {
    match pg_type {
        PgType::Text | PgType::Json => TextForm::Raw,
        PgType::Bool => TextForm::Bool,
        PgType::Integer(integer) => TextForm::Integer(*integer),
        PgType::Numeric { type_modifier: _ } => TextForm::Numeric,
        PgType::Char => TextForm::Char,
        PgType::Bytea => TextForm::Bytea,
        PgType::Uuid => TextForm::Uuid,
        PgType::Jsonb | PgType::Versioned => TextForm::Versioned,
        PgType::Bits { length: _ } => TextForm::Bits,
        PgType::Date => TextForm::Date,
        PgType::Time => TextForm::Time,
        PgType::TimeTz => TextForm::TimeTz,
        PgType::Timestamp { zone } => TextForm::Timestamp { zone: *zone },
        PgType::Float4 => TextForm::Float4,
        PgType::Float8 => TextForm::Float8,
        PgType::Interval => TextForm::Interval,
        PgType::Money => TextForm::Money,
        PgType::Reg => TextForm::Integer(Integer::Oid),
        PgType::Tid => TextForm::Tid,
        PgType::Network { is_cidr } => TextForm::Network { is_cidr: *is_cidr },
        PgType::Mac(size) => TextForm::Mac(*size),
        PgType::TsVector => TextForm::TsVector,
        PgType::Snapshot => TextForm::Snapshot,
        PgType::Vector(integer) => TextForm::Vector(*integer),
        PgType::Array {
            element,
            element_oid,
            delimiter,
        } => TextForm::Array(Arc::new(ArrayText {
            element: text_form(element),
            element_oid: *element_oid,
            delimiter: *delimiter,
        })),
        PgType::Hstore => TextForm::Hstore,
        PgType::Cube => TextForm::Cube,
        PgType::Numbers { dimensions: _ } => TextForm::Numbers,
        PgType::Halves => TextForm::Halves,
        PgType::Shape(shape) => TextForm::Shape(*shape),
        PgType::Path => TextForm::Path,
        PgType::Polygon => TextForm::Polygon,
        PgType::Range(subtype) => TextForm::Range(Arc::new(text_form(subtype))),
        PgType::Multirange(subtype) => TextForm::Multirange(Arc::new(text_form(subtype))),
        PgType::TextOnly | PgType::Other => TextForm::Unknown,
    }
}

/// The plan that makes this Arrow type of that PostgreSQL type, if there is one.
fn requested_plan(pg_type: &PgType, data_type: &DataType, profile: Profile) -> Option<Plan> {
    Some(match (pg_type, data_type) {
        // The same text whether the profile chose it or a schema asks for it.
        (PgType::TimeTz, DataType::Utf8) => profile_plan(pg_type, profile),
        (_, DataType::Utf8) => Plan::Utf8(text_form(pg_type)),
        (PgType::Bytea, DataType::Binary) => Plan::Binary(BytesForm::Bytea),
        // Of a varying number of bits, bytes would not tell how many they are.
        (PgType::Bits { length: Some(_) }, DataType::Binary) => Plan::Binary(BytesForm::Bits),
        (_, DataType::Binary) => Plan::Binary(BytesForm::Cell),
        (PgType::Bool, DataType::Boolean) => Plan::Bool(BoolForm::Bool),
        (PgType::Bits { length: Some(1) }, DataType::Boolean) => Plan::Bool(BoolForm::Bit),
        (PgType::Integer(Integer::Int2), DataType::Int16) => Plan::Int16,
        (PgType::Integer(from @ (Integer::Int2 | Integer::Int4)), DataType::Int32) => {
            Plan::Int32(*from)
        }
        (PgType::Integer(from), DataType::Int64) => Plan::Int64(*from),
        (PgType::Integer(Integer::Oid), DataType::UInt32) => Plan::UInt32,
        (PgType::Integer(from @ (Integer::Xid8 | Integer::Lsn)), DataType::UInt64) => {
            Plan::UInt64(*from)
        }
        (PgType::Float4, DataType::Float32) => Plan::Float32,
        (PgType::Float4, DataType::Float64) => Plan::Float64(Float::Single),
        (PgType::Float8, DataType::Float64) => Plan::Float64(Float::Double),
        // Rounded to the nearest: asked for, never chosen.
        (PgType::Numeric { type_modifier: _ }, DataType::Float64) => Plan::Float64(Float::Numeric),
        (PgType::Numeric { type_modifier: _ }, DataType::Decimal128(precision, scale)) => {
            let decimal = Decimal128::new(*precision, u8::try_from(*scale).ok()?)?;
            Plan::Decimal(decimal, DecimalForm::Numeric)
        }
        (PgType::Money, DataType::Decimal128(precision, scale)) => {
            let decimal = Decimal128::new(*precision, u8::try_from(*scale).ok()?)?;
            Plan::Decimal(decimal, DecimalForm::Money)
        }
        (PgType::Interval, DataType::Interval(IntervalUnit::MonthDayNano)) => Plan::Interval,
        (PgType::Interval, DataType::Struct(fields)) => struct_of(StructPlan::interval(), fields)?,
        (PgType::Tid, DataType::Struct(fields)) => struct_of(StructPlan::tid(), fields)?,
        (PgType::Uuid, DataType::FixedSizeBinary(16)) => Plan::Uuid,
        (PgType::Date, DataType::Date32) => Plan::Date,
        (PgType::Time, DataType::Time64(unit @ (TimeUnit::Microsecond | TimeUnit::Nanosecond))) => {
            Plan::Time(*unit)
        }
        (PgType::Timestamp { zone: false }, DataType::Timestamp(TimeUnit::Microsecond, None)) => {
            Plan::Timestamp { zone: false }
        }
        (
            PgType::Timestamp { zone: true },
            DataType::Timestamp(TimeUnit::Microsecond, Some(zone)),
        ) if &**zone == "UTC" => Plan::Timestamp { zone: true },
        (
            PgType::Array {
                element,
                element_oid,
                delimiter,
            },
            DataType::List(item),
        ) => {
            let element = requested_plan(element, item.data_type(), profile)?;
            let (item, element_oid) = (Arc::clone(item), *element_oid);
            let form = ListForm::Array {
                delimiter: *delimiter,
            };
            list_of(item, element, element_oid, form)
        }
        (PgType::Hstore, DataType::Map(..)) if *data_type == Plan::Map.data_type() => Plan::Map,
        (
            PgType::Numbers {
                dimensions: Some(dimensions),
            },
            DataType::FixedSizeList(..),
        ) => {
            let plan = Plan::Vector(*dimensions);
            Some(plan).filter(|plan| plan.data_type() == *data_type)?
        }
        (PgType::Numbers { dimensions: _ } | PgType::Halves, DataType::List(item))
            if *item.data_type() == DataType::Float32 =>
        {
            let form = match pg_type {
                PgType::Halves => ListForm::Halves,
                _ => ListForm::Numbers,
            };
            list_of(Arc::clone(item), Plan::Float32, 0, form)
        }
        (PgType::Shape(shape), DataType::Struct(fields)) => {
            struct_of(StructPlan::shape(*shape), fields)?
        }
        (PgType::Path, DataType::Struct(fields)) => {
            let points = fields.get(1)?.data_type();
            let points = requested_plan(&PgType::Polygon, points, profile)?;
            struct_of(StructPlan::path(points), fields)?
        }
        (PgType::Polygon, DataType::List(item)) => {
            let point = PgType::Shape(Shape::Point);
            let point = requested_plan(&point, item.data_type(), profile)?;
            list_of(Arc::clone(item), point, 0, ListForm::Polygon)
        }
        (PgType::Range(subtype), DataType::Struct(fields)) => {
            let [lower, upper, ..] = &**fields else {
                return None;
            };
            let bound = |field: &Field| requested_plan(subtype, field.data_type(), profile);
            struct_of(StructPlan::range(bound(lower)?, bound(upper)?), fields)?
        }
        (PgType::Multirange(subtype), DataType::List(item)) => {
            let range = PgType::Range(subtype.clone());
            let range = requested_plan(&range, item.data_type(), profile)?;
            list_of(Arc::clone(item), range, 0, ListForm::Multirange)
        }
        (PgType::Vector(integer), DataType::List(item)) => {
            let element = requested_plan(&PgType::Integer(*integer), item.data_type(), profile)?;
            let element_oid = vector_element(*integer);
            list_of(Arc::clone(item), element, element_oid, ListForm::Vector)
        }
        _ => return None,
    })
}

fn list(element: Plan, element_oid: Oid, form: ListForm) -> Plan {
    let item = Arc::new(Field::new("item", element.data_type(), true));
    list_of(item, element, element_oid, form)
}

/// A list under the item's field of a schema that was asked for.
fn list_of(item: FieldRef, element: Plan, element_oid: Oid, form: ListForm) -> Plan {
    Plan::List(Box::new(ListPlan {
        item,
        element,
        element_oid,
        form,
    }))
}

/// What a vector's elements are.
fn vector_element(integer: Integer) -> Oid {
    match integer {
        Integer::Int2 => pg_type::INT2,
        _ => pg_type::OID,
    }
}

/// The plan under the fields of a schema that was asked for.
fn struct_of(mut plan: StructPlan, fields: &Fields) -> Option<Plan> {
    if !is_struct(fields, &plan) {
        return None;
    }
    plan.fields = fields.clone();
    Some(Plan::Struct(Box::new(plan)))
}

/// Names the canonical extension type that a field's values are of.
fn extension(
    pg_type: &PgType,
    plan: &Plan,
    type_name: Option<&str>,
    metadata: &mut HashMap<String, String>,
) {
    let (name, parameters) = match (pg_type, plan) {
        (PgType::Uuid, Plan::Uuid) => ("arrow.uuid", String::new()),
        (PgType::Json | PgType::Jsonb, Plan::Utf8(_)) => ("arrow.json", String::new()),
        (PgType::Other, _) => {
            let name = type_name.unwrap_or("unknown");
            let parameters = json!({ "type_name": name, "vendor_name": "PostgreSQL" });
            ("arrow.opaque", parameters.to_string())
        }
        _ => return,
    };
    metadata.insert(EXTENSION_TYPE_NAME_KEY.to_owned(), name.to_owned());
    metadata.insert(EXTENSION_TYPE_METADATA_KEY.to_owned(), parameters);
}
