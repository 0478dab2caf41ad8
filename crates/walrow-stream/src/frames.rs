//! Whole frames from input that is cut anywhere.

use crate::error::{Error, ErrorKind};
use walrow_wire::{Frame, Framing, XLogData};

/// Takes frames from the front of the input and keeps the one that its end cut.
#[derive(Debug, Default)]
pub(crate) struct Frames {
    framing: Framing,
    /// Bytes taken, by the user's count.
    offset: u64,
    /// The bytes so far of a frame that the end of the input cut, or that frame, once `whole`.
    partial: Vec<u8>,
    whole: bool,
    /// The largest frame that is taken.
    limit: Limit,
}

/// What lies in front of a pgoutput message.
const HEADERS: usize = Frame::HEADER.saturating_add(XLogData::HEADER);

/// Bytes of a frame, the protocol's own limit unless a smaller one is set.
#[derive(Clone, Copy, Debug)]
struct Limit(usize);

impl Default for Limit {
    fn default() -> Self {
        Self(usize::MAX)
    }
}

/// Where a frame that was taken lies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In the input.
    Input(&'a [u8]),
    /// In [`Frames::completed`], until the next frame is taken.
    Completed,
}

/// A frame that was taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Taken<'a> {
    pub(crate) place: Place<'a>,
    /// Bytes before it, by the user's count.
    pub(crate) offset: u64,
}

impl Frames {
    pub(crate) fn new(framing: Framing) -> Self {
        Self {
            framing,
            ..Self::default()
        }
    }

    /// Refuses pgoutput messages of more bytes than these.
    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.limit = Limit(bytes.saturating_add(HEADERS));
    }

    pub(crate) const fn limit(&self) -> usize {
        self.limit.0
    }

    pub(crate) const fn framing(&self) -> Framing {
        self.framing
    }

    pub(crate) const fn offset(&self) -> u64 {
        self.offset
    }

    /// How many of a frame's bytes the user fed.
    #[inline]
    pub(crate) const fn fed(&self, size: usize) -> u64 {
        size.saturating_sub(self.framing.header()) as u64
    }

    /// Whether the input ended inside a frame.
    pub(crate) const fn is_cut(&self) -> bool {
        !self.whole && !self.partial.is_empty()
    }

    /// Forgets the frame that the end of the input cut.
    pub(crate) fn drop_partial(&mut self) {
        if !self.whole {
            // Its bytes were fed all the same.
            self.skip(self.fed(self.partial.len()));
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.partial.clear();
        self.whole = false;
    }

    /// The frame at [`Place::Completed`].
    pub(crate) fn completed(&self) -> &[u8] {
        &self.partial
    }

    /// The error's place is counted from the frame at `offset`.
    #[cold]
    pub(crate) fn error(&self, error: walrow_wire::Error, offset: u64) -> Error {
        let inside = error.offset.saturating_sub(self.framing.header()) as u64;
        Error {
            offset: offset.saturating_add(inside),
            kind: ErrorKind::Wire(error),
            lsn: None,
        }
    }

    /// Takes bytes that were looked at as frames already.
    pub(crate) fn skip(&mut self, fed: u64) {
        self.offset = self.offset.saturating_add(fed);
    }

    /// Takes all of the input, the first bytes of a frame.
    pub(crate) fn keep(&mut self, input: &mut &[u8]) {
        if self.whole {
            self.forget();
        }
        self.partial.extend_from_slice(input);
        *input = &[];
    }

    /// The size of the first frame of `input`, which begins at `offset` in the stream, if all of
    /// it is there.
    #[inline]
    pub(crate) fn peek(&self, input: &[u8], offset: u64) -> Result<Option<usize>, Error> {
        match Frame::size(input) {
            Ok(Some(size)) if size > self.limit.0 => Err(self.too_large(size, offset)),
            Ok(size) => Ok(size.filter(|size| *size <= input.len())),
            Err(error) => Err(self.error(error, offset)),
        }
    }

    #[cold]
    fn too_large(&self, size: usize, offset: u64) -> Error {
        let limit = self.limit.0.saturating_sub(HEADERS);
        let size = size.saturating_sub(HEADERS);
        Error {
            kind: ErrorKind::TooLarge { size, limit },
            offset,
            lsn: None,
        }
    }

    /// Takes the next frame, or all of the input.
    #[inline]
    pub(crate) fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Taken<'a>>, Error> {
        if self.whole {
            self.forget();
        }
        if !self.partial.is_empty() {
            return self.complete(input);
        }
        let Some(size) = self.peek(input, self.offset)? else {
            self.keep(input);
            return Ok(None);
        };
        let (frame, rest) = input.split_at_checked(size).unwrap_or((input, &[]));
        *input = rest;
        Ok(Some(self.taken(Place::Input(frame), size)))
    }

    fn complete<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Taken<'a>>, Error> {
        loop {
            let size = Frame::size(&self.partial).map_err(|e| self.error(e, self.offset))?;
            if let Some(size) = size.filter(|size| *size > self.limit.0) {
                return Err(self.too_large(size, self.offset));
            }
            let wanted = size
                .unwrap_or(Frame::HEADER)
                .saturating_sub(self.partial.len());
            if let (0, Some(size)) = (wanted, size) {
                self.whole = true;
                return Ok(Some(self.taken(Place::Completed, size)));
            }
            if input.is_empty() {
                return Ok(None);
            }
            // Never more than there is, whatever size the frame claims.
            let (head, rest) = input.split_at(wanted.min(input.len()));
            self.partial.extend_from_slice(head);
            *input = rest;
        }
    }

    #[inline]
    fn taken<'a>(&mut self, place: Place<'a>, size: usize) -> Taken<'a> {
        let offset = self.offset;
        self.skip(self.fed(size));
        Taken { place, offset }
    }
}
