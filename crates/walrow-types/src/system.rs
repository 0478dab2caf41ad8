//! What the system's own columns hold: `pg_lsn`, `tid`, `pg_snapshot`.
//!
//! ```text
//! pg_lsn       16/B374D848        u64
//! tid          (12,3)             u32 block | u16 offset
//! pg_snapshot  10:20:10,14        i32 count | u64 xmin | u64 xmax | u64 of each between that is in progress
//! ```

use std::io::Write as _;

use crate::error::CellError;
use crate::int::{decimal_digits, u16_from_binary, u16_from_text, u64_from_binary, write_decimal};
use crate::pg_type::{PgType, known, scalar, text_from_binary};

/// `pg_lsn`.
#[derive(Clone, Copy, Debug)]
pub struct PgLsn;

/// `tid`.
#[derive(Clone, Copy, Debug)]
pub struct Tid;

/// `pg_snapshot` and `txid_snapshot`.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot;

/// The offset within a `tid`, whose block is an [`Oid`](crate::Oid).
#[derive(Clone, Copy, Debug)]
pub struct TidOffset;

scalar!(TidOffset => u16: u16_from_text, u16_from_binary);

known!(PgLsn: PG_LSN;);
known!(Tid: TID;);
known!(Snapshot: PG_SNAPSHOT, TXID_SNAPSHOT;);
scalar!(PgLsn => u64: lsn_from_text, u64_from_binary);

impl PgType for PgLsn {
    text_from_binary!(|cell, out| {
        lsn_to_text(u64_from_binary(cell)?, out);
        Ok(())
    });
}

impl PgType for Tid {
    text_from_binary!(tid_text_from_binary);
}

impl PgType for Snapshot {
    text_from_binary!(snapshot_text_from_binary);
}

impl Tid {
    /// The block and the offset of a text cell, as text.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn text(self, cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
        tid_from_text(cell)
    }

    /// The block and the offset of a binary cell, as 4 and 2 bytes.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary(self, cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
        tid_from_binary(cell)
    }
}

/// Parses a `pg_lsn`.
pub(crate) fn lsn_from_text(cell: &[u8]) -> Result<u64, CellError> {
    let parse = || {
        let slash = cell.iter().position(|byte| *byte == b'/')?;
        let (high, low) = cell.split_at_checked(slash)?;
        Some(hex(high)? << 32 | hex(low.strip_prefix(b"/")?)?)
    };
    parse().ok_or(CellError::Malformed("two hexadecimal numbers and a slash"))
}

/// Appends a `pg_lsn` as the server writes it.
pub(crate) fn lsn_to_text(lsn: u64, out: &mut Vec<u8>) {
    // A vector takes everything.
    let _ = write!(out, "{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff);
}

/// The digits of block and offset in the text of a `tid`.
pub(crate) fn tid_from_text(cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
    let parse = || {
        let pair = cell.strip_prefix(b"(")?.strip_suffix(b")")?;
        let comma = pair.iter().position(|byte| *byte == b',')?;
        let (block, offset) = pair.split_at_checked(comma)?;
        Some([block, offset.strip_prefix(b",")?])
    };
    parse().ok_or(NOT_A_TID)
}

/// The bytes of block and offset in the binary form of a `tid`.
pub(crate) fn tid_from_binary(cell: &[u8]) -> Result<[&[u8]; 2], CellError> {
    match cell.split_at_checked(4) {
        Some((block, offset)) if offset.len() == 2 => Ok([block, offset]),
        _ => Err(CellError::Malformed("6 bytes")),
    }
}

/// Appends the text of a binary `tid`.
pub(crate) fn tid_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
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

/// Appends the text of a binary `pg_snapshot` or `txid_snapshot`.
pub(crate) fn snapshot_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (count, rest) = cell.split_first_chunk::<4>().ok_or(NOT_A_SNAPSHOT)?;
    let (xids, surplus) = rest.as_chunks::<8>();
    let [xmin, xmax, running @ ..] = xids else {
        return Err(NOT_A_SNAPSHOT);
    };
    if !surplus.is_empty() || usize::try_from(i32::from_be_bytes(*count)) != Ok(running.len()) {
        return Err(NOT_A_SNAPSHOT);
    }
    write_decimal(u64::from_be_bytes(*xmin), out);
    out.push(b':');
    write_decimal(u64::from_be_bytes(*xmax), out);
    let mut before = Some(b':');
    for xid in running {
        out.push(before.take().unwrap_or(b','));
        write_decimal(u64::from_be_bytes(*xid), out);
    }
    out.extend(before);
    Ok(())
}

/// One to eight hexadecimal digits in upper case, without a needless zero in front.
fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 8 || matches!(digits, [b'0', _, ..]) {
        return None;
    }
    let mut value = 0_u64;
    for digit in digits {
        let digit = match digit {
            b'0'..=b'9' => decimal_digits(&[*digit])?,
            b'A'..=b'F' => u64::from(digit & 0xf).saturating_add(9),
            _ => return None,
        };
        value = value << 4 | digit;
    }
    Some(value)
}

const NOT_A_TID: CellError = CellError::Malformed("a block and an offset in parentheses");
const NOT_A_SNAPSHOT: CellError = CellError::Malformed("a count and as many transaction IDs");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Render = fn(&[u8], &mut Vec<u8>) -> Result<(), CellError>;

    fn rendered(render: Render, cell: &[u8]) -> Result<String, CellError> {
        let mut out = Vec::new();
        render(cell, &mut out).map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn lsns_are_two_numbers_without_leading_zeros() {
        for (text, lsn) in [
            ("0/0", 0),
            ("0/1", 1),
            ("1/0", 1 << 32),
            ("16/B374D848", 0x16_b374_d848),
            ("FFFFFFFF/A", 0xffff_ffff_0000_000a),
            ("FFFFFFFF/FFFFFFFF", u64::MAX),
        ] {
            assert_eq!(lsn_from_text(text.as_bytes()), Ok(lsn), "{text}");
            let mut out = Vec::new();
            lsn_to_text(lsn, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        for wrong in [
            "",
            "/",
            "0/",
            "/0",
            "0",
            "00/0",
            "0/00",
            "a/0",
            "G/0",
            "0/0/0",
            "100000000/0",
            "-1/0",
            " 0/0",
        ] {
            assert!(lsn_from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn tids_are_pairs() {
        assert_eq!(
            tid_from_text(b"(4294967295,65535)"),
            Ok([&b"4294967295"[..], b"65535"])
        );
        assert_eq!(
            rendered(tid_text_from_binary, &[0xff; 6]).as_deref(),
            Ok("(4294967295,65535)")
        );
        assert_eq!(
            tid_from_binary(&[0, 0, 0, 1, 0, 2]),
            Ok([&[0, 0, 0, 1][..], &[0, 2]])
        );
        for wrong in ["", "(", "()", "1,2", "(1)", "(1,2"] {
            assert!(tid_from_text(wrong.as_bytes()).is_err(), "{wrong}");
        }
        for length in (0..9).filter(|length| *length != 6) {
            assert!(tid_from_binary(&vec![0; length]).is_err());
            assert!(rendered(tid_text_from_binary, &vec![0; length]).is_err());
        }
    }

    #[test]
    fn snapshots_name_what_runs() {
        let sent = |xids: &[u64]| {
            let count = i32::try_from(xids.len() - 2).unwrap();
            let mut cell = count.to_be_bytes().to_vec();
            cell.extend(xids.iter().flat_map(|xid| xid.to_be_bytes()));
            cell
        };
        for (text, xids) in [
            ("10:20:10,14,15", &[10, 20, 10, 14, 15][..]),
            ("10:20:", &[10, 20]),
            ("1:1:", &[1, 1]),
        ] {
            let cell = sent(xids);
            assert_eq!(
                rendered(snapshot_text_from_binary, &cell).as_deref(),
                Ok(text)
            );
            for end in 0..cell.len() {
                assert!(rendered(snapshot_text_from_binary, &cell[..end]).is_err());
            }
        }
        let mut wrong = sent(&[1, 1]);
        wrong[0] = 0xff;
        assert!(rendered(snapshot_text_from_binary, &wrong).is_err());
    }

    proptest! {
        #[test]
        fn both_forms_of_an_lsn_agree(lsn: u64, shift in 0..64_u32) {
            let mut out = Vec::new();
            lsn_to_text(lsn >> shift, &mut out);
            prop_assert_eq!(lsn_from_text(&out), Ok(lsn >> shift));
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "[(]?[0-9A-F/,]{0,20}[)]?") {
            for cell in [&cell[..], near.as_bytes()] {
                let _ = (lsn_from_text(cell), tid_from_text(cell), tid_from_binary(cell));
                let _ = rendered(tid_text_from_binary, cell);
                let _ = rendered(snapshot_text_from_binary, cell);
            }
        }
    }
}
