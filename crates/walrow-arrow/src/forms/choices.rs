//! The forms of one type, best first, as its line in the table of types lists them.

use super::Target;
use super::form::{Extension, Form, is_same_shape};
use crate::arrow_type::ArrowTypeName;
use arrow_schema::DataType;
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use walrow_types::PgType;

/// The forms that a type can have. They always include a string of PostgreSQL's text, and the bytes
/// of the cell.
pub(crate) struct Choices {
    pub(crate) target: Target,
    list: Vec<Choice>,
    text: Form,
    bytes: Form,
    text_extension: Option<Extension>,
    bytes_extension: Option<Extension>,
}

struct Choice {
    /// Its name in error messages.
    name: Cow<'static, str>,
    kind: Kind,
}

type Family = Box<dyn Fn(&DataType) -> Option<Form>>;

enum Kind {
    /// One Arrow type. `is_default`: the profile may choose it.
    One { form: Form, is_default: bool },
    /// An Arrow type with parameters.
    Family(Family),
}

impl Choices {
    pub(super) fn new(pg_type: Arc<dyn PgType>, target: Target) -> Self {
        // The text of one value may be the binary form of another.
        let bytes = Form::raw().exactly(pg_type.is_plain_text() || pg_type.is_unknown());
        Self {
            target,
            list: Vec::new(),
            text: Form::written(pg_type, target.encoding),
            bytes,
            text_extension: None,
            bytes_extension: None,
        }
    }

    fn push(&mut self, name: impl Into<Cow<'static, str>>, form: Form, is_default: bool) {
        let kind = Kind::One { form, is_default };
        let name = name.into();
        self.list.push(Choice { name, kind });
    }

    /// Adds a form that the profile chooses if it supports this form's Arrow type and no earlier
    /// one.
    pub(super) fn or(&mut self, form: Form) -> &mut Self {
        let name = ArrowTypeName(form.data_type()).to_string();
        self.push(name, form, true);
        self
    }

    /// Like [`Choices::or`], with another name.
    pub(super) fn or_named(&mut self, name: &'static str, form: Form) -> &mut Self {
        self.push(name, form, true);
        self
    }

    /// Adds a form that only profiles that split values choose.
    pub(super) fn or_split(&mut self, form: Form) -> &mut Self {
        let name = ArrowTypeName(form.data_type()).to_string();
        let is_default = self.target.profile.splits_values();
        self.push(name, form, is_default);
        self
    }

    /// Adds a form that only `types` or a declared schema chooses.
    pub(super) fn asked(&mut self, form: Form) -> &mut Self {
        let name = ArrowTypeName(form.data_type()).to_string();
        self.push(name, form, false);
        self
    }

    /// Like [`Choices::asked`], with another name.
    pub(super) fn asked_named(&mut self, name: &'static str, form: Form) -> &mut Self {
        self.push(name, form, false);
        self
    }

    /// Adds forms that only `types` or a declared schema chooses, by the parameters of their Arrow
    /// type.
    pub(super) fn family(
        &mut self,
        name: &'static str,
        form: impl Fn(&DataType) -> Option<Form> + 'static,
    ) -> &mut Self {
        let kind = Kind::Family(Box::new(form));
        let name = name.into();
        self.list.push(Choice { name, kind });
        self
    }

    /// Sets the form of strings, if it is not PostgreSQL's text. Ignored in the text profile.
    pub(super) fn text(&mut self, form: Form) -> &mut Self {
        if !self.target.profile.is_text() {
            self.text = form;
        }
        self
    }

    /// Sets the form of bytes, if it is not the bytes of the cell.
    pub(super) fn bytes(&mut self, form: Form) -> &mut Self {
        self.bytes = form;
        self
    }

    /// Sets the form of bytes, which the profile may choose.
    pub(super) fn or_bytes(&mut self, form: Form) -> &mut Self {
        let extension = form.extension().cloned();
        self.bytes(form.clone());
        self.bytes_extension = extension;
        self.push("", form, true);
        self
    }

    /// Sets the extension type of strings.
    pub(super) fn text_is(&mut self, extension: Extension) -> &mut Self {
        self.text_extension = Some(extension);
        self
    }

    /// Sets the extension type of bytes.
    pub(super) fn bytes_are(&mut self, extension: Extension) -> &mut Self {
        self.bytes_extension = Some(extension);
        self
    }

    fn as_text(&self, data_type: &DataType) -> Form {
        let text = self.text.clone().with_data_type(data_type);
        text.with_extension(self.text_extension.clone())
    }

    /// The form that the profile chooses.
    pub(super) fn default_form(&self) -> Form {
        let profile = self.target.profile;
        if profile.is_text() {
            return self.as_text(&DataType::Utf8);
        }
        let choice = self.list.iter().find_map(|choice| match &choice.kind {
            Kind::One { form, is_default } if *is_default && profile.has(form.data_type()) => {
                Some(form.clone())
            }
            _ => None,
        });
        choice.unwrap_or_else(|| self.as_text(&DataType::Utf8))
    }

    /// The form with this Arrow type.
    pub(super) fn form_as(&self, data_type: &DataType) -> Option<Form> {
        if is_text(data_type) {
            return Some(self.as_text(data_type));
        }
        if is_bytes(data_type) {
            let bytes = self.bytes.clone().with_data_type(data_type);
            return Some(bytes.with_extension(self.bytes_extension.clone()));
        }
        let form = self.list.iter().find_map(|choice| match &choice.kind {
            Kind::One { form, .. } => {
                is_same_shape(form.data_type(), data_type).then(|| form.clone())
            }
            Kind::Family(form) => form(data_type),
        })?;
        Some(form.with_data_type(data_type))
    }

    /// The names of the forms that the profile supports.
    pub(super) fn alternatives(self) -> Vec<Cow<'static, str>> {
        let profile = self.target.profile;
        let names = self
            .list
            .into_iter()
            .filter_map(|choice| match &choice.kind {
                Kind::One { form, .. } if !profile.has(form.data_type()) => None,
                _ if choice.name.is_empty() => None,
                _ => Some(choice.name),
            });
        names.collect()
    }
}

impl fmt::Debug for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.list.iter().map(|choice| &choice.name);
        f.debug_list().entries(names).finish()
    }
}

pub(super) const fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..)
    )
}

pub(super) const fn is_bytes(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView
    )
}
