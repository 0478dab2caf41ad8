//! Segments: their names, and the foot at their end.
//!
//! ```text
//! ┌────────────┬─ … ─┬────────────┬──────────────────────────────┐
//! │ zstd frame │     │ zstd frame │ skippable frame: foot, tail  │
//! └────────────┴─ … ─┴────────────┴──────────────────────────────┘
//!  whole transactions of protocol 1, or a part of a large one
//! ```
//! `zstd -d` skips the foot, and writes a stream that any decoder of pgoutput reads.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::history::{History, is_known, other_version};
use crate::format::undecided::Undecided;
use crate::store::{Objects, ReadAt, Store};
use serde::{Deserialize, Serialize};
use std::fmt;
use walrow_stream::fact::{Gap, Source};
use walrow_wire::Lsn;

/// The first part number of merged segments. No transaction has this number of parts.
pub const MERGED: u32 = 1_000_000;
/// The end of a segment's name. The name of a capture ends differently.
pub(crate) const SUFFIX: &str = ".wire.zst";

/// The name of a segment: the LSN where the segment before it ends, and a part number.
///
/// So two writers that continue the same log always want the same name. Names sort in the order of
/// the log.
///
/// ```
/// use walrow_log::SegmentName;
/// use walrow_wire::Lsn;
///
/// let name = SegmentName { start: Lsn(0x1_0192_3A28), part: 0 };
/// assert_eq!(name.to_string(), "0000000101923A28-00000.wire.zst");
/// assert_eq!(SegmentName::parse("0000000101923A28-00000.wire.zst"), Some(name));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentName {
    /// The LSN where the segment before it ends.
    pub start: Lsn,
    /// The number of earlier segments that begin there: parts of a transaction that is larger than
    /// a segment. From [`MERGED`] on, it numbers merged segments that begin there.
    pub part: u32,
}

impl SegmentName {
    /// Parses the name of an object. `None` if it is not the name of a segment.
    pub fn parse(name: &str) -> Option<Self> {
        let (start, part) = name.strip_suffix(SUFFIX)?.split_once('-')?;
        let parsed = Self {
            start: Lsn(u64::from_str_radix(start, 16).ok()?),
            part: part.parse().ok()?,
        };
        // Other spellings of the same numbers are not names.
        (parsed.to_string() == name).then_some(parsed)
    }
}

impl SegmentName {
    /// Whether the segment was merged from several segments.
    pub const fn is_merged(self) -> bool {
        self.part >= MERGED
    }

    /// The name that the segment has unless it is merged.
    pub(crate) const fn place(self) -> Self {
        let part = if self.is_merged() { 0 } else { self.part };
        Self { part, ..self }
    }

    /// The key that sorts names by the start of their segments. With the same start, the segment
    /// that was merged last comes first.
    pub(crate) const fn order(&self) -> (Lsn, u32, u32) {
        let merged = if self.is_merged() { self.part } else { 0 };
        (self.start, u32::MAX.saturating_sub(merged), self.part)
    }

    /// The name of the segment after this segment. `None` if there are no more part numbers.
    pub(crate) fn next(self, end: Lsn, continues: bool) -> Option<Self> {
        if continues {
            let part = self.part.checked_add(1)?;
            return Some(Self { part, ..self });
        }
        Some(Self {
            start: end,
            part: 0,
        })
    }
}

impl fmt::Display for SegmentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016X}-{:05}{SUFFIX}", self.start.0, self.part)
    }
}

/// Removes segments. Skips segments that are not there.
pub(crate) fn remove(store: &dyn Store, names: &[SegmentName]) -> Result<(), Error> {
    let names: Vec<_> = names.iter().map(SegmentName::to_string).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let removed = store.remove(&names);
    removed.map_err(|error| Error::store("", &error))
}

/// The foot of a segment, which describes its contents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Foot {
    /// The version of the format.
    pub format: u32,
    /// The number of the log's history.
    #[serde(default, skip_serializing_if = "History::is_first")]
    pub(crate) history: History,
    /// The LSN where the segment before it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub start: Lsn,
    /// Its part number.
    pub part: u32,
    /// The LSN where its last transaction ends, or the position that was recorded after that
    /// transaction.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub end: Lsn,
    /// Whether its last transaction continues in the next segment.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// The source of the changes.
    pub source: Source,
    /// The prepared transactions that were not decided at the end of the segment. `None` if they
    /// are not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) undecided: Option<Vec<Undecided>>,
    /// The number of the last load that had ended at the end of the segment. The parts of a load
    /// before its last part do not have this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load: Option<u64>,
    /// The ranges in it whose changes the server did not send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Gap>,
    /// How many transactions it has. A part counts as one.
    pub transactions: u64,
    /// The least and the greatest commit time, in microseconds since 2000. Commit times are not
    /// monotonic. `None` without transactions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<(i64, i64)>,
    /// The tables that have changes in it.
    pub tables: Vec<TableFoot>,
    /// The segments that it was merged from, in order. Empty if it was not merged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<Member>,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of the frames before the foot.
    pub bytes: u64,
    /// The CRC-32C of these bytes.
    pub crc32c: u32,
}

/// A segment whose frames are a part of a merged segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Member {
    /// The LSN where the segment before it ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub start: Lsn,
    /// The LSN where its last transaction ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub end: Lsn,
    /// Bytes of the stream.
    pub stream_bytes: u64,
    /// Bytes of its frames.
    pub bytes: u64,
    /// The CRC-32C of these bytes.
    pub crc32c: u32,
}

/// The replica identity for a foot that does not say it. If all columns are in the identity, it has
/// to be taken for FULL.
pub(crate) const fn unknown_identity() -> char {
    'f'
}

/// The changes of a table in a segment, under one relation version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TableFoot {
    /// The relation.
    pub oid: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// Its columns: name, type, type modifier, and whether it is part of the replica identity.
    pub columns: Vec<(String, u32, i32, bool)>,
    /// The letter of its replica identity: `pg_class.relreplident`.
    #[serde(default = "unknown_identity")]
    pub identity: char,
    /// How many rows were inserted, updated or deleted.
    pub rows: u64,
    /// How often it was truncated.
    pub truncates: u64,
    /// Bytes of these messages.
    pub bytes: u64,
    /// The LSN where the last transaction with changes of the table ends.
    #[serde(with = "walrow_stream::fact::lsn")]
    pub last: Lsn,
    /// The LSN where the last load of the table ends. The table has the rows of the load there, so
    /// earlier changes do not matter. `None` without a load.
    #[serde(
        default,
        with = "walrow_stream::fact::lsn::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub loaded: Option<Lsn>,
}

/// The magic number of a skippable zstd frame, one of sixteen.
const SKIPPABLE: u32 = 0x184D_2A57;
/// After the foot's JSON come its CRC-32C, its size and these bytes. The last byte is the version
/// of this tail, not the version of the format.
const MAGIC: [u8; 8] = *b"walrow\x00\x01";
const TAIL: usize = 16;
/// Bytes of a skippable frame before its content.
const HEADER: usize = 8;
/// Most feet fit into one read of this many bytes.
const READ: u64 = 16 << 10;
/// Bytes of a foot, at most. Writers end a segment before its foot is larger.
pub(crate) const LARGEST_FOOT: u64 = 64 << 20;

impl Foot {
    /// The foot as a skippable frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        // Serializing plain data into memory cannot fail.
        let json = serde_json::to_vec(self).unwrap_or_default();
        let size = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX).to_le_bytes();
        let mut out = Vec::with_capacity(json.len().saturating_add(HEADER).saturating_add(TAIL));
        out.extend_from_slice(&SKIPPABLE.to_le_bytes());
        out.extend_from_slice(&size(json.len().saturating_add(TAIL)));
        out.extend_from_slice(&json);
        out.extend_from_slice(&crc32c::crc32c(&json).to_le_bytes());
        out.extend_from_slice(&size(json.len()));
        out.extend_from_slice(&MAGIC);
        out
    }

    /// Reads the foot of a segment, nearly always with one read.
    ///
    /// # Errors
    /// The object is not a segment, is damaged or cannot be read.
    pub fn read(objects: &dyn Objects, name: SegmentName) -> Result<Self, Error> {
        let object = name.to_string();
        let file = objects.open(&object);
        let mut file = file.map_err(|error| Error::store(&object, &error))?;
        Self::read_from(&mut *file, name)
    }

    /// Reads the foot of a segment that is open.
    pub(crate) fn read_from(file: &mut dyn ReadAt, name: SegmentName) -> Result<Self, Error> {
        let object = name.to_string();
        let fault = |kind| Error::new(&object, kind);
        let io = |error| Error::store(&object, &error);
        let size = file.size().map_err(io)?;
        let mut wanted = READ.min(size);
        loop {
            let mut end = vec![0; usize::try_from(wanted).unwrap_or(usize::MAX)];
            let at = size.saturating_sub(wanted);
            file.read_at(at, &mut end).map_err(io)?;
            match Self::parse(&end) {
                Ok((foot, whole)) => {
                    foot.history.check(&object)?;
                    let named = SegmentName {
                        start: foot.start,
                        part: foot.part,
                    };
                    if named != name {
                        return Err(fault(ErrorKind::Damaged {
                            what: DamagedPart::Name,
                        }));
                    }
                    // Only a part of a transaction ends where it starts.
                    if foot.end < foot.start || foot.end == foot.start && !foot.continues {
                        return Err(fault(ErrorKind::Damaged {
                            what: DamagedPart::Range,
                        }));
                    }
                    if foot.bytes.checked_add(whole) != Some(size) || !foot.has_its_members() {
                        return Err(fault(ErrorKind::Damaged {
                            what: DamagedPart::Size,
                        }));
                    }
                    return Ok(foot);
                }
                Err(Partial::More(more)) if more > wanted && more <= size.min(LARGEST_FOOT) => {
                    wanted = more;
                }
                Err(Partial::More(_)) => {
                    return Err(fault(ErrorKind::Damaged {
                        what: DamagedPart::Size,
                    }));
                }
                Err(Partial::Version(found)) => return Err(fault(other_version(found))),
                // The object has the name of a segment, so it is a segment whose end is missing.
                Err(Partial::Cut) => {
                    return Err(fault(ErrorKind::Damaged {
                        what: DamagedPart::End,
                    }));
                }
                Err(Partial::Damaged) => {
                    return Err(fault(ErrorKind::Damaged {
                        what: DamagedPart::Foot,
                    }));
                }
            }
        }
    }

    /// The segments that it was merged from, or the segment itself.
    pub(crate) fn members(&self) -> Vec<Member> {
        if self.members.is_empty() {
            return vec![Member {
                start: self.start,
                end: self.end,
                stream_bytes: self.stream_bytes,
                bytes: self.bytes,
                crc32c: self.crc32c,
            }];
        }
        self.members.clone()
    }

    /// Whether its members together are the whole segment.
    fn has_its_members(&self) -> bool {
        let (mut bytes, mut stream_bytes, mut next) = (Some(0_u64), Some(0_u64), self.start);
        let mut are_in_order = true;
        for member in self.members() {
            are_in_order &= member.start == next;
            next = member.end;
            bytes = bytes.and_then(|it| it.checked_add(member.bytes));
            stream_bytes = stream_bytes.and_then(|it| it.checked_add(member.stream_bytes));
        }
        are_in_order
            && next == self.end
            && bytes == Some(self.bytes)
            && stream_bytes == Some(self.stream_bytes)
    }

    /// The foot at the end of these bytes, and the size of its frame.
    fn parse(end: &[u8]) -> Result<(Self, u64), Partial> {
        let (rest, magic) = end.split_last_chunk().ok_or(Partial::Cut)?;
        if *magic != MAGIC {
            return Err(Partial::Cut);
        }
        let (rest, size) = rest.split_last_chunk().ok_or(Partial::Cut)?;
        let (rest, crc) = rest.split_last_chunk().ok_or(Partial::Cut)?;
        let size = u32::from_le_bytes(*size);
        let content = u64::from(size).saturating_add(TAIL as u64);
        let whole = content.saturating_add(HEADER as u64);
        let start = rest.len().checked_sub(size as usize);
        let Some((rest, json)) = start.and_then(|start| rest.split_at_checked(start)) else {
            return Err(Partial::More(whole));
        };
        let Some((rest, stored)) = rest.split_last_chunk() else {
            return Err(Partial::More(whole));
        };
        let Some((_, magic)) = rest.split_last_chunk() else {
            return Err(Partial::More(whole));
        };
        let is_frame = u32::from_le_bytes(*magic) == SKIPPABLE
            && u64::from(u32::from_le_bytes(*stored)) == content;
        if !is_frame || crc32c::crc32c(json) != u32::from_le_bytes(*crc) {
            return Err(Partial::Damaged);
        }
        let Version { format } = serde_json::from_slice(json).map_err(|_| Partial::Damaged)?;
        if !is_known(format) {
            // A foot of another version may have other fields.
            return Err(Partial::Version(format));
        }
        let foot = serde_json::from_slice(json).map_err(|_| Partial::Damaged)?;
        Ok((foot, whole))
    }
}

/// The reason why the end of an object gives no foot.
enum Partial {
    /// The foot has this many bytes.
    More(u64),
    Version(u32),
    Cut,
    Damaged,
}

/// The field that the feet of all versions have.
#[derive(Deserialize)]
struct Version {
    format: u32,
}
