//! A log as its readers see it.

use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::index::{Index, Segment, TableVersion, check_order};
use crate::log::listing::{ATTEMPTS, Listing};
use crate::log::load_place::Place;
use crate::log::reader::SegmentReader;
use crate::log::segment::{Foot, SegmentName};
use crate::log::state::Pruned;
use crate::log::store::Store;

use std::sync::Arc;
use walrow_stream::End;
use walrow_stream::fact::Source;
use walrow_wire::Lsn;

/// The published segments of a log.
///
/// It is what was published when the log was opened, or followed last. Any number of readers may
/// have a log open beside its writer.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, Log, Plan, Writer, WriterOptions};
///
/// # let path = std::env::temp_dir().join(format!("walrow-view-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&path);
/// # drop(Writer::open(Arc::new(Directory::create(&path)?), WriterOptions::default())?);
/// let log = Log::open(Arc::new(Directory::open(&path)?))?;
/// let mut chunk = Vec::new();
/// for name in log.plan(&Plan::default())? {
///     let mut segment = log.segment(name)?;
///     while segment.read(&mut chunk)? {
///         println!("{} bytes of wire frames", chunk.len());
///     }
/// }
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Log {
    pub(super) store: Arc<dyn Store>,
    pub(super) index: Index,
    pub(super) pruned: Pruned,
}

/// What to read of a log.
#[derive(Default)]
#[non_exhaustive]
pub struct Plan<'a> {
    /// Skips transactions that end at or before this LSN.
    pub start: Lsn,
    /// Stops after the last transaction up to there.
    pub end: Option<End>,
    /// Whether a table is read. `None` for all tables, and for what is not a table: logical
    /// messages, for example.
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
    pub fn open(store: Arc<dyn Store>) -> Result<Self, Error> {
        for _ in 1..ATTEMPTS {
            match Self::open_once(Arc::clone(&store)) {
                // A list that is made while segments are published or pruned may lack one of them.
                Err(error) if error.is_missing() => {}
                opened => return opened,
            }
        }
        Self::open_once(store)
    }

    fn open_once(store: Arc<dyn Store>) -> Result<Self, Error> {
        let listing = Listing::of(&*store)?;
        if !listing.is_log {
            return Err(Error::new("", ErrorKind::NotALog));
        }
        let names = listing.segments;
        let pruned = Pruned::read(&*store)?;
        let kept = names.partition_point(|name| name.start < pruned.until);
        let mut index = Index::read(&*store, names.get(kept..).unwrap_or_default())?;
        if let Some(place) = Place::read(&*store)? {
            hide_later(&place, &mut index.segments);
        }
        check_order(&index.segments, pruned.until)?;
        drop_incomplete(&mut index.segments);
        Ok(Self {
            store,
            index,
            pruned,
        })
    }

    /// The objects of the log.
    pub fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Where the changes come from.
    pub const fn source(&self) -> &Source {
        &self.index.source
    }

    /// The segments, in order.
    pub fn segments(&self) -> &[Segment] {
        &self.index.segments
    }

    /// All relation versions, in the order in which they came. The segments refer to them.
    pub fn versions(&self) -> &[Arc<TableVersion>] {
        &self.index.versions
    }

    /// Where the log begins: the end of what was removed, or 0/0.
    pub const fn start(&self) -> Lsn {
        self.pruned.until
    }

    /// Where the log ends.
    pub fn end(&self) -> Lsn {
        let last = self.index.segments.last();
        last.map_or(self.pruned.until, |segment| segment.end)
    }

    /// The segments to read, in order. Each of them can be read alone, except for the parts of a large
    /// transaction.
    ///
    /// # Errors
    /// [`ErrorKind::Pruned`] if segments after the start were removed that have what is read.
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
            // The transactions after it are later than the end, or the cut is in this segment.
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

    /// Segments that together have each relation version of the tables that are wanted.
    pub fn examples(&self, wants: &dyn Fn(&TableVersion) -> bool) -> Vec<SegmentName> {
        let wanted = self.index.versions.iter().map(|version| wants(version));
        let mut missing: Vec<bool> = wanted.collect();
        let mut has_missing = |segment: &Segment| {
            let mut found = false;
            for table in &segment.tables {
                if let Some(missing) = missing.get_mut(table.version) {
                    found |= std::mem::take(missing);
                }
            }
            found
        };
        chains(&self.index.segments)
            .flat_map(|chain| of_chain(chain, &mut has_missing))
            .collect()
    }

    /// The segments from the one on that has the first transaction after this LSN.
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

    /// Whether the segment has what is read.
    fn has(&self, segment: &Segment, plan: &Plan<'_>) -> bool {
        plan.table.is_none_or(|wants| {
            segment.tables.iter().any(|table| {
                let version = self.index.versions.get(table.version);
                version.is_some_and(|version| wants(version))
            })
        })
    }

    /// Refuses a start before what was removed.
    fn check_pruned(&self, plan: &Plan<'_>) -> Result<(), Error> {
        let until = self.pruned.until;
        // Without a start, everything that there is.
        if !plan.start.is_valid() || plan.start >= until {
            return Ok(());
        }
        let removed = match plan.table {
            None => true,
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

    /// Opens a segment.
    ///
    /// # Errors
    /// It is damaged, was removed, or cannot be read.
    pub fn segment(&self, name: SegmentName) -> Result<SegmentReader, Error> {
        let segments = &self.index.segments;
        let place = segments.binary_search_by_key(&name, Segment::name).ok();
        let end = place.and_then(|it| segments.get(it)).map(|it| it.end);
        SegmentReader::open_after(&*self.store, name, end, Lsn::INVALID)
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
            let foot = match Foot::read(&*self.store, name) {
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
        let (end, pruned) = (self.end(), Pruned::read(&*self.store)?);
        if pruned.until <= end && pruned.merged <= end {
            return Ok(0);
        }
        // The next segments were removed or merged before they were seen.
        *self = Self::open(Arc::clone(&self.store))?;
        let segments = self.index.segments.iter();
        Ok(segments.filter(|segment| segment.end > end).count())
    }

    /// Reads all bytes of a segment, and compares them with its checksums and its foot.
    ///
    /// # Errors
    /// The segment is damaged, or cannot be read.
    pub fn verify(&self, segment: &Segment) -> Result<(), Error> {
        let mut reader = self.segment(segment.name())?;
        let foot = reader.foot();
        let is_described = |segment: &Segment| {
            // One that was merged since has other bytes: its checksum is in its foot.
            (segment.start, segment.part) != (foot.start, foot.part)
                || (segment.end, segment.crc32c, segment.bytes)
                    == (foot.end, foot.crc32c, foot.bytes)
        };
        if !is_described(segment) {
            // It may be rewritten since.
            let now = Self::open(Arc::clone(&self.store))?;
            let mut now = now.segments().iter();
            let now = now.find(|it| it.name() == segment.name());
            if !now.is_some_and(is_described) {
                let what = DamagedPart::Foot;
                return Err(Error::new(
                    &segment.name().to_string(),
                    ErrorKind::Damaged { what },
                ));
            }
        }
        let mut chunk = Vec::new();
        while reader.read(&mut chunk)? {}
        Ok(())
    }
}

/// The names of a chain's segments that are wanted, and of its last one, which says where the
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

/// Runs of segments that have one transaction in parts. Most runs are one segment.
pub(crate) fn chains(segments: &[Segment]) -> impl Iterator<Item = &[Segment]> {
    segments.chunk_by(|one, _| one.continues)
}

/// Drops the segments after the place of a load, unless the load is complete.
fn hide_later(place: &Place, segments: &mut Vec<Segment>) {
    let last = segments.iter().rfind(|it| it.start == place.start);
    let is_complete = last.is_some_and(|last| last.end == place.point && !last.continues);
    if !is_complete {
        segments.retain(|segment| segment.start < place.point);
    }
}

/// Drops the parts of a transaction that are not all published yet.
fn drop_incomplete(segments: &mut Vec<Segment>) {
    while segments.last().is_some_and(|last| last.continues) {
        segments.pop();
    }
}
