//! Which Arrow types can be asked for, and the plans that make them.

use super::kind::{Attribute, MAX_DIMENSIONS, PgType};
use super::{Target, profile};
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
        "Utf8 or Binary"
    } else {
        "Utf8 (also LargeUtf8, Utf8View, Dictionary(Int32, Utf8)) or Binary (also LargeBinary, \
         BinaryView)"
    };
    format!("{pg} cannot become {data_type}; it can become {own}{always}")
}

/// What a type can become beside strings and bytes.
fn choices(pg_type: &PgType, profile: Profile) -> &'static str {
    let spark = profile == Profile::Spark;
    match pg_type {
        PgType::Bool => "Boolean",
        PgType::Integer(Integer::Int2) => "Int16, Int32, Int64",
        PgType::Integer(Integer::Int4) => "Int32, Int64",
        PgType::Integer(Integer::Int8) => "Int64",
        PgType::Integer(Integer::Oid) if spark => "Int64",
        PgType::Integer(Integer::Oid) => "UInt32, Int64",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) if spark => "Int64",
        PgType::Integer(Integer::Xid8 | Integer::Lsn) => "UInt64, Int64",
        PgType::Float4 => "Float32, Float64",
        PgType::Float8 => "Float64",
        PgType::Numeric { type_modifier: _ } => {
            "Decimal128 with 0 <= scale <= precision <= 38, Decimal256 up to 76, Float64"
        }
        PgType::Uuid if !spark => "FixedSizeBinary(16)",
        PgType::Bits { length: Some(1) } => "Boolean",
        PgType::Money => "Decimal128 whose scale is the server's lc_monetary's",
        PgType::Interval if spark => "Struct(months: Int32, days: Int32, micros: Int64)",
        PgType::Interval => {
            "Interval(MonthDayNano), Struct(months: Int32, days: Int32, micros: Int64)"
        }
        PgType::Tid if !spark => "Struct(block: UInt32, offset: UInt16)",
        PgType::Date => "Date32",
        PgType::Time if spark => "Time64(ns)",
        PgType::Time => "Time64(µs), Time64(ns)",
        PgType::Timestamp { zone: false } => "Timestamp(µs)",
        PgType::Timestamp { zone: true } => "Timestamp(µs, \"UTC\")",
        PgType::Array {
            element: _,
            element_oid: _,
            delimiter: _,
        }
        | PgType::Vector(_) => {
            "List of what its elements can become, of lists as deep as it has dimensions, LargeList"
        }
        PgType::Hstore => "Map of Utf8 to Utf8",
        PgType::Numbers {
            dimensions: Some(_),
        } if !spark => "FixedSizeList of as many Float32 as its type says, List(Float32)",
        PgType::Numbers { dimensions: _ } => "List(Float32)",
        PgType::Halves if spark => "List(Float32)",
        PgType::Halves => "List(Float32), List(Float16)",
        PgType::Shape(Shape::Point) => "Struct(x, y: Float64)",
        PgType::Shape(Shape::Lseg | Shape::Box) => "Struct(x1, y1, x2, y2: Float64)",
        PgType::Shape(Shape::Line) => "Struct(a, b, c: Float64)",
        PgType::Shape(Shape::Circle) => "Struct(x, y, r: Float64)",
        PgType::Path => "Struct(closed: Boolean, points: List(Struct(x, y: Float64)))",
        PgType::Polygon => "List(Struct(x, y: Float64))",
        PgType::Range(_) => {
            "Struct(lower, upper: what its bounds can become, lower_inc, upper_inc, empty: \
             Boolean)"
        }
        PgType::Multirange(_) => "List of what its ranges can become",
        PgType::TimeTz => "Struct(time: Time64, offset_s: Int32)",
        PgType::Sparse => "Struct(dim: Int32, indices: List(Int32), values: List(Float32))",
        PgType::Geometry { .. } => "Binary of its ISO WKB, Struct(srid: Int32, wkb: Binary)",
        PgType::Composite(_) => "Struct of what its attributes can become, by their names",
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
