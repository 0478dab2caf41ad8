//! Text that is safe to print on a terminal.

use std::fmt::{self, Write};

/// Shows text, and escapes every character that a terminal could act on. The server's users choose
/// the names in a stream.
///
/// ```
/// use walrow_stream::Printable;
/// assert_eq!(Printable("a\u{1b}[2J").to_string(), "a\\x1b[2J");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Printable<T>(pub T);

impl<T: fmt::Display> fmt::Display for Printable<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(Escaped(f), "{}", self.0)
    }
}

struct Escaped<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl Write for Escaped<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let code = u32::from(character);
            match character {
                '\n' => self.0.write_str("\\n")?,
                '\r' => self.0.write_str("\\r")?,
                '\t' => self.0.write_str("\\t")?,
                // Control characters are below U+00A0.
                it if it.is_control() => write!(self.0, "\\x{code:02x}")?,
                // Characters without width, line and paragraph ends, and characters that change the
                // direction.
                '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}' => write!(self.0, "\\u{code:04x}")?,
                '\u{e0000}'..='\u{e007f}' => write!(self.0, "\\U{code:08x}")?,
                it => self.0.write_char(it)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let hostile = "t\u{1b}]0;x\u{7}\n\u{9b}2J\u{202e}\u{2066}\u{feff} żółw 🐢 \\ \"'";
        let shown = Printable(hostile).to_string();
        assert_eq!(
            shown,
            "t\\x1b]0;x\\x07\\n\\x9b2J\\u202e\\u2066\\ufeff żółw 🐢 \\ \"'"
        );
        assert_eq!(Printable(&shown).to_string(), shown);
        let hidden = Printable("\u{ad}\u{61c}\u{180e}\u{fffa}\u{e0041}").to_string();
        assert_eq!(hidden, "\\u00ad\\u061c\\u180e\\ufffa\\U000e0041");
    }
}
