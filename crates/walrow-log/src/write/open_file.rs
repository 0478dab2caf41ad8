//! The journal of a writer: changes that are durable, but not published yet.
//!
//! Its blocks contain a stream, like a segment.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::format::blocks::READ;
use crate::format::journal::{Extent, HEAD, Head, Header, JournalBlocks, Link};
use crate::store::lease::WRITER;
use crate::store::{Journal, Lock, Store};
use crate::write::journaled::Journaled;
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The most bytes of blocks in memory. A full segment of the default size fits.
const HELD: usize = if cfg!(test) { 100 } else { 80 << 20 };

/// The least capacity in bytes of a block whose memory is kept for a later block.
const SPARE: usize = if cfg!(test) { 20 } else { 1 << 20 };

/// A file of blocks. While it is open, no other writer can open it.
///
/// Blocks may stay in memory until they have to be durable. If they are published earlier, they are
/// never written to the file.
///
/// ```text
/// blocks    0 … begin     begin … first   first … written   written … count
///           dropped       in the file     in both           in memory
/// ```
#[derive(Debug)]
pub(crate) struct OpenFile {
    name: String,
    file: Box<dyn Journal>,
    /// Keeps other writers out even if the file loses its name.
    lock: Box<dyn Lock>,
    /// The header that comes before the first block of an empty file.
    header: Header,
    /// Bytes of all blocks in the file.
    size: u64,
    /// The number of blocks in the file with its header, the number of durable blocks, and the mark
    /// of the last block. The next block chains to this mark.
    link: Link,
    is_synced: bool,
    /// Whether the file ends with a part of a block that could not be appended.
    is_torn: bool,
    /// The number of the first block in the file.
    begin: usize,
    /// The number of the first block in memory.
    first: usize,
    /// The number after the last block in the file.
    written: usize,
    /// The number after the last block that ends between transactions.
    whole: usize,
    held: VecDeque<Block>,
    held_bytes: usize,
    /// The memory of earlier blocks. A segment may still use it.
    spare: VecDeque<Arc<Vec<u8>>>,
}

/// Bytes of the stream.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Whether the block ends between transactions.
    pub(crate) between: bool,
}

impl OpenFile {
    /// Opens the file and finds its blocks. The file stays unchanged.
    pub(crate) fn open(store: &dyn Store, name: &str) -> Result<(Self, Extent), Error> {
        let io = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock => Error::new("", ErrorKind::Locked),
            _ => Error::store(name, &error),
        };
        let lock = store.lock(WRITER);
        let lock = lock.map_err(|error| Error::store(WRITER, &error))?;
        let lock = lock.ok_or_else(|| Error::new("", ErrorKind::Locked))?;
        let mut file = store.journal(name).map_err(io)?;
        let extent = Extent::of(&mut *file)?;
        let has_blocks = extent.blocks > 0;
        let blocks = u32::try_from(extent.blocks).unwrap_or(u32::MAX);
        let opened = Self {
            name: name.to_owned(),
            file,
            lock,
            header: extent.header.clone().unwrap_or_default(),
            size: extent.size,
            link: Link {
                number: if has_blocks {
                    blocks.saturating_add(1)
                } else {
                    0
                },
                // A process may have ended before it synced the blocks.
                synced: 0,
                before: extent.mark,
            },
            is_synced: false,
            is_torn: extent.torn > 0,
            begin: 0,
            first: extent.blocks,
            written: extent.blocks,
            whole: extent.blocks,
            held: VecDeque::new(),
            held_bytes: 0,
            spare: VecDeque::new(),
        };
        Ok((opened, extent))
    }

    /// Removes the bytes after the last block that ends between transactions. Sets the header of an
    /// empty file.
    pub(crate) fn begin_with(&mut self, header: Header) -> io::Result<()> {
        if self.size == 0 {
            self.header = header;
        }
        if self.is_torn {
            self.file.truncate(self.size)?;
            self.file.sync()?;
            self.is_torn = false;
        }
        Ok(())
    }

    /// Reads the blocks that the file had when it was opened.
    pub(crate) fn journaled(&mut self) -> Result<Journaled, Error> {
        Journaled::read(&mut *self.file, self.first)
    }

    /// The file, which stays locked, and the lock of its writer.
    pub(crate) fn into_journal(self) -> (Box<dyn Journal>, Box<dyn Lock>) {
        (self.file, self.lock)
    }

    /// The number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.first.saturating_add(self.held.len())
    }

    /// The number after the last block that ends between transactions.
    pub(crate) const fn whole(&self) -> usize {
        self.whole
    }

    /// Whether the blocks in memory have to be written before another block of this size comes.
    pub(crate) const fn is_full(&self, more: usize) -> bool {
        self.held_bytes.saturating_add(more) > HELD
    }

    /// Takes a block, and holds it in memory. If memory has no room for it, the earlier blocks are
    /// written to the file first. Leaves an empty buffer.
    pub(crate) fn hold(&mut self, block: &mut Vec<u8>, between: bool) -> io::Result<()> {
        if self.is_full(block.len()) {
            self.write_held()?;
            self.release(self.written);
        }
        self.held_bytes = self.held_bytes.saturating_add(block.len());
        if block.len() < block.capacity() / 2 {
            block.shrink_to_fit();
        }
        let empty = self.empty(block.capacity());
        let bytes = Arc::new(std::mem::replace(block, empty));
        self.held.push_back(Block { bytes, between });
        if between {
            self.whole = self.count();
        }
        Ok(())
    }

    /// Frees the memory of blocks before this number, if they are in the file.
    pub(crate) fn release(&mut self, before: usize) {
        self.free(before.min(self.written));
    }

    /// Drops the blocks before this number, if the file has no blocks. After a crash, the later
    /// blocks are not recovered.
    pub(crate) fn discard(&mut self, before: usize) {
        if self.begin == self.written {
            self.free(before);
            self.begin = self.first;
            self.written = self.first;
        }
    }

    /// The number of the first block that was not discarded.
    pub(crate) const fn begin(&self) -> usize {
        self.begin
    }

    fn free(&mut self, before: usize) {
        while self.first < before
            && let Some(block) = self.held.pop_front()
        {
            self.first = self.first.saturating_add(1);
            self.recycle(block);
        }
    }

    fn write(&mut self, bytes: &[u8], between: bool) -> io::Result<()> {
        if self.size == 0 {
            // Serializing plain data into memory cannot fail.
            let header = serde_json::to_vec(&self.header).unwrap_or_default();
            self.append(&header, true)?;
        }
        self.append(bytes, between)?;
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    fn append(&mut self, bytes: &[u8], between: bool) -> io::Result<()> {
        self.is_synced = false;
        if self.is_torn {
            self.file.truncate(self.size)?;
            self.is_torn = false;
        }
        let (head, mark) = Head::of(bytes, between, self.link)?.encode();
        let appended = self.file.append(&head);
        if let Err(error) = appended.and_then(|()| self.file.append(bytes)) {
            // The file may have a part of the block. Recovery would end there.
            self.is_torn = self.file.truncate(self.size).is_err();
            return Err(error);
        }
        let added = bytes.len().saturating_add(HEAD);
        self.size = self.size.saturating_add(added as u64);
        self.link.number = self.link.number.saturating_add(1);
        self.link.before = mark;
        Ok(())
    }

    /// Writes the blocks in memory to the file. After an error, the next call begins with the first
    /// block that was not written.
    pub(crate) fn write_held(&mut self) -> io::Result<()> {
        loop {
            let place = self.written.saturating_sub(self.first);
            let Some(block) = self.held.get(place).cloned() else {
                return Ok(());
            };
            self.write(&block.bytes, block.between && self.begin == 0)?;
        }
    }

    /// Keeps the memory of a large block for a later block, because new memory costs more than
    /// filling it. Small blocks may be many, and each would grow, so their memory is freed.
    fn recycle(&mut self, block: Block) {
        self.held_bytes = self.held_bytes.saturating_sub(block.bytes.len());
        if block.bytes.capacity() >= SPARE {
            self.spare.push_back(block.bytes);
        }
    }

    fn empty(&mut self, capacity: usize) -> Vec<u8> {
        let bytes = self.spare.pop_front().map(Arc::try_unwrap);
        match bytes {
            Some(Ok(mut bytes)) => {
                bytes.clear();
                return bytes;
            }
            Some(Err(used)) => self.spare.push_front(used),
            None => {}
        }
        Vec::with_capacity(capacity)
    }

    /// Writes the same bytes to the file again, so that [`OpenFile::sync`] makes all of them
    /// durable. An earlier sync may have failed and left some bytes only in the memory of the
    /// system. A later sync alone would not write these bytes.
    pub(crate) fn rewrite(&mut self) -> io::Result<()> {
        let mut bytes = Vec::new();
        let mut at = 0;
        while at < self.size {
            let count = READ.min(self.size.saturating_sub(at));
            bytes.resize(usize::try_from(count).unwrap_or(0), 0);
            self.file.read_at(at, &mut bytes)?;
            self.file.rewrite(at, &bytes)?;
            at = at.saturating_add(count);
        }
        self.is_synced = self.size == 0;
        Ok(())
    }

    /// Makes all blocks of the file durable. Fails if the file was removed or replaced, even if all
    /// blocks are durable already.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if self.is_synced {
            return if self.file.is_named()? {
                Ok(())
            } else {
                Err(io::ErrorKind::StaleNetworkFileHandle.into())
            };
        }
        self.file.sync()?;
        self.is_synced = true;
        self.link.synced = self.link.number;
        Ok(())
    }

    /// Removes all blocks. The next blocks come after this header.
    pub(crate) fn clear(&mut self, header: Header) -> io::Result<()> {
        if self.size > 0 || !self.is_synced || self.is_torn {
            self.file.truncate(0)?;
            self.file.sync()?;
            (self.size, self.is_synced, self.is_torn) = (0, true, false);
            self.link = Link::default();
        }
        self.header = header;
        for block in std::mem::take(&mut self.held) {
            self.recycle(block);
        }
        (self.begin, self.first, self.written, self.whole) = (0, 0, 0, 0);
        self.held_bytes = 0;
        Ok(())
    }

    /// Calls `read` with the blocks of these numbers, in order.
    pub(crate) fn read(
        &mut self,
        range: Range<usize>,
        mut read: impl FnMut(Block) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let io = |error| Error::store(&self.name, &error);
        let in_file = range.start..range.end.min(self.first);
        if !in_file.is_empty() {
            let mut blocks = JournalBlocks::new(&mut *self.file).map_err(io)?;
            // Block 0 is the header.
            blocks.next().map_err(io)?;
            for number in self.begin..in_file.end {
                let Some((bytes, between)) = blocks.next().map_err(io)? else {
                    let what = DamagedPart::Block;
                    return Err(Error::new(&self.name, ErrorKind::Damaged { what }));
                };
                if in_file.contains(&number) {
                    let bytes = Arc::new(bytes.to_vec());
                    read(Block { bytes, between })?;
                }
            }
        }
        let skipped = range.start.saturating_sub(self.first);
        let end = range.end.saturating_sub(self.first);
        for block in self.held.range(skipped..end.min(self.held.len())) {
            read(block.clone())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Directory, OPEN};

    /// The bytes of the blocks that a crash leaves.
    fn recovered(store: &Directory) -> Vec<u8> {
        let mut file = OpenFile::open(store, OPEN).unwrap().0;
        let mut found = Vec::new();
        let read = file.read(0..file.count(), |block| {
            found.extend_from_slice(&block.bytes);
            Ok(())
        });
        read.unwrap();
        found
    }

    #[test]
    fn memory_is_kept_for_later_blocks_but_not_for_more_than_are_held_at_once() {
        let path = std::env::temp_dir().join(format!("walrow-spare-{}", std::process::id()));
        let store = Directory::create(&path).unwrap();
        let mut file = OpenFile::open(&store, OPEN).unwrap().0;
        let mut block = Vec::new();
        let capacities = |file: &OpenFile| {
            let held = file.held.iter().map(|it| &it.bytes);
            held.chain(&file.spare)
                .map(|it| it.capacity())
                .sum::<usize>()
        };
        for round in 0..50 {
            // Even rounds are like syncs of a quiet stream, odd rounds like parts of a large
            // transaction.
            let (count, size) = if round % 2 == 0 { (40, 2) } else { (3, 30) };
            for _ in 0..count {
                block.resize(size, 0);
                file.hold(&mut block, true).unwrap();
                assert!(capacities(&file) <= 2 * HELD, "round {round}");
            }
            file.clear(Header::default()).unwrap();
            assert!(file.spare.len() <= 3);
            assert!(round % 2 == 0 || !file.spare.is_empty());
        }
        drop(file);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn blocks_are_read_from_memory_and_from_the_file_and_none_is_recovered_without_those_before() {
        let path = std::env::temp_dir().join(format!("walrow-blocks-{}", std::process::id()));
        for discards in [false, true] {
            let store = Directory::create(&path).unwrap();
            let mut file = OpenFile::open(&store, OPEN).unwrap().0;
            let hold = |file: &mut OpenFile, byte| {
                file.hold(&mut vec![byte; 30], byte % 3 == 0).unwrap();
            };
            hold(&mut file, 0);
            if discards {
                file.discard(1);
            } else {
                // A block may not leave memory before it is in the file.
                file.release(1);
            }
            for byte in 1..=7 {
                hold(&mut file, byte);
            }
            let first = u8::from(discards);
            assert_eq!((file.count(), file.whole()), (8, 7));
            assert_eq!(file.begin(), usize::from(discards));
            assert!(file.first > 1, "some are only in the file");
            let mut found = Vec::new();
            let read = file.read(usize::from(first)..8, |block| {
                found.push(block.bytes[0]);
                Ok(())
            });
            read.unwrap();
            assert_eq!(found, (first..8).collect::<Vec<_>>());
            drop(file);
            // Recovery reads up to the last block in the file that ends between transactions.
            let whole = if discards { 0..0 } else { 0..4_u8 };
            let whole: Vec<u8> = whole.flat_map(|byte| [byte; 30]).collect();
            assert_eq!(recovered(&store), whole);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
