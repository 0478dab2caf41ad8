//! Which unfinished batches have rows, how much they hold, and which are finished next.

use crate::options::Options;
use std::collections::{BTreeSet, VecDeque};

/// The relation versions that have rows, and the limits of their batches.
#[derive(Debug)]
pub(crate) struct OpenBatches {
    limits: Limits,
    /// The versions that have rows.
    open: BTreeSet<u32>,
    /// The open versions that become batches next, in this order, before more rows are appended.
    /// They are finished one by one as batches are taken: all at once needs much more memory.
    due: VecDeque<u32>,
    /// Bytes that the unfinished batches of tables hold.
    held: usize,
    /// Bytes that the envelope and the side tables hold.
    other: usize,
}

/// The memory of a batch is counted ahead of its rows: counting at each row takes time. This is
/// at most one of so many parts of the memory limit, and so many bytes.
const COUNTED_AHEAD: usize = 4096;
const MAX_AHEAD: usize = 16 << 10;

/// When batches are finished.
#[derive(Clone, Copy, Debug)]
struct Limits {
    rows: usize,
    bytes: usize,
    /// For all unfinished batches together.
    memory: usize,
}

impl OpenBatches {
    pub(crate) const fn new(options: &Options) -> Self {
        Self {
            limits: Limits {
                rows: options.batch_rows,
                bytes: options.batch_bytes,
                memory: options.batch_memory,
            },
            open: BTreeSet::new(),
            due: VecDeque::new(),
            held: 0,
            other: 0,
        }
    }

    /// Whether a batch has room for more rows, of this number.
    #[inline]
    pub(crate) const fn has_room(&self, rows: usize, more: usize) -> bool {
        rows <= self.limits.rows.saturating_sub(more)
    }

    /// Whether a batch of this number of rows and bytes is full.
    #[inline]
    pub(crate) const fn is_full(&self, rows: usize, bytes: usize) -> bool {
        rows >= self.limits.rows || bytes >= self.limits.bytes
    }

    /// Whether all batches together hold too much.
    #[inline]
    pub(crate) const fn hold_too_much(&self) -> bool {
        self.held.saturating_add(self.other) > self.limits.memory
    }

    /// Up to how many bytes of rows the memory of a batch is counted in advance.
    pub(crate) fn mark_after(&self, bytes: usize) -> usize {
        let step = (self.limits.memory / COUNTED_AHEAD).min(MAX_AHEAD);
        bytes.saturating_add(step).min(self.limits.bytes)
    }

    /// Counts the bytes of a batch that held others before.
    #[inline]
    pub(crate) const fn recount(&mut self, before: usize, after: usize) {
        self.held = self.held.saturating_sub(before).saturating_add(after);
    }

    /// Counts the bytes of the envelope and the side tables.
    pub(crate) const fn count_other(&mut self, bytes: usize) {
        // A growing vector may reserve twice the bytes that it holds.
        self.other = bytes.saturating_mul(2);
    }

    /// Whether the envelope and the side tables hold a large part of the memory limit.
    pub(crate) const fn is_other_large(&self) -> bool {
        self.other > self.quarter()
    }

    const fn quarter(&self) -> usize {
        self.limits.memory / 4
    }

    /// Chooses versions that become due until a quarter of the memory limit is free. It frees that
    /// much at once because it looks at all versions, which takes time.
    pub(crate) fn make_largest_due(&mut self, held: impl Fn(u32) -> Option<usize>) {
        let all = self.held.saturating_add(self.other);
        let most = self.limits.memory.saturating_sub(self.quarter());
        let mut excess = all.saturating_sub(most);
        if excess == 0 {
            return;
        }
        let size = |version: &u32| Some((held(*version)?, *version));
        let mut sizes: Vec<_> = self.open.iter().filter_map(size).collect();
        // The largest first.
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        for (size, version) in sizes {
            self.due.push_back(version);
            excess = excess.saturating_sub(size);
            if excess == 0 {
                break;
            }
        }
    }

    /// Adds a version that has rows.
    pub(crate) fn insert(&mut self, version: u32) {
        self.open.insert(version);
    }

    /// Removes a version, whose batch is finished.
    pub(crate) fn remove(&mut self, version: u32) {
        self.open.remove(&version);
    }

    /// Keeps the versions that still have rows.
    pub(crate) fn retain(&mut self, mut has_rows: impl FnMut(u32) -> bool) {
        self.open.retain(|version| has_rows(*version));
    }

    /// The versions that have rows.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().copied()
    }

    /// Whether no version has rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Makes all versions due.
    pub(crate) fn all_due(&mut self) {
        self.due.clear();
        self.due.extend(&self.open);
    }

    /// Takes the next version that is due.
    pub(crate) fn next_due(&mut self) -> Option<u32> {
        self.due.pop_front()
    }

    /// Makes a version not due.
    pub(crate) fn not_due(&mut self, version: u32) {
        self.due.retain(|due| *due != version);
    }

    /// Whether versions are due.
    pub(crate) fn has_due(&self) -> bool {
        !self.due.is_empty()
    }
}
