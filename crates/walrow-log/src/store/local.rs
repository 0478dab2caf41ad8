//! A log in a local directory.
//!
//! The path is resolved once. All calls go to that directory, even if another directory gets its
//! path. Below the directory, calls follow no link, and open only plain files.
//!
//! An object that has no name yet is a file `.walrow-PID-N`, which is locked while the process that
//! made it lives.

use crate::store::local_file::{Growing, Locked, NewFile, Plain};
use crate::store::open_directory::{OpenDirectory, linked};
use crate::store::{Journal, Lock, OPEN, Objects, ReadAt, STAGED, Staged, Store};
use rustix::fs::OFlags;
use std::fs::{DirBuilder, File, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// A local directory.
#[derive(Clone, Debug)]
pub struct Directory {
    opened: Arc<OpenDirectory>,
    pause: fn(Duration) -> io::Result<()>,
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
        let handle = &directory.opened.handle;
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
        Self::at(path.as_ref(), |opened| {
            let open = opened.open(OPEN, OFlags::RDONLY);
            open.and_then(|it| it.metadata())
                .is_ok_and(|it| it.mode() & 0o040 != 0)
        })
    }

    fn at(path: &Path, group_access: impl FnOnce(&OpenDirectory) -> bool) -> io::Result<Self> {
        Ok(Self {
            opened: Arc::new(OpenDirectory::at(path, group_access)?),
            pause: |time| {
                thread::sleep(time);
                Ok(())
            },
        })
    }

    /// The time when a name was last added or removed, in nanoseconds since 1970, by the clock of
    /// the file system.
    ///
    /// # Errors
    /// The metadata of the directory cannot be read.
    pub fn changed(&self) -> io::Result<i128> {
        let found = self.opened.handle.metadata()?;
        let seconds = i128::from(found.mtime()).saturating_mul(1_000_000_000);
        Ok(seconds.saturating_add(i128::from(found.mtime_nsec())))
    }

    /// Sets what waits before another try of a call that another process blocks. By default, the
    /// thread sleeps. An error of `pause` ends the tries.
    #[must_use]
    pub fn with_pause(mut self, pause: fn(Duration) -> io::Result<()>) -> Self {
        self.pause = pause;
        self
    }

    /// The path of an object.
    pub fn path(&self, name: &str) -> PathBuf {
        self.opened.path(name)
    }
}

impl Objects for Directory {
    fn list(&self) -> io::Result<Vec<String>> {
        self.opened.names()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Plain(self.opened.open(name, OFlags::RDONLY)?)))
    }
}

impl Store for Directory {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let temporary = format!("{STAGED}{}-{number}", std::process::id());
            let file = match self.opened.create(&temporary) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                file => file?,
            };
            match file.try_lock() {
                Ok(()) => {}
                // Another process takes it for the file of a dead process, and removes it.
                Err(TryLockError::WouldBlock) => continue,
                Err(TryLockError::Error(error)) => {
                    let _ = self.opened.remove(&temporary);
                    return Err(error);
                }
            }
            if self.opened.has(&temporary, &file)? {
                let directory = Arc::clone(&self.opened);
                return Ok(Box::new(NewFile::new(directory, file, temporary)));
            }
        }
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        for name in names {
            self.opened.remove(name)?;
        }
        // The names may be gone already: an earlier call may have failed before their removal was
        // durable.
        if names.is_empty() {
            Ok(())
        } else {
            self.opened.sync()
        }
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        let mut file = self.opened.locked_soon(name)?;
        if file.metadata()?.nlink() > 1 {
            drop(file);
            // After a crash, the file may still have its temporary name, too.
            self.sweep()?;
            file = self.opened.locked_soon(name)?;
            if file.metadata()?.nlink() > 1 {
                return Err(linked());
            }
        }
        // A process may have given names, and crashed before they were durable. The journal's next
        // bytes may depend on these names.
        self.opened.sync()?;
        Ok(Box::new(Growing {
            directory: Arc::clone(&self.opened),
            name: name.to_owned(),
            file,
        }))
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        let file = self.opened.locked(name)?;
        Ok(file.map(|file| Box::new(Locked(file)) as Box<dyn Lock>))
    }

    fn check(&self) -> io::Result<()> {
        self.opened.check()
    }

    fn sweep(&self) -> io::Result<usize> {
        let mut removed = 0_usize;
        let mut names = self.list()?;
        names.retain(|name| name.starts_with(STAGED));
        for name in names {
            // Another sweep may be faster.
            let Ok(file) = self.opened.open(&name, OFlags::RDWR) else {
                continue;
            };
            if file.try_lock().is_ok()
                && self.opened.has(&name, &file)?
                && self.opened.remove(&name)?
            {
                removed = removed.saturating_add(1);
            }
        }
        Ok(removed)
    }

    fn pause(&self, time: Duration) -> io::Result<()> {
        (self.pause)(time)
    }
}
