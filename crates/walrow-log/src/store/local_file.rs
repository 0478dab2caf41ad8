//! The files of a local directory: a file that is read, a file that begins with a temporary name, and
//! a file that grows.

use crate::store::open_directory::{OpenDirectory, plain, replaced};
use crate::store::{Journal, Lock, Put, ReadAt, Staged, Tag};
use rustix::fs::{AtFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

/// A file that is read.
#[derive(Debug)]
pub(crate) struct Plain(pub(crate) File);

impl ReadAt for Plain {
    fn size(&mut self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(buffer, at)
    }

    fn tag(&mut self) -> io::Result<Tag> {
        Ok(tag(&rustix::fs::fstat(&self.0)?))
    }
}

fn tag(stat: &Stat) -> Tag {
    let Stat {
        st_ino: inode,
        st_size: size,
        st_mtime: seconds,
        st_mtime_nsec: nanoseconds,
        ..
    } = stat;
    Tag(format!("{inode}-{size}-{seconds}.{nanoseconds}"))
}

/// A file that is locked.
#[derive(Debug)]
pub(crate) struct Locked(
    #[expect(dead_code, reason = "it is locked until it is closed")] pub(crate) File,
);

impl Lock for Locked {}

/// A file that begins with a temporary name only.
#[derive(Debug)]
pub(crate) struct NewFile {
    directory: Arc<OpenDirectory>,
    file: File,
    /// The temporary name. `None` once it is gone.
    temporary: Option<String>,
    /// Whether its bytes could not be made durable. Another sync may succeed, although the bytes
    /// are lost.
    is_lost: bool,
    /// Bytes since the last sync.
    unsynced: u64,
}

/// A file is synced after so many bytes. One sync of a large file at its end would keep all other
/// syncs of the file system waiting.
const SYNC: u64 = 32 << 20;

impl NewFile {
    /// An empty file, which is locked.
    pub(crate) const fn new(directory: Arc<OpenDirectory>, file: File, temporary: String) -> Self {
        Self {
            directory,
            file,
            temporary: Some(temporary),
            is_lost: false,
            unsynced: 0,
        }
    }

    /// Makes the bytes durable, and gives the file a name. `link` does this from the temporary
    /// name.
    fn put(&mut self, name: &str, link: impl FnOnce(&mut Self, &str) -> io::Result<bool>) -> Put {
        if self.is_lost {
            let text = "its bytes could not be made durable: write it again";
            return Put::Unknown(io::Error::other(text));
        }
        if let Err(error) = self.file.sync_all() {
            self.is_lost = true;
            return Put::Unknown(error);
        }
        let done = match self.temporary.clone() {
            Some(temporary) => link(self, &temporary),
            // An earlier call has given it the name.
            None => self.directory.has(name, &self.file),
        };
        // The name is made durable also if an object had it already: an earlier call may have ended
        // before its sync.
        match done.and_then(|done| self.directory.sync().map(|()| done)) {
            Ok(true) => {
                // A process that opens the file by its name can lock it now.
                let _ = self.file.unlock();
                if let Some(temporary) = self.temporary.take() {
                    // If this fails, the next sweep removes the file.
                    let _ = self.directory.remove(&temporary);
                }
                Put::Done
            }
            Ok(false) => Put::Lost,
            Err(error) => Put::Unknown(error),
        }
    }
}

impl Staged for NewFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.unsynced = self.unsynced.saturating_add(bytes.len() as u64);
        if self.unsynced > SYNC {
            self.unsynced = 0;
            let synced = self.file.sync_data();
            self.is_lost |= synced.is_err();
            return synced;
        }
        Ok(())
    }

    fn create(&mut self, name: &str) -> Put {
        self.put(name, |this, temporary| {
            let (at, flags) = (&this.directory.handle, AtFlags::empty());
            // Unlike a rename, a link never replaces a file.
            match retry_on_intr(|| rustix::fs::linkat(at, temporary, at, plain(name)?, flags)) {
                Ok(()) => Ok(true),
                // An earlier call may have given it the name.
                Err(Errno::EXIST) => this.directory.has(name, &this.file),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.put(name, |this, temporary| {
            match this.directory.stat(name) {
                Ok(found) if tag(&found) == *expected => {}
                Ok(_) => return this.directory.has(name, &this.file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
            let at = &this.directory.handle;
            retry_on_intr(|| rustix::fs::renameat(at, temporary, at, plain(name)?))?;
            // Another process with the same ID may make a file with the old name.
            this.temporary = None;
            Ok(true)
        })
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = self.directory.remove(temporary);
        }
    }
}

/// A file that grows.
#[derive(Debug)]
pub(crate) struct Growing {
    pub(crate) directory: Arc<OpenDirectory>,
    pub(crate) name: String,
    pub(crate) file: File,
}

impl ReadAt for Growing {
    fn size(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, at)
    }

    fn tag(&mut self) -> io::Result<Tag> {
        Ok(tag(&rustix::fs::fstat(&self.file)?))
    }
}

impl Journal for Growing {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(bytes)
    }

    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, at)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if self.is_named()? {
            return Ok(());
        }
        Err(replaced(
            "the file was removed or replaced while it was in use",
        ))
    }

    fn is_named(&mut self) -> io::Result<bool> {
        self.directory.has(&self.name, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_not_synced_once_get_no_name() {
        let path = tempfile::tempdir().unwrap();
        let directory = Arc::new(OpenDirectory::at(path.path(), |_| false).unwrap());
        let (_reader, writer) = io::pipe().unwrap();
        // It cannot be synced.
        let file = File::from(std::os::fd::OwnedFd::from(writer));
        let mut staged = NewFile::new(Arc::clone(&directory), file, ".walrow-1-0".to_owned());
        assert!(matches!(staged.create("a"), Put::Unknown(_)));
        // Now a sync would succeed. But the system may have forgotten bytes that it did not write.
        staged.file = directory.create(".walrow-1-0").unwrap();
        assert!(matches!(staged.create("a"), Put::Unknown(_)));
        drop(staged);
        assert_eq!(directory.names().unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_large_file_is_synced_while_it_is_written() {
        let path = tempfile::tempdir().unwrap();
        let directory = Arc::new(OpenDirectory::at(path.path(), |_| false).unwrap());
        // It takes all bytes, and cannot be synced.
        let file = File::options().write(true).open("/dev/null").unwrap();
        let mut staged = NewFile::new(directory, file, ".walrow-1-0".to_owned());
        let half = vec![0; usize::try_from(SYNC / 2).unwrap()];
        staged.append(&half).unwrap();
        staged.append(&half).unwrap();
        staged.append(&[0]).unwrap_err();
        assert!(staged.is_lost && staged.unsynced == 0);
    }
}
