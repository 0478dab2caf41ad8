//! `hstore`, the type of the extension “hstore”.
//!
//! ```text
//! text    "k"=>"v", "k"=>NULL     a backslash before " and \
//! binary  i32 pairs
//!         per pair: i32 length | key | i32 length, -1 for null | value
//! ```

use crate::error::CellError;
use crate::lengths::{split_cell, split_count};
use crate::pg_type::{PgType, known};
use crate::quotes::{Quotes, split_quoted};

/// The extension `hstore`'s type: text keys, and text values that may be null.
#[derive(Clone, Copy, Debug)]
pub struct Hstore;

known!(Hstore: ; "hstore");

impl Hstore {
    /// Visits the pairs of a text cell; null values are `None`. `scratch` is a buffer.
    ///
    /// # Errors
    /// The cell is malformed, or `visit` failed.
    pub fn visit_text(
        self,
        cell: &[u8],
        scratch: &mut Vec<u8>,
        visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        hstore_from_text(cell, scratch, visit).map(|_| ())
    }

    /// The pairs of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8]) -> Result<BinaryHstore<'_>, CellError> {
        hstore_from_binary(cell)
    }
}

impl PgType for Hstore {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        hstore_text_from_binary(cell, out)
    }
}

/// Visits the pairs of an hstore's text, null values as `None`. Returns their number. `scratch` holds a key and a value
/// without their escapes.
fn hstore_from_text(
    cell: &[u8],
    scratch: &mut Vec<u8>,
    mut visit: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), CellError>,
) -> Result<usize, CellError> {
    let mut pairs = 0_usize;
    let mut rest = cell;
    while !rest.is_empty() {
        scratch.clear();
        let quoted = rest.strip_prefix(b"\"").ok_or(NOT_AN_HSTORE)?;
        let (key, after) = split_quoted(quoted, Quotes::Escaped, scratch)?;
        let (value, after) = match after {
            [b'=', b'>', b'"', quoted @ ..] => {
                let (value, after) = split_quoted(quoted, Quotes::Escaped, scratch)?;
                (Some(value), after)
            }
            [b'=', b'>', b'N', b'U', b'L', b'L', after @ ..] => (None, after),
            _ => return Err(NOT_AN_HSTORE),
        };
        let value = value.as_ref().map(|value| value.bytes(scratch));
        visit(key.bytes(scratch), value)?;
        pairs = pairs.saturating_add(1);
        rest = match after {
            [] | [b',', b' ', b'"', ..] => after.get(2..).unwrap_or_default(),
            _ => return Err(NOT_AN_HSTORE),
        };
    }
    Ok(pairs)
}

/// The pairs of a binary hstore, null values as `None`. Bytes after the hstore give an error as the last item.
#[derive(Clone, Debug)]
pub struct BinaryHstore<'a> {
    left: usize,
    rest: &'a [u8],
}

/// Reads the head of a binary hstore.
fn hstore_from_binary(cell: &[u8]) -> Result<BinaryHstore<'_>, CellError> {
    // Each pair takes at least the eight bytes of its lengths.
    let (left, rest) =
        split_count(cell, 8).ok_or(CellError::Malformed("a count of pairs and as many pairs"))?;
    Ok(BinaryHstore { left, rest })
}

impl<'a> Iterator for BinaryHstore<'a> {
    type Item = Result<(&'a [u8], Option<&'a [u8]>), CellError>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(left) = self.left.checked_sub(1) else {
            let surplus = !std::mem::take(&mut self.rest).is_empty();
            return surplus.then_some(Err(CellError::Malformed("nothing after the last pair")));
        };
        let split = split_cell(self.rest).and_then(|(key, rest)| {
            let (value, rest) = split_cell(rest)?;
            Some((key?, value, rest))
        });
        let Some((key, value, rest)) = split else {
            (self.left, self.rest) = (0, &[]);
            return Some(Err(CellError::Malformed("a key and a value")));
        };
        (self.left, self.rest) = (left, rest);
        Some(Ok((key, value)))
    }
}

/// Appends the text of a binary hstore.
fn hstore_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    for (place, pair) in hstore_from_binary(cell)?.enumerate() {
        let (key, value) = pair?;
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        write_escaped(key, out);
        out.extend_from_slice(b"=>");
        match value {
            Some(value) => write_escaped(value, out),
            None => out.extend_from_slice(b"NULL"),
        }
    }
    Ok(())
}

fn write_escaped(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(*byte);
    }
    out.push(b'"');
}

const NOT_AN_HSTORE: CellError = CellError::Malformed("pairs of a quoted key and a value");

#[cfg(test)]
mod oracle;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walrow_testkit::hex;

    use super::*;

    type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    fn hstore_text(cell: &[u8]) -> Result<Pairs, CellError> {
        let mut pairs = Pairs::new();
        let mut scratch = b"left over".to_vec();
        let count = hstore_from_text(cell, &mut scratch, |key, value| {
            pairs.push((key.to_vec(), value.map(<[u8]>::to_vec)));
            Ok(())
        })?;
        assert_eq!(count, pairs.len());
        Ok(pairs)
    }

    fn hstore_binary(cell: &[u8]) -> Result<Pairs, CellError> {
        let hstore = hstore_from_binary(cell)?;
        let count = hstore.left;
        let pairs: Pairs = hstore
            .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.map(<[u8]>::to_vec))))
            .collect::<Result<_, _>>()?;
        assert_eq!(count, pairs.len());
        Ok(pairs)
    }

    fn hstore_rendered(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = Vec::new();
        hstore_text_from_binary(cell, &mut out)?;
        Ok(out)
    }

    fn hstore_sent(pairs: &Pairs) -> Vec<u8> {
        let length = |length: usize| i32::try_from(length).unwrap().to_be_bytes();
        let mut cell = length(pairs.len()).to_vec();
        for (key, value) in pairs {
            cell.extend_from_slice(&length(key.len()));
            cell.extend_from_slice(key);
            match value {
                None => cell.extend_from_slice(&[0xff; 4]),
                Some(value) => {
                    cell.extend_from_slice(&length(value.len()));
                    cell.extend_from_slice(value);
                }
            }
        }
        cell
    }

    // Each as hstore 1.8 of PostgreSQL 18.4 writes and sends it.
    #[test]
    fn hstores_are_as_the_server_writes_and_sends_them() {
        for (text, sent, pairs) in [
            ("", "00000000", &[][..]),
            (
                r#""a"=>"1""#,
                "0000000100000001610000000131",
                &[("a", Some("1"))],
            ),
            (r#""a"=>NULL"#, "000000010000000161ffffffff", &[("a", None)]),
            (
                r#""a"=>"NULL""#,
                "000000010000000161000000044e554c4c",
                &[("a", Some("NULL"))],
            ),
            (
                r#""a"=>"1", "b"=>"2", "aa"=>"3""#,
                "0000000300000001610000000131000000016200000001320000000261610000000133",
                &[("a", Some("1")), ("b", Some("2")), ("aa", Some("3"))],
            ),
            (
                r#""q\"k\\"=>"v\"\\""#,
                "000000010000000471226b5c0000000376225c",
                &[(r#"q"k\"#, Some(r#"v"\"#))],
            ),
            (r#"""=>"""#, "000000010000000000000000", &[("", Some(""))]),
            (
                "\"é\"=>\"x\ny\"",
                "0000000100000002c3a900000003780a79",
                &[("é", Some("x\ny"))],
            ),
            (
                r#""a=>b"=>", ""#,
                "0000000100000004613d3e62000000022c20",
                &[("a=>b", Some(", "))],
            ),
        ] {
            let pairs: Pairs = pairs
                .iter()
                .map(|(key, value)| (key.as_bytes().to_vec(), value.map(Into::into)))
                .collect();
            assert_eq!(hstore_text(text.as_bytes()), Ok(pairs.clone()), "{text}");
            assert_eq!(hstore_binary(&hex(sent)), Ok(pairs), "{text}");
            assert_eq!(hstore_rendered(&hex(sent)), Ok(text.into()), "{text}");
        }
    }

    #[test]
    fn wrong_hstores_are_refused() {
        for wrong in [
            "a=>1",
            "\"a\"",
            "\"a\"=>",
            "\"a\"=>1",
            "\"a\"=>null",
            "\"a\"=>\"1",
            "\"a=>\"1\"",
            "\"a\"=> \"1\"",
            "\"a\" => \"1\"",
            "\"a\"=>\"1\",",
            "\"a\"=>\"1\", ",
            "\"a\"=>\"1\",\"b\"=>NULL",
            " ",
            "NULL",
            "\"a\"=>NULLx",
            "\"a\"=>\"1\"x",
            "\"a\"\"b\"=>\"1\"",
            "\"a\"=>\"1\\",
            "{\"a\"=>\"1\"}",
        ] {
            assert!(hstore_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let whole = hex("00000002000000016100000001310000000162ffffffff");
        assert!(hstore_binary(&whole).is_ok());
        for end in 0..whole.len() {
            assert!(hstore_binary(&whole[..end]).is_err(), "{end}");
            assert!(hstore_rendered(&whole[..end]).is_err(), "{end}");
        }
        for wrong in [
            "0000000000",
            // A null key, a key with a negative length, a negative count, more pairs than bytes.
            "00000001ffffffff0000000131",
            "00000001fffffffe0000000131",
            "ffffffff00000000ffffffff",
            "7fffffff00000000ffffffff",
        ] {
            assert!(hstore_binary(&hex(wrong)).is_err(), "{wrong}");
        }
    }

    fn hstore_part() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..6),
            "[a,=>\"\\\\ NUL]{0,8}".prop_map(String::into_bytes),
        ]
    }

    proptest! {
        #[test]
        fn both_forms_give_the_same_hstore(
            pairs in proptest::collection::vec((hstore_part(), proptest::option::of(hstore_part())), 0..5),
        ) {
            let sent = hstore_sent(&pairs);
            prop_assert_eq!(hstore_binary(&sent), Ok(pairs.clone()));
            prop_assert_eq!(hstore_text(&hstore_rendered(&sent).unwrap()), Ok(pairs));
        }

        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            near in "[a1,e=>\"\\\\ NUL]{0,20}",
            head in proptest::collection::vec(0..4_u8, 0..12),
        ) {
            let headed = [&head[..], &cell[..]].concat();
            for cell in [&cell[..], near.as_bytes(), &headed] {
                let _ = (hstore_binary(cell), hstore_rendered(cell));
                if let Ok(pairs) = hstore_text(cell) {
                    // Accepted text may differ from what the server writes, but has the same pairs.
                    prop_assert_eq!(hstore_text(&hstore_rendered(&hstore_sent(&pairs)).unwrap()), Ok(pairs));
                }
            }
        }
    }
}
