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
    /// The LSN of the change; 0/0 on Relation and Type, and on Begin where an Origin follows. Not
    /// monotonic, so it never measures progress.
    pub start: Lsn,
    /// "Current end of WAL". Logical decoding writes the same value as `start`.
    pub end: Lsn,
    /// When the server sent it.
    pub clock: Timestamp,
    /// The message, for [`Message::parse`].
    pub message: &'a [u8],
}

/// The server's keepalive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrimaryKeepalive {
    /// The end of the last WAL record the walsender has processed.
    pub end: Lsn,
    /// When the server sent it.
    pub clock: Timestamp,
    /// Whether the client should reply at once to avoid a timeout disconnect.
    pub reply_requested: bool,
}

/// The client's progress. Each LSN is the last byte + 1, that is, a transaction's end LSN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandbyStatusUpdate {
    /// Received and written.
    pub write: Lsn,
    /// Flushed to disk: only this one lets the slot release WAL. 0/0 is ignored.
    pub flush: Lsn,
    /// Applied.
    pub apply: Lsn,
    /// When the client sent it.
    pub clock: Timestamp,
    /// Whether the server should reply at once.
    pub reply_requested: bool,
}

/// The client's oldest snapshot: VACUUM must keep the rows that it sees.
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
            // Nearly all payloads are XLogData, so callers inline only that case.
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

    /// The payload's first byte: `w`, `k`, `r` or `h`.
    pub const fn kind(&self) -> u8 {
        match self {
            Self::XLogData(_) => b'w',
            Self::PrimaryKeepalive(_) => b'k',
            Self::StandbyStatusUpdate(_) => b'r',
            Self::HotStandbyFeedback(_) => b'h',
        }
    }

    /// Its name.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::XLogData(_) => "XLogData",
            Self::PrimaryKeepalive(_) => "PrimaryKeepalive",
            Self::StandbyStatusUpdate(_) => "StandbyStatusUpdate",
            Self::HotStandbyFeedback(_) => "HotStandbyFeedback",
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

impl PrimaryKeepalive {
    /// Bytes of the payload. XLogData is always longer.
    pub const SIZE: usize = 18;
}

impl<'a> XLogData<'a> {
    /// Bytes of the payload before the message: kind, two LSNs and a timestamp.
    pub const HEADER: usize = 25;

    /// Appends everything except the message.
    pub fn encode_header(&self, out: &mut Vec<u8>) {
        out.put_u8(b'w');
        out.put_u64s([self.start.0, self.end.0, self.clock.0.cast_unsigned()]);
    }

    /// Parses the message. Error offsets count from the payload's first byte.
    ///
    /// `in_stream` says whether a Stream Start is open: see [`Message::parse`].
    ///
    /// # Errors
    /// As [`Message::parse`]. Bytes that are not pgoutput but look like physical replication are
    /// [`ErrorKind::PhysicalStream`]. Use this method for the first data of a session. After a
    /// valid message, use [`Message::parse`]: its error is the right one.
    #[inline]
    pub fn message(&self, in_stream: bool) -> Result<Message<'a>, Error> {
        match Message::parse(self.message, in_stream) {
            Ok(message) => Ok(message),
            Err(error) => {
                // Copies the data, so that the original can stay in registers.
                let data = *self;
                Err(data.diagnose(error))
            }
        }
    }

    /// Decides whether a message that did not parse is WAL. The offset counts from the payload.
    #[cold]
    pub fn diagnose(&self, error: Error) -> Error {
        // Logical decoding writes the same LSN twice. Physical replication writes where the sent
        // WAL begins and where the server's WAL ends, which is always later. The message's bytes
        // prove nothing, because a corrupt message can contain any bytes.
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
