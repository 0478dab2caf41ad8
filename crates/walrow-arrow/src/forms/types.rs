//! The table of types: the Arrow types that a column of each can become.
//!
//! To add a type, write its file in `walrow-types` and its line here. The line lists its forms,
//! best first. A profile chooses the first `or` form whose Arrow type it supports. If it supports
//! none, it chooses a string of PostgreSQL's text. The option `types` can choose every form, a
//! string, and bytes.

use super::choices::Choices;
use super::form::{Extension, Form, is_same_shape};
use super::{ArrowForms, Target};
use crate::column::{
    Fixed, FixedLists, Geometries, Halves, Intervals, Numbers, Paths, Points, Push, Shapes, Sparse,
    Tids, TimeTzs, Typed, Vectors, Words,
};
use crate::profile::Profile;
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float16Type, Float32Type, Float64Type, Int16Type,
    Int32Type, Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_schema::{DataType, Field};
use std::borrow::Cow;
use std::sync::Arc;
use walrow_stream::Encoding;
use walrow_types::{
    Bit, Bits, Bool, Bpchar, Bytea, Char, Cidr, Cube, Date, Decimal128, Decimal256, Ewkb, Float4,
    Float8, Geometry, Halfvec, Hstore, Inet, Int2, Int4, Int8, IntegerDecimal, Interval, Json,
    Jsonb, Known, Macaddr, Macaddr8, Money, MoneyDecimal, NumberVector, Numeric, NumericFloat,
    NumericTypmod, Oid, Path, PgLsn, PgType, Polygon, Reg, Scalar, Shape, Snapshot, Sparsevec,
    Text, Tid, TidOffset, Time, TimeOfDay, TimeTz, Timestamp, Timestamptz, TrimmedBpchar, TsVector,
    Unknown, Unread, Uuid, Varbit, Versioned, Wkb, Xid8, Xml,
};

/// Implements [`ArrowForms`] for one type: `to` collects the forms of the type `it`.
macro_rules! forms {
    ($type:ident($it:pat, $to:ident) => $line:expr) => {
        impl HasChoices for $type {
            fn choices(self, target: Target) -> Choices {
                let mut choices = Choices::new(Arc::new(self), target);
                let ($it, $to) = (self, &mut choices);
                $line;
                choices
            }
        }
    };
}

/// Implements [`ArrowForms`] for each type, and finds types by OID and by name.
macro_rules! types {
    (
        strings: $($string:ident)*;
        $($type:ident($it:pat, $to:ident) => $line:expr;)*
    ) => {
        /// The built-in type with this OID.
        pub(crate) fn built_in(
            oid: walrow_wire::Oid,
            name: &str,
            type_modifier: i32,
        ) -> Option<Arc<dyn ArrowForms>> {
            $(if <$type as Known>::OIDS.contains(&oid) {
                return Some(Arc::new(<$type as Known>::new(name, type_modifier)));
            })*
            $(if <$string as Known>::OIDS.contains(&oid) {
                return Some(Arc::new(<$string as Known>::new(name, type_modifier)));
            })*
            None
        }

        /// The type that an extension defines under this name.
        pub(crate) fn extension(name: &str, type_modifier: i32) -> Option<Arc<dyn ArrowForms>> {
            $(if <$type as Known>::EXTENSION_NAMES.contains(&name) {
                return Some(Arc::new(<$type as Known>::new(name, type_modifier)));
            })*
            $(if <$string as Known>::EXTENSION_NAMES.contains(&name) {
                return Some(Arc::new(<$string as Known>::new(name, type_modifier)));
            })*
            None
        }

        $(forms!($type($it, $to) => $line);)*

        $(impl HasChoices for $string {
            fn choices(self, target: Target) -> Choices {
                Choices::new(Arc::new(self), target)
            }
        })*
    };
}

types! {
    // These are strings in every profile.
    strings: Text Char Xml Varbit Versioned Inet Cidr Macaddr Macaddr8 TsVector Snapshot Reg;
    Bool(it, to) => to.or(Form::bits(it));
    Int2(it, to) => to
        .or(Form::fixed::<Int16Type, _>(it))
        .or(Form::fixed::<Int32Type, _>(it))
        .or(Form::fixed::<Int64Type, _>(it))
        .family(DECIMALS, integer_decimal(it));
    Int4(it, to) => to
        .or(Form::fixed::<Int32Type, _>(it))
        .or(Form::fixed::<Int64Type, _>(it))
        .family(DECIMALS, integer_decimal(it));
    Int8(it, to) => to
        .or(Form::fixed::<Int64Type, _>(it))
        .family(DECIMALS, integer_decimal(it));
    Oid(it, to) => to
        .or(Form::fixed::<UInt32Type, _>(it))
        .or(Form::fixed::<Int64Type, _>(it));
    Xid8(it, to) => to
        .or(Form::fixed::<UInt64Type, _>(it))
        .or(Form::fixed::<Int64Type, _>(it));
    PgLsn(it, to) => to
        .or(Form::fixed::<UInt64Type, _>(it))
        .or(Form::fixed::<Int64Type, _>(it));
    Float4(it, to) => to
        .or(Form::fixed::<Float32Type, _>(it))
        .or(Form::fixed::<Float64Type, _>(it));
    Float8(it, to) => to.or(Form::fixed::<Float64Type, _>(it));
    Numeric(it, to) => {
        if let Some(decimal) = it.typmod.and_then(NumericTypmod::decimal128) {
            to.or_named("", decimal128(decimal, decimal));
        }
        to.family(DECIMALS, |data_type| {
            decimal128_of(data_type).map(|it| decimal128(it, it))
        })
        .family("decimal256(p, s) up to 76", |data_type| {
            let DataType::Decimal256(precision, scale) = data_type else {
                return None;
            };
            let decimal = Decimal256::new(*precision, u8::try_from(*scale).ok()?)?;
            Some(Form::fixed_as::<Decimal256Type, _>(decimal, data_type.clone()))
        })
        // It rounds to the nearest value, so no profile chooses it.
        .asked(Form::fixed::<Float64Type, _>(NumericFloat).exactly(false));
    };
    Money(_, to) => to.family("decimal128(p, s) with the scale of the server's lc_monetary", |data_type| {
        decimal128_of(data_type).map(|it| decimal128(MoneyDecimal(it), it))
    });
    Bpchar(_, to) => if to.target.trim_bpchar {
        to.text(Form::written(Arc::new(TrimmedBpchar), to.target.encoding));
    };
    Bytea(it, to) => to.or_bytes(Form::bytes(it));
    // Bytes would lose the length of a varying number of bits.
    Bit(it, to) => match it.length {
        Some(1) => drop(to.bytes(Form::bytes(Bits)).asked(Form::bits(it))),
        Some(_) => drop(to.bytes(Form::bytes(Bits))),
        None => {}
    };
    Uuid(it, to) => to.or_named("uuid", Form::fixed_bytes::<16, _>(it).with_extension(Some(Extension::Uuid)));
    Json(_, to) => to.text_is(Extension::Json);
    Jsonb(_, to) => to.text_is(Extension::Json);
    Date(it, to) => to.or(Form::fixed::<Date32Type, _>(it));
    // Spark has a time type only since 4.1.
    Time(it, to) => to
        .or(Form::fixed::<Time64MicrosecondType, _>(it))
        .asked(Form::fixed::<Time64NanosecondType, _>(it));
    TimeTz(it, to) => {
        if to.target.profile.splits_values() {
            to.text(Form::text(it).expanding(true));
        }
        to.asked(timetz::<Time64MicrosecondType>())
            .asked_named("", timetz::<Time64NanosecondType>());
    };
    Timestamp(it, to) => to.or(Form::timestamp(it, None));
    Timestamptz(it, to) => to.or(Form::timestamp(it, Some("UTC")));
    Interval(it, to) => to
        .or(Form::fixed::<IntervalMonthDayNanoType, _>(it))
        .or(Form::structs(|| Intervals, [
                ("months", Form::fixed::<Int32Type, _>(Int4)),
                ("days", Form::fixed::<Int32Type, _>(Int4)),
                ("micros", Form::fixed::<Int64Type, _>(Int8)),
            ]),
        );
    Tid(_, to) => to.or(Form::structs(|| Tids, [
            ("block", Form::fixed::<UInt32Type, _>(Oid)),
            ("offset", Form::fixed::<UInt16Type, _>(TidOffset)),
        ]),
    );
    Shape(it, to) => to.or_split(shape(it));
    Path(_, to) => {
        let target = to.target;
        to.or_split(path(polygon())).family("", move |data_type| {
            let DataType::Struct(fields) = data_type else {
                return None;
            };
            let form = path(polygon_as(fields.get(1)?.data_type(), target)?);
            Some(form).filter(|form| is_same_shape(form.data_type(), data_type))
        });
    };
    Polygon(_, to) => {
        let target = to.target;
        to.or_split(polygon()).family("", move |data_type| polygon_as(data_type, target));
    };
    Unread(_, to) => to.bytes_are(Extension::Opaque);
    Hstore(_, to) => to.or(Form::map(to.target.encoding));
    Cube(_, to) => to.text_is(Extension::Opaque).bytes_are(Extension::Opaque);
    NumberVector(it, to) => {
        if let Some(dimensions) = it.dimensions {
            let name = "fixed_size_list<float32>[n] with the n of its type";
            to.or_named(name, fixed_list(dimensions));
        }
        let number = Form::fixed::<Float32Type, _>(Float4);
        to.or(Form::list(Numbers::default, &number, 1));
    };
    Halfvec(_, to) => {
        let single = Form::fixed::<Float32Type, _>(Float4);
        let half = Form::fixed::<Float16Type, _>(Float4);
        to.or(Form::list(Halves::default, &single, 1))
            .asked(Form::list(Halves::default, &half, 1));
    };
    Sparsevec(_, to) => {
        let index = Form::fixed::<Int32Type, _>(Int4);
        let number = Form::fixed::<Float32Type, _>(Float4);
        to.or(Form::structs(Sparse::default, [
                ("dim", index.clone()),
                ("indices", Form::list(|| Words, &index, 1)),
                ("values", Form::list(|| Words, &number, 1)),
            ]),
        );
    };
    Geometry(it, to) => {
        let Geometry { srid, is_geography } = it;
        let wkb = Form::bytes(Wkb { srid });
        if to.target.ewkb {
            to.bytes(Form::bytes(Ewkb)).bytes_are(Extension::Opaque);
        } else {
            to.or_bytes(wkb.with_extension(Some(Extension::Wkb { srid, is_geography })));
        }
        to.asked_named("binary with its ISO WKB", Form::raw()).asked(Form::structs(move || Geometries::new(it), [
                ("srid", Form::fixed::<Int32Type, _>(Int4)),
                ("wkb", Form::raw()),
            ]),
        );
    };
}

forms!(Unknown(_, to) => to.text_is(Extension::Opaque).bytes_are(Extension::Opaque));

/// A type of the table.
trait HasChoices: PgType + Copy {
    fn choices(self, target: Target) -> Choices;
}

impl<T: HasChoices> ArrowForms for T {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        self.choices(target).default_form()
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        self.choices(target).form_as(data_type)
    }

    fn alternatives(&self, profile: Profile) -> Vec<Cow<'static, str>> {
        let target = Target {
            profile,
            trim_bpchar: false,
            encoding: Encoding::Utf8,
            ewkb: false,
        };
        self.choices(target).alternatives()
    }
}

fn decimal128<T: Scalar<Value = i128> + Copy>(reader: T, decimal: Decimal128) -> Form {
    let scale = decimal.scale().cast_signed();
    let data_type = DataType::Decimal128(decimal.precision(), scale);
    Form::fixed_as::<Decimal128Type, _>(reader, data_type)
}

const DECIMALS: &str = "decimal128(p, s) with 0 <= s <= p <= 38";

fn integer_decimal<T>(integer: T) -> impl Fn(&DataType) -> Option<Form>
where
    T: Scalar<Value: Into<i128>> + Copy,
{
    move |data_type| {
        let decimal = decimal128_of(data_type)?;
        Some(decimal128(IntegerDecimal { integer, decimal }, decimal))
    }
}

fn decimal128_of(data_type: &DataType) -> Option<Decimal128> {
    match data_type {
        DataType::Decimal128(precision, scale) => {
            Decimal128::new(*precision, u8::try_from(*scale).ok()?)
        }
        _ => None,
    }
}

/// A time of day, and its offset from UTC in seconds.
fn timetz<A>() -> Form
where
    A: ArrowPrimitiveType + std::fmt::Debug,
    Fixed<A>: Push<TimeOfDay>,
{
    let fields = [
        ("time", Form::fixed::<A, _>(Time)),
        ("offset_s", Form::fixed::<Int32Type, _>(Int4)),
    ];
    Form::structs(|| TimeTzs, fields)
}

/// The numbers of a geometric type.
pub(super) fn shape(shape: Shape) -> Form {
    let number = || Form::fixed::<Float64Type, _>(Float8);
    let fields = shape.names().iter().map(|name| (*name, number()));
    Form::structs(move || Shapes::new(shape), fields)
}

/// Whether a path is closed, and its points.
fn path(points: Form) -> Form {
    Form::structs(
        Paths::default,
        [("closed", Form::bits(Bool)), ("points", points)],
    )
}

/// The points of a polygon, each in the form that the list's item chooses.
fn polygon_as(data_type: &DataType, target: Target) -> Option<Form> {
    let (DataType::List(item) | DataType::LargeList(item)) = data_type else {
        return None;
    };
    let point = Arc::new(Shape::Point).form_as(item.data_type(), target)?;
    Some(Form::list(Points::default, &point, 1).with_data_type(data_type))
}

/// The points of a polygon.
fn polygon() -> Form {
    Form::list(Points::default, &shape(Shape::Point), 1)
}

/// The numbers of a `vector` of fixed length.
fn fixed_list(dimensions: i32) -> Form {
    let item = Arc::new(Field::new("item", DataType::Float32, true));
    let size = usize::try_from(dimensions).unwrap_or(0);
    let data_type = DataType::FixedSizeList(item, dimensions);
    Form::new(data_type, size.saturating_mul(4), move |data_type, new| {
        Typed::boxed(Vectors::default(), FixedLists::new(size), data_type, new)
    })
}
