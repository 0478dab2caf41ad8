//! Plans the repairs of a log before a writer changes it, or finds why no repair is possible.
//! [`plan`] decides from the objects that were seen, and changes no object.
//!
//! ```text
//! look ─► Seen ─► plan ─► repairs ─► repair
//! ```

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::journal::Header;
use crate::format::load_place::Place;
use crate::format::prepared::PreparedName;
use crate::format::segment::SegmentName;
use crate::format::state::STATE;
use crate::format::undecided::Undecided;
use crate::store::OPEN;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use walrow_stream::fact::Source;
use walrow_wire::Lsn;

/// A step of a log's recovery. A step may be done twice.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Removes the parts of a transaction that lacks some of its parts.
    RemoveParts(Vec<SegmentName>),
    /// Fills the place of a load that was broken off.
    FillPlace {
        /// Where the segments before the load end.
        start: Lsn,
        /// Where the segments after the load begin.
        point: Lsn,
    },
    /// Forgets the place of a load that has ended, or that has no segments after it.
    RemovePlace,
    /// Removes everything: the load that the log begins with was broken off.
    BeginAgain,
    /// Publishes the transactions of the journal.
    PublishJournal {
        /// Where the transactions end.
        end: Lsn,
    },
    /// Keeps a journal without transactions. It has facts about the server or about prepared
    /// transactions, or the LSN that the server has reached.
    KeepJournal {
        /// Where the log ends.
        end: Lsn,
    },
    /// Empties the journal: all of it is in segments, or was never confirmed to a server.
    ClearJournal,
    /// Removes a prepared transaction that is decided, or that the server sends again.
    ForgetPrepared {
        /// The ID of the transaction.
        xid: u32,
        /// The LSN where its prepare record ends.
        end: Lsn,
    },
}

impl fmt::Display for Repair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RemoveParts(parts) => {
                write!(f, "remove parts of a transaction that was not complete:")?;
                parts.iter().try_for_each(|part| write!(f, " {part}"))
            }
            Self::FillPlace { start, point } => write!(
                f,
                "fill the place of a load that was broken off, from {start} to {point}"
            ),
            Self::RemovePlace => f.write_str("forget the place of a load that has ended"),
            Self::BeginAgain => {
                f.write_str("remove everything: the load that the log begins with was broken off")
            }
            Self::PublishJournal { end } => {
                write!(f, "publish the transactions of the journal, up to {end}")
            }
            Self::KeepJournal { end } => write!(
                f,
                "keep the journal, which has no transactions: the log ends at {end}"
            ),
            Self::ClearJournal => {
                f.write_str("empty the journal: what it has is published, or was never confirmed")
            }
            Self::ForgetPrepared { xid, end } => write!(
                f,
                "remove the prepared transaction {xid} of {end}, which is decided, or is sent again"
            ),
        }
    }
}

/// Why a log cannot be repaired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Damage {
    /// A segment is missing.
    Missing { after: Lsn },
    /// The journal has transactions from before the end of the segments.
    Order,
    /// The journal is of another source than the segments.
    Journal,
    /// A prepared transaction is missing.
    Prepared(PreparedName),
    /// A prepared transaction differs from the saved transaction.
    OtherPrepared(PreparedName),
    /// The state has the place of a first load that is not in this log.
    Place,
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        let damaged = |object: &str, what| Self::new(object, ErrorKind::Damaged { what });
        match damage {
            Damage::Missing { after } => Self::new("", ErrorKind::Missing { after }),
            Damage::Order => damaged(OPEN, DamagedPart::Order),
            Damage::Journal => damaged(OPEN, DamagedPart::Source),
            Damage::Prepared(name) => Self::new(&name.object(), ErrorKind::Absent),
            Damage::OtherPrepared(name) => damaged(&name.object(), DamagedPart::Prepared),
            Damage::Place => damaged(STATE, DamagedPart::State),
        }
    }
}

/// The parts of a log that were seen before a writer changes it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// Where the log begins.
    pub(crate) boundary: Lsn,
    /// The place of a load that has not ended.
    pub(crate) pending: Option<Place>,
    /// Whether the state has a place at all.
    pub(crate) has_place: bool,
    /// Where the last load ended.
    pub(crate) loaded: Lsn,
    /// The segments, in order.
    pub(crate) segments: Vec<SeenSegment>,
    /// The source of the changes, from the last whole segment.
    pub(crate) source: Option<Source>,
    /// The prepared transactions that were not decided, from the last whole segment.
    pub(crate) undecided: Option<Vec<Undecided>>,
    /// Other segments that the index names.
    pub(crate) indexed: BTreeSet<SegmentName>,
    /// `None` if the journal is empty.
    pub(crate) journal: Option<SeenJournal>,
    /// The prepared transactions, and the CRC-32C of each object.
    pub(crate) prepared: BTreeMap<PreparedName, u32>,
}

/// A segment that was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SeenSegment {
    pub(crate) name: SegmentName,
    pub(crate) end: Lsn,
    pub(crate) continues: bool,
}

impl SeenSegment {
    pub(crate) fn of(segment: &Segment) -> Self {
        Self {
            name: segment.name(),
            end: segment.end,
            continues: segment.continues,
        }
    }
}

/// The journal up to its last whole block between transactions.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenJournal {
    pub(crate) header: Header,
    /// Where the first transaction, message or position ends.
    pub(crate) first: Option<Lsn>,
    /// Where the last transaction, message or position ends.
    pub(crate) end: Lsn,
    /// Whether there are transactions or messages.
    pub(crate) has_changes: bool,
    /// Whether there are facts about the source or about prepared transactions.
    pub(crate) has_facts: bool,
    /// Transactions that were prepared, also if they were decided later.
    pub(crate) undecided: Vec<PreparedName>,
    /// Transactions of `undecided` and of the header that were decided, and not prepared again.
    pub(crate) decided: Vec<PreparedName>,
}

/// Returns the repairs that a log needs, in order.
pub(crate) fn plan(seen: &Seen) -> Result<Vec<Repair>, Damage> {
    if let Some(place) = seen.pending.as_ref().filter(|place| place.first) {
        return begin_again(seen, place);
    }
    let chain = Chain::of(seen)?;
    // In a log that can be written, the index is never ahead of the segments.
    let is_indexed = seen.indexed.iter().any(|it| it.start >= chain.end);
    if is_indexed || chain.end < seen.loaded {
        return Err(Damage::Missing { after: chain.end });
    }
    let mut repairs = Vec::new();
    if !chain.parts.is_empty() {
        repairs.push(Repair::RemoveParts(chain.parts.clone()));
    }
    let mut end = chain.end;
    if let Some(Place { start, point, .. }) = seen.pending
        && (chain.crosses || chain.end == start)
    {
        repairs.push(Repair::FillPlace { start, point });
        end = end.max(point);
    }
    if seen.has_place {
        repairs.push(Repair::RemovePlace);
    }
    repairs.extend(plan_journal(seen, &chain, end)?);
    repairs.extend(plan_prepared(seen, &chain)?);
    Ok(repairs)
}

/// Plans to remove everything, because a log without its first load is useless. Refuses other
/// segments than the parts of the load and the segments behind it.
fn begin_again(seen: &Seen, place: &Place) -> Result<Vec<Repair>, Damage> {
    let belongs = |segment: &SeenSegment| {
        let is_part = segment.continues && !segment.name.start.is_valid();
        place.point.is_valid() && (is_part || segment.name.start >= place.point)
    };
    if seen.boundary.is_valid() || !seen.segments.iter().all(belongs) {
        return Err(Damage::Place);
    }
    Ok(vec![Repair::BeginAgain])
}

/// The segments that follow each other.
struct Chain {
    /// Where the last whole segment ends.
    end: Lsn,
    /// The parts of transactions that are not complete.
    parts: Vec<SegmentName>,
    /// Whether there are segments behind the place of a load.
    crosses: bool,
}

impl Chain {
    /// Follows the segments. There may be one gap: the place of a load.
    fn of(seen: &Seen) -> Result<Self, Damage> {
        let mut chain = Self {
            end: seen.boundary,
            parts: Vec::new(),
            crosses: false,
        };
        let first = SegmentName {
            start: seen.boundary,
            part: 0,
        };
        let mut next = Some(first);
        let mut parts = Vec::new();
        for segment in &seen.segments {
            let SeenSegment {
                name,
                end,
                continues,
            } = *segment;
            if next != Some(name.place()) {
                let is_behind = seen.pending.as_ref().is_some_and(|place| {
                    name.place().start == place.point
                        && name.place().part == 0
                        && chain.end == place.start
                });
                if !is_behind || chain.crosses {
                    return Err(Damage::Missing { after: chain.end });
                }
                // The parts of the load.
                chain.parts.append(&mut parts);
                chain.crosses = true;
            }
            if continues {
                parts.push(name);
            } else {
                parts.clear();
                chain.end = end;
            }
            next = name.next(end, continues);
        }
        chain.parts.append(&mut parts);
        Ok(chain)
    }
}

impl SeenJournal {
    /// Whether segments have all of the journal, because its writer stopped before it emptied the
    /// journal.
    fn is_published(&self, chain: &Chain) -> bool {
        self.header.begin < chain.end && self.end <= chain.end
    }
}

/// Whether the two sources have different servers, databases or slots, as far as both have them.
fn is_other(one: &Source, other: &Source) -> bool {
    let fields = [
        (&one.system_identifier, &other.system_identifier),
        (&one.database, &other.database),
        (&one.slot, &other.slot),
    ];
    let mut fields = fields.iter();
    fields.any(|(one, other)| one.is_some() && other.is_some() && one != other)
}

/// Decides about the journal. The segments end at `end` after a place is filled.
fn plan_journal(seen: &Seen, chain: &Chain, end: Lsn) -> Result<Option<Repair>, Damage> {
    let Some(journal) = &seen.journal else {
        return Ok(None);
    };
    if let Some(source) = &seen.source
        && is_other(source, &journal.header.source)
    {
        return Err(Damage::Journal);
    }
    if journal.header.begin > end {
        return Err(Damage::Missing { after: chain.end });
    }
    let first = journal.first.unwrap_or(journal.end);
    if journal.end > end && first <= end {
        return Err(Damage::Order);
    }
    let has_something = journal.first.is_some() || journal.has_facts;
    Ok(Some(
        if !has_something
            || journal.is_published(chain)
            || journal.first.is_some_and(|it| it <= end)
        {
            Repair::ClearJournal
        } else if journal.has_changes {
            Repair::PublishJournal { end: journal.end }
        } else {
            let end = end.max(journal.end);
            Repair::KeepJournal { end }
        },
    ))
}

/// Returns the prepared transactions that the log must have. The newest record names them: the
/// journal or the last segment. `None` if there is no record.
fn expected(seen: &Seen, chain: &Chain) -> Option<BTreeMap<PreparedName, Option<u32>>> {
    let with_checksum = |it: &Undecided| (it.name(), Some(it.crc32c()));
    let published = || Some(seen.undecided.as_ref()?.iter().map(with_checksum).collect());
    let Some(journal) = &seen.journal else {
        return published();
    };
    if journal.is_published(chain)
        && let Some(undecided) = published()
    {
        return Some(undecided);
    }
    let mut expected: BTreeMap<_, _> = journal.header.undecided.iter().map(with_checksum).collect();
    for name in &journal.undecided {
        // The header may have the checksum of an earlier object.
        expected.insert(*name, None);
    }
    for name in &journal.decided {
        expected.remove(name);
    }
    Some(expected)
}

fn plan_prepared(seen: &Seen, chain: &Chain) -> Result<Vec<Repair>, Damage> {
    // Without a record, all prepared transactions stay.
    let Some(expected) = expected(seen, chain) else {
        return Ok(Vec::new());
    };
    for (name, crc32c) in &expected {
        match (seen.prepared.get(name), crc32c) {
            (None, _) => return Err(Damage::Prepared(*name)),
            (Some(found), Some(crc32c)) if found != crc32c => {
                return Err(Damage::OtherPrepared(*name));
            }
            _ => {}
        }
    }
    let forgotten = seen.prepared.keys().filter(|it| !expected.contains_key(it));
    let forgotten = forgotten.map(|name| Repair::ForgetPrepared {
        xid: name.xid,
        end: name.end,
    });
    Ok(forgotten.collect())
}

#[cfg(test)]
mod tests;
