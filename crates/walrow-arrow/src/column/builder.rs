//! One column of a batch under construction.
//!
//! What to do with a cell is chosen once per column ([`Plan`]); per cell it is one `match`.

use super::foreign::Foreign;
use super::laid::laid;
use super::nested::List;
use super::plan::{BytesForm, DecimalForm, Plan, TextForm};
use super::values::Values;
use super::{CellError, Unrepresentable};
use crate::options::OnUnrepresentable;
use arrow_array::ArrayRef;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType};

/// A column's values so far, and which of them are null.
#[derive(Debug)]
pub(crate) struct Column {
    pub(super) values: Values,
    pub(super) nulls: NullBufferBuilder,
    on_unrepresentable: OnUnrepresentable,
    /// What few columns have.
    rare: Option<Box<Rare>>,
}

#[derive(Debug, Default)]
struct Rare {
    /// Where the policy made values null.
    nulled: Vec<usize>,
    /// What the values are laid out as in the end, if not as they are here.
    layout: Option<DataType>,
    /// What cells are translated from, and the one that just was.
    foreign: Option<(Foreign, Vec<u8>)>,
}

impl Column {
    pub(crate) fn new(plan: &Plan, on_unrepresentable: OnUnrepresentable, rows: usize) -> Self {
        let values = match plan {
            Plan::Laid(plan, data_type) => {
                let mut column = Self::new(plan, on_unrepresentable, rows);
                column.rare().layout = Some(data_type.clone());
                return column;
            }
            Plan::Foreign(plan, foreign) => {
                let mut column = Self::new(plan, on_unrepresentable, rows);
                match &mut column.values {
                    Values::Map(map) => {
                        for part in [&mut map.keys, &mut map.values] {
                            part.rare().foreign = Some((*foreign, Vec::new()));
                        }
                    }
                    _ => column.rare().foreign = Some((*foreign, Vec::new())),
                }
                return column;
            }
            plan => Values::new(plan, on_unrepresentable, rows),
        };
        let nulls = NullBufferBuilder::new(rows);
        Self {
            values,
            nulls,
            on_unrepresentable,
            rare: None,
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// A part of a value that is null as a whole where the part would have to be.
    pub(super) fn within(plan: &Plan, of_value: OnUnrepresentable, rows: usize) -> Self {
        let of_part = match of_value {
            OnUnrepresentable::Null => OnUnrepresentable::Error,
            OnUnrepresentable::Error | OnUnrepresentable::Sentinel => of_value,
        };
        Self::new(plan, of_part, rows)
    }

    pub(crate) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Whether a cell has no text here, since some part of it has none.
    pub(crate) fn has_no_text(&self, is_binary: bool) -> bool {
        fn has_none(form: &TextForm) -> bool {
            match form {
                TextForm::Unread | TextForm::Unknown | TextForm::Money => true,
                TextForm::Array(array) => has_none(&array.element),
                TextForm::Range(bound) | TextForm::Multirange(bound) => has_none(bound),
                TextForm::Record(fields) => fields.iter().any(|(_, form)| has_none(form)),
                _ => false,
            }
        }
        let within = |part: &Self| match &part.values {
            Values::Utf8(_, form) => is_binary && has_none(form),
            // It may be of any type, and in no encoding.
            Values::Binary(_, BytesForm::Cell) => true,
            _ => part.has_no_text(is_binary),
        };
        match &self.values {
            // Alone it is a decimal.
            Values::Utf8(_, TextForm::Money) => false,
            Values::Utf8(_, form) => is_binary && has_none(form),
            Values::Decimal(_, _, DecimalForm::Money) => is_binary,
            Values::List(list) => within(&list.elements),
            Values::Struct(it) => it.columns.iter().any(within),
            _ => false,
        }
    }

    /// Values that the policy made null since the column began.
    pub(crate) fn nulled(&self) -> u64 {
        let inside = match &self.values {
            Values::List(list) => list.elements.nulled(),
            _ => 0,
        };
        let here = self.rare.as_ref().map_or(0, |rare| rare.nulled.len());
        inside.saturating_add(here as u64)
    }

    /// Arrays that lost their subscripts since the column began.
    pub(crate) fn dropped_bounds(&self) -> u64 {
        match &self.values {
            Values::List(list) => {
                let here = list.dropped_bounds.len() as u64;
                list.elements.dropped_bounds().saturating_add(here)
            }
            Values::Struct(it) => {
                let columns = it.columns.iter().map(Self::dropped_bounds);
                columns.fold(0, u64::saturating_add)
            }
            _ => 0,
        }
    }

    /// Bytes of values of varying size.
    pub(crate) fn variable_bytes(&self) -> usize {
        self.values.variable_bytes()
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

    /// Appends a list that is filled part by part.
    pub(super) fn append_list(
        &mut self,
        fill: impl FnOnce(&mut List) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        if let Values::List(list) = &mut self.values {
            fill(list)?;
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[expect(
        clippy::inline_always,
        reason = "a twentieth of a row's instructions is the way in and out of this"
    )]
    #[inline(always)]
    pub(crate) fn append_text(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let pushed = if self.rare.is_some() && self.foreign().is_some() {
            self.push_foreign(cell)
        } else {
            match &mut self.values {
                // What most columns are, without the way through all others.
                Values::Utf8(values, TextForm::Raw) => values.push_text(cell),
                values => values.push_text(cell),
            }
        };
        if let Err(error) = pushed {
            return self.settle(error);
        }
        self.nulls.append_non_null();
        Ok(())
    }

    #[inline]
    pub(crate) fn append_binary(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let pushed = if self.rare.is_some() && self.foreign().is_some_and(Foreign::is_latin1) {
            self.push_latin1(cell)
        } else {
            self.values.push_binary(cell)
        };
        if let Err(error) = pushed {
            return self.settle(error);
        }
        self.nulls.append_non_null();
        Ok(())
    }

    fn foreign(&self) -> Option<Foreign> {
        let (foreign, _) = self.rare.as_ref()?.foreign.as_ref()?;
        Some(*foreign)
    }

    /// Pushes a cell that was written under other settings than the pinned ones.
    #[cold]
    fn push_foreign(&mut self, cell: &[u8]) -> Result<(), CellError> {
        let Some((foreign, text)) = self.rare.as_mut().and_then(|rare| rare.foreign.as_mut())
        else {
            return Ok(());
        };
        match (foreign, &mut self.values) {
            (Foreign::Text(session), Values::Utf8(values, form)) => {
                values.push_pinned(cell, form, *session)
            }
            (foreign, values) => {
                text.clear();
                foreign
                    .translate(cell, text)
                    .and_then(|()| values.push_text(text))
            }
        }
    }

    /// Pushes a binary cell whose texts are of LATIN1.
    #[cold]
    fn push_latin1(&mut self, cell: &[u8]) -> Result<(), CellError> {
        match &mut self.values {
            Values::Utf8(values, form) => values.push_latin1(cell, form),
            Values::Trimmed(_) => self.push_foreign(cell),
            values => values.push_binary(cell),
        }
    }

    /// Takes back what a failed cell left, then does what the policy says.
    #[cold]
    fn settle(&mut self, error: CellError) -> Result<(), CellError> {
        self.values.truncate(self.nulls.len());
        let reason = match error {
            CellError::Unrepresentable(reason) => reason,
            CellError::Malformed(_) => return Err(error),
        };
        if let (Unrepresentable::InvalidUtf8, Values::Utf8(_, form)) = (reason, &self.values)
            && matches!(form, TextForm::Bits | TextForm::Bytea | TextForm::Geometry)
        {
            // As bytes it would be no value either.
            return Err(CellError::Malformed("ASCII"));
        }
        match self.on_unrepresentable {
            OnUnrepresentable::Error => Err(error),
            OnUnrepresentable::Null => {
                let place = self.nulls.len();
                self.rare().nulled.push(place);
                self.append_null();
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
        if let Some(rare) = &mut self.rare {
            let before = rare.nulled.partition_point(|place| *place < rows);
            rare.nulled.truncate(before);
        }
    }

    /// The rows as an array; the column is spent.
    pub(crate) fn finish(self) -> Result<ArrayRef, ArrowError> {
        let Self {
            values,
            mut nulls,
            rare,
            ..
        } = self;
        let rows = nulls.len();
        let array = values.finish(rows, nulls.finish())?;
        match rare.as_ref().and_then(|rare| rare.layout.as_ref()) {
            Some(data_type) => laid(&array, data_type),
            None => Ok(array),
        }
    }
}
