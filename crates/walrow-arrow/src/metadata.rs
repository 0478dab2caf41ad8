//! The metadata columns that follow a table's own columns.
//!
//! Values that all changes of a transaction share are stored once per run of rows. They are
//! expanded to arrays when the batch is finished.

use crate::profile::Profile;
use crate::utf8::Utf8;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{
    ArrayRef, BooleanArray, Int64Array, ListArray, PrimitiveArray, StringArray, UInt32Array,
    UInt64Array,
};
use arrow_buffer::{BooleanBuffer, Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use std::sync::Arc;
use walrow_wire::Xid;

/// Defines the metadata columns: for each its name without the prefix, its Arrow type in a profile,
/// and its values in a batch.
macro_rules! columns {
    ($(
        $(#[$doc:meta])*
        $column:ident $name:literal: $data_type:expr, |$batch:pat_param| $values:expr;
    )*) => {
        /// A column that describes the change, not the row.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum MetadataColumn {
            $($(#[$doc])* $column,)*
        }

        impl MetadataColumn {
            /// All metadata columns, in their order.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$column),*];

            /// The column's name without the prefix: `change_type`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$column => $name,)*
                }
            }

            fn data_type(self, profile: Profile) -> DataType {
                match self {
                    $(Self::$column => $data_type(profile),)*
                }
            }

            fn values(self, batch: &mut Finishing<'_>) -> Result<ArrayRef, ArrowError> {
                match self {
                    $(Self::$column => {
                        let $batch = batch;
                        $values
                    })*
                }
            }
        }
    };
}

columns! {
    /// `_change_type`: `insert`, `update_preimage`, `update_postimage`, `delete` or `truncate`.
    ChangeType "change_type": |_| DataType::Utf8, |batch| batch.change_types();
    /// `_commit_lsn`: the LSN where the commit record starts. With `_seq`, it orders all changes.
    CommitLsn "commit_lsn": integer64, |batch| batch.integers64(|commit| commit.lsn);
    /// `_seq`: the number of the change in its transaction. Both images of an update share it.
    Seq "seq": integer64, |batch| batch.seqs();
    /// `_commit_timestamp`: the commit time. It may decrease from one transaction to the next.
    CommitTimestamp "commit_timestamp": |_| timestamp(), |batch| batch.timestamps(|commit| commit.time);
    /// `_xid`: the transaction ID.
    Xid "xid": integer32, |batch| batch.integers32(|commit| commit.xid);
    /// `_key_only`: whether the server sent only the replica identity's columns of an old image.
    KeyOnly "key_only": |_| DataType::Boolean, |batch| batch.key_only();
    /// `_unsent`: the columns without a value in this row, because the server did not send one.
    Unsent "unsent": |_| DataType::new_list(DataType::Utf8, true), |batch| batch.unsent();
    /// `_loaded`: whether the change is a part of a load, and not of a transaction of the server.
    /// Only if it is asked for.
    Loaded "loaded": |_| DataType::Boolean, |batch| batch.loaded();
}

impl MetadataColumn {
    /// The metadata columns that batches have by default, in their order: all but `Loaded`.
    pub fn defaults() -> Vec<Self> {
        let all = Self::ALL.into_iter();
        all.filter(|column| *column != Self::Loaded).collect()
    }

    /// The column with this name, without the prefix.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|column| column.name() == name)
    }

    pub(crate) fn field(self, prefix: &str, profile: Profile) -> Field {
        let name = format!("{prefix}{}", self.name());
        // Only the list of unsent columns may be null.
        Field::new(name, self.data_type(profile), self == Self::Unsent)
    }
}

/// The 64-bit integer type: unsigned if the profile has unsigned integers.
fn integer64(profile: Profile) -> DataType {
    if profile.has_unsigned() {
        DataType::UInt64
    } else {
        DataType::Int64
    }
}

/// The type of unsigned 32-bit integers: `Int64` if the profile has no unsigned integers.
fn integer32(profile: Profile) -> DataType {
    if profile.has_unsigned() {
        DataType::UInt32
    } else {
        DataType::Int64
    }
}

fn timestamp() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

/// What happened to a row, in the terms of Delta Lake and Iceberg.
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

/// The values that all rows of a transaction share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Commit {
    pub(crate) lsn: u64,
    /// Microseconds since 1970.
    pub(crate) time: i64,
    pub(crate) xid: Xid,
    pub(crate) is_loaded: bool,
}

/// The metadata of the rows so far.
#[derive(Debug)]
pub(crate) struct Metadata {
    change_types: Vec<Kind>,
    seqs: Vec<u64>,
    /// The first row of each transaction, with the transaction's values.
    runs: Vec<(usize, Commit)>,
    /// The unsent columns of all rows, as indexes into the names that `finish` gets.
    unsent: Vec<u32>,
    /// Each row that has unsent columns, with the end of its part of `unsent`.
    unsent_ends: Vec<(usize, usize)>,
    /// The last of these ends.
    noted: usize,
}

/// The bytes of an unsent column in a row without its name: its index, and the name's offset.
pub(crate) const UNSENT_BYTES: usize = 8;

impl Metadata {
    pub(crate) fn new(rows: usize) -> Self {
        Self {
            change_types: Vec::with_capacity(rows),
            seqs: Vec::with_capacity(rows),
            runs: Vec::new(),
            unsent: Vec::new(),
            unsent_ends: Vec::new(),
            noted: 0,
        }
    }

    fn len(&self) -> usize {
        self.seqs.len()
    }

    /// Begins the rows of this transaction.
    pub(crate) fn begin(&mut self, commit: Commit) {
        self.runs.push((self.len(), commit));
    }

    #[inline]
    pub(crate) fn append(&mut self, change_type: ChangeType, seq: u64, key_only: bool) {
        self.change_types.push(Kind {
            change_type,
            key_only,
        });
        if self.unsent.len() > self.noted {
            self.unsent_ends.push((self.len(), self.unsent.len()));
            self.noted = self.unsent.len();
        }
        self.seqs.push(seq);
    }

    /// Notes that the column at this index is unsent in the next row.
    pub(crate) fn unsent(&mut self, place: u32) {
        self.unsent.push(place);
    }

    /// Drops all rows after the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        self.change_types.truncate(rows);
        self.seqs.truncate(rows);
        self.runs.retain(|(start, _)| *start < rows);
        self.unsent_ends.retain(|(row, _)| *row < rows);
        self.noted = self.unsent_ends.last().map_or(0, |(_, end)| *end);
        self.unsent.truncate(self.noted);
    }

    /// Returns the columns as arrays. `always` lists the columns that are unsent in every row, and
    /// `names` the columns that the indexes of unsent columns refer to.
    pub(crate) fn finish(
        self,
        columns: &[MetadataColumn],
        profile: Profile,
        always: &[String],
        names: &[Option<&str>],
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let mut batch = Finishing {
            metadata: self,
            profile,
            always,
            names,
        };
        let columns = columns.iter();
        columns.map(|column| column.values(&mut batch)).collect()
    }

    /// Repeats a value of each transaction for all its rows.
    fn expand<T: Copy>(&self, value: impl Fn(&Commit) -> T) -> Vec<T> {
        let rows = self.change_types.len();
        if self.runs.len() == rows {
            return self.runs.iter().map(|(_, commit)| value(commit)).collect();
        }
        let mut values = Vec::with_capacity(rows);
        let ends = self.runs.iter().skip(1).map(|(start, _)| *start);
        for ((start, commit), end) in self.runs.iter().zip(ends.chain([rows])) {
            let value = value(commit);
            // Many transactions have only one row.
            if start.saturating_add(1) == end {
                values.push(value);
            } else {
                values.resize(end, value);
            }
        }
        values
    }

    fn change_type(&self) -> Result<ArrayRef, ArrowError> {
        let mut names = Utf8::with_capacity(self.change_types.len());
        let runs = self
            .change_types
            .chunk_by(|a, b| a.change_type == b.change_type);
        for run in runs {
            let name = run.first().map_or("", |kind| kind.change_type.name());
            names
                .push_repeated(name, run.len())
                .map_err(|_| ArrowError::OffsetOverflowError(run.len()))?;
        }
        let names = names.into_array(self.change_types.len(), None)?;
        Ok(Arc::new(names))
    }
}

/// The metadata of a batch while it is finished.
struct Finishing<'a> {
    metadata: Metadata,
    profile: Profile,
    /// The columns that are unsent in every row.
    always: &'a [String],
    /// The columns that the indexes of unsent columns refer to.
    names: &'a [Option<&'a str>],
}

impl Finishing<'_> {
    fn change_types(&self) -> Result<ArrayRef, ArrowError> {
        self.metadata.change_type()
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn integers64(&self, value: impl Fn(&Commit) -> u64) -> Result<ArrayRef, ArrowError> {
        Ok(if self.profile.has_unsigned() {
            Arc::new(UInt64Array::from(self.metadata.expand(value)))
        } else {
            let values = self.metadata.expand(|commit| value(commit).cast_signed());
            Arc::new(Int64Array::from(values))
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn integers32(&self, value: impl Fn(&Commit) -> u32) -> Result<ArrayRef, ArrowError> {
        Ok(if self.profile.has_unsigned() {
            Arc::new(UInt32Array::from(self.metadata.expand(value)))
        } else {
            let values = self.metadata.expand(|commit| i64::from(value(commit)));
            Arc::new(Int64Array::from(values))
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn timestamps(&self, value: impl Fn(&Commit) -> i64) -> Result<ArrayRef, ArrowError> {
        let values = PrimitiveArray::<TimestampMicrosecondType>::from(self.metadata.expand(value));
        Ok(Arc::new(values.with_timezone("UTC")))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn seqs(&mut self) -> Result<ArrayRef, ArrowError> {
        let seqs = std::mem::take(&mut self.metadata.seqs);
        Ok(if self.profile.has_unsigned() {
            Arc::new(UInt64Array::from(seqs))
        } else {
            let seqs = seqs.into_iter().map(u64::cast_signed);
            Arc::new(Int64Array::from_iter_values(seqs))
        })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn key_only(&self) -> Result<ArrayRef, ArrowError> {
        let kinds = &self.metadata.change_types;
        let key_only = |row| kinds.get(row).is_some_and(|kind: &Kind| kind.key_only);
        let values = BooleanBuffer::collect_bool(kinds.len(), key_only);
        Ok(Arc::new(BooleanArray::new(values, None)))
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the other columns")]
    fn loaded(&self) -> Result<ArrayRef, ArrowError> {
        let values = self.metadata.expand(|commit| commit.is_loaded);
        Ok(Arc::new(BooleanArray::from(values)))
    }

    fn unsent(&self) -> Result<ArrayRef, ArrowError> {
        let lists = self.metadata.unsent_lists(self.always, self.names)?;
        Ok(Arc::new(lists))
    }
}

impl Metadata {
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
            // A TRUNCATE has no row, so no column is unsent.
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

/// Converts an offset for an Arrow array, where it has 31 bits.
fn offset(place: usize) -> Result<i32, ArrowError> {
    i32::try_from(place).map_err(|_| ArrowError::OffsetOverflowError(place))
}
