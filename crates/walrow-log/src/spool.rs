//! Open transactions in a file.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use walrow_stream::{Spool, SpoolFile};

/// Keeps the bytes of open transactions in an unnamed file of a directory.
///
/// The file never has a name. The system frees it when no process has it open, also after a crash.
/// The assembler writes to the file only when its memory is full. All transactions share the file,
/// in blocks that are reused, so thousands of transactions need one file descriptor.
///
/// The file belongs to the process that created it. In a forked child, its use is an error, because
/// both processes would overwrite each other's blocks.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::FileSpool;
/// use walrow_stream::Assembler;
///
/// let assembler = Assembler::default()
///     .with_spool(Arc::new(FileSpool::default()))
///     .with_spool_memory(16 << 20);
/// ```
#[derive(Clone, Debug)]
pub struct FileSpool {
    directory: Arc<Path>,
    blocks: Arc<Mutex<Blocks>>,
}

impl FileSpool {
    /// A spool in this directory, which must exist when the file is created.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into().into(),
            blocks: Arc::default(),
        }
    }
}

impl Default for FileSpool {
    /// A spool in the system's directory for temporary files: `$TMPDIR`, or `/tmp`.
    fn default() -> Self {
        Self::new(std::env::temp_dir())
    }
}

impl Spool for FileSpool {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(Extent {
            directory: Arc::clone(&self.directory),
            blocks: Arc::clone(&self.blocks),
            own: Vec::new(),
            size: 0,
        }))
    }
}

/// 64 KiB: about the size of a transaction when it first goes to the file.
const BLOCK: u64 = 1 << 16;

/// The file and its free blocks.
#[derive(Debug, Default)]
struct Blocks {
    /// The file and the ID of the process that created it, while a transaction has a block.
    file: Option<(File, u32)>,
    count: u64,
    free: Vec<u64>,
    /// The number of transactions that have blocks.
    users: usize,
}

/// A panic in one transaction does not damage the blocks of the others.
fn lock(blocks: &Mutex<Blocks>) -> MutexGuard<'_, Blocks> {
    blocks.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Blocks {
    /// Takes a free block. Creates the file if it does not exist.
    fn take(&mut self, directory: &Path) -> io::Result<u64> {
        if self.file.is_none() {
            let file = tempfile::tempfile_in(directory)?;
            self.file = Some((file, std::process::id()));
        }
        Ok(self.free.pop().unwrap_or_else(|| {
            self.count = self.count.saturating_add(1);
            self.count.saturating_sub(1)
        }))
    }

    fn seek(&mut self, block: u64, offset: u64) -> io::Result<&mut File> {
        let Some((file, owner)) = &mut self.file else {
            return Err(io::ErrorKind::NotFound.into());
        };
        if *owner != std::process::id() {
            return Err(io::Error::other(
                "the file belongs to the parent process; decode in the process that made the \
                 decoder",
            ));
        }
        let place = block.saturating_mul(BLOCK).saturating_add(offset);
        file.seek(SeekFrom::Start(place))?;
        Ok(file)
    }
}

/// One transaction's blocks, in order.
#[derive(Debug)]
struct Extent {
    directory: Arc<Path>,
    blocks: Arc<Mutex<Blocks>>,
    own: Vec<u64>,
    size: u64,
}

impl SpoolFile for Extent {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut blocks = lock(&self.blocks);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (index, offset) = (self.size / BLOCK, self.size % BLOCK);
            if offset == 0 && self.own.len() as u64 == index {
                let block = blocks.take(&self.directory)?;
                if self.own.is_empty() {
                    blocks.users = blocks.users.saturating_add(1);
                }
                self.own.push(block);
            }
            let block = self.own.last().copied().unwrap_or_default();
            let space = usize::try_from(BLOCK.saturating_sub(offset)).unwrap_or(usize::MAX);
            let (part, more) = rest.split_at(space.min(rest.len()));
            blocks.seek(block, offset)?.write_all(part)?;
            self.size = self.size.saturating_add(part.len() as u64);
            rest = more;
        }
        Ok(())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut blocks = lock(&self.blocks);
        let (mut at, mut rest) = (at, buffer);
        while !rest.is_empty() {
            let (index, offset) = (at / BLOCK, at % BLOCK);
            let block = usize::try_from(index).ok().and_then(|it| self.own.get(it));
            let Some(block) = block else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            let space = usize::try_from(BLOCK.saturating_sub(offset)).unwrap_or(usize::MAX);
            let size = space.min(rest.len());
            let (part, more) = rest.split_at_mut(size);
            blocks.seek(*block, offset)?.read_exact(part)?;
            at = at.saturating_add(size as u64);
            rest = more;
        }
        Ok(())
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let mut blocks = lock(&self.blocks);
        blocks.free.append(&mut self.own);
        blocks.users = blocks.users.saturating_sub(1);
        if blocks.users == 0 {
            // No transaction has a block: free the disk space of the file.
            *blocks = Blocks {
                file: None,
                ..Blocks::default()
            };
        }
    }
}
