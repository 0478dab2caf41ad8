//! Where a log's objects are kept.

use crate::log::error::Error;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
#[cfg(unix)]
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The beginning of temporary names.
pub(crate) const TEMPORARY: &str = ".walrow-";

/// The name of the end of a log. Readers of a directory skip names that begin with `_` or `.`.
pub(crate) const OPEN: &str = "_open";

/// The objects of a log, by name.
///
/// A log relies on these guarantees: [`Store::publish`] never replaces an object, and once it or
/// [`Store::replace`] has returned, the object with its whole contents survives a crash. So do the bytes of a [`WriteAt`]
/// up to its last `sync`.
pub trait Store: Debug + Send + Sync {
    /// All names, in no particular order.
    ///
    /// # Errors
    /// The store failed.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an object for reading.
    ///
    /// # Errors
    /// There is no such object, or the store failed.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>>;

    /// Opens an object for writing, and creates it if necessary. Nobody else can open it so until it is
    /// closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it open. The store failed.
    fn write(&self, name: &str) -> io::Result<Box<dyn WriteAt>>;

    /// Gives a synced object its final name.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] if there is an object of this name. The store failed.
    fn publish(&self, temporary: &str, name: &str) -> io::Result<()>;

    /// Gives a synced object its final name, instead of the object that has it.
    ///
    /// # Errors
    /// The store failed.
    fn replace(&self, temporary: &str, name: &str) -> io::Result<()>;

    /// Removes an object.
    ///
    /// # Errors
    /// The store failed.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// Removes an object, if there is one of this name.
pub(crate) fn remove_if_there(store: &dyn Store, name: &str) -> Result<(), Error> {
    match store.remove(name) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::store(name, &error)),
        _ => Ok(()),
    }
}

/// An object that is read.
pub trait ReadAt: Debug + Send {
    /// Its size in bytes.
    ///
    /// # Errors
    /// The store failed.
    fn size(&mut self) -> io::Result<u64>;

    /// Fills the buffer with the bytes at this place.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if there are fewer. The store failed.
    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()>;
}

/// An object that is written.
pub trait WriteAt: ReadAt {
    /// Appends bytes.
    ///
    /// # Errors
    /// The store failed. Some of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes bytes again that are there already. After a sync that failed, a later one may leave out
    /// what was written before it.
    ///
    /// # Errors
    /// The store failed.
    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Removes the bytes after this many.
    ///
    /// # Errors
    /// The store failed.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Makes all bytes durable.
    ///
    /// # Errors
    /// The store failed. It is not known which bytes are durable.
    fn sync(&mut self) -> io::Result<()>;
}

/// A local directory.
#[derive(Clone, Debug)]
pub struct Directory {
    path: PathBuf,
    group_access: bool,
}

impl Directory {
    /// Opens a directory, and creates it if necessary, so that only its owner can read it.
    ///
    /// # Errors
    /// The path is something else, or cannot be created.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::create_for(path, false)
    }

    /// As [`Directory::create`]. With `group_access`, the owner's group can read it, too.
    ///
    /// # Errors
    /// As [`Directory::create`].
    pub fn create_for(path: impl Into<PathBuf>, group_access: bool) -> io::Result<Self> {
        let path = path.into();
        if !path.is_dir() {
            let missing = path.ancestors().take_while(|it| !it.is_dir()).count();
            let mut builder = fs::DirBuilder::new();
            #[cfg(unix)]
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
            builder.recursive(true).create(&path)?;
            #[cfg(unix)]
            {
                let mode = if group_access { 0o750 } else { 0o700 };
                // Whatever the umask is.
                fs::set_permissions(&path, PermissionsExt::from_mode(mode))?;
            }
            for parent in path.ancestors().skip(1).take(missing) {
                sync_directory(parent)?;
            }
        }
        Ok(Self { path, group_access })
    }

    /// Opens a directory. If the owner's group can read what its writer has written, it can read new files,
    /// too, whatever the mode of the directory is.
    ///
    /// # Errors
    /// There is no such directory, or it cannot be read.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        fs::read_dir(&path)?;
        #[cfg(unix)]
        let group_access =
            fs::metadata(path.join(OPEN)).is_ok_and(|it| it.permissions().mode() & 0o040 == 0o040);
        #[cfg(not(unix))]
        let group_access = false;
        Ok(Self { path, group_access })
    }

    /// The path of an object.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Makes the names in a directory durable.
fn sync_directory(path: &Path) -> io::Result<()> {
    // The parent of a relative path without separators is empty.
    let path = if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    };
    // Windows cannot open a directory, and needs no sync.
    if cfg!(unix) {
        File::open(path)?.sync_all()?;
    }
    Ok(())
}

/// Refuses what is no file, such as a pipe: to open it could wait for ever.
fn check_kind(path: &Path) -> io::Result<()> {
    let kind = fs::metadata(path)?.file_type();
    // The system says what is wrong with a directory.
    if kind.is_file() || kind.is_dir() {
        return Ok(());
    }
    let text = "it is neither a file nor a link to one";
    Err(io::Error::new(io::ErrorKind::InvalidInput, text))
}

impl Store for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // Names of a log are ASCII: another name only has to be recognized as foreign.
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(names)
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        let path = self.path(name);
        check_kind(&path)?;
        let file = File::open(path)?;
        let unsynced = None;
        Ok(Box::new(Object { file, unsynced }))
    }

    fn write(&self, name: &str) -> io::Result<Box<dyn WriteAt>> {
        let path = self.path(name);
        let is_new = !path.exists();
        if !is_new {
            check_kind(&path)?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path)?;
        #[cfg(unix)]
        if is_new {
            let mode = if self.group_access { 0o640 } else { 0o600 };
            // Whatever the umask is.
            file.set_permissions(PermissionsExt::from_mode(mode))?;
        }
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => io::ErrorKind::WouldBlock.into(),
            fs::TryLockError::Error(error) => error,
        })?;
        // A temporary name does not have to survive a crash. Another one may be that of a process that
        // has created the file and then crashed.
        let unsynced = (!name.starts_with(TEMPORARY)).then(|| self.path.clone());
        Ok(Box::new(Object { file, unsynced }))
    }

    fn publish(&self, temporary: &str, name: &str) -> io::Result<()> {
        // Unlike a rename, a link never replaces a file.
        fs::hard_link(self.path(temporary), self.path(name))?;
        sync_directory(&self.path)?;
        fs::remove_file(self.path(temporary))
    }

    fn replace(&self, temporary: &str, name: &str) -> io::Result<()> {
        fs::rename(self.path(temporary), self.path(name))?;
        sync_directory(&self.path)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }
}

/// A file.
#[derive(Debug)]
struct Object {
    file: File,
    /// The directory, if it may not have the object's name after a crash.
    unsynced: Option<PathBuf>,
}

impl ReadAt for Object {
    fn size(&mut self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.read_exact(buffer)
    }
}

impl WriteAt for Object {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::End(0))?;
        self.file.write_all(bytes)
    }

    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(at))?;
        self.file.write_all(bytes)
    }

    fn truncate(&mut self, size: u64) -> io::Result<()> {
        self.file.set_len(size)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if let Some(directory) = &self.unsynced {
            sync_directory(directory)?;
            self.unsynced = None;
        }
        Ok(())
    }
}
