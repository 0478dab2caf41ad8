//! The names of registered readers, as names of objects.
//!
//! All bytes except for small letters, digits, `-` and `_` are escaped. So no name is a path, and
//! two names are never one object on a file system that ignores the case.

use crate::error::{Error, ErrorKind};
use std::fmt::Write as _;

/// The beginning of the names of these objects.
const READER: &str = "_reader-";
/// Bytes of a name, at most. An escaped name has up to three times as many.
const LONGEST: usize = 64;

/// Refuses a name that a reader cannot have.
pub(crate) fn check(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        return Err(Error::new("", ErrorKind::ReaderName));
    }
    Ok(())
}

/// The name of a reader's object.
pub(crate) fn object(name: &str) -> Result<String, Error> {
    check(name)?;
    let mut object = READER.to_owned();
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => object.push(char::from(byte)),
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(object, "%{byte:02X}");
            }
        }
    }
    Ok(object)
}

/// The name of the reader whose object has this name.
pub(crate) fn parse(object_name: &str) -> Option<String> {
    let mut rest = object_name.strip_prefix(READER)?.bytes();
    let mut name = Vec::new();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            name.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            name.push(byte);
        }
    }
    let name = String::from_utf8(name).ok()?;
    // Other spellings of the same name are not names.
    (object(&name).ok()? == object_name).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_escaped_and_no_path() {
        for name in [
            "nightly",
            "Nightly",
            "a b",
            "../../etc/x",
            "..",
            "ä€😀",
            "%41",
            "con",
            "a.",
            "_open",
        ] {
            let object = object(name).unwrap();
            assert_eq!(parse(&object).as_deref(), Some(name));
            assert!(object.strip_prefix(READER).is_some_and(|it| {
                let plain = |it: u8| it.is_ascii_alphanumeric() || b"-_%".contains(&it);
                it.bytes().all(plain)
            }));
        }
        let long = "€".repeat(21);
        assert_eq!(object(&long).unwrap().len(), READER.len() + 189);
        for name in ["", "a\n", "\u{85}", &"x".repeat(65), &"€".repeat(22)] {
            assert_eq!(object(name).unwrap_err().kind, ErrorKind::ReaderName);
        }
        for object in [
            "_reader-",
            "_reader-%61",
            "_reader-A",
            "_reader-%c3%a4",
            "_reader-%C3",
        ] {
            assert_eq!(parse(object), None);
        }
    }
}
