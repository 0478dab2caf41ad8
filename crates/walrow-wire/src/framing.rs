//! How a stream's bytes are framed.

use crate::backend::Frame;
use crate::copy_data::XLogData;
use crate::encode::Put;
use crate::message::Message;
use crate::peek::Peek;
use crate::{Lsn, Timestamp};
use alloc::vec::Vec;

/// How the replication stream is framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Framing {
    /// Backend messages as on the connection, cut anywhere.
    #[default]
    Wire,
    /// One CopyData payload per chunk, as drivers return it.
    CopyData,
    /// One bare pgoutput message per chunk, as `pg_logical_slot_get_binary_changes` returns it.
    Message,
    /// A file of `pg_recvlogical`: bare pgoutput messages, each followed by a newline, cut
    /// anywhere.
    Recvlogical,
}

impl Framing {
    /// Whether each chunk is one payload or message. Otherwise, the input may be cut anywhere.
    pub const fn is_chunked(self) -> bool {
        matches!(self, Self::CopyData | Self::Message)
    }

    /// Bytes of a wire frame that are not in the input, before those that are.
    pub const fn header(self) -> usize {
        match self {
            Self::Wire => 0,
            Self::CopyData => Frame::HEADER,
            Self::Message | Self::Recvlogical => Peek::HEADERS,
        }
    }

    /// Bytes of the input that a wire frame of this size was made from.
    #[inline]
    pub const fn fed(self, frame: usize) -> usize {
        let bytes = frame.saturating_sub(self.header());
        match self {
            Self::Recvlogical => bytes.saturating_add(1),
            Self::Wire | Self::CopyData | Self::Message => bytes,
        }
    }

    /// Appends one chunk as wire frames, so that one reader serves all framings. Input that may be
    /// cut anywhere is appended as it is.
    ///
    /// `lsn` is the LSN of a bare message. The other framings contain their own, and ignore it.
    pub fn append(self, chunk: &[u8], lsn: Lsn, out: &mut Vec<u8>) {
        self.append_header(chunk.len(), lsn, out);
        out.put_bytes(chunk);
    }

    /// Appends what [`Framing::append`] adds before a chunk of this size.
    pub fn append_header(self, size: usize, lsn: Lsn, out: &mut Vec<u8>) {
        if self.is_chunked() {
            out.put_u8(b'd');
            let body = size
                .saturating_add(self.header())
                .saturating_sub(Frame::HEADER);
            out.put_length(body.saturating_add(4));
        }
        if self == Self::Message {
            XLogData {
                start: lsn,
                end: lsn,
                clock: Timestamp(0),
                message: &[],
            }
            .encode_header(out);
        }
    }
}

impl Message<'_> {
    /// Appends the message in a frame with XLogData, as sent at this LSN and time.
    pub fn encode_in_frame(&self, lsn: Lsn, clock: Timestamp, out: &mut Vec<u8>) {
        let data = XLogData {
            start: lsn,
            end: lsn,
            clock,
            message: &[],
        };
        Frame::encode_with(b'd', out, |out| {
            data.encode_header(out);
            self.encode(out);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendMessage, CopyData};

    #[test]
    fn every_framing_becomes_the_same_frame() {
        let mut copy_data = Vec::new();
        let data = XLogData {
            start: Lsn(9),
            end: Lsn(9),
            clock: Timestamp(0),
            message: b"E",
        };
        CopyData::XLogData(data).encode(&mut copy_data);
        let mut wire = Vec::new();
        BackendMessage::CopyData(CopyData::XLogData(data)).encode(&mut wire);

        for (framing, chunk) in [
            (Framing::Wire, wire.as_slice()),
            (Framing::CopyData, copy_data.as_slice()),
            (Framing::Message, b"E".as_slice()),
        ] {
            let mut out = Vec::new();
            framing.append(chunk, Lsn(9), &mut out);
            assert_eq!(out, wire, "{framing:?}");
            assert_eq!(out.len() - chunk.len(), framing.header());
            assert_eq!(framing.fed(out.len()), chunk.len());
        }
    }
}
