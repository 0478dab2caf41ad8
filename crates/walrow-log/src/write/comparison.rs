//! Compares a server with the server of a log. The log's server sends the log's last transaction or
//! message again. It sends no later transaction or message up to the log's end.
//!
//! ```text
//!                    last        position
//! log     ─┬────┬────┬───────────┤
//! server   …    …    ┬───────────┼──┬───►
//!                    comes again │  new
//!                    nothing else
//! ```
//! A server that was set back to an older copy goes on with other transactions at these LSNs.

use crate::error::{Error, ErrorKind, OtherServer};
use walrow_stream::fact::Taken;
use walrow_wire::Lsn;

/// How far the server of a session has been compared with the log's.
#[derive(Debug, Default)]
pub(crate) enum Comparison {
    /// The server is the log's, or the caller asked for no comparison.
    #[default]
    Passed,
    /// The server has not sent everything up to the log's end yet.
    Waiting(Waiting),
    /// The server is the log's, but the log ignores all changes of this session.
    Only,
}

/// The part of the log that a server still has to send.
#[derive(Debug)]
pub(crate) struct Waiting {
    /// Where the log ends.
    position: Lsn,
    /// The last transaction or message that the log took.
    last: Option<Taken>,
    /// The log compares from this LSN on. A server that has the last transaction has the earlier
    /// ones, too. A slot that got `two_phase` later sends earlier Prepares with their commits.
    from: Lsn,
    /// Whether the server still has to send the last transaction or message again.
    is_due: bool,
    /// Whether the log only waits for its end, as an earlier session has compared the server.
    is_known: bool,
    /// Whether the log ignores all changes of the session.
    only: bool,
}

impl Comparison {
    /// Begins to compare a server that sends all changes after `confirmed`.
    pub(crate) fn begin(position: Lsn, last: Option<&Taken>, confirmed: Lsn, only: bool) -> Self {
        if !position.is_valid() {
            return Self::Passed;
        }
        Self::Waiting(Waiting {
            position,
            from: last.map_or(confirmed, |last| last.lsn().max(confirmed)),
            is_due: last.is_some_and(|last| last.comes_after(confirmed)),
            last: last.cloned(),
            is_known: false,
            only,
        })
    }

    /// Waits for the log's end without comparing anything.
    pub(crate) fn known(position: Lsn) -> Self {
        match Self::begin(position, None, Lsn::INVALID, false) {
            Self::Waiting(waiting) => Self::Waiting(Waiting {
                is_known: true,
                ..waiting
            }),
            passed => passed,
        }
    }

    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self, Self::Waiting(_))
    }

    /// Whether the log takes new changes.
    pub(crate) const fn takes(&self) -> bool {
        matches!(self, Self::Passed)
    }

    /// Compares a transaction, prepare or message that ends at this LSN. Returns whether the server
    /// has now sent everything up to the log's end.
    pub(crate) fn meet(&mut self, found: &Taken, end: Lsn) -> Result<bool, Error> {
        let Self::Waiting(waiting) = self else {
            return Ok(false);
        };
        if end > waiting.position {
            waiting.check_due()?;
            self.pass();
            return Ok(true);
        }
        if waiting.is_known || found.lsn() < waiting.from {
            return Ok(false);
        }
        match &waiting.last {
            Some(last) if last.is(found) => waiting.is_due = false,
            _ => return Err(waiting.refuse(OtherServer::Foreign, found.lsn())),
        }
        Ok(false)
    }

    /// Notes that the server has sent everything up to this LSN. Returns whether the log's end was
    /// reached by that.
    pub(crate) fn reach(&mut self, lsn: Lsn) -> Result<bool, Error> {
        let Self::Waiting(waiting) = self else {
            return Ok(false);
        };
        if lsn < waiting.position {
            return Ok(false);
        }
        waiting.check_due()?;
        self.pass();
        Ok(true)
    }

    fn pass(&mut self) {
        *self = match self {
            Self::Waiting(Waiting { only: true, .. }) | Self::Only => Self::Only,
            Self::Waiting(_) | Self::Passed => Self::Passed,
        };
    }
}

impl Waiting {
    fn check_due(&self) -> Result<(), Error> {
        match &self.last {
            Some(last) if self.is_due => Err(self.refuse(OtherServer::Missing, last.lsn())),
            _ => Ok(()),
        }
    }

    fn refuse(&self, why: OtherServer, lsn: Lsn) -> Error {
        let position = self.position;
        Error::new("", ErrorKind::OtherServer { why, lsn, position })
    }
}
