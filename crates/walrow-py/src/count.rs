//! Counts the contents of a stream, for `walrow inspect --count`.

use crate::engine::{self, lock};
use crate::errors;
use crate::options;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use std::sync::Mutex;
use walrow::Framing;
use walrow::stream::{self, Walk};
use walrow::wire::Kind;

/// The letters and names of cells.
const CELLS: [(&str, &str); 4] = [
    ("n", "null"),
    ("u", "unchanged"),
    ("t", "text"),
    ("b", "binary"),
];

/// Counts frames, messages and cells by kind.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Counts(Mutex<State>);

#[derive(Debug)]
struct State {
    framing: Framing,
    walk: Walk,
    counts: stream::Counts,
    /// The name of each kind of frame that was counted.
    frame_names: [&'static str; 256],
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
            frame_names: [""; 256],
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
        let counted = [
            counts.nulls,
            counts.unchanged,
            counts.texts,
            counts.binaries,
        ];
        for ((letter, _), count) in CELLS.iter().zip(counted) {
            cells.set_item(letter, count)?;
        }
        result.set_item("cells", cells)?;
        Ok(result)
    }

    /// The names of what `result` counts, by letter as there.
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state()?;
        let (frames, messages) = (PyDict::new(py), PyDict::new(py));
        for (letter, name) in (0..=u8::MAX).zip(state.frame_names) {
            if !name.is_empty() {
                frames.set_item(char::from(letter), name)?;
            }
            if let Some(kind) = Kind::from_byte(letter) {
                messages.set_item(char::from(letter), kind.name())?;
            }
        }
        let names = PyDict::new(py);
        names.set_item("frames", frames)?;
        names.set_item("messages", messages)?;
        names.set_item("cells", CELLS.into_py_dict(py)?)?;
        Ok(names)
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
            let kind = usize::from(step.backend.kind());
            if let Some(name) = self.frame_names.get_mut(kind) {
                *name = step.backend.name();
            }
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
