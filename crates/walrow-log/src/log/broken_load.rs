//! What a crash has left of a load.

use crate::log::error::Error;
use crate::log::index::{self, Index};
use crate::log::listing::{INDEX, Listing};
use crate::log::load_place::{LOAD, Place};
use crate::log::segment::{Foot, SegmentName};
use crate::log::store::{Store, remove_if_there};

/// Settles a load that was broken by a crash: removes its parts, and fills its place. Without its first
/// load, a log is emptied. Returns whether it was: then `_load` stays, as the slot is useless, too.
pub(crate) fn settle(store: &dyn Store, level: Option<i32>) -> Result<bool, Error> {
    let Some(place) = Place::read(store)? else {
        return Ok(false);
    };
    let listing = Listing::of(store)?;
    let names = listing.segments;
    if place.is_complete(store, &names)? {
        remove_if_there(store, LOAD)?;
        return Ok(false);
    }
    if place.first {
        // First, so that nothing of it is ever read.
        Place::planned().write(store)?;
        remove_if_there(store, INDEX)?;
        let prepared = listing.prepared.iter().map(|it| it.object());
        let segments = names.iter().map(SegmentName::to_string);
        prepared
            .chain(segments)
            .try_for_each(|object| remove_if_there(store, &object))?;
        return Ok(true);
    }
    let (parts, kept): (Vec<_>, Vec<_>) = names
        .into_iter()
        .partition(|name| name.start == place.start);
    if !parts.is_empty() {
        // First, so that the index never describes other segments of the same names.
        index::rewrite(store, &Index::read(store, &kept)?)?;
    }
    for part in parts {
        remove_if_there(store, &part.to_string())?;
    }
    let before = kept.iter().rfind(|name| name.start < place.start);
    let before = before.map(|name| Foot::read(store, *name)).transpose()?;
    if let Some(before) = before.filter(|it| it.end == place.start && !it.continues) {
        place.fill(store, &before.source, level)?;
    }
    remove_if_there(store, LOAD)?;
    Ok(false)
}
