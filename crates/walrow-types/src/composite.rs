//! Composite values: “Composite Types”.
//!
//! ```text
//! text    (1,,"b c")      an empty field is null, "" is the empty text; in quotes, both " and \ are doubled
//! binary  i32 fields
//!         per field: u32 type OID | i32 length, -1 for null | bytes
//! ```
//!
//! Both readers pass each field on as soon as they have read it. After an error, the caller discards them.

use crate::error::{CellError, Unrepresentable};
use crate::lengths::{split_cell, split_count};
use crate::parts::Parts;
use crate::pg_type::PgType;
use crate::quotes::{Quotes, split_plain, split_quoted, write_quoted};

/// A composite type.
#[derive(Debug)]
pub struct Composite<E: ?Sized> {
    /// Its attributes in order.
    pub attributes: Vec<Attribute<E>>,
}

/// An attribute of a [`Composite`].
#[derive(Debug)]
pub struct Attribute<E: ?Sized> {
    /// `pg_attribute.attname`.
    pub name: String,
    /// The type OID that binary values must contain; 0 for any.
    pub oid: u32,
    /// Its type.
    pub pg_type: std::sync::Arc<E>,
}

impl<E: ?Sized> Composite<E> {
    /// Visits the fields of a text cell with their places; nulls are `None`. `scratch` is a buffer.
    ///
    /// # Errors
    /// The cell is malformed or has another number of fields, or `visit` failed.
    pub fn visit_text(
        &self,
        cell: &[u8],
        scratch: &mut Vec<u8>,
        visit: impl FnMut(usize, Option<&[u8]>) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        record_from_text(cell, self.attributes.len(), scratch, visit)
    }

    /// The fields of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed, or has another number of fields or other types.
    pub fn binary<'a>(
        &self,
        cell: &'a [u8],
    ) -> Result<impl Iterator<Item = Result<Option<&'a [u8]>, CellError>>, CellError> {
        record_from_binary(cell, self.attributes.iter().map(|it| it.oid))
    }

    fn is_any(&self, is: impl Fn(&E) -> bool) -> bool {
        self.attributes.iter().any(|it| is(&it.pg_type))
    }
}

impl<E: PgType + ?Sized> PgType for Composite<E> {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let mut parts = Parts::default();
        let types = self.attributes.iter().map(|it| it.oid);
        record_text_from_binary(
            cell,
            types,
            &mut Vec::new(),
            out,
            |place, cell, out| match self.attributes.get(place) {
                Some(attribute) => parts.render(&*attribute.pg_type, cell, out),
                None => Ok(()),
            },
        )
    }

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let (start, width) = (out.len(), self.attributes.len());
        let written = record_text_from_text(cell, width, out, |place, cell, out| {
            match self.attributes.get(place) {
                Some(attribute) => attribute.pg_type.text_from_text(cell, out),
                None => Ok(()),
            }
        });
        if written.is_ok() || fields_in(cell).is_none_or(|fields| fields == width) {
            return written;
        }
        // Older or newer than the catalog: the types of the fields are unknown.
        out.truncate(start);
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        self.is_any(E::is_shaped)
    }

    fn lacks_text(&self) -> bool {
        self.is_any(E::lacks_text)
    }
}

/// Visits the fields of a composite's text with their places, nulls as `None`. `scratch` holds a field without its
/// quotes. `width` is the number of fields: the text of one null field and of no fields is the same, `()`.
fn record_from_text(
    cell: &[u8],
    width: usize,
    scratch: &mut Vec<u8>,
    visit: impl FnMut(usize, Option<&[u8]>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    fields_from_text(cell, width, scratch, visit).map_err(|error| match fields_in(cell) {
        // Its first fields may be of other types, too.
        Some(fields) if fields != width => ALTERED,
        None if error == ALTERED => NOT_A_RECORD,
        _ => error,
    })
}

/// As [`record_from_text`], but what follows other fields than expected is not looked at.
fn fields_from_text(
    cell: &[u8],
    width: usize,
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(usize, Option<&[u8]>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let mut rest = cell.strip_prefix(b"(").ok_or(NOT_A_RECORD)?;
    for place in 0..width {
        if place > 0 {
            rest = rest.strip_prefix(b",").ok_or(match rest {
                b")" => ALTERED,
                _ => NOT_A_RECORD,
            })?;
        }
        rest = if let [b'"', quoted @ ..] = rest {
            scratch.clear();
            let (field, after) = split_quoted(quoted, Quotes::Doubled, scratch)?;
            visit(place, Some(field.bytes(scratch)))?;
            after
        } else {
            let (field, after) = split_plain(rest, is_special);
            visit(place, (!field.is_empty()).then_some(field))?;
            after
        };
    }
    match rest {
        b")" => Ok(()),
        [b',', ..] => Err(ALTERED),
        _ => Err(NOT_A_RECORD),
    }
}

/// The fields of a binary composite of these types, 0 for any; nulls are `None`. Bytes after the composite give an
/// error as the last item.
fn record_from_binary(
    cell: &[u8],
    types: impl ExactSizeIterator<Item = u32>,
) -> Result<impl Iterator<Item = Result<Option<&[u8]>, CellError>>, CellError> {
    // Each field takes at least the eight bytes of its type and its length.
    let (left, rest) = split_count(cell, 8).ok_or(FIELD_COUNT)?;
    if left != types.len() {
        let mut fields = BinaryRecord { left, rest };
        return Err(fields.find_map(Result::err).unwrap_or(ALTERED));
    }
    let mut types = types.fuse();
    Ok(BinaryRecord { left, rest }.map(move |field| {
        let (oid, field) = field?;
        match types.next() {
            Some(own) if own != 0 && own != oid => Err(ALTERED),
            _ => Ok(field),
        }
    }))
}

/// The fields of a binary composite, each with its type's OID.
#[derive(Clone, Debug)]
struct BinaryRecord<'a> {
    left: usize,
    rest: &'a [u8],
}

impl<'a> Iterator for BinaryRecord<'a> {
    type Item = Result<(u32, Option<&'a [u8]>), CellError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            let surplus = !std::mem::take(&mut self.rest).is_empty();
            return surplus.then_some(Err(CellError::Malformed("nothing after the last field")));
        };
        let split = self.rest.split_first_chunk::<4>().and_then(|(oid, rest)| {
            let (field, rest) = split_cell(rest)?;
            Some((u32::from_be_bytes(*oid), field, rest))
        });
        let Some((oid, field, rest)) = split else {
            (self.left, self.rest) = (0, &[]);
            return Some(Err(CellError::Malformed(
                "a field's type, its length and its bytes",
            )));
        };
        (self.left, self.rest) = (left, rest);
        Some(Ok((oid, field)))
    }
}

/// Appends the text of a binary composite of these types. `field` appends the text of one field, given its place and
/// its binary form; `scratch` holds that text until it is quoted.
fn record_text_from_binary(
    cell: &[u8],
    types: impl ExactSizeIterator<Item = u32>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    mut field: impl FnMut(usize, &[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    out.push(b'(');
    for (place, next) in record_from_binary(cell, types)?.enumerate() {
        write_field(place, next?, scratch, out, &mut field)?;
    }
    out.push(b')');
    Ok(())
}

/// Appends a composite with new texts of its fields: `field` gets the place and the old text of one and appends the
/// new text.
fn record_text_from_text(
    cell: &[u8],
    width: usize,
    out: &mut Vec<u8>,
    mut field: impl FnMut(usize, &[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    let mut text = Vec::new();
    out.push(b'(');
    record_from_text(cell, width, &mut Vec::new(), |place, value| {
        write_field(place, value, &mut text, out, &mut field)
    })?;
    out.push(b')');
    Ok(())
}

/// Appends a field, after a comma unless it is the first; `field` appends its text to the scratch.
fn write_field(
    place: usize,
    value: Option<&[u8]>,
    scratch: &mut Vec<u8>,
    out: &mut Vec<u8>,
    mut field: impl FnMut(usize, &[u8], &mut Vec<u8>) -> Result<(), CellError>,
) -> Result<(), CellError> {
    if place > 0 {
        out.push(b',');
    }
    if let Some(value) = value {
        scratch.clear();
        field(place, value, scratch)?;
        write_quoted(scratch, is_special, out);
    }
    Ok(())
}

/// The number of fields in the text of a composite. `None` if it is no such text.
#[cold]
fn fields_in(cell: &[u8]) -> Option<usize> {
    let mut fields = 0_usize;
    let counted = fields_from_text(cell, usize::MAX, &mut Vec::new(), |_, _| {
        fields = fields.saturating_add(1);
        Ok::<_, CellError>(())
    });
    (counted == Err(ALTERED)).then_some(fields)
}

/// The bytes that the server quotes in a field.
fn is_special(byte: u8) -> bool {
    matches!(
        byte,
        b'"' | b'\\' | b'(' | b')' | b',' | b' ' | b'\t'..=b'\r'
    )
}

const NOT_A_RECORD: CellError = CellError::Malformed("fields between parentheses");
const ALTERED: CellError = CellError::Unrepresentable(Unrepresentable::AlteredType);
const FIELD_COUNT: CellError = CellError::Malformed("a count of fields and as many fields");

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::quotes::UNCLOSED;

    type Fields = Vec<Option<Vec<u8>>>;

    fn text(cell: &[u8], width: usize) -> Result<Fields, CellError> {
        let mut fields = Fields::new();
        let mut scratch = b"left over".to_vec();
        record_from_text(cell, width, &mut scratch, |place, field| {
            assert_eq!(place, fields.len());
            fields.push(field.map(<[u8]>::to_vec));
            Ok(())
        })?;
        assert_eq!(fields.len(), width);
        Ok(fields)
    }

    type Typed = (u32, Option<Vec<u8>>);

    fn binary(cell: &[u8]) -> Result<Vec<Typed>, CellError> {
        let (left, rest) = split_count(cell, 8).ok_or(FIELD_COUNT)?;
        let fields: Vec<_> = BinaryRecord { left, rest }
            .map(|field| field.map(|(oid, field)| (oid, field.map(<[u8]>::to_vec))))
            .collect::<Result<_, _>>()?;
        assert_eq!(fields.len(), left);
        let types: Vec<_> = fields.iter().map(|(oid, _)| *oid).collect();
        let same: Vec<_> = record_from_binary(cell, types.into_iter())?
            .map(|field| field.map(|field| field.map(<[u8]>::to_vec)))
            .collect::<Result<_, _>>()?;
        assert!(fields.iter().map(|(_, field)| field).eq(&same));
        Ok(fields)
    }

    #[test]
    fn types_are_the_catalogs() {
        let cell = sent(&fields([Some("1"), None]));
        let read = |types: &[u32]| {
            record_from_binary(&cell, types.iter().copied())?.try_for_each(|field| field.map(drop))
        };
        assert_eq!(read(&[25, 25]), Ok(()));
        assert_eq!(read(&[25, 23]), Err(ALTERED));
        assert_eq!(read(&[25]), Err(ALTERED));
        assert_eq!(read(&[25, 25, 25]), Err(ALTERED));
    }

    /// The text of a composite whose fields all are text.
    fn rendered(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = Vec::new();
        let width = split_count(cell, 8).map_or(0, |(width, _)| width);
        record_text_from_binary(
            cell,
            std::iter::repeat_n(25, width),
            &mut b"left over".to_vec(),
            &mut out,
            |_, field, out| {
                out.extend_from_slice(field);
                Ok(())
            },
        )?;
        Ok(out)
    }

    fn sent(fields: &Fields) -> Vec<u8> {
        let mut cell = i32::try_from(fields.len()).unwrap().to_be_bytes().to_vec();
        for field in fields {
            cell.extend_from_slice(&25_u32.to_be_bytes());
            match field {
                None => cell.extend_from_slice(&[0xff; 4]),
                Some(field) => {
                    cell.extend_from_slice(&i32::try_from(field.len()).unwrap().to_be_bytes());
                    cell.extend_from_slice(field);
                }
            }
        }
        cell
    }

    fn fields<const N: usize>(fields: [Option<&str>; N]) -> Fields {
        fields
            .map(|field| field.map(|field| field.as_bytes().to_vec()))
            .into()
    }

    // `create type comp as (a int, b text, c numeric)`, as PostgreSQL 18.4 writes it.
    #[test]
    fn fields_are_as_the_server_writes_them() {
        for (cell, expected) in [
            ("(1,,2.5)", [Some("1"), None, Some("2.5")]),
            ("(,,)", [None; 3]),
            (r#"(1,"",NaN)"#, [Some("1"), Some(""), Some("NaN")]),
            (r#"(1,"b c",1)"#, [Some("1"), Some("b c"), Some("1")]),
            (
                r#"(1,"a""b\\c",1)"#,
                [Some("1"), Some(r#"a"b\c"#), Some("1")],
            ),
            (r#"(1,"(x)",1)"#, [Some("1"), Some("(x)"), Some("1")]),
            ("(1,[x]{y},1)", [Some("1"), Some("[x]{y}"), Some("1")]),
            (r#"(1,"a,b",1)"#, [Some("1"), Some("a,b"), Some("1")]),
            ("(1,NULL,1)", [Some("1"), Some("NULL"), Some("1")]),
            ("(1,\"a\nb\",1)", [Some("1"), Some("a\nb"), Some("1")]),
            ("(1,\"a\u{b}b\",1)", [Some("1"), Some("a\u{b}b"), Some("1")]),
            ("(1,\u{a0},1)", [Some("1"), Some("\u{a0}"), Some("1")]),
        ] {
            let expected = fields(expected);
            assert_eq!(text(cell.as_bytes(), 3), Ok(expected.clone()), "{cell}");
            assert_eq!(rendered(&sent(&expected)), Ok(cell.into()), "{cell}");
        }
    }

    #[test]
    fn backslash_takes_the_place_of_a_doubled_quote() {
        let expected = fields([Some(r#"a"b\c"#)]);
        assert_eq!(text(br#"("a\"b\\c")"#, 1), Ok(expected));
        assert_eq!(text(br#"("\x")"#, 1), Ok(fields([Some("x")])));
    }

    #[test]
    fn one_null_and_no_field_look_the_same() {
        assert_eq!(text(b"()", 1), Ok(fields([None])));
        assert_eq!(text(b"()", 0), Ok(fields([])));
        assert_eq!(text(br#"("")"#, 1), Ok(fields([Some("")])));
        assert_eq!(rendered(&[0; 4]), Ok(b"()".into()));
        assert_eq!(rendered(&sent(&fields([None]))), Ok(b"()".into()));
    }

    #[test]
    fn composite_within_a_composite_is_quoted_twice() {
        let inner = r#"(1,"a ""b""")"#;
        let outer = br#"("(1,""a """"b"""""")",x)"#;
        assert_eq!(text(outer, 2), Ok(fields([Some(inner), Some("x")])));
        assert_eq!(
            text(inner.as_bytes(), 2),
            Ok(fields([Some("1"), Some(r#"a "b""#)]))
        );
        let sent = sent(&fields([Some(inner), Some("x")]));
        assert_eq!(rendered(&sent), Ok(outer.into()));
    }

    #[test]
    fn another_number_of_fields_is_refused() {
        for (cell, width) in [
            (&b"(1,2)"[..], 1),
            (b"(1,2)", 3),
            (b"()", 2),
            (b"(1,\"2\")", 3),
            (b"(,)", 1),
        ] {
            assert_eq!(text(cell, width), Err(ALTERED), "{cell:?}");
        }
        assert_eq!(text(b"(1)", 0), Err(ALTERED));
        // Only whole values are of another type.
        for cut in [&b"(1,2"[..], b"(1,2)x", b"(1,\"2)"] {
            assert_ne!(text(cut, 1), Err(ALTERED), "{cut:?}");
            assert!(text(cut, 1).is_err());
        }
    }

    #[test]
    fn text_that_the_server_never_writes_is_refused() {
        for wrong in [
            "",
            "(",
            ")",
            "1,2",
            "(1,2",
            "1,2)",
            "(1,2)x",
            "(1,2) ",
            " (1,2)",
            "(1, 2)",
            "(1,a b)",
            "(1,a\"b\")",
            "(1,\"a\"b)",
            "(1,a\\b)",
            "(1,(2))",
            "(1,\"2\"\"3)",
            "{1,2}",
            "(1,2))",
        ] {
            assert!(text(wrong.as_bytes(), 2).is_err(), "{wrong}");
        }
        assert_eq!(text(b"(1,\"a)", 2), Err(UNCLOSED));
        assert_eq!(text(b"(1,\"a\\", 2), Err(UNCLOSED));
    }

    // `row(1,null,2.5)::comp` with `create type comp as (a int, b text, c numeric)`, of PostgreSQL 18.4.
    const SENT: [u8; 42] = [
        0, 0, 0, 3, 0, 0, 0, 0x17, 0, 0, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0x19, 0xff, 0xff, 0xff, 0xff,
        0, 0, 6, 0xa4, 0, 0, 0, 0xa, 0, 1, 0, 0, 0, 0, 0, 1, 0, 2,
    ];

    #[test]
    fn binary_fields_have_their_types() {
        assert_eq!(
            binary(&SENT),
            Ok(vec![
                (23, Some(vec![0, 0, 0, 1])),
                (25, None),
                (1700, Some(vec![0, 1, 0, 0, 0, 0, 0, 1, 0, 2])),
            ])
        );
        assert_eq!(binary(&[0; 4]), Ok(vec![]));
    }

    #[test]
    fn cut_or_longer_binary_is_refused() {
        for end in 0..SENT.len() {
            assert!(binary(&SENT[..end]).is_err(), "{end}");
            assert!(rendered(&SENT[..end]).is_err(), "{end}");
        }
        assert!(binary(&[&SENT[..], &[0]].concat()).is_err());
        // More fields than bytes; a negative count; a length of -2.
        assert!(binary(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]).is_err());
        assert!(binary(&[0xff; 12]).is_err());
        assert!(binary(&[0, 0, 0, 1, 0, 0, 0, 25, 0xff, 0xff, 0xff, 0xfe]).is_err());
    }

    fn field() -> impl Strategy<Value = Option<Vec<u8>>> {
        prop_oneof![
            Just(None),
            proptest::collection::vec(any::<u8>(), 0..6).prop_map(Some),
            "[a-z(),\"\\\\ \\[\\]]{0,8}".prop_map(|text| Some(text.into_bytes())),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_fields(fields in proptest::collection::vec(field(), 0..6)) {
            let sent = sent(&fields);
            let from_binary: Fields = binary(&sent).unwrap().into_iter().map(|(_, field)| field).collect();
            prop_assert_eq!(&from_binary, &fields);
            let written = rendered(&sent).unwrap();
            prop_assert_eq!(text(&written, fields.len()), Ok(fields));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "\\([a(),\"\\\\ ]{0,20}\\)?",
            count in 0..4_u8,
            width in 0..4_usize,
        ) {
            let headed = [&[0, 0, 0, count], &cell[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed] {
                let _ = (binary(cell), rendered(cell));
                if let Ok(fields) = text(cell, width) {
                    // Accepted text may differ from what the server writes, but has the same fields.
                    prop_assert_eq!(text(&rendered(&sent(&fields)).unwrap(), width), Ok(fields));
                }
            }
        }
    }
}
