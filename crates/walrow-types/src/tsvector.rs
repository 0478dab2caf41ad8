//! `tsvector`: “Text Search Types”.
//!
//! ```text
//! text    'cat':3 'it''s':1A,2B          sorted; quotes and backslashes doubled
//! binary  i32 lexemes; of each: text and NUL | u16 count | u16 positions, two bits of weight before 14
//! ```
//!
//! `tsquery` is in `unread.rs`: walrow does not read its binary form, which is a tree.

use crate::digits::write_decimal;
use crate::error::CellError;
use crate::pg_type::{PgType, known};

/// `tsvector`.
#[derive(Clone, Copy, Debug)]
pub struct TsVector;

known!(TsVector: TSVECTOR;);

impl PgType for TsVector {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        tsvector_text_from_binary(cell, out)
    }
}

/// Appends the text of a binary `tsvector`.
fn tsvector_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (count, mut rest) = cell.split_first_chunk::<4>().ok_or(NOT_A_TSVECTOR)?;
    let count = i32::from_be_bytes(*count);
    if count < 0 {
        return Err(NOT_A_TSVECTOR);
    }
    // Each lexeme takes bytes, which limits the count.
    for place in 0..count {
        let end = rest.iter().position(|byte| *byte == 0);
        let (lexeme, after) = end
            .and_then(|end| rest.split_at_checked(end))
            .ok_or(NOT_A_TSVECTOR)?;
        let [0, n1, n0, after @ ..] = after else {
            return Err(NOT_A_TSVECTOR);
        };
        let positions = usize::from(u16::from_be_bytes([*n1, *n0]));
        let (positions, after) = after
            .split_at_checked(positions.saturating_mul(2))
            .ok_or(NOT_A_TSVECTOR)?;
        rest = after;
        if place > 0 {
            out.push(b' ');
        }
        write_lexeme(lexeme, out);
        let mut before = b':';
        for position in positions.as_chunks::<2>().0 {
            let position = u16::from_be_bytes(*position);
            out.push(before);
            before = b',';
            write_decimal(position & 0x3fff, out);
            match position >> 14 {
                3 => out.push(b'A'),
                2 => out.push(b'B'),
                1 => out.push(b'C'),
                _ => {}
            }
        }
    }
    if rest.is_empty() {
        Ok(())
    } else {
        Err(NOT_A_TSVECTOR)
    }
}

fn write_lexeme(lexeme: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for byte in lexeme {
        if matches!(byte, b'\'' | b'\\') {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(b'\'');
}

const NOT_A_TSVECTOR: CellError = CellError::Malformed("lexemes with their positions");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        tsvector_text_from_binary(cell, &mut out)
            .map(|()| String::from_utf8_lossy(&out).into_owned())
    }

    #[test]
    fn lexemes_are_quoted_as_the_server_quotes_them() {
        // SELECT 'a fat cat''s:2A'::tsvector
        assert_eq!(
            text(b"\0\0\0\x03a\0\0\0cat's\0\0\x01\xc0\x02fat\0\0\0").as_deref(),
            Ok("'a' 'cat''s':2A 'fat'")
        );
        // SELECT '''it''''s'':1A,2B,3C,4 ''b\\s'':16383'::tsvector
        assert_eq!(
            text(b"\0\0\0\x02b\\s\0\0\x01\x3f\xffit's\0\0\x04\xc0\x01\x80\x02\x40\x03\0\x04")
                .as_deref(),
            Ok("'b\\\\s':16383 'it''s':1A,2B,3C,4")
        );
        assert_eq!(text(&[0; 4]).as_deref(), Ok(""));
        assert_eq!(
            text(b"\0\0\0\x03a b\0\0\0a:b\0\0\0\xc3\xa4\0\0\0").as_deref(),
            Ok("'a b' 'a:b' 'ä'")
        );
    }

    #[test]
    fn cut_and_surplus_bytes_are_refused() {
        let whole = b"\0\0\0\x02a\0\0\x01\0\x01b\0\0\0";
        assert!(text(whole).is_ok());
        for end in 0..whole.len() {
            assert_eq!(text(&whole[..end]), Err(NOT_A_TSVECTOR), "{end}");
        }
        let mut surplus = whole.to_vec();
        surplus.push(0);
        assert_eq!(text(&surplus), Err(NOT_A_TSVECTOR));
        assert_eq!(text(&[0xff; 4]), Err(NOT_A_TSVECTOR));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, count in 0..4_u8) {
            let _ = text(&cell);
            let mut near = vec![0, 0, 0, count];
            near.extend_from_slice(&cell);
            let _ = text(&near);
        }
    }
}
