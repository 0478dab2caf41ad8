//! Identifiers and strings in the replication grammar. A backslash is a character like any other.

use super::error::CommandError;
use alloc::string::String;

/// An identifier. In quotes, the server does not change its case.
///
/// Unlike SQL, the replication grammar has no way to write a quote in an identifier: doubled, it
/// ends the identifier and begins another one.
pub(super) fn identifier(what: &'static str, text: &str) -> Result<String, CommandError> {
    if text.contains(['"', '\0']) {
        return Err(CommandError::Unwritable {
            what,
            character: "a double quote or a NUL character",
        });
    }
    Ok(alloc::format!("\"{text}\""))
}

/// A string.
pub(super) fn literal(what: &'static str, text: &str) -> Result<String, CommandError> {
    quoted(what, text, '\'')
}

/// An identifier in a list of identifiers inside a string, which has SQL's rules.
pub(super) fn list_item(what: &'static str, text: &str) -> Result<String, CommandError> {
    quoted(what, text, '"')
}

/// The text in quotes, with quotes inside it doubled.
fn quoted(what: &'static str, text: &str, quote: char) -> Result<String, CommandError> {
    let mut out = String::with_capacity(text.len().saturating_add(2));
    out.push(quote);
    for character in text.chars() {
        if character == '\0' {
            return Err(CommandError::Unwritable {
                what,
                character: "a NUL character",
            });
        }
        if character == quote {
            out.push(quote);
        }
        out.push(character);
    }
    out.push(quote);
    Ok(out)
}
