//! Where a log's objects are kept. Nothing here knows what they contain.
//!
//! A name is given in two ways only: to a new object if there is none of this name
//! ([`Staged::create`]), and instead of a known one ([`Staged::swap`]).

pub(crate) mod lease;
mod local;
pub(crate) mod once;

pub use local::Directory;

use std::fmt::Debug;
use std::io;
use std::thread;
use std::time::Duration;

/// The beginning of the names of objects that are not complete: see [`Store::stage`].
pub(crate) const STAGED: &str = ".walrow-";

/// The name of the journal of a log's writer. Readers of a directory skip names that begin with `_` or `.`.
pub(crate) const OPEN: &str = "_open";

/// The objects of a log, by name, for those who read.
pub trait Objects: Debug + Send + Sync {
    /// All names, in no particular order.
    ///
    /// # Errors
    /// The store failed.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Opens an object for reading. It stays that object, also if another one gets its name.
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

    /// What distinguishes it from another object, or from the same one after a change.
    ///
    /// # Errors
    /// The store failed.
    fn tag(&mut self) -> io::Result<Tag>;
}

/// Identifies an object and its contents: an `ETag`, or inode, size and time of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tag(pub String);

/// The objects of a log for those who write.
pub trait Store: Objects {
    /// Begins an object that has no name yet. It is gone when it is dropped, or when its process ends.
    ///
    /// # Errors
    /// The store failed.
    fn stage(&self) -> io::Result<Box<dyn Staged>>;

    /// Removes objects. They do not come back after a crash. Names that no object has are skipped.
    ///
    /// # Errors
    /// The store failed. Some of them may be removed.
    fn remove(&self, names: &[&str]) -> io::Result<()>;

    /// Opens an object that grows, and creates it if necessary. Nobody else can open it so until it
    /// is closed. All names that were given before are durable then, also those of processes that have
    /// crashed.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process has it open. The store failed.
    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>>;

    /// Takes a lock, which is an empty object, until the result is dropped or the process ends. `None`
    /// if somebody else has it.
    ///
    /// # Errors
    /// The store failed.
    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>>;

    /// Whether the objects are still those of the place that was opened.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if there is another place, or none, instead of it. The
    /// store failed.
    fn check(&self) -> io::Result<()>;

    /// Removes what [`Store::stage`] has begun in processes that have ended since. Returns how much.
    ///
    /// # Errors
    /// The store failed.
    fn sweep(&self) -> io::Result<usize>;

    /// Waits before a call is tried again that somebody else is in the way of.
    fn pause(&self, time: Duration) {
        thread::sleep(time);
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

    /// Gives it a name that no object has. Then it is durable as a whole. After
    /// [`Put::Unknown`], another call tries again.
    fn create(&mut self, name: &str) -> Put;

    /// Gives it the name of the object that has this tag, instead of that one. Then it is durable as
    /// a whole.
    ///
    /// The comparison and the change are one step for those who hold the same lock.
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
    /// It has.
    Done,
    /// Another object has the name, or the expected one does not have it any more.
    Lost,
    /// The store failed: it has, has not, or will have it later.
    Unknown(io::Error),
}

/// An object that grows.
pub trait Journal: ReadAt {
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

    /// Makes all bytes durable, if it still has its name.
    ///
    /// # Errors
    /// [`io::ErrorKind::StaleNetworkFileHandle`] if another object has its name, or none. The store
    /// failed: it is not known which bytes are durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Whether it still has its name.
    ///
    /// # Errors
    /// The store failed.
    fn is_named(&mut self) -> io::Result<bool>;
}
