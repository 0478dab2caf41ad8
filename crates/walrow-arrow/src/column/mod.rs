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
mod composite;
mod cube;
mod decimal256;
mod float;
mod foreign;
mod geometric;
mod hstore;
mod int;
mod interval;
mod json;
mod laid;
mod money;
mod nested;
mod network;
mod numeric;
mod pgvector;
mod pinned;
mod plan;
mod postgis;
mod range;
mod render;
mod search;
mod system;
mod temporal;
mod text;
mod uuid;
mod values;

pub(crate) use builder::Column;
pub(crate) use cell::{CellError, Unrepresentable};
pub(crate) use decimal256::Decimal256;
pub(crate) use foreign::{DateFormat, DateStyle, Foreign, IntervalStyle};
pub(crate) use geometric::Shape;
pub(crate) use network::MacSize;
pub(crate) use numeric::{Decimal128, NumericTypmod};
pub(crate) use plan::{
    ArrayText, BoolForm, BytesForm, DecimalForm, Float, Integer, ListForm, Plan, StructForm,
    StructPlan, TextForm, vector_element,
};
pub(crate) use postgis::GeometryTypmod;
pub(crate) use render::render_text;
