//! A log as its readers see it.

use crate::error::{Error, ErrorKind};
use crate::format::index::{Index, Segment, check_order};
use crate::format::listing::{Listing, look};
use crate::format::registered_reader::RegisteredReader;
use crate::format::segment::{Foot, SegmentName};
use crate::format::state::State;
use crate::format::version::TableVersion;
use crate::store::Objects;

use std::collections::BTreeMap;
use std::sync::Arc;
use walrow_stream::End;
use walrow_stream::fact::Source;
use walrow_wire::{Lsn, Oid};

/// The published segments of a log.
///
/// It has the segments that were published when the log was opened, or followed last. Any number of
/// readers may have a log open beside its writer.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, Log, Plan, Writer, WriterOptions};
/// use walrow_wire::Lsn;
///
/// # let path = std::env::temp_dir().join(format!("walrow-view-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&path);
/// # drop(Writer::open(Arc::new(Directory::create(&path)?), WriterOptions::default())?);
/// let log = Log::open(Arc::new(Directory::open(&path)?))?;
/// let mut stream = log.read(&log.plan(&Plan::default())?, Lsn::INVALID)?;
/// let mut chunk = Vec::new();
/// while stream.read(&mut chunk)? {
///     println!("{} bytes of wire frames", chunk.len());
/// }
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Log {
    objects: Arc<dyn Objects>,
    index: Index,
    state: State,
}

/// The part of a log that is read.
#[derive(Default)]
#[non_exhaustive]
pub struct Plan<'a> {
    /// Skips transactions that end at or before this LSN.
    pub start: Lsn,
    /// Stops after the last transaction up to this end.
    pub end: Option<End>,
    /// Whether a table is read. `None` reads all tables, and also messages that belong to no table:
    /// logical messages, for example.
    pub table: Option<&'a dyn Fn(&TableVersion) -> bool>,
}

impl std::fmt::Debug for Plan<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Plan")
            .field("start", &self.start)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

impl Log {
    /// Opens a log.
    ///
    /// # Errors
    /// It is not a log, a segment is missing or damaged, or the store failed.
    #[expect(clippy::needless_pass_by_value, reason = "the log keeps the store")]
    pub fn open(objects: Arc<dyn Objects>) -> Result<Self, Error> {
        look(|| Self::open_once(Arc::clone(&objects)))
    }

    fn open_once(objects: Arc<dyn Objects>) -> Result<Self, Error> {
        let listing = Listing::of(&*objects)?;
        if !listing.is_log {
            return Err(Error::new("", ErrorKind::NotALog));
        }
        let names = listing.segments;
        let state = State::read(&*objects)?;
        let kept = names.partition_point(|name| name.start < state.boundary);
        let mut index = Index::read(&*objects, names.get(kept..).unwrap_or_default())?;
        leave_out_hidden(&mut index, &state);
        check_order(&index.segments, state.boundary)?;
        drop_incomplete(&mut index.segments);
        Ok(Self {
            objects,
            index,
            state,
        })
    }

    /// The LSN where the log ends, if its index names a later segment that is not there. The
    /// segment was lost, or the log is a copy that is still being made.
    pub fn missing(&self) -> Option<Lsn> {
        let end = self.end();
        let mut others = self.index.others.iter();
        others.any(|name| name.start >= end).then_some(end)
    }

    /// The objects of the log.
    pub fn objects(&self) -> Arc<dyn Objects> {
        Arc::clone(&self.objects)
    }

    /// The index, which describes the contents of all segments.
    pub(crate) const fn index(&self) -> &Index {
        &self.index
    }

    /// The state of the log beside its segments.
    pub(crate) const fn state_object(&self) -> &State {
        &self.state
    }

    /// The source of the changes.
    pub const fn source(&self) -> &Source {
        &self.index.source
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.index.segments
    }

    /// All relation versions, in the order of their first appearance. The segments refer to them.
    pub fn versions(&self) -> &[Arc<TableVersion>] {
        &self.index.versions
    }

    /// The LSN where the log begins: the end of the removed segments, or 0/0.
    pub const fn start(&self) -> Lsn {
        self.state.boundary
    }

    /// The LSN where the log ends.
    pub fn end(&self) -> Lsn {
        let last = self.index.segments.last();
        last.map_or(self.state.boundary, |segment| segment.end)
    }

    /// The segments to read, in order. Each of them can be read alone, except for the parts of a large
    /// transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Pruned`] if segments after the start were removed that have changes to read.
    pub fn plan(&self, plan: &Plan<'_>) -> Result<Vec<SegmentName>, Error> {
        self.check_pruned(plan)?;
        let mut names = Vec::new();
        for chain in chains(self.after(plan.start)) {
            let Some(last) = chain.last() else { continue };
            let is_after = match plan.end {
                Some(End::Lsn(end)) => last.start >= end,
                _ => false,
            };
            if is_after {
                break;
            }
            if last.end > plan.start {
                names.extend(of_chain(chain, |segment| self.has(segment, plan)));
            }
            // Later transactions come after the end, or the end is inside of this segment.
            if let Some(End::Time(time)) = plan.end
                && chain
                    .iter()
                    .any(|it| it.times.is_some_and(|(_, greatest)| greatest > time.0))
            {
                break;
            }
        }
        Ok(names)
    }

    /// The names of segments that together have each relation version of the wanted tables, as
    /// transactions after an LSN use it: types may have other definitions before. Without such
    /// transactions, the earlier versions.
    pub fn examples(&self, wants: &dyn Fn(&TableVersion) -> bool, after: Lsn) -> Vec<SegmentName> {
        let wanted = self.index.versions.iter().map(|version| wants(version));
        let mut missing: Vec<bool> = wanted.collect();
        let mut has_missing = |segment: &Segment| {
            let mut found = false;
            for table in segment.tables.iter().filter(|it| it.last > after) {
                if let Some(missing) = missing.get_mut(table.version) {
                    found |= std::mem::take(missing);
                }
            }
            found
        };
        let chains = chains(&self.index.segments);
        let names: Vec<_> = chains
            .flat_map(|chain| of_chain(chain, &mut has_missing))
            .collect();
        if names.is_empty() && after.is_valid() {
            return self.examples(wants, Lsn::INVALID);
        }
        names
    }

    /// The segments, beginning with the segment that has the first transaction after this LSN.
    fn after(&self, lsn: Lsn) -> &[Segment] {
        let segments = &self.index.segments;
        let upto = segments.partition_point(|segment| segment.start <= lsn);
        let last = upto.checked_sub(1).and_then(|last| segments.get(last));
        // The parts of a large transaction have one start.
        let first = last.map_or(0, |last| {
            segments.partition_point(|segment| segment.start < last.start)
        });
        segments.get(first..).unwrap_or_default()
    }

    /// Whether the segment has changes to read.
    ///
    /// A gap is one in each table.
    fn has(&self, segment: &Segment, plan: &Plan<'_>) -> bool {
        !segment.gaps.is_empty()
            || plan.table.is_none_or(|wants| {
                segment.tables.iter().any(|table| {
                    let version = self.index.versions.get(table.version);
                    version.is_some_and(|version| wants(version))
                })
            })
    }

    /// Refuses a start before removed changes that would be read.
    fn check_pruned(&self, plan: &Plan<'_>) -> Result<(), Error> {
        let until = self.state.boundary;
        // Without a start, the plan has all segments that are there.
        if !plan.start.is_valid() || plan.start >= until {
            return Ok(());
        }
        let removed = match plan.table {
            None => true,
            _ if self.state.gap.is_some_and(|end| end > plan.start) => true,
            Some(wants) => self.removed().any(|(oid, schema, name, end)| {
                end > plan.start
                    && wants(&TableVersion {
                        oid,
                        schema: schema.to_owned(),
                        name: name.to_owned(),
                        columns: Vec::new(),
                        identity: 'n',
                    })
            }),
        };
        if removed {
            let start = plan.start;
            return Err(Error::new("", ErrorKind::Pruned { start, until }));
        }
        Ok(())
    }

    /// For each table, by OID, the LSN where the last transaction with erased rows ends, as of now.
    /// Readers that are further back never get the erased changes. Empty if no rows were erased.
    ///
    /// # Errors
    /// The record is damaged, or the store failed.
    pub fn erased(&self) -> Result<BTreeMap<Oid, Lsn>, Error> {
        let erased = State::read(&*self.objects)?.erased.into_iter();
        Ok(erased.map(|(oid, it)| (oid, it.end)).collect())
    }

    /// The LSNs where the last removed changes of tables end, by OID and name. Empty if no changes
    /// were removed.
    pub fn removed(&self) -> impl Iterator<Item = (Oid, &str, &str, Lsn)> {
        self.state.removed.iter().flat_map(|(oid, it)| {
            let names = it.names();
            names.map(|it| (*oid, &*it.schema, &*it.name, it.end))
        })
    }

    /// The registered readers, by name.
    ///
    /// # Errors
    /// A record is damaged, or the store failed.
    pub fn readers(&self) -> Result<Vec<RegisteredReader>, Error> {
        registered(&*self.objects)
    }

    /// The segment of this name.
    pub(crate) fn segment_of(&self, name: SegmentName) -> Option<&Segment> {
        let segments = &self.index.segments;
        let place = segments.binary_search_by_key(&name, Segment::name).ok();
        place.and_then(|place| segments.get(place))
    }

    /// Looks for segments that were published since. Returns how many. Its cost does not grow with
    /// the log.
    ///
    /// # Errors
    /// A segment is damaged, or the store failed.
    pub fn follow(&mut self) -> Result<usize, Error> {
        let known = self.index.segments.len();
        let mut next = Some(SegmentName {
            start: self.end(),
            part: 0,
        });
        let mut feet = Vec::new();
        while let Some(name) = next {
            let foot = match Foot::read(&*self.objects, name) {
                Ok(foot) => foot,
                Err(error) if error.is_not_found() => break,
                Err(error) => return Err(error),
            };
            next = name.next(foot.end, foot.continues);
            let is_complete = !foot.continues;
            feet.push(foot);
            if is_complete {
                for foot in feet.drain(..) {
                    self.index.source = foot.source.clone();
                    self.index.add(&foot);
                }
            }
        }
        let count = self.index.segments.len().saturating_sub(known);
        if count > 0 {
            return Ok(count);
        }
        let (end, state) = (self.end(), State::read(&*self.objects)?);
        if state.boundary <= end && state.merged <= end {
            return Ok(0);
        }
        // The next segments were removed or merged before they were seen.
        *self = Self::open(Arc::clone(&self.objects))?;
        let segments = self.index.segments.iter();
        Ok(segments.filter(|segment| segment.end > end).count())
    }
}

/// The registered readers of a log.
pub(crate) fn registered(objects: &dyn Objects) -> Result<Vec<RegisteredReader>, Error> {
    let mut readers = Vec::new();
    for name in Listing::of(objects)?.readers {
        // The reader may be forgotten meanwhile.
        readers.extend(RegisteredReader::read(objects, &name)?);
    }
    Ok(readers)
}

/// The names of the wanted segments of a chain, and of its last segment, which says where the
/// transaction ends.
fn of_chain(chain: &[Segment], mut wants: impl FnMut(&Segment) -> bool) -> Vec<SegmentName> {
    let wanted = chain.iter().filter(|segment| wants(segment));
    let mut names: Vec<_> = wanted.map(Segment::name).collect();
    let last = chain.last().map(Segment::name);
    if !names.is_empty() && names.last() != last.as_ref() {
        names.extend(last);
    }
    names
}

/// The chains of segments: runs that have one transaction in parts. Most chains are one segment.
pub(crate) fn chains(segments: &[Segment]) -> impl Iterator<Item = &[Segment]> {
    segments.chunk_by(|one, _| one.continues)
}

/// Leaves out the segments behind the place of a load that has not ended.
pub(crate) fn leave_out_hidden(index: &mut Index, state: &State) {
    let ended = state.ended(index.segments.iter().map(|it| it.load));
    if let Some(place) = state.pending(ended) {
        index.segments.retain(|it| it.start < place.point);
    }
}

/// Drops the last transaction, if its parts are not all published yet.
pub(crate) fn drop_incomplete(segments: &mut Vec<Segment>) {
    while segments.last().is_some_and(|last| last.continues) {
        segments.pop();
    }
}
