//! Text as the server writes it under the settings that walrow pins: where its shape tells of other ones, or they are
//! told, it is put so or refused.

use super::CellError;
use super::array::array_text_from_text;
use super::bytes::{bytea_from_text, bytea_text_from_binary};
use super::composite::{has_other_width, record_text_from_text};
use super::foreign::Foreign;
use super::interval::{interval_from_text, interval_to_text};
use super::plan::TextForm;
use super::range::{multirange_text_from_text, range_text_from_text};
use super::temporal::{
    date_from_text, timestamp_from_text, timestamptz_from_text, timestamptz_text_in_utc,
};
use super::text::{char_text_from_binary, check_utf8};
use crate::session::SessionSettings;

impl TextForm {
    /// Whether the text depends on settings and tells of them by its shape.
    #[inline]
    pub(super) fn is_shaped(&self) -> bool {
        match self {
            Self::Bytea | Self::Char => true,
            Self::Date | Self::Timestamp { zone: _ } | Self::Interval => true,
            Self::Array(_) | Self::Range(_) | Self::Multirange(_) | Self::Record(_) => {
                self.has_part(Self::is_shaped)
            }
            _ => false,
        }
    }

    /// Whether it depends on a setting that the session has another value of than the pinned one.
    pub(crate) fn is_foreign(&self, session: SessionSettings) -> bool {
        session.latin1
            || Foreign::of(self, session).is_some()
            || self.has_part(|part| part.is_foreign(session))
    }

    fn has_part(&self, is: impl Fn(&Self) -> bool) -> bool {
        match self {
            Self::Array(array) => is(&array.element),
            Self::Range(bound) | Self::Multirange(bound) => is(bound),
            Self::Record(fields) => fields.iter().any(|(_, form)| is(form)),
            _ => false,
        }
    }
}

/// Appends the text of a cell that a session wrote.
pub(super) fn text_as_pinned(
    form: &TextForm,
    session: SessionSettings,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let part =
        |form: &TextForm, cell: &[u8], out: &mut Vec<u8>| text_as_pinned(form, session, cell, out);
    match form {
        TextForm::Bytea if !cell.starts_with(b"\\x") => {
            let mut bytes = Vec::new();
            bytea_from_text(cell, &mut bytes)?;
            bytea_text_from_binary(&bytes, out);
            return Ok(());
        }
        // Versions before 15 write the byte as it is.
        TextForm::Char if matches!(cell, [0x80..=0xff]) => return char_text_from_binary(cell, out),
        TextForm::Date | TextForm::Timestamp { zone: _ } | TextForm::Interval => {
            return moment_as_pinned(form, session, cell, out);
        }
        TextForm::Array(array) if form.is_shaped() => {
            return array_text_from_text(cell, array.delimiter, out, |cell, out| {
                part(&array.element, cell, out)
            });
        }
        TextForm::Range(bound) if form.is_shaped() => {
            return range_text_from_text(cell, out, |cell, out| part(bound, cell, out));
        }
        TextForm::Multirange(bound) if form.is_shaped() => {
            return multirange_text_from_text(cell, out, |cell, out| part(bound, cell, out));
        }
        TextForm::Record(fields) if form.is_shaped() => {
            let (start, width) = (out.len(), fields.len());
            let written = record_text_from_text(cell, width, out, |place, cell, out| {
                fields
                    .get(place)
                    .map_or(Ok(()), |(_, form)| part(form, cell, out))
            });
            if written.is_ok() || !has_other_width(cell, width) {
                return written;
            }
            // Of another time than the catalog: nothing tells what its fields are.
            out.truncate(start);
        }
        _ => {}
    }
    if session.latin1 {
        return Foreign::Latin1.translate(cell, out);
    }
    check_utf8(cell)?;
    out.extend_from_slice(cell);
    Ok(())
}

/// Appends the text of a date, a timestamp or an interval.
fn moment_as_pinned(
    form: &TextForm,
    session: SessionSettings,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let mut translated = Vec::new();
    let cell = match Foreign::of(form, session) {
        Some(style) => {
            style.translate(cell, &mut translated)?;
            &translated
        }
        None => cell,
    };
    match form {
        TextForm::Timestamp { zone: true } if !is_utc(cell) => {
            return timestamptz_text_in_utc(cell, out);
        }
        TextForm::Interval if cell.starts_with(b"P") => {
            interval_to_text(interval_from_text(cell)?, out);
            return Ok(());
        }
        TextForm::Timestamp { zone: true } => has_shape(timestamptz_from_text(cell))?,
        TextForm::Timestamp { zone: false } => has_shape(timestamp_from_text(cell))?,
        TextForm::Interval => has_shape(interval_from_text(cell))?,
        _ => has_shape(date_from_text(cell))?,
    }
    out.extend_from_slice(cell);
    Ok(())
}

fn is_utc(cell: &[u8]) -> bool {
    cell.strip_suffix(b" BC").unwrap_or(cell).ends_with(b"+00")
}

/// Lets a text of its type's shape through, whether or not Arrow has a place for the value.
fn has_shape<T>(parsed: Result<T, CellError>) -> Result<(), CellError> {
    match parsed.err() {
        Some(error @ CellError::Malformed(_)) => Err(error),
        _ => Ok(()),
    }
}
