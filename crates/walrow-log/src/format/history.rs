//! The version of the format, and the number of a log's history.
//!
//! The history counts how often the source of a log was built again, from 1 on. This version of
//! walrow only knows the first history, and refuses objects of a later history.

use crate::error::{Error, ErrorKind};
use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes.
pub const FORMAT: u32 = 3;
/// The first version that was released. From version 3 on, readers refuse facts that they do not
/// know.
const FIRST: u32 = 2;

/// Whether this crate reads objects of this version.
pub(crate) const fn is_known(found: u32) -> bool {
    found >= FIRST && found <= FORMAT
}

/// The error for an object of a version that this crate does not read.
pub(crate) const fn other_version(found: u32) -> ErrorKind {
    if found < FIRST {
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
