//! PostgreSQL's logical replication stream as typed Arrow record batches.
//!
//! A [`Decoder`] takes the stream's bytes and hands out [`Batch`]es: a table's own columns, then
//! metadata columns that tell of the change ([`MetadataColumn`]). See [`DecoderBuilder`] for the
//! options, and the example at [`Decoder`].

mod batch;
mod column;
mod decoder;
mod envelope;
mod error;
mod layout;
mod metadata;
mod options;
mod pg_type;
mod reader;
mod resolve;
mod session;
mod side;
mod table;
mod tables;

pub use batch::Batch;
pub use decoder::Decoder;
pub use error::{Error, ErrorKind};
pub use metadata::MetadataColumn;
pub use options::{DecoderBuilder, OnUnrepresentable, Profile, TableName};
pub use reader::Reader;
pub use session::Session;
pub use side::SideTable;
