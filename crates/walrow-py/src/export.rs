//! Exports and imports through the Arrow PyCapsule interface.

use crate::errors;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, RecordBatch, RecordBatchReader, StructArray};
use arrow_schema::{ArrowError, DataType, Schema};
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyCapsuleMethods};
use walrow::MAX_TYPE_DEPTH;

/// A schema as a capsule.
pub(crate) fn schema<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyCapsule>> {
    let schema = FFI_ArrowSchema::try_from(schema).map_err(|error| internal(&error))?;
    PyCapsule::new_with_value(py, schema, SCHEMA)
}

/// A batch as a pair of capsules: its schema, and its columns as a struct.
pub(crate) fn batch<'py>(
    py: Python<'py>,
    records: &RecordBatch,
) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
    let array = FFI_ArrowArray::new(&StructArray::from(records.clone()).to_data());
    Ok((
        schema(py, &records.schema())?,
        PyCapsule::new_with_value(py, array, c"arrow_array")?,
    ))
}

/// Batches as a capsule of a stream.
pub(crate) fn stream(
    py: Python<'_>,
    batches: impl RecordBatchReader + Send + 'static,
) -> PyResult<Bound<'_, PyCapsule>> {
    let stream = FFI_ArrowArrayStream::new(Box::new(batches));
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
}

/// The schema that an object exports.
pub(crate) fn import_schema(option: &str, object: &Bound<'_, PyAny>) -> PyResult<Schema> {
    if !object.hasattr("__arrow_c_schema__")? {
        let found = object.get_type().name()?;
        let text = format!(
            "{option} must be an Arrow schema, such as pa.schema([(\"id\", pa.int64())]), not {found}"
        );
        return Err(PyTypeError::new_err(text));
    }
    Schema::try_from(&import(object)?).map_err(|error| foreign(object, &error))
}

/// The type that an object exports.
pub(crate) fn import_type(object: &Bound<'_, PyAny>) -> PyResult<DataType> {
    DataType::try_from(&import(object)?).map_err(|error| foreign(object, &error))
}

fn import(object: &Bound<'_, PyAny>) -> PyResult<FFI_ArrowSchema> {
    let capsule = object.call_method0("__arrow_c_schema__")?;
    let capsule = capsule.cast::<PyCapsule>()?;
    let pointer = capsule.pointer_checked(Some(SCHEMA))?;
    // SAFETY: by the PyCapsule interface a capsule of this name holds a valid ArrowSchema until it
    // is destroyed, and the capsule is alive here. It is moved out and marked released, so that
    // the capsule's destructor leaves it alone.
    #[expect(unsafe_code, reason = "a foreign schema comes as a pointer")]
    let schema = unsafe { FFI_ArrowSchema::from_raw(pointer.cast().as_ptr()) };
    if is_deep(&schema) {
        let text = format!("types are nested more than {MAX_TYPE_DEPTH} levels deep");
        return Err(errors::option_error(object.py(), &text));
    }
    Ok(schema)
}

fn is_deep(schema: &FFI_ArrowSchema) -> bool {
    let mut level = vec![schema];
    for _ in 0..=MAX_TYPE_DEPTH {
        level = level.into_iter().flat_map(children).collect();
    }
    !level.is_empty()
}

fn children(schema: &FFI_ArrowSchema) -> impl Iterator<Item = &FFI_ArrowSchema> {
    schema.children().chain(schema.dictionary())
}

const SCHEMA: &std::ffi::CStr = c"arrow_schema";

#[cold]
fn foreign(object: &Bound<'_, PyAny>, error: &ArrowError) -> PyErr {
    let name = object.get_type().name();
    let name = name.map_or_else(|_| "?".to_owned(), |name| name.to_string());
    PyTypeError::new_err(format!("{name} does not export a schema: {error}"))
}

#[cold]
fn internal(error: &ArrowError) -> PyErr {
    PyRuntimeError::new_err(format!("internal error: {error}"))
}
