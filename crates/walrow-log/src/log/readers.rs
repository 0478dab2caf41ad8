//! Registered readers: how far each of them is, so that nothing is removed that it still needs.
//!
//! Each is an object, which any process may write.

use crate::log::block_file::{read_object, write_object};
use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::listing::Listing;
use crate::log::locking::lock;
use crate::log::reader_name::{check, object};
use crate::log::state::Pruned;
use crate::log::store::Store;
use crate::log::view::Log;
use serde::{Deserialize, Serialize};
use std::io;
use walrow_wire::{Lsn, Timestamp};

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
                let what = DamagedPart::Reader;
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

    /// Forgets a reader that was not used since a time, and returns whether it did. It may have been
    /// used after somebody has looked at it.
    pub(super) fn forget_unused(&self, name: &str, since: i64) -> Result<bool, Error> {
        let store = self.store();
        let _lock = lock(&*store)?;
        match RegisteredReader::read(&*store, name)? {
            Some(reader) if reader.used < since => {
                let object = object(name)?;
                let removed = store.remove(&object);
                removed.map_err(|error| Error::store(&object, &error))?;
                Ok(true)
            }
            _ => Ok(false),
        }
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
