//! The place of a load in the order of commits: what a log says of it.

use crate::log::contents::{Contents, Which};
use crate::log::error::Error;
use crate::log::segment::{Foot, SegmentName};
use crate::log::segment_file::SegmentFile;
use crate::log::state::{read_json, write_json};
use crate::log::store::Store;
use serde::{Deserialize, Serialize};
use walrow_stream::fact::{Segment as Head, Source};
use walrow_wire::Lsn;

/// The name of the object that says where a load is expected.
pub(crate) const LOAD: &str = "_load";

/// A load that was begun, and whose place in the log is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Where the segments before it end.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) start: Lsn,
    /// The consistent point of its snapshot. 0/0 if it is not known yet.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub(crate) point: Lsn,
    /// Whether the log begins with it. Without it, what comes later is useless.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) first: bool,
}

impl Place {
    pub(crate) fn read(store: &dyn Store) -> Result<Option<Self>, Error> {
        read_json(store, LOAD, "the place of a load")
    }

    /// The place of the load that a log begins with, before its slot exists.
    pub(crate) const fn planned() -> Self {
        Self {
            start: Lsn::INVALID,
            point: Lsn::INVALID,
            first: true,
        }
    }

    pub(crate) fn write(&self, store: &dyn Store) -> Result<(), Error> {
        write_json(store, LOAD, self)
    }

    /// Whether the load has all its parts.
    pub(crate) fn is_complete(
        &self,
        store: &dyn Store,
        names: &[SegmentName],
    ) -> Result<bool, Error> {
        let last = names.iter().rfind(|name| name.start == self.start);
        let Some(last) = last.filter(|_| self.point.is_valid()) else {
            return Ok(false);
        };
        let foot = Foot::read(store, *last)?;
        Ok(foot.end == self.point && !foot.continues)
    }

    /// Fills the place without a load.
    pub(crate) fn fill(
        &self,
        store: &dyn Store,
        source: &Source,
        level: Option<i32>,
    ) -> Result<Foot, Error> {
        let head = Head {
            start: self.start,
            part: 0,
            source: source.clone(),
            ..Head::default()
        };
        let foot = Contents::default().foot(Which::Whole, source, self.point);
        SegmentFile::create(store, head, level)?.publish(store, foot)
    }
}

/// A load that a writer waits for.
#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) place: Place,
    /// Whether everything before it is published.
    pub(crate) has_passed: bool,
}

/// After every LSN of a server.
pub(crate) const NEVER: Lsn = Lsn(u64::MAX);
