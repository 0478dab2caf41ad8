//! One column of a batch under construction.
//!
//! What to do with a cell is chosen once per column ([`Plan`]); per cell it is one `match`.

use super::array::{
    array_from_binary, array_from_text, array_text_from_binary, vector_from_binary,
    vector_from_text,
};
use super::bits::{
    bit_from_binary, bit_from_text, bits_from_binary, bits_from_text, bits_text_from_binary,
};
use super::bool::{bool_from_binary, bool_from_text};
use super::bytes::{bytea_from_text, bytea_text_from_binary};
use super::extension::{
    cube_text_from_binary, halfvec_from_binary, halfvec_text_from_binary, hstore_from_binary,
    hstore_from_text, hstore_text_from_binary, vector_from_binary as numbers_from_binary,
    vector_from_text as numbers_from_text, vector_text_from_binary as numbers_text_from_binary,
};
use super::float::{
    f32_from_binary, f32_from_text, f32_text_from_binary, f64_from_binary, f64_from_numeric_binary,
    f64_from_numeric_text, f64_from_text, f64_text_from_binary,
};
use super::geometric::{
    Shape, path_from_binary, path_from_text, path_text_from_binary, polygon_from_binary,
    polygon_from_text, polygon_text_from_binary, shape_from_binary, shape_from_text,
    shape_text_from_binary,
};
use super::int::{
    i16_from_binary, i16_from_text, i32_from_binary, i32_from_text, i64_from_binary, i64_from_text,
    u16_from_binary, u16_from_text, u32_from_binary, u32_from_text, u64_from_binary, u64_from_text,
    write_decimal,
};
use super::interval::{
    Interval, interval_from_binary, interval_from_text, interval_text_from_binary,
};
use super::json::versioned_from_binary;
use super::money::{money_from_binary, money_from_text};
use super::network::{MacSize, mac_text_from_binary, network_text_from_binary};
use super::numeric::{
    Decimal128, decimal128_from_binary, decimal128_from_text, numeric_text_from_binary,
};
use super::range::{
    RangeParts, multirange_from_binary, multirange_from_text, multirange_text_from_binary,
    range_from_binary, range_from_text, range_text_from_binary,
};
use super::search::tsvector_text_from_binary;
use super::system::{
    lsn_from_text, lsn_to_text, snapshot_text_from_binary, tid_from_binary, tid_from_text,
    tid_text_from_binary,
};
use super::temporal::{
    date_from_binary, date_from_text, date_text_from_binary, time_from_binary, time_from_text,
    time_text_from_binary, timestamp_from_binary, timestamp_from_text, timestamp_text_from_binary,
    timestamptz_from_text, timestamptz_text_from_binary, timetz_from_binary, timetz_from_text,
    timetz_text_from_binary, timetz_to_even_text,
};
use super::text::{char_text_from_binary, check_utf8};
use super::uuid::{uuid_from_binary, uuid_from_text, uuid_to_text};
use super::{CellError, Unrepresentable};
use crate::options::OnUnrepresentable;
use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    ArrayRef, ArrowPrimitiveType, BinaryArray, BooleanArray, FixedSizeBinaryArray,
    FixedSizeListArray, ListArray, MapArray, PrimitiveArray, StringArray, StructArray,
};
use arrow_buffer::{Buffer, IntervalMonthDayNano, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use std::sync::Arc;
use walrow_wire::{Cell, Oid};

/// How the cells of one PostgreSQL type become the values of one Arrow type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Plan {
    Bool(BoolForm),
    Int16,
    Int32(Integer),
    Int64(Integer),
    UInt16,
    UInt32,
    UInt64(Integer),
    Float32,
    Float64(Float),
    Decimal(Decimal128, DecimalForm),
    Utf8(TextForm),
    /// The text of a `timetz`, all offsets with hours and minutes.
    TimeTz,
    Binary(BytesForm),
    Uuid,
    Date,
    Time(TimeUnit),
    /// Whether the cells carry a zone.
    Timestamp {
        zone: bool,
    },
    /// Months, days and nanoseconds.
    Interval,
    List(Box<ListPlan>),
    Struct(Box<StructPlan>),
    /// The numbers of a `vector` that has always as many.
    Vector(i32),
    /// The keys and values of an `hstore`.
    Map,
}

/// The type of the cells of a column of booleans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BoolForm {
    Bool,
    /// `bit(1)`
    Bit,
}

/// The type of the cells of a column of decimals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecimalForm {
    Numeric,
    Money,
}

/// The integer type of the cells; the column may be wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Integer {
    Int2,
    Int4,
    Int8,
    Oid,
    Xid8,
    Lsn,
}

/// The type of the cells of a column of 64-bit floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Float {
    Single,
    Double,
    Numeric,
}

/// What a binary cell's text is; a text cell is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// The same bytes.
    Raw,
    Bool,
    Integer(Integer),
    Float4,
    Float8,
    Numeric,
    /// None: the scale is missing.
    Money,
    Char,
    Bytea,
    Bits,
    Uuid,
    /// The same bytes after a version.
    Versioned,
    Date,
    Time,
    TimeTz,
    Timestamp {
        zone: bool,
    },
    Interval,
    Network {
        is_cidr: bool,
    },
    Mac(MacSize),
    TsVector,
    Snapshot,
    Tid,
    Vector(Integer),
    Array(Arc<ArrayText>),
    Shape(Shape),
    Path,
    Polygon,
    Hstore,
    Cube,
    /// The numbers of a `vector`.
    Numbers,
    /// Those of a `halfvec`.
    Halves,
    /// A range whose bounds have this text.
    Range(Arc<Self>),
    /// Ranges whose bounds have this text.
    Multirange(Arc<Self>),
    /// Unknown: a binary cell has no place here.
    Unknown,
}

/// How a binary array becomes text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ArrayText {
    pub(crate) element: TextForm,
    /// What it must say its elements are; 0 for anything.
    pub(crate) element_oid: Oid,
    pub(crate) delimiter: u8,
}

/// What the bytes of a binary column are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BytesForm {
    /// A bytea's.
    Bytea,
    /// A bit string's, eight to a byte.
    Bits,
    /// The cell's own, in whichever form it came.
    Cell,
}

/// How arrays become lists.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListPlan {
    pub(crate) item: FieldRef,
    pub(crate) element: Plan,
    /// What a binary array must say its elements are; 0 for anything.
    pub(crate) element_oid: Oid,
    pub(crate) form: ListForm,
}

/// How the elements stand in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListForm {
    Array {
        delimiter: u8,
    },
    /// `int2vector` or `oidvector`: without braces, and from 0 on.
    Vector,
    /// Ranges, none of which is empty or null.
    Multirange,
    Polygon,
    /// The numbers of a `vector`.
    Numbers,
    /// Those of a `halfvec`.
    Halves,
}

/// How cells become structs: each field a column with cells of its own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StructPlan {
    /// All may be null, as they are in a null struct.
    pub(crate) fields: Fields,
    /// A plan for each field.
    pub(crate) plans: Vec<Plan>,
    pub(crate) form: StructForm,
}

/// How the fields stand in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StructForm {
    Tid,
    Interval,
    Range,
    Shape(Shape),
    Path,
}

impl StructPlan {
    pub(crate) fn new<N: Into<String>>(
        form: StructForm,
        fields: impl IntoIterator<Item = (N, Plan)>,
    ) -> Self {
        let (fields, plans): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .map(|(name, plan)| (Field::new(name, plan.data_type(), true), plan))
            .unzip();
        Self {
            fields: fields.into(),
            plans,
            form,
        }
    }

    /// A block and an offset within it.
    pub(crate) fn tid() -> Self {
        let fields = [("block", Plan::UInt32), ("offset", Plan::UInt16)];
        Self::new(StructForm::Tid, fields)
    }

    /// Months, days and microseconds, none of which is ever carried into another.
    pub(crate) fn interval() -> Self {
        let fields = [
            ("months", Plan::Int32(Integer::Int4)),
            ("days", Plan::Int32(Integer::Int4)),
            ("micros", Plan::Int64(Integer::Int8)),
        ];
        Self::new(StructForm::Interval, fields)
    }

    /// The numbers of a geometric type.
    pub(crate) fn shape(shape: Shape) -> Self {
        let fields = shape.names().iter();
        let fields = fields.map(|name| (*name, Plan::Float64(Float::Double)));
        Self::new(StructForm::Shape(shape), fields)
    }

    /// Whether a path is closed, and its points as those of a polygon.
    pub(crate) fn path(points: Plan) -> Self {
        let fields = [("closed", Plan::Bool(BoolForm::Bool)), ("points", points)];
        Self::new(StructForm::Path, fields)
    }

    /// A range's bounds, null where it has none, and what else it says.
    pub(crate) fn range(lower: Plan, upper: Plan) -> Self {
        let bool = || Plan::Bool(BoolForm::Bool);
        let fields = [
            ("lower", lower),
            ("upper", upper),
            ("lower_inc", bool()),
            ("upper_inc", bool()),
            ("empty", bool()),
        ];
        Self::new(StructForm::Range, fields)
    }
}

impl Plan {
    /// The column's Arrow type.
    pub(crate) fn data_type(&self) -> DataType {
        match self {
            Self::Bool(_) => DataType::Boolean,
            Self::Int16 => DataType::Int16,
            Self::Int32(_) => DataType::Int32,
            Self::Int64(_) => DataType::Int64,
            Self::UInt16 => DataType::UInt16,
            Self::UInt32 => DataType::UInt32,
            Self::UInt64(_) => DataType::UInt64,
            Self::Float32 => DataType::Float32,
            Self::Float64(_) => DataType::Float64,
            Self::Decimal(decimal, _) => {
                // At most 38.
                DataType::Decimal128(decimal.precision(), decimal.scale().cast_signed())
            }
            Self::Utf8(_) | Self::TimeTz => DataType::Utf8,
            Self::Binary(_) => DataType::Binary,
            Self::Uuid => DataType::FixedSizeBinary(UUID_BYTES),
            Self::Date => DataType::Date32,
            Self::Time(unit) => DataType::Time64(*unit),
            Self::Timestamp { zone } => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.then(|| "UTC".into()))
            }
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::List(list) => DataType::List(Arc::clone(&list.item)),
            Self::Struct(it) => DataType::Struct(it.fields.clone()),
            Self::Vector(dimensions) => DataType::FixedSizeList(number_field(), *dimensions),
            Self::Map => DataType::Map(entries_field(), false),
        }
    }

    /// Bytes that a row takes at least.
    pub(crate) fn row_bytes(&self) -> usize {
        match self {
            Self::Bool(_) => 1,
            Self::Int16 | Self::UInt16 => 2,
            Self::Int32(_) | Self::UInt32 | Self::Float32 | Self::Date => 4,
            Self::Int64(_) | Self::UInt64(_) | Self::Float64(_) | Self::Time(_) => 8,
            Self::Timestamp { zone: _ } => 8,
            Self::Decimal(..) | Self::Uuid | Self::Interval => 16,
            Self::Utf8(_) | Self::TimeTz | Self::Binary(_) | Self::List(_) | Self::Map => 4,
            Self::Vector(dimensions) => {
                usize::try_from(*dimensions).map_or(4, |numbers| numbers.saturating_mul(4))
            }
            Self::Struct(it) => {
                let fields = it.plans.iter().map(Self::row_bytes);
                fields.fold(1, usize::saturating_add)
            }
        }
    }

    /// Whether a cell's value can be much larger than the cell.
    pub(crate) fn expands(&self) -> bool {
        match self {
            Self::Utf8(form) => !matches!(form, TextForm::Raw | TextForm::Unknown),
            Self::TimeTz => true,
            Self::List(list) => list.element.expands(),
            Self::Struct(it) => it.plans.iter().any(Self::expands),
            _ => false,
        }
    }
}

/// The items of a list of 32-bit floats.
fn number_field() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float32, true))
}

/// The keys and values of a map, of which no key is null.
fn entries_field() -> FieldRef {
    Arc::new(Field::new(
        "entries",
        DataType::Struct(pair_fields()),
        false,
    ))
}

fn pair_fields() -> Fields {
    let key = Field::new("key", DataType::Utf8, false);
    Fields::from(vec![key, Field::new("value", DataType::Utf8, true)])
}

const UUID_BYTES: i32 = 16;

/// A column's values so far, and which of them are null.
#[derive(Debug)]
pub(crate) struct Column {
    values: Values,
    nulls: NullBufferBuilder,
    on_unrepresentable: OnUnrepresentable,
    /// Values that the policy made null.
    nulled: u64,
    /// Arrays whose first subscript was not 1.
    dropped_bounds: u64,
}

#[derive(Debug)]
enum Values {
    Bool(BooleanBufferBuilder, BoolForm),
    Int16(Vec<i16>),
    Int32(Vec<i32>, Integer),
    Int64(Vec<i64>, Integer),
    UInt16(Vec<u16>),
    UInt32(Vec<u32>),
    UInt64(Vec<u64>, Integer),
    Float32(Vec<f32>),
    Float64(Vec<f64>, Float),
    Decimal(Vec<i128>, Decimal128, DecimalForm),
    Utf8(Bytes, TextForm),
    TimeTz(Bytes),
    Binary(Bytes, BytesForm),
    Uuid(Vec<u8>),
    Date(Vec<i32>),
    Time(Vec<i64>, TimeUnit),
    Timestamp(Vec<i64>, bool),
    Interval(Vec<IntervalMonthDayNano>),
    List(Box<List>),
    Struct(Box<Struct>),
    Vector(Box<Vector>),
    Map(Box<Map>),
}

/// Vectors of as many numbers each.
#[derive(Debug)]
struct Vector {
    dimensions: i32,
    numbers: Vec<f32>,
    /// The numbers of one vector.
    scratch: Vec<f32>,
}

#[derive(Debug)]
struct Map {
    /// Where each map ends, and 0 before them.
    offsets: Vec<i32>,
    keys: Column,
    values: Column,
    /// A key or a value whose escapes were taken out.
    scratch: Vec<u8>,
}

/// Values of varying size, one after the other.
#[derive(Debug)]
struct Bytes {
    /// Where each value ends, and 0 before them.
    offsets: Vec<i32>,
    bytes: Vec<u8>,
}

#[derive(Debug)]
struct List {
    plan: ListPlan,
    /// Where each list ends, and 0 before them.
    offsets: Vec<i32>,
    elements: Column,
    /// An element whose escapes were taken out.
    scratch: Vec<u8>,
}

#[derive(Debug)]
struct Struct {
    fields: Fields,
    form: StructForm,
    /// A column for each field. What one of them cannot hold the struct cannot.
    columns: Vec<Column>,
    /// Parts whose quotes were taken out.
    scratch: Vec<u8>,
    /// The numbers of a geometric type.
    numbers: Vec<f64>,
}

impl Column {
    pub(crate) fn new(plan: &Plan, on_unrepresentable: OnUnrepresentable, rows: usize) -> Self {
        let values = match plan {
            Plan::Bool(form) => Values::Bool(BooleanBufferBuilder::new(rows), *form),
            Plan::Int16 => Values::Int16(Vec::with_capacity(rows)),
            Plan::Int32(integer) => Values::Int32(Vec::with_capacity(rows), *integer),
            Plan::Int64(integer) => Values::Int64(Vec::with_capacity(rows), *integer),
            Plan::UInt16 => Values::UInt16(Vec::with_capacity(rows)),
            Plan::UInt32 => Values::UInt32(Vec::with_capacity(rows)),
            Plan::UInt64(integer) => Values::UInt64(Vec::with_capacity(rows), *integer),
            Plan::Float32 => Values::Float32(Vec::with_capacity(rows)),
            Plan::Float64(form) => Values::Float64(Vec::with_capacity(rows), *form),
            Plan::Decimal(decimal, form) => {
                Values::Decimal(Vec::with_capacity(rows), *decimal, *form)
            }
            Plan::Utf8(form) => Values::Utf8(Bytes::new(rows), form.clone()),
            Plan::TimeTz => Values::TimeTz(Bytes::new(rows)),
            Plan::Binary(form) => Values::Binary(Bytes::new(rows), *form),
            Plan::Uuid => Values::Uuid(Vec::with_capacity(rows.saturating_mul(16))),
            Plan::Date => Values::Date(Vec::with_capacity(rows)),
            Plan::Time(unit) => Values::Time(Vec::with_capacity(rows), *unit),
            Plan::Timestamp { zone } => Values::Timestamp(Vec::with_capacity(rows), *zone),
            Plan::List(list) => Values::List(Box::new(List {
                plan: (**list).clone(),
                offsets: offsets(rows),
                elements: match list.form {
                    // A multirange without one of its ranges would be another one.
                    ListForm::Multirange => Self::within(&list.element, on_unrepresentable, 0),
                    _ => Self::new(&list.element, on_unrepresentable, 0),
                },
                scratch: Vec::new(),
            })),
            Plan::Interval => Values::Interval(Vec::with_capacity(rows)),
            Plan::Vector(dimensions) => Values::Vector(Box::new(Vector {
                dimensions: *dimensions,
                numbers: Vec::new(),
                scratch: Vec::new(),
            })),
            Plan::Map => {
                let text = || {
                    let plan = Plan::Utf8(TextForm::Raw);
                    Self::within(&plan, on_unrepresentable, 0)
                };
                Values::Map(Box::new(Map {
                    offsets: offsets(rows),
                    keys: text(),
                    values: text(),
                    scratch: Vec::new(),
                }))
            }
            Plan::Struct(it) => Values::Struct(Box::new(Struct {
                fields: it.fields.clone(),
                form: it.form,
                columns: it
                    .plans
                    .iter()
                    .map(|plan| Self::within(plan, on_unrepresentable, rows))
                    .collect(),
                scratch: Vec::new(),
                numbers: Vec::new(),
            })),
        };
        let nulls = NullBufferBuilder::new(rows);
        Self {
            values,
            nulls,
            on_unrepresentable,
            nulled: 0,
            dropped_bounds: 0,
        }
    }

    /// A part of a value that is null as a whole where the part would have to be.
    fn within(plan: &Plan, of_value: OnUnrepresentable, rows: usize) -> Self {
        let of_part = match of_value {
            OnUnrepresentable::Null => OnUnrepresentable::Error,
            OnUnrepresentable::Error | OnUnrepresentable::Sentinel => of_value,
        };
        Self::new(plan, of_part, rows)
    }

    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether a binary cell has no text here: a list whose elements have none, and money.
    pub(crate) fn has_no_text(&self) -> bool {
        match &self.values {
            Values::Utf8(_, form) => *form == TextForm::Money,
            Values::List(list) => {
                let element = &list.elements.values;
                matches!(element, Values::Utf8(_, TextForm::Unknown)) || list.elements.has_no_text()
            }
            Values::Struct(it) => it.columns.iter().any(|column| {
                matches!(column.values, Values::Utf8(_, TextForm::Unknown)) || column.has_no_text()
            }),
            _ => false,
        }
    }

    /// Values that the policy made null since the column began.
    pub(crate) fn nulled(&self) -> u64 {
        match &self.values {
            Values::List(list) => self.nulled.saturating_add(list.elements.nulled()),
            _ => self.nulled,
        }
    }

    /// Arrays that lost their subscripts since the column began.
    pub(crate) fn dropped_bounds(&self) -> u64 {
        let inside = match &self.values {
            Values::List(list) => list.elements.dropped_bounds(),
            Values::Struct(it) => {
                let columns = it.columns.iter().map(Self::dropped_bounds);
                columns.fold(0, u64::saturating_add)
            }
            _ => 0,
        };
        self.dropped_bounds.saturating_add(inside)
    }

    /// Bytes of values of varying size.
    pub(crate) fn variable_bytes(&self) -> usize {
        match &self.values {
            Values::Utf8(values, _) | Values::Binary(values, _) | Values::TimeTz(values) => {
                values.bytes.len()
            }
            Values::List(list) => list.elements.variable_bytes(),
            Values::Map(map) => {
                let keys = map.keys.variable_bytes();
                keys.saturating_add(map.values.variable_bytes())
            }
            Values::Struct(it) => {
                let columns = it.columns.iter().map(Self::variable_bytes);
                columns.fold(0, usize::saturating_add)
            }
            _ => 0,
        }
    }

    #[inline]
    pub(crate) fn append_null(&mut self) {
        self.values.push_default();
        self.nulls.append_null();
    }

    /// Appends a map of these keys and values.
    pub(crate) fn append_pairs<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), CellError> {
        if let Values::Map(map) = &mut self.values
            && let Err(error) = map.push_pairs(pairs)
        {
            return self.settle(error);
        }
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends a list of points.
    fn append_points(&mut self, points: &[[f64; 2]]) -> Result<(), CellError> {
        if let Values::List(list) = &mut self.values {
            list.push_points(points)?;
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(crate) fn append_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self.values.push_text(cell, &mut self.dropped_bounds) {
            Ok(()) => {
                self.nulls.append_non_null();
                Ok(())
            }
            Err(error) => self.settle(error),
        }
    }

    #[inline]
    pub(crate) fn append_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self.values.push_binary(cell, &mut self.dropped_bounds) {
            Ok(()) => {
                self.nulls.append_non_null();
                Ok(())
            }
            Err(error) => self.settle(error),
        }
    }

    /// Takes back what a failed cell left, then does what the policy says.
    #[cold]
    fn settle(&mut self, error: CellError) -> Result<(), CellError> {
        self.values.truncate(self.nulls.len());
        let CellError::Unrepresentable(reason) = error else {
            return Err(error);
        };
        match self.on_unrepresentable {
            OnUnrepresentable::Error => Err(error),
            OnUnrepresentable::Null => {
                self.append_null();
                self.nulled = self.nulled.saturating_add(1);
                Ok(())
            }
            OnUnrepresentable::Sentinel => {
                let sign = match reason {
                    Unrepresentable::PositiveInfinity => 1,
                    Unrepresentable::NegativeInfinity => -1,
                    _ => return Err(error),
                };
                match &mut self.values {
                    Values::Date(values) => values.push(i32::MAX.wrapping_mul(sign)),
                    Values::Timestamp(values, _) => {
                        values.push(i64::MAX.wrapping_mul(sign.into()));
                    }
                    _ => return Err(error),
                }
                self.nulls.append_non_null();
                Ok(())
            }
        }
    }

    /// Forgets all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    /// The rows as an array; the column is spent.
    pub(crate) fn finish(self) -> Result<ArrayRef, ArrowError> {
        let mut nulls = self.nulls;
        let rows = nulls.len();
        let nulls = nulls.finish();
        Ok(match self.values {
            Values::Bool(mut values, _) => Arc::new(BooleanArray::new(values.finish(), nulls)),
            Values::Int16(values) => primitive::<Int16Type>(values, nulls)?,
            Values::Int32(values, _) => primitive::<Int32Type>(values, nulls)?,
            Values::Int64(values, _) => primitive::<Int64Type>(values, nulls)?,
            Values::UInt16(values) => primitive::<UInt16Type>(values, nulls)?,
            Values::UInt32(values) => primitive::<UInt32Type>(values, nulls)?,
            Values::UInt64(values, _) => primitive::<UInt64Type>(values, nulls)?,
            Values::Float32(values) => primitive::<Float32Type>(values, nulls)?,
            Values::Float64(values, _) => primitive::<Float64Type>(values, nulls)?,
            Values::Date(values) => primitive::<Date32Type>(values, nulls)?,
            Values::Time(mut values, TimeUnit::Nanosecond) => {
                for value in &mut values {
                    // At most a day of microseconds.
                    *value = value.saturating_mul(1000);
                }
                primitive::<Time64NanosecondType>(values, nulls)?
            }
            Values::Time(values, _) => primitive::<Time64MicrosecondType>(values, nulls)?,
            Values::Interval(values) => primitive::<IntervalMonthDayNanoType>(values, nulls)?,
            Values::Decimal(values, decimal, _) => Arc::new(
                PrimitiveArray::<Decimal128Type>::try_new(values.into(), nulls)?
                    .with_precision_and_scale(decimal.precision(), decimal.scale().cast_signed())?,
            ),
            Values::Timestamp(values, zone) => Arc::new(
                PrimitiveArray::<TimestampMicrosecondType>::try_new(values.into(), nulls)?
                    .with_timezone_opt(zone.then_some("UTC")),
            ),
            Values::Uuid(values) => Arc::new(FixedSizeBinaryArray::try_new(
                UUID_BYTES,
                values.into(),
                nulls,
            )?),
            Values::Utf8(values, _) | Values::TimeTz(values) => {
                let (offsets, bytes) = values.finish();
                Arc::new(StringArray::try_new(offsets, bytes, nulls)?)
            }
            Values::Binary(values, _) => {
                let (offsets, bytes) = values.finish();
                Arc::new(BinaryArray::try_new(offsets, bytes, nulls)?)
            }
            Values::List(list) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(list.offsets));
                let elements = list.elements.finish()?;
                Arc::new(ListArray::try_new(
                    list.plan.item,
                    offsets,
                    elements,
                    nulls,
                )?)
            }
            Values::Vector(it) => {
                let numbers = primitive::<Float32Type>(it.numbers, None)?;
                Arc::new(FixedSizeListArray::try_new(
                    number_field(),
                    it.dimensions,
                    numbers,
                    nulls,
                )?)
            }
            Values::Map(map) => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(map.offsets));
                let pairs = vec![map.keys.finish()?, map.values.finish()?];
                let pairs = StructArray::try_new(pair_fields(), pairs, None)?;
                Arc::new(MapArray::try_new(
                    entries_field(),
                    offsets,
                    pairs,
                    nulls,
                    false,
                )?)
            }
            Values::Struct(it) => {
                let columns = it.columns.into_iter().map(Self::finish);
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(
                    it.fields, columns, nulls, rows,
                )?)
            }
        })
    }
}

fn primitive<T: ArrowPrimitiveType>(
    values: Vec<T::Native>,
    nulls: Option<arrow_buffer::NullBuffer>,
) -> Result<ArrayRef, ArrowError> {
    Ok(Arc::new(PrimitiveArray::<T>::try_new(
        values.into(),
        nulls,
    )?))
}

fn offsets(rows: usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows.saturating_add(1));
    offsets.push(0);
    offsets
}

impl Integer {
    #[inline]
    fn parse_text(self, cell: &[u8]) -> Result<i64, CellError> {
        match self {
            Self::Int2 => i16_from_text(cell).map(i64::from),
            Self::Int4 => i32_from_text(cell).map(i64::from),
            Self::Int8 => i64_from_text(cell),
            Self::Oid => u32_from_text(cell).map(i64::from),
            Self::Xid8 | Self::Lsn => in_64_bits(self.parse_unsigned_text(cell)?),
        }
    }

    #[inline]
    fn parse_binary(self, cell: &[u8]) -> Result<i64, CellError> {
        match self {
            Self::Int2 => i16_from_binary(cell).map(i64::from),
            Self::Int4 => i32_from_binary(cell).map(i64::from),
            Self::Int8 => i64_from_binary(cell),
            Self::Oid => u32_from_binary(cell).map(i64::from),
            Self::Xid8 | Self::Lsn => in_64_bits(u64_from_binary(cell)?),
        }
    }

    /// The text of an `xid8` or a `pg_lsn`.
    #[inline]
    fn parse_unsigned_text(self, cell: &[u8]) -> Result<u64, CellError> {
        match self {
            Self::Lsn => lsn_from_text(cell),
            _ => u64_from_text(cell),
        }
    }

    /// Appends the text of a binary integer.
    #[inline]
    fn render_binary(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        match self {
            Self::Xid8 => write_decimal(u64_from_binary(cell)?, out),
            Self::Lsn => lsn_to_text(u64_from_binary(cell)?, out),
            _ => write_decimal(self.parse_binary(cell)?, out),
        }
        Ok(())
    }
}

fn in_64_bits(value: u64) -> Result<i64, CellError> {
    i64::try_from(value).map_err(|_| Unrepresentable::SignedRange.into())
}

impl Values {
    #[inline]
    fn push_default(&mut self) {
        match self {
            Self::Bool(values, _) => values.append(false),
            Self::Int16(values) => values.push(0),
            Self::Int32(values, _) | Self::Date(values) => values.push(0),
            Self::Int64(values, _) | Self::Time(values, _) | Self::Timestamp(values, _) => {
                values.push(0);
            }
            Self::UInt16(values) => values.push(0),
            Self::UInt32(values) => values.push(0),
            Self::UInt64(values, _) => values.push(0),
            Self::Float32(values) => values.push(0.0),
            Self::Float64(values, _) => values.push(0.0),
            Self::Decimal(values, ..) => values.push(0),
            Self::Utf8(values, _) | Self::Binary(values, _) | Self::TimeTz(values) => {
                values.push_empty();
            }
            Self::Interval(values) => values.push(IntervalMonthDayNano::ZERO),
            Self::Struct(it) => it.columns.iter_mut().for_each(Column::append_null),
            Self::Uuid(values) => values.extend_from_slice(&[0; 16]),
            Self::List(list) => list.push_empty(),
            Self::Vector(it) => it.truncate(it.rows().saturating_add(1)),
            Self::Map(map) => {
                let end = map.offsets.last().copied().unwrap_or(0);
                map.offsets.push(end);
            }
        }
    }

    #[inline]
    fn push_text(&mut self, cell: &[u8], dropped_bounds: &mut u64) -> Result<(), CellError> {
        match self {
            Self::Bool(values, BoolForm::Bool) => values.append(bool_from_text(cell)?),
            Self::Bool(values, BoolForm::Bit) => values.append(bit_from_text(cell)?),
            Self::Int16(values) => values.push(i16_from_text(cell)?),
            Self::Int32(values, Integer::Int2) => values.push(i16_from_text(cell)?.into()),
            Self::Int32(values, _) => values.push(i32_from_text(cell)?),
            Self::Int64(values, integer) => values.push(integer.parse_text(cell)?),
            Self::UInt16(values) => values.push(u16_from_text(cell)?),
            Self::UInt32(values) => values.push(u32_from_text(cell)?),
            Self::UInt64(values, integer) => values.push(integer.parse_unsigned_text(cell)?),
            Self::Float32(values) => values.push(f32_from_text(cell)?),
            Self::Float64(values, Float::Double) => values.push(f64_from_text(cell)?),
            Self::Float64(values, Float::Single) => values.push(f32_from_text(cell)?.into()),
            Self::Float64(values, Float::Numeric) => values.push(f64_from_numeric_text(cell)?),
            Self::Decimal(values, decimal, DecimalForm::Numeric) => {
                values.push(decimal128_from_text(cell, *decimal)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Money) => {
                values.push(money_from_text(cell, *decimal)?);
            }
            Self::Utf8(values, _) => {
                check_utf8(cell)?;
                values.push(cell)?;
            }
            Self::Binary(values, BytesForm::Cell) => values.push(cell)?,
            Self::TimeTz(values) => {
                timetz_to_even_text(timetz_from_text(cell)?, &mut values.bytes);
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bytea) => {
                bytea_from_text(cell, &mut values.bytes)?;
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bits) => {
                bits_from_text(cell, &mut values.bytes)?;
                values.close()?;
            }
            Self::Uuid(values) => values.extend_from_slice(&uuid_from_text(cell)?),
            Self::Date(values) => values.push(date_from_text(cell)?),
            Self::Time(values, _) => values.push(time_from_text(cell)?),
            Self::Timestamp(values, false) => values.push(timestamp_from_text(cell)?),
            Self::Timestamp(values, true) => values.push(timestamptz_from_text(cell)?),
            Self::Interval(values) => {
                values.push(interval_from_text(cell)?.month_day_nano()?);
            }
            Self::List(list) => list.push_text(cell, dropped_bounds)?,
            Self::Struct(it) => it.push_text(cell)?,
            Self::Vector(it) => {
                numbers_from_text(cell, &mut it.scratch)?;
                it.close()?;
            }
            Self::Map(map) => map.push_text(cell)?,
        }
        Ok(())
    }

    #[inline]
    fn push_binary(&mut self, cell: &[u8], dropped_bounds: &mut u64) -> Result<(), CellError> {
        match self {
            Self::Bool(values, BoolForm::Bool) => values.append(bool_from_binary(cell)?),
            Self::Bool(values, BoolForm::Bit) => values.append(bit_from_binary(cell)?),
            Self::Int16(values) => values.push(i16_from_binary(cell)?),
            Self::Int32(values, Integer::Int2) => values.push(i16_from_binary(cell)?.into()),
            Self::Int32(values, _) => values.push(i32_from_binary(cell)?),
            Self::Int64(values, integer) => values.push(integer.parse_binary(cell)?),
            Self::UInt16(values) => values.push(u16_from_binary(cell)?),
            Self::UInt32(values) => values.push(u32_from_binary(cell)?),
            Self::UInt64(values, _) => values.push(u64_from_binary(cell)?),
            Self::Float32(values) => values.push(f32_from_binary(cell)?),
            Self::Float64(values, Float::Double) => values.push(f64_from_binary(cell)?),
            Self::Float64(values, Float::Single) => values.push(f32_from_binary(cell)?.into()),
            Self::Float64(values, Float::Numeric) => {
                values.push(f64_from_numeric_binary(cell)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Numeric) => {
                values.push(decimal128_from_binary(cell, *decimal)?);
            }
            Self::Decimal(values, decimal, DecimalForm::Money) => {
                values.push(money_from_binary(cell, *decimal)?);
            }
            Self::Utf8(values, form) => values.push_rendered(cell, form)?,
            Self::TimeTz(values) => {
                timetz_to_even_text(timetz_from_binary(cell)?, &mut values.bytes);
                values.close()?;
            }
            Self::Binary(values, BytesForm::Bits) => values.push(bits_from_binary(cell)?)?,
            Self::Binary(values, _) => values.push(cell)?,
            Self::Uuid(values) => values.extend_from_slice(&uuid_from_binary(cell)?),
            Self::Date(values) => values.push(date_from_binary(cell)?),
            Self::Time(values, _) => values.push(time_from_binary(cell)?),
            Self::Timestamp(values, _) => values.push(timestamp_from_binary(cell)?),
            Self::Interval(values) => {
                values.push(interval_from_binary(cell)?.month_day_nano()?);
            }
            Self::List(list) => list.push_binary(cell, dropped_bounds)?,
            Self::Struct(it) => it.push_binary(cell)?,
            Self::Vector(it) => {
                numbers_from_binary(cell, &mut it.scratch)?;
                it.close()?;
            }
            Self::Map(map) => map.push_binary(cell)?,
        }
        Ok(())
    }

    fn truncate(&mut self, rows: usize) {
        match self {
            Self::Bool(values, _) => values.truncate(rows),
            Self::Int16(values) => values.truncate(rows),
            Self::Int32(values, _) | Self::Date(values) => values.truncate(rows),
            Self::Int64(values, _) | Self::Time(values, _) | Self::Timestamp(values, _) => {
                values.truncate(rows);
            }
            Self::UInt16(values) => values.truncate(rows),
            Self::UInt32(values) => values.truncate(rows),
            Self::UInt64(values, _) => values.truncate(rows),
            Self::Float32(values) => values.truncate(rows),
            Self::Float64(values, _) => values.truncate(rows),
            Self::Decimal(values, ..) => values.truncate(rows),
            Self::Utf8(values, _) | Self::Binary(values, _) | Self::TimeTz(values) => {
                values.truncate(rows);
            }
            Self::Interval(values) => values.truncate(rows),
            Self::Struct(it) => {
                for column in &mut it.columns {
                    column.truncate(rows);
                }
            }
            Self::Uuid(values) => values.truncate(rows.saturating_mul(16)),
            Self::Vector(it) => it.truncate(rows),
            Self::Map(map) => {
                let end = truncate_offsets(&mut map.offsets, rows);
                map.keys.truncate(end);
                map.values.truncate(end);
            }
            Self::List(list) => {
                let end = truncate_offsets(&mut list.offsets, rows);
                list.elements.truncate(end);
            }
        }
    }
}

/// Keeps the first `rows` values and says where they end.
fn truncate_offsets(offsets: &mut Vec<i32>, rows: usize) -> usize {
    offsets.truncate(rows.saturating_add(1));
    usize::try_from(offsets.last().copied().unwrap_or(0)).unwrap_or(0)
}

/// Where values that end here lie: a batch holds no more than 2 GiB of a column.
#[inline]
fn offset(end: usize) -> Result<i32, CellError> {
    i32::try_from(end).map_err(|_| Unrepresentable::TooLarge.into())
}

impl Bytes {
    fn new(rows: usize) -> Self {
        Self {
            offsets: offsets(rows),
            bytes: Vec::new(),
        }
    }

    #[inline]
    fn push(&mut self, value: &[u8]) -> Result<(), CellError> {
        let end = offset(self.bytes.len().saturating_add(value.len()))?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        Ok(())
    }

    /// Makes a value of the bytes that were appended since the last one.
    #[inline]
    fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.bytes.len())?);
        Ok(())
    }

    fn push_empty(&mut self) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(end);
    }

    #[inline]
    fn push_rendered(&mut self, cell: &[u8], form: &TextForm) -> Result<(), CellError> {
        render_binary(form, cell, &mut self.bytes)?;
        self.close()
    }

    fn truncate(&mut self, rows: usize) {
        let end = truncate_offsets(&mut self.offsets, rows);
        self.bytes.truncate(end);
    }

    fn finish(self) -> (OffsetBuffer<i32>, Buffer) {
        (
            OffsetBuffer::new(ScalarBuffer::from(self.offsets)),
            Buffer::from_vec(self.bytes),
        )
    }
}

/// Appends a cell's text, as PostgreSQL's output function writes it.
///
/// # Errors
/// The cell has no text; what was appended of it is to be taken back.
pub(crate) fn render_text(
    form: &TextForm,
    cell: Cell<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    match cell {
        Cell::Binary(cell) => render_binary(form, cell, out),
        Cell::Text(cell) => {
            check_utf8(cell)?;
            out.extend_from_slice(cell);
            Ok(())
        }
        _ => Ok(()),
    }
}

#[inline]
fn render_binary(form: &TextForm, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match form {
        TextForm::Raw => {
            check_utf8(cell)?;
            out.extend_from_slice(cell);
        }
        TextForm::Versioned => {
            let text = versioned_from_binary(cell)?;
            check_utf8(text)?;
            out.extend_from_slice(text);
        }
        TextForm::Bool => out.push(if bool_from_binary(cell)? { b't' } else { b'f' }),
        TextForm::Integer(integer) => integer.render_binary(cell, out)?,
        TextForm::Float4 => f32_text_from_binary(cell, out)?,
        TextForm::Float8 => f64_text_from_binary(cell, out)?,
        TextForm::Numeric => numeric_text_from_binary(cell, out)?,
        TextForm::Money => return Err(Unrepresentable::MoneyScale.into()),
        TextForm::Char => char_text_from_binary(cell, out)?,
        TextForm::Bytea => bytea_text_from_binary(cell, out),
        TextForm::Bits => bits_text_from_binary(cell, out)?,
        TextForm::Uuid => out.extend_from_slice(&uuid_to_text(uuid_from_binary(cell)?)),
        TextForm::Date => date_text_from_binary(cell, out)?,
        TextForm::Time => time_text_from_binary(cell, out)?,
        TextForm::TimeTz => timetz_text_from_binary(cell, out)?,
        TextForm::Timestamp { zone: false } => timestamp_text_from_binary(cell, out)?,
        TextForm::Timestamp { zone: true } => timestamptz_text_from_binary(cell, out)?,
        TextForm::Interval => interval_text_from_binary(cell, out)?,
        TextForm::Network { is_cidr } => network_text_from_binary(cell, *is_cidr, out)?,
        TextForm::Mac(size) => mac_text_from_binary(cell, *size, out)?,
        TextForm::TsVector => tsvector_text_from_binary(cell, out)?,
        TextForm::Snapshot => snapshot_text_from_binary(cell, out)?,
        TextForm::Tid => tid_text_from_binary(cell, out)?,
        TextForm::Vector(integer) => {
            let start = out.len();
            for element in vector_from_binary(cell)? {
                if out.len() > start {
                    out.push(b' ');
                }
                integer.render_binary(element?.unwrap_or_default(), out)?;
            }
        }
        TextForm::Array(array) => {
            let render =
                |element: &[u8], out: &mut Vec<u8>| render_binary(&array.element, element, out);
            array_text_from_binary(cell, array.element_oid, array.delimiter, out, render)?;
        }
        TextForm::Shape(shape) => shape_text_from_binary(*shape, cell, out)?,
        TextForm::Path => path_text_from_binary(cell, out)?,
        TextForm::Polygon => polygon_text_from_binary(cell, out)?,
        TextForm::Hstore => {
            let start = out.len();
            hstore_text_from_binary(cell, out)?;
            check_utf8(out.get(start..).unwrap_or_default())?;
        }
        TextForm::Cube => cube_text_from_binary(cell, out)?,
        TextForm::Numbers => numbers_text_from_binary(cell, out)?,
        TextForm::Halves => halfvec_text_from_binary(cell, out)?,
        TextForm::Range(bound) => {
            range_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
                render_binary(bound, cell, out)
            })?;
        }
        TextForm::Multirange(bound) => {
            multirange_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
                render_binary(bound, cell, out)
            })?;
        }
        TextForm::Unknown => return Err(Unrepresentable::BinaryCell.into()),
    }
    Ok(())
}

impl List {
    fn push_empty(&mut self) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(end);
    }

    fn push_text(&mut self, cell: &[u8], dropped_bounds: &mut u64) -> Result<(), CellError> {
        let elements = &mut self.elements;
        let visit = |element: Option<&[u8]>| {
            let Some(element) = element else {
                elements.append_null();
                return Ok(());
            };
            elements.append_text(element)
        };
        let delimiter = match self.plan.form {
            ListForm::Array { delimiter } => delimiter,
            ListForm::Vector => {
                vector_from_text(cell, |element| self.elements.append_text(element))?;
                return self.close();
            }
            ListForm::Multirange => {
                for range in multirange_from_text(cell)? {
                    self.elements.append_text(range?)?;
                }
                return self.close();
            }
            ListForm::Polygon => {
                let mut points = Vec::new();
                polygon_from_text(cell, &mut points)?;
                return self.push_points(&points);
            }
            ListForm::Numbers | ListForm::Halves => {
                let mut numbers = Vec::new();
                numbers_from_text(cell, &mut numbers)?;
                return self.push_numbers(&numbers);
            }
        };
        let shape = array_from_text(cell, delimiter, &mut self.scratch, visit)?;
        *dropped_bounds = dropped_bounds.saturating_add(shape.drops_lower_bound().into());
        self.close()
    }

    fn push_binary(&mut self, cell: &[u8], dropped_bounds: &mut u64) -> Result<(), CellError> {
        let (array, counts) = match self.plan.form {
            ListForm::Array { delimiter: _ } => (array_from_binary(cell)?, true),
            ListForm::Vector => (vector_from_binary(cell)?, false),
            ListForm::Multirange => {
                for range in multirange_from_binary(cell)? {
                    self.elements.append_binary(range?)?;
                }
                return self.close();
            }
            ListForm::Polygon => {
                let mut points = Vec::new();
                polygon_from_binary(cell, &mut points)?;
                return self.push_points(&points);
            }
            ListForm::Numbers => {
                let mut numbers = Vec::new();
                numbers_from_binary(cell, &mut numbers)?;
                return self.push_numbers(&numbers);
            }
            ListForm::Halves => {
                let mut numbers = Vec::new();
                halfvec_from_binary(cell, &mut numbers)?;
                return self.push_numbers(&numbers);
            }
        };
        array.check_element(self.plan.element_oid)?;
        let shape = array.shape();
        for element in array {
            match element? {
                Some(element) => self.elements.append_binary(element)?,
                None => self.elements.append_null(),
            }
        }
        let dropped = counts && shape.drops_lower_bound();
        *dropped_bounds = dropped_bounds.saturating_add(dropped.into());
        self.close()
    }

    fn push_points(&mut self, points: &[[f64; 2]]) -> Result<(), CellError> {
        for point in points {
            let point = point.map(f64::to_be_bytes);
            self.elements.append_binary(point.as_flattened())?;
        }
        self.close()
    }

    fn push_numbers(&mut self, numbers: &[f32]) -> Result<(), CellError> {
        for number in numbers {
            self.elements.append_binary(&number.to_be_bytes())?;
        }
        self.close()
    }

    fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.elements.len())?);
        Ok(())
    }
}

impl Vector {
    fn size(&self) -> usize {
        usize::try_from(self.dimensions).unwrap_or(0)
    }

    fn rows(&self) -> usize {
        self.numbers.len().checked_div(self.size()).unwrap_or(0)
    }

    /// Makes a value of the numbers of one vector.
    fn close(&mut self) -> Result<(), CellError> {
        if self.scratch.len() != self.size() {
            return Err(CellError::Malformed("as many numbers as the column says"));
        }
        self.numbers.extend_from_slice(&self.scratch);
        Ok(())
    }

    /// Leaves so many vectors, of zeros where there were fewer.
    fn truncate(&mut self, rows: usize) {
        self.numbers.resize(rows.saturating_mul(self.size()), 0.0);
    }
}

impl Map {
    fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let (keys, values) = (&mut self.keys, &mut self.values);
        hstore_from_text(cell, &mut self.scratch, |key, value| {
            push_pair(keys, values, key, value)
        })?;
        self.close()
    }

    fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        for pair in hstore_from_binary(cell)? {
            let (key, value) = pair?;
            push_pair(&mut self.keys, &mut self.values, key, value)?;
        }
        self.close()
    }

    fn push_pairs<'a>(
        &mut self,
        pairs: impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)>,
    ) -> Result<(), CellError> {
        for (key, value) in pairs {
            push_pair(&mut self.keys, &mut self.values, key, value)?;
        }
        self.close()
    }

    fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.keys.len())?);
        Ok(())
    }
}

fn push_pair(
    keys: &mut Column,
    values: &mut Column,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<(), CellError> {
    keys.append_text(key)?;
    match value {
        Some(value) => values.append_text(value)?,
        None => values.append_null(),
    }
    Ok(())
}

impl Struct {
    fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self.form {
            StructForm::Tid => {
                for (column, part) in self.columns.iter_mut().zip(tid_from_text(cell)?) {
                    column.append_text(part)?;
                }
                Ok(())
            }
            StructForm::Interval => self.push_interval(interval_from_text(cell)?),
            StructForm::Range => {
                let range = range_from_text(cell, &mut self.scratch)?;
                push_range(&mut self.columns, range, Column::append_text)
            }
            StructForm::Shape(shape) => {
                shape_from_text(shape, cell, &mut self.numbers)?;
                self.push_numbers()
            }
            StructForm::Path => {
                let mut points = Vec::new();
                let closed = path_from_text(cell, &mut points)?;
                self.push_path(closed, &points)
            }
        }
    }

    fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match self.form {
            StructForm::Tid => {
                for (column, part) in self.columns.iter_mut().zip(tid_from_binary(cell)?) {
                    column.append_binary(part)?;
                }
                Ok(())
            }
            StructForm::Interval => self.push_interval(interval_from_binary(cell)?),
            StructForm::Range => {
                let range = range_from_binary(cell)?;
                push_range(&mut self.columns, range, Column::append_binary)
            }
            StructForm::Shape(shape) => {
                shape_from_binary(shape, cell, &mut self.numbers)?;
                self.push_numbers()
            }
            StructForm::Path => {
                let mut points = Vec::new();
                let closed = path_from_binary(cell, &mut points)?;
                self.push_path(closed, &points)
            }
        }
    }

    fn push_numbers(&mut self) -> Result<(), CellError> {
        for (column, number) in self.columns.iter_mut().zip(&self.numbers) {
            column.append_binary(&number.to_be_bytes())?;
        }
        Ok(())
    }

    fn push_path(&mut self, closed: bool, points: &[[f64; 2]]) -> Result<(), CellError> {
        if let [is_closed, list] = self.columns.as_mut_slice() {
            is_closed.append_binary(&[closed.into()])?;
            list.append_points(points)?;
        }
        Ok(())
    }

    fn push_interval(&mut self, interval: Interval) -> Result<(), CellError> {
        let (months, days, micros) = (
            interval.months.to_be_bytes(),
            interval.days.to_be_bytes(),
            interval.micros.to_be_bytes(),
        );
        let parts = [&months[..], &days, &micros];
        for (column, part) in self.columns.iter_mut().zip(parts) {
            column.append_binary(part)?;
        }
        Ok(())
    }
}

/// Appends to each field's column, given how a bound's cell is appended.
fn push_range(
    columns: &mut [Column],
    range: RangeParts<'_>,
    append: impl Fn(&mut Column, &[u8]) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let mut columns = columns.iter_mut();
    for (bound, column) in [range.lower, range.upper].into_iter().zip(&mut columns) {
        match bound {
            Some(bound) => append(column, bound)?,
            None => column.append_null(),
        }
    }
    let flags = [range.lower_inc, range.upper_inc, range.empty];
    for (flag, column) in flags.into_iter().zip(columns) {
        column.append_binary(&[flag.into()])?;
    }
    Ok(())
}
