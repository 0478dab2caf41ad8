//! The stores that keep a log's objects. A store does not know the contents of its objects.
//!
//! A store gives a name in two ways only. [`Staged::create`] gives it to a new object, if no object
//! has the name. [`Staged::swap`] gives it to a new object in place of a known object.

pub(crate) mod lease;
mod local;
mod local_file;
pub(crate) mod once;
mod open_directory;
pub(crate) mod small;

pub use local::Directory;

use std::fmt::Debug;
use std::io;
use std::thread;
use std::time::Duration;

/// The beginning of the names of objects that are not complete: see [`Store::stage`].
pub(crate) const STAGED: &str = ".walrow-";

/// The name of the journal of a log's writer. Readers of a directory skip names that begin with `_` or `.`.
pub(crate) const OPEN: &str = "_open";

/// The objects of a log, by name, for readers.
pub trait Objects: Debug + Send + Sync {
    /// All names, in no particular order.
    ///
    /// # Errors
    /// The store failed.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an object for reading. The result reads this object, even if another object gets its
    /// name.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such object. The store failed.
    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>>;
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

    /// A tag that differs for another object, and for the same object after a change.
    ///
    /// # Errors
    /// The store failed.
    fn tag(&mut self) -> io::Result<Tag>;
}

/// Identifies an object and its contents: an `ETag`, or inode, size and time of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub String);

/// The objects of a log, for writers.
pub trait Store: Objects {
    /// Begins an object that has no name yet. Without a name, it is gone when it is dropped, or
    /// when its process ends.
    ///
    /// # Errors
    /// The store failed.
    fn stage(&self) -> io::Result<Box<dyn Staged>>;

    /// Removes objects. They do not come back after a crash. Skips names that no object has.
    ///
    /// # Errors
    /// The store failed. Some of them may be removed.
    fn remove(&self, names: &[&str]) -> io::Result<()>;

    /// Opens an object that grows, and creates it if necessary. No other call can open it in this
    /// way until it is closed. After the call, all earlier names are durable, also names that a
    /// process gave before it crashed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it open. The store failed.
    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>>;

    /// Takes a lock, which is an empty object, until the result is dropped or the process ends.
    /// `None` if the lock is taken already.
    ///
    /// # Errors
    /// The store failed.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Checks that the objects still belong to the place that was opened.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if the place is gone, or another place has
    /// replaced it. The store failed.
    fn check(&self) -> io::Result<()>;

    /// Removes the objects that [`Store::stage`] began in processes that have ended since. Returns
    /// how many.
    ///
    /// # Errors
    /// The store failed.
    fn sweep(&self) -> io::Result<usize>;

    /// Waits before another try of a call that another process blocks.
    ///
    /// # Errors
    /// The wait was interrupted: the call is not tried again.
    fn pause(&self, time: Duration) -> io::Result<()> {
        thread::sleep(time);
        Ok(())
    }
}

/// A lock that is held.
pub trait Lock: Debug + Send + Sync {}

/// An object that has no name yet.
pub trait Staged: Debug + Send {
    /// Appends bytes.
    ///
    /// # Errors
    /// The store failed. Some of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Gives the object a name that no object has. Then the object is durable as a whole. After
    /// [`Put::Unknown`], another call tries again.
    fn create(&mut self, name: &str) -> Put;

    /// Gives the object a name, in place of the object that has the name and this tag. Then the new
    /// object is durable as a whole.
    ///
    /// The comparison and the change are one step for all holders of the same lock.
    fn swap(&mut self, name: &str, expected: &Tag) -> Put;
}

/// Whether an object has got its name.
#[derive(Debug)]
#[must_use]
#[expect(
    clippy::exhaustive_enums,
    reason = "whoever gives a name has to know each answer"
)]
pub enum Put {
    /// It has the name.
    Done,
    /// Another object has the name, or the expected object does not have it any more.
    Lost,
    /// The store failed: the object has the name, does not have it, or will have it later.
    Unknown(io::Error),
}

/// An object that grows.
pub trait Journal: ReadAt {
    /// Appends bytes.
    ///
    /// # Errors
    /// The store failed. Some of the bytes may be there.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Writes bytes again that are there already. After a failed sync, a later sync may leave out
    /// bytes that were written before the failure.
    ///
    /// # Errors
    /// The store failed.
    fn rewrite(&mut self, at: u64, bytes: &[u8]) -> io::Result<()>;

    /// Removes the bytes after this many.
    ///
    /// # Errors
    /// The store failed.
    fn truncate(&mut self, size: u64) -> io::Result<()>;

    /// Makes all bytes durable, if the object still has its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if another object has its name, or no object has
    /// it. The store failed: it is not known which bytes are durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether it still has its name.
    ///
    /// # Errors
    /// The store failed.
    fn is_named(&mut self) -> io::Result<bool>;
}
