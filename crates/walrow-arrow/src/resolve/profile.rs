//! Which Arrow type a column gets where nobody asks for one.

use super::Target;
use super::kind::{Attribute, PgType};
use crate::column::{
    ArrayText, BoolForm, BytesForm, DecimalForm, Float, Integer, ListForm, NumericTypmod, Plan,
    Shape, StructForm, StructPlan, TextForm, vector_element,
};
use crate::options::Profile;
use arrow_schema::TimeUnit;
use std::sync::Arc;

/// The plan that the profile has for a type.
pub(super) fn plan(pg_type: &PgType, target: Target<'_>) -> Plan {
    let spark = target.profile == Profile::Spark;
    let plan = match pg_type {
        _ if target.profile == Profile::Text => Plan::Utf8(text_form(pg_type)),
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
        PgType::Bpchar if target.trim_bpchar => Plan::Trimmed,
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
            let element = plan(&PgType::Integer(*integer), target);
            Plan::list(element, vector_element(*integer), ListForm::Vector)
        }
        PgType::Array {
            element,
            element_oid,
            delimiter,
        } => {
            let form = ListForm::Array {
                delimiter: *delimiter,
            };
            Plan::list(plan(element, target), *element_oid, form)
        }
        PgType::Hstore => Plan::Map,
        PgType::Numbers {
            dimensions: Some(dimensions),
        } if !spark => Plan::Vector(*dimensions),
        PgType::Numbers { dimensions: _ } => Plan::list(Plan::Float32, 0, ListForm::Numbers),
        PgType::Halves => Plan::list(Plan::Float32, 0, ListForm::Halves),
        PgType::Sparse => Plan::Struct(Box::new(StructPlan::sparse())),
        PgType::Geometry {
            srid,
            is_geography: _,
        } => Plan::Wkb { srid: *srid },
        // A struct without fields is none to most readers.
        PgType::Composite(attributes) if !attributes.is_empty() => {
            let plans = attributes.iter().map(|it| plan(&it.pg_type, target));
            Plan::Struct(Box::new(composite(attributes, plans)))
        }
        PgType::Shape(shape) if !spark => Plan::Struct(Box::new(StructPlan::shape(*shape))),
        PgType::Path if !spark => Plan::Struct(Box::new(StructPlan::path(polygon()))),
        PgType::Polygon if !spark => polygon(),
        PgType::Range(subtype) if !spark => range(subtype, target),
        PgType::Multirange(subtype) if !spark => {
            Plan::list(range(subtype, target), 0, ListForm::Multirange)
        }
        other => Plan::Utf8(text_form(other)),
    };
    target.under_session(pg_type, plan)
}

/// The fields of a composite under its attributes' names.
pub(super) fn composite(attributes: &[Attribute], plans: impl Iterator<Item = Plan>) -> StructPlan {
    let oids = attributes.iter().map(|attribute| attribute.oid).collect();
    let names = attributes.iter().map(|attribute| attribute.name.as_str());
    StructPlan::new(StructForm::Record(oids), names.zip(plans))
}

fn polygon() -> Plan {
    let point = Plan::Struct(Box::new(StructPlan::shape(Shape::Point)));
    Plan::list(point, 0, ListForm::Polygon)
}

fn range(subtype: &PgType, target: Target<'_>) -> Plan {
    let bound = || plan(subtype, target);
    Plan::Struct(Box::new(StructPlan::range(bound(), bound())))
}

/// The text of a type's cells.
pub(super) fn text_form(pg_type: &PgType) -> TextForm {
    match pg_type {
        PgType::Text | PgType::Bpchar | PgType::Json => TextForm::Raw,
        PgType::Xml => TextForm::Xml,
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
        PgType::Nested(array) => text_form(array),
        PgType::Hstore => TextForm::Hstore,
        PgType::Cube => TextForm::Cube,
        PgType::Numbers { dimensions: _ } => TextForm::Numbers,
        PgType::Halves => TextForm::Halves,
        PgType::Shape(shape) => TextForm::Shape(*shape),
        PgType::Path => TextForm::Path,
        PgType::Polygon => TextForm::Polygon,
        PgType::Range(subtype) => TextForm::Range(Arc::new(text_form(subtype))),
        PgType::Multirange(subtype) => TextForm::Multirange(Arc::new(text_form(subtype))),
        PgType::Sparse => TextForm::Sparse,
        PgType::Geometry { .. } => TextForm::Geometry,
        PgType::Composite(attributes) => TextForm::Record(
            attributes
                .iter()
                .map(|attribute| (attribute.oid, text_form(&attribute.pg_type)))
                .collect(),
        ),
        PgType::TextOnly => TextForm::Unread,
        PgType::Other => TextForm::Unknown,
    }
}
