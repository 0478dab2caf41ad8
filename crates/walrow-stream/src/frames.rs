//! Whole frames from input that is cut anywhere.

use crate::error::{Error, ErrorKind, Fault};
use walrow_wire::{Frame, Framing, Lsn, Peek, Piece, Splitter, Xid};

/// Takes frames from the front of the input, and holds a frame that the end of the input cut.
///
/// Bare messages without boundaries become frames here. Each is held while it is used.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    framing: Framing,
    /// Bytes of each frame that the user did not feed.
    added: usize,
    /// Bytes taken, as the user counts them.
    offset: u64,
    /// The bytes of a cut frame so far, or all of it.
    held: Vec<u8>,
    state: Held,
    /// The size limit of a frame.
    limit: Limit,
    /// Finds where bare messages end.
    splitter: Splitter,
}

/// Bytes of memory that are kept for the next frame that is cut.
const SPARE: usize = 2 << 20;

/// The state of the held frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Held {
    /// The first bytes of a frame, or no bytes.
    #[default]
    Part,
    /// A whole frame that was not taken yet.
    Whole,
    /// A frame that was taken. It stays until the next frame is read.
    Spent,
}

/// The position of bytes in the stream, as the user counts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Bytes before them.
    pub(crate) offset: u64,
    /// How many of them the user fed, without headers that the framing added.
    pub(crate) fed: u64,
}

impl Span {
    pub(crate) const fn end(self) -> u64 {
        self.offset.saturating_add(self.fed)
    }
}

/// Bytes of a frame. By default, only the protocol's own limit applies.
#[derive(Clone, Copy, Debug)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

/// The place of the next frame.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// At the front of the input.
    Input(&'a [u8]),
    /// In [`Frames::completed`].
    Completed,
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            added: Peek::HEADERS.saturating_sub(framing.fed(Peek::HEADERS)),
            ..Self::default()
        }
    }

    /// Rejects larger pgoutput messages.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.limit = Limit(bytes.saturating_add(Peek::HEADERS));
        self.splitter = Splitter::new(bytes);
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit.0
    }

    /// The framing of the input.
    pub(crate) const fn framing(&self) -> Framing {
        self.framing
    }

    /// Bytes of each frame that the framing added.
    pub(crate) const fn header(&self) -> usize {
        self.framing.header()
    }

    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// How many of a frame's bytes the user fed.
    #[inline]
    pub(crate) const fn fed(&self, size: usize) -> u64 {
        size.saturating_sub(self.added) as u64
    }

    /// How many of the bytes of so many frames the user fed.
    #[inline]
    pub(crate) const fn fed_of(&self, frames: usize, bytes: usize) -> u64 {
        bytes.saturating_sub(frames.saturating_mul(self.added)) as u64
    }

    /// Whether the input ended inside a frame.
    pub(crate) const fn is_cut(&self) -> bool {
        matches!(self.state, Held::Part) && !self.held.is_empty()
    }

    /// Whether the next frame lies in the input.
    #[inline]
    pub(crate) const fn is_clear(&self) -> bool {
        self.held.is_empty() && !self.is_split()
    }

    /// Whether the splitter makes the frames.
    pub(crate) const fn is_split(&self) -> bool {
        matches!(self.framing, Framing::Recvlogical)
    }

    /// The stream block of the frame that the splitter made.
    pub(crate) const fn block(&self) -> Option<Xid> {
        self.splitter.block()
    }

    /// Drops the frame that the end of the input cut.
    pub(crate) fn drop_partial(&mut self) {
        // Its bytes were fed all the same.
        let fed = match self.state {
            Held::Spent => 0,
            // The newline was not fed.
            Held::Part if self.is_split() => self.held.len().saturating_sub(Peek::HEADERS) as u64,
            Held::Part | Held::Whole => self.fed(self.held.len()),
        };
        self.skip(fed);
        self.forget();
        self.splitter = Splitter::new(self.splitter.limit());
    }

    fn forget(&mut self) {
        self.held.clear();
        if self.held.capacity() > SPARE {
            // It was for a large message. Large messages are rare.
            self.held.shrink_to(SPARE);
        }
        self.state = Held::Part;
    }

    /// The frame at [`Place::Completed`].
    pub(crate) fn completed(&self) -> &[u8] {
        &self.held
    }

    /// Counts bytes up to this offset, which were already read as frames.
    pub(crate) const fn advance_to(&mut self, offset: u64) {
        self.offset = offset;
    }

    /// Counts bytes that were already read as frames.
    pub(crate) fn skip(&mut self, fed: u64) {
        self.offset = self.offset.saturating_add(fed);
    }

    /// Takes all of the input: the first bytes of a frame.
    fn hold(&mut self, input: &mut &[u8]) {
        self.held.extend_from_slice(input);
        *input = &[];
    }

    /// The size of the first frame of `input`, if it is complete. It begins at `offset` in the
    /// stream.
    #[inline]
    pub(crate) fn size(&self, input: &[u8], offset: u64) -> Result<Option<usize>, Error> {
        match Frame::size(input) {
            Ok(Some(size)) if size > self.limit.0 => Err(self.too_large(size, offset)),
            Ok(size) => Ok(size.filter(|size| *size <= input.len())),
            Err(error) => Err(Fault::from(error).at(self, offset)),
        }
    }

    #[cold]
    fn too_large(&self, size: usize, offset: u64) -> Error {
        let limit = self.limit.0.saturating_sub(Peek::HEADERS);
        let size = size.saturating_sub(Peek::HEADERS);
        Error {
            kind: ErrorKind::TooLarge { size, limit },
            offset,
            lsn: None,
        }
    }

    /// The next frame, without taking it. `None` if the input ended inside it; then all of the
    /// input was taken.
    #[inline]
    pub(crate) fn front<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Place<'a>>, Error> {
        if !self.is_clear() {
            return self.complete(input);
        }
        let Some(size) = self.size(input, self.offset)? else {
            self.hold(input);
            return Ok(None);
        };
        Ok(input.get(..size).map(Place::Input))
    }

    fn complete<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Place<'a>>, Error> {
        match self.state {
            Held::Whole => return Ok(Some(Place::Completed)),
            Held::Spent => {
                self.forget();
                return self.front(input);
            }
            Held::Part if self.is_split() => return self.complete_message(input),
            Held::Part => {}
        }
        loop {
            let size = Frame::size(&self.held);
            let size = size.map_err(|error| Fault::from(error).at(self, self.offset))?;
            if let Some(size) = size.filter(|size| *size > self.limit.0) {
                return Err(self.too_large(size, self.offset));
            }
            let wanted = size
                .unwrap_or(Frame::HEADER)
                .saturating_sub(self.held.len());
            if (wanted, size.is_some()) == (0, true) {
                self.state = Held::Whole;
                return Ok(Some(Place::Completed));
            }
            if input.is_empty() {
                return Ok(None);
            }
            // Takes no more bytes than the input has, even if the frame claims more.
            let (head, rest) = input.split_at(wanted.min(input.len()));
            self.held.extend_from_slice(head);
            *input = rest;
        }
    }

    /// Completes the held frame of a bare message.
    fn complete_message<'a>(&mut self, input: &mut &[u8]) -> Result<Option<Place<'a>>, Error> {
        if input.is_empty() {
            return Ok(None);
        }
        if self.held.is_empty() {
            Framing::Message.append(&[], Lsn::INVALID, &mut self.held);
        }
        match self.splitter.next(input) {
            Ok(Piece::Part(bytes)) => {
                self.held.extend_from_slice(bytes);
                Ok(None)
            }
            Ok(Piece::Last(bytes)) => {
                self.held.extend_from_slice(bytes);
                // The splitter's limit is smaller than the most bytes of a frame.
                Frame::set_length(&mut self.held);
                self.state = Held::Whole;
                Ok(Some(Place::Completed))
            }
            Ok(Piece::TooLarge(size)) => Err(Error {
                kind: ErrorKind::TooLarge {
                    size,
                    limit: self.splitter.limit(),
                },
                offset: self.offset,
                lsn: None,
            }),
            Err(error) => Err(Fault::from(error.at(Peek::HEADERS)).at(self, self.offset)),
        }
    }

    /// Takes the frame that [`Frames::front`] found.
    #[inline]
    pub(crate) fn take(&mut self, place: Place<'_>, input: &mut &[u8]) {
        match place {
            Place::Input(frame) => {
                *input = input.get(frame.len()..).unwrap_or_default();
                self.skip(self.fed(frame.len()));
            }
            Place::Completed => self.take_completed(),
        }
    }

    /// Takes the frame at [`Place::Completed`].
    pub(crate) fn take_completed(&mut self) {
        self.state = Held::Spent;
        self.skip(self.fed(self.held.len()));
    }
}

impl Fault {
    /// The fault of the frame at `offset`.
    #[cold]
    pub(crate) fn at(self, frames: &Frames, offset: u64) -> Error {
        self.at_frame(frames.header(), offset)
    }
}
