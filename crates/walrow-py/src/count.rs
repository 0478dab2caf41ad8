//! Counts what is in a stream, for `walrow inspect --count`.

use crate::engine::lock;
use crate::errors;
use crate::messages::Session;
use crate::options;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::Mutex;
use walrow::Framing;
use walrow::stream::{self, ErrorKind};
use walrow::wire::{self, Cell, CopyData, Frame, Message, Tuple};

/// Counts frames, messages and cells by kind.
#[derive(Debug)]
#[pyclass(frozen, module = "walrow._core")]
pub(crate) struct Counts(Mutex<State>);

#[derive(Debug)]
struct State {
    framing: Framing,
    session: Session,
    /// Bytes of whole frames.
    offset: u64,
    /// The frame that the last block cut.
    partial: Vec<u8>,
    frames: [u64; 256],
    messages: [u64; 256],
    cells: [u64; 4],
}

#[pymethods]
impl Counts {
    /// Counts `wire` frames; in other framings each block is one chunk.
    #[new]
    #[pyo3(signature = (framing = "wire"))]
    fn new(py: Python<'_>, framing: &str) -> PyResult<Self> {
        let framing = options::framing(py, framing)?;
        Ok(Self(Mutex::new(State {
            framing,
            session: Session::default(),
            offset: 0,
            partial: Vec::new(),
            frames: [0; 256],
            messages: [0; 256],
            cells: [0; 4],
        })))
    }

    /// Counts a block or, with framings other than `wire`, a chunk.
    fn feed(&self, py: Python<'_>, data: &[u8]) -> PyResult<()> {
        py.detach(|| {
            self.state()?
                .feed(data)
                .map_err(|error| errors::raise(&error.into()))
        })
    }

    /// Whether the input so far ends inside a frame.
    #[getter]
    fn unfinished(&self) -> PyResult<bool> {
        Ok(!self.state()?.partial.is_empty())
    }

    /// The counts: `frames`, `messages` and `cells`, by their letter.
    fn result<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let state = self.state()?;
        let result = PyDict::new(py);
        result.set_item("frames", letters(py, &state.frames)?)?;
        result.set_item("messages", letters(py, &state.messages)?)?;
        let cells = PyDict::new(py);
        for (kind, count) in ["n", "u", "t", "b"].iter().zip(state.cells) {
            cells.set_item(kind, count)?;
        }
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
    fn feed(&mut self, mut data: &[u8]) -> Result<(), stream::Error> {
        if self.framing != Framing::Wire {
            let mut chunk = Vec::with_capacity(data.len().saturating_add(64));
            self.framing.append(data, walrow::Lsn::INVALID, &mut chunk);
            return self.whole(&chunk).map(|_| ());
        }
        while !self.partial.is_empty() && !data.is_empty() {
            let size = Frame::size(&self.partial).map_err(|error| self.error(error, 0))?;
            let wanted = size
                .unwrap_or(Frame::HEADER)
                .saturating_sub(self.partial.len());
            let (head, rest) = data.split_at(wanted.min(data.len()));
            self.partial.extend_from_slice(head);
            data = rest;
            let mut partial = std::mem::take(&mut self.partial);
            let used = self.whole(&partial)?;
            partial.drain(..used);
            self.partial = partial;
        }
        let used = self.whole(data)?;
        self.partial
            .extend_from_slice(data.get(used..).unwrap_or_default());
        Ok(())
    }

    /// Counts whole frames and says how many bytes they have.
    fn whole(&mut self, data: &[u8]) -> Result<usize, stream::Error> {
        let mut rest = data;
        while let Some((frame, size)) = Frame::parse(rest).map_err(|error| self.error(error, 0))? {
            self.frame(frame)?;
            let fed = size.saturating_sub(self.framing.header());
            self.offset = self.offset.saturating_add(fed as u64);
            rest = rest.get(size..).unwrap_or_default();
        }
        Ok(data.len().saturating_sub(rest.len()))
    }

    fn frame(&mut self, frame: Frame<'_>) -> Result<(), stream::Error> {
        if frame.tag != b'd' {
            if frame.tag == b'W' {
                self.session = Session::default();
            }
            add(&mut self.frames, frame.tag, 1);
            return Ok(());
        }
        let payload =
            CopyData::parse(frame.body).map_err(|error| self.error(error, Frame::HEADER))?;
        add(
            &mut self.frames,
            frame.body.first().copied().unwrap_or(b'd'),
            1,
        );
        let CopyData::XLogData(data) = payload else {
            return Ok(());
        };
        match self.session.message(&data) {
            Ok(Some(message)) => self.message(&message),
            Ok(None) => {}
            Err(error) => return Err(self.error(error, Frame::HEADER)),
        }
        Ok(())
    }

    fn message(&mut self, message: &Message<'_>) {
        add(&mut self.messages, message.kind(), 1);
        match message {
            Message::Insert(insert) => self.tuple(insert.new),
            Message::Update(update) => {
                if let Some(old) = update.old {
                    self.tuple(old.tuple());
                }
                self.tuple(update.new);
            }
            Message::Delete(delete) => self.tuple(delete.old.tuple()),
            _ => {}
        }
    }

    fn tuple(&mut self, tuple: Tuple<'_>) {
        let [mut null, mut unchanged, mut text, mut binary] = self.cells;
        for cell in tuple.cells() {
            let count = match cell {
                Cell::Null => &mut null,
                Cell::Unchanged => &mut unchanged,
                Cell::Text(_) => &mut text,
                _ => &mut binary,
            };
            *count = count.saturating_add(1);
        }
        self.cells = [null, unchanged, text, binary];
    }

    #[cold]
    fn error(&self, error: wire::Error, before: usize) -> stream::Error {
        let inside = error
            .offset
            .saturating_add(before)
            .saturating_sub(self.framing.header());
        stream::Error {
            offset: self.offset.saturating_add(inside as u64),
            kind: ErrorKind::Wire(error),
            lsn: None,
        }
    }
}

fn add(counts: &mut [u64; 256], letter: u8, count: u64) {
    if let Some(place) = counts.get_mut(usize::from(letter)) {
        *place = place.saturating_add(count);
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
