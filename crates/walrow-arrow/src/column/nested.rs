//! Columns whose values consist of values: lists, structs, maps and vectors.

use super::array::{
    ArrayStep, array_from_binary, array_from_text, nested_from_binary, nested_from_text,
    vector_from_binary, vector_from_text,
};
use super::builder::Column;
use super::cell::MAX_VALUE;
use super::composite::{record_from_binary, record_from_text};
use super::geometric::{
    path_from_binary, path_from_text, polygon_from_binary, polygon_from_text, shape_from_binary,
    shape_from_text,
};
use super::hstore::{hstore_from_binary, hstore_from_text};
use super::interval::{Interval, interval_from_binary, interval_from_text};
use super::pgvector::{
    halfvec_from_binary, sparsevec_from_binary, sparsevec_from_text,
    vector_from_binary as numbers_from_binary, vector_from_text as numbers_from_text,
};
use super::plan::{ListForm, ListPlan, Plan, StructForm, StructPlan};
use super::postgis::{wkb_from_binary, wkb_from_text};
use super::range::{
    RangeParts, multirange_from_binary, multirange_from_text, range_from_binary, range_from_text,
};
use super::system::{tid_from_binary, tid_from_text};
use super::temporal::{TimeTz, timetz_from_binary, timetz_from_text};
use super::values::{Values, offset};
use super::{CellError, Unrepresentable};
use arrow_schema::Fields;

/// Vectors of as many numbers each.
#[derive(Debug)]
pub(super) struct Vector {
    pub(super) dimensions: i32,
    pub(super) numbers: Vec<f32>,
    /// The numbers of one vector.
    pub(super) scratch: Vec<f32>,
}

#[derive(Debug)]
pub(super) struct Map {
    /// Where each map ends, and 0 before them.
    pub(super) offsets: Vec<i32>,
    pub(super) keys: Column,
    pub(super) values: Column,
    /// A key or a value whose escapes were taken out.
    pub(super) scratch: Vec<u8>,
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) plan: ListPlan,
    /// Where each list ends, and 0 before them.
    pub(super) offsets: Vec<i32>,
    pub(super) elements: Column,
    /// Which lists had a first subscript other than 1.
    pub(super) dropped_bounds: Vec<usize>,
    /// How many lists lie within each other.
    depth: usize,
    /// Bytes that an element takes at least, be it null.
    element_bytes: usize,
    /// Whether a small cell can become many bytes.
    expands: bool,
    scratch: Scratch,
}

#[derive(Debug)]
pub(super) struct Struct {
    pub(super) fields: Fields,
    pub(super) form: StructForm,
    /// A column for each field. What one of them cannot hold the struct cannot.
    pub(super) columns: Vec<Column>,
    /// Whether a small cell can become many bytes.
    expands: bool,
    scratch: Scratch,
}

/// What one cell is taken apart into, kept so that no cell allocates.
#[derive(Debug, Default)]
struct Scratch {
    /// Text whose quotes or escapes were taken out.
    bytes: Vec<u8>,
    singles: Vec<f32>,
    doubles: Vec<f64>,
    integers: Vec<i32>,
    points: Vec<[f64; 2]>,
}

impl List {
    pub(super) fn new(plan: &ListPlan, offsets: Vec<i32>, elements: Column) -> Self {
        let mut depth = 1_usize;
        let mut element = &plan.element;
        loop {
            element = match element {
                Plan::Laid(plan, _) => plan,
                Plan::List(inner) if inner.form == ListForm::Nested => {
                    depth = depth.saturating_add(1);
                    &inner.element
                }
                _ => break,
            };
        }
        Self {
            plan: plan.clone(),
            offsets,
            elements,
            dropped_bounds: Vec::new(),
            depth,
            element_bytes: plan.element.row_bytes(),
            expands: plan.expands(),
            scratch: Scratch::default(),
        }
    }

    /// Bytes of the elements.
    pub(super) fn variable_bytes(&self) -> usize {
        bytes_of(&self.elements, self.element_bytes)
    }

    /// What another list may take.
    fn room(&self) -> Room {
        Room {
            element_bytes: self.element_bytes,
            end: self
                .expands
                .then(|| self.variable_bytes().saturating_add(MAX_VALUE)),
        }
    }

    pub(super) fn push_empty(&mut self) {
        let end = self.offsets.last().copied().unwrap_or(0);
        self.offsets.push(end);
    }

    #[inline(never)]
    pub(super) fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let room = self.room();
        let Self {
            elements, scratch, ..
        } = self;
        let mut dropped = false;
        match self.plan.form {
            ListForm::Array { delimiter } if self.depth > 1 => {
                let (depth, scratch) = (self.depth, &mut scratch.bytes);
                dropped = nested_from_text(cell, delimiter, depth, scratch, |step| match step {
                    ArrayStep::Element(element) => {
                        append(within(elements, depth), element, Column::append_text)?;
                        room.check(elements)
                    }
                    ArrayStep::Close(level) => close_list(within(elements, level)),
                })?;
            }
            ListForm::Array { delimiter } => {
                let visit = |element: Option<&[u8]>| {
                    match element {
                        Some(element) => elements.append_text(element)?,
                        None => elements.append_null(),
                    }
                    room.check(elements)
                };
                let shape = array_from_text(cell, delimiter, &mut scratch.bytes, visit)?;
                dropped = shape.drops_lower_bound();
            }
            // Filled through the array that it is in.
            ListForm::Nested => {}
            ListForm::Vector => vector_from_text(cell, |element| elements.append_text(element))?,
            ListForm::Multirange => {
                for range in multirange_from_text(cell)? {
                    elements.append_text(range?)?;
                    room.check(elements)?;
                }
            }
            ListForm::Polygon => {
                polygon_from_text(cell, &mut scratch.points)?;
                append_points(elements, &scratch.points)?;
            }
            ListForm::Numbers | ListForm::Halves => {
                numbers_from_text(cell, &mut scratch.singles)?;
                append_numbers(elements, &scratch.singles)?;
            }
        }
        self.close_array(dropped)
    }

    #[inline(never)]
    pub(super) fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let room = self.room();
        let Self {
            elements, scratch, ..
        } = self;
        let mut dropped = false;
        match self.plan.form {
            ListForm::Array { delimiter: _ } if self.depth > 1 => {
                let (depth, element_oid) = (self.depth, self.plan.element_oid);
                dropped = nested_from_binary(cell, element_oid, depth, |step| match step {
                    ArrayStep::Element(element) => {
                        append(within(elements, depth), element, Column::append_binary)?;
                        room.check(elements)
                    }
                    ArrayStep::Close(level) => close_list(within(elements, level)),
                })?;
            }
            ListForm::Array { delimiter: _ } | ListForm::Vector => {
                let is_array = self.plan.form != ListForm::Vector;
                let array = if is_array {
                    array_from_binary(cell, self.plan.element_oid)?
                } else {
                    vector_from_binary(cell, self.plan.element_oid)?
                };
                dropped = is_array && array.shape().drops_lower_bound();
                for element in array {
                    match element? {
                        Some(element) => elements.append_binary(element)?,
                        None => elements.append_null(),
                    }
                    room.check(elements)?;
                }
            }
            ListForm::Nested => {}
            ListForm::Multirange => {
                for range in multirange_from_binary(cell)? {
                    elements.append_binary(range?)?;
                    room.check(elements)?;
                }
            }
            ListForm::Polygon => {
                polygon_from_binary(cell, &mut scratch.points)?;
                append_points(elements, &scratch.points)?;
            }
            ListForm::Numbers => {
                numbers_from_binary(cell, &mut scratch.singles)?;
                append_numbers(elements, &scratch.singles)?;
            }
            ListForm::Halves => {
                halfvec_from_binary(cell, &mut scratch.singles)?;
                append_numbers(elements, &scratch.singles)?;
            }
        }
        self.close_array(dropped)
    }

    fn close_array(&mut self, dropped: bool) -> Result<(), CellError> {
        if dropped {
            let place = self.offsets.len().saturating_sub(1);
            self.dropped_bounds.push(place);
        }
        self.close()
    }

    pub(super) fn push_points(&mut self, points: &[[f64; 2]]) -> Result<(), CellError> {
        append_points(&mut self.elements, points)?;
        self.close()
    }

    fn close(&mut self) -> Result<(), CellError> {
        self.offsets.push(offset(self.elements.len())?);
        Ok(())
    }
}

/// Up to where a list's elements may grow by one cell: a few bytes of it can stand for many thousands.
#[derive(Clone, Copy)]
struct Room {
    element_bytes: usize,
    end: Option<usize>,
}

impl Room {
    #[inline]
    fn check(self, elements: &Column) -> Result<(), CellError> {
        match self.end {
            Some(end) if bytes_of(elements, self.element_bytes) > end => {
                Err(Unrepresentable::TooLarge.into())
            }
            _ => Ok(()),
        }
    }
}

fn bytes_of(elements: &Column, element_bytes: usize) -> usize {
    let fixed = elements.len().saturating_mul(element_bytes);
    fixed.saturating_add(elements.variable_bytes())
}

/// The column that many lists further in.
fn within(elements: &mut Column, level: usize) -> Option<&mut Column> {
    let mut column = elements;
    for _ in 1..level {
        column = match &mut column.values {
            Values::List(list) => &mut list.elements,
            _ => return None,
        };
    }
    Some(column)
}

fn append(
    column: Option<&mut Column>,
    element: Option<&[u8]>,
    cell: impl Fn(&mut Column, &[u8]) -> Result<(), CellError>,
) -> Result<(), CellError> {
    match (column, element) {
        (Some(column), Some(element)) => cell(column, element),
        (Some(column), None) => {
            column.append_null();
            Ok(())
        }
        (None, _) => Ok(()),
    }
}

/// As [`append`], up to what one cell's fields may become together.
fn append_field(
    mut column: Option<&mut Column>,
    field: Option<&[u8]>,
    cell: impl Fn(&mut Column, &[u8]) -> Result<(), CellError>,
    expands: bool,
    grown: &mut usize,
) -> Result<(), CellError> {
    if !expands {
        return append(column, field, cell);
    }
    let bytes =
        |column: &Option<&mut Column>| column.as_ref().map_or(0, |column| column.variable_bytes());
    let before = bytes(&column);
    append(column.as_deref_mut(), field, cell)?;
    *grown = grown.saturating_add(bytes(&column).saturating_sub(before));
    if *grown > MAX_VALUE {
        return Err(Unrepresentable::TooLarge.into());
    }
    Ok(())
}

/// Makes a list of the elements that were appended since the last one.
fn close_list(column: Option<&mut Column>) -> Result<(), CellError> {
    if let Some(column) = column
        && let Values::List(list) = &mut column.values
    {
        list.close()?;
        column.nulls.append_non_null();
    }
    Ok(())
}

fn append_points(column: &mut Column, points: &[[f64; 2]]) -> Result<(), CellError> {
    for point in points {
        let point = point.map(f64::to_be_bytes);
        column.append_binary(point.as_flattened())?;
    }
    Ok(())
}

fn append_numbers(column: &mut Column, numbers: &[f32]) -> Result<(), CellError> {
    for number in numbers {
        column.append_binary(&number.to_be_bytes())?;
    }
    Ok(())
}

impl Vector {
    fn size(&self) -> usize {
        usize::try_from(self.dimensions).unwrap_or(0)
    }

    pub(super) fn rows(&self) -> usize {
        self.numbers.len().checked_div(self.size()).unwrap_or(0)
    }

    /// Makes a value of the numbers of one vector.
    pub(super) fn close(&mut self) -> Result<(), CellError> {
        if self.scratch.len() != self.size() {
            return Err(CellError::Malformed("as many numbers as the column says"));
        }
        self.numbers.extend_from_slice(&self.scratch);
        Ok(())
    }

    /// Leaves so many vectors, of zeros where there were fewer.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.numbers.resize(rows.saturating_mul(self.size()), 0.0);
    }
}

impl Map {
    #[inline(never)]
    pub(super) fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let (keys, values) = (&mut self.keys, &mut self.values);
        hstore_from_text(cell, &mut self.scratch, |key, value| {
            push_pair(keys, values, key, value)
        })?;
        self.close()
    }

    #[inline(never)]
    pub(super) fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        for pair in hstore_from_binary(cell)? {
            let (key, value) = pair?;
            push_pair(&mut self.keys, &mut self.values, key, value)?;
        }
        self.close()
    }

    pub(super) fn push_pairs<'a>(
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
    pub(super) fn new(plan: &StructPlan, columns: Vec<Column>) -> Self {
        Self {
            fields: plan.fields.clone(),
            form: plan.form.clone(),
            columns,
            expands: plan.plans.iter().any(Plan::expands),
            scratch: Scratch::default(),
        }
    }

    #[inline(never)]
    pub(super) fn push_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let Self {
            columns,
            scratch,
            expands,
            ..
        } = self;
        match &self.form {
            StructForm::Tid => {
                for (column, part) in columns.iter_mut().zip(tid_from_text(cell)?) {
                    column.append_text(part)?;
                }
                Ok(())
            }
            StructForm::Interval => push_interval(columns, interval_from_text(cell)?),
            StructForm::TimeTz => push_timetz(columns, timetz_from_text(cell)?),
            StructForm::Range => {
                let range = range_from_text(cell, &mut scratch.bytes)?;
                push_range(columns, range, Column::append_text)
            }
            StructForm::Shape(shape) => {
                shape_from_text(*shape, cell, &mut scratch.doubles)?;
                push_doubles(columns, &scratch.doubles)
            }
            StructForm::Path => {
                let closed = path_from_text(cell, &mut scratch.points)?;
                push_path(columns, closed, &scratch.points)
            }
            StructForm::Record(_) => {
                let (width, mut grown) = (columns.len(), 0);
                record_from_text(cell, width, &mut scratch.bytes, |place, field| {
                    let column = columns.get_mut(place);
                    append_field(column, field, Column::append_text, *expands, &mut grown)
                })
            }
            StructForm::Sparse => {
                let Scratch {
                    integers, singles, ..
                } = scratch;
                let dimensions = sparsevec_from_text(cell, integers, singles)?;
                push_sparse(columns, dimensions, integers, singles)
            }
            StructForm::Geometry => {
                let mut wkb = Vec::with_capacity(cell.len() / 2);
                let srid = wkb_from_text(cell, &mut scratch.bytes, &mut wkb)?;
                push_geometry(columns, srid, &wkb)
            }
        }
    }

    #[inline(never)]
    pub(super) fn push_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let Self {
            columns,
            scratch,
            expands,
            ..
        } = self;
        match &self.form {
            StructForm::Tid => {
                for (column, part) in columns.iter_mut().zip(tid_from_binary(cell)?) {
                    column.append_binary(part)?;
                }
                Ok(())
            }
            StructForm::Interval => push_interval(columns, interval_from_binary(cell)?),
            StructForm::TimeTz => push_timetz(columns, timetz_from_binary(cell)?),
            StructForm::Range => {
                let range = range_from_binary(cell)?;
                push_range(columns, range, Column::append_binary)
            }
            StructForm::Shape(shape) => {
                shape_from_binary(*shape, cell, &mut scratch.doubles)?;
                push_doubles(columns, &scratch.doubles)
            }
            StructForm::Path => {
                let closed = path_from_binary(cell, &mut scratch.points)?;
                push_path(columns, closed, &scratch.points)
            }
            StructForm::Record(types) => {
                let (fields, mut grown) = (record_from_binary(cell, types.iter().copied())?, 0);
                for (place, field) in fields.enumerate() {
                    let (column, append) = (columns.get_mut(place), Column::append_binary);
                    append_field(column, field?, append, *expands, &mut grown)?;
                }
                Ok(())
            }
            StructForm::Sparse => {
                let Scratch {
                    integers, singles, ..
                } = scratch;
                let dimensions = sparsevec_from_binary(cell, integers, singles)?;
                push_sparse(columns, dimensions, integers, singles)
            }
            StructForm::Geometry => {
                scratch.bytes.clear();
                let srid = wkb_from_binary(cell, &mut scratch.bytes)?;
                push_geometry(columns, srid, &scratch.bytes)
            }
        }
    }
}

fn push_doubles(columns: &mut [Column], numbers: &[f64]) -> Result<(), CellError> {
    for (column, number) in columns.iter_mut().zip(numbers) {
        column.append_binary(&number.to_be_bytes())?;
    }
    Ok(())
}

fn push_path(columns: &mut [Column], closed: bool, points: &[[f64; 2]]) -> Result<(), CellError> {
    if let [is_closed, list] = columns {
        is_closed.append_binary(&[closed.into()])?;
        list.append_list(|list| list.push_points(points))?;
    }
    Ok(())
}

fn push_interval(columns: &mut [Column], interval: Interval) -> Result<(), CellError> {
    let (months, days, micros) = (
        interval.months.to_be_bytes(),
        interval.days.to_be_bytes(),
        interval.micros.to_be_bytes(),
    );
    push_parts(columns, [&months[..], &days, &micros])
}

fn push_timetz(columns: &mut [Column], value: TimeTz) -> Result<(), CellError> {
    let (time, offset) = (value.time_us.to_be_bytes(), value.offset_s.to_be_bytes());
    push_parts(columns, [&time[..], &offset])
}

fn push_geometry(columns: &mut [Column], srid: Option<u32>, wkb: &[u8]) -> Result<(), CellError> {
    push_parts(columns, [&srid.unwrap_or(0).to_be_bytes()[..], wkb])
}

fn push_parts<const N: usize>(columns: &mut [Column], parts: [&[u8]; N]) -> Result<(), CellError> {
    for (column, part) in columns.iter_mut().zip(parts) {
        column.append_binary(part)?;
    }
    Ok(())
}

fn push_sparse(
    columns: &mut [Column],
    dimensions: i32,
    places: &[i32],
    numbers: &[f32],
) -> Result<(), CellError> {
    let [dim, indices, values] = columns else {
        return Ok(());
    };
    dim.append_binary(&dimensions.to_be_bytes())?;
    indices.append_list(|list| {
        for place in places {
            list.elements.append_binary(&place.to_be_bytes())?;
        }
        list.close()
    })?;
    values.append_list(|list| {
        append_numbers(&mut list.elements, numbers)?;
        list.close()
    })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::plan::{BoolForm, TextForm};
    use crate::options::OnUnrepresentable;
    use arrow_schema::Field;
    use std::sync::Arc;

    const TOO_LARGE: Result<(), CellError> =
        Err(CellError::Unrepresentable(Unrepresentable::TooLarge));

    fn list(form: ListForm, element: Plan, element_oid: u32) -> Plan {
        let item = Arc::new(Field::new_list_field(element.data_type(), true));
        Plan::list_of(item, element, element_oid, form)
    }

    const FLAG: Plan = Plan::Bool(BoolForm::Bool);
    const ARRAY: ListForm = ListForm::Array { delimiter: b',' };

    fn array_of_nulls(count: usize) -> String {
        format!("{{{}}}", vec!["NULL"; count].join(","))
    }

    /// A numeric of one digit and 32,768 others.
    fn numeric() -> Vec<u8> {
        let words = [1_u16, 8_191, 0, 0, 1];
        words.into_iter().flat_map(u16::to_be_bytes).collect()
    }

    fn with_length(cell: &[u8]) -> Vec<u8> {
        let length = i32::try_from(cell.len()).unwrap().to_be_bytes();
        [&length[..], cell].concat()
    }

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    #[test]
    fn a_small_cell_of_large_elements_is_bounded() {
        // 4,000 bytes each, be they null.
        let vectors = list(ARRAY, Plan::Vector(1_000), 0);
        let nested = list(ARRAY, list(ListForm::Nested, Plan::Vector(1_000), 0), 0);
        for (plan, fits, too_many) in [
            (&vectors, array_of_nulls(262), array_of_nulls(263)),
            (
                &nested,
                format!("{{{}}}", array_of_nulls(262)),
                format!("{{{}}}", array_of_nulls(263)),
            ),
        ] {
            let mut column = Column::new(plan, OnUnrepresentable::Error, 0);
            for rows in 1..4 {
                assert_eq!(column.append_text(fits.as_bytes()), Ok(()));
                assert_eq!(column.append_text(too_many.as_bytes()), TOO_LARGE);
                assert_eq!(column.len(), rows);
                assert_eq!(column.variable_bytes() / 4_000, 262 * rows);
            }
            let array = column.finish().unwrap();
            array.to_data().validate_full().unwrap();
        }
    }

    #[test]
    fn what_elements_fields_and_ranges_become_together_is_bounded() {
        let (digits, text) = (numeric(), || Plan::Utf8(TextForm::Numeric));
        let count = |count: i32| usize::try_from(count).unwrap();

        let array = |elements: i32| {
            let head = [int(1), int(0), int(1_700), int(elements), int(1)].concat();
            [head, with_length(&digits).repeat(count(elements))].concat()
        };
        let range = StructPlan {
            fields: ["lower", "upper", "lower_inc", "upper_inc", "empty"]
                .into_iter()
                .zip([text(), text(), FLAG, FLAG, FLAG])
                .map(|(name, plan)| Field::new(name, plan.data_type(), true))
                .collect(),
            plans: vec![text(), text(), FLAG, FLAG, FLAG],
            form: StructForm::Range,
        };
        let multirange = |ranges: i32| {
            // No upper bound.
            let range = [vec![0b1_0000], with_length(&digits)].concat();
            [int(ranges), with_length(&range).repeat(count(ranges))].concat()
        };
        let fields = 64;
        let record = StructPlan {
            fields: (0..fields)
                .map(|place| Field::new(format!("f{place}"), text().data_type(), true))
                .collect(),
            plans: vec![text(); count(fields)],
            form: StructForm::Record(vec![1_700; count(fields)].into()),
        };
        let composite = |filled: i32| {
            let null = [int(1_700), int(-1)].concat();
            let field = [int(1_700), with_length(&digits)].concat();
            let nulls = null.repeat(count(fields - filled));
            [int(fields), field.repeat(count(filled)), nulls].concat()
        };
        // 31 times 32,765 bytes are less than a mebibyte, and 33 times are more.
        for (plan, fits, too_much) in [
            (list(ARRAY, text(), 1_700), array(31), array(33)),
            (
                list(ListForm::Multirange, Plan::Struct(Box::new(range)), 0),
                multirange(31),
                multirange(33),
            ),
            (Plan::Struct(Box::new(record)), composite(31), composite(33)),
        ] {
            let mut column = Column::new(&plan, OnUnrepresentable::Error, 0);
            for _ in 0..2 {
                assert_eq!(column.append_binary(&fits), Ok(()), "{plan:?}");
                assert_eq!(column.append_binary(&too_much), TOO_LARGE, "{plan:?}");
            }
            assert_eq!(column.finish().unwrap().len(), 2);
        }
    }
}
