//! Open transactions in files.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use walrow_stream::{Spool, SpoolFile};

/// Keeps the bytes of open transactions in unnamed files of a directory.
///
/// The files have no name from the first moment on, so that nothing is left of them after use or
/// after a crash: the system frees them when the last process that had them open is gone. Nothing
/// is written before memory is full.
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
    directory: PathBuf,
}

impl FileSpool {
    /// A spool in this directory, which must exist when the first file is needed.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
        }
    }

    /// Where the files are.
    pub fn directory(&self) -> &Path {
        &self.directory
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
        let file = tempfile::tempfile_in(&self.directory)?;
        Ok(Box::new(OpenFile { file }))
    }
}

#[derive(Debug)]
struct OpenFile {
    file: File,
}

impl SpoolFile for OpenFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(bytes)
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(buffer)
    }
}
