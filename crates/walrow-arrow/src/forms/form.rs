//! One Arrow type, and how a column of it is built.

use crate::column::{
    AppendTo, As, Bits, Bytes, Cell, Column, Fixed, FixedBytes, Lists, Maps, Moments, New, Pairs,
    Push, RawCell, Structs, Typed, Utf8Text, Written,
};
use crate::options::OnUnrepresentable;
use crate::profile::map_type;
use crate::utf8::Utf8;
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::TimestampMicrosecondType;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::fmt;
use std::sync::Arc;
use walrow_stream::Encoding;
use walrow_types::{AppendBytes, Micros, PgType, Scalar, Text};

type Build = dyn Fn(&DataType, New) -> Box<dyn Column> + Send + Sync;

/// One Arrow type of a column, and how to build the column.
#[derive(Clone)]
pub(crate) struct Form {
    data_type: DataType,
    /// The minimum bytes of a row.
    row_bytes: usize,
    /// Whether a value can be much larger than its cell.
    expands: bool,
    extension: Option<Extension>,
    /// Whether different values stay different.
    exact: bool,
    build: Arc<Build>,
}

/// The canonical extension type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Uuid,
    Json,
    /// Geometries with this SRID, or 0 if they have none.
    Wkb {
        srid: u32,
        is_geography: bool,
    },
    /// A value whose meaning only PostgreSQL knows.
    Opaque,
}

impl Form {
    /// A column of this type, with this minimum of bytes per row.
    pub(crate) fn new<F>(data_type: DataType, row_bytes: usize, build: F) -> Self
    where
        F: Fn(&DataType, New) -> Box<dyn Column> + Send + Sync + 'static,
    {
        Self {
            data_type,
            row_bytes,
            expands: false,
            extension: None,
            exact: true,
            build: Arc::new(build),
        }
    }

    /// A scalar in an Arrow type of fixed size.
    pub(crate) fn fixed<A, T>(reader: T) -> Self
    where
        A: ArrowPrimitiveType + fmt::Debug,
        T: Scalar + Copy,
        Fixed<A>: Push<T::Value>,
    {
        Self::fixed_as::<A, T>(reader, A::DATA_TYPE)
    }

    /// Like [`Form::fixed`], with the parameters of the Arrow type.
    pub(crate) fn fixed_as<A, T>(reader: T, data_type: DataType) -> Self
    where
        A: ArrowPrimitiveType + fmt::Debug,
        T: Scalar + Copy,
        Fixed<A>: Push<T::Value>,
    {
        Self::new(data_type, size_of::<A::Native>(), move |data_type, new| {
            let store = Fixed::<A>::with_capacity(new.rows);
            Typed::boxed(As::new(reader), store, data_type, new)
        })
    }

    /// A timestamp in microseconds.
    pub(crate) fn timestamp<T>(reader: T, zone: Option<&str>) -> Self
    where
        T: Scalar<Value = Micros> + Copy,
    {
        let unit = arrow_schema::TimeUnit::Microsecond;
        let data_type = DataType::Timestamp(unit, zone.map(Into::into));
        Self::new(data_type, 8, move |data_type, new| {
            // The largest one means infinity.
            let is_sentinel = new.policy == OnUnrepresentable::Sentinel;
            let last = i64::MAX.saturating_sub(is_sentinel.into());
            let store = Fixed::<TimestampMicrosecondType>::with_capacity(new.rows);
            Typed::boxed(Moments::new(reader, last), store, data_type, new)
        })
    }

    /// `Boolean`.
    pub(crate) fn bits<T: Scalar<Value = bool> + Copy>(reader: T) -> Self {
        Self::new(DataType::Boolean, 1, move |data_type, new| {
            let store = Bits::with_capacity(new.rows);
            Typed::boxed(As::new(reader), store, data_type, new)
        })
    }

    /// `FixedSizeBinary(N)`.
    pub(crate) fn fixed_bytes<const N: usize, T>(reader: T) -> Self
    where
        T: Scalar<Value = [u8; N]> + Copy,
    {
        let size = i32::try_from(N).unwrap_or(i32::MAX);
        Self::new(DataType::FixedSizeBinary(size), N, move |data_type, new| {
            let store = FixedBytes::<N>::with_capacity(new.rows);
            Typed::boxed(As::new(reader), store, data_type, new)
        })
    }

    /// Bytes, which a reader appends.
    pub(crate) fn bytes<T: AppendBytes + Copy>(reader: T) -> Self {
        Self::append(reader, DataType::Binary)
    }

    /// Text, which a reader appends.
    pub(crate) fn text<T: AppendBytes + Copy>(reader: T) -> Self {
        Self::append(reader, DataType::Utf8)
    }

    fn append<T: AppendBytes + Copy>(reader: T, data_type: DataType) -> Self {
        Self::new(data_type, 4, move |data_type, new| {
            let store = Bytes::with_capacity(new.rows);
            Typed::boxed(AppendTo(reader), store, data_type, new)
        })
    }

    /// The cell's own bytes.
    pub(crate) fn raw() -> Self {
        Self::new(DataType::Binary, 4, |data_type, new| {
            Typed::boxed(RawCell, Bytes::with_capacity(new.rows), data_type, new)
        })
    }

    /// PostgreSQL's text of a type.
    pub(crate) fn written(pg_type: Arc<dyn PgType>, encoding: Encoding) -> Self {
        let is_utf8 = encoding == Encoding::Utf8;
        if pg_type.is_plain_text() && is_utf8 {
            return Self::new(DataType::Utf8, 4, |data_type, new| {
                Typed::boxed(Utf8Text, Utf8::with_capacity(new.rows), data_type, new)
            });
        }
        let expands = pg_type.expands() || !is_utf8;
        Self::new(DataType::Utf8, 4, move |data_type, new| {
            let store = Bytes::with_capacity(new.rows);
            let cell = Written::new(Arc::clone(&pg_type), encoding);
            Typed::boxed(cell, store, data_type, new)
        })
        .expanding(expands)
    }

    /// A list for each cell. If `depth` is more than 1, these are lists of lists.
    pub(crate) fn list<C, F>(cell: F, element: &Self, depth: usize) -> Self
    where
        C: Cell<Store = Lists> + 'static,
        F: Fn() -> C + Send + Sync + 'static,
    {
        Self::list_of(cell, element, depth, New::elements)
    }

    /// Like [`Form::list`]. `elements` derives the parameters of the column of elements.
    pub(crate) fn list_of<C, F>(
        cell: F,
        element: &Self,
        depth: usize,
        elements: fn(New) -> New,
    ) -> Self
    where
        C: Cell<Store = Lists> + 'static,
        F: Fn() -> C + Send + Sync + 'static,
    {
        let mut data_type = element.data_type.clone();
        for _ in 0..depth {
            data_type = DataType::List(Arc::new(Field::new("item", data_type, true)));
        }
        let expands = element.expands || element.row_bytes > SMALL_ELEMENT_BYTES;
        let exact = element.exact;
        let element = element.clone();
        Self::new(data_type, 4, move |data_type, new| {
            let mut item = data_type;
            for _ in 0..depth {
                if let DataType::List(inner) | DataType::LargeList(inner) = item {
                    item = inner.data_type();
                }
            }
            let column = (element.build)(item, elements(new));
            let store = Lists::new(new.rows, depth, column, element.row_bytes, expands);
            Typed::boxed(cell(), store, data_type, new)
        })
        .expanding(expands)
        .exactly(exact)
    }

    /// A struct for each cell, with a column for each field.
    pub(crate) fn structs<'a, C, F>(
        cell: F,
        fields: impl IntoIterator<Item = (&'a str, Self)>,
    ) -> Self
    where
        C: Cell<Store = Structs> + 'static,
        F: Fn() -> C + Send + Sync + 'static,
    {
        let (fields, forms): (Vec<_>, Vec<_>) = fields
            .into_iter()
            .map(|(name, form)| (Field::new(name, form.data_type.clone(), true), form))
            .unzip();
        let expands = forms.iter().any(|form| form.expands);
        let exact = forms.iter().all(|form| form.exact);
        let row_bytes = forms.iter().map(|form| form.row_bytes);
        let row_bytes = row_bytes.fold(1, usize::saturating_add);
        let data_type = DataType::Struct(fields.into());
        Self::new(data_type, row_bytes, move |data_type, new| {
            let own = Fields::empty();
            let fields = match data_type {
                DataType::Struct(fields) => fields,
                _ => &own,
            };
            let columns = forms.iter().zip(fields);
            let columns = columns.map(|(form, field)| (form.build)(field.data_type(), new.part()));
            let store = Structs::new(columns.collect(), expands);
            Typed::boxed(cell(), store, data_type, new)
        })
        .expanding(expands)
        .exactly(exact)
    }

    /// A map of text to text.
    pub(crate) fn map(encoding: Encoding) -> Self {
        let text = Self::written(Arc::new(Text), encoding);
        Self::new(map_type(), 4, move |data_type, new| {
            let part = || text.column(new.part().elements());
            let store = Maps::new(new.rows, part(), part());
            Typed::boxed(Pairs::default(), store, data_type, new)
        })
    }

    /// Sets whether a value can be much larger than its cell.
    pub(crate) fn expanding(mut self, expands: bool) -> Self {
        self.expands = expands;
        self
    }

    /// Sets whether different values stay different.
    pub(crate) fn exactly(mut self, exact: bool) -> Self {
        self.exact = exact;
        self
    }

    pub(crate) fn with_extension(mut self, extension: Option<Extension>) -> Self {
        self.extension = extension;
        self
    }

    /// The same values in this Arrow type, which differs only in layout or in the names of fields.
    pub(crate) fn with_data_type(mut self, data_type: &DataType) -> Self {
        self.data_type = data_type.clone();
        self
    }

    pub(crate) const fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(crate) const fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    pub(crate) const fn expands(&self) -> bool {
        self.expands
    }

    pub(crate) const fn is_exact(&self) -> bool {
        self.exact
    }

    pub(crate) const fn extension(&self) -> Option<&Extension> {
        self.extension.as_ref()
    }

    /// An empty column.
    pub(crate) fn column(&self, new: New) -> Box<dyn Column> {
        (self.build)(&self.data_type, new)
    }
}

impl fmt::Debug for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Form").field(&self.data_type).finish()
    }
}

/// The maximum bytes of an element that does not count as much larger than a cell of four bytes.
const SMALL_ELEMENT_BYTES: usize = 64;

/// Whether two types hold the same values. Lists may differ in layout and in the name of their
/// items, and fields in their metadata.
pub(super) fn is_same_shape(ours: &DataType, theirs: &DataType) -> bool {
    match (ours, theirs) {
        (DataType::List(ours), DataType::List(theirs) | DataType::LargeList(theirs)) => {
            theirs.is_nullable() && is_same_shape(ours.data_type(), theirs.data_type())
        }
        (DataType::Struct(ours), DataType::Struct(theirs)) => {
            let is_same = |(ours, theirs): (&FieldRef, &FieldRef)| {
                theirs.is_nullable()
                    && ours.name() == theirs.name()
                    && is_same_shape(ours.data_type(), theirs.data_type())
            };
            ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
        }
        (ours, theirs) => ours == theirs,
    }
}
