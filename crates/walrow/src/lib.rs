//! PostgreSQL's logical replication stream as typed Arrow, losing nothing.
//!
//! walrow parses the bytes that a server sends (pgoutput in CopyData messages), collects complete
//! committed transactions in commit order, and returns every change as a row of an Arrow
//! [`RecordBatch`](arrow_array::RecordBatch): the table's own columns, then metadata columns that
//! describe the change ([`MetadataColumn`]).
//!
//! This is the one crate to add: the others come with it, as modules. Until it is published, it comes
//! from a checkout:
//!
//! ```toml
//! [dependencies]
//! walrow = { path = "walrow/crates/walrow" } # the features `log` and `file-spool` are on
//! ```
//!
//! There are two ways in. Both are set up with a [`DecoderBuilder`]:
//!
//! - [`Reader`]: an iterator over the batches of a file or any other [`std::io::Read`].
//! - [`Decoder`]: converts bytes or chunks as they arrive, from a connection or a driver.
//!
//! # Read a capture
//!
//! ```
//! use walrow::{DecoderBuilder, Profile};
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/18/rows.text.wire");
//! let capture = std::fs::File::open(path)?; // the bytes of a replication connection
//! let mut reader = DecoderBuilder::new().with_profile(Profile::Spark).build_reader(capture)?;
//! for batch in &mut reader {
//!     let batch = batch?;
//!     println!("{}: {} rows", batch.relation(), batch.record_batch().num_rows());
//! }
//! println!("complete up to {}", reader.decoder().position());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Read a log
//!
//! `walrow receive` and `walrow seal` write logs. A [`log::Log`] has the segments, and a [`Decoder`]
//! makes batches of their stream.
//!
//! ```
//! # #[cfg(feature = "log")] {
//! use std::sync::Arc;
//! use walrow::arrow_array::RecordBatch;
//! use walrow::log::{Directory, Log, Plan};
//! use walrow::{Decoder, DecoderBuilder, Lsn};
//!
//! fn take(decoder: &mut Decoder, batches: &mut Vec<RecordBatch>) -> Result<(), walrow::Error> {
//!     while let Some(batch) = decoder.next_batch()? {
//!         batches.push(batch.into_record_batch());
//!     }
//!     Ok(())
//! }
//!
//! # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/log-2/log");
//! let log = Log::open(Arc::new(Directory::open(path)?))?; // the log's directory
//! let mut decoder = DecoderBuilder::new().with_table("public.loaded").build()?;
//! let mut batches = Vec::new();
//! let mut stream = log.read(&log.plan(&Plan::default())?, Lsn::INVALID)?;
//! let mut chunk = Vec::new();
//! while stream.read(&mut chunk)? {
//!     decoder.decode_chunk(&chunk)?;
//!     take(&mut decoder, &mut batches)?;
//! }
//! decoder.finish()?;
//! take(&mut decoder, &mut batches)?;
//! println!("{} batches, up to {}", batches.len(), decoder.position());
//! # assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 91);
//! # assert_eq!(decoder.position(), log.end());
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`log::Plan`] with a table leaves out the segments without it. With the position as the next
//! [`log::Plan::start`] and [`DecoderBuilder::with_start`], the next run goes on there.
//!
//! # Decode a driver's payloads
//!
//! A driver returns the payload of one CopyData message at a time: pass each to
//! [`Decoder::decode_chunk`].
//!
//! ```
//! use walrow::{DecoderBuilder, Framing};
//!
//! # let payloads: [&[u8]; 0] = [];
//! let mut decoder = DecoderBuilder::new()
//!     .with_framing(Framing::CopyData)
//!     .with_table("public.orders")
//! #   .with_start(walrow::Lsn(1))
//!     .build()?;
//! for payload in payloads {
//!     decoder.decode_chunk(payload)?;
//!     while let Some(batch) = decoder.next_batch()? {
//!         println!("{} rows", batch.record_batch().num_rows());
//!     }
//! }
//! decoder.finish()?; // then take the last batches
//! # assert!(decoder.next_batch()?.is_none());
//! # Ok::<(), walrow::Error>(())
//! ```
//!
//! # Errors
//!
//! An [`Error`] says what is wrong, at which byte, LSN, table and column, and never contains a
//! value. If Arrow cannot hold a value, the error names the option that avoids it. All rows before
//! an error are returned first.
//!
//! # Layers
//!
//! Each layer can be used alone:
//!
//! - [`wire`]: the bytes of the protocol, parsed and encoded;
//! - [`log`]: committed transactions in files;
//! - [`stream`]: committed transactions, relation versions and the [`Catalog`] of user-defined
//!   types;
//! - the types here: columns and batches.
//!
//! [`arrow_array`] and [`arrow_schema`] are the versions that appear in this API.
//!
//! # Features
//!
//! - `file-spool` (default): open transactions beyond [`DecoderBuilder::with_spool_memory`] wait in
//!   an unnamed file, in the system's directory for temporary files or in that of a `FileSpool`.
//! - `log` (default): logs of segments, with their readers and their writer.

#[cfg(feature = "log")]
mod net_changes;

pub use arrow_array;
pub use arrow_schema;
#[cfg(feature = "log")]
pub use net_changes::{NetChanges, NetChangesError, net_changes};
pub use walrow_arrow::{
    ARROW_TYPE_NAMES, Advice, ArrowTypeName, Batch, Commit, Conversion, Decoder, DecoderBuilder,
    DecoderOption, Error, ErrorKind, MAX_TYPE_DEPTH, MetadataColumn, MissingTable, OnGap,
    OnMissingTable, OnUnfinished, OnUnrepresentable, OpenTransaction, OptionsError, Profile,
    Reader, Reason, Remedy, RemedyValue, SchemaError, SchemaUnion, SideTable, Survey,
    SurveyedColumn, SurveyedDdl, SurveyedVersion, TableName, TypeLimit, Unrepresentable,
    UnresolvedType, cell_text, defaults, key_bytes, parse_arrow_type,
};
#[cfg(feature = "log")]
pub use walrow_log as log;
#[cfg(feature = "file-spool")]
pub use walrow_log::FileSpool;
pub use walrow_stream as stream;
pub use walrow_stream::Catalog;
pub use walrow_wire as wire;
pub use walrow_wire::{Framing, Lsn};
