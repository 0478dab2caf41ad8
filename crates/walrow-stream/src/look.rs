//! What a frame is, told from its first bytes.

use crate::error::{Error, ErrorKind};
use crate::frames::Frames;
use walrow_wire::{BackendMessage, CopyData, Frame, Lsn, Message, Oid, PgString, XLogData, Xid};

/// What a frame is to the search for transactions.
pub(crate) enum Seen<'a> {
    /// Nothing: a keepalive, a notice.
    Nothing,
    /// `S` of `server_version`, with the major version
    ServerVersion(u32),
    /// A pgoutput message and its kind.
    Message(u8, XLogData<'a>),
    /// `W`
    SessionStart,
    /// `E`, with the SQLSTATE
    ServerError(String),
}

/// A fault inside one frame.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) kind: ErrorKind,
    pub(crate) lsn: Option<Lsn>,
}

impl From<ErrorKind> for Fault {
    fn from(kind: ErrorKind) -> Self {
        Self { kind, lsn: None }
    }
}

impl From<walrow_wire::Error> for Fault {
    fn from(error: walrow_wire::Error) -> Self {
        ErrorKind::Wire(error).into()
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        ErrorKind::from(error).into()
    }
}

impl Fault {
    pub(crate) fn near(mut self, lsn: Lsn) -> Self {
        self.lsn = Some(lsn).filter(|lsn| lsn.is_valid());
        self
    }

    /// The fault of the frame at `offset`.
    #[cold]
    pub(crate) fn at(self, frames: &Frames, offset: u64) -> Error {
        let lsn = self.lsn;
        match self.kind {
            ErrorKind::Wire(error) => Error {
                lsn,
                ..frames.error(error, offset)
            },
            kind => Error { kind, offset, lsn },
        }
    }
}

pub(crate) const INSIDE: &str = "inside a transaction";
pub(crate) const OUTSIDE: &str = "outside a transaction";
const FROM_SERVER: &str = "in what the server sent";

#[cold]
pub(crate) fn unexpected(message: &'static str, place: &'static str) -> Fault {
    ErrorKind::UnexpectedMessage { message, place }.into()
}

/// Bytes of a frame up to the message's kind, included.
const KIND: usize = Frame::HEADER
    .saturating_add(XLogData::HEADER)
    .saturating_add(1);
/// Bytes of a frame up to the relation's OID of a row outside a stream block, included.
const PLAIN_RELATION: usize = KIND.saturating_add(4);
/// The same inside one.
const STREAMED_RELATION: usize = PLAIN_RELATION.saturating_add(4);

/// The size of the first frame if it is a whole one with a message that only a committed
/// transaction's reader looks into, and what lies behind it.
#[inline]
pub(crate) fn pass_message(input: &[u8]) -> Option<(usize, &[u8])> {
    let [b'd', l0, l1, l2, l3, b'w', .., kind] = input.first_chunk::<KIND>()? else {
        return None;
    };
    if !matches!(kind, b'I' | b'U' | b'D' | b'T' | b'R' | b'Y' | b'M') {
        return None;
    }
    split([*l0, *l1, *l2, *l3], input, KIND)
}

/// The same for a row of the relation that the row before it was of.
#[inline]
pub(crate) fn pass_row(input: &[u8], relation: Oid, streamed: bool) -> Option<(usize, &[u8])> {
    let (head, least) = if streamed {
        (
            input.first_chunk::<STREAMED_RELATION>()?.as_slice(),
            STREAMED_RELATION,
        )
    } else {
        (
            input.first_chunk::<PLAIN_RELATION>()?.as_slice(),
            PLAIN_RELATION,
        )
    };
    let [b'd', l0, l1, l2, l3, b'w', ..] = head else {
        return None;
    };
    let (head, oid) = head.split_last_chunk::<4>()?;
    let kind = if streamed {
        head.len().checked_sub(5)?
    } else {
        head.len().checked_sub(1)?
    };
    if !matches!(head.get(kind)?, b'I' | b'U' | b'D') || u32::from_be_bytes(*oid) != relation {
        return None;
    }
    split([*l0, *l1, *l2, *l3], input, least)
}

/// A frame that claims less than `least` bytes is left to the parser.
#[inline]
fn split(length: [u8; 4], input: &[u8], least: usize) -> Option<(usize, &[u8])> {
    let size = (u32::from_be_bytes(length) as usize).checked_add(1)?;
    if size < least {
        return None;
    }
    Some((size, input.split_at_checked(size)?.1))
}

/// The relation of a row whose kind is known, where the frame is long enough to say.
pub(crate) fn relation_of(frame: &[u8], streamed: bool) -> Option<Oid> {
    let head = if streamed {
        frame.first_chunk::<STREAMED_RELATION>()?.as_slice()
    } else {
        frame.first_chunk::<PLAIN_RELATION>()?.as_slice()
    };
    head.last_chunk().map(|oid| u32::from_be_bytes(*oid))
}

/// The (sub)transaction of a message inside a stream block.
#[inline]
pub(crate) fn xid_of(frame: &[u8]) -> Option<Xid> {
    let xid = frame.first_chunk::<PLAIN_RELATION>()?.last_chunk()?;
    Some(u32::from_be_bytes(*xid))
}

/// The kind byte of the pgoutput message in a frame.
#[inline]
pub(crate) fn kind_of(frame: &[u8]) -> Option<u8> {
    match (frame.first(), frame.get(Frame::HEADER)) {
        (Some(b'd'), Some(b'w')) => frame
            .get(Frame::HEADER.saturating_add(XLogData::HEADER))
            .copied(),
        _ => None,
    }
}

/// The payload of a frame whose kind is known.
#[inline]
pub(crate) fn data_of(frame: &[u8]) -> Result<XLogData<'_>, walrow_wire::Error> {
    let payload = frame.get(Frame::HEADER..).unwrap_or_default();
    match CopyData::parse(payload).map_err(|error| error.at(Frame::HEADER))? {
        CopyData::XLogData(data) => Ok(data),
        // No caller asks for anything else; its message is empty and will not parse.
        _ => Ok(XLogData {
            start: Lsn(0),
            end: Lsn(0),
            clock: walrow_wire::Timestamp(0),
            message: &[],
        }),
    }
}

/// Parses the message; errors count from the frame and know the LSN.
#[inline]
pub(crate) fn parse<'a>(data: &XLogData<'a>, streamed: bool) -> Result<Message<'a>, Fault> {
    data.message(streamed)
        .map_err(|error| Fault::from(error.at(Frame::HEADER)).near(data.start))
}

#[inline]
pub(crate) fn look(frame: &[u8]) -> Result<Seen<'_>, Fault> {
    if let Some(kind) = kind_of(frame) {
        return Ok(Seen::Message(kind, data_of(frame)?));
    }
    let [tag, _, _, _, _, body @ ..] = frame else {
        return Ok(Seen::Nothing);
    };
    Ok(match BackendMessage::parse(Frame { tag: *tag, body })? {
        BackendMessage::CopyBothResponse(_) => Seen::SessionStart,
        BackendMessage::ErrorResponse(fields) => Seen::ServerError(
            fields
                .get(b'C')
                .map_or_else(String::new, |sqlstate| sqlstate.to_string()),
        ),
        BackendMessage::ParameterStatus(status) if status.name == PgString(b"server_version") => {
            let version = status.value.to_str().unwrap_or_default();
            let digits = version.split(|it: char| !it.is_ascii_digit()).next();
            let major = digits.and_then(|digits| digits.parse().ok());
            major.map_or(Seen::Nothing, Seen::ServerVersion)
        }
        // No message, not even a kind: the parse says so.
        BackendMessage::CopyData(CopyData::XLogData(data)) => {
            parse(&data, false)?;
            Seen::Nothing
        }
        BackendMessage::CopyData(CopyData::StandbyStatusUpdate(_)) => {
            return Err(unexpected("Standby status update", FROM_SERVER));
        }
        BackendMessage::CopyData(CopyData::HotStandbyFeedback(_)) => {
            return Err(unexpected("Hot standby feedback", FROM_SERVER));
        }
        _ => Seen::Nothing,
    })
}
