//! `tid`: “Object Identifier Types”.
//!
//! ```text
//! text    (12,3)
//! binary  u32 block | u16 offset
//! ```

use crate::digits::write_decimal;
use crate::error::CellError;
use crate::int::{u16_from_binary, u16_from_text};
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `tid`.
#[derive(Clone, Copy, Debug)]
pub struct Tid;

/// The offset within a `tid`, whose block is an [`Oid`](crate::Oid).
#[derive(Clone, Copy, Debug)]
pub struct TidOffset;

known!(Tid: TID;);
scalar!(TidOffset => u16: u16_from_text, u16_from_binary);

impl PgType for Tid {
    text_from_binary!(tid_text_from_binary);
}

impl Tid {
    /// The block and the offset of a text cell, as text.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
        let parse = || {
            let pair = cell.strip_prefix(b"(")?.strip_suffix(b")")?;
            let comma = pair.iter().position(|byte| *byte == b',')?;
            let (block, offset) = pair.split_at_checked(comma)?;
            Some([block, offset.strip_prefix(b",")?])
        };
        parse().ok_or(NOT_A_TID)
    }

    /// The block and the offset of a binary cell, as 4 and 2 bytes.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
        match cell.split_at_checked(4) {
            Some((block, offset)) if offset.len() == 2 => Ok([block, offset]),
            _ => Err(CellError::Malformed("6 bytes")),
        }
    }
}

/// Appends the text of a binary `tid`.
fn tid_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let [b3, b2, b1, b0, o1, o0] = *cell else {
        return Err(CellError::Malformed("6 bytes"));
    };
    out.push(b'(');
    write_decimal(u32::from_be_bytes([b3, b2, b1, b0]), out);
    out.push(b',');
    write_decimal(u16::from_be_bytes([o1, o0]), out);
    out.push(b')');
    Ok(())
}

const NOT_A_TID: CellError = CellError::Malformed("a block and an offset in parentheses");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::pg_type::tests::rendered;

    #[test]
    fn tids_are_pairs() {
        assert_eq!(
            Tid.text(b"(4294967295,65535)"),
            Ok([&b"4294967295"[..], b"65535"])
        );
        assert_eq!(
            rendered(tid_text_from_binary, &[0xff; 6]).as_deref(),
            Ok("(4294967295,65535)")
        );
        assert_eq!(
            Tid.binary(&[0, 0, 0, 1, 0, 2]),
            Ok([&[0, 0, 0, 1][..], &[0, 2]])
        );
        for wrong in ["", "(", "()", "1,2", "(1)", "(1,2"] {
            assert!(Tid.text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for length in (0..9).filter(|length| *length != 6) {
            assert!(Tid.binary(&vec![0; length]).is_err());
            assert!(rendered(tid_text_from_binary, &vec![0; length]).is_err());
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "[(]?[0-9,]{0,20}[)]?") {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = (Tid.text(cell), Tid.binary(cell));
                let _ = rendered(tid_text_from_binary, cell);
            }
        }
    }
}
