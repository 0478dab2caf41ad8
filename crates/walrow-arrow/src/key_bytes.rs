//! The bytes of keys: equal numbers and equal moments have equal bytes, whatever their texts.

use crate::cell_text::cell_text;
use std::sync::Arc;
use walrow_stream::{Catalog, Column, KeyBytes, TypeKind};
use walrow_types::{Float4, Float8};
use walrow_types::{Known, Micros, Numeric, Scalar, Timestamptz};
use walrow_wire::{Cell, Oid};

/// Finds how the key bytes of a column are written. `None` if a value has one text only.
///
/// A [`Net`](walrow_stream::Net) with key bytes finds rows by their keys as a target compares them:
/// 1.0 and 1.00 are one key, 0 and -0 are one key, and one moment in two time zones is one key. A
/// target that keeps such a column as text compares texts. All other types have one text for one
/// value. The text of `character(n)` has the blanks that the type adds, and a target compares them.
pub fn key_bytes(column: &Column, catalog: &Catalog) -> Option<KeyBytes> {
    let kind = Kind::of(base_of(column.type_oid, catalog))?;
    let text_of = cell_text(column, catalog);
    Some(Arc::new(move |cell, out| match cell {
        Cell::Text(text) => kind.write(text, out),
        Cell::Binary(bytes) => {
            let mut text = Vec::new();
            let is_known = text_of
                .as_ref()
                .is_some_and(|write| write(bytes, &mut text));
            is_known && kind.write(&text, out)
        }
        _ => false,
    }))
}

/// A type whose values have several texts.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Numeric,
    Float,
    Moment,
}

impl Kind {
    fn of(oid: Oid) -> Option<Self> {
        let is = |oids: &[Oid]| oids.contains(&oid);
        if is(Numeric::OIDS) {
            Some(Self::Numeric)
        } else if is(Float4::OIDS) || is(Float8::OIDS) {
            Some(Self::Float)
        } else if is(Timestamptz::OIDS) {
            Some(Self::Moment)
        } else {
            None
        }
    }

    /// Appends the bytes of a text. Returns false if it is not like the texts of the type.
    fn write(self, text: &[u8], out: &mut Vec<u8>) -> bool {
        match self {
            Self::Float => out.extend_from_slice(if text == b"-0" { b"0" } else { text }),
            Self::Numeric => out.extend_from_slice(shortest(text)),
            Self::Moment => match Timestamptz.text(text) {
                Ok(Micros(micros)) => out.extend_from_slice(&micros.to_be_bytes()),
                // An infinity, or a moment outside of Arrow's range, has one text only.
                Err(_) => return false,
            },
        }
        true
    }
}

/// A number without zeros at the end of its fraction.
fn shortest(text: &[u8]) -> &[u8] {
    if !text.contains(&b'.') {
        return text;
    }
    let mut end = text;
    while let Some(rest) = end.strip_suffix(b"0") {
        end = rest;
    }
    end.strip_suffix(b".").unwrap_or(end)
}

/// The type that a domain is about.
fn base_of(oid: Oid, catalog: &Catalog) -> Oid {
    let mut oid = oid;
    // Domains of domains: each is defined after its base.
    for _ in 0..=catalog.types.len() {
        match catalog.type_of(oid).map(|it| &it.kind) {
            Some(TypeKind::Domain { base, .. }) => oid = *base,
            _ => break,
        }
    }
    oid
}

#[cfg(test)]
mod tests {
    use super::*;
    use walrow_stream::CatalogColumn;

    fn bytes(oid: Oid, cell: Cell<'_>) -> Vec<u8> {
        let column = Column::from(&CatalogColumn::new("id", oid, -1));
        let mut out = Vec::new();
        let write = key_bytes(&column, &Catalog::default());
        if !write.is_some_and(|write| write(cell, &mut out)) {
            out.extend_from_slice(b"none");
        }
        out
    }

    #[test]
    fn equal_values_have_equal_bytes() {
        let text = |oid, text: &'static str| bytes(oid, Cell::Text(text.as_bytes()));
        assert_eq!(text(1700, "1.00"), text(1700, "1"));
        assert_eq!(text(1700, "-0.500"), b"-0.5");
        assert_ne!(text(1700, "100"), text(1700, "1"));
        assert_eq!(text(1700, "NaN"), b"NaN");
        assert_eq!(text(701, "-0"), text(701, "0"));
        assert_eq!(bytes(701, Cell::Binary(&(-0.0_f64).to_be_bytes())), b"0");
        // One moment, in two time zones and in binary.
        let noon = text(1184, "2000-01-01 12:00:00+00");
        assert_eq!(noon, text(1184, "2000-01-01 14:00:00+02"));
        let micros = 12 * 3600 * 1_000_000_i64;
        assert_eq!(noon, bytes(1184, Cell::Binary(&micros.to_be_bytes())));
        assert_eq!(text(1184, "infinity"), b"none");
        assert_eq!(text(23, "7"), b"none");
    }
}
