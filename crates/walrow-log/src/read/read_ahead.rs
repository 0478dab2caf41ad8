//! Reads segments in a second thread, while the caller decodes.

use crate::error::Error;
use crate::read::Step;
use crate::read::resolve::PlanReader;
use std::io;
use std::panic::resume_unwind;
use std::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// How long it waits for a chunk between two steps.
const STEP: Duration = Duration::from_millis(50);

const FORKED: &str = "a forked process has no thread that reads: read the log again there";
const PANICKED: &str = "the thread that reads has panicked";

/// The stream of the segments of a [`PlanReader`], which another thread reads and decompresses.
///
/// It returns the same chunks as the plan, in the same order, and the same errors. There are at most
/// three chunks of 16 MiB each: the caller's, one that waits, and one that the thread fills. The thread
/// ends soon after this value is dropped.
///
/// ```
/// use walrow_log::{Log, Plan, ReadAhead};
/// use walrow_wire::Lsn;
///
/// fn size(log: &Log) -> Result<usize, Box<dyn std::error::Error>> {
///     let stream = log.read(&log.plan(&Plan::default())?, Lsn::INVALID)?;
///     let mut ahead = ReadAhead::start(stream)?;
///     let (mut chunk, mut size) = (Vec::new(), 0);
///     while ahead.read(&mut chunk, &mut || Ok(()))? {
///         size += chunk.len(); // decode it here
///     }
///     Ok(size)
/// }
/// ```
#[derive(Debug)]
pub struct ReadAhead(State);

#[derive(Debug)]
enum State {
    Reading(Reading),
    Ended,
    Failed(Error),
}

#[derive(Debug)]
struct Reading {
    chunks: Receiver<Result<Vec<u8>, Error>>,
    /// Memory of chunks that were decoded.
    used: Sender<Vec<u8>>,
    thread: JoinHandle<()>,
    /// The process of the thread.
    process: u32,
}

impl ReadAhead {
    /// Starts the thread.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn start(stream: PlanReader) -> io::Result<Self> {
        let (sender, chunks) = sync_channel(1);
        let (used, memory) = channel();
        let thread = Builder::new().name("walrow-segments".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = read_all(stream, &sender, &memory) {
                // Nobody needs the error if the caller has stopped.
                let _ = sender.send(Err(error));
            }
        })?;
        Ok(Self(State::Reading(Reading {
            chunks,
            used,
            thread,
            process: process::id(),
        })))
    }

    /// Reads the next bytes of the stream, in place of the chunk's contents. Returns false at the
    /// end. While it waits, it calls `step` every 50 ms, whose error it returns.
    ///
    /// # Errors
    /// A segment is damaged, was removed, or cannot be read; or the process was forked, and this is the
    /// new one. Later calls repeat the error.
    ///
    /// # Panics
    /// The thread has panicked.
    pub fn read(&mut self, chunk: &mut Vec<u8>, step: &mut Step<'_>) -> Result<bool, Error> {
        let reading = match &self.0 {
            State::Reading(reading) => reading,
            State::Ended => {
                chunk.clear();
                return Ok(false);
            }
            State::Failed(error) => return Err(error.clone()),
        };
        if reading.process != process::id() {
            let error = Error::store("", &io::Error::other(FORKED));
            // A thread that is not in this process may have locked the channel.
            std::mem::forget(std::mem::replace(&mut self.0, State::Failed(error.clone())));
            return Err(error);
        }
        // The thread may have ended.
        let _ = reading.used.send(std::mem::take(chunk));
        loop {
            match reading.chunks.recv_timeout(STEP) {
                Ok(Ok(read)) => {
                    *chunk = read;
                    return Ok(true);
                }
                Ok(Err(error)) => {
                    self.0 = State::Failed(error.clone());
                    return Err(error);
                }
                Err(RecvTimeoutError::Timeout) => step()?,
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let State::Reading(reading) = std::mem::replace(&mut self.0, State::Ended)
            && let Err(panic) = reading.thread.join()
        {
            self.0 = State::Failed(Error::store("", &io::Error::other(PANICKED)));
            resume_unwind(panic);
        }
        Ok(false)
    }
}

/// Sends the chunks of all segments, until nobody takes them any more.
fn read_all(
    mut stream: PlanReader,
    chunks: &SyncSender<Result<Vec<u8>, Error>>,
    memory: &Receiver<Vec<u8>>,
) -> Result<(), Error> {
    let mut chunk = Vec::new();
    while stream.read(&mut chunk)? {
        if chunks.send(Ok(std::mem::take(&mut chunk))).is_err() {
            return Ok(());
        }
        chunk = memory.try_recv().unwrap_or_default();
    }
    Ok(())
}
