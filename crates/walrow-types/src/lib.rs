//! The text and binary forms of PostgreSQL's types, without Arrow.
//!
//! A stream sends each value as a *cell*: the output of the type's output function (text) or of its
//! send function (binary). This crate reads both forms of every type that walrow supports and
//! writes PostgreSQL's own text of them. Each type has one file.
//!
//! - [`Scalar`] reads a cell into one value: [`Int4`], [`Uuid`], [`Timestamp`], ….
//! - [`AppendBytes`] reads a cell into bytes: [`Bytea`], [`Wkb`], ….
//! - [`PgType`] writes the text of a cell, in the form that PostgreSQL has under the settings that
//!   walrow pins: ISO dates, hex `bytea`.
//! - [`Known`] names a type: its OIDs if it is built in, its names if an extension defines it.
//! - [`Array`], [`Range`], [`Multirange`], [`Composite`] and [`Vector`] consist of other types.
//!
//! Cells are checked strictly: what PostgreSQL never writes is [`CellError::Malformed`], as is text of
//! another `DateStyle` or `IntervalStyle` ([`CellError::style`]). A legal
//! value that a reader cannot represent is [`CellError::Unrepresentable`].
//!
//! ```
//! use walrow_types::{Int4, Known, PgType, Scalar, Uuid, write_text_of_binary};
//!
//! assert_eq!(Int4.text(b"-7")?, -7);
//! assert_eq!(Int4.binary(&[0, 0, 1, 0])?, 256);
//!
//! let mut text = Vec::new();
//! write_text_of_binary(&Uuid, &[0xab; 16], &mut text)?;
//! assert_eq!(text, b"abababab-abab-abab-abab-abababababab");
//! # Ok::<(), walrow_types::CellError>(())
//! ```

mod array;
mod bits;
mod bool;
mod built_in;
mod bytea;
mod calendar;
mod clock;
mod composite;
mod cube;
mod date;
mod decimal256;
mod digits;
mod encoding;
mod error;
mod float;
mod geometric;
mod hstore;
mod int;
mod int2vector;
mod interval;
mod interval_value;
mod json;
mod lengths;
mod money;
mod network;
mod numeric;
mod parts;
mod pg_lsn;
mod pg_type;
mod pgvector;
mod postgis;
mod quotes;
mod range;
mod reg;
mod snapshot;
mod text;
mod tid;
mod time;
mod timestamp;
mod timetz;
mod tsvector;
mod unread;
mod uuid;
mod xml;

pub use array::{Array, ArrayShape, ArrayStep, BinaryArray};
pub use bits::{Bit, Bits, Varbit};
pub use bool::Bool;
pub use built_in::{BuiltIn, FIRST_UNPINNED_OID, Part};
pub use bytea::Bytea;
pub use composite::{Attribute, Composite};
pub use cube::Cube;
pub use date::{Date, Days};
pub use decimal256::{Decimal256, WideDecimal};
pub use encoding::{check_utf8, short_ascii};
pub use error::{CellError, Style, Unrepresentable};
pub use float::{Float4, Float8, NumericFloat};
pub use geometric::{Path, Polygon, Shape};
pub use hstore::{BinaryHstore, Hstore};
pub use int::{Int2, Int4, Int8, IntegerDecimal, Oid, Xid8};
pub use int2vector::Vector;
pub use interval::Interval;
pub use interval_value::IntervalValue;
pub use json::{Json, Jsonb, Versioned};
pub use money::{Money, MoneyDecimal};
pub use network::{Cidr, Inet, Macaddr, Macaddr8};
pub use numeric::{Decimal128, Numeric, NumericTypmod};
pub use pg_lsn::PgLsn;
pub use pg_type::{AppendBytes, Known, PgType, PlainText, Scalar, write_text_of_binary};
pub use pgvector::{Halfvec, NumberVector, Sparsevec};
pub use postgis::{Ewkb, Geometry, Wkb};
pub use range::{Multirange, Range, RangeParts};
pub use reg::Reg;
pub use snapshot::Snapshot;
pub use text::{Bpchar, Char, Text, TrimmedBpchar};
pub use tid::{Tid, TidOffset};
pub use time::{Time, TimeOfDay};
pub use timestamp::{Micros, Timestamp, Timestamptz};
pub use timetz::{TimeTz, TimeTzValue};
pub use tsvector::TsVector;
pub use unread::{Unknown, Unread};
pub use uuid::Uuid;
pub use xml::Xml;
