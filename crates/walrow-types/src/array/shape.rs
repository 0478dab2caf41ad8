//! The dimensions of an array.

use crate::error::{CellError, Unrepresentable};

/// One dimension of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArrayShape {
    /// The number of elements.
    pub len: usize,
    /// The subscript of the first element. Lists cannot represent any other than 1.
    pub lower_bound: i32,
}

impl ArrayShape {
    pub(super) const EMPTY: Self = Self {
        len: 0,
        lower_bound: 1,
    };

    /// Whether a list of the elements loses the lower bound.
    pub const fn drops_lower_bound(self) -> bool {
        self.lower_bound != 1
    }
}

/// What comes next in an array of several dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an array has nothing else")]
pub enum ArrayStep<'a> {
    /// An element, `None` for null.
    Element(Option<&'a [u8]>),
    /// The end of an inner array; those directly in the outermost array have level 1.
    Close(usize),
}

pub(super) const MAX_DIMENSIONS: usize = 6;
pub(super) const DEPTH: CellError = CellError::Unrepresentable(Unrepresentable::MultiDimensional);
