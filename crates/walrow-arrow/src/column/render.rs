//! The text that PostgreSQL gives a cell, whichever format it came in.

use super::array::{array_text_from_binary, vector_from_binary};
use super::bits::bits_text_from_binary;
use super::bool::bool_from_binary;
use super::bytes::bytea_text_from_binary;
use super::cell::MAX_VALUE;
use super::composite::record_text_from_binary;
use super::cube::cube_text_from_binary;
use super::float::{f32_text_from_binary, f64_text_from_binary};
use super::foreign::Foreign;
use super::geometric::{path_text_from_binary, polygon_text_from_binary, shape_text_from_binary};
use super::hstore::hstore_text_from_binary;
use super::int::{i64_from_binary, u64_from_binary, write_decimal};
use super::interval::interval_text_from_binary;
use super::json::versioned_from_binary;
use super::network::{mac_text_from_binary, network_text_from_binary};
use super::numeric::numeric_text_from_binary;
use super::pgvector::{
    halfvec_text_from_binary, sparsevec_text_from_binary,
    vector_text_from_binary as numbers_text_from_binary,
};
use super::pinned::text_as_pinned;
use super::plan::{Integer, TextForm, vector_element};
use super::postgis::geometry_text_from_binary;
use super::range::{multirange_text_from_binary, range_text_from_binary};
use super::search::tsvector_text_from_binary;
use super::system::{lsn_to_text, snapshot_text_from_binary, tid_text_from_binary};
use super::temporal::{
    date_text_from_binary, time_text_from_binary, timestamp_text_from_binary,
    timestamptz_text_from_binary, timetz_text_from_binary,
};
use super::text::{char_text_from_binary, check_utf8, xml_text_from_binary};
use super::uuid::{uuid_from_binary, uuid_to_text};
use super::{CellError, Unrepresentable};
use crate::session::SessionSettings;
use walrow_stream::Encoding;
use walrow_wire::{Cell, Oid};

/// Appends the text of a cell that a session sent, as PostgreSQL's output function writes it under the pinned settings.
///
/// # Errors
/// The cell has no text; what was appended of it is to be taken back.
pub(crate) fn render_text(
    form: &TextForm,
    session: SessionSettings,
    cell: Cell<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    match cell {
        Cell::Text(cell) => text_as_pinned(form, session, cell, out),
        Cell::Binary(cell) if session.latin1 => render_latin1(form, cell, out),
        Cell::Binary(cell) => render_binary(form, cell, out),
        _ => Ok(()),
    }
}

/// Appends the text of a binary cell.
#[inline]
pub(super) fn render_binary(
    form: &TextForm,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    render(form, cell, Encoding::Utf8, out)
}

/// Appends the text of a binary cell whose own texts are of LATIN1.
#[cold]
pub(super) fn render_latin1(
    form: &TextForm,
    cell: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let start = out.len();
    render(form, cell, Encoding::Latin1, out)?;
    let text = out.split_off(start);
    Foreign::Latin1.translate(&text, out)
}

fn render(
    form: &TextForm,
    cell: &[u8],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let check = |text: &[u8]| match encoding {
        Encoding::Latin1 => Ok(()),
        _ => check_utf8(text),
    };
    match form {
        TextForm::Raw => {
            check(cell)?;
            out.extend_from_slice(cell);
        }
        TextForm::Xml => {
            check(cell)?;
            xml_text_from_binary(cell, out);
        }
        TextForm::Versioned => {
            let text = versioned_from_binary(cell)?;
            check(text)?;
            out.extend_from_slice(text);
        }
        TextForm::Bool => out.push(if bool_from_binary(cell)? { b't' } else { b'f' }),
        TextForm::Integer(integer) => integer.render_binary(cell, out)?,
        TextForm::Float4 => f32_text_from_binary(cell, out)?,
        TextForm::Float8 => f64_text_from_binary(cell, out)?,
        TextForm::Numeric => numeric_text_from_binary(cell, out)?,
        TextForm::Money => {
            i64_from_binary(cell)?;
            return Err(Unrepresentable::MoneyScale.into());
        }
        TextForm::Char => char_text_from_binary(cell, out)?,
        TextForm::Bytea => bytea_text_from_binary(cell, out),
        TextForm::Bits => bits_text_from_binary(cell, out)?,
        TextForm::Uuid => out.extend_from_slice(&uuid_to_text(uuid_from_binary(cell)?)),
        TextForm::Date => date_text_from_binary(cell, out)?,
        TextForm::Time => time_text_from_binary(cell, out)?,
        TextForm::TimeTz => timetz_text_from_binary(cell, out)?,
        TextForm::Timestamp { zone: false } => timestamp_text_from_binary(cell, out)?,
        TextForm::Timestamp { zone: true } => timestamptz_text_from_binary(cell, out)?,
        TextForm::Interval => interval_text_from_binary(cell, out)?,
        TextForm::Network { is_cidr } => network_text_from_binary(cell, *is_cidr, out)?,
        TextForm::Mac(size) => mac_text_from_binary(cell, *size, out)?,
        TextForm::TsVector => {
            let start = out.len();
            tsvector_text_from_binary(cell, out)?;
            check(out.get(start..).unwrap_or_default())?;
        }
        TextForm::Snapshot => snapshot_text_from_binary(cell, out)?,
        TextForm::Tid => tid_text_from_binary(cell, out)?,
        TextForm::Vector(integer) => {
            let start = out.len();
            for element in vector_from_binary(cell, vector_element(*integer))? {
                if out.len() > start {
                    out.push(b' ');
                }
                integer.render_binary(element?.unwrap_or_default(), out)?;
            }
        }
        TextForm::Array(array) => {
            let mut parts = Parts::new(encoding);
            let render = |cell: &[u8], out: &mut Vec<u8>| parts.render(&array.element, cell, out);
            array_text_from_binary(cell, array.element_oid, array.delimiter, out, render)?;
        }
        TextForm::Shape(shape) => shape_text_from_binary(*shape, cell, out)?,
        TextForm::Path => path_text_from_binary(cell, out)?,
        TextForm::Polygon => polygon_text_from_binary(cell, out)?,
        TextForm::Hstore => {
            let start = out.len();
            hstore_text_from_binary(cell, out)?;
            check(out.get(start..).unwrap_or_default())?;
        }
        TextForm::Cube => cube_text_from_binary(cell, out)?,
        TextForm::Numbers => numbers_text_from_binary(cell, out)?,
        TextForm::Halves => halfvec_text_from_binary(cell, out)?,
        TextForm::Range(bound) => {
            let mut parts = Parts::new(encoding);
            range_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
                parts.render(bound, cell, out)
            })?;
        }
        TextForm::Multirange(bound) => {
            let mut parts = Parts::new(encoding);
            multirange_text_from_binary(cell, &mut Vec::new(), out, |cell, out| {
                parts.render(bound, cell, out)
            })?;
        }
        TextForm::Record(fields) => record_text(fields, cell, encoding, out)?,
        TextForm::Sparse => sparsevec_text_from_binary(cell, out)?,
        TextForm::Geometry => geometry_text_from_binary(cell, out),
        TextForm::Unread => return Err(Unrepresentable::BinaryCell.into()),
        TextForm::Unknown => return Err(Unrepresentable::UnknownType.into()),
    }
    Ok(())
}

fn record_text(
    fields: &[(Oid, TextForm)],
    cell: &[u8],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<(), CellError> {
    let types = fields.iter().map(|(oid, _)| *oid);
    let mut parts = Parts::new(encoding);
    record_text_from_binary(
        cell,
        types,
        &mut Vec::new(),
        out,
        |place, cell, out| match fields.get(place) {
            Some((_, form)) => parts.render(form, cell, out),
            None => Ok(()),
        },
    )
}

/// The texts of one value's parts, which are to be quoted.
struct Parts {
    encoding: Encoding,
    /// What they take together: a few bytes can stand for a text that is thousands of times as long.
    bytes: usize,
}

impl Parts {
    const fn new(encoding: Encoding) -> Self {
        Self { encoding, bytes: 0 }
    }

    /// Appends the text of a part. Each level of quotes doubles those within it, so a few bytes
    /// become any number.
    fn render(&mut self, form: &TextForm, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let start = out.len();
        render(form, cell, self.encoding, out)?;
        let text = out.get(start..).unwrap_or_default();
        self.bytes = self.bytes.saturating_add(text.len());
        if text.len() > MAX_VALUE / 2 {
            let doubled = text.iter().filter(|byte| matches!(byte, b'"' | b'\\'));
            self.bytes = self.bytes.saturating_add(doubled.count());
        }
        if self.bytes > MAX_VALUE {
            return Err(Unrepresentable::TooLarge.into());
        }
        Ok(())
    }
}

impl Integer {
    /// Appends the text of a binary integer.
    #[inline]
    pub(super) fn render_binary(self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        match self {
            Self::Xid8 => write_decimal(u64_from_binary(cell)?, out),
            Self::Lsn => lsn_to_text(u64_from_binary(cell)?, out),
            _ => write_decimal(self.parse_binary(cell)?, out),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn in_field(cell: &[u8]) -> Vec<u8> {
        let length = i32::try_from(cell.len()).unwrap().to_be_bytes();
        [&length[..], cell].concat()
    }

    #[test]
    fn what_many_parts_become_together_is_bounded() {
        // One digit and 32,768 others.
        let numeric: Vec<u8> = [1_u16, 8_191, 0, 0, 1]
            .into_iter()
            .flat_map(u16::to_be_bytes)
            .collect();
        let (field, bound) = (in_field(&numeric), Arc::new(TextForm::Numeric));
        for (count, rendered) in [
            (31_usize, Ok(())),
            (33, Err(Unrepresentable::TooLarge.into())),
        ] {
            let number = i32::try_from(count).unwrap().to_be_bytes();
            let typed = [&1_700_u32.to_be_bytes()[..], &field].concat();
            let fields = vec![(1_700, TextForm::Numeric); count];
            // No upper bound.
            let range = in_field(&[vec![0b1_0000], field.clone()].concat());
            for (form, cell) in [
                (
                    TextForm::Record(fields.into()),
                    [&number[..], &typed.repeat(count)].concat(),
                ),
                (
                    TextForm::Multirange(Arc::clone(&bound)),
                    [&number[..], &range.repeat(count)].concat(),
                ),
            ] {
                let mut out = Vec::new();
                assert_eq!(render_binary(&form, &cell, &mut out), rendered);
            }
        }
    }

    #[test]
    fn text_in_quotes_within_quotes_is_never_larger_than_postgresqls() {
        let mut record = (
            TextForm::Integer(Integer::Int4),
            1_i32.to_be_bytes().to_vec(),
        );
        let mut range = record.clone();
        // Each level deeper than the last, and each text twice as long.
        for level in 1..=63 {
            let (form, cell) = record;
            let header = [&1_i32.to_be_bytes()[..], &23_u32.to_be_bytes()].concat();
            let cell = [header, in_field(&cell)].concat();
            record = (TextForm::Record(Arc::new([(23, form)])), cell);
            let (form, cell) = range;
            // No upper bound.
            let cell = [vec![0b1_0000], in_field(&cell)].concat();
            range = (TextForm::Range(Arc::new(form)), cell);
            for (form, cell) in [&record, &range] {
                let mut out = Vec::new();
                let rendered = render_binary(form, cell, &mut out);
                if level <= 18 {
                    assert_eq!(rendered, Ok(()));
                } else if level > 20 {
                    assert_eq!(rendered, Err(Unrepresentable::TooLarge.into()));
                }
                assert!(out.capacity() <= 4 * MAX_VALUE);
            }
        }
    }
}
