//! A log in a local directory.
//!
//! The path is resolved once. All calls go to that directory, even if another directory gets its
//! path. Below the directory, calls follow no link, and open only plain files.
//!
//! An object that has no name yet is a file `.walrow-PID-N`, which is locked while the process that
//! made it lives.

use crate::store::{Journal, Lock, OPEN, Objects, Put, ReadAt, STAGED, Staged, Store, Tag};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{self, DirBuilder, File, Permissions, TryLockError};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The number of tries to open a file that loses its name before it is locked.
const ATTEMPTS: usize = 100;
/// The number of tries to open a journal that another process has locked, and the time between
/// them.
const MOMENTS: usize = 10;
const MOMENT: Duration = Duration::from_millis(2);

/// A local directory.
#[derive(Clone, Debug)]
pub struct Directory(Arc<Place>);

#[derive(Debug)]
struct Place {
    handle: File,
    /// The path, without links.
    path: PathBuf,
    /// Whether the owner's group can read new files.
    group_access: bool,
}

impl Directory {
    /// Opens a directory, and creates it if necessary, so that only its owner can read it.
    ///
    /// # Errors
    /// The path is something else, or cannot be created.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::create_for(path, false)
    }

    /// As [`Directory::create`]. With `group_access`, the owner's group can read it, too.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn create_for(path: impl AsRef<Path>, group_access: bool) -> io::Result<Self> {
        let path = path.as_ref();
        if path.is_dir() {
            return Self::at(path, |_| group_access);
        }
        let missing = path.ancestors().take_while(|it| !it.is_dir()).count();
        let mut builder = DirBuilder::new();
        builder.mode(0o700).recursive(true).create(path)?;
        let directory = Self::at(path, |_| group_access)?;
        let mode = if group_access { 0o750 } else { 0o700 };
        // The mode does not depend on the umask.
        let handle = &directory.0.handle;
        handle.set_permissions(Permissions::from_mode(mode))?;
        for parent in path.ancestors().skip(1).take(missing) {
            // The parent of a relative path without separators is empty.
            let is_here = parent.as_os_str().is_empty();
            let parent = if is_here { Path::new(".") } else { parent };
            File::open(parent)?.sync_all()?;
        }
        Ok(directory)
    }

    /// Opens a directory. If the owner's group can read the writer's journal, it can read new
    /// files, too. The mode of the directory does not matter.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        Self::at(path.as_ref(), |place| {
            let open = place.open(OPEN, OFlags::RDONLY);
            open.and_then(|it| it.metadata())
                .is_ok_and(|it| it.mode() & 0o040 != 0)
        })
    }

    fn at(path: &Path, group_access: impl FnOnce(&Place) -> bool) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty()))?;
        let mut place = Place {
            handle: File::from(handle),
            path,
            group_access: false,
        };
        // Fails for a directory that cannot be read.
        retry_on_intr(|| Dir::read_from(&place.handle))?;
        place.group_access = group_access(&place);
        Ok(Self(Arc::new(place)))
    }

    /// The time when a name was last added or removed, in nanoseconds since 1970, by the clock of
    /// the file system.
    ///
    /// # Errors
    /// The metadata of the directory cannot be read.
    pub fn changed(&self) -> io::Result<i128> {
        let found = self.0.handle.metadata()?;
        let seconds = i128::from(found.mtime()).saturating_mul(1_000_000_000);
        Ok(seconds.saturating_add(i128::from(found.mtime_nsec())))
    }

    /// The path of an object.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path.join(name)
    }
}

impl Place {
    fn stat(&self, name: &str) -> io::Result<Stat> {
        let (at, flags) = (&self.handle, AtFlags::SYMLINK_NOFOLLOW);
        Ok(retry_on_intr(|| {
            rustix::fs::statat(at, plain(name)?, flags)
        })?)
    }

    /// Opens a plain file.
    fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
        // Without `NONBLOCK`, opening a pipe could wait for ever.
        let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let (at, mode) = (&self.handle, Mode::from(self.mode()));
        let opened = retry_on_intr(|| rustix::fs::openat(at, plain(name)?, flags, mode));
        let file = File::from(opened.map_err(|error| match error {
            Errno::LOOP | Errno::MLINK => not_a_file(true),
            // A socket.
            Errno::NXIO => not_a_file(false),
            error => error.into(),
        })?);
        match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
            FileType::RegularFile => Ok(file),
            // The text of the system's error is enough.
            FileType::Directory => Err(Errno::ISDIR.into()),
            _ => Err(not_a_file(false)),
        }
    }

    /// Creates a file with the mode of the log's files.
    fn create(&self, name: &str) -> io::Result<File> {
        let file = self.open(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        // The mode does not depend on the umask.
        file.set_permissions(Permissions::from_mode(self.mode()))?;
        Ok(file)
    }

    /// The mode of new files.
    const fn mode(&self) -> u32 {
        if self.group_access { 0o640 } else { 0o600 }
    }

    fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        let known = rustix::fs::fstat(file)?;
        match self.stat(name) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (known.st_dev, known.st_ino)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file, or creates it, and locks it. `None` if it is locked already.
    fn locked(&self, name: &str) -> io::Result<Option<File>> {
        for _ in 0..ATTEMPTS {
            let file = match self.open(name, OFlags::RDWR) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => self.create(name),
                opened => opened,
            };
            let file = match file {
                // Another process has created it meanwhile.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            match file.try_lock() {
                Ok(()) if self.has(name, &file)? => return Ok(Some(file)),
                // It was replaced before it was locked.
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Err(io::Error::other("the file is replaced all the time"))
    }

    /// As [`Place::locked`]. The process that gave the file its name, or a sweep, may hold the lock
    /// for a moment.
    fn locked_soon(&self, name: &str) -> io::Result<File> {
        for _ in 0..MOMENTS {
            if let Some(file) = self.locked(name)? {
                return Ok(file);
            }
            thread::sleep(MOMENT);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn remove(&self, name: &str) -> io::Result<bool> {
        let (at, flags) = (&self.handle, AtFlags::empty());
        match retry_on_intr(|| rustix::fs::unlinkat(at, plain(name)?, flags)) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the names durable.
    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

/// Refuses a name that could lead out of the directory.
fn plain(name: &str) -> rustix::io::Result<&str> {
    let leads_out = matches!(name, "" | "." | "..") || name.contains('/');
    if leads_out {
        Err(Errno::INVAL)
    } else {
        Ok(name)
    }
}

fn not_a_file(is_link: bool) -> io::Error {
    let text = if is_link {
        "it is a symbolic link, and a log follows none: move the file that it names back to this place. \
         To have the log elsewhere, move the whole directory: its path may be a link"
    } else {
        "it is not a file: remove it"
    };
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

/// The error for a file with a second name, because a change would show under that name, too.
fn linked() -> io::Error {
    let text =
        "it has another name elsewhere (a hard link), as in a backup: put a copy in its place";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn replaced(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::StaleNetworkFileHandle, text)
}

impl Objects for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in retry_on_intr(|| Dir::read_from(&self.0.handle))? {
            // Names of a log are ASCII: another name only has to be recognized as foreign.
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Plain(self.0.open(name, OFlags::RDONLY)?)))
    }
}

impl Store for Directory {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!("{STAGED}{}-{number}", std::process::id());
            let file = match self.0.create(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            match file.try_lock() {
                Ok(()) => {}
                // Another process takes it for the file of a dead process, and removes it.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => {
                    let _ = self.0.remove(&temporary);
                    return Err(error);
                }
            }
            if self.0.has(&temporary, &file)? {
                return Ok(Box::new(NewFile {
                    place: Arc::clone(&self.0),
                    file,
                    temporary: Some(temporary),
                    is_lost: false,
                }));
            }
        }
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        for name in names {
            self.0.remove(name)?;
        }
        // The names may be gone already: an earlier call may have failed before their removal was
        // durable.
        if names.is_empty() {
            Ok(())
        } else {
            self.0.sync()
        }
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        let mut file = self.0.locked_soon(name)?;
        if file.metadata()?.nlink() > 1 {
            drop(file);
            // After a crash, the file may still have its temporary name, too.
            self.sweep()?;
            file = self.0.locked_soon(name)?;
            if file.metadata()?.nlink() > 1 {
                return Err(linked());
            }
        }
        // A process may have given names, and crashed before they were durable. The journal's next
        // bytes may depend on these names.
        self.0.sync()?;
        Ok(Box::new(Growing {
            place: Arc::clone(&self.0),
            name: name.to_owned(),
            file,
        }))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let file = self.0.locked(name)?;
        Ok(file.map(|file| Box::new(Locked(file)) as Box<dyn Lock>))
    }

    fn check(&self) -> io::Result<()> {
        let known = self.0.handle.metadata()?;
        match fs::metadata(&self.0.path) {
            Ok(found) if (found.dev(), found.ino()) == (known.dev(), known.ino()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(replaced(
                "the directory was moved or replaced while it was in use",
            )),
        }
    }

    fn sweep(&self) -> io::Result<usize> {
        let mut removed = 0_usize;
        let mut names = self.list()?;
        names.retain(|name| name.starts_with(STAGED));
        for name in names {
            // Another sweep may be faster.
            let Ok(file) = self.0.open(&name, OFlags::RDWR) else {
                continue;
            };
            if file.try_lock().is_ok() && self.0.has(&name, &file)? && self.0.remove(&name)? {
                removed = removed.saturating_add(1);
            }
        }
        Ok(removed)
    }
}

/// A file that is read.
#[derive(Debug)]
struct Plain(File);

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
struct Locked(#[expect(dead_code, reason = "it is locked until it is closed")] File);

impl Lock for Locked {}

/// A file that begins with a temporary name only.
#[derive(Debug)]
struct NewFile {
    place: Arc<Place>,
    /// It is locked.
    file: File,
    /// The temporary name. `None` once it is gone.
    temporary: Option<String>,
    /// Whether its bytes could not be made durable. Another sync may succeed, although the bytes
    /// are lost.
    is_lost: bool,
}

impl NewFile {
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
            None => self.place.has(name, &self.file),
        };
        // The name is made durable also if an object had it already: an earlier call may have ended
        // before its sync.
        match done.and_then(|done| self.place.sync().map(|()| done)) {
            Ok(true) => {
                // A process that opens the file by its name can lock it now.
                let _ = self.file.unlock();
                if let Some(temporary) = self.temporary.take() {
                    // If this fails, the next sweep removes the file.
                    let _ = self.place.remove(&temporary);
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
        self.file.write_all(bytes)
    }

    fn create(&mut self, name: &str) -> Put {
        self.put(name, |this, temporary| {
            let (at, flags) = (&this.place.handle, AtFlags::empty());
            // Unlike a rename, a link never replaces a file.
            match retry_on_intr(|| rustix::fs::linkat(at, temporary, at, plain(name)?, flags)) {
                Ok(()) => Ok(true),
                // An earlier call may have given it the name.
                Err(Errno::EXIST) => this.place.has(name, &this.file),
                Err(error) => Err(error.into()),
            }
        })
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.put(name, |this, temporary| {
            match this.place.stat(name) {
                Ok(found) if tag(&found) == *expected => {}
                Ok(_) => return this.place.has(name, &this.file),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
                Err(error) => return Err(error),
            }
            let at = &this.place.handle;
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
            let _ = self.place.remove(temporary);
        }
    }
}

/// A file that grows.
#[derive(Debug)]
struct Growing {
    place: Arc<Place>,
    name: String,
    file: File,
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
        self.place.has(&self.name, &self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_were_not_synced_once_get_no_name() {
        let path = tempfile::tempdir().unwrap();
        let directory = Directory::open(path.path()).unwrap();
        let (_reader, writer) = io::pipe().unwrap();
        let mut staged = NewFile {
            place: Arc::clone(&directory.0),
            // It cannot be synced.
            file: File::from(std::os::fd::OwnedFd::from(writer)),
            temporary: Some(".walrow-1-0".to_owned()),
            is_lost: false,
        };
        assert!(matches!(staged.create("a"), Put::Unknown(_)));
        // Now a sync would succeed. But the system may have forgotten bytes that it did not write.
        staged.file = directory.0.create(".walrow-1-0").unwrap();
        assert!(matches!(staged.create("a"), Put::Unknown(_)));
        drop(staged);
        assert_eq!(directory.list().unwrap(), Vec::<String>::new());
    }
}
