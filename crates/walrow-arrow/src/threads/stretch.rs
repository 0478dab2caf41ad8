//! A part of the input whose rows several threads append.

use walrow_stream::{Change, Unread};

/// The least bytes of an input that threads share: they begin and end with it, which takes about
/// 0.1 ms.
const LEAST_INPUT: usize = if SMALL { 64 } else { 256 << 10 };
/// Bytes of batches after which a stretch ends: nobody takes batches meanwhile.
const MOST_BYTES: usize = if SMALL { 4 << 10 } else { 32 << 20 };
/// The rows of a batch are divided into works of at least so many bytes.
const LEAST_WORK: usize = if SMALL { 256 } else { 512 << 10 };
/// Tests have small inputs, and many of them.
const SMALL: bool = cfg!(debug_assertions);

/// A stretch of the input, and the works that its rows have become.
#[derive(Debug)]
pub(crate) struct Stretch<W> {
    /// The address of the input, and its size.
    start: usize,
    size: usize,
    /// A work has about this number of bytes.
    work_bytes: usize,
    /// The number of the next row, among the rows of all tables.
    number: u64,
    /// Works that no thread has got.
    works: Vec<(usize, W)>,
    /// The number of the next work.
    next: usize,
    /// Bytes of the batches that ended.
    ended: usize,
    /// The relation versions with rows of the stretch, and those that were handed over.
    pub(crate) versions: Vec<u32>,
    pub(crate) settles: Vec<u32>,
}

impl<W> Stretch<W> {
    /// Begins with this input.
    pub(crate) fn new(input: &[u8], threads: usize) -> Self {
        let works = threads.saturating_mul(2);
        let size = input.len().min(MOST_BYTES);
        Self {
            start: input.as_ptr().addr(),
            size: input.len(),
            work_bytes: size.checked_div(works).unwrap_or(size).max(LEAST_WORK),
            number: 0,
            works: Vec::new(),
            next: 0,
            ended: 0,
            versions: Vec::new(),
            settles: Vec::new(),
        }
    }

    /// Where the row's frame is in the input, if it is there.
    #[inline]
    pub(crate) fn place_of(&self, change: &Change<'_, Unread<'_>>) -> Option<usize> {
        let frame = change.row.frame();
        let place = frame.as_ptr().addr().checked_sub(self.start)?;
        let end = place.checked_add(frame.len())?;
        (end <= self.size).then_some(place)
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

    /// Whether rows of this number of bytes are a work.
    #[inline]
    pub(crate) const fn is_work(&self, bytes: usize) -> bool {
        bytes >= self.work_bytes
    }

    /// Adds a work, and returns its number.
    pub(crate) fn push(&mut self, work: W) -> usize {
        let number = self.next;
        self.works.push((number, work));
        self.next = number.saturating_add(1);
        number
    }

    /// The works that no thread has got.
    pub(crate) fn take_works(&mut self) -> std::vec::Drain<'_, (usize, W)> {
        self.works.drain(..)
    }

    /// Counts a batch that ended.
    pub(crate) const fn end_batch(&mut self, bytes: usize) {
        self.ended = self.ended.saturating_add(bytes);
    }

    /// Whether so many batches ended that the caller must take them.
    pub(crate) const fn is_full(&self) -> bool {
        self.ended >= MOST_BYTES
    }
}

/// Whether threads share this input.
pub(crate) const fn is_worth_threads(input: &[u8], threads: usize) -> bool {
    threads > 1 && input.len() >= LEAST_INPUT
}
