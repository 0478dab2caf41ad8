//! The columns of a batch under construction.
//!
//! A [`Column`] is chosen once, when its table's layout is resolved. Then it takes one cell after
//! another. [`Typed`] implements it for all types: it combines a [`Cell`], which knows the
//! PostgreSQL type, with a [`Store`], which knows the Arrow type.
//!
//! ```text
//!                 Typed<C>: nulls, policy, failure
//!  cell bytes ──► C: Cell ───── value ─────► C::Store: Store ──► finish ──► ArrayRef
//!                 As(Int4)                   Fixed<Int32Type>
//!                 AppendTo(Bytea)            Bytes
//!                 Arrays                     Lists, of a Column of elements
//! ```

mod cell;
mod containers;
mod store;
mod typed;
mod validity;

pub(crate) use cell::{
    AppendTo, As, Cell, Moments, RawCell, Utf8Text, Written, write_text, write_text_of_binary,
};
pub(crate) use containers::{
    Arrays, Composites, Geometries, Halves, Intervals, Multiranges, Numbers, Pairs, Paths, Points,
    Ranges, Shapes, Sparse, Tids, TimeTzs, VectorElements, Vectors, Words,
};
pub(crate) use store::{
    Bits, Bytes, Fixed, FixedBytes, FixedLists, Lists, Maps, Push, Store, Structs, append,
};
pub(crate) use typed::Typed;

use crate::options::OnUnrepresentable;
use arrow_array::ArrayRef;
use arrow_schema::ArrowError;
use std::fmt::Debug;
use walrow_types::CellError;

/// A cell was not appended. [`Column::failure`] returns the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

/// A column of a batch under construction.
pub(crate) trait Column: Debug + Send + Sync {
    /// Appends a text cell, or applies the policy.
    fn append_text(&mut self, cell: &[u8]) -> Result<(), Refused>;

    /// Appends a binary cell, or applies the policy.
    fn append_binary(&mut self, cell: &[u8]) -> Result<(), Refused>;

    fn append_null(&mut self);

    /// Why the last cell was refused.
    fn failure(&self) -> CellError;

    fn len(&self) -> usize;

    /// Drops all rows after the first `rows`.
    fn truncate(&mut self, rows: usize);

    /// Bytes of values of varying size.
    fn variable_bytes(&self) -> usize;

    /// Reserves memory for this number of bytes of text or binary values.
    fn reserve_bytes(&mut self, bytes: usize);

    /// The losses since the column began.
    fn losses(&self) -> Losses;

    /// Whether a cell has no PostgreSQL text, so that the column cannot be a string. `is_part` is
    /// true if the cell is part of a larger value.
    fn lacks_text(&self, is_binary: bool, is_part: bool) -> bool;

    /// The rows as an array.
    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError>;
}

/// Counts of what a column drops without an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Losses {
    /// Values that the policy made null.
    pub(crate) nulled: u64,
    /// Arrays whose first subscript was not 1.
    pub(crate) dropped_bounds: u64,
}

/// The parameters of a new column.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New {
    /// The number of rows to reserve.
    pub(crate) rows: usize,
    pub(crate) policy: OnUnrepresentable,
}

impl New {
    /// For a part of a value: the policy `Null` applies to the whole value.
    pub(crate) const fn part(self) -> Self {
        let policy = match self.policy {
            OnUnrepresentable::Null => OnUnrepresentable::Error,
            OnUnrepresentable::Error | OnUnrepresentable::Sentinel => self.policy,
        };
        Self { policy, ..self }
    }

    /// For elements, whose number is unknown.
    pub(crate) const fn elements(self) -> Self {
        Self { rows: 0, ..self }
    }
}
