//! The transactions that were returned from a stream that does not mark where sessions begin.

use std::collections::{HashSet, VecDeque};
use walrow_wire::{Lsn, Xid};

/// The transactions and messages that were returned so far.
#[derive(Debug, Default)]
pub(super) struct Unmarked {
    /// The session's last commit.
    pub(super) last_commit: Option<Lsn>,
    /// Transactions, and non-transactional messages with transaction ID 0. The oldest are
    /// forgotten first.
    returned: HashSet<Returned>,
    order: VecDeque<Returned>,
    /// The greatest LSN that was forgotten.
    forgotten: Option<Lsn>,
    /// How many transactions came again.
    pub(super) repeated: u64,
}

type Returned = (Xid, Lsn);

/// How many transactions are remembered. Only transactions of the last seconds come again:
/// `pg_recvlogical` confirms every 10 seconds.
const REMEMBERED: usize = 1 << 17;

impl Unmarked {
    pub(super) fn begin_session(&mut self) {
        self.last_commit = None;
    }

    /// Whether this was returned before.
    pub(super) fn has_returned(&self, xid: Xid, lsn: Lsn) -> bool {
        self.returned.contains(&(xid, lsn)) || self.forgotten.is_some_and(|it| lsn <= it)
    }

    /// Whether this was returned before. If not, takes note of it.
    pub(super) fn repeats(&mut self, xid: Xid, lsn: Lsn) -> bool {
        if self.has_returned(xid, lsn) {
            return true;
        }
        if self.order.len() >= REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.returned.remove(&oldest);
            self.forgotten = self.forgotten.max(Some(oldest.1));
        }
        self.returned.insert((xid, lsn));
        self.order.push_back((xid, lsn));
        false
    }
}
