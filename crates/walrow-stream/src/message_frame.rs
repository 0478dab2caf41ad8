//! A message in a frame of its own.

use walrow_wire::{BackendMessage, CopyData, Lsn, Message, Timestamp, XLogData};

/// Writes a message in a frame, as sent at this LSN and time.
pub(crate) fn put(message: &Message<'_>, lsn: Lsn, clock: Timestamp, out: &mut Vec<u8>) {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    let data = XLogData {
        start: lsn,
        end: lsn,
        clock,
        message: &bytes,
    };
    BackendMessage::CopyData(CopyData::XLogData(data)).encode(out);
}
