//! The end of a log that is not published yet: blocks in one file.
//!
//! ```text
//! ┌──────────┬────────┬─ … ─┬──────────┬────────┬─ … ─┐
//! │ size (4) │ crc (4)│bytes│ size (4) │ crc (4)│bytes│
//! └──────────┴────────┴─ … ─┴──────────┴────────┴─ … ─┘
//! ```
//! The highest bit of the size says that a transaction ends with the block, or that none is open. The
//! bytes of all blocks are a stream as in a segment. A block that was cut, or whose bytes differ
//! from their CRC-32C, was not synced: what it and later blocks contain was confirmed to nobody.

use crate::error::Error;
use crate::store::{Store, WriteAt};
use std::io;

/// Bytes of a block before its contents.
const HEADER: usize = 8;
/// Marks a block whose end is between transactions.
const BETWEEN: u32 = 1 << 31;

/// The open file. While it is open, nobody else can open it.
#[derive(Debug)]
pub(crate) struct OpenFile {
    file: Box<dyn WriteAt>,
    /// Bytes of all blocks.
    size: u64,
    is_synced: bool,
}

impl OpenFile {
    /// Its name in the log. Readers of a directory skip names that begin with `_` or `.`.
    pub(crate) const NAME: &'static str = "_open";

    /// Opens the file, and keeps only blocks that are whole.
    pub(crate) fn open(store: &dyn Store) -> io::Result<Self> {
        let mut file = store.write(Self::NAME)?;
        let stored = file.size()?;
        let mut opened = Self {
            file,
            size: 0,
            is_synced: true,
        };
        while let Some((block, _)) = opened.block_at(opened.size)? {
            opened.size = opened
                .size
                .saturating_add(block.len() as u64)
                .saturating_add(HEADER as u64);
        }
        if opened.size < stored {
            opened.file.truncate(opened.size)?;
            opened.file.sync()?;
        }
        Ok(opened)
    }

    /// Appends a block. It is durable after [`OpenFile::sync`].
    pub(crate) fn append(&mut self, bytes: &[u8], between: bool) -> io::Result<()> {
        let size = u32::try_from(bytes.len())
            .ok()
            .filter(|size| *size < BETWEEN);
        let size = size.ok_or(io::ErrorKind::InvalidInput)?;
        let size = if between { size | BETWEEN } else { size };
        let mut block = Vec::with_capacity(bytes.len().saturating_add(HEADER));
        block.extend_from_slice(&size.to_le_bytes());
        block.extend_from_slice(&crc32c::crc32c(bytes).to_le_bytes());
        block.extend_from_slice(bytes);
        self.is_synced = false;
        if let Err(error) = self.file.append(&block) {
            // A part of it may be there, and would end the file for recovery.
            self.file.truncate(self.size)?;
            return Err(error);
        }
        self.size = self.size.saturating_add(block.len() as u64);
        Ok(())
    }

    /// Makes all blocks durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        if !self.is_synced {
            self.file.sync()?;
            self.is_synced = true;
        }
        Ok(())
    }

    /// Removes all blocks.
    pub(crate) fn clear(&mut self) -> io::Result<()> {
        self.file.truncate(0)?;
        self.file.sync()?;
        (self.size, self.is_synced) = (0, true);
        Ok(())
    }

    /// Calls `read` with the bytes of each block, in order, and whether it ends between transactions.
    pub(crate) fn read(
        &mut self,
        mut read: impl FnMut(&[u8], bool) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut at = 0;
        let io = |error| Error::store(Self::NAME, &error);
        while let Some((block, between)) = self.block_at(at).map_err(io)? {
            at = at
                .saturating_add(block.len() as u64)
                .saturating_add(HEADER as u64);
            read(&block, between)?;
        }
        Ok(())
    }

    /// The block at this place. `None` at the end, and if it is not whole.
    fn block_at(&mut self, at: u64) -> io::Result<Option<(Vec<u8>, bool)>> {
        let rest = self.file.size()?.saturating_sub(at);
        let mut header = [0; HEADER];
        if rest < HEADER as u64 {
            return Ok(None);
        }
        self.file.read_at(at, &mut header)?;
        let [s0, s1, s2, s3, c0, c1, c2, c3] = header;
        let (size, crc) = (
            u32::from_le_bytes([s0, s1, s2, s3]),
            u32::from_le_bytes([c0, c1, c2, c3]),
        );
        let (size, between) = (size & !BETWEEN, size & BETWEEN != 0);
        if u64::from(size) > rest.saturating_sub(HEADER as u64) {
            return Ok(None);
        }
        let mut block = vec![0; size as usize];
        self.file
            .read_at(at.saturating_add(HEADER as u64), &mut block)?;
        // A file system may extend a file with zeros before a crash: no block is empty.
        let is_whole = size > 0 && crc32c::crc32c(&block) == crc;
        Ok(is_whole.then_some((block, between)))
    }
}
