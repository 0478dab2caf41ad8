//! Registered readers: how far each of them is, so that nothing is removed that it still needs.
//!
//! Each is an object, which any process may write. A name becomes part of the object's name: what is
//! not a small letter, a digit, `-` or `_` is escaped, so that no name is a path, and no two names are
//! one object where a file system ignores the case.

use crate::log::block_file::{read_object, write_object};
use crate::log::error::{Error, ErrorKind};
use crate::log::locking::lock;
use crate::log::state::Pruned;
use crate::log::store::Store;
use crate::log::view::{Listing, Log};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::io;
use walrow_wire::{Lsn, Timestamp};

/// The beginning of the names of these objects.
const READER: &str = "_reader-";
/// Bytes of a name, at most. Escaped, it has three times as many.
const LONGEST: usize = 64;
/// How often an object is written: a writer that starts removes it while it is temporary.
const ATTEMPTS: usize = 3;

/// A reader that is registered under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredReader {
    /// Its name.
    pub name: String,
    /// Up to where it has taken everything.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub position: Lsn,
    /// When it was last used, in microseconds since 2000.
    pub used: i64,
}

impl RegisteredReader {
    /// Reads a reader. `None` if there is none of this name.
    fn read(store: &dyn Store, name: &str) -> Result<Option<Self>, Error> {
        let object = object(name)?;
        let mut json: Option<Self> = None;
        let found = read_object(store, &object, |block| {
            json = serde_json::from_slice(block).ok();
            Ok(())
        })?;
        match (found, json) {
            (None, _) => Ok(None),
            (Some(()), Some(reader)) if reader.name == name => Ok(Some(reader)),
            (Some(()), _) => {
                let what = "the record of a reader";
                Err(Error::new(&object, ErrorKind::Damaged { what }))
            }
        }
    }

    fn known(store: &dyn Store, name: &str) -> Result<Self, Error> {
        Self::read(store, name)?.ok_or_else(|| unknown(name))
    }

    fn write(&self, store: &dyn Store) -> Result<(), Error> {
        let object = object(&self.name)?;
        // Serializing plain data into memory cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        let mut written = Ok(());
        for _ in 0..ATTEMPTS {
            written = write_object(store, &object, |file| file.append(&json));
            if !written.as_ref().is_err_and(Error::is_not_found) {
                break;
            }
        }
        written
    }
}

fn unknown(name: &str) -> Error {
    let name = name.to_owned();
    Error::new("", ErrorKind::NoReader { name })
}

impl Log {
    /// The registered readers, by name.
    ///
    /// # Errors
    /// A record is damaged, or the store failed.
    pub fn readers(&self) -> Result<Vec<RegisteredReader>, Error> {
        let store = self.store();
        let mut readers = Vec::new();
        for name in Listing::of(&*store)?.readers {
            // It may be forgotten meanwhile.
            readers.extend(RegisteredReader::read(&*store, &name)?);
        }
        Ok(readers)
    }

    /// Registers a reader: nothing after its position is removed from now on. A reader of this name
    /// stays where it is. A new one begins at `position`, or where the log begins.
    ///
    /// # Errors
    /// The name is empty, too long, or has control characters. What comes after the position was
    /// removed, or the log does not reach it. The store failed.
    pub fn register(
        &mut self,
        name: &str,
        position: Option<Lsn>,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        let store = self.store();
        check(name)?;
        let _lock = lock(&*store)?;
        let known = RegisteredReader::read(&*store, name)?;
        let reader = RegisteredReader {
            name: name.to_owned(),
            position: match (&known, position.filter(|it| it.is_valid())) {
                (Some(known), _) => known.position,
                (None, Some(position)) => self.reachable(position)?,
                (None, None) => Pruned::read(&*store)?.until,
            },
            used: now.0,
        };
        reader.write(&*store)?;
        Ok(reader)
    }

    /// Moves a reader forward. At its own position, it only counts as used.
    ///
    /// # Errors
    /// There is no reader of this name. It is past this position, or the log does not reach it. The
    /// store failed.
    pub fn advance(
        &mut self,
        name: &str,
        position: Lsn,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        let store = self.store();
        let _lock = lock(&*store)?;
        let mut reader = RegisteredReader::known(&*store, name)?;
        let from = reader.position;
        if position < from {
            let (name, to) = (reader.name, position);
            return Err(Error::new("", ErrorKind::Backwards { name, from, to }));
        }
        if position > from {
            reader.position = self.reached(position)?;
        }
        reader.used = now.0;
        reader.write(&*store)?;
        Ok(reader)
    }

    /// Moves a reader to any position in the log: what comes after it is read again, or not at all.
    ///
    /// # Errors
    /// There is no reader of this name. What comes after the position was removed, or the log does
    /// not reach it. The store failed.
    pub fn rewind(
        &mut self,
        name: &str,
        position: Lsn,
        now: Timestamp,
    ) -> Result<RegisteredReader, Error> {
        let store = self.store();
        let _lock = lock(&*store)?;
        let mut reader = RegisteredReader::known(&*store, name)?;
        reader.position = self.reachable(position)?;
        reader.used = now.0;
        reader.write(&*store)?;
        Ok(reader)
    }

    /// Forgets a reader: it holds nothing back any more.
    ///
    /// # Errors
    /// There is no reader of this name, or the store failed.
    pub fn forget(&self, name: &str) -> Result<(), Error> {
        let store = self.store();
        let object = object(name)?;
        let _lock = lock(&*store)?;
        match store.open(&object) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown(name)),
            Err(error) => return Err(Error::store(&object, &error)),
        }
        store
            .remove(&object)
            .map_err(|error| Error::store(&object, &error))
    }

    /// The position, if the log has what comes after it.
    fn reachable(&mut self, position: Lsn) -> Result<Lsn, Error> {
        let (start, until) = (position, Pruned::read(&*self.store())?.until);
        if start < until {
            return Err(Error::new("", ErrorKind::Pruned { start, until }));
        }
        self.reached(position)
    }

    /// The position, if the log reaches it.
    fn reached(&mut self, position: Lsn) -> Result<Lsn, Error> {
        if position > self.end() {
            self.follow()?;
        }
        let end = self.end();
        if position > end {
            return Err(Error::new("", ErrorKind::PastEnd { position, end }));
        }
        Ok(position)
    }
}

/// Refuses a name that cannot be one.
fn check(name: &str) -> Result<(), Error> {
    if name.is_empty() || name.len() > LONGEST || name.chars().any(char::is_control) {
        return Err(Error::new("", ErrorKind::ReaderName));
    }
    Ok(())
}

/// The name of a reader's object.
fn object(name: &str) -> Result<String, Error> {
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
