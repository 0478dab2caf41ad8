//! Ctrl-C while bytes are read or written without the interpreter.

use crate::errors;
use crate::log_store;
use pyo3::prelude::*;
use std::io::{self, Read, Write};
use std::thread;
use std::time::{Duration, Instant};
use walrow::log::{Error, ErrorKind, Step};

/// The number of bytes after which signals are checked.
const SLICE: usize = 8 << 20;

/// Runs pending signal handlers. Returns the exception of a handler, such as that of Ctrl-C.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is of one lifetime only"
)]
pub(crate) fn check() -> PyResult<()> {
    Python::try_attach(|py| py.check_signals()).unwrap_or(Ok(()))
}

/// How often signals are checked between the steps of something that takes long.
const PAUSE: Duration = Duration::from_millis(50);

/// Waits for another process, unless a signal handler raises an exception. `errors::log_error` raises
/// that then.
pub(crate) fn pause(time: Duration) -> io::Result<()> {
    thread::sleep(time);
    check().map_err(|raised| {
        log_store::keep(raised);
        io::ErrorKind::Interrupted.into()
    })
}

/// Runs something of a log in steps, which ends when a signal handler raises an exception.
pub(crate) fn in_steps<T>(
    run: impl FnOnce(&mut Step<'_>) -> Result<T, Error>,
) -> Result<T, Stopped> {
    let mut raised = None;
    let mut checked = Instant::now();
    let done = run(&mut || {
        if checked.elapsed() >= PAUSE {
            checked = Instant::now();
            if let Err(error) = check() {
                raised = Some(error);
                return Err(ErrorKind::Interrupted.into());
            }
        }
        Ok(())
    });
    match raised {
        Some(raised) => Err(Stopped::Raised(raised)),
        None => done.map_err(Stopped::Failed),
    }
}

/// Why something ended before it was done.
pub(crate) enum Stopped {
    /// A signal handler has raised this.
    Raised(PyErr),
    Failed(Error),
}

impl Stopped {
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Raised(error) => error,
            Self::Failed(error) => errors::log_error(py, error),
        }
    }
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A reader or writer that fails when a signal handler raises an exception.
pub(crate) struct Interruptible<T> {
    pub(crate) inner: T,
    since: usize,
    raised: Option<PyErr>,
}

impl<T> Interruptible<T> {
    pub(crate) const fn new(inner: T) -> Self {
        Self {
            inner,
            since: 0,
            raised: None,
        }
    }

    /// Returns the exception of the handler, if it raised one.
    pub(crate) fn raised(&mut self) -> PyResult<()> {
        self.raised.take().map_or(Ok(()), Err)
    }

    fn count(&mut self, bytes: usize) -> io::Result<()> {
        self.since = self.since.saturating_add(bytes);
        if self.since >= SLICE {
            self.since = 0;
            if let Err(error) = check() {
                self.raised = Some(error);
                return Err(io::Error::other("interrupted"));
            }
        }
        Ok(())
    }
}

impl<T: Read> Read for Interruptible<T> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let size = self.inner.read(buffer)?;
        self.count(size)?;
        Ok(size)
    }
}

impl<T: Write> Write for Interruptible<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.count(bytes.len())?;
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Simulates Ctrl-C.
#[expect(unsafe_code, reason = "PyO3 has no other way")]
pub(crate) fn set_interrupt() {
    // SAFETY: it only sets a flag, and may be called at any time.
    unsafe { pyo3::ffi::PyErr_SetInterrupt() }
}
