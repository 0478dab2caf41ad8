//! The stages of a writer, and the legal calls in each stage.
//!
//! | call | `Empty` | `Planned` | `Streaming` | `Before` | `Crossing` | `Behind` |
//! |---|---|---|---|---|---|---|
//! | `plan_first_load` | → `Planned` | stays | `NotEmpty` | `NotEmpty` | `NotEmpty` | `NotEmpty` |
//! | `begin_load` | → `Before` | → `Behind` | → `Before`, or `TooEarly` | `Another` | `Another` | `Another` |
//! | `append`, `advance` | → `Streaming` | `NotBegun` | stays | stays, or → `Crossing` | crosses first | stays |
//! | `sync` | facts, `None` | facts, `None` | yes | yes | crosses first | yes |
//! | `publish` | nothing to do | nothing to do | yes | yes | crosses first | yes |
//! | `cross_gap` | → `Streaming` | `Another` | stays | `Another` | `Another` | `Another` |
//! | `fill` | nothing to do | nothing to do | yes | yes | yes | yes |
//! | `end_load` | `NoLoad` | `NoLoad` | `NoLoad` | not yet | not yet | → `Streaming` |
//! | `give_up_load` | `NoLoad` | `NoLoad` | `NoLoad` | → `Streaming` | → `Streaming` | → `Streaming`, or `First` |
//!
//! A call that crosses turns `Crossing` into `Behind`. `end_load` and `give_up_load` return
//! `NoLoad` for any load except the current load. In `Broken`, each call is refused: the log must
//! be opened again.

use crate::error::{BrokenBy, Error, ErrorKind, LoadRefusal};
use crate::format::load_place::Place;
use crate::write::intake::First;
use crate::write::load::LoadId;
use crate::write::load_place::BeforeLoad;
use crate::write::tail::Tail;
use walrow_wire::Lsn;

/// The stage of a writer.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The log is empty.
    Empty(Box<Tail>),
    /// The log begins with a load, which was not begun yet.
    Planned(Box<Tail>),
    /// Changes are written as they come.
    Streaming(Box<Tail>),
    /// A load was begun, and changes from before the load may still come.
    Before(Awaited, Box<Tail>),
    /// A change or a position behind the load has come. So the changes before the load must be
    /// published.
    Crossing(Awaited, First, Box<Tail>),
    /// Everything before the load is published. New segments go behind its place.
    Behind(Awaited, BeforeLoad, Box<Tail>),
    /// The log must be opened again.
    Broken(BrokenBy),
}

/// A load that was begun.
#[derive(Clone, Debug)]
pub(crate) struct Awaited {
    pub(crate) id: LoadId,
    pub(crate) place: Place,
}

/// The result of a step: the next stage, also if the step fails, and its value or error.
pub(crate) type Step<T> = (Stage, Result<T, Error>);

impl Stage {
    /// Returns the tail, or an error in `Broken`.
    pub(crate) fn tail(&self) -> Result<&Tail, Error> {
        match self {
            Self::Empty(tail)
            | Self::Planned(tail)
            | Self::Streaming(tail)
            | Self::Before(_, tail)
            | Self::Crossing(_, _, tail)
            | Self::Behind(_, _, tail) => Ok(tail),
            Self::Broken(why) => Err(broken(*why)),
        }
    }

    pub(crate) fn into_tail(self) -> Result<Box<Tail>, Error> {
        match self {
            Self::Empty(tail)
            | Self::Planned(tail)
            | Self::Streaming(tail)
            | Self::Before(_, tail)
            | Self::Crossing(_, _, tail)
            | Self::Behind(_, _, tail) => Ok(tail),
            Self::Broken(why) => Err(broken(why)),
        }
    }

    pub(crate) fn tail_mut(&mut self) -> Result<&mut Tail, Error> {
        match self {
            Self::Empty(tail)
            | Self::Planned(tail)
            | Self::Streaming(tail)
            | Self::Before(_, tail)
            | Self::Crossing(_, _, tail)
            | Self::Behind(_, _, tail) => Ok(tail),
            Self::Broken(why) => Err(broken(*why)),
        }
    }

    /// Whether segments are published behind a place that is not filled. The index is in the order
    /// of the log, so it gets these segments later.
    pub(crate) const fn is_behind(&self) -> bool {
        matches!(self, Self::Behind(..))
    }

    /// Whether the log lacks the load that it begins with.
    pub(crate) const fn lacks_first_load(&self) -> bool {
        match self {
            Self::Planned(_) => true,
            Self::Before(awaited, _) | Self::Crossing(awaited, ..) | Self::Behind(awaited, ..) => {
                awaited.place.first
            }
            Self::Empty(_) | Self::Streaming(_) | Self::Broken(_) => false,
        }
    }

    /// Returns the stage of a log without a load: `Empty` or `Streaming`.
    fn begun(tail: Box<Tail>) -> Self {
        if tail.is_empty() {
            Self::Empty(tail)
        } else {
            Self::Streaming(tail)
        }
    }

    /// Takes changes. `take` gets the place of a load that the changes may reach. It returns the
    /// first change or position at or behind this place.
    pub(crate) fn take(
        self,
        take: impl FnOnce(&mut Tail, Option<Lsn>) -> Result<Option<First>, Error>,
    ) -> Step<()> {
        match self {
            Self::Planned(tail) => (Self::Planned(tail), refused(LoadRefusal::NotBegun)),
            Self::Empty(mut tail) | Self::Streaming(mut tail) => {
                let taken = take(&mut tail, None);
                (Self::begun(tail), taken.map(|_| ()))
            }
            Self::Before(awaited, mut tail) => match take(&mut tail, Some(awaited.place.point)) {
                Ok(Some(first)) => (Self::Crossing(awaited, first, tail), Ok(())),
                Ok(None) => (Self::Before(awaited, tail), Ok(())),
                Err(error) => (Self::Before(awaited, tail), Err(error)),
            },
            Self::Behind(awaited, last, mut tail) => {
                let taken = take(&mut tail, None);
                (Self::Behind(awaited, last, tail), taken.map(|_| ()))
            }
            // A later keepalive includes the earlier keepalive.
            Self::Crossing(awaited, first @ First::Position(_), mut tail) => {
                match take(&mut tail, Some(awaited.place.point)) {
                    Ok(later) => {
                        let first = later.unwrap_or(first);
                        (Self::Crossing(awaited, first, tail), Ok(()))
                    }
                    Err(error) => (Self::Crossing(awaited, first, tail), Err(error)),
                }
            }
            // A position that comes before the crossing has no new information.
            stage @ Self::Crossing(..) => (stage, Ok(())),
            Self::Broken(why) => (Self::Broken(why), Err(broken(why))),
        }
    }

    /// Crosses a gap, which must not have the place of a load.
    pub(crate) fn cross_gap(self, cross: impl FnOnce(&mut Tail) -> Result<(), Error>) -> Step<()> {
        match self {
            Self::Empty(mut tail) | Self::Streaming(mut tail) => {
                let crossed = cross(&mut tail);
                (Self::begun(tail), crossed)
            }
            Self::Broken(why) => (Self::Broken(why), Err(broken(why))),
            stage => (stage, refused(LoadRefusal::Another)),
        }
    }

    /// Publishes the changes before a load, if a change or a position behind the load has come.
    pub(crate) fn cross(self) -> Step<()> {
        let Self::Crossing(awaited, first, mut tail) = self else {
            return (self, Ok(()));
        };
        let place = &awaited.place;
        let before = (!place.first).then_some(place.start);
        match tail.cross(before, place.point, &first) {
            Ok(last) => (Self::Behind(awaited, last, tail), Ok(())),
            Err(error) => (Self::Crossing(awaited, first, tail), Err(error)),
        }
    }

    /// Notes that the log begins with a load. `note` makes this durable.
    pub(crate) fn plan_first_load(
        self,
        note: impl FnOnce(&Place) -> Result<(), Error>,
    ) -> Step<()> {
        match self {
            Self::Empty(tail) => match note(&Place::planned(tail.last_load().saturating_add(1))) {
                Ok(()) => (Self::Planned(tail), Ok(())),
                Err(error) => (Self::Empty(tail), Err(error)),
            },
            Self::Planned(tail) => (Self::Planned(tail), Ok(())),
            Self::Broken(why) => (Self::Broken(why), Err(broken(why))),
            stage @ (Self::Streaming(_)
            | Self::Before(..)
            | Self::Crossing(..)
            | Self::Behind(..)) => (stage, refused(LoadRefusal::NotEmpty)),
        }
    }

    /// Begins a load. `point` is the consistent point of its snapshot. `note` makes its place
    /// durable.
    pub(crate) fn begin_load(
        self,
        id: LoadId,
        point: Lsn,
        note: impl FnOnce(&Place) -> Result<(), Error>,
    ) -> Step<Place> {
        let (tail, first) = match self {
            Self::Empty(tail) | Self::Streaming(tail) => (tail, false),
            Self::Planned(tail) => (tail, true),
            Self::Broken(why) => return (Self::Broken(why), Err(broken(why))),
            stage @ (Self::Before(..) | Self::Crossing(..) | Self::Behind(..)) => {
                return (stage, refused(LoadRefusal::Another));
            }
        };
        if tail.end() >= point {
            return (Self::begun(tail), refused(LoadRefusal::TooEarly));
        }
        let before = Lsn(point.0.saturating_sub(1));
        let start = if first { Lsn::INVALID } else { before };
        let number = tail.last_load().saturating_add(1);
        let place = Place {
            start,
            point,
            first,
            number,
        };
        if let Err(error) = note(&place) {
            let stage = if first {
                Self::Planned(tail)
            } else {
                Self::begun(tail)
            };
            return (stage, Err(error));
        }
        let awaited = Awaited {
            id,
            place: place.clone(),
        };
        if first {
            // The slot has no changes from before the load.
            let crossing = Self::Crossing(awaited, First::Transaction, tail);
            let (stage, crossed) = crossing.cross();
            return (stage, crossed.map(|()| place));
        }
        (Self::Before(awaited, tail), Ok(place))
    }

    /// Ends a load. `fill` publishes the load in its place, with the facts of the log at this
    /// place. Returns false while changes from before the load may still come.
    pub(crate) fn end_load(
        self,
        id: LoadId,
        fill: impl FnOnce(&Place, &BeforeLoad) -> Result<u64, Error>,
    ) -> Step<bool> {
        match self {
            Self::Before(awaited, tail) if awaited.id == id => {
                (Self::Before(awaited, tail), Ok(false))
            }
            Self::Crossing(awaited, first, tail) if awaited.id == id => {
                (Self::Crossing(awaited, first, tail), Ok(false))
            }
            Self::Behind(awaited, last, mut tail) if awaited.id == id => {
                match fill(&awaited.place, &last) {
                    Ok(segments) => {
                        tail.count_segments(segments);
                        tail.end_load(awaited.place.number);
                        (Self::Streaming(tail), Ok(true))
                    }
                    Err(error) => (Self::Behind(awaited, last, tail), Err(error)),
                }
            }
            stage => Self::no_load(stage),
        }
    }

    /// Gives up a load. If segments are behind the load, `fill` fills its place without the load.
    /// In any case, `fill` forgets the place.
    pub(crate) fn give_up_load(
        self,
        id: LoadId,
        fill: impl FnOnce(&Place, Option<(&Tail, &BeforeLoad)>) -> Result<(), Error>,
    ) -> Step<()> {
        match self {
            Self::Before(awaited, mut tail) if awaited.id == id => match fill(&awaited.place, None)
            {
                Ok(()) => {
                    tail.end_load(awaited.place.number);
                    (Self::begun(tail), Ok(()))
                }
                Err(error) => (Self::Before(awaited, tail), Err(error)),
            },
            Self::Behind(awaited, last, mut tail) if awaited.id == id => {
                if awaited.place.first {
                    return (
                        Self::Behind(awaited, last, tail),
                        refused(LoadRefusal::First),
                    );
                }
                match fill(&awaited.place, Some((&tail, &last))) {
                    Ok(()) => {
                        tail.end_load(awaited.place.number);
                        (Self::Streaming(tail), Ok(()))
                    }
                    Err(error) => (Self::Behind(awaited, last, tail), Err(error)),
                }
            }
            stage => Self::no_load(stage),
        }
    }

    fn no_load<T>(stage: Self) -> Step<T> {
        match stage {
            Self::Broken(why) => (Self::Broken(why), Err(broken(why))),
            stage => (stage, refused(LoadRefusal::NoLoad)),
        }
    }
}

fn refused<T>(why: LoadRefusal) -> Result<T, Error> {
    Err(ErrorKind::Load { why }.into())
}

fn broken(why: BrokenBy) -> Error {
    ErrorKind::Broken { why }.into()
}

/// Whether the writer cannot go on after this error, and why.
pub(crate) const fn breaks(error: &Error) -> Option<BrokenBy> {
    match error.kind {
        ErrorKind::NotSynced { .. } => Some(BrokenBy::NotSynced),
        ErrorKind::Replaced => Some(BrokenBy::Replaced),
        ErrorKind::Published => Some(BrokenBy::OtherWriter),
        _ => None,
    }
}
