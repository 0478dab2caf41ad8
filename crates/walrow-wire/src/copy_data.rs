//! The payloads of CopyData, both ways.
//!
//! Manual: [Streaming Replication Protocol](https://www.postgresql.org/docs/current/protocol-replication.html).

use crate::cursor::Cursor;
use crate::encode::Put;
use crate::error::{Error, ErrorKind};
use crate::{Lsn, Message, Timestamp, Xid};
use alloc::vec::Vec;

/// One CopyData payload of a replication connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyData<'a> {
    /// `w`, from the server: one message of the output plugin.
    XLogData(XLogData<'a>),
    /// `k`, from the server.
    PrimaryKeepalive(PrimaryKeepalive),
    /// `r`, from the client.
    StandbyStatusUpdate(StandbyStatusUpdate),
    /// `h`, from the client.
    HotStandbyFeedback(HotStandbyFeedback),
}

/// Data of the stream: exactly one pgoutput message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct XLogData<'a> {
    /// The LSN of the change; 0/0 on Relation and Type, and on Begin where an Origin follows.
    /// Not monotonic: never a measure of progress.
    pub start: Lsn,
    /// "Current end of WAL"; logical decoding writes the same value as `start`.
    pub end: Lsn,
    /// When the server sent it.
    pub clock: Timestamp,
    /// The message, for [`Message::parse`].
    pub message: &'a [u8],
}

/// The server's sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryKeepalive {
    /// The end of the last WAL record the walsender has processed.
    pub end: Lsn,
    /// When the server sent it.
    pub clock: Timestamp,
    /// Whether the client shall answer at once, or be disconnected soon.
    pub reply_requested: bool,
}

/// The client's progress. Each LSN is the last byte + 1, that is, a transaction's end LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyStatusUpdate {
    /// Received and written.
    pub write: Lsn,
    /// Durable: the only one that lets the slot release WAL. 0/0 says nothing.
    pub flush: Lsn,
    /// Applied.
    pub apply: Lsn,
    /// When the client sent it.
    pub clock: Timestamp,
    /// Whether the server shall answer at once.
    pub reply_requested: bool,
}

/// The client's oldest snapshot, which the server shall not vacuum away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HotStandbyFeedback {
    /// When the client sent it.
    pub clock: Timestamp,
    /// The standby's xmin; 0 together with `catalog_xmin` 0 ends the feedback.
    pub xmin: Xid,
    /// The epoch of `xmin`.
    pub xmin_epoch: u32,
    /// The lowest catalog xmin of the standby's slots.
    pub catalog_xmin: Xid,
    /// The epoch of `catalog_xmin`.
    pub catalog_xmin_epoch: u32,
}

impl<'a> CopyData<'a> {
    /// Parses one payload, without the frame around it.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Result<Self, Error> {
        let cursor = Cursor::new(payload, "CopyData");
        let mut body = cursor;
        match body.u8("kind")? {
            b'w' => {
                let mut body = body.named("XLogData");
                Ok(Self::XLogData(XLogData {
                    start: body.lsn("start of the WAL data")?,
                    end: body.lsn("end of WAL")?,
                    clock: body.timestamp("clock")?,
                    message: body.rest(),
                }))
            }
            // Nearly all payloads are data, so callers inline no more than that.
            kind => Self::parse_other(kind, body, cursor),
        }
    }

    #[inline(never)]
    fn parse_other(kind: u8, body: Cursor<'a>, unread: Cursor<'a>) -> Result<Self, Error> {
        match kind {
            b'k' => {
                let mut body = body.named("Primary keepalive");
                let keepalive = PrimaryKeepalive {
                    end: body.lsn("end of WAL")?,
                    clock: body.timestamp("clock")?,
                    reply_requested: body.flag("reply requested")?,
                };
                body.finish()?;
                Ok(Self::PrimaryKeepalive(keepalive))
            }
            b'r' => {
                let mut body = body.named("Standby status update");
                let update = StandbyStatusUpdate {
                    write: body.lsn("written LSN")?,
                    flush: body.lsn("flushed LSN")?,
                    apply: body.lsn("applied LSN")?,
                    clock: body.timestamp("clock")?,
                    reply_requested: body.flag("reply requested")?,
                };
                body.finish()?;
                Ok(Self::StandbyStatusUpdate(update))
            }
            b'h' => {
                let mut body = body.named("Hot standby feedback");
                let feedback = HotStandbyFeedback {
                    clock: body.timestamp("clock")?,
                    xmin: body.u32("xmin")?,
                    xmin_epoch: body.u32("xmin epoch")?,
                    catalog_xmin: body.u32("catalog xmin")?,
                    catalog_xmin_epoch: body.u32("catalog xmin epoch")?,
                };
                body.finish()?;
                Ok(Self::HotStandbyFeedback(feedback))
            }
            other => Err(unread.error(ErrorKind::UnknownKind(other), "kind")),
        }
    }

    /// Appends the payload's bytes: the exact inverse of [`CopyData::parse`].
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::XLogData(data) => {
                data.encode_header(out);
                out.put_bytes(data.message);
            }
            Self::PrimaryKeepalive(keepalive) => {
                out.put_u8(b'k');
                out.put_lsn(keepalive.end);
                out.put_timestamp(keepalive.clock);
                out.put_u8(keepalive.reply_requested.into());
            }
            Self::StandbyStatusUpdate(update) => {
                out.put_u8(b'r');
                out.put_lsn(update.write);
                out.put_lsn(update.flush);
                out.put_lsn(update.apply);
                out.put_timestamp(update.clock);
                out.put_u8(update.reply_requested.into());
            }
            Self::HotStandbyFeedback(feedback) => {
                out.put_u8(b'h');
                out.put_timestamp(feedback.clock);
                out.put_u32(feedback.xmin);
                out.put_u32(feedback.xmin_epoch);
                out.put_u32(feedback.catalog_xmin);
                out.put_u32(feedback.catalog_xmin_epoch);
            }
        }
    }
}

impl<'a> XLogData<'a> {
    /// Bytes of the payload before the message: kind, two LSNs and a timestamp.
    pub const HEADER: usize = 25;

    /// Appends everything but the message.
    pub fn encode_header(&self, out: &mut Vec<u8>) {
        out.put_u8(b'w');
        out.put_lsn(self.start);
        out.put_lsn(self.end);
        out.put_timestamp(self.clock);
    }

    /// Parses the message, whose offset in errors counts from the payload's start.
    ///
    /// `in_stream` says whether a Stream Start is open: see [`Message::parse`].
    ///
    /// # Errors
    /// As [`Message::parse`]; bytes that are not pgoutput and come as physical replication sends
    /// its own are [`ErrorKind::PhysicalStream`]. That is an answer to the first data of a
    /// session; where a message was read before, it is [`Message::parse`] that tells the fault.
    #[inline]
    pub fn message(&self, in_stream: bool) -> Result<Message<'a>, Error> {
        match Message::parse(self.message, in_stream) {
            Ok(message) => Ok(message),
            Err(error) => {
                // A copy, so that the data themselves stay in registers.
                let data = *self;
                Err(data.diagnose(error))
            }
        }
    }

    /// Says of a message that did not parse whether it is WAL, and counts from the payload.
    #[cold]
    pub fn diagnose(&self, error: Error) -> Error {
        // Logical decoding writes one LSN twice. Physical replication writes where the WAL it
        // sends begins and where the server's ends, which is always further. What the bytes are
        // is no sign: those of a corrupt message can be any.
        if self.start < self.end && self.start.is_valid() {
            let field = "data";
            let kind = ErrorKind::PhysicalStream;
            return Error {
                kind,
                offset: Self::HEADER,
                message: "XLogData",
                field,
            };
        }
        error.at(Self::HEADER)
    }
}
