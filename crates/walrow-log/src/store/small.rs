//! The small objects that others keep in a log: requests, their results, and records. Each is
//! written as a whole, and read as a whole.

use crate::error::Error;
use crate::store::lease::{self, Locked};
use crate::store::{Objects, ReadAt, Store, Tag, once};
use std::io;
use std::sync::Arc;

/// The largest object that is read. walrow's own objects are far smaller.
const LARGEST: u64 = 256 << 20;

/// The small objects of a log, by name.
///
/// ```
/// use std::sync::Arc;
/// use walrow_log::{Directory, SmallObjects};
///
/// # let path = std::env::temp_dir().join(format!("walrow-small-{}", std::process::id()));
/// let objects = SmallObjects::new(Arc::new(Directory::create(&path)?));
/// assert!(objects.create("_stopped", b"why")?);
/// let (bytes, tag) = objects.read("_stopped")?;
/// let _lock = objects.lock()?;
/// assert!(objects.swap("_stopped", b"why not", &tag)?);
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct SmallObjects(Arc<dyn Store>);

impl SmallObjects {
    /// The small objects of a store.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    /// The names that begin with `prefix`, sorted.
    ///
    /// # Errors
    /// The store failed.
    pub fn list(&self, prefix: &str) -> Result<Vec<String>, Error> {
        let mut names = self.0.list().map_err(|error| Error::store("", &error))?;
        names.retain(|name| name.starts_with(prefix));
        names.sort_unstable();
        Ok(names)
    }

    /// Reads an object. Returns its bytes, and the tag that distinguishes it from a later object.
    ///
    /// # Errors
    /// There is no such object ([`Error::is_not_found`]), it is too large, or the store failed.
    pub fn read(&self, name: &str) -> Result<(Vec<u8>, Tag), Error> {
        read_object(&*self.0, name)
    }

    /// Creates an object, durably. Returns false if another object has the name.
    ///
    /// # Errors
    /// The store failed.
    pub fn create(&self, name: &str, bytes: &[u8]) -> Result<bool, Error> {
        let io = |error| Error::store(name, &error);
        let mut staged = self.0.stage().map_err(io)?;
        staged.append(bytes).map_err(io)?;
        let is_mine = |found: &mut dyn ReadAt| Ok(read_whole(found).map_err(io)? == bytes);
        once::create(&*self.0, &mut *staged, name, is_mine)
    }

    /// Writes an object in place of the object with this tag, durably. Returns false if that object
    /// is gone. Hold the lock.
    ///
    /// # Errors
    /// The store failed.
    pub fn swap(&self, name: &str, bytes: &[u8], tag: &Tag) -> Result<bool, Error> {
        once::put(&*self.0, name, Some(tag), |staged| staged.append(bytes))
    }

    /// Writes an object, durably, in place of an earlier object if there is one.
    ///
    /// # Errors
    /// Another process has written it meanwhile, or the store failed.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        if once::replace(&*self.0, name, |staged| staged.append(bytes))? {
            Ok(())
        } else {
            Err(once::written(name))
        }
    }

    /// Removes an object for good, if there is one of this name.
    ///
    /// # Errors
    /// The store failed.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        once::remove(&*self.0, name)
    }

    /// Waits for the lock that processes hold while they change small objects.
    ///
    /// # Errors
    /// Another process holds it for too long, the wait was interrupted, or the store failed.
    pub fn lock(&self) -> Result<Locked, Error> {
        lease::lock(&*self.0)
    }
}

/// As [`SmallObjects::read`], for readers.
///
/// # Errors
/// As [`SmallObjects::read`].
pub fn read_object(objects: &dyn Objects, name: &str) -> Result<(Vec<u8>, Tag), Error> {
    let io = |error| Error::store(name, &error);
    let mut object = objects.open(name).map_err(io)?;
    let bytes = read_whole(&mut *object).map_err(io)?;
    Ok((bytes, object.tag().map_err(io)?))
}

fn read_whole(object: &mut dyn ReadAt) -> io::Result<Vec<u8>> {
    let size = object.size()?;
    if size > LARGEST {
        let text = format!("it has {size} bytes: walrow wrote no such file");
        return Err(io::Error::new(io::ErrorKind::InvalidData, text));
    }
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    object.read_at(0, &mut bytes)?;
    Ok(bytes)
}
