//! PostgreSQL's logical replication stream as typed Arrow, losing nothing.
//!
//! The stream's bytes go in, Arrow record batches of committed rows come out:
//!
//! ```
//! use walrow::{DecoderBuilder, Profile};
//!
//! let capture = std::fs::read(concat!(
//!     env!("CARGO_MANIFEST_DIR"),
//!     "/../../tests/data/18/rows.text.wire"
//! ))?;
//! let mut decoder = DecoderBuilder::new().with_profile(Profile::Spark).build()?;
//! let mut rest = capture.as_slice();
//! // A transaction may go on after the last byte was taken.
//! while !rest.is_empty() || !decoder.wants_input() {
//!     while let Some(batch) = decoder.next_batch() {
//!         println!("{}: {} rows", batch.relation(), batch.records().num_rows());
//!     }
//!     let consumed = decoder.decode(rest)?;
//!     rest = &rest[consumed..];
//! }
//! decoder.finish()?;
//! while let Some(batch) = decoder.next_batch() {
//!     println!("{}: {} rows", batch.relation(), batch.records().num_rows());
//! }
//! println!("complete up to {}", decoder.position());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Three layers, each usable alone:
//!
//! - [`wire`]: the protocol's bytes, parsed and encoded;
//! - [`stream`]: committed transactions and relation versions;
//! - the [`Decoder`] here: columns and batches.

pub use walrow_arrow::{
    Batch, Decoder, DecoderBuilder, Error, ErrorKind, MetadataColumn, OnUnrepresentable, Profile,
    Session, SideTable, TableName,
};
pub use walrow_log::FileSpool;
pub use walrow_stream as stream;
pub use walrow_stream::Catalog;
pub use walrow_wire as wire;
pub use walrow_wire::{Framing, Lsn};
