//! A part of the input whose rows several threads append.

use walrow_stream::{Change, Unread};

/// The least bytes of an input that threads share: they begin and end with it, which takes about
/// 0.1 ms.
const LEAST_INPUT: usize = if SMALL { 64 } else { 256 << 10 };
/// A stretch ends when it holds so many bytes: nobody takes batches meanwhile.
const MOST_BYTES: usize = if SMALL { 64 << 10 } else { 32 << 20 };
/// The rows of a batch are divided into jobs of at least so many bytes.
const LEAST_JOB: usize = if SMALL { 256 } else { 512 << 10 };
/// The threads get new rows after this number of steps.
pub(crate) const STEPS: u32 = if SMALL { 16 } else { 1 << 12 };
/// Tests have small inputs, and many of them.
const SMALL: bool = cfg!(debug_assertions);

/// A stretch of the input, and the jobs that its rows have become.
#[derive(Debug)]
pub(crate) struct Stretch<W> {
    /// The address of the input, and its size.
    start: usize,
    size: usize,
    /// A job has about this number of bytes.
    job_bytes: usize,
    /// The number of the next row, among the rows of all tables.
    number: u64,
    /// Jobs that no thread has got.
    jobs: Vec<(usize, W)>,
    /// The number of the next job.
    next: usize,
    /// Bytes of the batches that ended, and of the layouts.
    held: usize,
    /// The relation versions with rows of the stretch.
    pub(crate) versions: Vec<u32>,
}

impl<W> Stretch<W> {
    /// Begins with this input.
    pub(crate) fn new(input: &[u8], threads: usize) -> Self {
        let jobs = threads.saturating_mul(2);
        let size = input.len().min(MOST_BYTES);
        Self {
            start: input.as_ptr().addr(),
            size: input.len(),
            job_bytes: size.checked_div(jobs).unwrap_or(size).max(LEAST_JOB),
            number: 0,
            jobs: Vec::new(),
            next: 0,
            held: 0,
            versions: Vec::new(),
        }
    }

    /// Where the row's frame is in the input, if it is there.
    #[inline]
    pub(crate) fn place_of(&self, change: &Change<'_, Unread<'_>>) -> Option<usize> {
        // A frame elsewhere has an address before the input, or behind it.
        let place = change.row.frame().as_ptr().addr().wrapping_sub(self.start);
        (place < self.size).then_some(place)
    }

    /// The number of the next row.
    #[inline]
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Counts a row, and returns its number.
    #[inline]
    pub(crate) const fn count(&mut self) -> u64 {
        let number = self.number;
        self.number = number.wrapping_add(1);
        number
    }

    /// Whether rows of this number of bytes are a job.
    #[inline]
    pub(crate) const fn is_job(&self, bytes: usize) -> bool {
        bytes >= self.job_bytes
    }

    /// Adds a job, and returns its number.
    pub(crate) fn push(&mut self, job: W) -> usize {
        let number = self.next;
        self.jobs.push((number, job));
        self.next = number.saturating_add(1);
        number
    }

    /// The jobs that no thread has got.
    pub(crate) fn take_jobs(&mut self) -> std::vec::Drain<'_, (usize, W)> {
        self.jobs.drain(..)
    }

    /// Counts bytes that the stretch holds until it ends.
    pub(crate) const fn hold(&mut self, bytes: usize) {
        self.held = self.held.saturating_add(bytes);
    }

    /// Whether it holds so much that the caller must take the batches.
    pub(crate) const fn is_full(&self) -> bool {
        self.held >= MOST_BYTES
    }
}

/// Whether threads share this input.
pub(crate) const fn is_worth_threads(input: &[u8], threads: usize) -> bool {
    threads > 1 && input.len() >= LEAST_INPUT
}
