//! Net changes as Arrow batches.

use crate::{Batch, Decoder, DecoderBuilder, Error, Lsn, OnMissingTable, TableName};
use crate::{cell_text, key_bytes};
use std::fmt;
use std::sync::Arc;
use walrow_log::{Log, LogNetOptions, NetCheckpoint, TableReader};
use walrow_stream::{Relation, Tally, fact::Source};
use walrow_wire::Framing;

/// The changes of a table in a range of a log, with one row at most for each key: what makes a target
/// that has the table as of the start a target that has it as of the end.
///
/// The batches have the table's columns, and metadata columns. `_change_type` says what to do:
///
/// | change type | what to do |
/// |---|---|
/// | `truncate` | remove all rows. It comes first |
/// | `insert` | insert the row, or replace the row with its key |
/// | `update_postimage` | the same, but columns in `_unsent` keep the values of the target's row |
/// | `update_preimage` | only has a key, and comes just before the `update_postimage` that it belongs to: then `_unsent` columns have the values of the target's row with *this* key, as it was before all these changes |
/// | `delete` | remove the row with this key |
///
/// Store [`NetChanges::checkpoint`] in the same transaction as the rows: it has the next start. So
/// neither a crash nor a second call changes anything. [`walrow_stream::Net`] says more, and
/// `examples/sqlite_target.rs` keeps a table of SQLite in this way.
///
/// `options` has the start, the end and the key. `decoder` has the options of the columns. If they
/// turn a key of another type into a text, as [`Profile::Text`](crate::Profile::Text) does, name it
/// in [`NetOptions::text_keys`](walrow_stream::NetOptions::text_keys): a target of texts keeps `1.0`
/// and `1.00` apart. An erased range is refused. Whether the table needs a load is not looked at.
///
/// ```
/// use arrow_array::cast::AsArray;
/// use arrow_array::types::Int32Type;
/// use std::collections::BTreeMap;
/// use walrow::log::{Log, LogNetOptions};
/// use walrow::{DecoderBuilder, Lsn, net_changes};
///
/// /// A target, which would be on a disk: the rows by `id`, and what they have.
/// #[derive(Clone, Default)]
/// struct Target {
///     rows: BTreeMap<i32, Option<String>>,
///     position: Lsn,
/// }
///
/// fn catch_up(log: &Log, target: &mut Target) -> Result<(), Box<dyn std::error::Error>> {
///     let mut options = LogNetOptions::default();
///     options.start = target.position;
///     let decoder = DecoderBuilder::new().with_columns(["id", "label"]);
///     let mut net = net_changes(log, "public.item", options, decoder)?;
///     let relation = net.relation()?.ok_or("nothing describes the table")?;
///     assert_eq!(relation.columns.iter().filter(|it| it.is_key).count(), 1);
///     let before = target.rows.clone();
///     let mut head = None;
///     for batch in &mut net {
///         let batch = batch?;
///         let records = batch.record_batch();
///         let column = |name: &str| records.column_by_name(name).ok_or("no such column");
///         let (ids, labels) = (column("id")?.as_primitive::<Int32Type>(), column("label")?);
///         let (changes, unsent) = (column("_change_type")?, column("_unsent")?);
///         for row in 0..records.num_rows() {
///             let (id, labels) = (ids.value(row), labels.as_string::<i32>());
///             let label = labels.iter().nth(row).flatten().map(str::to_owned);
///             match changes.as_string::<i32>().value(row) {
///                 "truncate" => target.rows.clear(),
///                 "delete" => drop(target.rows.remove(&id)),
///                 "update_preimage" => head = Some(id),
///                 // Of the two columns, only `label` may be unsent.
///                 _ if unsent.is_valid(row) => {
///                     let old = before.get(&head.take().unwrap_or(id)).cloned().flatten();
///                     target.rows.insert(id, old);
///                 }
///                 _ => drop(target.rows.insert(id, label)),
///             }
///         }
///     }
///     target.position = net.position(); // in one transaction with the rows
///     Ok(())
/// }
/// # use std::sync::Arc;
/// # use walrow::log::{Directory, Writer, WriterOptions};
/// # use walrow::stream::Assembler;
/// # let folder = std::env::temp_dir().join(format!("walrow-net-{}", std::process::id()));
/// # let _ = std::fs::remove_dir_all(&folder);
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/18/rows.text.wire");
/// # let bytes = std::fs::read(path)?;
/// # let mut writer = Writer::open(Arc::new(Directory::create(&folder)?), WriterOptions::default())?;
/// # let mut assembler = Assembler::default();
/// # writer.append(&mut assembler, &mut &*bytes)?;
/// # writer.publish(&mut assembler)?;
/// # drop(writer);
///
/// let log = Log::open(Arc::new(Directory::open(&folder)?))?;
/// let mut target = Target::default();
/// catch_up(&log, &mut target)?;
/// assert_eq!(target.rows, BTreeMap::from([(1, Some("uno".to_owned())), (20, None)]));
/// catch_up(&log, &mut target)?; // there is nothing new
/// # assert_eq!(target.rows.len(), 2);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// The log does not have the table, or its changes: see [`Log::net`]. The options of the decoder
/// contradict each other.
pub fn net_changes(
    log: &Log,
    table: impl Into<TableName>,
    options: LogNetOptions,
    decoder: DecoderBuilder,
) -> Result<NetChanges, NetChangesError> {
    let table = table.into();
    let mut options = options;
    options.cell_text.get_or_insert(cell_text);
    options.key_bytes.get_or_insert(key_bytes);
    #[cfg(feature = "file-spool")]
    options
        .spool
        .get_or_insert_with(|| Arc::new(walrow_log::FileSpool::default()));
    let wants = |oid, schema: &str, name: &str| table.matches(oid, schema, name);
    let (source, keys) = (log.source().clone(), options.net.keys.clone());
    let reader = log.net(&wants, options)?;
    let decoder = decoder
        .with_framing(Framing::Wire)
        .with_table(TableName::Oid(reader.oid()))
        // Without a change, it is not in the stream.
        .with_missing_table(OnMissingTable::Ignore)
        .build()?;
    Ok(NetChanges {
        reader,
        source,
        keys,
        decoder,
        chunk: Vec::new(),
        at: 0,
        is_ended: false,
    })
}

/// The batches of net changes: [`net_changes`].
#[derive(Debug)]
pub struct NetChanges {
    reader: TableReader,
    source: Source,
    /// The key, if the options have one.
    keys: Option<Vec<String>>,
    decoder: Decoder,
    /// Bytes of the stream. The first `at` of them were decoded.
    chunk: Vec<u8>,
    at: usize,
    is_ended: bool,
}

impl NetChanges {
    /// The LSN where the next range starts, once the target has all batches.
    pub const fn position(&self) -> Lsn {
        self.reader.at()
    }

    /// The target's checkpoint after these changes. An earlier one is compared: the target may
    /// be of another log, of another table or with another key. It reads all changes first.
    ///
    /// # Errors
    /// [`ErrorKind::OtherTarget`](walrow_log::ErrorKind::OtherTarget), or as [`NetChanges::tally`].
    pub fn checkpoint(
        &mut self,
        stored: Option<&NetCheckpoint>,
    ) -> Result<NetCheckpoint, NetChangesError> {
        let clears = self.tally()?.clears;
        let keys = match (&self.keys, self.reader.relation()) {
            (Some(keys), _) => keys.clone(),
            (None, None) => Vec::new(),
            (None, Some(relation)) => {
                let keys = relation.columns.iter().filter(|it| it.is_key);
                keys.map(|it| it.name.to_string()).collect()
            }
        };
        let (oid, end) = (self.reader.oid(), self.reader.at());
        let next = NetCheckpoint::new(&self.source, oid, keys, end);
        if let Some(stored) = stored {
            stored.check(&next, clears)?;
        }
        Ok(next)
    }

    /// The tally of the net changes. It reads all changes first.
    ///
    /// # Errors
    /// The changes do not give the net changes. A segment is damaged, or the spool failed.
    pub fn tally(&mut self) -> Result<Tally, NetChangesError> {
        while self.reader.advance()? {}
        Ok(self.reader.tally().cloned().unwrap_or_default())
    }

    /// The columns of the rows, and which of them are the replica identity. `None` if nothing in
    /// the log describes the table. It reads all changes first.
    ///
    /// # Errors
    /// As [`NetChanges::tally`].
    pub fn relation(&mut self) -> Result<Option<Arc<Relation>>, NetChangesError> {
        while self.reader.advance()? {}
        Ok(self.reader.relation().cloned())
    }

    /// Decodes more. Returns false at the end.
    fn advance(&mut self) -> Result<bool, NetChangesError> {
        let input = self.chunk.get(self.at..).unwrap_or_default();
        if !input.is_empty() || !self.decoder.wants_input() {
            let taken = self.decoder.decode(input)?;
            self.at = self.at.saturating_add(taken);
            return Ok(true);
        }
        self.at = 0;
        if self.reader.read(&mut self.chunk)? {
            return Ok(true);
        }
        self.decoder.finish()?;
        Ok(false)
    }
}

impl Iterator for NetChanges {
    type Item = Result<Batch, NetChangesError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.decoder.next_batch() {
                Ok(Some(batch)) => return Some(Ok(batch)),
                Ok(None) if self.is_ended => return None,
                Ok(None) => {}
                Err(_) if self.is_ended => return None,
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(error.into()));
                }
            }
            match self.advance() {
                Ok(is_more) => self.is_ended = !is_more,
                // The rows before it come first, and then the error.
                Err(NetChangesError::Decode(_)) => {}
                Err(error) => {
                    self.is_ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Why there are no net changes.
#[derive(Debug)]
#[non_exhaustive]
pub enum NetChangesError {
    /// The log, or the changes in it.
    Log(walrow_log::Error),
    /// The columns.
    Decode(Error),
}

impl From<walrow_log::Error> for NetChangesError {
    fn from(error: walrow_log::Error) -> Self {
        Self::Log(error)
    }
}

impl From<Error> for NetChangesError {
    fn from(error: Error) -> Self {
        Self::Decode(error)
    }
}

impl fmt::Display for NetChangesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Log(error) => error.fmt(f),
            Self::Decode(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for NetChangesError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Log(error) => Some(error),
            Self::Decode(error) => Some(error),
        }
    }
}
