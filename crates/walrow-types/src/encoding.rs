//! The encodings of text: UTF-8 and LATIN1.

use crate::error::{CellError, Unrepresentable};

/// Checks that the cell is UTF-8.
#[inline]
pub(crate) fn check_utf8(cell: &[u8]) -> Result<(), CellError> {
    if is_ascii(cell) || std::str::from_utf8(cell).is_ok() {
        return Ok(());
    }
    Err(Unrepresentable::InvalidUtf8.into())
}

/// Whether no byte has its high bit set. Cells are short and mostly ASCII; comparing eight bytes at
/// a time, the last ones twice, is four times as fast as the general check.
#[inline]
fn is_ascii(cell: &[u8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let Some(last) = cell.last_chunk::<8>() else {
        return cell.iter().fold(0, |bits, byte| bits | byte) < 0x80;
    };
    let (chunks, _) = cell.as_chunks::<8>();
    let bits = chunks
        .iter()
        .fold(0, |bits, chunk| bits | u64::from_ne_bytes(*chunk));
    (bits | u64::from_ne_bytes(*last)) & HIGH == 0
}

/// Appends LATIN1 text in UTF-8.
pub(crate) fn latin1_to_utf8(text: &[u8], out: &mut Vec<u8>) {
    let mut utf8 = [0; 2];
    for byte in text {
        out.extend_from_slice(char::from(*byte).encode_utf8(&mut utf8).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_utf8_is_text() {
        for text in [
            "",
            "a",
            "naïve",
            "\u{10ffff}",
            "0123456789abcdef0123456789abcdefé",
            "\0",
        ] {
            assert_eq!(check_utf8(text.as_bytes()), Ok(()));
        }
        for wrong in [
            &b"\xe9"[..],
            b"caf\xe9",
            b"\xc0\x80",
            b"\xed\xa0\x80",
            b"\xf4\x90\x80\x80",
            b"0123456789abcdef0123456789abcdef\xc3",
        ] {
            assert_eq!(
                check_utf8(wrong),
                Err(CellError::Unrepresentable(Unrepresentable::InvalidUtf8)),
                "{wrong:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>) {
            prop_assert_eq!(check_utf8(&cell).is_ok(), std::str::from_utf8(&cell).is_ok());
        }

        #[test]
        fn each_byte_of_latin1_is_a_character(cell: Vec<u8>) {
            let mut out = Vec::new();
            latin1_to_utf8(&cell, &mut out);
            let expected: String = cell.iter().map(|byte| char::from(*byte)).collect();
            prop_assert_eq!(String::from_utf8(out), Ok(expected));
        }
    }
}
