//! Which Arrow types can be asked for, and the plans that make them.

use super::kind::{Attribute, MAX_DIMENSIONS, PgType};
use super::{Target, profile};
use crate::arrow_type::ArrowTypeName;
use crate::column::{
    BoolForm, BytesForm, Decimal128, Decimal256, DecimalForm, Float, Integer, ListForm, Plan,
    Shape, StructPlan, vector_element,
};
use crate::options::Profile;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use std::sync::Arc;
use walrow_wire::Oid;

/// Whether any column can become this type.
pub(super) fn can_be(data_type: &DataType, profile: Profile) -> bool {
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
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Interval(IntervalUnit::MonthDayNano)
        | DataType::Time64(TimeUnit::Microsecond) => !spark,
        DataType::Dictionary(..) => !spark && *data_type == dictionary(),
        DataType::Timestamp(TimeUnit::Microsecond, Some(zone)) => &**zone == "UTC",
        DataType::Decimal128(precision, scale) => {
            u8::try_from(*scale).is_ok_and(|scale| Decimal128::new(*precision, scale).is_some())
        }
        DataType::Decimal256(precision, scale) => {
            !spark
                && u8::try_from(*scale)
                    .is_ok_and(|scale| Decimal256::new(*precision, scale).is_some())
        }
        DataType::List(item) | DataType::LargeList(item)
            if *item.data_type() == DataType::Float16 =>
        {
            !spark && item.is_nullable()
        }
        _ if lists(data_type) > MAX_LISTS => false,
        DataType::List(item) => item.is_nullable() && can_be(item.data_type(), profile),
        DataType::LargeList(item) => {
            !spark && item.is_nullable() && can_be(item.data_type(), profile)
        }
        DataType::FixedSizeList(_, size) => {
            !spark
                && (1..=MAX_DIMENSIONS).contains(size)
                && *data_type == Plan::Vector(*size).data_type()
        }
        DataType::Map(..) => *data_type == Plan::Map.data_type(),
        DataType::Struct(fields) => {
            let part = |field: &FieldRef| field.is_nullable() && can_be(field.data_type(), profile);
            (!spark && is_struct(fields, &StructPlan::tid()))
                || (!fields.is_empty() && fields.iter().all(part))
        }
        _ => false,
    }
}

/// How many lists lie within each other.
fn lists(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => {
            lists(item.data_type()).saturating_add(1)
        }
        _ => 0,
    }
}

/// As many numbers as vectors must have that become such lists; -1 for any.
pub(super) fn dimensions(data_type: &DataType) -> i32 {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) => dimensions(item.data_type()),
        DataType::FixedSizeList(_, size) => *size,
        _ => -1,
    }
}

/// Whether these are strings or bytes, which every type can become.
pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(
        laid_from(&PgType::Other, data_type)
            .as_ref()
            .unwrap_or(data_type),
        DataType::Utf8 | DataType::Binary
    )
}

/// Strings by their numbers among those that occur.
fn dictionary() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
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
        DataType::List(item) | DataType::LargeList(item) => {
            item.is_nullable() && has_nullable_items(item.data_type())
        }
        _ => true,
    }
}

/// Says what a type can become instead.
pub(super) fn impossible(
    pg: &str,
    data_type: &DataType,
    pg_type: &PgType,
    profile: Profile,
) -> String {
    let own = match choices(pg_type, profile) {
        "" => String::new(),
        own => format!("{own}, "),
    };
    let always = if profile == Profile::Spark {
        "string or binary"
    } else {
        "string (also large_string, string_view, dictionary) or binary (also large_binary, \
         binary_view)"
    };
    format!(
        "{pg} cannot become {}; it can become {own}{always}",
        ArrowTypeName(data_type)
    )
}

/// What a type can become beside strings and bytes.
fn choices(pg_type: &PgType, profile: Profile) -> &'static str {
    let spark = profile == Profile::Spark;
    match pg_type {
        PgType::Bool => "bool",
        PgType::Integer(Integer::Int2) => "int16, int32, int64",
        PgType::Integer(Integer::Int4) => "int32, int64",
        PgType::Integer(Integer::Int8) => "int64",
        PgType::Integer(Integer::Oid) if spark => "int64",
        PgType::Integer(Integer::Oid) => "uint32, int64",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) if spark => "int64",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) => "uint64, int64",
        PgType::Float4 => "float32, float64",
        PgType::Float8 => "float64",
        PgType::Numeric { type_modifier: _ } => {
            "decimal128(p, s) with 0 <= s <= p <= 38, decimal256(p, s) up to 76, float64"
        }
        PgType::Uuid if !spark => "uuid",
        PgType::Bits { length: Some(1) } => "bool",
        PgType::Money => "decimal128(p, s) with the scale of the server's lc_monetary",
        PgType::Interval if spark => "struct<months: int32, days: int32, micros: int64>",
        PgType::Interval => {
            "month_day_nano_interval, struct<months: int32, days: int32, micros: int64>"
        }
        PgType::Tid if !spark => "struct<block: uint32, offset: uint16>",
        PgType::Date => "date32",
        PgType::Time if spark => "time64[ns]",
        PgType::Time => "time64[us], time64[ns]",
        PgType::Timestamp { zone: false } => "timestamp[us]",
        PgType::Timestamp { zone: true } => "timestamp[us, UTC]",
        PgType::Array {
            element: _,
            element_oid: _,
            delimiter: _,
        }
        | PgType::Vector(_) => {
            "list<...> or large_list<...> of what its elements can become, also of lists for more dimensions"
        }
        PgType::Hstore => "map<string, string>",
        PgType::Numbers {
            dimensions: Some(_),
        } if !spark => "fixed_size_list<float32>[n] with the n of its type, list<float32>",
        PgType::Numbers { dimensions: _ } => "list<float32>",
        PgType::Halves if spark => "list<float32>",
        PgType::Halves => "list<float32>, list<float16>",
        PgType::Shape(Shape::Point) => "struct<x: float64, y: float64>",
        PgType::Shape(Shape::Lseg | Shape::Box) => {
            "struct<x1: float64, y1: float64, x2: float64, y2: float64>"
        }
        PgType::Shape(Shape::Line) => "struct<a: float64, b: float64, c: float64>",
        PgType::Shape(Shape::Circle) => "struct<x: float64, y: float64, r: float64>",
        PgType::Path => "struct<closed: bool, points: list<struct<x: float64, y: float64>>>",
        PgType::Polygon => "list<struct<x: float64, y: float64>>",
        PgType::Range(_) => {
            "struct<lower: ..., upper: ..., lower_inc: bool, upper_inc: bool, empty: bool> with \
             what its bounds can become"
        }
        PgType::Multirange(_) => "list<...> of what its ranges can become",
        PgType::TimeTz => "struct<time: time64[us], offset_s: int32>",
        PgType::Sparse => "struct<dim: int32, indices: list<int32>, values: list<float32>>",
        PgType::Geometry { .. } => "binary with its ISO WKB, struct<srid: int32, wkb: binary>",
        PgType::Composite(_) => "struct<...> of what its attributes can become, by their names",
        PgType::Text
        | PgType::Xml
        | PgType::Bpchar
        | PgType::Char
        | PgType::Bytea
        | PgType::Uuid
        | PgType::Bits { length: _ }
        | PgType::Json
        | PgType::Jsonb
        | PgType::Versioned
        | PgType::Reg
        | PgType::Tid
        | PgType::Network { is_cidr: _ }
        | PgType::Mac(_)
        | PgType::TsVector
        | PgType::Snapshot
        | PgType::Cube
        | PgType::Nested(_)
        | PgType::TextOnly
        | PgType::Other => "",
    }
}

/// The plan that makes this Arrow type of that PostgreSQL type, if there is one.
pub(super) fn plan(pg_type: &PgType, data_type: &DataType, target: Target<'_>) -> Option<Plan> {
    let plan = match laid_from(pg_type, data_type) {
        Some(from) => Plan::Laid(Box::new(plan(pg_type, &from, target)?), data_type.clone()),
        None => plan_as_it_is(pg_type, data_type, target)?,
    };
    Some(target.under_session(pg_type, plan))
}

/// The type whose values are laid out anew as this one.
fn laid_from(pg_type: &PgType, data_type: &DataType) -> Option<DataType> {
    Some(match (pg_type, data_type) {
        (_, DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..)) => DataType::Utf8,
        (_, DataType::LargeBinary | DataType::BinaryView) => DataType::Binary,
        (_, DataType::LargeList(item)) => DataType::List(Arc::clone(item)),
        (PgType::Halves, DataType::List(item)) if *item.data_type() == DataType::Float16 => {
            let item = (**item).clone().with_data_type(DataType::Float32);
            DataType::List(Arc::new(item))
        }
        _ => return None,
    })
}

fn plan_as_it_is(pg_type: &PgType, data_type: &DataType, target: Target<'_>) -> Option<Plan> {
    Some(match (pg_type, data_type) {
        // The same text whether the profile chose it or a schema asks for it.
        (PgType::TimeTz | PgType::Bpchar, DataType::Utf8) => profile::plan(pg_type, target),
        (_, DataType::Utf8) => Plan::Utf8(profile::text_form(pg_type)),
        (PgType::Bytea, DataType::Binary) => Plan::Binary(BytesForm::Bytea),
        // Of a varying number of bits, bytes would not tell how many they are.
        (PgType::Bits { length: Some(_) }, DataType::Binary) => Plan::Binary(BytesForm::Bits),
        (PgType::Geometry { .. }, DataType::Binary) if target.ewkb => Plan::Binary(BytesForm::Ewkb),
        (PgType::Geometry { srid, .. }, DataType::Binary) => Plan::Wkb { srid: *srid },
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
        (PgType::Numeric { type_modifier: _ }, DataType::Decimal256(precision, scale)) => {
            Plan::Decimal256(Decimal256::new(*precision, u8::try_from(*scale).ok()?)?)
        }
        (PgType::TimeTz, DataType::Struct(fields)) => {
            let DataType::Time64(unit) = fields.first()?.data_type() else {
                return None;
            };
            struct_of(StructPlan::timetz(*unit), fields)?
        }
        (PgType::Sparse, DataType::Struct(fields)) => sparse(fields)?,
        (PgType::Geometry { .. }, DataType::Struct(fields)) => {
            struct_of(StructPlan::geometry(), fields)?
        }
        (PgType::Composite(attributes), DataType::Struct(fields)) => {
            let same =
                |(field, attribute): (&FieldRef, &Attribute)| *field.name() == attribute.name;
            if fields.len() != attributes.len()
                || fields.is_empty()
                || !fields.iter().zip(&**attributes).all(same)
            {
                return None;
            }
            let plans = attributes.iter().zip(fields);
            let plans = plans.map(|(it, field)| plan(&it.pg_type, field.data_type(), target));
            let plans = plans.collect::<Option<Vec<_>>>()?;
            struct_of(profile::composite(attributes, plans.into_iter()), fields)?
        }
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
            let form = ListForm::Array {
                delimiter: *delimiter,
            };
            let inner = element_or_nested(element, item.data_type(), target, MAX_DEPTH)?;
            list_of(item, inner, *element_oid, form)
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
            list_of(item, Plan::Float32, 0, form)
        }
        (PgType::Shape(shape), DataType::Struct(fields)) => {
            struct_of(StructPlan::shape(*shape), fields)?
        }
        (PgType::Path, DataType::Struct(fields)) => {
            let points = fields.get(1)?.data_type();
            let points = plan(&PgType::Polygon, points, target)?;
            struct_of(StructPlan::path(points), fields)?
        }
        (PgType::Polygon, DataType::List(item)) => {
            let point = PgType::Shape(Shape::Point);
            let point = plan(&point, item.data_type(), target)?;
            list_of(item, point, 0, ListForm::Polygon)
        }
        (PgType::Range(subtype), DataType::Struct(fields)) => {
            let [lower, upper, ..] = &**fields else {
                return None;
            };
            let bound = |field: &Field| plan(subtype, field.data_type(), target);
            struct_of(StructPlan::range(bound(lower)?, bound(upper)?), fields)?
        }
        (PgType::Multirange(subtype), DataType::List(item)) => {
            let range = PgType::Range(subtype.clone());
            let range = plan(&range, item.data_type(), target)?;
            list_of(item, range, 0, ListForm::Multirange)
        }
        (PgType::Vector(integer), DataType::List(item)) => {
            let element = plan(&PgType::Integer(*integer), item.data_type(), target)?;
            let element_oid = vector_element(*integer);
            list_of(item, element, element_oid, ListForm::Vector)
        }
        _ => return None,
    })
}

/// A list under the item's field of a schema that was asked for.
fn list_of(item: &FieldRef, element: Plan, element_oid: Oid, form: ListForm) -> Plan {
    Plan::list_of(Arc::clone(item), element, element_oid, form)
}

/// What an array's items are: its elements, or lists of them where it has more dimensions.
fn element_or_nested(
    element: &PgType,
    item: &DataType,
    target: Target<'_>,
    depth: u8,
) -> Option<Plan> {
    let as_element = || plan(element, item, target);
    let as_array = || {
        let (inner, is_large) = match item {
            DataType::List(inner) => (inner, false),
            DataType::LargeList(inner) => (inner, true),
            _ => return None,
        };
        let plan = element_or_nested(element, inner.data_type(), target, depth.checked_sub(1)?)?;
        let list = list_of(inner, plan, 0, ListForm::Nested);
        Some(if is_large {
            Plan::Laid(Box::new(list), item.clone())
        } else {
            list
        })
    };
    // Lists of lists are of two dimensions, unless each element is a list by itself.
    match profile::plan(element, target).data_type() {
        DataType::List(_) => as_element().or_else(as_array),
        _ => as_array().or_else(as_element),
    }
}

/// A `sparsevec` under the fields of a schema that was asked for.
fn sparse(fields: &Fields) -> Option<Plan> {
    let mut plan = StructPlan::sparse();
    for (own, field) in plan.plans.iter_mut().zip(fields).skip(1) {
        let (Plan::List(list), DataType::List(item)) = (own, field.data_type()) else {
            return None;
        };
        if item.data_type() != list.item.data_type() {
            return None;
        }
        list.item = Arc::clone(item);
    }
    let names = plan.fields.iter().map(|field| field.name().clone());
    let plan = StructPlan::new(plan.form.clone(), names.zip(plan.plans));
    struct_of(plan, fields)
}

/// How many dimensions PostgreSQL's arrays have at most, without the outermost.
const MAX_DEPTH: u8 = 5;

/// An array's dimensions, and an element that is a list by itself.
const MAX_LISTS: usize = 7;

/// The plan under the fields of a schema that was asked for.
fn struct_of(mut plan: StructPlan, fields: &Fields) -> Option<Plan> {
    if !is_struct(fields, &plan) {
        return None;
    }
    plan.fields = fields.clone();
    Some(Plan::Struct(Box::new(plan)))
}
