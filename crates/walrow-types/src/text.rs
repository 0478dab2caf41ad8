//! `text`, `varchar`, `name`, `bpchar` and `"char"`: “Character Types”.
//!
//! Both forms are the text itself, in the session's encoding. `"char"` differs:
//!
//! ```text
//! text    a, \351     octal beyond ASCII; nothing for NUL
//! binary  1 byte
//! ```

use crate::error::CellError;
use crate::pg_type::{PgType, known, text_from_binary};

/// `text`, `varchar`, `character(n)` with its padding, `name`, `citext`, and enums.
#[derive(Clone, Copy, Debug)]
pub struct Text;

/// `character(n)`, padded with blanks (`bpchar`).
#[derive(Clone, Copy, Debug)]
pub struct Bpchar;

/// `"char"`: one byte.
#[derive(Clone, Copy, Debug)]
pub struct Char;

known!(Text: TEXT, VARCHAR, NAME, REFCURSOR, PG_NODE_TREE; "citext");
known!(Bpchar: BPCHAR;);
known!(Char: CHAR;);

impl PgType for Text {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_plain_text(&self) -> bool {
        true
    }

    fn expands(&self) -> bool {
        false
    }
}

impl PgType for Bpchar {
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

impl PgType for Char {
    text_from_binary!(char_text_from_binary);

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        // Versions before 15 write the byte itself.
        if matches!(cell, [0x80..=0xff]) {
            return char_text_from_binary(cell, out);
        }
        out.extend_from_slice(cell);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

/// A `character(n)` without its padding.
#[derive(Clone, Copy, Debug)]
pub struct TrimmedBpchar;

impl PgType for TrimmedBpchar {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let end = cell.iter().rposition(|byte| *byte != b' ');
        let trimmed = end.and_then(|end| cell.get(..=end));
        out.extend_from_slice(trimmed.unwrap_or_default());
        Ok(())
    }

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        self.text_from_binary(cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }

    fn expands(&self) -> bool {
        false
    }
}

/// Appends the text of a binary `"char"`: nothing for NUL, `\ooo` for a byte beyond ASCII, else the byte.
#[inline]
fn char_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match *cell {
        [0] => {}
        [byte @ 0x80..=0xff] => {
            out.extend_from_slice(&[
                b'\\',
                b'0' | byte >> 6,
                b'0' | byte >> 3 & 7,
                b'0' | byte & 7,
            ]);
        }
        [byte] => out.push(byte),
        _ => return Err(CellError::Malformed("one byte")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn char_is_written_as_the_server_writes_it() {
        let text = |byte: u8| {
            let mut out = Vec::new();
            char_text_from_binary(&[byte], &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        assert_eq!(text(0), "");
        assert_eq!(text(b'a'), "a");
        assert_eq!(text(b'\\'), "\\");
        assert_eq!(text(0x7f), "\x7f");
        assert_eq!(text(0x80), "\\200");
        assert_eq!(text(0xe9), "\\351");
        assert_eq!(text(0xff), "\\377");
        for byte in 0x80..=u8::MAX {
            assert_eq!(text(byte), format!("\\{byte:03o}"));
        }
        assert!(char_text_from_binary(b"", &mut Vec::new()).is_err());
        assert!(char_text_from_binary(b"ab", &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>) {
            let _ = char_text_from_binary(&cell, &mut Vec::new());
        }
    }
}
