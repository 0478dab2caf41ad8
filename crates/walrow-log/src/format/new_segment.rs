//! A segment that has no name yet: its frames, then its foot.

use crate::error::Error;
use crate::format::frames::Compressor;
use crate::format::segment::{Foot, LARGEST_FOOT, SegmentName};
use crate::store::{Staged, Store};
use std::io;
use std::mem;

/// From this many bytes of the stream on, a frame ends where a transaction ends.
const FRAME: usize = 1 << 20;
/// From this many bytes on, a frame ends in any case.
const LARGEST: usize = 2 << 20;

/// The frames of a segment so far.
#[derive(Debug)]
pub(crate) struct NewSegment {
    /// The name that it will have.
    object: String,
    staged: Box<dyn Staged>,
    compressor: Compressor,
    /// Bytes of the stream that are not in a frame yet.
    rest: Vec<u8>,
    size: FramesSize,
}

/// The size and the checksum of some frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FramesSize {
    /// Bytes of the stream.
    pub(crate) stream_bytes: u64,
    /// Bytes of the frames.
    pub(crate) bytes: u64,
    /// The CRC-32C of these bytes.
    pub(crate) crc32c: u32,
}

impl NewSegment {
    /// Begins a segment. `level` is the compression level of zstd. `None` stores the bytes as they
    /// are.
    pub(crate) fn stage(
        store: &dyn Store,
        name: SegmentName,
        level: Option<i32>,
    ) -> Result<Self, Error> {
        let object = name.to_string();
        let io = |error| Error::store(&object, &error);
        let staged = store.stage().map_err(io)?;
        let compressor = Compressor::new(level).map_err(io)?;
        Ok(Self {
            object,
            staged,
            compressor,
            rest: Vec::new(),
            size: FramesSize::default(),
        })
    }

    /// Appends messages of the stream. `between` says whether a transaction ends there.
    pub(crate) fn append(&mut self, bytes: &[u8], between: bool) -> Result<(), Error> {
        if between && bytes.len() >= FRAME {
            // The bytes are enough for a frame, so they need no copy.
            self.end_frame()?;
            return self.write_frame(bytes);
        }
        self.rest.extend_from_slice(bytes);
        let is_full = self.rest.len() >= FRAME && (between || self.rest.len() >= LARGEST);
        if is_full { self.end_frame() } else { Ok(()) }
    }

    /// Ends the last frame. Returns the size and the checksum of the frames since the last call.
    pub(crate) fn end(&mut self) -> Result<FramesSize, Error> {
        self.end_frame()?;
        Ok(mem::take(&mut self.size))
    }

    /// Appends the foot. The caller then gives the segment its name.
    pub(crate) fn finish(mut self, foot: &Foot) -> Result<Box<dyn Staged>, Error> {
        let foot = foot.encode();
        if foot.len() as u64 > LARGEST_FOOT {
            let error = io::Error::other("its foot would be larger than readers take");
            return Err(Error::store(&self.object, &error));
        }
        let appended = self.staged.append(&foot);
        appended.map_err(|error| Error::store(&self.object, &error))?;
        Ok(self.staged)
    }

    fn end_frame(&mut self) -> Result<(), Error> {
        let mut rest = mem::take(&mut self.rest);
        let written = if rest.is_empty() {
            Ok(())
        } else {
            self.write_frame(&rest)
        };
        rest.clear();
        self.rest = rest;
        written
    }

    fn write_frame(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let size = &mut self.size;
        let written = self.compressor.frame(bytes).and_then(|frame| {
            size.crc32c = crc32c::crc32c_append(size.crc32c, frame);
            size.bytes = size.bytes.saturating_add(frame.len() as u64);
            self.staged.append(frame)
        });
        written.map_err(|error| Error::store(&self.object, &error))?;
        size.stream_bytes = size.stream_bytes.saturating_add(bytes.len() as u64);
        Ok(())
    }
}
