//! Small objects as blocks with checksums.
//!
//! ```text
//! ┌──────────┬────────┬─ … ─┬──────────┬────────┬─ … ─┐
//! │ size (4) │ crc (4)│bytes│ size (4) │ crc (4)│bytes│
//! └──────────┴────────┴─ … ─┴──────────┴────────┴─ … ─┘
//! ```
//! Such an object is whole before it gets its name, except for the index. The index grows, and its
//! contents follow from the segments. `crc` is the CRC-32C of the bytes.

use crate::error::{DamagedPart, Error, ErrorKind};
use crate::store::{Objects, ReadAt, Staged, Store, Tag, once};
use serde::Deserialize;
use std::io;

/// Bytes of a block before its contents.
pub(crate) const HEADER: usize = 8;
/// The highest bit of the size, which has no meaning.
const RESERVED: u32 = 1 << 31;
/// Bytes of one read of small blocks.
pub(crate) const READ: u64 = 1 << 20;

/// A block with more bytes than this has its checksum checked before all of its bytes are in
/// memory. Few blocks are so large, and a damaged size may have any value.
const LARGE: u64 = if cfg!(test) { 1 << 20 } else { 16 << 20 };

/// The header of a block with these bytes.
pub(crate) fn head(bytes: &[u8]) -> io::Result<[u8; HEADER]> {
    let size = u32::try_from(bytes.len()).ok();
    let size = size.filter(|size| *size < RESERVED);
    let size = size.ok_or(io::ErrorKind::InvalidInput)?;
    let [s0, s1, s2, s3] = size.to_le_bytes();
    let [c0, c1, c2, c3] = crc32c::crc32c(bytes).to_le_bytes();
    Ok([s0, s1, s2, s3, c0, c1, c2, c3])
}

/// The bytes of an object, with a piece of them in memory.
#[derive(Debug)]
pub(crate) struct Window<'a, R: ReadAt + ?Sized> {
    file: &'a mut R,
    size: u64,
    /// Bytes of the object from `from` on.
    buffer: Vec<u8>,
    from: u64,
}

impl<'a, R: ReadAt + ?Sized> Window<'a, R> {
    pub(crate) fn new(file: &'a mut R) -> io::Result<Self> {
        let size = file.size()?;
        Ok(Self {
            file,
            size,
            buffer: Vec::new(),
            from: 0,
        })
    }

    /// Bytes of the object.
    pub(crate) const fn size(&self) -> u64 {
        self.size
    }

    /// The `count` bytes from `at` on. The caller has checked that the object has them.
    pub(crate) fn bytes(&mut self, at: u64, count: usize) -> io::Result<&[u8]> {
        let start = at.checked_sub(self.from).map(usize::try_from);
        let start = start.and_then(Result::ok).unwrap_or(usize::MAX);
        let end = start.saturating_add(count);
        if end <= self.buffer.len() {
            return Ok(self.buffer.get(start..end).unwrap_or_default());
        }
        let wanted = READ.max(count as u64).min(self.size.saturating_sub(at));
        self.buffer.clear();
        self.buffer
            .resize(usize::try_from(wanted).unwrap_or(usize::MAX), 0);
        self.from = at;
        self.file.read_at(at, &mut self.buffer)?;
        Ok(self.buffer.get(..count).unwrap_or_default())
    }

    /// Whether `size` bytes from `at` on have this checksum. Many bytes are read in pieces, so that
    /// a damaged size needs little memory. An empty block is never whole, because a file system may
    /// extend a file with zeros before a crash.
    pub(crate) fn has_checksum(&mut self, at: u64, size: u64, expected: u32) -> io::Result<bool> {
        if size == 0 {
            return Ok(false);
        }
        if size <= LARGE {
            let count = usize::try_from(size).unwrap_or(usize::MAX);
            return Ok(crc32c::crc32c(self.bytes(at, count)?) == expected);
        }
        let (mut crc, mut piece, mut at) = (0, Vec::new(), at);
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
}

/// The blocks of an object, up to the first block that is not whole.
#[derive(Debug)]
pub(crate) struct Blocks<'a, R: ReadAt + ?Sized> {
    window: Window<'a, R>,
    /// The place in the object where the next block begins.
    pub(crate) at: u64,
}

impl<'a, R: ReadAt + ?Sized> Blocks<'a, R> {
    pub(crate) fn new(file: &'a mut R) -> io::Result<Self> {
        Ok(Self {
            window: Window::new(file)?,
            at: 0,
        })
    }

    /// The next block. `None` at the end, and if it is not whole.
    pub(crate) fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let rest = self.window.size().saturating_sub(self.at);
        if rest < HEADER as u64 {
            return Ok(None);
        }
        let Some(&[s0, s1, s2, s3, c0, c1, c2, c3]) =
            self.window.bytes(self.at, HEADER)?.first_chunk()
        else {
            return Ok(None);
        };
        let size = u32::from_le_bytes([s0, s1, s2, s3]) & !RESERVED;
        let crc = u32::from_le_bytes([c0, c1, c2, c3]);
        let begin = self.at.saturating_add(HEADER as u64);
        let is_whole = u64::from(size) <= rest.saturating_sub(HEADER as u64)
            && self.window.has_checksum(begin, u64::from(size), crc)?;
        if !is_whole {
            return Ok(None);
        }
        self.at = begin.saturating_add(u64::from(size));
        Ok(Some(self.window.bytes(begin, size as usize)?))
    }

    /// The last bytes of the block that was read last.
    fn last(&mut self, count: usize) -> io::Result<&[u8]> {
        self.window
            .bytes(self.at.saturating_sub(count as u64), count)
    }
}

/// Bytes of the whole blocks of an object.
pub(crate) fn whole(file: &mut dyn ReadAt) -> io::Result<u64> {
    let mut blocks = Blocks::new(file)?;
    while blocks.next()?.is_some() {}
    Ok(blocks.at)
}

/// Writes the blocks of an object that has no name yet.
#[derive(Debug)]
pub(crate) struct NewBlocks<'a> {
    staged: &'a mut dyn Staged,
    crc32c: u32,
}

impl<'a> NewBlocks<'a> {
    pub(crate) fn new(staged: &'a mut dyn Staged) -> Self {
        Self { staged, crc32c: 0 }
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        for piece in [&head(bytes)?, bytes] {
            self.staged.append(piece)?;
            self.crc32c = crc32c::crc32c_append(self.crc32c, piece);
        }
        Ok(())
    }
}

/// Writes an object of blocks. `write` appends the blocks. The new object replaces an object of
/// this name. Returns the CRC-32C of its bytes.
pub(crate) fn write_blocks(
    store: &dyn Store,
    name: &str,
    write: impl FnOnce(&mut NewBlocks<'_>) -> io::Result<()>,
) -> Result<u32, Error> {
    let mut crc32c = 0;
    let is_written = once::replace(store, name, |staged| {
        let mut blocks = NewBlocks::new(staged);
        write(&mut blocks)?;
        crc32c = blocks.crc32c;
        Ok(())
    })?;
    if is_written {
        Ok(crc32c)
    } else {
        Err(once::written(name))
    }
}

/// As [`write_blocks`], for an object whose checksum is not kept.
pub(crate) fn write_object(
    store: &dyn Store,
    name: &str,
    write: impl FnOnce(&mut NewBlocks<'_>) -> io::Result<()>,
) -> Result<(), Error> {
    write_blocks(store, name, write).map(|_| ())
}

/// The CRC-32C of an object's bytes, which are read in pieces.
pub(crate) fn checksum(file: &mut dyn ReadAt) -> io::Result<u32> {
    let (size, mut at) = (file.size()?, 0);
    let (mut crc32c, mut piece) = (0, Vec::new());
    while at < size {
        let count = READ.min(size.saturating_sub(at));
        piece.resize(usize::try_from(count).unwrap_or(0), 0);
        file.read_at(at, &mut piece)?;
        crc32c = crc32c::crc32c_append(crc32c, &piece);
        at = at.saturating_add(count);
    }
    Ok(crc32c)
}

/// As [`write_object`], but replaces only the object with the tag `found`. Without a tag, it
/// creates the object. Fails if another process has created or changed the object meanwhile.
pub(crate) fn put_object(
    store: &dyn Store,
    name: &str,
    found: Option<&Tag>,
    write: impl FnOnce(&mut NewBlocks<'_>) -> io::Result<()>,
) -> Result<(), Error> {
    let is_written = once::put(store, name, found, |staged| {
        write(&mut NewBlocks::new(staged))
    })?;
    if is_written {
        Ok(())
    } else {
        Err(once::written(name))
    }
}

/// The bytes of all blocks, with one block in memory at a time.
#[derive(Debug)]
pub(crate) struct BlockReader<'a> {
    blocks: Blocks<'a, dyn ReadAt>,
    /// How many bytes of the current block are left to read.
    left: usize,
    /// The error of the store, if it failed.
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
            let size = next.map(|block| block.map_or(0, <[u8]>::len));
            self.left = size.map_err(|error| {
                let kind = error.kind();
                self.failure = Some(error);
                kind
            })?;
        }
        let mut rest = self.blocks.last(self.left)?;
        let read = rest.read(buffer)?;
        self.left = self.left.saturating_sub(read);
        Ok(read)
    }
}

/// Opens an object for reading. `None` if no object has this name.
pub(crate) fn open_object(
    objects: &dyn Objects,
    name: &str,
) -> Result<Option<Box<dyn ReadAt>>, Error> {
    match objects.open(name) {
        Ok(file) => Ok(Some(file)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::store(name, &error)),
    }
}

/// Reads an object of blocks. `None` if no object has this name.
pub(crate) fn read_object(
    objects: &dyn Objects,
    name: &str,
    mut read: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<Option<()>, Error> {
    let io = |error| Error::store(name, &error);
    let Some(mut file) = open_object(objects, name)? else {
        return Ok(None);
    };
    let mut blocks = Blocks::new(&mut *file).map_err(io)?;
    while let Some(block) = blocks.next().map_err(io)? {
        read(block)?;
    }
    Ok(Some(()))
}

/// Reads an object of one block of JSON. `None` if no object has this name.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(
    objects: &dyn Objects,
    name: &str,
    what: DamagedPart,
) -> Result<Option<T>, Error> {
    Ok(read_tagged(objects, name, what)?.map(|(json, _)| json))
}

/// As [`read_json`], with the object's tag.
pub(crate) fn read_tagged<T: for<'de> Deserialize<'de>>(
    objects: &dyn Objects,
    name: &str,
    what: DamagedPart,
) -> Result<Option<(T, Tag)>, Error> {
    let io = |error| Error::store(name, &error);
    let Some(mut file) = open_object(objects, name)? else {
        return Ok(None);
    };
    let tag = file.tag().map_err(io)?;
    let mut json = None;
    let mut blocks = Blocks::new(&mut *file).map_err(io)?;
    while let Some(block) = blocks.next().map_err(io)? {
        json = serde_json::from_slice(block).ok();
    }
    match json {
        Some(json) => Ok(Some((json, tag))),
        None => Err(Error::new(name, ErrorKind::Damaged { what })),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Bytes that are stored, and how many of them were read at once, at most.
    #[derive(Debug)]
    pub(crate) struct Stored(Vec<u8>, usize);

    impl Stored {
        pub(crate) fn of(bytes: &[u8]) -> Self {
            Self(bytes.to_vec(), 0)
        }
    }

    impl ReadAt for Stored {
        fn size(&mut self) -> io::Result<u64> {
            Ok(self.0.len() as u64)
        }
        fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
            let at = usize::try_from(at).unwrap();
            buffer.copy_from_slice(&self.0[at..][..buffer.len()]);
            self.1 = self.1.max(buffer.len());
            Ok(())
        }
        fn tag(&mut self) -> io::Result<Tag> {
            Ok(Tag(String::new()))
        }
    }

    #[test]
    fn a_large_block_is_read_once_its_checksum_is_known() {
        let contents = [vec![1; 10], vec![2; 3 << 20], vec![3; 10]];
        let mut bytes = Vec::new();
        for block in &contents {
            bytes.extend_from_slice(&head(block).unwrap());
            bytes.extend_from_slice(block);
        }
        let mut stored = Stored::of(&bytes);
        let mut blocks = Blocks::new(&mut stored).unwrap();
        for expected in &contents {
            assert!(blocks.next().unwrap().unwrap() == expected);
        }
        assert!(blocks.next().unwrap().is_none());
        // A byte of the large block has changed.
        stored.0[1000] ^= 1;
        stored.1 = 0;
        let mut blocks = Blocks::new(&mut stored).unwrap();
        assert!(blocks.next().unwrap().is_some());
        assert!(blocks.next().unwrap().is_none());
        assert_eq!(stored.1, 1 << 20, "it was not read as a whole");
    }
}
