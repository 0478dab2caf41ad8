//! Cells that consist of cells, or that are split into several values.

use super::cell::Cell;
use super::store::{FixedLists, Lists, MAX_VALUE, Maps, Structs, append};
use super::{Column, Refused};
use std::sync::Arc;
use walrow_types::{
    Array, ArrayStep, CellError, Composite, Geometry, Halfvec, Hstore, Interval, IntervalValue,
    Multirange, NumberVector, Path, PgType, Polygon, Range, RangeParts, Scalar, Shape, Sparsevec,
    Tid, TimeTz, TimeTzValue, Unrepresentable, Vector,
};

/// The elements of arrays, in lists as deep as the store has levels.
#[derive(Debug)]
pub(crate) struct Arrays<E: ?Sized> {
    pg_type: Arc<Array<E>>,
    scratch: Vec<u8>,
}

impl<E: ?Sized> Arrays<E> {
    pub(crate) const fn new(pg_type: Arc<Array<E>>) -> Self {
        Self {
            pg_type,
            scratch: Vec::new(),
        }
    }
}

/// Appends an element. `None` is null.
#[inline]
fn append_element(
    lists: &mut Lists,
    element: Option<&[u8]>,
    cell: impl FnOnce(&mut dyn Column, &[u8]) -> Result<(), Refused>,
) -> Result<(), CellError> {
    let elements = lists.elements();
    let Some(element) = element else {
        elements.append_null();
        return Ok(());
    };
    append(elements, |column| cell(column, element))
}

impl<E: PgType + ?Sized> Cell for Arrays<E> {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        let room = lists.room();
        let depth = lists.depth();
        let Self { pg_type, scratch } = self;
        let dropped = if depth > 1 {
            pg_type.visit_nested_text(cell, depth, scratch, |step| match step {
                ArrayStep::Element(element) => {
                    append_element(lists, element, |column, cell| column.append_text(cell))?;
                    lists.check_room(room)
                }
                ArrayStep::Close(level) => lists.close(level),
            })?
        } else {
            let shape = pg_type.visit_text(cell, scratch, |element| {
                append_element(lists, element, |column, cell| column.append_text(cell))?;
                lists.check_room(room)
            })?;
            shape.drops_lower_bound()
        };
        lists.close_array(dropped)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        let room = lists.room();
        let depth = lists.depth();
        if depth > 1 {
            let dropped = self
                .pg_type
                .visit_nested_binary(cell, depth, |step| match step {
                    ArrayStep::Element(element) => {
                        append_element(lists, element, |column, cell| column.append_binary(cell))?;
                        lists.check_room(room)
                    }
                    ArrayStep::Close(level) => lists.close(level),
                })?;
            return lists.close_array(dropped);
        }
        let array = self.pg_type.binary(cell)?;
        let dropped = array.shape().drops_lower_bound();
        for element in array {
            append_element(lists, element?, |column, cell| column.append_binary(cell))?;
            lists.check_room(room)?;
        }
        lists.close_array(dropped)
    }
}

/// The elements of an `int2vector` or `oidvector`.
#[derive(Debug)]
pub(crate) struct VectorElements<E: ?Sized>(pub(crate) Arc<Vector<E>>);

impl<E: PgType + ?Sized> Cell for VectorElements<E> {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        self.0.visit_text(cell, |element| {
            append(lists.elements(), |column| column.append_text(element))
        })?;
        lists.close(0)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        for element in self.0.binary(cell)? {
            append_element(lists, element?, |column, cell| column.append_binary(cell))?;
        }
        lists.close(0)
    }
}

/// The ranges of a multirange.
#[derive(Debug)]
pub(crate) struct Multiranges<E: ?Sized>(pub(crate) Arc<Multirange<E>>);

impl<E: PgType + ?Sized> Cell for Multiranges<E> {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        let room = lists.room();
        for range in self.0.text(cell)? {
            let range = range?;
            append(lists.elements(), |column| column.append_text(range))?;
            lists.check_room(room)?;
        }
        lists.close(0)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        let room = lists.room();
        for range in self.0.binary(cell)? {
            let range = range?;
            append(lists.elements(), |column| column.append_binary(range))?;
            lists.check_room(room)?;
        }
        lists.close(0)
    }
}

/// The bounds of a range and its flags.
#[derive(Debug)]
pub(crate) struct Ranges<E: ?Sized> {
    pg_type: Arc<Range<E>>,
    scratch: Vec<u8>,
}

impl<E: ?Sized> Ranges<E> {
    pub(crate) const fn new(pg_type: Arc<Range<E>>) -> Self {
        Self {
            pg_type,
            scratch: Vec::new(),
        }
    }
}

impl<E: PgType + ?Sized> Cell for Ranges<E> {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let range = self.pg_type.text(cell, &mut self.scratch)?;
        push_range(store, range, |column, bound| column.append_text(bound))
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let range = self.pg_type.binary(cell)?;
        push_range(store, range, |column, bound| column.append_binary(bound))
    }
}

fn push_range(
    store: &mut Structs,
    range: RangeParts<'_>,
    cell: impl Fn(&mut dyn Column, &[u8]) -> Result<(), Refused>,
) -> Result<(), CellError> {
    let mut columns = store.columns().iter_mut();
    for (bound, column) in [range.lower, range.upper].into_iter().zip(&mut columns) {
        match bound {
            Some(bound) => append(&mut **column, |column| cell(column, bound))?,
            None => column.append_null(),
        }
    }
    let flags = [range.lower_inc, range.upper_inc, range.empty];
    for (flag, column) in flags.into_iter().zip(columns) {
        append(&mut **column, |column| column.append_binary(&[flag.into()]))?;
    }
    Ok(())
}

/// The fields of a composite.
#[derive(Debug)]
pub(crate) struct Composites<E: ?Sized> {
    pg_type: Arc<Composite<E>>,
    scratch: Vec<u8>,
}

impl<E: ?Sized> Composites<E> {
    pub(crate) const fn new(pg_type: Arc<Composite<E>>) -> Self {
        Self {
            pg_type,
            scratch: Vec::new(),
        }
    }
}

impl<E: PgType + ?Sized> Cell for Composites<E> {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let mut grown = 0;
        self.pg_type
            .visit_text(cell, &mut self.scratch, |place, field| {
                append_field(store, place, field, &mut grown, |column, cell| {
                    column.append_text(cell)
                })
            })
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let mut grown = 0;
        for (place, field) in self.pg_type.binary(cell)?.enumerate() {
            append_field(store, place, field?, &mut grown, |column, cell| {
                column.append_binary(cell)
            })?;
        }
        Ok(())
    }
}

/// Appends a field. `None` is null. Fails if the fields of one cell become too large together.
fn append_field(
    store: &mut Structs,
    place: usize,
    field: Option<&[u8]>,
    grown: &mut usize,
    cell: impl FnOnce(&mut dyn Column, &[u8]) -> Result<(), Refused>,
) -> Result<(), CellError> {
    let expands = store.expands;
    let Some(column) = store.columns().get_mut(place) else {
        return Ok(());
    };
    let Some(field) = field else {
        column.append_null();
        return Ok(());
    };
    if !expands {
        return append(&mut **column, |column| cell(column, field));
    }
    let before = column.variable_bytes();
    append(&mut **column, |column| cell(column, field))?;
    *grown = grown.saturating_add(column.variable_bytes().saturating_sub(before));
    if *grown > MAX_VALUE {
        return Err(Unrepresentable::TooLarge.into());
    }
    Ok(())
}

/// The pairs of an `hstore`.
#[derive(Debug, Default)]
pub(crate) struct Pairs {
    scratch: Vec<u8>,
}

impl Cell for Pairs {
    type Store = Maps;

    fn text(&mut self, cell: &[u8], maps: &mut Maps) -> Result<(), CellError> {
        Hstore.visit_text(cell, &mut self.scratch, |key, value| {
            maps.push_pair(key, value)
        })?;
        maps.close()
    }

    fn binary(&mut self, cell: &[u8], maps: &mut Maps) -> Result<(), CellError> {
        for pair in Hstore.binary(cell)? {
            let (key, value) = pair?;
            maps.push_pair(key, value)?;
        }
        maps.close()
    }
}

/// The numbers of a `vector` of varying length.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    scratch: Vec<f32>,
}

impl Cell for Numbers {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        NUMBERS.text(cell, &mut self.scratch)?;
        push_numbers(lists, &self.scratch)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        NUMBERS.binary(cell, &mut self.scratch)?;
        push_numbers(lists, &self.scratch)
    }
}

/// The numbers of a `halfvec`.
#[derive(Debug, Default)]
pub(crate) struct Halves {
    scratch: Vec<f32>,
}

impl Cell for Halves {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        Halfvec.text(cell, &mut self.scratch)?;
        push_numbers(lists, &self.scratch)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        Halfvec.binary(cell, &mut self.scratch)?;
        push_numbers(lists, &self.scratch)
    }
}

fn push_numbers(lists: &mut Lists, numbers: &[f32]) -> Result<(), CellError> {
    for number in numbers {
        let number = number.to_be_bytes();
        append(lists.elements(), |column| column.append_binary(&number))?;
    }
    lists.close(0)
}

/// The numbers of a `vector` of fixed length.
#[derive(Debug, Default)]
pub(crate) struct Vectors {
    scratch: Vec<f32>,
}

impl Cell for Vectors {
    type Store = FixedLists;

    fn text(&mut self, cell: &[u8], store: &mut FixedLists) -> Result<(), CellError> {
        NUMBERS.text(cell, &mut self.scratch)?;
        store.push_numbers(&self.scratch)
    }

    fn binary(&mut self, cell: &[u8], store: &mut FixedLists) -> Result<(), CellError> {
        NUMBERS.binary(cell, &mut self.scratch)?;
        store.push_numbers(&self.scratch)
    }
}

const NUMBERS: NumberVector = NumberVector::ANY;

/// The dimensions, indices and numbers of a `sparsevec`.
#[derive(Debug, Default)]
pub(crate) struct Sparse {
    indices: Vec<i32>,
    numbers: Vec<f32>,
}

impl Sparse {
    fn push(&self, dimensions: i32, store: &mut Structs) -> Result<(), CellError> {
        let indices: Vec<_> = self.indices.iter().map(|it| it.to_be_bytes()).collect();
        let numbers: Vec<_> = self.numbers.iter().map(|it| it.to_be_bytes()).collect();
        store.push_binary([
            &dimensions.to_be_bytes(),
            indices.as_flattened(),
            numbers.as_flattened(),
        ])
    }
}

/// Consecutive elements of four bytes: a part of a larger value that was split.
#[derive(Debug)]
pub(crate) struct Words;

impl Cell for Words {
    type Store = Lists;

    fn text(&mut self, _: &[u8], _: &mut Lists) -> Result<(), CellError> {
        Err(CellError::Malformed("words"))
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        for word in cell.as_chunks::<4>().0 {
            append(lists.elements(), |column| column.append_binary(word))?;
        }
        lists.close(0)
    }
}

impl Cell for Sparse {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let dimensions = Sparsevec.text(cell, &mut self.indices, &mut self.numbers)?;
        self.push(dimensions, store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let dimensions = Sparsevec.binary(cell, &mut self.indices, &mut self.numbers)?;
        self.push(dimensions, store)
    }
}

/// The numbers of a geometric type with a fixed number of them.
#[derive(Debug)]
pub(crate) struct Shapes {
    shape: Shape,
    scratch: Vec<f64>,
}

impl Shapes {
    pub(crate) const fn new(shape: Shape) -> Self {
        Self {
            shape,
            scratch: Vec::new(),
        }
    }

    fn push(&self, store: &mut Structs) -> Result<(), CellError> {
        for (column, number) in store.columns().iter_mut().zip(&self.scratch) {
            append(&mut **column, |it| it.append_binary(&number.to_be_bytes()))?;
        }
        Ok(())
    }
}

impl Cell for Shapes {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        self.shape.text(cell, &mut self.scratch)?;
        self.push(store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        self.shape.binary(cell, &mut self.scratch)?;
        self.push(store)
    }
}

/// The points of a polygon.
#[derive(Debug, Default)]
pub(crate) struct Points {
    scratch: Vec<[f64; 2]>,
}

impl Points {
    fn push(&self, lists: &mut Lists) -> Result<(), CellError> {
        for point in &self.scratch {
            let point = point.map(f64::to_be_bytes);
            append(lists.elements(), |it| {
                it.append_binary(point.as_flattened())
            })?;
        }
        lists.close(0)
    }
}

impl Cell for Points {
    type Store = Lists;

    fn text(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        Polygon.text(cell, &mut self.scratch)?;
        self.push(lists)
    }

    fn binary(&mut self, cell: &[u8], lists: &mut Lists) -> Result<(), CellError> {
        Polygon.binary(cell, &mut self.scratch)?;
        self.push(lists)
    }
}

/// Whether a path is closed, and its points.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    scratch: Vec<[f64; 2]>,
}

impl Paths {
    fn push(&self, closed: bool, store: &mut Structs) -> Result<(), CellError> {
        // The points as a polygon's binary form.
        let count = i32::try_from(self.scratch.len()).map_err(|_| Unrepresentable::TooLarge)?;
        let mut polygon = count.to_be_bytes().to_vec();
        for number in self.scratch.as_flattened() {
            polygon.extend_from_slice(&number.to_be_bytes());
        }
        store.push_binary([&[closed.into()], &polygon])
    }
}

impl Cell for Paths {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let closed = Path.text(cell, &mut self.scratch)?;
        self.push(closed, store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        let closed = Path.binary(cell, &mut self.scratch)?;
        self.push(closed, store)
    }
}

/// The block and the offset of a `tid`.
#[derive(Debug)]
pub(crate) struct Tids;

impl Cell for Tids {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        for (column, part) in store.columns().iter_mut().zip(Tid.text(cell)?) {
            append(&mut **column, |column| column.append_text(part))?;
        }
        Ok(())
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        store.push_binary(Tid.binary(cell)?)
    }
}

/// Months, days and microseconds. None of them is ever converted into another.
#[derive(Debug)]
pub(crate) struct Intervals;

impl Intervals {
    fn push(value: IntervalValue, store: &mut Structs) -> Result<(), CellError> {
        store.push_binary([
            &value.months.to_be_bytes(),
            &value.days.to_be_bytes(),
            &value.micros.to_be_bytes(),
        ])
    }
}

impl Cell for Intervals {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        Self::push(Interval.text(cell)?, store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        Self::push(Interval.binary(cell)?, store)
    }
}

/// A time of day, and its offset from UTC in seconds.
#[derive(Debug)]
pub(crate) struct TimeTzs;

impl TimeTzs {
    fn push(value: TimeTzValue, store: &mut Structs) -> Result<(), CellError> {
        store.push_binary([&value.time_us.to_be_bytes(), &value.offset_s.to_be_bytes()])
    }
}

impl Cell for TimeTzs {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        Self::push(Scalar::text(&TimeTz, cell)?, store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        Self::push(Scalar::binary(&TimeTz, cell)?, store)
    }
}

/// The SRID of a geometry, or 0 if it has none, and its ISO WKB.
#[derive(Debug)]
pub(crate) struct Geometries {
    pg_type: Geometry,
    ewkb: Vec<u8>,
    wkb: Vec<u8>,
}

impl Geometries {
    pub(crate) const fn new(pg_type: Geometry) -> Self {
        Self {
            pg_type,
            ewkb: Vec::new(),
            wkb: Vec::new(),
        }
    }

    fn push(&self, srid: Option<u32>, store: &mut Structs) -> Result<(), CellError> {
        store.push_binary([&srid.unwrap_or(0).to_be_bytes(), &self.wkb])
    }
}

impl Cell for Geometries {
    type Store = Structs;

    fn text(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        self.wkb.clear();
        let srid = self.pg_type.text(cell, &mut self.ewkb, &mut self.wkb)?;
        self.push(srid, store)
    }

    fn binary(&mut self, cell: &[u8], store: &mut Structs) -> Result<(), CellError> {
        self.wkb.clear();
        let srid = self.pg_type.binary(cell, &mut self.wkb)?;
        self.push(srid, store)
    }
}
