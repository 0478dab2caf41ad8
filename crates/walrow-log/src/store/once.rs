//! Gives a name to an object. If the store's answer was lost, finds out whether the object has the
//! name.

use crate::error::Error;
use crate::store::{Objects, Put, ReadAt, Staged, Store, Tag};
use std::io;

/// Creates an object under this name. Returns false if another object has the name: `is_mine` says
/// whether the found object is this object.
///
/// # Errors
/// The store failed. Another call tries again.
pub(crate) fn create(
    objects: &(impl Objects + ?Sized),
    staged: &mut dyn Staged,
    name: &str,
    is_mine: impl FnOnce(&mut dyn ReadAt) -> Result<bool, Error>,
) -> Result<bool, Error> {
    let failure = match staged.create(name) {
        Put::Done => return Ok(true),
        Put::Lost => None,
        Put::Unknown(error) => Some(error),
    };
    match objects.open(name) {
        Ok(mut found) => match (is_mine(&mut *found)?, failure) {
            (true, None) => Ok(true),
            // The object may be there, but not durable.
            (true, Some(failure)) => match staged.create(name) {
                Put::Done | Put::Lost => Ok(true),
                Put::Unknown(_) => Err(Error::store(name, &failure)),
            },
            (false, _) => Ok(false),
        },
        Err(error) => Err(Error::store(name, &failure.unwrap_or(error))),
    }
}

/// Writes an object under this name, in place of an earlier object, if there is one. Returns false
/// if another process has written an object of this name meanwhile.
///
/// # Errors
/// The store failed. Another call tries again.
pub(crate) fn replace(
    store: &dyn Store,
    name: &str,
    write: impl FnOnce(&mut dyn Staged) -> io::Result<()>,
) -> Result<bool, Error> {
    let found = match store.open(name).and_then(|mut known| known.tag()) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::store(name, &error)),
    };
    put(store, name, found.as_ref(), write)
}

/// Writes an object in place of the object with the tag `found`, or under a new name without a tag.
/// Returns false if another process has created or changed the object meanwhile.
///
/// # Errors
/// The store failed. Another call tries again.
pub(crate) fn put(
    store: &dyn Store,
    name: &str,
    found: Option<&Tag>,
    write: impl FnOnce(&mut dyn Staged) -> io::Result<()>,
) -> Result<bool, Error> {
    let io = |error| Error::store(name, &error);
    let mut staged = store.stage().map_err(io)?;
    write(&mut *staged).map_err(io)?;
    let put = match found {
        Some(found) => staged.swap(name, found),
        None => staged.create(name),
    };
    match put {
        Put::Done => Ok(true),
        Put::Lost => Ok(false),
        Put::Unknown(error) => Err(io(error)),
    }
}

/// The error for an object that another process has written meanwhile.
pub(crate) fn written(name: &str) -> Error {
    Error::store(name, &io::Error::other("another process has written it"))
}

/// Removes an object, if there is one of this name.
pub(crate) fn remove(store: &dyn Store, name: &str) -> Result<(), Error> {
    let removed = store.remove(&[name]);
    removed.map_err(|error| Error::store(name, &error))
}
