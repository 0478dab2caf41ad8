//! The Arrow types that a column of each PostgreSQL type can become.
//!
//! A [`Form`] is one Arrow type and the way to build a column of it. [`ArrowForms`] returns the
//! forms of a type: [`types`] has a line for each type, and [`containers`] has the types that
//! consist of others.

mod choices;
mod containers;
mod form;
mod types;

pub(crate) use containers::is_text_or_bytes;
pub(crate) use form::{Extension, Form};
pub(crate) use types::{built_in, extension};

use crate::profile::Profile;
use arrow_schema::DataType;
use std::borrow::Cow;
use std::sync::Arc;
use walrow_stream::Encoding;
use walrow_types::PgType;

/// The options that forms depend on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) profile: Profile,
    pub(crate) trim_bpchar: bool,
    pub(crate) encoding: Encoding,
    /// Whether a geometry as bytes is EWKB: if `types` chooses bytes.
    pub(crate) ewkb: bool,
}

/// A PostgreSQL type that columns can have.
pub(crate) trait ArrowForms: PgType {
    /// The form that the profile chooses.
    fn default_form(self: Arc<Self>, target: Target) -> Form;

    /// The form with this Arrow type, if there is one.
    fn form_as(self: Arc<Self>, data_type: &DataType, target: Target) -> Option<Form>;

    /// The Arrow types that the type can become, besides strings and bytes, for error messages.
    fn alternatives(&self, profile: Profile) -> Vec<Cow<'static, str>>;
}
