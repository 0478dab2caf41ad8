//! A store and a spool that count the bytes between them.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    reason = "a panic is how a test fails"
)]

use crate::world::Memory;
use std::io;
use std::sync::{Arc, Mutex};
use walrow_log::{Journal, Lock, Objects, Put, ReadAt, Staged, Store, Tag};
use walrow_stream::{Spool, SpoolFile};

/// A store and a spool that count bytes: read from one of the two, and not yet written to the
/// other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Passing {
    pub(crate) store: Memory,
    counts: Arc<Mutex<Counts>>,
}

#[derive(Debug, Default)]
struct Counts {
    read: u64,
    written: u64,
    most: u64,
}

impl Passing {
    /// The most such bytes since the last call.
    pub(crate) fn most(&self) -> u64 {
        std::mem::take(&mut *self.counts.lock().unwrap()).most
    }

    /// Counts from zero again.
    pub(crate) fn begin(&self) {
        *self.counts.lock().unwrap() = Counts::default();
    }

    fn read_to(&self, end: u64) {
        let mut counts = self.counts.lock().unwrap();
        counts.read = counts.read.max(end);
        counts.most = counts.most.max(counts.read.saturating_sub(counts.written));
    }

    fn written(&self, bytes: usize) {
        self.counts.lock().unwrap().written += bytes as u64;
    }
}

#[derive(Debug)]
struct Passed<T: ?Sized>(Passing, Box<T>);

impl Objects for Passing {
    fn list(&self) -> io::Result<Vec<String>> {
        self.store.list()
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadAt>> {
        Ok(Box::new(Passed(self.clone(), self.store.open(name)?)))
    }
}

impl Store for Passing {
    fn stage(&self) -> io::Result<Box<dyn Staged>> {
        Ok(Box::new(Passed(self.clone(), self.store.stage()?)))
    }

    fn remove(&self, names: &[&str]) -> io::Result<()> {
        self.store.remove(names)
    }

    fn journal(&self, name: &str) -> io::Result<Box<dyn Journal>> {
        self.store.journal(name)
    }

    fn lock(&self, name: &str) -> io::Result<Option<Box<dyn Lock>>> {
        self.store.lock(name)
    }

    fn check(&self) -> io::Result<()> {
        self.store.check()
    }

    fn sweep(&self) -> io::Result<usize> {
        self.store.sweep()
    }
}

impl<T: ReadAt + ?Sized> ReadAt for Passed<T> {
    fn size(&mut self) -> io::Result<u64> {
        self.1.size()
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_to(at + buffer.len() as u64);
        self.1.read_at(at, buffer)
    }

    fn tag(&mut self) -> io::Result<Tag> {
        self.1.tag()
    }
}

impl Staged for Passed<dyn Staged> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.written(bytes.len());
        self.1.append(bytes)
    }

    fn create(&mut self, name: &str) -> Put {
        self.1.create(name)
    }

    fn swap(&mut self, name: &str, expected: &Tag) -> Put {
        self.1.swap(name, expected)
    }
}

impl Spool for Passing {
    fn create(&self) -> io::Result<Box<dyn SpoolFile>> {
        Ok(Box::new(Passed(self.clone(), Box::new(Vec::new()))))
    }
}

impl SpoolFile for Passed<Vec<u8>> {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.written(bytes.len());
        self.1.extend_from_slice(bytes);
        Ok(())
    }

    fn read_at(&mut self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.0.read_to(at + buffer.len() as u64);
        let at = usize::try_from(at).unwrap();
        buffer.copy_from_slice(&self.1[at..at + buffer.len()]);
        Ok(())
    }
}
