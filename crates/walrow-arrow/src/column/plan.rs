//! What becomes of the cells of one column: chosen once, before any of them is read.

use super::decimal256::Decimal256;
use super::foreign::Foreign;
use super::geometric::Shape;
use super::network::MacSize;
use super::numeric::Decimal128;
use crate::pg_type;
use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use std::sync::Arc;
use walrow_wire::Oid;

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
    Decimal256(Decimal256),
    Utf8(TextForm),
    /// The text of a `bpchar` without the blanks at its end.
    Trimmed,
    /// The text of a `timetz`, all offsets with hours and minutes.
    TimeTz,
    Binary(BytesForm),
    /// The ISO WKB of geometries, all of this SRID.
    Wkb {
        srid: u32,
    },
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
    /// The same values in another layout of Arrow's.
    Laid(Box<Self>, DataType),
    /// Cells that a server wrote under other settings than walrow pins.
    Foreign(Box<Self>, Foreign),
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
    /// The same bytes, apart from the encoding that the binary form names.
    Xml,
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
    /// A composite whose fields are of these types and have these texts.
    Record(Arc<[(Oid, Self)]>),
    /// A `sparsevec`.
    Sparse,
    /// A geometry's EWKB in hexadecimal digits.
    Geometry,
    /// The binary form is not read.
    Unread,
    /// Nothing tells what the binary form is.
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
    /// A geometry's EWKB.
    Ewkb,
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
    /// An array's within an array.
    Nested,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StructForm {
    Tid,
    Interval,
    TimeTz,
    Range,
    Shape(Shape),
    Path,
    /// A composite whose fields are of these types.
    Record(Arc<[Oid]>),
    /// A `sparsevec`.
    Sparse,
    /// A geometry: its SRID, 0 if it has none, and its ISO WKB.
    Geometry,
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

    /// A time of day and how many seconds it is ahead of UTC.
    pub(crate) fn timetz(unit: TimeUnit) -> Self {
        let fields = [
            ("time", Plan::Time(unit)),
            ("offset_s", Plan::Int32(Integer::Int4)),
        ];
        Self::new(StructForm::TimeTz, fields)
    }

    /// A `sparsevec`: how many numbers it has, which of them, from 0 on, are not zero, and those.
    pub(crate) fn sparse() -> Self {
        let list = |element| Plan::list(element, 0, ListForm::Numbers);
        let fields = [
            ("dim", Plan::Int32(Integer::Int4)),
            ("indices", list(Plan::Int32(Integer::Int4))),
            ("values", list(Plan::Float32)),
        ];
        Self::new(StructForm::Sparse, fields)
    }

    /// A geometry and the coordinate system that it names.
    pub(crate) fn geometry() -> Self {
        let fields = [
            ("srid", Plan::Int32(Integer::Int4)),
            ("wkb", Plan::Binary(BytesForm::Cell)),
        ];
        Self::new(StructForm::Geometry, fields)
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
    /// Lists of such elements.
    pub(crate) fn list(element: Self, element_oid: Oid, form: ListForm) -> Self {
        let item = Arc::new(Field::new("item", element.data_type(), true));
        Self::list_of(item, element, element_oid, form)
    }

    /// Lists under the item's field of a schema that was asked for.
    pub(crate) fn list_of(item: FieldRef, element: Self, element_oid: Oid, form: ListForm) -> Self {
        Self::List(Box::new(ListPlan {
            item,
            element,
            element_oid,
            form,
        }))
    }

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
            Self::Decimal256(decimal) => decimal.data_type(),
            Self::Utf8(_) | Self::TimeTz | Self::Trimmed => DataType::Utf8,
            Self::Binary(_) | Self::Wkb { srid: _ } => DataType::Binary,
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
            Self::Laid(_, data_type) => data_type.clone(),
            Self::Foreign(plan, _) => plan.data_type(),
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
            Self::Decimal256(_) => 32,
            Self::Utf8(_) | Self::TimeTz | Self::Trimmed | Self::List(_) | Self::Map => 4,
            Self::Binary(_) | Self::Wkb { srid: _ } => 4,
            Self::Laid(plan, _) | Self::Foreign(plan, _) => plan.row_bytes(),
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
            Self::Utf8(form) => !matches!(form, TextForm::Raw | TextForm::Xml | TextForm::Unknown),
            Self::TimeTz | Self::Foreign(..) => true,
            Self::Laid(plan, _) => plan.expands(),
            Self::List(list) => list.expands(),
            Self::Struct(it) => it.plans.iter().any(Self::expands),
            _ => false,
        }
    }
}

/// What an element may take where its cell has four bytes, and still not be much larger.
const SMALL_ELEMENT_BYTES: usize = 64;

impl ListPlan {
    /// Whether a cell's elements can be much larger than the cell.
    pub(super) fn expands(&self) -> bool {
        self.element.expands() || self.element.row_bytes() > SMALL_ELEMENT_BYTES
    }
}

/// The items of a list of 32-bit floats.
pub(super) fn number_field() -> FieldRef {
    Arc::new(Field::new("item", DataType::Float32, true))
}

/// The keys and values of a map, of which no key is null.
pub(super) fn entries_field() -> FieldRef {
    Arc::new(Field::new(
        "entries",
        DataType::Struct(pair_fields()),
        false,
    ))
}

pub(super) fn pair_fields() -> Fields {
    let key = Field::new("key", DataType::Utf8, false);
    Fields::from(vec![key, Field::new("value", DataType::Utf8, true)])
}

pub(super) const UUID_BYTES: i32 = 16;

/// What the elements of an `int2vector` or an `oidvector` are.
pub(crate) const fn vector_element(integer: Integer) -> Oid {
    match integer {
        Integer::Int2 => pg_type::INT2,
        _ => pg_type::OID,
    }
}
