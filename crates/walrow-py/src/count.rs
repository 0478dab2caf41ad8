//! Counts the contents of a stream, for `walrow inspect --count`.

use crate::engine::{self, lock};
use crate::errors;
use crate::options;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;
use walrow::Framing;
use walrow::stream::{self, Walk};

/// Counts frames, messages and cells by kind.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Counts(Mutex<State>);

#[derive(Debug)]
struct State {
    framing: Framing,
    walk: Walk,
    counts: stream::Counts,
}

#[pymethods]
impl Counts {
    /// Counts blocks of a stream, or with `copydata` and `message` one chunk each.
    #[new]
    #[pyo3(signature = (framing = "wire"))]
    fn new(py: Python<'_>, framing: &str) -> PyResult<Self> {
        let framing = options::framing(py, framing)?;
        Ok(Self(Mutex::new(State {
            framing,
            walk: Walk::new(framing),
            counts: stream::Counts::default(),
        })))
    }

    /// Counts a block or, with `copydata` and `message`, a chunk.
    fn feed(&self, py: Python<'_>, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = engine::bytes(data)?;
        py.detach(|| {
            self.state()?
                .feed(data.get())
                .map_err(|error| errors::raise(&error.into()))
        })
    }

    /// Whether the input so far ends inside a frame or a transaction.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(self.state()?.walk.is_mid_transaction())
    }

    /// The SQLSTATE of the server error that ended the stream.
    #[getter]
    fn server_error(&self) -> PyResult<Option<String>> {
        Ok(self.state()?.walk.server_error().map(str::to_owned))
    }

    /// The counts: `frames`, `messages` and `cells`, by their letter.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state()?;
        let counts = &state.counts;
        let result = PyDict::new(py);
        result.set_item("frames", letters(py, &counts.frames)?)?;
        result.set_item("messages", letters(py, &counts.messages)?)?;
        let cells = PyDict::new(py);
        cells.set_item("n", counts.nulls)?;
        cells.set_item("u", counts.unchanged)?;
        cells.set_item("t", counts.texts)?;
        cells.set_item("b", counts.binaries)?;
        result.set_item("cells", cells)?;
        Ok(result)
    }
}

impl Counts {
    fn state(&self) -> PyResult<std::sync::MutexGuard<'_, State>> {
        lock(&self.0)
    }
}

impl State {
    fn feed(&mut self, data: &[u8]) -> Result<(), stream::Error> {
        if !self.framing.is_chunked() {
            return self.walk(data);
        }
        let mut chunk = Vec::with_capacity(data.len().saturating_add(self.framing.header()));
        self.framing.append(data, walrow::Lsn::INVALID, &mut chunk);
        self.walk(&chunk)
    }

    fn walk(&mut self, mut input: &[u8]) -> Result<(), stream::Error> {
        while let Some(step) = self.walk.next(&mut input)? {
            self.counts.add(&step);
        }
        Ok(())
    }
}

fn letters<'py>(py: Python<'py>, counts: &[u64; 256]) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for (letter, count) in (0..=u8::MAX).zip(counts) {
        if *count > 0 {
            dict.set_item(char::from(letter), count)?;
        }
    }
    Ok(dict)
}
