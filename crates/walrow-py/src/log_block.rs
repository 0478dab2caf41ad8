//! Blocks of a log's stream, which Python and the decoder read where they are.

use pyo3::ffi;
use pyo3::prelude::*;
use std::ffi::c_int;
use std::sync::Arc;

/// Bytes of a log's stream, as a read-only buffer.
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct LogBlock(pub(crate) Arc<Vec<u8>>);

#[pymethods]
impl LogBlock {
    fn __len__(&self) -> usize {
        self.0.len()
    }

    #[expect(unsafe_code, reason = "PyO3 has no other way to export a buffer")]
    #[expect(clippy::needless_pass_by_value, reason = "as PyO3 calls it")]
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes = &slf.get().0;
        let length = bytes.len().try_into()?;
        // SAFETY: the view holds a reference to the object, whose bytes stay where they are and as they
        // are: the object is frozen, and its vector is not changed while the object shares it.
        let result = unsafe {
            let start = bytes.as_ptr().cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, length, 1, flags)
        };
        if result < 0 {
            return Err(PyErr::fetch(slf.py()));
        }
        Ok(())
    }
}

/// Memory for the blocks of a stream. New memory costs more than filling it.
#[derive(Default)]
pub(crate) struct BlockMemory(Vec<Arc<Vec<u8>>>);

/// While the decoder has one block, the next one is read.
const KEPT: usize = 2;

impl BlockMemory {
    /// A vector of earlier blocks that nobody uses any more, or a new one.
    pub(crate) fn take(&mut self) -> Vec<u8> {
        let free = self.0.iter().position(|it| Arc::strong_count(it) == 1);
        free.and_then(|place| Arc::into_inner(self.0.swap_remove(place)))
            .unwrap_or_default()
    }

    /// Shares the bytes of a block.
    pub(crate) fn share(&mut self, bytes: Vec<u8>) -> Arc<Vec<u8>> {
        let shared = Arc::new(bytes);
        if self.0.len() < KEPT {
            self.0.push(Arc::clone(&shared));
        }
        shared
    }
}
