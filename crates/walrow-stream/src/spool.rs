//! The bytes of transactions that are not committed yet, in bounded memory.

use crate::frames::Span;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use walrow_wire::{Frame, Framing};

/// Stores open transactions that do not fit in memory.
///
/// Pass it to [`Assembler::with_spool`](crate::Assembler::with_spool). `walrow_log::FileSpool` uses
/// files.
pub trait Spool: Send + Sync + fmt::Debug {
    /// Creates an empty file for one transaction. Dropping it deletes it.
    fn create(&self) -> io::Result<Box<dyn SpoolFile>>;
}

/// The bytes of one open transaction.
pub trait SpoolFile: Send + Sync + fmt::Debug {
    /// Appends all of `bytes`.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Fills `buffer` with bytes that were appended before, from offset `at` on.
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// Identifies the bytes of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SpoolId(u64);

/// Whole frames of one transaction. The first frames may be in a file, and the rest is in memory.
///
/// If the next frame is not adjacent in the stream, a mark before it contains its offset.
#[derive(Debug, Default)]
pub(crate) struct Spooled {
    file: Option<Box<dyn SpoolFile>>,
    file_size: u64,
    memory: Vec<u8>,
    /// The offset in the stream where the last frame ends.
    end: Option<u64>,
    /// Whether it was restored: its offsets count in the stream that it was saved from.
    restored: bool,
}

/// The bytes of all open transactions.
#[derive(Debug)]
pub(crate) struct Spools {
    spool: Option<Arc<dyn Spool>>,
    /// The most bytes of memory of all transactions together.
    limit: usize,
    used: usize,
    entries: HashMap<SpoolId, Spooled>,
    next: u64,
    /// Memory of a removed entry, for the next entry.
    spare: Vec<u8>,
}

/// 64 MiB.
pub(crate) const DEFAULT_LIMIT: usize = 64 << 20;
/// The most memory that is kept for the next transaction.
const SPARE: usize = 1 << 20;
/// Bytes that are read from a file at a time.
const BLOCK: usize = 1 << 20;

/// A mark's first byte: no server's message has this tag.
const MARK: u8 = 0;
const MARK_SIZE: usize = 9;

impl Default for Spools {
    fn default() -> Self {
        Self {
            spool: None,
            limit: DEFAULT_LIMIT,
            used: 0,
            entries: HashMap::new(),
            next: 0,
            spare: Vec::new(),
        }
    }
}

impl Spools {
    pub(crate) fn set_spool(&mut self, spool: Arc<dyn Spool>) {
        self.spool = Some(spool);
    }

    pub(crate) fn set_limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// Empty spools with the same files, and the memory that is left.
    pub(crate) fn beside(&self) -> Self {
        Self {
            spool: self.spool.clone(),
            limit: self.limit.saturating_sub(self.used),
            ..Self::default()
        }
    }

    pub(crate) fn create(&mut self) -> SpoolId {
        let memory = std::mem::take(&mut self.spare);
        self.adopt(Spooled {
            memory,
            ..Spooled::default()
        })
    }

    /// Adds bytes that were taken out before.
    pub(crate) fn adopt(&mut self, spooled: Spooled) -> SpoolId {
        let id = SpoolId(self.next);
        self.next = self.next.wrapping_add(1);
        self.used = self.used.saturating_add(spooled.memory.capacity());
        self.entries.insert(id, spooled);
        id
    }

    /// Adds bytes from a saved state. Their offsets count in another stream.
    pub(crate) fn adopt_restored(&mut self, mut spooled: Spooled) -> io::Result<SpoolId> {
        spooled.restored = true;
        let id = self.adopt(spooled);
        if self.used > self.limit {
            self.make_room(id, 0)?;
        }
        Ok(id)
    }

    /// Appends whole frames, which are at `span` in the stream.
    pub(crate) fn append(&mut self, id: SpoolId, frames: &[u8], span: Span) -> io::Result<()> {
        if frames.is_empty() {
            return Ok(());
        }
        let wanted = frames.len().saturating_add(MARK_SIZE);
        // Frames that exceed all memory alone go straight to the file.
        let direct = self.spool.clone().filter(|_| wanted > self.limit);
        if direct.is_none() && self.used.saturating_add(wanted) > self.limit {
            self.make_room(id, wanted)?;
        }
        let Some(entry) = self.entries.get_mut(&id) else {
            return Ok(());
        };
        let before = entry.memory.capacity();
        match &direct {
            Some(spool) => entry.spill(&**spool)?,
            None => reserve(&mut entry.memory, wanted),
        }
        entry.mark(span);
        match &direct {
            Some(spool) => {
                entry.spill(&**spool)?;
                entry.append_to_file(frames, &**spool)?;
            }
            None => entry.memory.extend_from_slice(frames),
        }
        let after = entry.memory.capacity();
        self.used = self.used.saturating_sub(before).saturating_add(after);
        Ok(())
    }

    /// Moves the largest transactions from memory to files, until `wanted` more bytes fit.
    #[cold]
    fn make_room(&mut self, id: SpoolId, wanted: usize) -> io::Result<()> {
        let Some(spool) = self.spool.clone() else {
            return Err(io::Error::new(
                io::ErrorKind::OutOfMemory,
                "open transactions need more memory than the limit, and there is no spool",
            ));
        };
        // Frees an eighth more, because sorting all entries takes time.
        let limit = self.limit.saturating_sub(self.limit >> 3);
        let sizes = self.entries.iter().filter_map(|(key, entry)| {
            let size = entry.memory.capacity();
            // Among equal sizes, the growing transaction comes first, then the oldest. So each run
            // is the same.
            (size > 0).then_some((size, *key == id, Reverse(key.0)))
        });
        let mut sizes: Vec<_> = sizes.collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        for (size, _, Reverse(key)) in sizes {
            if self.used.saturating_add(wanted) <= limit {
                break;
            }
            if let Some(entry) = self.entries.get_mut(&SpoolId(key)) {
                entry.spill(&*spool)?;
                self.used = self.used.saturating_sub(size);
            }
        }
        Ok(())
    }

    pub(crate) fn take(&mut self, id: SpoolId) -> Spooled {
        let spooled = self.entries.remove(&id).unwrap_or_default();
        self.used = self.used.saturating_sub(spooled.memory.capacity());
        spooled
    }

    /// Removes the transaction's bytes.
    pub(crate) fn remove(&mut self, id: SpoolId) {
        let memory = self.take(id).memory;
        self.give_back(memory);
    }

    /// Takes memory back for the next transaction.
    pub(crate) fn give_back(&mut self, mut memory: Vec<u8>) {
        if memory.capacity() <= SPARE && memory.capacity() > self.spare.capacity() {
            memory.clear();
            self.spare = memory;
        }
    }
}

/// Reserves `wanted` more bytes. Small memory doubles; large memory grows by an eighth, to waste
/// less.
fn reserve(memory: &mut Vec<u8>, wanted: usize) {
    let free = memory.capacity().saturating_sub(memory.len());
    if free >= wanted {
        return;
    }
    if memory.len() < SPARE {
        memory.reserve(wanted);
    } else {
        memory.reserve_exact(wanted.max(memory.len() >> 3));
    }
}

impl Spooled {
    /// Writes the offset of the frames that follow, unless they are adjacent.
    fn mark(&mut self, span: Span) {
        if self.end != Some(span.offset) {
            self.memory.push(MARK);
            self.memory.extend_from_slice(&span.offset.to_be_bytes());
        }
        self.end = Some(span.end());
    }

    /// Moves the bytes from memory to the file, and frees the memory.
    fn spill(&mut self, spool: &dyn Spool) -> io::Result<()> {
        let memory = std::mem::take(&mut self.memory);
        self.append_to_file(&memory, spool)
    }

    fn append_to_file(&mut self, bytes: &[u8], spool: &dyn Spool) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(spool.create()?),
        };
        file.append(bytes)?;
        self.file_size = self.file_size.saturating_add(bytes.len() as u64);
        Ok(())
    }
}

/// Reads spooled frames in order.
#[derive(Debug, Default)]
pub(crate) struct SpoolReader {
    spooled: Spooled,
    /// How many bytes of the file were read.
    file_at: u64,
    /// The current frames. The next frame begins at `at`.
    buffer: Vec<u8>,
    at: usize,
    /// The offset of the next frame in the stream.
    offset: u64,
    /// The framing of the frames in the stream.
    framing: Framing,
    /// Whether the buffer is the part that was in memory, which follows the file.
    at_memory: bool,
}

/// A frame in the reader's buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Its offset in the stream.
    pub(crate) offset: u64,
}

impl SpoolReader {
    pub(crate) fn new(spooled: Spooled, framing: Framing) -> Self {
        Self {
            spooled,
            framing,
            ..Self::default()
        }
    }

    /// Whether offsets count in the stream that the prepared transaction was saved from.
    pub(crate) const fn is_restored(&self) -> bool {
        self.spooled.restored
    }

    /// The bytes of a frame.
    #[inline]
    pub(crate) fn frame(&self, spot: Spot) -> &[u8] {
        self.buffer.get(spot.start..spot.end).unwrap_or_default()
    }

    /// The next frame, without taking it.
    #[inline]
    pub(crate) fn front(&mut self) -> io::Result<Option<Spot>> {
        loop {
            let rest = self.buffer.get(self.at..).unwrap_or_default();
            let size = match rest {
                [] => None,
                [MARK, mark @ ..] => {
                    if let Some(offset) = mark.first_chunk() {
                        self.offset = u64::from_be_bytes(*offset);
                        self.at = self.at.saturating_add(MARK_SIZE);
                        continue;
                    }
                    None
                }
                _ => Frame::size(rest)
                    .ok()
                    .flatten()
                    .filter(|size| *size <= rest.len()),
            };
            if let Some(size) = size {
                return Ok(Some(Spot {
                    start: self.at,
                    end: self.at.saturating_add(size),
                    offset: self.offset,
                }));
            }
            if !self.refill()? {
                return Ok(None);
            }
        }
    }

    /// The frames at hand, and the offset of the first one in the stream. `None` if offsets count in
    /// another stream.
    #[inline]
    pub(crate) fn rest(&self) -> Option<(&[u8], u64)> {
        let rest = self.buffer.get(self.at..).unwrap_or_default();
        (!self.is_restored()).then_some((rest, self.offset))
    }

    /// Takes frames of this size. The next one is at this offset in the stream.
    #[inline]
    pub(crate) fn advance(&mut self, size: usize, offset: u64) {
        self.at = self.at.saturating_add(size);
        self.offset = offset;
    }

    /// Takes the frame that [`SpoolReader::front`] found.
    #[inline]
    pub(crate) fn take(&mut self, spot: Spot) {
        let size = spot.end.saturating_sub(spot.start);
        let fed = self.framing.fed(size) as u64;
        self.at = spot.end;
        self.offset = self.offset.saturating_add(fed);
    }

    /// Loads more frames. Returns whether there were more.
    #[cold]
    fn refill(&mut self) -> io::Result<bool> {
        let left = self.spooled.file_size.saturating_sub(self.file_at);
        if left > 0 {
            self.buffer.drain(..self.at);
            self.at = 0;
            // A frame larger than a block is read to its end.
            let kept = self.buffer.len();
            let size = Frame::size(&self.buffer).ok().flatten().unwrap_or(0);
            let wanted = size.saturating_sub(kept).max(BLOCK);
            let more = usize::try_from(left).unwrap_or(usize::MAX).min(wanted);
            self.buffer.resize(kept.saturating_add(more), 0);
            if let (Some(file), Some(space)) = (&mut self.spooled.file, self.buffer.get_mut(kept..))
            {
                file.read_at(self.file_at, space)?;
            }
            self.file_at = self.file_at.saturating_add(more as u64);
            return Ok(true);
        }
        if self.at_memory {
            return Ok(false);
        }
        self.at_memory = true;
        self.buffer = std::mem::take(&mut self.spooled.memory);
        self.at = 0;
        Ok(true)
    }

    /// All bytes again, if the reader has read all of them or has not begun.
    pub(crate) fn into_spooled(self) -> Spooled {
        let mut spooled = self.spooled;
        if self.at_memory {
            spooled.memory = self.buffer;
        }
        spooled
    }

    /// Returns the buffer's memory.
    pub(crate) fn into_memory(self) -> Vec<u8> {
        self.buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Nowhere;

    impl Spool for Nowhere {
        fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
            Ok(Box::new(Self))
        }
    }

    impl SpoolFile for Nowhere {
        fn append(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn read_at(&mut self, _: u64, _: &mut [u8]) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn all_held_memory_is_counted() {
        let limit = 1 << 20;
        let mut spools = Spools::default();
        spools.set_spool(Arc::new(Nowhere));
        spools.set_limit(limit);
        let ids: Vec<_> = (0..50).map(|_| spools.create()).collect();
        // Small sizes, then a size above the limit, which goes straight to its file.
        for size in [10, 100_000, 700_000, limit + 1, 50, 300_000] {
            for (offset, id) in (0..).zip(&ids) {
                let bytes = vec![1; size];
                let span = Span {
                    offset: offset << 32,
                    fed: 1,
                };
                spools.append(*id, &bytes, span).unwrap();
                let held: usize = spools.entries.values().map(|it| it.memory.capacity()).sum();
                assert_eq!(held, spools.used);
                assert!(held <= limit + (limit >> 3), "{held} bytes after {size}");
            }
        }
        for id in ids {
            spools.remove(id);
        }
        assert_eq!(spools.used, 0);
        let restored = Spooled {
            memory: vec![1; 2 * limit],
            ..Spooled::default()
        };
        spools.adopt_restored(restored).unwrap();
        assert_eq!(spools.used, 0);
    }
}
