//! Does the repairs that [`plan`](crate::write::recovery::plan) has decided. The tail repairs the
//! journal.

use crate::error::Error;
use crate::format::index::{self, Index};
use crate::format::listing::{INDEX, Listing, look};
use crate::format::load_place::Place;
use crate::format::prepared::PreparedName;
use crate::format::segment::{Foot, SegmentName, remove};
use crate::format::state::State;
use crate::store::{Store, once};
use crate::write::index_file::IndexFile;
use crate::write::load_place::{BeforeLoad, end_place, fill, keep_place};
use crate::write::look::Looked;
use crate::write::recovery::Repair;

/// Repairs all objects except the journal.
pub(crate) fn repair(store: &dyn Store, level: Option<i32>, looked: &Looked) -> Result<(), Error> {
    let place = looked.seen.pending.as_ref();
    for repair in &looked.repairs {
        match (repair, place) {
            (Repair::RemoveParts(parts), _) => {
                // The index comes first, so that it never describes other segments of the same
                // names.
                index::rewrite(store, &Index::read(store, &looked.kept())?)?;
                // The last part goes first, so that a crash leaves no transaction without its
                // beginning.
                for part in parts.iter().rev() {
                    remove(store, &[*part])?;
                }
            }
            (Repair::FillPlace { .. }, Some(place)) => {
                let mut segments = looked.seen.segments.iter();
                let before = segments.rfind(|it| !it.continues && it.end == place.start);
                let before = before.map(|it| Foot::read(store, it.name)).transpose()?;
                if let Some(before) = before {
                    let known = BeforeLoad::of(&before);
                    fill(place, store, &before.source, level, &known)?;
                }
            }
            (Repair::RemovePlace, _) => {
                let number = place.map_or(looked.last_load, |place| place.number);
                let (end, _) = looked.after();
                end_place(store, number, end.is_valid().then_some(end))?;
            }
            (Repair::BeginAgain, Some(place)) => begin_again(store, place)?,
            _ => {}
        }
    }
    Ok(())
}

/// Removes everything. Until all objects are removed, the place hides them.
fn begin_again(store: &dyn Store, place: &Place) -> Result<(), Error> {
    once::remove(store, INDEX)?;
    let listing = Listing::of(store)?;
    let prepared = listing.prepared.into_iter().map(PreparedName::object);
    // The last segment goes first, because readers would miss the first part of a load.
    let segments = listing.segments.iter().rev().map(SegmentName::to_string);
    prepared
        .chain(segments)
        .try_for_each(|object| once::remove(store, &object))?;
    keep_place(store, &Place::planned(place.number))
}

/// Opens the index of a log that is repaired.
pub(crate) fn open_index(store: &dyn Store) -> Result<IndexFile, Error> {
    look(|| {
        let boundary = State::read(store)?.boundary;
        let mut names = Listing::of(store)?.segments;
        names.retain(|name| name.start >= boundary);
        IndexFile::open(store, &names)
    })
}
