//! The forms of types that consist of others: arrays, vectors, ranges, multiranges and composite
//! types.

use super::choices::{is_bytes, is_text};
use super::form::{Extension, Form, is_same_shape};
use super::{ArrowForms, Target};
use crate::column::{Arrays, Composites, Multiranges, New, Ranges, VectorElements};
use crate::profile::Profile;
use arrow_schema::DataType;
use std::borrow::Cow;
use std::sync::Arc;
use walrow_types::{Array, Bool, Composite, Multirange, PgType, Range, Vector};

/// The maximum number of dimensions of PostgreSQL's arrays, without the outermost.
const MAX_DEPTH: u8 = 5;

/// The form of a type as a string or as bytes.
fn text(pg_type: Arc<dyn PgType>, data_type: &DataType, target: Target) -> Form {
    let form = if is_bytes(data_type) {
        Form::raw().exactly(false)
    } else {
        Form::written(pg_type, target.encoding)
    };
    form.with_data_type(data_type)
}

/// Whether these are strings or bytes, which every type can become.
pub(crate) const fn is_text_or_bytes(data_type: &DataType) -> bool {
    is_text(data_type) || is_bytes(data_type)
}

type Arrayed = Array<dyn ArrowForms>;

/// Whether it is an array of arrays, such as an array of a domain over an array. It becomes text
/// instead of a list.
fn is_nested(array: &Arrayed) -> bool {
    array.element.is_array()
}

fn array_text(array: Arc<Arrayed>, data_type: &DataType, target: Target) -> Form {
    let extension = is_nested(&array).then_some(Extension::Opaque);
    text(array, data_type, target).with_extension(extension)
}

fn lists(array: Arc<Arrayed>, element: &Form, depth: usize) -> Form {
    Form::list(move || Arrays::new(Arc::clone(&array)), element, depth)
}

/// The form of an array's elements, and the number of dimensions, for a list with these items. The
/// items are elements, or lists of them if the array has more dimensions.
fn items(array: &Arrayed, item: &DataType, target: Target, depth: u8) -> Option<(Form, usize)> {
    let as_element = || {
        let form = Arc::clone(&array.element).form_as(item, target)?;
        Some((form, 1))
    };
    let as_array = || match item {
        DataType::List(inner) | DataType::LargeList(inner) => {
            let depth = depth.checked_sub(1)?;
            let (form, dimensions) = items(array, inner.data_type(), target, depth)?;
            Some((form, dimensions.saturating_add(1)))
        }
        _ => None,
    };
    // Lists of lists have two dimensions, unless each element is a list itself.
    match Arc::clone(&array.element).default_form(target).data_type() {
        DataType::List(_) => as_element().or_else(as_array),
        _ => as_array().or_else(as_element),
    }
}

impl ArrowForms for Array<dyn ArrowForms> {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        if target.profile.is_text() || is_nested(&self) {
            return array_text(self, &DataType::Utf8, target);
        }
        let element = Arc::clone(&self.element).default_form(target);
        lists(self, &element, 1)
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        match data_type {
            _ if is_text_or_bytes(data_type) => Some(array_text(self, data_type, target)),
            DataType::List(item) | DataType::LargeList(item) if !is_nested(&self) => {
                let (element, depth) = items(&self, item.data_type(), target, MAX_DEPTH)?;
                Some(lists(self, &element, depth).with_data_type(data_type))
            }
            _ => None,
        }
    }

    fn alternatives(&self, _: Profile) -> Vec<Cow<'static, str>> {
        if is_nested(self) {
            return Vec::new();
        }
        vec![LISTS.into()]
    }
}

fn vector_list(vector: Arc<Vector<dyn ArrowForms>>, element: &Form) -> Form {
    Form::list(move || VectorElements(Arc::clone(&vector)), element, 1)
}

impl ArrowForms for Vector<dyn ArrowForms> {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        if target.profile.is_text() {
            return text(self, &DataType::Utf8, target);
        }
        let element = Arc::clone(&self.element).default_form(target);
        vector_list(self, &element)
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        match data_type {
            _ if is_text_or_bytes(data_type) => Some(text(self, data_type, target)),
            DataType::List(item) | DataType::LargeList(item) => {
                let element = Arc::clone(&self.element).form_as(item.data_type(), target)?;
                Some(vector_list(self, &element).with_data_type(data_type))
            }
            _ => None,
        }
    }

    fn alternatives(&self, _: Profile) -> Vec<Cow<'static, str>> {
        vec![LISTS.into()]
    }
}

/// The form of a range: a struct of its bounds and flags.
fn range(pg_type: Arc<Range<dyn ArrowForms>>, lower: Form, upper: Form) -> Form {
    let flag = || Form::bits(Bool);
    let fields = [
        ("lower", lower),
        ("upper", upper),
        ("lower_inc", flag()),
        ("upper_inc", flag()),
        ("empty", flag()),
    ];
    Form::structs(move || Ranges::new(Arc::clone(&pg_type)), fields)
}

fn default_range(pg_type: Arc<Range<dyn ArrowForms>>, target: Target) -> Form {
    let bound = || Arc::clone(&pg_type.subtype).default_form(target);
    let (lower, upper) = (bound(), bound());
    range(pg_type, lower, upper)
}

impl ArrowForms for Range<dyn ArrowForms> {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        if target.profile.is_text() || !target.profile.splits_values() {
            return text(self, &DataType::Utf8, target);
        }
        default_range(self, target)
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        match data_type {
            _ if is_text_or_bytes(data_type) => Some(text(self, data_type, target)),
            DataType::Struct(fields) => {
                let bound = |place: usize| {
                    let field = fields.get(place)?;
                    Arc::clone(&self.subtype).form_as(field.data_type(), target)
                };
                let form = range(Arc::clone(&self), bound(0)?, bound(1)?);
                let is_same = is_same_shape(form.data_type(), data_type);
                is_same.then(|| form.with_data_type(data_type))
            }
            _ => None,
        }
    }

    fn alternatives(&self, _: Profile) -> Vec<Cow<'static, str>> {
        let range = "struct<lower: ..., upper: ..., lower_inc: bool, upper_inc: bool, empty: bool> \
                     with what its bounds can become";
        vec![range.into()]
    }
}

fn ranges(multirange: Arc<Multirange<dyn ArrowForms>>, range: &Form) -> Form {
    // The policy applies to the whole multirange: without one of its ranges, it is another value.
    let elements = |new: New| new.part().elements();
    let cell = move || Multiranges(Arc::clone(&multirange));
    Form::list_of(cell, range, 1, elements)
}

impl ArrowForms for Multirange<dyn ArrowForms> {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        if target.profile.is_text() || !target.profile.splits_values() {
            return text(self, &DataType::Utf8, target);
        }
        let range = default_range(Arc::clone(&self.range), target);
        ranges(self, &range)
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        match data_type {
            _ if is_text_or_bytes(data_type) => Some(text(self, data_type, target)),
            DataType::List(item) | DataType::LargeList(item) => {
                let range = Arc::clone(&self.range).form_as(item.data_type(), target)?;
                Some(ranges(self, &range).with_data_type(data_type))
            }
            _ => None,
        }
    }

    fn alternatives(&self, _: Profile) -> Vec<Cow<'static, str>> {
        vec!["list<...> of what its ranges can become".into()]
    }
}

/// The form of a composite type: a struct with the attributes' names.
fn fields(composite: &Arc<Composite<dyn ArrowForms>>, forms: Vec<Form>) -> Form {
    let cell = Arc::clone(composite);
    let names = composite.attributes.iter().map(|it| it.name.as_str());
    Form::structs(move || Composites::new(Arc::clone(&cell)), names.zip(forms))
}

impl ArrowForms for Composite<dyn ArrowForms> {
    fn default_form(self: Arc<Self>, target: Target) -> Form {
        // Most readers do not support a struct without fields.
        if target.profile.is_text() || self.attributes.is_empty() {
            return text(self, &DataType::Utf8, target);
        }
        let forms = self.attributes.iter();
        let forms = forms.map(|it| Arc::clone(&it.pg_type).default_form(target));
        let forms = forms.collect();
        fields(&self, forms)
    }

    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form> {
        match data_type {
            _ if is_text_or_bytes(data_type) => Some(text(self, data_type, target)),
            DataType::Struct(fields)
                if fields.len() == self.attributes.len() && !fields.is_empty() =>
            {
                let forms = self.attributes.iter().zip(fields);
                let forms = forms.map(|(attribute, field)| {
                    let pg_type = Arc::clone(&attribute.pg_type);
                    let is_same = field.is_nullable() && *field.name() == attribute.name;
                    pg_type
                        .form_as(field.data_type(), target)
                        .filter(|_| is_same)
                });
                let forms = forms.collect::<Option<Vec<_>>>()?;
                Some(self::fields(&self, forms).with_data_type(data_type))
            }
            _ => None,
        }
    }

    fn alternatives(&self, _: Profile) -> Vec<Cow<'static, str>> {
        vec!["struct<...> of what its attributes can become, by their names".into()]
    }
}

/// The Arrow types of an array.
const LISTS: &str = "list<...> or large_list<...> of what its elements can become, also of lists \
                     for more dimensions";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::column::{Column, Refused};
    use crate::options::OnUnrepresentable;
    use arrow_array::Array as _;
    use arrow_schema::Field;
    use walrow_stream::Encoding;
    use walrow_types::{Attribute, CellError, Known, NumberVector, Numeric, Unrepresentable};

    const TOO_LARGE: CellError = CellError::Unrepresentable(Unrepresentable::TooLarge);
    const TARGET: Target = Target {
        profile: Profile::Arrow,
        trim_bpchar: false,
        encoding: Encoding::Utf8,
        ewkb: false,
    };

    fn column(form: &Form) -> Box<dyn Column> {
        form.column(New {
            rows: 0,
            policy: OnUnrepresentable::Error,
        })
    }

    fn array(element: Arc<dyn ArrowForms>, element_oid: u32) -> Arc<dyn ArrowForms> {
        Arc::new(Array {
            element,
            element_oid,
            delimiter: b',',
        })
    }

    fn array_of_nulls(count: usize) -> String {
        format!("{{{}}}", vec!["NULL"; count].join(","))
    }

    /// A numeric of ten bytes, whose text has 32,769 digits.
    fn numeric() -> Vec<u8> {
        let words = [1_u16, 8_191, 0, 0, 1];
        words.into_iter().flat_map(u16::to_be_bytes).collect()
    }

    fn with_length(cell: &[u8]) -> Vec<u8> {
        let length = i32::try_from(cell.len()).unwrap();
        [&length.to_be_bytes()[..], cell].concat()
    }

    fn int(value: i32) -> Vec<u8> {
        value.to_be_bytes().to_vec()
    }

    #[test]
    fn a_small_cell_of_large_elements_is_bounded() {
        // 4,000 bytes each, even if they are null.
        let vectors = array(Arc::new(NumberVector::new("vector", 1_000)), 0);
        let flat = Arc::clone(&vectors).default_form(TARGET);
        let item = Field::new("item", flat.data_type().clone(), true);
        let nested = DataType::List(Arc::new(item));
        let nested = vectors.form_as(&nested, TARGET).unwrap();
        for (form, fits, too_many) in [
            (&flat, array_of_nulls(262), array_of_nulls(263)),
            (
                &nested,
                format!("{{{}}}", array_of_nulls(262)),
                format!("{{{}}}", array_of_nulls(263)),
            ),
        ] {
            let mut column = column(form);
            for rows in 1..4 {
                assert_eq!(column.append_text(fits.as_bytes()), Ok(()));
                assert_eq!(column.append_text(too_many.as_bytes()), Err(Refused));
                assert_eq!(column.failure(), TOO_LARGE);
                assert_eq!(column.len(), rows);
                assert_eq!(column.variable_bytes() / 4_000, 262 * rows);
            }
            let array = column.finish().unwrap();
            array.to_data().validate_full().unwrap();
        }
    }

    #[test]
    fn elements_fields_and_ranges_are_bounded_together() {
        let digits = numeric();
        let text = || -> Arc<dyn ArrowForms> { Arc::new(Numeric::new("numeric", -1)) };
        let count = |count: i32| usize::try_from(count).unwrap();

        let elements = |elements: i32| {
            let head = [int(1), int(0), int(1_700), int(elements), int(1)].concat();
            [head, with_length(&digits).repeat(count(elements))].concat()
        };
        let range = Arc::new(Range { subtype: text() });
        let ranges = |ranges: i32| {
            // No upper bound.
            let range = [vec![0b1_0000], with_length(&digits)].concat();
            [int(ranges), with_length(&range).repeat(count(ranges))].concat()
        };
        let fields = 64;
        let attributes = (0..fields).map(|place| Attribute {
            name: format!("f{place}"),
            oid: 1_700,
            pg_type: text(),
        });
        let composite = Composite {
            attributes: attributes.collect(),
        };
        let record = |filled: i32| {
            let null = [int(1_700), int(-1)].concat();
            let field = [int(1_700), with_length(&digits)].concat();
            let nulls = null.repeat(count(fields - filled));
            [int(fields), field.repeat(count(filled)), nulls].concat()
        };
        // 31 times 32,765 bytes are less than a mebibyte, and 33 times are more.
        let cases: [(Arc<dyn ArrowForms>, _, _); 3] = [
            (array(text(), 1_700), elements(31), elements(33)),
            (Arc::new(Multirange { range }), ranges(31), ranges(33)),
            (Arc::new(composite), record(31), record(33)),
        ];
        for (pg_type, fits, too_much) in cases {
            let mut column = column(&pg_type.default_form(TARGET));
            for _ in 0..2 {
                assert_eq!(column.append_binary(&fits), Ok(()));
                assert_eq!(column.append_binary(&too_much), Err(Refused));
                assert_eq!(column.failure(), TOO_LARGE);
            }
            assert_eq!(column.finish().unwrap().len(), 2);
        }
    }
}
