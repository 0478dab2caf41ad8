//! The record of a registered reader, with its position.

use crate::error::hold::Hold;
use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::blocks::{put_object, read_tagged};
use crate::format::history::History;
use crate::format::reader_name::object;
use crate::store::{Objects, Store, Tag};
use serde::{Deserialize, Serialize};
use walrow_wire::Lsn;

/// A reader that is registered under a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RegisteredReader {
    /// Its name.
    pub name: String,
    /// The LSN of its position. The reader has taken all changes up to this LSN.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub position: Lsn,
    /// The time when it was last used, in microseconds since 2000.
    pub used: i64,
    /// The number of the log's history that it reads.
    #[serde(default, skip_serializing_if = "History::is_first")]
    pub(crate) history: History,
}

/// A record of a reader as it was found.
#[derive(Clone, Debug)]
pub(crate) struct FoundReader {
    pub(crate) reader: RegisteredReader,
    tag: Tag,
}

impl RegisteredReader {
    /// Reads a reader. `None` if no reader has this name.
    pub(crate) fn read(objects: &dyn Objects, name: &str) -> Result<Option<Self>, Error> {
        Ok(FoundReader::read(objects, name)?.map(|found| found.reader))
    }

    /// Writes the record of a reader, in place of the record `found`, or as a new record. Fails if
    /// the record has changed since.
    pub(crate) fn write(
        &self,
        store: &dyn Store,
        found: Option<&FoundReader>,
    ) -> Result<(), Error> {
        let object = object(&self.name)?;
        // Serializing plain data into memory cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        put_object(store, &object, found.map(|it| &it.tag), |blocks| {
            blocks.append(&json)
        })
    }
}

impl FoundReader {
    pub(crate) fn read(objects: &dyn Objects, name: &str) -> Result<Option<Self>, Error> {
        let object = object(name)?;
        let what = DamagedPart::Reader;
        let found: Option<(RegisteredReader, Tag)> = read_tagged(objects, &object, what)?;
        match found {
            Some((reader, _)) if reader.name != name => {
                Err(Error::new(&object, ErrorKind::Damaged { what }))
            }
            Some((reader, tag)) => {
                reader.history.check(&object)?;
                Ok(Some(Self { reader, tag }))
            }
            None => Ok(None),
        }
    }

    /// As [`FoundReader::read`], for a reader that must be registered.
    pub(crate) fn known(objects: &dyn Objects, name: &str) -> Result<Self, Error> {
        Self::read(objects, name)?.ok_or_else(|| unknown(name))
    }
}

impl From<RegisteredReader> for Hold {
    fn from(reader: RegisteredReader) -> Self {
        let RegisteredReader {
            name,
            position,
            used,
            history: _,
        } = reader;
        Self::Reader {
            name,
            position,
            used,
        }
    }
}

/// The error for a name under which no reader is registered.
pub(crate) fn unknown(name: &str) -> Error {
    let name = name.to_owned();
    Error::new("", ErrorKind::NoReader { name })
}
