//! How a stream's bytes are framed.

use crate::backend::Frame;
use crate::copy_data::XLogData;
use crate::encode::Put;
use crate::{Lsn, Timestamp};
use alloc::vec::Vec;

/// How the replication stream is framed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Framing {
    /// Backend messages as on the connection, cut anywhere.
    #[default]
    Wire,
    /// One CopyData payload per chunk, as drivers return it.
    CopyData,
    /// One bare pgoutput message per chunk, as `pg_logical_slot_get_binary_changes` returns it.
    Message,
}

impl Framing {
    /// Bytes that [`Framing::append`] puts in front of a chunk.
    pub const fn header(self) -> usize {
        match self {
            Self::Wire => 0,
            Self::CopyData => Frame::HEADER,
            Self::Message => Frame::HEADER.saturating_add(XLogData::HEADER),
        }
    }

    /// Appends one chunk as wire frames, so that one reader serves all framings.
    ///
    /// `lsn` is the LSN of a bare message. The other framings contain their own, and ignore it.
    pub fn append(self, chunk: &[u8], lsn: Lsn, out: &mut Vec<u8>) {
        if self != Self::Wire {
            out.put_u8(b'd');
            let body = chunk
                .len()
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
        out.put_bytes(chunk);
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
        }
    }
}
