//! Text of every kind, `xml` and `"char"`.

use crate::error::{CellError, Unrepresentable};
use crate::pg_type::{AppendBytes, PgType, known, text_from_binary};
use crate::settings::SessionSettings;

/// Text without a form of its own: `text`, `varchar`, `name`, `citext`, enums.
#[derive(Clone, Copy, Debug)]
pub struct Text;

/// `character(n)`, padded with blanks.
#[derive(Clone, Copy, Debug)]
pub struct Bpchar;

/// `"char"`: one byte.
#[derive(Clone, Copy, Debug)]
pub struct Char;

/// `xml`.
#[derive(Clone, Copy, Debug)]
pub struct Xml;

known!(Text: TEXT, VARCHAR, NAME, REFCURSOR, PG_NODE_TREE; "citext");
known!(Bpchar: BPCHAR;);
known!(Char: CHAR;);
known!(Xml: XML;);

impl PgType for Text {
    fn text_from_binary(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        settings.check_text(cell)?;
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
    fn text_from_binary(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        Text.text_from_binary(cell, settings, out)
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

    fn text_from_text(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        // Versions before 15 write the byte itself.
        if matches!(cell, [0x80..=0xff]) {
            return char_text_from_binary(cell, out);
        }
        settings.copy_text(cell, out)
    }

    fn is_shaped(&self) -> bool {
        true
    }
}

impl PgType for Xml {
    fn text_from_binary(
        &self,
        cell: &[u8],
        settings: SessionSettings,
        out: &mut Vec<u8>,
    ) -> Result<(), CellError> {
        settings.check_text(cell)?;
        xml_text_from_binary(cell, out);
        Ok(())
    }

    fn expands(&self) -> bool {
        false
    }
}

/// A `character(n)` without the blanks at its end.
#[derive(Clone, Copy, Debug)]
pub struct TrimmedBpchar {
    /// The settings of the session.
    pub settings: SessionSettings,
}

impl AppendBytes for TrimmedBpchar {
    fn text(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let end = cell.iter().rposition(|byte| *byte != b' ');
        let trimmed = end.and_then(|end| cell.get(..=end));
        self.settings.copy_text(trimmed.unwrap_or_default(), out)
    }

    fn binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        self.text(cell, out)
    }
}

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
