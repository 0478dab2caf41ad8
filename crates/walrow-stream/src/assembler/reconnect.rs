//! Sessions that the stream does not mark.
//!
//! `pg_recvlogical` reconnects by itself and continues the same file. The server then sends
//! unconfirmed transactions again:
//!
//! ```text
//! B 100 … C 100  B 200 … C 200  B 300 I I │ B 200 … C 200  B 300 I I I C 300
//!                                         │
//!                             the connection broke, and nothing in the file says so
//! ```
//! Within a session, commits come in the order of their LSNs, and transactions do not nest. So a
//! message that breaks this order is from another session:
//! - A message that cannot come inside the open transaction or block: the new session begins right
//!   there.
//! - A Begin whose commit LSN is not above the last commit's: the new session began somewhere after
//!   the last commit. Streamed transactions that began before that commit are dropped: they are
//!   surely from the session before. Relations stay: a server describes each relation again before
//!   it uses it.
//! - The begin of a transaction whose streamed chunks are here: it replaces them. The other
//!   streamed transactions stay: their session is not known.
//!
//! If the server sends no transaction again, it makes no difference where a session begins.

use super::search::Search;
use super::session::Session;
use walrow_wire::{Kind, Lsn, Message, Peek, Xid};

impl Session {
    /// Takes note of a commit. Returns whether its transaction was returned before.
    ///
    /// `skipped` means that it is not returned now.
    pub(super) fn commits(&mut self, xid: Xid, lsn: Lsn, skipped: bool) -> bool {
        self.interrupted.complete(xid, lsn);
        let Some(unmarked) = &mut self.unmarked else {
            return false;
        };
        self.undecided.commits = self.undecided.commits.saturating_add(1);
        unmarked.last_commit = Some(lsn);
        let repeated = !skipped && unmarked.repeats(xid, lsn);
        if repeated {
            unmarked.repeated = unmarked.repeated.saturating_add(1);
        }
        repeated
    }

    /// Begins a session if the next frame shows that a session began. Returns whether it did.
    #[inline]
    pub(super) fn begins_unmarked(&mut self, search: &mut Search, frame: &[u8]) -> bool {
        if self.unmarked.is_none() {
            return false;
        }
        match Peek::new(frame) {
            Some(peek) if !peek.kind().is_row() => self.begins_at(search, &peek),
            _ => false,
        }
    }

    fn begins_at(&mut self, search: &mut Search, peek: &Peek<'_>) -> bool {
        let Some(unmarked) = &mut self.unmarked else {
            return false;
        };
        if let Search::Between = search {
            let message = match peek.kind() {
                Kind::Begin | Kind::BeginPrepare | Kind::StreamStart => peek.message(false),
                _ => return false,
            };
            let (xid, last) = match message {
                Ok(Message::Begin(begin)) => {
                    let last = unmarked.last_commit;
                    (begin.xid, last.filter(|last| begin.final_lsn <= *last))
                }
                Ok(Message::BeginPrepare(begin)) => (begin.xid, None),
                Ok(Message::StreamStart(start)) if start.first => (start.xid, None),
                // A fault is an error of the step.
                _ => return false,
            };
            self.undecided.drop_streamed(xid);
            if last.is_some() {
                unmarked.begin_session();
                self.undecided.drop_earlier();
            }
            return last.is_some();
        }
        if !search.is_cut_by(peek) {
            return false;
        }
        unmarked.begin_session();
        self.drop_all(search);
        true
    }
}

impl Search {
    /// Whether the message begins a session, because it cannot come inside the open transaction or
    /// block.
    fn is_cut_by(&self, peek: &Peek<'_>) -> bool {
        match (peek.kind(), self) {
            (
                Kind::Begin
                | Kind::BeginPrepare
                | Kind::StreamStart
                | Kind::CommitPrepared
                | Kind::RollbackPrepared,
                _,
            ) => true,
            // Without a Begin Prepare, it belongs to a transaction without changes.
            (Kind::Prepare, Self::Block(open)) if !open.streamed => {
                let message = peek.message(false);
                let xid = open.transaction.xid;
                matches!(message, Ok(Message::Prepare(prepare)) if prepare.xid != xid)
            }
            (Kind::Prepare, _) => true,
            (Kind::StreamAbort, Self::Block(open)) => open.streamed,
            (Kind::Message, Self::Block(open)) if open.streamed => {
                peek.xid() != Some(open.transaction.xid)
            }
            (Kind::Message, _) => {
                let message = peek.message(false);
                matches!(message, Ok(Message::Message(message)) if !message.transactional)
            }
            _ => false,
        }
    }
}
