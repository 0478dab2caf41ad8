//! One room per type family: from a cell's bytes to a value and into a column.
//!
//! The functions named `X_from_text` and `X_from_binary` are inverses of PostgreSQL's output and send functions.
//! They take exactly what the server writes under the pinned settings (ISO dates, hex bytea, shortest floats, any time
//! zone), allocate nothing beyond the value itself and look at nothing but the cell.

mod array;
mod bool;
mod builder;
mod bytes;
mod cell;
mod float;
mod int;
mod json;
mod numeric;
mod temporal;
mod text;
mod uuid;

pub(crate) use builder::{
    BytesForm, Column, Float, Integer, ListPlan, Plan, TextForm, render_text,
};
pub(crate) use cell::{CellError, Unrepresentable};
pub(crate) use numeric::{Decimal128, NumericTypmod};
