//! `json`, `jsonb`, `jsonpath`: “JSON Types”; and the types of the extension “ltree”.
//!
//! ```text
//! text    the text itself
//! binary  json: the text itself; all others: u8 version 1 | the text
//! ```

use crate::error::CellError;
use crate::pg_type::{PgType, known};
use crate::text::Text;

/// `json`.
#[derive(Clone, Copy, Debug)]
pub struct Json;

/// `jsonb`.
#[derive(Clone, Copy, Debug)]
pub struct Jsonb;

/// `jsonpath` and the types of `ltree`: text whose binary form begins with a version.
#[derive(Clone, Copy, Debug)]
pub struct Versioned;

known!(Json: JSON;);
known!(Jsonb: JSONB;);
known!(Versioned: JSONPATH; "ltree", "lquery", "ltxtquery");

impl PgType for Json {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        Text.text_from_binary(cell, out)
    }

    fn is_plain_text(&self) -> bool {
        true
    }

    fn expands(&self) -> bool {
        false
    }
}

impl PgType for Jsonb {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        Versioned.text_from_binary(cell, out)
    }
}

impl PgType for Versioned {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        Text.text_from_binary(versioned_from_binary(cell)?, out)
    }
}

/// The text in the binary form of a `jsonb`, a `jsonpath` or an `ltree`.
#[inline]
fn versioned_from_binary(cell: &[u8]) -> Result<&[u8], CellError> {
    match cell {
        [1, text @ ..] => Ok(text),
        _ => Err(CellError::Malformed("version 1 and text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_1_is_taken_off() {
        assert_eq!(
            versioned_from_binary(b"\x01{\"a\": 1}"),
            Ok(&b"{\"a\": 1}"[..])
        );
        assert_eq!(versioned_from_binary(b"\x01\x01"), Ok(&b"\x01"[..]));
    }

    #[test]
    fn another_version_is_refused() {
        assert!(versioned_from_binary(b"").is_err());
        for version in (0..=u8::MAX).filter(|version| *version != 1) {
            assert!(
                versioned_from_binary(&[version, b'{', b'}']).is_err(),
                "{version}"
            );
        }
    }
}
