//! Text as the server writes it under the settings that walrow pins: where its shape tells of other ones, it is put so
//! or refused.

use super::CellError;
use super::array::elements_from_text;
use super::bytes::{bytea_from_text, bytea_text_from_binary};
use super::composite::record_from_text;
use super::interval::{interval_from_text, interval_to_text};
use super::plan::TextForm;
use super::range::{RangeParts, multirange_from_text, range_from_text};
use super::temporal::{
    MICROS_TO_2000, date_from_text, timestamp_from_text, timestamptz_from_text,
    timestamptz_text_from_binary,
};

impl TextForm {
    /// Whether the text depends on settings and tells of them by its shape.
    pub(super) fn is_shaped(&self) -> bool {
        *self == Self::Bytea || self.is_of_time()
    }

    /// Whether there are dates or intervals in the text.
    pub(crate) fn is_of_time(&self) -> bool {
        match self {
            Self::Date | Self::Timestamp { zone: _ } | Self::Interval => true,
            Self::Array(array) => array.element.is_of_time(),
            Self::Range(bound) | Self::Multirange(bound) => bound.is_of_time(),
            Self::Record(fields) => fields.iter().any(|(_, form)| form.is_of_time()),
            _ => false,
        }
    }
}

/// Appends the text of a cell, which is UTF-8.
pub(super) fn text_as_pinned(
    form: &TextForm,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    match form {
        TextForm::Bytea if !cell.starts_with(b"\\x") => {
            let mut bytes = Vec::new();
            bytea_from_text(cell, &mut bytes)?;
            bytea_text_from_binary(&bytes, out);
            return Ok(());
        }
        TextForm::Interval if cell.starts_with(b"P") => {
            interval_to_text(interval_from_text(cell)?, out);
            return Ok(());
        }
        TextForm::Timestamp { zone: true } if !is_utc(cell) => {
            // One beyond Arrow's range is left at its own offset.
            if let Some(micros) = shaped(timestamptz_from_text(cell))? {
                let micros = micros.saturating_sub(MICROS_TO_2000);
                return timestamptz_text_from_binary(&micros.to_be_bytes(), out);
            }
        }
        _ => check(form, cell)?,
    }
    out.extend_from_slice(cell);
    Ok(())
}

fn is_utc(cell: &[u8]) -> bool {
    cell.strip_suffix(b" BC").unwrap_or(cell).ends_with(b"+00")
}

/// The value of a text that has the shape of its type, if Arrow has a place for it.
fn shaped<T>(parsed: Result<T, CellError>) -> Result<Option<T>, CellError> {
    match parsed {
        Ok(value) => Ok(Some(value)),
        Err(CellError::Unrepresentable(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Refuses text whose dates and intervals have another shape.
fn check(form: &TextForm, cell: &[u8]) -> Result<(), CellError> {
    if !form.is_of_time() {
        return Ok(());
    }
    let mut scratch = Vec::new();
    match form {
        TextForm::Date => shaped(date_from_text(cell)).map(drop),
        TextForm::Timestamp { zone: false } => shaped(timestamp_from_text(cell)).map(drop),
        TextForm::Timestamp { zone: true } => shaped(timestamptz_from_text(cell)).map(drop),
        TextForm::Interval => shaped(interval_from_text(cell)).map(drop),
        TextForm::Array(array) => {
            elements_from_text(cell, array.delimiter, &mut scratch, |element| {
                element.map_or(Ok(()), |element| check(&array.element, element))
            })
        }
        TextForm::Range(bound) => check_range(bound, range_from_text(cell, &mut scratch)?),
        TextForm::Multirange(bound) => {
            for range in multirange_from_text(cell)? {
                check_range(bound, range_from_text(range?, &mut scratch)?)?;
            }
            Ok(())
        }
        TextForm::Record(fields) => {
            record_from_text(cell, fields.len(), &mut scratch, |place, field| {
                match (fields.get(place), field) {
                    (Some((_, form)), Some(field)) => check(form, field),
                    _ => Ok(()),
                }
            })
        }
        _ => Ok(()),
    }
}

fn check_range(bound: &TextForm, range: RangeParts<'_>) -> Result<(), CellError> {
    let mut bounds = [range.lower, range.upper].into_iter().flatten();
    bounds.try_for_each(|cell| check(bound, cell))
}
