//! PostgreSQL's logical replication stream as typed Arrow record batches.
//!
//! A [`Decoder`] takes the stream's bytes and returns [`Batch`]es: a table's own columns, then
//! metadata columns that describe the change ([`MetadataColumn`]). See [`DecoderBuilder`] for the
//! options, and the examples at [`Decoder`] and [`Reader`].

mod arrow_type;
mod batch;
mod builder;
mod cell_text;
mod checks;
mod column;
mod decoder;
mod envelope;
mod error;
mod finished;
mod forms;
mod key_bytes;
mod keys;
mod layout;
mod metadata;
mod offsets;
mod open_batches;
mod options;
mod profile;
mod reader;
mod resolve;
mod rows;
mod schema_union;
mod selection;
mod side;
mod survey;
mod table;
mod table_name;
mod tables;
mod unresolved;
mod utf8;
mod versions;

pub use arrow_type::{ARROW_TYPE_NAMES, ArrowTypeName, MAX_TYPE_DEPTH, parse_arrow_type};
pub use batch::Batch;
pub use builder::DecoderBuilder;
pub use cell_text::cell_text;
pub use decoder::{Decoder, OpenTransaction};
pub use error::{
    Advice, Conversion, DecoderOption, Error, ErrorKind, MissingTable, OptionsError, Reason,
    Remedy, RemedyValue, SchemaError, TypeLimit,
};
pub use key_bytes::key_bytes;
pub use metadata::MetadataColumn;
pub use options::{OnGap, OnMissingTable, OnUnfinished, OnUnrepresentable, defaults};
pub use profile::Profile;
pub use reader::Reader;
pub use schema_union::SchemaUnion;
pub use survey::{Commit, Survey, SurveyedColumn, SurveyedDdl, SurveyedVersion};
pub use table_name::{SideTable, TableName};
pub use unresolved::UnresolvedType;
pub use walrow_types::{Style, Unrepresentable};
