//! The objects of a log's directory.

use crate::error::{Error, ErrorKind};
use crate::format::catalog::CATALOG;
use crate::format::prepared::PreparedName;
use crate::format::reader_name;
use crate::format::segment::SegmentName;
use crate::format::state::STATE;
use crate::store::lease::{LOCK, UPKEEP, WRITER};
use crate::store::{OPEN, Objects};
use std::collections::BTreeSet;

/// The name of the index.
pub(crate) const INDEX: &str = "_index";
/// The beginning of the names of requests to a receiver.
const REQUESTS: &str = "_load-";
/// The name of the object that says why a receiver must not go on.
const STOPPED: &str = "_stopped";
/// The names of the targets that follow the log, and of a directory for who keeps them current.
const FOLLOWED: [&str; 2] = ["_targets", "_run"];
/// The name of the object with the tables that are not whole.
const GAPS: &str = "_gaps";
/// The other objects of a log that have one name only.
const OWN: [&str; 9] = [
    OPEN, INDEX, CATALOG, STATE, WRITER, LOCK, UPKEEP, STOPPED, GAPS,
];
/// Objects that only the unreleased version 1 had.
const UNRELEASED: [&str; 2] = ["_load", "_pruned"];
/// The number of tries to open a log that seems to lack a segment.
pub(crate) const ATTEMPTS: usize = 4;

/// Looks at a log again if an object is missing: other processes may publish, merge or remove segments
/// between the list and the look.
pub(crate) fn look<T>(mut once: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..ATTEMPTS {
        match once() {
            Err(error) if error.is_missing() => {}
            looked => return looked,
        }
    }
    once()
}

/// The objects of a directory that may be a log.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The segments, sorted.
    pub(crate) segments: Vec<SegmentName>,
    /// The prepared transactions.
    pub(crate) prepared: BTreeSet<PreparedName>,
    /// The names of registered readers.
    pub(crate) readers: BTreeSet<String>,
    /// Whether the directory is a log.
    pub(crate) is_log: bool,
}

impl Listing {
    /// Lists a directory. Fails if it has an object that does not belong to a log.
    pub(crate) fn of(objects: &dyn Objects) -> Result<Self, Error> {
        let mut listing = Self::default();
        let mut foreign = None;
        for object in objects.list().map_err(|error| Error::store("", &error))? {
            if let Some(name) = SegmentName::parse(&object) {
                listing.segments.push(name);
                listing.is_log = true;
            } else if let Some(name) = PreparedName::parse(&object) {
                listing.prepared.insert(name);
            } else if object.starts_with(REQUESTS) || FOLLOWED.contains(&&*object) {
                // It is a request to the receiver, or about targets outside of the log.
            } else if let Some(name) = reader_name::parse(&object) {
                listing.readers.insert(name);
            } else if OWN.contains(&&*object) {
                listing.is_log |= object == OPEN;
            } else if UNRELEASED.contains(&&*object) {
                return Err(Error::new(&object, ErrorKind::Unreleased { found: 1 }));
            } else if !object.starts_with('.') {
                foreign = Some(object);
            }
        }
        match foreign {
            Some(object) if listing.is_log => Err(Error::new(&object, ErrorKind::Foreign)),
            Some(_) => Err(Error::new("", ErrorKind::NotALog)),
            None => {
                listing.segments.sort_unstable_by_key(SegmentName::order);
                Ok(listing)
            }
        }
    }
}
