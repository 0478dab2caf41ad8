//! `xml`: “XML Type”.
//!
//! ```text
//! text    <a/>
//! binary  <?xml version="1.0" encoding="LATIN1"?><a/>     the session's encoding, unless it is UTF-8
//! ```

use crate::error::CellError;
use crate::pg_type::{PgType, known};

/// `xml`.
#[derive(Clone, Copy, Debug)]
pub struct Xml;

known!(Xml: XML;);

impl PgType for Xml {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        xml_text_from_binary(cell, out);
        Ok(())
    }

    fn expands(&self) -> bool {
        false
    }
}

/// Appends the text of a binary `xml` without the encoding in its declaration. A declaration that contains only the
/// encoding and version 1.0 is removed, with its line end.
fn xml_text_from_binary(cell: &[u8], out: &mut Vec<u8>) {
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
    use super::*;

    // Each as PostgreSQL 18.4 writes it, and sends it to a client of LATIN1.
    #[test]
    fn the_encoding_is_removed_from_the_declaration() {
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
}
