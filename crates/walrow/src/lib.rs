//! PostgreSQL's logical replication stream as typed Arrow, losing nothing.
//!
//! The stream's bytes go in, Arrow record batches of committed rows come out:
//!
//! ```
//! use walrow::{DecoderBuilder, Profile};
//!
//! let capture = std::fs::File::open(concat!(
//!     env!("CARGO_MANIFEST_DIR"),
//!     "/../../tests/data/18/rows.text.wire"
//! ))?;
//! let mut reader = DecoderBuilder::new().with_profile(Profile::Spark).build_reader(capture)?;
//! for batch in &mut reader {
//!     let batch = batch?;
//!     println!("{}: {} rows", batch.relation(), batch.records().num_rows());
//! }
//! println!("complete up to {}", reader.decoder().position());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Decoder`] takes the bytes as they come, from a connection or another program.
//!
//! Three layers, each usable alone:
//!
//! - [`wire`]: the protocol's bytes, parsed and encoded;
//! - [`stream`]: committed transactions and relation versions;
//! - the [`Reader`] and the [`Decoder`] here: columns and batches.

pub use walrow_arrow::{
    Batch, Decoder, DecoderBuilder, Error, ErrorKind, MetadataColumn, OnUnrepresentable, Profile,
    Reader, SessionSettings, SideTable, TableName,
};
pub use walrow_log::FileSpool;
pub use walrow_stream as stream;
pub use walrow_stream::Catalog;
pub use walrow_wire as wire;
pub use walrow_wire::{Framing, Lsn};
