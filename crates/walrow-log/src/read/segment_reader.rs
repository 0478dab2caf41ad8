//! Reads the stream of a segment, or of some of its members.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::index::Segment;
use crate::format::listing::INDEX;
use crate::format::segment::{Foot, Member, SegmentName};
use crate::store::ReadAt;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use walrow_wire::Lsn;
use zstd_safe::{DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Bytes of one read of the object.
const READ: usize = 1 << 20;
/// Bytes that a chunk has room for at first.
const FIRST: usize = 2 << 20;
/// Bytes of a chunk of the stream, at most. Frames are smaller, unless a message is larger.
const CHUNK: usize = 16 << 20;

/// The stream of a segment, in chunks of any size.
pub(crate) struct SegmentReader {
    object: String,
    file: Box<dyn ReadAt>,
    foot: Arc<Foot>,
    /// Present from the first read on.
    memory: Option<Memory>,
    /// Where the memory goes when the segment was read.
    spare: SpareMemory,
    /// The members that are left to read.
    members: VecDeque<Member>,
    /// Bytes of the object that were read, or skipped.
    at: u64,
    /// Bytes of the first member that were read.
    taken_of_member: u64,
    /// How many bytes of the buffer were read, and how many of them were decompressed.
    filled: usize,
    taken: usize,
    /// Whether the decompressor may have more bytes than the chunk had room for.
    has_output: bool,
    crc32c: u32,
    stream_bytes: u64,
    /// Bytes of the stream of all members.
    expected: u64,
}

/// The decompressor and its input.
struct Memory {
    context: DCtx<'static>,
    buffer: Vec<u8>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            context: DCtx::create(),
            buffer: Vec::new(),
        }
    }
}

/// The memory of a segment that was read, for the next one: small segments need more time for new
/// memory than for their rows.
#[derive(Clone, Default)]
pub(crate) struct SpareMemory(Arc<Mutex<Option<Memory>>>);

impl SpareMemory {
    fn take(&self) -> Option<Memory> {
        let mut memory = self.0.lock().ok()?.take()?;
        memory.context.reset(ResetDirective::SessionOnly).ok()?;
        Some(memory)
    }

    fn give(&self, memory: Memory) {
        if let Ok(mut spare) = self.0.lock() {
            *spare = Some(memory);
        }
    }
}

impl std::fmt::Debug for SpareMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SpareMemory").finish_non_exhaustive()
    }
}

impl Drop for SegmentReader {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.spare.give(memory);
        }
    }
}

/// A segment of a plan, as the index describes it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Planned {
    pub(crate) name: SegmentName,
    pub(crate) end: Lsn,
    continues: bool,
}

impl Planned {
    pub(crate) fn of(segment: &Segment) -> Self {
        Self {
            name: segment.name(),
            end: segment.end,
            continues: segment.continues,
        }
    }

    /// Refuses a segment that differs from the segment in the index. A copy may have such a
    /// segment, if a writer ran meanwhile: for example the first part of a load that was broken
    /// off.
    pub(crate) fn check(self, reader: SegmentReader) -> Result<SegmentReader, Error> {
        let foot = reader.foot();
        let is_own = (foot.start, foot.part) == (self.name.start, self.name.part);
        if is_own && (foot.end, foot.continues) != (self.end, self.continues) {
            let what = DamagedPart::Index;
            return Err(Error::new(INDEX, ErrorKind::Damaged { what }));
        }
        Ok(reader)
    }
}

impl std::fmt::Debug for SegmentReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SegmentReader")
            .field("object", &self.object)
            .finish_non_exhaustive()
    }
}

impl SegmentReader {
    /// Reads the members that are wanted. They follow each other.
    pub(crate) fn new(
        file: Box<dyn ReadAt>,
        name: SegmentName,
        foot: Arc<Foot>,
        wants: impl Fn(&Member) -> bool,
    ) -> Self {
        // A segment that was not merged is read as a whole. It may be a part of a transaction that
        // ends where it begins.
        let wants = |it: &Member| foot.members.is_empty() || wants(it);
        let all = foot.members();
        let skipped = all.iter().take_while(|it| !wants(it));
        let at = skipped.fold(0_u64, |at, it| at.saturating_add(it.bytes));
        let members: VecDeque<_> = all.into_iter().filter(wants).collect();
        let expected = members.iter().map(|it| it.stream_bytes);
        Self {
            object: name.to_string(),
            file,
            expected: expected.fold(0, u64::saturating_add),
            foot,
            memory: None,
            spare: SpareMemory::default(),
            members,
            at,
            taken_of_member: 0,
            filled: 0,
            taken: 0,
            has_output: false,
            crc32c: 0,
            stream_bytes: 0,
        }
    }

    /// Reads with the memory of the last segment, and leaves it to the next one.
    pub(crate) fn with_spare(mut self, spare: &SpareMemory) -> Self {
        self.spare = spare.clone();
        self
    }

    /// The foot of the segment.
    pub(crate) fn foot(&self) -> &Foot {
        &self.foot
    }

    /// Reads the next bytes of the stream, in place of the buffer's contents. Returns false at the
    /// end.
    pub(crate) fn read(&mut self, chunk: &mut Vec<u8>) -> Result<bool, Error> {
        chunk.clear();
        let spare = &self.spare;
        let memory = self.memory.take();
        let mut memory = memory.or_else(|| spare.take()).unwrap_or_default();
        let read = self.read_with(&mut memory, chunk);
        self.memory = Some(memory);
        read?;
        self.stream_bytes = self.stream_bytes.saturating_add(chunk.len() as u64);
        let is_wrong = if chunk.is_empty() {
            self.stream_bytes != self.expected
        } else {
            // A damaged frame could expand without an end.
            self.stream_bytes > self.expected
        };
        if is_wrong {
            return Err(self.damaged(DamagedPart::Size));
        }
        Ok(!chunk.is_empty())
    }

    fn read_with(&mut self, memory: &mut Memory, chunk: &mut Vec<u8>) -> Result<(), Error> {
        while chunk.len() < CHUNK {
            if self.taken >= self.filled && !self.has_output && !self.fill(memory)? {
                break;
            }
            if chunk.len() == chunk.capacity() {
                chunk.reserve_exact(chunk.len().clamp(FIRST, CHUNK));
            }
            let rest = memory.buffer.get(self.taken..self.filled);
            let mut input = InBuffer::around(rest.unwrap_or_default());
            let from = chunk.len();
            let mut output = OutBuffer::around_pos(chunk, from);
            let left = memory.context.decompress_stream(&mut output, &mut input);
            self.taken = self.taken.saturating_add(input.pos());
            let left = left.map_err(|_| self.damaged(DamagedPart::Content))?;
            self.has_output = left > 0 && chunk.len() == chunk.capacity();
            // A frame ends with a transaction, and then its checksum is known to be right.
            if left == 0 && chunk.len() >= READ {
                break;
            }
        }
        Ok(())
    }

    /// Reads the next bytes of the object. Returns false at the end.
    fn fill(&mut self, memory: &mut Memory) -> Result<bool, Error> {
        while self
            .members
            .front()
            .is_some_and(|it| it.bytes == self.taken_of_member)
        {
            self.members.pop_front();
            (self.taken_of_member, self.crc32c) = (0, 0);
        }
        let Some(member) = self.members.front().copied() else {
            return Ok(false);
        };
        let is_first = self.taken_of_member == 0;
        let rest = member.bytes.saturating_sub(self.taken_of_member);
        let size = usize::try_from(rest).unwrap_or(READ).min(READ);
        if memory.buffer.len() < size {
            memory.buffer.resize(size, 0);
        }
        let bytes = memory.buffer.get_mut(..size).unwrap_or_default();
        let read = self.file.read_at(self.at, bytes);
        read.map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(DamagedPart::Size),
            _ => Error::store(&self.object, &error),
        })?;
        (self.taken, self.filled) = (0, size);
        self.at = self.at.saturating_add(size as u64);
        self.taken_of_member = self.taken_of_member.saturating_add(size as u64);
        self.crc32c = crc32c::crc32c_append(self.crc32c, bytes);
        let is_last = self.taken_of_member == member.bytes;
        if is_last && self.crc32c != member.crc32c {
            return Err(self.damaged(DamagedPart::Checksum));
        }
        if is_first {
            // All its bytes are known to be right: the checksums of its frames say no more.
            let ignore = DParameter::ForceIgnoreChecksum(is_last);
            let set = memory.context.set_parameter(ignore);
            set.map_err(|_| self.damaged(DamagedPart::Content))?;
        }
        Ok(true)
    }

    fn damaged(&self, what: DamagedPart) -> Error {
        Error::new(&self.object, ErrorKind::Damaged { what })
    }
}
