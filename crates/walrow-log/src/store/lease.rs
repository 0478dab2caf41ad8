//! The locks of a log's writer, and of the other processes that change the log.
//!
//! A writer holds `_writer` while it lives, and its journal is locked, too. So a second writer is kept
//! out even if one of the two files is removed while a writer runs.
//!
//! A process holds `_lock` while it changes small objects, never while it copies bytes, because all
//! others wait for it. A process that removes, merges or erases segments holds `_upkeep` for its
//! whole job. Other such processes soon get the error that the log is busy.

use crate::error::{Error, ErrorKind};
use crate::store::{Journal, Lock, Store};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The object that is locked while a writer lives. It is empty.
pub(crate) const WRITER: &str = "_writer";

/// The object that is locked. It is empty.
pub(crate) const LOCK: &str = "_lock";

/// The object that is locked while segments are removed, merged or erased.
pub(crate) const UPKEEP: &str = "_upkeep";
/// The size of this object in bytes. The bytes have no meaning.
const ROOM: usize = 64 << 10;

/// The number of tries for each lock: for ten seconds, and for a quarter of a second.
const ATTEMPTS: usize = 1000;
const UPKEEP_ATTEMPTS: usize = 25;
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps other processes from writing to a log whose writer has finished. All of the log is in
/// segments.
#[derive(Debug)]
pub struct Quiet {
    store: Arc<dyn Store>,
    /// The journal, which is locked until it is closed, and the lock of its writer.
    _journal: (Box<dyn Journal>, Box<dyn Lock>),
}

impl Quiet {
    pub(crate) fn new(store: Arc<dyn Store>, journal: (Box<dyn Journal>, Box<dyn Lock>)) -> Self {
        Self {
            store,
            _journal: journal,
        }
    }

    /// The objects of the log.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }
}

/// The lock, until it is dropped. A crash drops it, too.
#[derive(Debug)]
pub struct Locked(#[expect(dead_code, reason = "it is held until it is dropped")] Box<dyn Lock>);

/// The right to remove, merge and erase segments, until it is dropped. A crash drops it, too.
///
/// The object keeps some room, which a removal releases on a disk that is full.
#[derive(Debug)]
pub(crate) struct Lease(Box<dyn Journal>);

impl Lease {
    /// Takes the room, if the disk has enough space.
    fn keep_room(&mut self) {
        if self.0.size().is_ok_and(|size| size < ROOM as u64) {
            let kept = self
                .0
                .truncate(0)
                .and_then(|()| self.0.append(&vec![0; ROOM]));
            if kept.is_err() {
                let _ = self.0.truncate(0);
            }
        }
    }

    /// Gives the room back. Returns whether there was any.
    pub(crate) fn release_room(&mut self) -> Result<bool, Error> {
        let io = |error| Error::store(UPKEEP, &error);
        let has_room = self.0.size().map_err(io)? > 0;
        self.0.truncate(0).map_err(io)?;
        Ok(has_room)
    }
}

/// Waits for the lock.
pub(crate) fn lock(store: &dyn Store) -> Result<Locked, Error> {
    wait(store, LOCK, ATTEMPTS, || store.lock(LOCK)).map(Locked)
}

/// Waits a moment for the right to remove, merge and erase segments. The wait is short, because
/// another job may take long.
pub(crate) fn lease(store: &dyn Store) -> Result<Lease, Error> {
    let taken = wait(store, UPKEEP, UPKEEP_ATTEMPTS, || {
        match store.journal(UPKEEP) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    });
    let mut lease = Lease(taken?);
    lease.keep_room();
    Ok(lease)
}

fn wait<T>(
    store: &dyn Store,
    name: &str,
    attempts: usize,
    mut take: impl FnMut() -> io::Result<Option<T>>,
) -> Result<T, Error> {
    for attempt in 1.. {
        match take() {
            Ok(Some(taken)) => return Ok(taken),
            Err(error) => return Err(Error::store(name, &error)),
            Ok(None) if attempt < attempts => {
                let paused = store.pause(PAUSE);
                paused.map_err(|_| Error::new("", ErrorKind::Interrupted))?;
            }
            Ok(None) => break,
        }
    }
    Err(Error::new("", ErrorKind::Busy))
}
