//! Objects of a writer, as blocks with checksums. The end of a log that is not published yet is one.
//!
//! ```text
//! ┌──────────┬────────┬─ … ─┬──────────┬────────┬─ … ─┐
//! │ size (4) │ crc (4)│bytes│ size (4) │ crc (4)│bytes│
//! └──────────┴────────┴─ … ─┴──────────┴────────┴─ … ─┘
//! ```
//! The highest bit of the size says that a transaction ends with the block, or that none is open. The
//! bytes of all blocks of the open file are a stream as in a segment. A block that was cut, or whose
//! bytes differ from their CRC-32C, was not synced: what it and later blocks contain was confirmed
//! to nobody.

use crate::log::error::{DamagedPart, Error, ErrorKind};
use crate::log::store::{ReadAt, Store, TEMPORARY, WriteAt};
use std::collections::VecDeque;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a block before its contents.
const HEADER: usize = 8;
/// Marks a block whose end is between transactions.
const BETWEEN: u32 = 1 << 31;
/// Bytes of one read of small blocks.
const READ: u64 = 1 << 20;

/// Bytes of a block from which on its checksum is known before there is memory for it: few blocks are so
/// large, and a damaged size may be any.
const LARGE: u64 = if cfg!(test) { 1 << 20 } else { 16 << 20 };

/// Bytes of blocks that are held in memory, at most: a full segment of the default size.
const HELD: usize = if cfg!(test) { 100 } else { 80 << 20 };

/// Bytes of a block whose memory is kept for another one, at least.
const SPARE: usize = if cfg!(test) { 20 } else { 1 << 20 };

/// A file of blocks. While it is open, nobody else can open it.
///
/// Blocks may be held in memory until they have to be durable: if they are published before, they
/// never come into the file.
///
/// ```text
/// blocks    0 … begin     begin … first   first … written   written … count
///           dropped       in the file     in both           in memory
/// ```
#[derive(Debug)]
pub(crate) struct BlockFile {
    name: String,
    file: Box<dyn WriteAt>,
    /// Bytes of all blocks in the file.
    size: u64,
    is_synced: bool,
    /// Whether a part of a block that could not be appended is still there.
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
    /// Whether it ends between transactions.
    pub(crate) between: bool,
}

impl BlockFile {
    /// Opens the file, and keeps only blocks up to the last one that ends between transactions.
    pub(crate) fn open(store: &dyn Store, name: &str) -> io::Result<Self> {
        let mut file = store.write(name)?;
        let stored = file.size()?;
        let mut blocks = Blocks::new(&mut *file)?;
        let (mut number, mut whole, mut size) = (0_usize, 0, 0);
        while let Some((_, between)) = blocks.next()? {
            number = number.saturating_add(1);
            if between {
                (whole, size) = (number, blocks.at);
            }
        }
        if size < stored {
            file.truncate(size)?;
            file.sync()?;
        }
        Ok(Self {
            name: name.to_owned(),
            file,
            size,
            // A process may have ended before it has synced them.
            is_synced: size == 0,
            is_torn: false,
            begin: 0,
            first: whole,
            written: whole,
            whole,
            held: VecDeque::new(),
            held_bytes: 0,
            spare: VecDeque::new(),
        })
    }

    /// Bytes of the file.
    pub(crate) fn stored(&mut self) -> io::Result<u64> {
        self.file.size()
    }

    /// How many blocks there are.
    pub(crate) fn count(&self) -> usize {
        self.first.saturating_add(self.held.len())
    }

    /// The number after the last block that ends between transactions.
    pub(crate) const fn whole(&self) -> usize {
        self.whole
    }

    /// Whether the blocks in memory have to be written, if there is another one of this size.
    pub(crate) const fn is_full(&self, more: usize) -> bool {
        self.held_bytes.saturating_add(more) > HELD
    }

    /// Takes a block, and holds it in memory. If there are too many, they are written to the file.
    /// Leaves an empty buffer.
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

    /// Drops the blocks before this number, if none is in the file. What comes after them is no longer
    /// recovered.
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

    /// Appends a block to the file, if none is held. It is durable after [`BlockFile::sync`].
    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes, true)?;
        self.first = self.written;
        Ok(())
    }

    fn write(&mut self, bytes: &[u8], between: bool) -> io::Result<()> {
        self.is_synced = false;
        if self.is_torn {
            self.file.truncate(self.size)?;
            self.is_torn = false;
        }
        let head = head(bytes, between)?;
        let appended = self.file.append(&head);
        if let Err(error) = appended.and_then(|()| self.file.append(bytes)) {
            // A part of it may be there, and would end the file for recovery.
            self.is_torn = self.file.truncate(self.size).is_err();
            return Err(error);
        }
        let added = bytes.len().saturating_add(HEADER);
        self.size = self.size.saturating_add(added as u64);
        self.written = self.written.saturating_add(1);
        Ok(())
    }

    /// Writes the blocks that are held. After an error, those that were not written are still held.
    pub(crate) fn write_held(&mut self) -> io::Result<()> {
        loop {
            let place = self.written.saturating_sub(self.first);
            let Some(block) = self.held.get(place).cloned() else {
                return Ok(());
            };
            self.write(&block.bytes, block.between && self.begin == 0)?;
        }
    }

    /// Keeps the memory of a large block for a later one: new memory costs more than filling it. Small
    /// ones may be many, and each would grow.
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

    /// Writes the file again, as it is, so that [`BlockFile::sync`] makes all of it durable: a sync
    /// that has failed may have left blocks in memory only, and a later one would not write them.
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

    /// Makes all blocks of the file durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// Removes all blocks.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        if self.size > 0 || !self.is_synced || self.is_torn {
            self.file.truncate(0)?;
            self.file.sync()?;
            (self.size, self.is_synced, self.is_torn) = (0, true, false);
        }
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
            let mut blocks = Blocks::new(&mut *self.file).map_err(io)?;
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

/// What comes before the bytes of a block.
fn head(bytes: &[u8], between: bool) -> io::Result<[u8; HEADER]> {
    let size = u32::try_from(bytes.len())
        .ok()
        .filter(|size| *size < BETWEEN);
    let size = size.ok_or(io::ErrorKind::InvalidInput)?;
    let size = if between { size | BETWEEN } else { size };
    let [s0, s1, s2, s3] = size.to_le_bytes();
    let [c0, c1, c2, c3] = crc32c::crc32c(bytes).to_le_bytes();
    Ok([s0, s1, s2, s3, c0, c1, c2, c3])
}

/// The blocks of an object, up to one that is not whole.
#[derive(Debug)]
pub(crate) struct Blocks<'a, R: ReadAt + ?Sized> {
    file: &'a mut R,
    size: u64,
    /// Where the next block begins.
    at: u64,
    /// Bytes of the object from `from` on.
    buffer: Vec<u8>,
    from: u64,
}

impl<'a, R: ReadAt + ?Sized> Blocks<'a, R> {
    pub(crate) fn new(file: &'a mut R) -> io::Result<Self> {
        let size = file.size()?;
        Ok(Self {
            file,
            size,
            at: 0,
            buffer: Vec::new(),
            from: 0,
        })
    }

    /// The next block. `None` at the end, and if it is not whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<(&[u8], bool)>> {
        let rest = self.size.saturating_sub(self.at);
        if rest < HEADER as u64 {
            return Ok(None);
        }
        let Some(&[s0, s1, s2, s3, c0, c1, c2, c3]) = self.bytes(HEADER)?.first_chunk() else {
            return Ok(None);
        };
        let (size, crc) = (
            u32::from_le_bytes([s0, s1, s2, s3]),
            u32::from_le_bytes([c0, c1, c2, c3]),
        );
        let (size, between) = (size & !BETWEEN, size & BETWEEN != 0);
        if u64::from(size) > rest.saturating_sub(HEADER as u64) {
            return Ok(None);
        }
        if u64::from(size) > LARGE && !self.has_checksum(u64::from(size), crc)? {
            return Ok(None);
        }
        let whole = (size as usize).saturating_add(HEADER);
        let block = self.bytes(whole)?.get(HEADER..).unwrap_or_default();
        // A file system may extend a file with zeros before a crash: no block is empty.
        if size == 0 || crc32c::crc32c(block) != crc {
            return Ok(None);
        }
        self.at = self.at.saturating_add(whole as u64);
        let end = usize::try_from(self.at.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let start = end.saturating_sub(size as usize);
        Ok(Some((
            self.buffer.get(start..end).unwrap_or_default(),
            between,
        )))
    }

    /// The last bytes of the block that was read last.
    fn last(&self, count: usize) -> &[u8] {
        let end = usize::try_from(self.at.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let start = end.saturating_sub(count);
        self.buffer.get(start..end).unwrap_or_default()
    }

    /// Whether the next block has this checksum. It is read in pieces.
    fn has_checksum(&mut self, size: u64, expected: u32) -> io::Result<bool> {
        let (mut crc, mut piece) = (0, Vec::new());
        let mut at = self.at.saturating_add(HEADER as u64);
        let end = at.saturating_add(size);
        while at < end {
            let count = READ.min(end.saturating_sub(at));
            piece.resize(usize::try_from(count).unwrap_or(0), 0);
            self.file.read_at(at, &mut piece)?;
            crc = crc32c::crc32c_append(crc, &piece);
            at = at.saturating_add(count);
        }
        Ok(crc == expected)
    }

    /// The next bytes. They were compared with the object's size.
    fn bytes(&mut self, count: usize) -> io::Result<&[u8]> {
        let start = usize::try_from(self.at.saturating_sub(self.from)).unwrap_or(usize::MAX);
        let end = start.saturating_add(count);
        if end <= self.buffer.len() {
            return Ok(self.buffer.get(start..end).unwrap_or_default());
        }
        let wanted = READ
            .max(count as u64)
            .min(self.size.saturating_sub(self.at));
        self.buffer.clear();
        self.buffer
            .resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
        self.from = self.at;
        self.file.read_at(self.at, &mut self.buffer)?;
        Ok(self.buffer.get(..count).unwrap_or_default())
    }
}

/// Writes an object of blocks. `write` appends them. An object of this name is replaced.
pub(crate) fn write_object(
    store: &dyn Store,
    name: &str,
    write: impl FnOnce(&mut BlockFile) -> io::Result<()>,
) -> Result<(), Error> {
    write_object_as(store, &format!("{TEMPORARY}{name}"), name, write)
}

/// As `write_object`, with this name while it is written.
pub(crate) fn write_object_as(
    store: &dyn Store,
    temporary: &str,
    name: &str,
    write: impl FnOnce(&mut BlockFile) -> io::Result<()>,
) -> Result<(), Error> {
    let written = BlockFile::open(store, temporary).and_then(|mut file| {
        file.clear()?;
        write(&mut file)?;
        file.sync()
    });
    written
        .and_then(|()| store.replace(temporary, name))
        .map_err(|error| Error::store(name, &error))
}

/// The bytes of all blocks, of which one is in memory at a time.
#[derive(Debug)]
pub(crate) struct BlockReader<'a> {
    blocks: Blocks<'a, dyn ReadAt>,
    /// How many bytes of the current block were not read.
    left: usize,
    /// Why the store failed.
    pub(crate) failure: Option<io::Error>,
}

impl<'a> BlockReader<'a> {
    pub(crate) fn new(file: &'a mut (dyn ReadAt + 'static)) -> io::Result<Self> {
        Ok(Self {
            blocks: Blocks::new(file)?,
            left: 0,
            failure: None,
        })
    }
}

impl io::Read for BlockReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let next = self.blocks.next();
            let size = next.map(|block| block.map_or(0, |(bytes, _)| bytes.len()));
            self.left = size.map_err(|error| {
                let kind = error.kind();
                self.failure = Some(error);
                kind
            })?;
        }
        let mut rest = self.blocks.last(self.left);
        let read = rest.read(buffer)?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

/// Opens an object for reading. `None` if there is none of this name.
pub(crate) fn open_object(store: &dyn Store, name: &str) -> Result<Option<Box<dyn ReadAt>>, Error> {
    match store.open(name) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::store(name, &error)),
    }
}

/// Reads an object of blocks. `None` if there is none of this name.
pub(crate) fn read_object(
    store: &dyn Store,
    name: &str,
    mut read: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Option<()>, Error> {
    let io = |error| Error::store(name, &error);
    let Some(mut file) = open_object(store, name)? else {
        return Ok(None);
    };
    let mut blocks = Blocks::new(&mut *file).map_err(io)?;
    while let Some((block, _)) = blocks.next().map_err(io)? {
        read(block)?;
    }
    Ok(Some(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::store::{Directory, OPEN};

    /// The bytes of the blocks that a crash leaves.
    fn recovered(store: &Directory) -> Vec<u8> {
        let mut file = BlockFile::open(store, OPEN).unwrap();
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
        let mut file = BlockFile::open(&store, OPEN).unwrap();
        let mut block = Vec::new();
        let capacities = |file: &BlockFile| {
            let held = file.held.iter().map(|it| &it.bytes);
            held.chain(&file.spare)
                .map(|it| it.capacity())
                .sum::<usize>()
        };
        for round in 0..50 {
            // As syncs of a quiet stream, and then parts of a large transaction.
            let (count, size) = if round % 2 == 0 { (40, 2) } else { (3, 30) };
            for _ in 0..count {
                block.resize(size, 0);
                file.hold(&mut block, true).unwrap();
                assert!(capacities(&file) <= 2 * HELD, "round {round}");
            }
            file.clear().unwrap();
            assert!(file.spare.len() <= 3);
            assert!(round % 2 == 0 || !file.spare.is_empty());
        }
        drop(file);
        std::fs::remove_dir_all(&path).unwrap();
    }

    #[test]
    fn a_large_block_is_read_once_its_checksum_is_known() {
        #[derive(Debug)]
        struct Stored(Vec<u8>, usize);
        impl ReadAt for Stored {
            fn size(&mut self) -> io::Result<u64> {
                Ok(self.0.len() as u64)
            }
            fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
                let at = usize::try_from(at).unwrap();
                buffer.copy_from_slice(&self.0[at..at + buffer.len()]);
                self.1 = self.1.max(buffer.len());
                Ok(())
            }
        }
        let contents = [vec![1; 10], vec![2; 3 << 20], vec![3; 10]];
        let mut bytes = Vec::new();
        for block in &contents {
            bytes.extend_from_slice(&head(block, true).unwrap());
            bytes.extend_from_slice(block);
        }
        let mut stored = Stored(bytes, 0);
        let mut blocks = Blocks::new(&mut stored).unwrap();
        for expected in &contents {
            let (block, between) = blocks.next().unwrap().unwrap();
            assert!(block == expected && between);
        }
        assert!(blocks.next().unwrap().is_none());
        // A byte of the large one has changed.
        stored.0[1000] ^= 1;
        stored.1 = 0;
        let mut blocks = Blocks::new(&mut stored).unwrap();
        assert!(blocks.next().unwrap().is_some());
        assert!(blocks.next().unwrap().is_none());
        assert_eq!(stored.1, 1 << 20, "it was not read as a whole");
    }

    #[test]
    fn blocks_are_read_from_memory_and_from_the_file_and_none_is_recovered_without_those_before() {
        let path = std::env::temp_dir().join(format!("walrow-blocks-{}", std::process::id()));
        for discards in [false, true] {
            let store = Directory::create(&path).unwrap();
            let mut file = BlockFile::open(&store, OPEN).unwrap();
            let hold = |file: &mut BlockFile, byte| {
                file.hold(&mut vec![byte; 30], byte % 3 == 0).unwrap();
            };
            hold(&mut file, 0);
            if discards {
                file.discard(1);
            } else {
                // Neither of them may go before it is in the file.
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
            // Up to the last block in the file that ends between transactions.
            let whole = if discards { 0..0 } else { 0..4_u8 };
            let whole: Vec<u8> = whole.flat_map(|byte| [byte; 30]).collect();
            assert_eq!(recovered(&store), whole);
            std::fs::remove_dir_all(&path).unwrap();
        }
    }
}
