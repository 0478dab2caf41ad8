//! Looks at a log before a writer changes it.

use crate::error::{Error, ErrorKind, SourcePart};
use crate::format::blocks::checksum;
use crate::format::index::Index;
use crate::format::journal::{Extent, Header};
use crate::format::listing::{ATTEMPTS, Listing, look};
use crate::format::prepared::PreparedName;
use crate::format::segment::{Foot, SegmentName};
use crate::format::state::State;
use crate::store::{OPEN, Objects, ReadAt};
use crate::write::journaled::Journaled;
use crate::write::recovery::{Repair, Seen, SeenJournal, SeenSegment, plan};
use std::collections::BTreeMap;
use std::io;
use walrow_stream::fact::Source;
use walrow_wire::Lsn;

/// The parts of a log that a writer has seen, and the repairs that the log needs.
#[derive(Debug)]
pub(crate) struct Looked {
    pub(crate) seen: Seen,
    pub(crate) repairs: Vec<Repair>,
    /// The foot of the last whole segment.
    pub(crate) foot: Option<Foot>,
    /// The number of the last load that ended.
    pub(crate) last_load: u64,
}

impl Looked {
    /// Looks at the objects of a log. The caller has read its journal.
    pub(crate) fn at(
        objects: &dyn Objects,
        journal: Option<(&Header, &Journaled)>,
    ) -> Result<Self, Error> {
        look(|| Self::once(objects, journal))
    }

    fn once(objects: &dyn Objects, journal: Option<(&Header, &Journaled)>) -> Result<Self, Error> {
        let state = State::read(objects)?;
        let listing = Listing::of(objects)?;
        let mut names = listing.segments;
        names.retain(|name| name.start >= state.boundary);
        let index = Index::read(objects, &names)?;
        let ended = state.ended(index.segments.iter().map(|it| it.load));
        let whole = index.segments.iter().rfind(|it| !it.continues);
        let foot = whole.map(|it| Foot::read(objects, it.name())).transpose()?;
        let mut prepared = BTreeMap::new();
        for name in listing.prepared {
            let object = name.object();
            let io = |error| Error::store(&object, &error);
            let mut file = objects.open(&object).map_err(io)?;
            prepared.insert(name, checksum(&mut *file).map_err(io)?);
        }
        let seen = Seen {
            boundary: state.boundary,
            pending: state.pending(ended).cloned(),
            has_place: state.place.is_some(),
            loaded: state.loaded.unwrap_or_default(),
            segments: index.segments.iter().map(SeenSegment::of).collect(),
            source: foot.as_ref().map(|it| it.source.clone()),
            undecided: foot.as_ref().and_then(|it| it.undecided.clone()),
            indexed: index.others,
            journal: journal.map(|(header, found)| SeenJournal {
                header: header.clone(),
                first: found.first(),
                end: found.end(),
                has_changes: found.has_changes(),
                has_facts: found.has_facts(),
                undecided: found.undecided().to_vec(),
                decided: found.decided().to_vec(),
            }),
            prepared,
        };
        Ok(Self {
            repairs: plan(&seen)?,
            last_load: ended,
            seen,
            foot,
        })
    }

    /// Returns where the segments end after the repairs, and the number of the last load that
    /// ended.
    pub(crate) fn after(&self) -> (Lsn, u64) {
        let mut end = self.foot.as_ref().map_or(self.seen.boundary, |it| it.end);
        let mut last_load = self.last_load;
        for repair in &self.repairs {
            match repair {
                Repair::BeginAgain => end = Lsn::INVALID,
                Repair::FillPlace { point, .. } => end = end.max(*point),
                Repair::RemovePlace => {
                    let pending = self.seen.pending.as_ref();
                    last_load = pending.map_or(last_load, |place| place.number);
                }
                _ => {}
            }
        }
        (end, last_load)
    }

    /// The source of the changes, from the last whole segment, or else from the journal.
    pub(crate) fn source(&self) -> Option<&Source> {
        let of_foot = self.foot.as_ref().map(|it| &it.source);
        let of_journal = self.seen.journal.as_ref().map(|it| &it.header.source);
        of_foot.or(of_journal)
    }

    /// The prepared transactions that the repairs keep, with the CRC-32C of each object.
    pub(crate) fn undecided(&self) -> BTreeMap<PreparedName, u32> {
        if self.repairs.contains(&Repair::BeginAgain) {
            return BTreeMap::new();
        }
        let mut undecided = self.seen.prepared.clone();
        for repair in &self.repairs {
            if let Repair::ForgetPrepared { xid, end } = *repair {
                undecided.remove(&PreparedName { end, xid });
            }
        }
        undecided
    }

    /// The segments, except the parts that the repairs remove.
    pub(crate) fn kept(&self) -> Vec<SegmentName> {
        let names = self.seen.segments.iter().map(|it| it.name);
        let removed: &[_] = match self.repairs.first() {
            Some(Repair::RemoveParts(parts)) => parts,
            _ => &[],
        };
        names.filter(|name| !removed.contains(name)).collect()
    }
}

/// Refuses changes of another source. A part of the source is compared only if both sources have
/// it.
pub(crate) fn compare(log: &Source, found: &Source) -> Result<(), Error> {
    let fields = [
        (
            SourcePart::SystemIdentifier,
            &log.system_identifier,
            &found.system_identifier,
        ),
        (SourcePart::Database, &log.database, &found.database),
        (SourcePart::Slot, &log.slot, &found.slot),
    ];
    for (what, log, found) in fields {
        if let (Some(log), Some(found)) = (log, found)
            && log != found
        {
            let (log, found) = (log.clone(), found.clone());
            return Err(Error::new("", ErrorKind::OtherSource { what, log, found }));
        }
    }
    Ok(())
}

/// Returns the repairs that the next writer of a log will do. The log stays unchanged. The list is
/// empty if the log needs no repair.
///
/// A writer may use the log meanwhile. Then the list has the repairs that would be needed if that
/// writer stopped now.
///
/// # Errors
/// The objects are not a log. The log is damaged so that a writer would refuse it. The store
/// failed.
pub fn check(objects: &dyn Objects) -> Result<Vec<Repair>, Error> {
    let mut attempts = 1..ATTEMPTS;
    loop {
        let checked = check_once(objects);
        // A writer may publish a segment between two looks.
        if checked.is_ok() || attempts.next().is_none() {
            return checked;
        }
    }
}

fn check_once(objects: &dyn Objects) -> Result<Vec<Repair>, Error> {
    if !Listing::of(objects)?.is_log {
        return Err(ErrorKind::NotALog.into());
    }
    let journal = match objects.open(OPEN) {
        Ok(mut file) => read_journal(&mut *file)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::store(OPEN, &error)),
    };
    let journal = journal.as_ref().map(|(header, found)| (header, found));
    let repairs = Looked::at(objects, journal)?.repairs;
    let is_needed = |it: &Repair| !matches!(it, Repair::KeepJournal { .. });
    Ok(repairs.into_iter().filter(is_needed).collect())
}

fn read_journal(file: &mut dyn ReadAt) -> Result<Option<(Header, Journaled)>, Error> {
    let extent = Extent::of(file)?;
    let found = Journaled::read(file, extent.blocks)?;
    Ok(extent.header.map(|header| (header, found)))
}
