//! Keeps the place of a load in a log, and fills it.

use crate::error::Error;
use crate::format::contents::{Contents, Which};
use crate::format::load_place::Place;
use crate::format::segment::Foot;
use crate::format::state::State;
use crate::format::undecided::Undecided;
use crate::store::Store;
use crate::store::lease::lock;
use crate::write::segment_file::SegmentFile;
use walrow_stream::fact::{Segment as Head, Source, Taken};
use walrow_wire::Lsn;

/// Facts of a log at the place of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct BeforeLoad {
    /// The last transaction or message before the load.
    pub(crate) last: Option<Taken>,
    /// The prepared transactions that are not decided there.
    pub(crate) undecided: Option<Vec<Undecided>>,
}

impl BeforeLoad {
    /// Takes the facts from the foot of the segment before the load.
    pub(crate) fn of(foot: &Foot) -> Self {
        Self {
            last: foot.source.last.clone(),
            undecided: foot.undecided.clone(),
        }
    }

    /// Completes the foot of a load's last segment, or of the segment that fills its place.
    pub(crate) fn complete(&self, place: &Place, foot: &mut Foot) {
        foot.source.last.clone_from(&self.last);
        foot.undecided.clone_from(&self.undecided);
        foot.load = Some(place.number);
    }
}

/// Notes the place of a load in the log's state.
pub(crate) fn keep_place(store: &dyn Store, place: &Place) -> Result<(), Error> {
    let lock = lock(store)?;
    State::change(store, &lock, |state| {
        state.place = Some(place.clone());
        if place.first {
            // The log is empty, or is emptied.
            state.loaded = None;
        }
        Ok(())
    })
}

/// Notes that the loads up to this number have ended or were given up, and removes the place.
/// `filled` is where the segments end that have the place.
pub(crate) fn end_place(store: &dyn Store, number: u64, filled: Option<Lsn>) -> Result<(), Error> {
    let lock = lock(store)?;
    State::change(store, &lock, |state| {
        state.last_load = state.last_load.max(number);
        state.loaded = state.loaded.max(filled);
        state.place = None;
        Ok(())
    })
}

/// Fills a load's place with a segment without changes.
pub(crate) fn fill(
    place: &Place,
    store: &dyn Store,
    source: &Source,
    level: Option<i32>,
    before: &BeforeLoad,
) -> Result<Foot, Error> {
    let head = Head::new(place.start, 0, source.clone());
    let mut foot = Contents::default().foot(Which::Whole, source, place.point);
    before.complete(place, &mut foot);
    SegmentFile::create(store, head, level)?.publish(store, foot)
}
