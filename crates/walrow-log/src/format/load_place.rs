//! The place of a load in the order of commits, as a log records it.

use serde::{Deserialize, Serialize};
use walrow_wire::Lsn;

/// A load that was begun, and whose place in the log is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The LSN where the segments before it end.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) start: Lsn,
    /// The consistent point of its snapshot. 0/0 if it is not known yet.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) point: Lsn,
    /// Whether the log begins with the load. Then all later changes are useless without the load.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) first: bool,
    /// The number of the load among all loads of the log. A place whose load has ended is of no
    /// use: somebody has restored an old copy of the state.
    pub(crate) number: u64,
}

impl Place {
    /// The place of the load that a log begins with, before its slot exists.
    pub(crate) const fn planned(number: u64) -> Self {
        Self {
            start: Lsn::INVALID,
            point: Lsn::INVALID,
            first: true,
            number,
        }
    }
}
