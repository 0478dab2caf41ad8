//! Reads the stream of a segment.

use crate::log::error::{Error, ErrorKind};
use crate::log::segment::{Foot, SegmentName};
use crate::log::state::Pruned;
use crate::log::store::{ReadAt, Store};
use zstd_safe::{DCtx, InBuffer, OutBuffer};

/// Bytes of one read of the object.
const READ: usize = 1 << 20;
/// Bytes for a chunk at first.
const FIRST: usize = 2 << 20;
/// Bytes of a chunk of the stream, at most. Frames are smaller, unless a message is not.
const CHUNK: usize = 16 << 20;

/// The stream of a segment, in chunks of any size.
///
/// Each byte of the segment is compared with its checksum while it is read.
pub struct SegmentReader {
    object: String,
    file: Box<dyn ReadAt>,
    foot: Foot,
    context: DCtx<'static>,
    /// Bytes of the object that were read.
    at: u64,
    buffer: Vec<u8>,
    /// How many bytes of the buffer were decompressed.
    taken: usize,
    /// Whether the decompressor may have more bytes than the chunk had room for.
    has_output: bool,
    crc32c: u32,
    stream_bytes: u64,
}

impl std::fmt::Debug for SegmentReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentReader")
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

/// The error for a segment that does not exist any more: usually it was pruned.
fn removed(store: &dyn Store, name: SegmentName, error: Error) -> Error {
    match Pruned::read(store) {
        Ok(Pruned { until, .. }) if until > name.start => {
            let start = name.start;
            Error::new("", ErrorKind::Pruned { start, until })
        }
        _ => error,
    }
}

impl SegmentReader {
    /// Opens a segment.
    ///
    /// # Errors
    /// The object is not a segment, is damaged or cannot be read.
    pub fn open(store: &dyn Store, name: SegmentName) -> Result<Self, Error> {
        let foot = match Foot::read(store, name) {
            Err(error) if error.is_not_found() => return Err(removed(store, name, error)),
            read => read?,
        };
        let object = name.to_string();
        let file = store
            .open(&object)
            .map_err(|error| Error::store(&object, &error))?;
        Ok(Self {
            object,
            file,
            foot,
            context: DCtx::create(),
            at: 0,
            buffer: Vec::new(),
            taken: 0,
            has_output: false,
            crc32c: 0,
            stream_bytes: 0,
        })
    }

    /// What is in the segment.
    pub const fn foot(&self) -> &Foot {
        &self.foot
    }

    /// The next bytes of the stream, instead of the buffer's contents. Returns false at the end.
    ///
    /// # Errors
    /// The segment is damaged, or cannot be read.
    pub fn read(&mut self, chunk: &mut Vec<u8>) -> Result<bool, Error> {
        chunk.clear();
        let what = "its content";
        while chunk.len() < CHUNK {
            if self.taken >= self.buffer.len() && !self.has_output && !self.fill()? {
                break;
            }
            if chunk.len() == chunk.capacity() {
                chunk.reserve_exact(chunk.len().clamp(FIRST, CHUNK));
            }
            let rest = self.buffer.get(self.taken..).unwrap_or_default();
            let mut input = InBuffer::around(rest);
            let from = chunk.len();
            let mut output = OutBuffer::around_pos(chunk, from);
            let left = self.context.decompress_stream(&mut output, &mut input);
            self.taken = self.taken.saturating_add(input.pos());
            let left = left.map_err(|_| self.damaged(what))?;
            self.has_output = left > 0 && chunk.len() == chunk.capacity();
            // A frame ends with a transaction, and then its checksum is known to be right.
            if left == 0 && chunk.len() >= READ {
                break;
            }
        }
        self.stream_bytes = self.stream_bytes.saturating_add(chunk.len() as u64);
        let is_wrong = if chunk.is_empty() {
            self.stream_bytes != self.foot.stream_bytes
        } else {
            // A damaged frame could expand without an end.
            self.stream_bytes > self.foot.stream_bytes
        };
        if is_wrong {
            return Err(self.damaged("its size"));
        }
        Ok(!chunk.is_empty())
    }

    /// Reads the next bytes of the object. Returns false before the foot.
    fn fill(&mut self) -> Result<bool, Error> {
        let rest = self.foot.bytes.saturating_sub(self.at);
        if rest == 0 {
            return Ok(false);
        }
        let size = usize::try_from(rest).unwrap_or(READ).min(READ);
        self.buffer.resize(size, 0);
        self.taken = 0;
        self.file
            .read_at(self.at, &mut self.buffer)
            .map_err(|error| match error.kind() {
                std::io::ErrorKind::UnexpectedEof => self.damaged("its size"),
                _ => Error::store(&self.object, &error),
            })?;
        self.at = self.at.saturating_add(size as u64);
        self.crc32c = crc32c::crc32c_append(self.crc32c, &self.buffer);
        if self.at == self.foot.bytes && self.crc32c != self.foot.crc32c {
            return Err(self.damaged("its checksum"));
        }
        Ok(true)
    }

    fn damaged(&self, what: &'static str) -> Error {
        Error::new(&self.object, ErrorKind::Damaged { what })
    }
}
