//! The version of the format, and the number of a log's history.
//!
//! The history counts how often the source of a log was built again, from 1 on. This version of
//! walrow only knows the first history, and refuses objects of a later history.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes.
pub const FORMAT: u32 = 2;

/// The error for an object of another version than [`FORMAT`].
pub(crate) const fn other_version(found: u32) -> ErrorKind {
    if found < FORMAT {
        ErrorKind::Unreleased { found }
    } else {
        ErrorKind::Version { found }
    }
}

/// The number of a log's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct History(u32);

impl Default for History {
    fn default() -> Self {
        Self(1)
    }
}

impl History {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "what serde calls")]
    pub(crate) const fn is_first(&self) -> bool {
        self.0 == 1
    }

    /// Refuses a later history in this object.
    pub(crate) fn check(self, object: &str) -> Result<(), Error> {
        if self.is_first() {
            return Ok(());
        }
        let found = FORMAT.saturating_add(1);
        Err(Error::new(object, ErrorKind::Version { found }))
    }
}
