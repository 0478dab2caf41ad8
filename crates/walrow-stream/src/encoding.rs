//! The encoding of names and text: the session's `client_encoding`.

use std::borrow::Cow;
use walrow_wire::PgString;

/// The `client_encoding` that a stream was written under.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// UTF-8. Clients that start replication should ask for it.
    #[default]
    Utf8,
    /// LATIN1: each byte is the character with the same number.
    Latin1,
}

impl Encoding {
    /// The encoding that a value of `client_encoding` names. `SQL_ASCII` is read as UTF-8: bytes
    /// that are not UTF-8 are then an error. `None` for encodings that are not supported.
    pub fn of_setting(value: &str) -> Option<Self> {
        let word: String = value.chars().filter(char::is_ascii_alphanumeric).collect();
        match &*word.to_ascii_lowercase() {
            "utf8" | "unicode" | "sqlascii" => Some(Self::Utf8),
            "latin1" | "iso88591" => Some(Self::Latin1),
            _ => None,
        }
    }

    /// The value of `client_encoding`.
    pub(crate) const fn setting(self) -> &'static str {
        match self {
            Self::Utf8 => "UTF8",
            Self::Latin1 => "LATIN1",
        }
    }

    /// The string, or `None` if its bytes are not valid in this encoding.
    pub fn decode(self, string: PgString<'_>) -> Option<Cow<'_, str>> {
        match self {
            Self::Utf8 => string.to_str().ok().map(Cow::Borrowed),
            Self::Latin1 => Some(string.0.iter().map(|byte| char::from(*byte)).collect()),
        }
    }

    /// The inverse of [`Encoding::decode`].
    pub(crate) fn encode(self, text: &str) -> Cow<'_, [u8]> {
        match self {
            Self::Utf8 => Cow::Borrowed(text.as_bytes()),
            // LATIN1 decodes to no other characters.
            Self::Latin1 => text
                .chars()
                .map(|it| u8::try_from(it).unwrap_or(b'?'))
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_of_latin1_is_a_character() {
        let bytes: Vec<u8> = (0..=u8::MAX).collect();
        let text = Encoding::Latin1.decode(PgString(&bytes)).unwrap();
        let numbers: Vec<u32> = text.chars().map(u32::from).collect();
        assert_eq!(numbers, Vec::from_iter(0..256));
        assert_eq!(*Encoding::Latin1.encode(&text), *bytes);
        assert_eq!(Encoding::Utf8.decode(PgString(&bytes)), None);
    }

    #[test]
    fn encodings_have_the_names_of_the_server() {
        for (value, expected) in [
            ("UTF8", Some(Encoding::Utf8)),
            ("utf-8", Some(Encoding::Utf8)),
            ("UNICODE", Some(Encoding::Utf8)),
            ("SQL_ASCII", Some(Encoding::Utf8)),
            ("LATIN1", Some(Encoding::Latin1)),
            ("iso-8859-1", Some(Encoding::Latin1)),
            ("LATIN9", None),
            ("WIN1252", None),
            ("ISO_8859_15", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of_setting(value), expected, "{value}");
        }
    }
}
