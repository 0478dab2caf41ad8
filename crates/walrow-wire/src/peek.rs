//! What a frame contains, from its first bytes.

use crate::backend::{Frame, MAX_LENGTH};
use crate::encode::Put;
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
///
/// It is the fastest way through a capture: [`Message::parse`] checks all cells of a row before one
/// of them is read, an [`UnreadRow`] checks each cell as it is read.
///
/// ```
/// use walrow_wire::{Cell, Frame, Peek, UnreadRow};
///
/// /// How many cells of a row's first tuple are NULL. `None` if it does not follow the protocol.
/// fn nulls(row: UnreadRow<'_>) -> Option<usize> {
///     let (_, tuple) = row.first()?;
///     let (mut cells, mut nulls) = (tuple.cells(), 0);
///     for _ in 0..tuple.len() {
///         nulls += usize::from(cells.cell()? == Cell::Null);
///     }
///     Some(nulls)
/// }
///
/// # let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/18/rows.text.wire");
/// let capture = std::fs::read(path)?;
/// let (mut rest, mut found) = (&capture[..], 0);
/// loop {
///     if let Some((peek, after)) = Peek::split(rest) {
///         rest = after;
///         // Without `streaming`, no row is in a stream block.
///         found += peek.row(false).and_then(nulls).unwrap_or(0);
///     } else if let Some((_, size)) = Frame::parse(rest)? {
///         rest = &rest[size..]; // a keepalive, for example
///     } else {
///         break;
///     }
/// }
/// assert!(rest.is_empty() && found > 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Peek<'a> {
    kind: Kind,
    frame: &'a [u8],
}

/// Bytes of a frame up to and including the message's kind.
const HEAD: usize = Peek::HEADERS.saturating_add(1);

impl<'a> Peek<'a> {
    /// Bytes of a frame before the message: its own header and that of XLogData.
    pub const HEADERS: usize = Frame::HEADER.saturating_add(XLogData::HEADER);

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
        self.frame.get(Self::HEADERS..).unwrap_or_default()
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

    /// The Begin. `None` if the message is another one, or does not follow the protocol: then
    /// [`Peek::message`] returns the error.
    #[inline]
    pub fn begin(&self) -> Option<Begin> {
        match self.kind {
            Kind::Begin => Begin::valid(self.frame.get(HEAD..)?),
            _ => None,
        }
    }

    /// The Commit. `None` if the message is another one, or does not follow the protocol: then
    /// [`Peek::message`] returns the error.
    #[inline]
    pub fn commit(&self) -> Option<Commit> {
        match self.kind {
            Kind::Commit => Commit::valid(self.frame.get(HEAD..)?),
            _ => None,
        }
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
        let numbers = self
            .frame
            .get(Frame::HEADER.saturating_add(1)..Self::HEADERS);
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
    fn peek_agrees_with_parse() {
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
        assert_eq!(peek.begin().map(Message::Begin), peek.message(false).ok());
        assert!(peek.commit().is_none() && peek.row(false).is_none() && peek.xid().is_none());
        assert!(Peek::new(&bytes).is_none());
        for end in 0..size {
            assert!(Peek::split(&bytes[..end]).is_none());
        }
    }

    fn frame(message: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let data = XLogData {
            start: Lsn(1),
            end: Lsn(1),
            clock: Timestamp(2),
            message,
        };
        BackendMessage::CopyData(CopyData::XLogData(data)).encode(&mut bytes);
        bytes
    }

    #[test]
    fn begin_and_commit_are_read_if_and_only_if_the_parser_accepts_them() {
        let begin =
            b"B\x01\x02\x03\x04\x05\x06\x07\x08\x80\x02\x03\x04\x05\x06\x07\x09\0\0\x01\x03";
        let commit = b"C\0\x01\x02\x03\x04\x05\x06\x07\x08\x11\x12\x13\x14\x15\x16\x17\x18\
            \x80\x02\x03\x04\x05\x06\x07\x09";
        let mut accepted = 0;
        for whole in [&begin[..], &commit[..]] {
            for size in 1..=whole.len() + 9 {
                for flags in [whole[1], 1] {
                    let mut message = whole.to_vec();
                    message[1] = flags;
                    message.resize(size.max(2), 0);
                    let bytes = frame(&message);
                    let peek = Peek::new(&bytes).unwrap();
                    let read = peek.begin().map(Message::Begin);
                    let read = read.or_else(|| peek.commit().map(Message::Commit));
                    assert_eq!(read, peek.message(false).ok(), "{message:?}");
                    accepted += usize::from(read.is_some());
                }
            }
        }
        // A Begin has no flags: its second byte may be any.
        assert_eq!(accepted, 3);
    }
}
