//! Up to where a log has everything, also if its database is quiet.
//!
//! A segment ends with a transaction. Only the journal knows how far the server has decoded since,
//! without a transaction for the log. A state as of such a position is the state at the end of the
//! segments.

use crate::error::Error;
use crate::format::journal::{Header, JournalBlocks};
use crate::read::log::Log;
use crate::store::OPEN;
use std::io;
use walrow_stream::{Assembler, Event, Fact};
use walrow_wire::Lsn;

/// The end of a log, as the log and its journal know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reached {
    /// Up to where the server has sent everything. No transaction came after the last segment.
    pub position: Lsn,
    /// Whether more came, which is not published yet.
    pub has_more: bool,
    /// The timeline of the data that came last, and where it began, if the journal knows that.
    pub timeline: Option<(u32, Option<Lsn>)>,
}

impl Log {
    /// Up to where the log has everything. `None` if a segment was published since it was opened.
    ///
    /// A copy of a log has no journal, and so has a log whose writer has just published.
    ///
    /// # Errors
    /// The journal is of another version of walrow. The store failed.
    pub fn reached(&self) -> Result<Option<Reached>, Error> {
        let io = |error| Error::store(OPEN, &error);
        let end = self.end();
        let mut found = Reached {
            position: end,
            has_more: false,
            timeline: None,
        };
        let mut file = match self.objects().open(OPEN) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Some(found)),
            file => file.map_err(io)?,
        };
        let mut blocks = JournalBlocks::new(&mut *file).map_err(io)?;
        let Some((header, _)) = blocks.next().map_err(io)? else {
            return Ok(Some(found));
        };
        let begin = Header::parse(header)?.begin;
        if begin > end {
            return Ok(None);
        }
        if begin < end {
            // Its transactions were published: the next writer would empty it.
            return Ok(Some(found));
        }
        let mut assembler = Assembler::default();
        // A block that is not whole is the end: the writer may be writing it.
        while let Some((mut block, _)) = blocks.next().map_err(io)? {
            while let Some(event) = assembler.next_with(&mut block, |_| Err::<(), _>(()))? {
                match event {
                    Event::Fact(fact) => match *fact {
                        Fact::Position { lsn } => found.position = found.position.max(lsn),
                        Fact::Timeline { timeline, start } => {
                            found.timeline = Some((timeline, start));
                        }
                        _ => {}
                    },
                    Event::Begin(_) | Event::Message(_) => {
                        found.has_more = true;
                        return Ok(Some(found));
                    }
                    _ => {}
                }
            }
        }
        Ok(Some(found))
    }
}
