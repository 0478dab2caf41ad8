//! `boolean`: “Boolean Type”.
//!
//! ```text
//! text    t, f
//! binary  u8 1 or 0
//! ```

use crate::error::CellError;
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `boolean`.
#[derive(Clone, Copy, Debug)]
pub struct Bool;

known!(Bool: BOOL;);
scalar!(Bool => bool: bool_from_text, bool_from_binary);

impl PgType for Bool {
    text_from_binary!(|cell, out: &mut Vec<u8>| {
        out.push(if bool_from_binary(cell)? { b't' } else { b'f' });
        Ok(())
    });
}

/// Parses `t` or `f`.
#[inline]
fn bool_from_text(cell: &[u8]) -> Result<bool, CellError> {
    match cell {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(CellError::Malformed("t or f")),
    }
}

/// Parses one byte, 1 or 0.
#[inline]
fn bool_from_binary(cell: &[u8]) -> Result<bool, CellError> {
    match cell {
        [1] => Ok(true),
        [0] => Ok(false),
        _ => Err(CellError::Malformed("one byte, 0 or 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_t_and_f_are_booleans() {
        assert_eq!(bool_from_text(b"t"), Ok(true));
        assert_eq!(bool_from_text(b"f"), Ok(false));
        for wrong in [&b""[..], b"T", b"true", b"1", b" t", b"t ", b"tt"] {
            assert!(bool_from_text(wrong).is_err(), "{wrong:?}");
        }
        for byte in (0..=u8::MAX).filter(|byte| !b"tf".contains(byte)) {
            assert!(bool_from_text(&[byte]).is_err(), "{byte}");
        }
    }

    #[test]
    fn only_one_byte_of_0_or_1_is_a_boolean() {
        assert_eq!(bool_from_binary(&[1]), Ok(true));
        assert_eq!(bool_from_binary(&[0]), Ok(false));
        assert!(bool_from_binary(&[]).is_err());
        assert!(bool_from_binary(&[0, 1]).is_err());
        for byte in 2..=u8::MAX {
            assert!(bool_from_binary(&[byte]).is_err(), "{byte}");
        }
    }
}
