//! Assembles the committed transactions of a stream slowly and plainly: everything is owned, kept
//! in memory, and searched in full for every lookup.

mod outcome;
mod reader;
mod transaction;

use crate::{OwnedMessage, walk};
pub use outcome::{Committed, Described, ReadOptions, Reason, Refused};
use reader::Reader;
use walrow_wire::Frame;

/// Reads a stream of any protocol version to its last whole frame.
///
/// # Errors
/// Bytes that do not follow the protocol, and messages in wrong places, even in transactions that
/// are rolled back later.
pub fn committed(bytes: &[u8]) -> Result<Committed, Box<Refused>> {
    committed_with(bytes, ReadOptions::default())
}

/// As [`committed`], with these options.
pub fn committed_with(bytes: &[u8], options: ReadOptions) -> Result<Committed, Box<Refused>> {
    let mut reader = Reader::new(options);
    let limit = options.message_limit.saturating_add(30);
    let mut refused = None;
    let walked = walk(bytes, |step| {
        if refused.is_some() {
            return;
        }
        let size = step.frame.body.len() + Frame::HEADER;
        let result = if size > limit {
            Err(Reason::Impossible("a message past the limit"))
        } else {
            reader.step(&step.backend, step.message.as_ref().map(OwnedMessage::from))
        };
        refused = result.err();
    });
    let reason = refused.or_else(|| match walked {
        Err(error) => Some(Reason::Wire(error)),
        Ok(end) => match Frame::size(&bytes[end..]) {
            Ok(Some(size)) if size > limit => Some(Reason::Impossible("a message past the limit")),
            Ok(_) => None,
            Err(error) => Some(Reason::Wire(error.at(end))),
        },
    });
    let mut committed = reader.committed;
    committed.prepared = reader
        .prepared
        .into_keys()
        .map(|(gid, xid, _)| (xid, gid))
        .collect();
    match reason {
        None => Ok(committed),
        Some(reason) => Err(Box::new(Refused { committed, reason })),
    }
}
