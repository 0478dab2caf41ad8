//! What types that consist of others can become: arrays, vectors, ranges, multiranges, composites.

use super::choices::{is_bytes, is_text};
use super::form::{Extension, Form, is_same_shape};
use super::{ArrowForms, Target};
use crate::column::{Arrays, Composites, Multiranges, New, Ranges, VectorElements};
use crate::profile::Profile;
use arrow_schema::DataType;
use std::sync::Arc;
use walrow_types::{Array, Bool, Composite, Multirange, PgType, Range, Vector};

/// How many dimensions PostgreSQL's arrays have at most, without the outermost.
const MAX_DEPTH: u8 = 5;

/// A string or bytes of a type.
fn text(pg_type: Arc<dyn PgType>, data_type: &DataType, target: Target) -> Form {
    let form = if is_bytes(data_type) {
        Form::raw()
    } else {
        Form::written(pg_type, target.settings)
    };
    form.with_data_type(data_type)
}

/// Whether these are strings or bytes, which every type can become.
pub(crate) const fn is_text_or_bytes(data_type: &DataType) -> bool {
    is_text(data_type) || is_bytes(data_type)
}

type Arrayed = Array<dyn ArrowForms>;

/// An array of arrays, as those of a domain over one are, is no list but text.
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

/// What the items of a list are: elements, or lists of them if the array has more dimensions.
/// The form of an element, and the number of dimensions.
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

    fn alternatives(&self, _: Profile) -> String {
        if is_nested(self) {
            return String::new();
        }
        "list<...> or large_list<...> of what its elements can become, also of lists for more dimensions"
            .to_owned()
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

    fn alternatives(&self, _: Profile) -> String {
        "list<...> or large_list<...> of what its elements can become, also of lists for more dimensions".to_owned()
    }
}

/// The bounds and flags of a range.
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

    fn alternatives(&self, _: Profile) -> String {
        "struct<lower: ..., upper: ..., lower_inc: bool, upper_inc: bool, empty: bool> with what its \
         bounds can become"
            .to_owned()
    }
}

fn ranges(multirange: Arc<Multirange<dyn ArrowForms>>, range: &Form) -> Form {
    // Without one of its ranges, a multirange would be another one.
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

    fn alternatives(&self, _: Profile) -> String {
        "list<...> of what its ranges can become".to_owned()
    }
}

/// A struct under the attributes' names.
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

    fn alternatives(&self, _: Profile) -> String {
        "struct<...> of what its attributes can become, by their names".to_owned()
    }
}
