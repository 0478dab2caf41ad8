//! The metadata columns that follow a table's own.
//!
//! What is the same for all changes of a transaction is kept per run of rows and written out when
//! the batch is finished.

use crate::profile::Profile;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, PrimitiveArray, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use std::sync::Arc;
use walrow_wire::Xid;

/// A column that tells of the change, not of the row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum MetadataColumn {
    /// `_change_type`: `insert`, `update_preimage`, `update_postimage`, `delete` or `truncate`.
    ChangeType,
    /// `_commit_lsn`: where the commit record starts; with `_seq` the total order.
    CommitLsn,
    /// `_seq`: ordinal of the change in its transaction; both images of an update share it.
    Seq,
    /// `_commit_timestamp`: not monotonic.
    CommitTimestamp,
    /// `_xid`
    Xid,
    /// `_key_only`: an old image of which only the identity's columns were sent.
    KeyOnly,
    /// `_unsent`: columns that have no value here because the server sent none.
    Unsent,
}

impl MetadataColumn {
    /// All of them, in their usual order.
    pub const ALL: [Self; 7] = [
        Self::ChangeType,
        Self::CommitLsn,
        Self::Seq,
        Self::CommitTimestamp,
        Self::Xid,
        Self::KeyOnly,
        Self::Unsent,
    ];

    /// Its name without the prefix: `change_type`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ChangeType => "change_type",
            Self::CommitLsn => "commit_lsn",
            Self::Seq => "seq",
            Self::CommitTimestamp => "commit_timestamp",
            Self::Xid => "xid",
            Self::KeyOnly => "key_only",
            Self::Unsent => "unsent",
        }
    }

    /// The column with this name, without the prefix.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    pub(crate) fn field(self, prefix: &str, profile: Profile) -> Field {
        let spark = profile == Profile::Spark;
        let data_type = match self {
            Self::ChangeType => DataType::Utf8,
            Self::CommitLsn | Self::Seq | Self::Xid if spark => DataType::Int64,
            Self::CommitLsn | Self::Seq => DataType::UInt64,
            Self::Xid => DataType::UInt32,
            Self::CommitTimestamp => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::KeyOnly => DataType::Boolean,
            Self::Unsent => DataType::new_list(DataType::Utf8, true),
        };
        // Only a list of unsent columns may be missing.
        Field::new(
            format!("{prefix}{}", self.name()),
            data_type,
            self == Self::Unsent,
        )
    }
}

/// What happened to a row, in Delta's and Iceberg's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeType {
    Insert,
    UpdatePreimage,
    UpdatePostimage,
    Delete,
    Truncate,
}

impl ChangeType {
    const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::UpdatePreimage => "update_preimage",
            Self::UpdatePostimage => "update_postimage",
            Self::Delete => "delete",
            Self::Truncate => "truncate",
        }
    }
}

/// A row's change type, and whether only its key was sent.
#[derive(Clone, Copy, Debug)]
struct Kind {
    change_type: ChangeType,
    key_only: bool,
}

/// What all rows of a transaction share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commit {
    pub(crate) lsn: u64,
    /// Microseconds since 1970.
    pub(crate) time: i64,
    pub(crate) xid: Xid,
}

/// The metadata of the rows so far.
#[derive(Debug)]
pub(crate) struct Metadata {
    change_types: Vec<Kind>,
    seqs: Vec<u64>,
    /// Where the rows of a transaction begin.
    runs: Vec<(usize, Commit)>,
    /// Unsent columns, row after row, by their places in the relation.
    unsent: Vec<u32>,
    /// The rows that have some, and where theirs end.
    unsent_ends: Vec<(usize, usize)>,
}

/// What an unsent column takes of a row, beside its name: its place, and the name's offset.
pub(crate) const UNSENT_BYTES: usize = 8;

impl Metadata {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            change_types: Vec::with_capacity(rows),
            seqs: Vec::with_capacity(rows),
            runs: Vec::new(),
            unsent: Vec::new(),
            unsent_ends: Vec::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.seqs.len()
    }

    /// The rows that follow are of this transaction.
    pub(crate) fn begin(&mut self, commit: Commit) {
        self.runs.push((self.len(), commit));
    }

    #[inline]
    pub(crate) fn append(&mut self, change_type: ChangeType, seq: u64, key_only: bool) {
        self.change_types.push(Kind {
            change_type,
            key_only,
        });
        if self.unsent.len() > self.unsent_end() {
            self.unsent_ends.push((self.len(), self.unsent.len()));
        }
        self.seqs.push(seq);
    }

    fn unsent_end(&self) -> usize {
        self.unsent_ends.last().map_or(0, |(_, end)| *end)
    }

    /// The column at this place has no value in the row that is appended next.
    pub(crate) fn unsent(&mut self, place: u32) {
        self.unsent.push(place);
    }

    /// Forgets all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.change_types.truncate(rows);
        self.seqs.truncate(rows);
        self.runs.retain(|(start, _)| *start < rows);
        self.unsent_ends.retain(|(row, _)| *row < rows);
        self.unsent.truncate(self.unsent_end());
    }

    /// The columns as arrays. `always` names columns that no row has, `names` the relation's.
    pub(crate) fn finish(
        mut self,
        columns: &[MetadataColumn],
        profile: Profile,
        always: &[String],
        names: &[Option<&str>],
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let spark = profile == Profile::Spark;
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for column in columns {
            arrays.push(match column {
                MetadataColumn::ChangeType => Arc::new(self.change_type()?),
                MetadataColumn::CommitLsn if spark => {
                    let lsns = self.expand(|commit| commit.lsn.cast_signed());
                    Arc::new(Int64Array::from(lsns))
                }
                MetadataColumn::CommitLsn => {
                    Arc::new(UInt64Array::from(self.expand(|commit| commit.lsn)))
                }
                MetadataColumn::Seq => {
                    let seqs = std::mem::take(&mut self.seqs);
                    if spark {
                        let seqs = seqs.into_iter().map(u64::cast_signed);
                        Arc::new(Int64Array::from_iter_values(seqs))
                    } else {
                        Arc::new(UInt64Array::from(seqs))
                    }
                }
                MetadataColumn::CommitTimestamp => {
                    let times = self.expand(|commit| commit.time);
                    Arc::new(
                        PrimitiveArray::<TimestampMicrosecondType>::from(times)
                            .with_timezone("UTC"),
                    )
                }
                MetadataColumn::Xid if spark => Arc::new(Int64Array::from(
                    self.expand(|commit| i64::from(commit.xid)),
                )),
                MetadataColumn::Xid => {
                    Arc::new(UInt32Array::from(self.expand(|commit| commit.xid)))
                }
                MetadataColumn::KeyOnly => {
                    let key_only = self.change_types.iter().map(|kind| kind.key_only);
                    Arc::new(BooleanArray::new(key_only.collect::<BooleanBuffer>(), None))
                }
                MetadataColumn::Unsent => Arc::new(self.unsent_lists(always, names)?),
            });
        }
        Ok(arrays)
    }

    /// A value of each row's transaction.
    fn expand<T: Copy>(&self, value: impl Fn(&Commit) -> T) -> Vec<T> {
        let mut values = Vec::with_capacity(self.change_types.len());
        let ends = self.runs.iter().skip(1).map(|(start, _)| *start);
        for ((_, commit), end) in self.runs.iter().zip(ends.chain([self.change_types.len()])) {
            values.resize(end, value(commit));
        }
        values
    }

    fn change_type(&self) -> Result<StringArray, ArrowError> {
        let mut offsets = Vec::with_capacity(self.change_types.len().saturating_add(1));
        let mut bytes: Vec<u8> = Vec::with_capacity(self.change_types.len().saturating_mul(16));
        offsets.push(0_i32);
        for run in self
            .change_types
            .chunk_by(|a, b| a.change_type == b.change_type)
        {
            let name = run.first().map_or("", |kind| kind.change_type.name());
            let start = bytes.len();
            let size = name.len();
            let end = start.saturating_add(run.len().saturating_mul(size));
            i32::try_from(end).map_err(|_| ArrowError::OffsetOverflowError(end))?;
            bytes.extend_from_slice(&name.as_bytes().repeat(run.len()));
            // Each fits, since the last one does.
            let (first, step) = (
                i32::try_from(start).unwrap_or(0),
                i32::try_from(size).unwrap_or(0),
            );
            offsets.extend(
                (1..)
                    .map(|row: i32| first.wrapping_add(row.wrapping_mul(step)))
                    .take(run.len()),
            );
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        StringArray::try_new(offsets, Buffer::from_vec(bytes), None)
    }

    fn unsent_lists(
        &self,
        always: &[String],
        names: &[Option<&str>],
    ) -> Result<ListArray, ArrowError> {
        let rows = self.change_types.len();
        let item = Arc::new(Field::new_list_field(DataType::Utf8, true));
        if self.unsent.is_empty() && always.is_empty() {
            return Ok(ListArray::new_null(item, rows));
        }
        let (mut bytes, mut ends, mut lists) = (Vec::new(), vec![0], vec![0]);
        let (mut any, mut start) = (NullBufferBuilder::new(rows), 0);
        let mut unsent = self.unsent_ends.iter().peekable();
        for (row, kind) in self.change_types.iter().enumerate() {
            let end = unsent
                .next_if(|(at, _)| *at == row)
                .map_or(start, |it| it.1);
            let places = self.unsent.get(start..end).unwrap_or_default();
            start = end;
            let columns = places
                .iter()
                .filter_map(|place| names.get(*place as usize).copied().flatten());
            // A truncate sends no row, so it leaves no column out.
            let always = if kind.change_type == ChangeType::Truncate {
                &[]
            } else {
                always
            };
            let before = ends.len();
            for name in columns.chain(always.iter().map(String::as_str)) {
                bytes.extend_from_slice(name.as_bytes());
                ends.push(offset(bytes.len())?);
            }
            any.append(ends.len() > before);
            lists.push(offset(ends.len().saturating_sub(1))?);
        }
        let ends = OffsetBuffer::new(ScalarBuffer::from(ends));
        let items = StringArray::try_new(ends, Buffer::from_vec(bytes), None)?;
        let lists = OffsetBuffer::new(ScalarBuffer::from(lists));
        ListArray::try_new(item, lists, Arc::new(items), any.finish())
    }
}

/// An offset of an Arrow array, which has 31 bits.
fn offset(place: usize) -> Result<i32, ArrowError> {
    i32::try_from(place).map_err(|_| ArrowError::OffsetOverflowError(place))
}
