//! The quotes of composites, ranges and `hstore`.

use crate::error::CellError;
use std::ops::Range;

/// How text in quotes contains a quote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quotes {
    /// Doubled, or after a backslash.
    Doubled,
    /// After a backslash only.
    Escaped,
}

/// Text without its quotes: a part of the cell, or of the scratch if the text has escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unquoted<'a> {
    Plain(&'a [u8]),
    Scratch(Range<usize>),
}

impl<'a> Unquoted<'a> {
    pub(crate) fn bytes<'s>(&self, scratch: &'s [u8]) -> &'s [u8]
    where
        'a: 's,
    {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Scratch(range) => scratch.get(range.clone()).unwrap_or_default(),
        }
    }
}

/// The text up to the closing quote, and what follows it. Text with escapes is appended to the scratch.
pub(crate) fn split_quoted<'a>(
    quoted: &'a [u8],
    quotes: Quotes,
    scratch: &mut Vec<u8>,
) -> Result<(Unquoted<'a>, &'a [u8]), CellError> {
    let start = scratch.len();
    let mut escapes = false;
    let mut rest = quoted;
    loop {
        let place = rest
            .iter()
            .position(|byte| matches!(byte, b'"' | b'\\'))
            .ok_or(UNCLOSED)?;
        let (plain, special) = rest.split_at_checked(place).ok_or(UNCLOSED)?;
        let (escaped, after) = match *special {
            [b'\\', escaped, ref after @ ..] => (escaped, after),
            [b'"', b'"', ref after @ ..] if quotes == Quotes::Doubled => (b'"', after),
            [b'"', ref after @ ..] if escapes => {
                scratch.extend_from_slice(plain);
                return Ok((Unquoted::Scratch(start..scratch.len()), after));
            }
            [b'"', ref after @ ..] => return Ok((Unquoted::Plain(plain), after)),
            _ => return Err(UNCLOSED),
        };
        scratch.extend_from_slice(plain);
        scratch.push(escaped);
        (escapes, rest) = (true, after);
    }
}

/// The text up to the first special byte, and the rest from there.
pub(crate) fn split_plain(rest: &[u8], special: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let place = rest.iter().position(|byte| special(*byte));
    place
        .and_then(|place| rest.split_at_checked(place))
        .unwrap_or((rest, &[]))
}

/// Appends text, in quotes if it is empty or has special bytes.
pub(crate) fn write_quoted(text: &[u8], special: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    if !text.is_empty() && !text.iter().any(|byte| special(*byte)) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(*byte);
        }
        out.push(*byte);
    }
    out.push(b'"');
}

pub(crate) const UNCLOSED: CellError = CellError::Malformed("a closing quote");
