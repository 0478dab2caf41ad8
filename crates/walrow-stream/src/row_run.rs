//! Rows that are read again later, also on another thread.

use crate::relation::Relation;
use crate::transaction::{Change, Context, Unread};
use std::sync::Arc;
use walrow_wire::Peek;

/// Rows of one relation version and one transaction whose frames follow each other: all that is
/// needed to read them again, without their bytes.
///
/// A caller keeps the bytes, or knows where they are. So one thread can find rows, and another thread
/// can make columns of them.
#[derive(Clone, Copy, Debug)]
pub struct RowRun {
    /// The seq and the offset of the first row.
    seq: u64,
    offset: u64,
    /// The same of the row that would follow.
    next_seq: u64,
    next_offset: u64,
    context: Context,
}

impl RowRun {
    /// A run of one row.
    #[inline]
    pub fn new(first: &Change<'_, Unread<'_>>) -> Self {
        let mut run = Self {
            seq: first.seq,
            offset: first.offset,
            next_seq: first.seq,
            next_offset: first.offset,
            context: *first.row.context,
        };
        run.push(first);
        run
    }

    /// Adds a row, if it is the next one in the stream, and of the same transaction.
    ///
    /// The caller compares its transaction and its relation version.
    #[inline]
    pub fn extend(&mut self, next: &Change<'_, Unread<'_>>) -> bool {
        let follows = next.seq == self.next_seq && next.offset == self.next_offset;
        if follows {
            self.push(next);
        }
        follows
    }

    #[inline]
    fn push(&mut self, row: &Change<'_, Unread<'_>>) {
        self.next_seq = row.seq.wrapping_add(1);
        self.next_offset = row.offset.wrapping_add(self.context.fed(row.row.size()));
    }

    /// The rows, unread, as they were pushed. `frames` are their frames, and `relation` is the
    /// version that they arrived under.
    pub fn rows<'a>(
        &'a self,
        frames: &'a [u8],
        relation: &'a Arc<Relation>,
    ) -> impl Iterator<Item = Change<'a, Unread<'a>>> {
        let (mut rest, mut seq, mut offset) = (frames, self.seq, self.offset);
        std::iter::from_fn(move || {
            let (peek, behind) = Peek::split(rest)?;
            let change = Change {
                seq,
                lsn: peek.start(),
                offset,
                relation,
                row: Unread::new(peek, &self.context),
            };
            rest = behind;
            seq = seq.wrapping_add(1);
            offset = offset.wrapping_add(self.context.fed(peek.size()));
            Some(change)
        })
    }
}
