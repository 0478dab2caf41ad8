//! Text in UTF-8.

use crate::error::{CellError, Unrepresentable};

/// Checks that the cell is UTF-8.
///
/// # Errors
/// [`Unrepresentable::InvalidUtf8`].
#[inline]
pub fn check_utf8(cell: &[u8]) -> Result<(), CellError> {
    if is_ascii(cell) || std::str::from_utf8(cell).is_ok() {
        return Ok(());
    }
    Err(Unrepresentable::InvalidUtf8.into())
}

/// The high bit of each byte of a word.
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Whether no byte has its high bit set. Cells are short and mostly ASCII; comparing many bytes at
/// a time, the last ones twice, is four times as fast as the general check.
#[inline]
fn is_ascii(cell: &[u8]) -> bool {
    let bits = if let Some(last) = cell.last_chunk::<32>() {
        bits_of(cell.as_chunks::<32>().0) | bits_of(&[*last])
    } else if let Some(last) = cell.last_chunk::<8>() {
        bits_of(cell.as_chunks::<8>().0) | bits_of(&[*last])
    } else {
        u64::from(cell.iter().fold(0, |bits, byte| bits | byte))
    };
    bits & HIGH == 0
}

/// The bits of all words of the chunks.
#[inline]
fn bits_of<const N: usize>(chunks: &[[u8; N]]) -> u64 {
    chunks.iter().fold(0, |bits, chunk| {
        let words = chunk.as_chunks::<8>().0.iter();
        words.fold(bits, |bits, word| bits | u64::from_ne_bytes(*word))
    })
}

/// The bytes of a short ASCII text, and other bytes after them. `None` if a byte is not ASCII, or if
/// there are not 4 to 16 bytes.
///
/// Most texts are short ASCII. They are read once, as words that may overlap, both to check and to
/// store them: the general check and a call of `memcpy` take twice the instructions.
#[inline]
pub fn short_ascii(text: &[u8]) -> Option<[u8; 16]> {
    let length = u32::try_from(text.len()).ok().filter(|it| *it <= 16)?;
    let bits = length.wrapping_mul(8);
    let words = if let (Some(first), Some(last)) = (text.first_chunk(), text.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(*first), u64::from_le_bytes(*last));
        // Of 8 bytes, the second word is not used.
        [first, last.wrapping_shr(128_u32.wrapping_sub(bits))]
    } else {
        let (first, last) = (text.first_chunk()?, text.last_chunk()?);
        let (first, last) = (u32::from_le_bytes(*first), u32::from_le_bytes(*last));
        let last = u64::from(last).wrapping_shl(bits.wrapping_sub(32));
        [u64::from(first) | last, 0]
    };
    let [first, second] = words;
    if (first | second) & HIGH != 0 {
        return None;
    }
    let mut bytes = [0; 16];
    for (place, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
    Some(bytes)
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
        fn short_ascii_is_its_bytes(text in "[\\x00-\\x7f]{0,40}", other in "\\PC{1,12}", at in 0..40_usize) {
            let found = short_ascii(text.as_bytes());
            prop_assert_eq!(found.is_some(), (4..=16).contains(&text.len()));
            if let Some(bytes) = found {
                prop_assert_eq!(&bytes[..text.len()], text.as_bytes());
            }
            // Each place is checked.
            if !other.is_ascii() {
                let (before, after) = text.split_at(at.min(text.len()));
                let mixed = [before, &other, after].concat();
                prop_assert_eq!(short_ascii(mixed.as_bytes()), None);
            }
        }
    }
}
