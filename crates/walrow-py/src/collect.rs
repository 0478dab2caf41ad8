//! All rows of a reader or a batch, for `walrow.dataframes`.

use crate::batch::Batch;
use crate::reader::Reader;
use crate::rows::Rows;
use pyo3::prelude::*;

/// Takes all rows of a `Reader` or a `Batch`: `Rows`, or a dictionary of them by table.
#[pyfunction]
pub(crate) fn rows_of<'py>(source: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    let py = source.py();
    match source.cast::<Batch>() {
        Ok(batch) => Ok(Bound::new(py, Rows::of(&batch.get().0))?.into_any()),
        Err(_) => source.cast::<Reader>()?.get().rows(py),
    }
}
