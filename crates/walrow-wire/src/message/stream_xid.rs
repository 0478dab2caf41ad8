//! The transaction ID that messages carry inside a stream block.

use crate::Xid;
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::Error;
use alloc::vec::Vec;

/// Reads the ID, if the message is in a stream block.
pub(super) fn stream_xid(cursor: &mut Cursor<'_>, in_stream: bool) -> Result<Option<Xid>, Error> {
    if in_stream {
        cursor.u32("transaction ID").map(Some)
    } else {
        Ok(None)
    }
}

/// Appends the ID, if there is one.
pub(super) fn put_stream_xid(out: &mut Vec<u8>, xid: Option<Xid>) {
    if let Some(xid) = xid {
        out.put_u32(xid);
    }
}
