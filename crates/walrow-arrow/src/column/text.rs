//! Text of every kind, `xml` and `"char"`.

use super::{CellError, Unrepresentable};

/// Checks that the cell is text.
#[inline]
pub(crate) fn check_utf8(cell: &[u8]) -> Result<(), CellError> {
    if is_ascii(cell) || std::str::from_utf8(cell).is_ok() {
        return Ok(());
    }
    Err(Unrepresentable::InvalidUtf8.into())
}

/// Whether no byte has its high bit set: cells are short and mostly ASCII, which eight bytes at a
/// time, the last ones twice, tell four times as fast as the general check.
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

/// Appends the text of a binary `"char"`: nothing for NUL, `\ooo` for a byte beyond ASCII, else the byte.
#[inline]
pub(crate) fn char_text_from_binary(cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
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

/// Appends the text of a binary `xml`: without the encoding that it names where that is not UTF-8, and without the
/// declaration and the end of its line where that was all it said.
pub(crate) fn xml_text_from_binary(cell: &[u8], out: &mut Vec<u8>) {
    let named = || {
        let after = cell.strip_prefix(b"<?xml version=\"")?;
        let end = after.iter().position(|byte| *byte == b'"')?;
        let (version, after) = after.split_at_checked(end)?;
        Some((version, after.strip_prefix(b"\" encoding=\"LATIN1\"")?))
    };
    match named() {
        Some((b"1.0", [b'?', b'>', text @ ..])) => {
            out.extend_from_slice(text.strip_prefix(b"\n").unwrap_or(text));
        }
        Some((version, rest)) => {
            for part in [b"<?xml version=\"", version, b"\"", rest] {
                out.extend_from_slice(part);
            }
        }
        None => out.extend_from_slice(cell),
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

    // Each as PostgreSQL 18.4 writes it, and sends it to a client of LATIN1.
    #[test]
    fn xml_names_no_encoding() {
        for (text, sent) in [
            ("<a/>", "<?xml version=\"1.0\" encoding=\"LATIN1\"?><a/>"),
            ("<a/>", "<?xml version=\"1.0\" encoding=\"LATIN1\"?>\n<a/>"),
            (
                "<?xml version=\"1.0\" standalone=\"yes\"?><a/>",
                "<?xml version=\"1.0\" encoding=\"LATIN1\" standalone=\"yes\"?><a/>",
            ),
            (
                "<?xml version=\"1.1\"?>\n<a/>",
                "<?xml version=\"1.1\" encoding=\"LATIN1\"?>\n<a/>",
            ),
            ("<a/>\n", "<a/>\n"),
            ("", ""),
            ("<?xml", "<?xml"),
        ] {
            let mut out = Vec::new();
            xml_text_from_binary(sent.as_bytes(), &mut out);
            assert_eq!(String::from_utf8_lossy(&out), text, "{sent}");
        }
    }

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
            prop_assert_eq!(check_utf8(&cell).is_ok(), String::from_utf8(cell.clone()).is_ok());
            let _ = char_text_from_binary(&cell, &mut Vec::new());
        }
    }
}
