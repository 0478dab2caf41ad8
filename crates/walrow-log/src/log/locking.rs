//! The lock of those who change a log beside its writer: they register readers, remove segments, or
//! replace them. Each holds it for a step, not for all of its work.

use crate::log::error::{Error, ErrorKind};
use crate::log::store::{Store, WriteAt};
use std::io;
use std::thread;
use std::time::Duration;

/// The object that is locked. It is empty.
pub(crate) const LOCK: &str = "_lock";

/// How often it is tried, and how long each wait is: ten seconds.
const ATTEMPTS: usize = 200;
const PAUSE: Duration = Duration::from_millis(50);

/// The lock, until it is dropped. A crash drops it too.
#[derive(Debug)]
pub(crate) struct Lock {
    _object: Box<dyn WriteAt>,
}

/// Waits for the lock.
pub(crate) fn lock(store: &dyn Store) -> Result<Lock, Error> {
    for attempt in 1.. {
        match store.write(LOCK) {
            Ok(object) => return Ok(Lock { _object: object }),
            Err(error) if error.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                return Err(Error::new("", ErrorKind::ReadOnly));
            }
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                return Err(Error::store(LOCK, &error));
            }
            Err(_) if attempt < ATTEMPTS => thread::sleep(PAUSE),
            Err(_) => break,
        }
    }
    Err(Error::new("", ErrorKind::Busy))
}
