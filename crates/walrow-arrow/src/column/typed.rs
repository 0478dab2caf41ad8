//! Joins a cell to a store, and owns nulls and policies.

use super::cell::Cell;
use super::store::Store;
use super::validity::Validity;
use super::{Column, Losses, New, Refused};
use crate::options::OnUnrepresentable;
use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};
use walrow_types::{CellError, Unrepresentable};

/// A column of one PostgreSQL type in one Arrow type.
#[derive(Debug)]
pub(crate) struct Typed<C: Cell> {
    cell: C,
    store: C::Store,
    validity: Validity,
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
            validity: Validity::new(),
            policy: new.policy,
            nulled: Vec::new(),
            failure: None,
            data_type: data_type.clone(),
        })
    }
}

impl<C: Cell> Typed<C> {
    /// Appends a text cell of any length.
    #[inline(never)]
    fn append_any_text(&mut self, cell: &[u8]) -> Result<(), Refused> {
        match self.cell.text(cell, &mut self.store) {
            Ok(()) => {
                self.validity.append_non_null();
                Ok(())
            }
            Err(error) => self.apply_policy(error),
        }
    }

    /// Removes what a failed cell appended, then applies the policy.
    #[cold]
    #[inline(never)]
    fn apply_policy(&mut self, error: CellError) -> Result<(), Refused> {
        let rows = self.validity.rows();
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
            self.validity.append_non_null();
            return Ok(());
        }
        self.failure = Some(error);
        Err(Refused)
    }
}

impl<C: Cell> Column for Typed<C> {
    #[inline]
    fn append_text(&mut self, cell: &[u8]) -> Result<(), Refused> {
        if self.cell.short_text(cell, &mut self.store) {
            self.validity.append_non_null();
            return Ok(());
        }
        self.append_any_text(cell)
    }

    #[inline]
    fn append_binary(&mut self, cell: &[u8]) -> Result<(), Refused> {
        if self.cell.short_binary(cell, &mut self.store) {
            self.validity.append_non_null();
            return Ok(());
        }
        match self.cell.binary(cell, &mut self.store) {
            Ok(()) => {
                self.validity.append_non_null();
                Ok(())
            }
            Err(error) => self.apply_policy(error),
        }
    }

    #[inline]
    fn append_null(&mut self) {
        self.store.push_null();
        self.validity.append_null();
    }

    fn failure(&self) -> CellError {
        self.failure.unwrap_or(CellError::Malformed("a cell"))
    }

    fn len(&self) -> usize {
        self.validity.rows()
    }

    fn truncate(&mut self, rows: usize) {
        self.store.truncate(rows);
        self.validity.truncate(rows);
        let before = self.nulled.partition_point(|place| *place < rows);
        self.nulled.truncate(before);
    }

    fn variable_bytes(&self) -> usize {
        self.store.variable_bytes()
    }

    fn reserve_bytes(&mut self, bytes: usize) {
        self.store.reserve_bytes(bytes);
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
        let this = *self;
        let rows = this.validity.rows();
        this.store
            .finish(rows, this.validity.finish(), &this.data_type)
    }
}
