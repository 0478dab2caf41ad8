//! Finds where bare messages end, in a file that `pg_recvlogical` wrote.
//!
//! ```text
//! ┌───┬──────── … ┬────┬───┬──────── … ┬────┬─ …
//! │ B │ fields    │ \n │ R │ fields    │ \n │       no lengths, no LSNs; values may contain \n
//! └───┴──────── … ┴────┴───┴──────── … ┴────┴─ …
//! ```
//! A message has no length, but its fields show where it ends. So the splitter walks over them, one
//! [`Field`] after the other. It stops at any byte and continues with the next piece of the input:
//! each byte is looked at once, however large the message and however small the pieces.

use crate::backend::{Frame, MAX_LENGTH};
use crate::copy_data::XLogData;
use crate::error::{Error, ErrorKind};
use crate::{Kind, Xid};

/// Splits bare messages, each followed by a newline, at their ends. The input may be cut anywhere.
///
/// It reads as much as shows where a message ends. [`Message::parse`](crate::Message::parse) then
/// checks the other fields.
#[derive(Clone, Debug)]
pub struct Splitter {
    /// The most bytes of a message.
    limit: usize,
    /// The kind of the message. `None` before its first byte.
    kind: Option<Kind>,
    /// The fields that were not read yet.
    fields: &'static [Field],
    /// Bytes of the message so far.
    read: usize,
    /// Bytes to pass before the next field.
    pass: usize,
    /// The first bytes of a number that the input cut, and how many there are.
    number: u32,
    digits: usize,
    /// Cells or columns that are left.
    count: u16,
    /// Whether the next field is a cell's length.
    in_cell: bool,
    /// The stream block that the message lies in, and the next message's.
    block: Option<Xid>,
    next_block: Option<Xid>,
}

/// Bytes at the front of the input that belong to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(
    clippy::exhaustive_enums,
    reason = "a caller that ignores a piece loses bytes"
)]
pub enum Piece<'a> {
    /// All of the input. The message is not complete.
    Part(&'a [u8]),
    /// The last bytes of the message. The newline after them was taken too.
    Last(&'a [u8]),
    /// The message has at least this many bytes, which is more than the limit.
    TooLarge(usize),
}

/// What the splitter reads next.
#[derive(Clone, Copy, Debug)]
enum Field {
    /// So many bytes, whatever they are.
    Bytes(usize),
    /// Bytes up to a zero.
    String,
    /// The number of columns of a relation or cells of a tuple.
    Count,
    /// The columns that are left.
    Columns,
    /// The cells that are left.
    Cells,
    /// `N`, then a tuple.
    New,
    /// `K` or `O`, then a tuple.
    Old,
    /// Either of them. After an old tuple comes a new one.
    OldOrNew,
    /// The number of relations, the options and the OIDs.
    Relations,
    /// The length of the content, and the content.
    Content,
    /// The transaction ID of a Stream Start.
    BlockXid,
    /// The transaction ID of a Message in a stream block, or another session's Message.
    MessageXid,
    /// The LSN and time of a Stream Abort, if there are any.
    AbortRecord,
}

use Field::{
    AbortRecord, BlockXid, Bytes, Cells, Columns, Content, Count, MessageXid, New, Old, OldOrNew,
    Relations, String,
};

const COLUMN: &[Field] = &[Bytes(1), String, Bytes(8), Columns];
const TUPLE: &[Field] = &[Count, Cells];
const OLD_AND_NEW: &[Field] = &[Count, Cells, New];

/// The fields after the kind, and after the transaction ID that a message in a stream block has.
const fn fields(kind: Kind) -> &'static [Field] {
    match kind {
        Kind::Begin => &[Bytes(20)],
        Kind::Commit => &[Bytes(25)],
        Kind::Origin => &[Bytes(8), String],
        Kind::Relation => &[Bytes(4), String, String, Bytes(1), Count, Columns],
        Kind::Type => &[Bytes(4), String, String],
        Kind::Insert => &[Bytes(4), New],
        Kind::Update => &[Bytes(4), OldOrNew],
        Kind::Delete => &[Bytes(4), Old],
        Kind::Truncate => &[Relations],
        Kind::Message => &[Bytes(9), String, Content],
        Kind::StreamStart => &[BlockXid, Bytes(1)],
        Kind::StreamStop => &[],
        Kind::StreamCommit => &[Bytes(29)],
        Kind::StreamAbort => &[Bytes(8), AbortRecord],
        Kind::BeginPrepare => &[Bytes(28), String],
        Kind::Prepare | Kind::CommitPrepared | Kind::StreamPrepare => &[Bytes(29), String],
        Kind::RollbackPrepared => &[Bytes(37), String],
    }
}

/// A [`Kind::Message`] in a stream block.
const MESSAGE_IN_BLOCK: &[Field] = &[MessageXid, Bytes(9), String, Content];
/// The rest of one outside, after its first four bytes were read as a transaction ID.
const MESSAGE_OUTSIDE: &[Field] = &[Bytes(5), String, Content];
/// Bytes of a Stream Abort's LSN and time.
const ABORT_RECORD: usize = 16;
/// The most bytes of a message that a frame can hold.
const MAX_MESSAGE: usize = (MAX_LENGTH as usize)
    .saturating_add(1)
    .saturating_sub(Frame::HEADER)
    .saturating_sub(XLogData::HEADER);

impl Default for Splitter {
    fn default() -> Self {
        Self::new(usize::MAX)
    }
}

impl Splitter {
    /// A splitter at the first byte of a message. Messages of more than `limit` bytes, or of more
    /// than PostgreSQL's 1 GiB, are too large.
    pub const fn new(limit: usize) -> Self {
        Self {
            limit: if limit < MAX_MESSAGE {
                limit
            } else {
                MAX_MESSAGE
            },
            kind: None,
            fields: &[],
            read: 0,
            pass: 0,
            number: 0,
            digits: 0,
            count: 0,
            in_cell: false,
            block: None,
            next_block: None,
        }
    }

    /// The limit of a message's size.
    pub const fn limit(&self) -> usize {
        self.limit
    }

    /// The top-level transaction of the stream block in which the message lies. A Stream Stop is
    /// inside, a Stream Start is not.
    ///
    /// A message that cannot come in a block ends the block: another session began.
    pub const fn block(&self) -> Option<Xid> {
        self.block
    }

    /// Takes the next bytes of the message from the front of the input. After the last bytes of a
    /// message, the next call begins another one.
    ///
    /// The result does not depend on where the input is cut.
    ///
    /// # Errors
    /// Bytes that are no message, or a message that no newline follows. The offset counts from the
    /// message's first byte. The splitter cannot continue.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Piece<'a>, Error> {
        let (start, before) = (*input, self.read);
        let ended = self.advance(input)?;
        let size = self.read.saturating_sub(before);
        let bytes = start.get(..size).unwrap_or(start);
        let known = self.read.saturating_add(self.pass);
        Ok(match ended {
            _ if known > self.limit => Piece::TooLarge(known),
            false => Piece::Part(bytes),
            true => {
                self.kind = None;
                self.read = 0;
                Piece::Last(bytes)
            }
        })
    }

    /// Reads to the end of the message or of the input, and returns whether the message ended.
    /// Stops where the message is too large.
    fn advance(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        loop {
            if self.read.saturating_add(self.pass) > self.limit {
                return Ok(false);
            }
            if self.pass > 0 {
                let size = self.pass.min(input.len());
                self.take(size, input);
                self.pass = self.pass.saturating_sub(size);
                if self.pass > 0 {
                    return Ok(false);
                }
            }
            let [field, after @ ..] = self.fields else {
                let Some((&byte, rest)) = input.split_first() else {
                    return Ok(false);
                };
                if self.kind.is_none() {
                    self.begin(byte)?;
                    self.take(1, input);
                    continue;
                }
                if byte != b'\n' {
                    let expected = "the newline that pg_recvlogical writes after each message";
                    let kind = ErrorKind::InvalidValue { expected };
                    return Err(self.error(kind, 0, "end of the message"));
                }
                *input = rest;
                return Ok(true);
            };
            if !self.field(*field, after, input)? {
                return Ok(false);
            }
        }
    }

    /// Begins the message of this kind.
    fn begin(&mut self, byte: u8) -> Result<(), Error> {
        let Some(kind) = Kind::from_byte(byte) else {
            return Err(self.error(ErrorKind::UnknownKind(byte), 0, "kind"));
        };
        self.kind = Some(kind);
        self.fields = fields(kind);
        self.block = self.next_block;
        match kind {
            Kind::StreamStop => self.next_block = None,
            Kind::Origin => {}
            Kind::Message if self.block.is_some() => self.fields = MESSAGE_IN_BLOCK,
            kind if kind.carries_xid() => self.pass = if self.block.is_some() { 4 } else { 0 },
            _ => (self.block, self.next_block) = (None, None),
        }
        Ok(())
    }

    /// Reads the field, and returns whether the input contains all that shows its size.
    fn field(
        &mut self,
        field: Field,
        after: &'static [Field],
        input: &mut &[u8],
    ) -> Result<bool, Error> {
        self.fields = match field {
            Bytes(size) => {
                self.pass = size;
                after
            }
            String => {
                let end = input.iter().position(|&byte| byte == 0);
                let left = self.limit.saturating_sub(self.read);
                let Some(end) = end.filter(|end| *end < left) else {
                    // One byte past the limit is enough.
                    self.take(input.len().min(left.saturating_add(1)), input);
                    return Ok(self.read > self.limit);
                };
                self.take(end.saturating_add(1), input);
                after
            }
            Count => {
                let Some(count) = self.number::<2>(input) else {
                    return Ok(false);
                };
                self.count = u16::try_from(count).unwrap_or(u16::MAX);
                after
            }
            Columns => match self.count.checked_sub(1) {
                None => after,
                Some(count) => {
                    self.count = count;
                    COLUMN
                }
            },
            Cells => {
                if !self.cells(input)? {
                    return Ok(false);
                }
                if self.pass > 0 {
                    return Ok(true);
                }
                after
            }
            New | Old | OldOrNew => {
                let Some(&marker) = input.first() else {
                    return Ok(false);
                };
                let tuples = match (marker, field) {
                    (b'N', New | OldOrNew) | (b'K' | b'O', Old) => TUPLE,
                    (b'K' | b'O', OldOrNew) => OLD_AND_NEW,
                    (_, field) => {
                        let expected = match field {
                            New => "N",
                            Old => "K or O",
                            _ => "K, O or N",
                        };
                        let kind = ErrorKind::InvalidValue { expected };
                        return Err(self.error(kind, 0, "tuple marker"));
                    }
                };
                self.take(1, input);
                tuples
            }
            Relations => {
                let Some(count) = self.number::<4>(input) else {
                    return Ok(false);
                };
                self.pass = size(count).saturating_mul(4).saturating_add(1);
                after
            }
            Content => {
                let Some(length) = self.number::<4>(input) else {
                    return Ok(false);
                };
                self.pass = size(length);
                after
            }
            BlockXid => {
                let Some(xid) = self.number::<4>(input) else {
                    return Ok(false);
                };
                self.next_block = Some(xid);
                after
            }
            MessageXid => {
                let Some(xid) = self.number::<4>(input) else {
                    return Ok(false);
                };
                // In a block, a Message has the top-level transaction ID. A new session may begin
                // with a non-transactional Message, which has none: then these bytes are its
                // flags, 0, and the high bytes of its LSN, which are 0 in the first TiB of WAL.
                if self.block == Some(xid) {
                    after
                } else {
                    (self.block, self.next_block) = (None, None);
                    MESSAGE_OUTSIDE
                }
            }
            AbortRecord => {
                let Some(&byte) = input.first() else {
                    return Ok(false);
                };
                // The newline of a short form. An LSN begins with this byte after 640 PiB of WAL.
                if byte != b'\n' {
                    self.pass = ABORT_RECORD;
                }
                after
            }
        };
        Ok(true)
    }

    /// Reads cells up to the last one, or up to one whose value is still to be passed. Returns
    /// whether the input contains all of them.
    fn cells(&mut self, input: &mut &[u8]) -> Result<bool, Error> {
        loop {
            if self.in_cell {
                let Some(length) = self.number::<4>(input) else {
                    return Ok(false);
                };
                self.in_cell = false;
                let length = length.cast_signed();
                let Ok(length) = usize::try_from(length) else {
                    let kind = ErrorKind::InvalidLength(length.into());
                    return Err(self.error(kind, 4, "cell length"));
                };
                self.count = self.count.saturating_sub(1);
                let known = self.read.saturating_add(length);
                if length > input.len() || known > self.limit {
                    self.pass = length;
                    return Ok(true);
                }
                self.take(length, input);
            }
            if self.count == 0 {
                return Ok(true);
            }
            if self.read >= self.limit {
                // The cell's kind is one byte too many.
                self.pass = 1;
                return Ok(true);
            }
            match input.first() {
                None => return Ok(false),
                Some(b't' | b'b') => self.in_cell = true,
                Some(b'n' | b'u') => self.count = self.count.saturating_sub(1),
                Some(&other) => {
                    return Err(self.error(ErrorKind::UnknownKind(other), 0, "cell kind"));
                }
            }
            self.take(1, input);
        }
    }

    /// A number of `N` bytes. `None` if the input ends inside it, or the message is too large.
    #[inline]
    fn number<const N: usize>(&mut self, input: &mut &[u8]) -> Option<u32> {
        if self.digits == 0 {
            if self.read.saturating_add(N) > self.limit {
                self.pass = N;
                return None;
            }
            if let Some(bytes) = input.first_chunk::<N>() {
                self.take(N, input);
                let number = bytes.iter().fold(0, |it, &byte| it << 8 | u32::from(byte));
                return Some(number);
            }
        }
        while self.digits < N {
            let byte = u32::from(*input.first()?);
            self.number = (self.number << 8) | byte;
            self.digits = self.digits.saturating_add(1);
            self.take(1, input);
        }
        self.digits = 0;
        Some(core::mem::take(&mut self.number))
    }

    #[inline]
    fn take(&mut self, size: usize, input: &mut &[u8]) {
        *input = input.get(size..).unwrap_or_default();
        self.read = self.read.saturating_add(size);
    }

    /// An error `back` bytes before the current place.
    #[cold]
    fn error(&self, kind: ErrorKind, back: usize, field: &'static str) -> Error {
        Error {
            kind,
            offset: self.read.saturating_sub(back),
            message: self.kind.map_or("message", Kind::name),
            field,
        }
    }
}

/// A usize has at least 32 bits.
fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
