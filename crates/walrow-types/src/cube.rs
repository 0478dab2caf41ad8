//! `cube`, the type of the extension “cube”.
//!
//! ```text
//! (1, 2),(3, 4)                           one corner if both are the same
//! binary      u32 1 << 31 if one corner, dimensions | f64 of each
//! ```

use crate::error::CellError;
use crate::float::f64_text_from_binary;
use crate::pg_type::{PgType, known, text_from_binary};

/// The extension `cube`'s type.
#[derive(Clone, Copy, Debug)]
pub struct Cube;

known!(Cube: ; "cube");

impl PgType for Cube {
    text_from_binary!(cube_text_from_binary);
}

/// Appends the text of a binary `cube`.
fn cube_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    const EXPECTED: CellError = CellError::Malformed("a count of dimensions and as many numbers");
    let (head, rest) = cell.split_first_chunk::<4>().ok_or(EXPECTED)?;
    let head = u32::from_be_bytes(*head);
    let dimensions = usize::try_from(head & !ONE_CORNER).map_err(|_| EXPECTED)?;
    let (numbers, odd) = rest.as_chunks::<8>();
    let (left, right) = numbers.split_at_checked(dimensions).ok_or(EXPECTED)?;
    let expected = if head & ONE_CORNER == 0 {
        dimensions
    } else {
        0
    };
    if right.len() != expected || !odd.is_empty() {
        return Err(EXPECTED);
    }
    write_corner(left, out)?;
    if head & ONE_CORNER == 0 && !same_corner(left, right) {
        out.push(b',');
        write_corner(right, out)?;
    }
    Ok(())
}

fn write_corner(numbers: &[[u8; 8]], out: &mut Vec<u8>) -> Result<(), CellError> {
    out.push(b'(');
    for (place, number) in numbers.iter().enumerate() {
        if place > 0 {
            out.extend_from_slice(b", ");
        }
        f64_text_from_binary(number, out)?;
    }
    out.push(b')');
    Ok(())
}

/// Whether all numbers are equal as the server compares them: both zeros are, NaN is not.
#[expect(clippy::float_cmp, reason = "the server asks the same")]
fn same_corner(left: &[[u8; 8]], right: &[[u8; 8]]) -> bool {
    left.iter()
        .zip(right)
        .all(|(left, right)| f64::from_be_bytes(*left) == f64::from_be_bytes(*right))
}

const ONE_CORNER: u32 = 0x8000_0000;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use walrow_testkit::hex;

    use super::*;

    fn string(
        cell: &[u8],
        write: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>,
    ) -> Result<String, CellError> {
        let mut out = Vec::new();
        write(cell, &mut out)?;
        Ok(String::from_utf8_lossy(&out).into_owned())
    }

    // Each as cube 1.5 of PostgreSQL 18.4 writes and sends it.
    #[test]
    fn cubes_are_as_the_server_writes_them() {
        for (text, sent) in [
            ("(1)", "800000013ff0000000000000"),
            (
                "(1, 2, 3)",
                "800000033ff000000000000040000000000000004008000000000000",
            ),
            (
                "(1, 2),(3, 4)",
                "000000023ff0000000000000400000000000000040080000000000004010000000000000",
            ),
            ("(1, 2)", "800000023ff00000000000004000000000000000"),
            ("()", "80000000"),
            (
                "(NaN, 1e+20),(-Infinity, Infinity)",
                "000000027ff80000000000004415af1d78b58c40fff00000000000007ff0000000000000",
            ),
            (
                "(1, 2),(0, 3)",
                "000000023ff0000000000000400000000000000000000000000000004008000000000000",
            ),
            ("(NaN),(NaN)", "000000017ff80000000000007ff8000000000000"),
            ("(-0)", "800000018000000000000000"),
        ] {
            assert_eq!(string(&hex(sent), cube_text_from_binary), Ok(text.into()));
        }
        for wrong in [
            "",
            "800000",
            "80000001",
            "800000013ff00000000000",
            "800000013ff000000000000000",
            "800000013ff00000000000003ff0000000000000",
            "000000013ff0000000000000",
            "ffffffff3ff0000000000000",
            "7fffffff3ff0000000000000",
        ] {
            assert!(
                string(&hex(wrong), cube_text_from_binary).is_err(),
                "{wrong}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(
            cell in proptest::collection::vec(any::<u8>(), 0..40),
            head in proptest::collection::vec(0..4_u8, 0..12),
        ) {
            let headed = [&head[..], &cell[..]].concat();
            for cell in [&cell[..], &headed] {
                let _ = string(cell, cube_text_from_binary);
            }
        }
    }
}
