//! The undecided prepared transactions, as feet and journals record them.

use crate::format::prepared::PreparedName;
use serde::{Deserialize, Serialize};
use walrow_wire::{Lsn, Xid};

/// A prepared transaction that is not decided: its rows are an object of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Undecided {
    /// Its ID.
    xid: Xid,
    /// The LSN where its prepare record ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    prepare_end_lsn: Lsn,
    /// The CRC-32C of the object's bytes.
    crc32c: u32,
}

impl Undecided {
    pub(crate) const fn new(name: PreparedName, crc32c: u32) -> Self {
        let PreparedName { end, xid } = name;
        Self {
            xid,
            prepare_end_lsn: end,
            crc32c,
        }
    }

    pub(crate) const fn name(&self) -> PreparedName {
        PreparedName {
            end: self.prepare_end_lsn,
            xid: self.xid,
        }
    }

    pub(crate) const fn crc32c(&self) -> u32 {
        self.crc32c
    }
}
