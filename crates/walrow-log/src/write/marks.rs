//! Counts of the bytes that a writer has taken since the journal was cleared.

/// Counts of bytes since the journal was cleared.
///
/// ```text
/// 0 … published … whole … size
///     in a        whole   of the transaction
///     segment             that is being written
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    size: u64,
    whole: u64,
    published: u64,
    published_blocks: usize,
}

impl Marks {
    /// The marks of a journal that has only facts. The writer knows these facts already.
    pub(crate) const fn known(size: u64, blocks: usize) -> Self {
        Self {
            size,
            whole: size,
            published: size,
            published_blocks: blocks,
        }
    }

    /// All bytes.
    pub(crate) const fn size(self) -> u64 {
        self.size
    }

    /// Bytes of the transaction that is being written.
    pub(crate) const fn current(self) -> u64 {
        self.size.saturating_sub(self.whole)
    }

    /// Bytes that are in no segment.
    pub(crate) const fn unpublished(self) -> u64 {
        self.size.saturating_sub(self.published)
    }

    /// Blocks that are in a segment.
    pub(crate) const fn published_blocks(self) -> usize {
        self.published_blocks
    }

    /// Where the current transaction begins.
    pub(crate) const fn whole(self) -> u64 {
        self.whole
    }

    /// Counts bytes that were added.
    pub(crate) const fn add(&mut self, bytes: usize) {
        self.size = self.size.saturating_add(bytes as u64);
    }

    /// Counts bytes that were added before the current transaction.
    pub(crate) const fn add_whole(&mut self, bytes: usize) {
        self.add(bytes);
        self.whole = self.whole.saturating_add(bytes as u64);
    }

    /// Marks all bytes so far as whole.
    pub(crate) const fn end(&mut self) {
        self.whole = self.size;
    }

    /// Marks the whole transactions, and this many blocks, as published.
    pub(crate) const fn publish(&mut self, blocks: usize) {
        self.published = self.whole;
        self.published_blocks = blocks;
    }

    /// Takes away the current transaction, and returns its bytes.
    pub(crate) const fn cut(&mut self) -> u64 {
        let current = self.current();
        self.size = self.whole;
        current
    }
}
