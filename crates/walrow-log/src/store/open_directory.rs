//! A directory that is open. All calls go to that directory, even if another directory gets its
//! path. Below it, they follow no link, and open only plain files.

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat};
use rustix::io::{Errno, retry_on_intr};
use std::fs::{self, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The number of tries to open a file that loses its name before it is locked.
const ATTEMPTS: usize = 100;
/// The number of tries to open a journal that another process has locked, and the time between
/// them.
const MOMENTS: usize = 10;
const MOMENT: Duration = Duration::from_millis(2);

/// A directory that is open.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    pub(crate) handle: File,
    /// The path, without links.
    path: PathBuf,
    /// Whether the owner's group can read new files.
    group_access: bool,
}

impl OpenDirectory {
    /// Opens a directory. `group_access` says whether the owner's group can read new files.
    pub(crate) fn at(path: &Path, group_access: impl FnOnce(&Self) -> bool) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = retry_on_intr(|| rustix::fs::open(&path, flags, Mode::empty()))?;
        let mut opened = Self {
            handle: File::from(handle),
            path,
            group_access: false,
        };
        // Fails for a directory that cannot be read.
        retry_on_intr(|| Dir::read_from(&opened.handle))?;
        opened.group_access = group_access(&opened);
        Ok(opened)
    }

    /// The path of a file.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// All names.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in retry_on_intr(|| Dir::read_from(&self.handle))? {
            // Names of a log are ASCII: another name only has to be recognized as foreign.
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Fails if another directory has its path.
    pub(crate) fn check(&self) -> io::Result<()> {
        let known = self.handle.metadata()?;
        match fs::metadata(&self.path) {
            Ok(found) if (found.dev(), found.ino()) == (known.dev(), known.ino()) => Ok(()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Err(replaced(
                "the directory was moved or replaced while it was in use",
            )),
        }
    }

    pub(crate) fn stat(&self, name: &str) -> io::Result<Stat> {
        let (at, flags) = (&self.handle, AtFlags::SYMLINK_NOFOLLOW);
        Ok(retry_on_intr(|| {
            rustix::fs::statat(at, plain(name)?, flags)
        })?)
    }

    /// Opens a plain file.
    pub(crate) fn open(&self, name: &str, flags: OFlags) -> io::Result<File> {
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
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let file = self.open(name, OFlags::RDWR | OFlags::CREATE | OFlags::EXCL)?;
        // The mode does not depend on the umask.
        file.set_permissions(Permissions::from_mode(self.mode()))?;
        Ok(file)
    }

    /// The mode of new files.
    const fn mode(&self) -> u32 {
        if self.group_access { 0o640 } else { 0o600 }
    }

    pub(crate) fn has(&self, name: &str, file: &File) -> io::Result<bool> {
        let known = rustix::fs::fstat(file)?;
        match self.stat(name) {
            Ok(found) => Ok((found.st_dev, found.st_ino) == (known.st_dev, known.st_ino)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens a file, or creates it, and locks it. `None` if it is locked already.
    pub(crate) fn locked(&self, name: &str) -> io::Result<Option<File>> {
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

    /// As [`OpenDirectory::locked`]. The process that gave the file its name, or a sweep, may hold the lock
    /// for a moment.
    pub(crate) fn locked_soon(&self, name: &str) -> io::Result<File> {
        for _ in 0..MOMENTS {
            if let Some(file) = self.locked(name)? {
                return Ok(file);
            }
            thread::sleep(MOMENT);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<bool> {
        let (at, flags) = (&self.handle, AtFlags::empty());
        match retry_on_intr(|| rustix::fs::unlinkat(at, plain(name)?, flags)) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }
}

/// Refuses a name that could lead out of the directory.
pub(crate) fn plain(name: &str) -> rustix::io::Result<&str> {
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
pub(crate) fn linked() -> io::Error {
    let text =
        "it has another name elsewhere (a hard link), as in a backup: put a copy in its place";
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

pub(crate) fn replaced(text: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::StaleNetworkFileHandle, text)
}
