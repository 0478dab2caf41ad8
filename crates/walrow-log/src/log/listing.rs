//! The objects of a log's directory.

use crate::log::error::{Error, ErrorKind};
use crate::log::load_place::LOAD;
use crate::log::locking::LOCK;
use crate::log::reader_name;
use crate::log::segment::SegmentName;
use crate::log::state::{CATALOG, PRUNED, PreparedName};
use crate::log::store::{OPEN, Store, TEMPORARY};
use std::collections::BTreeSet;

/// The name of the index.
pub(crate) const INDEX: &str = "_index";
/// The beginning of the names of requests to a receiver.
const REQUESTS: &str = "_load-";
/// Says why a receiver must not go on.
const STOPPED: &str = "_stopped";
/// How often the opening of a log is tried that seems to lack a segment.
pub(super) const ATTEMPTS: usize = 4;

/// The objects of a directory that may be a log.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// The segments, sorted.
    pub(crate) segments: Vec<SegmentName>,
    /// The prepared transactions.
    pub(crate) prepared: BTreeSet<PreparedName>,
    /// The names of registered readers.
    pub(crate) readers: BTreeSet<String>,
    /// The temporary objects.
    pub(crate) temporary: Vec<String>,
    /// Whether it is a log.
    pub(crate) is_log: bool,
}

impl Listing {
    /// Lists a directory. Fails if something else is there.
    pub(crate) fn of(store: &dyn Store) -> Result<Self, Error> {
        let mut listing = Self::default();
        let mut foreign = None;
        for object in store.list().map_err(|error| Error::store("", &error))? {
            if let Some(name) = SegmentName::parse(&object) {
                listing.segments.push(name);
                listing.is_log = true;
            } else if let Some(name) = PreparedName::parse(&object) {
                listing.prepared.insert(name);
            } else if object.starts_with(REQUESTS) {
                // Of the receiver's.
            } else if let Some(name) = reader_name::parse(&object) {
                listing.readers.insert(name);
            } else if object.starts_with(TEMPORARY) {
                listing.temporary.push(object);
            } else if [OPEN, INDEX, CATALOG, PRUNED, LOAD, LOCK, STOPPED].contains(&&*object) {
                listing.is_log |= object == OPEN;
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
