//! One room per type family: from a cell's bytes to a value and into a column.
//!
//! The functions named `X_from_text` and `X_from_binary` are inverses of PostgreSQL's output and send functions.
//! They take exactly what the server writes under the pinned settings (ISO dates, hex bytea, shortest floats, any time
//! zone), allocate nothing beyond the value itself and look at nothing but the cell.

mod array;
mod bits;
mod bool;
mod builder;
mod bytes;
mod cell;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "composite types are not resolved yet")
)]
mod composite;
#[cfg_attr(
    not(test),
    expect(dead_code, reason = "sparsevec and PostGIS are not resolved yet")
)]
mod extension;
mod float;
mod geometric;
mod int;
mod interval;
mod json;
mod money;
mod network;
mod numeric;
mod range;
mod search;
mod system;
mod temporal;
mod text;
mod uuid;

pub(crate) use builder::{
    ArrayText, BoolForm, BytesForm, Column, DecimalForm, Float, Integer, ListForm, ListPlan, Plan,
    StructPlan, TextForm, render_text,
};
pub(crate) use cell::{CellError, Unrepresentable};
pub(crate) use geometric::Shape;
pub(crate) use network::MacSize;
pub(crate) use numeric::{Decimal128, NumericTypmod};
