//! The encoding of names: the session's `client_encoding`.

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
    /// The string, or `None` if its bytes are not valid in this encoding.
    pub(crate) fn decode(self, string: PgString<'_>) -> Option<Cow<'_, str>> {
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
