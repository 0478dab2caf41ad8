//! The place of a load in the order of commits: what a log says of it.

use crate::log::contents::{Contents, Which};
use crate::log::error::{DamagedPart, Error};
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
        read_json(store, LOAD, DamagedPart::LoadPlace)
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
        let head = Head::new(self.start, 0, source.clone());
        let foot = Contents::default().foot(Which::Whole, source, self.point);
        SegmentFile::create(store, head, level)?.publish(store, foot)
    }
}

/// The load that a writer waits for.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) enum Awaited {
    /// None was begun.
    #[default]
    Nothing,
    /// What was committed before it may still come.
    Later(Place),
    /// Something after it has come, so that what is before it must be published.
    Reached(Place, First),
    /// Everything before it is published.
    Passed(Place),
}

/// What came first after a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum First {
    Transaction,
    /// A message outside transactions.
    Message(Lsn),
    /// The LSN of a keepalive.
    Position(Lsn),
}

impl Awaited {
    /// Notes what came at this LSN. Returns whether it must wait until what is before the load is
    /// published.
    pub(crate) fn reach(&mut self, lsn: Lsn, now: First) -> bool {
        match self {
            Self::Later(place) if lsn >= place.point => {
                *self = Self::Reached(place.clone(), now);
                true
            }
            Self::Reached(_, first) => {
                // A later keepalive contains the earlier one.
                if matches!(first, First::Position(_)) {
                    *first = now;
                }
                true
            }
            Self::Nothing | Self::Later(_) | Self::Passed(_) => false,
        }
    }

    pub(crate) const fn place(&self) -> Option<&Place> {
        match self {
            Self::Nothing => None,
            Self::Later(place) | Self::Reached(place, _) | Self::Passed(place) => Some(place),
        }
    }
}
