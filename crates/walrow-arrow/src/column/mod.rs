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
mod translated;

pub(crate) use cell::{AppendTo, As, Cell, Moments, RawCell, Written};
pub(crate) use containers::{
    Arrays, Composites, Geometries, Halves, Intervals, Multiranges, Numbers, Pairs, Paths, Points,
    Ranges, Shapes, Sparse, Tids, TimeTzs, VectorElements, Vectors, Words,
};
pub(crate) use store::{
    Bits, Bytes, Fixed, FixedBytes, FixedLists, Lists, Maps, Push, Store, Structs, append,
};
pub(crate) use translated::Translated;

use crate::options::OnUnrepresentable;
use arrow_array::ArrayRef;
use arrow_buffer::NullBufferBuilder;
use arrow_schema::{ArrowError, DataType};
use std::fmt::Debug;
use walrow_types::{CellError, Unrepresentable};

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

    /// Applies the policy to a cell that failed with this error.
    fn reject(&mut self, error: CellError) -> Result<(), Refused>;

    /// Why the last cell was refused.
    fn failure(&self) -> CellError;

    fn len(&self) -> usize;

    /// Drops all rows after the first `rows`.
    fn truncate(&mut self, rows: usize);

    /// Bytes of values of varying size.
    fn variable_bytes(&self) -> usize;

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

/// A column of one PostgreSQL type in one Arrow type.
#[derive(Debug)]
pub(crate) struct Typed<C: Cell> {
    cell: C,
    store: C::Store,
    nulls: NullBufferBuilder,
    policy: OnUnrepresentable,
    /// The rows in which the policy made the value null.
    nulled: Vec<usize>,
    failure: Option<CellError>,
    data_type: DataType,
}

impl<C: Cell + 'static> Typed<C> {
    pub(crate) fn boxed(
        cell: C,
        store: C::Store,
        data_type: &DataType,
        new: New,
    ) -> Box<dyn Column> {
        Box::new(Self {
            cell,
            store,
            nulls: NullBufferBuilder::new(new.rows),
            policy: new.policy,
            nulled: Vec::new(),
            failure: None,
            data_type: data_type.clone(),
        })
    }
}

impl<C: Cell> Typed<C> {
    /// Removes what a failed cell appended, then applies the policy.
    #[cold]
    #[inline(never)]
    fn settle(&mut self, error: CellError) -> Result<(), Refused> {
        let rows = self.nulls.len();
        self.store.truncate(rows);
        let sign = match error {
            CellError::Unrepresentable(_) if self.policy == OnUnrepresentable::Null => {
                self.nulled.push(rows);
                self.append_null();
                return Ok(());
            }
            CellError::Unrepresentable(Unrepresentable::PositiveInfinity) => 1,
            CellError::Unrepresentable(Unrepresentable::NegativeInfinity) => -1,
            _ => 0,
        };
        if self.policy == OnUnrepresentable::Sentinel && self.store.push_sentinel(sign) {
            self.nulls.append_non_null();
            return Ok(());
        }
        self.failure = Some(error);
        Err(Refused)
    }
}

impl<C: Cell> Column for Typed<C> {
    #[inline]
    fn append_text(&mut self, cell: &[u8]) -> Result<(), Refused> {
        match self.cell.text(cell, &mut self.store) {
            Ok(()) => {
                self.nulls.append_non_null();
                Ok(())
            }
            Err(error) => self.settle(error),
        }
    }

    #[inline]
    fn append_binary(&mut self, cell: &[u8]) -> Result<(), Refused> {
        match self.cell.binary(cell, &mut self.store) {
            Ok(()) => {
                self.nulls.append_non_null();
                Ok(())
            }
            Err(error) => self.settle(error),
        }
    }

    #[inline]
    fn append_null(&mut self) {
        self.store.push_null();
        self.nulls.append_null();
    }

    fn reject(&mut self, error: CellError) -> Result<(), Refused> {
        self.settle(error)
    }

    fn failure(&self) -> CellError {
        self.failure.unwrap_or(CellError::Malformed("a cell"))
    }

    fn len(&self) -> usize {
        self.nulls.len()
    }

    fn truncate(&mut self, rows: usize) {
        self.store.truncate(rows);
        self.nulls.truncate(rows);
        let before = self.nulled.partition_point(|place| *place < rows);
        self.nulled.truncate(before);
    }

    fn variable_bytes(&self) -> usize {
        self.store.variable_bytes()
    }

    fn losses(&self) -> Losses {
        let inside = self.store.losses();
        Losses {
            nulled: inside.nulled.saturating_add(self.nulled.len() as u64),
            ..inside
        }
    }

    fn lacks_text(&self, is_binary: bool, is_part: bool) -> bool {
        self.cell.lacks_text(is_binary, is_part) || self.store.lacks_text(is_binary)
    }

    fn finish(self: Box<Self>) -> Result<ArrayRef, ArrowError> {
        let mut this = *self;
        let rows = this.nulls.len();
        this.store
            .finish(rows, this.nulls.finish(), &this.data_type)
    }
}
