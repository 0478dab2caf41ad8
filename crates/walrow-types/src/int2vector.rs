//! `int2vector` and `oidvector`: arrays of the system catalogs whose text differs from that of other arrays.
//!
//! ```text
//! text    1 2 3     without braces
//! binary  an array whose first subscript is 0
//! ```

use crate::array::{BinaryArray, array_from_binary};
use crate::error::CellError;
use crate::pg_type::PgType;

/// `int2vector` or `oidvector`: text without braces, and subscripts from 0 on.
#[derive(Debug)]
pub struct Vector<E: ?Sized> {
    /// The type of the elements.
    pub element: std::sync::Arc<E>,
    /// Its OID.
    pub element_oid: u32,
}

impl<E: ?Sized> Vector<E> {
    /// Visits the elements of a text cell.
    ///
    /// # Errors
    /// The errors of `visit`.
    pub fn visit_text(
        &self,
        cell: &[u8],
        mut visit: impl FnMut(&[u8]) -> Result<(), CellError>,
    ) -> Result<(), CellError> {
        if cell.is_empty() {
            return Ok(());
        }
        cell.split(|byte| *byte == b' ').try_for_each(&mut visit)
    }

    /// The elements of a binary cell.
    ///
    /// # Errors
    /// The cell is malformed.
    pub fn binary<'a>(&self, cell: &'a [u8]) -> Result<BinaryArray<'a>, CellError> {
        let array = array_from_binary(cell, self.element_oid).map_err(|_| NOT_A_VECTOR)?;
        if array.has_nulls() || (array.shape().len > 0 && array.shape().lower_bound != 0) {
            return Err(NOT_A_VECTOR);
        }
        Ok(array)
    }
}

impl<E: PgType + ?Sized> PgType for Vector<E> {
    fn text_from_binary(&self, cell: &[u8], out: &mut Vec<u8>) -> Result<(), CellError> {
        let start = out.len();
        for element in self.binary(cell)? {
            if out.len() > start {
                out.push(b' ');
            }
            self.element
                .text_from_binary(element?.unwrap_or_default(), out)?;
        }
        Ok(())
    }
}

const NOT_A_VECTOR: CellError = CellError::Malformed("an array from 0 on, without nulls");
