//! `bytea`: “Binary Data Types”; and hexadecimal digits for all types that write them.
//!
//! ```text
//! hex     \x6162ff        the pinned setting
//! escape  ab\377          a backslash is written \\, so the two forms cannot be confused
//! binary  the bytes
//! ```

use crate::error::CellError;
use crate::pg_type::{AppendBytes, PgType, known, text_from_binary};

/// `bytea`.
#[derive(Clone, Copy, Debug)]
pub struct Bytea;

known!(Bytea: BYTEA;);

impl AppendBytes for Bytea {
    #[inline]
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        bytea_from_text(cell, out)
    }

    #[inline]
    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        out.extend_from_slice(cell);
        Ok(())
    }
}

impl PgType for Bytea {
    text_from_binary!(|cell, out| {
        bytea_text_from_binary(cell, out);
        Ok(())
    });

    fn text_from_text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        if cell.starts_with(b"\\x") {
            out.extend_from_slice(cell);
            return Ok(());
        }
        let mut bytes = Vec::new();
        bytea_from_text(cell, &mut bytes)?;
        bytea_text_from_binary(&bytes, out);
        Ok(())
    }

    fn is_shaped(&self) -> bool {
        true
    }

    fn is_ascii(&self) -> bool {
        true
    }
}

/// Appends the bytes of a `bytea` in either text form; nothing if it is malformed.
#[inline]
fn bytea_from_text(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    match cell {
        [b'\\', b'x', digits @ ..] => bytes_from_hex(digits, out),
        _ => bytes_from_escapes(cell, out),
    }
}

/// Appends the hex form of a binary `bytea`, which is its bytes.
#[inline]
fn bytea_text_from_binary(cell: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"\\x");
    out.extend(cell.iter().flat_map(|byte| hex_from_byte(*byte)));
}

/// Appends the bytes of pairs of hexadecimal digits; nothing if they are malformed.
#[inline]
pub(crate) fn bytes_from_hex(digits: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return Err(NOT_HEX);
    }
    let start = out.len();
    out.resize(start.saturating_add(pairs.len()), 0);
    let (blocks, pairs) = digits.as_chunks::<32>();
    let (wide, narrow) = out.split_at_mut(start).1.as_chunks_mut::<16>();
    let mut valid = true;
    for (block, bytes) in blocks.iter().zip(wide) {
        valid &= sixteen_from_hex(block, bytes);
    }
    for ([high, low], byte) in pairs.as_chunks::<2>().0.iter().zip(narrow) {
        let (high, low) = (nibble(*high), nibble(*low));
        valid &= (high | low) & INVALID == 0;
        *byte = high << 4 | low & 0xf;
    }
    if valid {
        Ok(())
    } else {
        out.truncate(start);
        Err(NOT_HEX)
    }
}

/// Sixteen bytes from their digits, without branches, so that the compiler vectorizes it.
#[inline]
pub(crate) fn sixteen_from_hex(digits: &[u8; 32], bytes: &mut [u8; 16]) -> bool {
    let nibbles = digits.map(nibble);
    let mut seen = 0;
    for nibble in nibbles {
        seen |= nibble;
    }
    for ([high, low], byte) in nibbles.as_chunks::<2>().0.iter().zip(bytes) {
        *byte = high << 4 | low & 0xf;
    }
    seen & INVALID == 0
}

/// Two digits for a byte, in lower case.
#[inline]
pub(crate) fn hex_from_byte(byte: u8) -> [u8; 2] {
    [byte >> 4, byte & 0xf].map(|nibble| {
        let letter = if nibble > 9 { b'a' - b'0' - 10 } else { 0 };
        nibble.wrapping_add(b'0').wrapping_add(letter)
    })
}

/// The value of one digit, or a value with the bit `INVALID`.
#[inline]
fn nibble(digit: u8) -> u8 {
    let number = digit.wrapping_sub(b'0');
    let letter = (digit | 0x20).wrapping_sub(b'a');
    let letter = if letter < 6 {
        letter.wrapping_add(10)
    } else {
        INVALID
    };
    if number < 10 { number } else { letter }
}

/// The form of `bytea_output = escape`.
#[cold]
fn bytes_from_escapes(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
    let start = out.len();
    let mut rest = cell;
    loop {
        rest = match *rest {
            [] => return Ok(()),
            [b'\\', b'\\', ref after @ ..] => {
                out.push(b'\\');
                after
            }
            [
                b'\\',
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                ref after @ ..,
            ] => {
                let byte = (a & 3) << 6 | (b & 7) << 3 | c & 7;
                if matches!(byte, 0x20..=0x7e) {
                    break;
                }
                out.push(byte);
                after
            }
            [byte @ 0x20..=0x7e, ref after @ ..] if byte != b'\\' => {
                out.push(byte);
                after
            }
            _ => break,
        }
    }
    out.truncate(start);
    Err(CellError::Malformed("bytes in hex or escape form"))
}

const INVALID: u8 = 0x80;
const NOT_HEX: CellError = CellError::Malformed("pairs of hexadecimal digits");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(cell: &[u8]) -> Result<Vec<u8>, CellError> {
        let mut out = b"before".to_vec();
        let result = bytea_from_text(cell, &mut out);
        let appended = out.strip_prefix(b"before").unwrap().to_vec();
        if result.is_err() {
            assert!(appended.is_empty());
        }
        result.map(|()| appended)
    }

    fn escaped(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for byte in bytes {
            match byte {
                b'\\' => out.extend_from_slice(b"\\\\"),
                0x20..=0x7e => out.push(*byte),
                _ => out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
            }
        }
        out
    }

    #[test]
    fn both_forms_are_read() {
        for (cell, expected) in [
            (&b"\\x"[..], &b""[..]),
            (b"", b""),
            (b"\\x00", b"\0"),
            (b"\\xdeadbeef00", b"\xde\xad\xbe\xef\0"),
            (b"\\336\\255\\276\\357\\000", b"\xde\xad\xbe\xef\0"),
            (b"a b", b"a b"),
            (b"\\\\x00", b"\\x00"),
            (b"\\\\\\\\", b"\\\\"),
            (b"'\"", b"'\""),
        ] {
            assert_eq!(bytes(cell), Ok(expected.to_vec()), "{cell:?}");
        }
    }

    #[test]
    fn text_that_postgresql_never_writes_is_refused() {
        for wrong in [
            &b"\\x0"[..],
            b"\\x0g",
            b"\\x 00",
            b"\\x00 ",
            b"\\",
            b"\\0",
            b"\\400",
            b"\\08",
            b"\\08a",
            b"\\141",
            b"a\nb",
            b"\x7f",
            b"\xff",
            b"ab\\",
            b"\\X00",
        ] {
            assert!(bytes(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_pair_of_bytes_is_a_byte_or_refused_at_every_place() {
        for length in [1, 15, 16, 17, 32, 33] {
            for place in [0, length / 2, length - 1] {
                for high in 0..=u8::MAX {
                    for low in 0..=u8::MAX {
                        let mut digits = vec![b'5'; 2 * length];
                        digits[2 * place] = high;
                        digits[2 * place + 1] = low;
                        let mut expected = vec![0x55; length];
                        let digit = |byte: u8| char::from(byte).to_digit(16);
                        let value = digit(high)
                            .zip(digit(low))
                            .map(|(high, low)| 16 * high + low);
                        let mut out = Vec::new();
                        let result = bytes_from_hex(&digits, &mut out);
                        if let Some(value) = value {
                            expected[place] = u8::try_from(value).unwrap();
                            assert_eq!((result, out), (Ok(()), expected));
                        } else {
                            assert_eq!((result, out), (Err(NOT_HEX), Vec::new()));
                        }
                    }
                }
            }
        }
    }

    proptest! {
        #[test]
        fn all_forms_agree(value in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut hex = Vec::new();
            bytea_text_from_binary(&value, &mut hex);
            let digits = value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
            prop_assert_eq!(String::from_utf8(hex.clone()).unwrap(), format!("\\x{digits}"));
            prop_assert_eq!(bytes(&hex), Ok(value.clone()));
            prop_assert_eq!(bytes(&escaped(&value)), Ok(value));
        }

        #[test]
        fn arbitrary_bytes_never_panic(cell: Vec<u8>, near in "\\\\?x?[0-9a-fA-F\\\\]{0,80}") {
            let _ = (bytes(&cell), bytes(near.as_bytes()));
            if let Ok(value) = bytes(near.as_bytes()) {
                prop_assert!(value.len() <= near.len());
            }
        }
    }
}
