//! What a frame contains, from its first bytes.

use crate::backend::{Frame, MAX_LENGTH};
use crate::cursor::Cursor;
use crate::encode::Put;
use crate::message::Parse;
use crate::{Begin, Commit, Error, Kind, Lsn, Message, Timestamp, UnreadRow, XLogData, Xid};
use alloc::vec::Vec;

/// A whole frame with a pgoutput message. Only its first bytes were read.
///
/// ```text
/// ┌───┬────────┬───┬───────────┬─────────┬───────────┬──────┬─ … ─┐
/// │ d │ length │ w │ start (8) │ end (8) │ clock (8) │ kind │     │
/// └───┴────────┴───┴───────────┴─────────┴───────────┴──────┴─ … ─┘
/// ```
/// The search for a transaction's end uses it to skip rows: it reads 31 bytes of each. Error
/// offsets count from the frame's first byte.
#[derive(Clone, Copy, Debug)]
pub struct Peek<'a> {
    kind: Kind,
    frame: &'a [u8],
}

/// Bytes of a frame before the message.
const HEADERS: usize = Frame::HEADER.saturating_add(XLogData::HEADER);
/// Bytes of a frame up to and including the message's kind.
const HEAD: usize = HEADERS.saturating_add(1);

impl<'a> Peek<'a> {
    /// The first frame of `input` and the bytes after it. `None` unless it is a whole frame with a
    /// message of a known kind.
    #[inline]
    pub fn split(input: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let head = input.first_chunk::<HEAD>()?;
        let [b'd', l0, l1, l2, l3, b'w', .., kind] = head else {
            return None;
        };
        let kind = Kind::from_byte(*kind)?;
        let length = u32::from_be_bytes([*l0, *l1, *l2, *l3]);
        let size = (length as usize).saturating_add(1);
        if size < HEAD || length > MAX_LENGTH {
            return None;
        }
        let (frame, rest) = input.split_at_checked(size)?;
        Some((Self { kind, frame }, rest))
    }

    /// As [`Peek::split`], for a slice that is exactly one frame.
    #[inline]
    pub fn new(frame: &'a [u8]) -> Option<Self> {
        let (peek, rest) = Self::split(frame)?;
        rest.is_empty().then_some(peek)
    }

    /// The message's kind.
    #[inline]
    pub const fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of the frame.
    #[inline]
    pub const fn size(&self) -> usize {
        self.frame.len()
    }

    /// The whole frame.
    #[inline]
    pub const fn frame(&self) -> &'a [u8] {
        self.frame
    }

    /// The LSN of the change: [`XLogData::start`].
    #[inline]
    pub fn start(&self) -> Lsn {
        let start = self.frame.get(Frame::HEADER.saturating_add(1)..);
        let start = start.and_then(|start| start.first_chunk());
        start.map_or(Lsn::INVALID, |start| Lsn(u64::from_be_bytes(*start)))
    }

    /// The message, including its kind.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.frame.get(HEADERS..).unwrap_or_default()
    }

    /// The (sub)transaction, if the frame is in a stream block and its kind carries one.
    #[inline]
    pub fn xid(&self) -> Option<Xid> {
        let xid = self.frame.get(HEAD..)?.first_chunk()?;
        self.kind.carries_xid().then(|| Xid::from_be_bytes(*xid))
    }

    /// The changed row. `None` if the message changes no row, or is too short to name a relation.
    #[inline]
    pub fn row(&self, in_stream: bool) -> Option<UnreadRow<'a>> {
        if !self.kind.is_row() {
            return None;
        }
        UnreadRow::of(self.kind, self.frame.get(HEAD..)?, in_stream)
    }

    /// Parses the message.
    ///
    /// # Errors
    /// As [`XLogData::message`].
    #[inline]
    pub fn message(&self, in_stream: bool) -> Result<Message<'a>, Error> {
        let message = Message::parse(self.bytes(), in_stream);
        message.map_err(|error| self.diagnose(error))
    }

    /// Parses a Begin.
    ///
    /// # Errors
    /// As [`Peek::message`]; the caller has seen the kind.
    #[inline]
    pub fn begin(&self) -> Result<Begin, Error> {
        self.parse("Begin")
    }

    /// Parses a Commit.
    ///
    /// # Errors
    /// As [`Peek::message`]; the caller has seen the kind.
    #[inline]
    pub fn commit(&self) -> Result<Commit, Error> {
        self.parse("Commit")
    }

    /// Parses a message of a known kind, without a match on all kinds.
    #[inline]
    fn parse<T: Parse<'a>>(&self, name: &'static str) -> Result<T, Error> {
        let mut cursor = Cursor::new(self.bytes(), name);
        let parsed = cursor
            .u8("kind")
            .and_then(|_| T::parse(&mut cursor))
            .and_then(|message| cursor.finish().map(|()| message));
        parsed.map_err(|error| self.diagnose(error))
    }

    /// Appends the frame, with the message as it is sent outside stream blocks: without the ID of the
    /// (sub)transaction that messages in a block carry.
    #[inline]
    pub fn encode_outside(&self, in_stream: bool, out: &mut Vec<u8>) {
        if !in_stream || !self.kind.carries_xid() {
            out.put_bytes(self.frame);
            return;
        }
        let xid = size_of::<Xid>();
        let rest = self.frame.get(HEAD.saturating_add(xid)..);
        let size = self.frame.len().saturating_sub(1).saturating_sub(xid);
        out.put_u8(b'd');
        out.put_length(size);
        out.put_bytes(self.frame.get(Frame::HEADER..HEAD).unwrap_or_default());
        out.put_bytes(rest.unwrap_or_default());
    }

    #[cold]
    fn diagnose(&self, error: Error) -> Error {
        self.data().diagnose(error).at(Frame::HEADER)
    }

    /// The XLogData around the message.
    #[inline]
    pub fn data(&self) -> XLogData<'a> {
        let numbers = self.frame.get(Frame::HEADER.saturating_add(1)..HEADERS);
        let (numbers, _) = numbers.unwrap_or_default().as_chunks::<8>();
        let number = |place: usize| numbers.get(place).map_or(0, |it| u64::from_be_bytes(*it));
        XLogData {
            start: Lsn(number(0)),
            end: Lsn(number(1)),
            clock: Timestamp(number(2).cast_signed()),
            message: self.bytes(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BackendMessage, CopyData};

    #[test]
    fn a_frame_is_looked_at_as_it_is_parsed() {
        let data = XLogData {
            start: Lsn(0x0102_0304_0506_0708),
            end: Lsn(9),
            clock: Timestamp(-1),
            message: b"B\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03",
        };
        let mut bytes = Vec::new();
        BackendMessage::CopyData(CopyData::XLogData(data)).encode(&mut bytes);
        let size = bytes.len();
        bytes.push(b'd');
        let (peek, rest) = Peek::split(&bytes).unwrap();
        assert_eq!(
            (peek.kind(), peek.size(), rest),
            (Kind::Begin, size, &b"d"[..])
        );
        assert_eq!((peek.start(), peek.data()), (data.start, data));
        assert_eq!(peek.begin().map(Message::Begin), peek.message(false));
        assert!(peek.row(false).is_none() && peek.xid().is_none());
        assert!(Peek::new(&bytes).is_none());
        for end in 0..size {
            assert!(Peek::split(&bytes[..end]).is_none());
        }
        // One byte short of a Begin: the same error as the parser's.
        let mut short = bytes[..size - 1].to_vec();
        short[4] -= 1;
        let short = Peek::new(&short).unwrap();
        assert_eq!(short.begin().map(Message::Begin), short.message(false));
        assert!(short.begin().is_err());
    }
}
