//! zstd, which Python's standard library has only since version 3.14. It has gzip.

use crate::engine::lock;
use pyo3::exceptions::{PyMemoryError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Mutex;
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Decompresses zstd frames, one after the other.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct ZstdDecompressor(Mutex<State>);

struct State {
    context: DCtx<'static>,
    ended: bool,
}

#[pymethods]
impl ZstdDecompressor {
    #[new]
    fn new() -> PyResult<Self> {
        let context = DCtx::try_create().ok_or_else(|| PyMemoryError::new_err("zstd"))?;
        let state = State {
            context,
            ended: true,
        };
        Ok(Self(Mutex::new(state)))
    }

    /// Whether the input so far ends between two frames.
    #[getter]
    fn ended(&self) -> PyResult<bool> {
        Ok(lock(&self.0)?.ended)
    }

    /// Decompresses a part of `data`, to at most `size` bytes.
    ///
    /// More output may be waiting if there are `size` bytes of it.
    ///
    /// Returns:
    ///     The output, and how many bytes of `data` it took.
    ///
    /// Raises:
    ///     ValueError: The data is not zstd, is damaged, or needs more than 128 MiB of
    ///         memory.
    fn decompress<'py>(
        &self,
        py: Python<'py>,
        data: &[u8],
        size: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, usize)> {
        let mut state = lock(&self.0)?;
        let state = &mut *state;
        let done = py.detach(|| state.decompress(data, size));
        match done {
            Ok((out, taken)) => Ok((PyBytes::new(py, &out), taken)),
            Err(None) => Err(PyMemoryError::new_err("zstd")),
            Err(Some(reason)) => Err(PyValueError::new_err(reason)),
        }
    }
}

impl State {
    /// # Errors
    /// zstd's reason. `None` if there is no memory.
    fn decompress(
        &mut self,
        data: &[u8],
        size: usize,
    ) -> Result<(Vec<u8>, usize), Option<&'static str>> {
        let mut out = Vec::new();
        out.try_reserve_exact(size).map_err(|_| None)?;
        let capacity = out.capacity();
        let mut input = InBuffer::around(data);
        let mut output = OutBuffer::around(&mut out);
        loop {
            let before = (input.pos(), output.pos());
            let hint = self
                .context
                .decompress_stream(&mut output, &mut input)
                .map_err(|code| Some(zstd_safe::get_error_name(code)))?;
            let after = (input.pos(), output.pos());
            if before != after {
                // A call without effect does not change where a frame ends.
                self.ended = hint == 0;
            }
            if input.pos() >= data.len() || output.pos() >= capacity {
                break;
            }
            if before == after {
                return Err(Some("no progress"));
            }
        }
        let taken = input.pos();
        Ok((out, taken))
    }
}
