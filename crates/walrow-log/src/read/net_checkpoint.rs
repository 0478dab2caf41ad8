//! The state of a target: stored with its rows, and compared before the next rows.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use walrow_stream::fact::Source;
use walrow_wire::{Lsn, Oid};

/// The state of a target: where its changes come from, the table, its key, and the end of its
/// changes. Its text is stored in the target's transaction that writes the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetCheckpoint {
    source: Source,
    oid: Oid,
    keys: Vec<String>,
    /// An LSN.
    end: String,
}

impl NetCheckpoint {
    /// The checkpoint of a target whose changes end at an LSN.
    pub fn new(source: &Source, oid: Oid, keys: Vec<String>, end: Lsn) -> Self {
        let mut own = Source::default();
        own.system_identifier.clone_from(&source.system_identifier);
        own.database.clone_from(&source.database);
        own.slot.clone_from(&source.slot);
        Self {
            source: own,
            oid,
            keys,
            end: end.to_string(),
        }
    }

    /// The end of the target's changes: the next start.
    pub fn end(&self) -> Lsn {
        self.end.parse().unwrap_or(Lsn::INVALID)
    }

    /// Compares a target's checkpoint with the next one.
    ///
    /// # Errors
    /// [`ErrorKind::OtherTarget`] if the source differs, or the table or its key, unless `clears`:
    /// then all rows of the target are removed.
    pub fn check(&self, next: &Self, clears: bool) -> Result<(), Error> {
        let other = |what, target: String, log: String| {
            Err(Error::new("", ErrorKind::OtherTarget { what, target, log }))
        };
        let source = |it: &Source| {
            let parts = [&it.system_identifier, &it.database, &it.slot];
            let parts = parts.map(|it| it.as_deref().unwrap_or_default());
            parts.join("/")
        };
        if self.source != next.source {
            return other("source", source(&self.source), source(&next.source));
        }
        if !clears && self.oid != next.oid {
            return other("table", self.oid.to_string(), next.oid.to_string());
        }
        if !clears && self.keys != next.keys {
            return other("key", self.keys.join(", "), next.keys.join(", "));
        }
        Ok(())
    }
}

impl fmt::Display for NetCheckpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&serde_json::to_string(self).map_err(|_| fmt::Error)?)
    }
}

impl FromStr for NetCheckpoint {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let found: Option<Self> = serde_json::from_str(text).ok();
        let found = found.filter(|it| it.end.parse::<Lsn>().is_ok());
        found.ok_or_else(|| Error::new("", ErrorKind::Checkpoint))
    }
}
